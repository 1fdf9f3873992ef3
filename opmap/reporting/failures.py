"""The folder `failures` of a results bundle: the smallest failing cases of each cause, each to be run again without opmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..cases.case import Case
from ..diagnosis.diagnose import Diagnosis
from ..execution.providers import OpenProvider
from .diagnosis import cause_lines
from .export import export_folder, folder_name
from .model_folders import write_files

FOLDER = "failures"

MOST_CAUSES, MOST_OF_EACH = 10, 3
"""The most causes with folders, and the most cases of each."""


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
