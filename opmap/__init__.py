"""opmap compares ONNX Runtime's DirectML execution provider with DirectML's own documentation, bit for bit.

The folders follow the data:

- `spec` holds the documentation as data; `pseudocode` expands and runs its code.
- `descriptors` checks a descriptor against the rules; `operators` has one file per operator.
- `mapping` turns a descriptor into an ONNX model; `engines` runs models, or descriptors on DirectML itself.
- `cases` adds input values to descriptors, orders the cases in tiers, and says on which execution paths they run.
- `judge` compares the outputs bit for bit and makes records; `known` has the failures that are known.
- `diagnosis` finds the causes of failures; `reports` writes results, reports and programs that need no opmap.
- Beside this flow: `documentation` checks DirectML's pages, `faults` plants errors, `fuzz` searches.
- `session` runs all of it, for the command line (`cli`) and for `pytest_plugin`.
"""

from __future__ import annotations

import importlib

_PUBLIC = {
    "Case": "cases.case",
    "DataType": "tensors",
    "Judge": "judge.judge",
    "MappedModel": "mapping",
    "OPERATORS": "operators",
    "OperatorDesc": "descriptors",
    "OpmapError": "errors",
    "Record": "judge.record",
    "ValidationRun": "session",
    "SessionOptions": "session",
    "Spec": "spec",
    "Tensor": "tensors",
    "TensorDesc": "descriptors",
    "catalogue": "cases.catalogue",
    "load_spec": "spec",
    "map_descriptor": "mapping",
    "open_provider": "engines.providers",
    "read": "mapping.dxdispatch",
    "register_operator": "cases.registration",
    "unregister_operator": "cases.registration",
}
"""Public name -> the module that defines it."""

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> object:
    """Loads a public name when it is first used, so that importing opmap loads neither onnx nor onnxruntime."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_PUBLIC[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
