"""The DirectML EP on Linux: how opmap finds its folder and starts the worker there. Its cases are in test_worker.py."""

import sys
from pathlib import Path

import pytest

import opmap
from opmap.cases.catalogue import catalogue
from opmap.errors import InputError
from opmap.execution import dml_linux
from opmap.execution.providers import OpenProvider, ProviderMissing, open_provider
from opmap.execution.sessions import CPU
from opmap.execution.worker import WorkerProvider
from opmap.verdicts.judge import Judge

ROOT = Path(opmap.__file__).parents[1]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a rig runs on Linux only")
class TestRig:
    """The DirectML EP on Linux: how its folder is found, and how the worker starts there."""

    @pytest.fixture
    def rig(self, tmp_path):
        (tmp_path / "work").mkdir()
        (tmp_path / "manifest.json").write_text('{"python": {"version": "3.11.9"}}')
        (tmp_path / "dml_linux.py").touch()
        return tmp_path

    def test_no_name(self):
        assert dml_linux.find_dml_runtime(None, {}) is None

    @pytest.mark.parametrize("by_option", [True, False])
    def test_command(self, rig, by_option):
        named = (str(rig), {}) if by_option else (None, {"OPMAP_DML_RUNTIME": str(rig)})
        command = dml_linux.find_dml_runtime(*named)
        assert [sys.executable, f"{rig}/dml_linux.py", "run", str(rig), "python", "-P"] == command[:-1]
        staged = rig / "work" / command[-1]
        assert (ROOT / "opmap/execution/worker_main.py").read_bytes() == staged.read_bytes()
        assert command == dml_linux.find_dml_runtime(*named)
        assert 1 == len(list((rig / "work").iterdir()))

    def test_other_packages(self, rig):
        """The worker's Python looks into the folders that OPMAP_DML_PYTHONPATH names first."""
        command = dml_linux.find_dml_runtime(str(rig), {"OPMAP_DML_PYTHONPATH": "Z:\\rig\\new"})
        assert command[2:6] == ["run", "--env", "PYTHONPATH=Z:\\rig\\new", str(rig)]

    def test_copy(self, rig):
        """The copy of opmap in the rig works as a worker."""
        command = [sys.executable, "-P", str(rig / "work" / dml_linux.find_dml_runtime(str(rig), {})[-1])]
        with WorkerProvider(CPU, command=command) as worker:
            judge = Judge(OpenProvider(CPU, None, "hardware", worker))
            assert "pass" == judge(next(catalogue("smoke"))).verdict

    @pytest.mark.parametrize("make", [lambda d: None, lambda d: (d / "manifest.json").write_text("[]")])
    def test_not_a_rig(self, tmp_path, make):
        make(tmp_path)
        for named, option in (
            ((str(tmp_path), {}), "--dml-runtime"),
            ((None, {"OPMAP_DML_RUNTIME": str(tmp_path)}), "OPMAP_DML"),
        ):
            with pytest.raises(InputError, match=rf"{option}.* must name a folder that"):
                dml_linux.find_dml_runtime(*named)

    def test_rig_does_not_start(self, rig):
        (rig / "dml_linux.py").write_text("import sys; sys.exit('dml_linux: needs root')")
        with pytest.raises(ProviderMissing, match=r"does not start: .*needs root"):
            open_provider("dml", dml_runtime=str(rig))

    def test_rig_without_directml(self, rig):
        """The rig's script runs this Python, whose ONNX Runtime has no DirectML EP."""
        program = (
            "import os, sys; os.chdir(sys.argv[2] + '/work'); os.execv(sys.executable, [sys.executable, *sys.argv[4:]])"
        )
        (rig / "dml_linux.py").write_text(program)
        with pytest.raises(ProviderMissing, match="DmlExecutionProvider is not in the worker's ONNX Runtime"):
            open_provider("auto", dml_runtime=str(rig))
