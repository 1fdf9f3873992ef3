"""Questions about invalid indices: which index to give, in which case, and what each explanation says is read.

A question is a case in which every second index is out of range, always with the same value. Every element of its data
is unique and none is zero, so that each element of the output shows where it was read. An explanation is a simple rule
for what an implementation may do with the index. `predictions` gives the addresses that each explanation predicts.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, product
from operator import itemgetter

from ..descriptors import OperatorDesc
from ..operators import Operator
from ..operators.random_source import SeededSource
from ..pseudocode.access import Move
from ..tensors import DataType, Tensor
from .case import Case, case_id, retyped
from .random_cases import dimension_counts, index_types
from .values import fill

DATA_TYPES = ("FLOAT32", "UINT8", "FLOAT16", "INT64")
"""The data types of the questions: one for each width."""

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

FEWEST = 3
"""The fewest output elements that the invalid index chooses."""

DRAWS = 1000
"""The number of random descriptors of an operator among which those of the questions are chosen."""

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
    def place(self) -> IndexPosition:
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
CUT_64 = "cut to 64 bits"
SIGNED = "read as signed"
UNSIGNED = "read as unsigned"
ZERO = "zero"
"""The words of the explanations; opmap manual survey says what each means. An explanation is one word, or several with
commas between."""


def simplest(explanations: Iterable[str]) -> list[str]:
    """Returns the explanations, in alphabetical order, without those that only add words to another one."""
    words = {explanation: {*explanation.split(", ")} for explanation in explanations}
    return sorted(text for text in words if not any(words[other_text] < words[text] for other_text in words))


@dataclass(frozen=True)
class IndexPosition:
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
        """The number of sides of the dimension, before and behind it, that have elements: 0, 1 or 2."""
        return (min(self.steps) > 1) + (max(self.steps) * self.size < self.count)


def predictions(place: IndexPosition, index: int, index_type: DataType) -> dict[str, set[tuple[int, ...]]]:
    """Returns the addresses that each explanation predicts for the affected elements.

    An explanation may allow several: for example, whether a negative index counts from the end before it is clamped is
    left open.
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
            add([reading, CUT_64, MEMORY], (min(max(_signed(a, 64), 0), last) for a in linear))
    return predicted


def _readings(index: int, index_type: DataType) -> Iterator[tuple[str, int]]:
    """Gives the values that an index may be taken for, each with the word for it."""
    yield "", index
    low = index % _UINT32
    if index_type.size == 8:
        for value in sorted({low, _signed(low, 32)} - {index}):
            yield CUT, value
    elif index < 0:
        yield UNSIGNED, low
    signed = _signed(index, index_type.size * 8)
    if signed != index:
        yield SIGNED, signed


def _signed(number: int, bits: int) -> int:
    """Returns the low bits of a number, read as a signed number."""
    half = 1 << bits - 1
    return (number + half) % (2 * half) - half


def _place(desc: OperatorDesc, field: str, coordinate: int) -> IndexPosition:
    """Returns the place of an index, from the addresses that the access map gives for the valid indices 0 and 1."""

    def origins(index: int) -> Sequence[int | None]:
        return desc.origins(_tensors(desc, {field: (coordinate, index)}))

    size = desc.index_bounds[field][coordinate]
    affected = tuple(i for i, origin in enumerate(origins(size)) if origin is None)
    first, second = ([a for i in affected if (a := at[i]) is not None] for at in (origins(0), origins(1)))
    steps = tuple(b - a for a, b in zip(first, second, strict=True))
    return IndexPosition(size, desc.tensors[_source(desc)].element_count, affected, tuple(first), steps)


def _source(desc: OperatorDesc) -> str:
    """Returns the field of the tensor that is read."""
    (name,) = desc.access.sources
    return desc.own_spec.pseudocode.tensors[name]


# --- cases ---


def _case(desc: OperatorDesc, name: str, invalid: Mapping[str, tuple[int, int]]) -> Case:
    return Case(f"survey/{case_id(desc, name, 'unique')}", desc, _tensors(desc, invalid))


def _tensors(desc: OperatorDesc, invalid: Mapping[str, tuple[int, int]]) -> dict[str, Tensor]:
    """Returns the inputs. `invalid` gives the (coordinate, value) of every second index of a field."""
    tensors = fill(desc, "", "identity", "addr")
    for name in desc.own_spec.data_tensors:
        tensors[name] = _unique(tensors[name])
    for name, (coordinate, value) in invalid.items():
        size, values = len(desc.index_bounds[name]), list(tensors[name].integers)
        places = range(size + coordinate, len(values), 2 * size)
        for i in places:
            values[i] = value
        tensors[name] = Tensor.from_values(tensors[name].data_type, tensors[name].sizes, values)
    return tensors


def _unique(tensor: Tensor) -> Tensor:
    """Returns a tensor of this type and sizes whose elements are unique, not zero and, if they are floats, plain
    numbers.
    """
    data_type, count = tensor.data_type, len(tensor.bits)
    if data_type.kind == "float":
        return Tensor.from_values(data_type, tensor.sizes, [512.5 + i for i in range(count)])
    width = data_type.size * 8
    factor = 0x9E3779B97F4A7C15 >> 64 - width | 1  # odd, so that different addresses give different values
    bits = array(data_type.bits_code, [(i + 1) * factor % (1 << width) for i in range(count)])
    return Tensor(data_type, tensor.sizes, bits)


# --- which descriptors are asked ---


def questions(operator: Operator) -> list[Question]:
    """Returns the questions about an operator: each invalid index in each place, for each data type and index type.

    Each data type is asked about with a descriptor of its own, so that together they tell more explanations apart.
    There are no questions about an operator that does not read one tensor at indices.
    """
    all_questions: list[Question] = []
    types = index_types(operator.name)
    for ((field, _, coordinate), descs), index_type in product(_descriptors(operator) if types else (), types):
        low, high = index_type.limits
        for data_type, desc in zip(DATA_TYPES, cycle(descs)):
            typed = retyped(desc, DataType[data_type], index_type)
            if not typed.violations():
                asked = (Question(typed, field, coordinate, position) for position in POSITIONS)
                all_questions += (question for question in asked if low <= question.index <= high)
    return all_questions


def _descriptors(operator: Operator) -> list[tuple[tuple[str, int, int], list[OperatorDesc]]]:
    """Returns the descriptors for each kind of place, a (field, tuple size, coordinate), the best first.

    In the best ones, elements lie on both sides of the dimension, and the output is small. They are chosen among random
    descriptors, which follow from the operator alone.
    """
    source, (low, high) = SeededSource(0), dimension_counts(operator.name)
    kinds: dict[tuple[str, int, int], list[tuple[int, int, OperatorDesc]]] = {}
    for number in range(DRAWS):
        desc = operator.draw(source, min(max(2 + number % 3, low), high), MAX_ELEMENTS)
        if not _usable(desc):
            continue
        for field, bounds in desc.index_bounds.items():
            for coordinate, size in enumerate(bounds):
                if size not in SIZES or len(bounds) > 2 or desc.index_counts[field] < 2:
                    continue
                place = _place(desc, field, coordinate)
                if len(place.affected) >= FEWEST:
                    kind = kinds.setdefault((field, len(bounds), coordinate), [])
                    kind.append((-place.in_the_middle, desc.output.element_count, desc))
    return [
        (kind, [desc for *_, desc in sorted(ranked, key=itemgetter(0, 1))]) for kind, ranked in sorted(kinds.items())
    ]


def _usable(desc: OperatorDesc) -> bool:
    """Returns whether a descriptor reads one tensor at indices, and all its tensors are small.

    The input is a multiple of 4 bytes for each data type: DirectML rounds a tensor up to that, and the elements in
    between would be neither inside nor outside of it.
    """
    statements = desc.access.statements
    if len(statements) != 1 or not isinstance(statements[0], Move):
        return False
    reads = statements[0].source.indexed_dimensions and not statements[0].target.indexed_dimensions
    small = max(tensor.element_count for tensor in desc.tensors.values()) <= MAX_ELEMENTS
    return bool(reads) and small and desc.tensors[_source(desc)].element_count % 4 == 0
