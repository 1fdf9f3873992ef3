"""Runs the cases of a tier in pytest, and prints what pytest added to each: `python -m bench.pytest_child TIER`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from opmap.session import Session

TEST = b"def test_case(opmap_case, opmap_check):\n    opmap_check(opmap_case)\n"


class _Clock:
    """A plugin that takes the time from the begin of the collection to the last report."""

    def __init__(self) -> None:
        self.begin = self.end = self.in_opmap = 0.0
        self.cases = 0

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


def main(tier: str) -> int:
    """Prints the document on the last line, and returns pytest's exit code."""
    Path("test_cases.py").write_bytes(TEST)
    clock = _Clock()
    judge = clock.of_opmap(Session.judge)

    def counted(*arguments: Any) -> Any:
        clock.cases += 1
        return judge(*arguments)

    setattr(Session, "judge", counted)  # noqa: B010  mypy refuses the assignment to a method
    setattr(Session, "choose", clock.of_opmap(Session.choose))  # noqa: B010  as above
    options = ["-q", "-p", "no:cacheprovider", "test_cases.py", "--opmap-provider=cpu", f"--opmap-tier={tier}"]
    code = pytest.main(options, plugins=[clock])
    whole, cases = clock.end - clock.begin, max(clock.cases, 1)
    document = {
        "cases": cases,
        "judged_ms": clock.in_opmap / cases * 1000,
        "added_ms": (whole - clock.in_opmap) / cases * 1000,
    }
    print(f"\n{msgspec.json.encode(document).decode()}")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
