"""Trouble in the worker process: a failure of it costs one case only, and no process stays behind."""

import io
import os
import signal
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from troubled_workers import CHILD, IDENTITY, ROOT, Planted, first_cases, judge, linux, started, troubled

from opmap.engines import frames
from opmap.engines.child import processes_with
from opmap.engines.sessions import CPU
from opmap.engines.steps import Open, Run
from opmap.engines.worker import DeviceLost, HangLimit, WorkerCrashed, WorkerProvider, WorkerTimeout
from opmap.errors import ProviderError

pytestmark = pytest.mark.platform

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
cases = pytest.fixture(first_cases, scope="module")
worker = pytest.fixture(started)


def verdicts(cases, model, **options):
    """Returns the verdicts of the cases. The third case runs this model in place of its own."""
    with troubled(kind=Planted).plant(3, model, **options) as worker:
        return [record.verdict for record in map(judge(worker), cases)]


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
                worker.run_once(b"sleep", {})
            worker.timeout = 20
            assert "pass" == judge(worker)(cases[0]).verdict

    @posix
    def test_killed_between_two_cases(self, worker, cases):
        """No case is lost if the child is killed between two cases."""
        assert "pass" == judge(worker)(cases[0]).verdict
        os.kill(worker.pid, signal.SIGKILL)
        worker._child.wait(5)
        assert "pass" == judge(worker)(cases[1]).verdict

    def test_first_run(self, worker):
        """The first run of a process has the same limit as any other. The start has one of its own."""
        worker.timeout, worker.start_timeout = 0.5, 60.0
        with pytest.raises(WorkerTimeout, match=r"no answer within 0\.5 s"):
            worker.run_once(b"sleep", {})

    def test_full_pipe(self, worker):
        """A model larger than a pipe's buffer, sent to a child that does not read, is a timeout."""
        worker.start()
        worker.timeout = worker.start_timeout = 0.3
        if sys.platform != "win32":
            os.kill(worker.pid, signal.SIGSTOP)
        model = b"sleep" if sys.platform == "win32" else b"\0" * 10_000_000
        with pytest.raises(WorkerTimeout):
            worker.run_once(model, {})

    def test_messages(self, worker):
        with pytest.raises(WorkerCrashed, match="ended with exit code 0x7"):
            worker.run_once(b"exit", {})
        with pytest.raises(WorkerCrashed, match=r"trouble_child\.py"):  # from faulthandler's report
            worker.run_once(b"crash", {})

    def test_lost_device_in_stderr(self, worker):
        """A crash is a lost device if the child's stderr contains one of the HRESULTs."""
        with pytest.raises(DeviceLost, match=r"887a0020$"):  # without the colour that it is printed in
            worker.run_once(b"say and die", {})

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
            worker.run_once(b"sleep", {})
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
            worker.run_once(b"", {})

    def test_wrong_reply(self):
        stream = io.BytesIO()
        frames.write(stream, frames.encode(frames.Facts({}, number=1)))
        message = "the reply must be Performed, got Facts"
        with troubled(stream.getvalue().hex()) as worker, pytest.raises(WorkerCrashed, match=message):
            worker.run_once(b"", {})

    def test_reply_to_another_request(self):
        """A reply that comes twice is not taken for the reply to the next request."""
        feeds = {"x": np.ones((), np.float32)}
        with troubled() as worker:
            model = np.frombuffer(b"answer twice\n" + IDENTITY, np.uint8)
            worker.perform(Open(session="s", model=model))
            worker.perform(Run(session="s", feeds=feeds))
            with pytest.raises(WorkerCrashed, match="the reply must be for request 3, got Performed for request 2"):
                worker.run_once(IDENTITY, {"x": np.zeros((), np.float32)})
            (output,) = worker.run_once(IDENTITY, {"x": np.zeros((), np.float32)}).outputs.values()
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
            worker.run_once(b"x" * 1001, {})
        assert "error" == caught.value.verdict
        assert pid == worker.pid

    def test_type(self, worker, pid):
        with pytest.raises(frames.FrameError, match="complex64"):
            worker.run_once(IDENTITY, {"x": np.zeros((), np.complex64)})
        assert pid == worker.pid

    def test_output_type(self, worker, pid):
        """An output of strings cannot be sent."""
        model = onnx.load_from_string(IDENTITY)
        model.graph.node[0].CopyFrom(helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING))
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.STRING
        with pytest.raises(ProviderError, match=r"must have one of the types .*, got object") as caught:
            worker.run_once(model.SerializeToString(), {"x": np.ones((), np.float32)})
        assert ("error", "run") == (caught.value.verdict, caught.value.stage)
        assert pid == worker.pid

    def test_long_message(self, worker, pid):
        with pytest.raises(ProviderError) as caught:
            worker.run_once(b"long message", {})
        assert 10_000 == len(str(caught.value))
        assert pid == worker.pid


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
                worker.run_once(b"stop", {})
            assert [] == processes_with(token)

    @pytest.mark.slow
    @pytest.mark.parametrize("model", [b"", b"sleep", b"hold"])
    def test_after_the_parent_was_killed(self, model):
        program = f"""if True:
            import sys, threading, time
            from opmap.engines.worker import WorkerProvider
            command = {[sys.executable, "-P", str(CHILD), ROOT]!r}
            worker = WorkerProvider({CPU!r}, command=command, timeout=1, start_timeout=60)
            worker.start()
            print(worker._child.token, flush=True)
            if {model!r}:
                worker.timeout = 1.5
                worker.run_once({model!r}, {{}})
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
