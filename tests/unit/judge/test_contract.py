"""Contract probes: how they are judged, selected and performed."""

from __future__ import annotations

import json
from itertools import chain

import pytest

from opmap import open_provider
from opmap.cases.contract_probes import contract_probes, read
from opmap.cases.selection import Selection
from opmap.engines.providers import Provider
from opmap.engines.sessions import CPU
from opmap.engines.steps import Result
from opmap.engines.third_party import ThirdPartyProvider
from opmap.engines.worker import HangLimit, NotRun, WorkerCrashed, WorkerProvider, WorkerTimeout
from opmap.judge.contract import judge_contract
from opmap.judge.record import Record
from opmap.judge.run import Results
from opmap.vocabulary import TIERS, Stage, Verdict, tiers_in

PROBES = {probe.id: probe for probe in contract_probes()}


def planted(name: str, in_process: bool = True) -> Provider:
    return open_provider(f"planted_sessions:{name}", in_process=in_process)


class TestFaults:
    """Planted faults are caught."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "name, id, verdict, message",
        [
            ("stale", "feeds/values-change", Verdict.MISMATCH, "the values of output in step 2"),
            ("ignores_defaults", "graphs/default-fed", Verdict.MISMATCH, "the values with the model's default"),
            (
                "fails_after_close",
                "sessions/older-after-newer-closed",
                Verdict.ERROR,
                "step 5 of 5 (run older): must not",
            ),
            ("crashes_older", "sessions/two-alive", Verdict.CRASH, "step 3 of 5 (run older)"),
            ("unchecked", "feeds/wrong-sizes", Verdict.MISMATCH, "step 2 of 3 (run one): must be refused"),
            ("ordered", "feeds/outputs-in-other-order", Verdict.MISMATCH, "second must be [[1.0, 2.0], [5.0, 6.0]]"),
        ],
    )
    def test_caught(self, name, id, verdict, message):
        """Each fault is caught by the probe that is made for it; the control passes."""
        provider = planted(name, in_process=verdict != Verdict.CRASH)
        record = judge_contract(PROBES[f"contract/{id}"], provider)
        provider.close()
        assert (record.verdict, record.variant) == (verdict, "plain")
        assert message in record.message and record.message.endswith("; the CPU EP passes")


class TestJudge:
    """What the judge makes of a difference."""

    PROBE = PROBES["contract/sessions/two-alive"]

    @pytest.mark.parametrize(
        ("answer", "verdict", "stage", "message"),
        [
            (WorkerCrashed("x", stage=Stage.RUN), Verdict.CRASH, Stage.RUN, "step 1 of 5 (create session older): x"),
            (WorkerTimeout("x", stage=Stage.RUN), Verdict.TIMEOUT, Stage.RUN, "step 1 of 5 (create session older): x"),
            (NotRun("no worker starts"), Verdict.NOT_RUN, None, "no worker starts"),
            (Result(error="no", stage=Stage.LOAD), Verdict.ERROR, Stage.LOAD, "must not fail, got no"),
            (Result(error="no", unsupported=True), Verdict.ERROR, Stage.RUN, "must not fail, got no"),
            (Result(malformed="no"), Verdict.MISMATCH, Stage.COMPARE, "step 1 of 5 (create session older): no"),
            (Result(), Verdict.MISMATCH, Stage.COMPARE, "the outputs must be output, got none"),
        ],
    )
    def test_verdict(self, answer, verdict, stage, message, monkeypatch):
        """A process that is lost, an error, and wrong outputs each have their verdict, with the step in the message."""

        def perform(self, step, limit=None):
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(WorkerProvider, "perform", perform)
        record = judge_contract(self.PROBE, Provider(CPU, "1", "hardware", WorkerProvider(CPU)))
        assert (record.verdict, record.stage) == (verdict, stage)
        assert message in record.message

    @pytest.mark.parametrize(
        ("promise", "message"),
        [
            ("refused = true", "must be refused"),
            (
                'expect = { y = { type = "float32", sizes = [2], values = [1, 2] } }',
                "y must be [1.0, 2.0], got [-1.0, -2.0]",
            ),
        ],
    )
    def test_control_fails_too(self, promise, message):
        """A probe that the CPU EP fails too is observed, and can be written."""
        probe = read(
            b"""models.m = "m (float[2] x) => (float[2] y) { y = Neg(x) }"
            [[probes]]
            name = "wrong"
            text = "Wrong."
            page = "https://onnx.ai"
            steps = [
                { step = "open", session = "s", model = "m" },
                { step = "run", session = "s", feeds = { x = { type = "float32", sizes = [2], values = [1, 2] } }, %s },
            ]"""
            % promise.encode(),
            "test",
        )[0]
        record = judge_contract(probe, planted("right"))
        assert (Verdict.OBSERVED, None) == (record.verdict, record.contradiction)
        assert f"; the CPU EP fails too: step 2 of 2 (run s): {message}" in record.message

    def test_third_party_without_sessions(self):
        """A provider without sessions, and steps that no third party's provider has, are unsupported."""

        class Single:
            def run(self, model_bytes, feeds):
                raise AssertionError

        single = Provider("single", None, None, ThirdPartyProvider(Single(), "single"), sessions=False)
        assert judge_contract(self.PROBE, single).verdict == Verdict.UNSUPPORTED
        assert judge_contract(PROBES["contract/bindings/host"], planted("right")).verdict == Verdict.UNSUPPORTED

    def test_hangs_on_an_emulated_device(self, monkeypatch):
        """Hangs on an emulated device do not count; those of another device do."""
        limits = []
        monkeypatch.setattr(
            WorkerProvider, "perform", lambda self, step, limit=None: limits.append(self._hang_limit) or Result()
        )
        worker = WorkerProvider(CPU, hang_limit=HangLimit())
        for device_class in ("emulated", "hardware"):
            judge_contract(PROBES["contract/empty/device-value-put"], Provider(CPU, "1", device_class, worker))
        assert limits[0] is not worker._hang_limit
        assert limits[-1] is worker._hang_limit


class TestTier:
    """The tier `contract`, and where its probes are selected."""

    def probes(self, **options):
        provider = open_provider("cpu")
        return [probe.id for probe in Selection(**options).probes(provider)]

    def test_tiers(self):
        """`full` and `contract` have the contract probes, and no other tier has them."""
        assert TIERS == ("smoke", "standard", "full", "contract")
        assert [tier for tier in TIERS if "contract" in tiers_in(tier)] == ["full", "contract"]
        assert not any(id.startswith("contract/") for id in self.probes(tier="standard"))
        assert self.probes(tier="contract") == [
            id for id, p in PROBES.items() if p.providers is None or CPU in p.providers
        ]
        assert set(self.probes(tier="full")) > set(self.probes(tier="contract"))
        assert Selection(tier="contract").cases() == []

    def test_filter(self):
        """A glob that begins with contract/ selects contract probes in every tier; another one does not."""
        assert self.probes(tier="smoke", globs=["contract/threads/*"]) == [id for id in PROBES if "/threads/" in id]
        assert Selection(tier="smoke", globs=["contract/threads/*"]).cases() == []
        assert self.probes(tier="smoke", globs=["*/threads/*"]) == []
        assert self.probes(tier="contract", globs=["*/threads/*"]) == [id for id in PROBES if "/threads/" in id]

    def test_shards(self):
        """The shards share the contract probes."""
        parts = [self.probes(tier="contract", shard=(number, 3)) for number in (1, 2, 3)]
        assert sorted(chain.from_iterable(parts)) == sorted(self.probes(tier="contract"))
        assert min(map(len, parts)) > 0

    def test_list(self, run_opmap):
        """`opmap validate --tier contract --list` lists the probes."""
        assert run_opmap(0, "validate", "--tier", "contract", "--list").out.splitlines() == list(PROBES)

    def test_validate(self, run_opmap):
        """`opmap validate` prints them in a table of their own, and they prove nothing about cases."""
        arguments = ["validate", "--provider", "cpu", "--require-provider", "--filter", "contract/feeds/m*"]
        out = run_opmap(0, *arguments).out
        assert "contract probes (what the documentation promises)" in out
        assert "1 of 1 contract probes passed on CPUExecutionProvider" in out
        document = json.loads(run_opmap(0, *arguments, "--json").out)
        assert [record["case"] for record in document["contract"]] == ["contract/feeds/missing"]
        assert document["cases"] == []

    def test_unproven(self):
        """A contract probe that passed does not make unproven cases green, and is not counted with them."""
        contract = Record(case="contract/a/b", verdict=Verdict.PASS)
        case = Record(case="gather/a", verdict=Verdict.PASS)
        results = Results()
        results.add(contract)
        assert not results.red(required=True)
        results.add(case)
        assert results.red(required=False)
        assert results.tally().judged == 1

    @pytest.mark.parametrize(("verdict", "red"), [("not-expressible", True), ("unsupported", True), ("not-run", False)])
    def test_nothing_given(self, verdict, red):
        """A run whose provider was given nothing is red; one whose provider is missing is not."""
        results = Results()
        results.add(Record(case="gather/a", verdict=Verdict(verdict)))
        assert red == results.red(required=False)
        results.add(Record(case="contract/a/b", verdict=Verdict.PASS))
        assert not results.red(required=False)


def test_beside():
    """A provider beside another one has the same settings and another child."""
    worker = WorkerProvider(CPU, {"a": "b"}, timeout=7)
    other = worker.beside()
    assert (other.name, other._start, other.timeout, other.command) == (CPU, worker._start, 7, worker.command)
    assert other._start.options == {"a": "b"}
    assert other is not worker


def test_package_is_told_to_the_worker_beside():
    """A worker that is told the distribution of its ONNX Runtime does not look for it."""
    with WorkerProvider(CPU) as worker:
        package = worker.facts.package
        assert package and package == worker.beside()._start.package
    with WorkerProvider(CPU, package="another") as informed:
        assert "another" == informed.facts.package
