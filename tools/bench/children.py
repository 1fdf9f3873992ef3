"""Measures what only a fresh process shows: the start, the cost of pytest, the peak of memory.

A process that measures itself is started as `python -m bench.children memory OPERATOR ELEMENTS` or `... pytest TIER`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

import opmap
from opmap.errors import OpmapError, one_line
from opmap.vocabulary import Tier, Verdict

from .interpreting import LARGE

Command = Sequence[str]


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds of whole processes, and what a plugin of pytest adds to a session without opmap.

    `python` is the process that does nothing. `import_opmap` and `help` are above nothing else: they contain it.
    `pytest_plugin` is None if opmap is not installed as a plugin of this Python's pytest.
    """

    python: float
    import_opmap: float
    help: float
    pytest_session: float | None = None
    pytest_plugin: float | None = None


class Pytest(msgspec.Struct, frozen=True, kw_only=True):
    """What pytest adds: milliseconds per case from collection to the last report, without choosing and judging
    cases.
    """

    cases: int
    judged_ms: float
    added_ms: float


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """The peak of memory of a process that judges one case, in bytes, by operator; and of one that judges a small
    case.
    """

    elements: int
    peak_bytes: dict[str, int]
    start_bytes: int


def start(rounds: int = 9, advance: Callable[[], None] = lambda: None) -> Start:
    """Returns the medians of processes that are started in turn. Raises OpmapError if one fails."""
    with tempfile.TemporaryDirectory(prefix="opmap-bench-") as folder:
        Path(folder, "test_one.py").write_bytes(b"def test_one():\n    pass\n")
        session = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_one.py"]
        commands: dict[str, Command] = {
            "python": [sys.executable, "-c", ""],
            "import_opmap": [sys.executable, "-c", "import opmap"],
            "help": [sys.executable, "-m", "opmap", "--help"],
        }
        if _is_plugin():
            commands |= {"without": [*session, "-p", "no:opmap"], "with": session}
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(rounds + 1):
            for name, command in commands.items():
                begin = time.perf_counter()
                _run(command, folder)
                if number:  # the first round may compile modules
                    seconds[name].append(time.perf_counter() - begin)
            advance()
    medians = {name: median(times) for name, times in seconds.items()}
    plugin = None
    if "with" in seconds:
        plugin = median(w - o for o, w in zip(seconds["without"], seconds["with"], strict=True))
    return Start(
        python=medians["python"],
        import_opmap=medians["import_opmap"],
        help=medians["help"],
        pytest_session=medians.get("without"),
        pytest_plugin=plugin,
    )


def pytest_cost(tier: Tier = "smoke", rounds: int = 3, advance: Callable[[], None] = lambda: None) -> Pytest | None:
    """Returns what pytest adds to each case of a tier on the CPU EP; None without pytest."""
    if not _is_plugin():
        return None
    costs = []
    for number in range(rounds + 1):
        cost = msgspec.json.decode(_child("pytest", tier), type=Pytest)
        costs += [cost] if number else []  # the first round compiles modules
        advance()
    return sorted(costs, key=lambda cost: cost.added_ms)[len(costs) // 2]


def memory(elements: int = 10_000_000, advance: Callable[[], None] = lambda: None) -> Memory | None:
    """Returns the peak of memory of each operator's case with so many output elements, each in a process of its own.

    None on other systems than Linux.
    """
    if not sys.platform.startswith("linux"):
        return None
    peaks: dict[str, int] = {}
    for name in LARGE:
        peaks[name] = int(_child("memory", name, str(elements)))
        advance()
    small = int(_child("memory", next(iter(LARGE)), "1000"))
    return Memory(elements=elements, peak_bytes=peaks, start_bytes=small)


@cache
def _bytecode() -> tempfile.TemporaryDirectory[str]:
    """Returns the folder for the children's bytecode. It is removed at the end of this process."""
    return tempfile.TemporaryDirectory(prefix="opmap-bench-", ignore_cleanup_errors=True)


def _is_plugin() -> bool:
    """Returns whether the pytest of this Python loads the plugin."""
    from importlib.metadata import entry_points

    return any(entry.name == "opmap" for entry in entry_points(group="pytest11"))


def _child(*arguments: str) -> str:
    """Runs this module with these arguments. Returns the last line that it prints."""
    with tempfile.TemporaryDirectory(prefix="opmap-bench-") as folder:
        lines = _run([sys.executable, "-m", f"{__package__}.children", *arguments], folder).split("\n")
    return next(line for line in reversed(lines) if line.strip())


def _run(command: Command, folder: str) -> str:
    """Runs a process in a folder, with this package. Returns what it prints. Raises OpmapError if it fails."""
    folders = [str(Path(file).resolve().parents[1]) for file in (__file__, opmap.__file__)]
    path = os.pathsep.join(filter(None, [*folders, os.environ.get("PYTHONPATH")]))
    # An installed package has its bytecode. A source tree may have none, so the children share a folder for it.
    environment: Mapping[str, str] = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPATH": path,
        "PYTHONPYCACHEPREFIX": _bytecode().name,
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", errors="replace"
    )
    if done.returncode:
        words = json.dumps(list(command[1:]))
        raise OpmapError(
            f"python {words} ended with {done.returncode}: {one_line((done.stderr or done.stdout)[-500:])}"
        )
    return done.stdout


# --- in the child ---


def print_peak(operator: str, elements: int) -> int:
    """Judges one large case on the CPU EP, and prints the peak of memory in bytes.

    Returns 1 if the case does not pass.
    """
    from opmap.cases.catalogue import generated
    from opmap.descriptors import complete_sizes
    from opmap.operators import OPERATORS
    from opmap.session.session import open_judge

    sizes, numbers = LARGE[operator]
    data, indices = sizes(elements)
    descriptor = OPERATORS[operator].descriptor
    desc = complete_sizes(descriptor, {"InputTensor": data, "IndicesTensor": indices}, numbers)
    record = open_judge("cpu", brief=True)(generated(desc, "mix", "addr"))
    if record.verdict is not Verdict.PASS:
        print(f"{record.verdict}: {record.message}", file=sys.stderr)
        return 1
    # `ru_maxrss` of a new process is at least that of the process that started it: it is not asked.
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    print(int(status.partition("VmHWM:")[2].split()[0]) * 1024)
    return 0


TEST = b"def test_case(opmap_case, opmap_check):\n    opmap_check(opmap_case)\n"


def print_pytest_cost(tier: str) -> int:
    """Runs the cases of a tier in pytest, and prints what pytest added to each, on the last line.

    Returns pytest's exit code.
    """
    import pytest

    from opmap.session import ValidationRun

    class Clock:
        """A plugin that takes the time from the begin of the collection to the last report."""

        begin = end = in_opmap = 0.0
        cases = 0

        @pytest.hookimpl(tryfirst=True)
        def pytest_collection(self) -> None:
            self.begin = time.perf_counter()

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(self) -> None:
            self.end = time.perf_counter()

        def of_opmap(self, function: Callable[..., Any]) -> Callable[..., Any]:
            """Returns a function that calls this one, and adds its time to `in_opmap`."""

            def timed(*arguments: Any) -> Any:
                begin = time.perf_counter()
                try:
                    return function(*arguments)
                finally:
                    self.in_opmap += time.perf_counter() - begin

            return timed

    Path("test_cases.py").write_bytes(TEST)
    clock = Clock()
    judge = clock.of_opmap(ValidationRun.judge)

    def counted(*arguments: Any) -> Any:
        clock.cases += 1
        return judge(*arguments)

    setattr(ValidationRun, "judge", counted)  # noqa: B010  mypy refuses the assignment to a method
    setattr(ValidationRun, "choose", clock.of_opmap(ValidationRun.choose))  # noqa: B010  as above
    options = ["-q", "-p", "no:cacheprovider", "test_cases.py", "--opmap-provider=cpu", f"--opmap-tier={tier}"]
    code = pytest.main(options, plugins=[clock])
    cases = max(clock.cases, 1)
    judged, whole = (seconds / cases * 1000 for seconds in (clock.in_opmap, clock.end - clock.begin))
    cost = Pytest(cases=cases, judged_ms=judged, added_ms=whole - judged)
    print(f"\n{msgspec.json.encode(cost).decode()}")
    return int(code)


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    sys.exit(print_pytest_cost(*words) if what == "pytest" else print_peak(words[0], int(words[1])))
