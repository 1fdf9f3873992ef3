"""Each step on the CPU EP: what it returns, and what is an error."""

import msgspec
import numpy as np
import onnx.parser
import pytest

from opmap.engines.protocol import Placement
from opmap.engines.session_records import profiled_nodes
from opmap.engines.sessions import CPU, SessionProvider
from opmap.engines.steps import (
    DEVICE,
    HOST,
    Allocate,
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
X = {"x": np.float32([1, 2])}
FEEDS = {"data": np.array([10, 11, 12], "float32"), "indices": np.array([2, 0], "int64")}
OTHER = {"data": np.array([20, 21, 22], "float32"), "indices": np.array([1, 1], "int64")}


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


class TestRun:
    """A session runs as often as asked, and returns the wanted outputs."""

    def test_values(self, performer):
        performer.perform(opened())
        assert {"first": [12, 10], "second": [-10, -11, -12]} == values(
            performer.perform(Run(session="s", feeds=FEEDS))
        )
        assert [21, 21] == values(performer.perform(Run(session="s", feeds=OTHER)))["first"]

    def test_some_outputs(self, performer):
        performer.perform(opened())
        step = Run(session="s", feeds=FEEDS, outputs=["second", "first"])
        assert ["second", "first"] == list(values(performer.perform(step)))
        assert ["first"] == list(values(performer.perform(msgspec.structs.replace(step, outputs=["first"]))))

    @pytest.mark.parametrize("method", ["run", "values", "async"])
    def test_methods(self, performer, method):
        performer.perform(opened(threads=2))
        assert [12, 10] == values(performer.perform(Run(session="s", feeds=FEEDS, method=method)))["first"]

    def test_async_needs_threads(self, performer):
        """An error of run_async is an error of the step."""
        performer.perform(opened())
        assert "thread pool" in performer.perform(Run(session="s", feeds=FEEDS, method="async")).error

    def test_kept_outputs(self, performer):
        """A kept output is not returned, and lives longer than its session."""
        performer.perform(opened())
        step = Run(session="s", feeds=FEEDS, keep={"first": "mine"})
        assert {"second": [-10, -11, -12]} == values(performer.perform(step))
        performer.perform(Drop(name="s"))
        assert {"mine": [12, 10]} == values(performer.perform(Get(value="mine")))

    def test_together(self, performer):
        performer.perform(opened())
        performer.perform(opened(session="t"))
        result = performer.perform(Concurrent(runs=[Run(session="s", feeds=FEEDS), Run(session="t", feeds=OTHER)]))
        assert [[12, 10], [21, 21]] == [values(one)["first"] for one in result.results]
        wrong = performer.perform(Concurrent(runs=[Run(session="s", feeds=FEEDS), Run(session="none")]))
        assert "there is no session 'none'" == wrong.error

    @pytest.mark.parametrize(
        ("step", "message"),
        [
            (Run(session="none"), "there is no session 'none'"),
            (Run(session="s", feeds={"data": FEEDS["data"]}), "indices"),
            (Run(session="s", feeds={**FEEDS, "data": np.zeros(4, "float32")}), "INVALID_ARGUMENT"),
            (Run(session="s", feeds=FEEDS, outputs=["none"]), "none"),
            (Run(session="s", values={"data": "none"}), "there is no value 'none'"),
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
        assert [12, 10] == values(performer.perform(Run(session="s", feeds=FEEDS)))["first"]

    def test_refused_model(self, performer):
        failed = performer.perform(Open(session="s", model=np.frombuffer(b"no model", np.uint8)))
        assert failed.error and failed.stage == "load" and not failed.spent


class TestValues:
    """OrtValues keep their contents until they change or go."""

    def test_put_update_get(self, performer):
        performer.perform(Put(value="v", array=FEEDS["data"]))
        assert [10, 11, 12] == values(performer.perform(Get(value="v")))["v"]
        performer.perform(Update(value="v", array=OTHER["data"]))
        got = performer.perform(Get(value="v"))
        assert ([20, 21, 22], {"v": "cpu"}) == (values(got)["v"], got.devices)

    def test_as_inputs(self, performer):
        performer.perform(opened())
        performer.perform(Put(value="d", array=FEEDS["data"], place=HOST))
        step = Run(session="s", feeds={"indices": FEEDS["indices"]}, values={"data": "d"})
        assert [12, 10] == values(performer.perform(step))["first"]

    def test_clear(self, performer):
        performer.perform(opened())
        performer.perform(Put(value="v", array=FEEDS["data"]))
        assert performer.perform(Clear()).error is None
        assert performer.perform(Get(value="v")).error
        assert performer.perform(Run(session="s", feeds=FEEDS)).error


class TestBindings:
    """Bound inputs and outputs stay bound until they are bound anew."""

    def test_bound(self, performer):
        performer.perform(opened())
        performer.perform(Bind(session="s", feeds=FEEDS, outputs={"second": HOST, "first": DEVICE}))
        result = performer.perform(RunBound(session="s"))
        assert {"second": [-10, -11, -12], "first": [12, 10]} == values(result)
        assert {"second": "cpu", "first": "cpu"} == result.devices
        performer.perform(Bind(session="s", feeds={"indices": OTHER["indices"]}))
        assert [11, 11] == values(performer.perform(RunBound(session="s")))["first"]

    def test_output_memory(self, performer):
        """An output goes into a value that was made before."""
        performer.perform(opened())
        performer.perform(Put(value="out", array=np.zeros(2, "float32")))
        performer.perform(Bind(session="s", feeds=FEEDS, outputs={"first": "out"}))
        assert [12, 10] == values(performer.perform(RunBound(session="s")))["first"]
        assert [12, 10] == values(performer.perform(Get(value="out")))["out"]

    def test_unbind(self, performer):
        performer.perform(opened())
        performer.perform(Bind(session="s", feeds=FEEDS, outputs={"first": HOST}))
        assert not performer.perform(Unbind(session="s")).spent  # only the DirectML EP has this fault
        assert "nothing is bound" in performer.perform(RunBound(session="s")).error


class TestSetup:
    """A setup changes how the session is created, and the evidence shows it."""

    def test_evidence(self, performer):
        performer.perform(opened(DEFAULT, profile=True))
        performer.perform(Run(session="s", feeds={"data": np.array([1, 2], "float32")}))
        evidence = performer.perform(Examine(session="s")).evidence
        assert Placement("assignment-info", (("Gather", CPU),), ("",)) == evidence.placement
        assert [Event("Gather", CPU, [[2], [1]])] == evidence.events
        assert (["data"], ["first"], [CPU]) == (evidence.inputs, evidence.outputs, evidence.providers)
        assert {} == evidence.files

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
        assert [12, 10] == values(performer.perform(Run(session="s", feeds=FEEDS)))["first"]
        placement = performer.perform(Examine(session="s")).evidence.placement
        assert ("profile", True) == (placement.source, placement.proves(CPU))

    @pytest.mark.parametrize(
        "setup",
        [
            {"level": 0},
            {"devices": True},
            {"from_file": True},
            {"memory_pattern": True},
            {"parallel": True},
            {"cpu_nodes": True},
            {"disabled_optimizers": ["ConstantFolding"]},
            {"config": {"session.use_device_allocator_for_initializers": "1"}},
        ],
        ids=lambda setup: next(iter(setup)),
    )
    def test_others(self, performer, setup):
        performer.perform(opened(**setup))
        assert [12, 10] == values(performer.perform(Run(session="s", feeds=FEEDS)))["first"]

    def test_free_dimensions(self, performer):
        """A fixed dimension refuses another size."""
        text = "g (float[N] data, int64[2] indices) => (float[2] first) { first = Gather(data, indices) }"
        performer.perform(opened(text, free_dimensions={"N": 3}))
        assert [12, 10] == values(performer.perform(Run(session="s", feeds=FEEDS)))["first"]
        assert performer.perform(Run(session="s", feeds={**FEEDS, "data": np.zeros(4, "float32")})).error

    def test_files(self, performer):
        """A model refers to files beside it."""
        model = onnx.parser.parse_model(HEADER + DEFAULT)
        (tensor,) = model.graph.initializer
        raw = np.array([0], "int64").tobytes()
        tensor.CopyFrom(onnx.TensorProto(name="indices", data_type=tensor.data_type, dims=[1]))
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="folder/weights.bin")
        files = {"folder/weights.bin": np.frombuffer(raw, np.uint8)}
        content = np.frombuffer(model.SerializeToString(), np.uint8)
        performer.perform(Open(session="s", model=content, files=files))
        assert [1] == values(performer.perform(Run(session="s", feeds={"data": np.array([1, 2], "float32")})))["first"]
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


class TestSetups:
    """Settings of steps that only contract probes use."""

    ADD = "g (float[2] x) => (float[2] y) <float[2] k = {1, 1}> { y = Add(x, k) }"

    def test_allocate(self, performer):
        """Allocate makes a value of a type and sizes."""
        performer.perform(Allocate(value="v", type="int64", sizes=[2, 3]))
        got = performer.perform(Get(value="v")).outputs["v"]
        assert (np.int64, (2, 3)) == (got.dtype, got.shape)

    def test_initializers(self, performer):
        """A value of the setup replaces the model's initializer."""
        performer.perform(opened(self.ADD, initializers={"k": np.float32([3, 4])}))
        assert {"y": [4, 6]} == values(performer.perform(Run(session="s", feeds=X)))

    def test_file_name(self, performer):
        """The model's file has the name of the setup, and is not among the files that the session wrote."""
        assert performer.perform(opened(self.ADD, from_file=True, file_name="model")).error is None
        assert {} == performer.perform(Examine(session="s")).evidence.files

    def test_keep_bound(self, performer):
        """RunBound keeps an output as a value, which outlives its session."""
        performer.perform(opened(self.ADD))
        performer.perform(Bind(session="s", feeds=X, outputs={"y": DEVICE}, synchronize=True))
        assert {} == values(performer.perform(RunBound(session="s", keep={"y": "kept"})))
        performer.perform(Drop(name="s"))
        assert {"kept": [2, 3]} == values(performer.perform(Get(value="kept")))

    @pytest.mark.parametrize(("method", "name"), [("run", "run"), ("values", "run_with_ort_values")])
    def test_fewer_outputs(self, monkeypatch, method, name):
        """Fewer outputs than asked for are malformed, and no refusal."""
        import onnxruntime

        monkeypatch.setattr(onnxruntime.InferenceSession, name, lambda *_: [])
        provider = SessionProvider(CPU)
        provider.perform(opened(self.ADD))
        result = provider.perform(Run(session="s", feeds=X, method=method))
        assert (None, "must be a list of one array, got 0") == (result.error, result.malformed)

    def test_repeated(self, performer):
        """Concurrent repeats its runs, and stops a run that fails."""
        performer.perform(opened(self.ADD))
        runs = [Run(session="s", feeds=X), Run(session="s")]
        result = performer.perform(Concurrent(runs=runs, times=3))
        assert [True, True, True, False] == [one.error is None for one in result.results]
        assert result.error is not None
