"""The package is a house in which a newcomer finds the way: few rooms by purpose, none of them too large."""

import ast
from collections import Counter
from pathlib import Path

import opmap

PACKAGE = Path(opmap.__file__).parent
MODULES = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}

OWN_ROOMS = {"operators", "spec", "faults", "manual"}
"""The rooms that may name an operator."""


class TestRooms:
    """Rules for the folders of the package; import-linter checks the order in which rooms import each other."""

    def test_sizes(self):
        """There are at most 18 folders, and the biggest one holds less than a sixth of the lines."""
        lines: Counter[str] = Counter()
        for name, text in MODULES.items():
            lines[name.partition("/")[0]] += len(text.splitlines())
        (room, most), *_ = lines.most_common(1)
        assert len([name for name in lines if not name.endswith(".py")]) <= 18
        assert most * 6 < lines.total(), room

    def test_files(self):
        """Every file says in its docstring what it is for, and has less than 30 kB: a file that is one thing is not
        split.
        """
        assert [] == [name for name, text in MODULES.items() if not ast.get_docstring(ast.parse(text))]
        assert [] == [name for name, text in MODULES.items() if len(text.encode()) >= 30_000]

    def test_only_exports(self):
        """The `__init__.py` of a room imports names, perhaps only when they are used, and defines none but
        `__all__`.
        """
        own = [(name, text) for name, text in MODULES.items() if name.endswith("/__init__.py")]
        defined = [
            (name, ast.unparse(node))
            for name, text in own
            for node in ast.parse(text).body[1:]
            if not isinstance(node, ast.Import | ast.ImportFrom | ast.If) and getattr(node, "name", "") != "__getattr__"
        ]
        assert own
        assert [] == [(name, text) for name, text in defined if not text.startswith("__all__ = ")]

    def test_shared_rooms_name_no_operator(self):
        """No file outside the operators' own rooms names one of the family that opmap ships."""
        grammars = {path.name: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.lark")}
        shared = {name: text for name, text in MODULES.items() if name.partition("/")[0] not in OWN_ROOMS}
        assert shared and grammars
        assert [] == [name for name, text in {**shared, **grammars}.items() if "gather" in text.lower()]
