"""The data types that ONNX nodes take and give, as ONNX's schemas say it."""

from __future__ import annotations

from functools import cache

from ..tensors import DataType

ELEMENT_TYPES = {
    **{DataType.FLOAT32: 1, DataType.UINT8: 2, DataType.INT8: 3, DataType.UINT16: 4, DataType.INT16: 5},
    **{DataType.INT32: 6, DataType.INT64: 7, DataType.BOOL: 9, DataType.FLOAT16: 10, DataType.FLOAT64: 11},
    **{DataType.UINT32: 12, DataType.UINT64: 13},
}
"""Data type -> its number in ONNX, onnx.TensorProto.DataType."""


@cache
def node_types(op_type: str, opset: int) -> tuple[frozenset[DataType], frozenset[DataType]]:
    """Returns the data types of the inputs and of the output of an ONNX node."""
    from onnx import defs  # most commands map nothing, and load faster without it

    schema = defs.get_schema(op_type, opset)
    own = {"FLOAT32": "float", "FLOAT64": "double"}
    names = {f"tensor({own.get(data_type.name, data_type.name.lower())})": data_type for data_type in DataType}
    inputs, output = (
        frozenset(names[n] for n in slot.types & names.keys()) for slot in (schema.inputs[0], schema.outputs[0])
    )
    return inputs, output


def held(data_type: DataType) -> DataType:
    """Returns the data type as which the DirectML EP takes tensors of a data type of ONNX."""
    return DataType.UINT8 if data_type is DataType.BOOL else data_type


def takes(op_type: str, opset: int, data_type: DataType) -> bool:
    """Returns whether a node takes tensors of a data type of DirectML."""
    return data_type in map(held, node_types(op_type, opset)[0])
