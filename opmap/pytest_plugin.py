"""The pytest plugin. A test gets each case of the tier as `opmap_case`, each probe and contract probe as `opmap_probe`.

    def test_case(opmap_case, opmap_check):
        opmap_check(opmap_case)

Light to import: the rest of opmap is loaded when a test asks for these fixtures, or when an option asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from .errors import OpmapError, printable
from .judge.tally import Tally
from .session.options import OPTIONS, PYTEST, SessionOptions, add_pytest_options, of_command
from .vocabulary import Verdict

if TYPE_CHECKING:
    from .cases.case import Case
    from .cases.contract_probes import ContractProbe
    from .cases.probes import Probe
    from .engines.providers import ProviderMissing
    from .judge.judge import Judge
    from .judge.record import Record
    from .session import Session

    Check: TypeAlias = Callable[[Case | Probe | ContractProbe], Record]

_STATE = pytest.StashKey["_State"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of `opmap validate`, with the prefix --opmap-."""
    add_pytest_options(parser.getgroup("opmap", "opmap: DirectML conformance").addoption)


def pytest_configure(config: pytest.Config) -> None:
    """Opens the provider and reads the known failures if they were named: an error in them ends the run here."""
    state = config.stash[_STATE] = _State(config)
    config.pluginmanager.register(state, "opmap-state")
    named, known_failures = config.getoption("--opmap-provider"), config.getoption("--opmap-known-failures")
    if named or known_failures:
        state.open()
    if named:
        _refuse_workers(config, state)


def _refuse_workers(config: pytest.Config, state: _State) -> None:
    """Raises UsageError if several processes of pytest-xdist would use one adapter."""
    workers = getattr(config.option, "numprocesses", None) or 0
    provider = state.session.provider
    if workers > 1 and provider is not None and provider.directml:
        state.close()
        raise pytest.UsageError(f"opmap: one adapter takes one worker, got -n {workers}: leave out -n, or give -n 1")


def _usage_error(error: OpmapError) -> pytest.UsageError:
    """Returns the error that ends pytest with one line. It names an option as pytest does: --opmap-filter for --filter."""
    names = "|".join(name.replace("_", "-") for name in of_command(PYTEST, OPTIONS))
    return pytest.UsageError(
        printable("opmap: " + re.sub(rf"(?<![\w-])--(?=(?:{names})(?![\w-]))", "--opmap-", str(error)))
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Returns the line that says where the cases run, if a provider was named."""
    return config.stash[_STATE].header() if config.getoption("--opmap-provider") else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes a test per case of every test function with `opmap_case`; with `opmap_probe`, a test per probe."""
    for fixture in ("opmap_case", "opmap_probe"):
        if fixture in metafunc.fixturenames:
            session = metafunc.config.stash[_STATE].session
            try:
                items: Sequence[Case | Probe | ContractProbe] = (
                    session.cases if fixture == "opmap_case" else session.probes
                )
            except OpmapError as error:
                raise _usage_error(error) from None
            metafunc.parametrize(fixture, items, ids=[item.id for item in items])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fails a run in which cases ran and none is proven to have run on the provider, or with a stale known failure.

    A run whose cases are all skipped because they are dangerous fails too, and if the provider is required, one without a proven case.
    """
    if exitstatus != pytest.ExitCode.OK or session.config.option.collectonly:
        return
    state = session.config.stash[_STATE]
    lacking = bool(state.tally.ran or state.required) and not state.tally.shown
    # A run of contract probes alone has no cases. A session that uses nothing of opmap must not load it here.
    unproven = lacking and not state.session.selection.only_contract
    if unproven or state.tally.only_skipped or state.problems():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints how many cases are proven to have run on the provider, and the stale known failures."""
    state = terminalreporter.config.stash[_STATE]
    if state.tally.judged or state.required:
        terminalreporter.write_line(f"{state.header()}: {state.tally.sentence('there')}")
    for problem in state.problems():
        terminalreporter.write_line(printable(f"opmap: {problem}"), red=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the provider."""
    if _STATE in config.stash:
        config.stash[_STATE].close()


@pytest.fixture
def opmap_check(request: pytest.FixtureRequest) -> Check:
    """A function that judges a case or probe and returns its record. By the verdict it fails, skips or xfails the test."""
    state = request.config.stash[_STATE]
    state.open()

    def check(item: Case | Probe | ContractProbe) -> Record:
        record = state.session.judge(item)
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

    It is registered as a plugin, so that it receives every report. Under pytest-xdist the controlling process receives the
    reports of all workers.
    """

    def __init__(self, config: pytest.Config):
        self.config = config
        self.required = bool(config.getoption("--opmap-require-provider"))
        self.tally = Tally()
        self._failures = 0
        self._counted: dict[tuple[str | None, str], int] = {}

    @cached_property
    def session(self) -> Session:
        """The session. Raises UsageError if the file of known failures cannot be used."""
        from .session import Session

        prefix, options = "opmap_", vars(self.config.option)
        named = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
        try:
            return Session(SessionOptions.read(named))
        except OpmapError as error:
            raise _usage_error(error) from None

    def open(self) -> Judge | ProviderMissing:
        """Returns the judge on the provider, or the error that says why the provider is missing. Raises UsageError."""
        try:
            return self.session.open()
        except OpmapError as error:
            raise _usage_error(error) from None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts the cases that a test judged.

        Each report of a test repeats the properties of the reports before it: only the new ones are counted.
        """
        test = getattr(report, "worker_id", None), report.nodeid
        properties: list[tuple[str, Any]] = report.user_properties[self._counted.get(test, 0) :]
        self._counted[test] = len(report.user_properties)
        keys = ("opmap_case", "opmap_verdict", "opmap_stage", "opmap_proven", "opmap_asserted")
        values = ([value for name, value in properties if name == key] for key in keys)
        for case, verdict, stage, proven, asserted in zip(*values, strict=True):
            self.tally.add(case, verdict, stage, proven=proven == "true", asserted=asserted == "true")

    def count_failure(self, session: pytest.Session) -> None:
        """Counts a failed case, and ends the run after as many as --opmap-max-failures allows."""
        self._failures += 1
        if self._failures == self.config.getoption("--opmap-max-failures"):
            session.shouldfail = f"opmap: stopped after {self._failures} failures"

    def header(self) -> str:
        """Returns the line that says where the cases run."""
        judge, provider = self.open(), self.session.provider
        if provider is None:
            return printable(f"opmap: {self.session.options.provider} is not available ({judge})")
        product = "" if provider.third_party else "DirectML " if provider.direct else "ONNX Runtime "
        version = f" ({product}{provider.version})" if provider.version else ""
        adapter = f", adapter {provider.adapter}" if provider.adapter else ""
        where = f"{provider.name}{version}{adapter}, device class {provider.device_class or 'unknown'}"
        return printable(f"opmap: {where}")

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
