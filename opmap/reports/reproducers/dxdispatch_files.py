"""A case as files for DxDispatch: the model, and the output that DirectML must give."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from ...cases.case import Case
from ...cases.variants import Inputs
from ...engines.arrays import to_array
from ...files import to_json
from ...mapping.dxdispatch import model_json
from ...tensors import Tensor, from_bits, plain

DXDISPATCH, EXPECTED = "dxdispatch.json", "dxdispatch_expected.json"

OUTPUT = "dxdispatch_output.bin"
"""The file into which DxDispatch writes the memory of the output, in the current folder; with its number if there are
several."""

_MOST_LISTED = 4096
"""Larger tensors are in .npy files, which the JSON file names."""


def dispatch_files(case: Case, inputs: Inputs) -> dict[str, bytes]:
    """Returns the model as a DxDispatch file, and the files of its large tensors, by relative name.

    `inputs` are those of the case.
    """
    files: dict[str, bytes] = {}
    document = model_json(case.id, inputs.desc, inputs.tensors, store=lambda name, memory: _stored(files, name, memory))
    outputs = [*inputs.desc.outputs]
    for number, field in enumerate(outputs):
        target = f"./{OUTPUT}" if len(outputs) == 1 else f"./{OUTPUT.replace('.', f'_{number}.')}"
        document["commands"].append({"type": "writeFile", "resource": field, "targetPath": target})
    return files | {DXDISPATCH: to_json(document) + b"\n"}


def dxdispatch_files(case: Case, inputs: Inputs) -> dict[str, bytes]:
    """Returns the files of `dispatch_files`, and the expected outputs.

    An expected output is as results.jsonl writes a tensor: null stands for an undocumented element. That of a large
    output has `sourcePath` in place of the values, and the addresses of `Undocumented` elements.
    """
    files = dispatch_files(case, inputs)
    files[EXPECTED] = to_json({field: _expected(inputs.of(field), files) for field in inputs.desc.outputs}) + b"\n"
    return files


def _expected(inputs: Inputs, files: dict[str, bytes]) -> dict[str, object]:
    output, bits = inputs.desc.output, inputs.expected
    document: dict[str, object] = {"DataType": output.data_type.name, "Sizes": list(output.sizes)}
    filled = Tensor(output.data_type, output.sizes, [b or 0 for b in bits])
    file = _stored(files, inputs.output_field, filled)
    if file:
        return {**document, "sourcePath": file, "Undocumented": [i for i, b in enumerate(bits) if b is None]}
    return {**document, **_listed(filled, bits)}


def _listed(filled: Tensor, bits: Sequence[int | None]) -> dict[str, object]:
    width = filled.data_type.size * 2
    values = from_bits(filled.data_type, filled.bits)
    return {
        "Values": [plain(v) if b is not None else None for v, b in zip(values, bits, strict=True)],
        "Bits": [f"{b:0{width}x}" if b is not None else None for b in bits],
    }


def _stored(files: dict[str, bytes], name: str, tensor: Tensor) -> str | None:
    """Adds a large tensor as a .npy file, and returns the file's name. A tensor that is to be listed gives None."""
    if len(tensor.bits) <= _MOST_LISTED:
        return None
    buffer = io.BytesIO()
    np.save(buffer, to_array(tensor), allow_pickle=False)
    file = f"dxdispatch/{name}.npy"
    files[file] = buffer.getvalue()
    return file
