"""A draft of a descriptor: the parts that determine the others, to be changed and completed."""

from __future__ import annotations

from dataclasses import dataclass

from ..descriptors import OperatorDesc, TensorDesc, complete_sizes, implied
from ..errors import OpmapError
from ..tensors import DataType


@dataclass
class Draft:
    """The sizes that no formula gives, the numbers, and the two data types of a descriptor. A change may make it invalid."""

    cls: type[OperatorDesc]
    sizes: dict[str, tuple[int, ...]]
    numbers: dict[str, int | tuple[int, ...]]
    data_type: DataType
    index_type: DataType

    @classmethod
    def of(cls, desc: OperatorDesc) -> Draft:
        """Returns the draft of a descriptor. Without index tensors, both types are the same."""
        indices, data_type = desc.index_tensors(), desc.first_data.data_type
        return cls(
            type(desc),
            {name: desc.tensors[name].sizes for name in desc.own_spec.free_tensors},
            dict(desc.numbers),
            data_type,
            desc.inputs[indices[0]].data_type if indices else data_type,
        )

    def completed(self) -> OperatorDesc | None:
        """Returns the descriptor; None if it is not valid. A number that a rule gives follows from the sizes."""
        given = {name: number for name, number in self.numbers.items() if name not in self.cls.spec().implied}
        tensors = {name: TensorDesc(self.data_type, sizes) for name, sizes in self.sizes.items()}
        try:
            numbers = implied(self.cls.spec(), tensors, given)
            desc = complete_sizes(self.cls, self.sizes, numbers, data_type=self.data_type, index_type=self.index_type)
            return None if desc.violations() else desc
        except (OpmapError, ValueError, LookupError, ArithmeticError):
            return None
