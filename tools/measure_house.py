"""Prints how large opmap is, and how many calls one case takes.

    python tools/measure_house.py [--json] [--calls]

- Code lines: lines without blank lines, comments and docstrings. Rooms: the top-level entries of `opmap/`. Layers:
  those of the import contract in pyproject.toml.
- An operator: the code lines of its Python file, and the lines of its spec without blank lines, comments, tables of
  supported types and examples; at most 80 and 150 are wanted. `--operators` lists them.
- Calls: the Python functions of opmap that run while `ValidationRun.judge_all` judges one case of `standard` on the CPU
  EP, in a process that judged nothing before; the files that they are in; and the calls from one room into another.
  `--calls` lists them.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path
from types import FrameType

HOUSE = Path(__file__).parents[1]
PACKAGE = HOUSE / "opmap"
FOLDERS = PACKAGE / "operators", PACKAGE / "spec"
TABLES = [path for folder in FOLDERS for path in folder.glob("*.toml")]


def main() -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--calls", action="store_true", help="list the calls of the case, the most frequent first")
    parser.add_argument("--operators", action="store_true", help="list the lines of each operator")
    options = parser.parse_args()
    measured = {
        path.stem: operator_lines(path.stem)
        for path in sorted((PACKAGE / "spec").glob("*.toml"))
        if path.stem != "tensor"
    }
    calls, changes = calls_of_a_case()
    figures = {
        "code lines of opmap/": code_lines(PACKAGE),
        "code lines of tests/": code_lines(HOUSE / "tests"),
        "lines of tests/": sum(path.read_bytes().count(b"\n") for path in (HOUSE / "tests").rglob("*.py")),
        "lines of operators/ and spec/": sum(map(code_lines, FOLDERS)) + sum(map(spec_lines, TABLES)),
        "code lines of the longest operator": max(code for code, _ in measured.values()),
        "spec lines of the longest operator": max(lines for _, lines in measured.values()),
        "rooms": len({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")} - {"__init__.py"}),
        "import layers": layers(),
        "calls of one case": calls.total(),
        "files of one case": len({file for file, _ in calls}),
        "room changes of one case": changes,
    }
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        print(*(f"{figure:>8,}  {name}" for name, figure in figures.items()), sep="\n")
    if options.operators:
        print(*(f"{code:>8}{lines:>6}  {name}" for name, (code, lines) in measured.items()), sep="\n")
    if options.calls:
        print(*(f"{count:>8}  {file}: {name}" for (file, name), count in calls.most_common()), sep="\n")
    return 0


def code_lines(folder: Path) -> int:
    """Returns the number of lines of code in the Python files below a folder."""
    return sum(_code_lines(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py"))


_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def _code_lines(text: str) -> int:
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.end_lineno:
                docstrings.update(range(first.lineno, first.end_lineno + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {line for t in tokens if t.type not in _NO_CODE for line in range(t.start[0], t.end[0] + 1)}
    return len(code - docstrings)


def operator_lines(name: str) -> tuple[int, int]:
    """Returns the code lines of an operator's file, and the lines of its spec. One of a family has no file."""
    file = PACKAGE / "operators" / f"{name}.py"
    code = _code_lines(file.read_text(encoding="utf-8")) if file.exists() else 0
    return code, spec_lines(PACKAGE / "spec" / f"{name}.toml")


def spec_lines(path: Path) -> int:
    """Returns the lines of a TOML file without blank lines, comments, and the tables `support` and `examples`."""
    count, quoted, counted = 0, False, True
    for line in path.read_text(encoding="utf-8").splitlines():
        table = None if quoted else re.match(r"\[+(\w+)", line)
        counted = table[1] not in ("support", "examples") if table else counted
        count += counted and bool(line.strip()) and (quoted or not line.startswith("#"))
        quoted ^= line.count('"""') % 2 == 1
    return count


def layers() -> int:
    """Returns the number of import layers that pyproject.toml names."""
    contracts = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    return next(len(contract["layers"]) for contract in contracts if contract["type"] == "layers")


def calls_of_a_case() -> tuple[Counter[tuple[str, str]], int]:
    """Returns the calls of one case as (file, function), and how many of them lead from one room into another."""
    sys.path.insert(0, str(HOUSE))
    from opmap import SessionOptions, ValidationRun
    from opmap.cases.catalogue import catalogue

    case = next(case for case in catalogue("standard", globs=["gather/*"]) if "example" not in case.id)
    calls: Counter[tuple[str, str]] = Counter()
    changes = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal changes
        file = _file(frame)
        if event != "call" or file is None:
            return
        calls[file, frame.f_code.co_qualname] += 1
        caller = frame.f_back
        while caller is not None and _file(caller) is None:
            caller = caller.f_back
        came_from = caller and _file(caller)
        changes += came_from is not None and came_from.split("/")[0] != file.split("/")[0]

    with ValidationRun(SessionOptions(provider="cpu", tier="standard"), cases=[case]) as session:
        session.open()
        sys.setprofile(count)
        try:
            session.judge_all()
        finally:
            sys.setprofile(None)
    assert [record.verdict for record in session.results.records] == ["pass"], "the case must pass"
    return calls, changes


def _file(frame: FrameType) -> str | None:
    """Returns the file of a frame below `opmap/`; None for a frame of something else."""
    path = Path(frame.f_code.co_filename)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None


if __name__ == "__main__":
    raise SystemExit(main())
