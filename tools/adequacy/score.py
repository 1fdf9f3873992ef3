"""The fault score: which faults a set of cases catches, and which cases catch each of them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from opmap.cases.case import Case
from opmap.cases.parameters import is_large
from opmap.engines.arrays import dtype_of, wrong_outputs
from opmap.faults.case_arrays import Bits, CaseArrays
from opmap.faults.fault import Array, Fault, FaultProvider
from opmap.faults.registry import FAULTS
from opmap.tensors import is_open
from opmap.vocabulary import Tier, tiers_in


@dataclass(frozen=True)
class Score:
    """One fault and the ids of the cases that catch it, in the order of the cases."""

    name: str
    fault: Fault
    caught_by: tuple[str, ...]

    @property
    def first(self) -> str | None:
        """The first case that catches the fault; None if no case does."""
        return self.caught_by[0] if self.caught_by else None

    @property
    def alone(self) -> str | None:
        """The case that catches the fault if no other case does; None if no case or several cases do."""
        return self.caught_by[0] if len(self.caught_by) == 1 else None

    def due(self, tier: Tier) -> bool:
        """Returns True if this tier must catch the fault."""
        return self.fault.tier in tiers_in(tier)

    def right(self, tier: Tier) -> bool:
        """Returns False if this tier must catch the fault and does not, or if it catches an equivalent fault."""
        return not (self.caught_by if self.fault.equivalent else self.due(tier) and not self.caught_by)


def score(
    cases: Collection[Case], faults: Mapping[str, Fault] = FAULTS, *, advance: Callable[[], None] = lambda: None
) -> list[Score]:
    """Returns one score per fault. Every fault runs the cases in their order, in one session.

    A case of a large size class runs only on the `huge` faults. `advance` is called after each case.
    """
    providers = {name: FaultProvider(fault) for name, fault in faults.items()}
    huge = {name: provider for name, provider in providers.items() if provider.fault.huge}
    caught_by: dict[str, list[str]] = {name: [] for name in faults}
    for case in cases:
        arrays = CaseArrays(case)
        outputs = [(output, *_comparisons(output.case)) for output in arrays.outputs]
        right_is_wrong = [are_wrong(output.right) for output, _, are_wrong in outputs]
        for name, provider in (huge if is_large(case.desc) else providers).items():
            all_bits = [provider.bits(output) for output, *_ in outputs]
            if provider.fault.result:
                wrong = outputs[0][1](provider.results(all_bits, arrays))
            else:
                compared = zip(all_bits, outputs, right_is_wrong, strict=True)
                wrong = any(
                    known if bits is o.right else are_wrong(bits) for bits, (o, _, are_wrong), known in compared
                )
            if wrong:
                caught_by[name].append(case.id)
        advance()
    return [Score(name, fault, tuple(caught_by[name])) for name, fault in faults.items()]


def _comparisons(case: Case) -> tuple[Callable[[Sequence[Array]], bool], Callable[[Bits], bool]]:
    """Returns two functions that say whether the judge calls a result a mismatch of this case.

    The first takes outputs, of which it looks at the first; the second the bits of an output that has the right type
    and sizes. They compare whole arrays, because each case is compared with the outputs of every fault.
    """
    dtype, sizes = dtype_of(case.desc.output.data_type), case.desc.output.sizes
    bits_type = f"<u{dtype.itemsize}"
    expected = case.expected
    documented = None
    if not isinstance(expected, (array, memoryview)):
        documented = np.array([not is_open(bits) for bits in expected])
        expected = [bits or 0 for bits in expected]
    expected_bits = np.asarray(expected, bits_type)

    def are_wrong(bits: Bits) -> bool:
        different = bits.view(bits_type) != expected_bits
        return bool((different if documented is None else different & documented).any())

    def is_wrong(outputs: Sequence[Array]) -> bool:
        wrong = wrong_outputs(outputs, dtype, sizes, len(case.desc.outputs))
        return bool(wrong) or are_wrong(np.ascontiguousarray(outputs[0], dtype).reshape(-1).view(bits_type))

    return is_wrong, are_wrong


def summary(tier: Tier, cases: Sequence[Case], scores: Sequence[Score]) -> Iterator[str]:
    """Gives the lines that `python tools/adequacy faults` prints.

    First one line per fault: how many cases catch it and the first of them, or why no case does. Then the totals, the
    faults whose score is not right, and the cases that alone catch a fault.
    """
    for s in scores:
        if s.fault.equivalent:
            status = f"{'CAUGHT, but ' if s.first else ''}no valid input shows it: {s.fault.equivalent}"
        elif s.first:
            status = f"{s.first}{' alone' if s.alone else ''}"
        elif s.fault.tier is None:
            status = "no operator of the package computes such values"
        elif s.due(tier):
            status = f"NOT CAUGHT{f', needs {s.fault.needs}' if s.fault.needs else ''}"
        else:
            status = f"not caught, needs {s.fault.needs}"
        yield f"{s.name:36} {len(s.caught_by):6}  {status}"
    real = [s for s in scores if s.fault.tier]
    yield f"{sum(bool(s.caught_by) for s in real)} of {len(real)} faults caught by the {len(cases)} cases of {tier}"
    wrong = [s.name for s in scores if not s.right(tier)]
    if wrong:
        yield f"wrong: {', '.join(wrong)}"
    for s in scores:
        if s.alone:
            yield f"{s.alone} alone catches {s.name}"


def encode(tier: Tier, cases: Sequence[Case], scores: Sequence[Score]) -> bytes:
    """Returns the JSON document that `python tools/adequacy faults --json` prints.

    `caught_by` holds positions in `cases`.
    """
    positions = {case.id: i for i, case in enumerate(cases)}
    faults = [
        {
            "name": s.name,
            "text": s.fault.text,
            "equivalent": s.fault.equivalent,
            "needs": s.fault.needs,
            "tier": s.fault.tier,
            "right": s.right(tier),
            "caught": len(s.caught_by),
            "first": s.first,
            "alone": s.alone,
            "caught_by": [positions[case_id] for case_id in s.caught_by],
        }
        for s in scores
    ]
    return msgspec.json.encode(
        {"schema": "opmap-faults/1", "tier": tier, "cases": [case.id for case in cases], "faults": faults}
    )
