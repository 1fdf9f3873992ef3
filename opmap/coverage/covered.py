"""What a set of cases covers, measured from the cases: classes, pairs, triples, rules, examples, fields."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ..cases.case import Case, retyped
from ..cases.covering_arrays import Combination, arrays, combinations, has_arrays
from ..cases.parameters import WIDTHS, WORLD, classify, extra_classes, parameters
from ..descriptors import OperatorDesc, TensorDesc
from ..operators import OPERATORS, AnyOperator, size_classes
from ..spec import SpecExample
from ..tensors import DataType
from .boundaries import boundary_rules, tensor_rule_ids


@dataclass
class Covered:
    """What the cases of one operator cover.

    Pairs and triples are counted only for cases that have a class of every parameter, because the covering arrays
    contain only such cases.
    """

    operator: str
    cases: int = 0
    classes: set[tuple[str, str]] = field(default_factory=set)
    pairs: set[Combination] = field(default_factory=set)
    triples: set[Combination] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)
    examples: set[str] = field(default_factory=set)
    fields: dict[str, set[object]] = field(default_factory=dict)
    world: set[tuple[object, ...]] = field(default_factory=set)

    @property
    def definition(self) -> AnyOperator:
        """What the operator's file gives."""
        return OPERATORS[self.operator]

    @cached_property
    def parameters(self) -> dict[str, tuple[str, ...]]:
        """The operator's parameters with their classes, in the order of the covering arrays' columns."""
        return arrays(self.operator).parameters if has_arrays(self.operator) else parameters(self.definition)

    def take(self, case: Case) -> None:
        """Counts one case."""
        self.cases += 1
        name = case.id.split("/")[1]
        if name.startswith("example."):
            self.examples.add(name.removeprefix("example."))
        if extra := extra_classes(case.desc):
            self.classes.update(extra)
            return
        measured = classify(case)
        classes = {n: c for n, known in self.parameters.items() if (c := measured.get(n)) is not None and c in known}
        self.classes.update(classes.items())
        if len(classes) == len(self.parameters):
            self.pairs.update(combinations(classes, 2))
            self.triples.update(combinations(classes, 3))
        for name, number in case.desc.numbers.items():
            self.fields.setdefault(name, set()).add(number)
        for name, tensor in case.desc.tensors.items():
            self.fields.setdefault(name, set()).add((tensor.data_type, tensor.sizes))
        if not {r.id for r in case.desc.spec().rules} | set(tensor_rule_ids(reachable=True)) <= self.rules:
            self.rules |= boundary_rules(case.desc)
        if _in_world(case.desc):
            self.world.add(_identity(case.desc))

    def missing(self, *, strength: int) -> list[str]:
        """Returns what the tier promises and the cases lack, one text each.

        `strength` is 1 for `smoke`, 2 for `standard`, 3 for `full`. Strength 1 promises every class, rule, example and
        field; strength 2 also every possible pair and the wide classes; strength 3 also every possible triple, the
        large classes and the small scope.
        """
        spec = self.definition.descriptor.spec()
        lacking = [f"{n} {c}" for n, known in self.parameters.items() for c in known if (n, c) not in self.classes]
        lacking += self._missing_combinations(strength) if has_arrays(self.operator) else ["covering arrays"]
        lacking += [f"rule {r.id}" for r in spec.rules if r.id not in self.rules]
        lacking += [f"rule {id}" for id in tensor_rule_ids(reachable=True) if id not in self.rules]
        lacking += [f"example {e.id}" for e in runnable_examples(self.definition) if e.id not in self.examples]
        lacking += [f"field {f.name}" for f in spec.fields if len(self.fields.get(f.name, ())) < 2]
        return lacking

    def _missing_combinations(self, strength: int) -> list[str]:
        kept, lacking = arrays(self.operator), []
        if strength > 1:
            lacking += [pair for pair in self._missing_pairs() if pair not in kept.impossible_pairs]
        lacking += [f"{n} {c}" for n, c in self._extra_classes(strength) if (n, c) not in self.classes]
        if strength > 2:
            rows = kept.choices((*kept.pairs, *kept.triples))
            possible = dict.fromkeys(triple for choice in rows for triple in combinations(choice, 3))
            lacking += [", ".join(f"{n} {c}" for n, c in triple) for triple in possible if triple not in self.triples]
            lacking += [_text(desc) for desc in self.small_world() if _identity(desc) not in self.world]
        return lacking

    def _missing_pairs(self) -> Iterator[str]:
        for (a, first), (b, second) in itertools.combinations(self.parameters.items(), 2):
            for one, two in itertools.product(first, second):
                if ((a, one), (b, two)) not in self.pairs:
                    yield f"{a} {one}, {b} {two}"

    def _extra_classes(self, strength: int) -> list[tuple[str, str]]:
        """The wide classes from strength 2 on, the large classes from strength 3 on."""
        tables = [size_classes.WIDE] if strength > 1 else []
        if strength > 2:
            tables = [size_classes.WIDE, size_classes.LARGE]
        return [(n, c) for table in tables for n, classes in table.items() if n in self.parameters for c in classes]

    def small_world(self) -> Iterator[OperatorDesc]:
        """Gives every valid descriptor of the small scope in each data width."""
        for desc in self.definition.descriptors(*WORLD):
            for data_type in WIDTHS:
                yield retyped(desc, data_type, DataType.INT64)

    def possible(self, *, strength: int) -> tuple[int, int, int]:
        """Returns how many classes, pairs and triples are possible; 0 pairs and triples without covering arrays."""
        counts = [len(classes) for classes in self.parameters.values()]
        classes = sum(counts) + len(self._extra_classes(strength))
        if not has_arrays(self.operator):
            return classes, 0, 0
        kept = arrays(self.operator)
        pairs = sum(a * b for a, b in itertools.combinations(counts, 2))
        return classes, pairs - len(kept.impossible_pairs), kept.possible_triples


def measure(cases: Iterable[Case]) -> dict[str, Covered]:
    """Returns what the cases cover, by operator name."""
    covered = {name: Covered(name) for name in OPERATORS}
    for case in cases:
        covered[case.desc.operator].take(case)
    return covered


def runnable_examples(operator: AnyOperator) -> list[SpecExample]:
    """Returns the documented examples that have values."""
    return [example for example in operator.descriptor.spec().examples if example.runnable]


def _in_world(desc: OperatorDesc) -> bool:
    """Whether a descriptor is in the small scope."""
    dimensions, size = WORLD
    inside = all(len(t.sizes) <= dimensions and max(t.sizes) <= size for t in desc.tensors.values())
    return inside and desc.output.data_type in WIDTHS


def _identity(desc: OperatorDesc) -> tuple[object, ...]:
    """What distinguishes a descriptor of the small scope: data type, sizes, numbers."""
    return desc.output.data_type, *(t.sizes for t in desc.tensors.values()), *desc.numbers.values()


def _text(desc: OperatorDesc) -> str:
    def braces(tensor: TensorDesc) -> str:
        return f"{{{','.join(map(str, tensor.sizes))}}}"

    sizes = (f"{name} {braces(tensor)}" for name, tensor in desc.tensors.items())
    numbers = (f"{name} {number}" for name, number in desc.numbers.items())
    return f"descriptor {desc.output.data_type.name}, {', '.join((*sizes, *numbers))}"
