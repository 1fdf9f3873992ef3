"""Whether the values of a case show its index pattern."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from opmap.cases.case import Case
from opmap.cases.parameters import classify
from opmap.cases.values import FAR, allows
from opmap.cases.written_once import Numbers, rows_of
from opmap.pseudocode import strides_of


def shown_classes(case: Case) -> dict[str, str | None]:
    """Returns {parameter: class} for a case, as `classify` does.

    An index pattern counts only if the indices' values show it.
    """
    classes, pattern, bounds = classify(case), case.index_pattern, case.desc.index_bounds
    if pattern and not all(
        shows(pattern, case.tensors[name].integers, bounds[name], rows_of(case.desc, name)) for name in bounds
    ):
        classes["index_pattern"] = None
    return classes


def shows(pattern: str, values: Sequence[int], bounds: tuple[int, ...], rows: Numbers | None = None) -> bool:
    """Returns whether index values (flat, tuple by tuple) show a pattern.

    `bounds` has the size n that each tuple coordinate points into. `rows` are the numbers of indices that write, as
    `rows_of` gives them.
    """
    size, total = len(bounds), prod(bounds)
    group = 1 if rows is None else rows.shape[1]
    if not allows(pattern, len(values) // size, total, group):
        return False
    tuples = np.asarray(values).astype(np.int64).reshape(-1, size)
    if pattern == FAR:
        return not all(-total <= value < total for value in values)
    if rows is not None:
        tuples = tuples[rows.ravel()]
    addresses = tuples % np.array(bounds, np.int64) @ np.array(strides_of(bounds), np.int64)
    lowest, highest = int(tuples.min()), int(tuples.max())
    match pattern:
        case "identity":
            return lowest >= 0 and bool((addresses == np.arange(len(addresses)) % total).all())
        case "reverse":
            return lowest >= 0 and bool((addresses == total - 1 - np.arange(len(addresses)) % total).all())
        case "random":
            steps = np.diff(addresses)
            return lowest >= 0 and bool(steps.min() < 0 < steps.max())
        case "one":
            repeated = bool((tuples[:, 0] == tuples[0, 0]).all() and (addresses == addresses[0]).all())
            return repeated and (total == 1 or bool(addresses[0] > 0))
        case "neg":
            return highest < 0
        case "mix":
            return lowest < 0 <= highest
        case "bounds":
            limits = [np.isin(tuples[:, i], (0, -n, n - 1)).all() for i, n in enumerate(bounds)]
            return all(limits) and bool((addresses == 0).any() and (addresses == total - 1).any())
        case "dups":
            in_pairs = bool((addresses[0:-1:2] == addresses[1::2]).all())
            return in_pairs and 1 < len(np.unique(addresses)) < len(addresses)
        case "asc":
            steps = np.diff(addresses.reshape(-1, group)) if group > 1 else np.diff(addresses)
            return lowest >= 0 and bool(steps.min() >= 0 and steps.max() > 0)
    return False
