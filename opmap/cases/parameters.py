"""The parameters that the cases of every operator have, with their classes; which class a case has of each."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import ModuleType

from ..descriptors import OperatorDesc
from ..operators import OPERATORS, size_classes
from ..tensors import DataType
from .case import Case, case_id
from .values import DATA_PATTERNS, INDEX_PATTERNS, Filled, allows, rounds, shows, signed

PATHS = ("input", "initializer", "one", "node")
"""Classes of the index path: `one` is an initializer of one element, which an EP may make part of its program."""

WORLD = (4, 3)
"""Dimensions and sizes up to which `full` has every valid descriptor."""

WIDTHS = (DataType.UINT8, DataType.FLOAT16, DataType.FLOAT32, DataType.INT64)
"""One data type of each width."""


def parameters(module: ModuleType) -> dict[str, tuple[str, ...]]:
    """Every parameter of an operator with its size_classes."""
    support = module.Desc.spec().support[0]
    data, indices = (support.tensors[name] for name in module.Desc.spec().tensors("input"))
    low, high = data.dimension_counts
    return {
        "data_type": data.data_types,
        "dimensions": tuple(str(n) for n in range(low, high + 1)),
        "axis_length": tuple(size_classes.LENGTHS),
        "output_elements": size_classes.ELEMENTS,
        "output_bytes": size_classes.BYTES,
        "index_count": ("1", "many"),
        **module.PARAMETERS,
        "index_type": indices.data_types,
        "index_pattern": INDEX_PATTERNS,
        "data_pattern": DATA_PATTERNS,
        "index_path": PATHS,
    }


def classify_desc(desc: OperatorDesc) -> dict[str, str | None]:
    """The class that a descriptor has of each parameter that sizes and types decide."""
    ((name, bounds),) = desc.index_bounds.items()
    first, output, indices = next(iter(desc.inputs.values())), desc.output, desc.tensors[name]
    count = indices.element_count // len(bounds)
    return {
        "data_type": first.data_type.name,
        "dimensions": str(first.dimension_count),
        "axis_length": size_classes.length(max(bounds)),
        "output_elements": size_classes.elements(output.element_count),
        "output_bytes": size_classes.whole(output.element_count * output.data_type.size),
        "index_count": "1" if count == 1 else "many" if count > 2 else None,
        **OPERATORS[desc.operator].classify(desc),
        "index_type": indices.data_type.name,
    }


def classes_beside(desc: OperatorDesc) -> set[tuple[str, str]]:
    """The wide and large classes that a descriptor has, which no array has: (parameter, class)."""
    found = classify_desc(desc).items()
    return {(n, c) for n, c in found if c in size_classes.WIDE.get(n, ()) or c in size_classes.LARGE.get(n, ())}


def is_large(desc: OperatorDesc) -> bool:
    """Whether a descriptor has a class that `full` alone has."""
    return any(c in size_classes.LARGE.get(n, ()) for n, c in classes_beside(desc))


def classify(case: Case) -> dict[str, str | None]:
    """The class that a case has of each parameter; None for what is in no class."""
    ((name, bounds),) = case.desc.index_bounds.items()
    words = case.id.split("/")
    pattern = words[3].split(".")[1] if len(words) == 5 else ""
    indices = case.tensors[name]
    shown = pattern in INDEX_PATTERNS and shows(pattern, list(indices.values), bounds)
    data = words[-1].split(".")[0].rstrip("0123456789")
    one = len(indices.bits) == 1
    return {
        **classify_desc(case.desc),
        "index_pattern": pattern if shown else None,
        "data_pattern": data if len(words) == 5 and data in DATA_PATTERNS else None,
        "index_path": ("one" if one else "initializer") if case.index_path == "initializer" else case.index_path,
    }


def possible_values(desc: OperatorDesc, choice: Mapping[str, str]) -> bool:
    """Whether a descriptor can have the values and the index path that are chosen."""
    ((name, bounds),) = desc.index_bounds.items()
    count = desc.tensors[name].element_count
    pattern, path = choice["index_pattern"], choice["index_path"]
    return (
        (DataType[choice["index_type"]].kind == "signed" or not signed(pattern))
        and allows(pattern, count // len(bounds), prod(bounds))
        and (path not in ("initializer", "one") or (path == "one") == (count == 1))
    )


def cases_of(module: ModuleType, choice: Mapping[str, str]) -> list[Case]:
    """The cases with the classes of a choice, one for each round of its data; none where that is impossible."""
    desc = module.build(choice)
    if desc is None or not possible_values(desc, choice):
        return []
    return cases_with(desc, choice["index_pattern"], choice["data_pattern"], choice["index_path"])


def cases_with(desc: OperatorDesc, pattern: str, data: str, path: str = "input") -> list[Case]:
    """The cases of a descriptor with values of these patterns, one for each round."""
    index_path = "initializer" if path == "one" else path
    found = []
    for name in rounds(desc, data):
        id = case_id(desc, pattern, name, index_path)
        found.append(Case(id, desc, Filled(desc, id, pattern, name), index_path=index_path))
    return found
