"""The protocols that a provider follows, and the placement that proves on which execution provider a model ran."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..limits import MAX_MESSAGE


@dataclass(frozen=True)
class Placement:
    """The execution provider of each node of the last model, and the source of this knowledge.

    `nodes` holds pairs of operator type and execution provider. `names` are the nodes' names in the model, in the same
    order; empty if the source does not tell them. `source` is `assignment-info` or `profile` (ONNX Runtime's own
    records, which are proof), `dispatched` (see DISPATCHED) or `asserted` (the word of a provider that is not ONNX
    Runtime).
    """

    source: str
    nodes: tuple[tuple[str, str], ...]
    names: tuple[str, ...] = ()

    def shows(self, provider: str, helpers: Collection[str] = ()) -> bool:
        """Returns whether a node ran on this execution provider, and no other node elsewhere.

        Nodes of the types in `helpers` may have run elsewhere, if a node of another type ran on this provider.
        """
        on_provider = [op_type for op_type, name in self.nodes if name == provider]
        elsewhere = [op_type for op_type, name in self.nodes if name != provider]
        if not elsewhere:
            return bool(on_provider)
        return set(elsewhere) <= set(helpers) and not set(on_provider) <= set(helpers)

    def proves(self, provider: str, helpers: Collection[str] = ()) -> bool:
        """Returns whether this placement `shows` it and is no mere word of the provider."""
        return self.source != ASSERTED and self.shows(provider, helpers)


DISPATCHED = "dispatched"
"""The source of a placement that is proven by what was done: the operator was created, compiled and dispatched on
DirectML.

Nothing between opmap and DirectML could have moved it elsewhere."""

ASSERTED = "asserted"
"""The source of a placement that is the word of a provider which is not ONNX Runtime."""

COPIES = frozenset({"MemcpyFromHost", "MemcpyToHost"})
"""Nodes that ONNX Runtime adds to copy values between devices."""

_ORIGIN = re.compile(r"\b(\w+\.(?:cpp|cc|h)\(\d+\)).*?\b([0-9A-F]{8})\b")


def origin(message: str) -> str | None:
    """Returns the source file, the line and the HRESULT in ONNX Runtime's message; None if they are not in it.

    The form is `AbiCustomRegistry.cpp(519) 80070057`.
    """
    match = _ORIGIN.search(message[:MAX_MESSAGE])
    return " ".join(match.groups()) if match else None


class CaseProvider(Protocol):
    """Runs one case at a time: it receives the case itself in place of a model. `calls` counts the cases."""

    calls: int

    # Any: the class Case stands above this module, which must not import it.
    def run_case(self, case: Any, /) -> list[np.ndarray]:
        """Returns the outputs of a case. Any exception is an error of the case, at stage `run`."""
