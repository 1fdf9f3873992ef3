"""The case catalogue: the documented examples, then the cases from the operators' parameter spaces."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from ..descriptors import OperatorDesc, TensorDesc, implied
from ..operators import OPERATORS, Operator
from ..operators.random_source import SeededSource
from ..spec import Spec
from ..tensors import DataType, Tensor, payload_nans
from ..vocabulary import Tier
from .case import INDEX_PATHS, Case, CaseIds, case_id, retyped, shape_word
from .covering_arrays import arrays, has_arrays
from .globs import may_match
from .in_variants import accepts, in_variants, split_id
from .layouts import LAYOUTS, in_layout, layout_of, split_layout
from .parameters import (
    allows_pattern,
    cases_in,
    cases_with,
    is_large,
    possible_patterns,
    possible_values,
    widths,
)
from .random_cases import Row, chosen_numbers, data_types, draw_any, drawn_case, drawn_words, index_types
from .values import (
    DATA_PATTERNS,
    FAR,
    MODEL_PATTERNS,
    Filled,
    allows,
    index_patterns,
    seed_of,
    signed,
)
from .variants import VARIANTS

RANDOM, RANDOM_ELEMENTS = 100, 4096
"""RANDOM: number of random descriptors per operator in `standard`. RANDOM_ELEMENTS: upper bound of elements in any of
their tensors."""


def catalogue(
    tier: Tier,
    ids: Iterable[str] | None = None,
    *,
    globs: Sequence[str] = (),
    variants: bool = True,
    layouts: bool = False,
) -> Iterator[Case]:
    """Gives the cases of a tier. Each tier holds the cases of the tier before it, first and in the same order.

    `smoke`: the documented examples; the first rows of each operator's covering array, which hold every class of every
    parameter; pairs of cases that expose state kept between runs; NaNs with a payload in each float type; some variants. `standard`: the whole pair array, each
    row with several values; the wide classes; random descriptors; every variant with every class; chosen random cases.
    `full`: every possible triple; the large classes; every valid descriptor of the small scope (the spec says which) in each data
    width; more chosen random cases.

    With `ids`, only the cases with these ids are given. Descriptors that cannot have one of the ids are not built. With
    `globs`, operators whose ids match none of them are left out; some of the cases that are given may match none.
    Without `variants`, cases that repeat another case in a variant are left out. With `layouts`, a case may be followed
    by the same case in a layout. Only DirectML itself runs layouts.
    """
    if ids is not None:
        yield from _with_ids(tier, set(ids))
        return
    seen_ids: set[str] = set()
    operators = [o for o in OPERATORS.values() if not globs or any(may_match(g, f"{o.name.lower()}/") for g in globs)]
    pools: dict[str, dict[str, Case]] = {operator.name: {} for operator in operators}
    parts = _PARTS[tier]
    with_variants = [number for number, part in enumerate(parts) if variants and part in _VARIANTS_AFTER]
    for number, part in enumerate(parts):
        pooled = number <= max(with_variants, default=-1)
        for operator in operators:
            for case in part(operator, None):
                if pooled and part not in _WITHOUT_VARIANTS and case.index_pattern != FAR and not is_large(case.desc):
                    pools[operator.name].setdefault(case.id, case)
                if case.id not in seen_ids:
                    seen_ids.add(case.id)
                    yield case
                    layout = layout_of(case) if layouts else None
                    if layout is not None and (laid_out := in_layout(case, layout)) is not None:
                        yield laid_out
        if number in with_variants:
            for pool in pools.values():
                for case in in_variants(list(pool.values()), _VARIANTS_AFTER[part]):
                    if case.id not in seen_ids:
                        seen_ids.add(case.id)
                        yield case


def _with_ids(tier: Tier, ids: set[str]) -> Iterator[Case]:
    """Gives the cases with these ids. A case of the tier may be asked for in any variant or layout that it can have."""
    in_variant = {id: split for id in ids if (split := split_id(id) or split_layout(id)) is not None}
    of_base: dict[str, list[tuple[str, str]]] = {}
    for id, (base, name) in in_variant.items():
        of_base.setdefault(base, []).append((id, name))
    wanted = CaseIds({*ids, *of_base})
    for part in _PARTS[tier]:
        for operator in OPERATORS.values():
            if not wanted.left.difference(in_variant):
                return
            for case in part(operator, wanted):
                if wanted.take(case):
                    if case.id in ids:
                        yield case
                    for id, name in of_base.get(case.id, ()):
                        if name in LAYOUTS:
                            yield from filter(None, [in_layout(case, name)])
                        elif accepts(VARIANTS[name], case):
                            yield dataclasses.replace(case, id=id, variant=name)


def example_descriptor(spec: Spec, id: str) -> tuple[OperatorDesc, dict[str, Tensor]]:
    """Returns a worked example as a descriptor and all its tensors, the output's with the values that the page prints.

    A number that the page does not print, and that a rule gives, has this value. Raises PseudocodeError or InputError if the
    text is not a whole example.
    """
    example = spec.example(id).parsed()
    descs = {n: TensorDesc(DataType[t.data_type or ""], t.sizes, t.strides) for n, t in example.tensors.items()}
    numbers = implied(spec, descs, spec.numbers_of(example))
    desc: OperatorDesc = OPERATORS[spec.name].descriptor.from_members({**descs, **numbers})
    tensors = {n: Tensor.from_values(descs[n].data_type, t.sizes, t.values) for n, t in example.tensors.items()}
    return desc, tensors


# --- the parts of a tier -------------------------------------------------------------------------------------------


def _examples(operator: Operator, wanted: CaseIds | None) -> Iterator[Case]:
    """Gives the documented examples that have values."""
    if wanted is not None and not wanted.may_begin(operator.name):
        return
    spec = operator.descriptor.spec()
    for example in spec.examples:
        if example.runnable:
            desc, tensors = example_descriptor(spec, example.id)
            id = f"{desc.operator.lower()}/example.{example.id}"
            yield Case(id, desc, {name: tensors[name] for name in desc.inputs})


def _array_rows(operator: Operator, wanted: CaseIds | None, *, rows: str, smoke: bool = False) -> Iterator[Case]:
    """Gives the rows of a part of the covering arrays, or those of `smoke`."""
    for row in _rows(operator, rows, wanted, smoke=smoke):
        yield from cases_in(row.desc, row.choice)


def _stale_state(operator: Operator, wanted: CaseIds | None) -> Iterator[Case]:
    """Gives pairs of cases that expose state kept between runs; and cases with a single index, one per index pattern.

    For each number of the operator, and for each input in any layout: two descriptors with the same inputs that differ in this
    only, then the second one with another index type, if it has indices. If a provider caches a kernel or a result under an incomplete key, the second
    case gets the output of the first.
    """
    if wanted is not None and not wanted.may_be_generated(operator.name):
        return
    groups: dict[object, list[OperatorDesc]] = {}
    spec = operator.descriptor.spec()
    types, scalars, strided = spec.usual_index_types, spec.scalars, spec.strided
    fewest = operator.dimension_counts[0]
    few = max(fewest, 1 if scalars else 2)  # with a value that is free, one dimension has enough of them
    for desc in operator.descriptors(few, 2 if fewest < 3 else 3):
        groups.setdefault(_sizes_and_types(desc), []).append(desc)
    descs = [desc for group in groups.values() for desc in group]
    other_type = DataType[types[-1]] if types else DataType.INT32
    for name in (*operator.descriptor.short_names(), *strided):
        alike: dict[object, list[int]] = {}
        for at, desc in enumerate(descs):
            others = tuple((n, number) for n, number in _varied(desc).items() if n != name)
            alike.setdefault((_sizes_and_types(desc), others), []).append(at)
        pairs = sorted(pair for group in alike.values() for pair in itertools.combinations(group, 2))
        pairs.sort(
            key=lambda pair: descs[pair[0]].output != descs[pair[1]].output
        )  # those with the same output sizes first
        for first, second in ((descs[a], descs[b]) for a, b in pairs):
            if _varied(first)[name] == _varied(second)[name]:
                continue
            pattern = "reverse" if first.index_tensors() else ""
            cases = [generated(desc, pattern, "addr") for desc in (first, second)]
            # a number moves elements; a scalar is written
            shown = [
                case.expected
                if name in scalars
                else _varied(case.desc)[name]
                if name in strided
                else case.desc.origins(case.tensors)
                for case in cases
            ]
            if shown[0] != shown[1] and (len(set(shown[0])) > 1 or not first.inputs):
                yield from cases
                yield generated(retyped(second, second.output.data_type, other_type), pattern, "addr")
                break
    for desc in operator.descriptors(1, 3):
        bounds = desc.index_bounds
        if bounds and all(n == 1 and prod(bounds[name]) == 3 for name, n in desc.index_counts.items()):
            for pattern in possible_patterns(desc, desc.tensors[desc.index_tensors()[0]].data_type):
                yield generated(desc, pattern, "addr")
            break


def nans(operator: Operator, wanted: CaseIds | None = None) -> Iterator[Case]:
    """Gives cases that move NaNs with a payload, a quiet and a signalling one, for each float type of an operator's data."""
    if not operator.descriptor.data_tensors() or (wanted is not None and not wanted.may_be_generated(operator.name)):
        return
    rows = list(_rows(operator, "pairs", None, smoke=True))
    for data_type in data_types(operator.name):
        missing = {*payload_nans(data_type)} if data_type.kind == "float" else set()
        for row in rows:
            if not missing:
                break
            index_type = DataType[row.choice.get("index_type", "INT32")]
            case = generated(retyped(row.desc, data_type, index_type), row.choice.get("index_pattern", ""), "special")
            if found := missing.intersection(case.expected):
                missing -= found
                yield case


def _sizes_and_types(desc: OperatorDesc) -> object:
    return tuple((name, tensor.sizes, tensor.data_type) for name, tensor in desc.inputs.items())


def _varied(desc: OperatorDesc) -> dict[str, Any]:
    """Returns the numbers of a descriptor, and for each input in any layout the address of each element."""
    strided = ((name, desc.tensors[name]) for name in desc.spec().strided)
    return desc.numbers | {name: tuple(t.read(range(t.buffer_element_count))) for name, t in strided}


def _pairs(operator: Operator, wanted: CaseIds | None) -> Iterator[Case]:
    """Gives the pair array, each row with its own values and with several others."""
    for row in _rows(operator, "pairs", wanted):
        yield from cases_in(row.desc, row.choice)
        yield from _other_values(row.desc, row.choice)


def _other_values(desc: OperatorDesc, choice: Mapping[str, str]) -> Iterator[Case]:
    """Gives cases of a choice with each data pattern, then with the next two index patterns that are allowed."""
    for data in DATA_PATTERNS:
        yield from cases_in(desc, {**choice, "data_pattern": data})
    if "index_pattern" not in choice:
        return
    patterns, patterns_used = index_patterns(desc.spec()), 0
    own_position = patterns.index(choice["index_pattern"])
    for pattern in patterns[own_position + 1 :] + patterns[:own_position]:
        cases = cases_in(desc, {**choice, "index_pattern": pattern})
        yield from cases
        patterns_used += bool(cases)
        if patterns_used == 2:
            return


def _random(operator: Operator, wanted: CaseIds | None) -> Iterator[Case]:
    """Gives cases of random descriptors, also with axes, batch counts and lengths that are in no equivalence class."""
    name = operator.name
    if wanted is not None and not wanted.may_be_generated(name):
        return
    source = SeededSource(seed_of(name))
    forms = itertools.cycle(itertools.product(DATA_PATTERNS, INDEX_PATHS, index_patterns(operator.descriptor.spec())))
    for _ in range(RANDOM):
        desc = draw_any(source, name, RANDOM_ELEMENTS)
        indices = desc.index_tensors()
        index_type = desc.tensors[indices[0]].data_type.name if indices else ""
        for data, path, pattern in forms:
            if possible_values(desc, {"index_type": index_type, "index_pattern": pattern, "index_path": path}):
                yield from cases_with(desc, pattern if indices else "", data, path if indices else "input")
                break


def _drawn(operator: Operator, wanted: CaseIds | None, *, tier: Tier) -> Iterator[Case]:
    """Gives random cases with sizes and combinations of features that the other parts of a tier lack."""
    name = operator.name
    if wanted is None or wanted.may_be_generated(name):
        for number in chosen_numbers(tier, name):
            seed = seed_of(f"{name}/{number}")
            if wanted is None or wanted.may_begin(name, *drawn_words(name, seed)):
                yield drawn_case(name, seed)


def large(operator: Operator, wanted: CaseIds | None = None) -> Iterator[Case]:
    """Gives one case for each large size class.

    The indices are the limits of the axis. The data is special values: unique values would need several rounds.
    """
    return _array_rows(operator, wanted, rows="large")


def _world(operator: Operator, wanted: CaseIds | None) -> Iterator[Case]:
    """Gives the small scope. Each descriptor gets the next index type, index pattern and data pattern in turn.

    All data widths of one descriptor share them.
    """
    descriptor = operator.descriptor
    if wanted is not None and not wanted.may_be_generated(operator.name):
        return
    forms = _world_forms(descriptor.spec())
    for i, outline in enumerate(operator.world(*descriptor.spec().world)):
        data = DATA_PATTERNS[i // len(forms) % len(DATA_PATTERNS)]
        shape = shape_word(len(next(iter(outline.sizes.values()))), descriptor.short_names(), outline.numbers)
        wanted_widths = [
            t for t in widths(operator) if wanted is None or wanted.may_begin(operator.name, t.name, shape)
        ]
        if not wanted_widths:
            continue
        desc = operator.described(outline)
        index_type, pattern = next(form for form in _from(forms, i) if allows_pattern(desc, form[1]))
        pattern = pattern if desc.index_bounds else ""
        for data_type in wanted_widths:
            yield from cases_with(retyped(desc, data_type, index_type), pattern, data)


def _world_forms(spec: Spec) -> tuple[tuple[DataType, str], ...]:
    """Returns the pairs of index type and index pattern in the small scope. An operator without indices has all patterns."""
    types = [DataType[name] for name in spec.usual_index_types] or [DataType.INT64, DataType.INT32]
    forms = itertools.product(types, index_patterns(spec))
    return tuple((t, pattern) for t, pattern in forms if t.kind == "signed" or not signed(pattern))


def _from(forms: Sequence[tuple[DataType, str]], turn: int) -> Iterator[tuple[DataType, str]]:
    """Gives pairs of index type and index pattern, from number `turn` to the first that every descriptor allows."""
    for i in range(turn, turn + len(forms)):
        index_type, pattern = forms[i % len(forms)]
        yield index_type, pattern
        if allows(pattern, 1, 1):
            return


_first_pairs = partial(_array_rows, rows="pairs", smoke=True)  # they hold every class
_triples = partial(_array_rows, rows="triples")  # with those of the pair array, they hold every possible triple
_wide = partial(_array_rows, rows="wide")
_chosen, _chosen_of_full = partial(_drawn, tier="standard"), partial(_drawn, tier="full")

_SMOKE = (_examples, _first_pairs, nans, _stale_state)
_STANDARD = (*_SMOKE, _pairs, _wide, _random, _chosen)
_FULL = (*_STANDARD, _triples, large, _world, _chosen_of_full)
_PARTS = {"smoke": _SMOKE, "standard": _STANDARD, "full": _FULL, "contract": ()}

_WITHOUT_VARIANTS = (nans, _chosen, _chosen_of_full)
"""The parts whose cases are in no variant, unless another part gives them too."""

_VARIANTS_AFTER: Mapping[object, Tier] = {_stale_state: "smoke", _random: "standard", _triples: "full"}
"""Part -> the tier whose cases in variants come after it."""


def _rows(operator: Operator, part: str, wanted: CaseIds | None, *, smoke: bool = False) -> Iterator[Row]:
    """Gives the rows of a part of the covering arrays that may give a wanted case; with `smoke`, only those of this tier.

    A registered operator may have no arrays.
    """
    if has_arrays(operator.name) and (wanted is None or wanted.may_be_generated(operator.name)):
        covering = arrays(operator.name)
        for row in itertools.islice(covering.rows(operator, part), covering.smoke if smoke else None):
            words = row.choice["data_type"], f"d{row.choice['dimensions']}"
            if wanted is None or wanted.may_begin(operator.name, *words):
                yield row


def generated(desc: OperatorDesc, pattern: str, data: str) -> Case:
    """Returns a case of a descriptor with values of these patterns; indices are graph inputs."""
    data = data if desc.data_tensors() else ""
    id = case_id(desc, pattern, data)
    return Case(id, desc, Filled(desc, id, pattern, data), index_pattern=pattern or None, data_pattern=data or None)


def model_index_forms(operator: str) -> Iterator[tuple[DataType, str]]:
    """Gives the index types of an operator's models in models/, each with the patterns that the type can hold.

    An operator without indices has all of them.
    """
    types = index_types(operator) or (DataType.INT64, DataType.INT32, DataType.UINT64, DataType.UINT32)
    for index_type in types:
        for pattern in MODEL_PATTERNS:
            if index_type.kind == "signed" or not signed(pattern):
                yield index_type, pattern
