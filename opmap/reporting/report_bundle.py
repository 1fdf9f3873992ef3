"""Reads a results bundle that a run has written: its options, its records and its diagnosis. A bundle may be unfinished."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InputError, shown
from ..limits import MAX_RECORDS
from ..tensors import DataType
from ..verdicts.record import SCHEMA, Record, TensorRecord
from .json_files import read_json, read_lines
from .results_folder import RUN

RECORDS, DIAGNOSIS, DIAGNOSIS_SCHEMA = "results.jsonl", "diagnosis.json", "opmap-diagnosis/1"


class Totals(msgspec.Struct, frozen=True):
    """The totals of a run that has ended."""

    exit_code: int


class PartFile(msgspec.Struct, frozen=True):
    """One run of a merged bundle."""

    selection: dict[str, Any] = {}
    environment: Any = None


class RunFile(msgspec.Struct, frozen=True):
    """What `run.json` holds. `totals` is None if the run has not ended; `parts` are the runs of a merged bundle."""

    schema: str
    selection: dict[str, Any] = {}
    environment: Any = None
    problems: list[str] = []
    totals: Totals | None = None
    parts: list[PartFile] | None = None


class RelationFile(msgspec.Struct, frozen=True):
    """The relation of a group. `explains` holds the wrong elements that it explains, and all wrong elements."""

    text: str
    fault: str | None = None
    ties: list[str] = []
    explains: tuple[int, int] = (0, 0)


class ConditionFile(msgspec.Struct, frozen=True):
    """The condition of a group."""

    text: str


class SidesFile(msgspec.Struct, frozen=True):
    """Whose fault the failures of a group are."""

    text: str = ""


class SmallestFile(msgspec.Struct, frozen=True):
    """The smallest case of a group. `dxdispatch` holds the case itself, which is in no catalogue if it was made smaller."""

    case: str
    message: str | None = None
    dxdispatch: Any = None


class GroupFile(msgspec.Struct, frozen=True):
    """A group of failures with one cause. `ids` are its cases, `again` is the command that runs one of them again."""

    cases: int
    relation: RelationFile
    smallest: SmallestFile
    operators: list[str] = []
    condition: ConditionFile | None = None
    stability: str | None = None
    stability_text: str | None = None
    after: str | None = None
    side: SidesFile | None = None
    ids: list[str] = []
    again: str | None = None


class DiagnosisFile(msgspec.Struct, frozen=True):
    """What `diagnosis.json` holds."""

    schema: str
    groups: list[GroupFile] = []


@dataclass(frozen=True)
class WrittenBundle:
    """A bundle that was read. `diagnosis` is None if it has none."""

    folder: Path
    run: RunFile
    records: list[Record]
    diagnosis: DiagnosisFile | None

    def asked(self, name: str) -> str | None:
        """Returns one of the options of the run, or one of the facts about its provider, as a text; None if it is not set."""
        value = self.run.selection.get(name)
        return None if value is None else str(value)


def read_bundle(folder: str | os.PathLike[str]) -> WrittenBundle:
    """Returns the bundle in a folder. A last line of records that was not written to its end is left out.

    Raises InputError if the folder holds no bundle, or one that cannot be read.
    """
    path = Path(folder)
    if not (path / RUN).is_file():
        problem = f"got a folder without {RUN}" if path.is_dir() else "got a file" if path.exists() else "there is none"
        raise InputError(f"must be the folder of a results bundle, {problem}", file=str(folder))
    run = read_json(path / RUN, RunFile)
    _check_schema(run.schema, SCHEMA, path / RUN)
    diagnosis = read_json(path / DIAGNOSIS, DiagnosisFile) if (path / DIAGNOSIS).exists() else None
    if diagnosis:
        _check_schema(diagnosis.schema, DIAGNOSIS_SCHEMA, path / DIAGNOSIS)
    return WrittenBundle(path, run, _records(path / RECORDS), diagnosis)


def _check_schema(got: str, wanted: str, file: Path) -> None:
    if got != wanted:
        raise InputError(f"schema must be {wanted}, got {shown(got)}", file=str(file))


def _records(path: Path) -> list[Record]:
    """Returns the records. A run that was stopped before its first record may have no file."""
    records: list[Record] = []
    for number, record in read_lines(path, Record):
        if number > MAX_RECORDS:
            raise InputError(f"must have at most {MAX_RECORDS} lines", file=str(path))
        records.append(_brief(record))
        for name in ("expected", "actual"):
            _check_bits(getattr(records[-1], name), path, f"line {number}: $.{name}.Bits")
    return records


def _brief(record: Record) -> Record:
    """Returns the record; that of a good case without its outputs, which nobody asks for."""
    return msgspec.structs.replace(record, expected=None, actual=None) if record.good else record


def _check_bits(tensor: TensorRecord | None, file: Path, place: str) -> None:
    """Raises InputError if the elements of an output are not the bit patterns of its type, or not as many as its sizes say."""
    if tensor is None or tensor.Bits is None:
        return
    types = DataType.__members__
    if tensor.DataType not in types:
        raise InputError(
            f"must be of a data type of DirectML, got {shown(tensor.DataType)}", path=place, file=str(file)
        )
    width = types[tensor.DataType].size * 2
    if prod(tensor.Sizes) != len(tensor.Bits):
        message = f"must have as many elements as its sizes say, got {len(tensor.Bits)}"
        raise InputError(message, path=place, file=str(file))
    wrong = next((b for b in tensor.Bits if b is not None and not (len(b) == width and set(b) <= _HEXADECIMAL)), None)
    if wrong is not None:
        raise InputError(f"must have {width} hexadecimal digits each, got {shown(wrong)}", path=place, file=str(file))


_HEXADECIMAL = frozenset("0123456789abcdef")
