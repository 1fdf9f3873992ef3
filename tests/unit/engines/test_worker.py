"""The worker process: it returns what a session in this process returns. When it cannot start, and when no more cases
run."""

import sys

import numpy as np
import pytest
from troubled_workers import IDENTITY, first_cases, judge, started, troubled

from opmap.engines import frames
from opmap.engines.child import processes_with
from opmap.engines.machine.environment import collect
from opmap.engines.provider_facts import ProviderFacts
from opmap.engines.providers import Provider, ProviderMissing, open_provider
from opmap.engines.sessions import CPU, DIRECTML, SessionProvider
from opmap.engines.worker import DeviceLost, HangLimit, NotRun, WorkerCrashed, WorkerProvider, WorkerTimeout
from opmap.errors import InputError, ProviderError

pytestmark = pytest.mark.platform

cases = pytest.fixture(first_cases, scope="module")
worker = pytest.fixture(started)


class TestRun:
    """A worker returns the same results as a session in this process."""

    def test_session_error(self, worker):
        """The error has the stage and the message of the same error in this process."""
        for provider in (SessionProvider(CPU), worker):
            with pytest.raises(ProviderError, match=r"protobuf|ModelProto") as caught:
                provider.run_once(b"no model", {})
            assert ("error", "load") == (caught.value.verdict, caught.value.stage)

    def test_same_process_after_an_error(self, worker, cases):
        judge(worker)(cases[0])
        pid = worker.pid
        with pytest.raises(ProviderError):
            worker.run_once(b"no model", {})
        assert "pass" == judge(worker)(cases[0]).verdict
        assert pid == worker.pid

    def test_prints(self, cases):
        """Text that a library or a program prints to stdout does not get into the frames."""
        feeds = {"x": np.full((), 7, np.float32)}
        with troubled() as worker:
            assert [7] == list(worker.run_once(b"print\n" + IDENTITY, feeds).outputs.values())

    def test_environment(self, worker, cases):
        """The facts of the worker process can be collected between two cases."""
        assert "pass" == judge(worker)(cases[0]).verdict
        own, facts = collect(), Provider(CPU, None, None, worker).environment()
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


class TestSpare:
    """A provider that keeps a spare child has the next one started before it is needed."""

    def test_restart(self, worker, cases):
        worker.keep_spare()
        worker.start()
        first, spare = worker.pid, worker._spare
        worker.restart()
        assert worker._child is spare
        assert first != worker.pid
        assert "pass" == judge(worker)(cases[0]).verdict
        worker.close()
        assert [] == processes_with(spare.token)

    def test_dead(self, worker, cases):
        """A spare child that has ended is not used."""
        worker.keep_spare()
        worker.start()
        worker._spare.kill()
        worker.restart()
        assert "pass" == judge(worker)(cases[0]).verdict


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
        with WorkerProvider(CPU, command=command, timeout=limit, start_timeout=limit) as worker:
            for expected in (message, message, "2 workers in a row did not start"):
                with pytest.raises(NotRun, match=expected):
                    worker.run_once(b"", {})

    def test_no_such_program(self):
        with WorkerProvider(CPU, command=["/no/such/python"]) as worker, pytest.raises(NotRun, match="does not start"):
            worker.run_once(b"", {})

    def test_no_such_provider(self):
        with (
            WorkerProvider("FooExecutionProvider") as worker,
            pytest.raises(NotRun, match="FooExecutionProvider is not in the installed ONNX Runtime"),
        ):
            worker.start()


class TestHangLimit:
    """After two hangs or lost devices on a GPU within five minutes, no more cases run on it."""

    @pytest.mark.parametrize("model", [b"sleep", b"lose device"])
    def test_two(self, cases, model, monkeypatch):
        limit = HangLimit()
        monkeypatch.setattr(WorkerProvider, "uses_gpu", True)
        with troubled(hang_limit=limit) as worker:
            for _ in range(2):
                worker.timeout = 20
                assert "pass" == judge(worker)(cases[0]).verdict
                worker.timeout = 0.2
                with pytest.raises((WorkerTimeout, DeviceLost)):
                    worker.run_once(model, {})
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

    @pytest.mark.parametrize(
        ("name", "device_class", "platform", "expected"),
        [
            ("CPUExecutionProvider", "cpu", "win32", False),
            ("DmlExecutionProvider", "hardware", "win32", True),
            ("DmlExecutionProvider", "emulated", "linux", False),
            ("DmlExecutionProvider", "translated", "linux", True),
            ("WebGpuExecutionProvider", None, "win32", True),
            ("OpenVINOExecutionProvider", None, "linux", False),
            ("CUDAExecutionProvider", "hardware", "linux", True),
            ("mine:Backend", None, "win32", False),
            ("mine:Backend", "hardware", "linux", True),
        ],
    )
    def test_what_may_be_a_gpu(self, monkeypatch, name, device_class, platform, expected):
        worker = WorkerProvider(name)
        monkeypatch.setattr(WorkerProvider, "facts", ProviderFacts(name, "1", device_class))
        monkeypatch.setattr("opmap.engines.worker.sys.platform", platform)
        assert expected == worker.uses_gpu

    def test_ten_in_a_row(self):
        """Without a GPU a hang costs one case. Ten in a row end the run, and the message says so."""
        limit = HangLimit()
        for _ in range(9):
            limit.note("library", gpu=False)
        assert limit.refusal("library") is None
        limit.answered("library")
        for _ in range(10):
            assert limit.refusal("library") is None
            limit.note("library", gpu=False)
        assert "10 runs in a row gave no answer within the limit" in limit.refusal("library")
        assert "Windows" not in limit.refusal("library")

    def test_hangs_without_a_gpu(self, cases):
        with troubled(timeout=20) as worker:
            for _ in range(3):
                worker.timeout = 0.2
                with pytest.raises(WorkerTimeout):
                    worker.run_once(b"sleep", {})
                worker.timeout = 20
                assert "pass" == judge(worker)(cases[0]).verdict

    def test_crashes_do_not_count(self, cases):
        with troubled() as worker:
            for _ in range(3):
                with pytest.raises(WorkerCrashed):
                    worker.run_once(b"exit", {})
            assert "pass" == judge(worker)(cases[0]).verdict

    def test_another_device_of_the_provider_goes_on(self, cases):
        limit = HangLimit()
        with troubled(hang_limit=limit) as lost, troubled(hang_limit=limit, device_id=1) as other:
            for _ in range(2):
                with pytest.raises(DeviceLost):
                    lost.run_once(b"lose device", {})
            with pytest.raises(NotRun):
                lost.run_once(b"", {})
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

    def test_missing(self, monkeypatch):
        """If the worker has no device for the DirectML EP, the EP counts as missing, and `auto` opens the CPU EP."""
        monkeypatch.setattr(WorkerProvider, "_receive", lambda *_: frames.Refused("no hardware adapter", missing=True))
        monkeypatch.setattr("opmap.engines.providers.available", lambda: [DIRECTML, CPU])

        with pytest.raises(ProviderMissing, match="no hardware adapter"):
            open_provider("dml")
        opened = open_provider("auto")
        assert CPU == opened.name and opened.note.startswith(
            "not on the DirectML EP: no hardware adapter. This run used the CPU EP"
        )
