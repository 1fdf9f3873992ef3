"""The equivalence classes of lengths, counts, axes and sizes that operators use for their parameters.

For each kind of class there is a function from a number to its class. An operator needs them for `classify(desc)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..descriptors import TensorDesc
from ..tensors import Tensor, float_limits

LENGTHS: Mapping[str, tuple[int, ...]] = {
    "1": (1,),
    "2": (2,),
    "odd": (5, 3, 7, 9),
    "power": (8, 4, 16, 32),
    "129+": (129, 255, 256),
    "257+": (257, 341, 258),
    "32769+": (43691, 32769),
    "65537+": (87381, 65537),
}
"""Class of an axis length -> example lengths.

`odd` and `power` (a power of two) are from 3 to 128. The examples of a class such as `257+` are either just above the
limit, or a third above it: then a quarter of all indices is beyond the limit."""

COUNTS = ("0", "1", "2+")
"""Classes of a count: none, one, two or more."""

PLACES = ("first", "middle", "last")
"""Classes of an axis. The axis of a tensor with one dimension is `first`."""

TENSORS = ("1", "2", "3", "4+", "17+")
"""Classes of the number of tensors in an array."""

SPREADS = ("one", "equal", "unequal")
"""Classes of the lengths of an array's tensors along an axis; `one` if there is one tensor."""

ELEMENTS = ("255", "256", "257", "other")
"""Classes of an output's number of elements. 256 elements fill one thread group exactly; one element less or more does
not."""

LARGE: Mapping[str, Mapping[str, int]] = {
    "output_elements": {
        "65535*256-1": 65535 * 256 - 1,  # as many thread groups as one dispatch can have
        "65535*256+1": 65535 * 256 + 1,
        "2^27-1": 2**27 - 1,  # as many elements as a typed buffer can have
        "2^27+1": 2**27 + 1,
    },
    "axis_length": {"16777217+": 2**24 + 2},  # FLOAT32 cannot hold the highest index exactly
}
"""Parameter -> class -> the number that is built. These classes are so large that only the tier `full` has them, each
in one case with a data type of one byte."""

WIDE: Mapping[str, Mapping[str, int]] = {"output_elements": {n: int(n) for n in ("1027", "4098", "65541")}}
"""Parameter -> class -> the number that is built. These outputs need several thread groups. The tier `standard` has
each class twice: with few indices and with many."""

SCALARS = ("0", "lowest", "highest", "33 bits", "special", "other")
"""Classes of a scalar: both ends of its data type, numbers that take more than 32 bits, floats that are no usual
numbers."""

FLOATS = tuple(name for name in SCALARS if name != "33 bits")
"""Classes of a scalar that is a FLOAT."""

MATRICES = ("square", "wide", "high")
"""Classes of the sizes of a matrix."""

LAYOUTS = ("packed", "permuted", "repeated", "both", "gaps")
"""Classes of the layout of a tensor in memory: `repeated` has a dimension with the stride 0; `gaps` may be the others
too."""

BYTES = ("whole", "part")
"""Classes of an output's size in bytes: `whole` is a multiple of 4, `part` is not."""

_EXACT = {**WIDE["output_elements"], **LARGE["output_elements"]}  # class -> the one number of elements in it
_CLASS_OF_ELEMENTS = {n: name for name, n in _EXACT.items()}


def length(n: int) -> str | None:
    """Returns the class of an axis length; None for an even length up to 128 that is no power of two."""
    if n > 2**24:
        return "16777217+"
    if n > 128:
        return "65537+" if n > 65536 else "32769+" if n > 32768 else "257+" if n > 256 else "129+"
    return str(n) if n < 3 else "odd" if n % 2 else "power" if n & n - 1 == 0 else None


def count(n: int, last: int = 2) -> str:
    """Returns the class of a count: the number itself below `last`, and `2+` (with `last` for the 2) from there on."""
    return str(n) if n < last else f"{last}+"


def matrix(height: int, width: int) -> str:
    """Returns the class of the sizes of a matrix."""
    return "square" if height == width else "wide" if width > height else "high"


def diagonal(offset: int, height: int, width: int) -> str:
    """Returns where a diagonal is: `within` a matrix, `below` or `above` it.

    `offset` is where it crosses the first row.
    """
    return "below" if offset <= -height else "above" if offset >= width else "within"


def place(axis: int, dimensions: int) -> str:
    """Returns the class of an axis of a tensor with this many dimensions."""
    return "first" if axis == 0 else "last" if axis == dimensions - 1 else "middle"


def scalar(value: Tensor) -> str:
    """Returns the class of a scalar."""
    data_type, (bits,), (number,) = value.data_type, value.bits, value.values
    if bits == 0:
        return "0"
    if data_type.kind != "float":
        ends = {data_type.limits[0]: "lowest", data_type.limits[1]: "highest"}
        return ends.get(int(number), "33 bits" if not -(2**32) < number < 2**32 else "other")
    lowest, highest = float_limits(data_type)
    if abs(number) == highest:
        return "highest" if number > 0 else "lowest"
    return "other" if lowest <= abs(number) < highest else "special"


def tensors(n: int) -> str:
    """Returns the class of the number of tensors in an array."""
    return str(n) if n < 4 else "4+" if n < 17 else "17+"


def spread(lengths: Collection[int]) -> str:
    """Returns the class of the lengths of an array's tensors along an axis."""
    return "one" if len(lengths) == 1 else "equal" if len(set(lengths)) == 1 else "unequal"


def elements(n: int) -> str:
    """Returns the class of an output's number of elements."""
    if 255 <= n <= 257:
        return str(n)
    return _CLASS_OF_ELEMENTS.get(n, "other")


def layout(tensor: TensorDesc) -> str:
    """Returns the class of how a tensor's elements lie in memory."""
    ranks, gap = tensor.layout
    repeated = any(size > 1 > rank for size, rank in zip(tensor.sizes, ranks, strict=True))
    placed = [rank for size, rank in zip(tensor.sizes, ranks, strict=True) if size > 1 and rank]
    permuted = placed != sorted(placed, reverse=True)
    return "gaps" if gap else LAYOUTS[permuted + 2 * repeated]


def whole(size: int) -> str:
    """Returns the class of a size in bytes."""
    return "part" if size % 4 else "whole"


def leading_ones(sizes: tuple[int, ...]) -> int:
    """Returns how many leading sizes are 1."""
    return next((i for i, size in enumerate(sizes) if size != 1), len(sizes))
