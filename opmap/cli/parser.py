"""The commands, with the options and the help of each, and the parser of the command line.

Light to import, so that `--help` is quick: this module loads neither NumPy nor ONNX.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from ..cases.feature_names import FEATURES
from ..errors import cut, short_line, shown, similar
from ..limits import MAX_SHOWN
from ..manual.case_ids import MEANING
from ..session.option_types import coordinates, count, number, path, seconds
from ..session.options import CASES, DIRECTML, HOW, OPTIONS, WRITTEN, Group, Option, of_command


class Command(NamedTuple):
    """A command: its help, an example of its use, and the options that it has beside those of a run (`session.options`)
    and SHARED.

    `summary` is its line in the list of commands. An option here takes the place of one of these that has the same
    name. `notes` is a text at the end of the help with all options.
    """

    summary: str
    help: str
    example: str
    options: Mapping[str, Option] = {}
    notes: str = ""


def parser(*, whole: bool = False) -> argparse.ArgumentParser:
    """Returns the parser of the command line. `command` in its result is the name of the command.

    With `whole`, the help of a command shows all of its options.
    """
    parser = Parser(
        prog="opmap",
        usage="opmap [-h] [--version] COMMAND ...",
        description="Compares ONNX Runtime's DirectML EP with DirectML's pages, bit for bit.",
        epilog="exit codes: 0 fine, 1 something is wrong, 2 bad usage, 130 interrupted",
        formatter_class=_Help,
        add_help=False,
    )
    parser.add_argument("-h", "--help", "--help-all", action="help", help=argparse.SUPPRESS)
    parser.add_argument("--version", action=_Version, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(
        title="commands (COMMAND --help)", prog="opmap", metavar="COMMAND", required=True, dest="command"
    )
    for name, command in COMMANDS.items():
        added = commands.add_parser(
            name,
            help=command.summary,
            description=command.help,
            epilog="\n".join(filter(None, [command.notes if whole else "", f"example: {command.example}"])),
            formatter_class=_Help,
        )
        options = options_of(name)
        rare = [option for option, row in options.items() if row.rare]
        text = f"show {len(rare)} more option{'s' * (len(rare) > 1)}" if rare and not whole else "show all options"
        added.add_argument("--help-all", action="help", help=text)
        if not whole:
            options = {n: o._replace(help=argparse.SUPPRESS) if n in rare else o for n, o in options.items()}
        add_options(added, options)
    return parser


def options_of(command: str) -> dict[str, Option]:
    """Returns the options of a command by name."""
    return {**of_command(command, OPTIONS), **of_command(command, SHARED), **COMMANDS[command].options}


def add_options(parser: argparse.ArgumentParser, options: Mapping[str, Option]) -> None:
    """Declares options by their names: under the titles of their groups, and those that exclude each other as such."""
    places: dict[tuple[str, str], Any] = {("", ""): parser}
    for name, option in options.items():
        title, instead = option.group.title, option.instead
        if (title, "") not in places:
            places[title, ""] = parser.add_argument_group(title)
        if (title, instead) not in places:
            places[title, instead] = places[title, ""].add_mutually_exclusive_group()
        option.add(places[title, instead].add_argument, name)


def _features() -> str:
    """Returns the features that a condition of `diagnose` names, each with its meaning."""
    lines = ["features, of which conditions are made:"]
    for name, feature in FEATURES.items():
        lines += textwrap.wrap(feature.text, 78, initial_indent=f"  {name:17} ", subsequent_indent=" " * 20)
    lines.append(
        "  A.Sizes == B.Sizes  Whether two tensors have equal sizes; of an array, all of its tensors (one another)."
    )
    return "\n".join(
        [
            *lines,
            "  Other members of an operator have their own names: BlockSize, PaddingMode == EDGE, largest Repeats.",
        ]
    )


_DOES = {
    "list": "opmap validate --list prints the ids of the cases",
    "run": "opmap validate runs the cases, and opmap check models of your own",
    "test": "opmap validate runs the cases, and opmap check models of your own",
}
"""Words that are no commands, with the one that does it."""


_QUOTED = re.compile(rf"(?<=')[^']{{{MAX_SHOWN},}}(?=')")
"""A long value that a message of argparse quotes whole."""


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, without the usage.

    The parser of a command refuses what it does not know.
    """

    def error(self, message: str) -> NoReturn:
        message = message.replace("ignored explicit argument", "takes no value, got")
        message = _QUOTED.sub(lambda value: cut(value[0], MAX_SHOWN), message)
        self.exit(2, f"{self.prog}: {short_line(message)} (see {self.prog} --help)\n")

    def print_help(self, file: Any = None) -> None:
        """Prints the help. Raises OSError if stdout cannot be written: argparse would say nothing."""
        print(self.format_help(), end="", file=file)

    def parse_known_args(  # type: ignore[override]  # typeshed has four overloads, argparse calls it with two arguments
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        if self.prog == "opmap" and words and not words[0].startswith("-") and words[0] not in COMMANDS:
            hint = f": {_DOES[words[0]]}" if words[0] in _DOES else similar(words[0], COMMANDS)
            self.error(f"unknown command {shown(words[0])}{hint}")
        values, unknown = super().parse_known_args(words, namespace)
        if unknown:
            name, _, _ = unknown[0].partition("=")
            if not name.startswith("-"):
                self.error(f"unexpected argument {shown(name)}")
            name = cut(name, 100)
            self.error(f"unknown option {name}{similar(name, self._option_string_actions)}")
        return values, unknown


class _Help(argparse.HelpFormatter):
    """Fills the text of one line, and keeps the lines of a longer one; a command is one line."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):  # without a line of its own above the commands
            return "".join(f"  {one.metavar or one.dest:10}  {one.help}\n" for one in action._get_subactions())
        return super()._format_action(action)


class _Version(argparse.Action):
    """Prints the version and ends."""

    def __init__(self, option_strings: Sequence[str], dest: str, **keywords: Any):
        super().__init__(option_strings, dest, nargs=0, **keywords)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"opmap {version('opmap')}")
        parser.exit()


_MODEL = "an ONNX model, a folder with a model and its test data"
_TARGET = f"a DxDispatch JSON file, {_MODEL}, or the id of a case of the catalogue"
_WRITTEN = Group(WRITTEN.title)
_HOW = Group(HOW.title)

SHARED: dict[str, Option] = {
    "node": Option(
        None,
        "the dispatchable or node, if the file has several",
        metavar="NAME",
        rare=True,
        also=("diagnose", "build", "explain", "export"),
    ),
    "force": Option(
        False,
        "write over a file that opmap did not write",
        group=_WRITTEN,
        rare=True,
        also=("diagnose", "build", "report", "docs", "diff"),
    ),
    "verbose": Option(
        False,
        "show a row for each operator, the tables of probes that passed, and the first wrong elements",
        group=_WRITTEN,
        rare=True,
        also=("validate",),
    ),
    "json": Option(
        False,
        "print one JSON document on stdout; all other text goes to stderr",
        group=_WRITTEN,
        instead="format",
        also=(
            *("validate", "diagnose", "check", "build", "explain", "docs", "fuzz", "survey", "diff", "known", "doctor"),
            "versions",
        ),
    ),
}
"""The options that several commands have and that are not of a run."""


def _output(help: str, metavar: str, *, required: bool = False) -> Option:
    return Option(None, help, path, metavar, _WRITTEN, short=("-o",), required=required)


COMMANDS: dict[str, Command] = {
    "validate": Command(
        summary="run the cases on a provider, and judge every result",
        help="Run the cases of the catalogue on an execution provider and judge every result.",
        example="opmap validate --operator Tile --provider dml --require-provider --report results",
        options={
            "list": Option(
                False,
                "print the ids that are selected, and run nothing; --list faults prints the planted faults",
                group=Group(CASES.title),
            ),
            "large": Option(
                False,
                "instead of a tier, run operators with more than 2^31 bytes of data, and check a sample of the output; "
                "needs 3 GB of memory",
                group=Group(CASES.title),
                rare=True,
            ),
        },
        notes=MEANING,
    ),
    "check": Command(
        summary="judge your own models and DxDispatch files",
        help="Judge the nodes of ONNX models, and the dispatches of DxDispatch JSON files.",
        example="opmap check model.onnx --provider dml",
        options={
            "files": Option(
                None, f"a DxDispatch JSON file, {_MODEL}, or a folder of model folders", metavar="PATH", nargs="+"
            ),
            "dim": Option(
                (),
                "the size of a symbolic dimension of the inputs that opmap makes",
                metavar="NAME=SIZE",
                rare=True,
            ),
            "inputs": Option(
                None, "use these inputs, by name, instead of the test data of the model", path, "FILE.npz", rare=True
            ),
        },
    ),
    "build": Command(
        summary="write ONNX models with test data, of cases or files",
        help="Write ONNX models with their test data: NAME.onnx of one case, or a folder of model folders, which "
        "opmap check takes.",
        example="opmap build 'tile/int64/*' -o models",
        options={
            "wanted": OPTIONS["wanted"]._replace(
                help=f"a DxDispatch JSON file, {_MODEL}; the id of a case of any tier, a glob over the ids of the "
                "tier, or a file with one of these per line (default: all of the tier)"
            ),
            "output": _output(
                "NAME.onnx for one case, or a folder: it gets a folder per case with model.onnx, test_data_set_0/ and "
                "dxdispatch.json, and manifest.json, which names the elements without a documented value",
                "PATH",
                required=True,
            ),
            "variant": Option(None, "write the cases in this form (opmap manual variants)", metavar="NAME"),
            "opset": Option(None, "write the cases as models of this opset", count, "N", rare=True),
            "shipped": Option(
                False,
                "the models that opmap's repository has: documented examples, and a model per index form",
                rare=True,
            ),
        },
    ),
    "diagnose": Command(
        summary="find the exact cause of each failure, and its smallest case",
        help="Run the cases, group the failures by cause, and run new cases until each cause is exact. For one case, "
        "find its smallest form, and whose fault it is.",
        example="opmap diagnose tile/example.1 --provider fault:output-zero",
        options={
            "target": Option(None, f"{_TARGET} (default: the cases of the tier)", metavar="ID|FILE", nargs="?"),
            "budget": Option(500, "ask at most N new descriptors for each cause", count, "N", _HOW, rare=True),
            "output": _output("with one case: write the smallest case into this DxDispatch JSON file", "FILE"),
        },
        notes=_features(),
    ),
    "explain": Command(
        summary="show the pseudocode of an operator or case, or a rule",
        help="Show the documentation's pseudocode: of an operator with its rules, or of a case for its sizes, down to "
        "one output element. Of a rule, show an example that breaks it.",
        example="opmap explain tile/example.1 --at 0,0,0,3",
        options={
            "target": Option(
                None,
                f"{_TARGET}; or the name of an operator, or a rule id (default: list all rules)",
                metavar="ID|FILE|NAME|RULE",
                nargs="?",
            ),
            "at": Option(
                None,
                "an output element: one coordinate per dimension; if there are several outputs, OUTPUT:I,J,...",
                coordinates,
                "I,J,...",
            ),
        },
    ),
    "export": Command(
        summary="write a folder that reproduces a case without opmap",
        help="Write a folder that reproduces a case without opmap: model, test data, DxDispatch file, program, text of "
        "an issue. A provider MODULE:NAME needs opmap: the program shows what was recorded.",
        example="opmap export tile/example.1 -o folder --provider dml",
        options={
            "target": Option(
                None,
                f"{_TARGET}; with --redact also the folder of a results bundle: a copy of it is written",
                metavar="ID|FILE",
                nargs="1",
            ),
            "after": Option((), "run this case before, in the same process", metavar="ID", rare=True),
            "no_sides": Option(False, "do not look for whose fault it is", rare=True),
            "provider": OPTIONS["provider"]._replace(
                default=None, help="run the case on this provider, as for opmap check (default: do not run it)"
            ),
            "output": _output("a new or empty folder", "DIR", required=True),
            "redact": Option(
                False,
                "take user names, host names and paths of this machine out of all texts, and say which; model and data "
                "stay",
                group=_WRITTEN,
            ),
        },
    ),
    "report": Command(
        summary="write the HTML report of one bundle or of several, or verify one",
        help="Write the report of a results bundle: one HTML file, which needs no network. Of several bundles of one "
        "adapter, write one page of its history. Or verify that a bundle is complete and undamaged.",
        example="opmap report results",
        options={
            "folders": Option(
                None,
                "the folder of a results bundle (validate --report); of several, the oldest first",
                path,
                "DIR",
                nargs="+",
            ),
            "verify": Option(
                False,
                "write nothing: check that each selected case has its record, and that the bundle agrees with itself "
                "and with this opmap; print one line. It finds damage, no fraud",
                group=_WRITTEN,
                instead="report",
            ),
            "output": _output(
                "the file to write (default: report.html in the folder; of several bundles, history.html here)", "FILE"
            )._replace(instead="report"),
        },
    ),
    "diff": Command(
        summary="compare results bundles: new, fixed and changed causes",
        help="Compare results bundles: the causes of failures that are new, fixed or changed, then the verdicts of the "
        "cases.",
        example="opmap diff yesterday today",
        options={
            "folders": Option(None, "the folders of two or more bundles, the oldest first", path, "DIR", nargs="+"),
            "markdown": Option(False, "print Markdown", group=_WRITTEN, instead="format"),
            "html": Option(None, "write an HTML page too, which needs no network", path, "FILE", _WRITTEN),
        },
    ),
    "merge": Command(
        summary="join the results bundles of shards and adapters",
        help="Join the results bundles of shards and adapters into one. Says what is missing, doubled or different.",
        example="opmap merge shard1 shard2 -o whole",
        options={
            "folders": Option(None, "the folder of a results bundle", path, "DIR", nargs="+"),
            "output": _output("write the whole bundle into this new folder", "DIR", required=True),
        },
    ),
    "known": Command(
        summary="list the known defects of the DirectML EP",
        help="List the known defects of the DirectML EP, or show one with a program that reproduces it.",
        example="opmap known fed-default-ignored",
        options={
            "id": Option(
                None, "the id of a defect: show all about it, and a program that reproduces it", metavar="ID", nargs="?"
            )
        },
    ),
    "survey": Command(
        summary="show what a provider does where the pages give no value",
        help="Show what a provider does with indices that are out of range. With --provider directml, also show which "
        "descriptors DirectML accepts, of those that keep or break the rules. Nothing is judged, except crashes and "
        "reads outside the input.",
        example="opmap survey --provider dml",
        options={
            "report": Option(
                None,
                "add the tables to this results bundle of the same provider, and to its report.html",
                path,
                "DIR",
                _WRITTEN,
            )
        },
    ),
    "fuzz": Command(
        summary="search for failures with random graphs and sequences",
        help="Search for failures with random graphs and random sequences over sessions, and shrink what fails.",
        example="opmap fuzz --provider dml --seconds 600 --report finds",
        options={
            "provider": OPTIONS["provider"]._replace(
                help="auto, dml, cpu, an execution provider by ONNX Runtime's name, or MODULE:NAME",
            ),
            "seconds": Option(60.0, "how long to search, shrinking included", seconds, "S", _HOW),
            "seed": Option(None, "the same seed draws the same sequences (default: 0)", number, "N", _HOW),
            "report": Option(
                None, "write finds and their programs into this new folder", path, "DIR", _WRITTEN, instead="folder"
            ),
            "resume": Option(None, "continue the search of this folder", path, "DIR", _WRITTEN, instead="folder"),
            "idioms": Option(False, "run each idiom of the table alone, in all its types", group=_HOW, rare=True),
            "shrink": Option(
                False, "with --resume: only shrink the finds for which the search had no time", group=_HOW
            ),
        },
    ),
    "docs": Command(
        summary="check reference pages, and list contradictions",
        help="Check reference pages: run their examples, and list contradictions and differences from opmap's spec.",
        example="opmap docs page.md",
        options={
            "files": Option(
                None, "a reference page in any language: Markdown, HTML or text", metavar="FILE", nargs="+"
            ),
            "new_only": Option(False, "leave out known errata, and tables that an older page does not have"),
            "patch": Option(
                False, "print the corrections as a unified diff, each with its reason", group=_WRITTEN, instead="format"
            ),
            "html": Option(False, "print the corrections as one HTML page", group=_WRITTEN, instead="format"),
            "output": _output("with --patch or --html: write this file, and print nothing", "FILE"),
        },
    ),
    "versions": Command(
        summary="run a case on versions of ONNX Runtime and DirectML",
        help="Run a case or a program on pairs of ONNX Runtime and DirectML.dll, and say since which version it is "
        "wrong.",
        example="opmap versions --known empty-output-beside --dml-runtime /var/tmp/opmap-rig",
        options={
            "case": Option(None, "the id of a case or contract probe", metavar="ID", instead="subject"),
            "known": Option(None, "the id of a known defect (opmap known)", metavar="ID", instead="subject"),
            "program": Option(
                None,
                "a Python program with exit code 0 (right), 1 (wrong) or 2 (no DirectML EP), such as opmap export and "
                "opmap known write",
                path,
                "FILE",
                instead="subject",
            ),
            "diagnosis": Option(None, "a diagnosis.json: a case of each cause in it", path, "FILE", instead="subject"),
            "directml": Option((), "on Windows: a folder with another DirectML.dll", path, "PATH", _HOW),
            "runtime": Option(
                (),
                "DirectML on Linux: only this pair of the folder (default: all; opmap doctor lists them)",
                metavar="NAME",
                group=DIRECTML,
            ),
        },
    ),
    "doctor": Command(
        summary="show what is installed and can run, and what to do",
        help="Show what is installed, which providers and adapters can run, and what to do about problems.",
        example="opmap doctor",
        options={"dml_runtime": OPTIONS["dml_runtime"]},
    ),
    "manual": Command(
        summary="show a page of the manual",
        help="List the pages of the manual, or show one of them.",
        example="opmap manual providers",
        options={"page": Option(None, "the name of a page (default: list the pages)", metavar="PAGE", nargs="?")},
    ),
    "completion": Command(
        summary="print the script that completes commands in a shell",
        help="Print the script with which a shell completes opmap's commands and options.",
        example="opmap completion bash > ~/.local/share/bash-completion/completions/opmap",
        options={"shell": Option(None, "the shell", choices=("bash", "zsh", "fish", "powershell"), nargs="1")},
        notes="PowerShell: opmap completion powershell >> $PROFILE",
    ),
}
"""Each command by its name. Its code is the function `run` in the module of this name in opmap/cli/commands/."""
