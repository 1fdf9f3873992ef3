"""Completes the document of a spec file: what follows from the rest of it may be left out there.

- `operator` and the members of `page` follow from `struct`, as Microsoft names its pages; `page.commit` stands alone.
- `[rules.C1]`, `[errata.E1]` and `[examples.1]` have the id as a key, without the operator's name. A rule without a
  line is derived.
- `alike = { line = 76, tensors = "ATensor BTensor OutputTensor" }` stands for the first rules, C1 and so on: these
  tensors have one number of dimensions, one data type, and the same sizes. Example 1 with sizes {2,2} breaks them.
- The `text` of a rule follows from a check such as `OutputTensor.DataType == InputTensor.DataType`, and from `support`.
- A table of types has one text for tensors that are alike: `"ATensor BTensor" = "1 to 8: FLOAT32, UINT64 to UINT8"`.
  `to` stands for the types between, in the order of TYPES.
- `like = "max_pooling2"`: what the document does not have is taken from that one, whose page has the same words or
  describes a newer version. What names a field in `lacks = ["Dilations"]` is not taken. An entry that is `false` is
  left out.

A document in the long form, with lists, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

_ALIKE = re.compile(r"(\w+)Tensor\.(DimensionCount|DataType|Sizes) ==? (\w+)Tensor\.\2")
_ATTRIBUTES = {"DimensionCount": "number of dimensions", "DataType": "data type", "Sizes": "sizes"}

TYPES = (
    *("FLOAT64", "FLOAT32", "FLOAT16", "INT64", "INT32", "INT16", "INT8"),
    *("UINT64", "UINT32", "UINT16", "UINT8"),
)
_TABLE = re.compile(r"(\d+)(?: to (\d+))?: (.+)")

SUPPORT = "The feature level supports the data types and dimension counts of the tensors."


def shared(document: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns the document with what it has from the one that it is like; `others` are the documents by file name."""
    if "like" not in document:
        return document
    own = dict(document)
    base, lacks = others[own.pop("like")], own.pop("lacks", [])
    whole: dict[str, Any] = _merged(base, own)
    return _without(whole, re.compile(rf"\b({'|'.join(lacks)})\b")) if lacks else whole


def _merged(base: Any, own: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(own, dict):
        return own
    whole = base | {key: _merged(base.get(key), value) for key, value in own.items()}
    return {key: value for key, value in whole.items() if value is not False}


def _without(value: Any, lacking: re.Pattern[str]) -> Any:
    """Returns a part of a document without the lines and entries that name a lacking field; None if nothing stays.

    A table of which a text is left out is left out too, and one that sets such a field.
    """
    if isinstance(value, str):
        return "\n".join(line for line in value.split("\n") if not lacking.search(line)) or None
    if isinstance(value, list):
        return [part for part in (_without(part, lacking) for part in value) if part is not None]
    if not isinstance(value, dict):
        return value
    if any(isinstance(part, str) and part and _without(part, lacking) is None for part in value.values()):
        return None
    if any(map(lacking.search, value.get("set", ()))):
        return None
    parts = {key: _without(part, lacking) for key, part in value.items()}
    return {key: part for key, part in parts.items() if part is not None}


def completed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the whole document. What has another type than it should have stays, so that the decoding refuses it."""
    struct = str(document.get("struct"))
    name = struct.removeprefix("DML_").removesuffix("_OPERATOR_DESC")
    whole: dict[str, Any] = {"operator": f"DML_OPERATOR_{name}", **document}
    page = document.get("page")
    if isinstance(page, dict):
        file = f"ns-directml-{struct.lower()}"
        whole["page"] = {
            "id": f"NS:directml.{struct}",
            "address": f"https://learn.microsoft.com/windows/win32/api/directml/{file}",
            "repository": "MicrosoftDocs/sdk-api",
            "path": f"sdk-api-src/content/directml/{file}.md",
            **page,
        }
    for part, prefix in (("rules", f"{name}."), ("errata", f"{name}."), ("examples", "")):
        entries = document.get(part)
        if isinstance(entries, dict):
            whole[part] = [*_with_ids(entries, prefix, rules=part == "rules")]
    if isinstance(alike := whole.pop("alike", None), dict):
        whole["rules"] = [*_alike(alike, f"{name}.C"), *whole.get("rules", ())]
    tables = document.get("support")
    if isinstance(tables, list):
        whole["support"] = [_written_out(table) if isinstance(table, dict) else table for table in tables]
    return whole


def _written_out(table: dict[str, Any]) -> dict[str, Any]:
    """Returns a table of types with an entry for each tensor."""
    if not isinstance(table.get("tensors"), dict):
        return table
    return table | {"tensors": {n: _supported(own) for names, own in table["tensors"].items() for n in names.split()}}


def _supported(own: object) -> object:
    """Returns the dimension counts and data types that a text of a table says."""
    match = _TABLE.fullmatch(own) if isinstance(own, str) else None
    if not match:
        return own
    names: list[str] = []
    for part in match[3].split(", "):
        first, _, last = part.partition(" to ")
        ends = [TYPES.index(name) for name in (first, last or first) if name in TYPES]
        names += TYPES[ends[0] : ends[-1] + 1] if len(ends) == 2 else [part]
    return {"dimension_counts": [int(match[1]), int(match[2] or match[1])], "data_types": names}


def _alike(alike: Mapping[str, Any], prefix: str) -> Iterator[dict[str, Any]]:
    """Gives the rules of tensors that are alike: first those of the number of dimensions, last those of the sizes."""
    first, *others = str(alike.get("tensors")).split()
    breaks = {"DimensionCount": [1, 2, 2], "DataType": "UINT32", "Sizes": [2, 1]}
    for number, (attribute, tensor) in enumerate(product(breaks, others), 1):
        is_given = attribute == "Sizes" and tensor.startswith("Output")
        check = f"{tensor}.{attribute} {'=' if is_given else '=='} {first}.{attribute}"
        changed = tensor + (".DataType" if attribute == "DataType" else ".Sizes")
        rule = {"id": f"{prefix}{number}", "line": alike.get("line"), "check": check, **_text(check)}
        yield rule | {"breaks": {"example": "1", "set": {changed: breaks[attribute]}}}


def _with_ids(entries: Mapping[str, Any], prefix: str, *, rules: bool) -> Iterator[Any]:
    for key, entry in entries.items():
        if not isinstance(entry, dict):
            yield entry
            continue
        implied = {"derived": "line" not in entry, **_text(entry.get("check"))} if rules else {}
        yield {"id": prefix + key, **implied, **entry}


def _text(check: object) -> dict[str, str]:
    """Returns the text of a rule whose check says it."""
    if check == "support":
        return {"text": SUPPORT}
    alike = _ALIKE.fullmatch(check) if isinstance(check, str) else None
    if not alike:
        return {}
    first, second = (alike[i] if len(alike[i]) == 1 else alike[i].lower() for i in (1, 3))
    return {"text": f"{first.capitalize()} and {second} have the same {_ATTRIBUTES[alike[2]]}."}
