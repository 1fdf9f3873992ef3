"""The program of an exported folder stands alone: it runs in a Python that has neither opmap nor onnx."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from exported_folders import DRIVER, EXAMPLE, dispatch_file, export_command, record, run, wrong
from tiers import all_cases

from opmap.cases.variants import VARIANTS
from opmap.reports.export import export_folder
from opmap.reports.reproducers.model_folders import write_files

export = pytest.fixture(export_command)
dispatch = pytest.fixture(dispatch_file)


class TestProgram:
    """`repro.py`."""

    def test_elsewhere(self, export, tmp_path):
        """A folder that was moved runs on the CPU EP: it prints expected, actual, placement and versions, and exits
        with 0.
        """
        assert 0 == export(EXAMPLE, "-o", tmp_path / "a")[0]
        shutil.move(tmp_path / "a", tmp_path / "b")
        code, out = run(tmp_path / "b")
        assert 0 == code, out
        for text in (
            "expected [14. 12. 14. 11. 13.]",
            "actual   [14. 12. 14. 11. 13.]",
            "Gather on CPUExecutionProvider",
            f"onnxruntime {onnxruntime.__version__}, numpy {np.__version__}",
        ):
            assert text in out

    def test_recorded(self, tmp_path):
        """`recorded` shows the wrong output of a provider that is not here."""
        write_files(tmp_path / "a", wrong())
        code, out = run(tmp_path / "a", "recorded")
        assert 1 == code
        assert "recorded on fault:index-clamped-early: OutputTensor" in out
        assert "WRONG at [0]: must be 14.0 (bits 41600000), got 13.0 (bits 41500000)" in out
        assert 0 == run(tmp_path / "a")[0]

    def test_provider(self, tmp_path):
        """The default is the provider of the failure; one that is not there is exit code 2 and no silent CPU EP."""
        case, its = record(EXAMPLE, "fault:index-clamped-early")
        name = "NoSuchExecutionProvider"
        write_files(tmp_path / "a", export_folder(case, record=its, provider=name, provider_options={"k": "v"}))
        code, out = run(tmp_path / "a")
        assert 2 == code
        assert "this onnxruntime does not have it, but" in out
        assert 0 == run(tmp_path / "a", "cpu")[0]
        assert f"DEFAULT, OPTIONS, CONFIG = '{name}', {{'k': 'v'}}, {{}}" in (tmp_path / "a" / "repro.py").read_text(
            encoding="utf-8"
        )

    @pytest.mark.slow
    def test_every_variant(self, tmp_path):
        """A case of each variant takes its execution path and is right on the CPU EP."""
        first = {}
        for case in all_cases("standard"):
            first.setdefault(case.variant, case)
        assert VARIANTS.keys() == first.keys()
        texts = {
            "async": "'method': 'async'",
            "ort-format": "'ort_format': True",
            "serialized": "'ep.dml.enable_graph_serialization': 'true'",
            "own-queue": "'devices': True",
            "external": "'weights.bin': file('weights.bin')",
        }
        for name, case in first.items():
            files = export_folder(case)
            assert texts.get(name, "") in files["repro.py"].decode()
            write_files(tmp_path / name, files)
        programs = [str(tmp_path / name / "repro.py") for name in first]
        ended = subprocess.run(
            [sys.executable, "-I", "-c", DRIVER, "|".join(programs)], capture_output=True, encoding="utf-8", timeout=300
        )
        assert f"codes {[0] * len(first)}" in ended.stdout, ended.stdout[-3000:] + ended.stderr[-1000:]

    def test_undefined_elements(self, dispatch, export, tmp_path):
        """An element without a documented value is not compared, and the provider may refuse the run."""
        code, _, _ = export(dispatch, "-o", tmp_path / "a", "--provider", "fault:output-zero", "--no-sides")
        assert 1 == code
        code, out = run(tmp_path / "a", "recorded")
        assert (1, True) == (code, "2 of 4 elements are wrong" in out)
        code, out = run(tmp_path / "a")
        assert 0 == code
        assert "is refused, as it may be" in out
        assert not (tmp_path / "a" / "test_data_set_0" / "output_0.pb").exists()
        expected = json.loads((tmp_path / "a" / "dxdispatch_expected.json").read_bytes())
        assert [3.0, None, 4.0, None] == expected["OutputTensor"]["Values"]

    def test_sequence(self, export, tmp_path):
        """Cases that must run before run before, in the same process, and are judged too."""
        more = ("--after", "gather/example.2", "--after", EXAMPLE)
        assert 0 == export(EXAMPLE, "-o", tmp_path / "a", *more)[0]
        code, out = run(tmp_path / "a")
        assert 0 == code
        assert 3 == out.count("\n  right\n") == out.count("placement: ")
        assert 2 == (tmp_path / "a" / "repro.py").read_text(encoding="utf-8").count("{'step': 'clear'}")
        assert "gather/example.2\ngather/example.1\n" in (tmp_path / "a" / "issue.md").read_text(encoding="utf-8")
