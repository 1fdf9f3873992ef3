"""Measures the coverage of a set of cases: classes, pairs, rules, examples, fields. `tools/adequacy` measures more of a
whole tier."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import msgspec

from ...operators import OPERATORS, Operator, size_classes
from ...pseudocode import array_of
from ...spec import SpecExample, tensor_rules
from ...vocabulary import Tier
from ..case import Case
from ..choice import choice_of
from ..parameters import classify, extra_classes, parameters
from ..variants import VARIANTS
from .boundaries import boundary_rules, tensor_rule_ids

Combination = tuple[tuple[str, str], ...]
"""Classes of several parameters: (parameter, class) of each."""


@dataclass
class Covered:
    """The coverage of the cases of one operator.

    Pairs are counted only for cases that have a class of every parameter, because the covering arrays contain only such
    cases; `rows` are these classes of each such case, in the order of `parameters`. A case that is another case in a
    variant does not count.
    """

    operator: str
    cases: int = 0
    classes: set[tuple[str, str]] = field(default_factory=set)
    rows: set[tuple[str, ...]] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)
    examples: set[str] = field(default_factory=set)
    fields: dict[str, set[object]] = field(default_factory=dict)

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
        """The ids of the operator's rules that a descriptor can break, and of the TENSOR rules that a case can be
        at.
        """
        rules = self.definition.descriptor.spec().rules
        return {rule.id for rule in rules if rule.breaks} | {*self.reachable_tensor_rules}

    @property
    def reachable_tensor_rules(self) -> list[str]:
        """The ids of the TENSOR rules that a case can be at: if all tensors have four dimensions, none is near one or
        eight.
        """
        low, high = self.definition.dimension_counts
        ids, (fewest, most) = tensor_rule_ids(reachable=True), tensor_rules().dimension_counts
        return ids if low == fewest or high == most else [id for id in ids if id != "TENSOR.C1"]

    @property
    def pairs(self) -> set[Combination]:
        """The pairs of classes of the cases so far. They are computed at each access."""
        return self.combinations(2)

    def combinations(self, size: int) -> set[Combination]:
        """Returns the combinations of `size` classes that a row has."""
        rows = (zip(self.parameters, row, strict=True) for row in self.rows)
        return {combination for row in rows for combination in itertools.combinations(row, size)}

    def classify(self, case: Case) -> dict[str, str | None]:
        """Returns {parameter: class} for a case."""
        return classify(case)

    def take(self, case: Case) -> None:
        """Adds everything that one case covers."""
        if VARIANTS[case.variant].base is not None:
            return
        self.cases += 1
        name = case.id.split("/")[1]
        if name.startswith("example."):
            self.examples.add(name.removeprefix("example."))
        if extra := extra_classes(case.desc):
            self.classes.update(extra)
            return
        classes = {n: c for n, c in self.classify(case).items() if c is not None and c in self.parameters.get(n, ())}
        self.classes.update(classes.items())
        if len(classes) == len(self.parameters):
            self.rows.add(tuple(classes[name] for name in self.parameters))
        for name, number in case.desc.numbers.items():
            self.fields.setdefault(name, set()).add(number)
        for name, tensor in case.desc.tensors.items():
            self.fields.setdefault(array_of(name) or name, set()).add((tensor.data_type, tensor.sizes))
        if not self._all_rules <= self.rules:
            self.rules |= boundary_rules(case.desc)

    def possible(self, strength: int) -> tuple[int, int]:
        """Returns how many classes and pairs are possible; no pairs without covering arrays."""
        counts = [len(classes) for classes in self.parameters.values()]
        choice = choice_of(self.operator)
        pairs = sum(a * b for a, b in itertools.combinations(counts, 2)) - len(choice.impossible_pairs)
        return sum(counts) + len(self.extra_classes(strength)), pairs if self.has_arrays else 0

    @property
    def has_arrays(self) -> bool:
        """Whether rows were chosen for the operator. A registered one may have none."""
        return "classes" in choice_of(self.operator).parts

    def extra_classes(self, strength: int) -> list[tuple[str, str]]:
        """Returns the wide classes from strength 2 on, the large classes from strength 3 on."""
        tables = [size_classes.WIDE] if strength > 1 else []
        if strength > 2:
            tables = [size_classes.WIDE, size_classes.LARGE]
        return [(n, c) for table in tables for n, classes in table.items() if n in self.parameters for c in classes]


C = TypeVar("C", bound=Covered)


def measure(cases: Iterable[Case], kind: type[C]) -> dict[str, C]:
    """Returns the coverage of the cases, by operator name."""
    covered = {name: kind(name) for name in OPERATORS}
    for case in cases:
        covered[case.desc.operator].take(case)
    return covered


def runnable_examples(operator: Operator) -> list[SpecExample]:
    """Returns the documented examples that have values."""
    return [example for example in operator.descriptor.spec().examples if example.runnable]


STRENGTHS: dict[Tier, int] = {"smoke": 1, "standard": 2, "full": 3}
"""Tier -> how many classes at a time it promises to cover: single classes, pairs, triples."""

Share = tuple[int, int]
"""How many are covered, and how many are possible."""


class OperatorCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of one operator."""

    operator: str
    cases: int
    values: Share
    pairs: Share
    rules: Share
    examples: Share
    fields: Share


def operator_coverage(covered: Covered, strength: int) -> OperatorCoverage:
    """Returns the coverage of one operator; of as many classes at a time as `strength` says (see STRENGTHS)."""
    values, pairs = covered.possible(strength)
    rules, fields = own_rules(covered), covered.definition.descriptor.spec().fields
    return OperatorCoverage(
        operator=covered.definition.descriptor.spec().operator,
        cases=covered.cases,
        values=(len(covered.classes), values),
        pairs=(len(covered.pairs), pairs),
        rules=(len(covered.rules & rules), len(rules)),
        examples=(len(covered.examples), len(runnable_examples(covered.definition))),
        fields=(sum(len(values) > 1 for values in covered.fields.values()), len(fields)),
    )


def own_rules(covered: Covered) -> set[str]:
    """Returns the ids of the operator's own rules."""
    return {rule.id for rule in covered.definition.descriptor.spec().rules}
