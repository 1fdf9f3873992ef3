"""The values of a case's inputs, computed one element at a time: the slow form of `opmap.cases.values.fill`."""

import random
from array import array
from math import prod

from opmap.cases.values import _SPREAD, MODEL_PATTERNS, seed_of, special_values
from opmap.pseudocode import strides_of
from opmap.tensors import Tensor, to_bits


def slow_fill(desc, case, pattern, data):
    """Returns the inputs of a case by field: index tensors by the index pattern, all others by the data pattern.

    If there are several index tensors, they get different values. If there are several data tensors, `addr` makes each
    element unique among the elements of all of them.
    """
    seed, elements = seed_of(case), 0
    tensors = {}
    for name, tensor in desc.inputs.items():
        if name in desc.index_tensors():
            values = _indices(
                desc.index_bounds[name],
                tensor.element_count,
                pattern,
                random.Random(seed + desc.index_tensors().index(name)),
                tensor.data_type.kind == "signed",
            )
            bits = _repeated(to_bits(tensor.data_type, values), tensor.element_count)
        else:
            bits = _data(tensor.data_type, elements + tensor.element_count, data, seed)[elements:]
            elements += tensor.element_count
        tensors[name] = Tensor(tensor.data_type, tensor.sizes, bits)
    return tensors


def _repeated(bits, count):
    """The elements, repeated until there are `count`."""
    whole, rest = divmod(count, len(bits))
    return bits * whole + bits[:rest]


def _indices(bounds, count, pattern, source, signed):
    """The index values; only one period if they are periodic. `count` is the number of all index values."""
    tuples = count // len(bounds)
    if pattern in MODEL_PATTERNS:
        return _indices_of_models(bounds, tuples, pattern, source)
    if pattern == "bounds":
        return [*(-n if signed else 0 for n in bounds), *(n - 1 for n in bounds)]
    addresses = _chosen(prod(bounds), tuples, pattern, source)
    if len(bounds) == 1:
        return addresses
    coordinates = list(zip(strides_of(bounds), bounds, strict=True))
    return [address // stride % n for address in addresses for stride, n in coordinates]


def _indices_of_models(bounds, tuples, pattern, source):
    """The index values of a pattern of MODEL_PATTERNS: the limits of each coordinate, then random values."""
    ranges = [{"pos": (0, n), "neg": (-n, 0), "mix": (-n, n)}[pattern] for n in bounds]
    limits = [(low, high - 1, -1, 0) if pattern == "mix" else (low, high - 1) for low, high in ranges]
    shown = min(len(limits[0]), tuples) if tuples > 1 else 0
    values = [limit[i] for i in range(shown) for limit in limits]
    values += [low + int(source.random() * (high - low)) for _ in range(tuples - shown) for low, high in ranges]
    return values


def _chosen(total, count, pattern, source):
    """The positions, below `total`, that `count` indices name; only one period if they are periodic."""
    if pattern == "identity":
        return range(min(count, total))
    if pattern == "reverse":
        return range(total - 1, max(total - count, 0) - 1, -1)
    if pattern == "one":
        return [total - 1 - int(source.random() * (total - 1))]
    elements = [total - 1, 0, total - 1, *(int(source.random() * total) for _ in range(count - 3))][:count]
    if pattern == "asc":
        return sorted(elements)
    return elements if pattern == "random" else [elements[i // 2] for i in range(count)]


def _data(data_type, count, pattern, seed):
    """The bit patterns of `count` elements.

    With `addr`, element i holds a digit of i, spread over all bits. With `special`, only every fourth element holds
    such a digit, and the others hold special values.
    """
    width, code = data_type.size * 8, data_type.bits_code
    mask = (1 << width) - 1
    factor, start = _SPREAD[data_type.size], seed & mask

    def spread(first, step, count):
        """The unique values of `count` addresses: `first`, `first + step` and so on; only one period."""
        numbers = range(start + first * factor, start + (first + step * min(count, 1 << width)) * factor, step * factor)
        return array(code, [n & mask for n in numbers])

    if pattern != "special":
        # The number of consecutive elements that have the same digit.
        run = 1 << width * int(pattern.removeprefix("addr") or 0)
        digits = spread(0, 1, -(-count // run))
        if run > 1:
            digits = array(code, b"".join(digits[i : i + 1].tobytes() * min(run, count) for i in range(len(digits))))
        return _repeated(digits, count)
    values, bits = special_values(data_type), array(code, bytes(count * data_type.size))
    for i in range(min(count, 4)):
        elements = len(range(i, count, 4))
        rotated = [values[(seed + i + 3 * j) % len(values)] for j in range(len(values))]
        bits[i::4] = _repeated(array(code, rotated) if i < 3 else spread(3, 4, elements), elements)
    return bits
