"""The session: one run, from the options to the exit code."""

from __future__ import annotations

import dataclasses

import pytest

from opmap import Session, SessionOptions
from opmap.catalogue.probes import probes
from opmap.cli.command_options import parser
from opmap.cli.options import PROVIDER, SESSION_OPTIONS, SHARED_OPTIONS, add_pytest_options
from opmap.vocabulary import Verdict

WRITTEN = {"report", "resume", "write_known_failures"}
"""The options about files that only the command line writes."""

TOGETHER = {option.name.replace("-", "_") for option in SESSION_OPTIONS}
"""The options about cases that run together. pytest runs one case at a time."""


class TestOptions:
    """Options that the command line and the pytest plugin share are declared once."""

    def test_every_option(self):
        """Every field of the session's options is declared, and every shared option is a field."""
        declared = {option.name.replace("-", "_") for option in SHARED_OPTIONS}

        assert {field.name for field in dataclasses.fields(SessionOptions)} - WRITTEN - TOGETHER == declared

    def test_defaults(self):
        """Without options, the command line and pytest ask for the same session."""
        pytest_defaults = {}
        add_pytest_options(
            lambda name, default=None, **_: pytest_defaults.update({name.removeprefix("--opmap-"): default})
        )
        values = {name.replace("-", "_"): value for name, value in pytest_defaults.items()}

        command_line = SessionOptions.read(vars(parser().parse_args(["validate"])))

        assert len(values) == len(SHARED_OPTIONS)
        assert values["provider"] is None and command_line.provider == PROVIDER.default
        assert SessionOptions.read(values) == command_line

    def test_read(self):
        """Values of other options are left out, and None is the default."""
        options = SessionOptions.read({"provider": None, "repeat": 3, "json": True})

        assert options == SessionOptions(repeat=3)


class TestSession:
    """A session judges items one by one, or all of them."""

    def test_all(self):
        """The records have the order of the catalogue, whatever the order of the work."""
        options = SessionOptions(provider="cpu", filter=["gather/example.*", "probe/*/rank-9"], shuffle=1)
        calls = []
        with Session(options) as session:
            session.judge_all(lambda: calls.append(None))

        ids = [record.case for record in session.results.records]
        assert ids == [*(f"gather/example.{i}" for i in range(1, 6)), "probe/gather/rank-9"]
        assert [case.id for case in session.cases] != ids[:5]
        assert len(calls) == 6
        assert (session.finish(), session.problems) == (0, [])

    def test_one(self):
        """`judge` gives the same record as `judge_all`."""
        with Session(SessionOptions(provider="cpu", case=["gather/example.1"])) as session:
            session.judge_all()

            assert session.judge(session.cases[0]) == session.results.records[0]

    @pytest.mark.parametrize("required, code", [(False, 0), (True, 1)])
    def test_missing_provider(self, required, code):
        """Cases, and a probe that a test asks for, are not-run."""
        options = SessionOptions(
            provider="AbsentExecutionProvider", require_provider=required, case=["gather/example.1"]
        )
        with Session(options) as session:
            session.judge_all()
            record = session.judge(probes()[0])

        assert {Verdict.NOT_RUN} == {record.verdict, session.results.records[0].verdict}
        assert record.case == probes()[0].id and record.operator == ", ".join(probes()[0].operators)
        assert "AbsentExecutionProvider is not in the installed" in record.message
        assert (session.provider, session.exit_code) == (None, code)
