"""`opmap versions`: runs a case or a program on pairs of ONNX Runtime and DirectML.dll, and says since which version it
is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from ...cases.case import Case
from ...cases.contract_probes import ContractProbe
from ...diagnosis.versions import RUNS, WITHOUT_RESULT, Cell, conclusion, run_item, told_apart
from ...engines.dml_linux import Pair, check_pair, find_rig, pairs, run_command, version_key
from ...engines.other_directml import dll_in, other_directml
from ...engines.providers import ProviderMissing
from ...errors import InputError, printable
from ...known import Word, find_defect
from ...reports.cause_view import case_of
from ...reports.documents import SmallestDocument
from ...reports.known_defects import find_item
from ...reports.sections import quiet_table
from ...reports.terminal import console, print_line, progress, stdout_for_json, write_json
from ...reports.written_bundle import read_diagnosis
from ...session import ValidationRun
from ...session.options import SessionOptions

Subject: TypeAlias = Case | ContractProbe | Path
"""What is run: a case, a contract probe, or a program."""

Place: TypeAlias = Pair | str | None
"""Where it is run: a pair of a rig; with the DirectML.dll of a folder; None as it is installed."""


def run(options: Namespace) -> int:
    """Prints a table for each thing that is run.

    Returns 1 if a pair is not right, or none gives an answer. Raises InputError.
    """
    subjects, places = _subjects(options), _places(options)
    values = {**vars(options), "case": (), "runtime": None, "provider": "dml"}
    documents = []
    session = ValidationRun(SessionOptions.read(values), brief=False)
    with stdout_for_json(options.json), progress(len(subjects) * len(places), "pairs") as advance:
        for name, subject in subjects:
            cells = []
            for place in places:
                cells.append(_cell(session, place, subject))
                advance()
            documents.append((name, told_apart(cells)))
    if options.json:
        write_json({"schema": "opmap-versions/1", "tables": [_document(name, cells) for name, cells in documents]})
    else:
        for name, cells in documents:
            _print(name, cells)
    words = [cell.seen for _, cells in documents for cell in cells if cell.seen not in WITHOUT_RESULT]
    return int(not words or any(word != "right" for word in words))


# --- what is run, and where ---


def _subjects(options: Namespace) -> list[tuple[str, Subject]]:
    """Returns (name, what is run) for each thing that the options name."""
    if options.case is not None:
        return [(options.case, find_item(options.case))]
    if options.known is not None:
        return [(options.known, find_item(find_defect(options.known).reproducer))]
    if options.program is not None:
        program = Path(options.program).resolve()
        if not program.is_file():
            raise InputError("must be a Python program", file=options.program)
        return [(options.program, program)]
    if options.diagnosis is None:
        raise InputError("versions must be given one of --case, --known, --program and --diagnosis")
    groups = read_diagnosis(options.diagnosis).groups
    if not groups:
        raise InputError("must hold a cause, got none", file=options.diagnosis)
    return [_failing(group.smallest, group.ids[0]) for group in groups]


def _failing(smallest: SmallestDocument, first: str) -> tuple[str, Case | ContractProbe]:
    """Returns the smallest case of a cause, or its first one if that is in the catalogue; else the case of its
    DxDispatch file.
    """
    for id in (smallest.case, first):
        with suppress(InputError):
            return id, find_item(id)
    case = case_of(smallest)
    if case is None:
        raise InputError(f"{smallest.case} is not in the catalogue, and has no DxDispatch file")
    return smallest.case, case


def _places(options: Namespace) -> Sequence[Place]:
    """Returns where it is run: on the pairs of the rig, or with the installed package and each DirectML.dll that is
    named.
    """
    known = pairs(options.dml_runtime)
    if find_rig(options.dml_runtime) is None:
        if options.runtime or not options.directml:
            raise InputError("versions needs --dml-runtime on Linux, and --directml on Windows")
        for folder in options.directml:
            dll_in(folder)
        return [None, *options.directml]
    if options.directml:
        raise InputError(
            "--directml is for Windows; on Linux, tools/dml_linux setup --directml adds a version to the folder"
        )
    for name in options.runtime or ([] if known else [""]):
        check_pair(name, known)
    return [pair for pair in known if not options.runtime or pair.name in options.runtime]


# --- the runs ---


def _cell(session: ValidationRun, place: Place, subject: Subject) -> Cell:
    """Returns the results of a case or program at one place.

    The versions are those that the worker process has loaded.
    """
    pair, folder = (place, None) if isinstance(place, Pair) else (None, place)
    try:
        with other_directml(folder), session.fresh(runtime=pair.name if pair else None) as judge:
            facts = judge.provider.environment()
            loaded, digest = (judge.provider.loaded_directml(facts, key) for key in ("file_version", "sha256"))
            onnxruntime, directml = judge.provider.version or "unknown", (loaded or "unknown").removesuffix(".0")
            if pair and (onnxruntime, directml) != (pair.onnxruntime, pair.directml):
                raise InputError(f"{pair.name} must load {pair}, got ONNX Runtime {onnxruntime}, DirectML {directml}")
            if isinstance(subject, Path):
                runs = [_run_program(session.options, place, subject) for _ in range(RUNS)]
            else:
                runs = list(run_item(subject, judge))
            return Cell.of(onnxruntime, directml, runs, digest)
    except ProviderMissing as error:
        versions = (pair.onnxruntime, pair.directml) if pair else ("installed", str(folder))
        return Cell.of(*versions, [("not loadable", str(error))])


_EXCEPTION = re.compile(r"WRONG: [\w.]+: ")
"""The beginning of the line in which a reproducer reports an exception. Other programs print a traceback on stderr."""


def _run_program(options: SessionOptions, place: Place, program: Path) -> tuple[Word, str | None]:
    """Runs a program once. Returns (word, message). Exit codes: 0 right, 1 wrong, 2 without the DirectML EP."""
    command, limit = [sys.executable, str(program)], options.start_timeout + options.timeout_per_case
    if isinstance(place, Pair) and (rig := find_rig(options.dml_runtime)):
        command = run_command(rig, ["python", program.name], runtime=place.name, shown=program.parent)
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return "hang", f"no answer within {limit:g} s"
    out, err = (
        [line.strip() for line in stream.decode(errors="replace").splitlines()]
        for stream in (ended.stdout, ended.stderr)
    )
    last = next(filter(None, reversed(out + err)), "")
    match ended.returncode:
        case 0:
            return "right", None
        case 1 if raised := next(
            filter(_EXCEPTION.match, out), last if "Traceback (most recent call last):" in err else None
        ):
            return "refused", raised
        case 1:
            return "wrong", next((line for line in out if "WRONG" in line), last)
        case 2:
            return "not loadable", last
    return "crash", f"exit code {ended.returncode:#x}: {last}"


# --- what is printed ---


def _document(name: str, cells: Sequence[Cell]) -> dict[str, object]:
    text, side, why = conclusion(cells)
    return {"subject": name, "pairs": cells, "text": text, "side": side, "why": why}


def _print(name: str, cells: Sequence[Cell]) -> None:
    """Prints the table, the first message of each word, and what the table shows."""
    columns = sorted({cell.onnxruntime for cell in cells}, key=version_key)
    table = quiet_table(name)
    for title in ("DirectML", *(f"ONNX Runtime {version}" for version in columns)):
        table.add_column(title, no_wrap=True)
    for directml in sorted({cell.directml for cell in cells}, key=version_key):
        seen = {cell.onnxruntime: _text(cell) for cell in cells if cell.directml == directml}
        table.add_row(printable(directml), *(seen.get(version, "") for version in columns))
    console().print(table)
    told = set()
    for cell in cells:
        if cell.message and cell.seen not in told:
            told.add(cell.seen)
            print_line(f"{cell.seen}, with {cell.onnxruntime} and {cell.directml}: {cell.message}")
    text, side, why = conclusion(cells)
    print_line(text)
    print_line(f"{f'probably {side}' if side else 'no side is named'}: {why}")


def _text(cell: Cell) -> str:
    return cell.seen if cell.seen != "unstable" else f"unstable: {', '.join(cell.runs)}"
