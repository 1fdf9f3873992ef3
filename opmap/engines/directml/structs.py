"""The structs of Direct3D 12 and DirectML, with their constants, for a process of 64 bits.

Each class is named as in the headers d3d12.h and DirectML.h, and its members in their order. `SIZES` has the size of each struct in
bytes as the headers give it: the classes must agree on every system.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any

# --- Direct3D 12 ---

D3D_FEATURE_LEVEL_11_0 = 0xB000
COMMAND_LIST_TYPE_COMPUTE = 2
HEAP_DEFAULT, HEAP_UPLOAD, HEAP_READBACK = 1, 2, 3
STATE_COMMON, STATE_UNORDERED_ACCESS, STATE_COPY_DEST, STATE_COPY_SOURCE = 0, 0x8, 0x400, 0x800
STATE_GENERIC_READ = 0xAC3
DESCRIPTOR_HEAP_SHADER_VISIBLE = 1
BARRIER_TRANSITION, BARRIER_UAV = 0, 2
ALL_SUBRESOURCES = 0xFFFFFFFF
RESOURCE_BUFFER, LAYOUT_ROW_MAJOR, ALLOW_UNORDERED_ACCESS = 1, 1, 4


class D3D12_COMMAND_QUEUE_DESC(ctypes.Structure):
    _fields_ = [("Type", c_int32), ("Priority", c_int32), ("Flags", c_uint32), ("NodeMask", c_uint32)]


class D3D12_DESCRIPTOR_HEAP_DESC(ctypes.Structure):
    _fields_ = [("Type", c_int32), ("NumDescriptors", c_uint32), ("Flags", c_uint32), ("NodeMask", c_uint32)]


class D3D12_MESSAGE(ctypes.Structure):
    _fields_ = [
        ("Category", c_int32),
        ("Severity", c_int32),
        ("ID", c_int32),
        ("pDescription", c_void_p),
        ("DescriptionByteLength", c_size_t),
    ]


class D3D12_HEAP_PROPERTIES(ctypes.Structure):
    _fields_ = [
        ("Type", c_int32),
        ("CPUPageProperty", c_int32),
        ("MemoryPoolPreference", c_int32),
        ("CreationNodeMask", c_uint32),
        ("VisibleNodeMask", c_uint32),
    ]


class D3D12_RESOURCE_DESC(ctypes.Structure):
    _fields_ = [
        ("Dimension", c_int32),
        ("Alignment", c_uint64),
        ("Width", c_uint64),
        ("Height", c_uint32),
        ("DepthOrArraySize", c_uint16),
        ("MipLevels", c_uint16),
        ("Format", c_int32),
        ("SampleCount", c_uint32),
        ("SampleQuality", c_uint32),
        ("Layout", c_int32),
        ("Flags", c_uint32),
    ]


class D3D12_RESOURCE_TRANSITION_BARRIER(ctypes.Structure):
    _fields_ = [
        ("pResource", c_void_p),
        ("Subresource", c_uint32),
        ("StateBefore", c_uint32),
        ("StateAfter", c_uint32),
    ]


class D3D12_RESOURCE_BARRIER(ctypes.Structure):
    """The union of the three kinds of barriers is laid out as its largest, the transition. A UAV barrier has only pResource."""

    Transition: Any
    _fields_ = [("Type", c_int32), ("Flags", c_uint32), ("Transition", D3D12_RESOURCE_TRANSITION_BARRIER)]


class D3D12_RANGE(ctypes.Structure):
    _fields_ = [("Begin", c_size_t), ("End", c_size_t)]


class D3D12_CPU_DESCRIPTOR_HANDLE(ctypes.Structure):
    ptr: int
    _fields_ = [("ptr", c_size_t)]


class D3D12_GPU_DESCRIPTOR_HANDLE(ctypes.Structure):
    ptr: int
    _fields_ = [("ptr", c_uint64)]


# --- DirectML ---

DML_CREATE_DEVICE_FLAG_DEBUG = 1
DML_FEATURE_LEVEL_5_0 = 0x5000
DML_FEATURE_LEVELS = (
    *(0x1000, 0x2000, 0x2100, 0x3000, 0x3100, 0x4000, 0x4100, 0x5000),
    *(0x5100, 0x5200, 0x6000, 0x6100, 0x6200, 0x6300, 0x6400),
)
"""The values of DML_FEATURE_LEVEL, ascending."""

DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT, DML_FEATURE_FEATURE_LEVELS = 0, 1
DML_TENSOR_TYPE_BUFFER = 1
DML_TENSOR_FLAG_OWNED_BY_DML = 1
DML_BINDING_TYPE_NONE, DML_BINDING_TYPE_BUFFER, DML_BINDING_TYPE_BUFFER_ARRAY = 0, 1, 2
DML_GRAPH_NODE_TYPE_OPERATOR = 1
DML_GRAPH_EDGE_TYPE_INPUT, DML_GRAPH_EDGE_TYPE_OUTPUT = 1, 2
DML_EXECUTION_FLAG_DISABLE_META_COMMANDS = 2


class DML_BUFFER_TENSOR_DESC(ctypes.Structure):
    _fields_ = [
        ("DataType", c_uint32),
        ("Flags", c_uint32),
        ("DimensionCount", c_uint32),
        ("Sizes", c_void_p),
        ("Strides", c_void_p),
        ("TotalTensorSizeInBytes", c_uint64),
        ("GuaranteedBaseOffsetAlignment", c_uint32),
    ]


class DML_TENSOR_DESC(ctypes.Structure):
    _fields_ = [("Type", c_uint32), ("Desc", c_void_p)]


class DML_OPERATOR_DESC(ctypes.Structure):
    _fields_ = [("Type", c_uint32), ("Desc", c_void_p)]


class DML_BINDING_PROPERTIES(ctypes.Structure):
    RequiredDescriptorCount: int
    TemporaryResourceSize: int
    PersistentResourceSize: int
    _fields_ = [
        ("RequiredDescriptorCount", c_uint32),
        ("TemporaryResourceSize", c_uint64),
        ("PersistentResourceSize", c_uint64),
    ]


class DML_BINDING_TABLE_DESC(ctypes.Structure):
    _fields_ = [
        ("Dispatchable", c_void_p),
        ("CPUDescriptorHandle", c_size_t),
        ("GPUDescriptorHandle", c_uint64),
        ("SizeInDescriptors", c_uint32),
    ]


class DML_BINDING_DESC(ctypes.Structure):
    _fields_ = [("Type", c_uint32), ("Desc", c_void_p)]


class DML_BUFFER_BINDING(ctypes.Structure):
    _fields_ = [("Buffer", c_void_p), ("Offset", c_uint64), ("SizeInBytes", c_uint64)]


class DML_BUFFER_ARRAY_BINDING(ctypes.Structure):
    _fields_ = [("BindingCount", c_uint32), ("Bindings", c_void_p)]


class DML_GRAPH_NODE_DESC(ctypes.Structure):
    _fields_ = [("Type", c_uint32), ("Desc", c_void_p)]


class DML_OPERATOR_GRAPH_NODE_DESC(ctypes.Structure):
    _fields_ = [("Operator", c_void_p), ("Name", c_void_p)]


class DML_GRAPH_EDGE_DESC(ctypes.Structure):
    _fields_ = [("Type", c_uint32), ("Desc", c_void_p)]


class DML_INPUT_GRAPH_EDGE_DESC(ctypes.Structure):
    _fields_ = [
        ("GraphInputIndex", c_uint32),
        ("ToNodeIndex", c_uint32),
        ("ToNodeInputIndex", c_uint32),
        ("Name", c_void_p),
    ]


class DML_OUTPUT_GRAPH_EDGE_DESC(ctypes.Structure):
    _fields_ = [
        ("FromNodeIndex", c_uint32),
        ("FromNodeOutputIndex", c_uint32),
        ("GraphOutputIndex", c_uint32),
        ("Name", c_void_p),
    ]


class DML_GRAPH_DESC(ctypes.Structure):
    _fields_ = [
        ("InputCount", c_uint32),
        ("OutputCount", c_uint32),
        ("NodeCount", c_uint32),
        ("Nodes", c_void_p),
        ("InputEdgeCount", c_uint32),
        ("InputEdges", c_void_p),
        ("OutputEdgeCount", c_uint32),
        ("OutputEdges", c_void_p),
        ("IntermediateEdgeCount", c_uint32),
        ("IntermediateEdges", c_void_p),
    ]


class DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT(ctypes.Structure):
    _fields_ = [("DataType", c_uint32)]


class DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT(ctypes.Structure):
    IsSupported: int
    _fields_ = [("IsSupported", c_int32)]


class DML_FEATURE_QUERY_FEATURE_LEVELS(ctypes.Structure):
    _fields_ = [("RequestedFeatureLevelCount", c_uint32), ("RequestedFeatureLevels", c_void_p)]


class DML_FEATURE_DATA_FEATURE_LEVELS(ctypes.Structure):
    MaxSupportedFeatureLevel: int
    _fields_ = [("MaxSupportedFeatureLevel", c_uint32)]


SIZES: dict[type[ctypes.Structure], int] = {
    D3D12_COMMAND_QUEUE_DESC: 16,
    D3D12_DESCRIPTOR_HEAP_DESC: 16,
    D3D12_HEAP_PROPERTIES: 20,
    D3D12_RESOURCE_DESC: 56,
    D3D12_RESOURCE_TRANSITION_BARRIER: 24,
    D3D12_RESOURCE_BARRIER: 32,
    D3D12_RANGE: 16,
    D3D12_CPU_DESCRIPTOR_HANDLE: 8,
    D3D12_GPU_DESCRIPTOR_HANDLE: 8,
    D3D12_MESSAGE: 32,
    DML_BUFFER_TENSOR_DESC: 48,
    DML_TENSOR_DESC: 16,
    DML_OPERATOR_DESC: 16,
    DML_BINDING_PROPERTIES: 24,
    DML_BINDING_TABLE_DESC: 32,
    DML_BINDING_DESC: 16,
    DML_BUFFER_BINDING: 24,
    DML_BUFFER_ARRAY_BINDING: 16,
    DML_GRAPH_NODE_DESC: 16,
    DML_OPERATOR_GRAPH_NODE_DESC: 16,
    DML_GRAPH_EDGE_DESC: 16,
    DML_INPUT_GRAPH_EDGE_DESC: 24,
    DML_OUTPUT_GRAPH_EDGE_DESC: 24,
    DML_GRAPH_DESC: 72,
    DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT: 4,
    DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT: 4,
    DML_FEATURE_QUERY_FEATURE_LEVELS: 16,
    DML_FEATURE_DATA_FEATURE_LEVELS: 4,
}
"""The size of each struct in bytes."""
