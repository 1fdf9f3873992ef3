"""The protocols that a provider follows, and the placement that proves on which execution provider a model ran."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Placement:
    """The execution provider of each node of the last model, and the source of this knowledge.

    `nodes` holds pairs of operator type and execution provider. `source` is `assignment-info` or `profile` (ONNX
    Runtime's own records, which are proof) or `asserted` (the word of a provider that is not ONNX Runtime).
    """

    source: str
    nodes: tuple[tuple[str, str], ...]

    def proves(self, provider: str) -> bool:
        """Returns True if there is at least one node and every node ran on this execution provider."""
        return bool(self.nodes) and all(name == provider for _, name in self.nodes)


_ORIGIN = re.compile(r"(\w+\.(?:cpp|cc|h)\(\d+\)).*?\b([0-9A-F]{8})\b")


def origin(message: str) -> str | None:
    """Returns the source file, the line and the HRESULT in ONNX Runtime's message; None if they are not in it.

    The form is `AbiCustomRegistry.cpp(519) 80070057`.
    """
    match = _ORIGIN.search(message)
    return " ".join(match.groups()) if match else None


class Provider(Protocol):
    """What a third party's class, named by `--provider MODULE:FACTORY`, must have.

    It needs only `run`. Its `name`, `version`, `device_class`, `placement()`, `open()` and `close()` are used if they
    exist. `open(model_bytes, setup)` returns a session: an object with `run(feeds)`, which is called as
    `run(feeds, outputs)` if only some outputs are wanted, and perhaps `close()`. `setup` has the fields of `steps.Setup`.
    """

    def run(self, model_bytes: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Returns the model's outputs for these inputs. Any exception is an error of the case, at stage `run`."""


class CaseProvider(Protocol):
    """Runs one case at a time: it receives the case itself in place of a model."""

    # Any: the class Case stands above this module, which must not import it.
    def run_case(self, case: Any, /) -> list[np.ndarray]:
        """Returns the outputs of a case. Any exception is an error of the case, at stage `run`."""
