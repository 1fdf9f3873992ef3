"""Compares the bits of two outputs, and explains the first difference."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from ..cases.case import Case
from ..pseudocode import chain, strides_of
from ..tensors import Tensor, from_bits, plain


def undefined(expected: Sequence[int | None]) -> int:
    """How many elements have no defined value."""
    return 0 if isinstance(expected, array) else sum(e is None for e in expected)


def differences(expected: Sequence[int | None], actual: array) -> Sequence[int]:
    """The elements with a defined value that differ."""
    if isinstance(expected, array) and memoryview(expected) == memoryview(actual):
        return ()
    return array("q", (i for i, (e, a) in enumerate(zip(expected, actual)) if e != a and e is not None))


def explain(case: Case, expected: Sequence[int | None], wrong: Sequence[int], actual: Tensor) -> str:
    """How many elements differ, and the first: what it should read, and what would give the value that came."""
    desc, first = case.desc, wrong[0]
    at = unravel(first, desc.output.sizes)
    bits = expected[first], actual.bits[first]
    text, _ = chain(
        desc.line,
        desc.pseudocode_sizes,
        at,
        desc.pseudocode_tensors({n: t.values for n, t in case.tensors.items()}),
    )
    shown = [str(plain(v)) for v in from_bits(desc.output.data_type, bits)]
    if shown[0] == shown[1]:
        shown = [f"{s} (bits {b:0{desc.output.data_type.size * 2}x})" for s, b in zip(shown, bits)]
    name = desc.line.source.tensor
    source = case.tensors[desc.spec().pseudocode.tensors[name]]
    only = source.bits.count(bits[1]) == 1
    place = list(unravel(source.bits.index(bits[1]), source.sizes)) if only else None
    read = f", consistent with reading {name}{place}" if only else ""
    return f"{len(wrong)} of {len(actual.bits)} elements differ: {text} = {shown[0]}, got {shown[1]}{read}"


def unravel(address: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """The coordinates of an element from its place in row-major order."""
    return tuple(address // stride % size for stride, size in zip(strides_of(sizes), sizes))
