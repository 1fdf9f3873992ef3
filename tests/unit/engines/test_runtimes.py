"""Which ONNX Runtime and which plugin EPs are installed, in folders of packages that each test makes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opmap.engines.machine import plugin_devices, runtimes
from opmap.errors import ProviderError

pytestmark = pytest.mark.platform

RUNTIME = {"onnxruntime/__init__.py": "__version__ = '1.25.0'\n"}
PLUGIN = "def get_library_path(): ...\ndef get_ep_names(): ...\n"


class Packages:
    """A folder on the import path, in which a test installs distributions."""

    def __init__(self, folder: Path):
        self.folder = folder

    def add(self, name: str, version: str, files: dict[str, str], *, info: str | None = None, listing="RECORD") -> None:
        """Installs a distribution as pip does: its files, their list, and the metadata in the folder `info`."""
        for path, text in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text, encoding="utf-8")
        metadata = self.folder / (info or f"{name.replace('-', '_')}-{version}.dist-info")
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
        )
        lines = {path.partition("/")[0] if listing == "top_level.txt" else f"{path},sha256=x,1" for path in files}
        (metadata / listing).write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """An empty folder of packages, in place of those that are installed."""
    rest = [path for path in sys.path if not list(Path(path).glob("onnxruntime*"))]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *rest])
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    return Packages(tmp_path)


class TestInstalled:
    """What is installed follows from who owns the files of the package `onnxruntime`."""

    def test_nothing(self, packages, monkeypatch):
        """Without the package, the command installs the distribution that has a wheel for this Python."""
        monkeypatch.setattr("sysconfig.get_platform", lambda: "win-arm64")
        assert {} == runtimes.installed()
        with pytest.raises(
            ProviderError, match=r"not installed: python -m pip install --no-deps onnxruntime-windowsml$"
        ):
            runtimes.require_one()

    @pytest.mark.parametrize("name", ["onnxruntime-webgpu", "onnxruntime-gpu", "ort-nightly", "onnxruntime_training"])
    def test_any_name(self, packages, name):
        """A distribution that installs the package is ONNX Runtime, whatever its name is."""
        packages.add(name, "1.27.0", RUNTIME)
        normal = name.replace("_", "-")
        assert {normal: "1.27.0"} == runtimes.installed()
        assert normal == runtimes.require_one()
        assert normal == runtimes.package_of(str(packages.folder / "onnxruntime/__init__.py"))

    def test_without_list_of_files(self, packages):
        """A system's package manager may keep `top_level.txt` alone."""
        packages.add("onnxruntime", "1.21.0", RUNTIME, listing="top_level.txt")
        assert {"onnxruntime": "1.21.0"} == runtimes.installed()

    def test_plugin_beside(self, packages):
        """onnxruntime-qnn 2.x has a package of its own: it is no conflict."""
        packages.add("onnxruntime", "1.31.1", RUNTIME)
        packages.add("onnxruntime-qnn", "2.7.0", {"onnxruntime_qnn/__init__.py": PLUGIN})
        assert "onnxruntime" == runtimes.require_one()

    def test_own_package(self, packages):
        """A package that is named alike owns nothing of ONNX Runtime."""
        packages.add("my-onnxruntime", "1", {"my_onnxruntime/__init__.py": "", "tools/onnxruntime/__init__.py": ""})
        assert {} == runtimes.installed()

    def test_same_files(self, packages):
        """Two distributions that own the same files conflict, and no file belongs to one of them."""
        packages.add("onnxruntime-qnn", "1.24.0", RUNTIME)
        packages.add("onnxruntime", "1.31.1", RUNTIME)
        with pytest.raises(
            ProviderError, match=r"^onnxruntime 1.31.1 and onnxruntime-qnn 1.24.0 are installed together"
        ):
            runtimes.require_one()
        assert runtimes.package_of(str(packages.folder / "onnxruntime/__init__.py")) is None

    @pytest.mark.parametrize(
        ("name", "repair"),
        [
            (
                "onnxruntime-directml",
                "onnxruntime onnxruntime-directml, then python -m pip install onnxruntime-directml",
            ),
            ("onnxruntime-windowsml", "then python -m pip install --no-deps onnxruntime-windowsml"),
            (
                "onnxruntime-openvino",
                "onnxruntime onnxruntime-openvino, then python -m pip install onnxruntime-openvino",
            ),
        ],
    )
    def test_repair(self, name, repair):
        """The one with the DirectML EP, or else the one that is not the plain onnxruntime, is kept."""
        with pytest.raises(ProviderError, match=f"{repair}$"):
            runtimes.require_one({"onnxruntime": "1.24.4", name: "1.30.0"})

    def test_other_folder(self, packages, tmp_path_factory, monkeypatch):
        """What stands in a later folder of the import path is hidden, and no conflict."""
        later = Packages(tmp_path_factory.mktemp("system"))
        later.add("onnxruntime", "1.20.0", RUNTIME)
        packages.add("onnxruntime-directml", "1.24.4", RUNTIME)
        monkeypatch.setattr(sys, "path", [*sys.path, str(later.folder)])
        assert {"onnxruntime-directml": "1.24.4"} == runtimes.installed()

    def test_half_removed(self, packages):
        """What pip could not remove and has renamed is not installed."""
        packages.add("onnxruntime", "1.24.4", {"onnxruntime/__init__.py": ""}, info="~nnxruntime-1.24.4.dist-info")
        packages.add("onnxruntime-directml", "1.24.4", RUNTIME)
        assert {"onnxruntime-directml": "1.24.4"} == runtimes.installed()

    def test_built(self, packages):
        """A build that no distribution installed counts, under a name that says so, and belongs to no package."""
        file = packages.folder / "onnxruntime/__init__.py"
        file.parent.mkdir()
        file.write_text(RUNTIME["onnxruntime/__init__.py"], encoding="utf-8")
        assert {runtimes.UNNAMED: "1.25.0"} == runtimes.installed()
        assert runtimes.UNNAMED == runtimes.require_one()
        assert runtimes.package_of(str(file)) is None

    def test_files_missing(self, packages):
        """After one of two distributions was uninstalled, the other has no files: the command installs it again."""
        packages.add("onnxruntime-directml", "1.24.4", RUNTIME)
        (packages.folder / "onnxruntime/__init__.py").unlink()
        command = "python -m pip uninstall -y onnxruntime-directml; python -m pip install onnxruntime-directml"
        with pytest.raises(
            ProviderError, match=f"^onnxruntime-directml cannot be imported, its files are missing: {command}$"
        ):
            runtimes.require_one()

    @pytest.mark.parametrize("broken", ["METADATA", "RECORD"])
    def test_broken(self, packages, broken):
        """A distribution that cannot be read counts for nothing."""
        packages.add("other", "1", {"other/__init__.py": ""})
        packages.add("onnxruntime", "1.31.1", RUNTIME)
        (packages.folder / "other-1.dist-info" / broken).write_bytes(b"\xff\xfe" if broken == "RECORD" else b"")
        assert {"onnxruntime": "1.31.1"} == runtimes.installed()


class TestPlugins:
    """Plugin EPs are found by their files. Nothing is imported."""

    def found(self):
        return [(p.distribution, p.version, p.package) for p in runtimes.plugins()]

    def test_found(self, packages):
        """By name, or by the functions of a package. ONNX Runtime and its other companions are none."""
        fails = "raise SystemExit\n"
        packages.add("onnxruntime", "1.31.1", RUNTIME)
        packages.add("onnxruntime-genai", "0.9", {"onnxruntime_genai/__init__.py": ""})
        packages.add("onnxruntime-qnn", "2.7.0", {"onnxruntime_qnn/__init__.py": fails + PLUGIN})
        packages.add("onnxruntime_ep_webgpu", "0.4.0", {"onnxruntime_ep_webgpu/__init__.py": "from ._paths import *"})
        one = PLUGIN.replace("get_ep_names", "get_ep_name")
        packages.add("onnxruntime-ep-toy", "1", {"toy_ep/__init__.py": one, "toy_data/__init__.py": ""})
        packages.add("elsewhere", "1", {"elsewhere/__init__.py": PLUGIN})
        assert [
            ("onnxruntime-ep-toy", "1", "toy_ep"),
            ("onnxruntime-ep-webgpu", "0.4.0", "onnxruntime_ep_webgpu"),
            ("onnxruntime-qnn", "2.7.0", "onnxruntime_qnn"),
        ] == self.found()

    def test_none(self, packages):
        packages.add("onnxruntime", "1.31.1", RUNTIME)
        assert [] == self.found()


class TestDevices:
    """A child process registers the library of a plugin EP, and lists its devices."""

    RUNTIME = """
from types import SimpleNamespace as _Any
_registered = []
def set_default_logger_severity(level): ...
def register_execution_provider_library(name, path): _registered.append((name, path))
def _device(name, kind): return _Any(ep_name=name, device=_Any(type=_Any(name=kind), vendor="Toys", metadata={"a": "1"}))
def get_ep_devices():
    print("the library prints")
    assert _registered == [("ToyEP", "toy.so")]
    return [_device("CPUExecutionProvider", "CPU"), _device("ToyEP", "NPU")]
"""
    TOY = "def get_library_path(): return 'toy.so'\ndef get_ep_names(): return ['ToyEP']\n"

    def ask(self, tmp_path, monkeypatch, toy, timeout=60.0):
        folder = Packages(tmp_path)
        folder.add("onnxruntime", "1", {"onnxruntime/__init__.py": self.RUNTIME})
        folder.add("onnxruntime-ep-toy", "1", {"toy_ep/__init__.py": toy})
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return plugin_devices.devices_of(runtimes.Plugin("onnxruntime-ep-toy", "1", "toy_ep"), timeout=timeout)

    def test_listed(self, tmp_path, monkeypatch):
        """Only its own devices are listed; what it prints does no harm."""
        device = {"ep_name": "ToyEP", "type": "NPU", "vendor": "Toys", "metadata": {"a": "1"}}
        found = self.ask(tmp_path, monkeypatch, self.TOY)
        assert (None, {"ep_names": ["ToyEP"], "devices": [device]}) == (found.error, found.value)

    @pytest.mark.parametrize(
        ("toy", "error"),
        [
            ("raise OSError('no\\nlibrary')", "OSError: "),
            ("raise SystemExit(0)", "SystemExit: 0"),
            ("raise ValueError('x' * 10**6)", "ValueError: xxx"),
            ("import os; os._exit(3)", "the process ended with exit code 3, without an answer"),
            ("import os; os.close(1); os._exit(0)", "the process ended with exit code 0, without an answer"),
        ],
    )
    def test_fails(self, tmp_path, monkeypatch, toy, error):
        """Whatever the plugin does, it is an error of one short line."""
        found = self.ask(tmp_path, monkeypatch, toy)
        assert found.value is None
        assert found.error.startswith(error)
        assert len(found.error) < 600 and "\n" not in found.error

    def test_hangs(self, tmp_path, monkeypatch):
        """A plugin that does not answer is given up."""
        found = self.ask(tmp_path, monkeypatch, "import time; time.sleep(600)", timeout=1.0)
        assert (None, "no answer within 1 s") == (found.value, found.error)


class TestImportProblem:
    """An error of the import is one line. If a DLL is missing, it names Microsoft's redistributable."""

    DLL = "DLL load failed while importing onnxruntime_pybind11_state: Das angegebene Modul wurde nicht gefunden."

    @pytest.mark.parametrize(
        ("platform", "file"), [("win-amd64", "vc_redist.x64.exe"), ("win-arm64", "vc_redist.arm64.exe")]
    )
    def test_dll(self, monkeypatch, platform, file):
        """The redistributable is for the platform of this Python. The error's own text may be in any language."""
        monkeypatch.setattr("sysconfig.get_platform", lambda: platform)
        problem = runtimes.import_problem(ImportError(self.DLL))
        assert problem.startswith(f"ImportError: {self.DLL[:-1]}; the Microsoft Visual C++ runtime ")
        assert problem.endswith(f" install https://aka.ms/vc14/{file}")

    @pytest.mark.parametrize(
        "error", [ImportError("cannot import\nname 'x'"), ModuleNotFoundError("No module named 'y'")]
    )
    def test_other(self, error):
        assert f"{type(error).__name__}: {' '.join(str(error).split())}" == runtimes.import_problem(error)
