"""Writes a folder for the smallest failing cases of each cause, each to be run again without opmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..diagnosis.diagnosis import Diagnosis
from ..engines.providers import OpenProvider
from .cause_view import CauseView, cause_group
from .export import export_folder
from .failure_folders import FOLDER, folder_name
from .reproducers.model_folders import write_files

MOST_CAUSES, MOST_OF_EACH = 10, 3
"""The most causes with folders, and the most cases of each."""


def write_failures(
    folder: str | Path, diagnoses: Sequence[Diagnosis], provider: OpenProvider, again: Callable[..., str]
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
                before=diagnosis.earlier,
                again=None if diagnosis.shrunk is failure else again(case, diagnosis.earlier),
            )
            write_files(Path(folder, FOLDER, folder_name(case.id)), files)
