"""Writes opmap/cases/covering/OPERATOR.json: which random rows make up the covering arrays of an operator.

A row has one class of every parameter, and a descriptor that has them; `random_cases.focused` makes it of a seed. The tool
makes many rows and keeps few: those that hold every class, then every pair, then every triple that any row has. A pair that
no row has counts as impossible.

    pip install -e .[test]
    python tools/choose_rows.py OPERATOR ... [--draws N]
    python tools/choose_rows.py --outside MODULE SPEC OUTPUT

The last form is for an operator from outside the package: MODULE.OPERATOR, its spec file, the file to write. The rows of the four
gather operators are data of earlier releases, which the tool leaves as they are.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import time
from collections.abc import Iterable
from pathlib import Path

from adequacy.score import score

from opmap.cases import covering_arrays
from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue
from opmap.cases.parameters import cases_in, parameters
from opmap.cases.random_cases import focused
from opmap.cases.registration import register_operator
from opmap.errors import PseudocodeError
from opmap.operators import OPERATORS, Operator, size_classes

FOLDER = Path(covering_arrays.__file__).parent / "covering"

TRIED = 120
"""How many rows are tried, at most, to catch the faults that the rows with every class miss."""

ENOUGH = 10
"""How many rows with a wide class are made for the one that is kept."""

Choice = tuple[str, ...]
"""One class per parameter, in the order of the parameters."""


def rows(operator: Operator, draws: int) -> dict[int, Choice]:
    """Returns {seed: classes} of the rows that have a class of every parameter, and cases."""
    classes, found = parameters(operator), {}
    for seed in range(draws):
        try:
            row = focused(operator, seed)
        except PseudocodeError:
            continue
        if all(row.choice[name] in names for name, names in classes.items()) and cases_in(row.desc, row.choice):
            found[seed] = tuple(row.choice.values())
    return found


def combinations(choice: Choice, size: int) -> list[tuple[tuple[int, str], ...]]:
    """Returns the combinations of `size` classes, each with the number of its parameter."""
    return list(itertools.combinations(enumerate(choice), size))


def cover(found: dict[int, Choice], size: int, start: Iterable[int] = ()) -> list[int]:
    """Returns the seeds of rows that hold every combination of `size` classes that any row holds, the richest rows first.

    Combinations that the rows of `start` hold are left out.
    """
    held = {seed: set(combinations(choice, size)) for seed, choice in found.items()}
    seen = set().union(*(held[seed] for seed in start))
    gains, chosen = {seed: len(own - seen) for seed, own in held.items()}, []
    while gains:
        best = max(gains, key=lambda seed: (gains[seed], -seed))
        gain = len(held[best] - seen)
        if gain < gains[best]:  # out of date: rows that were chosen meanwhile hold some of it
            gains[best] = gain
        elif gain:
            seen |= held[best]
            chosen.append(best)
            del gains[best]
        else:
            break
    return chosen


def catching(operator: Operator, seeds: Iterable[int], start: list[int]) -> list[int]:
    """Returns seeds of rows that catch the planted faults of `smoke` that the rows of `start` and the examples miss.

    A fault that no row catches in TRIED rows counts as one that cannot change the operator.
    """
    examples = [c for c in catalogue("smoke", variants=False) if c.id.startswith(f"{operator.name.lower()}/example.")]
    missed, chosen = _missed(operator, start, examples), []
    for seed in itertools.islice((seed for seed in seeds if seed not in start), TRIED):
        if missed and (still := _missed(operator, [seed])) & missed != missed:
            missed &= still
            chosen.append(seed)
    print(f"  not caught: {' '.join(sorted(missed)) or 'none'}", flush=True)
    return chosen


def _missed(operator: Operator, seeds: list[int], cases: Iterable[Case] = ()) -> set[str]:
    """Returns the names of the faults of `smoke` that no case of these rows catches."""
    rows = (focused(operator, seed) for seed in seeds)
    own = [*cases, *(case for row in rows for case in cases_in(row.desc, row.choice))]
    return {s.name for s in score(own) if s.due("smoke") and not s.caught_by}


def extra(operator: Operator, part: str, draws: int) -> list[int]:
    """Returns the seeds of one row for each wide or large class: of the first ENOUGH rows, the one with the smallest tensors."""
    names = {"wide": size_classes.WIDE, "large": size_classes.LARGE}[part]["output_elements"]
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for seed in range(draws):
        row = focused(operator, seed, part)
        own = found.get(row.choice["output_elements"])
        if own is not None and len(own) < ENOUGH and cases_in(row.desc, row.choice):
            own.append((row.desc.element_count, seed))
        if all(len(own) == ENOUGH for own in found.values()):
            break
    return [min(own)[1] for own in found.values() if own]


def build(operator: Operator, draws: int) -> dict[str, object]:
    """Returns the content of an operator's file. Prints what was found."""
    begin, classes = time.monotonic(), parameters(operator)
    found = rows(operator, draws)
    smoke = cover(found, 1)
    smoke += catching(operator, found, smoke)
    pairs = smoke + cover(found, 2, smoke)
    triples = cover(found, 3, pairs)
    names = list(classes)
    seen = {pair for choice in found.values() for pair in combinations(choice, 2)}
    impossible = [
        f"{names[a]} {x}, {names[b]} {y}"
        for a, b in itertools.combinations(range(len(names)), 2)
        for x in classes[names[a]]
        for y in classes[names[b]]
        if ((a, x), (b, y)) not in seen
    ]
    lacking = [
        f"{n} {c}" for i, n in enumerate(names) for c in classes[n] if not any(r[i] == c for r in found.values())
    ]
    spent = round(time.monotonic() - begin)
    print(
        operator.name,
        len(found),
        "rows,",
        len(smoke),
        "for smoke,",
        len(pairs),
        "for pairs,",
        len(triples),
        "for triples,",
        spent,
        "s",
        flush=True,
    )
    for text in lacking:
        print(f"  no row has {text}", flush=True)
    return {
        "draws": draws,
        "smoke": len(smoke),
        "pairs": pairs,
        "triples": triples,
        "wide": extra(operator, "wide", draws),
        "large": [],
        "impossible_pairs": impossible,
        "possible_triples": len({triple for choice in found.values() for triple in combinations(choice, 3)}),
    }


def write(path: Path, content: dict[str, object]) -> None:
    """Writes a file with one pair per line."""
    text = json.dumps(content, separators=(",", ":")).replace('","', '",\n"')
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def main() -> None:
    """Chooses and writes the rows of the named operators, or of one operator from outside."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="SCATTER, ...")
    parser.add_argument("--draws", type=int, default=20_000, help="how many rows are made (default: %(default)s)")
    parser.add_argument("--outside", nargs=3, metavar=("MODULE", "SPEC", "OUTPUT"), help="an operator from outside")
    options = parser.parse_args()
    if options.outside:
        module, spec, output = options.outside
        operator = importlib.import_module(module).OPERATOR
        register_operator(operator, spec=spec)
        write(Path(output), build(operator, options.draws))
    for name in options.operators:
        path = FOLDER / f"{name.lower()}.json"
        if path.exists() and covering_arrays.arrays(name).frozen is not None:
            parser.error(f"the rows of {name} are data of earlier releases")
        write(path, build(OPERATORS[name], options.draws))


if __name__ == "__main__":
    main()
