"""What the cases of a whole tier cover of one operator: also triples, variants and the small scope; and what is
missing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from opmap.cases.case import Case, retyped
from opmap.cases.catalogue import cases_of
from opmap.cases.choice import ROWS, choice_of
from opmap.cases.coverage.covered import (
    Combination,
    Covered,
    OperatorCoverage,
    Share,
    operator_coverage,
    runnable_examples,
)
from opmap.cases.in_variants import classes as variant_classes
from opmap.cases.parameters import widths
from opmap.cases.variants import VARIANTS
from opmap.descriptors import OperatorDesc
from opmap.operators import OPERATORS
from opmap.pseudocode import show
from opmap.tensors import DataType

from .shown import shown_classes


@dataclass
class TierCovered(Covered):
    """The coverage of the cases of one operator in a tier.

    A case that is another case in a variant counts only for `variants` (variant -> number of cases) and `variant_pairs`
    (variant and class). `small_scope` has the descriptors of the small scope.
    """

    small_scope: set[tuple[object, ...]] = field(default_factory=set)
    variants: dict[str, int] = field(default_factory=dict)
    variant_pairs: set[tuple[str, tuple[str, str | None]]] = field(default_factory=set)

    @property
    def triples(self) -> set[Combination]:
        """The triples of classes of the cases so far. They are computed at each access."""
        return self.combinations(3)

    @property
    def possible_triples(self) -> int:
        """How many triples of classes are possible; 0 without covering arrays."""
        return choice_of(self.operator).possible_triples if self.has_arrays else 0

    def classify(self, case: Case) -> dict[str, str | None]:
        """Returns {parameter: class} for a case, by its values."""
        return shown_classes(case)

    def take(self, case: Case) -> None:
        """Adds everything that one case covers."""
        super().take(case)
        if VARIANTS[case.variant].base is not None:
            self.variants[case.variant] = self.variants.get(case.variant, 0) + 1
            self.variant_pairs.update((case.variant, pair) for pair in variant_classes(case.desc).items())
        elif _in_small_scope(case.desc):
            self.small_scope.add(_identity(case.desc))

    def missing(self, *, strength: int) -> list[str]:
        """Returns one text for each item that the tier promises and no case covers.

        `strength` is 1 for `smoke`, 2 for `standard`, 3 for `full`. Strength 1 promises every class, rule, example and
        field; strength 2 also every possible pair and the wide classes; strength 3 also every possible triple, the
        large classes and the small scope.
        """
        spec = self.definition.descriptor.spec()
        lacking = [f"{n} {c}" for n, names in self.parameters.items() for c in names if (n, c) not in self.classes]
        lacking += self._missing_beyond_strength_1(strength) if self.has_arrays else ["covering arrays"]
        lacking += [f"rule {id}" for id in (r.id for r in spec.rules if r.breaks) if id not in self.rules]
        lacking += [f"rule {id}" for id in self.reachable_tensor_rules if id not in self.rules]
        lacking += [f"example {e.id}" for e in runnable_examples(self.definition) if e.id not in self.examples]
        lacking += [f"field {f.name}" for f in spec.fields if len(self.fields.get(f.name, ())) < 2]
        return lacking

    def _missing_beyond_strength_1(self, strength: int) -> list[str]:
        """Returns the missing items that only strength 2 and 3 promise."""
        lacking = [*self._missing_pairs()] if strength > 1 else []
        lacking += [f"{n} {c}" for n, c in self.extra_classes(strength) if (n, c) not in self.classes]
        if strength > 2:
            lacking += self._missing_triples()
            lacking += [_text(desc) for desc in self.in_small_scope() if _identity(desc) not in self.small_scope]
        return lacking

    def _missing_pairs(self) -> Iterator[str]:
        impossible, covered = set(choice_of(self.operator).impossible_pairs), self.pairs
        for (a, a_classes), (b, b_classes) in itertools.combinations(self.parameters.items(), 2):
            for a_class, b_class in itertools.product(a_classes, b_classes):
                pair = f"{a} {a_class}, {b} {b_class}"
                if ((a, a_class), (b, b_class)) not in covered and pair not in impossible:
                    yield pair

    def _missing_triples(self) -> list[str]:
        chosen, covered = TierCovered(self.operator), self.triples
        for case in cases_of(self.definition, *ROWS):
            chosen.take(case)
        possible = sorted(chosen.triples)
        return [", ".join(f"{n} {c}" for n, c in triple) for triple in possible if triple not in covered]

    def in_small_scope(self) -> Iterator[OperatorDesc]:
        """Gives every valid descriptor of the small scope in each data width."""
        for desc in self.definition.descriptors(*self.definition.descriptor.spec().small_scope):
            index_type = DataType[(*desc.spec().usual_index_types, "INT64")[0]]
            for data_type in widths(self.definition):
                yield retyped(desc, data_type, index_type)


class TierOperatorCoverage(OperatorCoverage, frozen=True, kw_only=True):
    """The coverage of one operator in a tier. `small_scope` is there only for a tier that promises the small scope."""

    triples: Share
    small_scope: Share | msgspec.UnsetType = msgspec.UNSET


def of_operator(covered: TierCovered, strength: int) -> TierOperatorCoverage:
    """Returns the coverage of one operator; of as many classes at a time as `strength` says (see STRENGTHS)."""
    share: Share | msgspec.UnsetType = msgspec.UNSET
    if strength > 2:
        scope = sum(1 for _ in covered.definition.small_scope(*covered.definition.descriptor.spec().small_scope))
        share = len(covered.small_scope), len(widths(covered.definition)) * scope
    return TierOperatorCoverage(
        **msgspec.structs.asdict(operator_coverage(covered, strength)),
        triples=(len(covered.triples), covered.possible_triples),
        small_scope=share,
    )


def _in_small_scope(desc: OperatorDesc) -> bool:
    """Returns whether a descriptor is in the small scope."""
    dimensions, size = desc.spec().small_scope
    inside = all(len(t.sizes) <= dimensions and max(t.sizes) <= size for t in desc.tensors.values())
    return inside and desc.output.data_type in widths(OPERATORS[desc.operator])


def _identity(desc: OperatorDesc) -> tuple[object, ...]:
    """Returns the key of a descriptor in the small scope: data type, sizes, numbers."""
    return desc.output.data_type, *(t.sizes for t in desc.tensors.values()), *desc.numbers.values()


def _text(desc: OperatorDesc) -> str:
    sizes = (f"{name} {show(tensor.sizes)}" for name, tensor in desc.tensors.items())
    numbers = (f"{name} {number}" for name, number in desc.numbers.items())
    return f"descriptor {desc.output.data_type.name}, {', '.join((*sizes, *numbers))}"
