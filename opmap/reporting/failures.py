"""The folder `failures` of a results bundle: the smallest failing cases of each cause, each to be run again without opmap."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ..cases.case import Case
from ..diagnosis.diagnose import Diagnosis
from ..execution.providers import OpenProvider
from ..reproducers.model_folders import write_files
from ..variants.forms_constants import EXTERNAL_FILE
from .diagnosis import cause_lines
from .export import ISSUE, PROGRAM, export_folder, folder_name

FOLDER = "failures"

MOST_CAUSES, MOST_OF_EACH = 10, 3
"""The most causes with folders, and the most cases of each."""

_FILES = (ISSUE, PROGRAM, "model.onnx", EXTERNAL_FILE, "dxdispatch.json", "dxdispatch_expected.json")

_WRITTEN = re.compile(
    rf"""{"|".join(map(re.escape, _FILES))}
    | actual_\d+\.pb | test_data_set_0(/(input|output)_\d+\.pb)? | dxdispatch(/\w+\.npy)?
    | before_\d+[\w.]* | arrays(/\d+\.npy)?""",
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
    """Whether a folder holds the text of an issue, and nothing that `export_folder` does not write."""
    if folder.is_symlink() or not (folder / ISSUE).is_file():
        return False
    paths = folder.rglob("*")
    return not any(path.is_symlink() or not _WRITTEN.fullmatch(path.relative_to(folder).as_posix()) for path in paths)


def write_failures(
    folder: str | Path, found: Sequence[Diagnosis], provider: OpenProvider, again: Callable[[Case], str]
) -> None:
    """Writes a folder for the smallest cases of each cause, below the folder of a bundle.

    `again` gives the command that runs a case again. Raises InputError if a folder cannot be written.
    """
    environment = provider.environment()
    for number, diagnosis in enumerate(found[:MOST_CAUSES], 1):
        lines = [f"{name.strip()}: {text}" for name, text in cause_lines(number, diagnosis, again)]
        failures = [diagnosis.smallest, *diagnosis.cause.failures]
        for case, failure in {failure.case.id: (failure.case, failure) for failure in failures[:MOST_OF_EACH]}.values():
            files = export_folder(
                case,
                record=failure.record,
                provider=provider.name,
                environment=environment,
                diagnosis=lines,
                again=None if diagnosis.shrunk is failure else again(case),
            )
            write_files(Path(folder, FOLDER, folder_name(case.id)), files)
