"""The coordinates that several operators insert into the lines of their pages."""

from __future__ import annotations

from collections.abc import Callable

from ..descriptors import OperatorDesc
from ..pseudocode import COORDINATES, Expansion


def each_dimension(name: str) -> Callable[[OperatorDesc], Expansion]:
    """Returns the expansion in which a name stands for one coordinate per dimension of the output."""

    def expansion(desc: OperatorDesc) -> Expansion:
        return Expansion(rest={}, series={name: tuple(COORDINATES[: desc.output.dimension_count])})

    return expansion


def around_axis(desc: OperatorDesc) -> Expansion:
    """Returns the expansion in which `before` and `after` stand for the coordinates before and after the axis."""
    names = tuple(COORDINATES[: desc.output.dimension_count - 1])
    return Expansion(rest={}, series={"before": names[: desc.axis], "after": names[desc.axis :]})


def none(desc: OperatorDesc) -> Expansion:
    """Returns the expansion of pseudocode whose coordinates all have names."""
    return Expansion(rest={})
