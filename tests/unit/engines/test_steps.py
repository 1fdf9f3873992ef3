"""Each step on the CPU EP: what it returns, and what is an error. Contract probes have their values."""

import numpy as np
import onnx.parser
import pytest

from opmap.cases.contract_probes import contract_probes
from opmap.engines.expectations import perform_steps
from opmap.engines.protocol import Placement
from opmap.engines.session_records import profiled_nodes
from opmap.engines.sessions import CPU, SessionProvider
from opmap.engines.steps import (
    DEVICE,
    HOST,
    Bind,
    Clear,
    Concurrent,
    Drop,
    Event,
    Examine,
    Get,
    Open,
    Put,
    Run,
    RunBound,
    Setup,
    Unbind,
    Update,
)
from opmap.engines.worker import WorkerProvider

HEADER = '<ir_version: 8, opset_import: ["" : 13]>\n'
TWO = "g (float[3] data, int64[2] indices) => (float[2] first, float[3] second) { first = Gather(data, indices) second = Neg(data) }"
DEFAULT = "g (float[2] data) => (float[1] first) <int64[1] indices = {1}> { first = Gather(data, indices) }"
FEEDS = {"data": np.array([10, 11, 12], "float32"), "indices": np.array([2, 0], "int64")}
RUN = Run(session="s", feeds=FEEDS)


def opened(text=TWO, session="s", **setup):
    """Returns the step that opens a session of a model in ONNX's text form."""
    model = onnx.parser.parse_model(HEADER + text).SerializeToString()
    return Open(session=session, model=np.frombuffer(model, np.uint8), setup=Setup(**setup))


def values(result):
    """Returns the outputs of a result as lists."""
    assert result.error is None, result.error
    return {name: array.tolist() for name, array in result.outputs.items()}


@pytest.fixture(scope="module")
def performers():
    """The CPU EP in this process, and in a worker process."""
    with WorkerProvider(CPU) as worker:
        yield {"in-process": SessionProvider(CPU), "worker": worker}


@pytest.fixture(params=["in-process", "worker"])
def performer(request, performers):
    """One of the two, without a session or a value."""
    performer = performers[request.param]
    performer.end()
    return performer


class TestAnswers:
    """What a step returns."""

    def test_worker(self, performers):
        """In a worker process every step of the contract probes answers as in this one."""
        for probe in contract_probes():
            assert (probe.id, None) == (probe.id, perform_steps(probe.steps, performers["worker"]))
            performers["worker"].end()

    def test_values_of_outputs(self, performer):
        performer.perform(opened())
        assert {"first": [12, 10], "second": [-10, -11, -12]} == values(performer.perform(RUN))

    def test_devices(self, performer):
        """The device of each value and bound output is told."""
        assert {"v": "cpu"} == performer.perform(Put(value="v", array=FEEDS["data"], place=HOST)).devices
        performer.perform(opened())
        performer.perform(Bind(session="s", feeds=FEEDS, outputs={"second": HOST, "first": DEVICE}))
        assert {"second": "cpu", "first": "cpu"} == performer.perform(RunBound(session="s")).devices

    @pytest.mark.parametrize(
        ("step", "message"),
        [
            (Run(session="none"), "there is no session 'none'"),
            (Run(session="s", feeds={"data": FEEDS["data"]}), "indices"),
            (Run(session="s", feeds={**FEEDS, "data": np.zeros(4, "float32")}), "INVALID_ARGUMENT"),
            (Run(session="s", feeds=FEEDS, outputs=["none"]), "none"),
            (Run(session="s", values={"data": "none"}), "there is no value 'none'"),
            (Run(session="s", feeds=FEEDS, method="async"), "thread pool"),
            (Concurrent(runs=[RUN, Run(session="none")]), "there is no session 'none'"),
            (Get(value="none"), "there is no value 'none'"),
            (Update(value="none", array=np.zeros(1)), "there is no value 'none'"),
            (RunBound(session="s"), "nothing is bound in session 's'"),
            (Examine(session="none"), "there is no session 'none'"),
        ],
    )
    def test_errors(self, performer, step, message):
        """An error of a step is in its result, and the session works afterwards."""
        performer.perform(opened())
        failed = performer.perform(step)
        assert message in failed.error and failed.stage == "run"
        assert [12, 10] == values(performer.perform(RUN))["first"]

    def test_refused_model(self, performer):
        failed = performer.perform(Open(session="s", model=np.frombuffer(b"no model", np.uint8)))
        assert failed.error and failed.stage == "load" and not failed.spent

    def test_released(self, performer):
        """After Unbind nothing is bound; after Clear there is no session and no value."""
        performer.perform(opened())
        performer.perform(Put(value="v", array=FEEDS["data"]))
        performer.perform(Bind(session="s", feeds=FEEDS, outputs={"first": HOST}))
        assert not performer.perform(Unbind(session="s")).spent  # only the DirectML EP has this fault
        assert "nothing is bound" in performer.perform(RunBound(session="s")).error
        assert performer.perform(Clear()).error is None
        assert performer.perform(Get(value="v")).error
        assert performer.perform(RUN).error

    @pytest.mark.parametrize(("method", "name"), [("run", "run"), ("values", "run_with_ort_values")])
    def test_fewer_outputs(self, monkeypatch, method, name):
        """Fewer outputs than asked for are malformed, and no refusal."""
        import onnxruntime

        monkeypatch.setattr(onnxruntime.InferenceSession, name, lambda *_: [])
        provider = SessionProvider(CPU)
        provider.perform(opened(DEFAULT))
        result = provider.perform(Run(session="s", feeds={"data": np.float32([1, 2])}, method=method))
        assert (None, "must be a list of one array, got 0") == (result.error, result.malformed)

    def test_repeated(self, performer):
        """Concurrent repeats its runs, and stops a run that fails."""
        performer.perform(opened())
        result = performer.perform(Concurrent(runs=[RUN, Run(session="s")], times=3))
        assert [True, True, True, False] == [one.error is None for one in result.results]
        assert result.error is not None


class TestSetup:
    """A setup changes how the session is created, and the evidence shows it."""

    def test_evidence(self, performer):
        performer.perform(opened(DEFAULT, profile=True))
        performer.perform(Run(session="s", feeds={"data": np.array([1, 2], "float32")}))
        evidence = performer.perform(Examine(session="s")).evidence
        assert Placement("assignment-info", (("Gather", CPU),), ("",)) == evidence.placement
        assert [Event("Gather", CPU, [[2], [1], [1]])] == evidence.events
        assert (["data"], [], {}) == (evidence.inputs, evidence.overridable, evidence.files)

    def test_two_profiles(self, performer):
        """Two sessions that are opened in the same second have a profile each."""
        for name in ("s", "t"):
            performer.perform(opened(session=name, profile=True))
        performer.perform(Run(session="t", feeds=FEEDS))
        performer.perform(Drop(name="s"))
        assert 2 == len(performer.perform(Examine(session="t")).evidence.events)

    def test_own_format(self, performer):
        """A model in ONNX Runtime's own format has no record of its assignment; the profile is the placement."""
        performer.perform(opened(profile=True, ort_format=True))
        assert [12, 10] == values(performer.perform(RUN))["first"]
        placement = performer.perform(Examine(session="s")).evidence.placement
        assert ("profile", True) == (placement.source, placement.proves(CPU))

    def test_free_dimensions(self, performer):
        """A fixed dimension refuses another size."""
        text = "g (float[N] data, int64[2] indices) => (float[2] first) { first = Gather(data, indices) }"
        performer.perform(opened(text, free_dimensions={"N": 3}))
        assert [12, 10] == values(performer.perform(RUN))["first"]
        assert performer.perform(Run(session="s", feeds={**FEEDS, "data": np.zeros(4, "float32")})).error

    def test_file_name(self, performer):
        """The model's file has the name of the setup, and is not among the files that the session wrote."""
        assert performer.perform(opened(from_file=True, file_name="model")).error is None
        assert {} == performer.perform(Examine(session="s")).evidence.files


class TestProfile:
    """A profile is read as ONNX Runtime writes it."""

    def test_names(self, tmp_path):
        """A name may have a backslash that is not escaped, and bytes that are not UTF-8."""
        event = '{"cat": "Node", "name": "/node\\%s:0_kernel_time", "args": {"op_name": "Neg", "provider": "P"}}'
        path = tmp_path / "profile.json"
        names = [
            (event % "x").encode(),
            (event % "ü").encode("latin-1"),
            (event % "\\ü").encode(),
        ]  # the last is escaped
        path.write_bytes(b"[" + b",".join(names) + b"]")
        assert [Event("Neg", "P")] * 3 == profiled_nodes(path)
