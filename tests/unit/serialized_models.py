"""The models whose serialized graphs lie in `serialized/`, with the descriptors that are expected in them.

`serialized/serialize.py` says how the graphs are made.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx
from described import described
from onnx import TensorProto, helper

from opmap.cases.variants import Inputs
from opmap.cases.variants.forms import FORMS
from opmap.descriptors import OperatorDesc, TensorDesc, complete
from opmap.mapping import IR_VERSION, OPSET, MappedModel, map_descriptor
from opmap.operators import OPERATORS, emitted
from opmap.tensors import DataType, Tensor

FOLDER = Path(__file__).parent / "serialized"
INDICES = "IndicesTensor"


def in_form(name: str, descriptor: OperatorDesc, tensors: Mapping[str, Tensor]) -> MappedModel:
    """Returns the mapping of a descriptor with its model in this form."""
    mapped = map_descriptor(descriptor)
    zeros = {n: Tensor(t.data_type, t.sizes, [0] * t.element_count) for n, t in descriptor.inputs.items()}
    formed = FORMS[name].build(mapped, Inputs(descriptor, zeros | tensors))
    assert formed is not None, f"the descriptor has the form {name}"
    return replace(mapped, model_bytes=formed.model_bytes, substitutions=(*mapped.substitutions, *formed.substitutions))


def constant_indices(index_type: DataType, count: int) -> tuple[MappedModel, dict[str, Tensor]]:
    """Returns a model that holds its indices, and the indices as the node reads them."""
    descriptor = described("GATHER", (4,), (count,), 0, 1, index_type=index_type)
    indices = Tensor.from_values(index_type, (count,), [3 - i for i in range(count)])
    return in_form("init", descriptor, {INDICES: indices}), {INDICES: indices}


def strided(data_type: DataType, sizes: tuple[int, ...], strides: tuple[int, ...]) -> OperatorDesc:
    """Returns the descriptor that copies an input with strides."""
    tensors = {"InputTensor": TensorDesc(data_type, sizes, strides)}
    return complete(OPERATORS["ELEMENT_WISE_IDENTITY"].descriptor, tensors, {})


CONSTANTS = {
    "constant_inside": constant_indices(DataType.INT32, 1),
    "constant_file": constant_indices(DataType.INT64, 3),
}
"""Models that hold their indices, and these indices."""

MAPPED = {
    "gather": map_descriptor(described("GATHER", (3, 4), (1, 2), 1, 1)),
    "gather_scalar": map_descriptor(described("GATHER", (3, 4), (1, 1), 1, 0, data_type=DataType.INT8)),
    "gather_cast": map_descriptor(
        described("GATHER", (5,), (2,), 0, 1, index_type=DataType.UINT32), index_conversion="directml"
    ),
    "gather_tile": in_form("node", described("GATHER", (5,), (2,), 0, 1), {}),
    "gather_elements": map_descriptor(described("GATHER_ELEMENTS", (2, 3), (2, 2), 1, data_type=DataType.FLOAT16)),
    "gather_nd": map_descriptor(described("GATHER_ND", (3, 4), (2, 1), 2, 2, data_type=DataType.UINT64)),
    "gather_nd1": map_descriptor(described("GATHER_ND1", (2, 3, 4), (1, 2, 1), 3, 2, 1, data_type=DataType.INT16)),
    "gather_nd1_scalar": map_descriptor(described("GATHER_ND1", (3, 4), (1, 2), 2, 1, 0)),
    "transpose": map_descriptor(strided(DataType.INT64, (2, 3, 4), (3, 1, 6))),
    "broadcast": map_descriptor(strided(DataType.FLOAT16, (2, 3, 4), (0, 1, 0))),
    **{name: mapped for name, (mapped, _) in CONSTANTS.items()},
}
"""Name of a sample -> the mapped model."""

Node = tuple[str, list[str], str, dict[str, object]]
"""An ONNX node: its type, its inputs, its output and its attributes."""


def model(
    nodes: list[Node],
    inputs: dict[str, tuple[int, list[int]]],
    outputs: dict[str, tuple[int, list[int]]],
    floats: dict[str, list[float]] | None = None,
    integers: dict[str, list[int]] | None = None,
) -> onnx.ModelProto:
    """Returns a model; `floats` and `integers` are initializers of one dimension."""
    values = [
        helper.make_tensor(name, element_type, [len(numbers)] if len(numbers) > 1 else [], numbers)
        for element_type, tensors in ((TensorProto.FLOAT, floats), (TensorProto.INT64, integers))
        for name, numbers in (tensors or {}).items()
    ]
    graph = helper.make_graph(
        [helper.make_node(op, names, [output], **attributes) for op, names, output, attributes in nodes],
        "graph",
        [helper.make_tensor_value_info(name, *value) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, *value) for name, value in outputs.items()],
        values,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


F32, BOOL, I64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
DATA, PICKED = (F32, [3, 4]), (F32, [3, 2])
AXIS = {"axis": 1}


def _branch(name: str) -> onnx.GraphProto:
    node = helper.make_node("Gather", ["d", "i"], [name], **AXIS)
    return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, *PICKED)])


EMITTED: dict[str, onnx.ModelProto] = {
    "bool": model([("Gather", ["d", "i"], "o", AXIS)], {"d": (BOOL, [3, 4]), "i": (I64, [2])}, {"o": (BOOL, [3, 2])}),
    "chain": model(
        [
            ("Abs", ["d"], "a", {}),
            ("Neg", ["a"], "b", {}),
            ("Gather", ["b", "i"], "c", AXIS),
            ("Neg", ["c"], "e", {}),
            ("Abs", ["e"], "o", {}),
        ],
        {"d": DATA, "i": (I64, [2])},
        {"o": PICKED},
    ),
    "repeated": model(
        [("Gather", ["d", "i"], "a", AXIS), ("Gather", ["f", "i"], "b", AXIS), ("Sub", ["a", "b"], "o", {})],
        {"d": DATA, "f": DATA, "i": (I64, [2])},
        {"o": PICKED},
    ),
    "branches": model(
        [("If", ["c"], "o", {"then_branch": _branch("t"), "else_branch": _branch("e")})],
        {"c": (BOOL, []), "d": DATA, "i": (I64, [2])},
        {"o": PICKED},
    ),
    "partitions": model(
        [("Gather", ["d", "i"], "o", AXIS), ("Gather", ["f", "j"], "p", AXIS)],
        {"d": DATA, "i": (I64, [2]), "f": DATA, "j": (I64, [2])},
        {"o": PICKED, "p": PICKED},
    ),
}
"""Models in which each Gather picks 2 columns of 4."""

OTHERS: dict[str, onnx.ModelProto] = {
    "activation": model(
        [("Reshape", ["v", "s"], "w", {}), ("Conv", ["x", "w"], "c", {}), ("LeakyRelu", ["c"], "o", {"alpha": 0.25})],
        {"x": (F32, [1, 1, 4, 4])},
        {"o": (F32, [1, 1, 3, 3])},
        floats={"v": [1, 2, 3, 4]},
        integers={"s": [1, 1, 2, 2]},
    ),
    "clip": model(
        [("Clip", ["x", "low", "high"], "o", {})],
        {"x": (F32, [2, 3])},
        {"o": (F32, [2, 3])},
        floats={"low": [0.5], "high": [2]},
    ),
    "expand": model(
        [("Expand", ["x", "s"], "o", {})], {"x": (F32, [1, 3])}, {"o": (F32, [2, 3])}, integers={"s": [2, 3]}
    ),
    "resize": model(
        [("Resize", ["x", "", "s"], "o", {"mode": "linear"})],
        {"x": (F32, [1, 1, 2, 2])},
        {"o": (F32, [1, 1, 4, 6])},
        floats={"s": [1, 1, 2, 3]},
    ),
    "slice": model(
        [("Slice", ["x", "start", "end", "axes", "steps"], "o", {})],
        {"x": (F32, [4, 4])},
        {"o": (F32, [2, 4])},
        integers={"start": [3, 0], "end": [-100, 4], "axes": [0, 1], "steps": [-2, 1]},
    ),
}
"""Models of other operators, with every kind of attribute that the EP writes."""


def emitted_desc(data_type: DataType = DataType.FLOAT32) -> OperatorDesc:
    """Returns the descriptor that the EP makes of each Gather in EMITTED."""
    return emitted("Gather", [TensorDesc(data_type, (3, 4)), TensorDesc(DataType.INT64, (2,))], AXIS)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    protos = {name: mapped.model for name, mapped in MAPPED.items()} | EMITTED | OTHERS
    for name, proto in protos.items():
        (folder / f"{name}.onnx").write_bytes(proto.SerializeToString(deterministic=True))
