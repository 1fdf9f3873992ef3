"""Where the cases of a run stand: by operator, data type and dimensions; and by index type and feature level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from ..cases.case import Case, id_parts
from ..descriptors import FEATURE_LEVELS
from ..judge.record import Record
from ..operators import OPERATORS
from ..spec import Spec
from ..tensors import DataType
from ..vocabulary import Stage, Verdict
from .report_groups import base_id

UNKNOWN = "?"

Key: TypeAlias = tuple[str, str, str]
"""The key of a cell: operator, type, and column."""


class MatrixCell(NamedTuple):
    """The place of a case: operator, data type, dimension count and index type, `?` where it is not known.

    `level` is the first feature level at which the page documents the types and the dimensions.
    """

    operator: str
    data_type: str
    dimensions: str
    index_type: str
    level: str


Count: TypeAlias = Counter[str]
"""The cases of one cell: `cases` are all, `failed` those that failed, `other` those with a verdict that is good but not
`pass`.

`accepted` cases are those that the provider took, `right` ones those whose result is the documented one. `documented`
is 1 if the page documents the index type at this feature level.
"""


@dataclass(frozen=True)
class Matrix:
    """The matrix of one operator: its columns, by their names; its rows, by type, each with its cells; and the cell of
    all its cases.
    """

    operator: str
    total: Count
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Count]]


def place(record: Record, case: Case | None) -> MatrixCell:
    """Returns the place of a record. `case` is its case, if it is known; else its id says the place."""
    operator = (record.operator or UNKNOWN).removeprefix("DML_OPERATOR_")
    if case is not None:
        indices = case.desc.index_tensors()
        first = case.desc.first_data
        data_type, dimensions = first.data_type.name, str(first.dimension_count)
        index_type = case.desc.tensors[indices[0]].data_type.name if indices else UNKNOWN
    else:
        parts = id_parts(base_id(record.case or ""))
        data_type, index_type = (_type(parts.get(name, "")) for name in ("data_type", "index_type"))
        dimensions = parts.get("dimensions", UNKNOWN)
        dimensions = dimensions if dimensions.isdecimal() and len(dimensions) < 3 else UNKNOWN
    return MatrixCell(operator, data_type, dimensions, index_type, _level(operator, data_type, dimensions, index_type))


def _type(word: str) -> str:
    return word.upper() if word.upper() in DataType.__members__ else UNKNOWN


@cache
def _level(operator: str, data_type: str, dimensions: str, index_type: str) -> str:
    """Returns the first feature level at which the page documents a case; `?` if none does, or the operator is
    unknown.
    """
    spec = _spec(operator)
    if spec is None or not dimensions.isdecimal():
        return UNKNOWN
    for level in _levels(spec):
        data_fields = dict.fromkeys((spec.first_data, *spec.data_tensors), data_type)
        fields = {**data_fields, **dict.fromkeys(spec.index_tensors, index_type)}
        if all(_documents(spec, level, field, type, int(dimensions)) for field, type in fields.items()):
            return level
    return UNKNOWN


def _spec(operator: str) -> Spec | None:
    return OPERATORS[operator].descriptor.spec() if operator in OPERATORS else None


def _levels(spec: Spec) -> list[str]:
    """Returns the feature levels for which the page has a table, the lowest first."""
    return sorted({table.feature_level for table in spec.support}, key=FEATURE_LEVELS.index)


def _documents(spec: Spec, level: str, field: str, type: str, dimensions: int | None) -> bool:
    """Returns whether the tables up to a feature level have this data type of a tensor and this dimension count."""
    reached = FEATURE_LEVELS[: FEATURE_LEVELS.index(level) + 1]
    tables = [t.tensors[field] for t in spec.support if t.feature_level in reached and field in t.tensors]
    counts = [t.dimension_counts for t in tables]
    fits = dimensions is None or field in spec.index_tensors or any(low <= dimensions <= high for low, high in counts)
    return fits and any(type in t.data_types for t in tables)


def by_dimensions(places: Sequence[MatrixCell], records: Sequence[Record]) -> list[Matrix]:
    """Returns a matrix of data type by dimensions for each operator, those with failures first."""
    keys = [(where.operator, where.data_type, where.dimensions) for where in places]
    return _matrices(keys, records, lambda name: (not name.isdecimal(), name))


def by_level(places: Sequence[MatrixCell], records: Sequence[Record]) -> list[Matrix]:
    """Returns a matrix of index type by feature level for each operator: what is documented, accepted and right."""
    keys = [(where.operator, where.index_type, where.level) for where in places]
    documented = {
        (name, type, level)
        for name in {where.operator for where in places}
        if (spec := _spec(name))
        for level in _levels(spec)
        for type in DataType.__members__
        if any(_documents(spec, level, field, type, None) for field in spec.index_tensors)
    }
    return _matrices(keys, records, _by_level, documented)


def _accepted(record: Record) -> bool:
    """Returns whether the provider took a case: it ran, and was not refused before its first run."""
    refused = record.verdict == Verdict.ERROR and record.stage in (Stage.READ, Stage.VALIDATE, Stage.MAP, Stage.LOAD)
    return record.ran and not refused and record.verdict != Verdict.UNSUPPORTED


def _by_level(level: str) -> int:
    return FEATURE_LEVELS.index(level) if level in FEATURE_LEVELS else len(FEATURE_LEVELS)


def _matrices(
    keys: Sequence[Key], records: Sequence[Record], order: Callable[[str], Any], documented: Set[Key] = frozenset()
) -> list[Matrix]:
    """Returns one matrix for each operator. `keys` has the key of the cell of each record."""
    cells: dict[Key, Count] = {key: Counter(documented=1) for key in documented}
    for key, record in zip(keys, records, strict=True):
        counted = {
            "cases": True,
            "failed": record.failed,
            "other": not record.failed and record.verdict != Verdict.PASS,
            "accepted": _accepted(record),
            "right": record.verdict.standing == "right",
        }
        cells.setdefault(key, Counter()).update(name for name, is_so in counted.items() if is_so)

    def matrix(operator: str) -> Matrix:
        own = {key: count for key, count in cells.items() if key[0] == operator}
        columns = sorted({column for _, _, column in own}, key=order)
        types = sorted({type for _, type, _ in own}, key=_size)
        rows = {type: [own.get((operator, type, column), Counter()) for column in columns] for type in types}
        return Matrix(operator, sum(own.values(), Counter()), columns, rows)

    return sorted(map(matrix, sorted({key[0] for key in cells})), key=lambda one: not one.total["failed"])


def _size(type: str) -> tuple[int, str]:
    """Sorts types as DirectML numbers them, by their size."""
    types = list(DataType.__members__)
    return types.index(type) if type in types else len(types), type
