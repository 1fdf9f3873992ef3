"""Indices that write: two writes to one element have no documented result, so the indices of one place must differ."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..descriptors import OperatorDesc
from ..pseudocode import strides_of

Numbers = npt.NDArray[np.int64]


def rows_of(desc: OperatorDesc, field: str) -> Numbers | None:
    """Returns the numbers of a field's indices, in one row per place; None if the indices only choose what is read.

    Two indices of one row that name the same element write it twice. An index tuple counts as one index.
    """
    results: dict[Any, Any] = desc.results
    key = "rows", field
    if key not in results:
        results[key] = _rows(desc, field)
    rows: Numbers | None = results[key]
    return rows


def _rows(desc: OperatorDesc, field: str) -> Numbers | None:
    names = desc.own_spec.pseudocode.tensors
    for move in desc.access.moves:
        for read in move.target.reads:
            if names[read.tensor] != field:
                continue
            steps = {loop: step // read.tuple_size for loop, step in read.steps}
            shared = move.target.shared_loops
            numbers = np.zeros(1, np.int64)
            for loop in sorted(steps, key=lambda loop: (loop not in shared, loop)):  # those of the places come first
                along = np.arange(move.target.loops[loop], dtype=np.int64) * steps[loop]
                numbers = (numbers[:, np.newaxis] + along).ravel()
            return numbers.reshape(prod(move.target.loops[loop] for loop in shared & steps.keys()), -1)
    return None


def group_of(desc: OperatorDesc, field: str) -> int:
    """Returns how many indices of a field have one place: 1 if they may all be equal."""
    rows = rows_of(desc, field)
    return 1 if rows is None else rows.shape[1]


def must_write_twice(desc: OperatorDesc) -> bool:
    """Returns whether some place has more indices that write than elements, so that no values are documented as a
    whole.
    """
    return any(group_of(desc, field) > prod(bounds) for field, bounds in desc.index_bounds.items())


def written(values: npt.ArrayLike, rows: Numbers, bounds: tuple[int, ...], pattern: str = "") -> Numbers:
    """Returns the values of indices that write, flat, tuple by tuple: those that are given, row by row, made to differ.

    Values that are too few begin anew. A changed index stays negative or not. The indices of a row stay as they are if
    they are more than the elements, and with the pattern `dups`; with `asc` they ascend. `bounds` has the size n that
    each tuple coordinate points into.
    """
    limits, strides = np.array(bounds, np.int64), np.array(strides_of(bounds), np.int64)
    tuples = np.resize(np.asarray(values, np.int64), (rows.size, len(bounds)))
    addresses = (tuples % limits @ strides).reshape(rows.shape)
    if pattern != "dups" and rows.shape[1] <= prod(bounds):
        in_order = np.sort(addresses, axis=1)
        for row in np.flatnonzero((np.diff(in_order, axis=1) == 0).any(axis=1)):
            _make_differ(addresses[row], prod(bounds))
    if pattern == "asc":
        addresses.sort(axis=1)
    columns = addresses.reshape(-1, 1) // strides % limits
    flat = np.empty_like(tuples)
    flat[rows.ravel()] = np.where(tuples < 0, columns - limits, columns)
    return flat.ravel()


def _make_differ(addresses: Numbers, total: int) -> None:
    """Puts addresses that are not there in place of those that are there again; `total` is the number of elements."""
    before = addresses.tolist()
    there, seen = {*before}, set[int]()
    free = (address for address in range(min(total, 2 * len(before))) if address not in there)
    for i, address in enumerate(before):
        if address in seen:
            addresses[i] = next(free)
        seen.add(address)
