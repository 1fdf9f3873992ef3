"""The DirectML EP on Linux: finds a rig that tools/dml_linux set up, and copies opmap into it.

A rig is a folder with Wine, a Windows Python and ONNX Runtime's DirectML build.
"""

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

PYTHONPATH = "OPMAP_DML_PYTHONPATH"
"""The environment variable that names folders in the rig (Z:\\rig\\...) from which the worker's Python imports first.

So another build of ONNX Runtime, unpacked there, takes the place of the one that the rig has.
"""

_PACKAGE = Path(__file__).resolve().parents[1]
_SCRIPT = "dml_linux.py"


def find_dml_runtime(explicit: str | None = None, environ: Mapping[str, str] = os.environ) -> list[str] | None:
    """Returns the command that starts the worker in a rig; None if no rig is named.

    `explicit` is the folder that --dml-runtime names; without it, OPMAP_DML_RUNTIME in `environ` names the folder.
    Copies this opmap into the folder, unless a copy with the same content is there. Raises InputError if the folder is
    not a rig, and on other systems than Linux.
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
        raise InputError(f"{option}: {scripts[0]} must exist: it starts programs in {folder}; set the folder up again")
    copy = copy_package(folder / "work")
    first = environ.get(PYTHONPATH)
    python = ["python", "-P", f"{copy}/opmap/engines/worker_main.py"]
    settings = ["--env", f"PYTHONPATH={first}"] if first else []
    return [sys.executable, str(script), "run", *settings, str(folder), *python]


def copy_package(work: Path) -> str:
    """Copies this package into a rig's work folder, where the rig's programs start. Returns the name of the new folder.

    The name contains a hash of the files' paths and contents, so that changed code gets a folder of its own.
    """
    files = sorted(path for path in _PACKAGE.rglob("*") if path.is_file() and path.suffix not in {".pyc", ".pyo"})
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    name = f"opmap-{digest.hexdigest()[:16]}"
    if not (work / name).is_dir():
        with tempfile.TemporaryDirectory(prefix="opmap-", dir=work) as incomplete:
            for path in files:
                target = Path(incomplete, "whole", "opmap", path.relative_to(_PACKAGE))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
            try:
                Path(incomplete, "whole").rename(work / name)
            except OSError:  # another opmap made the same folder meanwhile
                if not (work / name).is_dir():
                    raise
    return name
