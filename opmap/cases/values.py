"""The values of a generated case's inputs. They follow from the case id alone: no clock, no global random state."""

from __future__ import annotations

import hashlib
import random
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from math import prod
from typing import ClassVar, TypeAlias

import numpy as np

from ..descriptors import OperatorDesc, TensorDesc
from ..pseudocode import is_unsaid, strides_of
from ..spec import Spec
from ..tensors import DataType, Tensor, is_nan, limit_values, powers_of_two, quarters, special_values, to_bits
from .written_once import rows_of, written

FAR = "far"

INDEX_PATTERNS = ("identity", "reverse", "random", "one", "neg", "mix", "bounds", "dups", "asc")
"""How the indices of a case are chosen, for an axis of n elements.

- `identity`: 0, 1, ..., n - 1, and again from 0.
- `reverse`: n - 1, ..., 1, 0, and again from n - 1.
- `random`: random elements in no order; the first and the last element are among them.
- `one`: one random element, repeated.
- `neg`: negative indices only; the limits -n and -1 come first.
- `mix`: negative and other indices; the limits -n, n - 1, -1 and 0 come first.
- `bounds`: the limits only.
- `dups`: random elements, each twice in a row.
- `asc`: random elements in ascending order.

- `far`: indices beyond the elements, such as the limits of the data type; among them the first and the last element.
  Only where the page says what every index means.

Indices that write are chosen place by place, and all of a place differ: see `written_once`. `dups` writes elements
twice.

An index tuple counts as one index. Its number is the row-major position of the element that it names, among all
elements that a tuple can name."""

DATA_PATTERNS = ("addr", "special")
"""How the data of a case is chosen.

- `addr`: every element is unique, so that its value reveals its address.
- `special`: values that a conversion to another type would change. Every fourth element is a unique value instead.

If a data type has fewer values than the tensors have elements, `addr` becomes several rounds (`addr0`, `addr1`, ...),
one case each: round r holds digit r of each element's address."""

MOST_KEPT = 1 << 21
"""The most elements that stay in memory for cases whose values are computed when they are read, beside the last
case's."""

TENSOR = 1024
"""How many elements a tensor counts in addition to its own: its Python objects take more memory than a few elements."""

Bits: TypeAlias = "array[int]"
"""Bit patterns, one unsigned integer per element."""

MODEL_PATTERNS = ("pos", "neg", "mix")
"""The index patterns of the models in models/. `pos` has no negative indices; the limits come first."""

_SIGNED = ("neg", "mix")
_NEED_THREE_INDICES = ("reverse", "random", "one", "mix", "bounds", "dups", "asc", FAR)
_NEED_TWO_ELEMENTS = ("reverse", "random", "dups", "asc")
_DIFFERENT = {"one": 1, "bounds": 2}  # pattern -> how many different elements it names

# Width in bytes -> factor. Multiplication by an odd factor modulo a power of two maps different addresses to different
# values, and spreads the bits of neighbouring addresses over the whole value.
_SPREAD = {1: 0xA7, 2: 0x9E37, 4: 0x9E3779B1, 8: 0x9E3779B97F4A7C15}


@lru_cache(maxsize=1024)
def seed_of(case: str) -> int:
    """Returns a number that depends on the case id only."""
    return int.from_bytes(hashlib.sha256(case.encode()).digest()[:8], "big")


def index_patterns(spec: Spec) -> tuple[str, ...]:
    """Returns the index patterns that the cases of an operator may have."""
    patterns = (*INDEX_PATTERNS, FAR) if spec.takes_any_index else INDEX_PATTERNS
    types = spec.support[0].tensors[spec.index_tensors[0]].data_types if spec.index_tensors else ()
    return tuple(p for p in patterns if not (signed(p) and types and all(t.startswith("U") for t in types)))


def signed(pattern: str) -> bool:
    """Returns whether an index pattern needs a signed data type."""
    return pattern in _SIGNED


def allows(pattern: str, indices: int, elements: int, group: int = 1) -> bool:
    """Returns whether this many indices into this many elements can show a pattern; `group` of them must differ.

    Some patterns need three indices, some need two elements to choose from.
    """
    if group > _DIFFERENT.get(pattern, group):
        return False
    enough_indices = indices > 2 or pattern not in _NEED_THREE_INDICES
    return enough_indices and (elements > 1 or pattern not in _NEED_TWO_ELEMENTS)


def rounds(desc: OperatorDesc, data: str) -> list[str]:
    """Returns the names of the rounds that a data pattern needs: one per digit of the largest address.

    If one round is enough, its name is the pattern's. Without data, there is one round.
    """
    data_tensors = [desc.tensors[name] for name in desc.own_spec.data_tensors]
    if not data_tensors:
        return [data]
    last = sum(t.element_count for t in data_tensors) - 1
    width = min(t.data_type.size for t in data_tensors) * 8
    digits = max(-(-last.bit_length() // width), 1)
    return [data] if data != "addr" or digits == 1 else [f"{data}{i}" for i in range(digits)]


class Filled(Mapping[str, Tensor]):
    """The inputs of a case by field. Each is computed when it is read.

    Only the inputs of the cases that were read last stay in memory. So a list of many cases stays small.
    """

    _last: ClassVar[dict[tuple[int, str], tuple[Filled, Tensor]]] = {}
    """The inputs that were read last, with the object that they belong to: by that object's identity and the field."""

    _kept_size: ClassVar[int] = 0
    """The size of these inputs: the number of their elements, plus TENSOR for each input."""

    def __init__(self, desc: OperatorDesc, case: str, pattern: str, data: str) -> None:
        self._arguments = desc, case, pattern, data

    def of(self, desc: OperatorDesc) -> Filled:
        """Returns the same for an equal descriptor, as if nothing had been read."""
        return Filled(desc, *self._arguments[1:])

    def __getitem__(self, name: str) -> Tensor:
        key = id(self), name
        if key not in Filled._last:
            count = self._arguments[0].tensors[name].element_count + TENSOR
            if Filled._kept_size + count > MOST_KEPT:  # before the new ones take memory
                Filled._last = {k: entry for k, entry in Filled._last.items() if k[0] == id(self)}
                Filled._kept_size = sum(len(tensor.bits) + TENSOR for _, tensor in Filled._last.values())
            Filled._last[key] = self, fill(*self._arguments, only=name)[name]
            Filled._kept_size += count
        return Filled._last[key][1]

    def __contains__(self, name: object) -> bool:
        return name in self._arguments[0].inputs  # without computing it

    def __iter__(self) -> Iterator[str]:
        return iter(self._arguments[0].inputs)

    def __len__(self) -> int:
        return len(self._arguments[0].inputs)


def fill(desc: OperatorDesc, case: str, pattern: str, data: str, *, only: str | None = None) -> dict[str, Tensor]:
    """Returns the inputs of a case by field: index tensors by the index pattern, all others by the data pattern.

    If there are several index tensors, they get different values. If there are several data tensors, `addr` makes each
    element unique among the elements of all of them. With `only`, the input of this field is the only one. Raises
    InputError if an index does not fit its data type.
    """
    seed, elements, index_tensors = seed_of(case), 0, desc.index_tensors()
    tensors = {}
    for name in desc.inputs:
        tensor = desc.tensors[name]
        count, indices = tensor.element_count, name in index_tensors
        if only not in (None, name):
            elements += 0 if indices else count
            continue
        if indices:
            own_seed = seed + index_tensors.index(name)
            bounds, ignored = desc.index_bounds[name], desc.access.ignores_outside
            values = _indices(bounds, count, pattern, own_seed, tensor.data_type, ignored)
            if pattern != FAR and (rows := rows_of(desc, name)) is not None:
                values = written(values, rows, bounds, pattern)
            bits = _repeated(_index_bits(tensor.data_type, values, max(bounds)), count)
        else:
            bits = _data(tensor.data_type, elements + count, data, seed)
            if elements:
                del bits[:elements]
            elements += count
            if how := desc.own_spec.field(name).chosen:
                first = desc.own_spec.first_data
                others = bits if how != "near" else fill(desc, case, pattern, data, only=first)[first].bits
                bits = CHOSEN[how](tensor.data_type, bits, others, data == "special")
        tensors[name] = as_stored(tensor, Tensor(tensor.data_type, tensor.sizes, bits))
    return tensors


def _shifts(data_type: DataType, bits: Bits, others: Sequence[int], special: bool) -> Bits:
    """Returns numbers by which to shift, below the width of the data type.

    If special ones are among them, one of eleven elements is the width, and one is any number.
    """
    width = data_type.size * 8
    numbers = array(bits.typecode, [n % width for n in bits])
    for i, n in enumerate(bits if special else ()):
        numbers[i] = width if i % 11 == 5 else n if i % 11 == 9 else numbers[i]
    return numbers


def _truths(data_type: DataType, bits: Bits, others: Sequence[int], special: bool) -> Bits:
    """Returns truth values: 0, 1, and some other numbers than 0."""
    return array(bits.typecode, [n if n & 6 == 2 else n >> 3 & 1 for n in bits])


def _near(data_type: DataType, bits: Bits, others: Sequence[int], special: bool) -> Bits:
    """Returns bit patterns of which most are those of the other tensor, or next to them."""
    mask = (1 << data_type.size * 8) - 1
    pairs = zip(bits, others, strict=True)
    return array(bits.typecode, [n if n & 3 == 3 else other + (n >> 2) % 3 - 1 & mask for n, other in pairs])


def _small(data_type: DataType, bits: Bits, others: Sequence[int], special: bool) -> Bits:
    """Returns small whole numbers. If special ones are among them, one of 29 elements keeps its bits."""
    small = small_values(data_type)
    numbers = array(bits.typecode, [small[n % len(small)] for n in bits])
    if special:
        numbers[17::29] = bits[17::29]
    return numbers


def _ties(data_type: DataType, bits: Bits, others: Sequence[int], special: bool) -> Bits:
    """Returns small whole numbers; one of three elements keeps its bits, if it is no NaN."""
    numbers = _small(data_type, bits, others, special)
    for i in range(1, len(bits), 3):
        if not is_nan(data_type, bits[i]):
            numbers[i] = bits[i]
    return numbers


@cache
def small_values(data_type: DataType) -> Bits:
    """Returns the bit patterns of small whole numbers."""
    return to_bits(data_type, range(7) if data_type.kind == "unsigned" else range(-3, 4))


def _halves(data_type: DataType, bits: Bits, others: Sequence[int], special: bool) -> Bits:
    """Returns numbers near 0 in place of some special ones: halves, quarters, both zeros."""
    return _of_numbers(bits, quarters(data_type), 2) if special else bits


def _powers(data_type: DataType, bits: Bits, others: Sequence[int], special: bool) -> Bits:
    """Returns powers of two; the other integers beside them are neither 0 nor -1, by which a processor may refuse to
    divide.
    """
    refused = () if data_type.kind == "float" else (0, (1 << data_type.size * 8) - 1)
    return _of_numbers(bits, powers_of_two(data_type), int(special), refused)


def _limits(data_type: DataType, bits: Bits, others: Sequence[int], special: bool) -> Bits:
    """Returns limits of data types, and numbers next to them. If `special`, one of five elements keeps its bits."""
    return _of_numbers(bits, limit_values(data_type), int(special))


def _of_numbers(bits: Bits, numbers: Bits, kept: int, refused: Sequence[int] = ()) -> Bits:
    """Returns numbers in place of bit patterns; `kept` of five stay, if they are not refused."""

    def chosen(i: int, n: int) -> int:
        is_kept = (n + i) % 5 < kept and n not in refused
        return n if is_kept else numbers[(n + i * 7) % len(numbers)]

    return array(bits.typecode, [chosen(i, n) for i, n in enumerate(bits)])


CHOSEN: Mapping[str, Callable[[DataType, Bits, Sequence[int], bool], Bits]] = {
    "shifts": _shifts,
    "truth": _truths,
    "near": _near,
    "small": _small,
    "ties": _ties,
    "halves": _halves,
    "powers": _powers,
    "limits": _limits,
}
"""How the values of a field are chosen (`Field.chosen`) -> a function that makes them of the data type, of bit patterns
and of those of the first data tensor; and whether special values are among them."""


def as_stored(desc: TensorDesc, tensor: Tensor) -> Tensor:
    """Returns a packed tensor with the values that memory holds in a desc's layout.

    If several elements have one address, the last one stays.
    """
    if desc.packed:
        return tensor
    bits = array(tensor.data_type.bits_code, desc.read(desc.write(tensor.bits, 0)))
    return Tensor(tensor.data_type, tensor.sizes, bits)


def _array(bits: np.ndarray) -> Bits:
    """Returns the elements of a NumPy array, copied into a Python array of the same element size."""
    copied: Bits = array({1: "B", 2: "H", 4: "I", 8: "Q"}[bits.dtype.itemsize])
    copied.frombytes(bits.tobytes() if not bits.flags.c_contiguous else bits.view(np.uint8).data)
    return copied


def _repeated(bits: np.ndarray, count: int) -> Bits:
    """Returns the elements, repeated until there are `count`."""
    repeated = _array(bits)
    if len(bits) != count:
        repeated *= -(-count // len(bits))
        del repeated[count:]
    return repeated


def _index_bits(data_type: DataType, values: np.ndarray, largest: int) -> np.ndarray:
    """Returns the bit patterns of indices into at most `largest` elements.

    Raises InputError if one does not fit the data type.
    """
    low, high = data_type.limits
    if largest > high and (int(values.min()) < low or int(values.max()) > high):
        to_bits(data_type, values.tolist())  # its error names the value
    return values.astype(f"<u{data_type.size}")


def _indices(
    bounds: tuple[int, ...], count: int, pattern: str, seed: int, data_type: DataType, ignored: bool = False
) -> np.ndarray:
    """Returns the index values; only one period if they are periodic. `count` is the number of all index values.

    `ignored` is whether the page ignores an index that exceeds the number of elements; it may say nothing of other
    ones.
    """
    tuples = count // len(bounds)
    if pattern in MODEL_PATTERNS:
        return _indices_of_models(bounds, tuples, pattern, seed)
    if pattern == "bounds":
        signed = data_type.kind == "signed"
        return np.array([*(-n if signed else 0 for n in bounds), *(n - 1 for n in bounds)], np.int64)
    if pattern == FAR:
        return _far(data_type, bounds[0], count, seed, ignored)
    addresses = _chosen(prod(bounds), tuples, pattern, seed)
    if len(bounds) == 1:
        return addresses
    strides = np.array(strides_of(bounds), np.int64)
    return (addresses[:, np.newaxis] // strides % np.array(bounds, np.int64)).ravel()


def _indices_of_models(bounds: tuple[int, ...], tuples: int, pattern: str, seed: int) -> np.ndarray:
    """Returns the index values of a pattern of MODEL_PATTERNS: the limits of each coordinate, then random values."""
    ranges = [{"pos": (0, n), "neg": (-n, 0), "mix": (-n, n)}[pattern] for n in bounds]
    limits = [(low, high - 1, -1, 0) if pattern == "mix" else (low, high - 1) for low, high in ranges]
    shown = min(len(limits[0]), tuples) if tuples > 1 else 0
    low, high = np.array(ranges, np.int64).T
    fractions = _random((tuples - shown) * len(bounds), seed).reshape(-1, len(bounds))
    values = low + (fractions * (high - low)).astype(np.int64)
    return np.concatenate([np.array([limit[i] for i in range(shown) for limit in limits], np.int64), values.ravel()])


def _chosen(total: int, count: int, pattern: str, seed: int) -> np.ndarray:
    """Returns the positions, below `total`, that `count` indices name; only one period if they are periodic."""
    if pattern == "identity":
        return np.arange(min(count, total), dtype=np.int64)
    if pattern == "reverse":
        return np.arange(total - 1, max(total - count, 0) - 1, -1, dtype=np.int64)
    if pattern == "one":
        return np.array([total - 1 - int(random.Random(seed).random() * (total - 1))], np.int64)
    drawn = (_random(max(count - 3, 0), seed) * total).astype(np.int64)
    elements = np.concatenate([np.array([total - 1, 0, total - 1], np.int64), drawn])[:count]
    if pattern == "asc":
        return np.sort(elements)
    return elements if pattern == "random" else np.repeat(elements, 2)[:count]


def _far(data_type: DataType, n: int, count: int, seed: int, ignored: bool) -> np.ndarray:
    """Returns numbers of which about half name none of n elements, as INT64 with the bits of the data type."""
    low, high = data_type.limits
    edges = [n, high, 0, low, n - 1, -n - 1, -n, 2**31, 2**32, 2**32 + n - 1, 2**31 + n - 1, high - n + 1, 2 * n]
    edges = [edge for edge in edges if low <= edge <= high and not (ignored and is_unsaid(edge, n))]
    fitting = [edge - (1 << 64 if edge >> 63 > 0 else 0) for edge in edges]
    drawn = (_random(count, seed) * len(fitting)).astype(np.int64)
    drawn[: len(fitting)] = np.arange(len(fitting))[:count]
    return np.array(fitting, np.int64)[drawn]


def _random(count: int, seed: int) -> np.ndarray:
    """Returns the next `count` results of `random.Random(seed).random()`."""
    source = random.Random(seed)
    return np.array([source.random() for _ in range(count)], np.float64)


def _data(data_type: DataType, count: int, pattern: str, seed: int) -> Bits:
    """Returns the bit patterns of `count` elements.

    With `addr`, element i holds a digit of i, spread over all bits. With `special`, only every fourth element holds
    such a digit, and the others hold special values.
    """
    width, unsigned = data_type.size * 8, np.dtype(f"<u{data_type.size}").type
    mask = (1 << width) - 1
    factor, start = _SPREAD[data_type.size], seed & mask

    def spread(first: int, step: int, count: int) -> np.ndarray:
        """Returns the unique values of `count` addresses: `first`, `first + step` and so on; only one period."""
        numbers = np.arange(min(count, 1 << width), dtype=unsigned)
        numbers *= unsigned(step * factor & mask)  # modulo 2**width, as all sums and products of unsigned arrays
        numbers += unsigned(start + first * factor & mask)
        return numbers

    if pattern != "special":
        # The number of consecutive elements that have the same digit.
        run = 1 << width * int(pattern.removeprefix("addr") or 0)
        digits = spread(0, 1, -(-count // run))
        return _repeated(np.repeat(digits, min(run, count)) if run > 1 else digits, count)
    values = _special_values(data_type)
    # Both kinds of elements have periods: one of four times the number of special values, one of all digits.
    period = min(count, 4 * len(values))
    special = np.empty(4 * len(values), unsigned)
    for i in range(3):
        special[i::4] = values[((seed + i) % len(values) + 3 * np.arange(len(values))) % len(values)]
    bits = _repeated(special[:period], count)
    if count > 3:
        elements = len(range(3, count, 4))
        np.frombuffer(bits, unsigned)[3::4] = np.frombuffer(_repeated(spread(3, 4, elements), elements), unsigned)
    return bits


@cache
def _special_values(data_type: DataType) -> np.ndarray:
    return np.array(special_values(data_type), np.uint64).astype(f"<u{data_type.size}")
