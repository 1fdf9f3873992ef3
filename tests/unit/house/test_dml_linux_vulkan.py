"""The Vulkan drivers of a rig (tools/dml_linux): how they are found on the host, what is shown of them, and what is
said."""

import json
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools" / "dml_linux"
ELF = b"\x7fELF\2" + bytes(13) + (62).to_bytes(2, "little")
SWIFTSHADER = {
    "name": "SwiftShader",
    "type": "cpu",
    "luid": 7,
    "driver": "d",
    "api_version": "1.3.0",
    "memory": 1 << 30,
}
CARD = {**SWIFTSHADER, "name": "Radeon", "type": "discrete", "luid": 8}

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a rig runs on Linux only"),
    pytest.mark.skipif(not TOOLS.is_dir(), reason="only the tests are here"),
]


@pytest.fixture
def vulkan(monkeypatch):
    """The module, on a host whose loader finds nothing."""
    monkeypatch.syspath_prepend(str(TOOLS))
    import vulkan

    monkeypatch.setattr(vulkan, "trace", lambda command, **environment: {})
    return vulkan


def icd(folder, name="a.json", library="libvulkan_a.so", **more):
    """Writes an ICD file, and the library that it names by a relative path. Returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / library).write_bytes(ELF)
    content = {"ICD": {"library_path": f"./{library}", "api_version": "1.3.0"}, **more}
    (folder / name).write_text(json.dumps(content))
    return folder / name


class TestSearch:
    """ICD files are found by the Vulkan loader's own rules."""

    @pytest.mark.parametrize("variable", ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"])
    def test_named(self, vulkan, tmp_path, variable):
        """A variable that names files or folders leaves out all places."""
        first, second = icd(tmp_path / "one", "z.json"), icd(tmp_path / "two")
        icd(tmp_path / "share/vulkan/icd.d")
        environment = {variable: f"{first}:{second.parent}", "XDG_DATA_DIRS": str(tmp_path / "share")}
        assert [first, second] == vulkan.icd_files(environment)

    def test_newer_name(self, vulkan, tmp_path):
        """VK_DRIVER_FILES goes before VK_ICD_FILENAMES."""
        new, old = icd(tmp_path / "new"), icd(tmp_path / "old")
        assert [new] == vulkan.icd_files({"VK_DRIVER_FILES": str(new), "VK_ICD_FILENAMES": str(old)})

    def test_places(self, vulkan, tmp_path, monkeypatch):
        """Settings go before data, a user's before the system's; a container's own place comes last."""
        names = ["config", "config dirs", "data", "data dirs", "container"]
        files = [icd(tmp_path / name / "vulkan/icd.d", f"{9 - i}.json") for i, name in enumerate(names)]
        monkeypatch.setattr(vulkan, "CONTAINERS", [str(tmp_path / "container")])
        variables = ["XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS"]
        environment = {variable: str(tmp_path / name) for variable, name in zip(variables, names, strict=False)}
        assert files == [file for file in vulkan.icd_files(environment) if tmp_path in file.parents]

    @pytest.mark.parametrize(
        ("content", "library", "problem"),
        [
            ("{}", b"", "names no library"),
            ('{"ICD": {"library_path": ""}}', b"", "names no library"),
            ('{"ICD":', b"", "names no library"),
            ('{"ICD": {"library_path": "libgone.so"}}', b"", "names libgone.so, which is not on this host"),
            ('{"ICD": {"library_path": "./gone.so"}}', b"", "names ./gone.so, which is not on this host"),
            ('{"ICD": {"library_path": "./x.so"}}', b"\x7fELF\1" + ELF[5:], "is no x86-64 library"),
            ('{"ICD": {"library_path": "./x.so"}}', ELF[:18] + b"\xb7\0", "is no x86-64 library"),
            ('{"ICD": {"library_path": "./x.so"}}', b"", "is no x86-64 library"),
            ('{"ICD": {"library_path": "./x.so"}}', ELF, ""),
        ],
    )
    def test_driver(self, vulkan, tmp_path, content, library, problem):
        """What is wrong with a driver is one line with the cure."""
        (tmp_path / "x.json").write_text(content)
        (tmp_path / "x.so").write_bytes(library)
        driver = vulkan.read_driver(tmp_path / "x.json")
        assert driver.problem.startswith(problem) if problem.startswith("names") else problem in driver.problem
        assert bool(problem) == bool(driver.problem)
        assert not problem or (": " in driver.problem and "\n" not in driver.problem)


class TestView:
    """What the rig sees of the host."""

    def test_siblings(self, vulkan, tmp_path):
        """NVIDIA's driver opens libraries of its own version.

        Those of another version, and other programs, stay out.
        """
        for name in ("libGLX_nvidia", "libnvidia-glcore", "libcuda"):
            (tmp_path / f"{name}.so.535.1").write_bytes(ELF)
        (tmp_path / "libGLX_nvidia.so.0").symlink_to("libGLX_nvidia.so.535.1")
        (tmp_path / "libcuda.so.1").symlink_to("libcuda.so.535.1")
        (tmp_path / "libnvidia-tls.so.470.1").write_bytes(ELF)
        (tmp_path / "libz.so.1").write_bytes(ELF)
        names = {"libGLX_nvidia.so.535.1", "libnvidia-glcore.so.535.1", "libcuda.so.535.1"}
        assert names | {"libGLX_nvidia.so.0", "libcuda.so.1"} == set(vulkan.siblings(tmp_path / "libGLX_nvidia.so.0"))
        assert {} == vulkan.siblings(tmp_path / "libz.so.1")

    def test_libraries(self, vulkan, tmp_path, monkeypatch):
        """A library that the rig has is not taken from the host."""
        there = tmp_path / "usr/lib/x86_64-linux-gnu/libc.so.6"
        there.parent.mkdir(parents=True)
        there.touch()
        found = {"libc.so.6": "/lib/libc.so.6", "libLLVM-15.so.1": "/lib/libLLVM-15.so.1"}
        monkeypatch.setattr(vulkan, "trace", lambda command, **environment: found)
        assert {"libLLVM-15.so.1": Path("/lib/libLLVM-15.so.1")} == vulkan.libraries(tmp_path / "libx.so", tmp_path)

    def test_host(self, vulkan, tmp_path, monkeypatch):
        """Usable drivers are shown below /vulkan, with an ICD file that names them there.

        The host's file is as it was.
        """
        good, bad = icd(tmp_path / "host", "good.json"), tmp_path / "host/bad.json"
        bad.write_text("{}")
        text = good.read_text()
        monkeypatch.setattr(vulkan, "icd_files", lambda: [bad, good])
        monkeypatch.setattr(vulkan, "libraries", lambda library, root: {"libz3.so.4": tmp_path / "z3"})
        seen = vulkan.view(tmp_path / "root", "host")
        folder = tmp_path / "state"
        lines = vulkan.write(folder, seen).read_text().splitlines()

        assert {
            f"{tmp_path}/host/libvulkan_a.so\t/vulkan/0/libvulkan_a.so",
            f"{tmp_path}/z3\t/vulkan/lib/libz3.so.4",
            f"{folder}/icd.d\t/vulkan/icd.d",
        } == {line for line in lines if "/dev/" not in line}
        content = json.loads((folder / "icd.d/0-good.json").read_text())
        assert {"library_path": "/vulkan/0/libvulkan_a.so", "api_version": "1.3.0"} == content["ICD"]
        assert "/vulkan/icd.d/0-good.json" == seen.environment["VK_DRIVER_FILES"].split(":")[0]
        assert text == good.read_text()
        assert ["names no library: install the driver's package again", ""] == [d.problem for d in seen.drivers]

    def test_software(self, vulkan, tmp_path):
        """Without a choice nothing of the host is shown. A rig without lavapipe says so."""
        seen = vulkan.view(tmp_path, "software")
        assert [] == seen.binds
        assert "has no lavapipe" in vulkan.problem(tmp_path, "software", seen)
        (tmp_path / "usr/share/vulkan/icd.d").mkdir(parents=True)
        (tmp_path / vulkan.SOFTWARE_ICD[1:]).touch()
        assert "" == vulkan.problem(tmp_path, "software", seen)

    def test_no_driver(self, vulkan, tmp_path, monkeypatch):
        monkeypatch.setattr(vulkan, "icd_files", lambda: [])
        seen = vulkan.View([], {}, {"VK_DRIVER_FILES": ""}, [])
        assert "no Vulkan driver on this host" in vulkan.problem(tmp_path, "host", seen)


class TestDoctor:
    """What `doctor` says."""

    @pytest.mark.parametrize(
        ("type", "expected"),
        [
            ("discrete", "translated"),
            ("integrated", "translated"),
            ("virtual", "translated"),
            ("cpu", "emulated"),
            ("other", "emulated"),
        ],
    )
    def test_class(self, vulkan, type, expected):
        """The type of the device that Direct3D 12 gets decides, also if another device comes first."""
        answer = {"vulkan": {"value": [SWIFTSHADER, {**CARD, "type": type}]}, "direct3d": {"value": 8}}
        assert expected == vulkan.device_class(answer)
        lines = list(vulkan.answered(answer, ""))
        assert f"device 1: Radeon, {type}, d, Vulkan 1.3.0, 1.0 GB" == lines[1]
        assert f"Direct3D 12: Radeon ({expected})" == lines[2]

    def test_unusable(self, vulkan):
        """A card that vkd3d cannot use is one line with vkd3d's own reason."""
        answer = {"vulkan": {"value": [CARD]}, "direct3d": {"error": "D3D12CreateDevice: 80004005"}}
        said = "vkd3d:01:warn:init warned.\nvkd3d:01:err:vkd3d_init robustBufferAccess2 is missing.\nvkd3d:01:warn:x later.\n"
        (line,) = list(vulkan.answered(answer, said))[1:]
        assert None is vulkan.device_class(answer)
        assert "missing: Direct3D 12: vkd3d cannot use Radeon: D3D12CreateDevice: 80004005 (vkd3d_init robust" in line

    def test_no_device(self, vulkan):
        answer = {"vulkan": {"error": "vkCreateInstance: Vulkan's error -9"}, "direct3d": {"error": "x"}}
        (line,) = vulkan.answered(answer, "")
        assert line.startswith("missing: Vulkan: vkCreateInstance: Vulkan's error -9") and "--vulkan software" in line

    @pytest.mark.parametrize(
        ("library", "nodes", "expected"),
        [
            ("libGLX_nvidia.so.0", [], "/dev/nvidiactl is missing"),
            ("libGLX_nvidia.so.0", ["/dev/nvidiactl"], None),
            ("libvulkan_lvp.so", ["/dev/nvidiactl"], "an NVIDIA card without a Vulkan driver"),
            ("libvulkan_lvp.so", [], None),
        ],
    )
    def test_lacks(self, vulkan, tmp_path, library, nodes, expected):
        """What the host lacks for a card, with the cure."""
        drivers = [vulkan.Driver(tmp_path / "a.json", {}, tmp_path / library, "")]
        lines = list(vulkan.lacks(vulkan.View([(node, node) for node in nodes], {}, {}, drivers)))
        assert [] == lines if expected is None else lines[0].startswith(expected) and ": " in lines[0]

    def test_same_classes(self, vulkan):
        """opmap and this tool call the same types a GPU."""
        from opmap.engines.machine.adapters import GPU_TYPES
        from opmap.engines.machine.vulkan import TYPES

        for type in TYPES:
            answer = {"vulkan": {"value": [{**CARD, "type": type}]}, "direct3d": {"value": 8}}
            assert ("translated" if type in GPU_TYPES else "emulated") == vulkan.device_class(answer)
