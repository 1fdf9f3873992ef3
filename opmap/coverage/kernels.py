"""The kernel classes that the names in DirectML's library show, and how many cases reach each."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files

import msgspec

from .. import operators
from ..cases.case import Case
from ..descriptors import OperatorDesc
from ..mapping import map_descriptor


class Unreachable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Kernel classes that no ONNX model reaches, by the index type, with tuples only or all; and why."""

    index: str
    why: str
    tuples: bool = False


class Kernels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The kernel classes that the names in DirectML's library show (`operators/*.kernels.toml`)."""

    prefix: str
    operators: tuple[str, ...]
    dimensions: tuple[int, ...]
    tuples: str
    exclusive: str
    data: dict[int, tuple[str, ...]]
    indices: dict[str, str]
    unreachable: tuple[Unreachable, ...]

    def kinds(self) -> dict[tuple[int, bool, str, int], tuple[str, ...]]:
        """Bytes of an element, whether there are tuples, index type, highest dimension count -> classes, of which a device
        has one."""
        every = itertools.product(self.data, (False, True), self.indices, self.dimensions)
        return {
            (size, tuples, index, dimensions): tuple(
                f"{self.prefix}{data}{self.tuples if tuples else ''}_{self.indices[index]}_{dimensions}"
                for data in self.data[size]
            )
            for size, tuples, index, dimensions in every
        }

    def kind(self, desc: OperatorDesc) -> tuple[int, bool, str, int]:
        """The kind of a descriptor, as DirectML is given it."""
        ((name, bounds),) = desc.index_bounds.items()
        first = next(iter(desc.inputs.values()))
        limit = next(n for n in self.dimensions if first.dimension_count <= n)
        return first.data_type.size, len(bounds) > 1, desc.tensors[name].data_type.name, limit

    def why_not(self, kind: tuple[int, bool, str, int]) -> str | None:
        """Why a kind cannot be reached."""
        _, tuples, index, _ = kind
        return next((u.why for u in self.unreachable if u.index == index and u.tuples <= tuples), None)


def kernel_files() -> list[Kernels]:
    """The kernel classes of every library that is described."""
    found = sorted(p for p in files(operators).iterdir() if p.name.endswith(".kernels.toml"))
    return [msgspec.toml.decode(p.read_bytes(), type=Kernels, strict=False) for p in found]


def kernels_reached(kernels: Kernels, cases: Iterable[Case]) -> Counter:
    """How many cases reach each kind of kernel class on the DirectML EP, by what the mapping says that it emits."""
    mapped = (
        map_descriptor(c.desc, index_conversion="directml") for c in cases if c.desc.operator in kernels.operators
    )
    return Counter(kernels.kind(m.lowered_as) for m in mapped)
