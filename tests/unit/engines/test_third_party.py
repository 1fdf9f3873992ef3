"""A third party's provider may do anything: it costs a case, or the provider is missing. It never ends a run in
silence."""

import json
import re
import subprocess
import sys

import pytest
from tiers import all_cases

from opmap.cases.case import Case
from opmap.cli import main
from opmap.engines.providers import ProviderMissing, open_provider
from opmap.engines.steps import Result
from opmap.engines.worker import WorkerProvider
from opmap.errors import InputError, ProviderError
from opmap.judge.judge import Judge
from opmap.mapping import map_descriptor
from opmap.tensors import DataType, Tensor

pytestmark = pytest.mark.platform

MODULE = '''
import atexit, os, sys, time

import numpy as np


class Loose(BaseException):
    """No subclass of Exception."""


class Silent(Exception):
    def __str__(self): raise SystemExit(0)


class Nameless(type):
    """The type of classes whose name cannot be asked for."""
    @property
    def __name__(cls): raise SystemExit(0)
class Anonymous(Exception, metaclass=Nameless):
    """An exception of such a class."""
class Unset(metaclass=Nameless):
    """No backend, of such a class."""


class Backend:
    name = "hostile"

    def run(self, model_bytes, feeds):
        import onnxruntime
        session = onnxruntime.InferenceSession(model_bytes, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)


def after(action):
    """A backend that is right, and does something after each run."""
    class Does(Backend):
        def run(self, model_bytes, feeds):
            outputs = super().run(model_bytes, feeds)
            action(feeds)
            return outputs
    return Does


def throws(error):
    """A backend whose run raises."""
    class Throws(Backend):
        def run(self, model_bytes, feeds): raise error
    return Throws


def changes_feeds(feeds):
    for array in feeds.values(): array[...] = 0
    feeds.clear()


def goes_away(feeds): os.chdir("/" if os.name != "nt" else "C:\\\\")
def closes_stdout(feeds): os.close(1); sys.stdout = None
def closes_streams(feeds): sys.stdout.close(); sys.stderr.close()
def prints(feeds): print("{ not JSON"); os.write(1, b"nor this"); atexit.register(print, "nor that")
def forks(feeds): os.fork()
def loose_fork(feeds):
    if os.fork() == 0: raise Loose("child")


Changes, GoesAway, Closes, Prints = map(after, (changes_feeds, goes_away, closes_stdout, prints))
ClosesStreams, ClosesPipes = after(closes_streams), after(lambda feeds: os.closerange(3, 64))
Forks, LooseFork = map(after, (forks, loose_fork))
Exits, ExitsZero, Raises, Mute = map(throws, (SystemExit("bye"), SystemExit(0), Loose("no"), Silent()))
Interrupts, Unnamed = throws(KeyboardInterrupt()), throws(Anonymous("no"))


Unable = throws(NotImplementedError("rank 9"))


class Objects(Backend):
    def run(self, model_bytes, feeds): return [np.array([None], object)]


def mute_error():
    """A backend that raises an error of opmap without a text."""
    from opmap.errors import ProviderError
    class MuteError(ProviderError):
        def __str__(self): raise SystemExit(0)
    return throws(MuteError("no", stage="run"))()


Surrogate, Long = throws(ValueError("bad \\udc80 text")), throws(ValueError("a.cpp(1)" * 200_000))


class NoName(Backend):
    @property
    def name(self): raise SystemExit(0)
class OddName(Backend):
    name = Silent()
class OddClass(Backend):
    device_class = "great"
class LongName(Backend):
    name = "x" * 100_000
class Poses(Backend):
    name = "DmlExecutionProvider"
class Pairs(Backend):
    def placement(self): return [("Gather", "hostile"), ["Reshape", "hostile"]]
class Elsewhere(Backend):
    def placement(self): return [("Gather", "something else")]
class WrongElsewhere(Elsewhere):
    def run(self, model_bytes, feeds): return [array + 1 for array in super().run(model_bytes, feeds)]
class Helper(Backend):
    def placement(self): return [("Gather", "hostile"), ("Reshape", "my CPU")]
class Nonsense(Backend):
    def placement(self): return 7
class Triples(Backend):
    def placement(self): return [("Gather", "hostile", "x")]
class Unplaced(Backend):
    def placement(self): raise Loose("nowhere")
class Claims(Backend):
    def placement(self):
        from opmap.engines.protocol import Placement
        return Placement("assignment-info", (("Gather", "hostile"),))


def factory(): raise Loose("no device")
def zero(): raise SystemExit(0)
def leaves(): os._exit(0)
def sleeps(): time.sleep(60)
'''

CASE = "gather/example.1"

SELECT = ["--filter", CASE]


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    """The module in the current directory, and one that cannot be imported."""
    (tmp_path / "hostile_backends.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "hostile_import.py").write_text(
        "class Loose(BaseException): pass\nraise Loose('no')\n", encoding="utf-8"
    )
    (tmp_path / "hostile_exit.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "hostile_backends", raising=False)


@pytest.fixture
def opmap(capfd):
    """Runs the command line in this process, and returns (stdout, stderr). No answer has a traceback."""

    def run(*arguments, code):
        found = main(arguments)
        out, err = capfd.readouterr()
        assert code == found, err
        assert "Traceback" not in err or code == 1
        return out, err

    return run


@pytest.fixture
def record(opmap):
    """Returns the record of one case on a backend of the module."""

    def run(name, *options, code):
        out, _ = opmap("validate", "--provider", f"hostile_backends:{name}", *SELECT, "--json", *options, code=code)
        (only,) = [r for r in json.loads(out)["cases"] if r["case"] == CASE]
        return only

    return run


posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork, and no pipes by number")
in_worker_or_not = pytest.mark.parametrize("options", [(), ("--in-process",)], ids=["worker", "in-process"])


class TestRun:
    """What `run` does costs at most its own case."""

    @in_worker_or_not
    @pytest.mark.parametrize(
        "name",
        ["Backend", "Changes", "GoesAway", pytest.param("Forks", marks=posix), pytest.param("LooseFork", marks=posix)],
    )
    def test_harmless(self, record, name, options):
        """Feeds are its own to change. The current directory is set back. A forked copy of the process ends."""
        assert "pass" == record(name, *options, code=0)["verdict"]

    @pytest.mark.parametrize("name", [pytest.param("Closes", marks=pytest.mark.slow), "ClosesStreams", "Prints"])
    def test_stdout(self, name):
        """Its stdout is not opmap's, also when its process ends."""
        command = [
            sys.executable,
            "-m",
            "opmap",
            "validate",
            "--provider",
            f"hostile_backends:{name}",
            *SELECT,
            "--json",
        ]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        assert 0 == done.returncode
        assert "pass" == json.loads(done.stdout)["cases"][0]["verdict"]

    @in_worker_or_not
    def test_type_of_output(self, record, options):
        """An output of a type that no tensor has is wrong, as one of another shape."""
        found = record("Objects", *options, code=1)
        assert ("mismatch", "must be a list of one array of numbers, got OBJECT") == (
            found["verdict"],
            found["message"],
        )

    @in_worker_or_not
    def test_all_unsupported(self, record, options):
        """A provider does not assert that it ran what it does not support: such a run shows nothing, and is red."""
        found = record("Unable", *options, code=1)
        assert ("unsupported", None) == (found["verdict"], found["placement"])

    def test_reason_of_all_unsupported(self, opmap):
        """The run says why, and how often."""
        out, _ = opmap("validate", "--provider", "hostile_backends:Unable", "--filter", "gather/example.*", code=1)
        assert re.search(r"unsupported: \S.* \(5 of 5 cases\)", out)

    @posix
    def test_closed_pipes(self, record):
        """The message does not blame a signal that opmap itself sent, whether the process ends by itself or is
        ended.
        """
        found = record("ClosesPipes", code=1)
        assert "crash" == found["verdict"]
        ends = ("closed its output and was ended", "ended with exit code 0x1")
        assert found["message"].startswith(tuple(f"the worker process {end} while running the model" for end in ends))

    def test_keyboard_interrupt(self, record):
        """In the worker, nobody can press Ctrl-C: it is an exception as any other."""
        assert "KeyboardInterrupt" == record("Interrupts", code=1)["message"]

    @in_worker_or_not
    def test_long_message(self, record, options):
        """A message is cut before anything looks for places in it."""
        assert 10_000 >= len(record("Long", *options, code=1)["message"])


class TestRelease:
    """A failure when the sessions of a right case are released is the case's."""

    @pytest.mark.parametrize(
        ("name", "verdict", "message"),
        [
            ("crashes_at_close", "crash", "0x4d while releasing all sessions and values"),
            ("fails_at_close", "error", "RuntimeError: still busy"),
        ],
    )
    def test_failure(self, name, verdict, message):
        opened = open_provider(f"planted_sessions:{name}")
        (case,) = (case for case in all_cases("smoke") if case.id == CASE)
        record = Judge(opened)(case)
        opened.close()
        assert (verdict, "run") == (record.verdict, record.stage)
        assert record.message.endswith(message)

    @pytest.mark.parametrize(
        ("name", "verdict"),
        [("wrong_and_crashes", "mismatch"), ("clamps_and_fails", "error"), ("crashes_at_close", "crash")],
    )
    def test_other_faults(self, name, verdict):
        """It hides no wrong value. It is not taken for the refusal of an index that is out of range."""
        (case,) = (case for case in all_cases("smoke") if case.id == CASE)
        indices = Tensor.from_values(DataType.UINT32, (5,), [3, 9, 3, 0, 2])
        opened = open_provider(f"planted_sessions:{name}")
        record = Judge(opened)(Case("out-of-range", case.desc, {**case.tensors, "IndicesTensor": indices}))
        opened.close()
        assert verdict == record.verdict


class TestPlacement:
    """placement() is believed, and is no proof."""

    @pytest.mark.parametrize("name", ["Backend", "Pairs", "Claims"])
    def test_asserted(self, record, name):
        found = record(name, code=0)
        assert ("pass", "asserted") == (found["verdict"], found["placement"]["source"])
        assert (False, True) == (found["placement"]["proven"], found["placement"]["asserted"])

    def test_error(self, record):
        """Nothing is asserted of a case that an error ended."""
        found = record("Raises", code=1)
        assert ("error", None) == (found["verdict"], found["placement"])

    def test_table(self, opmap):
        """The table has a column for what is asserted, and the run is green, also if the provider is required."""
        out, _ = opmap("validate", "--provider", "hostile_backends:Backend", *SELECT, "--require-provider", code=0)
        assert "asserted" in out
        assert "0 of 1 case proven, 1 asserted by the provider itself" in out

    def test_elsewhere(self, record):
        found = record("Elsewhere", code=1)
        assert ("fallback", "asked for hostile, got Gather on something else") == (found["verdict"], found["message"])

    def test_wrong_elsewhere(self, record):
        """Wrong values say first that the provider did not compute them."""
        found = record("WrongElsewhere", code=1)
        assert "mismatch" == found["verdict"]
        assert found["message"].startswith("asked for hostile, got Gather on something else; ")

    def test_helper(self):
        """A Reshape of the model that ran elsewhere does not unprove the operator's node; the record says where it
        was.
        """
        opened = open_provider("hostile_backends:Helper")
        judge = Judge(opened)
        cases = [
            case for case in all_cases("smoke") if case.id.startswith("gather/example.") and case.variant == "plain"
        ]
        found = {}
        for case in cases:
            reshaped = any(node.op_type == "Reshape" for node in map_descriptor(case.desc).model.graph.node)
            record = judge(case)
            found.setdefault(reshaped, set()).add((record.verdict, record.asserted, record.message))
        opened.close()
        assert {
            True: {("pass", True, "not on hostile: Reshape on my CPU")},
            False: {("fallback", False, "asked for hostile, got Reshape on my CPU")},
        } == found

    @pytest.mark.parametrize(
        ("name", "message"),
        [("Nonsense", "must return pairs"), ("Triples", "must return pairs"), ("Unplaced", "Loose: nowhere")],
    )
    def test_malformed(self, record, name, message):
        found = record(name, code=1)
        assert ("error", "run") == (found["verdict"], found["stage"])
        assert message in found["message"]


class TestOpening:
    """A provider that cannot be opened is bad input, or missing."""

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("hostile_import:x", "Loose: no"),
            ("hostile_exit:x", "SystemExit: 0"),
            ("hostile_backends:NoName", "SystemExit: 0"),
            ("hostile_backends:OddName", "SystemExit: 0"),
            ("hostile_backends:Unset", "the factory must return an object with a method run, got a nameless type"),
            (
                "hostile_backends:OddClass",
                "device_class must be hardware, translated, emulated, cpu or None, got 'great'",
            ),
        ],
    )
    def test_bad(self, opmap, spec, message):
        _, err = opmap("validate", "--provider", spec, *SELECT, "--in-process", code=2)
        assert f"opmap: --provider {spec}: {message}" == err.strip()

    def test_name_that_is_not_utf8(self, opmap):
        """It cannot be sent to the worker, which is not started for nothing: stderr has one line."""
        _, err = opmap("validate", "--provider", "x\udcff:y", *SELECT, code=2)
        assert r"opmap: --provider x\udcff:y cannot be sent to the worker process: a frame's texts must be UTF-8" in err
        assert 1 == err.count("\n")

    def test_option_that_is_not_utf8(self, opmap):
        _, err = opmap("validate", "--provider", "cpu", "--ep-library", "a=\udcff", code=2)
        assert r"must be UTF-8, got 'a=\udcff'" in err

    @in_worker_or_not
    @pytest.mark.parametrize(("name", "message"), [("factory", "Loose: no device"), ("zero", "SystemExit: 0")])
    def test_missing(self, record, opmap, name, message, options):
        """A factory that raises says that the provider is not there."""
        found = record(name, *options, code=0)
        assert ("not-run", f"--provider hostile_backends:{name}: {name}() raised {message}") == (
            found["verdict"],
            found["message"],
        )
        opmap("validate", "--provider", f"hostile_backends:{name}", *SELECT, "--require-provider", *options, code=1)

    def test_ends_the_process(self):
        with pytest.raises(ProviderMissing, match="ended with exit code 0x0"):
            open_provider("hostile_backends:leaves")

    def test_limit_of_the_start(self, opmap):
        """Import and factory have a limit of their own."""
        words = ("--start-timeout", "0.7", "--timeout-per-case", "60")
        out, _ = opmap("validate", "--provider", "hostile_backends:sleeps", *SELECT, *words, code=0)
        assert "NOT RUN: the worker process does not start: no answer within 0.7 s" in out

    def test_long_name(self):
        opened = open_provider("hostile_backends:LongName")
        assert 200 == len(opened.name)
        opened.close()

    def test_poses_as_directml(self):
        """A name of ONNX Runtime's does not make it ONNX Runtime's provider."""
        opened = open_provider("hostile_backends:Poses")
        assert not opened.directml
        opened.close()

    def test_log_of_onnx_runtime(self, opmap, tmp_path, monkeypatch):
        """ONNX Runtime logs nothing in between: the record holds its errors."""
        (tmp_path / "logging_backends.py").write_text(
            "import onnxruntime\n"
            "def run(model, feeds):\n"
            "    session = onnxruntime.InferenceSession(model, providers=['CPUExecutionProvider'])\n"
            "    return session.run(None, {name: feed * 0 + 99 if feed.dtype.kind == 'u' else feed for name, feed in feeds.items()})\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        out, err = opmap("validate", "--provider", "logging_backends:run", *SELECT, code=1)
        assert "error at run" in out
        assert "onnxruntime:," not in err

    @pytest.mark.parametrize("option", ["--provider-option=a=b", "--session-option=a=b", "--ep-library=a=b"])
    def test_options_of_onnx_runtime(self, opmap, option):
        _, err = opmap("validate", "--provider", "hostile_backends:Backend", option, code=2)
        assert "are for ONNX Runtime, got 'hostile_backends:Backend'" in err


class TestText:
    """Text from outside is cut before it is looked at."""

    def test_of_the_worker(self, monkeypatch):
        """A message of a worker that does not keep the limit is cut by the parent."""
        worker = WorkerProvider("cpu")
        monkeypatch.setattr(worker, "start", lambda: None)
        reply = type("Reply", (), {"result": Result(error="x" * 1_000_000)})
        monkeypatch.setattr(worker, "_ask", lambda *_: reply)
        assert 10_000 == len(worker.perform(None).error)

    def test_error(self):
        assert 10_000 == len(str(ProviderError("x" * 1_000_000)))
        assert r"a \udc80 b" == str(ProviderError("a\n \udc80 b"))
        assert issubclass(InputError, ValueError)
