"""What a DirectML device says that it supports (IDMLDevice::CheckFeatureSupport)."""

from __future__ import annotations

from ctypes import byref, sizeof

from ...tensors import DataType
from . import structs
from .com import Com


def supports(device: Com, data_type: DataType) -> bool:
    """Returns whether the device supports tensors of a data type. Raises CallFailed."""
    query = structs.DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT(data_type.number)
    answer = structs.DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT()
    feature = structs.DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT
    device.call("CheckFeatureSupport", feature, sizeof(query), byref(query), sizeof(answer), byref(answer))
    return bool(answer.IsSupported)
