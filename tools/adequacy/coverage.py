"""What the cases of a tier cover, as tables for the terminal and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue
from opmap.cases.coverage.boundaries import UNREACHABLE_RULES
from opmap.cases.coverage.covered import STRENGTHS, Share, measure, own_rules
from opmap.cases.probes import probes
from opmap.cases.variants import VARIANTS
from opmap.operators import OPERATORS
from opmap.reports.sections import Section
from opmap.vocabulary import TIERS, Tier

from .covered import TierCovered, TierOperatorCoverage, of_operator
from .kernels import Kernels, Kind, kernel_files, kernel_reached

_SHARES = ("values", "pairs", "triples", "rules", "examples")
"""The columns of the table. A field that is not covered stands in `missing`."""


class KernelCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of one kind of kernel class; `names` are its classes, of which a device has one.

    `bytes` is the size of an element. `why` says why no case can reach it, `exclusive` why a device has only one of
    them.
    """

    bytes: int
    tuples: bool
    indices: str
    dimensions: int
    names: list[str]
    cases: int
    why: str | None
    exclusive: str | None


class VariantCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The cases of a variant, over all operators; and of how many classes its cases are. `text` says what it does."""

    name: str
    text: str
    cases: int
    classes: int


class TierCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of a tier.

    `missing` lists what the tier promises and does not cover. `bool` holds the ids of the probes of BOOL tensors.
    """

    tier: Tier
    cases: int
    operators: list[TierOperatorCoverage]
    variants: list[VariantCoverage]
    tensor_rules: list[str]
    unreachable_rules: dict[str, str]
    kernels: list[KernelCoverage]
    bool: list[str]
    missing: list[str]


def tier_coverage(tier: Tier, advance: Callable[[], None] = lambda: None) -> TierCoverage:
    """Returns what the cases of a tier cover. Calls `advance` after each case."""
    reached: list[tuple[Kernels, Counter[Kind]]] = [(kernels, Counter()) for kernels in kernel_files()]

    def cases() -> Iterator[Case]:
        for case in catalogue(tier):
            for kernels, counts in reached:
                if (kind := kernel_reached(kernels, case)) is not None:
                    counts[kind] += 1
            advance()
            yield case

    covered = list(measure(cases(), TierCovered).values())
    operators = [of_operator(c, STRENGTHS[tier]) for c in covered]
    kernels = [kind for kernels, counts in reached for kind in _kernels(kernels, counts)]
    missing = [f"{c.operator}: {text}" for c in covered for text in c.missing(strength=STRENGTHS[tier])]
    missing += [f"variant {name}" for name in _due(tier) if not any(c.variants.get(name) for c in covered)]
    missing += [f"kernel class {' or '.join(k.names)}" for k in kernels if not k.cases and not k.why]
    return TierCoverage(
        tier=tier,
        cases=sum(operator.cases for operator in operators),
        operators=operators,
        variants=list(_variants(covered)),
        tensor_rules=sorted({rule for c in covered for rule in c.rules - own_rules(c)}),
        unreachable_rules=UNREACHABLE_RULES,
        kernels=kernels,
        bool=[p.id for p in probes() if "bool[" in p.model],
        missing=missing,
    )


def _due(tier: Tier) -> list[str]:
    """Returns the variants that a tier must have."""
    due = [v for v in VARIANTS.values() if v.base is not None]
    return [v.name for v in due if TIERS.index(v.tier) <= TIERS.index(tier)]


def _variants(covered: list[TierCovered]) -> Iterator[VariantCoverage]:
    for name, variant in VARIANTS.items():
        if count := sum(c.variants.get(name, 0) for c in covered):
            classes = sum(len({pair for variant, pair in c.variant_pairs if variant == name}) for c in covered)
            yield VariantCoverage(name=name, text=variant.text, cases=count, classes=classes)


def _kernels(kernels: Kernels, counts: Counter[Kind]) -> Iterator[KernelCoverage]:
    for kind, names in kernels.kinds().items():
        size, tuples, indices, dimensions = kind
        yield KernelCoverage(
            bytes=size,
            tuples=tuples,
            indices=indices,
            dimensions=dimensions,
            names=list(names),
            cases=counts[kind],
            why=kernels.why_not(kind),
            exclusive=kernels.exclusive if len(names) > 1 else None,
        )


def coverage_sections(coverage: TierCoverage) -> Iterator[Section]:
    """Yields the tables, what cannot be reached and why, and what is missing."""
    rows = [
        [row.operator.removeprefix("DML_OPERATOR_"), str(row.cases), *(_share(getattr(row, name)) for name in _SHARES)]
        for row in coverage.operators
    ]
    yield Section(f"{coverage.tier}: {coverage.cases} cases")
    yield Section("", ["operator", "cases", *_SHARES], rows, lines=list(_facts(coverage)))
    yield _kernel_section(coverage.kernels)
    yield Section("", lines=[f"missing: {text}" for text in coverage.missing])


def _facts(coverage: TierCoverage) -> Iterator[str]:
    worlds = [row.small_scope for row in coverage.operators if row.small_scope is not msgspec.UNSET]
    if worlds:
        covered, possible = (sum(share[i] for share in worlds) for i in (0, 1))
        scopes = sorted({op.descriptor.spec().small_scope for op in OPERATORS.values()}, reverse=True)
        words = " or ".join(f"{dimensions} dimensions and sizes up to {size}" for dimensions, size in scopes)
        yield f"small scope, all descriptors of up to {words}, in each data width: {covered} of {possible}"
    added = sum(variant.cases for variant in coverage.variants)
    yield f"variants: {added} of these cases again, on {len(coverage.variants)} other execution paths"
    yield f"rules of every tensor: {', '.join(coverage.tensor_rules)}"
    for id, why in coverage.unreachable_rules.items():
        yield f"not reachable: {id}, {why}"
    yield f"BOOL has no descriptor: it is an extension of the EP, and these probes cover it: {', '.join(coverage.bool)}"


def _kernel_section(kernels: list[KernelCoverage]) -> Section:
    dimensions = sorted({k.dimensions for k in kernels})
    rows: dict[tuple[str, str, str], list[str]] = {}
    for k in kernels:
        key = f"{k.bytes * 8} bits", "tuples" if k.tuples else "single", k.indices
        rows.setdefault(key, []).append("-" if k.why else str(k.cases))
    names = sum(len(k.names) for k in kernels)
    reached = sum(k.cases > 0 for k in kernels)
    possible = sum(not k.why for k in kernels)
    unreachable: Counter[str] = Counter()
    for k in kernels:
        if k.why:
            unreachable[k.why] += len(k.names)
        elif k.exclusive:
            unreachable[k.exclusive] += len(k.names) - 1
    return Section(
        "DirectML's kernel classes, inferred from names in its library; nothing shows which kernel ran",
        ["data width", "indices", "of", *(f"cases up to {count}D" for count in dimensions)],
        [[*key, *cells] for key, cells in rows.items()],
        lines=[
            f"{reached} of {possible} reachable classes on one adapter; the library names {names}",
            *(f"{count} not reachable: {reason}" for reason, count in unreachable.items()),
        ],
    )


def _share(share: Share) -> str:
    covered, possible = share
    return f"{covered}/{possible}" if covered < possible else str(possible)
