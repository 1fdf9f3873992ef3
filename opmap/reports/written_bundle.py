"""Reads results bundles that runs or `opmap merge` wrote, perhaps elsewhere: each file is checked before it is used.

A bundle may be unfinished: a run that was killed leaves no totals, no diagnosis, and perhaps a line that does not end.
"""

from __future__ import annotations

import datetime
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..errors import ContradictionError, InputError, cut, shown
from ..files import to_json
from ..judge.record import FACTS, Record, TensorRecord, shortened
from ..limits import MAX_DIMENSIONS, MAX_GLOB, MAX_RECORDS, MAX_SHOWN
from ..tensors import DataType
from ..vocabulary import Verdict
from .documents import (
    DIAGNOSIS,
    DOCUMENTS,
    RECORDS,
    RUN,
    SURVEY,
    TIMES,
    DiagnosisDocument,
    Part,
    RunDocument,
    SurveyDocument,
    TimesDocument,
    Totals,
)
from .json_files import read_json, read_lines
from .sums import Sums


@dataclass(frozen=True)
class WrittenBundle:
    """A bundle in a folder. `diagnosis` is None if the causes were not sought or not found.

    `seconds` holds how long the cases took, as far as that is known. `survey` says what the
    provider does with invalid indices; None if that was not asked. `kept` are the records if they are known already.
    """

    folder: Path
    run: RunDocument
    diagnosis: DiagnosisDocument | None
    seconds: Mapping[str, float]
    survey: SurveyDocument | None = None
    kept: Sequence[Record] | None = None
    times_ended: datetime.datetime | None = None

    @property
    def ended(self) -> datetime.datetime:
        """When the run ended. If times.json does not say it: when run.json was written here."""
        written = (self.folder / RUN).stat().st_mtime
        return self.times_ended or datetime.datetime.fromtimestamp(written, datetime.UTC)

    def asked(self, name: str) -> str | None:
        """Returns one of the options of the run, or one of the facts about its provider, as a text; None if it is not
        set.
        """
        value = self.run.selection.get(name)
        return None if value is None else str(value)

    @cached_property
    def records(self) -> Sequence[Record]:
        """All records; those of good cases are `shortened`. Raises InputError as `read_records` does."""
        return self.kept if self.kept is not None else [shortened(record) for _, record in self.read_records()]

    @property
    def failed_cases(self) -> set[str]:
        """The ids of the failed cases, and of the smallest cases of their causes."""
        failed = {record.case or "" for record in self.records if record.failed}
        return failed | {group.smallest.case for group in (self.diagnosis.groups if self.diagnosis else ())}

    def read_records(self) -> Iterator[tuple[int, Record]]:
        """Yields each record with the number of its part.

        The file is read anew each time; before the end of a run there may be none.

        Raises InputError if the file cannot be read, has too many lines, or holds no record, or an output that is no
        tensor. Raises ContradictionError if a part has a case twice or a record from elsewhere, if a record does not
        fit its verdict, or if the records of a run that has ended are others than run.json says: the records decide. A
        caller that reads all records never takes a run as green that has lost one.
        """
        path, run_file = self.folder / RECORDS, str(self.folder / RUN)
        lines, line = read_lines(path, Record), 0
        ended = self.run.merged or self.run.totals is not None
        verdicts = Counter[Verdict]()
        for number, part in enumerate(self.run.runs):
            sums, seen = Sums(part.selection), set[str]()
            for line, record in islice(lines, part.records):
                if line > MAX_RECORDS:
                    raise InputError(f"must have at most {MAX_RECORDS} lines", file=str(path))
                _check_record(record, part, seen, path, f"line {line}")
                seen.add(record.case or "")
                sums.add(record)
                yield number, record
            verdicts += sums.verdicts
            if ended and len(seen) < part.records:
                raise self._another_number(str(line))
            if part.totals is not None:
                _check_totals(part, part.totals, sums, run_file, f"$.parts[{number}]" if self.run.merged else "$")
        if next(lines, None) or (ended and not _is_whole(path)):
            raise self._another_number("more")
        if self.run.merged and self.run.totals:
            red = int(bool(self.run.problems) or any(part.exit_code for part in self.run.runs))
            _check_same(Totals(dict(sorted(verdicts.items())), red), self.run.totals, run_file, "$")

    def _another_number(self, got: str) -> ContradictionError:
        wanted = sum(part.records for part in self.run.runs)
        message = f"must have {wanted} lines, each with its line break, as {RUN} says, got {got}"
        return ContradictionError(message, file=str(self.folder / RECORDS))


def _is_whole(path: Path) -> bool:
    """Returns whether a file ends with a line break. A missing or empty file is whole too."""
    if not os.path.lexists(path):
        return True
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        return file.read(1) in (b"", b"\n")


def _check_record(record: Record, part: Part, seen: Collection[str], path: Path, line: str) -> None:
    """Raises InputError if a record cannot be one of a part of which the cases in `seen` have records already."""
    if record.case is None or len(record.case) > MAX_GLOB:
        message = f"case must be an id of at most {MAX_GLOB} characters, got {shown(record.case)}"
        raise InputError(message, path=line, file=str(path))
    if record.case in seen:
        raise ContradictionError(f"must be the only record of {record.case}", path=line, file=str(path))
    for key in ("provider", *FACTS):
        wanted, got = part.selection.get(key), getattr(record, key)
        if wanted != got and record.provider is not None and (key != "provider" or wanted is not None):
            message = f"must be {shown(wanted)}, as in {RUN}, got {shown(got)}"
            raise ContradictionError(message, path=f"{line}: $.{key}", file=str(path))
    tensors = {"expected": record.expected, "actual": record.actual}
    for field, output in (record.outputs or {}).items():
        tensors |= {f"outputs[{field}].expected": output.expected, f"outputs[{field}].actual": output.actual}
    for name, tensor in tensors.items():
        _check_bits(tensor, path, f"{line}: $.{name}.Bits")
    if contradiction := record.contradiction:
        key, rule = contradiction
        raise ContradictionError(f"must be {rule}", path=f"{line}: $.{key}", file=str(path))


def _check_totals(part: Part, totals: Totals, sums: Sums, file: str, place: str) -> None:
    """Raises ContradictionError if the records of a run that has ended add up to something else than run.json says."""
    red, may_be_red = (bool(part.problems) or sums.red(required=required) for required in (False, True))
    codes = [*([] if red else [0]), *([1] if may_be_red or totals.ids else []), 130]
    wanted = sums.totals(totals.exit_code if totals.exit_code in codes else codes[0])
    _check_same(wanted, totals, file, place)
    if wanted.ids != totals.ids:
        of = f"opmap {part.selection.get('opmap')}, shard {part.selection.get('shard')} and the ids in {RECORDS}"
        message = f"must be the digest of {cut(of)}, got another one"
        raise ContradictionError(message, path=f"{place}.selection.ids", file=file)
    shard = part.selection.get("shard")
    if shard is not None and part.shard is None:
        raise ContradictionError(
            f"must be I/N with I from 1 to N, got {shown(shard)}", path=f"{place}.selection.shard", file=file
        )
    if part.environment is None and part.selection.get("device_class") is not None:
        message = f"must hold the facts about {part.selection.get('provider')}, got null"
        raise ContradictionError(message, path=f"{place}.environment", file=file)
    packages = (part.environment or {}).get("packages")
    version = packages.value.get("opmap") if packages and isinstance(packages.value, dict) else None
    if version not in (None, part.selection.get("opmap")):
        message = f"must have opmap {part.selection.get('opmap')}, as the selection says, got {shown(version)}"
        raise ContradictionError(message, path=f"{place}.environment.packages", file=file)


def _check_same(wanted: Totals, got: Totals, file: str, place: str) -> None:
    """Raises ContradictionError if totals have other counts or another exit code than the records say."""
    for key in ("verdicts", "exit_code"):
        values = getattr(wanted, key), getattr(got, key)
        if values[0] != values[1]:
            texts = [cut(to_json(value).decode(), MAX_SHOWN) for value in values]
            message = f"must be {texts[0]}, as {RECORDS} says, got {texts[1]}"
            raise ContradictionError(message, path=f"{place}.totals.{key}", file=file)


def is_bundle(folder: str | os.PathLike[str]) -> bool:
    """Returns whether a path is the folder of a results bundle."""
    return Path(folder, RUN).is_file()


def read_bundle(folder: str | os.PathLike[str], *, causes: bool = True) -> WrittenBundle:
    """Returns the bundle in a folder, without `causes` as if there was no diagnosis. Its records are read later.

    Raises InputError if the folder holds no bundle, one of another schema, or a file that cannot be read.
    """
    path = Path(folder)
    if not is_bundle(path):
        got = f"a folder without {RUN}" if path.is_dir() else "a file" if path.exists() else "no such folder"
        raise InputError(f"must be the folder of a results bundle, got {got}", file=str(folder))
    names = [name for name in DOCUMENTS if os.path.lexists(path / name) and (causes or name != DIAGNOSIS)]
    documents: dict[str, Any] = {name: _document(path / name, DOCUMENTS[name]) for name in names}
    times = documents.get(TIMES, TimesDocument(seconds={}))
    bundle = WrittenBundle(
        path, documents[RUN], documents.get(DIAGNOSIS), times.seconds, documents.get(SURVEY), times_ended=times.ended
    )
    if not bundle.run.runs:
        raise InputError("must hold a part", path="$.parts", file=str(path / RUN))
    for number, group in enumerate(bundle.diagnosis.groups if bundle.diagnosis else ()):
        _check_bits(group.smallest.actual, path / DIAGNOSIS, f"$.groups[{number}].smallest.actual.Bits")
    return bundle


def read_bundles(folders: Sequence[str]) -> list[WrittenBundle]:
    """Returns the bundles in some folders. Raises InputError as `read_bundle` does, and if a folder is given twice."""
    bundles = [read_bundle(folder) for folder in folders]
    for first, second in combinations(folders, 2):
        if os.path.samefile(first, second):
            raise InputError(f"must be another folder than {first}", file=second)
    return bundles


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


def _check_bits(tensor: TensorRecord | None, file: Path, place: str) -> None:
    """Raises InputError if the elements of an output are not the bit patterns of its type, or not as many as its sizes
    say.
    """
    if tensor is None or tensor.Bits is None:
        return
    data_type, message = DataType.__members__.get(tensor.DataType), None
    if data_type is None:
        message = f"must be of a data type of DirectML, got {shown(tensor.DataType)}"
    elif len(tensor.Sizes) > MAX_DIMENSIONS or min(tensor.Sizes, default=0) < 0:
        message = f"must be of at most {MAX_DIMENSIONS} sizes, none below 0, got {shown(tensor.Sizes)}"
    elif prod(tensor.Sizes) != len(tensor.Bits):
        message = f"must have as many elements as its sizes say, got {len(tensor.Bits)}"
    else:
        digits = re.compile(rf"[0-9a-f]{{{data_type.size * 2}}}")
        wrong = next((bits for bits in tensor.Bits if bits is not None and not digits.fullmatch(bits)), None)
        if wrong is not None:
            message = f"must have {data_type.size * 2} hexadecimal digits each, got {shown(wrong)}"
    if message:
        raise InputError(message, path=place, file=str(file))


def failed_ids(folder: str) -> list[str]:
    """Returns the ids of the cases and probes that failed in a bundle, in its order.

    Raises InputError as `read_records` does.
    """
    failed = (record.case for _, record in read_bundle(folder).read_records() if record.failed)
    return list(dict.fromkeys(filter(None, failed)))
