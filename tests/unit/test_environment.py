"""Facts about the environment: always there, never an exception; which adapter is meant; Windows' own answers."""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from opmap.errors import InputError, ProviderError
from opmap.machine import adapters, environment, windows
from opmap.machine.adapters import device_class, resolve_adapter
from opmap.machine.environment import collect
from opmap.machine.facts import Adapter, Fact, fact, one_line

WINDOWS_ONLY = ("wine", "os_build", "loaded_modules", "adapters")

on_windows = pytest.mark.skipif(sys.platform != "win32", reason="asks Windows (or Wine)")
elsewhere = pytest.mark.skipif(sys.platform == "win32", reason="what is said where there is no Windows")


def adapter(index: int, name: str, *, software: bool = False) -> Adapter:
    return Adapter(
        index=index,
        name=name,
        vendor_id=0x10DE,
        device_id=0x2684,
        subsystem_id=0,
        revision=0xA1,
        luid=1010,
        software=software,
        dedicated_memory=0,
        driver_version=Fact("32.0.15.6094", "test"),
    )


WARP = adapter(2, "Microsoft Basic Render Driver", software=True)
MACHINE = [
    adapter(0, "NVIDIA GeForce RTX 4090"),
    adapter(1, "NVIDIA GeForce RTX 4090"),
    WARP,
    adapter(3, "Intel(R) UHD Graphics 770"),
]


class TestFacts:
    """Every fact is there on every system, and what goes wrong is its error."""

    def test_keys(self):
        """The keys do not depend on the system."""
        assert list(environment.PROBES) == list(collect())
        assert set(WINDOWS_ONLY) < set(environment.PROBES)

    def test_json(self):
        """The facts are JSON, with Python's own encoder too, and each has its three keys."""
        facts = msgspec.to_builtins(collect())
        assert facts == json.loads(json.dumps(facts))
        assert {("value", "source", "error")} == {tuple(f) for f in facts.values()}

    def test_accounted_for(self):
        """A fact without a value says why, in one line; only `wine` may be absent without anything being wrong."""
        for name, found in collect().items():
            assert found.source
            if found.value is None and not (name == "wine" and sys.platform == "win32"):
                assert found.error
            assert "\n" not in (found.error or "")

    @pytest.mark.parametrize("name", environment.PROBES)
    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (RuntimeError("two\nlines"), "RuntimeError: two lines"),
            (OSError("exception: access violation reading 0x0"), "OSError: exception: access violation reading 0x0"),
            (ImportError(), "ImportError"),
            (ProviderError("not installed"), "not installed"),
        ],
    )
    def test_probe_raises(self, monkeypatch, name, error, said):
        """A probe that raises leaves the other facts as they are."""

        def probe():
            raise error

        source = environment.PROBES[name][0]
        monkeypatch.setitem(environment.PROBES, name, (source, probe))
        facts = collect()
        assert Fact(None, source, said) == facts[name]
        assert list(environment.PROBES) == list(facts)
        assert facts["python" if name != "python" else "implementation"].value

    def test_not_json(self):
        """What JSON cannot say is an error of the fact, not of whoever writes the report."""
        assert fact("somewhere", object).error.startswith("TypeError: ")

    def test_interrupt(self):
        """Ctrl-C is not a fact."""

        def probe():
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fact("somewhere", probe)

    def test_no_runtime(self, monkeypatch):
        """Without ONNX Runtime its facts are errors and the packages say so."""
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        monkeypatch.setattr(environment, "installed", dict)
        facts = collect()
        assert "ONNX Runtime" in facts["packages"].error
        for name in ("onnxruntime", "available_providers", "ep_devices"):
            assert facts[name].value is None
            assert facts[name].error.startswith("ModuleNotFoundError: ")

    def test_runtime(self):
        """The installed ONNX Runtime says which it is, what it has, and which devices it sees."""
        import onnxruntime

        facts = collect()
        assert onnxruntime.__version__ == facts["onnxruntime"].value["version"]
        assert environment.installed().items() <= facts["packages"].value.items()
        assert "CPUExecutionProvider" in facts["available_providers"].value
        assert "CPUExecutionProvider" in [d["ep_name"] for d in facts["ep_devices"].value]
        assert {"type", "vendor", "vendor_id", "device_id", "metadata"} < set(facts["ep_devices"].value[0])

    @elsewhere
    def test_not_windows(self):
        """Elsewhere Windows' facts are there, without a value, and say why."""
        facts = collect()
        assert {(None, "not Windows")} == {(facts[name].value, facts[name].error) for name in WINDOWS_ONLY}
        assert adapters.wine_version() is None
        with pytest.raises(ProviderError, match="^not Windows$"):
            adapters.adapters()

    def test_adapters_fail(self, monkeypatch):
        """Adapters that cannot be listed are one ProviderError, not whatever DXGI raised."""

        def broken():
            raise OSError("no\nDXGI")

        monkeypatch.setattr(adapters, "windows", broken)
        with pytest.raises(ProviderError, match="^adapters cannot be listed: OSError: no DXGI$"):
            adapters.adapters()

    @pytest.mark.parametrize(
        ("code", "said"),
        [(-2005270524, "HRESULT 0x887A0004: no such interface"), (5, "OSError: [WinError 5] no such interface")],
    )
    def test_one_line_of_windows(self, code, said):
        """An HRESULT stands in the spelling in which it is looked up."""

        class Failed(OSError):
            winerror, strerror = code, "no such\r\ninterface\r\n"

        Failed.__name__ = "OSError"
        assert said == one_line(Failed(f"[WinError {code}] no such\r\ninterface\r\n"))


class TestResolve:
    """--adapter and --device-id mean exactly one adapter, or are refused with the list of adapters."""

    @pytest.mark.parametrize(
        ("index", "given"),
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
    def test_one(self, index, given):
        """The part of a name counts in any case; two of the same name are told apart by the index."""
        assert MACHINE[index] is resolve_adapter(MACHINE, **given)

    def test_default(self):
        """With nothing given, the first adapter that is not software, or the first at all."""
        assert MACHINE[3] is resolve_adapter([WARP, MACHINE[3]])
        assert WARP is resolve_adapter([WARP])

    @pytest.mark.parametrize(
        ("problem", "given"),
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
    def test_refused(self, problem, given):
        """None, several, or two that disagree: one line that lists what there is."""
        names = "0: NVIDIA GeForce RTX 4090, 1: NVIDIA GeForce RTX 4090, 2: Microsoft Basic Render Driver, 3: Intel(R) UHD Graphics 770"
        with pytest.raises(InputError) as caught:
            resolve_adapter(MACHINE, **given)
        assert problem + names == str(caught.value)

    @pytest.mark.parametrize("given", [{}, {"substring": "nvidia"}, {"device_id": 0}])
    def test_no_adapter(self, given):
        """Where there is no adapter, none can be meant."""
        with pytest.raises(InputError, match="there is no adapter$"):
            resolve_adapter([], **given)


class TestDeviceClass:
    """Hardware and emulated devices are told apart."""

    @pytest.mark.parametrize(
        ("expected", "found", "wine"),
        [
            ("hardware", MACHINE[0], None),
            ("hardware", MACHINE[3], None),
            ("emulated", MACHINE[0], "10.0"),
            ("emulated", WARP, None),
            ("emulated", adapter(0, "llvmpipe (LLVM 19.1.7, 256 bits)"), None),
            ("emulated", adapter(0, "Lavapipe"), None),
            ("emulated", adapter(0, "Google SwiftShader"), None),
        ],
    )
    def test_class(self, expected, found, wine):
        """Wine, software adapters and Vulkan devices on the CPU are emulated."""
        assert expected == device_class(found, wine)


class TestDriverVersion:
    """The first source that knows the driver version is named; where none does, each says why."""

    def probes(self, *answers):
        def probe(answer):
            def ask():
                asked.append(answer)
                if isinstance(answer, Exception):
                    raise answer
                return answer

            return ask

        asked = []
        return asked, [probe(a) for a in answers]

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
        """DXGI, then DXCore, then SetupAPI; what comes after an answer is not asked."""
        asked, probes = self.probes(*answers)
        assert Fact("32.0.15.6094", windows.DRIVER_SOURCES[place]) == windows.driver_version(*probes)
        assert place + 1 == len(asked)

    def test_none(self):
        """Without an answer the value is null."""
        _, probes = self.probes(OSError("one"), "0.0.0.0", OSError("three"))
        found = windows.driver_version(*probes)
        assert found.value is None
        assert ["OSError: one", "says 0.0.0.0", "OSError: three"] == re.findall(
            r": (OSError: \w+|says [\d.]+)", found.error
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
        """A LARGE_INTEGER is signed, and its parts are not."""
        assert expected == windows.version_text(number)

    @pytest.mark.parametrize(
        ("expected", "devices"),
        [
            ("1.2.3.4", [("PCI\\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1\\4&1", "1.2.3.4")]),
            (
                "1.2.3.4",
                [("pci\\ven_10de&dev_2684&subsys_16f410de&rev_a1\\4&1", "1.2.3.4"), ("PCI\\VEN_8086\\3", "9.9.9.9")],
            ),
            ("1.2.3.4", [("PCI\\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1\\4&%d" % i, "1.2.3.4") for i in (1, 2)]),
            (None, [("PCI\\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1\\4&%d" % i, f"1.2.3.{i}") for i in (1, 2)]),
            (None, [("PCI\\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1\\4&1", None)]),
            (None, [("PCI\\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A10\\4&1", "1.2.3.4")]),
            (None, []),
        ],
    )
    def test_setupapi(self, monkeypatch, expected, devices):
        """Display devices of the same hardware id must agree; another device's version is never taken."""
        monkeypatch.setattr(windows, "display_devices", lambda key: devices)
        hardware = windows.hardware_id(0x10DE, 0x2684, 0x16F410DE, 0xA1)
        if expected:
            assert expected == windows.setupapi_driver_version(hardware)
        else:
            with pytest.raises(OSError, match="^PCI.VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1: "):
                windows.setupapi_driver_version(hardware)

    def test_luid(self):
        """The LUID is one unsigned number, as in ONNX Runtime's metadata."""
        assert 1010 == windows.luid_number(windows.LUID(1010, 0))
        assert 0xFFFFFFFF_00000001 == windows.luid_number(windows.LUID(1, -1))

    def test_guid(self):
        """An interface id has the bytes that COM expects."""
        assert bytes.fromhex("fa77ec547713e6448c3288fd5f44c84c") == bytes(windows.IID_IDXGI_DEVICE)


class TestDescription:
    """What DXGI and the loader say is passed on unchanged."""

    def described(self, monkeypatch, wine=None, **fields) -> Adapter:
        def method(interface, slot, argtypes, *arguments):
            assert 10 == slot
            for name, value in fields.items():
                setattr(arguments[0]._obj, name, value)

        def ask(where):
            return lambda question: asked.append((where, question)) or "0.0.0.0"

        asked = self.asked = []
        monkeypatch.setattr(windows, "_method", method)
        for name in ("dxgi_driver_version", "dxcore_driver_version", "setupapi_driver_version"):
            monkeypatch.setattr(windows, name, ask(name.partition("_")[0]))
        return windows._describe(3, ctypes.c_void_p(1), wine)

    def test_fields(self, monkeypatch):
        """Each number stands where it belongs, also in the questions about the driver."""
        numbers = {"vendor_id": 0x10DE, "device_id": 0x2684, "subsystem_id": 0x16F410DE, "revision": 0xA1}
        found = self.described(
            monkeypatch,
            description="A  GPU ",
            **numbers,
            dedicated_video_memory=5 << 32,
            luid=windows.LUID(7, 1),
            flags=0,
        )
        told = found.driver_version
        assert (None, 3) == (told.value, told.error.count("says 0.0.0.0"))
        expected = Adapter(
            index=3,
            name="A GPU",
            **numbers,
            luid=1 << 32 | 7,
            software=False,
            dedicated_memory=5 << 32,
            driver_version=told,
        )
        assert expected == found
        assert ["dxgi", "dxcore", "setupapi"] == [where for where, _ in self.asked]
        assert 1 << 32 | 7 == windows.luid_number(self.asked[1][1])
        assert "PCI\\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1" == self.asked[2][1]

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
        """Software adapters are those that ONNX Runtime takes for such: by the flag, or as WARP's device."""
        assert software is self.described(monkeypatch, **fields).software

    def test_wine(self, monkeypatch):
        """Under Wine nothing is asked about the driver, and its version is null."""
        found = self.described(monkeypatch, wine="10.0").driver_version
        assert (None, []) == (found.value, self.asked)
        assert "Wine 10.0: " in found.error

    def test_modules(self, monkeypatch):
        """Files of one name from two folders are two modules; a part of a name is none."""
        paths = ["C:\\a\\DirectML.dll", "C:\\b\\directml.DLL", "C:\\a\\MyDirectML.dll", "", "C:\\directml.dll\\x.dll"]
        monkeypatch.setattr(windows, "_module_handles", lambda: range(len(paths)))
        monkeypatch.setattr(windows, "_module_path", paths.__getitem__)
        monkeypatch.setattr(windows, "_module", lambda path: path)
        assert paths[:2] == windows.loaded_modules(["DIRECTML.dll"])


@on_windows
class TestWindows:
    """What Windows, or Wine, answers here."""

    def test_facts(self):
        """Each of Windows' facts has a value."""
        facts = collect()
        assert re.fullmatch(r"\d+\.\d+\.\d+(\.\d+)?", facts["os_build"].value)
        assert facts["machine"].value in windows.MACHINES.values()
        assert facts["wine"].error is None
        assert isinstance(facts["loaded_modules"].value, list)
        assert facts["adapters"].value

    def test_adapters(self):
        """Adapters are numbered from 0; under Wine the driver version is null and says why."""
        found = adapters.adapters()
        assert list(range(len(found))) == [a.index for a in found]
        for each in found:
            assert each.name
            if adapters.wine_version():
                assert each.driver_version.value is None
                assert "Wine" in each.driver_version.error
                assert "emulated" == device_class(each, adapters.wine_version())
            else:
                assert each.software or each.driver_version.value

    def test_driver_version(self, monkeypatch):
        """The chain of driver versions is gone through, also where its answer is not reported."""
        monkeypatch.setattr(windows, "wine_version", lambda: None)
        for each in windows.adapters():
            if not each.software:  # which need not have a driver
                assert each.driver_version.value, each.driver_version.error
            assert re.fullmatch(r"\d+(\.\d+){3}", each.driver_version.value or "0.0.0.0")

    def test_dxcore(self):
        """DXCore knows the adapter by its LUID."""
        first = windows.adapters()[0]
        luid = windows.LUID(first.luid & 0xFFFFFFFF, first.luid >> 32)
        try:
            assert re.fullmatch(r"\d+(\.\d+){3}", windows.dxcore_driver_version(luid))
        except OSError as error:
            if not error.winerror:  # an access violation, say, and not Windows' own answer
                raise
            pytest.skip(f"no usable DXCore here: {error}")

    def test_asked_for_this_adapter(self, monkeypatch):
        """DXCore and SetupAPI, where it comes to them, are asked for the adapter at hand."""
        asked = []

        def refuse(question):
            asked.append(windows.luid_number(question) if isinstance(question, windows.LUID) else question)
            raise OSError("not here")

        monkeypatch.setattr(windows, "wine_version", lambda: None)
        monkeypatch.setattr(windows, "dxgi_driver_version", lambda interface: refuse(None))
        monkeypatch.setattr(windows, "dxcore_driver_version", refuse)
        monkeypatch.setattr(windows, "setupapi_driver_version", refuse)
        for each in windows.adapters():
            hardware = windows.hardware_id(each.vendor_id, each.device_id, each.subsystem_id, each.revision)
            assert [None, each.luid, hardware] == asked
            assert each.driver_version.value is None
            assert 3 == each.driver_version.error.count("OSError: not here")
            asked.clear()

    def test_setupapi(self):
        """Display devices are listed by their instance, and a property of theirs is read."""
        driver_key = windows.PropertyKey(windows.DRIVER_VERSION.category, 8)  # DEVPKEY_Device_MatchingDeviceId
        devices = windows.display_devices(driver_key)
        if not devices:
            pytest.skip("Windows lists no display device here")
        assert all("\\" in instance for instance, _ in devices)
        assert any(value for _, value in devices)

    def test_corroborated(self):
        """ONNX Runtime's own list has the same adapter under the same number."""
        facts = collect()
        devices = [d for d in facts["ep_devices"].value or [] if d["ep_name"] == "DmlExecutionProvider"]
        if not devices:
            pytest.skip("ONNX Runtime lists no DirectML device here")
        for device in devices:
            found = facts["adapters"].value[int(device["metadata"].get("DxgiAdapterNumber", 0))]
            assert (device["vendor_id"], device["device_id"]) == (found["vendor_id"], found["device_id"])
            assert device["metadata"].get("LUID") in (None, str(found["luid"]))

    def test_modules(self):
        """Modules are found in any case, with the version and the hash of their file."""
        python = f"python{sys.version_info.major}{sys.version_info.minor}.dll"
        (found,) = windows.loaded_modules([python.upper(), "no-such-module.dll"])
        assert python == Path(found.path).name.lower()
        assert hashlib.sha256(Path(found.path).read_bytes()).hexdigest() == found.sha256
        assert found.file_version.startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
        assert found.error is None

    def test_module_without_version(self, tmp_path):
        """A file without a version resource still has a hash, and one that is gone has neither."""
        path = tmp_path / "plain.dll"
        path.write_bytes(b"MZ")
        found = windows._module(str(path))
        assert (None, hashlib.sha256(b"MZ").hexdigest()) == (found.file_version, found.sha256)
        assert found.error.startswith("file_version: ")
        path.unlink()
        assert "sha256: FileNotFoundError" in windows._module(str(path)).error

    def test_directml_is_not_loaded(self):
        """Collecting does not load DirectML."""
        code = (
            "from opmap.execution.environment import collect; collect();"
            "from opmap.execution.windows import loaded_modules;"
            "print([m.path for m in loaded_modules(['directml.dll', 'directml.debug.dll'])])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        assert (0, "[]") == (done.returncode, done.stdout.strip()), done.stderr

    def test_loaded_directml(self):
        """A DirectML.dll that the process has loaded is listed with its path, version and hash."""
        import onnxruntime

        path = Path(onnxruntime.__file__).parent / "capi" / "DirectML.dll"
        if not path.exists():
            pytest.skip("this ONNX Runtime brings no DirectML.dll")
        code = (
            "import ctypes, sys, msgspec; ctypes.WinDLL(sys.argv[1]);"
            "from opmap.execution.environment import collect;"
            "print(msgspec.json.encode(collect()['loaded_modules']).decode())"
        )
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120)
        assert 0 == done.returncode, done.stderr
        (found,) = [m for m in json.loads(done.stdout)["value"] if m["path"].lower().endswith("\\directml.dll")]
        assert path.samefile(found["path"])
        assert hashlib.sha256(path.read_bytes()).hexdigest() == found["sha256"]
        assert re.fullmatch(r"1\.\d+\.\d+\.\d+", found["file_version"])


@on_windows
class TestInterfaces:
    """COM through ctypes: what was obtained is released, and a failed call is an exception."""

    @pytest.fixture
    def fake(self):
        """An object whose slot 2 counts releases and whose slot 3 returns the HRESULT that it is given."""
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
        """Once, at the end of the block."""
        address, released = fake
        with windows._interface() as interface:
            interface.value = address
            assert [] == released
        assert [address] == released

    def test_released_after_an_error(self, fake):
        """Also where a call inside the block failed; the HRESULT is in the error."""
        address, released = fake
        with pytest.raises(OSError) as caught, windows._interface() as interface:
            interface.value = address
            windows._method(interface, 3, (ctypes.c_long,), -2005270524)
        assert [address] == released
        assert one_line(caught.value).startswith("HRESULT 0x887A0004: ")

    def test_nothing_obtained(self):
        """A pointer that stayed null is not released."""
        with windows._interface() as interface:
            assert not interface
