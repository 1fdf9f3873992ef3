"""Completes a descriptor: the page's formulas give the sizes of the tensors that are not given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ..errors import InputError
from ..pseudocode import assigned, right_align
from ..tensors import DataType
from .members import environment, typed, written_out
from .operator_desc import OperatorDesc
from .tensor_desc import Layout, TensorDesc

D = TypeVar("D", bound=OperatorDesc)


def complete(cls: type[D], tensors: Mapping[str, TensorDesc], numbers: Mapping[str, Any]) -> D:
    """Returns the descriptor with these tensors and numbers; the page's formulas give the sizes of the other tensors.

    Those have the data type of the first input that is moved, or one of their own (`Spec.type_of`). Raises InputError
    if a formula's sizes do not fit the dimension count.
    """
    spec = written_out(cls.spec(), tensors)
    first = tensors.get(spec.first_data) or next(iter(tensors.values()))
    whole = dict(tensors)
    for name in (n for n in spec.field_names("input", "output") if n not in tensors):
        value = assigned(spec.size_formulas[name], f"{name}.Sizes", environment(spec, whole, numbers))
        sizes = right_align(value, first.dimension_count) if isinstance(value, tuple) else None
        if sizes is None:
            raise InputError(f"the tensor does not fit {first.dimension_count} dimensions", path=f"{name}.Sizes")
        known = {other: tensor.sizes for other, tensor in whole.items()} | {name: sizes}
        whole[name] = TensorDesc(spec.type_of(name, known, first.data_type, numbers), sizes)
    return cls.from_members({**whole, **typed(cls.spec(), whole, numbers)})


def complete_sizes(
    cls: type[D],
    sizes: Mapping[str, tuple[int, ...]],
    numbers: Mapping[str, Any],
    layouts: Mapping[str, Layout] = {},
    *,
    data_type: DataType = DataType.FLOAT32,
    index_type: DataType | None = None,
) -> D:
    """Returns the descriptor with tensors of these sizes: index tensors of `index_type`, all others of `data_type`, or
    of one of their own (`Spec.type_of`).

    `layouts` are those of tensors that are not packed. Without `index_type`, indices have the first of the usual types.
    """
    spec = cls.spec()
    types = {n: index_type or DataType[spec.usual_index_types[0]] for n in cls.index_tensors()}
    types |= {n: spec.type_of(n, sizes, data_type, numbers) for n in sizes if n not in types}
    tensors = {name: TensorDesc(types[name], size) for name, size in sizes.items()}
    tensors |= {name: tensors[name].laid_out(layout) for name, layout in layouts.items()}
    return complete(cls, tensors, numbers)
