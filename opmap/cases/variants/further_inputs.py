"""Further inputs of a case: the same descriptor with other values, and the same operator with other sizes.

Everything follows from the inputs that are given: no clock, no random numbers.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ...descriptors import OperatorDesc, TensorDesc, complete
from ...engines.arrays import dtype_of
from ...errors import OpmapError
from ...operators import OPERATORS, Lowering
from ...pseudocode import array_of
from ...tensors import Tensor, powers_of_two
from ..values import fill, small_values
from .formed import Inputs

MOST_ELEMENTS = 4096
"""Upper bound of elements in a tensor of other sizes, if the tensor itself has fewer than half as many."""

_Sizes = dict[str, tuple[int, ...]]
_Place = tuple[str, int]  # a tensor's field, and one of its dimensions
_Group = tuple[_Place, ...]


ATTEMPTS = 32
"""How often the values of an operator that computes are drawn, at most, until its output is another one."""


def fresh_values(inputs: Inputs, n: int = 1, *, fixed: Collection[str] = ()) -> Inputs:
    """Returns the same descriptor with other values, which differ for each `n` from 1 on. Fields in `fixed` stay.

    Every data element changes. Every index changes if there is another element that it can name; it stays negative or
    not negative. An index out of range stays. A number by which to shift changes below the width of its data type; if
    it is not below, it stays. So does a number that is not small, or no power of two, where such are chosen. If
    an operator computes the same output from such values, the data is drawn anew.
    """
    desc, tensors, computes = inputs.desc, dict(inputs.tensors), inputs.desc.spec().computes_values
    for name, tensor in desc.inputs.items():
        bounds, chosen = desc.index_bounds.get(name), desc.own_spec.field(name).chosen
        if name in fixed:
            continue
        if bounds is not None:
            tensors[name] = _other_indices(tensors[name], bounds, n)
            continue
        # if each input changed in the same way, the output could stay the same: so each one changes in its own way
        own = n << desc.own_spec.data_tensors.index(name) if computes else n
        if chosen == "shifts":
            tensors[name] = _other_shifts(tensors[name], n)
        elif chosen in _NUMBERS:
            tensors[name] = _other_numbers(tensors[name], _NUMBERS[chosen](tensor.data_type), own)
        else:
            tensors[name] = _other_data(tensors[name], own)
    drawn = [name for name in desc.own_spec.data_tensors if name not in fixed] if computes else []
    for attempt in range(ATTEMPTS if drawn else 0):
        if is_told_apart(inputs, Inputs(desc, tensors)):
            break
        tensors |= {name: fill(desc, f"{n}.{attempt}", "", "special", only=name)[name] for name in drawn}
    return Inputs(desc, tensors)


def is_told_apart(inputs: Inputs, other: Inputs) -> bool:
    """Returns whether an element that has a documented value with both inputs has another one."""
    return any(a != b and a is not None and b is not None for a, b in zip(inputs.expected, other.expected, strict=True))


def other_sizes(inputs: Inputs, by: int = 1) -> Inputs | None:
    """Returns inputs of the same operator with other sizes, and with values; None if no size can change.

    Each input size that can change is larger by `by`, or smaller if `by` is negative; sizes stay above 0. Numbers,
    dimension counts and data types stay, and so do operator type, attributes and ranks of the ONNX node.
    """
    changed = _in_other_sizes(inputs.desc, by)
    if changed is None:
        return None
    index_tensors = [inputs.tensors[name] for name in changed.index_bounds]
    negative = any(min(tensor.integers) < 0 for tensor in index_tensors)
    signed = all(tensor.data_type.kind == "signed" for tensor in index_tensors)
    return Inputs(changed, fill(changed, "", "mix" if negative and signed else "pos", "addr"))


def has_other_sizes(desc: OperatorDesc) -> bool:
    """Returns whether `other_sizes` returns inputs for a descriptor."""
    first = next(_groups(desc), None)
    if first is None:
        return False
    return _in_other_sizes(desc, 1, [first]) is not None or _in_other_sizes(desc, 1) is not None


# --- sizes ---


def _in_other_sizes(desc: OperatorDesc, by: int, groups: Sequence[_Group] = ()) -> OperatorDesc | None:
    """Returns the descriptor with as many groups of dimensions changed as possible; None if none can change."""
    sizes = _own_sizes(desc)
    limits = {name: max(2 * tensor.element_count, MOST_ELEMENTS) for name, tensor in desc.tensors.items()}
    for candidate in _candidates(sizes, groups or list(_groups(desc)), by, limits):
        resized = _resized(desc, candidate)
        if resized is not None and all(t.element_count <= limits[name] for name, t in resized.tensors.items()):
            return resized
    return None


def _own_sizes(desc: OperatorDesc) -> _Sizes:
    """Returns the sizes of the inputs, and of the outputs that no formula gives."""
    return {name: desc.tensors[name].sizes for name in dict.fromkeys((*desc.inputs, *desc.own_spec.free_tensors))}


def _candidates(sizes: _Sizes, groups: Sequence[_Group], by: int, limits: Mapping[str, int]) -> Iterator[_Sizes]:
    """Gives changed sizes, those with the most changes first: all groups of dimensions, then ever fewer."""
    for count in range(len(groups), 0, -1):
        candidate = {name: list(size) for name, size in sizes.items()}
        for group in groups[:count]:
            for name, at in group:
                candidate[name][at] = max(candidate[name][at] + by, 1)
        changed = {name: tuple(size) for name, size in candidate.items()}
        if changed != sizes and all(prod(size) <= limits[name] for name, size in changed.items()):
            yield changed


def _groups(desc: OperatorDesc) -> Iterator[_Group]:
    """Gives the dimensions that can change, in groups that must change together; the longest dimensions come first.

    A dimension either changes alone, or together with one dimension of another tensor that has the same size, or with
    those of all other tensors that stand at the same place and have the same size.
    """
    sizes = _own_sizes(desc)
    places = [(name, at) for name, size in sizes.items() for at in range(len(size))]
    grouped: set[_Place] = set()
    refused: set[object] = set()  # tensors of an array that have the same sizes are alike
    for name, at in sorted(places, key=lambda place: -sizes[place[0]][place[1]]):
        if (name, at) in grouped:
            continue
        partners = [(n, i) for n, i in places if n != name and sizes[n][i] == sizes[name][at]]
        # Dimensions are aligned at their right ends, so the partner with the same distance to the end comes first.
        partners.sort(key=lambda p: abs((len(sizes[name]) - at) - (len(sizes[p[0]]) - p[1])))
        aligned = [p for p in partners if len(sizes[p[0]]) - p[1] == len(sizes[name]) - at]
        for group in (((name, at),), *(((name, at), partner) for partner in partners), ((name, at), *aligned)):
            key = frozenset(Counter((array_of(n) or n, sizes[n], i) for n, i in group).items())
            if key in refused:
                continue
            grown = {n: tuple(s + ((n, i) in group) for i, s in enumerate(size)) for n, size in sizes.items()}
            if _resized(desc, grown) is not None:
                grouped.update(group)
                yield group
                break
            refused.add(key)


def _resized(desc: OperatorDesc, sizes: Mapping[str, tuple[int, ...]]) -> OperatorDesc | None:
    """Returns the descriptor with other sizes; the page's formulas give those of the other tensors.

    Returns None if it is not valid, or if its ONNX node differs in more than sizes.
    """
    tensors = {name: TensorDesc(desc.tensors[name].data_type, own) for name, own in sizes.items()}
    tensors |= {name: tensors[name].laid_out(desc.tensors[name].layout) for name in desc.own_spec.strided}
    try:
        changed = complete(type(desc), tensors, desc.numbers)
    except OpmapError:
        return None
    types = {name: replace(tensor, data_type=desc.tensors[name].data_type) for name, tensor in changed.outputs.items()}
    changed = changed.with_tensors(types)
    if changed.violations():
        return None
    before, after = map(OPERATORS[desc.operator].expressed, (desc, changed))
    return changed if _signature(before) == _signature(after) else None


def _signature(lowering: Lowering | None) -> object:
    """Returns what two lowerings must have in common so that one model with symbolic dimensions runs both."""
    if lowering is None:
        return None
    ranks = {name: len(shape) for name, shape in lowering.shapes.items()}
    return (
        lowering.op_type,
        dict(lowering.attributes),
        {} if lowering.fed else dict(lowering.constants),
        ranks,
        lowering.output_shape and len(lowering.output_shape),
    )


# --- values ---


_NUMBERS = {"small": small_values, "ties": small_values, "powers": powers_of_two}
"""`Field.chosen` -> the function that gives the numbers of a data type: most values of the field are among them."""


def _other_shifts(tensor: Tensor, n: int) -> Tensor:
    """Returns the tensor with the same bits changed in each number below the width, which is a power of two."""
    width = tensor.data_type.size * 8
    mask = (n - 1) % (width - 1) + 1
    shifts = (shift ^ mask if shift < width else shift for shift in tensor.bits)
    return Tensor(tensor.data_type, tensor.sizes, array(tensor.data_type.bits_code, shifts))


def _other_numbers(tensor: Tensor, numbers: Sequence[int], n: int) -> Tensor:
    """Returns the tensor with another of these numbers in place of each of them. What is none of them stays."""
    step = (n - 1) % (len(numbers) - 1) + 1
    others = {bits: numbers[(i + step) % len(numbers)] for i, bits in enumerate(numbers)}
    bits = array(tensor.data_type.bits_code, [others.get(bits, bits) for bits in tensor.bits])
    return Tensor(tensor.data_type, tensor.sizes, bits)


def _other_data(tensor: Tensor, n: int) -> Tensor:
    """Returns the tensor with the same bits changed in each element. Different elements stay different.

    `n` = 1 changes the highest bit, 2 the lowest, 3 both, and so on. So special floats such as NaN and denormals mostly
    become other special floats.
    """
    width = tensor.data_type.size * 8
    n = (n - 1) % ((1 << width) - 1) + 1
    places = [width - 1 - j // 2 if j % 2 == 0 else j // 2 for j in range(width)]
    mask = sum(1 << place for j, place in enumerate(places) if n >> j & 1)
    bits = np.frombuffer(tensor.memory, f"<u{tensor.data_type.size}")
    return Tensor.from_bytes(tensor.data_type, tensor.sizes, (bits ^ bits.dtype.type(mask)).tobytes())


def _other_indices(tensor: Tensor, bounds: tuple[int, ...], n: int) -> Tensor:
    """Returns the tensor with each index moved along its dimension, around the end. `bounds` are the sizes of these."""
    dtype = dtype_of(tensor.data_type)
    columns = np.frombuffer(tensor.memory, dtype).reshape(-1, len(bounds)).copy()
    for at, bound in enumerate(bounds):
        values = columns[:, at]
        in_range = (values < bound) & (values >= (-bound if tensor.data_type.kind == "signed" else 0))
        old_values = values[in_range].astype(np.int64)
        shift = 1 + (n - 1) % (bound - 1) if bound > 1 else 0
        columns[in_range, at] = ((old_values + shift) % bound + np.where(old_values < 0, -bound, 0)).astype(dtype)
    return Tensor.from_bytes(tensor.data_type, tensor.sizes, columns.tobytes())
