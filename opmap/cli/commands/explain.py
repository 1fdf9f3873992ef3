"""`opmap explain`: shows the expanded pseudocode of a descriptor, and how one output element is read."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from ...cases.case import Case
from ...cases.variants import PLAIN, VARIANTS
from ...errors import InputError
from ...evidence.terminal import print_line
from ...pseudocode import ZERO, Line, full_rank, show
from ...tensors import from_bits, plain
from .dispatches import read_case

_MOST_SHOWN = 32
"""The most indices that are printed."""


def run(options: Namespace) -> int:
    """Prints the documentation's pseudocode, the tensors, and the line that the pseudocode expands to for their sizes.

    Raises InputError for a bad file or id.
    """
    case = read_case(options.target, name=options.case)
    desc, spec = case.desc, case.desc.spec()
    lines = [f"{spec.operator}  {spec.page.address}"]
    lines += (f"  {text}" for text in spec.pseudocode.shown)
    lines += ["for", *(f"  {text}" for text in _members(case))]
    sizes = desc.pseudocode_sizes
    expanded = (full_rank(line, sizes) if isinstance(line, Line) else line for line in desc.statements)
    lines += ["expands to", *(f"  {statement}" for statement in expanded)]
    if options.at is not None:
        lines += _element(case, *options.at)
    for line in lines:
        print_line(line)
    return 0


def _members(case: Case) -> list[str]:
    """Returns a line for each tensor with its name in the pseudocode, its type and sizes, and one for all numbers."""
    desc = case.desc
    fields = desc.own_spec.pseudocode.tensors
    width = max(map(len, fields))
    lines = [
        f"{name:{width}}  {field} {desc.tensors[field].data_type.name} {show(desc.tensors[field].sizes)}"
        for name, field in fields.items()
        if field in desc.tensors
    ]
    for name in desc.index_tensors():
        values = [str(value) for value in case.tensors[name].values[:_MOST_SHOWN]]
        more = ", ..." if len(case.tensors[name].bits) > _MOST_SHOWN else ""
        lines.append(f"{name} = [{', '.join(values)}{more}]")
    if case.variant != PLAIN:
        lines.append(f"variant {case.variant}: {VARIANTS[case.variant].text}")
    numbers = ", ".join(f"{name} {show(value)}" for name, value in desc.named_numbers.items())
    return [*lines, numbers] if numbers else lines


def _element(case: Case, output: str, at: Sequence[int]) -> list[str]:
    """Returns how one element of an output is read, down to its value. Raises InputError if there is no such element."""
    outputs = [*case.desc.outputs]
    if output not in outputs and (output or len(outputs) > 1):
        wanted = f"must name one of the outputs {', '.join(outputs)}, as {outputs[0]}:{','.join(map(str, at))}"
        raise InputError(f"--at {wanted}, got {output or 'none'}")
    desc = case.desc.of_output(output or outputs[0])
    try:
        origin = desc.trace(at, case.tensors)
    except ValueError as error:
        raise InputError(f"--at {error}") from None
    value: object = "undefined"
    if origin.tensor is not None and origin.address is not None:
        bits = {**desc.pseudocode_tensors(case.tensors), ZERO: [0]}[origin.tensor][origin.address]
        value = value if bits is None else plain(from_bits(desc.output.data_type, [bits])[0])
    name = output if len(outputs) > 1 else "element "
    return [f"{name}[{', '.join(map(str, at))}]", f"  {origin.text} = {value}"]
