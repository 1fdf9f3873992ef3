"""The parameter space of an operator, the covering arrays of it, and what a set of cases covers.

What an operator's own parameters are stands in its file; here are those that every operator has. Which classes a case has
is measured from the case itself. Which combinations are possible is asked of the operators' `build`, by
`tools/build_arrays.py`, which keeps the answer and the arrays in `arrays/`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from math import prod
from types import ModuleType

import msgspec

from .. import classes
from ..descriptors import OperatorDesc
from ..mapping import map_descriptor
from ..operators import OPERATORS
from ..spec import tensor_rules
from ..tensors import DataType
from .cases import Case, case_id, retyped
from .patterns import DATA_PATTERNS, INDEX_PATTERNS, Filled, allows, rounds, shows, signed

PATHS = ("input", "initializer", "one", "node")
"""Classes of the index path: `one` is an initializer of one element, which an EP may make part of its program."""

WORLD = (4, 3)
"""Dimensions and sizes up to which `full` has every valid descriptor."""

WIDTHS = (DataType.UINT8, DataType.FLOAT16, DataType.FLOAT32, DataType.INT64)
"""One data type of each width."""


def parameters(module: ModuleType) -> dict[str, tuple[str, ...]]:
    """Every parameter of an operator with its classes."""
    support = module.Desc.spec().support[0]
    data, indices = (support.tensors[name] for name in module.Desc.spec().tensors("input"))
    low, high = data.dimension_counts
    return {
        "data_type": data.data_types,
        "dimensions": tuple(str(n) for n in range(low, high + 1)),
        "axis_length": tuple(classes.LENGTHS),
        "output_elements": classes.ELEMENTS,
        "output_bytes": classes.BYTES,
        "index_count": ("1", "many"),
        **module.PARAMETERS,
        "index_type": indices.data_types,
        "index_pattern": INDEX_PATTERNS,
        "data_pattern": DATA_PATTERNS,
        "index_path": PATHS,
    }


def classify_desc(desc: OperatorDesc) -> dict[str, str | None]:
    """The class that a descriptor has of each parameter that sizes and types decide."""
    ((name, bounds),) = desc.index_bounds.items()
    first, output, indices = next(iter(desc.inputs.values())), desc.output, desc.tensors[name]
    count = indices.element_count // len(bounds)
    return {
        "data_type": first.data_type.name,
        "dimensions": str(first.dimension_count),
        "axis_length": classes.length(max(bounds)),
        "output_elements": classes.elements(output.element_count),
        "output_bytes": classes.whole(output.element_count * output.data_type.size),
        "index_count": "1" if count == 1 else "many" if count > 2 else None,
        **OPERATORS[desc.operator].classify(desc),
        "index_type": indices.data_type.name,
    }


def classes_beside(desc: OperatorDesc) -> set[tuple[str, str]]:
    """The wide and large classes that a descriptor has, which no array has: (parameter, class)."""
    found = classify_desc(desc).items()
    return {(n, c) for n, c in found if c in classes.WIDE.get(n, ()) or c in classes.LARGE.get(n, ())}


def is_large(desc: OperatorDesc) -> bool:
    """Whether a descriptor has a class that `full` alone has."""
    return any(c in classes.LARGE.get(n, ()) for n, c in classes_beside(desc))


def _promised(strength: int) -> list[tuple[str, str]]:
    """The wide classes from strength 2, the large ones from 3."""
    promised = [classes.WIDE] * (strength > 1) + [classes.LARGE] * (strength > 2)
    return [(n, c) for beside in promised for n, found in beside.items() for c in found]


def classify(case: Case) -> dict[str, str | None]:
    """The class that a case has of each parameter; None for what is in no class."""
    ((name, bounds),) = case.desc.index_bounds.items()
    words = case.id.split("/")
    pattern = words[3].split(".")[1] if len(words) == 5 else ""
    indices = case.tensors[name]
    shown = pattern in INDEX_PATTERNS and shows(pattern, list(indices.values), bounds)
    data = words[-1].split(".")[0].rstrip("0123456789")
    one = len(indices.bits) == 1
    return {
        **classify_desc(case.desc),
        "index_pattern": pattern if shown else None,
        "data_pattern": data if len(words) == 5 and data in DATA_PATTERNS else None,
        "index_path": ("one" if one else "initializer") if case.index_path == "initializer" else case.index_path,
    }


def possible_values(desc: OperatorDesc, choice: Mapping[str, str]) -> bool:
    """Whether a descriptor can have the values and the index path that are chosen."""
    ((name, bounds),) = desc.index_bounds.items()
    count = desc.tensors[name].element_count
    pattern, path = choice["index_pattern"], choice["index_path"]
    return (
        (DataType[choice["index_type"]].kind == "signed" or not signed(pattern))
        and allows(pattern, count // len(bounds), prod(bounds))
        and (path not in ("initializer", "one") or (path == "one") == (count == 1))
    )


def cases_of(module: ModuleType, choice: Mapping[str, str]) -> list[Case]:
    """The cases with the classes of a choice, one for each round of its data; none where that is impossible."""
    desc = module.build(choice)
    if desc is None or not possible_values(desc, choice):
        return []
    return cases_with(desc, choice["index_pattern"], choice["data_pattern"], choice["index_path"])


def cases_with(desc: OperatorDesc, pattern: str, data: str, path: str = "input") -> list[Case]:
    """The cases of a descriptor with values of these patterns, one for each round."""
    index_path = "initializer" if path == "one" else path
    found = []
    for name in rounds(desc, data):
        id = case_id(desc, pattern, name, index_path)
        found.append(Case(id, desc, Filled(desc, id, pattern, name), index_path=index_path))
    return found


# --- the arrays ----------------------------------------------------------------------------------------------------


class Arrays(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `tools/build_arrays.py` keeps of an operator: its parameters, rows of class numbers in the parameters' order
    that hold every possible pair, and every possible triple; the pairs that are impossible, the number of triples that
    are possible."""

    parameters: dict[str, tuple[str, ...]]
    pairs: tuple[tuple[int, ...], ...]
    triples: tuple[tuple[int, ...], ...]
    impossible_pairs: tuple[str, ...]
    possible_triples: int

    def rows(self, rows: Iterable[tuple[int, ...]]) -> Iterator[dict[str, str]]:
        """Rows as choices."""
        for row in rows:
            yield {name: found[i] for (name, found), i in zip(self.parameters.items(), row)}


@cache
def arrays(operator: str) -> Arrays:
    """The arrays of an operator."""
    path = files(__package__).joinpath("arrays", f"{operator.lower()}.json")
    return msgspec.json.decode(path.read_bytes(), type=Arrays)


def combinations(found: Mapping[str, str], size: int) -> Iterator[tuple[tuple[str, str], ...]]:
    """The combinations of so many classes."""
    return itertools.combinations(found.items(), size)


# --- what cases cover ----------------------------------------------------------------------------------------------


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
        if not {r.id for r in case.desc.spec().rules} | set(_tensor_rules(reachable=True)) <= self.rules:
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
        lacking += [f"rule {id}" for id in _tensor_rules(reachable=True) if id not in self.rules]
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


UNREACHABLE_RULES = {
    "TENSOR.C3": "a tensor of 4 GiB",
    "TENSOR.C4": "ONNX has no strides; the mapping writes packed tensors only",
    "TENSOR.C5": "ONNX Runtime computes TotalTensorSizeInBytes",
    "TENSOR.C6": "ONNX Runtime leaves GuaranteedBaseOffsetAlignment 0",
    "TENSOR.C7": "ONNX Runtime sets the flags itself",
}
"""Rules of tensors at whose boundary no case can stand, and why."""


def _tensor_rules(*, reachable: bool) -> list[str]:
    return [r.id for r in tensor_rules().rules if (r.id in UNREACHABLE_RULES) != reachable]


def boundary_rules(desc: OperatorDesc) -> set[str]:
    """The rules at whose boundary a valid descriptor stands: one step in one member breaks them."""
    return {violation.rule for neighbour in _neighbours(desc) for violation in neighbour.violations()}


def _neighbours(desc: OperatorDesc) -> Iterator[OperatorDesc]:
    for name, here in desc.members().items():
        value = getattr(desc, here)
        if name in desc.numbers:
            yield from (desc.replace(**{here: value + step}) for step in (1, -1))
            continue
        sizes = value.sizes
        changed = [(1, *sizes), sizes[1:]]
        changed += [(*sizes[:i], n + step, *sizes[i + 1 :]) for i, n in enumerate(sizes) for step in (1, -1)]
        for other in changed:
            yield desc.replace(**{here: dataclasses.replace(value, sizes=other)})
        for data_type in (DataType.INT8, DataType.FLOAT32):
            yield desc.replace(**{here: dataclasses.replace(value, data_type=data_type)})


class Unreachable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Kernel classes that no ONNX model reaches, by the index type, with tuples only or all; and why."""

    index: str
    why: str
    tuples: bool = False


class Kernels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The kernel classes that the names in DirectML's library show (`operators/*.kernels.toml`)."""

    prefix: str
    operators: tuple[str, ...]
    dimensions: tuple[int, ...]
    tuples: str
    exclusive: str
    data: dict[int, tuple[str, ...]]
    indices: dict[str, str]
    unreachable: tuple[Unreachable, ...]

    def kinds(self) -> dict[tuple[int, bool, str, int], tuple[str, ...]]:
        """Bytes of an element, whether there are tuples, index type, highest dimension count -> classes, of which a device
        has one."""
        every = itertools.product(self.data, (False, True), self.indices, self.dimensions)
        return {
            (size, tuples, index, dimensions): tuple(
                f"{self.prefix}{data}{self.tuples if tuples else ''}_{self.indices[index]}_{dimensions}"
                for data in self.data[size]
            )
            for size, tuples, index, dimensions in every
        }

    def kind(self, desc: OperatorDesc) -> tuple[int, bool, str, int]:
        """The kind of a descriptor, as DirectML is given it."""
        ((name, bounds),) = desc.index_bounds.items()
        first = next(iter(desc.inputs.values()))
        limit = next(n for n in self.dimensions if first.dimension_count <= n)
        return first.data_type.size, len(bounds) > 1, desc.tensors[name].data_type.name, limit

    def why_not(self, kind: tuple[int, bool, str, int]) -> str | None:
        """Why a kind cannot be reached."""
        _, tuples, index, _ = kind
        return next((u.why for u in self.unreachable if u.index == index and u.tuples <= tuples), None)


def kernel_files() -> list[Kernels]:
    """The kernel classes of every library that is described."""
    from .. import operators

    found = sorted(p for p in files(operators).iterdir() if p.name.endswith(".kernels.toml"))
    return [msgspec.toml.decode(p.read_bytes(), type=Kernels, strict=False) for p in found]


def kernels_reached(kernels: Kernels, cases: Iterable[Case]) -> Counter:
    """How many cases reach each kind of kernel class on the DirectML EP, by what the mapping says that it emits."""
    mapped = (
        map_descriptor(c.desc, index_conversion="directml") for c in cases if c.desc.operator in kernels.operators
    )
    return Counter(kernels.kind(m.lowered_as) for m in mapped)
