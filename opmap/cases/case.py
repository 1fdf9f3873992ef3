"""A case: a descriptor with the values of its inputs, and an id that is derived from its content."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from ..descriptors import OperatorDesc
from ..mapping.dxdispatch import desc_json
from ..tensors import DataType, Tensor
from .variants import PLAIN, Inputs

CASE_IDS = 1
"""The version of the case ids. A change of ids raises it."""

INDEX_PATHS: Mapping[str, str] = {"input": PLAIN, "initializer": "init", "one": "init", "node": "node"}
"""Class of the parameter `index_path` -> the variant that brings the indices to the operator in this way.

`one` is an initializer of one element, which an EP may inline as a constant."""


@dataclass(frozen=True)
class Case:
    """One descriptor with the values of its inputs, packed and by DirectML's field names.

    `variant` names how it is brought to the provider. `index_pattern` and `data_pattern` name how the inputs are
    filled; None if no pattern was used. `file` is the DxDispatch file that the case was read from; None for a case of
    the catalogue. `layout` names the one of `layouts` that the case is in; None for the usual one.
    `offsets` are where tensors begin in their buffers, in bytes, by field (default 0): only DirectML itself is given
    them.
    """

    id: str
    desc: OperatorDesc
    tensors: Mapping[str, Tensor]
    file: str | None = None
    variant: str = PLAIN
    index_pattern: str | None = None
    data_pattern: str | None = None
    layout: str | None = None
    offsets: Mapping[str, int] = field(default_factory=lambda: _NO_OFFSETS)

    @property
    def inputs(self) -> Inputs:
        """The descriptor and its values."""
        return Inputs(self.desc, self.tensors)

    @property
    def expected(self) -> Sequence[int | None]:
        """The output's bit patterns by the page's pseudocode, row-major; None for undocumented elements.

        They are computed at each access.
        """
        return self.desc.interpret(self.tensors)

    def lighten(self) -> None:
        """Frees what was computed from the descriptor. It is computed again when it is needed."""
        state, attributes = self.desc.state, vars(self.desc)
        for name in attributes.keys() - state.keys():
            del attributes[name]


_NO_OFFSETS: Mapping[str, int] = {}


def case_id(desc: OperatorDesc, pattern: str, data: str, variant: str = PLAIN) -> str:
    """Returns `operator/float32/d4.axis1.k2/int64.neg/addr.3f2a`: readable, and unique by a digest of the descriptor.

    `pattern` and `data` name how indices and data are filled. `variant` is one of INDEX_PATHS; if it is not `plain`, it
    follows the pattern.
    """
    if variant != PLAIN:
        pattern = f"{pattern}.{variant}"
    indices = "".join(f"{desc.tensors[name].data_type.name.lower()}." for name in desc.index_tensors())
    first = desc.first_data
    shape = shape_word(first.dimension_count, desc.short_names(), desc.numbers)
    stem = f"{desc.operator.lower()}/{first.data_type.name.lower()}/{shape}/{indices}{pattern or '-'}/{data or '-'}"
    content = f"[{_encoded(desc)}, {_json(pattern)}, {_json(data)}]"
    return f"{stem}.{hashlib.sha256(content.encode()).hexdigest()[:6]}"


@lru_cache(maxsize=256)
def _encoded(desc: OperatorDesc) -> str:
    """Returns the descriptor as JSON. Cases of one descriptor with other values mostly follow each other."""
    return _json(desc_json(desc))


def _json(value: object) -> str:
    """Returns JSON in one line, with sorted keys and a space after each comma and colon."""
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=0).decode()


def shape_word(dimensions: int, short_names: Mapping[str, str], numbers: Mapping[str, Any]) -> str:
    """Returns the part of a case id that says the dimension count and the numbers: `d4.axis1.k2`.

    A number without a short name is left out.
    """
    return f"d{dimensions}" + "".join(f".{short}{numbers[name]}" for name, short in short_names.items() if short)


def id_parts(id: str) -> dict[str, str]:
    """Returns the parts of a generated case's id; empty for any other text."""
    words = id.split("/")
    if len(words) != 5:
        return {}
    *types, pattern = [word for word in words[3].split(".") if word not in INDEX_PATHS.values()]
    path = next((word for word in words[3].split(".") if word in INDEX_PATHS.values()), PLAIN)
    return {
        "operator": words[0],
        "data_type": words[1],
        "shape": words[2],
        "dimensions": words[2].split(".")[0].removeprefix("d"),
        "index_type": types[0] if types else "",
        "index_pattern": pattern,
        "index_path": path,
        "data": words[4].split(".")[0].rstrip("0123456789"),
        "round": words[4].split(".")[0],
    }


def retyped(desc: OperatorDesc, data_type: DataType, index_type: DataType) -> OperatorDesc:
    """Returns the same descriptor with other data types: one for all index tensors, one for all other tensors but
    those with types of their own (`Spec.type_of`).
    """
    indices: Collection[str] = desc.index_tensors()
    spec = desc.spec()
    members = {desc.members()[name]: number for name, number in spec.fitting(desc.numbers, data_type).items()}
    desc = desc.replace(**members) if members != desc.numbers else desc
    sizes = {name: tensor.sizes for name, tensor in desc.tensors.items()}
    return desc.with_tensors(
        {
            name: dataclasses.replace(
                tensor, data_type=index_type if name in indices else spec.type_of(name, sizes, data_type, desc.numbers)
            )
            for name, tensor in desc.tensors.items()
        }
    )
