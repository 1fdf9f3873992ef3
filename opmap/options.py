"""The options of the command line. Light to import, as `--help` is to be quick: no NumPy, no ONNX."""

from __future__ import annotations

import argparse


class _Parser(argparse.ArgumentParser):
    """Errors in one line; the usage is what --help is for."""

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser() -> argparse.ArgumentParser:
    """The parser of the command line; `command` in what it gives is the name of the command."""
    parser = _Parser(
        prog="opmap",
        description="Holds ONNX Runtime's DirectML execution provider against DirectML's own documentation, bit for bit.",
        epilog="exit codes: 0 fine, 1 something was found wrong, 2 bad usage or bad input, 130 interrupted",
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")

    def command(name: str, text: str, example: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, epilog=f"example: {example}")

    validate = command(
        "validate",
        "Run the case catalogue on an execution provider and judge every result.",
        "opmap validate --provider dml --require-provider --report results",
    )
    _provider_options(validate)
    _tier_option(validate, "how many cases")
    validate.add_argument(
        "--filter", action="append", default=[], metavar="GLOB", help="only cases whose id matches; may be repeated"
    )
    validate.add_argument(
        "--case", action="append", default=[], metavar="ID|@FILE", help="only these cases; a file holds one id per line"
    )
    validate.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="the I-th of N parts")
    validate.add_argument("--known-failures", type=path, metavar="FILE", help="TOML file of failures that are known")
    validate.add_argument(
        "--write-known-failures",
        type=path,
        metavar="FILE",
        help="write what is red now into this new file, for a person to say why",
    )
    validate.add_argument(
        "--repeat",
        type=count,
        default=1,
        metavar="N",
        help="run each case N times; different results are a mismatch",
    )
    validate.add_argument(
        "--shuffle",
        type=number,
        metavar="SEED",
        help="another order of the cases, the same for the same seed",
    )
    output = validate.add_mutually_exclusive_group()
    output.add_argument("--report", type=path, metavar="DIR", help="write the results bundle into this new folder")
    output.add_argument("--resume", type=path, metavar="DIR", help="go on with an interrupted run's bundle")
    _place_options(validate)
    validate.add_argument("--max-failures", type=count, metavar="N", help="stop after N cases that are wrong")

    check = command(
        "check",
        "Judge the dispatches of DxDispatch JSON files.",
        "opmap check dispatch.json --provider cpu",
    )
    check.add_argument("files", nargs="+", metavar="FILE")
    _provider_options(check)
    _place_options(check)

    map_ = command(
        "map",
        "Write the equivalent ONNX model of a DxDispatch JSON file.",
        "opmap map dispatch.json -o model.onnx",
    )
    map_.add_argument("file", metavar="FILE")
    map_.add_argument(
        "-o",
        "--output",
        required=True,
        type=path,
        metavar="PATH",
        help="NAME.onnx, or a folder: model.onnx and test_data_set_0/",
    )
    map_.add_argument("--case", metavar="NAME", help="the dispatchable, where the file dispatches several")
    map_.add_argument(
        "--json", action="store_true", help="print the substitutions and the descriptor that the EP emits"
    )
    _descriptor_options(map_)

    explain = command(
        "explain",
        "Show the page's pseudocode, expanded for a descriptor, and how one output element is read.",
        "opmap explain dispatch.json --at 1,0",
    )
    explain.add_argument("file", metavar="FILE")
    explain.add_argument(
        "--at", type=coordinates, metavar="I,J,...", help="an output element; one coordinate per dimension"
    )
    explain.add_argument("--case", metavar="NAME", help="the dispatchable, where the file dispatches several")

    rules = command("rules", "List the rules, or show one with an example that breaks it.", "opmap rules TENSOR.C5")
    rules.add_argument("id", nargs="?", metavar="ID")
    rules.add_argument("--json", action="store_true", help="print JSON")

    docs = command(
        "docs",
        "Take reference pages apart, in any language: run their examples, list what contradicts what.",
        "opmap docs page.md",
    )
    docs.add_argument("files", nargs="+", metavar="FILE")
    docs.add_argument("--new-only", action="store_true", help="leave out what the shipped spec lists as an erratum")
    docs.add_argument("--json", action="store_true", help="print JSON")

    faults = command(
        "faults",
        "Show which planted faults the cases of a tier catch, and which cases catch each.",
        "opmap faults --tier standard",
    )
    _tier_option(faults, "how many cases")
    faults.add_argument("--json", action="store_true", help="print JSON")

    catalog = command(
        "catalog",
        "Show what the cases of a tier cover: classes of parameters, their pairs and triples, rules, examples, kernels.",
        "opmap catalog --tier standard",
    )
    _tier_option(catalog, "which cases")
    shown = catalog.add_mutually_exclusive_group()
    shown.add_argument("--list", action="store_true", help="print the ids of the cases instead, one a line")
    shown.add_argument("--json", action="store_true", help="print JSON")

    build = command("build", "Write the collection of ONNX models with their test data.", "opmap build -o models")
    build.add_argument("-o", "--output", required=True, type=path, metavar="DIR")

    doctor = command("doctor", "Say what is installed, what can run, and what to do about the rest.", "opmap doctor")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _tier_option(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--tier", choices=("smoke", "standard", "full"), default="smoke", help=f"{what} (default: smoke)"
    )


def _provider_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--provider",
        default="auto",
        help="auto, dml (or directml), cpu, an EP by ONNX Runtime's name, fault:NAME, or MODULE:FACTORY (default: auto)",
    )
    parser.add_argument("--require-provider", action="store_true", help="a missing provider is an error")
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    _descriptor_options(parser)


def _place_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where and how the DirectML EP runs")
    group.add_argument(
        "--adapter",
        type=lambda text: text or None,
        metavar="SUBSTRING",
        help="the adapter whose name holds this, in any case",
    )
    group.add_argument(
        "--device-id",
        type=number,
        metavar="N",
        help="the adapter of this number (opmap doctor lists them)",
    )
    group.add_argument("--disable-metacommands", action="store_true", help="without the driver's own kernels")
    group.add_argument("--timeout-per-case", type=seconds, default=30.0, metavar="S", help="seconds (default: 30)")
    group.add_argument("--dml-runtime", metavar="DIR", help="on Linux: a folder that tools/dml_linux set up")


def _descriptor_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--feature-level",
        type=feature_level,
        default=None,
        metavar="L",
        help="DML_FEATURE_LEVEL, as 2_1 (default: the newest)",
    )
    parser.add_argument(
        "--index-conversion",
        choices=("graph", "host"),
        help="where indices are converted that ONNX cannot take as they are",
    )


class _Version(argparse.Action):
    def __init__(self, **keywords):
        super().__init__(nargs=0, **keywords)

    def __call__(self, parser, *_):
        from importlib.metadata import version

        parser.exit(0, f"opmap {version('opmap')}\n")


# --- what the values of options may be ---


def path(text: str) -> str:
    """The name of a file or folder."""
    if not text:
        raise argparse.ArgumentTypeError("must name a file or folder, got nothing")
    return text


def count(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, got {text!r}")
    return int(text)


def number(text: str) -> int:
    """A whole number from 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 on, got {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """A number of seconds, more than 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, more than 0, got {text!r}")
    return value


def shard(text: str) -> tuple[int, int]:
    """`I/N`: which of how many parts."""
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"must be I/N with I from 1 to N, got {text!r}")
    return int(part), int(parts)


def coordinates(text: str) -> tuple[int, ...]:
    """`1,0`: the coordinates of an element."""
    parts = [p.strip() for p in text.strip("[] ").split(",")]
    if not all(p.isdecimal() for p in parts):
        raise argparse.ArgumentTypeError(f"must be numbers with commas between, as 1,0, got {text!r}")
    return tuple(int(p) for p in parts)


def feature_level(text: str) -> str:
    """`2_1`: a DML_FEATURE_LEVEL, with or without its prefix."""
    from .descriptors import FEATURE_LEVELS

    level = text.upper().removeprefix("DML_FEATURE_LEVEL_").replace(".", "_")
    if level not in FEATURE_LEVELS:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(FEATURE_LEVELS)}, got {text!r}")
    return level
