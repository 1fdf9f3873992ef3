"""The worker process: what befalls it costs one case, and nothing of it stays behind."""

import io
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import opmap
from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue
from opmap.descriptors import TensorDesc
from opmap.errors import InputError, ProviderError
from opmap.execution import dml_linux, frames
from opmap.execution.provider import Placement
from opmap.execution.providers import OpenProvider, ProviderMissing, open_provider
from opmap.execution.sessions import CPU, DIRECTML, SessionProvider
from opmap.execution.worker import (
    DeviceLost,
    HangLimit,
    NotRun,
    WorkerCrashed,
    WorkerProvider,
    WorkerTimeout,
    processes_with,
)
from opmap.limits import MAX_FRAME_BODY, MAX_FRAME_HEADER
from opmap.machine.environment import collect
from opmap.mapping import map_descriptor
from opmap.tensors import DataType, Tensor
from opmap.verdicts.judge import Judge

ROOT = str(Path(opmap.__file__).parents[1])
CHILD = Path(__file__).with_name("trouble_child.py")

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def troubled(*words, kind=WorkerProvider, **options):
    command = [sys.executable, "-P", str(CHILD), ROOT, *words]
    return kind(CPU, **{"command": command, "hang_limit": HangLimit(), "timeout": 20, **options})


def judge(worker):
    return Judge(OpenProvider(CPU, None, "hardware", worker))


@pytest.fixture(scope="module")
def cases():
    return list(islice(catalogue("smoke"), 12))


@pytest.fixture
def worker():
    with troubled() as worker:
        yield worker


IDENTITY = helper.make_model(
    helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "identity",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
    ),
    opset_imports=[helper.make_opsetid("", 13)],
    ir_version=8,
).SerializeToString()
"""A model that runs everywhere."""


class Planted(WorkerProvider):
    """Runs another model in place of one of them."""

    def plant(self, number, model):
        self.number, self.model, self.count = number, model, 0
        return self

    def run(self, model_bytes, feeds):
        self.count += 1
        return super().run(self.model if self.count == self.number else model_bytes, feeds)


def verdicts(cases, model, **options):
    """The verdicts of cases, the third of which gets this model."""
    with troubled(kind=Planted, **options).plant(3, model) as worker:
        return [record.verdict for record in map(judge(worker), cases)]


class TestRun:
    """A worker gives what a session in this process gives."""

    def test_records(self, cases):
        with WorkerProvider(CPU) as worker:
            assert list(map(judge(SessionProvider(CPU)), cases)) == list(map(judge(worker), cases))

    def test_placement(self, worker, cases):
        assert "pass" == judge(worker)(cases[0]).verdict
        assert worker.placement().proves(CPU)

    def test_an_error_of_the_session_is_its_error(self, worker):
        for provider in (SessionProvider(CPU), worker):
            with pytest.raises(ProviderError, match="protobuf|ModelProto") as caught:
                provider.run(b"no model", {})
            assert ("error", "load") == (caught.value.verdict, caught.value.stage)
            assert provider.placement() is None

    def test_after_an_error_the_process_is_the_same(self, worker, cases):
        judge(worker)(cases[0])
        pid = worker.pid
        with pytest.raises(ProviderError):
            worker.run(b"no model", {})
        assert "pass" == judge(worker)(cases[0]).verdict
        assert pid == worker.pid

    def test_what_prints_does_not_disturb(self, cases):
        real = SessionProvider(CPU)
        models = []
        real.run, run = lambda model, feeds: (models.append((model, feeds)), run(model, feeds))[1], real.run
        judge(real)(cases[0])
        with troubled() as worker:
            (model, feeds), expected = models[0], run(*models[0])
            assert np.array_equal(expected[0], worker.run(b"print\n" + model, feeds)[0])

    def test_hello(self, worker):
        assert CPU in worker.providers
        assert SessionProvider(CPU).version == worker.version
        assert worker.pid != os.getpid()

    def test_environment(self, worker, cases):
        """The worker's own facts, between two cases."""
        assert "pass" == judge(worker)(cases[0]).verdict
        here, there = collect(), OpenProvider(CPU, None, None, worker).environment()
        assert here.keys() == there.keys()
        assert here["onnxruntime"] == there["onnxruntime"]
        assert "pass" == judge(worker)(cases[1]).verdict

    def test_environment_of_a_worker_that_does_not_start(self):
        with WorkerProvider(CPU, command=[sys.executable, "-c", ""]) as broken:
            assert "does not start" in broken.environment()["worker"].error

    def test_nothing_in_the_current_directory_is_imported(self, tmp_path, monkeypatch, cases):
        for name in ("json", "numpy", "opmap", "onnxruntime"):
            (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current directory')")
        monkeypatch.chdir(tmp_path)
        with WorkerProvider(CPU) as worker:
            assert "pass" == judge(worker)(cases[0]).verdict


class TestTrouble:
    """What happens to the child costs the case at hand, has a verdict of its own, and the run goes on."""

    @pytest.mark.parametrize("model", [b"exit", b"crash", pytest.param(b"die", marks=posix)])
    def test_crash(self, cases, model):
        assert ["pass", "pass", "crash", *["pass"] * 9] == verdicts(cases, model)

    @pytest.mark.parametrize(
        "model", [b"sleep", pytest.param(b"hold", marks=posix), pytest.param(b"stop", marks=posix)]
    )
    def test_timeout(self, cases, model):
        assert ["pass", "pass", "timeout", *["pass"] * 9] == verdicts(cases, model, timeout=1.0)

    def test_lost_device(self, cases):
        assert ["pass", "pass", "device-lost", *["pass"] * 9] == verdicts(cases, b"lose device")

    @posix
    @pytest.mark.parametrize(("number", "kind"), [("SIGKILL", WorkerCrashed), ("SIGSTOP", WorkerTimeout)])
    def test_signal_from_outside(self, cases, number, kind):
        with troubled(timeout=2.0) as worker:
            assert "pass" == judge(worker)(cases[0]).verdict
            timer = threading.Timer(0.3, os.kill, (worker.pid, getattr(signal, number)))
            timer.start()
            with pytest.raises(kind):
                worker.run(b"sleep", {})
            assert "pass" == judge(worker)(cases[0]).verdict

    @posix
    def test_killed_between_two_cases(self, worker, cases):
        """Nothing was running, so nothing is lost."""
        assert "pass" == judge(worker)(cases[0]).verdict
        os.kill(worker.pid, signal.SIGKILL)
        worker._child.wait(5)
        assert "pass" == judge(worker)(cases[1]).verdict

    def test_the_first_case_of_a_process_has_longer(self):
        with troubled(timeout=0.5, first_timeout=3.0) as worker:
            worker.start()
            began = time.monotonic()
            with pytest.raises(WorkerTimeout, match="no answer within 3 s"):
                worker.run(b"sleep", {})
            assert 3.0 <= time.monotonic() - began < 20

    def test_a_stopped_child_cannot_hold_up_the_writer(self, worker):
        """More than a pipe holds, to a child that does not read."""
        worker.start()
        worker.timeout = worker.first_timeout = 1.0
        if sys.platform != "win32":
            os.kill(worker.pid, signal.SIGSTOP)
        model = b"sleep" if sys.platform == "win32" else b"\0" * 10_000_000
        with pytest.raises(WorkerTimeout):
            worker.run(model, {})

    def test_messages(self, worker):
        with pytest.raises(WorkerCrashed, match="ended with exit code 0x7"):
            worker.run(b"exit", {})
        with pytest.raises(WorkerCrashed, match="trouble_child.py"):  # faulthandler says where
            worker.run(b"crash", {})

    def test_lost_device_in_what_a_crash_says(self, worker):
        with pytest.raises(DeviceLost, match="887a0020"):
            worker.run(b"say and die", {})

    def test_after_a_lost_device_the_process_is_another(self, worker):
        worker.start()
        pid = worker.pid
        with pytest.raises(DeviceLost, match="887A0005"):
            worker.run(b"lose device", {})
        worker.start()
        assert pid != worker.pid

    def test_a_crash_is_no_observation(self, cases):
        """Out-of-range indices may be refused, which is observed; a crash is a crash."""
        index = Tensor.from_values(DataType.INT64, (1,), [9])
        desc = {"InputTensor": TensorDesc(DataType.FLOAT32, (2,)), "IndicesTensor": TensorDesc(DataType.INT64, (1,))}
        desc = {**desc, "OutputTensor": TensorDesc(DataType.FLOAT32, (1,)), "Axis": 0, "IndexDimensions": 1}
        tensors = {"InputTensor": Tensor.from_values(DataType.FLOAT32, (2,), [1, 2]), "IndicesTensor": index}
        case = Case("x", type(cases[0].desc).from_members(desc), tensors)
        with troubled() as worker:
            run = worker.run
            assert "observed" == judge(worker)(case).verdict
            worker.run = lambda model, feeds: run(b"exit after\n" + IDENTITY, {"x": np.ones((), np.float32)})
            assert ("crash", "run") == ((record := judge(worker)(case)).verdict, record.stage)
            assert "ended with exit code 0x7 while running the model" == record.message.removeprefix(
                "the worker process "
            )
            assert record.placement is None

    @posix
    def test_ctrl_c_in_the_terminal_is_not_for_the_child(self, worker):
        worker.start()
        assert os.getpgid(0) != os.getpgid(worker.pid)

    @posix
    def test_ctrl_c_ends_the_child(self, worker):
        worker.start()
        token = worker._child.token
        threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,)).start()
        with pytest.raises(KeyboardInterrupt):
            worker.run(b"sleep", {})
        assert [] == processes_with(token)


class TestNonsense:
    """A child that says what is no frame is ended, and takes no memory."""

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (b"Traceback (most recent call last):", "must begin with b'OPMF'"),
            (struct.pack("<4sIIQ", b"OPMF", 1, 2, 2**62), "MAX_FRAME_BODY"),
            (struct.pack("<4sIIQ", b"OPMF", 1, 2**31, 0), "MAX_FRAME_HEADER"),
            (struct.pack("<4sIIQ", b"OPMF", 9, 2, 0) + b"{}", "version 1, got 9"),
            (struct.pack("<4sIIQ", b"OPMF", 1, 2, 0) + b"{}", "a frame's header is wrong"),
        ],
    )
    def test_answer(self, answer, message):
        with troubled(answer.hex(), "") as worker, pytest.raises(WorkerCrashed, match=message):
            worker.run(b"", {})

    def test_answer_to_another_question(self):
        stream = io.BytesIO()
        frames.write(stream, frames.Facts({}))
        with (
            troubled(stream.getvalue().hex(), "") as worker,
            pytest.raises(WorkerCrashed, match="answered Run with Facts"),
        ):
            worker.run(b"", {})

    def test_outputs_that_are_not_there(self):
        stream = io.BytesIO()
        frames.write(stream, frames.Outputs([frames.ArrayHead("int8", [2**40, 2**40])], None), [b"x"])
        with troubled(stream.getvalue().hex(), "") as worker, pytest.raises(WorkerCrashed, match="makes no sense"):
            worker.run(b"", {})


class TestLimits:
    """What no frame can hold is an error of the case; the process stays."""

    @pytest.fixture
    def pid(self, worker):
        worker.start()
        return worker.pid

    def test_model(self, worker, pid, monkeypatch):
        monkeypatch.setattr(frames, "MAX_FRAME_BODY", 1000)
        with pytest.raises(frames.FrameError, match="MAX_FRAME_BODY") as caught:
            worker.run(b"x" * 1001, {})
        assert "error" == caught.value.verdict
        assert pid == worker.pid

    def test_type(self, worker, pid):
        with pytest.raises(frames.FrameError, match="complex64"):
            worker.run(IDENTITY, {"x": np.zeros((), np.complex64)})
        assert pid == worker.pid

    def test_output_type(self, worker, pid):
        """Strings are no tensors of bits."""
        model = onnx.load_from_string(IDENTITY)
        model.graph.node[0].CopyFrom(helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING))
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.STRING
        with pytest.raises(ProviderError, match="must have one of the types .*, got object") as caught:
            worker.run(model.SerializeToString(), {"x": np.ones((), np.float32)})
        assert ("error", "run") == (caught.value.verdict, caught.value.stage)
        assert pid == worker.pid

    def test_long_message(self, worker, pid):
        with pytest.raises(ProviderError) as caught:
            worker.run(b"long message", {})
        assert 10_000 == len(str(caught.value))
        assert pid == worker.pid


class TestStart:
    """A worker that does not start is told as such, and not tried for ever."""

    @pytest.mark.parametrize(
        ("program", "message"),
        [
            ("print('hello')", "no frame"),
            ("import sys; sys.exit('no such thing as a GPU')", "exit code 0x1: no such thing as a GPU"),
            ("import time; time.sleep(1000)", "no answer within 1 s"),
        ],
    )
    def test_never_says_hello(self, program, message):
        with WorkerProvider(CPU, command=[sys.executable, "-c", program], timeout=1, first_timeout=1) as worker:
            for expected in (message, message, "2 workers in a row did not start"):
                with pytest.raises(NotRun, match=expected):
                    worker.run(b"", {})

    def test_no_such_program(self):
        with WorkerProvider(CPU, command=["/no/such/python"]) as worker, pytest.raises(NotRun, match="does not start"):
            worker.run(b"", {})

    def test_no_such_provider(self):
        with WorkerProvider("FooExecutionProvider") as worker:
            assert "FooExecutionProvider" not in worker.providers


class TestHangLimit:
    """Two hangs or lost devices on an adapter in five minutes, and the rest is not run."""

    @pytest.mark.parametrize("model", [b"sleep", b"lose device"])
    def test_two(self, cases, model):
        limit = HangLimit()
        with troubled(timeout=0.5, first_timeout=0.5, hang_limit=limit) as worker:
            worker.first_timeout = 20
            for _ in range(2):
                assert "pass" == judge(worker)(cases[0]).verdict
                with pytest.raises((WorkerTimeout, DeviceLost)):
                    worker.run(model, {})
            record = judge(worker)(cases[0])
            assert ("not-run", None) == (record.verdict, record.stage)
            assert "2 hangs or lost devices on this adapter" in record.message

    @pytest.mark.parametrize(
        ("times", "refused"), [((0, 300), True), ((0, 301), False), ((0, 301, 400), True), ((0,), False)]
    )
    def test_five_minutes(self, times, refused):
        clock = iter(times)
        limit = HangLimit(lambda: next(clock))
        for _ in times:
            limit.note("adapter")
        assert refused == bool(limit.refusal("adapter"))
        assert limit.refusal("another adapter") is None

    def test_crashes_do_not_count(self, cases):
        with troubled() as worker:
            for _ in range(3):
                with pytest.raises(WorkerCrashed):
                    worker.run(b"exit", {})
            assert "pass" == judge(worker)(cases[0]).verdict

    def test_another_device_of_the_provider_goes_on(self, cases):
        limit = HangLimit()
        with troubled(hang_limit=limit) as lost, troubled(hang_limit=limit, device_id=1) as other:
            for _ in range(2):
                with pytest.raises(DeviceLost):
                    lost.run(b"lose device", {})
            with pytest.raises(NotRun):
                lost.run(b"", {})
            assert "pass" == judge(other)(cases[0]).verdict


class TestAdapter:
    """Which adapter the DirectML EP runs on is decided in the worker, and said by it."""

    def test_refused(self):
        """An adapter that this machine does not have is bad input, with the list of those it has."""
        with (
            WorkerProvider(DIRECTML, adapter="no such adapter") as worker,
            pytest.raises(InputError, match="--adapter"),
        ):
            worker.start()

    def test_software(self, monkeypatch):
        """A software adapter is no place for the DirectML EP: it is missing there, and `auto` takes the CPU EP."""
        hello = frames.Hello("1", [DIRECTML], 1, "emulated", "Microsoft Basic Render Driver", software=True)
        monkeypatch.setattr(WorkerProvider, "start", lambda self: setattr(self, "_hello", hello))
        monkeypatch.setattr("opmap.execution.providers.available", lambda: [DIRECTML, CPU])

        with pytest.raises(ProviderMissing, match="only Microsoft Basic Render Driver"):
            open_provider("dml")
        assert open_provider("auto").name == CPU

    def test_not_for_others(self):
        """The CPU EP has no adapter."""
        with pytest.raises(InputError, match="are for the DirectML EP"):
            open_provider("cpu", adapter="x")


@linux
class TestNothingStays:
    """No process of a worker is left behind."""

    def test_after_close(self, worker):
        worker.start()
        token = worker._child.token
        assert [worker.pid] == processes_with(token)
        worker.close()
        assert [] == processes_with(token)

    def test_behind_a_wrapper(self, cases):
        """The process that was started is not the one that runs: timeout(1) gives it a group of its own, as in the rig."""
        command = ["timeout", "100", "sh", "-c", '"$@"; true', "sh", sys.executable, "-P", str(CHILD), ROOT]
        with WorkerProvider(CPU, command=command, timeout=1.0, hang_limit=HangLimit()) as worker:
            assert "pass" == judge(worker)(cases[0]).verdict
            token = worker._child.token
            assert 3 == len(processes_with(token))
            with pytest.raises(WorkerTimeout):
                worker.run(b"stop", {})
            assert [] == processes_with(token)

    @pytest.mark.parametrize("model", [b"", b"sleep", b"hold"])
    def test_after_the_parent_was_killed(self, model):
        program = f"""if True:
            import sys, threading, time
            from opmap.execution.worker import WorkerProvider
            worker = WorkerProvider({CPU!r}, command={[sys.executable, "-P", str(CHILD), ROOT]!r}, timeout=1, first_timeout=10)
            worker.start()
            worker.first_timeout = 1.0
            worker._first = False
            print(worker._child.token, flush=True)
            if {model!r}:
                worker.timeout = 3.0
                worker.run({model!r}, {{}})
            time.sleep(1000)"""
        environment = {**os.environ, "PYTHONPATH": ROOT}
        with subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
        ) as parent:
            token = parent.stdout.readline().strip()
            time.sleep(0.3)
            alive = processes_with(token)
            parent.kill()
        assert 1 == len(alive)
        deadline = time.monotonic() + 10
        while processes_with(token) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [] == processes_with(token)


class TestFrames:
    """A frame comes out as it went in."""

    @pytest.mark.parametrize("name", sorted(frames._TYPES))
    def test_types(self, name):
        arrays = {
            "a": np.arange(6).astype(name).reshape(2, 3),
            "scalar": np.array(1, name),
            "none": np.empty((0, 3), name),
        }
        heads, parts = frames.pack(arrays)
        stream = io.BytesIO()
        frames.write(stream, frames.Run(2, heads, 1.0), [b"mm", *parts])
        stream.seek(0)
        message, body = frames.read(stream)
        assert b"mm" == body[:2]
        got = frames.unpack(message.feeds, body, 2)
        assert list(arrays) == [head.name for head in message.feeds]
        for expected, array in zip(arrays.values(), got, strict=True):
            assert (expected.dtype, expected.shape, expected.tobytes()) == (array.dtype, array.shape, array.tobytes())
        assert frames.read(stream) is None

    def test_bits(self):
        """NaN payloads and -0 are bits like others."""
        bits = np.array([0x7F800001, 0xFFC12345, 0x80000000, 1], np.uint32)
        heads, parts = frames.pack([bits.view(np.float32)])
        assert np.array_equal(bits, frames.unpack(heads, bytearray(b"".join(parts)))[0].view(np.uint32))

    def test_big_endian_and_strided(self):
        array = np.arange(12, dtype=">i4").reshape(3, 4)[:, ::2]
        heads, parts = frames.pack([array])
        assert np.array_equal(array, frames.unpack(heads, bytearray(b"".join(parts)))[0])

    def test_placement(self):
        stream = io.BytesIO()
        placement = Placement("profile", (("Gather", CPU),))
        frames.write(stream, frames.Outputs([], placement))
        stream.seek(0)
        assert placement == frames.read(stream)[0].placement

    @pytest.mark.parametrize("array", [np.array(["a"], object), np.array(["a"]), np.zeros(1, np.complex64), [1]])
    def test_refused_types(self, array):
        with pytest.raises(frames.FrameError, match="must have one of the types"):
            frames.pack([array])

    def test_cut_short(self):
        stream = io.BytesIO()
        frames.write(stream, frames.Run(1, [], 1.0), [b"m"])
        whole = stream.getvalue()
        for length in range(1, len(whole)):
            with pytest.raises(frames.FrameError):
                frames.read(io.BytesIO(whole[:length]))

    def test_limits_when_writing(self):
        class Long(bytes):
            def __len__(self):
                return MAX_FRAME_BODY + 1

        with pytest.raises(frames.FrameError, match="MAX_FRAME_BODY"):
            frames.write(io.BytesIO(), frames.Inspect(), [Long()])
        with pytest.raises(frames.FrameError, match="MAX_FRAME_HEADER"):
            frames.write(io.BytesIO(), frames.Failed("x" * MAX_FRAME_HEADER, "run"))

    def test_negative_sizes(self):
        header = b'{"kind":"outputs","arrays":[{"type":"int8","sizes":[-1]}],"placement":null}'
        with pytest.raises(frames.FrameError, match="header is wrong"):
            frames.read(io.BytesIO(struct.pack("<4sIIQ", b"OPMF", 1, len(header), 0) + header))


@linux
class TestRig:
    """The DirectML EP on Linux: how it is found."""

    @pytest.fixture
    def rig(self, tmp_path):
        (tmp_path / "work").mkdir()
        (tmp_path / "manifest.json").write_text('{"python": {"version": "3.11.9"}}')
        (tmp_path / "dml_linux.py").touch()
        return tmp_path

    def test_none_is_named(self):
        assert dml_linux.find_dml_runtime(None, {}) is None

    @pytest.mark.parametrize("by_option", [True, False])
    def test_command(self, rig, by_option):
        named = (str(rig), {}) if by_option else (None, {"OPMAP_DML_RUNTIME": str(rig)})
        command = dml_linux.find_dml_runtime(*named)
        assert [sys.executable, f"{rig}/dml_linux.py", "run", str(rig), "python", "-P"] == command[:-1]
        staged = rig / "work" / command[-1]
        assert (Path(ROOT) / "opmap/execution/worker_main.py").read_bytes() == staged.read_bytes()
        assert command == dml_linux.find_dml_runtime(*named)
        assert 1 == len(list((rig / "work").iterdir()))

    def test_the_copy_is_a_worker(self, rig, cases):
        command = [sys.executable, "-P", str(rig / "work" / dml_linux.find_dml_runtime(str(rig), {})[-1])]
        with WorkerProvider(CPU, command=command) as worker:
            assert "pass" == judge(worker)(cases[0]).verdict

    @pytest.mark.parametrize("make", [lambda d: None, lambda d: (d / "manifest.json").write_text("[]")])
    def test_no_rig(self, tmp_path, make):
        make(tmp_path)
        for named, option in (
            ((str(tmp_path), {}), "--dml-runtime"),
            ((None, {"OPMAP_DML_RUNTIME": str(tmp_path)}), "OPMAP_DML"),
        ):
            with pytest.raises(InputError, match=f"{option}.* must name a folder that"):
                dml_linux.find_dml_runtime(*named)

    def test_a_rig_that_does_not_start(self, rig):
        (rig / "dml_linux.py").write_text("import sys; sys.exit('dml_linux: needs root')")
        with pytest.raises(ProviderMissing, match="does not start: .*needs root"):
            open_provider("dml", dml_runtime=str(rig))

    def test_a_rig_without_directml(self, rig):
        """The rig's program runs this Python, whose ONNX Runtime is the CPU build."""
        program = (
            "import os, sys; os.chdir(sys.argv[2] + '/work'); os.execv(sys.executable, [sys.executable, *sys.argv[4:]])"
        )
        (rig / "dml_linux.py").write_text(program)
        with pytest.raises(ProviderMissing, match="DmlExecutionProvider is not in the worker's ONNX Runtime"):
            open_provider("auto", dml_runtime=str(rig))


@linux
@pytest.mark.skipif(not os.environ.get(dml_linux.VARIABLE), reason=f"{dml_linux.VARIABLE} names no rig")
class TestDirectMLOnLinux:
    """The same on the DirectML EP, in the rig that OPMAP_DML_RUNTIME names."""

    @pytest.fixture
    def command(self):
        command = dml_linux.find_dml_runtime()
        work = Path(command[3], "work")
        staged = command[-1].split("/")[0]
        child = work / f"trouble-{os.getpid()}.py"
        shutil.copyfile(CHILD, child)
        yield [*command[:-1], child.name, staged]
        child.unlink()

    @pytest.fixture
    def worker(self, command):
        with Planted(DIRECTML, command=command, timeout=10, hang_limit=HangLimit()) as worker:
            yield worker.plant(0, b"")

    @staticmethod
    def windows_python(token):
        """The Python under Wine, among the wrappers that started it: the process that nobody else is the parent of."""
        pids = processes_with(token)
        parents = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in pids}
        (pid,) = set(pids) - parents
        return pid

    def judge(self, worker):
        return Judge(OpenProvider(DIRECTML, worker.version, worker.device_class, worker))

    def test_cases(self, worker, cases):
        assert "emulated" == worker.device_class
        records = list(map(self.judge(worker), cases))
        assert ["pass"] * 12 == [record.verdict for record in records]
        assert all(record.proven for record in records)
        facts = worker.environment()
        assert facts["wine"].value
        assert "directml.dll" in str(facts["loaded_modules"].value).lower()

    @pytest.mark.parametrize(("model", "verdict"), [(b"exit", "crash"), (b"crash", "crash"), (b"sleep", "timeout")])
    def test_trouble(self, worker, cases, model, verdict):
        worker.plant(3, model)
        token = []
        records = []
        for case in cases:
            records.append(self.judge(worker)(case).verdict)
            token.append(worker._child and worker._child.token)
        assert ["pass", "pass", verdict, *["pass"] * 9] == records
        assert [] == processes_with(token[0])

    @pytest.mark.parametrize(("number", "verdict"), [("SIGKILL", "crash"), ("SIGSTOP", "timeout")])
    def test_signal_from_outside(self, worker, cases, number, verdict):
        judge = self.judge(worker)
        assert "pass" == judge(cases[0]).verdict
        token = worker._child.token
        pid = self.windows_python(token)
        worker.plant(1, b"sleep")
        threading.Timer(0.5, os.kill, (pid, getattr(signal, number))).start()
        assert [verdict, "pass"] == [judge(case).verdict for case in cases[:2]]
        assert [] == processes_with(token)

    def test_removed_device(self, worker, cases):
        """ID3D12Device5::RemoveDevice, after which ONNX Runtime's own error says so, is a lost device."""
        judge, run = self.judge(worker), worker.run
        assert "pass" == judge(cases[0]).verdict
        token = worker._child.token
        worker.run = lambda model, feeds: run(b"remove device\n" + model, feeds)
        record = judge(cases[1])
        worker.run = run
        assert "device-lost" == record.verdict, record.message
        assert "887A0005" in record.message
        assert [] == processes_with(token)
        assert "pass" == judge(cases[2]).verdict

    @pytest.mark.parametrize(
        ("prefix", "verdict", "stage"), [(b"", "error", "load"), (b"allow fallback\n", "fallback", None)]
    )
    def test_planted_fallback(self, worker, cases, prefix, verdict, stage):
        """A node that DirectML has no kernel for (a Cast to a string): right values, and never a pass."""
        model = map_descriptor(cases[0].desc, index_conversion="directml").model
        name = model.graph.output[0].name
        model.graph.node[-1].output[0] = "gathered"
        for source, target, to in (("gathered", "text", TensorProto.STRING), ("text", name, TensorProto.FLOAT)):
            model.graph.node.append(helper.make_node("Cast", [source], [target], to=to))
        worker.plant(1, prefix + model.SerializeToString())
        record = self.judge(worker)(cases[0])
        assert (verdict, stage) == (record.verdict, record.stage), record.message
        assert not record.proven
        if prefix:
            assert "Cast on CPUExecutionProvider" in record.message
