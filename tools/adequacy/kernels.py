"""Counts the cases that reach each kernel class. The classes are the kernel names in DirectML's library.

The meaning of a name is inferred. DirectML does not report which kernel ran.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from importlib.resources import files

import msgspec

from opmap import operators
from opmap.cases.case import Case
from opmap.descriptors import OperatorDesc
from opmap.mapping import map_descriptor

Kind = tuple[int, bool, str, int]
"""(element size in bytes, whether indices are tuples, index data type, highest dimension count)."""


class Unreachable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Kernel classes that no ONNX model reaches, and why: the classes with the index type `index`.

    If `tuples` is true, only the classes for index tuples are meant.
    """

    index: str
    why: str
    tuples: bool = False


class Kernels(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):  # eq=False: a cache has it as a key
    """The kernel classes of some operators, from the names in DirectML's library (`operators/*.kernels.toml`)."""

    prefix: str
    operators: tuple[str, ...]
    dimensions: tuple[int, ...]
    tuples: str
    exclusive: str
    data: dict[int, tuple[str, ...]]
    indices: dict[str, str]
    unreachable: tuple[Unreachable, ...]

    def kinds(self) -> dict[Kind, tuple[str, ...]]:
        """Returns every kind with the names of its kernel classes. A device uses one class of each kind."""
        kinds = itertools.product(self.data, (False, True), self.indices, self.dimensions)
        return {
            (size, tuples, index, dimensions): tuple(
                f"{self.prefix}{data}{self.tuples if tuples else ''}_{self.indices[index]}_{dimensions}"
                for data in self.data[size]
            )
            for size, tuples, index, dimensions in kinds
        }

    def kind(self, desc: OperatorDesc) -> Kind:
        """Returns the kind of a descriptor that the DirectML EP made."""
        first = desc.first_data
        index = desc.tensors[desc.index_tensors()[0]]
        limit = next(n for n in self.dimensions if first.dimension_count <= n)
        tuples = any(size > 1 for size in desc.expansion().tuples.values())
        return first.data_type.size, tuples, index.data_type.name, limit

    def why_not(self, kind: Kind) -> str | None:
        """Returns the reason why no ONNX model reaches a kind; None if a model reaches it."""
        _, tuples, index, _ = kind
        return next((u.why for u in self.unreachable if u.index == index and u.tuples <= tuples), None)


def kernel_files() -> list[Kernels]:
    """Returns the kernel classes of every file `operators/*.kernels.toml`."""
    paths = (p for p in files(operators).iterdir() if p.name.endswith(".kernels.toml"))
    return [
        msgspec.toml.decode(path.read_bytes(), type=Kernels, strict=False)
        for path in sorted(paths, key=lambda path: path.name)
    ]


def kernel_reached(kernels: Kernels, case: Case) -> Kind | None:
    """Returns the kind that a case reaches on the DirectML EP, by the descriptor that the mapping predicts.

    None if the operator of the case has other kernel classes.
    """
    return _kind_reached(kernels, case.desc) if case.desc.operator in kernels.operators else None


@lru_cache(maxsize=4096)
def _kind_reached(kernels: Kernels, desc: OperatorDesc) -> Kind:
    """Returns the kind that a descriptor reaches. Many cases share a descriptor."""
    return kernels.kind(map_descriptor(desc, index_conversion="directml").lowered_as)
