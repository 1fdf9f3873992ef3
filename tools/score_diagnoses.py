"""Prints, for each planted fault or defect, whether the diagnosis names it.

    python tools/score_diagnoses.py [WORDS ...] [--tier standard]
    python tools/score_diagnoses.py --defects [WORDS ...] [--tier smoke]

Each fault model is run as a provider. It is named if the largest cause has it as its fault, or as one that cannot be
told apart on the cases that failed. A fault that no case of the tier catches is left out. With words, only the faults
whose names hold one of them. With `--defects`, `opmap diagnose` runs on the backends of tests/unit/planted_defects.py
instead, and every sentence that it tells is held against the defect: `right`, `partly`, `don't know` or `false`. Its
seconds are those of the processors.
Ends with 1 if a fault is not named, or if a sentence is false.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit"))

from opmap.diagnosis.causes import causes
from opmap.diagnosis.judged_run import JudgedRun
from opmap.faults import FAULTS
from opmap.session import ValidationRun
from opmap.session.options import SessionOptions


def main() -> int:
    """Prints a line per fault, or some per defect."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--tier")
    parser.add_argument("--defects", action="store_true")
    options = parser.parse_args()
    if options.defects:
        return print_defects(options.words, options.tier or "smoke")
    names = [n for n in FAULTS if not options.words or any(word in n for word in options.words)]
    answers = [named(name, options.tier or "standard") for name in names]
    caught = [answer for answer in answers if answer is not None]
    print(f"{sum(caught)} of {len(caught)} named; {len(answers) - len(caught)} change no case")
    return int(not all(caught))


def named(name: str, tier: str) -> bool | None:
    """Prints whether the causes of a run name a fault; None if no case fails."""
    start = time.perf_counter()
    with ValidationRun(SessionOptions.read({"provider": f"fault:{name}", "tier": tier})) as session:
        session.judge_all()
        run = JudgedRun(session.judged, session.calls)
        between = time.perf_counter()
        groups = causes(run)
    if not groups:
        print(f"-        {name}: no case fails", flush=True)
        return None
    relation = groups[0].relation
    is_named = name in (relation.fault, *relation.ties)
    seconds = f"{between - start:5.1f} s run, {time.perf_counter() - between:5.1f} s causes"
    ties = f", ties {', '.join(relation.ties)}" if relation.ties else ""
    text = relation.fault or relation.text
    counts = "+".join(str(len(cause.failures)) for cause in groups[:5])
    print(f"{'named' if is_named else 'NOT NAMED'}  {seconds}  {name}: {text}{ties} ({counts} cases)", flush=True)
    return is_named


def print_defects(words: list[str], tier: str) -> int:
    """Prints what `diagnose` tells of each planted defect, and which of its sentences are true."""
    from planted_defects import DEFECTS
    from told_causes import judged

    results: Counter[str] = Counter()
    for name in DEFECTS:
        if words and not any(word in name for word in words):
            continue
        told = judged(name, tier)
        results[told.result] += 1
        counts = f"{told.quick} causes in validate, {len(told.causes)} in diagnose"
        print(f"{told.result:10}  {told.seconds:5.1f} s  {name}: {counts}", flush=True)
        for line in (*map(str, told.causes), *filter(None, [told.error])):
            print(f"    {line}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in results.most_common()))
    return int(bool(results["false"]))


if __name__ == "__main__":
    sys.exit(main())
