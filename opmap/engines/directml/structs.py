"""The structs of Direct3D 12, DirectML and Windows, with their constants, for a process of 64 bits.

The structs are attributes of this module, named as in their headers. structs.toml has their members.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_int32, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

TYPES: Mapping[str, Any] = {
    "INT": c_int32,
    "UINT": c_uint32,
    "UINT16": c_uint16,
    "INT64": c_int64,
    "UINT64": c_uint64,
    "SIZE_T": c_size_t,
    "pointer": c_void_p,
}
"""The types of members and arguments."""


class Described(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A struct: its size in bytes as the header gives it, and the type of each member in their order."""

    size: int
    members: dict[str, str]


@cache
def described() -> dict[str, Described]:
    """Returns every struct by its name."""
    return msgspec.toml.decode(files(__package__).joinpath("structs.toml").read_bytes(), type=dict[str, Described])


@cache
def struct(name: str) -> type[ctypes.Structure]:
    """Returns the struct of this name."""
    members = described()[name].members.items()
    fields = [(member, _type(kind)) for member, kind in members]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def _type(kind: str) -> Any:
    """Returns the type of a member: `UINT*9` is an array of nine."""
    element, _, count = kind.partition("*")
    element_type = TYPES.get(element) or struct(element)
    return element_type * int(count) if count else element_type


def __getattr__(name: str) -> type[ctypes.Structure]:
    if name not in described():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return struct(name)


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

# --- DirectML ---

DML_FEATURE_LEVEL_5_0 = 0x5000
DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT = 0
DML_TENSOR_TYPE_BUFFER = 1
DML_TENSOR_FLAG_OWNED_BY_DML = 1
DML_BINDING_TYPE_NONE, DML_BINDING_TYPE_BUFFER, DML_BINDING_TYPE_BUFFER_ARRAY = 0, 1, 2
DML_GRAPH_NODE_TYPE_OPERATOR = 1
DML_GRAPH_EDGE_TYPE_INPUT, DML_GRAPH_EDGE_TYPE_OUTPUT = 1, 2
DML_EXECUTION_FLAG_DISABLE_META_COMMANDS = 2
