"""Layouts: a share of the cases again, with strides, with larger tensors, or compiled as a graph. Only DirectML itself
has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ..descriptors import OperatorDesc, TensorDesc
from ..engines.provider_facts import GRAPH_LAYOUT
from ..operators.random_source import RandomSource, SeededSource, pick
from ..tensors import Tensor
from .case import Case
from .in_variants import MOST_ELEMENTS
from .values import seed_of
from .written_once import rows_of

STRIDES, PADDING = "strides", "padding"

LAYOUTS: Mapping[str, str] = {
    STRIDES: "Tensors are permuted, have gaps between their elements, or repeat an input's first elements (stride 0).",
    PADDING: "Each tensor has a larger TotalTensorSizeInBytes than it needs.",
    GRAPH_LAYOUT: "The operator is compiled with CompileGraph, as the one node of a graph.",
}
"""Name -> text. The name is the last level of a case id, as that of a variant."""

EVERY = 20
"""One in this many cases gets each layout. Its id alone decides, so that a case has the same layout in every tier."""


def layout_of(case: Case) -> str | None:
    """Returns the layout that a tier adds for a case; None if it adds none."""
    turn = seed_of(case.id) % EVERY
    return [*LAYOUTS][turn] if turn < len(LAYOUTS) and _fits(case) else None


def split_layout(id: str) -> tuple[str, str] | None:
    """Returns (id of the case, layout) of the id of a case in a layout; None for any other id."""
    base, _, name = id.rpartition("/")
    return (base, name) if base and name in LAYOUTS else None


def in_layout(case: Case, layout: str) -> Case | None:
    """Returns a case in a layout; None if its tensors are too large. Everything follows from the id."""
    if not _fits(case):
        return None
    id = f"{case.id}/{layout}"
    laid_out = dataclasses.replace(case, id=id, layout=layout)
    if layout == GRAPH_LAYOUT:
        return laid_out
    source, descs = SeededSource(seed_of(id)), {}
    changed: dict[str, Tensor] = {}
    for name, tensor in case.desc.tensors.items():
        if layout == PADDING:
            total = tensor.minimum_size_in_bytes + 4 * source.integer(1, 32)
            descs[name] = dataclasses.replace(tensor, total_tensor_size_in_bytes=total)
            continue
        if name in case.desc.own_spec.strided:
            continue  # it has strides of its own
        repeated = _repeated(case.desc, name, source)
        descs[name] = dataclasses.replace(tensor, strides=_strides(tensor, repeated, source))
        if repeated is not None:
            changed[name] = _first_along(case.tensors[name], repeated)
    tensors = {**case.tensors, **changed} if changed else case.tensors
    return dataclasses.replace(laid_out, desc=case.desc.with_tensors(descs), tensors=tensors)


def without_layout(case: Case) -> Case:
    """Returns a case without its layout: packed, with the smallest sizes in bytes and the same values."""
    descs = {
        name: dataclasses.replace(
            tensor,
            strides=tensor.strides if name in case.desc.own_spec.strided else None,
            total_tensor_size_in_bytes=None,
        )
        for name, tensor in case.desc.tensors.items()
    }
    id = case.id.removesuffix(f"/{case.layout}")
    return dataclasses.replace(case, id=id, layout=None, desc=case.desc.with_tensors(descs))


def _fits(case: Case) -> bool:
    return max(tensor.element_count for tensor in case.desc.tensors.values()) <= MOST_ELEMENTS


def _repeated(desc: OperatorDesc, name: str, source: RandomSource) -> int | None:
    """Returns the dimension of an input that gets the stride 0; None for two of three inputs, for indices that write,
    and for outputs.
    """
    if name not in desc.inputs or source.integer(0, 2):
        return None
    if name in desc.index_tensors() and rows_of(desc, name) is not None:
        return None
    # The last dimension of indices may hold a tuple, whose coordinates have limits of their own.
    count = desc.tensors[name].dimension_count - (name in desc.index_tensors())
    return source.integer(0, count - 1) if count else None


def _strides(tensor: TensorDesc, repeated: int | None, source: RandomSource) -> tuple[int, ...]:
    """Returns the strides of a tensor whose dimensions lie in memory in another order, with gaps."""
    unplaced, strides, step = list(range(tensor.dimension_count)), [0] * tensor.dimension_count, source.integer(1, 2)
    while unplaced:
        dimension = pick(source, unplaced)
        unplaced.remove(dimension)
        if dimension != repeated:
            strides[dimension] = step
            step = step * tensor.sizes[dimension] + source.integer(0, 1)
    return tuple(strides)


def _first_along(tensor: Tensor, dimension: int) -> Tensor:
    """Returns a tensor whose values along a dimension are those of its first position."""
    values = np.frombuffer(tensor.memory, f"<u{tensor.data_type.size}").reshape(tensor.sizes)
    repeated = np.broadcast_to(values.take([0], dimension), tensor.sizes)
    return Tensor.from_bytes(tensor.data_type, tensor.sizes, repeated.tobytes())
