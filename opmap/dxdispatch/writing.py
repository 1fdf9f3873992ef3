"""Writes DxDispatch models."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import TypedDict

from ..descriptors import OperatorDesc
from ..tensors import DataType, Tensor, plain, to_bits
from .descriptor_json import DescJson, desc_json


class ModelJson(TypedDict):
    """A whole DxDispatch model. Resources and dispatchables are by name."""

    resources: dict[str, dict[str, object]]
    dispatchables: dict[str, DescJson]
    commands: list[dict[str, object]]


def model_json(name: str, desc: OperatorDesc, tensors: Mapping[str, Tensor]) -> ModelJson:
    """Returns a whole DxDispatch model that runs one descriptor and prints its output.

    `name` is the dispatchable's name; `tensors` are the inputs by DirectML's field names, packed. A tensor with values
    that JSON cannot hold exactly (a NaN with a payload) is written as a list of its bytes.
    """
    resources: dict[str, dict[str, object]] = {}
    for field_name, tensor in tensors.items():
        values = [plain(value) for value in tensor.values]
        data_type = tensor.data_type
        if data_type.kind == "float" and to_bits(data_type, values) != array(data_type.bits_code, tensor.bits):
            data_type, values = DataType.UINT8, list(tensor.to_bytes())
        resources[field_name] = {"initialValuesDataType": data_type.name, "initialValues": values}
    outputs = desc.spec().field_names("output")
    for output in outputs:
        zero = {"value": 0, "valueCount": desc.output.element_count}
        resources[output] = {"initialValuesDataType": desc.output.data_type.name, "initialValues": zero}
    bindings = {resource: resource for resource in resources}
    dispatch: dict[str, object] = {"type": "dispatch", "dispatchable": name, "bindings": bindings}
    prints: list[dict[str, object]] = [{"type": "print", "resource": output} for output in outputs]
    return {"resources": resources, "dispatchables": {name: desc_json(desc)}, "commands": [dispatch, *prints]}
