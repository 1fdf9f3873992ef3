"""Plugin EPs, options of ONNX Runtime, and the proof of placement, against doubles of ONNX Runtime's API."""

import hashlib
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import msgspec
import numpy as np
import onnxruntime
import pytest

from opmap.engines import frames, plugins
from opmap.engines.frames import Start
from opmap.engines.machine.facts import Adapter, Fact
from opmap.engines.machine.runtimes import Plugin
from opmap.engines.performer import Performer
from opmap.engines.protocol import Placement
from opmap.engines.provider_facts import ProviderFacts, facts_of
from opmap.engines.session_records import one_line
from opmap.engines.sessions import CPU, DIRECTML, IDENTITY, SessionProvider
from opmap.engines.steps import Drop, Examine, Open, Result, Run, Setup
from opmap.engines.worker import NotRun, WorkerProvider
from opmap.engines.worker_main import _directml
from opmap.errors import InputError, ProviderError

pytestmark = pytest.mark.platform

OF_PLUGIN = ("ep_version", "library", "library_sha256")

DIGEST = hashlib.sha256(b"the library").hexdigest()

FEEDS = {"x": np.ones(1, np.float32)}
MODEL = np.frombuffer(IDENTITY, np.uint8)

PACKAGE = '''
"""A plugin EP whose library is a double: it takes no node, so that the CPU EP runs every model."""

import os

import onnxruntime

own = {}


def register(name, path):
    assert os.path.isfile(path)
    own[name] = path


class Device:
    def __init__(self, name, device):
        self.ep_name, self.device = name, device.device
        self.ep_metadata = {"version": "2.1.0", "library_path": own[name]}


class Options(onnxruntime.SessionOptions):
    def add_provider_for_devices(self, devices, options):
        assert [type(device) for device in devices] == [Device]
        assert options == {"speed": "high"}


listed = onnxruntime.get_ep_devices
onnxruntime.register_execution_provider_library = register
onnxruntime.get_ep_devices = lambda: [*listed(), *(Device(name, listed()[0]) for name in own for _ in range(2))]
onnxruntime.SessionOptions = Options


def get_library_path():
    return os.path.join(os.path.dirname(__file__), "double.dll")


def get_ep_names():
    return ["DoubleExecutionProvider"]
'''


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on the import path, with the installed distribution onnxruntime-ep-double."""
    package, info = tmp_path / "onnxruntime_ep_double", tmp_path / "onnxruntime_ep_double-1.5.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text(PACKAGE, encoding="utf-8")
    (package / "double.dll").write_bytes(b"the library")
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: onnxruntime-ep-double\nVersion: 1.5\n", encoding="utf-8"
    )
    (info / "RECORD").write_text("onnxruntime_ep_double/__init__.py,,\n", encoding="utf-8")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}


def validate(site, *arguments, provider="DoubleExecutionProvider"):
    command = [sys.executable, "-m", "opmap", "validate", "--provider", provider, *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, env=site, encoding="utf-8", timeout=120, check=False)
    return done, json.loads(done.stdout)["cases"] if done.stdout else []


class TestPlugin:
    """An installed plugin EP is found by its package, registered in the worker, and named like any other EP."""

    @pytest.mark.slow
    def test_runs(self, site):
        """The double's nodes are on the CPU EP: right results, and no proof. Its options reach it."""
        options = ["--provider-option", "speed=high", "--session-option", "session.disable_cpu_ep_fallback=0"]
        done, cases = validate(site, "--filter", "gather/example.1", *options)
        assert 1 == done.returncode
        (record,) = (record for record in cases if record["case"] == "gather/example.1")
        assert ("fallback", "asked for DoubleExecutionProvider") == (record["verdict"], record["message"].split(",")[0])
        assert record["device_class"] is None, "a CPU may simulate a device"
        assert ("2.1.0", "double.dll", DIGEST) == tuple(record[name] for name in OF_PLUGIN)

    @pytest.mark.slow
    def test_no_path_in_a_bundle(self, site, tmp_path):
        """The bundle of a run that failed has the file name of the library, and its digest. The terminal has the path."""
        library = tmp_path / "onnxruntime_ep_double" / "double.dll"
        (tmp_path / "sitecustomize.py").write_text("import onnxruntime_ep_double\n", encoding="utf-8")
        name = "DoubleExecutionProvider"
        arguments = ["--provider", name, "--ep-library", f"{name}={library}", "--provider-option", "speed=high"]
        more = ["--session-option", "session.disable_cpu_ep_fallback=0", "--filter", "gather/example.1"]
        command = [sys.executable, "-m", "opmap", "validate", *arguments, *more, "--report", tmp_path / "r"]
        done = subprocess.run(command, capture_output=True, env=site, encoding="utf-8", timeout=120, check=False)

        assert 1 == done.returncode
        assert f"{name}={library}" in done.stdout.replace("\n", "")
        selection = json.loads((tmp_path / "r" / "run.json").read_bytes())["selection"]
        assert [f"{name}=double.dll"] == selection["ep_library"]
        assert ("2.1.0", "double.dll", DIGEST) == tuple(selection[key] for key in OF_PLUGIN)
        files = [path for path in (tmp_path / "r").rglob("*") if path.is_file()]
        assert (tmp_path / "r" / "failures") in {path.parents[1] for path in files}
        for path in files:
            assert tmp_path.name.encode() not in path.read_bytes(), path

    @pytest.mark.slow
    def test_device(self, site):
        done, _ = validate(site, "--filter", "gather/example.*", "--device-id", "2")
        assert 2 == done.returncode
        wanted = "--device-id must be the number of a device of DoubleExecutionProvider, got 2; there is 0: "
        assert wanted in done.stderr


def device(name, number=None, kind="GPU"):
    """A double of OrtEpDevice."""
    metadata = {} if number is None else {"DxgiAdapterNumber": number}
    hardware = SimpleNamespace(metadata=metadata, type=SimpleNamespace(name=kind), vendor="Maker")
    return SimpleNamespace(ep_name=name, device=hardware)


class TestLibrary:
    """--ep-library registers a library under a name."""

    @pytest.fixture
    def registered(self, monkeypatch):
        """The libraries that were registered. Each has a GPU and a CPU."""
        found = {}

        def register(name, path):
            if path.endswith("bad"):
                raise RuntimeError(f"no library {path}: {path} is none")
            found[name] = path

        monkeypatch.setattr(onnxruntime, "register_execution_provider_library", register)
        monkeypatch.setattr(
            onnxruntime, "get_ep_devices", lambda: [device(n, kind=kind) for n in found for kind in ("GPU", "CPU")]
        )
        monkeypatch.setattr(plugins, "plugins", lambda: [])
        return found

    def test_device(self, registered):
        found = plugins.plugin_device("mine", {"mine": "path"})
        assert {"mine": "path"} == registered
        assert ("mine", "Maker GPU", "hardware") == (
            found.ep_name,
            plugins.described_device(found),
            plugins.plugin_class(found),
        )
        second = plugins.plugin_device("mine", {"mine": "path"}, 1)
        assert ("Maker CPU", None) == (plugins.described_device(second), plugins.plugin_class(second))

    def test_bad(self, registered):
        with pytest.raises(InputError, match="--ep-library mine=bad: RuntimeError: no library bad"):
            plugins.plugin_device("mine", {"mine": "bad"})
        with pytest.raises(
            ProviderError, match="other has no device after mine was registered; there are devices of mine"
        ):
            plugins.plugin_device("other", {"mine": "path"})
        with pytest.raises(InputError, match="got 2; there is 0: Maker GPU, 1: Maker CPU"):
            plugins.plugin_device("mine", {"mine": "path"}, 2)

    def test_package_without_a_device(self, registered, monkeypatch):
        package = SimpleNamespace(get_ep_name=lambda: "X", get_library_path=lambda: "path")
        monkeypatch.setitem(sys.modules, "onnxruntime_ep_x", package)
        monkeypatch.setattr(plugins, "plugins", lambda: [Plugin("onnxruntime-ep-x", "1", "onnxruntime_ep_x")])
        monkeypatch.setattr(onnxruntime, "get_ep_devices", list)
        with pytest.raises(ProviderError, match="X of onnxruntime-ep-x 1 finds no device on this machine"):
            plugins.plugin_device("X", {})
        package.get_library_path = lambda: os.path.join(os.path.sep, "home", "lena", "bad")
        with pytest.raises(ProviderError, match=r"onnxruntime-ep-x 1: RuntimeError: no library bad: bad is none$"):
            plugins.plugin_device("X", {})


class TestFacts:
    """What ONNX Runtime tells about a plugin EP."""

    @pytest.mark.parametrize(
        ("metadata", "expected"),
        [
            ({"version": "2.1.0", "library_path": "ep.dll"}, ("2.1.0", "ep.dll", DIGEST)),
            ({"version": "2.1.0", "library_path": "gone.dll"}, ("2.1.0", "gone.dll", None)),
            ({"version": "2.1.0"}, ("2.1.0", None, None)),
            ({"library_path": "ep.dll"}, (None, "ep.dll", DIGEST)),
            ({"version": " 2\n1"}, ("2 1", None, None)),
            ({}, (None, None, None)),
        ],
    )
    def test_library(self, metadata, expected, tmp_path):
        """The version is the EP's own. Of the library there is the name of the file and its digest, and no folder."""
        (tmp_path / "ep.dll").write_bytes(b"the library")
        if "library_path" in metadata:
            metadata = metadata | {"library_path": str(tmp_path / metadata["library_path"])}
        of_plugin = device("PluginEP")
        of_plugin.ep_metadata = metadata

        facts = facts_of("PluginEP", device=of_plugin)

        assert expected == tuple(getattr(facts, name) for name in OF_PLUGIN)
        assert (onnxruntime.__version__, "hardware", "Maker GPU") == (facts.version, facts.device_class, facts.adapter)

    def test_built_in(self):
        """ONNX Runtime tells a version of its own EPs too; that is its own."""
        assert "version" in onnxruntime.get_ep_devices()[0].ep_metadata
        assert (None, None, None) == tuple(getattr(facts_of(CPU), name) for name in OF_PLUGIN)

    def test_frame(self):
        """The facts come from the worker as they are."""
        facts = ProviderFacts("PluginEP", "1", None, ep_version="2.1.0", library="ep.dll", library_sha256=DIGEST)
        header, _ = frames.encode(frames.Hello(facts, 7))

        assert facts == msgspec.json.decode(header, type=frames.Hello).facts


class TestOptions:
    """Options of ONNX Runtime reach the session."""

    def test_session_option(self, monkeypatch):
        """The options of a run come first, then those of a variant, which its execution path needs."""
        entries = {}
        add = onnxruntime.SessionOptions.add_session_config_entry

        class Options(onnxruntime.SessionOptions):
            def add_session_config_entry(self, key, value):
                entries[key] = value
                add(self, key, value)

        monkeypatch.setattr(onnxruntime, "SessionOptions", Options)
        provider = SessionProvider(CPU, config={"session.set_denormal_as_zero": "1", "session.use_env_allocators": "1"})
        setup = Setup(config={"session.use_env_allocators": "0"})
        assert provider.perform(Open(session="s", model=MODEL, setup=setup)).error is None
        assert ("1", "0") == (entries["session.set_denormal_as_zero"], entries["session.use_env_allocators"])

    def test_provider_option(self):
        """ONNX Runtime refuses an option that the EP does not know."""
        provider = SessionProvider(CPU, {"arena_extend_strategy": "kNextPowerOfTwo"})
        assert provider.perform(Open(session="s", model=MODEL)).error is None

    @pytest.mark.parametrize("text", ["no-pair", "=value", " =value"])
    def test_no_pair(self, text, capsys):
        from opmap.cli import main

        assert 2 == main(["validate", "--session-option", text])
        assert f"argument --session-option: must be K=V, got {text!r}" in capsys.readouterr().err


class TestDirectMLDevice:
    """The DirectML EP on the device that `device_id` names."""

    @pytest.mark.parametrize(("number", "index"), [("0", 1), ("1", 2)])
    def test_number(self, number, index, monkeypatch):
        """A device that only DXCore knows has no number: it is not taken for adapter 0."""
        devices = [device(DIRECTML), device(DIRECTML, "0"), device(DIRECTML, "1")]
        monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: devices)
        assert devices[index] is SessionProvider(DIRECTML, {"device_id": number})._listed_device()

    def test_no_number(self, monkeypatch):
        monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: [device(DIRECTML)])
        with pytest.raises(ProviderError, match="lists no device of DmlExecutionProvider with number 0"):
            SessionProvider(DIRECTML, {"device_id": "0"})._listed_device()


def adapter(index, *, software=False):
    return Adapter(
        index=index,
        name=f"GPU {index}",
        vendor_id=0,
        device_id=0,
        luid=index,
        software=software,
        driver_version=Fact(None, ""),
    )


class Broken(Performer):
    """A DirectML EP that creates sessions on some adapters only."""

    works = ()

    def __init__(self, options):
        super().__init__()
        self.number = options["device_id"]

    def perform(self, step, limit=None):
        fails = isinstance(step, Open) and self.number not in self.works
        return Result(error="887A0004 The specified device interface is not supported" if fails else None)


class TestAdapterWithoutDirect3D12:
    """Before the worker says hello, it creates a session. An adapter on which that fails is not used."""

    @pytest.fixture(autouse=True)
    def adapters(self, monkeypatch):
        found = [adapter(0), adapter(1, software=True), adapter(2), adapter(3)]
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [DIRECTML])
        monkeypatch.setattr("opmap.engines.machine.adapters.list_adapters", lambda: found)

    def open(self, works, **choice):
        Broken.works = works
        return _directml(Start(DIRECTML, **choice), Broken)

    @pytest.mark.parametrize(("works", "name"), [("023", "GPU 0"), ("23", "GPU 2"), ("3", "GPU 3")])
    def test_next(self, works, name):
        """Without a choice it takes the next hardware adapter."""
        provider, facts = self.open(works)
        assert (name, name[-1]) == (facts.adapter, provider.number)

    @pytest.mark.parametrize("choice", [{"device_id": 0}, {"adapter": "GPU 0"}])
    def test_chosen(self, choice):
        with pytest.raises(ProviderError, match="cannot create a session on GPU 0: 887A0004"):
            self.open("23", **choice)

    def test_none(self):
        with pytest.raises(ProviderError, match="cannot create a session on GPU 0"):
            self.open("")

    def test_software(self):
        with pytest.raises(ProviderError, match="needs a hardware adapter, got the software adapter GPU 1"):
            self.open("1", device_id=1)


class TestProof:
    """Where ONNX Runtime has no record of assignments, the profile is asked."""

    def test_empty_record(self, monkeypatch):
        """The first session is created a second time with a profile, later ones have one from the start."""
        created = []
        monkeypatch.setattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info", lambda self: [])
        create = SessionProvider._session

        def count(self, step, folder, profile):
            created.append(profile)
            return create(self, step, folder, profile)

        monkeypatch.setattr(SessionProvider, "_session", count)
        provider = SessionProvider(CPU, proof="assignment-info")
        for _ in range(2):
            provider.perform(Open(session="s", model=MODEL))
            assert provider.perform(Run(session="s", feeds=FEEDS)).error is None
            placement = provider.perform(Examine(session="s")).evidence.placement
            assert Placement("profile", (("Identity", CPU),)) == placement
            provider.perform(Drop(name="s"))
        assert [False, True, True] == created

    @pytest.mark.parametrize(
        ("nodes", "shown"),
        [
            ([("Gather", "X")], True),
            ([("Gather", "X"), ("Reshape", "CPU")], True),
            ([("DmlFusedNode_0", "X"), ("Cast", "CPU"), ("MemcpyToHost", "X")], True),
            ([("Gather", "CPU"), ("Reshape", "X")], False),
            ([("Reshape", "X"), ("Fused", "CPU")], False),
            ([("Reshape", "X"), ("Cast", "CPU")], False),
            ([("Gather", "X"), ("Gather", "CPU")], False),
            ([], False),
        ],
    )
    def test_helpers(self, nodes, shown):
        """A helper node elsewhere does not unprove the operator's node; a node of unknown type does."""
        placement = Placement("profile", tuple(nodes))
        assert shown == placement.proves("X", {"Reshape", "Cast", "MemcpyToHost"})
        assert not Placement("asserted", tuple(nodes)).proves("X")


class TestLocalised:
    """On a Windows in another language, ONNX Runtime's message is not UTF-8."""

    @pytest.mark.parametrize(
        ("encoding", "text"), [("cp1252", "Der Parameter ist ungültig."), ("cp932", "デバイスが削除されました")]
    )
    def test_message(self, encoding, text, monkeypatch):
        monkeypatch.setattr("locale.getencoding", lambda: encoding)
        message = f"AbiCustomRegistry.cpp(519) 80070057 {text}"
        with pytest.raises(UnicodeDecodeError) as caught:
            message.encode(encoding).decode()
        assert message == one_line(caught.value)

    def test_undecodable(self, monkeypatch):
        monkeypatch.setattr("locale.getencoding", lambda: "cp932")
        error = UnicodeDecodeError("utf-8", b"887A0005 \x81\xff lost", 9, 10, "invalid start byte")
        assert "887A0005" in one_line(error)


class TestImport:
    """An ONNX Runtime that cannot be imported is a missing provider: one line, no traceback."""

    MESSAGE = "DLL load failed while importing onnxruntime_pybind11_state: The specified module could not be found."

    @pytest.fixture
    def broken(self, tmp_path):
        package = tmp_path / "onnxruntime"
        package.mkdir()
        (package / "__init__.py").write_text(f"raise ImportError({self.MESSAGE!r})\n", encoding="utf-8")
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}

    @pytest.mark.slow
    def test_validate(self, broken):
        done, cases = validate(broken, "--filter", "gather/example.1", provider="auto")
        assert (0, "not-run") == (done.returncode, cases[0]["verdict"])
        assert "vc_redist" in cases[0]["message"]
        assert "Traceback" not in done.stderr
        assert 1 == validate(broken, "--filter", "gather/example.1", "--require-provider", provider="cpu")[0].returncode

    def test_worker(self, broken, monkeypatch):
        """A worker in which it cannot be imported says so."""
        monkeypatch.setenv("PYTHONPATH", broken["PYTHONPATH"])
        with WorkerProvider(CPU) as worker, pytest.raises(NotRun, match="vc_redist"):
            worker.start()
