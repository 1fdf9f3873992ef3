"""The commands, with the options and the help of each, and the parser of the command line.

Light to import, so that `--help` is quick: this module loads neither NumPy nor ONNX.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from ..cases.feature_names import FEATURES
from ..errors import cut, short_line, shown
from ..manual.case_ids import MEANING
from ..session.option_types import coordinates, count, number, path, seconds
from ..session.options import CASES, DIRECTML, HOW, OPTIONS, WRITTEN, Group, Option, of_command
from ..vocabulary import TIERS


class Command(NamedTuple):
    """A command: its help, an example of its use, and the options that it has beside those of a run (`session.options`) and SHARED.

    An option here takes the place of one of these that has the same name. `notes` is a text at the end of the help.
    """

    help: str
    example: str
    options: Mapping[str, Option] = {}
    notes: str = ""


_RARE = ("build", "completion", "schema", "faults", "catalog")
"""The commands that stand last in the list: those who work on opmap, or write programs for its files, use them."""

_SHOWN = (
    *("provider", "require_provider", "adapter", "dml_runtime", "tier", "filter", "case", "shard", "known_failures"),
    *("max_failures", "timeout_per_case", "report", "resume", "json", "target"),
)
"""The options of `validate` and `diagnose` that --help shows. The others are shown by --help-all."""


def parser(*, whole: bool = False) -> argparse.ArgumentParser:
    """Returns the parser of the command line. `command` in its result is the name of the command.

    With `whole`, the help of a command shows all of its options.
    """
    parser = Parser(
        prog="opmap",
        description="Compares ONNX Runtime's DirectML execution provider with DirectML's own documentation, bit for bit.",
        epilog="exit codes: 0 fine, 1 something is wrong, 2 bad usage or bad input, 130 interrupted",
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")
    for name, command in sorted(COMMANDS.items(), key=lambda entry: entry[0] in _RARE):
        added = commands.add_parser(
            name,
            help=f"{'(rarely used) ' if name in _RARE else ''}{command.help}",
            description=command.help,
            epilog="\n".join(filter(None, [command.notes, f"example: {command.example}"])),
            formatter_class=_Help,
        )
        options = {**of_command(name, OPTIONS), **of_command(name, SHARED), **command.options}
        if name in ("validate", "diagnose"):
            text = "show all options" if whole else f"show all {len(options)} options"
            added.add_argument("--help-all", action="help", help=text)
            if not whole:
                options = {n: o if n in _SHOWN else o._replace(help=argparse.SUPPRESS) for n, o in options.items()}
        add_options(added, options)
    return parser


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
    for name, meaning in FEATURES.items():
        lines += textwrap.wrap(meaning, 78, initial_indent=f"  {name:17} ", subsequent_indent=" " * 20)
    lines.append(
        "  A.Sizes == B.Sizes  Whether two tensors have equal sizes; of an array, all of its tensors (one another)."
    )
    return "\n".join(
        [
            *lines,
            "  Other members of an operator have their own names: BlockSize, PaddingMode == EDGE, largest Repeats.",
        ]
    )


MOVED = {
    "opmap bench": "python tools/bench, in the repository",
    "opmap faults --conditional": "python tools/bench conditional, in the repository",
    "opmap validate --jobs": "--shard I/N in N processes, and opmap merge for their bundles",
    "opmap diagnose --jobs": "opmap validate --shard I/N in N processes, and opmap merge for their bundles",
    "opmap rules --against": "opmap rules --check-on",
}
"""Commands and options that opmap had before: what to use in their place."""


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, without the usage. The parser of a command refuses what it does not know."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {short_line(message)} (see {self.prog} --help)\n")

    def parse_known_args(  # type: ignore[override]  # typeshed has four overloads, argparse calls it with two arguments
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        self._refuse_moved(words[:1])
        if self.prog == "opmap" and words and not words[0].startswith("-") and words[0] not in COMMANDS:
            self.error(f"unknown command {shown(words[0])}{_similar(words[0], COMMANDS)}")
        values, unknown = super().parse_known_args(words, namespace)
        if unknown:
            self._refuse_moved(unknown)
            name, _, _ = unknown[0].partition("=")
            if not name.startswith("-"):
                self.error(f"unexpected argument {shown(name)}")
            name = cut(name, 100)
            self.error(f"unknown option {name}{_similar(name, self._option_string_actions)}")
        return values, unknown

    def _refuse_moved(self, words: Sequence[str]) -> None:
        for word in words:
            old = f"{self.prog} {word.partition('=')[0]}"
            if old in MOVED:
                self.exit(2, f"{old} is gone: use {MOVED[old]}\n")


def _similar(word: str, words: Iterable[str]) -> str:
    """Returns `, did you mean X?` for the most similar one of some words; nothing if none is similar."""
    import difflib  # here, so that --help is quick

    similar = difflib.get_close_matches(word[:100], list(words), n=1)
    return f", did you mean {similar[0]}?" if similar else ""


class _Help(argparse.HelpFormatter):
    """Fills the text of one line, and keeps the lines of a longer one."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class _Version(argparse.Action):
    """Prints the version and ends."""

    def __init__(self, option_strings: Sequence[str], dest: str, **keywords: Any):
        super().__init__(option_strings, dest, nargs=0, **keywords)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"opmap {version('opmap')}")
        parser.exit()


_MODEL = "an ONNX model, a folder with one and its test data"
_TARGET = f"a DxDispatch JSON file, {_MODEL}, or the id of a case of the catalogue"
_WRITTEN = Group(WRITTEN.title)
_HOW = Group(HOW.title)

SHARED: dict[str, Option] = {
    "target": Option(None, _TARGET, metavar="FILE|CASE", nargs="1", also=("shrink", "map", "explain")),
    "case": Option(
        None,
        "the dispatchable or node, if the file has several",
        metavar="NAME",
        also=("shrink", "map", "explain", "export"),
    ),
    "no_sides": Option(False, "do not look for whose fault it is", also=("shrink", "diagnose", "export")),
    "trials": Option(500, "when shrinking: run at most N smaller cases", count, "N", _HOW, ("shrink", "diagnose")),
    "seconds": Option(
        60.0, "when shrinking: how long to try smaller cases", seconds, "S", _HOW, ("shrink", "diagnose")
    ),
    "output": Option(
        None,
        "when shrinking: write the smallest case into this DxDispatch JSON file",
        path,
        "FILE",
        _WRITTEN,
        ("shrink", "diagnose"),
        short=("-o",),
    ),
    "force": Option(
        False,
        "write over a file that opmap did not write",
        group=_WRITTEN,
        also=("shrink", "diagnose", "map", "report", "docs", "diff"),
    ),
    "verbose": Option(
        False, "show a row for each operator, and the tables of probes that passed", group=_WRITTEN, also=("validate",)
    ),
    "json": Option(
        False,
        "print one JSON document on stdout; all other text goes to stderr",
        group=_WRITTEN,
        instead="format",
        also=(
            *("validate", "diagnose", "shrink", "check", "map", "rules", "docs", "catalog", "faults", "fuzz", "survey"),
            *("diff", "known", "doctor", "bisect"),
        ),
    ),
}
"""The options that several commands have and that are not of a run."""


def _output(help: str, metavar: str, *, required: bool = False) -> Option:
    return Option(None, help, path, metavar, _WRITTEN, short=("-o",), required=required)


COMMANDS: dict[str, Command] = {
    "validate": Command(
        help="Run the cases of the catalogue on an execution provider and judge every result.",
        example="opmap validate --provider dml --require-provider --report results",
        options={
            "large": Option(
                False,
                "in place of a tier, run operators with more than 2^31 bytes of data, and check a sample of the output; needs 3 GB "
                "of memory",
                group=Group(CASES.title),
            )
        },
    ),
    "report": Command(
        help="Write the report of a results bundle: one HTML file, which needs no network.",
        example="opmap report results",
        options={
            "folder": Option(None, "the folder of a results bundle (validate --report)", path, "DIR", nargs="1"),
            "output": _output("the file to write (default: report.html in the folder)", "FILE"),
        },
    ),
    "diagnose": Command(
        help="Run the cases, group the failures by cause, and ask the provider more until each cause is exact.",
        example="opmap diagnose --provider fault:negative-index-as-zero",
        options={
            "target": Option(None, f"{_TARGET} (default: the cases of the tier)", metavar="FILE|CASE", nargs="?"),
            "budget": Option(500, "ask at most N new descriptors for each cause", count, "N", _HOW),
            "shrink": Option(
                False, "make the one case that is named as small as it goes, as opmap shrink does", group=_HOW
            ),
        },
        notes=_features(),
    ),
    "shrink": Command(
        help="Make a failing case as small as it goes, and say whose fault it is.",
        example="opmap shrink dispatch.json --provider fault:output-zero -o smallest.json",
    ),
    "check": Command(
        help="Judge the dispatches of DxDispatch JSON files, and the nodes of ONNX models.",
        example="opmap check dispatch.json --provider cpu",
        options={
            "files": Option(
                None, f"a DxDispatch JSON file, {_MODEL}, or a folder of model folders", metavar="PATH", nargs="+"
            ),
            "dim": Option(
                (),
                "the size of a symbolic dimension of the inputs that opmap makes",
                metavar="NAME=SIZE",
            ),
            "inputs": Option(None, "the model's inputs, by name, in place of its test data", path, "FILE.npz"),
        },
    ),
    "map": Command(
        help="Write the ONNX model that is equivalent to a DxDispatch JSON file or to a case of the catalogue.",
        example="opmap map dispatch.json -o model.onnx",
        options={
            "output": _output("NAME.onnx, or a folder that gets model.onnx and test_data_set_0/", "PATH", required=True)
        },
    ),
    "export": Command(
        help="Write a folder that reproduces a case without opmap: model, test data, DxDispatch file, program, text of an issue.",
        example="opmap export dispatch.json -o folder --provider dml",
        options={
            "target": Option(
                None,
                f"{_TARGET}; with --redact also the folder of a results bundle, of which a copy is written",
                metavar="FILE|CASE",
                nargs="?",
            ),
            "tier": Option(None, "a folder for each case of this tier, in place of one case", choices=TIERS),
            "filter": Option((), "with --tier: only matching cases", metavar="GLOB"),
            "after": Option((), "run this case before, in the same process", metavar="CASE"),
            "provider": OPTIONS["provider"]._replace(
                default=None, help="run the case on this provider, as for opmap check (default: do not run it)"
            ),
            "output": _output("a new or empty folder", "DIR", required=True),
            "redact": Option(False, "take user names, host names and paths out of all texts", group=_WRITTEN),
        },
    ),
    "explain": Command(
        help="Show the documentation's pseudocode, expanded for the descriptor of a file or of a case of the catalogue, and how "
        "an output element is read.",
        example="opmap explain dispatch.json --at 1,0",
        options={
            "at": Option(
                None,
                "an output element, by one coordinate per dimension; of several outputs, OUTPUT:I,J,...",
                coordinates,
                "I,J,...",
            )
        },
    ),
    "rules": Command(
        help="List the rules of the documentation, or show one rule with an example that breaks it.",
        example="opmap rules TENSOR.C5",
        options={
            "id": Option(None, "a rule id (default: all rules)", metavar="ID", nargs="?"),
            "check_on": Option(
                None,
                "show which descriptors DirectML itself accepts that keep or break the rules, and what it computes for them",
                choices=("directml",),
            ),
        },
    ),
    "docs": Command(
        help="Check reference pages: run their examples, and list contradictions and differences from opmap's spec.",
        example="opmap docs page.md",
        options={
            "files": Option(
                None, "a reference page in any language: Markdown, HTML or text", metavar="FILE", nargs="+"
            ),
            "new_only": Option(False, "leave out known errata, and what an older page lacks"),
            "patch": Option(
                False, "print the corrections as a unified diff, each with its reason", group=_WRITTEN, instead="format"
            ),
            "html": Option(False, "print the corrections as one HTML page", group=_WRITTEN, instead="format"),
            "output": _output("with --patch or --html: write this file, and print nothing", "FILE"),
        },
    ),
    "faults": Command(
        help="List the planted faults, and show which cases of a tier catch each of them.",
        example="opmap faults --tier standard",
    ),
    "catalog": Command(
        help="Show what the cases of a tier cover: parameters, their pairs and triples, rules, examples and kernels.",
        example="opmap catalog --tier standard",
        options={"list": Option(False, "print the ids of the cases, one per line", group=_WRITTEN, instead="format")},
        notes=MEANING,
    ),
    "known": Command(
        help="List the known defects of the DirectML EP, or show one with a program that reproduces it.",
        example="opmap known fed-default-ignored",
        options={
            "id": Option(
                None, "the id of a defect: show all about it, and a program that reproduces it", metavar="ID", nargs="?"
            )
        },
    ),
    "bisect": Command(
        help="Run a case or a program on pairs of ONNX Runtime and DirectML.dll, and say since which version it is wrong.",
        example="opmap bisect --known empty-output-beside --dml-runtime /var/tmp/opmap-rig",
        options={
            "case": Option(None, "the id of a case or contract probe", metavar="ID", instead="subject"),
            "known": Option(None, "the id of a known defect (opmap known)", metavar="ID", instead="subject"),
            "program": Option(
                None,
                "a Python program: exit code 0 right, 1 wrong, 2 no DirectML EP; opmap export and opmap known write such",
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
    "fuzz": Command(
        help="Search for failures with random graphs and random sequences over sessions, and shrink what fails.",
        example="opmap fuzz --provider dml --seconds 600 --report finds",
        options={
            "seconds": Option(60.0, "how long to search, shrinking included", seconds, "S", _HOW),
            "seed": Option(None, "the same seed draws the same sequences (default: 0)", number, "N", _HOW),
            "report": Option(
                None, "write finds and their programs into this new folder", path, "DIR", _WRITTEN, instead="folder"
            ),
            "resume": Option(None, "continue the search of this folder", path, "DIR", _WRITTEN, instead="folder"),
            "idioms": Option(False, "run each idiom of the table alone, in all its types", group=_HOW),
            "shrink": Option(
                False, "with --resume: only shrink the finds for which the search had no time", group=_HOW
            ),
        },
    ),
    "survey": Command(
        help="Show what a provider does with indices that are out of range. Nothing is judged, except crashes and stray reads.",
        example="opmap survey --provider dml",
        options={
            "report": Option(
                None,
                "add the table to this results bundle of the same provider, and to its report.html",
                path,
                "DIR",
                _WRITTEN,
            )
        },
    ),
    "build": Command(
        help="Write the collection of ONNX models with their test data.",
        example="opmap build -o models",
        options={"output": _output("a new folder, or one that this command wrote before", "DIR", required=True)},
    ),
    "merge": Command(
        help="Join the results bundles of shards and adapters into one. Says what is missing, doubled or different.",
        example="opmap merge shard1 shard2 -o whole",
        options={
            "folders": Option(None, "the folder of a results bundle", path, "DIR", nargs="+"),
            "output": _output("write the whole bundle into this new folder", "DIR", required=True),
        },
    ),
    "diff": Command(
        help="Compare results bundles: the causes of failures that are new, fixed or changed, then the verdicts of the cases.",
        example="opmap diff yesterday today",
        options={
            "folders": Option(None, "the folders of two or more bundles, the oldest first", path, "DIR", nargs="+"),
            "markdown": Option(False, "print Markdown", group=_WRITTEN, instead="format"),
            "html": Option(None, "write an HTML page too, which needs no network", path, "FILE", _WRITTEN),
        },
    ),
    "schema": Command(
        help="Print the JSON Schema of a file of the results bundle.",
        example="opmap schema diagnosis",
        options={
            "name": Option(
                None,
                "run (run.json), record (a line of results.jsonl), diagnosis (diagnosis.json), times (times.json), survey (survey.json), diff or "
                "diff-table (what opmap diff --json prints of two bundles, and of more)",
                metavar="NAME",
                nargs="1",
            )
        },
    ),
    "completion": Command(
        help="Print the script with which a shell completes opmap's commands and options.",
        example="opmap completion bash > ~/.local/share/bash-completion/completions/opmap",
        options={"shell": Option(None, "the shell", choices=("bash", "zsh", "fish", "powershell"), nargs="1")},
        notes="PowerShell: opmap completion powershell >> $PROFILE",
    ),
    "doctor": Command(
        help="Show what is installed, which providers and adapters can run, and what to do about problems.",
        example="opmap doctor",
        options={"dml_runtime": OPTIONS["dml_runtime"]},
    ),
    "manual": Command(
        help="List the pages of the manual, or show one of them.",
        example="opmap manual providers",
        options={"page": Option(None, "the name of a page (default: list the pages)", metavar="PAGE", nargs="?")},
    ),
}
"""Each command by its name. Its code is the function `run` in the module of this name in opmap/cli/commands/."""
