"""Measures the coverage of a set of cases: classes, pairs, triples, rules, examples, fields."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from ...descriptors import OperatorDesc
from ...operators import OPERATORS, Operator, size_classes
from ...pseudocode import array_of, show
from ...spec import SpecExample, tensor_rules
from ...tensors import DataType
from ...vocabulary import Tier
from ..case import Case, retyped
from ..catalogue import cases_of
from ..choice import ROWS, choice_of
from ..in_variants import classes as variant_classes
from ..parameters import classify, extra_classes, parameters, widths
from ..variants import VARIANTS
from .boundaries import boundary_rules, tensor_rule_ids

Combination = tuple[tuple[str, str], ...]
"""Classes of several parameters: (parameter, class) of each."""


@dataclass
class Covered:
    """The coverage of the cases of one operator.

    Pairs and triples are counted only for cases that have a class of every parameter, because the covering arrays
    contain only such cases; `rows` are these classes of each such case, in the order of `parameters`. A case that is
    another case in a variant counts only for `variants` (variant -> number of cases) and `variant_pairs` (variant and
    class).
    """

    operator: str
    cases: int = 0
    classes: set[tuple[str, str]] = field(default_factory=set)
    rows: set[tuple[str, ...]] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)
    examples: set[str] = field(default_factory=set)
    fields: dict[str, set[object]] = field(default_factory=dict)
    world: set[tuple[object, ...]] = field(default_factory=set)
    variants: dict[str, int] = field(default_factory=dict)
    variant_pairs: set[tuple[str, tuple[str, str | None]]] = field(default_factory=set)

    @property
    def definition(self) -> Operator:
        """The operator, as its file defines it."""
        return OPERATORS[self.operator]

    @cached_property
    def parameters(self) -> dict[str, tuple[str, ...]]:
        """The operator's parameters with their classes, in the order of the covering arrays' columns."""
        return parameters(self.definition)

    @cached_property
    def _all_rules(self) -> set[str]:
        """The ids of the operator's rules that a descriptor can break, and of the TENSOR rules that a case can be at."""
        rules = self.definition.descriptor.spec().rules
        return {rule.id for rule in rules if rule.breaks} | {*self._tensor_rules}

    @property
    def _tensor_rules(self) -> list[str]:
        """The ids of the TENSOR rules that a case can be at: if all tensors have four dimensions, none is near one or eight."""
        low, high = self.definition.dimension_counts
        ids, (fewest, most) = tensor_rule_ids(reachable=True), tensor_rules().dimension_counts
        return ids if low == fewest or high == most else [id for id in ids if id != "TENSOR.C1"]

    @property
    def pairs(self) -> set[Combination]:
        """The pairs of classes of the cases so far. They are computed at each access."""
        return self._combinations(2)

    @property
    def triples(self) -> set[Combination]:
        """The triples of classes of the cases so far. They are computed at each access."""
        return self._combinations(3)

    def _combinations(self, size: int) -> set[Combination]:
        """Returns the combinations of `size` classes that a row has."""
        rows = (zip(self.parameters, row, strict=True) for row in self.rows)
        return {combination for row in rows for combination in itertools.combinations(row, size)}

    def take(self, case: Case) -> None:
        """Adds everything that one case covers."""
        if VARIANTS[case.variant].base is not None:
            self.variants[case.variant] = self.variants.get(case.variant, 0) + 1
            self.variant_pairs.update((case.variant, pair) for pair in variant_classes(case.desc).items())
            return
        self.cases += 1
        name = case.id.split("/")[1]
        if name.startswith("example."):
            self.examples.add(name.removeprefix("example."))
        if extra := extra_classes(case.desc):
            self.classes.update(extra)
            return
        classes = {n: c for n, c in classify(case).items() if c is not None and c in self.parameters.get(n, ())}
        self.classes.update(classes.items())
        if len(classes) == len(self.parameters):
            self.rows.add(tuple(classes[name] for name in self.parameters))
        for name, number in case.desc.numbers.items():
            self.fields.setdefault(name, set()).add(number)
        for name, tensor in case.desc.tensors.items():
            self.fields.setdefault(array_of(name) or name, set()).add((tensor.data_type, tensor.sizes))
        if not self._all_rules <= self.rules:
            self.rules |= boundary_rules(case.desc)
        if _in_world(case.desc):
            self.world.add(_identity(case.desc))

    def missing(self, *, strength: int) -> list[str]:
        """Returns one text for each item that the tier promises and no case covers.

        `strength` is 1 for `smoke`, 2 for `standard`, 3 for `full`. Strength 1 promises every class, rule, example and
        field; strength 2 also every possible pair and the wide classes; strength 3 also every possible triple, the
        large classes and the small scope.
        """
        spec = self.definition.descriptor.spec()
        lacking = [f"{n} {c}" for n, names in self.parameters.items() for c in names if (n, c) not in self.classes]
        lacking += self._missing_beyond_strength_1(strength) if self._has_arrays else ["covering arrays"]
        lacking += [f"rule {id}" for id in (r.id for r in spec.rules if r.breaks) if id not in self.rules]
        lacking += [f"rule {id}" for id in self._tensor_rules if id not in self.rules]
        lacking += [f"example {e.id}" for e in runnable_examples(self.definition) if e.id not in self.examples]
        lacking += [f"field {f.name}" for f in spec.fields if len(self.fields.get(f.name, ())) < 2]
        return lacking

    def _missing_beyond_strength_1(self, strength: int) -> list[str]:
        """Returns the missing items that only strength 2 and 3 promise."""
        lacking = [*self._missing_pairs()] if strength > 1 else []
        lacking += [f"{n} {c}" for n, c in self._extra_classes(strength) if (n, c) not in self.classes]
        if strength > 2:
            lacking += self._missing_triples()
            lacking += [_text(desc) for desc in self.small_world() if _identity(desc) not in self.world]
        return lacking

    @property
    def _has_arrays(self) -> bool:
        """Whether rows were chosen for the operator. A registered one may have none."""
        return "classes" in choice_of(self.operator).parts

    def _missing_pairs(self) -> Iterator[str]:
        impossible, covered = set(choice_of(self.operator).impossible_pairs), self.pairs
        for (a, a_classes), (b, b_classes) in itertools.combinations(self.parameters.items(), 2):
            for a_class, b_class in itertools.product(a_classes, b_classes):
                pair = f"{a} {a_class}, {b} {b_class}"
                if ((a, a_class), (b, b_class)) not in covered and pair not in impossible:
                    yield pair

    def _missing_triples(self) -> list[str]:
        chosen, covered = Covered(self.operator), self.triples
        for case in cases_of(self.definition, *ROWS):
            chosen.take(case)
        possible = sorted(chosen.triples)
        return [", ".join(f"{n} {c}" for n, c in triple) for triple in possible if triple not in covered]

    def _extra_classes(self, strength: int) -> list[tuple[str, str]]:
        """Returns the wide classes from strength 2 on, the large classes from strength 3 on."""
        tables = [size_classes.WIDE] if strength > 1 else []
        if strength > 2:
            tables = [size_classes.WIDE, size_classes.LARGE]
        return [(n, c) for table in tables for n, classes in table.items() if n in self.parameters for c in classes]

    def small_world(self) -> Iterator[OperatorDesc]:
        """Gives every valid descriptor of the small scope in each data width."""
        for desc in self.definition.descriptors(*self.definition.descriptor.spec().world):
            index_type = DataType[(*desc.spec().usual_index_types, "INT64")[0]]
            for data_type in widths(self.definition):
                yield retyped(desc, data_type, index_type)

    def possible(self, *, strength: int) -> tuple[int, int, int]:
        """Returns how many classes, pairs and triples are possible; 0 pairs and triples without covering arrays."""
        counts = [len(classes) for classes in self.parameters.values()]
        classes = sum(counts) + len(self._extra_classes(strength))
        if not self._has_arrays:
            return classes, 0, 0
        choice = choice_of(self.operator)
        pairs = sum(a * b for a, b in itertools.combinations(counts, 2))
        return classes, pairs - len(choice.impossible_pairs), choice.possible_triples


def measure(cases: Iterable[Case]) -> dict[str, Covered]:
    """Returns the coverage of the cases, by operator name."""
    covered = {name: Covered(name) for name in OPERATORS}
    for case in cases:
        covered[case.desc.operator].take(case)
    return covered


def runnable_examples(operator: Operator) -> list[SpecExample]:
    """Returns the documented examples that have values."""
    return [example for example in operator.descriptor.spec().examples if example.runnable]


def _in_world(desc: OperatorDesc) -> bool:
    """Returns whether a descriptor is in the small scope."""
    dimensions, size = desc.spec().world
    inside = all(len(t.sizes) <= dimensions and max(t.sizes) <= size for t in desc.tensors.values())
    return inside and desc.output.data_type in widths(OPERATORS[desc.operator])


def _identity(desc: OperatorDesc) -> tuple[object, ...]:
    """Returns the key of a descriptor in the small scope: data type, sizes, numbers."""
    return desc.output.data_type, *(t.sizes for t in desc.tensors.values()), *desc.numbers.values()


def _text(desc: OperatorDesc) -> str:
    sizes = (f"{name} {show(tensor.sizes)}" for name, tensor in desc.tensors.items())
    numbers = (f"{name} {number}" for name, number in desc.numbers.items())
    return f"descriptor {desc.output.data_type.name}, {', '.join((*sizes, *numbers))}"


STRENGTHS: dict[Tier, int] = {"smoke": 1, "standard": 2, "full": 3}
"""Tier -> how many classes at a time it promises to cover: single classes, pairs, triples."""

Share = tuple[int, int]
"""How many are covered, and how many are possible."""


class OperatorCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of one operator. `world` is there only for a tier that promises the small world."""

    operator: str
    cases: int
    values: Share
    pairs: Share
    triples: Share
    rules: Share
    examples: Share
    fields: Share
    world: Share | msgspec.UnsetType = msgspec.UNSET


def operator_coverage(covered: Covered, strength: int) -> OperatorCoverage:
    """Returns the coverage of one operator; of as many classes at a time as `strength` says (see STRENGTHS)."""
    values, pairs, triples = covered.possible(strength=strength)
    rules, fields = own_rules(covered), covered.definition.descriptor.spec().fields
    width_count, descriptor_count = (
        len(widths(covered.definition)),
        sum(1 for _ in covered.definition.world(*covered.definition.descriptor.spec().world)) if strength > 2 else 0,
    )
    return OperatorCoverage(
        operator=covered.definition.descriptor.spec().operator,
        cases=covered.cases,
        values=(len(covered.classes), values),
        pairs=(len(covered.pairs), pairs),
        triples=(len(covered.triples), triples),
        rules=(len(covered.rules & rules), len(rules)),
        examples=(len(covered.examples), len(runnable_examples(covered.definition))),
        fields=(sum(len(values) > 1 for values in covered.fields.values()), len(fields)),
        world=(len(covered.world), width_count * descriptor_count) if strength > 2 else msgspec.UNSET,
    )


def own_rules(covered: Covered) -> set[str]:
    """Returns the ids of the operator's own rules."""
    return {rule.id for rule in covered.definition.descriptor.spec().rules}
