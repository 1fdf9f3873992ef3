"""The search for relations: what happened to a wrong output as a whole, or that nothing was found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..cases.case import Case
from ..engines.arrays import dtype_of, wrong_outputs
from ..faults import FAULTS, FaultProvider
from ..faults.case_arrays import Bits, CaseArrays
from ..tensors import DataType
from .models import models
from .relation import UNKNOWN, Relation
from .relations_outputs import any_order, output_relations, some_missing, stale_part, value_relations
from .relations_wrong import WrongOutput


@dataclass(frozen=True)
class Earlier:
    """An output of an earlier call in the same process.

    `case` is the call's case id, and `back` how many calls back it was, from 1. `bits` are the bit patterns in
    row-major order. If a call should have given one output and gave another, both may be in memory: give one Earlier
    for each.
    """

    case: str
    back: int
    bits: Sequence[int]
    sizes: tuple[int, ...]
    data_type: DataType


def relations(case: Case, actual: Sequence[int], *, earlier: Sequence[Earlier] = ()) -> list[Relation]:
    """Returns every relation that explains nearly all wrong elements, the simplest first.

    `actual` are the bit patterns of the output in row-major order, of the right type and sizes; at least one element
    with a documented value differs. If there is no relation, the only one is of the kind `none`, and its remark is the
    relation that explains the most, if that is at least half. The order is: fault models; whole outputs; outputs of
    earlier calls; models; values; an order that follows no rule. For an output of more than MAX_OUTPUT elements, only
    the fault models that need such a size are tried, and nothing that moves the output or looks for addresses.
    """
    wrong = WrongOutput.of(case, actual)
    candidates = list(_candidates(wrong, earlier))
    found = [relation for relation in candidates if relation.or_unknown() is relation]
    found.sort(key=lambda relation: (relation.vague, relation.explained < relation.wrong))
    if found and not found[0].vague:
        return found
    hidden = "" if reveals_addresses(case) else ", and the data does not reveal addresses"
    unknown = wrong.relation("none", f"{UNKNOWN}{hidden}", 0, vague=True)
    closest = max((r for r in candidates if not r.vague), key=lambda relation: relation.explained, default=unknown)
    first, *more = found or [unknown]
    return [replace(first, remark=closest.or_unknown().remark if closest is not unknown else None), *more]


def reveals_addresses(case: Case) -> bool:
    """Returns whether every element that a case can move has bits of its own, so that the bits reveal the address."""
    data = WrongOutput.of(case, ()).data
    return len(np.unique(data)) == len(data)


def problem_relation(case: Case, problem: str) -> Relation:
    """Returns the relation of an output of a wrong type or shape; `problem` is what `wrong_outputs` says of it."""
    output, count = case.desc.output, len(case.desc.outputs)
    problem = problem.removeprefix(f"{case.desc.output_field}: ") if count > 1 else problem
    form = dtype_of(output.data_type), output.sizes, count
    names = [
        name
        for name, fault in FAULTS.items()
        if fault.result and wrong_outputs(FaultProvider(fault).run_case(case), *form) == problem
    ]
    kind = "type" if problem.startswith(f"the output must be {output.data_type.name}") else "shape"
    return Relation(kind, problem, names[0] if names else None, tuple(names[1:]))


def session_faults(calls: Iterable[tuple[Case, Sequence[int] | str | None]]) -> list[str]:
    """Returns the fault models of a session that give exactly the outputs of these calls, in their order.

    `calls` are all calls of one process from its first one on. Each has its output, or the SHA-256 of its bytes if that
    is all that is known; None if the call gave no output.
    """
    runs = {name: fault.session() for name, fault in FAULTS.items() if fault.session}
    for case, actual in calls:
        if not runs:
            break
        arrays = CaseArrays(case)
        output = actual if actual is None or isinstance(actual, str) else WrongOutput.of(case, actual)
        runs = {name: run for name, run in runs.items() if _agrees(run(arrays), output)}
    return list(runs)


def _agrees(bits: Bits, output: WrongOutput | str | None) -> bool:
    if isinstance(output, str):
        return hashlib.sha256(bits.tobytes()).hexdigest() == output
    return output is None or output.is_(bits)


# --- the search ----------------------------------------------------------------------------------------------------


def _candidates(wrong: WrongOutput, earlier: Sequence[Earlier]) -> Iterator[Relation]:
    """Gives all relations in the order of preference."""
    count = len(wrong.wrong)
    stale = list(_stale(wrong, earlier))
    names = _fitting_faults(wrong)
    if names:
        # The sort is stable. A fault of all cases comes before one of some; a lost element before a changed or
        # computed value.
        faults = {name: FAULTS[name] for name in names}
        names.sort(key=lambda n: (faults[n].concerns is not None, bool(faults[n].value or faults[n].changes_values)))
        names += dict.fromkeys(name for relation in stale for name in (relation.fault, *relation.ties) if name)
        yield Relation("fault", FAULTS[names[0]].text, names[0], tuple(names[1:]), count, count)
    yield from output_relations(wrong)
    yield from stale
    yield from models(wrong)
    if wrong.tells_of_values():
        yield from value_relations(wrong)
    yield from some_missing(wrong)
    yield from any_order(wrong)


def _fitting_faults(wrong: WrongOutput) -> list[str]:
    """Returns the fault models that give this output; not those that need an earlier call, or give another form."""
    return [
        name
        for name, fault in FAULTS.items()
        if not (fault.session or fault.result or fault.equivalent or (wrong.large and not fault.huge))
        and wrong.is_given_by(fault)
    ]


def _stale(wrong: WrongOutput, earlier: Sequence[Earlier]) -> Iterator[Relation]:
    """Gives the earlier calls whose output, or a part of it, stands in the output; the latest call first."""
    if not wrong.tells(16 + len(earlier)):
        return
    count, parts = len(wrong.wrong), []
    seen: set[bytes] = set()
    for call in sorted(earlier, key=lambda call: call.back):
        memory = np.asarray(call.bits, f"<u{call.data_type.size}")
        if not len(memory) or memory.tobytes() in seen:
            continue
        seen.add(memory.tobytes())
        fitted = np.resize(memory.view("<u1"), wrong.actual.nbytes).view(wrong.actual.dtype)
        calls_back = "1 call" if call.back == 1 else f"{call.back} calls"
        if wrong.is_(fitted):
            faults = _faults_of_stale(wrong, call, earlier)
            text = f"the output is the one of {call.case}, {calls_back} back"
            yield Relation("stale", text, faults[0] if faults else None, tuple(faults[1:]), count, count)
        elif part := stale_part(wrong, fitted):
            last = call.back == 1 and len(memory) * memory.itemsize > wrong.actual.nbytes
            fault = "run-previous-tail" if last and wrong.wrong.tolist() == [len(wrong.actual) - 1] else None
            text = f"{part} left over from the output of {call.case}, {calls_back} back"
            parts.append(Relation("stale", text, fault, (), count, count))
    yield from parts


def _faults_of_stale(wrong: WrongOutput, call: Earlier, earlier: Sequence[Earlier]) -> list[str]:
    """Returns the fault models of a session that would return the output of this call, as far as the outputs show."""
    names = ["run-previous-output"] if call.back == 1 else []
    alike = [e.back for e in earlier if (e.sizes, e.data_type) == (wrong.sizes, wrong.arrays.data_type)]
    if alike and call.back == max(alike):
        names.append("kept-output-by-sizes")
    return names
