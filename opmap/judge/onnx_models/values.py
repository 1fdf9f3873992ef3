"""The values that flow between the nodes of a model: constants, fed values, and what the CPU EP computes of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx

from ...engines.performer import Performer
from ...engines.sessions import CPU
from ...engines.steps import Evidence, Setup
from ...engines.worker import TIMEOUT, HangLimit, WorkerProvider
from ...errors import ProviderError
from ...vocabulary import Stage
from .reading import GivenModel


class CpuValues:
    """Runs models on the CPU EP, in a process of its own: a model from outside may compute for ever, or end its process.

    `timeout` is the limit of a run, in seconds. The process starts with the first run.
    """

    def __init__(self, timeout: float = TIMEOUT):
        self._worker = WorkerProvider(CPU, timeout=timeout, hang_limit=HangLimit())

    def __enter__(self) -> CpuValues:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.close()

    def run(self, given: GivenModel, feeds: Mapping[str, np.ndarray], wanted: Sequence[str]) -> dict[str, np.ndarray]:
        """Returns the values that are `wanted`, and those of all graph outputs. Raises ProviderError."""
        outputs, _ = run_model(self._worker, given, feeds, wanted, Setup())
        return outputs


def run_model(
    performer: Performer,
    given: GivenModel,
    feeds: Mapping[str, np.ndarray],
    more: Sequence[str],
    setup: Setup,
) -> tuple[dict[str, np.ndarray], Evidence | None]:
    """Runs the model itself, with its initializers and files. Returns its outputs by name, and the session's evidence.

    `more` are values that become graph outputs too; without them the bytes of the model are the file's own. Raises
    ProviderError.
    """
    content = _with_outputs(given, more) if more else given.content
    files = {name: np.frombuffer(data, np.uint8) for name, data in given.files.items()}
    ran = performer.run_once(content, feeds, setup=setup, files=files, static=False)
    names = list(dict.fromkeys([*(value.name for value in given.model.graph.output), *more]))
    if ran.malformed or list(ran.outputs) != names:
        got = ran.malformed or f"the outputs must be {', '.join(names)}, got {', '.join(ran.outputs) or 'none'}"
        raise ProviderError(got, stage=Stage.RUN)
    return ran.outputs, ran.evidence


def _with_outputs(given: GivenModel, more: Sequence[str]) -> bytes:
    """Returns the model with further graph outputs, and otherwise unchanged."""
    model = onnx.ModelProto()
    model.CopyFrom(given.model)
    output_names = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more if name not in output_names)
    content: bytes = model.SerializeToString()
    return content


def known_values(given: GivenModel, feeds: Mapping[str, np.ndarray], wanted: Collection[str]) -> dict[str, np.ndarray]:
    """Returns those of the wanted values that stand in the model or are fed. Raises InputError for a constant that is bad."""
    tensors = {name: tensor for name, tensor in given.initializers.items() if name in wanted}
    for node in given.model.graph.node:
        if node.op_type == "Constant" and node.output and node.output[0] in wanted:
            for attribute in node.attribute:
                if attribute.name == "value" and attribute.HasField("t"):
                    tensors[node.output[0]] = attribute.t
    arrays = {name: given.array(tensor) for name, tensor in tensors.items() if name not in feeds}
    constants = {name: array for name, array in arrays.items() if array is not None}
    return constants | {name: array for name, array in feeds.items() if name in wanted}
