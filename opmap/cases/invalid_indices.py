"""Questions about invalid indices: which index to give, in which case, and what each explanation says is read.

A question is a case in which every second index is out of range, always with the same value. Every element of its data is
unique and none is zero, so that each element of the output shows where it was read. An explanation is a simple rule for what
an implementation may do with the index. `predictions` gives the addresses that each explanation predicts.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

from ..descriptors import OperatorDesc
from ..operators import AnyOperator
from ..operators.random_source import SeededSource
from ..pseudocode.access import Move
from ..tensors import DataType, Tensor
from .case import Case, retyped
from .values import fill

DATA_TYPES = ("UINT8", "FLOAT16", "FLOAT32", "INT64")
"""The data types that are asked: one for each width."""

FAR = 100_003
"""How many times the size of the dimension an index lies outside, to be far from every element of the input."""

POSITIONS: Mapping[str, Callable[[int], int]] = {
    "size": lambda n: n,
    "size+1": lambda n: n + 1,
    "far": lambda n: n * FAR + n // 2,
    "2^31-1": lambda n: 2**31 - 1,
    "2^31+1": lambda n: 2**31 + 1,
    "2^32-2": lambda n: 2**32 - 2,
    "2^32+1": lambda n: 2**32 + 1,
    "2^63-2": lambda n: 2**63 - 2,
    "2^63+1": lambda n: 2**63 + 1,
    "2^64-2": lambda n: 2**64 - 2,
    "-size-1": lambda n: -n - 1,
    "-far": lambda n: -n * FAR - n // 2,
    "-2^31": lambda n: -(2**31),
    "-2^32-2": lambda n: -(2**32) - 2,
    "-2^63": lambda n: -(2**63),
}
"""The invalid indices by name, each computed from the size n of the dimension that it points into."""

MAX_ELEMENTS = 250
"""The most elements of a tensor. Single bytes have 255 different values other than zero."""

SIZES = range(5, 17)
"""The sizes of the dimension that the index points into."""

DRAWS = 1000
"""How many random descriptors of an operator are looked at."""

_UINT32 = 2**32


@dataclass(frozen=True)
class Question:
    """One invalid index in one place of a descriptor.

    It stands in the index tensor `field`. If this holds index tuples, it is number `coordinate` of its tuple.
    """

    desc: OperatorDesc
    field: str
    coordinate: int
    position: str

    @property
    def tuple_size(self) -> int:
        """The number of indices in a tuple; 1 if the tensor holds single indices."""
        return len(self.desc.index_bounds[self.field])

    @property
    def size(self) -> int:
        """The size of the dimension that the index points into."""
        return self.desc.index_bounds[self.field][self.coordinate]

    @property
    def index(self) -> int:
        """The invalid index."""
        return POSITIONS[self.position](self.size)

    @property
    def data(self) -> Tensor:
        """The tensor that is read."""
        return self.case.tensors[_source(self.desc)]

    @property
    def index_type(self) -> DataType:
        """The type of the indices."""
        return self.desc.tensors[self.field].data_type

    @cached_property
    def case(self) -> Case:
        """The case: every second index has the invalid value."""
        return _case(self.desc, f"{self.position}.{self.coordinate}", {self.field: (self.coordinate, self.index)})

    @cached_property
    def valid_case(self) -> Case:
        """The same case with valid indices only."""
        return _case(self.desc, "valid", {})

    @cached_property
    def place(self) -> Place:
        """Where the invalid index is used."""
        return _place(self.desc, self.field, self.coordinate)

    @property
    def predictions(self) -> dict[str, set[tuple[int, ...]]]:
        """What each explanation predicts: see `predictions`."""
        return predictions(self.place, self.index, self.index_type)


# --- explanations ---

AXIS = "clamped to the axis"
MEMORY = "clamped to memory"
WRAPPED = "wrapped"
CUT = "cut to 32 bits"
SIGNED = "read as signed"
UNSIGNED = "read as unsigned"
ZERO = "zero"

EXPLANATIONS: Mapping[str, str] = {
    AXIS: "the first or the last element along the axis is read",
    MEMORY: "the address is computed with the invalid index; an address outside the input becomes that of its first or last element",
    WRAPPED: "the index is taken modulo the size of the axis",
    CUT: "only the low 32 bits of the index or of the address count; with no other word, these are a valid index",
    SIGNED: "an unsigned index is taken as a signed one, and counts from the end; with no other word, it is valid then",
    UNSIGNED: "a negative index is taken as an unsigned one",
    ZERO: "every such element is zero; no element of the input is",
}
"""The words of the explanations, each with its meaning. An explanation is one word, or several with commas between."""


def simplest(explanations: Iterable[str]) -> list[str]:
    """Returns the explanations of the fewest words, in alphabetical order."""
    by_words: dict[int, list[str]] = {}
    for explanation in explanations:
        by_words.setdefault(explanation.count(","), []).append(explanation)
    return sorted(by_words[min(by_words)]) if by_words else []


@dataclass(frozen=True)
class Place:
    """Where an invalid index is used. `affected` are the output elements that it chooses, row-major.

    For each of them, `first` is the address that it reads if the index is 0, and `steps` is how far the address moves
    for each step of the index. `size` is the size of the dimension, `count` the number of elements of the input.
    """

    size: int
    count: int
    affected: tuple[int, ...]
    first: tuple[int, ...]
    steps: tuple[int, ...]

    def addresses(self, index: int) -> list[int]:
        """Returns the address of each affected element for an index that nothing changes."""
        return [first + index * step for first, step in zip(self.first, self.steps, strict=True)]

    @property
    def in_the_middle(self) -> int:
        """Whether there are elements before the dimension, and behind it: 0, 1 or 2 of these."""
        return (min(self.steps) > 1) + (max(self.steps) * self.size < self.count)


def predictions(place: Place, index: int, index_type: DataType) -> dict[str, set[tuple[int, ...]]]:
    """Returns the addresses that each explanation predicts for the affected elements.

    An explanation may allow several: for example, whether a negative index counts from the end before it is clamped is left
    open.
    """
    predicted: dict[str, set[tuple[int, ...]]] = {}

    def add(words: Sequence[str], addresses: Iterable[int]) -> None:
        predicted.setdefault(", ".join(filter(None, dict.fromkeys(words))), set()).add(tuple(addresses))

    n, last = place.size, place.count - 1
    for reading, value in _readings(index, index_type):
        if -n <= value < n:
            add([reading], place.addresses(value % n))
            continue
        add([reading, AXIS], place.addresses(0 if value < 0 else n - 1))
        add([reading, WRAPPED], place.addresses(value % n))
        if reading == UNSIGNED:  # clamped to memory, it is what a 32-bit address gives
            continue
        for counted in {value, value + n if value < 0 else value}:
            linear = place.addresses(counted)
            add([reading, MEMORY], (min(max(a, 0), last) for a in linear))
            add([reading, MEMORY], (a if 0 <= a <= last else last for a in linear))
            add([reading, CUT, MEMORY], (min(a % _UINT32, last) for a in linear))
    return predicted


def _readings(index: int, index_type: DataType) -> Iterator[tuple[str, int]]:
    """Gives the values that an index may be taken for, each with the word for it."""
    yield "", index
    low = index % _UINT32
    if index_type.size == 8:
        for value in sorted({low, low - _UINT32 if low >= _UINT32 // 2 else low} - {index}):
            yield CUT, value
    elif index < 0:
        yield UNSIGNED, low
    numbers = 1 << index_type.size * 8
    if index_type.kind == "unsigned" and index >= numbers // 2:
        yield SIGNED, index - numbers


def _place(desc: OperatorDesc, field: str, coordinate: int) -> Place:
    """The place of an index. The addresses are those that the access map gives for the valid indices 0 and 1."""

    def origins(index: int) -> Sequence[int | None]:
        return desc.origins(_tensors(desc, {field: (coordinate, index)}))

    size = desc.index_bounds[field][coordinate]
    affected = tuple(i for i, origin in enumerate(origins(size)) if origin is None)
    first, second = ([a for i in affected if (a := at[i]) is not None] for at in (origins(0), origins(1)))
    steps = tuple(b - a for a, b in zip(first, second, strict=True))
    return Place(size, desc.tensors[_source(desc)].element_count, affected, tuple(first), steps)


def _source(desc: OperatorDesc) -> str:
    """The field of the tensor that is read."""
    (name,) = desc.access.sources
    return desc.spec().pseudocode.tensors[name]


# --- cases ---


def _case(desc: OperatorDesc, name: str, invalid: Mapping[str, tuple[int, int]]) -> Case:
    types = (desc.tensors[field].data_type.name for field in (_source(desc), *desc.index_tensors()))
    return Case("/".join(("survey", desc.operator, *types, name)).lower(), desc, _tensors(desc, invalid))


def _tensors(desc: OperatorDesc, invalid: Mapping[str, tuple[int, int]]) -> dict[str, Tensor]:
    """Returns the inputs. `invalid` gives the (coordinate, value) of every second index of a field."""
    tensors = fill(desc, "", "identity", "addr")
    for name in desc.data_tensors():
        tensors[name] = _unique(tensors[name])
    for name, (coordinate, value) in invalid.items():
        size, values = len(desc.index_bounds[name]), list(tensors[name].integers)
        places = range(size + coordinate, len(values), 2 * size)
        for i in places:
            values[i] = value
        tensors[name] = Tensor.from_values(tensors[name].data_type, tensors[name].sizes, values)
    return tensors


def _unique(tensor: Tensor) -> Tensor:
    """Returns a tensor of this type and sizes whose elements are unique, not zero and, if they are floats, plain numbers."""
    data_type, count = tensor.data_type, len(tensor.bits)
    if data_type.kind == "float":
        return Tensor.from_values(data_type, tensor.sizes, [512.5 + i for i in range(count)])
    width = data_type.size * 8
    factor = 0x9E3779B97F4A7C15 >> 64 - width | 1  # odd, so that different addresses give different values
    bits = array(data_type.bits_code, [(i + 1) * factor % (1 << width) for i in range(count)])
    return Tensor(data_type, tensor.sizes, bits)


# --- which descriptors are asked ---


def questions(operator: AnyOperator) -> list[Question]:
    """Returns the questions about an operator: each invalid index in each place, for each data type and index type.

    There are none about an operator that does not read one tensor at indices.
    """
    asked = []
    for (desc, field, coordinate), index_type, name in product(_places(operator), DataType, DATA_TYPES):
        typed = retyped(desc, DataType[name], index_type) if index_type.kind != "float" else desc
        if index_type.kind == "float" or typed.violations():
            continue
        low, high = index_type.limits
        for position in POSITIONS:
            question = Question(typed, field, coordinate, position)
            if low <= question.index <= high:
                asked.append(question)
    return asked


def _places(operator: AnyOperator) -> list[tuple[OperatorDesc, str, int]]:
    """Returns (descriptor, field, coordinate) of the places to ask: for each index tensor that of a single index, and those in
    a tuple of two.

    Random descriptors, which follow from the operator alone, are looked at. Of each kind of place the one is taken that has
    elements before the dimension and behind it, and at which the fewest explanations predict the same.
    """
    source = SeededSource(0)
    best: dict[tuple[str, int, int], tuple[tuple[int, ...], OperatorDesc]] = {}
    for number in range(DRAWS):
        desc = operator.draw(source, 2 + number % 3, MAX_ELEMENTS)
        if not _usable(desc):
            continue
        for field, bounds in desc.index_bounds.items():
            for coordinate, size in enumerate(bounds):
                if size not in SIZES or len(bounds) > 2 or desc.index_counts[field] < 2:
                    continue
                place, kind = _place(desc, field, coordinate), (field, len(bounds), coordinate)
                rank = (-place.in_the_middle, _ties(place), desc.output.element_count, number)
                if kind not in best or rank < best[kind][0]:
                    best[kind] = rank, desc
    return [(desc, field, coordinate) for (field, _, coordinate), (_, desc) in sorted(best.items(), key=lambda e: e[0])]


def _usable(desc: OperatorDesc) -> bool:
    """Whether a descriptor reads one tensor at indices, and all its tensors are small.

    The input is a multiple of 4 bytes for each data type: DirectML rounds a tensor up to that, and the elements in between would
    be neither inside nor outside of it.
    """
    statements = desc.access.statements
    if len(statements) != 1 or not isinstance(statements[0], Move):
        return False
    reads = statements[0].source.indexed_dimensions and not statements[0].target.indexed_dimensions
    small = max(tensor.element_count for tensor in desc.tensors.values()) <= MAX_ELEMENTS
    return bool(reads) and small and desc.tensors[_source(desc)].element_count % 4 == 0


def _ties(place: Place) -> int:
    """The number of pairs of equally simple explanations that predict the same, over all invalid indices."""
    ties = 0
    for index_type in (DataType.INT32, DataType.UINT32, DataType.INT64, DataType.UINT64):
        low, high = index_type.limits
        for position in POSITIONS.values():
            if low <= position(place.size) <= high:
                predicted = predictions(place, position(place.size), index_type)
                ties += sum(
                    one.count(",") == other.count(",") and not predicted[one].isdisjoint(predicted[other])
                    for one, other in combinations(predicted, 2)
                )
    return ties
