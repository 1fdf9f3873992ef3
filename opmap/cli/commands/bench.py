"""`opmap bench`: measures the cost of opmap itself."""

from __future__ import annotations

from argparse import Namespace

from rich.table import Table

from ...bench import PARTS, Document, measure, reached
from ...evidence.terminal import console, progress, stdout_for_json, write_json


def run(options: Namespace) -> int:
    """Measures, prints the results, and returns 0: what is slow is shown, and is no failure.

    Raises InputError if the tier has no case, OpmapError if a child process fails.
    """
    parts = options.part or list(PARTS)
    with stdout_for_json(options.json), progress(None, "measuring") as advance:
        document = measure(
            parts,
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


def _print(document: Document) -> None:
    out, machine = console(), document.machine
    load = "" if machine.load is None else f", load {machine.load}"
    out.print(f"{machine.processor}, {machine.cores} cores{load}; Python {machine.python}", highlight=False)
    targets = Table("what", "measured", "wanted", title="opmap bench")
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
