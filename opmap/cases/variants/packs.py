"""A pack: the models of several cases as one model, which one session runs once. Its nodes have no values in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
import onnx
import onnx.compose

from ...engines.protocol import Placement
from ...engines.steps import Evidence, Open, Result, Run
from .formed import Formed
from .registry import Variant
from .run_modes import PLAIN, SERIALIZED, SESSION, VariantStep
from .variant_run import VariantRun

PACKED = "packed"
"""The variant in the record of a case that ran in a pack. It follows the name of the case's own variant:
`init.packed`."""


def can_share(variant: Variant) -> bool:
    """Returns whether cases of a variant that have the same model can share a session.

    The session is opened and run once per case, and nothing that it shows of itself depends on how often it ran.
    """
    return can_be_packed(variant) or variant.run_mode.name == SERIALIZED


def can_be_packed(variant: Variant) -> bool:
    """Returns whether cases of a variant can be packed: those of the catalogue itself, whose session is the usual
    one.
    """
    return variant.base is None and variant.run_mode.name == PLAIN


def packed_name(variant: str) -> str:
    """Returns the name of a variant in the record of a case that ran in a pack: `packed`, `init.packed`,
    `node.packed`.
    """
    return PACKED if variant == PLAIN else f"{variant}.{PACKED}"


class Pack:
    """The models of several cases as one. `model` is the ONNX model.

    Every name of the n-th member's model begins with `case<n>.` here. All members need the same opset and IR version,
    and no subgraphs, functions or files; variants that `can_be_packed` have models of this kind.
    """

    def __init__(self, members: Sequence[Formed]) -> None:
        self._prefixes = tuple(f"case{number}." for number in range(len(members)))
        self.model = onnx.ModelProto()
        self.model.CopyFrom(members[0].model)
        self.model.graph.Clear()
        self.model.graph.name = PACKED
        for member, prefix in zip(members, self._prefixes, strict=True):
            graph = onnx.compose.add_prefix_graph(member.model.graph, prefix)
            for field in ("node", "input", "output", "initializer", "value_info"):
                getattr(self.model.graph, field).extend(getattr(graph, field))

    @property
    def model_bytes(self) -> bytes:
        """The serialized model, with the same bytes on every platform."""
        serialized: bytes = self.model.SerializeToString(deterministic=True)
        return serialized

    def go(self, runs: Sequence[VariantRun]) -> Result:
        """Runs the pack in the main session, and checks the outputs of each member.

        Raises ProviderError if it fails.
        """
        first = runs[0]
        first.perform(VariantStep(Open(session=SESSION, model=np.frombuffer(self.model_bytes, np.uint8))))
        feeds = self.feeds(run.formed.feeds(run.first) for run in runs)
        result = first.perform(VariantStep(Run(session=SESSION, feeds=feeds)))
        for run, own in zip(runs, self.results(result), strict=True):
            run.check(run.first, own)
        return result

    def feeds(self, feeds: Iterable[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Returns the arrays to feed to the pack, from those of each member by its own names."""
        pairs = zip(self._prefixes, feeds, strict=True)
        return {prefix + name: array for prefix, arrays in pairs for name, array in arrays.items()}

    def results(self, result: Result) -> list[Result]:
        """Returns what the run gave to each member, by its own names. Malformed outputs are malformed for all."""
        outputs = result.outputs
        return [
            msgspec.structs.replace(result, outputs={own: outputs[prefix + own] for own in _own(outputs, prefix)})
            for prefix in self._prefixes
        ]

    def evidence(self, evidence: Evidence) -> list[Evidence]:
        """Returns what the session shows of each member, by its own names.

        A node whose name belongs to no member is evidence about all members. If nodes have no names, all nodes are.
        """
        return [
            msgspec.structs.replace(
                evidence,
                placement=self._placement(evidence.placement, prefix),
                inputs=_own(evidence.inputs, prefix),
                overridable=_own(evidence.overridable, prefix),
            )
            for prefix in self._prefixes
        ]

    def _placement(self, placement: Placement | None, prefix: str) -> Placement | None:
        if placement is None or not placement.names:
            return placement
        named = zip(placement.nodes, placement.names, strict=True)
        own = [(n, name) for n, name in named if name.startswith(prefix) or not name.startswith(self._prefixes)]
        nodes, names = tuple(node for node, _ in own), tuple(name.removeprefix(prefix) for _, name in own)
        return Placement(placement.source, nodes, names)


def _own(names: Iterable[str], prefix: str) -> list[str]:
    """Returns the names that begin with a prefix, without it."""
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
