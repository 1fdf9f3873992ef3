"""The options of every command, and those that the command line and the pytest plugin share.

Light to import, so that `--help` is quick: this module loads neither NumPy nor ONNX.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from .errors import cut, printable, shown
from .manual.case_ids import MEANING
from .vocabulary import TIERS

# --- the types of values: each turns the text of an option into its value, or raises ArgumentTypeError ---


def path(text: str) -> str:
    """Returns the name of a file or folder."""
    if not text:
        raise argparse.ArgumentTypeError("must name a file or folder, got nothing")
    return text


def optional(text: str) -> str | None:
    """Returns the text, or None for an empty one: a script may pass a variable that is not set."""
    return text or None


_HIGHEST = 2**32 - 1
"""The highest number that an option takes."""


def count(text: str) -> int:
    """Returns a whole number that is at least 1."""
    return _whole(text, 1)


def number(text: str) -> int:
    """Returns a whole number that is at least 0."""
    return _whole(text, 0)


def _whole(text: str, lowest: int) -> int:
    if text.isdecimal() and not _is_number(text):
        raise argparse.ArgumentTypeError(f"must be at most {_HIGHEST}, got {shown(text)}")
    if not text.isdecimal() or int(text) < lowest:
        raise argparse.ArgumentTypeError(f"must be a whole number from {lowest} on, got {shown(text)}")
    return int(text)


def _is_number(text: str) -> bool:
    """Returns whether a text is a number from 0 to _HIGHEST. Python refuses to read one of more than 4,300 digits."""
    return text.isdecimal() and len(text) <= 20 and int(text) <= _HIGHEST


def seconds(text: str) -> float:
    """Returns a number of seconds that is greater than 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, more than 0, got {shown(text)}")
    return value


def shard(text: str) -> tuple[int, int]:
    """Returns (I, N) for `I/N`: part I of N parts."""
    part, _, parts = text.partition("/")
    if not (_is_number(part) and _is_number(parts) and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"must be I/N with I from 1 to N, got {shown(text)}")
    return int(part), int(parts)


def coordinates(text: str) -> tuple[int, ...]:
    """Returns the coordinates of an element: (1, 0) for `1,0`."""
    parts = [p.strip() for p in text.strip("[] ").split(",")]
    if not all(map(_is_number, parts)):
        raise argparse.ArgumentTypeError(f"must be numbers with commas between, as 1,0, got {shown(text)}")
    return tuple(int(p) for p in parts)


def feature_level(text: str) -> str:
    """Returns a feature level in short form: `2_1`, also for `DML_FEATURE_LEVEL_2_1` and `2.1`."""
    from .descriptors import FEATURE_LEVELS

    level = text.upper().removeprefix("DML_FEATURE_LEVEL_").replace(".", "_")
    if level not in FEATURE_LEVELS:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(FEATURE_LEVELS)}, got {shown(text)}")
    return level


def pair(text: str) -> tuple[str, str]:
    """Returns (K, V) for `K=V`."""
    key, equals, value = text.partition("=")
    if not (key.strip() and equals):
        raise argparse.ArgumentTypeError(f"must be K=V, got {shown(text)}")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise argparse.ArgumentTypeError(f"must be UTF-8, got {shown(text)}")
    return key.strip(), value.strip()


# --- the options that the command line and the pytest plugin share ---


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option. `add` declares it for argparse as `--name`, or for pytest as `--opmap-name`.

    A `flag` takes no value. A `repeated` option may stand several times and collects its values in a list. `pytest_note`
    is added to the help under pytest.
    """

    name: str
    help: str
    type: Callable[[str], object] | None = None
    default: object = None
    metavar: str | None = None
    choices: Sequence[str] | None = None
    flag: bool = False
    repeated: bool = False
    pytest_note: str = ""

    def add(self, add_option: Callable[..., object], prefix: str = "--", **changes: object) -> None:
        """Declares the option with `add_option`: argparse's `add_argument` or pytest's `addoption`.

        `changes` replaces keywords of the declaration.
        """
        keywords: dict[str, object] = {"help": self.help}
        if self.flag:
            keywords["action"] = "store_true"
        elif self.repeated:
            keywords |= {"action": "append", "default": [], "metavar": self.metavar}
            if self.type is not None:
                keywords["type"] = self.type
        else:
            keywords |= {"default": self.default, "metavar": self.metavar}
            if self.type is not None:
                keywords["type"] = self.type
            if self.choices is not None:
                keywords["choices"] = self.choices
        add_option(f"{prefix}{self.name}", **keywords | changes)


PROVIDER = Option(
    name="provider",
    metavar="NAME",
    default="auto",
    help="auto, dml (or directml), cpu, an execution provider by ONNX Runtime's name, fault:NAME, or MODULE:FACTORY "
    "(default: auto)",
)
REQUIRE_PROVIDER = Option(
    name="require-provider", flag=True, help="fail if the provider is missing, or if a case is not run on it"
)
FEATURE_LEVEL = Option(
    name="feature-level",
    type=feature_level,
    metavar="L",
    help="judge by this DML_FEATURE_LEVEL, for example 2_1 (default: the newest)",
)
INDEX_CONVERSION = Option(
    name="index-conversion",
    choices=("graph", "host", "directml"),
    help="where to convert indices whose type ONNX does not take: in the graph, on the host before the run, or as the "
    "DirectML EP supports it best (default: graph; on DirectML directml)",
)
TIER = Option(
    name="tier",
    choices=TIERS,
    default=TIERS[0],
    help=f"how many cases: each of smoke, standard and full contains the one before; contract has the contract probes alone, "
    f"full has them too (default: {TIERS[0]})",
)

IN_PROCESS = Option(
    name="in-process",
    flag=True,
    help="MODULE:FACTORY: run it in this process, for debugging; a crash then ends the run, and there is no time limit",
)

RUNTIME_OPTIONS = (
    Option(
        name="provider-option",
        type=pair,
        repeated=True,
        metavar="K=V",
        help="an option of the execution provider, for example backend_type=htp; may be repeated",
    ),
    Option(
        name="session-option",
        type=pair,
        repeated=True,
        metavar="K=V",
        help="a session configuration entry, for example session.disable_cpu_ep_fallback=0; may be repeated",
    ),
    Option(
        name="ep-library",
        type=pair,
        repeated=True,
        metavar="NAME=PATH",
        help="a plugin EP library, which ONNX Runtime registers under NAME; --provider then names its EP; may be repeated",
    ),
)
"""What ONNX Runtime's sessions are created with."""

PROVIDER_OPTIONS = (PROVIDER, REQUIRE_PROVIDER, FEATURE_LEVEL, INDEX_CONVERSION, *RUNTIME_OPTIONS, IN_PROCESS)
"""The provider, and how its results are judged."""

SELECTION_OPTIONS = (
    TIER,
    Option(
        name="filter", repeated=True, metavar="GLOB", help="only cases and probes whose id matches; may be repeated"
    ),
    Option(
        name="case",
        repeated=True,
        metavar="ID|@FILE",
        help="only the case or probe with this id, of any tier, or with the ids in a file, one per line (PowerShell needs "
        "quotes: '@FILE'); may be repeated",
        pytest_note="for a file write --opmap-case=@FILE",
    ),
    Option(name="shard", type=shard, default=(1, 1), metavar="I/N", help="only part I of N parts of the cases"),
)
"""Which cases and probes are run."""

NO_SHIPPED_KNOWN_FAILURES = Option(
    name="no-shipped-known-failures",
    flag=True,
    help="let the known defects of the DirectML EP fail the run too (opmap known lists them)",
)
RERUN_DANGEROUS = Option(
    name="rerun-dangerous",
    flag=True,
    help="also run what is known to hang or to lose the device; Windows stops after five of these in a minute",
)

RUN_OPTIONS = (
    Option(
        name="known-failures",
        type=path,
        metavar="FILE",
        help="a TOML file of failures that are known and do not fail the run (see opmap manual known-failures)",
    ),
    NO_SHIPPED_KNOWN_FAILURES,
    RERUN_DANGEROUS,
    Option(
        name="repeat",
        type=count,
        default=1,
        metavar="N",
        help="run each case N times; different results are a mismatch (default: 1)",
    ),
    Option(
        name="shuffle",
        type=number,
        metavar="SEED",
        help="run the cases in another order; the same seed gives the same order",
    ),
    Option(name="max-failures", type=count, metavar="N", help="stop after N failed cases"),
)
"""How the cases are run."""

DIRECTML_OPTIONS = (
    Option(
        name="adapter",
        type=optional,
        metavar="SUBSTRING",
        help="DirectML: use the adapter whose name contains this text, in any case",
    ),
    Option(
        name="device-id",
        type=number,
        metavar="N",
        help="use the adapter, or the device of a plugin EP, with this number (opmap doctor lists them)",
    ),
    Option(name="disable-metacommands", flag=True, help="DirectML: do not use the driver's own kernels"),
    Option(
        name="timeout-per-case",
        type=seconds,
        default=30.0,
        metavar="S",
        help="time limit of each step of a case in seconds, for a provider in a worker process (default: 30)",
    ),
    Option(
        name="dml-runtime",
        metavar="DIR",
        help="DirectML on Linux: the folder that tools/dml_linux set up (default: OPMAP_DML_RUNTIME)",
    ),
)
"""Where and how the DirectML execution provider runs."""

SHARED_OPTIONS = (*PROVIDER_OPTIONS, *SELECTION_OPTIONS, *RUN_OPTIONS, *DIRECTML_OPTIONS)
"""The options of `opmap validate` that the pytest plugin has too."""


def add_pytest_options(add_option: Callable[..., object]) -> None:
    """Declares the shared options as `--opmap-NAME`. The provider's default is None: no provider was named."""
    for option in SHARED_OPTIONS:
        changes: dict[str, object] = {"default": None} if option is PROVIDER else {}
        if option.pytest_note:
            changes["help"] = f"{option.help}; {option.pytest_note}"
        option.add(add_option, "--opmap-", **changes)


# --- the commands ---


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command: its help, an example of its use, and a function that declares its options.

    `notes` is a text of several lines at the end of its help.
    """

    help: str
    example: str
    add_options: Callable[[argparse.ArgumentParser], None]
    notes: str = ""


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line. `command` in its result is the name of the command."""
    parser = _Parser(
        prog="opmap",
        description="Compares ONNX Runtime's DirectML execution provider with DirectML's own documentation, bit for bit.",
        epilog="exit codes: 0 fine, 1 something is wrong, 2 bad usage or bad input, 130 interrupted",
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, dest="command", parser_class=_CommandParser
    )
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


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(cut(message))} (see {self.prog} --help)\n")


class _Help(argparse.HelpFormatter):
    """Fills the text of one line, and keeps the lines of a longer one."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class _CommandParser(_Parser):
    """The parser of one command. It refuses what it does not know by itself, so that the message names the command."""

    def parse_known_args(  # type: ignore[override]  # typeshed has four overloads, argparse calls it with two arguments
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        values, unknown = super().parse_known_args(args, namespace)
        if unknown:
            name, _, _ = unknown[0].partition("=")
            if not name.startswith("-"):
                self.error(f"unexpected argument {shown(name)}")
            name = cut(name, 100)
            similar = difflib.get_close_matches(name, self._option_string_actions, n=1)
            self.error(f"unknown option {name}{f', did you mean {similar[0]}?' if similar else ''}")
        return values, unknown


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


def _validate(parser: argparse.ArgumentParser) -> None:
    _add(parser, PROVIDER_OPTIONS)
    _add(parser, SELECTION_OPTIONS, "which cases")
    _add(parser, RUN_OPTIONS, "how they are run")
    _add(parser, DIRECTML_OPTIONS, "where and how the DirectML execution provider runs")
    group = parser.add_argument_group("what is written")
    group.add_argument(
        "--json", action="store_true", help="print one JSON document on stdout; all other text goes to stderr"
    )
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
    _validate(parser)
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
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document on stdout; all other text goes to stderr"
    )
    _add(parser, DIRECTML_OPTIONS, "where and how the DirectML execution provider runs")


def _check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a DxDispatch JSON file")
    _add(parser, (*PROVIDER_OPTIONS, NO_SHIPPED_KNOWN_FAILURES, RERUN_DANGEROUS))
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document on stdout; all other text goes to stderr"
    )
    _add(parser, DIRECTML_OPTIONS, "where and how the DirectML execution provider runs")


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


def _explain(parser: argparse.ArgumentParser) -> None:
    _add_dispatch(parser)
    parser.add_argument(
        "--at", type=coordinates, metavar="I,J,...", help="an output element, by one coordinate per dimension"
    )


def _add_target(parser: argparse.ArgumentParser, **more: Any) -> None:
    help = "a DxDispatch JSON file, or the id of a case of the catalogue"
    parser.add_argument("target", metavar="FILE|CASE", help=help + more.pop("note", ""), **more)


def _add_dispatch(parser: argparse.ArgumentParser) -> None:
    _add_target(parser)
    parser.add_argument("--case", metavar="NAME", help="the dispatchable, if the file dispatches several")


def _rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="a rule id (default: all rules)")
    _add_json(parser)


def _docs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="a reference page in any language: Markdown, HTML or text"
    )
    parser.add_argument("--new-only", action="store_true", help="leave out known errata, and what an older page lacks")
    _add_json(parser)


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
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document on stdout; all other text goes to stderr"
    )
    folder = parser.add_mutually_exclusive_group()
    folder.add_argument(
        "--report", type=path, metavar="DIR", help="write finds and their programs into this new folder"
    )
    folder.add_argument("--resume", type=path, metavar="DIR", help="continue the search of this folder")
    _add(parser, DIRECTML_OPTIONS, "where and how the DirectML execution provider runs")


def _survey(parser: argparse.ArgumentParser) -> None:
    _add(parser, (*PROVIDER_OPTIONS, RERUN_DANGEROUS))
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document on stdout; all other text goes to stderr"
    )
    _add(parser, DIRECTML_OPTIONS, "where and how the DirectML execution provider runs")


def _build(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=path,
        metavar="DIR",
        help="a new folder, or one that this command wrote before",
    )


def _known(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="the id of a defect: show all about it, and a program that reproduces it"
    )
    _add_json(parser)


def _doctor(parser: argparse.ArgumentParser) -> None:
    _add_json(parser)


def _manual(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("page", nargs="?", metavar="PAGE", help="the name of a page (default: list the pages)")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


COMMANDS: dict[str, Command] = {
    "validate": Command(
        help="Run the cases of the catalogue on an execution provider and judge every result.",
        example="opmap validate --provider dml --require-provider --report results",
        add_options=_validate,
    ),
    "diagnose": Command(
        help="Run the cases, group the failures by cause, and ask the provider more until each cause is exact.",
        example="opmap diagnose --provider fault:negative-index-as-zero",
        add_options=_diagnose,
    ),
    "shrink": Command(
        help="Make a failing case as small as it goes, and say whose fault it is.",
        example="opmap shrink dispatch.json --provider fault:output-zero -o smallest.json",
        add_options=_shrink,
    ),
    "check": Command(
        help="Judge the dispatches of DxDispatch JSON files.",
        example="opmap check dispatch.json --provider cpu",
        add_options=_check,
    ),
    "map": Command(
        help="Write the ONNX model that is equivalent to a DxDispatch JSON file or to a case of the catalogue.",
        example="opmap map dispatch.json -o model.onnx",
        add_options=_map,
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
"""Each command by its name. Its code is the function `run` in the module of this name in opmap/commands/."""
