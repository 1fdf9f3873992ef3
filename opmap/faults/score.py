"""Which faults a catalogue catches, and by which cases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ..cases.case import Case
from ..cases.parameters import is_large
from ..execution.arrays import dtype_of, from_array, wrong_outputs
from ..tensors import Tensor
from ..verdicts.compare import differences, undefined
from ..vocabulary import TIERS
from . import FAULTS, Fault, FaultProvider
from .access import Work


@dataclass(frozen=True)
class Score:
    """One fault and the ids of the cases that catch it, in their order."""

    name: str
    fault: Fault
    caught_by: tuple[str, ...]

    @property
    def alone(self) -> str | None:
        """The one case that catches it, where there is no other."""
        return self.caught_by[0] if len(self.caught_by) == 1 else None

    def due(self, tier: str) -> bool:
        """Whether this tier must catch it."""
        return self.fault.tier is not None and TIERS.index(self.fault.tier) <= TIERS.index(tier)

    def right(self, tier: str) -> bool:
        """Whether it is caught as it must be, and what differs in nothing is not."""
        return not (self.caught_by if self.fault.equivalent else self.due(tier) and not self.caught_by)


def score(
    cases: Collection[Case], faults: Mapping[str, Fault] = FAULTS, *, advance: Callable[[], None] = lambda: None
) -> list[Score]:
    """Runs every case on every fault, in one session each; of the large classes, on those faults alone that need them."""
    providers = {name: FaultProvider(fault) for name, fault in faults.items()}
    huge = {name: provider for name, provider in providers.items() if provider.fault.huge}
    caught: dict[str, list[str]] = {name: [] for name in faults}
    for case in cases:
        work, differs = Work(case), _comparison(case)
        for name, provider in (huge if is_large(case.desc) else providers).items():
            if differs(provider.run_work(work)):
                caught[name].append(case.id)
        advance()
    return [Score(name, fault, tuple(caught[name])) for name, fault in faults.items()]


def _comparison(case: Case) -> Callable[[Sequence], bool]:
    """Whether the judge calls outputs of this case a mismatch; where every element is defined, bytes say so too."""
    output = case.desc.output
    expected = case.expected
    defined = not undefined(expected)
    right = Tensor(output.data_type, output.sizes, expected).to_bytes() if defined else None

    def differs(outputs: Sequence) -> bool:
        if wrong_outputs(outputs, dtype_of(case.desc.output.data_type), case.desc.output.sizes):
            return True
        if outputs[0].tobytes() == right:
            return False
        return defined or bool(differences(expected, from_array(outputs[0]).bits))

    return differs


def summary(tier: str, cases: Sequence[Case], scores: Sequence[Score]) -> Iterator[str]:
    """A line per fault: how many cases catch it and the first, or why none does. Then what matters of it."""
    for s in scores:
        first = s.caught_by[0] if s.caught_by else None
        if s.fault.equivalent:
            told = f"{'CAUGHT, but ' if first else ''}no valid input shows it: {s.fault.equivalent}"
        elif first:
            told = f"{first}{' alone' if s.alone else ''}"
        elif s.due(tier):
            told = f"NOT CAUGHT{f', needs {s.fault.needs}' if s.fault.needs else ''}"
        else:
            told = f"not caught, needs {s.fault.needs}"
        yield f"{s.name:36} {len(s.caught_by):6}  {told}"
    real = [s for s in scores if not s.fault.equivalent]
    yield f"{sum(bool(s.caught_by) for s in real)} of {len(real)} faults caught by the {len(cases)} cases of {tier}"
    wrong = [s.name for s in scores if not s.right(tier)]
    if wrong:
        yield f"wrong: {', '.join(wrong)}"
    for s in scores:
        if s.alone:
            yield f"{s.alone} alone catches {s.name}"


def encode(tier: str, cases: Sequence[Case], scores: Sequence[Score]) -> bytes:
    """The document that `--json` prints; `caught_by` are places in `cases`."""
    place = {case.id: i for i, case in enumerate(cases)}
    faults = [
        {
            "name": s.name,
            "text": s.fault.text,
            "equivalent": s.fault.equivalent,
            "needs": s.fault.needs,
            "tier": s.fault.tier,
            "right": s.right(tier),
            "caught": len(s.caught_by),
            "first": s.caught_by[0] if s.caught_by else None,
            "alone": s.alone,
            "caught_by": [place[id] for id in s.caught_by],
        }
        for s in scores
    ]
    return msgspec.json.encode(
        {"schema": "opmap-faults/1", "tier": tier, "cases": [case.id for case in cases], "faults": faults}
    )
