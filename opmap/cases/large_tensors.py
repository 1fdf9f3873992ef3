"""Cases with more than 2^31 bytes of data, outside the tiers, for `opmap validate --large`.

Each value follows from its address, so that an output element can be checked without the interpretation of all of them.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..descriptors import OperatorDesc
from ..engines.arrays import dtype_of
from ..operators import OPERATORS
from ..tensors import Tensor, to_bits
from .values import seed_of

SAMPLE = 4096
"""How many output elements are checked, if there are so many: the first, the last, and others that follow from the case
id."""

_FACTOR = 0x9E3779B97F4A7C15
_CHUNK = 1 << 22


@dataclass(frozen=True)
class LargeCase:
    """A descriptor with a large input. `id` is unique among all cases."""

    id: str
    desc: OperatorDesc

    @cached_property
    def indices(self) -> Mapping[str, Tensor]:
        """The index tensors by field: the limits of the axis, then others that follow from the case id."""
        tensors = {}
        for name, bounds in self.desc.index_bounds.items():
            tensor, (n,) = self.desc.tensors[name], bounds
            source = random.Random(seed_of(self.id))
            random_values = [int(source.random() * 2 * n) - n for _ in range(tensor.element_count)]
            values = [n - 1, -n, -1, 0, *random_values][: tensor.element_count]
            tensors[name] = Tensor(tensor.data_type, tensor.sizes, to_bits(tensor.data_type, values))
        return tensors

    def value(self, address: int) -> int:
        """Returns the bits of an element of the data: the highest bits of a product, so that all bits of the address
        count.
        """
        width = self.desc.output.data_type.size * 8
        return ((address + 1) * _FACTOR & (1 << 64) - 1) >> 64 - width

    def data(self) -> np.ndarray:
        """Returns the data. It is made at each call, and takes more than 2^31 bytes."""
        (name,) = self.desc.own_spec.data_tensors
        tensor = self.desc.tensors[name]
        width = tensor.data_type.size
        flat = np.empty(tensor.element_count, f"<u{width}")
        for start in range(0, len(flat), _CHUNK):
            stop = min(start + _CHUNK, len(flat))
            products = np.arange(start + 1, stop + 1, dtype=np.uint64) * np.uint64(_FACTOR)
            flat[start:stop] = products >> np.uint64(64 - 8 * width)
        return flat.view(dtype_of(tensor.data_type)).reshape(tensor.sizes)

    def sample(self) -> array[int]:
        """Returns the row-major addresses of the output elements that are checked, in ascending order."""
        count = self.desc.output.element_count
        if count <= SAMPLE:
            return array("q", range(count))
        source, chosen = random.Random(seed_of(self.id) + 1), {0, count - 1}
        while len(chosen) < SAMPLE:
            chosen.add(int(source.random() * count))
        return array("q", sorted(chosen))


def large_cases() -> list[LargeCase]:
    """Returns the cases of all operators."""
    return [
        LargeCase(f"{operator.name.lower()}/large.{name}", desc)
        for operator in OPERATORS.values()
        for name, desc in operator.large_tensors()
    ]
