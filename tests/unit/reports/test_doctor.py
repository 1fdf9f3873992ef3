"""What `opmap doctor` says on machines that the tests invent."""

from __future__ import annotations

import json
import sys

import pytest

from opmap.cli import main
from opmap.engines.machine.environment import collect
from opmap.engines.machine.facts import Fact
from opmap.engines.machine.runtimes import UNNAMED, Plugin

pytestmark = pytest.mark.platform

CPU = ["CPUExecutionProvider"]
DML = ["DmlExecutionProvider", *CPU]


def device(name, **metadata):
    return {"ep_name": name, "type": "GPU", "vendor": "Intel", "metadata": metadata}


@pytest.fixture
def doctor(monkeypatch, capsys):
    """A function that runs `opmap doctor` on an invented machine. It returns the exit code and the output."""

    def run(platform, machine, runtimes, *, providers=CPU, devices=(), plugins=(), arguments=()):
        invented = {
            "platform": platform,
            "machine": machine,
            "packages": runtimes,
            "available_providers": providers,
            "ep_devices": list(devices),
        }
        facts = {**collect(), **{name: Fact(value, "test") for name, value in invented.items()}}
        monkeypatch.setattr("opmap.reports.doctor.collect", lambda: facts)
        monkeypatch.setattr("opmap.reports.doctor.installed", lambda: runtimes)
        monkeypatch.setattr("opmap.engines.machine.runtimes.installed", lambda: runtimes)
        monkeypatch.setattr("opmap.reports.doctor.plugins", lambda: [plugin for plugin, _ in plugins])
        monkeypatch.setattr("opmap.reports.doctor.devices_of", dict(plugins).__getitem__)
        code = main(["doctor", *arguments])
        return code, capsys.readouterr().out

    return run


class TestAdvice:
    """The advice leads to exactly one ONNX Runtime that has the DirectML EP."""

    @pytest.mark.parametrize(
        ("platform", "machine", "name", "new"),
        [
            ("win-amd64", "AMD64", "onnxruntime", "onnxruntime-directml"),
            ("win-amd64", "ARM64", "onnxruntime", "onnxruntime-directml"),
            ("win-arm64", "ARM64", "onnxruntime", "--no-deps onnxruntime-windowsml"),
            ("win-amd64", "AMD64", "onnxruntime-webgpu", "onnxruntime-directml"),
        ],
    )
    def test_replace(self, doctor, platform, machine, name, new):
        """What is installed goes first. The new one has a wheel for the platform of this Python."""
        code, out = doctor(platform, machine, {name: "1.31.1"})
        command = f"python -m pip uninstall -y {name}; python -m pip install {new}"
        assert 0 == code
        assert f"-> for DirectML, in PowerShell: {command}\n" in out
        assert 1 == out.count("pip install")

    def test_built(self, doctor):
        """pip cannot uninstall what it has not installed."""
        _, out = doctor("win-amd64", "AMD64", {UNNAMED: "1.30.0"})
        assert "-> for DirectML: build onnxruntime with --use_dml, or remove it from PYTHONPATH, then" in out

    @pytest.mark.parametrize("platform", ["win32", "mingw_x86_64_ucrt"])
    def test_no_wheel(self, doctor, platform):
        _, out = doctor(platform, "AMD64", {"onnxruntime": "1.31.1"})
        assert f"-> DirectML needs a CPython for 64-bit Windows, x64 or ARM64, got {platform}\n" in out
        assert "pip install" not in out

    def test_emulated(self, doctor):
        """Python for x64 on an ARM64 machine is told apart from Python for ARM64."""
        _, out = doctor("win-amd64", "ARM64", {"onnxruntime": "1.31.1"})
        assert " on win-amd64, emulated on an ARM64 machine\n" in out
        assert (
            "-> this Python is for x64 and takes packages for x64; Python for ARM64 takes onnxruntime-windowsml" in out
        )
        _, out = doctor("win-arm64", "ARM64", {"onnxruntime": "1.31.1"})
        assert " on win-arm64 ARM64\n" in out
        assert "emulated" not in out

    def test_directml(self, doctor):
        """If the DirectML EP is there, nothing is to be installed."""
        _, out = doctor("win-amd64", "ARM64", {"onnxruntime-directml": "1.24.4"}, providers=DML)
        assert "-> opmap validate --provider dml --require-provider runs the cases on the DirectML EP\n" in out
        assert "pip install" not in out


class TestDevices:
    """The devices of the DirectML EP are named by their adapter's number, those of a plugin EP below it."""

    def test_adapter_numbers(self, doctor):
        """A device that only DXCore knows has no number. It is not adapter 0."""
        devices = [device("DmlExecutionProvider", DxgiAdapterNumber="1"), device("DmlExecutionProvider")]
        _, out = doctor("win-amd64", "AMD64", {"onnxruntime-directml": "1.24.4"}, providers=DML, devices=devices)
        assert "device        DmlExecutionProvider: GPU Intel, adapter 1\n" in out
        assert "device        DmlExecutionProvider: GPU Intel, no adapter number, so it cannot be chosen\n" in out

    def test_plugins(self, doctor):
        """A plugin EP is listed with its devices, or with the reason why it has none."""
        qnn, webgpu, broken = (Plugin(f"onnxruntime-{name}", "1.0", "x") for name in ("qnn", "ep-webgpu", "ep-broken"))
        plugins = [
            (qnn, Fact({"ep_names": ["QNNExecutionProvider"], "devices": [device("QNNExecutionProvider")]}, "test")),
            (webgpu, Fact({"ep_names": ["WebGpuExecutionProvider"], "devices": []}, "test")),
            (broken, Fact(None, "test", "OSError: \x1b[31mno library")),
        ]
        rows = [
            "plugin EP     onnxruntime-qnn 1.0, QNNExecutionProvider",
            "device        QNNExecutionProvider: GPU Intel",
            "plugin EP     onnxruntime-ep-webgpu 1.0, WebGpuExecutionProvider: no device on this machine",
            "plugin EP     onnxruntime-ep-broken 1.0: OSError: \\x1b[31mno library",
        ]
        code, out = doctor("linux-x86_64", "x86_64", {"onnxruntime": "1.31.1"}, plugins=plugins)
        assert 0 == code
        assert "\n".join(rows) + "\n" in out
        _, out = doctor("linux-x86_64", "x86_64", {"onnxruntime": "1.31.1"}, plugins=plugins, arguments=["--json"])
        found = json.loads(out)["plugins"]
        assert ["onnxruntime-qnn", "onnxruntime-ep-webgpu", "onnxruntime-ep-broken"] == [
            p["distribution"] for p in found
        ]
        assert ["QNNExecutionProvider"] == found[0]["devices"]["value"]["ep_names"]


class TestProblem:
    """What must be solved first is one line, and the exit code is 1."""

    DLL = "DLL load failed while importing onnxruntime_pybind11_state: The specified module could not be found."

    @pytest.mark.parametrize("arguments", [(), ("--json",)])
    def test_dll(self, monkeypatch, tmp_path, capsys, arguments):
        """An ONNX Runtime whose import fails does not end the command; it names the redistributable."""
        (tmp_path / "onnxruntime").mkdir()
        (tmp_path / "onnxruntime/__init__.py").write_text(f"raise ImportError({self.DLL!r})", encoding="utf-8")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
        assert 1 == main(["doctor", *arguments])
        out = capsys.readouterr().out
        assert arguments or "providers     none\n" in out
        problem = json.loads(out)["problem"] if arguments else out.rpartition("problem: ")[2]
        assert problem.startswith(
            f"ImportError: {self.DLL[:-1]}; the Microsoft Visual C++ runtime may be missing or too old: "
        )
        assert "https://aka.ms/vc14/vc_redist." in problem
