"""Prints, for each planted fault, whether the diagnosis of a red run names it.

    python tools/score_diagnoses.py [WORDS ...] [--tier standard]
    python tools/score_diagnoses.py --backends

Each fault model is run as a provider. It is named if the largest cause has it as its fault, or as one that cannot be told
apart on the cases that failed. A fault that no case of the tier catches is left out. With words, only the faults whose
names hold one of them. With `--backends`, `opmap diagnose` runs on the backends of tests/unit/planted_backends.py instead,
whose faults are no fault models, and prints the first cause of each and the seconds. Ends with 1 if a fault is not named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from opmap.diagnosis.causes import causes
from opmap.diagnosis.judged_run import JudgedRun
from opmap.faults import FAULTS
from opmap.session import Session
from opmap.session.options import SessionOptions

TESTS = Path(__file__).parents[1] / "tests" / "unit"

BACKENDS = (
    "SignedByteIndex",
    "TuplesRotate",
    "OddHalves",
    "FirstBatch",
    "AxisBefore",
    "Every37th",
    "NegativeOnLongAxis",
)


def main() -> int:
    """Prints a line per fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--tier", default="standard")
    parser.add_argument("--backends", action="store_true")
    options = parser.parse_args()
    if options.backends:
        return max(map(backend, BACKENDS))
    names = [n for n in FAULTS if not options.words or any(word in n for word in options.words)]
    answers = [named(name, options.tier) for name in names]
    caught = [answer for answer in answers if answer is not None]
    print(f"{sum(caught)} of {len(caught)} named; {len(answers) - len(caught)} change no case of {options.tier}")
    return int(not all(caught))


def named(name: str, tier: str) -> bool | None:
    """Prints whether the causes of a run name a fault; None if no case fails."""
    start = time.perf_counter()
    with Session(SessionOptions.read({"provider": f"fault:{name}", "tier": tier})) as session:
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


def backend(name: str) -> int:
    """Prints the first cause that `opmap diagnose` finds for a backend. Returns 1 if it finds none."""
    start = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), os.environ.get("PYTHONPATH", "")))}
    command = [sys.executable, "-m", "opmap", "diagnose", "--provider", f"planted_backends:{name}", "--json"]
    answer = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")
    seconds = time.perf_counter() - start
    groups = json.loads(answer.stdout)["groups"] if answer.stdout else []
    if not groups:
        print(f"{name}: no cause\n{answer.stderr}", flush=True)
        return 1
    cause, *more = groups
    condition = cause["condition"]["text"] if cause["condition"] else "no condition is exact"
    print(f"{seconds:5.1f} s  {name}: {cause['relation']['text']}; {condition}; {cause['stability']}", flush=True)
    if more:
        print(f"         and {len(more)} more causes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
