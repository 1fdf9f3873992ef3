"""How the addresses of one case are computed, in parts that a fault can change: sizes, strides, coordinates, index reads.

The parts are those of the expanded line, whatever the operator: one side of it holds indices, the other counts through
the elements that move.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from ..cases.case import Case
from ..descriptors import OperatorDesc
from ..pseudocode import Reference, aligned
from ..pseudocode.tree import Constant, Coordinate
from ..tensors import DataType

Resolve = Callable[[np.ndarray, int], np.ndarray]


def resolve(index: np.ndarray, n: int) -> np.ndarray:
    """The position that an index means in a dimension of n: a negative one counts from the end."""
    return np.where(index < 0, index + n, index)


@dataclass(frozen=True)
class Read:
    """Where an index is read: its tensor, (counted dimension, stride) of the coordinates, the place in its tuple."""

    tensor: str
    steps: tuple[tuple[int, int], ...]
    offset: int


@dataclass(frozen=True)
class Term:
    """One dimension of the indexed tensor, and what says the position in it: a counted dimension, an index or a number."""

    size: int
    stride: int
    coordinate: int | None = None
    constant: int = 0
    read: Read | None = None

    def replaced(self, other: Term) -> Term:
        """This dimension with the position that another one has."""
        return dataclasses.replace(self, coordinate=other.coordinate, constant=other.constant, read=other.read)

    def at_zero(self) -> Term:
        """This dimension, always at 0."""
        return Term(self.size, self.stride)


@dataclass(frozen=True)
class Access:
    """The address computation of a descriptor. `counted` are the sizes that are counted through, row-major; `reads` the
    sizes of the tensors that hold indices."""

    counted: tuple[int, ...]
    terms: tuple[Term, ...]
    reads: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, desc: OperatorDesc) -> Access:
        """From the descriptor's expanded line."""
        names, sizes = desc.spec().pseudocode.tensors, desc.pseudocode_sizes
        sides = (desc.line.source, desc.line.target)
        indexed, plain = sorted(sides, key=lambda side: -any(isinstance(c, Reference) for c in side.coordinates))
        counted = sizes[plain.tensor]
        skipped = len(counted) - len(plain.coordinates)
        place = {c.name: skipped + i for i, c in enumerate(plain.coordinates) if isinstance(c, Coordinate)}
        entries = aligned(indexed, sizes[indexed.tensor])
        padding = len(sizes[indexed.tensor]) - len(entries)
        terms, reads = [Term(1, prod(sizes[indexed.tensor]))] * padding, {}
        for coordinate, size, stride in entries:
            match coordinate:
                case Coordinate(name):
                    terms.append(Term(size, stride, place[name]))
                case Constant(value):
                    terms.append(Term(size, stride, None, value))
                case Reference():
                    inner = aligned(coordinate, sizes[coordinate.tensor])
                    steps = tuple((place[c.name], step) for c, _, step in inner if isinstance(c, Coordinate))
                    offset = sum(c.value * step for c, _, step in inner if isinstance(c, Constant))
                    terms.append(Term(size, stride, read=Read(names[coordinate.tensor], steps, offset)))
                    reads[names[coordinate.tensor]] = sizes[coordinate.tensor]
        return cls(counted, tuple(terms), reads)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the indexed tensor."""
        return tuple(t.size for t in self.terms)

    @property
    def indexed(self) -> list[int]:
        """The dimensions in which an index says the position."""
        return [i for i, t in enumerate(self.terms) if t.read]

    @property
    def shared(self) -> set[int]:
        """The counted dimensions (longer than 1) that both the index and the position beside it depend on: batches."""
        beside = {t.coordinate for t in self.terms if t.coordinate is not None}
        inside = {d for t in self.terms if t.read for d, _ in t.read.steps}
        return {d for d in beside & inside if self.counted[d] > 1}

    def change(self, how: Callable[[int, Term], Term]) -> Access:
        """A copy with every term changed; `how` gets its dimension too."""
        return dataclasses.replace(self, terms=tuple(how(i, t) for i, t in enumerate(self.terms)))

    def change_reads(self, how: Callable[[Read], Read]) -> Access:
        """A copy with every index read changed."""
        return self.change(lambda i, t: dataclasses.replace(t, read=how(t.read)) if t.read else t)

    def arranged(self, order: Sequence[int]) -> Access:
        """A copy in which dimension i takes its position from what dimension order[i] had."""
        return self.change(lambda i, t: t.replaced(self.terms[order[i]]))

    def with_strides(self, strides: Sequence[int]) -> Access:
        """A copy with other strides."""
        return self.change(lambda i, t: dataclasses.replace(t, stride=int(strides[i])))

    def addresses(self, indices: Mapping[str, np.ndarray], how: Resolve = resolve) -> np.ndarray:
        """The address for each counted element, row-major, not bound to the tensor. `indices` are flat."""
        total = np.zeros((1,) * len(self.counted), np.int64)
        for term in self.terms:
            if term.read:
                values = indices[term.read.tensor]
                where = sum((self._count(d) * step for d, step in term.read.steps), np.int64(term.read.offset))
                index = values[np.clip(where, 0, len(values) - 1)]
                total = total + how(index, term.size) * term.stride
            elif term.coordinate is not None:
                total = total + self._count(term.coordinate) * term.stride
            else:
                total = total + term.constant * term.stride
        return np.broadcast_to(total, self.counted).reshape(-1)

    def _count(self, dimension: int) -> np.ndarray:
        shape = [1] * len(self.counted)
        shape[dimension] = -1
        return np.arange(self.counted[dimension], dtype=np.int64).reshape(shape)


@dataclass(frozen=True)
class Indices:
    """One tensor of indices: (number of tuples, tuple size), 1 where there are no tuples."""

    rows: np.ndarray
    data_type: DataType


@dataclass(frozen=True)
class Work:
    """A case as arrays: its access, its indices, the bit patterns of what is read."""

    case: Case

    @cached_property
    def access(self) -> Access:
        """The right one."""
        return Access.of(self.case.desc)

    @property
    def data_type(self) -> DataType:
        """Of what is moved."""
        return self.case.desc.output.data_type

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the output."""
        return self.case.desc.output.sizes

    @cached_property
    def indices(self) -> dict[str, Indices]:
        """By field."""
        found = {}
        for name, bounds in self.case.desc.index_bounds.items():
            tensor = self.case.tensors[name]
            found[name] = Indices(np.array(tensor.values, np.int64).reshape(-1, len(bounds)), tensor.data_type)
        return found

    @cached_property
    def data(self) -> np.ndarray:
        """The bit patterns that are read."""
        desc = self.case.desc
        return bit_array(self.case.tensors[desc.spec().pseudocode.tensors[desc.line.source.tensor]])

    @cached_property
    def right(self) -> np.ndarray:
        """The right output's bit patterns."""
        return self.fetch(self.access, self.indices)

    def fetch(
        self,
        access: Access,
        indices: Mapping[str, Indices],
        how: Resolve = resolve,
        address: Callable[[np.ndarray, Work], np.ndarray] | None = None,
    ) -> np.ndarray:
        """What is read by an access; an address beyond the tensor reads its first or last element, as it
        was seen on DirectML."""
        found = access.addresses({name: i.rows.reshape(-1) for name, i in indices.items()}, how)
        if address:
            found = address(found, self)
        return self.data[np.clip(found, 0, len(self.data) - 1)]


def bit_array(tensor) -> np.ndarray:
    """A tensor's bit patterns as unsigned integers of its width."""
    return np.frombuffer(tensor.to_bytes(), f"<u{tensor.data_type.size}")
