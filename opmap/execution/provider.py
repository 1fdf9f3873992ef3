"""What runs a model: the protocol that every provider follows, and the proof of where it ran."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np


@dataclass(frozen=True)
class Placement:
    """On which execution provider each node of the last model was, and how that is known.

    `source` is `assignment-info` or `profile` (proven by ONNX Runtime's own record) or `asserted` (by a provider that
    is not ONNX Runtime). `nodes` holds (operator type, provider).
    """

    source: str
    nodes: tuple[tuple[str, str], ...]

    def proves(self, provider: str) -> bool:
        """Whether at least one node is on record, and every one on this provider."""
        return bool(self.nodes) and all(name == provider for _, name in self.nodes)


_ORIGIN = re.compile(r"(\w+\.(?:cpp|cc|h)\(\d+\)).*?\b([0-9A-F]{8})\b")


def origin(message: str) -> str | None:
    """The source file, line and HRESULT that ONNX Runtime's message names, as `AbiCustomRegistry.cpp(519) 80070057`."""
    found = _ORIGIN.search(message)
    return " ".join(found.groups()) if found else None


@runtime_checkable
class Provider(Protocol):
    """Runs one model at a time.

    A class of one's own, given as `--provider MODULE:FACTORY`, needs `run` only; `name`, `version`, `device_class`,
    `placement()` and `close()` are used where it has them.
    """

    def run(self, model_bytes: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The model's outputs for these inputs. Any exception is an error of the case at hand, at stage `run`."""
