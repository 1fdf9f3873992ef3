"""What opmap's processes leave alone and leave behind: the network, the current folder, temporary folders, other
processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiers import others_slow

from opmap.engines import temporary
from opmap.engines.child import Child, processes_with
from opmap.engines.machine.environment import collect
from opmap.engines.sessions import SessionProvider
from opmap.engines.telemetry import switch_off

pytestmark = pytest.mark.platform
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

PROGRAM = "from opmap.cli import main; exit(main())"
"""What the installed command runs."""

SLOW_REPORT = """
import sys, time
import opmap.reports.html_report
from opmap.cli.start import main

opmap.reports.html_report.write_report = lambda bundle: time.sleep(60)
sys.exit(main())
"""
"""A program: opmap, whose report takes long."""

BACKEND = """
import os, subprocess, sys, tempfile, time

class Backend:
    name = "mine"

    def __init__(self):
        tempfile.mkdtemp()
        word = os.environ.get("OPMAP_TEST_WORD")
        word and subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", word], stdin=subprocess.DEVNULL)

    def run(self, model_bytes, feeds):
        {body}
        import onnxruntime
        return onnxruntime.InferenceSession(model_bytes, providers=["CPUExecutionProvider"]).run(None, feeds)
"""


def started(folder, *words, program=None, prefix=(), **variables):
    """Starts opmap, or a program, in a folder, whose temporary folder is `temporary` there."""
    (folder / "temporary").mkdir(exist_ok=True)
    own = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder / "temporary"))
    root = str(Path(__file__).parents[3])
    command = [sys.executable, *(("-P", "-c", program) if program else ("-m", "opmap"))]
    return subprocess.Popen(
        [*prefix, *command, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root, **own, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def ended(process, limit=60):
    """Returns exit code and output of a process."""
    output, errors = process.communicate(timeout=limit)
    return process.returncode, output + errors


def alive(word):
    """Returns whether a process with this word in its command line runs, after a moment in which it may end."""
    deadline = time.monotonic() + 5
    while processes_with(word) and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(processes_with(word))


class TestNetwork:
    """opmap uses no network, and turns the telemetry of ONNX Runtime off."""

    @pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
    @pytest.mark.parametrize("provider", [pytest.param("cpu", marks=pytest.mark.slow), "mine:Backend"])
    def test_no_connection(self, tmp_path, provider):
        (tmp_path / "mine.py").write_text(BACKEND.format(body=""))
        trace = tmp_path / "trace"
        prefix = ("strace", "-f", "-e", "trace=connect,sendto,sendmsg", "-o", str(trace))
        words = ("validate", "--provider", provider, "--filter", "gather/example.*")
        code, text = ended(started(tmp_path, *words, prefix=prefix, HOME=str(tmp_path)))
        assert 0 == code, text
        assert "AF_INET" not in trace.read_text()
        assert ["mine.py", "temporary", "trace"] == sorted(
            p.name for p in tmp_path.iterdir() if p.name != "__pycache__"
        )

    def test_telemetry(self, tmp_path):
        """It is off in the worker before ONNX Runtime is imported, and an ONNX Runtime that is imported is told."""
        body = "assert os.environ['ORT_DISABLE_TELEMETRY'] == '1' and 'onnxruntime' not in sys.modules"
        (tmp_path / "mine.py").write_text(BACKEND.format(body=body))
        words = ("validate", "--provider", "mine:Backend", "--case", "gather/example.1")
        code, text = ended(started(tmp_path, *words, ORT_DISABLE_TELEMETRY="0"))
        assert 0 == code, text
        told = []
        switch_off(SimpleNamespace(disable_telemetry_events=lambda: told.append(True)))
        assert [True] == told

    def test_an_imported_one_is_told(self, monkeypatch):
        """Whatever in opmap uses ONNX Runtime first says it to one that was imported before."""
        told = []
        for user in ("sessions", "machine.environment"):
            monkeypatch.setattr(f"opmap.engines.{user}.switch_off", lambda _, user=user: told.append(user))
        SessionProvider("CPUExecutionProvider")
        collect()
        assert {"sessions", "machine.environment"} == {*told}


class TestCurrentFolder:
    """A provider's module may come from the current folder, and nothing that opmap itself imports."""

    @pytest.mark.parametrize("in_process", [(), pytest.param(("--in-process",), marks=pytest.mark.slow)])
    @pytest.mark.parametrize("program", [None, pytest.param(PROGRAM, marks=pytest.mark.slow)])
    def test_other_modules(self, tmp_path, program, in_process):
        (tmp_path / "mine.py").write_text(BACKEND.format(body="import helper"))
        (tmp_path / "helper.py").write_text("")
        for name in ("onnx", "onnxruntime", "numpy", "msgspec", "google"):
            (tmp_path / f"{name}.py").write_text("raise SystemError('from the current folder')")
        words = ("validate", "--provider", "mine:Backend", "--filter", "gather/example.*", *in_process)
        code, text = ended(started(tmp_path, *words, program=program))
        assert (0, True) == (code, "current folder" not in text), text

    def test_module_of_a_name_of_opmap(self, tmp_path):
        """A provider's own modules may have the names of files beside the worker's: that folder is not searched."""
        (tmp_path / "frames.py").write_text("mine = True")
        (tmp_path / "worker.py").write_text(BACKEND.format(body="import frames; assert frames.mine"))
        words = ("validate", "--provider", "worker:Backend", "--filter", "gather/example.1")
        code, text = ended(started(tmp_path, *words))
        assert 0 == code, text

    def test_module_of_an_installed_name(self, tmp_path):
        """The provider's module is taken from the current folder, also if an installed package has its name."""
        (tmp_path / "jinja2.py").write_text(BACKEND.format(body=""))
        words = ("validate", "--provider", "jinja2:Backend", "--filter", "gather/example.1")
        code, text = ended(started(tmp_path, *words))
        assert 0 == code, text


class TestProcesses:
    """What a provider's worker starts, and its temporary files, end with it."""

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
    @pytest.mark.parametrize(
        "body", ["", *(pytest.param(body, marks=pytest.mark.slow) for body in ("time.sleep(60)", "os._exit(3)"))]
    )
    def test_started_processes(self, tmp_path, body):
        word = f"opmap-test-{os.getpid()}-{time.monotonic_ns()}"
        (tmp_path / "mine.py").write_text(BACKEND.format(body=body))
        words = ("validate", "--provider", "mine:Backend", "--case", "gather/example.1", "--timeout-per-case", "1")
        code, text = ended(started(tmp_path, *words, OPMAP_TEST_WORD=word))
        assert code == bool(body), text
        assert not alive(word)
        assert [] == list((tmp_path / "temporary").iterdir())

    def test_ended_with_the_child(self):
        """The process that a child started is gone with it, also on Windows, where a job holds both."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            connect = f"import socket, time; s = socket.create_connection({server.getsockname()}); time.sleep(60)"
            start = (
                f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {connect!r}]); time.sleep(60)"
            )
            child = Child([sys.executable, "-c", start], native=True)
            try:
                server.settimeout(60)
                connection, _ = server.accept()
            finally:
                child.kill()
            assert not child._folder.exists()
            connection.settimeout(20)
            with connection, suppress(ConnectionResetError):
                assert b"" == connection.recv(1)


class TestSignals:
    """A signal that ends opmap is told in one line, and nothing is left behind."""

    @posix
    @pytest.mark.parametrize(
        "number", ["SIGTERM", *(pytest.param(name, marks=pytest.mark.slow) for name in ("SIGINT", "SIGHUP"))]
    )
    def test_during_a_run(self, tmp_path, number):
        word = f"opmap-test-{os.getpid()}-{time.monotonic_ns()}"
        (tmp_path / "mine.py").write_text(BACKEND.format(body="time.sleep(60)"))
        process = started(tmp_path, "validate", "--provider", "mine:Backend", OPMAP_TEST_WORD=word)
        deadline = time.monotonic() + 30
        while not processes_with(word) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(getattr(signal, number))
        code, text = ended(process)
        assert (130, True, False) == (code, "interrupted" in text, "Traceback" in text), text
        assert [] == list((tmp_path / "temporary").iterdir())

    @posix
    @pytest.mark.parametrize("pause", others_slow([0.0, 0.3, 1.0], 0.3))
    def test_quick_ones(self, tmp_path, pause):
        """Three quick Ctrl-C are one: the table of what was done is printed, the bundle is whole, and the run goes on
        later.
        """
        (tmp_path / "mine.py").write_text(
            BACKEND.format(body="time.sleep(float(os.environ.get('OPMAP_TEST_SLEEP', 0)))")
        )
        words = ("validate", "--provider", "mine:Backend", "--filter", "gather/*")
        process = started(tmp_path, *words, "--report", "r", OPMAP_TEST_SLEEP="0.2")
        deadline = time.monotonic() + 30
        while not (tmp_path / "r" / "results.jsonl").exists() or not (tmp_path / "r" / "results.jsonl").stat().st_size:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(pause)

        code, text = ended(process)

        assert code in (
            130,
            -signal.SIGINT,
        )  # a shell says 130 of both; the last one may come after the end of the program
        assert (True, False) == ("cases on mine" in text, "Traceback" in text), text
        assert "\nINTERRUPTED: " in text and "cases left" in text
        assert 130 == json.loads((tmp_path / "r" / "run.json").read_bytes())["totals"]["exit_code"]
        assert 0 == ended(started(tmp_path, *words, "--resume", "r"))[0]

    @posix
    @pytest.mark.parametrize("pause", others_slow([0.0, 0.3], 0.0))
    def test_late_ones(self, tmp_path, pause):
        """Three Ctrl-C while the reports are written: the table is printed, and the exit code is that of Ctrl-C."""
        (tmp_path / "mine.py").write_text(BACKEND.format(body=""))
        words = ("validate", "--provider", "mine:Backend", "--filter", "gather/example.*", "--report", "r")
        process = started(tmp_path, *words, program=SLOW_REPORT)
        deadline = time.monotonic() + 30
        while not (tmp_path / "r" / "summary.md").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.3)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(pause)

        code, text = ended(process)

        assert (130, False) == (code, "Traceback" in text), text
        assert "\nINTERRUPTED: " in text and "interrupted: reports are missing" in text
        assert 0 == ended(started(tmp_path, "report", "r"))[0]

    @posix
    @pytest.mark.parametrize("name", ["opmap.cli.entry", "opmap.cli.commands.validate", "opmap.judge.run"])
    def test_during_imports(self, tmp_path, name):
        """Ctrl-C while opmap imports its own modules."""
        code, text = ended(self.interrupted(tmp_path, name))
        assert (130, True, False) == (code, "interrupted" in text, "Traceback" in text), text

    @posix
    @pytest.mark.parametrize(
        "name", ["numpy.linalg", "onnx.onnx_cpp2py_export", "onnxruntime.capi.onnxruntime_pybind11_state"]
    )
    def test_during_native_imports(self, tmp_path, name):
        """The import of native code goes on: an exception there ends the process by a signal. It is told afterwards."""
        code, text = ended(self.interrupted(tmp_path, name))
        assert (130, True) == (code, "interrupted" in text), text
        assert not {"raised", "Traceback"} & {*text.split()}, text

    @posix
    def test_while_a_class_is_made(self, tmp_path):
        """Python 3.11 makes a RuntimeError of an exception there."""
        program = """
import functools, os, signal

def interrupts(self, owner, name, really=functools.cached_property.__set_name__):
    functools.cached_property.__set_name__ = really
    os.kill(os.getpid(), signal.SIGINT)
    really(self, owner, name)

functools.cached_property.__set_name__ = interrupts
from opmap.cli import main
exit(main())
"""
        code, text = ended(started(tmp_path, "validate", "--provider", "cpu", program=program))
        assert (130, "opmap: interrupted\n") == (code, text)

    @posix
    @pytest.mark.slow
    @pytest.mark.parametrize("provider", ["cpu", "mine:Backend"])
    def test_at_any_time(self, tmp_path, provider):
        """From the first moment at which opmap runs at all. What Python does before that is not opmap's."""
        (tmp_path / "mine.py").write_text(BACKEND.format(body=""))
        program = f"print(flush=True); {PROGRAM}"
        for moment in range(20):
            process = started(tmp_path, "validate", "--provider", provider, program=program)
            process.stdout.readline()
            time.sleep(0.05 + moment / 10)
            process.send_signal(signal.SIGINT)
            code, text = ended(process)
            assert (130, True, False) == (code, "interrupted" in text, "Traceback" in text), (moment, text)
        assert [] == list((tmp_path / "temporary").iterdir())

    def interrupted(self, folder, name):
        """Starts opmap, which gets Ctrl-C as it imports a module; `raised` is printed if that ends the import."""
        program = f"""
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(self)
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                print("raised", flush=True)
                raise

sys.meta_path.insert(0, Interrupts())
from opmap.cli import main
exit(main())
"""
        return started(folder, "validate", "--provider", "cpu", program=program)


@posix
class TestSuspended:
    """A machine that sleeps, or a debugger that holds all processes, takes no time from a case."""

    def test_both(self, tmp_path):
        """Both processes stand still for longer than a case may take: no case is a timeout."""
        process, worker = self.started(tmp_path)
        for number in (process.pid, worker):
            os.kill(number, signal.SIGSTOP)
        time.sleep(3)
        for number in (worker, process.pid):
            os.kill(number, signal.SIGCONT)

        assert ["pass"] * 5 == self.verdicts(process)

    def test_worker_alone(self, tmp_path):
        """A worker that stands still while opmap waits is a timeout, and costs its case."""
        process, worker = self.started(tmp_path)
        os.kill(worker, signal.SIGSTOP)

        assert ["timeout", *["pass"] * 4] == self.verdicts(process)

    def verdicts(self, process):
        """Returns the verdicts of a run, in the order of its cases."""
        return [record["verdict"] for record in json.loads(process.communicate(timeout=60)[0])["cases"]]

    def started(self, folder):
        """Starts a run whose cases take a second each; returns its process and, while the first case runs, the worker's
        id.
        """
        body = "open('running', 'w').close(); time.sleep(0.7)"
        text = BACKEND.replace("tempfile.mkdtemp()", "print(os.getpid(), file=open('pids', 'a'))").format(body=body)
        (folder / "mine.py").write_text(text, encoding="utf-8")
        words = ("validate", "--provider", "mine:Backend", "--filter", "gather/example.*", "--timeout-per-case", "1.5")
        process = started(folder, *words, "--json")
        deadline = time.monotonic() + 30
        while not (folder / "running").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.2)
        return process, int((folder / "pids").read_text(encoding="utf-8").split()[0])


class TestTemporary:
    """Folders of a process that was killed are removed by the next one."""

    def test_left_folders(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        monkeypatch.setattr(temporary, "_locks", {})
        left = tmp_path / "opmap-run-left"
        left.mkdir()
        (left / "in-use").touch()
        (tmp_path / "opmap-run-foreign").mkdir()
        own = temporary.make_folder()
        assert not left.exists() and (tmp_path / "opmap-run-foreign").exists()
        monkeypatch.setattr(temporary, "_locks", {})
        other = temporary.make_folder()
        assert own.exists(), "its process runs"
        temporary.remove_folder(other)
        assert not other.exists()
