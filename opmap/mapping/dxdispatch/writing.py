"""Writes DxDispatch models."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import TypedDict

from ...descriptors import OperatorDesc, TensorDesc
from ...pseudocode import array_of
from ...tensors import DataType, Tensor, plain, to_bits
from .descriptor_json import DescJson, desc_json


class ModelJson(TypedDict):
    """A whole DxDispatch model. Resources and dispatchables are by name."""

    resources: dict[str, dict[str, object]]
    dispatchables: dict[str, DescJson]
    commands: list[dict[str, object]]


def model_json(
    name: str,
    desc: OperatorDesc,
    tensors: Mapping[str, Tensor],
    *,
    store: Callable[[str, Tensor], str | None] = lambda name, memory: None,
) -> ModelJson:
    """Returns a whole DxDispatch model that runs one descriptor and prints its output.

    `name` is the dispatchable's name; `tensors` are the inputs by DirectML's field names, packed: they are laid out as
    their strides say. A tensor with values that JSON cannot hold exactly (a NaN with a payload) is written as a list of
    bytes. `store` is given the name of each input and its memory. If it returns the name of a file, the values are not
    listed.
    """
    resources: dict[str, dict[str, object]] = {}
    for field_name, tensor in tensors.items():
        memory = _laid_out(desc.tensors[field_name], tensor)
        file = store(field_name, memory)
        data_type, values = (tensor.data_type, {"sourcePath": file}) if file else _listed(memory)
        resources[field_name] = {"initialValuesDataType": data_type.name, "initialValues": values}
    for field, output in desc.outputs.items():
        zero = {"value": 0, "valueCount": output.whole_element_count}
        resources[field] = {"initialValuesDataType": output.data_type.name, "initialValues": zero}
    bindings: dict[str, object] = {resource: resource for resource in resources if resource in desc.members()}
    for field in desc.spec().arrays:
        bindings[field] = [resource for resource in resources if array_of(resource) == field]
    dispatch: dict[str, object] = {"type": "dispatch", "dispatchable": name, "bindings": bindings}
    prints: list[dict[str, object]] = [{"type": "print", "resource": output} for output in desc.outputs]
    return {"resources": resources, "dispatchables": {name: desc_json(desc)}, "commands": [dispatch, *prints]}


def _listed(tensor: Tensor) -> tuple[DataType, object]:
    """Returns the type and the list of a tensor's values."""
    values = [plain(value) for value in tensor.values]
    data_type = tensor.data_type
    if data_type.kind == "float" and to_bits(data_type, values) != array(data_type.bits_code, tensor.bits):
        return DataType.UINT8, list(tensor.to_bytes())
    return data_type, values


def _laid_out(desc: TensorDesc, tensor: Tensor) -> Tensor:
    """Returns the memory of a packed tensor in the layout of a desc: one dimension, with zeros where no element
    lies.
    """
    if desc.packed and desc.whole_element_count == len(tensor.bits):
        return tensor
    return Tensor(tensor.data_type, (desc.whole_element_count,), desc.write(tensor.bits, 0))
