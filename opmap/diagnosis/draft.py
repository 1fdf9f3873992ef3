"""A draft of a descriptor: the parts that determine the others, to be changed and completed."""

from __future__ import annotations

from dataclasses import dataclass

from ..descriptors import Layout, OperatorDesc, TensorDesc, complete_sizes, implied
from ..errors import OpmapError
from ..tensors import DataType

RANKS, GAP = ".Ranks", ".Gap"
"""What follows the name of an input, for the parts of its layout."""


@dataclass
class DescriptorEdit:
    """The sizes that no formula gives, the numbers, and the two data types of a descriptor.

    A change may make it invalid.

    An input in any layout has two entries among the numbers, by which its strides follow from its sizes: `RANKS` and
    `GAP`.
    """

    cls: type[OperatorDesc]
    sizes: dict[str, tuple[int, ...]]
    numbers: dict[str, int | tuple[int, ...]]
    data_type: DataType
    index_type: DataType

    @classmethod
    def of(cls, desc: OperatorDesc) -> DescriptorEdit:
        """Returns the draft of a descriptor. Without index tensors, both types are the same."""
        indices, data_type = desc.index_tensors(), desc.first_data.data_type
        layouts = {name: desc.tensors[name].layout for name in desc.own_spec.strided}
        return cls(
            type(desc),
            {name: desc.tensors[name].sizes for name in desc.own_spec.free_tensors},
            dict(desc.numbers)
            | {name + RANKS: layout.ranks for name, layout in layouts.items()}
            | {name + GAP: layout.gap for name, layout in layouts.items()},
            data_type,
            desc.inputs[indices[0]].data_type if indices else data_type,
        )

    def completed(self) -> OperatorDesc | None:
        """Returns the descriptor; None if it is not valid. A number that a rule gives follows from the sizes."""
        spec = self.cls.spec()
        given = {n: number for n, number in self.numbers.items() if n in spec.short_names and n not in spec.implied}
        tensors = {name: TensorDesc(self.data_type, sizes) for name, sizes in self.sizes.items()}
        try:
            numbers = implied(spec, tensors, given)
            layouts = {name: self._layout(name) for name in spec.strided if name + RANKS in self.numbers}
            types = {"data_type": self.data_type, "index_type": self.index_type}
            desc = complete_sizes(self.cls, self.sizes, numbers, layouts, **types)
            return None if desc.violations() else desc
        except (OpmapError, ValueError, LookupError, ArithmeticError):
            return None

    def _layout(self, name: str) -> Layout:
        ranks, gap = self.numbers[name + RANKS], self.numbers.get(name + GAP, 0)
        assert isinstance(ranks, tuple) and isinstance(gap, int)
        return Layout(ranks, gap)

    def limits(self, name: str) -> tuple[int, int]:
        """Returns the least and the highest value of a number."""
        spec = self.cls.spec()
        return spec.field(name).limits if name in spec.short_names else (0, len(next(iter(self.sizes.values()))))
