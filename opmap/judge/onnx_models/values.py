"""The values that flow between the nodes of a model: constants, fed values, and what the CPU EP computes of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import onnx
from onnx import helper

from ...engines.performer import Performer
from ...engines.sessions import CPU
from ...engines.steps import Evidence, Setup
from ...engines.worker import TIMEOUT, HangLimit, WorkerProvider
from ...errors import ProviderError
from ...vocabulary import Stage
from .reading import GivenModel, nodes_of

Opinion = Mapping[str, np.ndarray] | None
"""The outputs of a node by name; None if there are none."""


class CpuValues:
    """Runs models on the CPU EP, in a process of its own: a model from outside may compute for ever, or end its
    process.

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

    def opinion(self, given: GivenModel, node: onnx.NodeProto, values: Mapping[str, np.ndarray]) -> Opinion:
        """Returns the outputs of one node on the CPU EP; None if it does not run the node."""
        try:
            return self.run(node_model(given, node, values), _inputs(node, values), ())
        except ProviderError:
            return None


def reference_opinion(given: GivenModel, node: onnx.NodeProto, values: Mapping[str, np.ndarray]) -> Opinion:
    """Returns the outputs of one node as ONNX's reference evaluator computes them; None if it does not."""
    from onnx.reference import ReferenceEvaluator  # here: it loads hundreds of modules

    try:
        with np.errstate(all="ignore"):
            evaluator = ReferenceEvaluator(node_model(given, node, values).model)
            outputs = evaluator.run(None, dict(_inputs(node, values)))
        return dict(zip((name for name in node.output if name), map(np.asarray, outputs), strict=True))
    except Exception:  # what it does not know, and what it cannot compute
        return None


def _inputs(node: onnx.NodeProto, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values[name] for name in node.input if name}


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
    content = with_outputs(given, more) if more else given.content
    files = {name: np.frombuffer(data, np.uint8) for name, data in given.files.items()}
    ran = performer.run_once(content, feeds, setup=setup, files=files, static=False)
    names = list(dict.fromkeys([*(value.name for value in given.model.graph.output), *more]))
    if ran.malformed or list(ran.outputs) != names:
        got = ran.malformed or f"the outputs must be {', '.join(names)}, got {', '.join(ran.outputs) or 'none'}"
        raise ProviderError(got, stage=Stage.RUN)
    return ran.outputs, ran.evidence


def with_outputs(given: GivenModel, more: Sequence[str]) -> bytes:
    """Returns the model with further graph outputs, and otherwise unchanged."""
    model = onnx.ModelProto()
    model.CopyFrom(given.model)
    output_names = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more if name not in output_names)
    content: bytes = model.SerializeToString()
    return content


def with_names(given: GivenModel) -> GivenModel:
    """Returns the model with a name of its own for every node, and otherwise unchanged; itself if it is so already."""
    model = onnx.ModelProto()
    model.CopyFrom(given.model)
    used: set[str] = set()
    changed = False
    for number, node in enumerate(nodes_of(model.graph)):
        if not node.name or node.name in used:
            node.name = next(name for n in count(number) if (name := f"{node.op_type}.{n}") not in used)
            changed = True
        used.add(node.name)
    return replace(given, model=model, content=model.SerializeToString()) if changed else given


def node_model(given: GivenModel, node: onnx.NodeProto, values: Mapping[str, np.ndarray]) -> GivenModel:
    """Returns a model of one node, whose inputs are all fed."""
    model = onnx.ModelProto(ir_version=given.model.ir_version, opset_import=given.model.opset_import)
    model.graph.name = "node"
    model.graph.node.add().CopyFrom(node)
    model.graph.input.extend(value_info(name, values[name]) for name in dict.fromkeys(node.input) if name)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    return replace(given, model=model, content=model.SerializeToString(), files={}, own=None, left_out=())


def value_info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    """Returns the declaration of a value with the type and the sizes of an array."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def known_values(given: GivenModel, feeds: Mapping[str, np.ndarray], wanted: Collection[str]) -> dict[str, np.ndarray]:
    """Returns those of the wanted values that stand in the model or are fed.

    Raises InputError for a constant that is bad.
    """
    tensors = {name: tensor for name, tensor in given.initializers.items() if name in wanted}
    for node in given.model.graph.node:
        if node.op_type == "Constant" and node.output and node.output[0] in wanted:
            for attribute in node.attribute:
                if attribute.name == "value" and attribute.HasField("t"):
                    tensors[node.output[0]] = attribute.t
    arrays = {name: given.array(tensor) for name, tensor in tensors.items() if name not in feeds}
    constants = {name: array for name, array in arrays.items() if array is not None}
    return constants | {name: array for name, array in feeds.items() if name in wanted}
