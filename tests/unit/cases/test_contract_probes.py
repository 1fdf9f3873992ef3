"""Contract probes: their files, and providers without a fault, which pass them all."""

from __future__ import annotations

import re

import msgspec
import onnx.checker
import pytest

from opmap import open_provider
from opmap.cases.contract_probes import contract_probes, read
from opmap.engines import steps
from opmap.engines.expectations import perform_steps
from opmap.engines.providers import Provider
from opmap.engines.sessions import CPU, SessionProvider
from opmap.engines.steps import Open
from opmap.engines.worker import WorkerProvider
from opmap.judge.contract import judge_contract
from opmap.vocabulary import Verdict

PROBES = {probe.id: probe for probe in contract_probes()}
PORTABLE = {id: probe for id, probe in PROBES.items() if probe.portable}
PAGES = r"https://(onnx\.ai/onnx|onnxruntime\.ai/docs|github\.com/microsoft/onnxruntime)/\S+"


def planted(name: str, in_process: bool = True) -> Provider:
    return open_provider(f"planted_sessions:{name}", in_process=in_process)


class TestData:
    """The files of the contract probes."""

    def test_words(self):
        """Each probe has an id of its own, one sentence, the address of a page, and outputs for each of its runs."""
        assert len(PROBES) == len(contract_probes())
        for probe in PROBES.values():
            assert re.fullmatch(r"contract/[a-z]+/[a-z0-9-]+", probe.id)
            assert re.fullmatch(r"[A-Z][^.]*(\.[^. ][^.]*)*\.", probe.text), probe.id
            assert re.fullmatch(PAGES, probe.page), probe.id
            assert len(probe.steps) <= 9, probe.id
            for expected in probe.steps:
                runs = len(expected.step.runs) if isinstance(expected.step, steps.Concurrent) else 1
                assert len(expected.outputs) in (0, runs), probe.id

    def test_models(self):
        """Each model that must not be refused is valid, except one whose inputs have no shape or whose data is
        elsewhere.
        """
        for item in (item for probe in PROBES.values() for item in probe.steps):
            if isinstance(item.step, Open) and not (item.fails == "always" or item.step.files):
                model = onnx.load_from_string(item.step.model.tobytes())
                if all(value.type.tensor_type.HasField("shape") for value in model.graph.input):
                    onnx.checker.check_model(model, full_check=True)

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

    def test_cpu(self):
        """Every probe passes on ONNX Runtime's CPU EP."""
        provider = SessionProvider(CPU)
        for probe in PROBES.values():
            assert (probe.id, None) == (probe.id, perform_steps(probe.steps, provider))
            provider.end()

    def test_expected_values(self):
        """The expected values are those of ONNX's own reference implementation, as far as third parties can be asked.

        It refuses negative pads, fewer indices than data beside the axis, a window that is larger than the input, and
        the quantization of older opsets.
        """
        graphs, computed = (
            ("cropped", "cropped-at-end", "scattered-fewer", "gathered-fewer"),
            ("quantized", "dequantized"),
        )
        refused = {f"contract/graphs/{name}" for name in graphs}
        refused |= {"contract/empty/pooled-by-a-larger-window"}
        refused |= {f"contract/computed/{name}{end}" for name in computed for end in ("", "-zero", "-static")}
        assert len(PORTABLE) >= 50
        for probe in (PORTABLE[id] for id in PORTABLE.keys() - refused):
            assert (probe.id, None) == (probe.id, perform_steps(probe.steps, planted("right").performer))

    def test_fresh_process(self, monkeypatch):
        """Each probe runs in a process of its own, and its sessions are proven to have run on the provider."""
        start, pids = WorkerProvider.start, set()

        def watched(self):
            start(self)
            pids.add(self.pid)

        monkeypatch.setattr(WorkerProvider, "start", watched)
        with WorkerProvider(CPU) as worker:
            worker.start()
            own, provider = worker.pid, Provider(CPU, "1", "hardware", worker)
            for _ in range(2):
                record = judge_contract(PROBES["contract/sessions/two-alive"], provider)
                assert (record.verdict, record.proven) == (Verdict.PASS, True)
            assert own == worker.pid
            assert len(pids - {own}) == 2


HEAD = 'models.m = "m (float[2] x) => (float[2] y) { y = Neg(x) }"\n[[probes]]\nname = "a"\ntext = "b"\npage = "c"\n'


@pytest.mark.parametrize(
    "content",
    [
        HEAD + "steps = []\nmore = 1",
        HEAD + "steps = [{ step = 'open', session = 's', model = 'n' }]",
        HEAD + "steps = [{ step = 'jump' }]",
        HEAD + "steps = [{ step = 'drop', name = 's', more = 1 }]",
        HEAD + "steps = [{ step = 'open', session = 's', model = 'm', setup = { fast = true } }]",
        HEAD + "steps = [{ step = 'put', value = 's', array = 'd' }]",
        "arrays.d = { type = 'int64', sizes = [2], values = [1] }\n" + HEAD + "steps = []",
        "arrays.d = { type = 'int64', sizes = [1], values = [1.5] }\n" + HEAD + "steps = []",
    ],
)
def test_errors_of_a_file(content):
    """A file with an unknown key, step, model or array, or with an array that is not as it says, is not read."""
    assert read((HEAD + "steps = [{ step = 'drop', name = 's' }]").encode(), "t")
    with pytest.raises((ValueError, KeyError)):
        read(content.encode(), "t")
