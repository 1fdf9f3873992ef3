"""What a set of cases covers, measured from the cases: classes, pairs, triples, rules, examples, fields."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType

from ..cases.case import Case, retyped
from ..cases.covering_arrays import arrays, combinations
from ..cases.parameters import WIDTHS, WORLD, classes_beside, classify
from ..descriptors import OperatorDesc
from ..operators import OPERATORS, size_classes
from ..tensors import DataType
from .boundaries import boundary_rules, tensor_rule_ids


@dataclass
class Covered:
    """What the cases of one operator cover; pairs and triples are those of cases with a class of every parameter, as only
    such are asked of the operator's `build`."""

    operator: str
    cases: int = 0
    values: set[tuple[str, str]] = field(default_factory=set)
    pairs: set[tuple] = field(default_factory=set)
    triples: set[tuple] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)
    examples: set[str] = field(default_factory=set)
    fields: dict[str, set] = field(default_factory=dict)
    world: set[tuple] = field(default_factory=set)

    @property
    def module(self) -> ModuleType:
        """The operator's file."""
        return OPERATORS[self.operator]

    def take(self, case: Case) -> None:
        """Counts one case."""
        self.cases += 1
        words = case.id.split("/")
        if words[1].startswith("example."):
            self.examples.add(words[1].removeprefix("example."))
        if beside := classes_beside(case.desc):
            self.values.update(beside)
            return
        known = arrays(self.operator).parameters
        found = {n: c for n, c in classify(case).items() if c in known[n]}
        self.values.update(found.items())
        if len(found) == len(known):
            self.pairs.update(combinations(found, 2))
            self.triples.update(combinations(found, 3))
        for name, here in case.desc.members().items():
            value = getattr(case.desc, here)
            self.fields.setdefault(name, set()).add(value if isinstance(value, int) else (value.data_type, value.sizes))
        if not {r.id for r in case.desc.spec().rules} | set(tensor_rule_ids(reachable=True)) <= self.rules:
            self.rules |= boundary_rules(case.desc)
        if self._in_world(case.desc):
            self.world.add((case.desc.output.data_type, *_shape(case.desc)))

    def _in_world(self, desc: OperatorDesc) -> bool:
        dimensions, size = WORLD
        sizes = [t.sizes for t in desc.tensors.values()]
        inside = all(len(s) <= dimensions and max(s) <= size for s in sizes)
        return inside and desc.output.data_type in WIDTHS

    def missing(self, *, strength: int) -> list[str]:
        """What could be covered and is not: classes, from strength 2 pairs, from 3 triples, large classes and the small
        world; rules, examples, fields."""
        known, spec = arrays(self.operator), self.module.Desc.spec()
        lacking = [f"{n} {c}" for n, found in known.parameters.items() for c in found if (n, c) not in self.values]
        if strength > 1:
            lacking += [pair for pair in self._pairs() if pair not in known.impossible_pairs]
        lacking += [f"{n} {c}" for n, c in _promised(strength) if (n, c) not in self.values]
        if strength > 2:
            rows = known.rows((*known.pairs, *known.triples))
            possible = dict.fromkeys(triple for choice in rows for triple in combinations(choice, 3))
            lacking += [", ".join(f"{n} {c}" for n, c in triple) for triple in possible if triple not in self.triples]
            lacking += [_named(d) for d in self.small_world() if (d.output.data_type, *_shape(d)) not in self.world]
        lacking += [f"rule {r.id}" for r in spec.rules if r.id not in self.rules]
        lacking += [f"rule {id}" for id in tensor_rule_ids(reachable=True) if id not in self.rules]
        lacking += [f"example {e.id}" for e in runnable_examples(self.module) if e.id not in self.examples]
        lacking += [f"field {f.name}" for f in spec.fields if len(self.fields.get(f.name, ())) < 2]
        return lacking

    def _pairs(self) -> Iterator[str]:
        """The pairs that are not covered."""
        known = arrays(self.operator).parameters
        for (a, first), (b, second) in itertools.combinations(known.items(), 2):
            for one, two in itertools.product(first, second):
                if ((a, one), (b, two)) not in self.pairs:
                    yield f"{a} {one}, {b} {two}"

    def small_world(self) -> Iterator[OperatorDesc]:
        """Every valid descriptor of the small world in each width."""
        for desc in self.module.world(*WORLD):
            for data_type in WIDTHS:
                yield retyped(desc, data_type, DataType.INT64)

    def possible(self, *, strength: int) -> tuple[int, int, int]:
        """How many classes, pairs and triples are possible."""
        known = arrays(self.operator)
        counts = [len(found) for found in known.parameters.values()]
        pairs = sum(a * b for a, b in itertools.combinations(counts, 2))
        return sum(counts) + len(_promised(strength)), pairs - len(known.impossible_pairs), known.possible_triples


def measure(cases: Iterable[Case]) -> dict[str, Covered]:
    """What cases cover, by operator."""
    found = {name: Covered(name) for name in OPERATORS}
    for case in cases:
        found[case.desc.operator].take(case)
    return found


def _shape(desc: OperatorDesc) -> tuple:
    """What tells a descriptor from others with the same types."""
    return *(t.sizes for t in desc.tensors.values()), *desc.numbers.values()


def _named(desc: OperatorDesc) -> str:
    sizes = (f"{name} {{{','.join(map(str, t.sizes))}}}" for name, t in desc.tensors.items())
    numbers = (f"{name} {number}" for name, number in desc.numbers.items())
    return f"descriptor {desc.output.data_type.name}, {', '.join((*sizes, *numbers))}"


def runnable_examples(module: ModuleType) -> list:
    """The page's examples that have values."""
    return [e for e in module.Desc.spec().examples if all(t.values for t in e.parsed().tensors.values())]


def _promised(strength: int) -> list[tuple[str, str]]:
    """The wide classes from strength 2, the large ones from 3."""
    promised = [size_classes.WIDE] * (strength > 1) + [size_classes.LARGE] * (strength > 2)
    return [(n, c) for beside in promised for n, found in beside.items() for c in found]
