"""opmap holds ONNX Runtime's DirectML execution provider against DirectML's own documentation, bit for bit."""

from __future__ import annotations

import importlib

_PUBLIC = {
    "Case": "cases.case",
    "DataType": "tensors",
    "Judge": "verdicts.judge",
    "MappedModel": "mapping",
    "OPERATORS": "operators",
    "OperatorDesc": "descriptors",
    "OpmapError": "errors",
    "Record": "verdicts.record",
    "Spec": "spec",
    "Tensor": "tensors",
    "TensorDesc": "descriptors",
    "catalogue": "cases.catalogue",
    "load_spec": "spec",
    "map_descriptor": "mapping",
    "open_provider": "execution.providers",
    "read": "dxdispatch",
    "register_operator": "registration",
    "unregister_operator": "registration",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str):
    """Loads a public name when it is first used: importing opmap imports neither onnx nor onnxruntime."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_PUBLIC[name]}", __name__), name)


def __dir__():
    return __all__
