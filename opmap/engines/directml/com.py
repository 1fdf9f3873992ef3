"""COM interfaces: their tables as data, and calls through them. A call goes to the address in the object's virtual
table."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, byref, c_int32, c_void_p
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Self
from uuid import UUID

import msgspec

from .hresults import CallFailed, failed
from .structs import TYPES


class Method(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A method: its position in the virtual table, the type of its result, and the types of its arguments."""

    slot: int
    returns: str
    takes: tuple[str, ...]


class Interface(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A COM interface.

    `methods` is how many methods it adds to those of `extends`; `table` has the ones that are used.
    """

    header: str
    iid: str
    methods: int
    extends: str | None = None
    table: Mapping[str, Method] = {}


@cache
def interfaces() -> dict[str, Interface]:
    """Returns every interface by its name."""
    content = files(__package__).joinpath("interfaces.toml").read_bytes()
    return msgspec.toml.decode(content, type=dict[str, Interface])


@cache
def _methods(name: str) -> dict[str, Method]:
    """Returns the methods of an interface that are used, those of the interfaces that it extends included."""
    interface = interfaces()[name]
    return {**(_methods(interface.extends) if interface.extends else {}), **interface.table}


_TYPES: dict[str, Any] = {
    **TYPES,
    "HRESULT": c_int32,
    "none": None,
    "GUID": c_void_p,
    "created": POINTER(c_void_p),
}


@cache
def _prototype(method: Method) -> Any:
    """Returns the type of the function behind a method.

    On 64-bit Windows there is one calling convention, so that CFUNCTYPE fits COM methods.
    """
    arguments = [_TYPES[kind] for kind in method.takes]
    if method.returns not in _TYPES:  # the caller passes a pointer to the struct that is returned, behind the object
        arguments.insert(0, c_void_p)
    return ctypes.CFUNCTYPE(_TYPES.get(method.returns, c_void_p), c_void_p, *arguments)


@cache
def iid(name: str) -> ctypes.Array[Any]:
    """Returns the interface id of an interface, as the 16 bytes of a GUID."""
    return ctypes.create_string_buffer(UUID(interfaces()[name].iid).bytes_le, 16)


class Com:
    """A pointer to a COM interface, with one reference, which `release` gives back.

    `name` is the interface's name. Used in `with`, it is released at the end.
    """

    def __init__(self, pointer: c_void_p | int, name: str):
        address = pointer.value if isinstance(pointer, c_void_p) else pointer
        if not address:
            raise ValueError(f"{name} must be a pointer, got NULL")
        self.address, self.name = address, name
        self._functions: dict[str, tuple[Any, str]] = {}

    @cached_property
    def _table(self) -> Any:
        table = c_void_p.from_address(self.address).value
        return ctypes.cast(table or 0, POINTER(c_void_p))

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method, and returns its result.

        For a method that returns a struct, the first argument is its address.

        Raises CallFailed if the method returns a failed HRESULT.
        """
        if not self.address:
            raise ValueError(f"{self.name} was released")
        function, returns = self._functions.get(method) or self._function(method)
        result = function(self.address, *arguments)
        if returns == "HRESULT" and result < 0:
            raise CallFailed(f"{self.name}::{method}", failed(result) or 0)
        return result

    def create(self, name: str, method: str, *arguments: Any) -> Com:
        """Calls a method that creates an object, and returns the object's interface `name`. Raises CallFailed."""
        created = c_void_p()
        self.call(method, *arguments, iid(name), byref(created))
        return Com(created, name)

    def _function(self, name: str) -> tuple[Any, str]:
        method = _methods(self.name)[name]
        function = self._functions[name] = _prototype(method)(self._table[method.slot]), method.returns
        return function

    def release(self) -> int:
        """Gives the reference back, once. Returns how many references are left, as the object says."""
        if not self.address:
            return 0
        references: int = self.call("Release")
        self.address = 0
        return references

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
