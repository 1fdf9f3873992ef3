"""Providers: how they are opened by name, third-party providers, sessions, and the proof of placement."""

import sys
import warnings

import numpy as np
import pytest
from described import described

from opmap.engines.dml_linux import VARIABLE
from opmap.engines.protocol import Placement
from opmap.engines.providers import ProviderMissing, available, open_provider
from opmap.engines.sessions import CPU, DIRECTML, SessionProvider
from opmap.engines.steps import Drop, Get, Open, Run, Setup
from opmap.errors import InputError, ProviderError
from opmap.mapping import map_descriptor
from opmap.session import open_judge
from opmap.tensors import DataType
from opmap.vocabulary import Stage

pytestmark = pytest.mark.platform

MODEL = map_descriptor(described("GATHER", (3,), (2,), 0, 1, index_type=DataType.UINT32)).model_bytes
FEEDS = {"InputTensor": np.array([5, 6, 7], np.float32), "IndicesTensor": np.array([2, 0], np.uint32)}


class TestOpening:
    """open_provider opens the provider that a name stands for."""

    @pytest.mark.parametrize("name", ["cpu", "CPU", "CPUExecutionProvider"])
    def test_cpu(self, name):
        """The CPU EP opens by its short name, in any case, and by its full name."""
        opened = open_provider(name)
        assert (CPU, False) == (opened.name, opened.directml)
        assert opened.version

    def test_auto(self, monkeypatch):
        """`auto` opens the CPU EP if ONNX Runtime has no DirectML EP."""
        monkeypatch.delenv(VARIABLE, raising=False)
        assert open_provider("auto").name in ((DIRECTML, CPU) if DIRECTML in available() else (CPU,))

    def test_missing(self):
        """A missing execution provider raises ProviderMissing, an unknown name InputError."""
        with pytest.raises(ProviderMissing, match="NoSuchExecutionProvider is not in the installed ONNX Runtime"):
            open_provider("NoSuchExecutionProvider")
        with pytest.raises(InputError, match=r"--provider must be one of auto, cpu, dml, directml, .*, got 'nothing'"):
            open_provider("nothing")

    @pytest.mark.parametrize("name", [CPU, "planted_faults:right", "fault:none"])
    @pytest.mark.parametrize("option", [{"adapter": "Radeon"}, {"device_id": 1}, {"disable_metacommands": True}])
    def test_options_of_directml(self, name, option):
        """The options that choose an adapter are refused for every other provider, and not ignored."""
        with pytest.raises(InputError, match=f"are for the DirectML EP, got '{name}'"):
            open_judge(name, place=option)


class TestPlugins:
    """MODULE:NAME opens a third-party provider."""

    @pytest.fixture(autouse=True)
    def module(self, tmp_path, monkeypatch):
        """A module with providers in the current directory."""
        text = """
class Mine:
    name, version = "mine", 3
    def run(self, model_bytes, feeds): return []
    def close(self): open("closed", "x").close()
class Bare:
    def run(self, model_bytes, feeds): return []
class Clings(Bare):
    def close(self): raise RuntimeError("still busy")
class Opens(Bare):
    opened = 0
    def open(self, model_bytes, setup):
        self.opened += 1
        if self.opened > 1: raise RuntimeError("no second session")
        assert setup["config"] == {"x": "y"}
        return Session()
class Loads(Bare):
    def open(self, model_bytes, setup, *, files=None): raise RuntimeError(files)
class Session:
    runs = 0
    def run(self, feeds):
        import numpy
        self.runs += 1
        return [numpy.array([self.runs])]
class Sleeps:
    def run(self, model_bytes, feeds):
        import time
        time.sleep(1000)
def function(model_bytes, feeds, device=None): return [*feeds]
def factory(optional=None): return Bare()
def one(model_bytes): return []
def keywords(*, model_bytes, feeds): return []
class Needs(Bare):
    def __init__(self, model_bytes, feeds): pass
def returns_nothing(): pass
number = 3
"""
        (tmp_path / "opmap_test_plugin.py").write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "opmap_test_plugin", raising=False)

    @pytest.fixture(params=[False, True], ids=["worker", "in-process"])
    def opens(self, request):
        """Opens a provider of the module, in a worker process or in this process."""
        return lambda name: open_provider(f"opmap_test_plugin:{name}", in_process=request.param)

    def test_own_attributes(self, opens, tmp_path):
        """Name, version and placement are the provider's own. Its close() is called."""
        opened = opens("Mine")
        assert ("mine", "3", None) == (opened.name, opened.version, opened.device_class)
        result = opened.performer.run_once(MODEL, FEEDS)
        assert "must be a list of one array, got 0" == result.malformed
        assert Placement("asserted", (("", "mine"),)) == result.placement
        assert result.placement.shows("mine")
        assert not result.placement.proves("mine")
        assert not (tmp_path / "closed").exists()
        opened.close()
        assert (tmp_path / "closed").exists()

    def test_only_run(self, opens):
        """A provider without a name has the name on the command line. It has no sessions."""
        opened = opens("Bare")
        assert ("opmap_test_plugin:Bare", None, False) == (opened.name, opened.version, opened.sessions)
        step = Open(session="a", model=np.frombuffer(MODEL, np.uint8), setup=Setup(level=0))
        assert (
            "opmap_test_plugin:Bare has no method open: it cannot set up a session"
            == opened.performer.perform(step).error
        )
        opened.close()

    @pytest.mark.parametrize(("name", "outputs"), [("function", 2), ("factory", 0)])
    def test_function(self, opens, name, outputs):
        """A function with two required parameters is `run` itself. One without any is a factory."""
        opened = opens(name)
        assert (f"opmap_test_plugin:{name}", False) == (opened.name, opened.sessions)
        result = opened.performer.run_once(MODEL, FEEDS)
        assert f"must be a list of one array, got {outputs}" == result.malformed
        opened.close()

    def test_sessions(self, opens):
        """A provider with open() opens a model once and runs it several times."""
        opened = opens("Opens")
        model = np.frombuffer(MODEL, np.uint8)
        open_, run = Open(session="a", model=model, setup=Setup(config={"x": "y"})), Run(session="a", feeds=FEEDS)
        assert opened.performer.perform(open_).error is None
        results = [opened.performer.perform(step) for step in (run, run)]
        assert [[1], [2]] == [next(iter(r.outputs.values())).tolist() for r in results]
        assert "Get" in opened.performer.perform(Get(value="v")).error
        opened.performer.perform(Drop(name="a"))
        assert "there is no session 'a'" == opened.performer.perform(run).error
        assert "RuntimeError: no second session" == opened.performer.perform(open_).error
        opened.close()

    @pytest.mark.parametrize("in_process", [False, True])
    @pytest.mark.parametrize(
        ("name", "error", "message"),
        [
            ("opmap_test_plugin:absent", InputError, "AttributeError"),
            ("opmap_no_such_module:f", InputError, "ModuleNotFoundError"),
            (":f", InputError, "--provider :f: "),
            ("opmap_test_plugin:", InputError, "--provider opmap_test_plugin:: "),
            ("opmap_test_plugin:number", InputError, "number must be callable, got a int"),
            ("opmap_test_plugin:one", InputError, r"one must be a function run\(model_bytes, feeds\), or a factory"),
            ("opmap_test_plugin:keywords", InputError, "without required parameters, got other parameters"),
            ("opmap_test_plugin:Needs", InputError, "without required parameters, got other parameters"),
            ("opmap_test_plugin:returns_nothing", InputError, "object with a method run, got a NoneType"),
        ],
    )
    def test_refused(self, name, error, message, in_process):
        """The error says in one line which part of MODULE:NAME cannot be used."""
        with pytest.raises(error, match=message) as raised:
            open_provider(name, in_process=in_process)
        assert "\n" not in str(raised.value)

    def test_close_raises(self, opens):
        """An exception in close() is a warning, so that the results are kept."""
        with pytest.warns(RuntimeWarning, match=r"opmap_test_plugin:Clings: close\(\) raised RuntimeError: still busy"):
            opens("Clings").close()

    def test_close_raises_where_warnings_are_errors(self, opens):
        with pytest.warns(RuntimeWarning, match="still busy"), warnings.catch_warnings():
            warnings.simplefilter("error")
            opens("Clings").close()

    @pytest.mark.parametrize(
        ("name", "unsupported", "message"),
        [
            ("Opens", True, "opmap_test_plugin:Opens: open takes no files beside the model"),
            ("Loads", False, "RuntimeError: {'data.bin': b'12'}"),
        ],
    )
    def test_files(self, opens, name, unsupported, message):
        """A provider whose open takes `files` gets the files beside the model; for any other one the model is
        unsupported.
        """
        opened = opens(name)
        files = {"data.bin": np.frombuffer(b"12", np.uint8)}
        result = opened.performer.perform(Open(session="a", model=np.frombuffer(MODEL, np.uint8), files=files))
        assert (unsupported, Stage.LOAD, message) == (result.unsupported, result.stage, result.error)
        opened.close()

    def test_in_process_is_for_third_parties(self):
        with pytest.raises(InputError, match="--in-process is for MODULE:NAME, got 'cpu'"):
            open_provider("cpu", in_process=True)


class TestSessions:
    """SessionProvider runs models in ONNX Runtime."""

    @pytest.mark.parametrize("proof", ["assignment-info", "profile"])
    def test_proofs(self, proof):
        """Both proofs contain every node of the model: Cast and Gather, on the CPU EP."""
        provider = SessionProvider(CPU, proof=proof)
        if proof == "assignment-info" and provider.proof != SessionProvider(CPU).proof:
            pytest.skip("this ONNX Runtime has no assignment info")
        result = provider.run_once(MODEL, FEEDS)
        (output,) = result.outputs.values()
        assert [7.0, 5.0] == output.tolist()
        placement = result.placement
        assert (proof, {("Cast", CPU), ("Gather", CPU)}) == (placement.source, set(placement.nodes))
        assert placement.proves(CPU)
        assert not placement.proves("DmlExecutionProvider")

    def test_wrong_feed_type(self):
        """An input of a wrong data type is an error at stage `run`: it is not converted."""
        provider = SessionProvider(CPU)
        with pytest.raises(ProviderError) as raised:
            provider.run_once(MODEL, {**FEEDS, "IndicesTensor": np.array([2, 0], np.int64)})
        assert "run" == raised.value.stage
        assert "\n" not in str(raised.value)
