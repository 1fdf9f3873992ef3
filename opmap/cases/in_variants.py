"""Cases in variants: which case can be brought into which variant."""

from __future__ import annotations

from ..descriptors import OperatorDesc
from ..errors import MappingError
from ..mapping import map_descriptor
from ..operators import OPERATORS
from .case import Case
from .variants import VARIANTS, Variant

MOST_ELEMENTS = 65_536
"""The most elements in a tensor of a case that is brought into a variant which does not get all cases."""

_RANKS = {1: "1", 2: "2-4", 3: "2-4", 4: "2-4"}
"""Dimension count -> its class; every higher count is in one class."""


def split_id(id: str) -> tuple[str, str] | None:
    """Returns (id of the case, variant) of the id of a case in a variant; None for any other id."""
    base, _, name = id.rpartition("/")
    return (base, name) if base and name in VARIANTS and VARIANTS[name].base is not None else None


def accepts(variant: Variant, case: Case) -> bool:
    """Returns whether a case can be brought into a variant."""
    if case.variant != variant.base:
        return False
    try:
        formed = variant.form.build(map_descriptor(case.desc), case.inputs)
    except MappingError:
        return False
    return formed is not None and variant.run_mode.accepts(case.inputs, formed)


def classes(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns {parameter: class} for the parameters that every variant is combined with.

    They are data type, index type, rank class, and the operator's own parameters, such as the place of the axis.
    """
    first = desc.first_data
    indices = desc.index_tensors()
    return {
        "data_type": first.data_type.name,
        "index_type": desc.tensors[indices[0]].data_type.name if indices else None,
        "rank": _RANKS.get(first.dimension_count, "5-8"),
        **OPERATORS[desc.operator].classify(desc),
    }
