"""DML_BUFFER_TENSOR_DESC, and the rules of every tensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple, TypeVar

from ..errors import shown
from ..limits import MAX_STRIDED_ELEMENTS
from ..pseudocode import show, strides_of
from ..spec import tensor_rules
from ..tensors import DataType

_UINT32 = 2**32

E = TypeVar("E")


@dataclass(frozen=True)
class Violation:
    """One broken rule: its id, the field that breaks it, the wanted value and the value that was given."""

    rule: str
    subject: str
    wanted: str
    got: str

    @property
    def message(self) -> str:
        """The text `must be …, got …`."""
        return f"must be {self.wanted}, got {self.got}"

    def __str__(self) -> str:
        return f"{self.subject} {self.message} ({self.rule})"


class Layout(NamedTuple):
    """How the elements of a tensor lie in memory, whatever its sizes.

    `ranks` has one number per dimension: the lowest for the dimension whose neighbours are closest, and 0 for one that
    has the stride 0: all its positions are one. `gap` elements stay free between two neighbours, and as many behind
    each dimension.
    """

    ranks: tuple[int, ...]
    gap: int = 0

    def strides(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Returns the strides of a tensor of these sizes.

        Of dimensions with equal ranks, the last one is the inner one.
        """
        strides, step = [0] * len(sizes), 1 + self.gap
        for dimension in sorted(range(len(sizes)), key=lambda d: (self.ranks[d], -d)):
            if self.ranks[dimension]:
                strides[dimension] = step
                step = step * sizes[dimension] + self.gap
        return tuple(strides)


@dataclass(frozen=True)
class TensorDesc:
    """DML_BUFFER_TENSOR_DESC: a tensor's data type, sizes, strides and size in bytes.

    Strides count elements; None means a packed tensor.

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_buffer_tensor_desc
    """

    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    total_tensor_size_in_bytes: int | None = None
    guaranteed_base_offset_alignment: int = 0
    owned_by_dml: bool = False

    @property
    def dimension_count(self) -> int:
        """DimensionCount: the number of sizes."""
        return len(self.sizes)

    @property
    def element_count(self) -> int:
        """The number of elements: the product of the sizes."""
        return prod(self.sizes)

    @property
    def packed(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        if self.strides is None:
            return True
        packed = strides_of(self.sizes)
        return all(n == 1 or s == p for n, s, p in zip(self.sizes, self.strides, packed, strict=False))

    @property
    def strides_text(self) -> str:
        """` strides {1,2}`, to be written behind the sizes; empty for a packed tensor."""
        return "" if self.packed else f" strides {show(self.strides)}"

    @property
    def layout(self) -> Layout:
        """How the elements lie in memory. Strides that are in no such layout are given as one with gaps."""
        count, strides = self.dimension_count, self.strides or strides_of(self.sizes)
        # a dimension of size 1 has the stride of the one around it, in the order of a packed tensor
        inner = sorted((d for d in range(count) if strides[d]), key=lambda d: (strides[d], self.sizes[d] != 1, -d))
        layout = Layout(tuple(inner.index(d) + 1 if d in inner else 0 for d in range(count)))
        pairs = zip(self.sizes, strides, layout.strides(self.sizes), strict=True)
        return layout if all(n == 1 or given == dense for n, given, dense in pairs) else layout._replace(gap=1)

    def laid_out(self, layout: Layout) -> TensorDesc:
        """Returns the tensor in a layout. Packed strides are left out."""
        desc = dataclasses.replace(self, strides=layout.strides(self.sizes))
        return dataclasses.replace(desc, strides=None) if desc.packed else desc

    @property
    def buffer_element_count(self) -> int:
        """The number of elements that a buffer needs to hold the tensor, gaps included."""
        strides = self.strides or strides_of(self.sizes)
        return 1 + sum((n - 1) * s for n, s in zip(self.sizes, strides, strict=False))

    @property
    def minimum_size_in_bytes(self) -> int:
        """The smallest valid TotalTensorSizeInBytes: all bytes up to the last element, rounded up to 4 bytes."""
        return -(-self.buffer_element_count * self.data_type.size // 4) * 4

    def read(self, buffer: Sequence[int]) -> Sequence[int]:
        """Returns the elements of a buffer in row-major order, read with the strides. Takes memory for each address."""
        return buffer[: self.element_count] if self.packed else [buffer[a] for a in self._addresses()]

    def write(self, elements: Sequence[E], fill: E) -> Sequence[E]:
        """Returns a buffer that holds these elements, which are in row-major order; `fill` where no element lies.

        It holds the strides' gaps and, if TotalTensorSizeInBytes is given, as many bytes. Takes memory for each
        address.
        """
        buffer = [fill] * self.whole_element_count
        for address, element in zip(self._addresses(), elements, strict=True):
            buffer[address] = element
        return buffer

    @property
    def whole_element_count(self) -> int:
        """The number of elements that a buffer needs: those of `buffer_element_count`, or TotalTensorSizeInBytes."""
        return max(self.buffer_element_count, -(-(self.total_tensor_size_in_bytes or 0) // self.data_type.size))

    def _addresses(self) -> Sequence[int]:
        """Returns where each element lies in a buffer, in row-major order."""
        addresses = [0]
        for size, stride in zip(self.sizes, self.strides or strides_of(self.sizes), strict=True):
            addresses = [a + i * stride for a in addresses for i in range(size)]
        return addresses

    @property
    def _overlaps(self) -> bool:
        """Whether two elements have the same address.

        Where dimensions interleave, each element is looked at; more than MAX_STRIDED_ELEMENTS are taken to overlap.
        """
        if self.packed or self.strides is None:
            return False
        end = 1
        for stride, size in sorted(zip(self.strides, self.sizes, strict=True)):
            if size > 1 and stride < end:
                count = self.element_count
                return count > MAX_STRIDED_ELEMENTS or len(set(self._addresses())) < count
            end += (size - 1) * stride
        return False

    def violations(self, name: str, *, output: bool = False) -> Iterator[Violation]:
        """Gives the TENSOR rules that this tensor breaks, in their order; `name` is its field."""
        limits = tensor_rules()
        low, high = limits.dimension_counts
        if not low <= self.dimension_count <= high:
            yield Violation("TENSOR.C1", f"{name}.Sizes", f"{low} to {high} sizes", str(self.dimension_count))
        for i, size in enumerate(self.sizes):
            if not 1 <= size < _UINT32:
                yield Violation("TENSOR.C2", f"{name}.Sizes[{i}]", f"1 to {_UINT32 - 1}", shown(size))
                return
        if self.element_count > limits.maximum_elements:
            yield Violation(
                "TENSOR.C3",
                f"{name}.Sizes",
                f"of at most {limits.maximum_elements} elements",
                shown(self.element_count),
            )
        if self.strides is not None:
            if len(self.strides) != self.dimension_count:
                wanted = f"{self.dimension_count} strides, one per size"
                yield Violation("TENSOR.C4", f"{name}.Strides", wanted, str(len(self.strides)))
                return
            for i, stride in enumerate(self.strides):
                if not 0 <= stride < _UINT32:
                    yield Violation("TENSOR.C4", f"{name}.Strides[{i}]", f"0 to {_UINT32 - 1}", shown(stride))
                    return
        total = self.total_tensor_size_in_bytes
        if total is not None and not self.minimum_size_in_bytes <= total < 2**64:
            wanted = f"at least {shown(self.minimum_size_in_bytes)}" if total < 2**64 else "less than 2^64"
            yield Violation("TENSOR.C5", f"{name}.TotalTensorSizeInBytes", wanted, shown(total))
        alignment = self.guaranteed_base_offset_alignment
        if alignment and (alignment < self.data_type.size or alignment & (alignment - 1) or alignment >= _UINT32):
            wanted = f"0 or a power of two, at least {self.data_type.size}"
            yield Violation("TENSOR.C6", f"{name}.GuaranteedBaseOffsetAlignment", wanted, shown(alignment))
        if output and self._overlaps:
            wanted = "a place of its own for each element"
            yield Violation("TENSOR.D1", f"{name}.Strides", wanted, show(self.strides or ()))
        if output and self.owned_by_dml:
            yield Violation("TENSOR.C7", f"{name}.Flags", "NONE for an output", "DML_TENSOR_FLAG_OWNED_BY_DML")


def broadcast(tensor: TensorDesc, sizes: tuple[int, ...]) -> TensorDesc:
    """Returns a tensor as the DirectML EP broadcasts it: with these sizes, and strides of 0 where it has one element.

    Raises ValueError if it cannot be broadcast.
    """
    before = pad(tensor.sizes, len(sizes))
    if len(before) > len(sizes) or any(n not in (1, m) for n, m in zip(before, sizes, strict=True)):
        raise ValueError(f"{tensor.sizes} cannot be broadcast to {sizes}")
    strides = tuple(0 if n == 1 else stride for n, stride in zip(before, strides_of(before), strict=True))
    repeated = TensorDesc(tensor.data_type, sizes, strides)
    return TensorDesc(tensor.data_type, sizes) if repeated.packed else repeated


def broadcast_sizes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the sizes to which ONNX broadcasts these shapes. Raises ValueError if they do not fit together."""
    count = max(map(len, shapes))
    longer = [{*column} - {1} for column in zip(*(pad(shape, count) for shape in shapes), strict=True)]
    if any(len(sizes) > 1 for sizes in longer):
        raise ValueError(f"{' and '.join(map(str, shapes))} cannot be broadcast to each other")
    return tuple(next(iter(sizes), 1) for sizes in longer)


FEWEST_DIMENSIONS = 4
"""The DirectML EP pads the tensors of most operators to this many dimensions."""


def pad(shape: tuple[int, ...], count: int = FEWEST_DIMENSIONS) -> tuple[int, ...]:
    """Returns a shape in at least `count` dimensions, right-aligned with leading ones, as the DirectML EP pads it."""
    return (1,) * (count - len(shape)) + tuple(shape)
