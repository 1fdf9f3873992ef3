"""A case: a descriptor with the values of its inputs, and a name that is derived from its content."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..descriptors import OperatorDesc
from ..dxdispatch import desc_json
from ..mapping import IndexPath
from ..tensors import DataType, Tensor

CASE_IDS = 1
"""Version of how cases are named. One more when ids change, with a migration in known_failures.MIGRATIONS."""
SHORT_PATHS = {"initializer": "init", "node": "node"}
"""Index path -> its word in a case id."""


@dataclass(frozen=True)
class Case:
    """One descriptor with the values of its inputs, packed and by DirectML's field names.

    `index_path` says how the indices come to the operator: as a graph input, an initializer, or out of a node before.
    """

    id: str
    desc: OperatorDesc
    tensors: Mapping[str, Tensor]
    file: str | None = None
    index_path: IndexPath = "input"

    @property
    def expected(self) -> Sequence[int | None]:
        """The output's bit patterns by the page's pseudocode, computed anew; None where it defines no value."""
        return self.desc.interpret(self.tensors)


def case_id(desc: OperatorDesc, pattern: str, data: str, index_path: IndexPath = "input") -> str:
    """`operator/float32/d4.axis1.k2/int64.neg/addr.3f2a`: readable, and unique by a digest of the descriptor.

    `pattern` and `data` name how indices and data are filled; their content follows from the id. An index path other than
    a graph input is named behind the pattern.
    """
    numbers = "".join(f".{short}{desc.numbers[name]}" for name, short in desc.short_names.items())
    first, *_ = desc.inputs.values()
    if index_path != "input":
        pattern = f"{pattern}.{SHORT_PATHS[index_path]}"
    indices = "".join(f"{desc.tensors[name].data_type.name.lower()}." for name in desc.index_tensors())
    stem = f"{desc.operator.lower()}/{first.data_type.name.lower()}/d{first.dimension_count}{numbers}/{indices}{pattern}/{data}"
    content = json.dumps([desc_json(desc), pattern, data], sort_keys=True)
    return f"{stem}.{hashlib.sha256(content.encode()).hexdigest()[:6]}"


def retyped(desc: OperatorDesc, data_type: DataType, index_type: DataType) -> OperatorDesc:
    """The same descriptor with other data types."""
    indices = desc.index_tensors()
    changed = {
        here: dataclasses.replace(getattr(desc, here), data_type=index_type if name in indices else data_type)
        for name, here in desc.members().items()
        if name in desc.tensors
    }
    return desc.replace(**changed)
