"""COM interfaces: their tables as data, and calls through them. A call goes to the address in the object's virtual table."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, byref, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Self
from uuid import UUID

import msgspec

from .hresults import CallFailed, failed

_PAGES = "https://learn.microsoft.com/windows/win32/api"


class Method(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A method: its position in the virtual table, the type of its result, and the types of its arguments."""

    slot: int
    returns: str
    takes: tuple[str, ...]


class Interface(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A COM interface. `methods` is how many methods it adds to those of `extends`; `table` has the ones that are used."""

    header: str
    iid: str
    methods: int
    extends: str | None = None
    table: Mapping[str, Method] = {}

    def page(self, name: str, method: str) -> str:
        """Returns the address of the page about a method of this interface, whose name is `name`."""
        return f"{_PAGES}/{self.header}/nf-{self.header}-{name.lower()}-{method.lower()}"


@cache
def interfaces() -> dict[str, Interface]:
    """Returns every interface by its name."""
    content = files(__package__).joinpath("interfaces.toml").read_bytes()
    return msgspec.toml.decode(content, type=dict[str, Interface])


def length(name: str) -> int:
    """Returns the number of methods in the virtual table of an interface."""
    interface = interfaces()[name]
    return interface.methods + (length(interface.extends) if interface.extends else 0)


def methods(name: str) -> dict[str, Method]:
    """Returns the methods of an interface that are used, those of the interfaces that it extends included."""
    interface = interfaces()[name]
    return {**(methods(interface.extends) if interface.extends else {}), **interface.table}


_TYPES: dict[str, Any] = {
    "HRESULT": c_int32,
    "none": None,
    "INT": c_int32,
    "UINT": c_uint32,
    "UINT64": c_uint64,
    "SIZE_T": c_size_t,
    "GUID": c_void_p,
    "pointer": c_void_p,
    "created": POINTER(c_void_p),
}


class _Prototype(msgspec.Struct, frozen=True):
    """How a method is called: its position, the type of the function, and what its result is."""

    slot: int
    function: Any
    returns: str


@cache
def _prototypes(name: str) -> dict[str, _Prototype]:
    """Returns the prototypes of the methods of an interface.

    On 64-bit Windows there is one calling convention, so that CFUNCTYPE fits COM methods.
    """
    prototypes = {}
    for method, described in methods(name).items():
        arguments = [_TYPES[kind] for kind in described.takes]
        result = _TYPES.get(described.returns, c_void_p)
        if described.returns not in _TYPES:  # a struct comes back through a hidden pointer after the object
            arguments.insert(0, c_void_p)
        function = ctypes.CFUNCTYPE(result, c_void_p, *arguments)
        prototypes[method] = _Prototype(described.slot, function, described.returns)
    return prototypes


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
        """Calls a method, and returns its result. For a method that returns a struct, the first argument is its address.

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

    def _function(self, method: str) -> tuple[Any, str]:
        prototype = _prototypes(self.name)[method]
        function = self._functions[method] = prototype.function(self._table[prototype.slot]), prototype.returns
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
