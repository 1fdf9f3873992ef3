"""COM objects made of Python functions: each has the virtual table of its interface, counts its references, and notes
calls."""

from __future__ import annotations

import ctypes
from ctypes import c_void_p

from opmap.engines.directml.com import Com, _methods, _prototype, iid, interfaces

OUT_OF_MEMORY = -2147024882


class FakeCom:
    """A COM object. `log` gets `Interface::Method` of each call; `fails` are the HRESULTs of such calls."""

    def __init__(self, name: str, log: list[str], fails: dict[str, int], made: list[FakeCom]):
        self.name, self.log, self.fails, self.made, self.references = name, log, fails, made, 1
        made.append(self)
        self.table = (c_void_p * table_length(name))()
        self._functions = []
        for method, described in _methods(name).items():
            function = _prototype(described)(self._method(method))
            self._functions.append(function)
            self.table[described.slot] = ctypes.cast(function, c_void_p).value
        self.pointer = c_void_p(ctypes.addressof(self.table))
        self.address = ctypes.addressof(self.pointer)

    @property
    def com(self) -> Com:
        return Com(self.address, self.name)

    def _method(self, method: str):
        call = f"{self.name}::{method}"
        described = _methods(self.name)[method]

        def answer(this, *arguments):
            self.log.append(call)
            if method == "Release":
                self.references -= 1
                return self.references
            if call in self.fails:
                return self.fails[call]
            if described.returns not in ("HRESULT", "none", "UINT", "UINT64"):
                return arguments[0]
            if len(arguments) > 1 and isinstance(arguments[-1], ctypes.POINTER(c_void_p)):
                created = FakeCom(_interface_of(arguments[-2]), self.log, self.fails, self.made)
                arguments[-1][0] = created.address
            return None if described.returns == "none" else 0

        return answer


def _interface_of(address: int) -> str:
    wanted = ctypes.string_at(address, 16)
    return next(name for name in interfaces() if bytes(iid(name)) == wanted)


def table_length(name: str) -> int:
    """Returns the number of methods in the virtual table of an interface."""
    interface = interfaces()[name]
    return interface.methods + (table_length(interface.extends) if interface.extends else 0)
