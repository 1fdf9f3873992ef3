"""Which failures are run again, how often, and after which cases."""

from __future__ import annotations

from contextlib import contextmanager

import msgspec
import pytest
from tiers import all_cases

from opmap.cases.probes import probes
from opmap.diagnosis import reruns as module
from opmap.diagnosis.judged_run import JudgedRun
from opmap.diagnosis.reruns import MOST, MOST_OF_CAUSE, reruns
from opmap.judge.record import Record
from opmap.judge.session_batcher import Judged, SessionBatcher
from opmap.session import open_judge
from opmap.vocabulary import Stage, Verdict

CASES = [case for case in all_cases("smoke") if case.id.startswith("gather/") and case.variant == "plain"][:60]
WRONG = open_judge("fault:output-zero")


def passed(case) -> Record:
    return Record(case=case.id, verdict=Verdict.PASS)


def failed(case, verdict="mismatch", stage="run", **keys) -> Record:
    """Returns the record of a case of whose output everything is zero; with another verdict an error."""
    if verdict == "mismatch":
        return msgspec.structs.replace(WRONG(case), **keys)
    return Record(case=case.id, verdict=Verdict(verdict), stage=Stage(stage), **{"message": "it ended"} | keys)


class Fresh:
    """Opens a provider that fails as `fails(ids before, id)` says. `processes` are the ids that each process ran."""

    def __init__(self, fails=lambda before, id: False):
        self.fails, self.processes = fails, []

    @contextmanager
    def __call__(self):
        ran = []
        self.processes.append(ran)

        def run(case):
            wrong = self.fails(tuple(ran), case.id)
            ran.append(case.id)
            return Record(case=case.id, verdict=Verdict.ERROR if wrong else Verdict.PASS)

        yield run


def given(judged, fresh, calls=None, **options):
    return dict(reruns(JudgedRun(judged, calls), (), fresh, **options))


@pytest.mark.parametrize(
    "verdict, keys, dangerous, again",
    [
        ("mismatch", {}, False, True),
        ("error", {}, False, True),
        ("error", {"stage": "load"}, False, True),
        ("error", {"stage": "validate"}, False, False),
        ("error", {"stage": "map"}, False, False),
        ("mismatch", {"batched_with": ["x"]}, False, False),
        *(
            (verdict, {}, dangerous, dangerous)
            for verdict in ("crash", "timeout", "device-lost")
            for dangerous in (False, True)
        ),
        *(
            (verdict, {}, True, False)
            for verdict in ("fallback", "path-unproven", "unexpected-pass", "newly-unsupported", "flaky")
        ),
    ],
)
def test_which(verdict, keys, dangerous, again):
    """What costs a process or a device is run again only if that was asked for; what needs no run, never."""
    fresh = Fresh()

    got = given([(CASES[0], failed(CASES[0], verdict, **keys))], fresh, dangerous=dangerous)

    assert again == bool(got) == bool(fresh.processes)


def test_limits():
    """At most three of a cause, the smallest, and twenty in all."""
    assert MOST_OF_CAUSE == 3 and MOST == 20
    one = given([(case, failed(case)) for case in CASES], Fresh())
    assert 3 == len(one)
    texts = [
        "alpha bravo",
        "charlie delta",
        "echo foxtrot",
        "golf hotel",
        "india juliett",
        "kilo lima",
        "mike november",
        "oscar papa",
    ]
    many = [(case, failed(case, "error", message=f"{texts[n % 8]} is lost")) for n, case in enumerate(CASES)]
    assert 20 == len(given(many, Fresh()))


@pytest.mark.parametrize(
    "fails, alone, after, processes",
    [
        pytest.param(lambda before, id: True, "error", None, 1, id="always"),
        pytest.param(lambda before, id: False, "pass", "pass", 2, id="never"),
        pytest.param(lambda before, id: len(before) == 4, "pass", "error", 2, id="after four"),
    ],
)
def test_ways(fails, alone, after, processes):
    """Alone first; after the cases that ran before it only if it passes alone."""
    fresh = Fresh(fails)
    judged = [(case, failed(case) if n == 4 else passed(case)) for n, case in enumerate(CASES[:9])]

    ((id, rerun),) = given(judged, fresh).items()

    assert (CASES[4].id, alone, after, processes) == (id, rerun.alone, rerun.after, len(fresh.processes))
    if after:
        assert (4, [case.id for case in CASES[:5]]) == (rerun.before, fresh.processes[1])


def test_one_sequence():
    """Cases of one process share one sequence; a process that ended begins another one."""
    fresh = Fresh()
    judged = [(case, failed(case) if n in (2, 4, 7) else passed(case)) for n, case in enumerate(CASES[:9])]
    calls = {case.id: n % 5 + 1 for n, case in enumerate(CASES[:9])}  # the process ended after the fifth

    got = given(judged, fresh, calls)

    ids = [case.id for case in CASES[:9]]
    assert {ids[2]: 2, ids[4]: 4, ids[7]: 2} == {id: rerun.before for id, rerun in got.items()}
    assert sorted([ids[:5], ids[5:8]]) == sorted(fresh.processes[3:])


@pytest.mark.parametrize("verdict", ["skipped", "not-run", "unsupported", "crash", "timeout", "device-lost"])
def test_not_before(verdict):
    """What was not run, and what ended its process, does not run before another case either."""
    fresh = Fresh()
    judged = [(CASES[0], passed(CASES[0])), (CASES[1], Record(case=CASES[1].id, verdict=Verdict(verdict)))]

    ((_, rerun),) = given([*judged, (CASES[2], failed(CASES[2]))], fresh).items()

    assert (1, [CASES[0].id, CASES[2].id]) == (rerun.before, fresh.processes[1])


def test_probes(monkeypatch):
    """A probe runs in a batch of its own, after all cases."""
    probe, fresh, ran = next(iter(probes())), Fresh(), []

    def run_batch(self, batch):
        ran.append((batch[0].id, len(fresh.processes[-1])))
        return [Judged(Record(case=batch[0].id, verdict=Verdict.PASS), 1)]

    monkeypatch.setattr(SessionBatcher, "run_batch", run_batch)
    monkeypatch.setattr(SessionBatcher, "__init__", lambda self, judge: None)
    monkeypatch.setattr(module, "Judge", object)
    judged = [(case, passed(case)) for case in CASES[:3]]
    judged.append((CASES[3], Record(case=CASES[3].id, verdict=Verdict.SKIPPED)))  # it may hang

    ((id, rerun),) = reruns(JudgedRun(judged), [(probe, failed(probe, "error"))], fresh)

    assert (probe.id, Verdict.PASS, 3) == (id, rerun.after, rerun.before)
    assert [(probe.id, 0), (probe.id, 3)] == ran
