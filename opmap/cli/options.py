"""The options that the commands and the pytest plugin share, and the types of the values of options.

Light to import, so that `--help` is quick: this module loads neither NumPy nor ONNX.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..errors import shown
from ..limits import MAX_JOBS
from ..vocabulary import TIERS

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


def jobs(text: str) -> int:
    """Returns a number of processes, from 1 to MAX_JOBS."""
    value = _whole(text, 1)
    if value > MAX_JOBS:
        raise argparse.ArgumentTypeError(f"must be at most {MAX_JOBS}, got {shown(text)}")
    return value


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
    from ..descriptors import FEATURE_LEVELS

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


# --- the options that several commands, or a command and the pytest plugin, share ---


class Option(NamedTuple):  # a dataclass takes longer to import than all else that --help needs
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
    help="auto, dml, cpu, an execution provider by ONNX Runtime's name, directml (DirectML itself, without ONNX Runtime), "
    "fault:NAME, or MODULE:FACTORY "
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

LARGE = Option(
    name="large",
    flag=True,
    help="in place of a tier, run operators with more than 2^31 bytes of data, and check a sample of the output; needs 3 GB of memory",
)

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

SESSION_OPTIONS = (
    Option(
        name="pack",
        type=count,
        default=1,
        metavar="N",
        help="put up to N independent cases into one model and session (see opmap manual variants; default: 1)",
    ),
    Option(
        name="fresh-sessions",
        flag=True,
        help="give each case a session of its own; by default cases that have the same model share one",
    ),
)
"""Which cases run in one session."""

JOBS = Option(
    name="jobs",
    type=jobs,
    default=1,
    metavar="N",
    help="judge the cases in N processes, with the same results; not for DirectML, whose adapter takes one (default: 1)",
)

DML_RUNTIME = Option(
    name="dml-runtime",
    metavar="DIR",
    help="DirectML on Linux: the folder that tools/dml_linux set up (default: OPMAP_DML_RUNTIME)",
)

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
        name="debug-layer",
        flag=True,
        help="--provider directml: turn the debug layers on; what they say about a case is part of its message",
    ),
    Option(
        name="timeout-per-case",
        type=seconds,
        default=30.0,
        metavar="S",
        help="time limit of each step of a case in seconds, for a provider in a worker process (default: 30)",
    ),
    DML_RUNTIME,
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
