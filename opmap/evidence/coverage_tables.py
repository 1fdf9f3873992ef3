"""What the cases of a tier cover, as tables for the terminal and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..catalogue.case import Case
from ..catalogue.catalogue import catalogue
from ..catalogue.coverage.boundaries import UNREACHABLE_RULES
from ..catalogue.coverage.covered import Covered, measure, runnable_examples
from ..catalogue.coverage.kernels import Kernels, Kind, kernel_files, kernel_reached
from ..catalogue.parameters import WIDTHS, WORLD
from ..catalogue.probes import probes
from ..catalogue.variants import VARIANTS
from ..vocabulary import TIERS, Tier

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


_SHARES = ("values", "pairs", "triples", "rules", "examples", "fields")


class KernelCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of one kind of kernel class; `names` are its classes, of which a device has one.

    `bytes` is the size of an element. `why` says why no case can reach it, `exclusive` why a device has only one of them.
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
    operators: list[OperatorCoverage]
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

    covered = list(measure(cases()).values())
    operators = [operator_coverage(c, STRENGTHS[tier]) for c in covered]
    kernels = [kind for kernels, counts in reached for kind in _kernels(kernels, counts)]
    missing = [f"{c.operator}: {text}" for c in covered for text in c.missing(strength=STRENGTHS[tier])]
    missing += [f"variant {name}" for name in _due(tier) if not any(c.variants.get(name) for c in covered)]
    missing += [f"kernel class {' or '.join(k.names)}" for k in kernels if not k.cases and not k.why]
    return TierCoverage(
        tier=tier,
        cases=sum(operator.cases for operator in operators),
        operators=operators,
        variants=list(_variants(covered)),
        tensor_rules=sorted({rule for c in covered for rule in c.rules - _rules(c)}),
        unreachable_rules=UNREACHABLE_RULES,
        kernels=kernels,
        bool=[p.id for p in probes() if "bool[" in p.model],
        missing=missing,
    )


def _due(tier: Tier) -> list[str]:
    """Returns the variants that a tier must have."""
    due = [v for v in VARIANTS.values() if v.base is not None]
    return [v.name for v in due if TIERS.index(v.tier) <= TIERS.index(tier)]


def _variants(covered: list[Covered]) -> Iterator[VariantCoverage]:
    for name, variant in VARIANTS.items():
        if count := sum(c.variants.get(name, 0) for c in covered):
            classes = sum(len({pair for variant, pair in c.variant_pairs if variant == name}) for c in covered)
            yield VariantCoverage(name=name, text=variant.text, cases=count, classes=classes)


def operator_coverage(covered: Covered, strength: int) -> OperatorCoverage:
    """Returns the coverage of one operator; of as many classes at a time as `strength` says (see STRENGTHS)."""
    values, pairs, triples = covered.possible(strength=strength)
    rules, fields = _rules(covered), covered.definition.descriptor.spec().fields
    width_count, descriptor_count = len(WIDTHS), sum(1 for _ in covered.definition.world(*WORLD)) if strength > 2 else 0
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


def _rules(covered: Covered) -> set[str]:
    """Returns the ids of the operator's own rules."""
    return {rule.id for rule in covered.definition.descriptor.spec().rules}


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


def print_coverage(console: Console, coverage: TierCoverage) -> None:
    """Prints the tables, what cannot be reached and why, and what is missing."""
    title = f"{coverage.tier}: {coverage.cases} cases"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    table.add_column("operator", no_wrap=True)
    for name in ("cases", *_SHARES):
        table.add_column(name, justify="right", no_wrap=True)
    for row in coverage.operators:
        cells = [_share(getattr(row, name)) for name in _SHARES]
        table.add_row(row.operator.removeprefix("DML_OPERATOR_"), str(row.cases), *cells)
    console.print(table)

    def say(text: str, style: str = "") -> None:
        console.print(escape(text), soft_wrap=True, highlight=False, style=style)

    worlds = [row.world for row in coverage.operators if row.world is not msgspec.UNSET]
    if worlds:
        covered, possible = (sum(share[i] for share in worlds) for i in (0, 1))
        dimensions, size = WORLD
        text = f"all descriptors of up to {dimensions} dimensions and sizes up to {size}, in each data width"
        say(f"small world, {text}: {covered} of {possible}")
    added = sum(variant.cases for variant in coverage.variants)
    say(f"variants: {added} of these cases again, on {len(coverage.variants)} other roads (opmap manual variants)")
    say(f"rules of every tensor: {', '.join(coverage.tensor_rules)}")
    for id, why in coverage.unreachable_rules.items():
        say(f"  not reachable: {id}, {why}")
    say(f"BOOL has no descriptor: it is an extension of the EP, and these probes cover it: {', '.join(coverage.bool)}")
    _print_kernels(console, coverage.kernels, say)
    for text in coverage.missing:
        say(f"missing: {text}", "red")


def _print_kernels(console: Console, kernels: list[KernelCoverage], say: Callable[[str], None]) -> None:
    dimensions = sorted({k.dimensions for k in kernels})
    table = Table(
        title="DirectML's kernel classes, inferred from names in its library; nothing shows which kernel ran",
        title_justify="left",
    )
    for name in ("data width", "indices", "of"):
        table.add_column(name)
    for count in dimensions:
        table.add_column(f"cases up to {count}D", justify="right")
    rows: dict[tuple[str, str, str], list[str]] = {}
    for k in kernels:
        key = f"{k.bytes * 8} bits", "tuples" if k.tuples else "single", k.indices
        rows.setdefault(key, []).append("-" if k.why else str(k.cases) if k.cases else "[red]0[/]")
    for key, cells in rows.items():
        table.add_row(*key, *cells)
    console.print(table)
    names = sum(len(k.names) for k in kernels)
    reached = sum(k.cases > 0 for k in kernels)
    possible = sum(not k.why for k in kernels)
    say(f"{reached} of {possible} reachable classes on one adapter; the library names {names}")
    unreachable: Counter[str] = Counter()
    for k in kernels:
        if k.why:
            unreachable[k.why] += len(k.names)
        elif k.exclusive:
            unreachable[k.exclusive] += len(k.names) - 1
    for reason, count in unreachable.items():
        say(f"  {count} not reachable: {reason}")


def _share(share: Share) -> str:
    covered, possible = share
    return f"{covered}/{possible}" if covered < possible else f"[green]{possible}[/]"
