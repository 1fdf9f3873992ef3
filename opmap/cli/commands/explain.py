"""`opmap explain`: shows the expanded pseudocode of a descriptor, how one output element is read, and the rules for
descriptors."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ...cases.case import Case
from ...cases.selection import is_operator, operators_named
from ...cases.variants import PLAIN, VARIANTS
from ...errors import InputError, shown
from ...pseudocode import ZERO, Line, full_rank, show
from ...reports.terminal import print_line, write_json
from ...spec import Rule, TensorRule, all_specs, load_spec, tensor_rules
from ...tensors import from_bits, plain
from .dispatches import read_case

_MOST_SHOWN = 32
"""The most indices that are printed."""


def run(options: Namespace) -> int:
    """Prints the documentation's pseudocode, the tensors, and the line that the pseudocode expands to for their sizes.

    Of a rule, prints what it states and what breaks it; of an operator, its pseudocode and its rules; without a target,
    prints all rules. Raises InputError for a bad file, id or option.
    """
    if options.target is None or _RULE.fullmatch(options.target):
        return _rules(options)
    if operators := _operators(options.target):
        return _rules(options, operators)
    if options.json:
        raise InputError(f"--json is for rules, got {shown(options.target)}")
    case = read_case(options.target, name=options.node)
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
    """Returns how one element of an output is read, down to its value.

    Raises InputError if there is no such element.
    """
    outputs = [*case.desc.outputs]
    if output not in outputs and (output or len(outputs) > 1):
        wanted = f"must name one of the outputs {', '.join(outputs)}, such as {outputs[0]}:{','.join(map(str, at))}"
        raise InputError(f"--at {wanted}, got {shown(output) if output else 'no name'}")
    desc = case.desc.of_output(output or outputs[0])
    sizes = desc.output.sizes
    if len(at) != len(sizes) or any(coordinate >= size for coordinate, size in zip(at, sizes, strict=True)):
        raise InputError(f"--at must be an element of sizes {show(sizes)}, got {','.join(map(str, at))}")
    origin = desc.trace(at, case.tensors)
    bits = origin.value
    if origin.tensor is not None and origin.address is not None:
        bits = {**desc.pseudocode_tensors(case.tensors), ZERO: [0]}[origin.tensor][origin.address]
    value = "undefined" if bits is None else plain(from_bits(desc.output.data_type, [bits])[0])
    name = output if len(outputs) > 1 else "element "
    return [f"{name}[{', '.join(map(str, at))}]", f"  {origin.text} = {value}"]


# --- operators and rules ---

_RULE = re.compile(r"\w+\.[A-Za-z]+\d+")
"""What has the form of a rule id, such as TENSOR.C1."""


def _operators(word: str) -> list[str]:
    """Returns the operators that a word names; none if it is the name of a file, an id, or no operator."""
    return operators_named(word) if is_operator(word) and not os.path.exists(word) else []


def _rules(options: Namespace, operators: Sequence[str] = ()) -> int:
    """Prints the rule that is asked for, all rules, or those of some operators below the pseudocode of each."""
    if options.at is not None or options.node is not None:
        raise InputError(f"--{'at' if options.at is not None else 'node'} must come with a file or the id of a case")
    entries = [
        entry
        for entry in _entries()
        if options.target is None or entry["id"] == options.target.upper() or entry["id"].split(".")[0] in operators
    ]
    if not entries:
        wanted = "must be a rule id, such as TENSOR.C1 (opmap explain lists them)"
        raise InputError(f"explain: {wanted}, got {shown(options.target)}")
    if options.json:
        write_json(entries)
    elif options.target is None:
        _print_rules(entries)
    elif not operators:
        _print_rule(entries[0])
    for name in operators if not options.json else ():
        _print_operator(name)
        _print_rules([entry for entry in entries if entry["id"].startswith(f"{name}.")], "  ")
        print_line(
            f"for sizes: opmap explain {name.lower()}/example.1; opmap validate --list --operator {name} prints all ids"
        )
    return 0


def _print_operator(name: str) -> None:
    """Prints the pseudocode of an operator, and its fields."""
    spec = load_spec(name)
    print_line(f"{spec.operator}  {spec.page.address}")
    for text in spec.pseudocode.shown:
        print_line(f"  {text}")
    print_line(f"fields: {', '.join(spec.attributes)}")
    print_line("rules, beside those of every tensor (opmap explain ID shows one):")


def _print_rules(entries: Sequence[Mapping[str, Any]], indent: str = "") -> None:
    width = max((len(entry["id"]) for entry in entries), default=0)
    for entry in entries:
        print_line(f"{indent}{entry['id']:{width}}  {entry['text']}")


def _entries() -> Iterator[dict[str, Any]]:
    """Gives the rules of every tensor, then those of each operator, as the JSON document has them.

    `page` is None for a derived rule, and `check` is None for a rule that is written in Python. `breaks` names an
    example of an operator's page, and the fields to change in it; None if no descriptor breaks the rule.
    """
    tensors = tensor_rules()
    for tensor_rule in tensors.rules:
        yield _entry(tensor_rule, tensors.address, None)
    for spec in all_specs():
        place = f"{spec.page.address} (line {{}} at {spec.page.commit})".format
        for rule in spec.corrected.rules:
            entry = _entry(rule, place(rule.line), rule.check.strip())
            yield {**entry, "breaks": rule.breaks and {**entry["breaks"], "operator": spec.name}}
        for o in spec.left_out:
            yield {"id": o.rule, "text": o.text, "page": place(o.line), "check": None, "derived": False, "breaks": None}


def _entry(rule: Rule | TensorRule, page: str, check: str | None) -> dict[str, Any]:
    fields = {name: msgspec.to_builtins(getattr(rule, name)) for name in ("id", "text", "derived", "breaks")}
    return {**fields, "page": None if rule.derived else page, "check": check}


def _print_rule(rule: Mapping[str, Any]) -> None:
    print_line(f"{rule['id']}  {rule['text']}")
    if rule["check"]:
        print_line("states:")
        for text in rule["check"].splitlines():
            print_line(f"  {text}")
    derived = "none: the rule is derived, and a descriptor that breaks it has no documented meaning"
    print_line(f"page: {rule['page'] or derived}")
    breaks = rule["breaks"]
    if breaks is None:
        print_line("broken by: nothing at the highest feature level")
        return
    changes = ", ".join(f"{name} = {value}" for name, value in breaks["set"].items())
    print_line(f"broken by: example {breaks['example']} of {breaks['operator']}'s page with {changes}")
