"""The folder `failures` of a results bundle: the smallest failing cases of each cause, each to be run again without opmap."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..catalogue.case import Case
from ..catalogue.variants.forms_constants import EXTERNAL_FILE
from ..diagnosis.diagnose import Diagnosis
from ..engines.providers import OpenProvider
from ..errors import InputError
from ..files import read_bytes
from .cause_view import CauseView, cause_group
from .export import ISSUE, PROGRAM, export_folder, folder_name
from .reproducers.model_folders import write_files

if TYPE_CHECKING:  # it imports the bundle, which imports this module
    from .written_bundle import WrittenBundle

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
    """Returns whether a folder holds the text of an issue, and nothing that `export_folder` does not write."""
    if folder.is_symlink() or not (folder / ISSUE).is_file():
        return False
    paths = folder.rglob("*")
    return not any(path.is_symlink() or not _WRITTEN.fullmatch(path.relative_to(folder).as_posix()) for path in paths)


def read_failures(folder: Path, names: Collection[str]) -> Iterator[tuple[str, dict[str, bytes] | None]]:
    """Yields the name and the files of each folder of a failure in a bundle, the names in alphabetical order.

    None stands for the files of a folder that has none of these names, that opmap did not write, or that cannot be read.
    """
    failures = folder / FOLDER
    for entry in sorted(failures.iterdir()) if failures.is_dir() else []:
        files = None
        if entry.name in names and is_written(entry):
            paths = {path.relative_to(entry).as_posix(): path for path in entry.rglob("*") if path.is_file()}
            with suppress(InputError):
                files = {name: read_bytes(path) for name, path in paths.items()}
        yield entry.name, files


def copy_failures(bundles: Iterable[WrittenBundle], output: Path) -> None:
    """Copies the folders of failures of several bundles into the folder of another one. Of two with one name, the first.

    Raises InputError if a folder cannot be written.
    """
    for bundle in bundles:
        for name, files in read_failures(bundle.folder, {folder_name(id) for id in bundle.failed_cases}):
            if files is not None and not (output / FOLDER / name).exists():
                write_files(output / FOLDER / name, files)


def write_failures(
    folder: str | Path, diagnoses: Sequence[Diagnosis], provider: OpenProvider, again: Callable[[Case], str]
) -> None:
    """Writes a folder for the smallest cases of each cause, below the folder of a bundle.

    A cause that shows only when batched has none: its cases need their common session. `again` gives the
    command that runs a case again. Raises InputError if a folder cannot be written.
    """
    environment = provider.environment()
    for number, diagnosis in enumerate(diagnoses[:MOST_CAUSES], 1):
        if diagnosis.cause.only_batched:
            continue
        lines = CauseView.of(cause_group(diagnosis, again)).texts(f"cause {number}")
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
