"""Where the cases of a run stand: by operator, data type and dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

from ..cases.case import Case, id_parts
from ..descriptors import FEATURE_LEVELS
from ..judge.record import Record
from ..operators import OPERATORS
from ..spec import Spec
from ..tensors import DataType
from ..vocabulary import Verdict
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
    spec = spec_of(operator)
    if spec is None or not dimensions.isdecimal():
        return UNKNOWN
    for level in _levels(spec):
        data_fields = dict.fromkeys((spec.first_data, *spec.data_tensors), data_type)
        fields = {**data_fields, **dict.fromkeys(spec.index_tensors, index_type)}
        if all(documents(spec, level, field, type, int(dimensions)) for field, type in fields.items()):
            return level
    return UNKNOWN


def spec_of(operator: str) -> Spec | None:
    """Returns the spec of an operator, by its short name; None if the operator is unknown."""
    return OPERATORS[operator].descriptor.spec() if operator in OPERATORS else None


def _levels(spec: Spec) -> list[str]:
    """Returns the feature levels for which the page has a table, the lowest first."""
    return sorted({table.feature_level for table in spec.support}, key=FEATURE_LEVELS.index)


def documents(spec: Spec, level: str, field: str, type: str, dimensions: int | None) -> bool:
    """Returns whether the tables up to a feature level have this data type of a tensor and this dimension count."""
    reached = FEATURE_LEVELS[: FEATURE_LEVELS.index(level) + 1]
    tables = [t.tensors[field] for t in spec.support if t.feature_level in reached and field in t.tensors]
    counts = [t.dimension_counts for t in tables]
    fits = dimensions is None or field in spec.index_tensors or any(low <= dimensions <= high for low, high in counts)
    return fits and any(type in t.data_types for t in tables)


def by_dimensions(places: Sequence[MatrixCell], records: Sequence[Record]) -> list[Matrix]:
    """Returns a matrix of data type by dimensions for each operator, those with failures first."""
    cells: dict[Key, Count] = {}
    for where, record in zip(places, records, strict=True):
        counted = {
            "cases": True,
            "failed": record.failed,
            "other": not record.failed and record.verdict != Verdict.PASS,
        }
        key = where.operator, where.data_type, where.dimensions
        cells.setdefault(key, Counter()).update(name for name, is_so in counted.items() if is_so)

    def matrix(operator: str) -> Matrix:
        own = {key: count for key, count in cells.items() if key[0] == operator}
        columns = sorted({column for _, _, column in own}, key=lambda name: (not name.isdecimal(), name))
        types = sorted({type for _, type, _ in own}, key=sized)
        rows = {type: [own.get((operator, type, column), Counter()) for column in columns] for type in types}
        return Matrix(operator, sum(own.values(), Counter()), columns, rows)

    return sorted(map(matrix, sorted({key[0] for key in cells})), key=lambda one: not one.total["failed"])


def sized(type: str) -> tuple[int, str]:
    """Sorts types as DirectML numbers them, by their size."""
    types = list(DataType.__members__)
    return types.index(type) if type in types else len(types), type
