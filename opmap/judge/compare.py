"""Compares the bits of an output with the documented ones, and explains the first difference."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import prod

from ..cases.variants import Check, Inputs
from ..pseudocode import show, strides_of
from ..tensors import AnyPattern, DataType, Tensor, from_bits, plain
from ..vocabulary import VALUE_KINDS


def undefined(expected: Sequence[int | None]) -> int:
    """Returns how many elements have no documented value."""
    return 0 if isinstance(expected, (array, memoryview)) else [*expected].count(None)


def differences(expected: Sequence[int | None], actual: Sequence[int]) -> Sequence[int]:
    """Returns the places of the elements that have a documented value and differ from it; flat and row-major."""
    if expected is actual or (isinstance(expected, array) and isinstance(actual, array) and expected == actual):
        return ()
    pairs = enumerate(zip(expected, actual, strict=True))
    wrong = (i for i, (e, a) in pairs if e != a and e is not None and not (isinstance(e, AnyPattern) and e.allows(a)))
    return array("q", wrong)


FED_IGNORED = "the output is the one for the model's defaults, and the fed values are ignored"

UNWRITTEN = 0xA5
"""The byte with which runs fill the memory of outputs that they allocate before a run."""


def relation(check: Check, checks: Sequence[Check], defaults: Mapping[str, Tensor]) -> str | None:
    """Returns what a wrong output is as a whole; None if it is nothing that is known here.

    It may be the output for the model's own defaults in place of the fed values, the expected output of an earlier run
    (`checks` are all checks in their order), memory that was not written, or zeros.
    """
    actual = check.actual
    assert actual is not None, "outputs of a wrong type or shape are related to nothing"
    bits = list(actual.bits)
    if defaults and check.field == check.inputs.output_field:  # no copy of an input
        inputs = Inputs(check.inputs.desc, {**check.inputs.tensors, **defaults})
        if not differences(inputs.expected, bits):
            return FED_IGNORED
    earlier = checks[: checks.index(check)]
    for other in reversed(earlier):
        if other.field == check.field and list(other.expected) == bits:
            return f"the output is the one of {other.label}"
    if actual.to_bytes() == bytes([UNWRITTEN]) * len(actual.to_bytes()):
        return "the memory of the output was not written"
    return "every element is zero" if not any(bits) else None


def value_kinds(checks: Iterable[Check]) -> tuple[str, ...]:
    """Returns the kinds of wrong values (VALUE_KINDS) of a run whose elements all came from the right addresses.

    Returns nothing if any output has a wrong type or shape, or a wrong element that is of no kind.
    """
    kinds: set[str] = set()
    for check in checks:
        if check.actual is None:
            return ()
        wrong = differences(check.expected, check.actual.bits)
        output_kinds = _kinds_of(check, check.actual, wrong) if wrong else set()
        if wrong and not output_kinds:
            return ()
        kinds |= output_kinds
    return tuple(kind for kind in VALUE_KINDS if kind in kinds)


def _kinds_of(check: Check, actual: Tensor, wrong: Sequence[int]) -> set[str]:
    """Returns the kinds of the wrong elements of one output; an empty set if one may come from another address.

    So the change must also depend on the value alone (equal bits came back as equal bits), and must not give the bits
    of another NaN of the inputs, other than the default NaN. A zero may be another element, or memory that nothing
    wrote: it says something only if a value that conversions do not change came from its right address.
    """
    if actual.data_type.kind != "float":
        return set()
    floats, kinds = _Floats(actual.data_type), set()
    for i in wrong:
        expected = check.expected[i]
        kind = None if expected is None else floats.kind(expected, actual.bits[i])
        if kind is None:
            return set()
        kinds.add(kind)
    changes: dict[int, int] = {}
    for expected, got in zip(check.expected, actual.bits, strict=True):
        if expected is not None and floats.is_special(expected) and changes.setdefault(expected, got) != got:
            return set()
    if "denormals-as-zero" in kinds and any(floats.is_denormal(got) for got in changes.values()):
        return set()
    if kinds & {"denormals-as-zero", "zero-sign"} and not any(
        e is not None and e == a and not floats.is_special(e) for e, a in zip(check.expected, actual.bits, strict=True)
    ):
        return set()
    other_nans = {got for expected, got in changes.items() if floats.is_other_nan(expected, got)}
    same_type = (tensor.bits for tensor in check.inputs.tensors.values() if tensor.data_type is actual.data_type)
    return kinds if all(other_nans.isdisjoint(bits) for bits in same_type) else set()


class _Floats:
    """The bit patterns of a type of floats: the sign, then the exponent, then the mantissa."""

    def __init__(self, data_type: DataType):
        self.mantissa_bits = {2: 10, 4: 23, 8: 52}[data_type.size]
        self.sign = 1 << data_type.size * 8 - 1
        self.infinity = self.sign - (1 << self.mantissa_bits)
        self.quiet = 1 << self.mantissa_bits - 1

    def is_nan(self, bits: int) -> bool:
        return bits & ~self.sign > self.infinity

    def is_zero(self, bits: int) -> bool:
        return bits & ~self.sign == 0

    def is_denormal(self, bits: int) -> bool:
        return 0 < bits & ~self.sign < 1 << self.mantissa_bits

    def is_special(self, bits: int) -> bool:
        return self.is_nan(bits) or bits & ~self.sign < 1 << self.mantissa_bits

    def is_other_nan(self, expected: int, actual: int) -> bool:
        """Returns whether a NaN is neither the expected one, nor that one quieted, nor the default NaN; of any sign."""
        same = (expected & ~self.sign, expected & ~self.sign | self.quiet, self.infinity | self.quiet)
        return self.is_nan(actual) and actual & ~self.sign not in same

    def kind(self, expected: int, actual: int) -> str | None:
        """Returns the kind of a wrong element, or None."""
        if self.is_nan(expected) and self.is_nan(actual):
            return "nan-payload"
        if self.is_denormal(expected) and self.is_zero(actual):
            return "denormals-as-zero"
        return "zero-sign" if self.is_zero(expected) and self.is_zero(actual) else None


def explain(check: Check, wrong: Sequence[int]) -> str:
    """Returns a text: the number of wrong elements; statement, documented and actual value of the first one; all sizes.

    If exactly one input element has the actual value, the text names it: the provider may have read that element. An
    output that must be a copy of an input has no statement. All coordinates have one number per dimension.
    """
    inputs, actual, first = check.inputs, check.actual, wrong[0]
    assert actual is not None, "outputs of a wrong type or shape have no elements to compare"
    wanted, got = check.expected[first], actual.bits[first]
    assert wanted is not None, "an element without a documented value is never wrong"
    texts = [_text(actual.data_type, bits) for bits in (wanted, got)]
    if texts[0] == texts[1]:
        width = actual.data_type.size * 2
        texts = [f"{text} (bits {bits:0{width}x})" for text, bits in zip(texts, (wanted, got), strict=True)]
    at = unravel(first, actual.sizes)
    if check.field != inputs.output_field:
        statement, read = f"the copy of {check.field}{list(at)}", None
    else:
        statement, read = inputs.desc.trace(at, inputs.tensors).text, _only_place(inputs, got)
    consistent = f", consistent with reading {read}" if read else ""
    values = f"{statement} = {texts[0]}, got {texts[1]}{consistent}"
    return f"{len(wrong)} of {len(actual.bits)} elements differ: {values}; sizes {_sizes(inputs)}"


def _sizes(inputs: Inputs) -> str:
    """Returns the sizes of all tensors by the pseudocode's names, and strides that are not packed.

    For example `input {1,3}, indices {1,2}, output {1,2}`.
    """
    desc, fields = inputs.desc, inputs.desc.own_spec.pseudocode.tensors
    strides = {name: desc.tensors[field].strides_text for name, field in fields.items() if field in desc.tensors}
    return ", ".join(f"{name} {show(sizes)}{strides.get(name, '')}" for name, sizes in desc.pseudocode_sizes.items())


def _only_place(inputs: Inputs, bits: int) -> str | None:
    """The only input element with these bits, as `input[1, 2]`; None if there are none or several."""
    sources = inputs.desc.moved(inputs.tensors)
    holders = [(name, tensor) for name, tensor in sources.items() if bits in tensor.bits]
    if len(holders) != 1 or holders[0][1].bits.count(bits) != 1:
        return None
    ((name, tensor),) = holders
    return f"{name}{list(unravel(tensor.bits.index(bits), tensor.sizes)) if tensor.sizes else ''}"


def _text(data_type: DataType, bits: int) -> str:
    return str(plain(from_bits(data_type, [bits])[0]))


def unravel(address: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Returns the coordinates of an element from its row-major address."""
    assert 0 <= address < prod(sizes), "the address is inside the tensor"
    return tuple(address // stride % size for stride, size in zip(strides_of(sizes), sizes, strict=True))
