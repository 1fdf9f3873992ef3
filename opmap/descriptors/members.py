"""What follows from the members of a descriptor, before there is one: names in formulas, numbers that rules give,
scalars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import PseudocodeError
from ..pseudocode import array_of, evaluate, field_values
from ..spec import Spec
from ..tensors import DataType, is_exact, same_number, to_bits
from .tensor_desc import TensorDesc


def environment(spec: Spec, tensors: Mapping[str, TensorDesc], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values that formulas may use: those of `field_values`, `.DataType` of tensors, names of
    enumerations.
    """
    names = field_values(spec.named(numbers), {name: tensor.sizes for name, tensor in tensors.items()})
    return names | {f"{name}.DataType": tensor.data_type.name for name, tensor in tensors.items()}


def written_out(spec: Spec, tensors: Iterable[str]) -> Spec:
    """Returns the spec for the descriptors that have these tensors."""
    counts = Counter(array_of(name) or name for name in tensors)
    return spec.with_counts({name: counts[name] for name in spec.varying})


def implied(spec: Spec, tensors: Mapping[str, TensorDesc], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the numbers, and those that are missing and that a rule gives."""
    data_types = {*spec.scalars.values()}
    missing = {n: formula for n, formula in spec.implied.items() if n not in numbers and n not in data_types}
    if missing:
        names = environment(spec, tensors, numbers)
        numbers = {**numbers, **{name: evaluate(formula, names) for name, formula in missing.items()}}
    return typed(spec, tensors, numbers)


def typed(
    spec: Spec,
    tensors: Mapping[str, TensorDesc],
    numbers: Mapping[str, Any],
    before: Mapping[str, DataType] | None = None,
) -> dict[str, Any]:
    """Returns the numbers with scalars of the data types that the rules give.

    A NaN of a scalar has no sign and no payload.

    `before` are the scalars' data types so far, if they have any. As long as the tensor that gives the type is missing,
    or is of a type that scalars do not have, the scalar stays as it is. A FLOAT that the output's new data type does
    not hold becomes 1.
    """
    numbers, names = dict(numbers), environment(spec, tensors, numbers)
    for scalar, field in spec.scalars.items():
        if not field:
            output = tensors.get(spec.field_names("output")[0])
            if before and output and not is_exact(numbers[scalar], DataType.FLOAT32, output.data_type):
                (numbers[scalar],) = to_bits(DataType.FLOAT32, [1])
            continue
        try:
            name = str(evaluate(spec.implied[field], names))
        except PseudocodeError:
            continue
        if name not in spec.field(field).names:  # a rule refuses such a tensor
            continue
        numbers[field], data_type = spec.field(field).number(name), DataType[name]
        own_type = before[scalar] if before else data_type
        numbers[scalar] = same_number(numbers[scalar] & (1 << 8 * own_type.size) - 1, own_type, data_type)
    return numbers
