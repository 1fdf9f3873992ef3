"""The DirectML EP on Linux: finds a rig that tools/dml_linux built, and starts the worker in its Windows Python."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..errors import InputError

VARIABLE = "OPMAP_DML_RUNTIME"
"""The environment variable that names the rig's folder."""

_PACKAGE = Path(__file__).resolve().parents[1]
_SCRIPT = "dml_linux.py"


def find_dml_runtime(explicit: str | None = None, environ: Mapping[str, str] = os.environ) -> list[str] | None:
    """The command that starts the worker in the rig named by --dml-runtime or OPMAP_DML_RUNTIME; None where none is named.

    This opmap is copied into the rig's folder for it, once for each state of its code. Raises InputError for a folder
    that is no rig.
    """
    named = explicit or environ.get(VARIABLE)
    if not named:
        return None
    option = "--dml-runtime" if explicit else VARIABLE
    if not sys.platform.startswith("linux"):
        raise InputError(f"{option} is for Linux: elsewhere the DirectML EP is ONNX Runtime's own, got {named!r}")
    folder = Path(named).resolve()
    try:
        json.loads((folder / "manifest.json").read_bytes())["python"]["version"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{option} must name a folder that tools/dml_linux/{_SCRIPT} set up, got {named!r}") from None
    scripts = (folder / _SCRIPT, _PACKAGE.parent / "tools" / "dml_linux" / _SCRIPT)
    script = next((s for s in scripts if s.is_file()), None)
    if script is None:
        raise InputError(f"{option}: {scripts[0]} must be there, to start programs in {folder}")
    staged = stage(folder / "work")
    return [sys.executable, str(script), "run", str(folder), "python", "-P", f"{staged}/opmap/execution/worker_main.py"]


def stage(work: Path) -> str:
    """Copies this package into a rig's work folder, where programs inside start; returns the name of the copy's folder."""
    files = sorted(path for path in _PACKAGE.rglob("*") if path.is_file() and path.suffix not in {".pyc", ".pyo"})
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    name = f"opmap-{digest.hexdigest()[:16]}"
    if not (work / name).is_dir():
        with tempfile.TemporaryDirectory(prefix="opmap-", dir=work) as half_done:
            for path in files:
                target = Path(half_done, "whole", "opmap", path.relative_to(_PACKAGE))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
            try:
                Path(half_done, "whole").rename(work / name)
            except OSError:  # another opmap was faster
                if not (work / name).is_dir():
                    raise
    return name
