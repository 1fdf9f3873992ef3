"""The fields of an operator's struct."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec

from ..pseudocode import parse_formula
from ..pseudocode.tree import FormulaStatement

FIELD_LIMITS = {"uint": (0, 2**32 - 1), "int": (-(2**31), 2**31 - 1), "scalar": (0, 2**64 - 1), "float": (0, 2**32 - 1)}
"""Kind of a number -> the least and the highest value that its type holds."""


class Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A member of the operator's struct. `uint` and `int` are numbers. `uints`, `inputs` and the like are arrays.

    A number of the type `enumeration` is one of `names`, which have the numbers from 0 on; formulas know it by its
    name. A `scalar` is the bit pattern of one element; `typed_by` is the field that gives its data type. A `float` is
    the bit pattern of a FLOAT; the operator writes the same number in the data type of the output. `short` is the name
    of a number in case ids. `values` is for a tensor whose elements the pseudocode computes with, such as lengths: a
    formula for how many numbers, from 0 on, have a meaning of their own. Most random tensors of the field have
    `elements` elements, if it is given. Most random numbers of the field are the `usual` one, if there is one. An
    `optional` tensor may be left out: it is None, and rules that name it do not apply. `strides` is "drawn" for an
    input whose strides are what the operator is for: descriptors have it in any layout. It is "broadcast" for an input
    that the ONNX node broadcasts: descriptors have it with strides of 0 too. It is "axis" for one that the node
    broadcasts along all dimensions but one: most descriptors repeat all such inputs alike. `chosen` says how the values
    of the cases are chosen: "shifts" says how far to shift, mostly below the width of the data type; "truth" is 0 or
    not; "near" is mostly equal to the element of the first tensor, or next to it; "small" is small whole numbers, so
    that sums and products are exact; "ties" has many equal elements and few NaNs; "halves" has halves among special
    values; "powers" is mostly powers of two; "limits" is mostly numbers at the limits of data types. A BOOL is a `uint`
    with the names FALSE and TRUE. An array of `axes` holds different dimensions.
    """

    name: str
    kind: Literal["input", "output", "inputs", "outputs", "uint", "int", "uints", "ints", "scalar", "float"]
    short: str = ""
    enumeration: str = ""
    names: tuple[str, ...] = ()
    typed_by: str = ""
    values: str = ""
    elements: int = 0
    usual: int | None = None
    optional: bool = False
    axes: bool = False
    strides: Literal["", "drawn", "broadcast", "axis"] = ""
    chosen: Literal["", "shifts", "truth", "near", "small", "ties", "halves", "powers", "limits"] = ""

    def of_kind(self, kind: str) -> Field:
        """Returns the field with another kind."""
        return self if kind == self.kind else msgspec.structs.replace(self, kind=kind)

    @property
    def is_tensor(self) -> bool:
        """Whether the field is a tensor, or an array of tensors."""
        return self.kind.startswith(("input", "output"))

    @property
    def is_scalar(self) -> bool:
        """Whether the field is one element as a bit pattern."""
        return self.kind in ("scalar", "float")

    @property
    def is_bool(self) -> bool:
        """Whether the field is a BOOL."""
        return self.names == ("FALSE", "TRUE")

    @property
    def is_array(self) -> bool:
        """Whether the field is an array of numbers or of tensors."""
        return self.kind.endswith("s")

    @cached_property
    def value_formula(self) -> tuple[FormulaStatement, ...]:
        """The formula of `values`, parsed: it assigns `values`."""
        return parse_formula(f"values = {self.values}")

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the highest value of the field, or of each number of an array."""
        if self.names:
            return 0, len(self.names) - 1
        return FIELD_LIMITS[self.kind.removesuffix("s")]

    def number(self, name: str) -> int:
        """Returns the number of an enumeration's name, which may have the prefix.

        Raises ValueError if there is no such name.
        """
        return self.names.index(name.removeprefix(f"{self.enumeration}_"))

    def shown(self, number: object) -> object:
        """Returns the name of an enumeration's number; any other value as it is."""
        return self.names[number] if self.names and isinstance(number, int) and number < len(self.names) else number
