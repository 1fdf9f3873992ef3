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
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ..errors import InputError, names, shown

VARIABLE = "OPMAP_DML_RUNTIME"
"""The environment variable that names the rig's folder."""

PYTHONPATH = "OPMAP_DML_PYTHONPATH"
"""The environment variable that names folders in the rig (Z:\\rig\\...) from which the worker's Python imports first.

So another build of ONNX Runtime, unpacked there, takes the place of the one that the rig has.
"""

_PAIRS = "work/runtimes"
_SHOWN = "shown"

_PACKAGE = Path(__file__).resolve().parents[1]
_SCRIPT = "dml_linux.py"


class Pair(msgspec.Struct, frozen=True):
    """An ONNX Runtime and a DirectML.dll that a rig has in the folder `name`, beside its own.

    `problem` is why they do not load.
    """

    onnxruntime: str
    directml: str
    problem: str | None = None
    name: str = ""

    def __str__(self) -> str:
        problem = f": does not load: {self.problem}" if self.problem else ""
        return f"ONNX Runtime {self.onnxruntime}, DirectML {self.directml}{problem}"


def pairs(explicit: str | None = None, environ: Mapping[str, str] = os.environ) -> list[Pair]:
    """Returns the pairs in the rig that `find_dml_runtime` finds, the oldest first; none if no rig is named."""
    rig = find_rig(explicit, environ)
    found = []
    for file in (rig / _PAIRS).glob("*/runtime.json") if rig else ():
        try:
            pair = msgspec.json.decode(file.read_bytes(), type=Pair)
        except (OSError, msgspec.MsgspecError):
            continue  # setup makes it anew
        found.append(msgspec.structs.replace(pair, name=file.parent.name))
    return sorted(found, key=lambda pair: (version_key(pair.onnxruntime), version_key(pair.directml)))


def version_key(version: str) -> tuple[list[int], str]:
    """Returns a key that sorts versions of numbers and dots, and equal ones by what follows behind a space."""
    numbers, _, rest = version.partition(" ")
    return [int(part) for part in numbers.split(".") if part.isdigit()], rest


def find_dml_runtime(
    explicit: str | None = None, environ: Mapping[str, str] = os.environ, *, runtime: str | None = None
) -> list[str] | None:
    """Returns the command that starts the worker in a rig; None if no rig is named.

    `explicit` is the folder that --dml-runtime names; without it, OPMAP_DML_RUNTIME in `environ` names the folder.
    `runtime` names one of the rig's pairs; without it the rig's own is taken. Copies this opmap into the folder, unless
    a copy with the same content is there. Raises InputError if the folder is not a rig, if it has no such pair, and on
    other systems than Linux.
    """
    folder = find_rig(explicit, environ)
    if runtime is not None:
        check_pair(runtime, pairs(explicit, environ))
    if folder is None:
        return None
    copy = copy_package(folder / "work")
    return run_command(folder, ["python", "-P", f"{copy}/opmap/engines/worker_main.py"], environ, runtime=runtime)


def run_command(
    folder: Path,
    command: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    *,
    runtime: str | None = None,
    shown: Path | None = None,
) -> list[str]:
    """Returns the command that runs a command in a rig, on one of its pairs if `runtime` names it.

    The command starts in the folder `shown`, if one is given; no other folder outside the rig is visible there.
    """
    first = rf"Z:\rig\runtimes\{runtime}" if runtime else environ.get(PYTHONPATH)
    settings = ["--env", f"PYTHONPATH={first}"] if first else []
    settings += ["--bind", f"{shown}:{_SHOWN}", "--cwd", f"/mnt/{_SHOWN}"] if shown else []
    return [sys.executable, str(_script(folder)), "run", *settings, str(folder), *command]


def check_pair(name: str, known: Sequence[Pair]) -> None:
    """Raises InputError if no pair has this name."""
    if name not in [pair.name for pair in known]:
        listed = names([pair.name for pair in known]) or "none: tools/dml_linux has setup --onnxruntime and --directml"
        raise InputError(
            f"--runtime must be a pair in the folder of --dml-runtime, which has {listed}, got {shown(name)}"
        )


def find_rig(explicit: str | None = None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Returns the folder of the rig that is named, None if none is. Raises InputError as `find_dml_runtime` does."""
    named = explicit or environ.get(VARIABLE)
    if not named:
        return None
    option = "--dml-runtime" if explicit else VARIABLE
    if not sys.platform.startswith("linux"):
        raise InputError(f"{option} is for Linux: elsewhere the DirectML EP is ONNX Runtime's own, got {shown(named)}")
    folder = Path(named).resolve()
    try:
        json.loads((folder / "manifest.json").read_bytes())["python"]["version"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{option} must name a folder that tools/dml_linux/{_SCRIPT} set up, got {shown(named)}"
        ) from None
    return folder


def _script(folder: Path) -> Path:
    """Returns the program that starts programs in a rig."""
    scripts = (folder / _SCRIPT, _PACKAGE.parent / "tools" / "dml_linux" / _SCRIPT)
    script = next((s for s in scripts if s.is_file()), None)
    if script is None:
        raise InputError(f"{scripts[0]} must exist: it starts programs in {folder}; set the folder up again")
    return script


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
