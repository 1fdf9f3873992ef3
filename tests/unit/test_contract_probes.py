"""Contract probes: their files, and providers without a fault, which pass them all."""

from __future__ import annotations

import re

import msgspec
import onnx.checker
import pytest

from opmap import open_provider
from opmap.catalogue.contract_probes import contract_probes, read
from opmap.engines import steps
from opmap.engines.expectations import perform_steps
from opmap.engines.providers import OpenProvider
from opmap.engines.sessions import CPU, SessionProvider
from opmap.engines.steps import Open
from opmap.engines.worker import WorkerProvider
from opmap.errors import InputError
from opmap.judge.contract import judge_contract
from opmap.vocabulary import Verdict

PROBES = {probe.id: probe for probe in contract_probes()}
PORTABLE = {id: probe for id, probe in PROBES.items() if probe.portable}
DIRECTML = "DmlExecutionProvider"
PAGES = r"https://(onnx\.ai/onnx|onnxruntime\.ai/docs|github\.com/microsoft/onnxruntime)/\S+"


def planted(name: str, in_process: bool = True) -> OpenProvider:
    return open_provider(f"planted_sessions:{name}", in_process=in_process)


class TestData:
    """The files of the contract probes."""

    @pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
    def test_words(self, probe):
        """Each probe has an id, one sentence, and the address of a page."""
        assert re.fullmatch(r"contract/[a-z]+/[a-z0-9-]+", probe.id)
        assert re.fullmatch(r"[A-Z][^.]*(\.[^. ][^.]*)*\.", probe.text)
        assert re.fullmatch(PAGES, probe.page)
        assert len(probe.steps) <= 9

    @pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
    def test_models(self, probe):
        """Each model that must not be refused is valid, except one whose inputs have no shape or whose data is elsewhere."""
        for item in probe.steps:
            if isinstance(item.step, Open) and not (item.fails == "always" or item.step.files):
                model = onnx.load_from_string(item.step.model.tobytes())
                if all(value.type.tensor_type.HasField("shape") for value in model.graph.input):
                    onnx.checker.check_model(model, full_check=True)

    def test_names(self):
        """Every session and value of a step was made in a step before."""
        for probe in PROBES.values():
            known = set()
            for step in (item.step for item in probe.steps):
                runs = step.runs if isinstance(step, steps.Concurrent) else [step]
                for part in runs:
                    used = {getattr(part, "session", None)} - {None}
                    if isinstance(step, Open):
                        known |= used
                    assert used <= known, probe.id
                    assert set(getattr(part, "values", {}).values()) <= known, probe.id
                if isinstance(step, (steps.Put, steps.Allocate)):
                    known.add(step.value)
                known |= set(getattr(step, "keep", {}).values())

    def test_controls(self):
        """A probe named `...-unfused` differs from the one without it only in that its sessions are not fused."""
        unfused = [id for id in PROBES if id.endswith("-unfused")]
        assert len(unfused) >= 6
        for id in unfused:
            fused = PROBES[id.removesuffix("-unfused")]
            for item, control in zip(fused.steps, PROBES[id].steps, strict=True):
                if isinstance(item.step, Open):
                    assert control.step.setup.config.pop("ep.dml.disable_graph_fusion") == "1"
                    assert msgspec.structs.asdict(item.step.setup) == msgspec.structs.asdict(control.step.setup)


class TestRight:
    """Providers without a fault."""

    @pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
    def test_cpu(self, probe):
        """Every probe passes on ONNX Runtime's CPU EP."""
        provider = SessionProvider(CPU)
        assert perform_steps(probe.steps, provider) is None
        provider.end()

    @pytest.mark.parametrize("probe", PORTABLE.values(), ids=PORTABLE)
    def test_expected_values(self, probe):
        """The expected values are those of ONNX's own reference implementation."""
        assert perform_steps(probe.steps, planted("right").performer) is None

    def test_fresh_process(self, monkeypatch):
        """Each probe runs in a process of its own, and its sessions are proven to have run on the provider."""
        start, pids = WorkerProvider.start, set()

        def watched(self):
            start(self)
            pids.add(self.pid)

        monkeypatch.setattr(WorkerProvider, "start", watched)
        with WorkerProvider(CPU) as worker:
            worker.start()
            own, provider = worker.pid, OpenProvider(CPU, "1", "hardware", worker)
            for _ in range(2):
                record = judge_contract(PROBES["contract/sessions/two-alive"], provider)
                assert (record.verdict, record.proven) == (Verdict.PASS, True)
            assert own == worker.pid
            assert len(pids - {own}) == 2

    def test_many_are_portable(self):
        """Third parties' providers can be asked for a good part of the probes."""
        assert len(PORTABLE) >= 50


HEAD = 'models.m = "m (float[2] x) => (float[2] y) { y = Neg(x) }"\n[[probes]]\nname = "a"\ntext = "b"\npage = "c"\n'


class TestFile:
    """A file with an error gives one clear message."""

    @pytest.mark.parametrize(
        "content, message",
        [
            ("probes = [", "t.toml: "),
            ("[[probes]]\nname = 'a'", "t.toml: Object missing required field `text` - at `$.probes[0]`"),
            (HEAD + "steps = []\nmore = 1", "t.toml: Object contains unknown field `more` - at `$.probes[0]`"),
            (
                HEAD + "steps = []\n" + HEAD.split("\n", 1)[1] + "steps = []",
                "t.toml: each name must be given once, got 'a' twice",
            ),
            (HEAD.replace("Neg(x", "Neg("), "t.toml: Object missing required field `steps`"),
            (HEAD.replace("Neg(x)", "Neg(") + "steps = []", "t.toml: model 'm': "),
            (
                HEAD + "steps = [{ step = 'open', session = 's', model = 'n' }]",
                "t.toml: probe 'a', step 1: model must be one of m, got 'n'",
            ),
            (HEAD + "steps = [{ step = 'jump' }]", "t.toml: probe 'a', step 1: Invalid value 'jump' - at `$.step`"),
            (
                HEAD + "steps = [{ step = 'drop', name = 's', more = 1 }]",
                "t.toml: probe 'a', step 1: Drop has no 'more'",
            ),
            (
                HEAD + "steps = [{ step = 'open', session = 's', model = 'm', setup = { fast = true } }]",
                "step 1: Setup has no 'fast'",
            ),
            (
                HEAD + "steps = [{ step = 'put', value = 's', array = 'd' }]",
                "step 1: an array must be one of , got 'd' - at `$.array`",
            ),
            (
                HEAD + "steps = [{ step = 'drop', name = 's', refused = true, maybe = true }]",
                "step 1: must have refused alone",
            ),
            (
                HEAD + "steps = [{ step = 'concurrent', runs = [], expect = [{}] }]",
                "step 1: expect must have 0 entries",
            ),
            (
                "arrays.d = { type = 'int64', sizes = [2], values = [1] }\n" + HEAD + "steps = []",
                "array 'd': sizes [2] take 2 values, got 1",
            ),
            (
                "arrays.d = { type = 'int64', sizes = [1], values = [1.5] }\n" + HEAD + "steps = []",
                "array 'd': the values must be int64, got [1.5]",
            ),
            ("arrays.d = { type = 'uint8', sizes = [1], values = [256] }\n" + HEAD + "steps = []", "array 'd': "),
            ("arrays.d = { type = 'much', sizes = [], values = [1] }\n" + HEAD + "steps = []", "array 'd': "),
        ],
    )
    def test_error(self, content, message):
        """The message names the file, the probe and the step."""
        with pytest.raises(InputError) as caught:
            read(content.encode(), "t", "t.toml")
        assert message in str(caught.value)
        assert str(caught.value).startswith("t.toml: ")
        assert "\n" not in str(caught.value)


def test_steps_travel():
    """Every step of every probe goes through a frame unchanged."""
    from io import BytesIO

    from opmap.engines import frames

    for probe in PROBES.values():
        for item in probe.steps:
            stream = BytesIO()
            frames.write(stream, frames.encode(frames.Perform(item.step, 1.0)))
            stream.seek(0)
            assert repr(frames.read(stream).task) == repr(item.step)
