"""The tests run against the installed package, and the package is complete and quick to import."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import opmap
from opmap.manual import titles

pytestmark = pytest.mark.platform

CHECKOUT = Path(__file__).resolve().parents[3]


class TestInstalled:
    """The package in site-packages."""

    def test_not_the_checkout(self):
        """The tests import the installed wheel, not the source beside them."""
        assert not Path(opmap.__file__).resolve().is_relative_to(CHECKOUT / "opmap")
        assert "site-packages" in Path(opmap.__file__).parts

    def test_files(self):
        """The wheel has the spec files, the grammar, the chosen cases, the manual, the templates and the typing
        marker.
        """
        files = {str(f).replace("\\", "/") for f in metadata.files("opmap")}

        assert {
            "opmap/spec/gather.toml",
            "opmap/spec/tensor.toml",
            "opmap/pseudocode/grammar.lark",
            "opmap/cases/choices/gather.json.gz",
            "opmap/cases/features.toml",
            "opmap/cases/variants/variants.toml",
            *(f"opmap/manual/{page}.md" for page in titles()),
            *(
                f"opmap/reports/templates/{name}"
                for name in ("page.html", "report.html", "diff.html", "report.css", "report.js")
            ),
            "opmap/py.typed",
        } <= files

    def test_light(self):
        """onnx, onnxruntime and numpy are loaded neither by importing opmap, its plugin, the spec, the pseudocode, the
        operators or the manual, nor by asking for help."""
        code = (
            "import sys, opmap, opmap.pytest_plugin, opmap.spec, opmap.pseudocode, opmap.operators, opmap.manual, opmap.cli;"
            "opmap.cli.main(['validate', '--help']);"
            "print([m for m in ('onnx', 'onnxruntime', 'numpy') if m in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(sys.executable).parent
        )

        assert done.stdout.splitlines()[-1] == "[]", done.stderr
