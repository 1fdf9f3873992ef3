"""Providers: opened by name, third parties' plugged in, and the proof of where a node ran."""

import numpy as np
import pytest

from opmap.descriptors import TensorDesc, complete
from opmap.errors import InputError, ProviderError
from opmap.execution.provider import Placement, Provider
from opmap.execution.providers import ProviderMissing, open_provider
from opmap.execution.sessions import CPU, SessionProvider
from opmap.machine.runtimes import require_one
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS
from opmap.tensors import DataType

INPUTS = {"InputTensor": TensorDesc(DataType.FLOAT32, (3,)), "IndicesTensor": TensorDesc(DataType.UINT32, (2,))}
DESC = complete(OPERATORS["GATHER"].descriptor, INPUTS, {"Axis": 0, "IndexDimensions": 1})
MODEL = map_descriptor(DESC).model_bytes
FEEDS = {"InputTensor": np.array([5, 6, 7], np.float32), "IndicesTensor": np.array([2, 0], np.uint32)}


class TestOpening:
    """A provider by name."""

    @pytest.mark.parametrize("name", ["cpu", "CPU", "CPUExecutionProvider"])
    def test_the_cpu(self, name):
        """Short and long."""
        opened = open_provider(name)
        assert (CPU, False) == (opened.name, opened.directml)
        assert opened.version

    def test_auto_finds_one(self):
        """DirectML where it is there, else the CPU."""
        assert open_provider("auto").name in ("DmlExecutionProvider", CPU)

    def test_one_that_is_not_there(self):
        """Missing is another thing than unknown."""
        with pytest.raises(ProviderMissing, match="NoSuchExecutionProvider is not in the installed onnxruntime"):
            open_provider("NoSuchExecutionProvider")
        with pytest.raises(InputError, match="--provider must be one of auto, cpu, dml, directml, .*, got 'nothing'"):
            open_provider("nothing")

    @pytest.mark.parametrize(
        ("found", "message"),
        [
            ({}, "ONNX Runtime is not installed: python -m pip install onnxruntime"),
            (
                {"onnxruntime": "1.24.4", "onnxruntime-directml": "1.24.4"},
                "onnxruntime 1.24.4 and onnxruntime-directml 1.24.4 are installed together, .*"
                "uninstall -y onnxruntime onnxruntime-directml, then python -m pip install onnxruntime-directml$",
            ),
            (
                {"onnxruntime": "1.24.4", "onnxruntime-windowsml": "1.30.0"},
                "then python -m pip install --no-deps onnxruntime-windowsml$",
            ),
        ],
    )
    def test_distributions_that_break_each_other(self, found, message):
        """The error is the command to run."""
        with pytest.raises(ProviderError, match=message):
            require_one(found)
        assert "onnxruntime-directml" == require_one({"onnxruntime-directml": "1.24.4"})


class TestPlugins:
    """MODULE:FACTORY."""

    @pytest.fixture(autouse=True)
    def module(self, tmp_path, monkeypatch):
        """A module in the current directory."""
        text = """
class Mine:
    name, version = "mine", 3
    closed = False
    def run(self, model_bytes, feeds): return []
    def close(self): self.closed = True
class Bare:
    def run(self, model_bytes, feeds): return []
def fails(): raise RuntimeError("no device")
def empty(): return object()
def leaves(): raise SystemExit("bye")
class Unnamed(Bare):
    @property
    def name(self): raise RuntimeError("no name")
class Clings(Bare):
    def close(self): raise RuntimeError("still busy")
number = 3
"""
        (tmp_path / "opmap_test_plugin.py").write_text(text, encoding="utf-8")
        (tmp_path / "opmap_test_leaves.py").write_text("raise SystemExit('bye')", encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(__import__("sys").modules, "opmap_test_plugin", raising=False)

    def test_are_taken_at_their_word(self):
        """Name, version and placement are the provider's own; it is closed."""
        opened = open_provider("opmap_test_plugin:Mine")
        assert ("mine", "3", None) == (opened.name, opened.version, opened.device_class)
        assert isinstance(opened.provider, Provider)
        assert Placement("asserted", (("", "mine"),)) == opened.placement()
        assert opened.placement().proves("mine")
        opened.close()
        assert opened.provider.closed

    def test_need_no_more_than_run(self):
        """The name is then the one asked for."""
        opened = open_provider("opmap_test_plugin:Bare")
        assert ("opmap_test_plugin:Bare", None) == (opened.name, opened.version)
        opened.close()

    @pytest.mark.parametrize(
        ("name", "error", "message"),
        [
            ("opmap_test_plugin:absent", InputError, "AttributeError"),
            ("opmap_no_such_module:f", InputError, "ModuleNotFoundError"),
            (":f", InputError, "--provider :f: "),
            ("opmap_test_plugin:", InputError, "--provider opmap_test_plugin:: "),
            ("opmap_test_plugin:fails", ProviderMissing, r"fails\(\) raised RuntimeError: no device"),
            ("opmap_test_plugin:empty", InputError, r"empty\(\) must return an object with a method run"),
            ("opmap_test_plugin:leaves", ProviderMissing, r"leaves\(\) raised SystemExit: bye"),
            ("opmap_test_plugin:Unnamed", InputError, "RuntimeError: no name"),
            ("opmap_test_plugin:number", InputError, "must be something to call"),
            ("opmap_test_leaves:f", InputError, "opmap_test_leaves:f: SystemExit: bye"),
        ],
    )
    def test_that_cannot_be_used(self, name, error, message):
        """Which part is wrong is said in one line."""
        with pytest.raises(error, match=message) as raised:
            open_provider(name)
        assert "\n" not in str(raised.value)

    def test_that_cannot_be_closed(self):
        """The results are kept: it is a warning."""
        with pytest.warns(RuntimeWarning, match=r"opmap_test_plugin:Clings: close\(\) raised RuntimeError: still busy"):
            open_provider("opmap_test_plugin:Clings").close()


class TestSessions:
    """ONNX Runtime."""

    @pytest.mark.parametrize("proof", ["assignment-info", "profile"])
    def test_both_proofs_see_every_node(self, proof):
        """Cast and Gather, on the CPU."""
        provider = SessionProvider(CPU, proof=proof)
        if proof == "assignment-info" and provider.proof != SessionProvider(CPU).proof:
            pytest.skip("this ONNX Runtime has no assignment info")
        (output,) = provider.run(MODEL, FEEDS)
        assert [7.0, 5.0] == output.tolist()
        placement = provider.placement()
        assert (proof, {("Cast", CPU), ("Gather", CPU)}) == (placement.source, set(placement.nodes))
        assert placement.proves(CPU)
        assert not placement.proves("DmlExecutionProvider")

    def test_nothing_is_known_of_a_model_that_was_not_loaded(self):
        """The placement of the model before is not left standing."""
        provider = SessionProvider(CPU)
        provider.run(MODEL, FEEDS)
        with pytest.raises(ProviderError):
            provider.run(b"", {})
        assert None is provider.placement()

    def test_a_feed_of_another_type_is_an_error_of_the_run(self):
        """Nothing is converted on the way."""
        provider = SessionProvider(CPU)
        with pytest.raises(ProviderError) as raised:
            provider.run(MODEL, {**FEEDS, "IndicesTensor": np.array([2, 0], np.int64)})
        assert "run" == raised.value.stage
        assert "\n" not in str(raised.value)


class TestPlacement:
    """What counts as proof."""

    @pytest.mark.parametrize(
        ("nodes", "proven"),
        [
            ((), False),
            ((("Gather", "A"),), True),
            ((("Gather", "A"), ("Cast", "A")), True),
            ((("Gather", "A"), ("Cast", "B")), False),
            ((("Gather", "B"),), False),
        ],
    )
    def test_every_node_and_at_least_one(self, nodes, proven):
        """None elsewhere."""
        assert proven == Placement("profile", nodes).proves("A")
