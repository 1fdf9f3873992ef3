"""Gives opmap hostile input of every kind, and reports what is neither taken nor refused in one line.

    python tools/fuzz_inputs.py [TARGET ...] [--minutes N] [--seed S]
    python tools/fuzz_inputs.py TARGET --replay FILE

The targets and the mutator are those of `tests/unit/house/test_hostile.py`. An input that raises another error, that
takes longer than SLOW seconds or more memory than MEMORY is written to a file, and the search goes on with the next
target.
Exit codes: 0 nothing found, 1 something found, 130 interrupted.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "unit")]

from hostile_targets import TARGETS, Target, attack, mutate  # noqa: E402  # they lie beside the tests

from opmap.errors import cut  # noqa: E402  # of this checkout

SLOW = 10.0
"""How many seconds one input may take."""

MEMORY = 4 * 2**30
"""How many bytes of memory the process may take, where the system can limit it."""


def main() -> int:
    """Searches, or replays one input. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(TARGETS)} (default: all)")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long each target is searched (default: 1)")
    parser.add_argument("--seed", default="0", help="the same seed gives the same inputs (default: 0)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="give one target the input in this file")
    options = parser.parse_args()
    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown:
        parser.error(f"TARGET must be one of {', '.join(TARGETS)}, got {unknown[0]!r}")
    if options.replay and len(options.targets) != 1:
        parser.error("--replay takes one TARGET")
    limit_memory()
    targets = [TARGETS[name] for name in options.targets or TARGETS]
    with tempfile.TemporaryDirectory(prefix="opmap-hostile-") as folder:
        try:
            if options.replay:
                return replay(targets[0], options.replay.read_bytes(), Path(folder))
            failing = [target.name for target in targets if search(target, options.minutes, options.seed, Path(folder))]
        except KeyboardInterrupt:
            return 130
    print(f"found: {', '.join(failing) or 'nothing'}")
    return int(bool(failing))


def limit_memory() -> None:
    """Limits the memory of this process to MEMORY. Windows has no such limit."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def search(target: Target, minutes: float, seed: str, folder: Path) -> bool:
    """Gives a target mutated inputs for some minutes. Returns whether one of them is a find."""
    seeds, end, shown = target.seeds(folder), time.monotonic() + minutes * 60, 0.0
    number = refused = 0
    slowest = 0.0
    while (now := time.monotonic()) < end:
        data = mutate(seeds, random.Random(f"{seed}/{number}"))
        try:
            refused += attack(target, data, folder) is not None
        except Exception:
            lines = "\n".join(cut(line, 300) for line in traceback.format_exc().splitlines())
            return report(target, data, f"seed {seed!r}, input {number}: {lines}")
        seconds = time.monotonic() - now
        if seconds > SLOW:
            return report(target, data, f"seed {seed!r}, input {number} takes {seconds:.1f} s")
        number, slowest = number + 1, max(slowest, seconds)
        if now - shown > 5:
            shown = now
            print(f"{target.name}: {number} inputs, {refused} refused, slowest {slowest:.2f} s", file=sys.stderr)
    print(f"{target.name}: {number} inputs, {refused} refused, slowest {slowest:.2f} s")
    return False


def report(target: Target, data: bytes, problem: str) -> bool:
    """Writes a find to a file, and says how to replay it. Returns True."""
    handle, name = tempfile.mkstemp(prefix=f"opmap-{target.name}-", suffix=".input")
    with open(handle, "wb") as file:
        file.write(data)
    print(f"{target.name}: {problem.rstrip()}\n  again: python tools/fuzz_inputs.py {target.name} --replay {name}")
    return True


def replay(target: Target, data: bytes, folder: Path) -> int:
    """Gives a target one input, and prints what comes of it. Returns the exit code."""
    target.seeds(folder)  # some targets need the files of their seeds
    start = time.monotonic()
    try:
        print(attack(target, data, folder) or "taken")
    except Exception:
        traceback.print_exc()
        return 1
    print(f"{time.monotonic() - start:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
