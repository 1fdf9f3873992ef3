"""What a DirectML device says that it supports (IDMLDevice::CheckFeatureSupport)."""

from __future__ import annotations

from ctypes import addressof, byref, c_uint32, sizeof

from ...tensors import DataType
from . import structs
from .com import Com


def highest_feature_level(device: Com) -> str:
    """Returns the highest feature level of the device, as `6_4`, of those that opmap knows. Raises CallFailed."""
    requested = (c_uint32 * len(structs.DML_FEATURE_LEVELS))(*structs.DML_FEATURE_LEVELS)
    query = structs.DML_FEATURE_QUERY_FEATURE_LEVELS(len(requested), addressof(requested))
    answer = structs.DML_FEATURE_DATA_FEATURE_LEVELS()
    feature = structs.DML_FEATURE_FEATURE_LEVELS
    device.call("CheckFeatureSupport", feature, sizeof(query), byref(query), sizeof(answer), byref(answer))
    level = answer.MaxSupportedFeatureLevel
    return f"{level >> 12}_{level >> 8 & 0xF}"


def supports(device: Com, data_type: DataType) -> bool:
    """Returns whether the device supports tensors of a data type. Raises CallFailed."""
    query = structs.DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT(data_type.number)
    answer = structs.DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT()
    feature = structs.DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT
    device.call("CheckFeatureSupport", feature, sizeof(query), byref(query), sizeof(answer), byref(answer))
    return bool(answer.IsSupported)
