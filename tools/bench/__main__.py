"""Measures what opmap itself costs, and how strong a tier is. Prints tables, or one JSON document with --json.

    python tools/bench                                            all parts
    python tools/bench --part suite --rounds 5                    one part; may be repeated
    python tools/bench --json >tools/bench.json                   the record in the repository
    python tools/bench conditional --tier standard                the share of conditional faults that it catches

Opmap is measured beside plain work of the same size, in the same process and in turn; the medians count. So the ratios
can be compared between machines and versions. What is slow is shown, and is no failure. `conditional` returns 1 if the
tier catches fewer faults than it must.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from bench import conditional  # noqa: E402  # found by the line above
from bench.costs import PARTS, Document, measure, reached  # noqa: E402
from opmap.cases.selection import Selection  # noqa: E402
from opmap.cli.entry import exit_code  # noqa: E402
from opmap.cli.parser import Parser  # noqa: E402
from opmap.reports.terminal import console, print_line, progress, stdout_for_json, write_json  # noqa: E402
from opmap.session.option_types import count, number  # noqa: E402
from opmap.session.options import OPTIONS  # noqa: E402
from opmap.vocabulary import TIERS  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, and returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return exit_code(lambda: _conditional(words[1:]) if words[:1] == ["conditional"] else _costs(words))


def _costs(words: Sequence[str]) -> int:
    parser = Parser("python tools/bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="measure only this; may be repeated")
    OPTIONS["tier"].add(parser.add_argument, "tier", default="standard", help="whose cases suite and directml run")
    parser.add_argument("--cases", type=count, metavar="N", help="only the first N cases of the tier")
    parser.add_argument("--rounds", type=count, default=3, metavar="N", help="how often all is measured (default: 3)")
    OPTIONS["dml_runtime"].add(parser.add_argument, "dml_runtime")
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    options = parser.parse_args(words)
    with stdout_for_json(options.json), progress(None, "measuring") as advance:
        document = measure(
            options.part or list(PARTS),
            tier=options.tier,
            rounds=options.rounds,
            limit=options.cases,
            dml_runtime=options.dml_runtime,
            advance=advance,
        )
    if options.json:
        write_json(document)
    else:
        _print(document)
    return 0


def _conditional(words: Sequence[str]) -> int:
    parser = Parser("python tools/bench conditional", description=conditional.__doc__)
    parser.add_argument("--tier", choices=[tier for tier in TIERS if tier != "contract"], default=TIERS[0])
    parser.add_argument(
        "--number", type=count, default=1000, metavar="N", help="faults of each strength (default: 1000)"
    )
    parser.add_argument(
        "--seed", type=number, default=0, metavar="N", help="equal seeds draw equal faults (default: 0)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    options = parser.parse_args(words)
    cases = Selection(tier=options.tier, variants=False).cases()
    with progress(len(conditional.STRENGTHS) * options.number, "conditional faults") as advance:
        strengths = conditional.measure(cases, number=options.number, seed=options.seed, advance=advance)
    if options.json:
        write_json(conditional.encode(options.tier, len(cases), options.seed, strengths))
    else:
        for line in conditional.summary(options.tier, len(cases), options.seed, strengths):
            print_line(line)
    return int(any(s.share < s.due(options.tier) for s in strengths))


def _print(document: Document) -> None:
    out, machine = console(), document.machine
    load = "" if machine.load is None else f", load {machine.load}"
    out.print(f"{machine.processor}, {machine.cores} cores{load}; Python {machine.python}", highlight=False)
    targets = Table("what", "measured", "wanted", title="what opmap costs")
    for target in reached(document):
        unit = f" {target.unit}" if target.unit else ""
        targets.add_row(target.name, f"{target.value:.4g}{unit}", f"at most {target.limit:g}{unit}")
    out.print(targets)
    if document.suite:
        suite = document.suite
        table = Table("step", "ms per case", title=f"{suite.cases} cases of {suite.tier}, {suite.models} models")
        for name, value in suite.parts_ms.items():
            table.add_row(name, f"{value:.3f}")
        table.add_section()
        table.add_row("whole, in a run", f"{suite.whole_ms:.3f}")
        table.add_row("whole, in packs", f"{suite.packed_ms:.3f}")
        table.add_row("bare session and run", f"{suite.bare_ms:.3f}")
        out.print(table)
        out.print(f"{suite.cases_per_second:.0f} cases per second, {suite.elements_per_second:.0f} elements per second")
    if document.interpreter:
        table = Table(
            "operator", "layout", "elements", "loop ns", "interpreter ns", "ratio", title="per output element"
        )
        for measured in document.interpreter:
            loop, interpreter = (
                seconds / measured.elements * 1e9 for seconds in (measured.loop_seconds, measured.interpreter_seconds)
            )
            row = (f"{measured.elements:,}", f"{loop:.1f}", f"{interpreter:.1f}", f"{measured.ratio:.2f}")
            table.add_row(measured.operator, measured.layout, *row)
        out.print(table)
    if document.start:
        start = document.start
        out.print(
            f"start: python {start.python * 1000:.0f} ms, import opmap {start.import_opmap * 1000:.0f} ms, "
            f"opmap --help {start.help * 1000:.0f} ms",
            highlight=False,
        )
    if document.directml:
        table = Table("way", "cases per second", "against fresh", "other verdicts", title="DirectML EP")
        for way in document.directml:
            rest = (f"{way.per_second:.1f}", f"{way.against_fresh:.2f}", str(len(way.differing)))
            table.add_row(way.name, *rest)
        out.print(table)


if __name__ == "__main__":
    sys.exit(main())
