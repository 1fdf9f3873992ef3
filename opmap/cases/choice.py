"""The choice: what the tiers hold of each operator, as data. `tools/choose_cases` chooses it and writes it to
`choices/`.

The ids stand in the files, so that nothing is built to list them. A test holds the files against the spec.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ..descriptors import OperatorDesc, TensorDesc
from ..errors import InputError, in_file
from ..files import read_text
from ..limits import MAX_BRACKETS
from ..operators import Operator
from ..tensors import DataType

if TYPE_CHECKING:  # to list ids, no case is needed
    from .case import Case

PARTS: Mapping[str, tuple[str, ...]] = {
    "smoke": ("examples", "classes", "nans", "stale state", "variants of smoke"),
    "standard": ("pairs", "wide", "random", "variants of standard", "chosen"),
    "full": ("triples", "variants of full", "large", "small scope", "chosen of full"),
}
"""Tier -> the parts that it adds to the tier before it, in the order of the catalogue.

- `examples`: the documented examples that have values. `random`: cases of random descriptors.
- `classes`: the first rows of the covering array, which hold every class of every parameter. `pairs`: the whole array,
  each row with several values. `triples`: the rows that with these hold every possible triple. `wide` and `large`: the
  size classes of these names.
- `nans`: NaNs with a payload in each float type. `stale state`: pairs of cases that expose state kept between runs.
- `chosen` and `chosen of full`: random cases that catch most faults under a condition.
- `small scope`: every valid descriptor of few dimensions and small sizes. It is enumerated, and no data.
"""

VARIANTS_OF, SMALL_SCOPE = "variants of ", "small scope"

ROWS = ("classes", "pairs", "triples")
"""The parts that come from the covering arrays."""


Number = Annotated[int, msgspec.Meta(ge=0)]


class TensorRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A tensor desc as data."""

    data_type: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    @classmethod
    def of(cls, tensor: TensorDesc) -> TensorRow:
        """Returns a tensor desc as data."""
        return cls(tensor.data_type.name, tensor.sizes, tensor.strides)


@lru_cache(maxsize=4096)
def _tensor(row: TensorRow) -> TensorDesc:
    """Returns the tensor desc. Many descriptors share one."""
    return TensorDesc(DataType[row.data_type], row.sizes, row.strides)


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The chosen cases of one operator.

    - `descriptors`: each descriptor once, as its members in the struct's order.
    - `parts`: part -> its cases, each as the number of its descriptor and its id without the operator. No id is there
      twice.
    - `variants`: part -> variant -> the numbers of the cases in it, counted through `parts`.
    - `model`: the number of the descriptor of the operator's models in models/; None if there are none.
    - `impossible_pairs`: the pairs of classes that no row has. `possible_triples` counts the triples that a row has.
    """

    descriptors: tuple[msgspec.Raw, ...] = ()
    parts: dict[str, list[tuple[Number, str]]] = {}
    variants: dict[str, dict[str, list[Number]]] = {}
    model: Number | None = None
    impossible_pairs: tuple[str, ...] = ()
    possible_triples: int = 0

    @classmethod
    def of(cls, parts: Mapping[str, Iterable[Case]], model: OperatorDesc | None = None, **more: Any) -> Choice:
        """Returns the choice of these cases. Of cases with one id the first one stays. `more` are further fields."""
        numbers: dict[OperatorDesc, int] = {}
        rows: dict[str, list[tuple[Number, str]]] = {}
        seen: set[str] = set()
        for part, cases in parts.items():
            rows[part] = []
            for case in cases:
                if case.id not in seen:
                    seen.add(case.id)
                    rows[part].append((numbers.setdefault(case.desc, len(numbers)), case.id.partition("/")[2]))
        own_model = None if model is None else numbers.setdefault(model, len(numbers))
        return cls(descriptors=tuple(map(_raw, numbers)), parts=rows, model=own_model, **more)

    @cached_property
    def cases(self) -> list[tuple[int, str]]:
        """The cases of all parts, as they stand in the parts."""
        return [*chain.from_iterable(self.parts.values())]

    def listed(self, part: str) -> Iterator[tuple[int, str | None]]:
        """Gives the cases of a part: the number of each, and the variant that it is brought into."""
        if part in self.parts:
            names = [*self.parts]
            first = sum(len(self.parts[name]) for name in names[: names.index(part)])
            yield from ((number, None) for number in range(first, first + len(self.parts[part])))
        for variant, numbers in self.variants.get(part, {}).items():
            yield from ((number, variant) for number in numbers)

    def descriptor(self, operator: Operator, number: int) -> OperatorDesc:
        """Returns a descriptor."""
        cls = operator.descriptor
        kinds = tuple((field.is_tensor, field.is_array, field.optional) for field in cls.spec().fields)
        members = _decoder(kinds).decode(self.descriptors[number])
        attributes = zip(cls.members().values(), members, strict=True)
        return cls(**{attribute: _member(member) for attribute, member in attributes})


def _raw(desc: OperatorDesc) -> msgspec.Raw:
    members = (getattr(desc, attribute) for attribute in desc.members().values())
    return msgspec.Raw(msgspec.json.encode([_row(member) for member in members]))


def _row(member: Any) -> Any:
    if isinstance(member, TensorDesc):
        row = TensorRow.of(member)
        return row if row.strides else [row.data_type, row.sizes]
    return [*map(_row, member)] if isinstance(member, tuple) else member


def _member(row: Any) -> Any:
    if isinstance(row, TensorRow):
        return _tensor(row)
    return tuple(map(_member, row)) if isinstance(row, tuple) else row


@cache
def _decoder(kinds: tuple[tuple[bool, bool, bool], ...]) -> msgspec.json.Decoder[Any]:
    """Returns the decoder for the members of a descriptor.

    `kinds` has for each member: is it a tensor, an array, optional?
    """
    types: list[Any] = []
    for is_tensor, is_array, optional in kinds:
        one: Any = TensorRow if is_tensor else int
        types.append(tuple[one, ...] if is_array else one | None if optional else one)
    return msgspec.json.Decoder(tuple[tuple(types)])  # type: ignore[misc]


def choice_of(operator: str) -> Choice:
    """Returns the choice of an operator. Raises KeyError if no operator has this name."""
    return _ADDED[operator] if operator in _ADDED else _shipped(operator)


@cache
def _shipped(operator: str) -> Choice:
    file = files(__package__).joinpath("choices", f"{operator.lower()}.json.gz")
    if not file.is_file():
        raise KeyError(operator)
    return msgspec.json.decode(gzip.decompress(file.read_bytes()), type=Choice)


_ADDED: dict[str, Choice] = {}


def add_choice(operator: str, choice: Choice) -> None:
    """Adds the choice of an operator that was registered."""
    _ADDED[operator] = choice


def remove_choice(operator: str) -> None:
    """Removes the choice of a registered operator."""
    _ADDED.pop(operator, None)


def read_choice(path: str | os.PathLike[str]) -> Choice:
    """Returns the choice that a JSON file holds. Raises InputError if the file holds none."""
    with in_file(str(path)):
        text = read_text(path)
        brackets = text.count("[") + text.count("{")
        if brackets > MAX_BRACKETS:
            raise InputError(f"must have at most {MAX_BRACKETS} arrays and objects, got {brackets}")
        try:
            return msgspec.json.decode(text, type=Choice)
        except msgspec.DecodeError as error:
            raise InputError(str(error)) from None
