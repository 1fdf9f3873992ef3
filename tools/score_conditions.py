"""Prints, for each planted condition, the condition that questions find, and how far the two agree.

    python tools/score_conditions.py [WORDS ...] [--budget 500]

With words, only the planted conditions whose names hold one of them. Ends with 1 if fewer than 90 % of them agree with
what was planted on 99 % of fresh cases.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit"))

from planted_conditions import PLANTED, agreement, records  # the path is set above

from opmap.cases.features import features
from opmap.diagnosis.asking import make_exact

WANTED = 0.99


def main() -> int:
    """Prints a line per planted condition."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--budget", type=int, default=500)
    options = parser.parse_args()
    chosen = {name: p for name, p in PLANTED.items() if not options.words or any(w in name for w in options.words)}
    right = 0
    for name, predicate in chosen.items():
        start = time.perf_counter()
        failing, passing = records(predicate)
        asked = make_exact(lambda case, p=predicate: bool(p(features(case))), failing, passing, budget=options.budget)
        share = agreement(predicate, asked.condition) if asked.condition else 0.0
        right += share >= WANTED
        seconds = time.perf_counter() - start
        print(f"{share:7.2%}  {asked.runs:4} asked  {seconds:5.1f} s  {name}:  {asked.condition}", flush=True)
    print(f"{right} of {len(chosen)} agree on {WANTED:.0%} of fresh cases")
    return int(right < 0.9 * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
