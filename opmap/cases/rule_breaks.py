"""Descriptors that keep or break the rules of the pages: the worked examples, and what the spec says breaks each
rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..descriptors import OperatorDesc
from ..errors import OpmapError
from ..mapping.dxdispatch import desc_json
from ..mapping.dxdispatch.descriptor_json import read_desc
from ..mapping.dxdispatch.json_value import JsonValue
from ..operators import OPERATORS
from ..spec import Spec, all_specs, load_spec, tensor_rules
from ..spec.loader import Breaks
from ..tensors import Tensor
from .catalogue import example_descriptor
from .written_once import rows_of, written


@dataclass(frozen=True, kw_only=True)
class Question:
    """A descriptor of which the rules and DirectML may think differently. `source` says where it is from."""

    source: str
    desc: OperatorDesc

    @property
    def runnable(self) -> bool:
        """Whether values can be given: no tensor by itself is wrong, and none is large."""
        tensors = self.desc.tensors
        outputs = self.desc.outputs
        wrong = any(list(tensor.violations(name, output=name in outputs)) for name, tensor in tensors.items())
        return not wrong and all(t.buffer_element_count <= _MOST_ELEMENTS for t in tensors.values())

    def values(self) -> dict[str, Tensor]:
        """Returns inputs: each element of a data tensor is its own address, and indices are below the smallest
        dimension.

        So every index points into every dimension, whichever one it is applied to, and the output shows what was read.
        """
        desc = self.desc
        smallest = min(
            (size for name in desc.own_spec.data_tensors for size in desc.tensors[name].sizes if size > 1), default=1
        )
        values = {}
        for name, tensor in desc.inputs.items():
            numbers: Sequence[int] = tensor.read(range(tensor.buffer_element_count))
            if name in desc.index_tensors():
                numbers = [_PATTERN[address % len(_PATTERN)] % smallest for address in numbers]
                if not desc.violations() and (rows := rows_of(desc, name)) is not None:
                    numbers = written(numbers, rows, desc.index_bounds[name]).tolist()
            values[name] = Tensor.from_values(tensor.data_type, tensor.sizes, numbers)
        return values


_MOST_ELEMENTS = 4096
_PATTERN = (1, 0, 2, 2, 1, 0, 1)
"""The indices, before each is taken modulo the smallest dimension."""


def questions() -> Iterator[Question]:
    """Gives the examples as corrected, and as printed if that breaks a rule; descriptors that break each rule; layouts
    that break none.
    """
    for spec in all_specs():
        yield from _examples(spec)
    for tensor_rule in tensor_rules().rules:
        spec = load_spec(tensor_rule.breaks.operator)
        yield Question(source=tensor_rule.id, desc=broken_descriptor(spec, tensor_rule.breaks))
    for layout in tensor_rules().layouts:
        words = ", ".join(f"{name} {value}" for name, value in layout.set.items())
        yield Question(source=words, desc=broken_descriptor(load_spec(layout.operator), layout))
    for spec in all_specs():
        for rule in spec.rules:
            for breaks in rule.ways:
                yield Question(source=rule.id, desc=broken_descriptor(spec, breaks))


def _examples(spec: Spec) -> Iterator[Question]:
    for example in spec.corrected.examples:
        if example.runnable:
            printed = _example(spec, example.id)
            corrected = _example(spec.corrected, example.id)
            if printed is not None and printed.violations():
                yield Question(source=f"example {example.id} as printed", desc=printed)
            if corrected is not None:
                yield Question(source=f"example {example.id}", desc=corrected)


def _example(spec: Spec, id: str) -> OperatorDesc | None:
    try:
        return example_descriptor(spec, id)[0]
    except (OpmapError, KeyError):  # the printed text may be no whole example
        return None


def broken_descriptor(spec: Spec, breaks: Breaks) -> OperatorDesc:
    """Returns the corrected example of a page with the fields changed that break a rule."""
    desc, _ = example_descriptor(spec.corrected, breaks.example)
    fields: dict[str, Any] = desc_json(desc)["desc"]
    for name, value in breaks.set.items():
        member, _, field = name.partition(".")
        if field:
            array, _, number = member.partition("[")
            tensor = fields[array][int(number.rstrip("]"))] if number else fields[array]
            tensor[field] = value
        else:
            fields[member] = value
    described: OperatorDesc = read_desc(OPERATORS[spec.name].descriptor, JsonValue(fields, "$"))
    return described
