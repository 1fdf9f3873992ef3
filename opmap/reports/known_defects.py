"""Shows known defects: a table, the JSON document, and the program that reproduces a defect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from ..cases.case import Case
from ..cases.contract_probes import ContractProbe, contract_probes
from ..cases.probes import probes
from ..cases.selection import find_case
from ..engines.arrays import to_array
from ..engines.sessions import DIRECTML
from ..known import Defect
from ..tensors import Tensor
from .pages import text_page
from .reproducers.dxdispatch_files import dxdispatch_files
from .reproducers.reproducer import expected_steps, program
from .sections import quiet_table

PACKAGES = ("onnxruntime-directml", "onnxruntime-windowsml")
"""The packages with the DirectML EP, each a column of the table."""

COLUMNS = ("id", "kind", "what is wrong", *(package.removeprefix("onnxruntime-") for package in PACKAGES), "device")


def rows(defects: Sequence[Defect]) -> Iterator[tuple[str, ...]]:
    """Gives the cells of each defect, in the order of COLUMNS."""
    for defect in defects:
        seen = [str(defect.seen[package]) if package in defect.seen else "not tried" for package in PACKAGES]
        yield (defect.id, defect.kind, defect.title, *seen, ", ".join(defect.device_class))


def table(defects: Sequence[Defect]) -> Table:
    """Returns the table of defects for the terminal. A defect's id stands above what is wrong, in one column."""
    id, kind, title, *places, device = COLUMNS
    classes = {defect.device_class for defect in defects}
    seen_on = f", all seen on: {', '.join(*classes)}" if len(classes) == 1 else ""
    table = quiet_table(f"known defects of the DirectML execution provider{seen_on}")
    table.add_column(kind, no_wrap=True)
    table.add_column(f"{id}: {title}", overflow="fold")
    for name in places if seen_on else [*places, device]:
        table.add_column(name, no_wrap=bool(seen_on))
    for defect, (name, cell, text, *cells) in zip(defects, rows(defects), strict=True):
        mechanism = f"\nroot: {defect.root}" if defect.root else ""
        shown = Text.assemble((name, "bold"), f"\n{text}", (mechanism, "dim"))
        table.add_row(cell, shown, *cells[: -1 if seen_on else None])
    return table


def documents(defects: Iterable[Defect]) -> list[dict[str, object]]:
    """Returns what `opmap known --json` prints: an object for each defect, with the packages that have it."""
    rest = ("pairs", "source", "root", "issue", "device_class", "control", "passes")
    return [
        {
            **{name: getattr(defect, name) for name in ("id", "title", "kind")},
            "packages": [{"package": p, "versions": seen.versions} for p, seen in defect.seen.items() if seen.versions],
            **{name: getattr(defect, name) for name in rest},
            "reproducer": reproducer(defect),
        }
        for defect in defects
    ]


# --- the program ---------------------------------------------------------------------------------------------------


def reproducer(defect: Defect) -> str:
    """Returns a program that shows a defect. It needs only numpy, onnx and onnxruntime.

    Of a defect that the DirectML EP cannot show, the program runs DxDispatch.
    """
    title = f"{defect.title[0].upper()}{defect.title[1:]}. Control: {defect.control}."
    item = find_item(defect.reproducer)
    if isinstance(item, Case) and all(failure.get("provider") == "directml" for failure in defect.fails):
        output = item.desc.output
        expected = to_array(Tensor(output.data_type, output.sizes, [bits or 0 for bits in item.expected])).tobytes()
        files = dxdispatch_files(item, item.inputs)
        return text_page("dxdispatch.txt", title=title, files=repr(files), expected=repr(expected)) + "\n"
    return program(expected_steps(item), title=title, provider=DIRECTML)


def find_item(id: str) -> Case | ContractProbe:
    """Returns the contract probe or the case with this id, of any tier; a probe that has an output as a contract probe.

    Raises InputError if there is none.
    """
    models = (probe.contract(probe.output) for probe in probes() if probe.id == id and probe.output is not None)
    return next((probe for probe in (*models, *contract_probes()) if probe.id == id), None) or find_case(id)
