"""Probes: ONNX models with an expected outcome that no valid descriptor maps to.

The files `operators/*.probes.toml` hold them. If an execution provider refuses a model before anything reaches a
device, the outcome holds for every adapter. All other outcomes of DirectML depend on the device class. If a probe lists
no outcome for a provider, its result is `observed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import msgspec
import numpy as np
import onnx
import onnx.helper
import onnx.parser

from .. import operators
from ..engines.expectations import ExpectedStep
from ..engines.steps import Open, Run
from ..mapping import IR_VERSION, OPSET
from ..vocabulary import PROBE, Stage, Verdict
from .contract_probes import ContractProbe


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The verdict that one provider is expected to get for a probe, and the reason.

    If `device_class` is None, it holds for every device class. `origin` is a text that the error's message must
    contain. `known_failure` marks a limit of the device class, not of DirectML.
    """

    provider: str
    verdict: Verdict
    reason: str
    device_class: str | None = None
    stage: Stage | None = None
    origin: str | None = None
    known_failure: bool = False


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model in ONNX's text form without its header, its inputs and output as flat values, and expected outcomes.

    A model that ONNX forbids has no `output`: there is no right result, and a provider should refuse it. `opset` is
    that of the model.
    """

    id: str
    text: str
    model: str
    inputs: dict[str, list[bool | float]]
    outcomes: tuple[Expectation, ...]
    opset: int = OPSET
    output: list[bool | float] | None = None

    def model_proto(self) -> onnx.ModelProto:
        """Returns the parsed model with opmap's IR version and the probe's opset."""
        return onnx.parser.parse_model(f'<ir_version: {IR_VERSION}, opset_import: ["" : {self.opset}]>\n{self.model}')

    def contract(self, wanted: Sequence[bool | float]) -> ContractProbe:
        """Returns the steps that run the model, as a contract probe; `wanted` are the right values of the output."""
        model = self.model_proto()
        (output,) = model.graph.output
        feeds = {value.name: as_array(value, self.inputs[value.name]) for value in model.graph.input}
        opened = Open(session="one", model=np.frombuffer(model.SerializeToString(deterministic=True), np.uint8))
        ran = ExpectedStep(Run(session="one", feeds=feeds), ({output.name: as_array(output, wanted)},))
        return ContractProbe(self.id, self.text, "https://onnx.ai/onnx/operators", (ExpectedStep(opened), ran))

    @property
    def operators(self) -> list[str]:
        """The operators of the model's nodes, such as `ONNX Cast`, each once."""
        return list(dict.fromkeys(f"ONNX {node.op_type}" for node in self.model_proto().graph.node))


def as_array(value: onnx.ValueInfoProto, values: Sequence[bool | float]) -> np.ndarray:
    """Returns flat values as an array of the type and the sizes of a graph's input or output."""
    kind = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return np.array(values, dtype=dtype).reshape([d.dim_value for d in kind.shape.dim])


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    probes: tuple[Probe, ...]


@cache
def probes() -> tuple[Probe, ...]:
    """Returns all probes. An id begins with `probe/` and the name of the probe's file."""
    found = []
    for path in sorted(files(operators).iterdir(), key=lambda p: p.name):
        name = path.name.removesuffix(".probes.toml")
        if name != path.name:
            drafts = msgspec.toml.decode(path.read_bytes(), type=_File).probes
            found += [msgspec.structs.replace(draft, id=f"{PROBE}{name}/{draft.id}") for draft in drafts]
    return tuple(found)
