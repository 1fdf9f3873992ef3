"""The worker process: a failure of it costs one case only, and no process stays behind."""

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

import msgspec
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
from opmap.execution.child import processes_with
from opmap.execution.providers import OpenProvider, ProviderMissing, open_provider
from opmap.execution.sessions import CPU, DIRECTML, SessionProvider
from opmap.execution.steps import Open, Run
from opmap.execution.worker import (
    DeviceLost,
    HangLimit,
    NotRun,
    WorkerCrashed,
    WorkerProvider,
    WorkerTimeout,
)
from opmap.machine.environment import collect
from opmap.mapping import map_descriptor
from opmap.tensors import DataType, Tensor
from opmap.verdicts.judge import Judge

ROOT = str(Path(opmap.__file__).parents[1])
CHILD = Path(__file__).with_name("trouble_child.py")

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def troubled(*words, kind=WorkerProvider, **options):
    """Returns a provider whose child is trouble_child.py, started with these words."""
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
"""A model that every execution provider runs."""


class Planted(WorkerProvider):
    """Replaces one of the models that it opens, and uses another time limit for it."""

    def plant(self, number, model, limit=None):
        """Replaces the model of the session with this number, counted from 1. `limit` is its time limit in seconds."""
        self.number, self.model, self.limit, self.count = number, model, limit, 0
        return self

    def perform(self, step, limit=None):
        if isinstance(step, Open):
            self.count += 1
            if self.count == self.number:
                step = msgspec.structs.replace(step, model=np.frombuffer(self.model, np.uint8))
                return super().perform(step, self.limit)
        return super().perform(step, limit)


def verdicts(cases, model, **options):
    """Returns the verdicts of the cases. The third case runs this model in place of its own."""
    with troubled(kind=Planted).plant(3, model, **options) as worker:
        return [record.verdict for record in map(judge(worker), cases)]


class TestRun:
    """A worker returns the same results as a session in this process."""

    def test_records(self, cases):
        with WorkerProvider(CPU) as worker:
            assert list(map(judge(SessionProvider(CPU)), cases)) == list(map(judge(worker), cases))

    def test_placement(self, worker, cases):
        assert judge(worker)(cases[0]).placement.proven
        worker.run(IDENTITY, {"x": np.ones((), np.float32)})
        assert worker.placement().proves(CPU)

    def test_session_error(self, worker):
        """The error has the stage and the message of the same error in this process."""
        for provider in (SessionProvider(CPU), worker):
            with pytest.raises(ProviderError, match=r"protobuf|ModelProto") as caught:
                provider.run(b"no model", {})
            assert ("error", "load") == (caught.value.verdict, caught.value.stage)
            assert provider.placement() is None

    def test_same_process_after_an_error(self, worker, cases):
        judge(worker)(cases[0])
        pid = worker.pid
        with pytest.raises(ProviderError):
            worker.run(b"no model", {})
        assert "pass" == judge(worker)(cases[0]).verdict
        assert pid == worker.pid

    def test_prints(self, cases):
        """Text that a library or a program prints to stdout does not get into the frames."""
        feeds = {"x": np.full((), 7, np.float32)}
        with troubled() as worker:
            assert [7] == worker.run(b"print\n" + IDENTITY, feeds)

    def test_hello(self, worker):
        assert CPU in worker.providers
        assert SessionProvider(CPU).version == worker.version
        assert worker.pid != os.getpid()

    def test_environment(self, worker, cases):
        """The facts of the worker process can be collected between two cases."""
        assert "pass" == judge(worker)(cases[0]).verdict
        own, facts = collect(), OpenProvider(CPU, None, None, worker).environment()
        assert own.keys() == facts.keys()
        assert own["onnxruntime"] == facts["onnxruntime"]
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
    """A failure of the child costs one case, which gets a verdict of its own. The run continues."""

    @pytest.mark.parametrize("model", [b"exit", b"crash", pytest.param(b"die", marks=posix)])
    def test_crash(self, cases, model):
        assert ["pass", "pass", "crash", *["pass"] * 9] == verdicts(cases, model)

    @pytest.mark.parametrize(
        "model", [b"sleep", pytest.param(b"hold", marks=posix), pytest.param(b"stop", marks=posix)]
    )
    def test_timeout(self, cases, model):
        assert ["pass", "pass", "timeout", *["pass"] * 9] == verdicts(cases, model, limit=0.3)

    def test_lost_device(self, cases):
        assert ["pass", "pass", "device-lost", *["pass"] * 9] == verdicts(cases, b"lose device")

    @posix
    @pytest.mark.parametrize(
        ("number", "kind", "limit"), [("SIGKILL", WorkerCrashed, 20.0), ("SIGSTOP", WorkerTimeout, 1.0)]
    )
    def test_signal_from_outside(self, cases, number, kind, limit):
        with troubled() as worker:
            assert "pass" == judge(worker)(cases[0]).verdict
            timer = threading.Timer(0.2, os.kill, (worker.pid, getattr(signal, number)))
            worker.timeout = limit
            timer.start()
            with pytest.raises(kind):
                worker.run(b"sleep", {})
            worker.timeout = 20
            assert "pass" == judge(worker)(cases[0]).verdict

    @posix
    def test_killed_between_two_cases(self, worker, cases):
        """No case is lost if the child is killed between two cases."""
        assert "pass" == judge(worker)(cases[0]).verdict
        os.kill(worker.pid, signal.SIGKILL)
        worker._child.wait(5)
        assert "pass" == judge(worker)(cases[1]).verdict

    def test_first_timeout(self, worker):
        """The first case of a process has its own time limit."""
        worker.start()
        worker.timeout, worker.first_timeout = 0.1, 1.0
        began = time.monotonic()
        with pytest.raises(WorkerTimeout, match="no answer within 1 s"):
            worker.run(b"sleep", {})
        assert 1.0 <= time.monotonic() - began < 20

    def test_full_pipe(self, worker):
        """A model larger than a pipe's buffer, sent to a child that does not read, is a timeout."""
        worker.start()
        worker.timeout = worker.first_timeout = 0.3
        if sys.platform != "win32":
            os.kill(worker.pid, signal.SIGSTOP)
        model = b"sleep" if sys.platform == "win32" else b"\0" * 10_000_000
        with pytest.raises(WorkerTimeout):
            worker.run(model, {})

    def test_messages(self, worker):
        with pytest.raises(WorkerCrashed, match="ended with exit code 0x7"):
            worker.run(b"exit", {})
        with pytest.raises(WorkerCrashed, match=r"trouble_child\.py"):  # from faulthandler's report
            worker.run(b"crash", {})

    def test_lost_device_in_stderr(self, worker):
        """A crash is a lost device if the child's stderr contains one of the HRESULTs."""
        with pytest.raises(DeviceLost, match="887a0020"):
            worker.run(b"say and die", {})

    def test_new_process_after_a_lost_device(self, worker):
        worker.start()
        pid = worker.pid
        with pytest.raises(DeviceLost, match="887A0005"):
            worker.run(b"lose device", {})
        worker.start()
        assert pid != worker.pid

    def test_a_crash_is_no_observation(self, cases):
        """An error for an out-of-range index is `observed`, but a crash is a crash."""
        index = Tensor.from_values(DataType.INT64, (1,), [9])
        desc = {"InputTensor": TensorDesc(DataType.FLOAT32, (2,)), "IndicesTensor": TensorDesc(DataType.INT64, (1,))}
        desc = {**desc, "OutputTensor": TensorDesc(DataType.FLOAT32, (1,)), "Axis": 0, "IndexDimensions": 1}
        tensors = {"InputTensor": Tensor.from_values(DataType.FLOAT32, (2,), [1, 2]), "IndicesTensor": index}
        case = Case("x", type(cases[0].desc).from_members(desc), tensors)
        with troubled() as worker:
            perform = worker.perform
            assert "observed" == judge(worker)(case).verdict

            def exits_after(step, limit=None):
                if isinstance(step, Open):
                    step = msgspec.structs.replace(step, model=np.frombuffer(b"exit after\n" + IDENTITY, np.uint8))
                if isinstance(step, Run):
                    step = msgspec.structs.replace(step, feeds={"x": np.ones((), np.float32)})
                return perform(step, limit)

            worker.perform = exits_after
            assert ("crash", "run") == ((record := judge(worker)(case)).verdict, record.stage)
            assert "ended with exit code 0x7 while running the model" == record.message.removeprefix(
                "the worker process "
            )
            assert record.placement is None

    @posix
    def test_process_group(self, worker):
        """The child has a process group of its own: Ctrl-C in the terminal does not reach it."""
        worker.start()
        assert os.getpgid(0) != os.getpgid(worker.pid)

    @posix
    def test_ctrl_c(self, worker):
        """Ctrl-C in the parent kills the child."""
        worker.start()
        token = worker._child.token
        threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,)).start()
        with pytest.raises(KeyboardInterrupt):
            worker.run(b"sleep", {})
        assert [] == processes_with(token)


class TestNonsense:
    """A child that sends an invalid frame is killed. The parent allocates no memory for it."""

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (b"Traceback (most recent call last):", "must begin with b'OPMF'"),
            (struct.pack("<4sIIQ", b"OPMF", frames.VERSION, 2, 2**62), "MAX_FRAME_BODY"),
            (struct.pack("<4sIIQ", b"OPMF", frames.VERSION, 2**31, 0), "MAX_FRAME_HEADER"),
            (struct.pack("<4sIIQ", b"OPMF", 9, 2, 0) + b"{}", f"version {frames.VERSION}, got 9"),
            (struct.pack("<4sIIQ", b"OPMF", frames.VERSION, 2, 0) + b"{}", "a frame's header is wrong"),
        ],
    )
    def test_answer(self, answer, message):
        with troubled(answer.hex()) as worker, pytest.raises(WorkerCrashed, match=message):
            worker.run(b"", {})

    def test_wrong_reply(self):
        stream = io.BytesIO()
        frames.write(stream, frames.encode(frames.Facts({}, number=2)))
        message = "the reply must be Performed, got Facts"
        with troubled(stream.getvalue().hex()) as worker, pytest.raises(WorkerCrashed, match=message):
            worker.run(b"", {})

    def test_reply_to_another_request(self):
        """A reply that comes twice is not taken for the reply to the next request."""
        feeds = {"x": np.ones((), np.float32)}
        with troubled() as worker:
            model = np.frombuffer(b"answer twice\n" + IDENTITY, np.uint8)
            worker.perform(Open(session="s", model=model))
            worker.perform(Run(session="s", feeds=feeds))
            with pytest.raises(WorkerCrashed, match="the reply must be for request 4, got Performed for request 3"):
                worker.run(IDENTITY, {"x": np.zeros((), np.float32)})
            (output,) = worker.run(IDENTITY, {"x": np.zeros((), np.float32)})
        assert 0 == output


class TestLimits:
    """A value that a frame cannot hold is an error of the case. The process stays."""

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
        """An output of strings cannot be sent."""
        model = onnx.load_from_string(IDENTITY)
        model.graph.node[0].CopyFrom(helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING))
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.STRING
        with pytest.raises(ProviderError, match=r"must have one of the types .*, got object") as caught:
            worker.run(model.SerializeToString(), {"x": np.ones((), np.float32)})
        assert ("error", "run") == (caught.value.verdict, caught.value.stage)
        assert pid == worker.pid

    def test_long_message(self, worker, pid):
        with pytest.raises(ProviderError) as caught:
            worker.run(b"long message", {})
        assert 10_000 == len(str(caught.value))
        assert pid == worker.pid


class TestStart:
    """After two failed starts in a row, no more workers are started."""

    @pytest.mark.parametrize(
        ("program", "limit", "message"),
        [
            ("print('hello')", 20, "wrote an invalid frame"),
            ("import sys; sys.exit('this machine has no GPU')", 20, "exit code 0x1: this machine has no GPU"),
            ("import time; time.sleep(1000)", 0.3, "no answer within 0.3 s"),
        ],
    )
    def test_no_hello(self, program, limit, message):
        command = [sys.executable, "-c", program]
        with WorkerProvider(CPU, command=command, timeout=limit, first_timeout=limit) as worker:
            for expected in (message, message, "2 workers in a row did not start"):
                with pytest.raises(NotRun, match=expected):
                    worker.run(b"", {})

    def test_no_such_program(self):
        with WorkerProvider(CPU, command=["/no/such/python"]) as worker, pytest.raises(NotRun, match="does not start"):
            worker.run(b"", {})

    def test_no_such_provider(self):
        with (
            WorkerProvider("FooExecutionProvider") as worker,
            pytest.raises(NotRun, match="FooExecutionProvider is not in the installed ONNX Runtime"),
        ):
            worker.start()


class TestHangLimit:
    """After two hangs or lost devices on an adapter within five minutes, no more cases run on it."""

    @pytest.mark.parametrize("model", [b"sleep", b"lose device"])
    def test_two(self, cases, model):
        limit = HangLimit()
        with troubled(hang_limit=limit) as worker:
            for _ in range(2):
                worker.timeout = 20
                assert "pass" == judge(worker)(cases[0]).verdict
                worker.timeout = 0.2
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
    """The worker chooses the adapter of the DirectML EP, and reports it."""

    def test_refused(self):
        """An adapter that this machine does not have is an InputError."""
        with (
            WorkerProvider(DIRECTML, adapter="no such adapter") as worker,
            pytest.raises(InputError, match="--adapter"),
        ):
            worker.start()

    def test_software(self, monkeypatch):
        """On a software adapter the DirectML EP counts as missing, and `auto` opens the CPU EP."""
        hello = frames.Hello("1", [DIRECTML], 1, "emulated", "Microsoft Basic Render Driver", software=True)
        monkeypatch.setattr(WorkerProvider, "start", lambda self: setattr(self, "_hello", hello))
        monkeypatch.setattr("opmap.execution.providers.available", lambda: [DIRECTML, CPU])

        with pytest.raises(ProviderMissing, match="got the software adapter Microsoft Basic Render Driver"):
            open_provider("dml")
        opened = open_provider("auto")
        assert opened.name == CPU
        assert opened.note.startswith("not on the DirectML EP: DmlExecutionProvider needs a hardware adapter")

    def test_not_for_others(self):
        """The CPU EP refuses the choice of an adapter."""
        with pytest.raises(InputError, match="are for the DirectML EP"):
            open_provider("cpu", adapter="x")


@linux
class TestNothingStays:
    """No process of a worker stays behind."""

    def test_after_close(self, worker):
        worker.start()
        token = worker._child.token
        assert [worker.pid] == processes_with(token)
        worker.close()
        assert [] == processes_with(token)

    def test_behind_a_wrapper(self, cases):
        """The started process is a wrapper, as in the rig. timeout(1) gives the worker a process group of its own."""
        command = ["timeout", "100", "sh", "-c", '"$@"; true', "sh", sys.executable, "-P", str(CHILD), ROOT]
        with WorkerProvider(CPU, command=command, timeout=20, hang_limit=HangLimit()) as worker:
            assert "pass" == judge(worker)(cases[0]).verdict
            token = worker._child.token
            assert 3 == len(processes_with(token))
            worker.timeout = 0.3
            with pytest.raises(WorkerTimeout):
                worker.run(b"stop", {})
            assert [] == processes_with(token)

    @pytest.mark.parametrize("model", [b"", b"sleep", b"hold"])
    def test_after_the_parent_was_killed(self, model):
        program = f"""if True:
            import sys, threading, time
            from opmap.execution.worker import WorkerProvider
            command = {[sys.executable, "-P", str(CHILD), ROOT]!r}
            worker = WorkerProvider({CPU!r}, command=command, timeout=1, first_timeout=60)
            worker.start()
            worker.first_timeout = 1.0
            worker._first = False
            print(worker._child.token, flush=True)
            if {model!r}:
                worker.timeout = 1.5
                worker.run({model!r}, {{}})
            time.sleep(1000)"""
        environment = {**os.environ, "PYTHONPATH": ROOT}
        with subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
        ) as parent:
            token = parent.stdout.readline().strip()
            time.sleep(0.2)
            alive = processes_with(token)
            parent.kill()
        assert 1 == len(alive)
        deadline = time.monotonic() + 10
        while processes_with(token) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [] == processes_with(token)


@linux
@pytest.mark.skipif(not os.environ.get(dml_linux.VARIABLE), reason=f"{dml_linux.VARIABLE} is not set")
class TestDirectMLOnLinux:
    """The worker on the DirectML EP, in the rig that OPMAP_DML_RUNTIME names."""

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
        """Returns the process id of the Python under Wine: the only process of the worker that is not a parent."""
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
        """After ID3D12Device5::RemoveDevice, ONNX Runtime's error is recognised as a lost device."""
        judge, perform = self.judge(worker), worker.perform
        assert "pass" == judge(cases[0]).verdict
        token = worker._child.token

        def removes(step, limit=None):
            if isinstance(step, Open):
                model = b"remove device\n" + step.model.tobytes()
                step = msgspec.structs.replace(step, model=np.frombuffer(model, np.uint8))
            return perform(step, limit)

        worker.perform = removes
        record = judge(cases[1])
        worker.perform = perform
        assert "device-lost" == record.verdict, record.message
        assert "887A0005" in record.message
        assert [] == processes_with(token)
        assert "pass" == judge(cases[2]).verdict

    @pytest.mark.parametrize(
        ("prefix", "verdict", "stage"), [(b"", "error", "load"), (b"allow fallback\n", "fallback", None)]
    )
    def test_planted_fallback(self, worker, cases, prefix, verdict, stage):
        """DirectML has no kernel for a Gather of strings. The values are right, but the verdict is not `pass`."""
        model = onnx.load_from_string(map_descriptor(cases[0].desc, index_conversion="directml").model_bytes)
        (gather,) = (node for node in model.graph.node if node.op_type == "Gather")
        data, name = gather.input[0], model.graph.output[0].name
        gather.input[0], model.graph.node[-1].output[0] = "text", "gathered"
        model.graph.node.insert(0, helper.make_node("Cast", [data], ["text"], to=TensorProto.STRING))
        model.graph.node.append(helper.make_node("Cast", ["gathered"], [name], to=TensorProto.FLOAT))
        worker.plant(1, prefix + model.SerializeToString())
        record = self.judge(worker)(cases[0])
        assert (verdict, stage) == (record.verdict, record.stage), record.message
        assert not record.proven
        if prefix:
            assert "Gather on CPUExecutionProvider" in record.message

    def test_helper_on_the_cpu(self, worker, cases):
        """Where the fallback is allowed, a Cast on the CPU EP does not unprove the Gather; the record says where it was."""
        model = onnx.load_from_string(map_descriptor(cases[0].desc, index_conversion="directml").model_bytes)
        name = model.graph.output[0].name
        model.graph.node[-1].output[0] = "gathered"
        for source, target, to in (("gathered", "text", TensorProto.STRING), ("text", name, TensorProto.FLOAT)):
            model.graph.node.append(helper.make_node("Cast", [source], [target], to=to))
        worker.plant(1, b"allow fallback\n" + model.SerializeToString())
        record = self.judge(worker)(cases[0])
        assert ("pass", True) == (record.verdict, record.proven)
        assert "Cast on CPUExecutionProvider" in record.message
