"""Every place that says for which versions of Python opmap is made says the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from opmap.manual import titles

REPOSITORY = Path(__file__).resolve().parents[3]
WORKFLOW = REPOSITORY / ".github" / "workflows" / "directml.yml"
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]

pytestmark = pytest.mark.skipif(not WORKFLOW.is_file(), reason="only the tests are here")


def read(path: str) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


def test_package():
    """pip refuses a Python for which ONNX Runtime has no wheel."""
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert ">=3.11,<3.15" == project["requires-python"]
    classified = [entry.rpartition(" ")[2] for entry in project["classifiers"] if re.search(r":: 3\.\d+$", entry)]
    assert VERSIONS == classified


def test_workflow():
    """CI runs each version, and no other."""
    text = WORKFLOW.read_text(encoding="utf-8")
    assert str(VERSIONS).replace("'", '"') in text
    assert set(re.findall(r'python-version: "([\d.]+)"', text)) <= set(VERSIONS)


def test_readme():
    assert f"You need Python {VERSIONS[0]} to {VERSIONS[-1]}," in read("README.md")


@pytest.mark.parametrize("document", ["README.md", *(f"opmap/manual/{name}.md" for name in titles())])
def test_commands(document):
    """On Windows, `py` alone starts the newest Python, which may be too new: the command names a version."""
    assert set(re.findall(r"\bpy (.*?)-m venv", read(document))) <= {f"-{version} " for version in VERSIONS}
