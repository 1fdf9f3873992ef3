"""The pytest plugin. A test gets each case of the tier as `opmap_case`, each probe and contract probe as `opmap_probe`.

    def test_case(opmap_case, opmap_check):
        opmap_check(opmap_case)

Light to import: the rest of opmap is loaded when a test asks for these fixtures, or when an option asks for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

import pytest

from .errors import OpmapError, printable
from .judge.tally import Tally, total
from .session.options import OPTIONS, PYTEST, SessionOptions, add_pytest_options, of_command
from .vocabulary import Verdict

if TYPE_CHECKING:
    from .cases.case import Case
    from .cases.contract_probes import ContractProbe
    from .cases.probes import Probe
    from .judge.record import Record
    from .session import ValidationRun

    Check: TypeAlias = Callable[[Case | Probe | ContractProbe], Record]

_STATE = pytest.StashKey["_State"]()

_ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
"""The exit codes of a run that was not interrupted."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of `opmap validate`, with the prefix --opmap-."""
    add_pytest_options(parser.getgroup("opmap", "opmap: DirectML conformance").addoption)


def pytest_configure(config: pytest.Config) -> None:
    """Opens the provider, reads the known failures and chooses the cases, if they were named: an error in them ends the
    run here.
    """
    state = config.stash[_STATE] = _State(config)
    config.pluginmanager.register(state, "opmap-state")
    given = {name for name in of_command(PYTEST, OPTIONS) if getattr(config.option, f"opmap_{name}")}
    with _usage_errors():
        if given & {"provider", "known_failures", "baseline"}:
            state.session.open()
        if given & {"filter", "case", "shard", "report"}:
            state.session.items  # noqa: B018  # chooses them, and raises if there are none
    if "provider" in given:
        _refuse_workers(config, state)


def _refuse_workers(config: pytest.Config, state: _State) -> None:
    """Raises UsageError if several processes of pytest-xdist would use one adapter."""
    workers = getattr(config.option, "numprocesses", None) or 0
    provider = state.session.provider
    if workers > 1 and provider is not None and provider.directml:
        state.close()
        raise pytest.UsageError(f"opmap: one adapter takes one worker, got -n {workers}: leave out -n, or give -n 1")


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Makes an error of opmap the one that ends pytest with one line.

    It names an option as pytest does: --opmap-filter for --filter.
    """
    try:
        yield
    except OpmapError as error:
        names = "|".join(name.replace("_", "-") for name in of_command(PYTEST, OPTIONS))
        text = re.sub(rf"(?<![\w-])--(?=(?:{names})(?![\w-]))", "--opmap-", str(error))
        raise pytest.UsageError(printable(f"opmap: {text}")) from None


def pytest_report_header(config: pytest.Config) -> str | None:
    """Returns the line that says where the cases run, if a provider was named."""
    return config.stash[_STATE].header() if config.getoption("--opmap-provider") else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes a test per case of every test function with `opmap_case`; with `opmap_probe`, a test per probe."""
    for fixture in ("opmap_case", "opmap_probe"):
        if fixture in metafunc.fixturenames:
            session = metafunc.config.stash[_STATE].session
            with _usage_errors():
                items: Sequence[Case | Probe | ContractProbe] = (
                    session.cases if fixture == "opmap_case" else session.probes
                )
            metafunc.parametrize(fixture, items, ids=[item.id for item in items], indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Opens the results bundle that was asked for. Under pytest-xdist the controlling process writes it."""
    state = session.config.stash[_STATE]
    if state.writes:
        with _usage_errors():
            state.session.open_bundle()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to a report the records of what was judged since the report before it. pytest-xdist sends them with it."""
    report = yield
    state = item.config.stash[_STATE]
    if state.judged:
        vars(report)["opmap_records"], state.judged = state.judged, []
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Completes the bundle.

    Fails a run in which cases ran and none is proven to have run on the provider, or with a stale known failure.

    A run whose provider was given no case fails too, and if the provider is required, one without a proven case.
    """
    state = session.config.stash[_STATE]
    state.end(exitstatus)
    if exitstatus not in _ENDED or session.config.option.collectonly:
        return
    lacking = bool(state.tally.ran or state.required) and not state.tally.shown
    # A run of contract probes alone has no cases. A session that uses nothing of opmap must not load it here.
    unproven = lacking and not state.session.selection.only_contract
    state.red = bool(unproven or state.tally.nothing_given or state.problems() or state.unwritten)
    if exitstatus == pytest.ExitCode.OK and state.red:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Prints how many cases are proven to have run on the provider, the stale known failures, the total, and where the
    report is.
    """
    state = terminalreporter.config.stash[_STATE]
    if state.tally.judged or state.required:
        terminalreporter.write_line(f"{state.header()}: {state.tally.sentence('there')}")
    for problem in [*state.problems(), *state.unwritten]:
        terminalreporter.write_line(printable(f"opmap: {problem}"), red=True)
    if state.baseline and state.tally.answers:
        changes = ", ".join(f"{count:,} {change}" for change, count in state.tally.changes.items())
        terminalreporter.write_line(printable(f"opmap: {state.baseline}: {changes or 'nothing changed'}"))
    if state.tally.answers:
        provider, verdicts = state.session.provider, sum(state.tally.counts, Counter[str]())
        not_run = state.required and verdicts[Verdict.NOT_RUN]
        failed = any(verdicts[verdict] for verdict in Verdict if not verdict.good)
        code = int(state.red or failed or bool(not_run)) if exitstatus in _ENDED else 130
        text = total(state.tally.counts, code, provider.name if provider else "the provider")
        terminalreporter.write_line(printable(f"opmap: {text}"), red=bool(code), green=not code)
    if state.report:
        terminalreporter.write_line(printable(f"opmap: report: {state.report}"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the provider."""
    if _STATE in config.stash:
        config.stash[_STATE].close()


@pytest.fixture
def opmap_case(request: pytest.FixtureRequest) -> Case:
    """Each case of the tier in turn: a test that takes it runs once per case."""
    case: Case = request.param
    return case


@pytest.fixture
def opmap_probe(request: pytest.FixtureRequest) -> Probe | ContractProbe:
    """Each probe in turn, and each contract probe if the tier has them."""
    probe: Probe | ContractProbe = request.param
    return probe


@pytest.fixture
def opmap_check(request: pytest.FixtureRequest) -> Check:
    """A function that judges a case or probe and returns its record.

    By the verdict it fails, skips or xfails the test.
    """
    state = request.config.stash[_STATE]
    with _usage_errors():
        state.session.open()

    from .files import to_json

    def check(item: Case | Probe | ContractProbe) -> Record:
        begin = perf_counter()
        record = state.session.judge(item)
        state.judged.append((perf_counter() - begin, state.session.calls.get(item.id, 0), to_json(record).decode()))
        request.node.user_properties += [
            ("opmap_case", record.case),
            ("opmap_verdict", str(record.verdict)),  # pytest-xdist sends no enums
            ("opmap_provider", record.provider),
            ("opmap_stage", str(record.stage or "")),
            ("opmap_proven", str(record.proven).lower()),
            ("opmap_asserted", str(record.asserted).lower()),
            ("opmap_device_class", record.device_class or ""),
        ]
        message = printable(f"{record.verdict}{f' at {record.stage}' if record.stage else ''}: {record.message}")
        if record.verdict == Verdict.KNOWN_FAILURE:
            pytest.xfail(message)
        if record.verdict == Verdict.SKIPPED or (record.verdict == Verdict.NOT_RUN and not state.required):
            pytest.skip(message)
        if not record.good:
            state.count_failure(request.session)
            pytest.fail(f"{item.id}: {message}", pytrace=False)
        return record

    return check


class _State:
    """The session of opmap in one pytest process, and the counts of its results.

    It is registered as a plugin, so that it receives every report. Under pytest-xdist the controlling process receives
    the reports of all workers. `judged` has the records of which there is no report yet, as JSON, each behind its
    seconds and the number of its run in the provider's process. `_order` has the ids that each worker judged.
    """

    def __init__(self, config: pytest.Config):
        self.config = config
        self.required = bool(config.getoption("--opmap-require-provider"))
        is_worker, options = hasattr(config, "workerinput"), config.option
        self.writes = bool(options.opmap_report) and not is_worker and not options.collectonly
        self.tally = Tally()
        self.judged: list[tuple[float, int, str]] = []
        self._order: dict[str, list[str]] = {}
        self.unwritten: list[str] = []
        self.report: str | None = None
        self.red = False
        self._failures = 0

    @cached_property
    def session(self) -> ValidationRun:
        """The session. Raises UsageError if the file of known failures cannot be used."""
        from .session import ValidationRun

        prefix, options = "opmap_", vars(self.config.option)
        named = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
        with _usage_errors():
            return ValidationRun(SessionOptions.read(named), whole=False)

    @cached_property
    def _awaited(self) -> set[str]:
        """The ids of the chosen cases and probes that have no record in the bundle yet."""
        return {item.id for item in self.session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts what a test judged, and writes its records into the bundle: of a case that is judged twice, the
        first.
        """
        for seconds, call, text in getattr(report, "opmap_records", ()):
            record = self._decoded(text)
            self.tally.add(record)
            if self.writes and record.case in self._awaited:
                self._awaited.remove(record.case)
                self.session.results.add(record, seconds)
                self.session.calls[record.case or ""] = call
                self._order.setdefault(getattr(report, "worker_id", ""), []).append(record.case or "")

    @staticmethod
    def _decoded(text: str) -> Record:
        from msgspec import json

        from .judge.record import Record

        return json.decode(text, type=Record)

    def count_failure(self, session: pytest.Session) -> None:
        """Counts a failed case, and ends the run after as many as --opmap-max-failures allows."""
        self._failures += 1
        if self._failures == self.config.getoption("--opmap-max-failures"):
            session.shouldfail = f"opmap: stopped after {self._failures} failures"

    def end(self, exitstatus: int) -> None:
        """Completes the bundle, if there is one."""
        session = self.session if self.writes else None
        if session and session.bundle:
            from .session.ending import end_run, quick

            session.results.interrupted = exitstatus not in _ENDED
            session.results.order(session.items)
            session.ran_in_order([id for ids in self._order.values() for id in ids])
            end_run(session, quick, self.unwritten)
            self.tally = session.results.tally()  # some may be flaky
            self.report = str(session.bundle.folder / "report.html")

    def header(self) -> str:
        """Returns the line that says where the cases run."""
        with _usage_errors():
            judge, provider = self.session.open(), self.session.provider
        if provider is None:
            return printable(f"opmap: {self.session.options.provider} is not available ({judge})")
        return printable(f"opmap: {provider.described}")

    @property
    def baseline(self) -> str | None:
        """What the lines about the baseline begin with; None if there is no baseline."""
        found = self.session.baseline if self.config.option.opmap_baseline else None
        return f"beside the baseline {found.name}" if found else None

    def problems(self) -> list[str]:
        """Returns a line for each stale known failure; none in a worker of pytest-xdist and with --collect-only."""
        options = self.config.option
        if not options.opmap_known_failures or hasattr(self.config, "workerinput") or options.collectonly:
            return []
        return self.session.problems

    def close(self) -> None:
        """Ends the provider, if it was opened."""
        if "session" in self.__dict__:
            self.session.close()
