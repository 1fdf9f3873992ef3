"""Writes opmap/cases/covering/: covering arrays of every operator's parameter space, for pairs and for triples.

The tool calls the operator's `build` with every choice of the parameters that decide sizes, to learn which combinations of
classes are possible. covertable makes the array for pairs; it gets the impossible pairs and triples as constraints. Rows
that are impossible in spite of them are removed, and rows for the missing pairs are added. The array for triples extends
the array for pairs.

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
from collections.abc import Iterable, Mapping
from pathlib import Path

import covertable
import numpy as np
import numpy.typing as npt

from opmap.cases import covering_arrays, parameters
from opmap.cases.registration import register_operator
from opmap.descriptors import OperatorDesc
from opmap.operators import OPERATORS, AnyOperator, size_classes
from opmap.tensors import DataType

FOLDER = Path(covering_arrays.__file__).parent / "covering"

Row = tuple[int, ...]
"""One class number per parameter, or per parameter of one kind."""

Rows = npt.NDArray[np.int16]
"""Rows as an array of two dimensions."""

Combination = tuple[tuple[int, int], ...]
"""Classes of several parameters: (column, class number) each."""

Tables = dict[tuple[int, ...], npt.NDArray[np.bool_]]
"""Columns -> an array with one dimension per column: whether the combination of class numbers is possible."""


class Space:
    """The possible choices of an operator. A row holds one class number per parameter.

    Each group is a pair of arrays. The first holds rows of the parameters that decide sizes, the second holds rows of the
    value parameters. Every row of the first goes with every row of the second.
    """

    def __init__(self, operator: AnyOperator) -> None:
        self._value_rows: dict[tuple[tuple[bool, ...], ...], tuple[Row, ...]] = {}
        self.parameters = parameters.parameters(operator)
        self.names = tuple(self.parameters)
        self.sizes = [n for n in self.names if n not in size_classes.VALUE_PARAMETERS]
        self.values = [n for n in self.names if n in size_classes.VALUE_PARAMETERS]
        groups: dict[tuple[Row, ...], list[Row]] = {}
        types = self.parameters["data_type"]
        by_size = {size: [i for i, t in enumerate(types) if DataType[t].size == size] for size in (1, 2, 4, 8)}
        other_ranges = [range(len(self.parameters[n])) for n in self.sizes[1:]]
        for same in filter(None, by_size.values()):
            for row in itertools.product(*other_ranges):
                choice = {n: self.parameters[n][i] for n, i in zip(self.sizes, (same[0], *row), strict=True)}
                desc = operator.build({**choice, "index_type": "INT64"})
                if desc is not None:
                    groups.setdefault(self._allowed(desc), []).extend((i, *row) for i in same)
        self.groups = [(np.array(rows, np.int16), np.array(allowed, np.int16)) for allowed, rows in groups.items()]

    def _allowed(self, desc: OperatorDesc) -> tuple[Row, ...]:
        """Returns the rows of the value parameters that a descriptor allows. They depend on its indices only."""
        key = tuple(
            (max(bounds) > 1, desc.index_counts[name] == 1, desc.tensors[name].element_count == 1)
            for name, bounds in desc.index_bounds.items()
        )
        if key not in self._value_rows:
            rows = []
            for row in itertools.product(*(range(len(self.parameters[n])) for n in self.values)):
                choice = {n: self.parameters[n][i] for n, i in zip(self.values, row, strict=True)}
                if parameters.possible_values(desc, choice):
                    rows.append(row)
            self._value_rows[key] = tuple(rows)
        return self._value_rows[key]

    def tables(self, strength: int) -> Tables:
        """Returns, for each combination of `strength` columns, which combinations of their classes are possible."""
        counts = [len(classes) for classes in self.parameters.values()]
        split = len(self.sizes)
        tables = {}
        for columns in itertools.combinations(range(len(counts)), strength):
            table = np.zeros([counts[c] for c in columns], bool)
            size_columns = [c for c in columns if c < split]
            value_columns = [c - split for c in columns if c >= split]
            for size_rows, value_rows in self.groups:
                sizes = np.zeros(table.shape[: len(size_columns)], bool)
                sizes[tuple(size_rows[:, size_columns].T)] = True
                values = np.zeros(table.shape[len(size_columns) :], bool)
                values[tuple(value_rows[:, value_columns].T)] = True
                table |= np.logical_and.outer(sizes, values)
            tables[columns] = table
        return tables

    def possible(self, row: tuple[int, ...]) -> bool:
        """Returns whether a row of all parameters is possible."""
        sizes, values = row[: len(self.sizes)], row[len(self.sizes) :]
        return any(
            (size_rows == sizes).all(1).any() and (value_rows == values).all(1).any()
            for size_rows, value_rows in self.groups
        )

    def rows_with(self, classes: Mapping[int, int], source: random.Random, count: int) -> Rows:
        """Returns random possible rows with these classes (column -> class number): `count` from each group that has any."""
        split, samples = len(self.sizes), []
        for all_sizes, all_values in self.groups:
            size_rows, value_rows = all_sizes, all_values
            for column, i in classes.items():
                if column < split:
                    size_rows = size_rows[size_rows[:, column] == i]
                else:
                    value_rows = value_rows[value_rows[:, column - split] == i]
            if len(size_rows) and len(value_rows):
                sizes = size_rows[[int(source.random() * len(size_rows)) for _ in range(count)]]
                values = value_rows[[int(source.random() * len(value_rows)) for _ in range(count)]]
                samples.append(np.hstack([sizes, values]))
        return np.concatenate(samples)


def cover(space: Space, strength: int, start: list[Row], candidates: int) -> list[Row]:
    """Returns rows that hold every possible combination of `strength` classes.

    The rows of `start` come first, without those that add no combination. Each further row is, of `candidates` random rows
    with a combination that is still missing, the one with the most missing combinations.
    """
    source = random.Random(0)
    left = space.tables(strength)
    rows: list[Row] = []

    def take(row: Iterable[int]) -> int:
        """Adds a row; returns how many missing combinations it holds."""
        row = tuple(int(i) for i in row)
        new = 0
        for columns, table in left.items():
            at = tuple(row[c] for c in columns)
            new += int(table[at])
            table[at] = False
        rows.append(row)
        return new

    for row in start:
        if not take(row):
            rows.pop()
    for columns, table in left.items():
        for at in np.argwhere(table):
            if not table[tuple(at)]:
                continue
            samples = space.rows_with(dict(zip(columns, map(int, at), strict=True)), source, candidates)
            gains = sum(t[tuple(samples[:, c] for c in cs)].astype(np.int32) for cs, t in left.items())
            take(samples[int(np.argmax(gains))])
    return rows


def ordered(space: Space, rows: list[Row]) -> list[Row]:
    """Returns the rows in an order in which each prefix holds as many classes, and then as many pairs, as possible."""
    seen: set[object] = set()
    left = {row: (set(enumerate(row)), set(itertools.combinations(enumerate(row), 2))) for row in rows}
    done = []
    while left:
        best = max(left, key=lambda row: (len(left[row][0] - seen), len(left[row][1] - seen)))
        seen |= left[best][0] | left[best][1]
        done.append(best)
        del left[best]
    return done


def impossible(tables: Tables, smaller: Iterable[Combination] = ()) -> list[Combination]:
    """Returns the impossible combinations that contain none of the `smaller` ones."""
    excluded = set(smaller)
    combinations = (
        tuple(zip(columns, map(int, at), strict=True))
        for columns, table in tables.items()
        for at in np.argwhere(~table)
    )
    return [c for c in combinations if not any(pair in excluded for pair in itertools.combinations(c, 2))]


def library(space: Space, impossible: list[Combination]) -> list[Row]:
    """Returns covertable's rows for pairs.

    covertable gets these impossible combinations only. So a few of its rows may be impossible.
    """
    factors = {str(c): list(range(len(classes))) for c, classes in enumerate(space.parameters.values())}
    constraints = [
        {
            "operator": "or",
            "conditions": [{"operator": "ne", "left": str(c), "value": i} for c, i in combination],
        }
        for combination in impossible
    ]
    rows = covertable.make(factors, strength=2, constraints=constraints)
    return [tuple(row[str(c)] for c in range(len(factors))) for row in rows]


def build(operator: AnyOperator) -> dict[str, object]:
    """Returns the content of an operator's file. Prints the progress."""
    name, begin = operator.name, time.monotonic()

    def progress(*words: object) -> None:
        print(name, *words, round(time.monotonic() - begin), "s", flush=True)

    space = Space(operator)
    progress(sum(len(size_rows) for size_rows, _ in space.groups), "sizes")
    classes = list(space.parameters.values())
    pairs = impossible(space.tables(2))
    start = [row for row in library(space, pairs + impossible(space.tables(3), pairs)) if space.possible(row)]
    rows = ordered(space, cover(space, 2, start, 40))
    progress(len(rows), "rows for pairs", len(pairs), "impossible")
    triples = cover(space, 3, rows, 16)
    possible = sum(int(table.sum()) for table in space.tables(3).values())
    progress(len(triples), "rows for", possible, "triples")
    return {
        "parameters": space.parameters,
        "impossible_pairs": [", ".join(f"{space.names[c]} {classes[c][i]}" for c, i in pair) for pair in pairs],
        "possible_triples": possible,
        "pairs": rows,
        "triples": triples[len(rows) :],
    }


def write(path: Path, content: dict[str, object]) -> None:
    """Writes a file with one row per line."""
    text = json.dumps(content, separators=(",", ":")).replace("],[", "],\n[").replace('","', '",\n"')
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def main() -> None:
    """Builds and writes the arrays of all operators, of the named operators, or of one operator from outside."""
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
