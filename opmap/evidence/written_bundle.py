"""Reads results bundles that runs or `opmap merge` wrote, perhaps elsewhere: each file is checked before it is used.

A bundle may be unfinished: a run that was killed leaves no totals, no diagnosis, and perhaps a line that does not end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TypeVar

import msgspec

from ..errors import InputError, shown
from ..judge.record import Record, TensorRecord, shortened
from ..limits import MAX_DIMENSIONS, MAX_GLOB, MAX_RECORDS
from ..tensors import DataType
from .documents import (
    DIAGNOSIS,
    RECORDS,
    RUN,
    SURVEY,
    TIMES,
    DiagnosisDocument,
    Part,
    RunDocument,
    SurveyDocument,
    TimesDocument,
)
from .json_files import read_json, read_lines


@dataclass(frozen=True)
class WrittenBundle:
    """A bundle in a folder. `diagnosis` is None if the causes were not sought or not found.

    `seconds` holds how long the cases took, as far as that is known. `survey` says what the
    provider does with invalid indices; None if that was not asked.
    """

    folder: Path
    run: RunDocument
    diagnosis: DiagnosisDocument | None
    seconds: Mapping[str, float]
    survey: SurveyDocument | None = None

    @property
    def parts(self) -> list[Part]:
        """The runs that were merged; of a bundle that is not merged, the one run. `records` of that is MAX_RECORDS."""
        return self.run.runs

    def asked(self, name: str) -> str | None:
        """Returns one of the options of the run, or one of the facts about its provider, as a text; None if it is not set."""
        value = self.run.selection.get(name)
        return None if value is None else str(value)

    @cached_property
    def records(self) -> list[Record]:
        """All records; those of good cases are `shortened`. Raises InputError as `read_records` does."""
        return [shortened(record) for _, record in self.read_records()]

    @property
    def failed_cases(self) -> set[str]:
        """The ids of the failed cases, and of the smallest cases of their causes."""
        failed = {record.case or "" for record in self.records if record.failed}
        return failed | {group.smallest.case for group in (self.diagnosis.groups if self.diagnosis else ())}

    def read_records(self) -> Iterator[tuple[int, Record]]:
        """Yields each record with the number of its part. The file is read anew each time; there may be none.

        Raises InputError if the file cannot be read, has too many lines, or holds no record, a case twice in a part, an
        output of a failed case that is no tensor, or another number of records than the parts say.
        """
        path = self.folder / RECORDS
        ends = [(number, part.records) for number, part in enumerate(self.parts)]
        part, left, seen = -1, 0, set[str]()
        line = 0
        for line, record in read_lines(path, Record):
            if line > MAX_RECORDS:
                raise InputError(f"must have at most {MAX_RECORDS} lines", file=str(path))
            while not left:
                if not ends:
                    raise self._another_number(line)
                (part, left), seen = ends.pop(0), set()
            if record.case is None or len(record.case) > MAX_GLOB:
                message = f"case must be an id of at most {MAX_GLOB} characters, got {shown(record.case)}"
                raise InputError(message, path=f"line {line}", file=str(path))
            if record.case in seen:
                message = f"must be the only record of {record.case}"
                raise InputError(message, path=f"line {line}", file=str(path))
            if not record.good:
                tensors = {"expected": record.expected, "actual": record.actual}
                for field, output in (record.outputs or {}).items():
                    tensors |= {
                        f"outputs[{field}].expected": output.expected,
                        f"outputs[{field}].actual": output.actual,
                    }
                for name, tensor in tensors.items():
                    _check_bits(tensor, path, f"line {line}: $.{name}.Bits")
            seen.add(record.case)
            left -= 1
            yield part, record
        if self.run.merged and (left or any(count for _, count in ends)):
            raise self._another_number(line)

    def _another_number(self, lines: int) -> InputError:
        wanted = sum(part.records for part in self.parts)
        message = f"must have {wanted} lines, as the parts in {RUN} say, got {lines}"
        return InputError(message, file=str(self.folder / RECORDS))


def read_bundle(folder: str | os.PathLike[str], *, causes: bool = True) -> WrittenBundle:
    """Returns the bundle in a folder, without `causes` as if there was no diagnosis. Its records are read later.

    Raises InputError if the folder holds no bundle, one of another schema, or a file that cannot be read.
    """
    path = Path(folder)
    if not (path / RUN).is_file():
        got = f"a folder without {RUN}" if path.is_dir() else "a file" if path.exists() else "no such folder"
        raise InputError(f"must be the folder of a results bundle, got {got}", file=str(folder))
    run = _document(path / RUN, RunDocument)
    if run.merged and not (run.runs and all(0 <= part.records <= MAX_RECORDS for part in run.runs)):
        message = f"must hold a part, and each must have from 0 to {MAX_RECORDS} records"
        raise InputError(message, path="$.parts", file=str(path / RUN))
    times = _document(path / TIMES, TimesDocument).seconds if (path / TIMES).exists() else {}
    diagnosis = _document(path / DIAGNOSIS, DiagnosisDocument) if causes and (path / DIAGNOSIS).exists() else None
    for number, group in enumerate(diagnosis.groups if diagnosis else ()):
        _check_bits(group.smallest.actual, path / DIAGNOSIS, f"$.groups[{number}].smallest.actual.Bits")
    survey = _document(path / SURVEY, SurveyDocument) if (path / SURVEY).exists() else None
    return WrittenBundle(path, run, diagnosis, times, survey)


def read_diagnosis(file: str) -> DiagnosisDocument:
    """Returns the document in a file that `validate --report` or `diagnose --json` wrote. Raises InputError."""
    return _document(Path(file), DiagnosisDocument)


class _Versioned(msgspec.Struct):
    """A document of any schema."""

    schema: str


D = TypeVar("D", bound=msgspec.Struct)


def _document(path: Path, type: type[D]) -> D:
    got = read_json(path, _Versioned).schema
    schema = next(field.default for field in msgspec.structs.fields(type) if field.name == "schema")
    if got != schema:
        raise InputError(f"schema must be {schema}, got {shown(got)}", file=str(path))
    return read_json(path, type)


_HEXADECIMAL = frozenset("0123456789abcdef")


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
    if len(tensor.Sizes) > MAX_DIMENSIONS or min(tensor.Sizes, default=0) < 0:
        message = f"must be of at most {MAX_DIMENSIONS} sizes, none below 0, got {shown(tensor.Sizes)}"
        raise InputError(message, path=place, file=str(file))
    if prod(tensor.Sizes) != len(tensor.Bits):
        message = f"must have as many elements as its sizes say, got {len(tensor.Bits)}"
        raise InputError(message, path=place, file=str(file))
    wrong = next((b for b in tensor.Bits if b is not None and not (len(b) == width and set(b) <= _HEXADECIMAL)), None)
    if wrong is not None:
        raise InputError(f"must have {width} hexadecimal digits each, got {shown(wrong)}", path=place, file=str(file))
