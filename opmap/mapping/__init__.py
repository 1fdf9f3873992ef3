"""A descriptor in its other notations: the equivalent ONNX model, the DirectML graph that the EP makes of it,
DxDispatch JSON.

`mapper` makes the model, `serialized_graph` reads the graph that the EP wrote, `dxdispatch` reads and writes JSON
files.
"""

from ..operators import OPSET
from ..operators.node_types import ELEMENT_TYPES
from .mapper import (
    IR_VERSION,
    IndexConversion,
    MappedModel,
    convert,
    map_descriptor,
)

__all__ = [
    "ELEMENT_TYPES",
    "IR_VERSION",
    "OPSET",
    "IndexConversion",
    "MappedModel",
    "convert",
    "map_descriptor",
]
