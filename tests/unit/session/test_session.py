"""The session: one run, from the options to the exit code."""

from __future__ import annotations

import pytest

from opmap import SessionOptions, ValidationRun
from opmap.cases.probes import probes
from opmap.vocabulary import Verdict

pytestmark = pytest.mark.platform


class TestSession:
    """A session judges items one by one, or all of them."""

    def test_all(self):
        """The records have the order of the catalogue, whatever the order of the work."""
        options = SessionOptions(provider="cpu", filter=["gather/example.*", "probe/gather/rank-9"], shuffle=1)
        calls = []
        with ValidationRun(options) as session:
            session.judge_all(lambda: calls.append(None))

        ids = [record.case for record in session.results.records]
        assert ids == [*(f"gather/example.{i}" for i in range(1, 6)), "probe/gather/rank-9"]
        assert [case.id for case in session.cases] != ids[:5]
        assert len(calls) == 6
        assert (session.finish(), session.problems) == (0, [])

    def test_one(self):
        """`judge` gives the same record as `judge_all`."""
        with ValidationRun(SessionOptions(provider="cpu", case=["gather/example.1"])) as session:
            session.judge_all()

            assert session.judge(session.cases[0]) == session.results.records[0]

    @pytest.mark.parametrize("required, code", [(False, 0), (True, 1)])
    def test_missing_provider(self, required, code):
        """Cases, and a probe that a test asks for, are not-run."""
        options = SessionOptions(
            provider="AbsentExecutionProvider", require_provider=required, case=["gather/example.1"]
        )
        with ValidationRun(options) as session:
            session.judge_all()
            record = session.judge(probes()[0])

        assert {Verdict.NOT_RUN} == {record.verdict, session.results.records[0].verdict}
        assert record.case == probes()[0].id and record.operator == ", ".join(probes()[0].operators)
        assert "AbsentExecutionProvider is not in the installed" in record.message
        assert (session.provider, session.exit_code) == (None, code)
