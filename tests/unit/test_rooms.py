"""The package is a house in which a newcomer finds the way: rooms by purpose, none of them too large."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import opmap

PACKAGE = Path(opmap.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
ROOMS = sorted({path.relative_to(PACKAGE).parts[0] for path in MODULES if path.parent != PACKAGE})

OWN_ROOMS = {"operators", "spec", "faults", "manual"}
"""The rooms that may name an operator."""


class TestRooms:
    """Rules for the folders of the package; import-linter checks the order in which rooms import each other."""

    def test_none_is_too_large(self):
        """The biggest room holds less than a sixth of the lines."""
        lines: Counter[str] = Counter()
        for path in MODULES:
            lines[path.relative_to(PACKAGE).parts[0]] += len(path.read_text(encoding="utf-8").splitlines())
        (room, most), *_ = Counter({name: lines[name] for name in ROOMS}).most_common(1)
        assert most * 6 < lines.total(), room

    @pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
    def test_files(self, path):
        """Every file says in its docstring what it is for, and has less than 25 kB."""
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert path.stat().st_size < 25_000

    @pytest.mark.parametrize("room", ROOMS)
    def test_only_exports(self, room):
        """The `__init__.py` of a room imports names, and defines none but `__all__`."""
        tree = ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))
        defined = [node for node in tree.body[1:] if not isinstance(node, ast.ImportFrom)]
        assert all(isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" for node in defined)

    def test_shared_rooms_name_no_operator(self):
        """No file outside the operators' own rooms names one of the family that opmap ships."""
        files = [*MODULES, *PACKAGE.rglob("*.lark")]
        shared = [path for path in files if path.relative_to(PACKAGE).parts[0] not in OWN_ROOMS]
        assert shared
        named = [path for path in shared if "gather" in path.read_text(encoding="utf-8").lower()]
        assert [] == named
