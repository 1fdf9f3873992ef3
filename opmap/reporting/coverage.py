"""What the cases of a tier cover, for a person and for a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..cases.catalogue import catalogue
from ..cases.parameters import WIDTHS, WORLD
from ..cases.probes import probes
from ..coverage.boundaries import UNREACHABLE_RULES
from ..coverage.covered import measure, runnable_examples
from ..coverage.kernels import Kernels, kernel_files, kernels_reached
from ..operators import OPERATORS

STRENGTHS = {"smoke": 1, "standard": 2, "full": 3}
"""What a tier promises to cover: single classes, pairs, triples."""

_COUNTED = ("values", "pairs", "triples", "rules", "examples", "fields")


def told(tier: str, advance: Callable[[], None] = lambda: None) -> dict:
    """The coverage of a tier, as JSON holds it: [covered, possible]. `missing` lists what the tier promises and has not."""
    reached = [(kernels, Counter()) for kernels in kernel_files()]

    def cases():
        for case in catalogue(tier):
            for kernels, counts in reached:
                counts += kernels_reached(kernels, [case])
            advance()
            yield case

    operators, missing, tensor_rules, strength = [], [], set(), STRENGTHS[tier]
    for found in measure(cases()).values():
        spec = OPERATORS[found.operator].descriptor.spec()
        missing += [f"{found.operator}: {what}" for what in found.missing(strength=strength)]
        rules = {r.id for r in spec.rules}
        tensor_rules |= found.rules - rules
        covered = [len(found.classes), len(found.pairs), len(found.triples), len(found.rules & rules)]
        covered += [len(found.examples), sum(len(v) > 1 for v in found.fields.values())]
        possible = [
            *found.possible(strength=strength),
            len(rules),
            len(runnable_examples(OPERATORS[found.operator])),
            len(spec.fields),
        ]
        counts = {name: [a, b] for name, a, b in zip(_COUNTED, covered, possible)}
        if strength > 2:
            counts["world"] = [len(found.world), len(WIDTHS) * sum(1 for _ in OPERATORS[found.operator].world(*WORLD))]
        operators.append({"operator": spec.operator, "cases": found.cases, **counts})
    kernels = [_kernels(*found) for found in reached]
    missing += [
        f"kernel class {' or '.join(c['names'])}" for k in kernels for c in k if not c["cases"] and not c["why"]
    ]
    return {
        "tier": tier,
        "cases": sum(row["cases"] for row in operators),
        "operators": operators,
        "tensor_rules": sorted(tensor_rules),
        "unreachable_rules": UNREACHABLE_RULES,
        "kernels": [c for k in kernels for c in k],
        "bool": [p.id for p in probes() if "bool[" in p.model],
        "missing": missing,
    }


def _kernels(kernels: Kernels, reached: Counter) -> list[dict]:
    return [
        {
            "bytes": kind[0],
            "tuples": kind[1],
            "indices": kind[2],
            "dimensions": kind[3],
            "names": list(names),
            "cases": reached[kind],
            "why": kernels.why_not(kind),
            "exclusive": kernels.exclusive if len(names) > 1 else None,
        }
        for kind, names in kernels.kinds().items()
    ]


def print_coverage(console: Console, found: dict) -> None:
    """The tables, what cannot be reached and why, and what is missing."""
    table = Table(title=f"{found['tier']}: {found['cases']} cases", title_justify="left", box=SIMPLE_HEAD, padding=0)
    table.add_column("operator", no_wrap=True)
    for name in ("cases", *_COUNTED):
        table.add_column(name, justify="right", no_wrap=True)
    for row in found["operators"]:
        cells = [_share(*row[name]) for name in _COUNTED]
        table.add_row(row["operator"].removeprefix("DML_OPERATOR_"), str(row["cases"]), *cells)
    console.print(table)

    def say(text: str, style: str = "") -> None:
        console.print(escape(text), soft_wrap=True, highlight=False, style=style)

    worlds = [row["world"] for row in found["operators"] if "world" in row]
    if worlds:
        covered, possible = map(sum, zip(*worlds))
        dimensions, size = WORLD
        what = f"all descriptors of up to {dimensions} dimensions and sizes up to {size}, in each data width"
        say(f"small world, {what}: {covered} of {possible}")
    say(f"rules of every tensor: {', '.join(found['tensor_rules'])}")
    for id, why in found["unreachable_rules"].items():
        say(f"  not reachable: {id}, {why}")
    say(
        f"BOOL, the EP's extension, has no descriptor; it stands in a table of its own, the probes: {', '.join(found['bool'])}"
    )
    _print_kernels(console, found["kernels"], say)
    for what in found["missing"]:
        say(f"missing: {what}", "red")


def _print_kernels(console: Console, kernels: list[dict], say) -> None:
    dimensions = sorted({c["dimensions"] for c in kernels})
    table = Table(
        title="DirectML's kernel classes, inferred from names in its library; nothing shows which kernel ran",
        title_justify="left",
    )
    for name in ("data width", "indices", "of"):
        table.add_column(name)
    for count in dimensions:
        table.add_column(f"cases up to {count}D", justify="right")
    rows: dict[tuple, list[str]] = {}
    for c in kernels:
        key = f"{c['bytes'] * 8} bits", "tuples" if c["tuples"] else "single", c["indices"]
        rows.setdefault(key, []).append("-" if c["why"] else str(c["cases"]) if c["cases"] else "[red]0[/]")
    for key, cells in rows.items():
        table.add_row(*key, *cells)
    console.print(table)
    names = sum(len(c["names"]) for c in kernels)
    reached = sum(c["cases"] > 0 for c in kernels)
    possible = sum(not c["why"] for c in kernels)
    say(f"{reached} of {possible} reachable classes on one adapter; the library names {names}")
    why: dict[str, int] = {}
    for c in kernels:
        if c["why"]:
            why[c["why"]] = why.get(c["why"], 0) + len(c["names"])
        elif c["exclusive"]:
            why[c["exclusive"]] = why.get(c["exclusive"], 0) + len(c["names"]) - 1
    for reason, count in why.items():
        say(f"  {count} not reachable: {reason}")


def _share(covered: int, possible: int) -> str:
    return f"{covered}/{possible}" if covered < possible else f"[green]{possible}[/]"
