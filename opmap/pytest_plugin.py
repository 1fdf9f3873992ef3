"""The pytest plugin: `opmap_case` is each case of the tier, `opmap_probe` each probe, `opmap_check` judges one.

    def test_case(opmap_case, opmap_check):
        opmap_check(opmap_case)

Light to import: opmap itself is loaded when a test asks for these fixtures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from . import options

if TYPE_CHECKING:
    from .verdicts.judge import Judge
    from .verdicts.record import Record

_STATE = pytest.StashKey["_State"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, all with the prefix --opmap-."""
    group = parser.getgroup("opmap", "opmap: DirectML conformance")
    group.addoption(
        "--opmap-provider", metavar="NAME", help="auto, dml, cpu, an EP's name, fault:NAME or MODULE:FACTORY"
    )
    group.addoption("--opmap-tier", default="smoke", choices=("smoke", "standard", "full"), help="how many cases")
    group.addoption("--opmap-filter", action="append", default=[], metavar="GLOB", help="only cases whose id matches")
    group.addoption(
        "--opmap-case",
        action="append",
        default=[],
        metavar="ID",
        help="only these cases; with =@FILE, those in a file, one id per line",
    )
    group.addoption("--opmap-shard", type=options.shard, default=(1, 1), metavar="I/N", help="the I-th of N parts")
    group.addoption(
        "--opmap-repeat",
        type=options.count,
        default=1,
        metavar="N",
        help="run each case N times; different results are a mismatch",
    )
    group.addoption(
        "--opmap-shuffle",
        type=options.number,
        metavar="SEED",
        help="another order of the cases, the same for the same seed",
    )
    group.addoption(
        "--opmap-require-provider", action="store_true", help="fail where a case is not proven to run on the provider"
    )
    group.addoption(
        "--opmap-known-failures", type=options.path, metavar="FILE", help="TOML file of failures that are known"
    )
    group.addoption("--opmap-max-failures", type=options.count, metavar="N", help="stop after N cases that are wrong")
    group.addoption("--opmap-adapter", metavar="SUBSTRING", help="DirectML: the adapter whose name holds this")
    group.addoption("--opmap-device-id", type=options.number, metavar="N", help="DirectML: the adapter of this number")
    group.addoption(
        "--opmap-disable-metacommands", action="store_true", help="DirectML: without the driver's own kernels"
    )
    group.addoption(
        "--opmap-timeout-per-case", type=options.seconds, default=30.0, metavar="S", help="DirectML: seconds"
    )
    group.addoption(
        "--opmap-dml-runtime", metavar="DIR", help="DirectML on Linux: a folder that tools/dml_linux set up"
    )


def pytest_configure(config: pytest.Config) -> None:
    """A provider or a file that means nothing is a usage error, not a failure of every case."""
    config.pluginmanager.register(_state(config), "opmap-state")
    if config.getoption("--opmap-known-failures"):
        _state(config).known()
    if config.getoption("--opmap-provider"):
        state = _state(config)
        workers = getattr(config.option, "numprocesses", None) or 0
        if workers > 1 and not isinstance(state.judge(), Exception) and state.judge().provider.directml:
            state.close()
            raise pytest.UsageError(
                f"opmap: one adapter takes one worker, got -n {workers}: leave out -n, or give -n 1"
            )
        state.judge()
    if config.getoption("--opmap-known-failures"):
        _state(config).entries()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Provider and versions, where a provider was named."""
    return _state(config).header() if config.getoption("--opmap-provider") else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per case for every test function that takes `opmap_case`, and one per probe for `opmap_probe`."""
    from .errors import InputError

    for fixture, items in (("opmap_case", _State.cases), ("opmap_probe", _State.probes)):
        if fixture in metafunc.fixturenames:
            try:
                found = items(_state(metafunc.config))
            except InputError as error:
                raise pytest.UsageError(f"opmap: {error}") from None
            metafunc.parametrize(fixture, found, ids=[item.id for item in found])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run in which nothing was proven on the provider asked for, or with a stale known failure, is red; where the
    provider was required, also one that judged nothing."""
    state = _state(session.config)
    if exitstatus != pytest.ExitCode.OK or session.config.option.collectonly:
        return
    unproven = not state.proven and (state.must_prove or state.required)
    if unproven or state.problems():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter) -> None:
    """What ran where."""
    state = _state(terminalreporter.config)
    if state.judged or state.required:
        terminalreporter.write_line(
            f"{state.header()}: {state.proven} of {state.judged} cases proven to have run there"
        )
    for problem in state.problems():
        terminalreporter.write_line(f"opmap: {problem}", red=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the provider."""
    _state(config).close()


@pytest.fixture
def opmap_check(request: pytest.FixtureRequest):
    """A function that judges a case or probe, and fails, skips or xfails the test by its verdict; it returns the record."""
    state = _state(request.config)

    def check(case) -> Record:
        record = state.judge_item(case)
        request.node.user_properties += [
            ("opmap_case", record.case),
            ("opmap_verdict", str(record.verdict)),
            ("opmap_provider", record.provider),
            ("opmap_proven", str(record.proven).lower()),
            ("opmap_device_class", record.device_class or ""),
        ]
        message = f"{record.verdict}{f' at {record.stage}' if record.stage else ''}: {record.message}"
        required = state.required and record.verdict == "not-run"
        if record.verdict == "known-failure":
            pytest.xfail(message)
        if record.verdict == "not-run" and not required:
            pytest.skip(message)
        if not record.good or required:
            state.failed += 1
            if state.failed == state.config.getoption("--opmap-max-failures"):
                request.session.shouldfail = f"opmap: stopped after {state.failed} failures"
            pytest.fail(f"{case.id}: {message}", pytrace=False)
        return record

    return check


class _State:
    """What one session knows: the options, the provider once opened, and what was proven.

    It is a plugin of its own, so that it counts what is reported: under pytest-xdist, in the process that started the others,
    what all of them report.
    """

    def __init__(self, config: pytest.Config):
        self.config = config
        self.name = config.getoption("--opmap-provider") or "auto"
        self.required = config.getoption("--opmap-require-provider")
        self.judged = self.proven = self.failed = 0
        self.must_prove = False
        self._told: dict[tuple, int] = {}
        self._judge: Judge | Exception | None = None
        self._entries = self._known = self._problems = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts the cases that a test judged, each once: every report of a test repeats what those before it told."""
        test = getattr(report, "worker_id", None), report.nodeid
        new = report.user_properties[self._told.get(test, 0) :]
        self._told[test] = len(report.user_properties)
        keys = ("opmap_case", "opmap_verdict", "opmap_proven")
        for case, verdict, proven in zip(*([value for name, value in new if name == key] for key in keys)):
            self._count(case, verdict, proven == "true")

    def _count(self, case: str, verdict: str, proven: bool) -> None:
        if not case.startswith("probe/"):
            self.judged += 1
            self.proven += proven
            self.must_prove |= verdict != "not-run"

    def cases(self) -> list:
        return self._shuffled(self._selected().cases())

    def probes(self) -> list:
        judge = self.judge()
        return [] if isinstance(judge, Exception) else self._shuffled(self._selected().probes(judge.provider))

    def _selected(self):
        from .cases.selection import Selection, case_ids

        option = self.config.getoption
        return Selection(
            tier=option("--opmap-tier"),
            globs=option("--opmap-filter"),
            ids=case_ids(option("--opmap-case")),
            shard=option("--opmap-shard"),
        )

    def _shuffled(self, items: list):
        from .verdicts.run import shuffled

        return shuffled(items, self.config.getoption("--opmap-shuffle"))

    def judge(self) -> Judge | Exception:
        """The judge, or the error that says why the provider is missing."""
        if self._judge is None:
            from .errors import OpmapError
            from .execution.providers import ProviderMissing
            from .session import open_judge

            option = self.config.getoption
            place = {
                "adapter": option("--opmap-adapter") or None,
                "device_id": option("--opmap-device-id"),
                "disable_metacommands": option("--opmap-disable-metacommands"),
                "timeout": option("--opmap-timeout-per-case"),
                "dml_runtime": option("--opmap-dml-runtime"),
            }
            try:
                self._judge = open_judge(self.name, place=place, brief=True)
            except ProviderMissing as error:
                self._judge = error
            except OpmapError as error:
                raise pytest.UsageError(f"opmap: {error}") from None
        return self._judge

    def header(self) -> str:
        from .verdicts.judge import Judge

        judge = self.judge()
        if not isinstance(judge, Judge):
            return f"opmap: {self.name} is not there ({judge})"
        provider = judge.provider
        version = f" (ONNX Runtime {provider.version})" if provider.version else ""
        adapter = f", adapter {provider.adapter}" if provider.adapter else ""
        return f"opmap: {provider.name}{version}{adapter}, device class {provider.device_class or 'unknown'}"

    def judge_item(self, item) -> Record:
        from .cases.probes import Probe
        from .verdicts.judge import Judge
        from .verdicts.probes import judge_probe
        from .verdicts.run import missing, settle

        judge = self.judge()
        if not isinstance(judge, Judge):
            return missing(item, self.name, judge)
        repeat = range(self.config.getoption("--opmap-repeat"))
        records = [judge_probe(item, judge.provider) if isinstance(item, Probe) else judge(item) for _ in repeat]
        return self.known().apply(item, settle(records))

    def entries(self) -> tuple:
        """The known failures of the file, whether or not they apply here."""
        if self._entries is None:
            from .errors import InputError
            from .verdicts.known_failures import load

            file = self.config.getoption("--opmap-known-failures")
            try:
                self._entries = load(file) if file else ()
            except InputError as error:
                raise pytest.UsageError(f"opmap: {error}") from None
        return self._entries

    def known(self):
        """The known failures, held against where the tests run."""
        if self._known is None:
            from .verdicts.known_failures import known_at

            file = self.config.getoption("--opmap-known-failures")
            self._known = known_at(self.judge(), self.name, self.entries(), file)
        return self._known

    def problems(self) -> list[str]:
        """A line for each known failure that expired or matches nothing, once the tests have run; a worker of pytest-xdist
        leaves that to the process that started it."""
        options = self.config.option
        if not self.entries() or hasattr(self.config, "workerinput") or options.collectonly:
            return []
        if self._problems is None:
            from .cases.catalogue import catalogue
            from .cases.probes import probes

            tier = self.config.getoption("--opmap-tier")
            self._problems = self.known().problems([*catalogue(tier), *probes()], tier)
        return self._problems

    def close(self) -> None:
        provider = getattr(self._judge, "provider", None)
        if provider:
            provider.close()


def _state(config: pytest.Config) -> _State:
    if _STATE not in config.stash:
        config.stash[_STATE] = _State(config)
    return config.stash[_STATE]
