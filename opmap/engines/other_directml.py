"""The installed ONNX Runtime with another DirectML.dll, for Windows. A rig has such pairs already: see `dml_linux`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from ..errors import InputError, shown
from .temporary import make_folder, remove_folder

_DLL = "DirectML.dll"


@contextmanager
def other_directml(folder: str | None) -> Iterator[None]:
    """Lets the processes that are started meanwhile import the installed ONNX Runtime with the DirectML.dll in a
    folder.

    It is a copy of the package in a temporary folder, which PYTHONPATH names. None changes nothing. Raises InputError
    if the folder has no DirectML.dll, or if there is no ONNX Runtime.
    """
    if folder is None:
        yield
        return
    dll, package = dll_in(folder), find_spec("onnxruntime")
    if package is None or package.origin is None:
        raise InputError("--directml needs an installed ONNX Runtime, got none")
    site, copy = Path(package.origin).parents[1], make_folder()
    before = os.environ.get("PYTHONPATH")
    try:
        leave = shutil.ignore_patterns("__pycache__", _DLL)
        for source in (site / "onnxruntime", *site.glob("onnxruntime*.dist-info")):  # these say which package it is
            shutil.copytree(source, copy / source.name, copy_function=_link, ignore=leave)
        shutil.copyfile(dll, copy / "onnxruntime" / "capi" / _DLL)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(copy), before]))
        yield
    finally:
        os.environ.pop("PYTHONPATH", None)
        if before is not None:
            os.environ["PYTHONPATH"] = before
        remove_folder(copy)


def dll_in(folder: str) -> Path:
    """Returns the DirectML.dll in a folder. Raises InputError if there is none."""
    dll = Path(folder, _DLL)
    if not dll.is_file():
        raise InputError(f"--directml must be a folder with {_DLL}, got {shown(folder)}")
    return dll


def _link(source: str, target: str) -> None:
    """Makes a link to a file, or a copy if it is on another drive."""
    with suppress(OSError):
        os.link(source, target)
        return
    shutil.copyfile(source, target)
