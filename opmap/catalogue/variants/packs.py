"""A pack: the models of several cases as one model, which one session runs once. Its nodes have no values in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
import onnx

from ...engines.protocol import Placement
from ...engines.steps import Evidence, Result
from .formed import Formed
from .registry import Variant
from .run_modes import PLAIN, SERIALIZED

PACKED = "packed"
"""The variant in the record of a case that ran in a pack. It follows the name of the case's own variant: `init.packed`."""


def can_share(variant: Variant) -> bool:
    """Returns whether cases of a variant that have the same model can share a session.

    The session is opened and run once per case, and nothing that it shows of itself depends on how often it ran.
    """
    return can_be_packed(variant) or variant.run_mode.name == SERIALIZED


def can_be_packed(variant: Variant) -> bool:
    """Returns whether cases of a variant can be packed: those of the catalogue itself, whose session is the usual one."""
    return variant.base is None and variant.run_mode.name == PLAIN


def packed_name(variant: str) -> str:
    """Returns the name of a variant in the record of a case that ran in a pack: `packed`, `init.packed`, `node.packed`."""
    return PACKED if variant == PLAIN else f"{variant}.{PACKED}"


class Pack:
    """The models of several cases as one. `model` is the ONNX model.

    Every name of the n-th member's model begins with `case<n>.` here. All members need the same opset and IR version, and no
    subgraphs, functions or files; variants that `can_be_packed` have models of this kind.
    """

    def __init__(self, members: Sequence[Formed]) -> None:
        self.members = members
        self._numbers = {_prefix(number): number for number in range(len(members))}
        self.model = onnx.ModelProto()
        self.model.CopyFrom(members[0].model)
        self.model.graph.Clear()
        self.model.graph.name = PACKED
        for number, member in enumerate(members):
            _add(self.model.graph, member.model.graph, _prefix(number))

    @property
    def model_bytes(self) -> bytes:
        """The serialized model, with the same bytes on every platform."""
        serialized: bytes = self.model.SerializeToString(deterministic=True)
        return serialized

    def feeds(self, feeds: Iterable[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Returns the arrays to feed to the pack, from those of each member by its own names."""
        return {_prefix(number) + name: array for number, arrays in enumerate(feeds) for name, array in arrays.items()}

    def results(self, result: Result) -> list[Result]:
        """Returns what the run gave to each member, by its own names. Malformed outputs are malformed for all."""
        outputs_of_members: list[dict[str, np.ndarray]] = [{} for _ in self.members]
        for name, array in result.outputs.items():
            number, short = self._place(name)
            if number is not None:
                outputs_of_members[number][short] = array
        return [msgspec.structs.replace(result, outputs=outputs) for outputs in outputs_of_members]

    def evidence(self, evidence: Evidence) -> list[Evidence]:
        """Returns what the session shows of each member, by its own names.

        A node whose name belongs to no member is evidence about all members. If nodes have no names, all nodes are.
        """
        placements = self._placements(evidence.placement)
        lists = {field: self._own_names(getattr(evidence, field)) for field in ("inputs", "outputs", "overridable")}
        return [
            msgspec.structs.replace(
                evidence, placement=placement, **{field: names[n] for field, names in lists.items()}
            )
            for n, placement in enumerate(placements)
        ]

    def _placements(self, placement: Placement | None) -> list[Placement | None]:
        if placement is None or not placement.names:
            return [placement] * len(self.members)
        nodes: list[list[tuple[tuple[str, str], str]]] = [[] for _ in self.members]
        for node, name in zip(placement.nodes, placement.names, strict=True):
            number, short = self._place(name)
            for member_nodes in nodes if number is None else [nodes[number]]:
                member_nodes.append((node, short))
        return [
            Placement(
                placement.source, tuple(node for node, _ in member_nodes), tuple(name for _, name in member_nodes)
            )
            for member_nodes in nodes
        ]

    def _own_names(self, names: Sequence[str]) -> list[list[str]]:
        names_of_members: list[list[str]] = [[] for _ in self.members]
        for name in names:
            number, short = self._place(name)
            if number is not None:
                names_of_members[number].append(short)
        return names_of_members

    def _place(self, name: str) -> tuple[int | None, str]:
        """Returns the number of the member that a name in the pack belongs to (None: of no member), and its own name."""
        prefix, dot, own_name = name.partition(".")
        number = self._numbers.get(prefix + dot)
        return number, name if number is None else own_name


def _prefix(number: int) -> str:
    return f"case{number}."


def _add(graph: onnx.GraphProto, member: onnx.GraphProto, prefix: str) -> None:
    """Adds the nodes, inputs, outputs and initializers of a member to the graph of the pack, with the prefix."""
    for field in ("node", "input", "output", "initializer", "value_info"):
        for source in getattr(member, field):
            added = getattr(graph, field).add()
            added.CopyFrom(source)
            added.name = prefix + source.name
            if field == "node":
                added.input[:] = [name and prefix + name for name in source.input]
                added.output[:] = [name and prefix + name for name in source.output]
