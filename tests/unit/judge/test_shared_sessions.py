"""Cases of one model share a session, one after the other; and both this and packs in a worker."""

from __future__ import annotations

import json

import pytest
from judged_sessions import SELECTION, every_run, fresh_run, judged, records, second_run
from tiers import all_cases

from opmap import SessionOptions, ValidationRun
from opmap.diagnosis.diagnose import quick_diagnoses
from opmap.diagnosis.judged_run import JudgedRun
from opmap.engines.providers import Provider
from opmap.engines.sessions import CPU, DIRECTML, SessionProvider
from opmap.engines.steps import Result, Run
from opmap.engines.worker import WorkerCrashed, WorkerProvider, WorkerTimeout
from opmap.judge.judge import Judge
from opmap.judge.record import encode
from opmap.judge.session_batcher import SessionBatcher
from opmap.vocabulary import Verdict

fresh = pytest.fixture(fresh_run, scope="module")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"fresh_sessions": True}, {(False, False)}),
        ({}, {(False, False), (True, False)}),
        ({"pack": 8}, {(True, True)}),
    ],
)
def test_one_way(monkeypatch, options, wanted):
    """A case alone, cases that share a session, and packs are performed in one place."""
    run, open_groups, seen = Judge.run, [], set()

    def noting(judge, group, *, packed=False):
        open_groups.append(group)
        seen.add((len(group) > 1, packed))
        try:
            return run(judge, group, packed=packed)
        finally:
            open_groups.pop()

    def fault(planted, step, result):
        assert open_groups, "a step outside of Judge.run"
        return result

    monkeypatch.setattr(Judge, "run", noting)
    session, planted = judged(fault, filter=("gather/float32/d1*",), **options)

    assert planted.opened and {Verdict.PASS} == {record.verdict for record in session.results.records}
    assert wanted <= seen <= wanted | {(False, False)}


class TestSharedSessions:
    """Cases that have the same model share a session. Nothing else in their records changes."""

    def test_same_records(self, fresh):
        session, planted = judged()

        assert encode(session.results.records) == encode(fresh[0].results.records)
        assert planted.opened < fresh[1].opened
        assert planted.steps.count(Run) == fresh[1].steps.count(Run)

    @pytest.mark.slow
    def test_serialized(self):
        """Cases whose session writes its graph share it too; those whose proof counts the runs of a session do not."""
        judge = Judge(Provider(DIRECTML, "1", "emulated", SessionProvider(CPU)))
        cases = [case for case in all_cases("standard") if case.id.startswith("gather_elements/uint8/d1.axis0/")]
        batches = SessionBatcher(judge).batches(cases)
        together = {case.variant for batch in batches if len(batch) > 1 for case in batch}
        assert (
            {"plain", "serialized"}
            <= together
            <= {"plain", "init", "node"} | {f"{base}serialized" for base in ("", "init.", "node.")}
        )

    @pytest.mark.parametrize("shuffle", [None, 4])
    def test_order(self, shuffle):
        """Only neighbours share a session: the order of the runs is that of the cases."""
        session, _ = judged(shuffle=shuffle)
        order = [case.id for case, _ in session.judged]

        assert order == [case.id for case in session.cases]
        numbers = [session.calls[case] for case in order]
        assert numbers == sorted(numbers)

    def test_wrong_at_the_second_run(self):
        """A fault that is there from the second run of a session on is told as such, with the other cases of the
        batch.
        """
        session, _ = judged(second_run)
        failed = [record for record in session.results.records if record.failed and record.variant in ("plain", "node")]

        assert failed
        for record in failed:
            assert (Verdict.MISMATCH, True) == (
                record.verdict,
                record.message.startswith("fails only when batched with "),
            )
            assert set(record.batched_with) <= records(session).keys() - {record.case}
            assert f"--case {record.batched_with[0]}" in session.again(
                next(c for c in session.cases if c.id == record.case)
            )
        assert any(record.batched_with is None and record.verdict == Verdict.PASS for record in session.results.records)

        run = JudgedRun(session.judged, session.calls)
        told = [
            one
            for one in quick_diagnoses(run, lambda: pytest.fail("nothing is run again"), most=99)
            if one.cause.only_batched
        ]
        assert {record.case for record in failed} == {f.case.id for one in told for f in one.cause.failures}
        assert {"batched"} == {one.stability.kind for one in told}
        assert all(failed[0].batched_with[0] in one.stability.text or len(told) > 1 for one in told)

    def test_always_wrong(self, fresh):
        """A case that is wrong alone too has the record that it has alone."""

        session, _ = judged(every_run)
        alone, _ = judged(every_run, fresh_sessions=True)

        assert encode(alone.results.records) == encode(session.results.records)
        assert {Verdict.MISMATCH} == {r.verdict for r in session.results.records if r.actual and r.placement.proven}

    def test_error_at_the_third_run(self):
        """An error ends the session. One case is told with the others of the batch, which pass."""

        def fault(planted, step, result):
            return Result(error="planted", stage="run") if planted.runs == 3 and isinstance(step, Run) else result

        session, _ = judged(fault)
        failed = [record for record in session.results.records if record.failed]
        alike = [r for r in failed if r.batched_with]

        assert alike
        assert all((Verdict.ERROR, "run") == (r.verdict, r.stage) and r.message.endswith(": planted") for r in alike)

    def test_crash_when_a_session_ends(self, fresh):
        """A crash at the release of a session that several cases shared belongs to the last of them."""

        def fault(planted, step, result):
            if planted.runs > 1 and step.__class__.__name__ == "Clear":
                planted.runs = 0
                raise WorkerCrashed("planted")
            return result

        session, _ = judged(fault)
        shared = [record for record in session.results.records if record.verdict == Verdict.CRASH]

        assert shared
        assert all(
            record.batched_with and record.message.endswith(": planted")
            for record in shared
            if record.variant == "plain"
        )

    def test_hang(self):
        """A case that hangs is not run again."""
        hangs = []

        def fault(planted, step, result):
            if planted.runs == 2 and isinstance(step, Run):
                hangs.append(planted.runs)
                raise WorkerTimeout("planted", stage="run")
            return result

        session, _ = judged(fault, filter=("gather/float32/*",))
        timeouts = [r for r in session.results.records if r.verdict == Verdict.TIMEOUT]

        assert len(timeouts) == len(hangs) > 0

    def test_profile(self):
        """Where a profile is the proof, each case has a session of its own: a profile counts the runs of all cases as
        one.
        """
        session, _ = judged(proof="profile")
        alone, _ = judged(proof="profile", fresh_sessions=True)

        assert encode(alone.results.records) == encode(session.results.records)
        assert "profile" in {r.placement.source for r in session.results.records if r.placement}

    def test_resumed(self, tmp_path):
        """An interrupted run that is resumed has the same records as one that was not."""
        whole = tmp_path / "whole"
        options = {"provider": "cpu", "filter": SELECTION, "pack": 4}
        with ValidationRun(SessionOptions(**options, report=str(whole))) as session:
            session.judge_all()
            session.finish()
        part = tmp_path / "part"
        with ValidationRun(SessionOptions(**options, report=str(part))) as session:
            calls = iter(range(5))  # in the middle of a pack

            def stop():
                if next(calls, None) is None:
                    session.results.interrupted = True

            session.judge_all(stop)
            session.finish()
        with ValidationRun(SessionOptions(**options, resume=str(part))) as session:
            assert 0 < len(session.items)
            session.judge_all()
            session.finish()

        assert (whole / "results.jsonl").read_bytes() == (part / "results.jsonl").read_bytes()
        times = json.loads((whole / "times.json").read_bytes())["seconds"]
        assert set(times) == {json.loads(line)["case"] for line in (whole / "results.jsonl").read_bytes().splitlines()}


class TestInWorker:
    """Shared sessions and packs run through a worker process as in this process."""

    @pytest.mark.parametrize("options", [{"pack": 8}, {}])
    def test_same_records(self, options):
        here, _ = judged(filter=("gather_elements/int8/*",), **options)
        with WorkerProvider(CPU) as worker:
            session = ValidationRun(SessionOptions(provider="cpu", filter=("gather_elements/int8/*",), **options))
            session._opened = Judge(Provider.of(worker.facts, worker), brief=True)
            session.judge_all()

        assert encode(here.results.records) == encode(session.results.records)
