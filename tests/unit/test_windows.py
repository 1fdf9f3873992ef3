"""The module that asks Windows about the machine. Tests without a mark run on every system, with invented answers."""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from opmap.engines.machine import adapters, windows
from opmap.engines.machine.adapters import device_class
from opmap.engines.machine.environment import collect
from opmap.engines.machine.facts import Adapter, Fact, one_line
from opmap.session.options import OPTIONS

on_windows = pytest.mark.skipif(sys.platform != "win32", reason="needs Windows (or Wine)")


class TestDriverVersion:
    """The fact names the first source that gives a driver version. If none gives one, the error holds all answers."""

    def probes(self, *answers):
        """Returns one probe for each answer, and the list to which each probe adds its answer when it is called."""

        def probe(answer):
            def ask():
                called.append(answer)
                if isinstance(answer, Exception):
                    raise answer
                return answer

            return ask

        called = []
        return called, [probe(a) for a in answers]

    @pytest.mark.parametrize(
        ("place", "answers"),
        [
            (0, ("32.0.15.6094", "1.0.0.0", "2.0.0.0")),
            (1, (OSError("no"), "32.0.15.6094", "2.0.0.0")),
            (1, ("0.0.0.0", "32.0.15.6094", "2.0.0.0")),
            (2, (OSError("no"), AttributeError("no such function"), "32.0.15.6094")),
        ],
    )
    def test_first(self, place, answers):
        """The order is DXGI, DXCore, SetupAPI. After an answer, no further source is asked."""
        called, probes = self.probes(*answers)
        assert Fact("32.0.15.6094", windows.DRIVER_SOURCES[place]) == windows.driver_version(*probes)
        assert place + 1 == len(called)

    def test_none(self):
        """Without a version, the value is None."""
        _, probes = self.probes(OSError("one"), "0.0.0.0", OSError("three"))
        version = windows.driver_version(*probes)
        assert version.value is None
        assert ["OSError: one", "says 0.0.0.0", "OSError: three"] == re.findall(
            r": (OSError: \w+|says [\d.]+)", version.error
        )

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

    @pytest.mark.parametrize(
        ("expected", "devices"),
        [
            ("1.2.3.4", [("PCI\\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1\\4&1", "1.2.3.4")]),
            (
                "1.2.3.4",
                [("pci\\ven_10de&dev_2684&subsys_16f410de&rev_a1\\4&1", "1.2.3.4"), ("PCI\\VEN_8086\\3", "9.9.9.9")],
            ),
            ("1.2.3.4", [(f"PCI\\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1\\4&{i}", "1.2.3.4") for i in (1, 2)]),
            (None, [(f"PCI\\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1\\4&{i}", f"1.2.3.{i}") for i in (1, 2)]),
            (None, [("PCI\\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1\\4&1", None)]),
            (None, [("PCI\\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A10\\4&1", "1.2.3.4")]),
            (None, []),
        ],
    )
    def test_setupapi(self, monkeypatch, expected, devices):
        """Display devices with this hardware id must have the same version. Other devices are ignored."""
        monkeypatch.setattr(windows, "display_devices", lambda key: devices)
        hardware = windows.hardware_id(0x10DE, 0x2684, 0x16F410DE, 0xA1)
        if expected:
            assert expected == windows.setupapi_driver_version(hardware)
        else:
            with pytest.raises(OSError, match=r"^PCI.VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1: "):
                windows.setupapi_driver_version(hardware)

    def test_luid(self):
        """The LUID is one unsigned number, as in ONNX Runtime's metadata."""
        assert 1010 == windows.luid_number(windows.LUID(1010, 0))
        assert 0xFFFFFFFF_00000001 == windows.luid_number(windows.LUID(1, -1))

    def test_guid(self):
        """An interface id has COM's byte order."""
        assert bytes.fromhex("fa77ec547713e6448c3288fd5f44c84c") == bytes(windows.IID_IDXGI_DEVICE)


class TestDescription:
    """An Adapter holds the values of DXGI's description; loaded_modules selects by file name."""

    def described(self, monkeypatch, wine=None, **fields) -> Adapter:
        """Describes an adapter whose DXGI_ADAPTER_DESC1 has these fields. `questions` holds the driver questions."""

        def method(interface, slot, argtypes, *arguments):
            assert 10 == slot
            for name, value in fields.items():
                setattr(arguments[0]._obj, name, value)

        def ask(source):
            return lambda argument: questions.append((source, argument)) or "0.0.0.0"

        questions = self.questions = []
        monkeypatch.setattr(windows, "_method", method)
        for name in ("dxgi_driver_version", "dxcore_driver_version", "setupapi_driver_version"):
            monkeypatch.setattr(windows, name, ask(name.partition("_")[0]))
        return windows._describe(3, ctypes.c_void_p(1), wine)

    def test_fields(self, monkeypatch):
        """Each number is in the right field, and in the right argument of the driver questions."""
        numbers = {"vendor_id": 0x10DE, "device_id": 0x2684, "subsystem_id": 0x16F410DE, "revision": 0xA1}
        description = self.described(
            monkeypatch,
            description="A  GPU ",
            **numbers,
            dedicated_video_memory=5 << 32,
            luid=windows.LUID(7, 1),
            flags=0,
        )
        version = description.driver_version
        assert (None, 3) == (version.value, version.error.count("says 0.0.0.0"))
        expected = Adapter(
            index=3,
            name="A GPU",
            **numbers,
            luid=1 << 32 | 7,
            software=False,
            dedicated_memory=5 << 32,
            driver_version=version,
        )
        assert expected == description
        assert ["dxgi", "dxcore", "setupapi"] == [source for source, _ in self.questions]
        assert 1 << 32 | 7 == windows.luid_number(self.questions[1][1])
        assert "PCI\\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1" == self.questions[2][1]

    @pytest.mark.parametrize(
        ("software", "fields"),
        [
            (True, {"flags": 2}),
            (True, {"vendor_id": 0x1414, "device_id": 0x8C, "flags": 0}),
            (False, {"vendor_id": 0x1414, "device_id": 0x8D, "flags": 0}),
            (False, {"flags": 1}),
        ],
    )
    def test_software(self, monkeypatch, software, fields):
        """The rule is ONNX Runtime's: a software adapter has the flag, or the vendor id and device id of WARP."""
        assert software is self.described(monkeypatch, **fields).software

    def test_wine(self, monkeypatch):
        """Under Wine, no source is asked for the driver version, and the value is None."""
        version = self.described(monkeypatch, wine="10.0").driver_version
        assert (None, []) == (version.value, self.questions)
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
                assert "emulated" == device_class(each, adapters.wine_version())
            else:
                assert each.software or each.driver_version.value

    def test_driver_version(self, monkeypatch):
        """The sources of the driver version work, also under Wine, where their answer is not reported."""
        monkeypatch.setattr(windows, "wine_version", lambda: None)
        for each in windows.adapters():
            if not each.software:  # a software adapter may have no driver
                assert each.driver_version.value, each.driver_version.error
            assert re.fullmatch(r"\d+(\.\d+){3}", each.driver_version.value or "0.0.0.0")

    def test_dxcore(self):
        """DXCore finds the adapter by its LUID."""
        first = windows.adapters()[0]
        luid = windows.LUID(first.luid & 0xFFFFFFFF, first.luid >> 32)
        try:
            assert re.fullmatch(r"\d+(\.\d+){3}", windows.dxcore_driver_version(luid))
        except OSError as error:
            if not error.winerror:  # not an answer of Windows, but for example an access violation
                raise
            pytest.skip(f"DXCore does not work on this machine: {error}")

    def test_asked_for_this_adapter(self, monkeypatch):
        """DXCore is asked by the adapter's own LUID, SetupAPI by its own hardware id."""
        questions = []

        def refuse(argument):
            questions.append(windows.luid_number(argument) if isinstance(argument, windows.LUID) else argument)
            raise OSError("unknown")

        monkeypatch.setattr(windows, "wine_version", lambda: None)
        monkeypatch.setattr(windows, "dxgi_driver_version", lambda interface: refuse(None))
        monkeypatch.setattr(windows, "dxcore_driver_version", refuse)
        monkeypatch.setattr(windows, "setupapi_driver_version", refuse)
        for each in windows.adapters():
            hardware = windows.hardware_id(each.vendor_id, each.device_id, each.subsystem_id, each.revision)
            assert [None, each.luid, hardware] == questions
            assert each.driver_version.value is None
            assert 3 == each.driver_version.error.count("OSError: unknown")
            questions.clear()

    def test_setupapi(self):
        """Every display device has an instance id, and at least one has the text property."""
        driver_key = windows.PropertyKey(windows.DRIVER_VERSION.category, 8)  # DEVPKEY_Device_MatchingDeviceId
        devices = windows.display_devices(driver_key)
        if not devices:
            pytest.skip("this Windows lists no display device")
        assert all("\\" in instance for instance, _ in devices)
        assert any(value for _, value in devices)

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


@on_windows
class TestInterfaces:
    """COM through ctypes: every interface is released once, and a failed call raises OSError."""

    @pytest.fixture
    def fake(self):
        """A COM object. Its slot 2 counts the releases, its slot 3 returns its argument as the HRESULT."""
        released = []
        release = ctypes.WINFUNCTYPE(ctypes.c_ulong, ctypes.c_void_p)(lambda this: released.append(this) or 0)
        answer = ctypes.WINFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_long)(lambda this, code: code)
        table = (ctypes.c_void_p * 4)(
            None, None, ctypes.cast(release, ctypes.c_void_p), ctypes.cast(answer, ctypes.c_void_p)
        )
        instance = ctypes.c_void_p(ctypes.addressof(table))
        yield ctypes.addressof(instance), released
        del release, answer, table, instance

    def test_released(self, fake):
        """An interface is released once, at the end of the block."""
        address, released = fake
        with windows._interface() as interface:
            interface.value = address
            assert [] == released
        assert [address] == released

    def test_released_after_an_error(self, fake):
        """An interface is also released if a call inside the block fails. The error contains the HRESULT."""
        address, released = fake
        with pytest.raises(OSError) as caught, windows._interface() as interface:
            interface.value = address
            windows._method(interface, 3, (ctypes.c_long,), -2005270524)
        assert [address] == released
        assert one_line(caught.value).startswith("HRESULT 0x887A0004: ")

    def test_nothing_obtained(self):
        """A null pointer is not released."""
        with windows._interface() as interface:
            assert not interface
