"""DML_OPERATOR_GATHER_ND: GATHER_ND1 without batches. The DirectML EP never emits it.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_nd_operator_desc
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..descriptors import Lowering, OperatorDesc, Substitution, TensorDesc
from ..pseudocode import Expansion
from . import gather_nd1
from .random_source import Choices


@dataclass(frozen=True, kw_only=True)
class Desc(OperatorDesc):
    """DML_GATHER_ND_OPERATOR_DESC: blocks of the input, chosen by index tuples."""

    operator = "GATHER_ND"
    short_names = {"InputDimensionCount": "r", "IndicesDimensionCount": "q"}

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int

    def with_batches(self) -> gather_nd1.Desc:
        """The same as GATHER_ND1 with no batch dimensions, to which the page says it is equivalent."""
        return gather_nd1.Desc(**{f.name: getattr(self, f.name) for f in dataclasses.fields(self)})

    def expansion(self) -> Expansion:
        """As GATHER_ND1 without batches; the coordinates of the selected block follow unwritten."""
        return self.with_batches().expansion()


def lower(desc: Desc) -> Lowering:
    """GatherND, which the EP turns into GATHER_ND1."""
    lowering = gather_nd1.lower(desc.with_batches())
    operator = Substitution("operator", "GATHER_ND -> GATHER_ND1 with BatchDimensionCount 0")
    return dataclasses.replace(lowering, substitutions=(operator, *lowering.substitutions))


def shapes() -> Iterator[Desc]:
    """GATHER_ND1's without batches."""
    for desc in gather_nd1.shapes(range(1)):
        yield _without_batches(desc)


PARAMETERS = {name: found for name, found in gather_nd1.PARAMETERS.items() if name != "batches"}


def classify(desc: Desc) -> dict[str, str]:
    """GATHER_ND1's without batches."""
    found = gather_nd1.classify(desc.with_batches())
    del found["batches"]
    return found


def build(choice: Mapping[str, str]) -> Desc | None:
    """GATHER_ND1's without batches."""
    desc = gather_nd1.build({**choice, "batches": "0"})
    return desc and _without_batches(desc)


def world(dimensions: int, size: int) -> Iterator[Desc]:
    """GATHER_ND1's without batches."""
    for desc in gather_nd1.world(dimensions, size, range(1)):
        yield _without_batches(desc)


def draw(choices: Choices, dimension_count: int, max_elements: int) -> Desc:
    """GATHER_ND1's without batches."""
    return _without_batches(gather_nd1.draw(choices, dimension_count, max_elements, max_batches=0))


def _without_batches(desc: gather_nd1.Desc) -> Desc:
    return Desc(**{f.name: getattr(desc, f.name) for f in dataclasses.fields(Desc)})
