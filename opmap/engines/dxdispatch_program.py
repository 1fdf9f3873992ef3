"""DxDispatch, where it is installed: runs a case's exported file without opmap's own calls of DirectML, and without ONNX Runtime.

What it does with a file, and what it prints, is in its guide and its source (Executor.cpp, main.cpp):
https://github.com/microsoft/DirectML/tree/master/DxDispatch
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..catalogue.case import Case
from ..errors import ProviderError, one_line
from ..evidence.reproducers.dxdispatch_files import DXDISPATCH, OUTPUT, dxdispatch_files
from ..tensors import Tensor

PROGRAM = "dxdispatch"

SECONDS = 60.0
"""For how long the program may run. It runs one operator once."""

_ADAPTER = re.compile(r"Running on '(.*)'")


def dxdispatch_program() -> str | None:
    """Returns the path of the program DxDispatch, which is on PATH. Returns None if there is none.

    Windows looks into the current folder first. A program from there is not used: then None is returned too.
    """
    path = shutil.which(PROGRAM)
    inside = path is not None and Path(os.path.abspath(path)).parent == Path.cwd()
    return None if inside else path


def run_dxdispatch(program: str, case: Case, *, adapter: str | None = None, seconds: float = SECONDS) -> Tensor:
    """Returns the output of a case, as DxDispatch computes it. `adapter` is the name of the adapter to use.

    Raises ProviderError if the program fails, does not end in time, gives no output, or runs on another adapter.
    """
    folder = tempfile.mkdtemp(prefix="opmap-")
    try:
        memory = _written(program, case, adapter, folder, seconds)
    finally:  # a program that still runs may hold the folder
        shutil.rmtree(folder, ignore_errors=True)
    output = case.desc.output
    size = output.data_type.size
    if len(memory) < output.buffer_element_count * size:
        raise ProviderError(f"must write {output.buffer_element_count * size} bytes of output, got {len(memory)}")
    buffer = Tensor.from_bytes(output.data_type, (len(memory) // size,), memory[: len(memory) // size * size])
    return Tensor(output.data_type, output.sizes, output.read(buffer.bits))


def _written(program: str, case: Case, adapter: str | None, folder: str, seconds: float) -> bytes:
    """Returns the memory of the output, as the program writes it into a folder."""
    for name, content in dxdispatch_files(case, case.round).items():
        path = Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    printed = _run([program, DXDISPATCH, *(("-a", adapter) if adapter else ())], folder, seconds)
    used = _ADAPTER.search(printed)
    if adapter and used and used[1] != adapter:
        raise ProviderError(f"must run on {adapter}, got {used[1]}")
    try:
        return Path(folder, OUTPUT).read_bytes()
    except OSError:
        raise ProviderError(f"wrote no output: {one_line(printed)}") from None


def _run(command: list[str], folder: str, seconds: float) -> str:
    """Runs the program in a folder. Returns what it printed. Raises ProviderError if it fails.

    It prints into a file: a process that it started and that outlives it would hold a pipe open.
    """
    file = Path(folder, "printed")
    try:
        with open(file, "wb") as out:
            process = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=seconds,
            )
    except subprocess.TimeoutExpired:
        raise ProviderError(f"did not end within {seconds:g} s") from None
    except OSError as error:
        raise ProviderError(f"does not start: {error.strerror or error}") from None
    printed = file.read_bytes().decode("utf-8", "replace")
    if process.returncode:
        raise ProviderError(f"ended with exit code {process.returncode}: {one_line(printed)}")
    return printed
