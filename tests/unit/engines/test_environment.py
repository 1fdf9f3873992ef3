"""The facts about the machine, and the choice of an adapter."""

from __future__ import annotations

import argparse
import json
import sys

import msgspec
import pytest

from opmap.cli.parser import parser
from opmap.engines.machine import adapters, environment, windows
from opmap.engines.machine.adapters import device_class, resolve_adapter
from opmap.engines.machine.environment import collect
from opmap.engines.machine.facts import Adapter, Fact, fact, one_line
from opmap.engines.machine.runtimes import installed, package_of
from opmap.engines.provider_facts import facts_of
from opmap.errors import InputError, ProviderError
from opmap.session.options import add_pytest_options

pytestmark = pytest.mark.platform

WINDOWS_ONLY = ("wine", "os_build", "loaded_modules", "adapters")

elsewhere = pytest.mark.skipif(sys.platform == "win32", reason="tests the answers on other systems than Windows")


def adapter(index: int, name: str, *, software: bool = False) -> Adapter:
    return Adapter(
        index=index,
        name=name,
        vendor_id=0x10DE,
        device_id=0x2684,
        luid=1010,
        software=software,
        driver_version=Fact("32.0.15.6094", "test"),
    )


WARP = adapter(2, "Microsoft Basic Render Driver", software=True)
MACHINE = [
    adapter(0, "NVIDIA GeForce RTX 4090"),
    adapter(1, "NVIDIA GeForce RTX 4090"),
    WARP,
    adapter(3, "Intel(R) UHD Graphics 770"),
]


class TestPackage:
    """Which distribution the imported ONNX Runtime was installed from."""

    def test_own(self):
        """It is the one whose file it is; a file of no distribution belongs to none."""
        import onnxruntime

        (name,) = installed()
        assert [name, None, None] == [package_of(f) for f in (onnxruntime.__file__, "/elsewhere/__init__.py", None)]


class TestFacts:
    """collect() returns every fact on every system. A failure becomes the error of its fact."""

    def test_collected(self):
        """The names are the same on every system, and so are the three keys; the facts can be written as JSON.

        A fact without a value has an error of one line. Only `wine` may have neither, on Windows.
        """
        collected = collect()
        assert list(environment.PROBES) == list(collected)
        assert set(WINDOWS_ONLY) < set(environment.PROBES)
        facts = msgspec.to_builtins(collected)
        assert facts == json.loads(json.dumps(facts))
        assert {("value", "source", "error")} == {tuple(f) for f in facts.values()}
        for name, entry in collected.items():
            assert entry.source
            if entry.value is None and not (name == "wine" and sys.platform == "win32"):
                assert entry.error
            assert "\n" not in (entry.error or "")

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (RuntimeError("two\nlines"), "RuntimeError: two lines"),
            (OSError("exception: access violation reading 0x0"), "OSError: exception: access violation reading 0x0"),
            (ImportError(), "ImportError"),
            (ProviderError("not installed"), "not installed"),
        ],
    )
    def test_probe_raises(self, monkeypatch, error, text):
        """A probe that raises gives a fact with an error, and does not change the other facts."""

        def probe():
            raise error

        monkeypatch.setattr(environment, "PROBES", {"broken": ("somewhere", probe), "right": ("here", lambda: 3)})
        assert {"broken": Fact(None, "somewhere", text), "right": Fact(3, "here")} == collect()

    def test_not_json(self):
        """A value that JSON cannot hold is an error of its fact, so that the report can always be written."""
        assert fact("somewhere", object).error.startswith("TypeError: ")

    def test_interrupt(self):
        """Ctrl-C during a probe is not turned into a fact."""

        def probe():
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fact("somewhere", probe)

    def test_no_runtime(self, monkeypatch):
        """Without ONNX Runtime, its facts have errors, and so has `packages`."""
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        monkeypatch.setattr(environment, "installed", dict)
        facts = collect()
        assert "ONNX Runtime" in facts["packages"].error
        for name in ("onnxruntime", "available_providers", "ep_devices"):
            assert facts[name].value is None
            assert facts[name].error.startswith("ModuleNotFoundError: ")

    def test_import_fails(self, monkeypatch, tmp_path):
        """If a DLL is missing, each fact about ONNX Runtime says what to install."""
        (tmp_path / "onnxruntime.py").write_text("raise ImportError('DLL load failed while importing x: ...')")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
        facts = collect()
        for name in ("onnxruntime", "available_providers", "ep_devices"):
            assert "vc_redist." in facts[name].error

    def test_runtime(self):
        """The facts hold the version, the providers and the devices of the installed ONNX Runtime."""
        import onnxruntime

        facts = collect()
        assert onnxruntime.__version__ == facts["onnxruntime"].value["version"]
        assert environment.installed().items() <= facts["packages"].value.items()
        assert "CPUExecutionProvider" in facts["available_providers"].value
        assert "CPUExecutionProvider" in [d["ep_name"] for d in facts["ep_devices"].value]
        assert {"type", "vendor", "vendor_id", "device_id", "metadata"} < set(facts["ep_devices"].value[0])

    @elsewhere
    def test_not_windows(self):
        """On other systems, the facts about Windows have no value and the error `not Windows`."""
        facts = collect()
        assert {(None, "not Windows")} == {(facts[name].value, facts[name].error) for name in WINDOWS_ONLY}
        assert adapters.wine_version() is None
        with pytest.raises(ProviderError, match=r"^not Windows$"):
            adapters.list_adapters()

    def test_adapters_fail(self, monkeypatch):
        """If DXGI fails, list_adapters raises ProviderError, with DXGI's error in one line."""

        def broken():
            raise OSError("no\nDXGI")

        monkeypatch.setattr(adapters, "require_windows", lambda: None)
        monkeypatch.setattr(windows, "adapters", broken)
        with pytest.raises(ProviderError, match=r"^adapters cannot be listed: OSError: no DXGI$"):
            adapters.list_adapters()

    @pytest.mark.parametrize(
        ("code", "text"),
        [(-2005270524, "HRESULT 0x887A0004: no such interface"), (5, "OSError: [WinError 5] no such interface")],
    )
    def test_one_line_of_windows(self, code, text):
        """A failed HRESULT is shown as a hexadecimal number, another Windows error by its type."""

        class Failed(OSError):
            winerror, strerror = code, "no such\r\ninterface\r\n"

        Failed.__name__ = "OSError"
        assert text == one_line(Failed(f"[WinError {code}] no such\r\ninterface\r\n"))


class TestResolve:
    """resolve_adapter returns exactly one adapter, or raises InputError with the list of adapters."""

    @pytest.mark.parametrize(
        ("index", "options"),
        [
            (0, {}),
            (1, {"device_id": 1}),
            (2, {"device_id": 2}),
            (3, {"substring": "intel"}),
            (3, {"substring": "uhd GRAPHICS"}),
            (2, {"substring": "Basic"}),
            (1, {"substring": "rtx 4090", "device_id": 1}),
            (3, {"substring": "770", "device_id": 3}),
        ],
    )
    def test_one(self, index, options):
        """The case of a name does not matter. The index distinguishes two adapters of the same name."""
        assert MACHINE[index] is resolve_adapter(MACHINE, **options)

    def test_default(self):
        """Without options, it is the first hardware adapter, or else the first adapter."""
        assert MACHINE[3] is resolve_adapter([WARP, MACHINE[3]])
        assert WARP is resolve_adapter([WARP])

    @pytest.mark.parametrize(
        ("problem", "options"),
        [
            ("--adapter must be a part of an adapter's name, got 'radeon'; there is ", {"substring": "radeon"}),
            ("--adapter must be a part of an adapter's name, got ''; there is ", {"substring": ""}),
            ("--adapter must be a part of an adapter's name, got ' '; there is ", {"substring": " "}),
            ("--adapter must mean one adapter, got 'nvidia', which is in 2 names; there is ", {"substring": "nvidia"}),
            ("--device-id must be an adapter's index, got 4; there is ", {"device_id": 4}),
            ("--device-id must be an adapter's index, got -1; there is ", {"device_id": -1}),
            (
                "--adapter and --device-id must mean the same adapter, got 'intel' and 0; there is ",
                {"substring": "intel", "device_id": 0},
            ),
            (
                "--adapter must be a part of an adapter's name, got 'radeon'; there is ",
                {"substring": "radeon", "device_id": 0},
            ),
        ],
    )
    def test_refused(self, problem, options):
        """No adapter, several adapters or a contradiction: the error lists all adapters in one line."""
        names = (
            "0: NVIDIA GeForce RTX 4090, 1: NVIDIA GeForce RTX 4090, "
            "2: Microsoft Basic Render Driver, 3: Intel(R) UHD Graphics 770"
        )
        with pytest.raises(InputError) as caught:
            resolve_adapter(MACHINE, **options)
        assert problem + names == str(caught.value)

    @pytest.mark.parametrize("value", [["--adapter="], ["--adapter", ""]])
    def test_empty(self, value):
        """An empty value on the command line names no adapter: a script may pass a variable that is not set."""
        assert parser().parse_args(["validate", *value]).adapter is None
        pytest_parser = argparse.ArgumentParser()
        add_pytest_options(pytest_parser.add_argument)
        assert pytest_parser.parse_args([f"--opmap{value[0][1:]}", *value[1:]]).opmap_adapter is None

    @pytest.mark.parametrize("options", [{}, {"substring": "nvidia"}, {"device_id": 0}])
    def test_no_adapter(self, options):
        """On a machine without adapters, every choice is an error."""
        with pytest.raises(InputError, match=r"there is no adapter$"):
            resolve_adapter([], **options)


def below(type, name="AMD Radeon"):
    """Returns an adapter below which a Vulkan device of this type stands."""
    return msgspec.structs.replace(adapter(0, name), vulkan=type)


class TestDeviceClass:
    """device_class distinguishes hardware from emulated devices."""

    @pytest.mark.parametrize(
        ("expected", "chosen", "wine"),
        [
            ("hardware", MACHINE[0], None),
            ("hardware", MACHINE[3], None),
            ("emulated", MACHINE[0], "10.0"),
            ("emulated", below("cpu"), "10.0"),
            ("emulated", below("other"), "10.0"),
            ("emulated", below("discrete", name="Virtio-GPU Venus (llvmpipe)"), "10.0"),
            ("translated", below("discrete"), "10.0"),
            ("translated", below("integrated"), "10.0"),
            ("translated", below("virtual"), "10.0"),
            ("emulated", WARP, None),
            ("emulated", adapter(0, "llvmpipe (LLVM 19.1.7, 256 bits)"), None),
            ("emulated", adapter(0, "Lavapipe"), None),
            ("emulated", adapter(0, "Google SwiftShader"), None),
        ],
    )
    def test_class(self, expected, chosen, wine):
        """Software adapters and Vulkan devices on the CPU are emulated.

        Under Wine, what Vulkan calls a GPU is translated.
        """
        assert expected == device_class(chosen, wine)

    @pytest.mark.parametrize(
        ("expected", "name", "wine"),
        [
            ("cpu", "CPUExecutionProvider", None),
            ("cpu", "CPUExecutionProvider", "9.0"),
            ("hardware", "CUDAExecutionProvider", None),
            ("emulated", "CUDAExecutionProvider", "9.0"),
            (None, "OpenVINOExecutionProvider", None),
            (None, "WebGpuExecutionProvider", None),
        ],
    )
    def test_of_an_execution_provider(self, expected, name, wine, monkeypatch):
        """An execution provider of which it is not known on what it runs has no class."""
        monkeypatch.setattr(adapters, "wine_version", lambda: wine)
        assert expected == facts_of(name, package="its own").device_class
