"""The commands, with the options and the help of each, and the parser of the command line.

Light to import, so that `--help` is quick: this module loads neither NumPy nor ONNX.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from ..catalogue.feature_names import FEATURES
from ..errors import cut, short_line, shown
from ..manual.case_ids import MEANING
from ..vocabulary import TIERS
from .options import (
    DIRECTML_OPTIONS,
    FEATURE_LEVEL,
    IN_PROCESS,
    INDEX_CONVERSION,
    JOBS,
    LARGE,
    NO_SHIPPED_KNOWN_FAILURES,
    PROVIDER,
    PROVIDER_OPTIONS,
    RERUN_DANGEROUS,
    RUN_OPTIONS,
    RUNTIME_OPTIONS,
    SELECTION_OPTIONS,
    SESSION_OPTIONS,
    TIER,
    Option,
    coordinates,
    count,
    number,
    path,
    seconds,
)


class Command(NamedTuple):  # no dataclass: see Option
    """A command: its help, an example of its use, and a function that declares its options.

    `notes` is a text of several lines at the end of its help.
    """

    help: str
    example: str
    add_options: Callable[[argparse.ArgumentParser], None]
    notes: str = ""


def _features() -> str:
    """Returns the features that a condition of `diagnose` names, each with its meaning."""
    lines = ["features, of which conditions are made:"]
    for name, meaning in FEATURES.items():
        lines += textwrap.wrap(meaning, 78, initial_indent=f"  {name:17} ", subsequent_indent=" " * 20)
    return "\n".join([*lines, "  A.Sizes == B.Sizes  Whether two tensors have equal sizes."])


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line. `command` in its result is the name of the command."""
    parser = Parser(
        prog="opmap",
        description="Compares ONNX Runtime's DirectML execution provider with DirectML's own documentation, bit for bit.",
        epilog="exit codes: 0 fine, 1 something is wrong, 2 bad usage or bad input, 130 interrupted",
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")
    for name, command in COMMANDS.items():
        added = commands.add_parser(
            name,
            help=command.help,
            description=command.help,
            epilog="\n".join(filter(None, [command.notes, f"example: {command.example}"])),
            formatter_class=_Help,
        )
        command.add_options(added)
    return parser


MOVED = {
    "opmap bench": "python tools/bench, in the repository",
    "opmap faults --conditional": "python tools/bench conditional, in the repository",
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
        values, unknown = super().parse_known_args(words, namespace)
        if unknown:
            self._refuse_moved(unknown)
            name, _, _ = unknown[0].partition("=")
            if not name.startswith("-"):
                self.error(f"unexpected argument {shown(name)}")
            name = cut(name, 100)
            import difflib  # here, so that --help is quick

            similar = difflib.get_close_matches(name, self._option_string_actions, n=1)
            self.error(f"unknown option {name}{f', did you mean {similar[0]}?' if similar else ''}")
        return values, unknown

    def _refuse_moved(self, words: Sequence[str]) -> None:
        for word in words:
            old = f"{self.prog} {word.partition('=')[0]}"
            if old in MOVED:
                self.exit(2, f"{old} is gone: use {MOVED[old]}\n")


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

        parser.exit(0, f"opmap {version('opmap')}\n")


def _add(parser: argparse.ArgumentParser, options: Sequence[Option], title: str | None = None) -> None:
    group = parser.add_argument_group(title) if title else parser
    for option in options:
        option.add(group.add_argument)


_MODEL = "an ONNX model, a folder with one and its test data"

_JSON_DOCUMENT = Option(name="json", flag=True, help="print one JSON document on stdout; all other text goes to stderr")


def _validate(parser: argparse.ArgumentParser) -> None:
    _add_run(parser, (*SELECTION_OPTIONS, LARGE))


def _add_run(parser: argparse.ArgumentParser, selection: Sequence[Option] = SELECTION_OPTIONS) -> None:
    _add(parser, PROVIDER_OPTIONS)
    _add(parser, selection, "which cases")
    _add(parser, (*RUN_OPTIONS, *SESSION_OPTIONS, JOBS), "how they are run")
    _add_directml(parser)
    group = parser.add_argument_group("what is written")
    _JSON_DOCUMENT.add(group.add_argument)
    group.add_argument(
        "--write-known-failures",
        type=path,
        metavar="FILE",
        help="write the failures of this run into a new file for --known-failures; a person then fills in the reasons",
    )
    bundle = group.add_mutually_exclusive_group()
    bundle.add_argument("--report", type=path, metavar="DIR", help="write the results bundle into this new folder")
    bundle.add_argument("--resume", type=path, metavar="DIR", help="continue the interrupted run of this bundle")


def _diagnose(parser: argparse.ArgumentParser) -> None:
    _add_target(parser, nargs="?", note=" (default: the cases of the tier)")
    _add_run(parser)
    parser.add_argument(
        "--budget",
        type=count,
        default=500,
        metavar="N",
        help="ask at most N new descriptors for each cause (default: 500)",
    )


def _shrink(parser: argparse.ArgumentParser) -> None:
    _add_dispatch(parser)
    _add(parser, (*PROVIDER_OPTIONS, RERUN_DANGEROUS))
    parser.add_argument(
        "--trials", type=count, default=500, metavar="N", help="run at most N smaller cases (default: 500)"
    )
    parser.add_argument(
        "--seconds", type=seconds, default=60.0, metavar="S", help="how long to try smaller cases (default: 60)"
    )
    parser.add_argument("--no-sides", action="store_true", help="do not look for whose fault it is")
    parser.add_argument(
        "-o", "--output", type=path, metavar="FILE", help="write the smallest case into this DxDispatch JSON file"
    )
    _JSON_DOCUMENT.add(parser.add_argument)
    _add_directml(parser)


def _check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help=f"a DxDispatch JSON file, {_MODEL}")
    _add(parser, (*PROVIDER_OPTIONS, NO_SHIPPED_KNOWN_FAILURES, RERUN_DANGEROUS))
    _JSON_DOCUMENT.add(parser.add_argument)
    _add_directml(parser)


def _map(parser: argparse.ArgumentParser) -> None:
    _add_dispatch(parser)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=path,
        metavar="PATH",
        help="NAME.onnx, or a folder that gets model.onnx and test_data_set_0/",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the substitutions and the predicted DirectML descriptor as JSON"
    )
    _add(parser, (FEATURE_LEVEL, INDEX_CONVERSION))


def _export(parser: argparse.ArgumentParser) -> None:
    _add_target(
        parser, nargs="?", note="; with --redact also the folder of a results bundle, of which a copy is written"
    )
    parser.add_argument("--case", metavar="NAME", help="the dispatchable, if the file dispatches several")
    parser.add_argument("-o", "--output", required=True, type=path, metavar="DIR", help="a new or empty folder")
    parser.add_argument("--tier", choices=TIERS, help="a folder for each case of this tier, in place of one case")
    parser.add_argument(
        "--filter", action="append", default=[], metavar="GLOB", help="with --tier: only matching cases"
    )
    parser.add_argument(
        "--after",
        action="append",
        default=[],
        metavar="CASE",
        help="run this case before, in the same process; may repeat",
    )
    parser.add_argument("--redact", action="store_true", help="take user names, host names and paths out of all texts")
    parser.add_argument("--no-sides", action="store_true", help="do not look for whose fault it is")
    PROVIDER.add(
        parser.add_argument,
        default=None,
        help="run the case on this provider, as for opmap check (default: do not run it)",
    )
    _add(parser, (FEATURE_LEVEL, INDEX_CONVERSION, *RUNTIME_OPTIONS, IN_PROCESS, RERUN_DANGEROUS))
    _add_directml(parser)


def _explain(parser: argparse.ArgumentParser) -> None:
    _add_dispatch(parser)
    parser.add_argument(
        "--at", type=coordinates, metavar="I,J,...", help="an output element, by one coordinate per dimension"
    )


def _add_target(parser: argparse.ArgumentParser, **more: Any) -> None:
    help = f"a DxDispatch JSON file, {_MODEL}, or the id of a case of the catalogue"
    parser.add_argument("target", metavar="FILE|CASE", help=help + more.pop("note", ""), **more)


def _add_dispatch(parser: argparse.ArgumentParser) -> None:
    _add_target(parser)
    parser.add_argument("--case", metavar="NAME", help="the dispatchable or node, if the file has several")


def _rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="a rule id (default: all rules)")
    parser.add_argument(
        "--against",
        choices=("directml",),
        help="show which descriptors DirectML itself accepts that keep or break the rules, and what it computes for them",
    )
    _add_directml(parser)
    _add_json(parser)


def _docs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="a reference page in any language: Markdown, HTML or text"
    )
    parser.add_argument("--new-only", action="store_true", help="leave out known errata, and what an older page lacks")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON")
    output.add_argument(
        "--patch", action="store_true", help="print the corrections as a unified diff, each with its reason"
    )
    output.add_argument("--html", action="store_true", help="print the corrections as one HTML page")
    parser.add_argument(
        "-o", "--output", type=path, metavar="FILE", help="with --patch or --html: write this file, and print nothing"
    )


def _faults(parser: argparse.ArgumentParser) -> None:
    _add(parser, (TIER,))
    _add_json(parser)


def _catalog(parser: argparse.ArgumentParser) -> None:
    _add(parser, (TIER,))
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--list", action="store_true", help="print the ids of the cases, one per line")
    output.add_argument("--json", action="store_true", help="print JSON")


def _fuzz(parser: argparse.ArgumentParser) -> None:
    _add(parser, (PROVIDER, *RUNTIME_OPTIONS))
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=60.0,
        metavar="S",
        help="how long to search, without the shrinking (default: 60)",
    )
    parser.add_argument("--seed", type=number, metavar="N", help="the same seed draws the same sequences (default: 0)")
    parser.add_argument(
        "--rerun-dangerous",
        action="store_true",
        help="go on after a hang or a lost device of a GPU, and shrink them too",
    )
    parser.add_argument(
        "--no-shipped-known-failures", action="store_true", help="find again what opmap's list of known failures has"
    )
    _JSON_DOCUMENT.add(parser.add_argument)
    folder = parser.add_mutually_exclusive_group()
    folder.add_argument(
        "--report", type=path, metavar="DIR", help="write finds and their programs into this new folder"
    )
    folder.add_argument("--resume", type=path, metavar="DIR", help="continue the search of this folder")
    _add_directml(parser)


def _survey(parser: argparse.ArgumentParser) -> None:
    _add(parser, (*PROVIDER_OPTIONS, RERUN_DANGEROUS))
    _JSON_DOCUMENT.add(parser.add_argument)
    parser.add_argument(
        "--report",
        type=path,
        metavar="DIR",
        help="add the table to this results bundle of the same provider, and to its report.html",
    )
    _add_directml(parser)


def _build(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=path,
        metavar="DIR",
        help="a new folder, or one that this command wrote before",
    )


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=path, metavar="DIR", help="the folder of a results bundle (validate --report)")
    parser.add_argument(
        "-o", "--output", type=path, metavar="FILE", help="the file to write (default: report.html in the folder)"
    )


def _known(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="the id of a defect: show all about it, and a program that reproduces it"
    )
    _add_json(parser)


def _merge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="+", type=path, metavar="DIR", help="the folder of a results bundle")
    parser.add_argument(
        "-o", "--output", required=True, type=path, metavar="DIR", help="write the whole bundle into this new folder"
    )


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folders", nargs="+", type=path, metavar="DIR", help="the folders of two or more bundles, the oldest first"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--markdown", action="store_true", help="print Markdown")
    output.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", type=path, metavar="FILE", help="write an HTML page too, which needs no network")


def _schema(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        help="run (run.json), record (a line of results.jsonl), diagnosis (diagnosis.json), times (times.json), diff or diff-table (what opmap "
        "diff --json prints of two bundles, and of more)",
    )


def _doctor(parser: argparse.ArgumentParser) -> None:
    _add_json(parser)


def _manual(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("page", nargs="?", metavar="PAGE", help="the name of a page (default: list the pages)")


def _add_directml(parser: argparse.ArgumentParser) -> None:
    _add(parser, DIRECTML_OPTIONS, "where and how the DirectML execution provider runs")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


COMMANDS: dict[str, Command] = {
    "validate": Command(
        help="Run the cases of the catalogue on an execution provider and judge every result.",
        example="opmap validate --provider dml --require-provider --report results",
        add_options=_validate,
    ),
    "report": Command(
        help="Write the report of a results bundle: one HTML file, which needs no network.",
        example="opmap report results",
        add_options=_report,
    ),
    "diagnose": Command(
        help="Run the cases, group the failures by cause, and ask the provider more until each cause is exact.",
        example="opmap diagnose --provider fault:negative-index-as-zero",
        add_options=_diagnose,
        notes=_features(),
    ),
    "shrink": Command(
        help="Make a failing case as small as it goes, and say whose fault it is.",
        example="opmap shrink dispatch.json --provider fault:output-zero -o smallest.json",
        add_options=_shrink,
    ),
    "check": Command(
        help="Judge the dispatches of DxDispatch JSON files, and the nodes of ONNX models.",
        example="opmap check dispatch.json --provider cpu",
        add_options=_check,
    ),
    "map": Command(
        help="Write the ONNX model that is equivalent to a DxDispatch JSON file or to a case of the catalogue.",
        example="opmap map dispatch.json -o model.onnx",
        add_options=_map,
    ),
    "export": Command(
        help="Write a folder that reproduces a case without opmap: model, test data, DxDispatch file, program, text of an issue.",
        example="opmap export dispatch.json -o folder --provider dml",
        add_options=_export,
    ),
    "explain": Command(
        help="Show the documentation's pseudocode, expanded for the descriptor of a file or of a case of the catalogue, and how "
        "an output element is read.",
        example="opmap explain dispatch.json --at 1,0",
        add_options=_explain,
    ),
    "rules": Command(
        help="List the rules of the documentation, or show one rule with an example that breaks it.",
        example="opmap rules TENSOR.C5",
        add_options=_rules,
    ),
    "docs": Command(
        help="Check reference pages: run their examples, and list contradictions and differences from opmap's spec.",
        example="opmap docs page.md",
        add_options=_docs,
    ),
    "faults": Command(
        help="List the planted faults, and show which cases of a tier catch each of them.",
        example="opmap faults --tier standard",
        add_options=_faults,
    ),
    "catalog": Command(
        help="Show what the cases of a tier cover: parameters, their pairs and triples, rules, examples and kernels.",
        example="opmap catalog --tier standard",
        add_options=_catalog,
        notes=MEANING,
    ),
    "known": Command(
        help="List the known defects of the DirectML EP, or show one with a program that reproduces it.",
        example="opmap known fed-default-ignored",
        add_options=_known,
    ),
    "fuzz": Command(
        help="Search for failures with random graphs and random sequences over sessions, and shrink what fails.",
        example="opmap fuzz --provider dml --seconds 600 --report finds",
        add_options=_fuzz,
    ),
    "survey": Command(
        help="Show what a provider does with indices that are out of range. Nothing is judged, except crashes and stray reads.",
        example="opmap survey --provider dml",
        add_options=_survey,
    ),
    "build": Command(
        help="Write the collection of ONNX models with their test data.",
        example="opmap build -o models",
        add_options=_build,
    ),
    "merge": Command(
        help="Join the results bundles of shards and adapters into one. Says what is missing, doubled or different.",
        example="opmap merge shard1 shard2 -o whole",
        add_options=_merge,
    ),
    "diff": Command(
        help="Compare results bundles: the causes of failures that are new, fixed or changed, then the verdicts of the cases.",
        example="opmap diff yesterday today",
        add_options=_diff,
    ),
    "schema": Command(
        help="Print the JSON Schema of a file of the results bundle.",
        example="opmap schema diagnosis",
        add_options=_schema,
    ),
    "doctor": Command(
        help="Show what is installed, which providers and adapters can run, and what to do about problems.",
        example="opmap doctor",
        add_options=_doctor,
    ),
    "manual": Command(
        help="List the pages of the manual, or show one of them.",
        example="opmap manual providers",
        add_options=_manual,
    ),
}
"""Each command by its name. Its code is the function `run` in the module of this name in opmap/cli/commands/."""
