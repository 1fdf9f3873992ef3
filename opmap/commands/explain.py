"""`opmap explain`: shows the expanded pseudocode of a descriptor, and how one output element is read."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from ..descriptors import OperatorDesc
from ..dxdispatch import Dispatch
from ..errors import InputError
from ..reporting.terminal import print_line
from ..tensors import from_bits, plain
from .dispatches import read_dispatch


def run(options: Namespace) -> int:
    """Prints the documentation's pseudocode and the line that it expands to. Raises InputError for a bad file."""
    dispatch, desc = read_dispatch(options.file, name=options.case)
    spec = desc.spec()
    lines = [f"{spec.operator}  {spec.page.address}"]
    lines += (f"  {text}" for text in spec.pseudocode.text.strip().splitlines())
    lines += ["expands to", *(f"  {statement}" for statement in desc.statements)]
    if options.at is not None:
        lines += _element(dispatch, desc, options.at)
    for line in lines:
        print_line(line)
    return 0


def _element(dispatch: Dispatch, desc: OperatorDesc, at: Sequence[int]) -> list[str]:
    """Returns how one element of the output is read, down to its value. Raises InputError if there is no such element."""
    try:
        origin = desc.trace(at, dispatch.tensors)
    except ValueError as error:
        raise InputError(f"--at {error}") from None
    value: object = "undefined"
    if origin.tensor is not None and origin.address is not None:
        source = dispatch.tensors[desc.spec().pseudocode.tensors[origin.tensor]]
        value = plain(from_bits(source.data_type, [source.bits[origin.address]])[0])
    return [f"element [{', '.join(map(str, at))}]", f"  {origin.text} = {value}"]
