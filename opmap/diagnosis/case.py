"""Shrinks a single case: fewer dimensions, smaller sizes and numbers, plainer types and values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

from ..cases.case import Case, case_id, retyped
from ..descriptors import OperatorDesc, complete_sizes
from ..errors import OpmapError
from ..tensors import DataType, Tensor, to_bits
from .shrink import Budget, Reduction, shrink, smaller_numbers, without_some


def shrink_case(case: Case, fails: Callable[[Case], bool], *, budget: Budget | None = None) -> Case:
    """Returns the smallest valid case that still fails. `case` itself is known to fail."""
    reductions: list[Reduction[Case]] = [
        _fewer_dimensions,
        _smaller_sizes,
        _smaller_numbers,
        _plainer_types,
        _simpler_values,
    ]
    return shrink(case, fails, reductions, key=lambda c: (c.desc, _bits(c)), budget=budget)


def _bits(case: Case) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(tensor.bits) for tensor in case.tensors.values())


def _made(case: Case, sizes: Mapping[str, tuple[int, ...]], numbers: Mapping[str, int]) -> Case | None:
    """Returns a valid case of these sizes and numbers, with the values of `case` as far as they go; None if there is none."""
    old, cls = case.desc, type(case.desc)
    types = {name: tensor.data_type for name, tensor in old.inputs.items()}
    try:
        desc = complete_sizes(cls, sizes, numbers)
        desc = retyped(
            desc, types[cls.data_tensors()[0]], types[cls.index_tensors()[0]] if cls.index_tensors() else DataType.INT32
        )
        if desc.violations():
            return None
    except (OpmapError, ValueError, LookupError, ArithmeticError):
        return None
    return _filled(desc, case.tensors)


def _filled(desc: OperatorDesc, tensors: Mapping[str, Tensor]) -> Case:
    """Returns a case with the leading values of `tensors`, repeated; indices are brought into range."""
    filled = {}
    for name, wanted in desc.inputs.items():
        source = tensors[name]
        if name in desc.index_tensors():
            bounds = desc.index_bounds[name]
            given = list(source.integers)
            values = [
                max(-bounds[i % len(bounds)], min(bounds[i % len(bounds)] - 1, given[i % len(given)]))
                for i in range(wanted.element_count)
            ]
            if wanted.data_type.kind == "unsigned":
                values = [max(0, value) for value in values]
            bits = to_bits(wanted.data_type, values)
        else:
            top = 1 << wanted.data_type.size * 8
            bits = Tensor(
                wanted.data_type,
                wanted.sizes,
                [source.bits[i % len(source.bits)] % top for i in range(wanted.element_count)],
            ).bits  # type: ignore[assignment]
        filled[name] = Tensor(wanted.data_type, wanted.sizes, bits)
    return Case(case_id(desc, "shrunk", "shrunk"), desc, filled)


def _sizes(desc: OperatorDesc) -> dict[str, tuple[int, ...]]:
    return {name: tensor.sizes for name, tensor in desc.inputs.items()}


def _fewer_dimensions(case: Case) -> Iterator[Case]:
    """One dimension less in all tensors; the numbers stay, or some of them become one less."""
    desc = case.desc
    numbers = dict(desc.numbers)
    for position in range(desc.output.dimension_count):
        sizes = {name: s[:position] + s[position + 1 :] for name, s in _sizes(desc).items()}
        for less in itertools.product((0, 1), repeat=len(numbers)):
            changed = {name: n - d for (name, n), d in zip(numbers.items(), less, strict=True)}
            made = _made(case, sizes, changed)
            if made:
                yield made


def _smaller_sizes(case: Case) -> Iterator[Case]:
    """A lower size: of one tensor, or of all tensors that have the same one in this dimension."""
    sizes = _sizes(case.desc)
    for position in range(case.desc.output.dimension_count):
        for before in sorted({s[position] for s in sizes.values()}, reverse=True):
            having = [name for name, s in sizes.items() if s[position] == before]
            for after in smaller_numbers(before, 1):
                for chosen in [having] if len(having) < 2 else [having, *([name] for name in having)]:
                    changed = {
                        n: (*s[:position], after, *s[position + 1 :]) if n in chosen else s for n, s in sizes.items()
                    }
                    made = _made(case, changed, case.desc.numbers)
                    if made:
                        yield made


def _smaller_numbers(case: Case) -> Iterator[Case]:
    for name, number in case.desc.numbers.items():
        for less in smaller_numbers(number):
            made = _made(case, _sizes(case.desc), {**case.desc.numbers, name: less})
            if made:
                yield made


def _plainer_types(case: Case) -> Iterator[Case]:
    """FLOAT32 data and INT32 indices, where the rules allow them."""
    desc = case.desc
    data = desc.inputs[desc.data_tensors()[0]].data_type
    index = desc.inputs[desc.index_tensors()[0]].data_type if desc.index_tensors() else DataType.INT32
    for types in ((DataType.FLOAT32, DataType.INT32), (DataType.FLOAT32, index), (data, DataType.INT32)):
        if types != (data, index):
            changed = retyped(desc, *types)
            if not changed.violations():
                yield _filled(changed, case.tensors)


def _simpler_values(case: Case) -> Iterator[Case]:
    """Indices 0, and data that counts up; then single indices 0."""
    for name, tensor in case.tensors.items():
        count = len(tensor.bits)
        top = 1 << tensor.data_type.size * 8
        if name not in case.desc.index_tensors():
            yield _with(case, name, [i % top for i in range(count)])
            continue
        zero = [0] * count
        for kept in without_some(range(count)):
            yield _with(
                case, name, [b if i in kept else z for i, (b, z) in enumerate(zip(tensor.bits, zero, strict=True))]
            )


def _with(case: Case, name: str, bits: list[int]) -> Case:
    tensor = case.tensors[name]
    return Case(case.id, case.desc, {**case.tensors, name: Tensor(tensor.data_type, tensor.sizes, bits)})
