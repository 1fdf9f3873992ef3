"""The features of a case: its operator, types, sizes and values in single words and numbers, for conditions to compare.

What differs between operators comes from the descriptor: its members, its access map and its expansion. So an operator
that is registered from outside has its features without an entry here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from math import prod
from typing import TypeAlias

import numpy as np

from ..descriptors import OperatorDesc
from ..operators import OPERATORS, size_classes
from ..pseudocode import strides_of
from .case import INDEX_PATHS, Case
from .feature_names import FEATURES

Value: TypeAlias = int | str | bool

Features: TypeAlias = Mapping[str, Value]
"""Feature -> value. A feature that the case does not have is absent. `same_sizes(…)` gives the names of further
entries."""

CATEGORIES = tuple(name for name, feature in FEATURES.items() if feature.kind == "word")
"""The features whose values are words."""

FLAGS = tuple(name for name, feature in FEATURES.items() if feature.kind == "flag")
"""The features whose values are true or false."""

NEGATIVE = "a negative "
"""The beginning of the name of a feature that says whether an array of numbers has a negative one."""

SMALL_NUMBERS = tuple(name for name, feature in FEATURES.items() if feature.few_values)
"""The numbers that have few values, so that each value is worth a look of its own."""


def features(case: Case) -> dict[str, Value]:
    """Returns the features of a case with a valid descriptor; all but `call`, which belongs to a run."""
    features: dict[str, Value] = {
        **_of_descriptor(case.desc),
        **_of_indices(case),
        "variant": case.layout or case.variant,
    }
    if case.desc.index_tensors():
        features["index_path"] = _index_path(case)
        if features.get("computed_indices") is False:
            features["computed_indices"] = features["index_path"] == "node"
    if case.data_pattern is not None:
        features["data_pattern"] = case.data_pattern.rstrip("0123456789")
    return features


def is_number(name: str) -> bool:
    """Returns whether the values of a feature are whole numbers."""
    return name not in (*CATEGORIES, *FLAGS) and " == " not in name and not name.startswith(NEGATIVE)


def is_enumeration(name: str) -> bool:
    """Returns whether a feature says that an enumeration has a certain value: `PaddingMode == EDGE`."""
    return " == " in name and ".Sizes" not in name


def same_sizes(field: str, other_field: str) -> str:
    """Returns the name of the feature that says whether two fields have equal values: `A.Sizes == B.Sizes`."""
    return f"{field} == {other_field}"


def _of_descriptor(desc: OperatorDesc) -> dict[str, Value]:
    output = desc.output
    features: dict[str, Value] = {
        "operator": desc.operator,
        "data_type": output.data_type.name,
        "data_width": output.data_type.size,
        "dimension_count": output.dimension_count,
        "output_elements": output.element_count,
        "output_bytes": output.element_count * output.data_type.size,
    }
    if output.sizes:
        features["last_length"] = output.sizes[-1]
    features |= {
        member: desc.numbers[n] for n, member in desc.members().items() if n in desc.numbers and member in FEATURES
    }
    features |= _of_members(desc)
    for name in desc.own_spec.strided:
        features["layout"] = size_classes.layout(desc.tensors[name])
    if "axis" in features:
        features["axis_from_end"] = output.dimension_count - 1 - int(features["axis"])
    if desc.index_bounds:
        features |= _of_access(desc) | _of_node(desc)
    single = sorted(name for name in desc.tensors if name in desc.members())  # not one of many in an array
    for first, second in itertools.combinations(single, 2):
        features[same_sizes(f"{first}.Sizes", f"{second}.Sizes")] = (
            desc.tensors[first].sizes == desc.tensors[second].sizes
        )
    return features


def _of_members(desc: OperatorDesc) -> Iterator[tuple[str, Value]]:
    """Gives the features that follow from the kinds of the members: enumerations, other numbers, and arrays."""
    spec = desc.spec()
    for field in spec.fields:
        value = desc.numbers.get(field.name)
        says_no_more = {*spec.scalars, *spec.scalars.values(), *spec.implied}
        if value is None or field.name in says_no_more or desc.members()[field.name] in FEATURES:
            continue
        if field.names:
            yield from ((same_sizes(field.name, name), field.number(name) == value) for name in field.names)
        elif isinstance(value, tuple):
            yield f"largest {field.name}", max(map(abs, value), default=0)
            if field.limits[0] < 0:
                yield f"{NEGATIVE}{field.name}", min(value, default=0) < 0
        else:
            yield field.name, value
    for name in spec.arrays:
        sizes = {tensor.sizes for tensor in getattr(desc, desc.members()[name])}
        yield same_sizes(f"{name}.Sizes", "one another"), len(sizes) == 1


def _of_node(desc: OperatorDesc) -> dict[str, Value]:
    """Returns the ranks of the ONNX node that stands for the descriptor, and whether its indices are converted or
    reshaped.

    There are none if ONNX cannot express the descriptor.
    """
    lowering = OPERATORS[desc.operator].expressed(desc)
    if lowering is None:
        return {}
    (data, *_), (indices, *_) = desc.own_spec.data_tensors, desc.index_tensors()
    tensor = desc.tensors[indices]
    as_it_is = tensor.data_type in lowering.index_types.get(indices, (tensor.data_type,))
    return {
        "node_rank": len(lowering.shapes[data]),
        "node_index_rank": len(lowering.shapes[indices]),
        "node_output_rank": len(desc.output.sizes if lowering.output_shape is None else lowering.output_shape),
        "computed_indices": not as_it_is or lowering.shapes[indices] != tensor.sizes,
    }


def _of_access(desc: OperatorDesc) -> dict[str, Value]:
    """Returns the features of the indices and of the indexed dimensions; the descriptor has index tensors."""
    expansion = desc.expansion()
    features: dict[str, Value] = {
        "index_type": desc.tensors[desc.index_tensors()[0]].data_type.name,
        "axis_length": max(size for bounds in desc.index_bounds.values() for size in bounds),
        "index_count": max(desc.index_counts.values()),
        "index_bytes": sum(
            t.element_count * t.data_type.size for n, t in desc.inputs.items() if n in desc.index_tensors()
        ),
    }
    for side in (move.indexed_side for move in desc.access.moves if move.indexed_side.axis_dimensions):
        features |= {
            "before": prod(side.sizes[: side.axis_dimensions[0]]),
            "block": prod(side.sizes[side.axis_dimensions[-1] + 1 :]),
            "index_rank": max(len(read.steps) + (read.tensor in expansion.tuples) for read in side.all_reads),
        }
        break
    if expansion.tuples:
        features["tuple_size"] = max(expansion.tuples.values())
        features["batch_dimensions"] = len(expansion.series.get("batch", ()))
    return features


def _of_indices(case: Case) -> dict[str, Value]:
    """Returns the largest index, and whether there are negative and equal indices."""
    bounds = case.desc.index_bounds
    if not bounds:
        return {}
    negative = duplicates = False
    largest = 0
    for name, sizes in bounds.items():
        values = np.asarray(case.tensors[name].integers).astype(np.int64).reshape(-1, len(sizes))
        negative = negative or bool((values < 0).any())
        largest = max(largest, int(values.max(initial=0)))
        duplicates = duplicates or len(values) > prod(sizes)
        if not duplicates:
            places = (values % np.array(sizes)) @ np.array(strides_of(sizes))
            duplicates = len(np.unique(places)) < len(places)
    return {"negative": negative, "largest_index": largest, "duplicates": duplicates}


def _index_path(case: Case) -> str:
    """Returns the class of INDEX_PATHS.

    A variant of several words, as `init.serialized`, has the path of one of its words.
    """
    words = case.variant.split(".")
    single_element = all(case.desc.tensors[name].element_count == 1 for name in case.desc.index_tensors())
    paths = [path for path, variant in INDEX_PATHS.items() if variant in words]
    return paths[single_element and len(paths) > 1] if paths else "input"
