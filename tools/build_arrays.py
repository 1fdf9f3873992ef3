"""Writes opmap/cases/arrays/: covering arrays of every operator's parameter space, for pairs and for triples.

Which combinations are possible is asked of the operator: every choice of the parameters that decide sizes is built. The
array for pairs is covertable's, which is told the impossible pairs and triples. Rows that are impossible all the same are
left out, and pairs that are then missing are added. The array for triples extends the array for pairs.

    pip install -e .[test]
    python tools/build_arrays.py [OPERATOR ...]
    python tools/build_arrays.py --outside MODULE SPEC OUTPUT

The last form is for an operator from outside the package: MODULE.OPERATOR, its spec file, the file to write.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path

import covertable
import numpy as np

from opmap.cases import covering_arrays, parameters
from opmap.operators import OPERATORS, size_classes
from opmap.registration import register_operator
from opmap.tensors import DataType

FOLDER = Path(covering_arrays.__file__).parent / "arrays"


class Space:
    """The possible choices of an operator.

    A group holds rows of class numbers for the parameters that decide sizes, and the rows of class numbers for the other
    parameters that each of them allows.
    """

    def __init__(self, operator):
        self._known = {}
        self.parameters = parameters.parameters(operator)
        self.names = tuple(self.parameters)
        self.sizes = [n for n in self.names if n not in size_classes.VALUES]
        self.values = [n for n in self.names if n in size_classes.VALUES]
        groups: dict[tuple, list[tuple[int, ...]]] = {}
        types = self.parameters["data_type"]
        by_size = {size: [i for i, t in enumerate(types) if DataType[t].size == size] for size in (1, 2, 4, 8)}
        others = [range(len(self.parameters[n])) for n in self.sizes[1:]]
        for same in filter(None, by_size.values()):
            for row in itertools.product(*others):
                choice = {n: self.parameters[n][i] for n, i in zip(self.sizes, (same[0], *row))}
                desc = operator.build({**choice, "index_type": "INT64"})
                if desc is not None:
                    groups.setdefault(self._allowed(desc), []).extend((i, *row) for i in same)
        self.groups = [(np.array(rows, np.int16), np.array(allowed, np.int16)) for allowed, rows in groups.items()]

    def _allowed(self, desc) -> tuple:
        """The classes of the other parameters that a descriptor allows; they depend on its indices only."""
        key = tuple(
            (max(bounds) > 1, desc.index_counts[name] == 1, desc.tensors[name].element_count == 1)
            for name, bounds in desc.index_bounds.items()
        )
        if key not in self._known:
            rows = []
            for row in itertools.product(*(range(len(self.parameters[n])) for n in self.values)):
                choice = {n: self.parameters[n][i] for n, i in zip(self.values, row)}
                if parameters.possible_values(desc, choice):
                    rows.append(row)
            self._known[key] = tuple(rows)
        return self._known[key]

    def tables(self, strength: int) -> dict[tuple[int, ...], np.ndarray]:
        """For each combination of columns, which combinations of classes are possible."""
        counts = [len(found) for found in self.parameters.values()]
        split = len(self.sizes)
        tables = {}
        for columns in itertools.combinations(range(len(counts)), strength):
            table = np.zeros([counts[c] for c in columns], bool)
            first, last = [c for c in columns if c < split], [c - split for c in columns if c >= split]
            for rows, allowed in self.groups:
                a = np.unique(rows[:, first], axis=0) if last or len(rows) < 1000 else rows[:, first]
                b = np.unique(allowed[:, last], axis=0)
                index = [np.repeat(a[:, i], len(b)) for i in range(len(first))]
                index += [np.tile(b[:, i], len(a)) for i in range(len(last))]
                table[tuple(index)] = True
            tables[columns] = table
        return tables

    def possible(self, row: tuple[int, ...]) -> bool:
        """Whether there is such a row."""
        first, last = row[: len(self.sizes)], row[len(self.sizes) :]
        return any((rows == first).all(1).any() and (allowed == last).all(1).any() for rows, allowed in self.groups)

    def row_with(self, wanted: dict[int, int], source: random.Random, count: int) -> np.ndarray:
        """Some possible rows that have these classes in these columns."""
        split, found = len(self.sizes), []
        for rows, allowed in self.groups:
            for column, i in wanted.items():
                if column < split:
                    rows = rows[rows[:, column] == i]
                else:
                    allowed = allowed[allowed[:, column - split] == i]
            if len(rows) and len(allowed):
                a = rows[[int(source.random() * len(rows)) for _ in range(count)]]
                b = allowed[[int(source.random() * len(allowed)) for _ in range(count)]]
                found.append(np.hstack([a, b]))
        return np.concatenate(found)


def cover(space: Space, strength: int, start: list[tuple[int, ...]], candidates: int) -> list[tuple[int, ...]]:
    """Rows that hold every possible combination of so many classes, the given ones first; the best come first."""
    source = random.Random(0)
    left = space.tables(strength)
    rows = []

    def take(row) -> int:
        new = 0
        for columns, table in left.items():
            at = tuple(row[c] for c in columns)
            new += table[at]
            table[at] = False
        rows.append(tuple(int(i) for i in row))
        return new

    for row in start:
        if not take(row):
            rows.pop()
    for columns, table in left.items():
        for at in np.argwhere(table):
            if not table[tuple(at)]:
                continue
            found = space.row_with(dict(zip(columns, at)), source, candidates)
            gain = sum(t[tuple(found[:, c] for c in cs)].astype(np.int32) for cs, t in left.items())
            take(found[int(np.argmax(gain))])
    return rows


def ordered(space: Space, rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The rows so that each prefix holds as many classes, then as many pairs, as it can."""
    seen: set = set()
    left = {row: [{(c, i) for c, i in enumerate(row)}, set(itertools.combinations(enumerate(row), 2))] for row in rows}
    done = []
    while left:
        best = max(left, key=lambda row: (len(left[row][0] - seen), len(left[row][1] - seen)))
        seen |= left[best][0] | left[best][1]
        done.append(best)
        del left[best]
    return done


def impossible(tables: dict, smaller: Sequence[tuple] = ()) -> list[tuple[tuple[int, int], ...]]:
    """The impossible combinations of (column, class) that hold no smaller one."""
    known = set(smaller)
    found = (tuple(zip(cs, map(int, at))) for cs, table in tables.items() for at in np.argwhere(~table))
    return [c for c in found if not any(pair in known for pair in itertools.combinations(c, 2))]


def library(space: Space, impossible: list[tuple[tuple[int, int], ...]]) -> list[tuple[int, ...]]:
    """covertable's rows for pairs. It knows of these impossible combinations only, so a few of its rows may be impossible."""
    factors = {str(c): list(range(len(found))) for c, found in enumerate(space.parameters.values())}
    constraints = [
        {
            "operator": "or",
            "conditions": [{"operator": "ne", "left": str(c), "value": i} for c, i in combination],
        }
        for combination in impossible
    ]
    rows = covertable.make(factors, strength=2, constraints=constraints)
    return [tuple(row[str(c)] for c in range(len(factors))) for row in rows]


def build(operator) -> dict:
    """Returns the content of an operator's file; prints progress."""
    name, begin = operator.name, time.monotonic()

    def progress(*words) -> None:
        print(name, *words, round(time.monotonic() - begin), "s", flush=True)

    space = Space(operator)
    progress(sum(len(rows) for rows, _ in space.groups), "sizes")
    classes = list(space.parameters.values())
    none = impossible(space.tables(2))
    start = [row for row in library(space, none + impossible(space.tables(3), none)) if space.possible(row)]
    rows = ordered(space, cover(space, 2, start, 40))
    progress(len(rows), "rows for pairs", len(none), "impossible")
    triples = cover(space, 3, rows, 16)
    possible = sum(int(table.sum()) for table in space.tables(3).values())
    progress(len(triples), "rows for", possible, "triples")
    return {
        "parameters": space.parameters,
        "impossible_pairs": [
            ", ".join(f"{space.names[c]} {classes[c][i]}" for c, i in combination) for combination in none
        ],
        "possible_triples": possible,
        "pairs": rows,
        "triples": triples[len(rows) :],
    }


def write(path: Path, content: dict) -> None:
    """Writes a file, one row a line."""
    text = json.dumps(content, separators=(",", ":")).replace("],[", "],\n[").replace('","', '",\n"')
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def main() -> None:
    """Builds and writes the arrays of all operators, of the named ones, or of one from outside."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="GATHER, ... (default: all)")
    parser.add_argument("--outside", nargs=3, metavar=("MODULE", "SPEC", "OUTPUT"), help="an operator from outside")
    options = parser.parse_args()
    if options.outside:
        module, spec, output = options.outside
        operator = importlib.import_module(module).OPERATOR
        register_operator(operator, spec=spec)
        write(Path(output), build(operator))
        return
    FOLDER.mkdir(exist_ok=True)
    for name in options.operators or OPERATORS:
        write(FOLDER / f"{name.lower()}.json", build(OPERATORS[name]))


if __name__ == "__main__":
    main()
