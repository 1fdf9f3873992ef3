"""The folders of failing cases below a results bundle: their names, and which of them opmap wrote."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from ..cases.variants.forms_constants import EXTERNAL_FILE
from ..errors import InputError
from ..files import read_bytes
from ..limits import MAX_FAILURE_BYTES, MAX_FAILURES_BYTES

PROGRAM, ISSUE = "repro.py", "issue.md"

FOLDER = "failures"

_LONGEST_NAME = 100
"""The longest name of a folder: Windows refuses paths of more than 260 characters."""

_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)")
"""Names that are no files on Windows."""


_WRITTEN = re.compile(
    rf"""{"|".join(map(re.escape, (ISSUE, PROGRAM, "model.onnx", EXTERNAL_FILE)))} | dxdispatch(_expected)?\.json
    | actual_\d+\.pb | test_data_set_0(/(input|output)_\d+\.pb)? | dxdispatch(/\w+\.npy)?
    | before_\d+[\w.]* | arrays(/\d+\.bin)?""",
    re.VERBOSE,
)
"""The paths in a folder that `export_folder` writes."""


def remove_failures(folder: Path) -> None:
    """Removes the folders of failures that an earlier end of the run wrote below the folder of a bundle.

    A folder with a file or link that opmap does not write stays. Raises OSError if a folder cannot be removed.
    """
    failures = folder / FOLDER
    if failures.is_symlink() or not failures.is_dir():
        return
    for entry in list(failures.iterdir()):
        if is_written(entry):
            shutil.rmtree(entry)
    with suppress(OSError):  # it is not empty
        failures.rmdir()


def is_written(folder: Path) -> bool:
    """Returns whether a folder holds the text of an issue, and nothing that `export_folder` does not write."""
    if folder.is_symlink() or not (folder / ISSUE).is_file():
        return False
    paths = folder.rglob("*")
    return not any(path.is_symlink() or not _WRITTEN.fullmatch(path.relative_to(folder).as_posix()) for path in paths)


def read_failures(folder: Path, names: Collection[str]) -> Iterator[tuple[str, dict[str, bytes] | None]]:
    """Yields the name and the files of each folder of a failure in a bundle, the names in alphabetical order.

    None stands for the files of a folder that has none of these names, that opmap did not write, or that cannot be
    read, also because it is too large (see MAX_FAILURE_BYTES).
    """
    failures, left = folder / FOLDER, MAX_FAILURES_BYTES
    for entry in sorted(failures.iterdir()) if failures.is_dir() else []:
        files = None
        if entry.name in names and is_written(entry):
            paths = {path.relative_to(entry).as_posix(): path for path in entry.rglob("*") if path.is_file()}
            size = sum(path.stat().st_size for path in paths.values())
            with suppress(InputError):
                if size > min(left, MAX_FAILURE_BYTES):
                    raise InputError("is too large")
                left -= size
                files = {name: read_bytes(path) for name, path in paths.items()}
        yield entry.name, files


def folder_name(id: str) -> str:
    """Returns a name for the folder of a case that every system takes.

    Different ids of the catalogue have different names. Any other id has a digest in its name.
    """
    wanted = id.replace("/", "-")
    name = re.sub(r"[^a-z0-9_.-]", "_", wanted).strip(".")[:_LONGEST_NAME]
    if name == wanted and not _RESERVED.match(name) and "/" in id and "-" not in id.rpartition("/")[0]:
        return name
    return f"{name or 'case'}-{hashlib.sha256(id.encode(errors='surrogatepass')).hexdigest()[:8]}"
