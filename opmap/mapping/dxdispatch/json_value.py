"""JSON values that know their path in the file, so that every error can say where."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, TypeVar, cast

import msgspec

from ...errors import InputError, names, shown
from ...limits import MAX_BRACKETS, MAX_DIGITS, MAX_NESTING
from ...tensors import plain

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

UInt32 = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
UInt64 = Annotated[int, msgspec.Meta(ge=0)]  # msgspec has no bound of 64 bits

_T = TypeVar("_T")

_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def parse_json(text: str) -> JsonValue:
    """Returns the root value of a JSON text. Raises InputError if the text is no JSON, too large or nested too deeply.

    Comments and trailing commas are allowed. Text after the root value is ignored, as DxDispatch ignores it.
    """
    import pyjson5

    brackets = text.count("{") + text.count("[")
    if brackets > MAX_BRACKETS:
        raise InputError(f"must have at most {MAX_BRACKETS} objects and arrays, got {brackets}", path="$")
    try:
        return JsonValue(pyjson5.decode(text, maxdepth=MAX_NESTING, some=True), "$")
    except pyjson5.Json5NestingTooDeep:
        raise InputError(f"must be nested at most {MAX_NESTING} deep", path="$") from None
    except pyjson5.Json5Exception as error:
        problem = re.sub(r"\bb'(\w+)'", r"\1", str(error.args[0]))  # pyjson5 quotes characters as bytes: b'x'
        problem = re.sub(r"\bnear (\d+)", lambda near: f"at {_place(text, int(near[1]))}", problem)
        problem = re.sub(r"\bfound U\+\w+$", "got ", problem)
        problem += shown(error.args[2]) if problem.endswith("got ") else ""
        if re.search(rf"\d{{{MAX_DIGITS + 1}}}", text):
            problem = f"a number must have at most {MAX_DIGITS} digits"
        raise InputError(f"must be JSON: {problem}", path="$") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"must be JSON: {error}", path="$") from None


def _place(text: str, number: int) -> str:
    """Returns line and column of a character, which pyjson5 numbers from 1 on."""
    before = text[: max(number - 1, 0)]
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


@cache
def _numbers(low: int, high: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=low, le=high)]


class JsonValue:
    """A JSON value and its path. Each method raises InputError if the value is not of the kind that it is about."""

    def __init__(self, value: Json, path: str):
        self.value, self.path = value, path

    def object(self) -> JsonValue:
        """Returns the value itself, if it is an object."""
        if not isinstance(self.value, dict):
            raise InputError(f"must be an object, got {self.kind}", path=self.path)
        return self

    @property
    def members(self) -> dict[str, Json]:
        """The members of an object by name."""
        return cast("dict[str, Json]", self.object().value)

    def member(self, *spellings: str) -> JsonValue:
        """Returns the member with the first of these names that is present. Raises InputError if there is none."""
        member = self.optional_member(*spellings)
        if member is None:
            raise InputError(f"must hold {spellings[0]}, got {names(self.members) or 'nothing'}", path=self.path)
        return member

    def optional_member(self, *spellings: str) -> JsonValue | None:
        """Returns the member with the first of these names that is present, or None."""
        for name in spellings:
            if name in self.members:
                return JsonValue(self.members[name], self.path_of(name))
        return None

    def path_of(self, name: str) -> str:
        """Returns the path of a member."""
        return f"{self.path}.{name}" if name.isidentifier() else f"{self.path}[{json.dumps(name)}]"

    def elements(self) -> Iterator[JsonValue]:
        """Gives the elements of an array."""
        if not isinstance(self.value, list):
            raise InputError(f"must be an array, got {self.kind}", path=self.path)
        return (JsonValue(element, f"{self.path}[{i}]") for i, element in enumerate(self.value))

    def check_count(self, limit: int, what: str) -> None:
        """Raises InputError if the value is an array of more elements than the limit; `what` names the elements."""
        if isinstance(self.value, list) and len(self.value) > limit:
            raise InputError(f"must be at most {limit} {what}, got {len(self.value)}", path=self.path)

    def check_finite(self, name: str = "") -> None:
        """Raises InputError for a bare NaN or infinity, which JSON cannot write: DxDispatch wants a string."""
        if isinstance(self.value, float) and not math.isfinite(self.value):
            wanted = 'a JSON number, or "NaN", "Inf" or "-Inf" as a string'
            raise InputError(f"{name}must be {wanted}, got {self.kind}", path=self.path)

    def string(self) -> str:
        """Returns the value as a string."""
        if not isinstance(self.value, str):
            raise InputError(f"must be a string, got {self.kind}", path=self.path)
        return self.value

    def number(self, low: int = 0, high: int = 2**32 - 1) -> int:
        """Returns the value as a number from `low` to `high`."""
        number: int = self._convert(_numbers(low, high))
        return number

    def size(self) -> int:
        """Returns the value as a number that is not negative."""
        number: int = self._convert(UInt64)
        return number

    def struct(self, type: type[_T]) -> _T:
        """Returns the value as an instance of a msgspec Struct."""
        instance: _T = self._convert(type)
        return instance

    def _convert(self, type: Any) -> Any:
        try:
            return msgspec.convert(self.value, type=type)
        except msgspec.ValidationError as error:
            message, _, at = str(error).partition(" - at `")
            at = at.rstrip("`").removeprefix("$")
            message = message.replace("`", "").replace("Expected ", "must be ").replace("Object ", "")
            if ", got" not in message and message.startswith("must be"):
                message += f", got {shown(_value_at(self.value, at))}"
            raise InputError(message, path=self.path + at) from None

    @property
    def kind(self) -> str:
        """What the value is, in words for a message: `an array`, `the number 7`."""
        if isinstance(self.value, float) and not math.isfinite(self.value):
            return f"a bare {plain(self.value)}"
        number = shown(self.value)
        return _KINDS.get(type(self.value)) or (number if number.startswith("a number") else f"the number {number}")


def _value_at(value: Json, path: str) -> Json:
    """Returns the value that a path such as `.Sizes[0]` leads to, starting at `value`."""
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        if isinstance(value, dict):
            value = value[name]
        elif isinstance(value, list):
            value = value[int(index)]
    return value
