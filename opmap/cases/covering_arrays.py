"""Covering arrays of the operators' parameter spaces. `tools/choose_rows.py` writes them to `covering/`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated

import msgspec

from ..descriptors import OperatorDesc, complete_sizes
from ..errors import InputError
from ..files import read_text
from ..limits import MAX_BRACKETS
from ..operators import Operator
from ..tensors import DataType
from .random_cases import Row, focused

Combination = tuple[tuple[str, str], ...]
"""Classes of several parameters: (parameter, class) of each."""

Sizes = tuple[tuple[int, ...], ...]
"""The sizes of the tensors whose sizes no formula gives, then the numbers, in the order of the fields."""

Seed = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class Frozen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rows of an operator whose descriptors are kept as data, so that they stay those of earlier releases.

    A row of `pairs` or `triples` has one class number per parameter, in their order. `descriptors` has the descriptor of each
    row. A row of `wide` or `large` has one class per parameter, and the descriptor. `model` is the descriptor of the models in
    models/.
    """

    model: Sizes
    parameters: dict[str, tuple[str, ...]]
    pairs: tuple[tuple[int, ...], ...]
    triples: tuple[tuple[int, ...], ...]
    descriptors: tuple[Sizes, ...]
    wide: tuple[tuple[tuple[str, ...], Sizes], ...]
    large: tuple[tuple[tuple[str, ...], Sizes], ...]


class Arrays(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The covering arrays of one operator: rows with one class per parameter, each with a descriptor that has them.

    The rows of `pairs` hold every possible pair of classes. The rows of `pairs` and `triples` together hold every possible
    triple. `wide` and `large` hold the wide and large classes. A row is the seed of `random_cases.focused`, unless the
    rows are `frozen`. The first `smoke` rows of `pairs` hold every class; the tier `smoke` has them. `impossible_pairs` lists the
    pairs that no descriptor was found for. `possible_triples` counts the triples that were found, `draws` the seeds that were tried.
    """

    impossible_pairs: tuple[str, ...]
    possible_triples: int
    draws: int = 0
    smoke: int = 68
    pairs: tuple[Seed, ...] = ()
    triples: tuple[Seed, ...] = ()
    wide: tuple[Seed, ...] = ()
    large: tuple[Seed, ...] = ()
    frozen: Frozen | None = None

    def rows(self, operator: Operator, part: str) -> Iterator[Row]:
        """Gives the rows of a part (`pairs`, `triples`, `wide` or `large`)."""
        if self.frozen is not None:
            return _frozen_rows(operator, self.frozen, part)
        return (focused(operator, seed, part) for seed in getattr(self, part))


def model_descriptor(operator: Operator) -> OperatorDesc:
    """Returns the descriptor of the operator's models in models/: three dimensions and more than 8 elements, if it can be.

    All values of an operator without inputs are documented.
    """
    frozen = arrays(operator.name).frozen if has_arrays(operator.name) else None
    if frozen is not None:
        return _desc(operator, frozen.model, DataType.FLOAT32, DataType.INT64)
    expressed = (desc for desc in operator.samples() if operator.expressed(desc))
    samples = [desc for desc in expressed if desc.inputs or None not in desc.interpret({})]
    large = [d for d in samples if d.output.dimension_count == 3 and d.output.element_count > 8]
    return (large or samples)[0]


def _frozen_rows(operator: Operator, frozen: Frozen, part: str) -> Iterator[Row]:
    names = tuple(frozen.parameters)
    if part in ("wide", "large"):
        for words, sizes in getattr(frozen, part):
            yield _row(operator, dict(zip(names, words, strict=True)), sizes)
        return
    first = 0 if part == "pairs" else len(frozen.pairs)
    for numbers, sizes in zip(getattr(frozen, part), frozen.descriptors[first:], strict=False):
        choice = {n: frozen.parameters[n][i] for n, i in zip(names, numbers, strict=True)}
        yield _row(operator, choice, sizes)


def _row(operator: Operator, choice: dict[str, str], sizes: Sizes) -> Row:
    types = DataType[choice["data_type"]], DataType[choice["index_type"]]
    return Row(choice, lambda: _desc(operator, sizes, *types))


def _desc(operator: Operator, sizes: Sizes, data_type: DataType, index_type: DataType) -> OperatorDesc:
    spec = operator.descriptor.spec()
    *tensors, numbers = sizes
    named = dict(zip(spec.free_tensors, tensors, strict=True)), dict(zip(spec.short_names, numbers, strict=True))
    return complete_sizes(operator.descriptor, *named, data_type=data_type, index_type=index_type)


def arrays(operator: str) -> Arrays:
    """Returns the covering arrays of an operator. Raises KeyError for a registered operator without arrays."""
    if operator in _ADDED:
        return _ADDED[operator]
    return _shipped(operator)


def has_arrays(operator: str) -> bool:
    """Returns whether there are covering arrays of an operator."""
    return operator in _ADDED or _file(operator).is_file()


def read_arrays(path: str | os.PathLike[str]) -> Arrays:
    """Returns the covering arrays that a JSON file holds. Raises InputError if the file holds none."""
    try:
        return parse_arrays(read_text(path))
    except InputError as error:
        error.file = str(path)
        raise


def parse_arrays(text: str) -> Arrays:
    """Returns the covering arrays that a JSON text holds. Raises InputError if it holds none."""
    rows = text.count("[")
    if rows > MAX_BRACKETS:
        raise InputError(f"must have at most {MAX_BRACKETS} arrays, got {rows}")
    try:
        arrays = msgspec.json.decode(text, type=Arrays)
    except msgspec.DecodeError as error:
        raise InputError(str(error)) from None
    if arrays.frozen is not None:
        raise InputError("must be left out: only rows of the package are data", path="$.frozen")
    return arrays


def add_arrays(operator: str, added: Arrays) -> None:
    """Adds the covering arrays of an operator that was registered."""
    _ADDED[operator] = added


def remove_arrays(operator: str) -> None:
    """Removes the covering arrays of a registered operator, if it has any."""
    _ADDED.pop(operator, None)


def combinations(classes: Mapping[str, str], size: int) -> Iterator[Combination]:
    """Gives the combinations of `size` parameters, each with its class."""
    return itertools.combinations(classes.items(), size)


_ADDED: dict[str, Arrays] = {}


@cache
def _shipped(operator: str) -> Arrays:
    if not _file(operator).is_file():
        raise KeyError(f"{operator} has no covering arrays")
    return msgspec.json.decode(_file(operator).read_bytes(), type=Arrays)


def _file(operator: str):  # type: ignore[no-untyped-def]  # importlib's Traversable moved between Python versions
    return files(__package__).joinpath("covering", f"{operator.lower()}.json")
