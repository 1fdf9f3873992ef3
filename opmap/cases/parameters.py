"""The parameter space of an operator: parameters, each with equivalence classes. Classifies descriptors and cases.

An operator's file declares its own parameters. This module adds the parameters that every operator has.
"""

from __future__ import annotations

from math import prod

from ..descriptors import OperatorDesc
from ..operators import OPERATORS, Operator, size_classes
from ..tensors import DataType
from .case import INDEX_PATHS, Case, case_id, id_parts
from .values import DATA_PATTERNS, Filled, allows, index_patterns, rounds, signed
from .written_once import group_of

WIDTHS = (DataType.UINT8, DataType.FLOAT16, DataType.FLOAT32, DataType.INT64)
"""One data type of each width in bytes."""

_INTEGERS = (DataType.UINT16, DataType.UINT32, DataType.UINT64)
"""The data types that stand for a width if the page does not have that of WIDTHS, or the ONNX node does not take it."""


def widths(operator: Operator) -> list[DataType]:
    """Returns a data type of each width that the operator has: that of WIDTHS, or else an integer."""
    return operator.one_of_each_width((*WIDTHS, *_INTEGERS))


_OF_INDICES = ("axis_length", "index_count", "index_type", "index_pattern", "index_path")


def parameters(operator: Operator) -> dict[str, tuple[str, ...]]:
    """Returns every parameter of an operator with its classes, in the order of the covering arrays' columns.

    An operator without index tensors lacks the parameters that describe indices, one without data tensors those that
    describe data.
    """
    descriptor = operator.descriptor
    support = descriptor.spec().support[0]
    data = support.tensors[descriptor.spec().first_data]
    indices = descriptor.index_tensors()
    low, high = operator.dimension_counts
    classes = {
        "data_type": data.data_types,
        "dimensions": tuple(str(n) for n in range(low, high + 1)),
        "axis_length": tuple(size_classes.LENGTHS),
        "output_elements": size_classes.ELEMENTS,
        "output_bytes": size_classes.BYTES,
        "index_count": ("1", "many"),
        **operator.parameters,
        "index_type": support.tensors[indices[0]].data_types if indices else (),
        "index_pattern": index_patterns(descriptor.spec()),
        "data_pattern": DATA_PATTERNS if descriptor.data_tensors() else (),
        "index_path": tuple(INDEX_PATHS),
    }
    classes |= operator.parameters
    return {n: names for n, names in classes.items() if names and (indices or n not in _OF_INDICES)}


def classify_desc(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns {parameter: class} for each parameter that depends on sizes and types.

    The class is None if the descriptor is in none of the parameter's classes.
    """
    first, output, indices = desc.first_data, desc.output, desc.index_tensors()
    counts, own = desc.index_counts.values(), OPERATORS[desc.operator]
    longest = max((size for bounds in desc.index_bounds.values() for size in bounds), default=0)
    classes = {
        "data_type": first.data_type.name,
        "dimensions": str(first.dimension_count),
        "axis_length": size_classes.length(longest) if indices else None,
        "output_elements": size_classes.elements(output.element_count),
        "output_bytes": size_classes.whole(output.element_count * output.data_type.size),
        "index_count": ("1" if max(counts) == 1 else "many" if min(counts) > 2 else None) if indices else None,
        **own.classify(desc),
        "index_type": desc.tensors[indices[0]].data_type.name if indices else None,
    }
    kept = (name for name in classes if own.parameters.get(name) != () and (indices or name not in _OF_INDICES))
    return {name: classes[name] for name in kept}


def extra_classes(desc: OperatorDesc) -> set[tuple[str, str]]:
    """Returns the wide and large classes of a descriptor, as (parameter, class). No covering array has them."""
    classes = classify_desc(desc)
    return {
        (name, c)
        for table in (size_classes.WIDE, size_classes.LARGE)
        for name, wide in table.items()
        if (c := classes.get(name)) is not None and c in wide
    }


_LARGE = min(number for classes in size_classes.LARGE.values() for number in classes.values())


def is_large(desc: OperatorDesc) -> bool:
    """Returns whether a descriptor has a class that only `full` contains."""
    if max(tensor.element_count for tensor in desc.tensors.values()) < _LARGE:
        return False
    return any(c in size_classes.LARGE.get(name, ()) for name, c in extra_classes(desc))


def classify(case: Case) -> dict[str, str | None]:
    """Returns {parameter: class} for a case; None for a parameter if the case is in none of its classes.

    An index pattern counts only if the indices are enough to show it.
    """
    classes = classify_desc(case.desc)
    if case.desc.data_tensors():
        classes["data_pattern"] = case.data_pattern
    if case.desc.index_tensors():
        pattern = case.index_pattern
        classes["index_pattern"] = pattern if pattern and allows_pattern(case.desc, pattern) else None
        single_element = all(case.desc.tensors[name].element_count == 1 for name in case.desc.index_tensors())
        paths = [path for path, variant in INDEX_PATHS.items() if variant == case.variant]
        classes["index_path"] = paths[single_element and len(paths) > 1] if paths else None
    return classes


def allows_pattern(desc: OperatorDesc, pattern: str) -> bool:
    """Returns whether each index tensor of a descriptor has enough indices and elements for an index pattern."""
    return all(
        allows(pattern, count, prod(desc.index_bounds[name]), group_of(desc, name))
        for name, count in desc.index_counts.items()
    )


def possible_patterns(desc: OperatorDesc, index_type: DataType) -> list[str]:
    """Returns the index patterns that a descriptor with index tensors can have, with an index type."""
    patterns = (p for p in index_patterns(desc.spec()) if index_type.kind == "signed" or not signed(p))
    return [p for p in patterns if allows_pattern(desc, p)]


def possible_forms(desc: OperatorDesc, index_type: DataType) -> list[tuple[str, str]]:
    """Returns each pair of an index pattern and an index path that a descriptor with index tensors can have."""
    patterns = possible_patterns(desc, index_type)
    single_element = all(desc.tensors[name].element_count == 1 for name in desc.index_tensors())
    impossible = "initializer" if single_element else "one"
    return [(pattern, path) for pattern in patterns for path in INDEX_PATHS if path != impossible]


def cases_with(desc: OperatorDesc, pattern: str, data: str, path: str = "input") -> list[Case]:
    """Returns the cases of a descriptor with values of these patterns, one for each round.

    `path` is a class of INDEX_PATHS.
    """
    variant = INDEX_PATHS[path]
    return [filled_case(desc, case_id(desc, pattern, name, variant)) for name in rounds(desc, data)]


def filled_case(desc: OperatorDesc, id: str) -> Case:
    """Returns the case of a descriptor with this id, which says how the inputs are filled."""
    parts, (pattern, data) = id_parts(id), patterns_of(id)
    values = Filled(desc, id, pattern, data)
    return Case(id, desc, values, None, parts["index_path"], pattern or None, parts["data"].strip("-") or None)


def patterns_of(id: str) -> tuple[str, str]:
    """Returns the index pattern and the data pattern, with its round, of a generated case's id; an empty text for
    none.
    """
    parts = id_parts(id)
    return parts["index_pattern"].strip("-"), parts["round"].strip("-")
