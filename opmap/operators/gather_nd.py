"""DML_OPERATOR_GATHER_ND: GATHER_ND1 without batches. The DirectML EP never emits it.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_nd_operator_desc
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from ..descriptors import OperatorDesc, TensorDesc
from ..pseudocode import Expansion
from . import gather_nd1
from .contract import Choice, Lowering, Operator, Outline, Substitution
from .random_source import RandomSource


@dataclass(frozen=True, kw_only=True)
class Desc(OperatorDesc):
    """DML_GATHER_ND_OPERATOR_DESC: blocks of the input, chosen by index tuples."""

    operator = "GATHER_ND"
    short_names = {"InputDimensionCount": "r", "IndicesDimensionCount": "q"}  # noqa: RUF012  # a ClassVar of the base class

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int

    def with_batches(self) -> gather_nd1.Desc:
        """Returns the GATHER_ND1 descriptor with 0 batch dimensions. The page says that the two are equivalent."""
        return gather_nd1.Desc(**{f.name: getattr(self, f.name) for f in dataclasses.fields(self)})

    def expansion(self) -> Expansion:
        """Returns GATHER_ND1's expansion without batches. The page leaves out the coordinates of the selected block."""
        return self.with_batches().expansion()


def lower(desc: Desc) -> Lowering:
    """Returns the GatherND node, which the EP turns into GATHER_ND1."""
    lowering = gather_nd1.lower(desc.with_batches())
    operator = Substitution("operator", "GATHER_ND -> GATHER_ND1 with BatchDimensionCount 0")
    return dataclasses.replace(lowering, substitutions=(operator, *lowering.substitutions))


def samples() -> Iterator[Desc]:
    """Gives GATHER_ND1's samples without batches."""
    return map(_without_batches, gather_nd1.samples(range(1)))


PARAMETERS = {name: classes for name, classes in gather_nd1.PARAMETERS.items() if name != "batches"}


def classify(desc: Desc) -> dict[str, str | None]:
    """Returns GATHER_ND1's classes, except the class of `batches`."""
    classes = gather_nd1.classify(desc.with_batches())
    del classes["batches"]
    return classes


def build(choice: Choice) -> Desc | None:
    """Returns the descriptor that GATHER_ND1 builds without batches."""
    desc = gather_nd1.build({**choice, "batches": "0"})
    return None if desc is None else _without_batches(desc)


def world(dimensions: int, size: int) -> Iterator[Outline]:
    """Gives the outlines of GATHER_ND1's `world` without batches."""
    for outline in gather_nd1.world(dimensions, size, range(1)):
        numbers = {name: n for name, n in outline.numbers.items() if name != "BatchDimensionCount"}
        yield Outline(outline.sizes, numbers)


def draw(source: RandomSource, dimension_count: int, max_elements: int) -> Desc:
    """Returns a random GATHER_ND1 descriptor without batches."""
    return _without_batches(gather_nd1.draw(source, dimension_count, max_elements, max_batches=0))


def _without_batches(desc: gather_nd1.Desc) -> Desc:
    return Desc(**{f.name: getattr(desc, f.name) for f in dataclasses.fields(Desc)})


OPERATOR = Operator(
    descriptor=Desc,
    parameters=PARAMETERS,
    classify=classify,
    build=build,
    world=world,
    draw=draw,
    samples=samples,
    lower=lower,
)
