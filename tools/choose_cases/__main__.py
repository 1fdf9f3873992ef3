"""Chooses the cases of operators, and writes opmap/cases/choices/OPERATOR.json.gz.

    pip install -e .[test]
    python tools/choose_cases OPERATOR ... [--draws N] [--pool N] [--chosen N N] [--again]
    python tools/choose_cases --outside MODULE SPEC OUTPUT

`--pool` is how many random cases are made of an operator; `--chosen` how many of them `standard` and `full` get, at
most. The last form is for an operator from outside the package: MODULE.OPERATOR, its spec file, the JSON file to write.
It gets none of these.

Operators that are named in one call are a family: they share the random cases and the variants.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from choose_cases import parts, rows, under_conditions  # found by the line above
from choose_cases.variants import in_variants
from opmap.cases import choice
from opmap.cases.case import Case
from opmap.cases.catalogue import Listed, example_cases, listed
from opmap.cases.choice import VARIANTS_OF, Choice
from opmap.cases.parameters import is_large
from opmap.cases.registration import register_operator
from opmap.cases.values import FAR
from opmap.cases.variants import VARIANTS, Variant
from opmap.descriptors import OperatorDesc
from opmap.files import write_file
from opmap.operators import OPERATORS, Operator
from opmap.vocabulary import Tier, tiers_in

FOLDER = Path(choice.__file__).parent / "choices"

NOT_IN_VARIANTS = ("nans", "chosen", "chosen of full")
"""The parts whose cases are in no variant, unless another part gives them too."""

VARIANTS_AFTER: dict[str, Tier] = {"stale state": "smoke", "random": "standard", "triples": "full"}
"""Part -> the tier whose variants choose from the cases of all parts so far."""


def choose(
    operator: Operator, draws: int, pool: int, counts: tuple[int, int], family: Sequence[Operator] = ()
) -> Choice:
    """Returns the choice for an operator.

    `counts` are how many random cases of the pool `standard` and `full` get, at most. `family` are the operators that
    have one number of random cases together; each variant gets cases of one of them, but some of each are serialized.
    """
    family = family or [operator]
    of = len(family)
    model = _model(operator) if operator.lower else None
    chosen = rows.choose(operator, draws)

    def made_of(seeds: Iterable[int], part: str = "pairs") -> list[rows.Row]:
        return [rows.covering_row(operator, seed, part) for seed in seeds]

    def cases(found: Iterable[rows.Row]) -> list[Case]:
        return [case for row in found for case in rows.cases_in(row.desc, row.choice)]

    first = made_of(chosen.smoke)
    made: dict[str, list[Case]] = {
        "examples": [*example_cases(operator)],
        "classes": cases(first),
        "nans": [*parts.nans(operator, first)],
        "stale state": [*parts.stale_state(operator)],
        "pairs": [*parts.pairs(made_of(chosen.pairs))],
        "wide": cases(made_of(chosen.wide, "wide")),
        "random": [*parts.random(operator, parts.RANDOM // of)],
        "chosen": [],
        "triples": cases(made_of(chosen.triples)),
        "large": [],
        "chosen of full": [],
    }
    _choose_random(operator, made, pool, counts)
    impossible = {"impossible_pairs": chosen.impossible_pairs, "possible_triples": chosen.possible_triples}
    found = Choice.of(made, model, **impossible)
    return msgspec.structs.replace(found, variants=_variants(made, found, operator, own_variants(operator, family)))


def choose_again(operator: Operator, pool: int, counts: tuple[int, int]) -> Choice:
    """Returns the choice of an operator with chosen cases from a new pool. Its other parts stay."""
    old, name = choice.choice_of(operator.name), operator.name.lower()
    cases = {case.id: case.build() for case in listed("full", globs=[f"{name}/*"], variants=False)}
    made = {part: [cases[f"{name}/{id}"] for _, id in rows] for part, rows in old.parts.items()}
    in_variants = {n for variants in old.variants.values() for numbers in variants.values() for n in numbers}
    made["triples"] += [cases[f"{name}/{old.cases[n][1]}"] for n, _ in old.listed("chosen") if n in in_variants]
    _choose_random(operator, made, pool, counts)
    model = None if old.model is None else old.descriptor(operator, old.model)
    impossible = {"impossible_pairs": old.impossible_pairs, "possible_triples": old.possible_triples}
    found = Choice.of(made, model, **impossible)
    numbers = {id: number for number, (_, id) in enumerate(found.cases)}
    variants = {
        part: {variant: [numbers[old.cases[n][1]] for n in of_variant] for variant, of_variant in variants.items()}
        for part, variants in old.variants.items()
    }
    return msgspec.structs.replace(found, variants=variants)


def _choose_random(operator: Operator, made: dict[str, list[Case]], pool: int, counts: tuple[int, int]) -> None:
    """Chooses the random cases of `standard` and `full`, and puts them into `made`."""
    globs = [f"{name.lower()}/*" for name in OPERATORS if name != operator.name and _has_choice(name)]
    for part, tier, count in zip(("chosen", "chosen of full"), ("standard", "full"), counts, strict=True):
        if count:
            made[part] = []
            own = {part: made.get(part, []) for t in tiers_in(tier) for part in choice.PARTS[t]}
            before = [*listed(tier, globs=globs, variants=False), *map(Listed.of, _all(own))]
            made[part] = under_conditions.choose(operator.name, before, count, pool)


def own_variants(operator: Operator, family: Sequence[Operator]) -> list[Variant]:
    """Returns the variants that an operator of a family gets cases of."""
    with_nodes = [other for other in family if other.lower]
    if len(with_nodes) < 2 or operator not in with_nodes:
        return [*VARIANTS.values()]
    turn, of = with_nodes.index(operator), len(with_nodes)
    variants = [replace(v, share="each") if v.share == "descriptors" else v for v in VARIANTS.values()]
    return [v for i, v in enumerate(variants) if i % of == turn or v.share == "each"]


def _has_choice(name: str) -> bool:
    """Returns whether the cases of an operator are chosen already; those of a new operator are not."""
    try:
        return choice.choice_of(name) is not None
    except KeyError:
        return False


def _all(made: dict[str, list[Case]]) -> list[Case]:
    return [case for cases in made.values() for case in cases]


def _variants(
    made: dict[str, list[Case]], found: Choice, operator: Operator, own_variants: Sequence[Variant]
) -> dict[str, dict[str, list[int]]]:
    """Returns the numbers of the cases that each of these variants gets, by part."""
    numbers = {f"{operator.name.lower()}/{id}": number for number, (_, id) in enumerate(found.cases)}
    pool: dict[str, Case] = {}
    variants: dict[str, dict[str, list[int]]] = {}
    for part, cases in made.items():
        for case in cases if part not in NOT_IN_VARIANTS else ():
            if case.index_pattern != FAR and not is_large(case.desc):
                pool.setdefault(case.id, case)
        if part in VARIANTS_AFTER:
            tier = VARIANTS_AFTER[part]
            own = variants[f"{VARIANTS_OF}{tier}"] = {}
            before = {(v, n) for of_part in variants.values() for v, ns in of_part.items() for n in ns}
            for variant, chosen in in_variants([*pool.values()], tier, own_variants).items():
                new = [numbers[case.id] for case in chosen if (variant, numbers[case.id]) not in before]
                if new:
                    own[variant] = new
    return variants


def _model(operator: Operator) -> OperatorDesc:
    """Returns the descriptor of the operator's models: three dimensions and more than 8 elements, if it can be.

    All values of an operator without inputs are documented.
    """
    expressed = (desc for desc in operator.samples() if operator.expressed(desc))
    samples = [desc for desc in expressed if desc.inputs or None not in desc.interpret({})]
    large = [d for d in samples if d.output.dimension_count == 3 and d.output.element_count > 8]
    return (large or samples)[0]


def main() -> None:
    """Chooses and writes the cases of the named operators, or of one operator from outside."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="SCATTER, ...")
    parser.add_argument("--draws", type=int, default=20_000, help="how many rows are made (default: %(default)s)")
    parser.add_argument("--pool", type=int, default=6_000, help="how many random cases are made (default: %(default)s)")
    parser.add_argument(
        "--chosen",
        type=int,
        nargs=2,
        default=(500, 0),
        metavar=("STANDARD", "FULL"),
        help="how many of these a tier gets, at most (default: 500 0)",
    )
    parser.add_argument("--again", action="store_true", help="choose only these again, and keep all other cases")
    parser.add_argument("--outside", nargs=3, metavar=("MODULE", "SPEC", "OUTPUT"), help="an operator from outside")
    options = parser.parse_args()
    if options.outside:
        module, spec, output = options.outside
        operator = importlib.import_module(module).OPERATOR
        register_operator(operator, spec=spec)
        found = choose(operator, options.draws, 0, (0, 0))
        write_file(Path(output), msgspec.json.encode(found) + b"\n")
    named = [OPERATORS[name] for name in options.operators]
    for operator in named:
        if options.again:
            found = choose_again(operator, options.pool, options.chosen)
        else:
            found = choose(operator, options.draws, options.pool, options.chosen, named)
        write_file(FOLDER / f"{operator.name.lower()}.json.gz", gzip.compress(msgspec.json.encode(found), mtime=0))


if __name__ == "__main__":
    main()
