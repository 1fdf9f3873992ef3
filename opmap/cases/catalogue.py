"""The case catalogue: the cases of each tier, in order, built from the choice (`choice.py`) and from the small
scope."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from ..descriptors import OperatorDesc, TensorDesc, implied
from ..errors import InputError, describe, shown
from ..operators import OPERATORS, Operator
from ..spec import Spec
from ..tensors import DataType, Tensor
from ..vocabulary import Tier, tiers_in
from .case import Case, case_id, id_parts, retyped, shape_word
from .choice import PARTS, SMALL_SCOPE, VARIANTS_OF, Choice, choice_of
from .globs import may_match
from .in_variants import accepts, split_id
from .layouts import LAYOUTS, in_layout, layout_of, split_layout
from .parameters import allows_pattern, cases_with, filled_case, patterns_of, widths
from .random_cases import index_types
from .values import DATA_PATTERNS, MODEL_PATTERNS, allows, index_patterns, signed
from .variants import VARIANTS


class Listed(NamedTuple):
    """A case that is built when it is needed."""

    id: str
    build: Callable[[], Case]

    @classmethod
    def of(cls, case: Case) -> Listed:
        """Returns a case that is built already, lightened."""
        case.lighten()
        return cls(case.id, lambda: case)


def listed(tier: Tier, *, globs: Sequence[str] = (), variants: bool = True, layouts: bool = False) -> Iterator[Listed]:
    """Gives the cases of a tier, not yet built. The arguments are those of `catalogue`."""
    operators = [o for o in OPERATORS.values() if not globs or any(may_match(g, f"{o.name.lower()}/") for g in globs)]
    for listed_case in _listed(tier, operators, variants=variants):
        yield listed_case
        if layouts and listed_case.id.rpartition("/")[2] not in VARIANTS:
            case = listed_case.build()
            layout = layout_of(case)
            if layout is not None and (laid_out := in_layout(case, layout)) is not None:
                yield Listed.of(laid_out)


def catalogue(
    tier: Tier,
    ids: Iterable[str] | None = None,
    *,
    globs: Sequence[str] = (),
    variants: bool = True,
    layouts: bool = False,
) -> Iterator[Case]:
    """Gives the cases of a tier. Each tier holds the cases of the tier before it, first and in the same order.

    `choice.PARTS` says what a tier holds.

    With `ids`, only the cases with these ids are given, and only these are built. With
    `globs`, operators whose ids match none of them are left out; some of the cases that are given may match none.
    Without `variants`, cases that repeat another case in a variant are left out. With `layouts`, a case may be followed
    by the same case in a layout. Only DirectML itself runs layouts.
    """
    if ids is not None:
        return _with_ids(tier, ids)
    return (case.build() for case in listed(tier, globs=globs, variants=variants, layouts=layouts))


def _with_ids(tier: Tier, ids: Iterable[str]) -> Iterator[Case]:
    """Gives the cases with these ids. A case of the tier may be asked for in any variant or layout that it can have."""
    of_base: dict[str, list[str]] = {}
    for id in sorted({*ids}):
        base, name = split_id(id) or split_layout(id) or (id, "")
        of_base.setdefault(base, []).append(name)
    operators = [OPERATORS[name] for name in OPERATORS if any(id.startswith(f"{name.lower()}/") for id in of_base)]
    for found in _listed(tier, operators, variants=False, wanted={*of_base}):
        for name in of_base.pop(found.id, ()):
            case = found.build()
            if not name:
                yield case
            elif name in LAYOUTS:
                yield from filter(None, [in_layout(case, name)])
            elif accepts(VARIANTS[name], case):
                yield _in_variant(case, name)
        if not of_base:
            return


def _listed(
    tier: Tier, operators: Sequence[Operator], *, variants: bool, wanted: Collection[str] | None = None
) -> Iterator[Listed]:
    """Gives the cases of operators. Of the small scope only those are built that can have one of the `wanted` ids."""
    built = [(operator, _Cases(operator, choice_of(operator.name))) for operator in operators]
    for part in itertools.chain.from_iterable(PARTS.get(name, ()) for name in tiers_in(tier)):
        for operator, cases in built:
            if part == SMALL_SCOPE:
                known = {*cases.ids}
                scope = small_scope(operator, wanted)
                yield from (Listed.of(case) for case in scope if case.id not in known)
            elif variants or not part.startswith(VARIANTS_OF):
                yield from cases.listed(part)


def check_choice(operator: Operator, choice: Choice, every: int = 1) -> None:
    """Raises InputError unless the spec gives each descriptor, and each id follows from the content of its case.

    One in `every` cases is checked.
    """
    cases = _Cases(operator, choice)
    try:
        for number in range(0, len(choice.cases), every):
            case = cases.case(number, None)
            case.desc.validate()
            if id_parts(case.id):
                own_id = case_id(case.desc, *patterns_of(case.id), case.variant)
                if own_id != case.id:
                    raise InputError(f"must be {own_id}, got {shown(case.id)}", path=f"case {number}")
        for part in choice.variants:
            for number, variant in choice.listed(part):
                VARIANTS[str(variant)].id(cases.ids[number])
    except (LookupError, msgspec.DecodeError) as error:
        raise InputError(f"must fit the operator: {describe(error)}") from None


def cases_of(operator: Operator, *parts: str) -> Iterator[Case]:
    """Gives the cases that the choice has in these parts, of one operator."""
    cases = _Cases(operator, choice_of(operator.name))
    return (case.build() for part in parts for case in cases.listed(part))


def model_descriptor(operator: Operator) -> OperatorDesc | None:
    """Returns the descriptor of the operator's models in models/; None if it has no models."""
    choice = choice_of(operator.name)
    return None if choice.model is None else choice.descriptor(operator, choice.model)


def _in_variant(case: Case, variant: str) -> Case:
    return dataclasses.replace(case, id=VARIANTS[variant].id(case.id), variant=variant)


class _Cases:
    """The chosen cases of an operator. Those with one descriptor share it."""

    def __init__(self, operator: Operator, choice: Choice) -> None:
        self.operator, self.choice = operator, choice
        self.ids = [f"{operator.name.lower()}/{id}" for _, id in choice.cases]
        self._descs: WeakValueDictionary[int, OperatorDesc] = WeakValueDictionary()

    def listed(self, part: str) -> Iterator[Listed]:
        """Gives the cases of a part."""
        for number, variant in self.choice.listed(part):
            id = self.ids[number] if variant is None else VARIANTS[variant].id(self.ids[number])
            yield Listed(id, partial(self.case, number, variant))

    def case(self, number: int, variant: str | None) -> Case:
        """Returns a case, also in a variant."""
        of_desc, id = self.choice.cases[number][0], self.ids[number]
        desc = self._descs.get(of_desc)
        if desc is None:
            desc = self._descs[of_desc] = self.choice.descriptor(self.operator, of_desc)
        if example := id.partition("/example.")[2]:
            case = dataclasses.replace(_example_case(self.operator, example), desc=desc)
        else:
            case = filled_case(desc, id)
        return case if variant is None else _in_variant(case, variant)


def example_cases(operator: Operator) -> Iterator[Case]:
    """Gives the documented examples that have values."""
    return (_example_case(operator, e.id) for e in operator.descriptor.spec().examples if e.runnable)


def _example_case(operator: Operator, example: str) -> Case:
    desc, tensors = example_descriptor(operator.descriptor.spec(), example)
    return Case(f"{operator.name.lower()}/example.{example}", desc, {name: tensors[name] for name in desc.inputs})


def example_descriptor(spec: Spec, id: str) -> tuple[OperatorDesc, dict[str, Tensor]]:
    """Returns a worked example as a descriptor and all its tensors, the output's with the values that the page prints.

    A number that the page does not print, and that a rule gives, has this value. Raises PseudocodeError or InputError
    if the text is not a whole example.
    """
    example = spec.example(id).parsed()
    descs = {n: TensorDesc(DataType[t.data_type or ""], t.sizes, t.strides) for n, t in example.tensors.items()}
    numbers = implied(spec, descs, spec.numbers_of(example))
    desc: OperatorDesc = OPERATORS[spec.name].descriptor.from_members({**descs, **numbers})
    tensors = {n: Tensor.from_values(descs[n].data_type, t.sizes, t.values) for n, t in example.tensors.items()}
    return desc, tensors


def small_scope(operator: Operator, wanted: Collection[str] | None = None) -> Iterator[Case]:
    """Gives the small scope; with `wanted`, only the cases that can have one of these ids.

    Each descriptor gets the next index type, index pattern and data pattern in turn.

    All data widths of one descriptor share them.
    """
    descriptor = operator.descriptor
    beginnings = {"/".join(id.split("/")[:3]) for id in wanted or () if id_parts(id)}
    if wanted is not None and not any(beginning.startswith(f"{operator.name.lower()}/") for beginning in beginnings):
        return
    forms = _world_forms(descriptor.spec())
    for i, outline in enumerate(operator.small_scope(*descriptor.spec().small_scope)):
        data = DATA_PATTERNS[i // len(forms) % len(DATA_PATTERNS)]
        shape = shape_word(len(next(iter(outline.sizes.values()))), descriptor.short_names(), outline.numbers)
        wanted_widths = [
            t for t in widths(operator) if wanted is None or f"{operator.name}/{t.name}/{shape}".lower() in beginnings
        ]
        if not wanted_widths:
            continue
        desc = operator.described(outline)
        index_type, pattern = next(form for form in _from(forms, i) if allows_pattern(desc, form[1]))
        pattern = pattern if desc.index_bounds else ""
        for data_type in wanted_widths:
            yield from cases_with(retyped(desc, data_type, index_type), pattern, data)


def _world_forms(spec: Spec) -> tuple[tuple[DataType, str], ...]:
    """Returns the pairs of index type and index pattern in the small scope.

    An operator without indices has all patterns.
    """
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


def generated(desc: OperatorDesc, pattern: str, data: str) -> Case:
    """Returns a case of a descriptor with values of these patterns; indices are graph inputs."""
    return filled_case(desc, case_id(desc, pattern, data if desc.data_tensors() else ""))


def model_index_forms(operator: str) -> Iterator[tuple[DataType, str]]:
    """Gives the index types of an operator's models in models/, each with the patterns that the type can hold.

    An operator without indices has all of them.
    """
    types = index_types(operator) or (DataType.INT64, DataType.INT32, DataType.UINT64, DataType.UINT32)
    for index_type in types:
        for pattern in MODEL_PATTERNS:
            if index_type.kind == "signed" or not signed(pattern):
                yield index_type, pattern
