"""The module that asks Windows about the machine. Tests without a mark run on every system, with invented answers."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from opmap.engines.directml import structs
from opmap.engines.machine import adapters, windows
from opmap.engines.machine.adapters import device_class
from opmap.engines.machine.environment import collect
from opmap.engines.machine.facts import Adapter, Fact
from opmap.engines.machine.vulkan import TYPES
from opmap.session.options import OPTIONS

pytestmark = pytest.mark.platform

on_windows = pytest.mark.skipif(sys.platform != "win32", reason="needs Windows (or Wine)")


class TestNumbers:
    """Versions and ids are read from Windows' structures."""

    @pytest.mark.parametrize(
        ("expected", "number"),
        [
            ("32.0.15.6094", 32 << 48 | 15 << 16 | 6094),
            ("0.0.0.0", 0),
            ("65535.65535.65535.65535", 2**64 - 1),
            ("32768.0.0.1", -(2**63) + 1),
        ],
    )
    def test_text(self, expected, number):
        """A LARGE_INTEGER is signed, but the parts of a version are not."""
        assert expected == windows.version_text(number)

    def test_luid(self):
        """The LUID is one unsigned number, as in ONNX Runtime's metadata."""
        assert 1010 == windows.luid_number(structs.LUID(1010, 0))
        assert 0xFFFFFFFF_00000001 == windows.luid_number(structs.LUID(1, -1))


class TestDescription:
    """An Adapter holds the values of DXGI's description; loaded_modules selects by file name."""

    def described(self, monkeypatch, wine=None, **fields) -> Adapter:
        """Describes an adapter whose DXGI_ADAPTER_DESC1 has these fields."""

        def call(method, argument):
            assert "GetDesc1" == method
            for name, value in fields.items():
                setattr(argument._obj, name, value)

        monkeypatch.setattr(windows, "driver_version", lambda interface: "32.0.15.6094")
        return windows._describe(3, SimpleNamespace(call=call), wine, {1 << 32 | 7: "discrete"})

    def test_fields(self, monkeypatch):
        """Each number is in the right field."""
        text = structs.DXGI_ADAPTER_DESC1().Description
        text[:7] = [*map(ord, "A  GPU ")]
        numbers = {"VendorId": 0x10DE, "DeviceId": 0x2684, "SubSysId": 0x16F410DE, "Revision": 0xA1}
        description = self.described(
            monkeypatch, Description=text, **numbers, DedicatedVideoMemory=5 << 32, AdapterLuid=structs.LUID(7, 1)
        )
        expected = Adapter(
            index=3,
            name="A GPU",
            vendor_id=0x10DE,
            device_id=0x2684,
            luid=1 << 32 | 7,
            software=False,
            driver_version=Fact("32.0.15.6094", windows.DRIVER_SOURCE),
            vulkan="discrete",
        )
        assert expected == description

    @pytest.mark.parametrize(
        ("software", "fields"),
        [
            (True, {"Flags": 2}),
            (True, {"VendorId": 0x1414, "DeviceId": 0x8C, "Flags": 0}),
            (False, {"VendorId": 0x1414, "DeviceId": 0x8D, "Flags": 0}),
            (False, {"Flags": 1}),
        ],
    )
    def test_software(self, monkeypatch, software, fields):
        """The rule is ONNX Runtime's: a software adapter has the flag, or the vendor id and device id of WARP."""
        assert software is self.described(monkeypatch, **fields).software

    def test_wine(self, monkeypatch):
        """Under Wine, DXGI is not asked for the driver version, and the value is None."""
        version = self.described(monkeypatch, wine="10.0").driver_version
        assert version.value is None
        assert "Wine 10.0: " in version.error

    def test_modules(self, monkeypatch):
        """Two files of the same name from two folders are two modules. A part of a name does not count."""
        paths = ["C:\\a\\DirectML.dll", "C:\\b\\directml.DLL", "C:\\a\\MyDirectML.dll", "", "C:\\directml.dll\\x.dll"]
        monkeypatch.setattr(windows, "_module_handles", lambda: range(len(paths)))
        monkeypatch.setattr(windows, "_module_path", paths.__getitem__)
        monkeypatch.setattr(windows, "_module", lambda path: path)
        assert paths[:2] == windows.loaded_modules(["DIRECTML.dll"])


class TestPowerShell:
    """What PowerShell does with an argument is said where the argument is explained."""

    def test_at_sign(self):
        """`@FILE` without quotes is a variable there."""
        assert "PowerShell needs quotes: '@FILE'" in OPTIONS["case"].help


@on_windows
class TestWindows:
    """The answers of this Windows, or of Wine."""

    def test_facts(self):
        """Every fact about Windows has a value."""
        facts = collect()
        assert re.fullmatch(r"\d+\.\d+\.\d+(\.\d+)?", facts["os_build"].value)
        assert facts["machine"].value in windows.MACHINES.values()
        assert facts["wine"].error is None
        assert isinstance(facts["loaded_modules"].value, list)
        assert facts["adapters"].value

    def test_adapters(self):
        """Adapters are numbered from 0. Under Wine, the driver version is None, with an error."""
        listed = adapters.list_adapters()
        assert list(range(len(listed))) == [a.index for a in listed]
        for each in listed:
            assert each.name
            if adapters.wine_version():
                assert each.driver_version.value is None
                assert "Wine" in each.driver_version.error
                gpu = each.vulkan in adapters.GPU_TYPES
                assert each.vulkan in TYPES
                assert ("translated" if gpu else "emulated") == device_class(each, adapters.wine_version())
            else:
                assert each.software or each.driver_version.value

    def test_driver_version(self, monkeypatch):
        """DXGI gives a driver version, also under Wine, where it is not reported."""
        monkeypatch.setattr(windows, "wine_version", lambda: None)
        for each in windows.adapters():
            if not each.software:  # a software adapter may have no driver
                assert each.driver_version.value, each.driver_version.error
            assert re.fullmatch(r"\d+(\.\d+){3}", each.driver_version.value or "0.0.0.0")

    def test_corroborated(self):
        """ONNX Runtime's own list has the same adapter at the same index."""
        facts = collect()
        devices = [d for d in facts["ep_devices"].value or [] if d["ep_name"] == "DmlExecutionProvider"]
        if not devices:
            pytest.skip("this ONNX Runtime lists no DirectML device")
        for device in devices:
            number = device["metadata"].get("DxgiAdapterNumber")
            if number is None:  # an adapter that only DXCore knows is none of DXGI's
                continue
            same = facts["adapters"].value[int(number)]
            assert (device["vendor_id"], device["device_id"]) == (same["vendor_id"], same["device_id"])
            assert device["metadata"].get("LUID") in (None, str(same["luid"]))

    def test_modules(self):
        """A module is found by its name in any case, with the version and the hash of its file."""
        python = f"python{sys.version_info.major}{sys.version_info.minor}.dll"
        (module,) = windows.loaded_modules([python.upper(), "no-such-module.dll"])
        assert python == Path(module.path).name.lower()
        assert hashlib.sha256(Path(module.path).read_bytes()).hexdigest() == module.sha256
        assert module.file_version.startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
        assert module.error is None

    def test_module_without_version(self, tmp_path):
        """A file without a version resource still has a hash. A deleted file has neither."""
        path = tmp_path / "plain.dll"
        path.write_bytes(b"MZ")
        module = windows._module(str(path))
        assert (None, hashlib.sha256(b"MZ").hexdigest()) == (module.file_version, module.sha256)
        assert module.error.startswith("file_version: ")
        path.unlink()
        assert "sha256: FileNotFoundError" in windows._module(str(path)).error

    def test_directml_is_not_loaded(self):
        """collect() does not load DirectML."""
        code = (
            "from opmap.engines.machine.environment import collect; collect();"
            "from opmap.engines.machine.windows import loaded_modules;"
            "print([m.path for m in loaded_modules(['directml.dll', 'directml.debug.dll'])])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        assert (0, "[]") == (done.returncode, done.stdout.strip()), done.stderr

    def test_loaded_directml(self):
        """A DirectML.dll that the process loaded is listed with its path, version and hash."""
        import onnxruntime

        path = Path(onnxruntime.__file__).parent / "capi" / "DirectML.dll"
        if not path.exists():
            pytest.skip("this ONNX Runtime contains no DirectML.dll")
        code = (
            "import ctypes, sys, msgspec; ctypes.WinDLL(sys.argv[1]);"
            "from opmap.engines.machine.environment import collect;"
            "print(msgspec.json.encode(collect()['loaded_modules']).decode())"
        )
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120)
        assert 0 == done.returncode, done.stderr
        (module,) = [m for m in json.loads(done.stdout)["value"] if m["path"].lower().endswith("\\directml.dll")]
        assert path.samefile(module["path"])
        assert hashlib.sha256(path.read_bytes()).hexdigest() == module["sha256"]
        assert re.fullmatch(r"1\.\d+\.\d+\.\d+", module["file_version"])
