"""Python expressions for arrays, bytes and ONNX models, of which the programs that reproduce a failure consist."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx.printer
from onnx import numpy_helper

from ...errors import printable_lines

LONG = 48
"""Arrays with more elements are written as bytes."""


def array_literal(array: np.ndarray) -> str:
    """Returns an expression with exactly these bits."""
    dtype = f"np.{'bool_' if array.dtype == np.bool_ else array.dtype.name}"
    if array.size == 0:
        return f"np.zeros({array.shape!r}, {dtype})"
    if array.size > LONG:
        return f"np.frombuffer(bytes.fromhex({array.tobytes().hex()!r}), {dtype}).reshape({array.shape!r})"
    values = array.tolist()
    if np.array(values, array.dtype).tobytes() == array.tobytes() and np.isfinite(array).all():
        return f"np.array({values!r}, {dtype})"
    words = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
    return f"np.array({words.tolist()!r}, np.uint{8 * array.dtype.itemsize}).view({dtype})"


def model_literal(raw: bytes) -> str:
    """Returns an expression with a model: its text in ONNX's form if that says the same, else its bytes."""
    try:
        model = onnx.load_from_string(raw)
        text = onnx.printer.to_text(model)
        if (
            '"""' not in text
            and "\\" not in text
            and text == printable_lines(text)
            and _same(onnx.parser.parse_model(text), model)
        ):
            return f'"""\n{text}\n"""'
    except Exception:  # the parser and the printer do not know everything that a model can have
        pass
    return f"bytes.fromhex({raw.hex()!r})"


def _same(model: onnx.ModelProto, other_model: onnx.ModelProto) -> bool:
    """Returns whether two models are equal, however they write the values of their tensors."""
    for either in (model, other_model):
        _plain(either.graph)
    for field in ("producer_name", "producer_version", "domain", "doc_string", "model_version"):
        model.ClearField(field)
        other_model.ClearField(field)
    return bool(model == other_model)


def _plain(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    for node in graph.node:
        if not node.domain:
            node.ClearField("domain")
        for attribute in node.attribute:
            attribute.ClearField("doc_string")
            if attribute.type == onnx.AttributeProto.GRAPH:
                _plain(attribute.g)
