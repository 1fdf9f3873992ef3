"""The suite tests what a user installs."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import opmap

CHECKOUT = Path(__file__).resolve().parents[2]


class TestInstalled:
    """opmap comes from site-packages, and is light to import."""

    def test_not_the_checkout(self):
        """The wheel is tested, not the source beside the tests."""
        assert not Path(opmap.__file__).resolve().is_relative_to(CHECKOUT / "opmap")
        assert "site-packages" in Path(opmap.__file__).parts

    def test_files(self):
        """The spec files, the grammar and the typing marker are in the wheel."""
        files = {str(f).replace("\\", "/") for f in metadata.files("opmap")}

        assert {
            "opmap/spec/gather.toml",
            "opmap/spec/tensor.toml",
            "opmap/pseudocode/grammar.lark",
            "opmap/py.typed",
        } <= files

    def test_light(self):
        """Importing opmap, or its plugin, or asking for help, loads neither onnx nor onnxruntime nor numpy; the interpreter
        never does."""
        code = (
            "import sys, opmap, opmap.pytest_plugin, opmap.spec, opmap.pseudocode, opmap.operators, opmap.cli;"
            "opmap.cli.main(['validate', '--help']);"
            "print([m for m in ('onnx', 'onnxruntime', 'numpy') if m in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(sys.executable).parent
        )

        assert done.stdout.splitlines()[-1] == "[]", done.stderr
