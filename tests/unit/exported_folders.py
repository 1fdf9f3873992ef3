"""Exported folders: the command that writes them, their program in a Python without opmap and onnx, wrong outputs."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import msgspec

from opmap.cases.selection import find_case
from opmap.cli import main
from opmap.mapping.dxdispatch import model_json
from opmap.reports.export import export_folder
from opmap.session import open_judge

EXAMPLE = "gather/example.1"

DRIVER = """
import contextlib, io, runpy, sys
sys.modules.update(dict.fromkeys(("opmap", "onnx")))  # None: cannot be imported
codes = []
for program in sys.argv[1].split("|"):
    sys.argv = [program, *sys.argv[2:]]
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        codes.append(end.code)
    except BaseException as error:
        codes.append(repr(error))
print("codes", codes)
sys.exit(max(codes, key=str) if len(codes) == 1 else 0)
"""


def run(folder, *arguments):
    """Runs `repro.py` of a folder elsewhere, without opmap and onnx. Returns (exit code, stdout)."""
    command = [sys.executable, "-I", "-c", DRIVER, str(folder / "repro.py"), *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    ended = subprocess.run(
        command, cwd=folder.parent, env=environment, capture_output=True, encoding="utf-8", timeout=100
    )
    assert "" == ended.stderr
    return ended.returncode, ended.stdout


@cache
def record(case: str, provider: str):
    """Returns a case with its record on a provider."""
    found = find_case(case)
    return found, open_judge(provider)(found)


def wrong(case=EXAMPLE, provider="fault:index-clamped-early", **more):
    """Returns the files of a case with a wrong output."""
    found, its = record(case, provider)
    return export_folder(found, record=its, provider=provider, **more)


def export_command(capsys):
    """Returns a function that runs the command, and returns its exit code, stdout and stderr."""

    def run_command(*arguments):
        code = main(["export", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run_command


def dispatch_file(tmp_path):
    """Returns a DxDispatch file with an index that is out of range."""
    document = model_json("d", find_case(EXAMPLE).desc, find_case(EXAMPLE).tensors)
    document["resources"] |= {
        "InputTensor": {"initialValuesDataType": "FLOAT32", "initialValues": [3, 4]},
        "IndicesTensor": {"initialValuesDataType": "UINT32", "initialValues": [0, 7, 1, 7]},
        "OutputTensor": {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 0, "valueCount": 4}},
    }
    sizes = {"InputTensor": [2], "IndicesTensor": [4], "OutputTensor": [4]}
    for name, its in sizes.items():
        document["dispatchables"]["d"]["desc"][name]["Sizes"] = its
    file = tmp_path / "d.json"
    file.write_bytes(msgspec.json.encode(document))
    return file
