"""Contract probes: how they are judged, selected and performed."""

from __future__ import annotations

import json
from itertools import chain

import numpy as np
import onnx.checker
import pytest

from opmap import open_provider
from opmap.catalogue.contract_probes import contract_probes, read
from opmap.catalogue.selection import Selection
from opmap.cli import main
from opmap.engines import steps
from opmap.engines.performer import Performer
from opmap.engines.providers import OpenProvider
from opmap.engines.sessions import CPU, SessionProvider
from opmap.engines.steps import Drop, Open, Result, Run
from opmap.engines.third_party import ThirdPartyProvider
from opmap.engines.worker import HangLimit, WorkerCrashed, WorkerProvider, WorkerTimeout
from opmap.judge.contract import judge_contract, perform, words
from opmap.judge.record import Record
from opmap.judge.run import Run as Results
from opmap.vocabulary import TIERS, Stage, Verdict, tiers_in

PROBES = {probe.id: probe for probe in contract_probes()}
PORTABLE = {id: probe for id, probe in PROBES.items() if probe.portable}
DIRECTML = "DmlExecutionProvider"
PAGES = r"https://(onnx\.ai/onnx|onnxruntime\.ai/docs|github\.com/microsoft/onnxruntime)/\S+"


def planted(name: str, in_process: bool = True) -> OpenProvider:
    return open_provider(f"planted_sessions:{name}", in_process=in_process)


class Scripted(Performer):
    """Answers every step with `answer`, a Result or an exception, from step `first` on."""

    def __init__(self, answer, first=1):
        super().__init__()
        self.answer, self.first, self.count = answer, first, 0

    def perform(self, step, limit=None):
        self.count += 1
        if self.count < self.first:
            return Result()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class TestFaults:
    """Planted faults are caught."""

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
            ("ordered", "feeds/outputs-in-other-order", Verdict.MISMATCH, "wanted second = [[1.0, 2.0], [5.0, 6.0]]"),
        ],
    )
    def test_caught(self, name, id, verdict, message):
        """Each fault is caught by the probe that is made for it; the control passes."""
        provider = planted(name, in_process=verdict != Verdict.CRASH)
        record = judge_contract(PROBES[f"contract/{id}"], provider)
        provider.close()
        assert (record.verdict, record.variant) == (verdict, "plain")
        assert message in record.message and record.message.endswith("; the CPU EP passes")

    def test_not_caught_by_chance(self):
        """The faults leave most probes alone."""
        for name in ("stale", "ignores_defaults", "fails_after_close"):
            performer = planted(name).performer
            passed = 0
            for probe in PORTABLE.values():
                performer = planted(name).performer
                passed += perform(probe, performer).verdict == Verdict.PASS
            assert 0.5 * len(PORTABLE) < passed < len(PORTABLE), name


class TestJudge:
    """What the judge makes of answers."""

    PROBE = PROBES["contract/sessions/two-alive"]

    def outcome(self, answer, first=1):
        return perform(self.PROBE, Scripted(answer, first))

    def outputs(self, values, dtype=np.float32):
        return Result(outputs={"output": np.array(values, dtype)})

    @pytest.mark.parametrize(
        "error, verdict", [(WorkerCrashed("x", stage="run"), Verdict.CRASH), (WorkerTimeout("x"), Verdict.TIMEOUT)]
    )
    def test_lost(self, error, verdict):
        """A process that is lost is the verdict, at the step that lost it."""
        outcome = self.outcome(error, 3)
        assert (outcome.verdict, outcome.message) == (verdict, "step 3 of 5 (run older): x")

    def test_error(self):
        """An error where none is promised is an error at its stage."""
        outcome = self.outcome(Result(error="no", stage=Stage.LOAD))
        assert (outcome.verdict, outcome.stage) == (Verdict.ERROR, Stage.LOAD)
        assert outcome.message == "step 1 of 5 (create session older): must not fail, got no"

    @pytest.mark.parametrize(
        "values, dtype, message",
        [
            (
                [[0, 0], [0, 0]],
                np.float32,
                "wanted output = [[5.0, 6.0], [1.0, 2.0]], got [[0.0, 0.0], [0.0, 0.0]]: zeros",
            ),
            ([[9, 0], [0, 0]], np.float32, "got [[9.0, 0.0], [0.0, 0.0]]: other memory"),
            ([5, 6, 1, 2], np.float32, "output must be float32[2, 2], got float32[4] [5.0, 6.0, 1.0, 2.0]"),
            ([[5, 6], [1, 2]], np.float64, "output must be float32[2, 2], got float64[2, 2]"),
        ],
    )
    def test_wrong(self, values, dtype, message):
        """Wrong values, a wrong shape and a wrong type are mismatches that say what they are."""
        outcome = self.outcome(self.outputs(values, dtype), 3)
        assert (outcome.verdict, outcome.stage) == (Verdict.MISMATCH, Stage.COMPARE)
        assert message in outcome.message

    def test_missing_output(self):
        """An output that is not there is a mismatch."""
        assert "wanted outputs output, got none" in self.outcome(Result(), 3).message

    def test_not_refused(self):
        """What must be refused and is not is a mismatch."""
        outcome = perform(PROBES["contract/feeds/missing"], Scripted(self.outputs([1])))
        assert (outcome.verdict, outcome.stage) == (Verdict.MISMATCH, Stage.COMPARE)
        assert "step 2 of 3 (run one): must be refused, got output = [1.0]" in outcome.message

    def test_untouched_value(self):
        """An output value that nothing wrote into is named."""
        answer = Result(outputs={"output": np.full((2, 2), 7, np.float32)})
        outcome = perform(PROBES["contract/bindings/output-into-value"], Scripted(answer, 4))
        assert outcome.message.endswith("the content that y got in step 1")

    def test_control_fails_too(self):
        """A probe that the CPU EP fails too is observed."""
        probe = read(
            b"""models.m = "m (float[2] x) => (float[2] y) { y = Neg(x) }"
            [[probes]]
            name = "wrong"
            text = "Wrong."
            page = "https://onnx.ai"
            steps = [
                { step = "open", session = "s", model = "m" },
                { step = "run", session = "s", feeds = { x = { type = "float32", sizes = [2], values = [1, 2] } }, refused = true },
            ]""",
            "test",
            "test.toml",
        )[0]
        record = judge_contract(probe, planted("right"))
        assert record.verdict == Verdict.OBSERVED
        assert "; the CPU EP fails too: step 2 of 2 (run s): must be refused" in record.message

    def test_third_party_without_sessions(self):
        """A provider without sessions, and steps that no third party's provider has, are unsupported."""

        class Single:
            def run(self, model_bytes, feeds):
                raise AssertionError

        single = OpenProvider("single", None, None, ThirdPartyProvider(Single(), "single"), sessions=False)
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
            judge_contract(PROBES["contract/empty/device-value-put"], OpenProvider(CPU, "1", device_class, worker))
        assert limits[0] is not worker._hang_limit
        assert limits[-1] is worker._hang_limit

    def test_together(self):
        """Each repetition of each run is held against the outputs of its run."""
        probe = PROBES["contract/threads/two-sessions"]
        right, other = np.float32([[5, 6], [1, 2]]), np.float32([[15, 16], [11, 12]])
        results = [*[Result(outputs={"output": right})] * 100, *[Result(outputs={"output": other})] * 100]
        assert perform(probe, Scripted(Result(results=results))).verdict == Verdict.PASS
        results[150] = Result(outputs={"output": right})
        assert "run 151 of 200: wanted" in perform(probe, Scripted(Result(results=results))).message

    def test_words(self):
        """Every kind of step can be said."""
        seen = {type(item.step) for probe in PROBES.values() for item in probe.steps}
        for probe in PROBES.values():
            assert all(words(item.step) for item in probe.steps)
        assert len(seen) >= 10
        assert words(steps.Examine(session="a")) and words(steps.Clear())


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

    def test_catalog(self, capsys):
        """`opmap catalog --tier contract` lists the probes."""
        assert main(["catalog", "--tier", "contract", "--list"]) == 0
        assert capsys.readouterr().out.split() == list(PROBES)
        assert main(["catalog", "--tier", "contract", "--json"]) == 0
        assert [probe["id"] for probe in json.loads(capsys.readouterr().out)["contract"]] == list(PROBES)

    def test_faults(self, capsys):
        """`opmap faults --tier contract` is refused."""
        assert main(["faults", "--tier", "contract"]) == 2
        assert "--tier must be smoke, standard or full" in capsys.readouterr().err

    def test_validate(self, capsys):
        """`opmap validate` prints them in a table of their own, and they prove nothing about cases."""
        arguments = ["validate", "--provider", "cpu", "--require-provider", "--filter", "contract/feeds/m*"]
        assert main(arguments) == 0
        out = capsys.readouterr().out
        assert "contract probes (what the documentation promises)" in out
        assert "1 of 1 contract probes passed on CPUExecutionProvider" in out
        assert main([*arguments, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
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


class TestSteps:
    """The steps and settings that contract probes need, on the CPU EP."""

    def perform(self, *given):
        provider = SessionProvider(CPU)
        results = [provider.perform(step) for step in given]
        provider.end()
        return results

    def open(self, text, **setup):
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]>\n{text}').SerializeToString()
        return Open(session="s", model=np.frombuffer(model, np.uint8), setup=steps.Setup(**setup))

    NEG = "m (float[2] x) => (float[2] y) { y = Neg(x) }"
    ONE, OTHER = np.float32([1, 2]), np.float32([3, 4])

    def test_allocate(self):
        """Allocate makes a value of a type and sizes."""
        _, got = self.perform(steps.Allocate(value="v", type="int64", sizes=[2, 3]), steps.Get(value="v"))
        assert (got.outputs["v"].dtype, got.outputs["v"].shape) == (np.int64, (2, 3))

    def test_initializers(self):
        """A value of the setup replaces the model's initializer."""
        text = "m (float[2] x) => (float[2] y) <float[2] k = {1, 1}> { y = Add(x, k) }"
        opened, result = self.perform(
            self.open(text, initializers={"k": self.OTHER}), Run(session="s", feeds={"x": self.ONE})
        )
        assert opened.error is None
        assert result.outputs["y"].tolist() == [4, 6]

    def test_file_name(self):
        """The model's file has the name of the setup, and is not among the files that the session wrote."""
        opened, seen = self.perform(self.open(self.NEG, from_file=True, file_name="model"), steps.Examine(session="s"))
        assert opened.error is None
        assert seen.evidence.files == {}

    def test_keep_bound(self):
        """RunBound keeps an output as a value, which outlives its session."""
        *_, result, _, got = self.perform(
            self.open(self.NEG),
            steps.Bind(session="s", feeds={"x": self.ONE}, outputs={"y": "device"}, synchronize=True),
            steps.RunBound(session="s", keep={"y": "kept"}),
            Drop(name="s"),
            steps.Get(value="kept"),
        )
        assert result.outputs == {}
        assert got.outputs["kept"].tolist() == [-1, -2]

    @pytest.mark.parametrize("method, name", [("run", "run"), ("values", "run_with_ort_values")])
    def test_fewer_outputs(self, monkeypatch, method, name):
        """Fewer outputs than asked for are no refusal."""
        import onnxruntime

        monkeypatch.setattr(onnxruntime.InferenceSession, name, lambda *_: [])
        _, result = self.perform(self.open(self.NEG), Run(session="s", feeds={"x": self.ONE}, method=method))
        assert (result.error, result.malformed) == (None, "must be a list of one array, got 0")
        outcome = perform(PROBES["contract/capture/run-twice"], SessionProvider(CPU))
        assert (outcome.verdict, outcome.stage) == (
            (Verdict.MISMATCH, Stage.COMPARE) if name == "run" else (Verdict.PASS, None)
        )

    def test_together_times(self):
        """Concurrent repeats its runs, and stops a run that fails."""
        good, bad = Run(session="s", feeds={"x": self.ONE}), Run(session="s", feeds={})
        _, result = self.perform(self.open(self.NEG), steps.Concurrent(runs=[good, bad], times=3))
        assert [r.error is None for r in result.results] == [True, True, True, False]
        assert result.error is not None


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
        package = worker.package
        assert package and package == worker.beside()._start.package
    with WorkerProvider(CPU, package="another") as informed:
        assert "another" == informed.package
