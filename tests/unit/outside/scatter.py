"""DML_OPERATOR_SCATTER, defined outside the package: it copies a tensor and then writes chosen elements.

It has no ONNX lowering here, so only providers that run cases can run it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod

from opmap.descriptors import OperatorDesc, TensorDesc, complete_sizes
from opmap.operators import Operator, Outline, size_classes
from opmap.operators.random_source import draw_sizes
from opmap.pseudocode import COORDINATES, Expansion
from opmap.tensors import DataType


@dataclass(frozen=True, kw_only=True)
class Desc(OperatorDesc):
    """DML_SCATTER_OPERATOR_DESC."""

    operator = "SCATTER"
    short_names = {"Axis": "axis"}  # noqa: RUF012  # a ClassVar of the base class

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    updates_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int

    def expansion(self) -> Expansion:
        """Returns the page's coordinates i, j, k. With two dimensions there is no k, with one neither j nor k."""
        names = tuple(COORDINATES[: self.input_tensor.dimension_count])
        return Expansion(rest={}, series={"i": names[0:1], "j": names[1:2], "k": names[2:3]})


def outline(data, axis, length):
    """Returns the outline with an input of sizes `data` and with indices of this length along the axis."""
    indices = (*data[:axis], length, *data[axis + 1 :])
    return Outline({"InputTensor": data, "IndicesTensor": indices, "UpdatesTensor": indices}, {"Axis": axis})


def classify(desc):
    """Returns the class of the parameter `axis`."""
    return {"axis": size_classes.place(desc.axis, desc.input_tensor.dimension_count)}


def build(choice):
    """Returns a small descriptor with these classes; None if there is none."""
    count, data_type = int(choice["dimensions"]), DataType[choice["data_type"]]
    wanted = choice["output_elements"]
    if wanted in size_classes.LARGE["output_elements"]:
        return None
    lengths = size_classes.lengths(choice["axis_length"])
    numbers = [int(wanted)] if wanted != "other" else [n * k for n in lengths for k in (1, 2, 3, 4, 5)]
    for axis, n in itertools.product(size_classes.places(choice["axis"], count), numbers):
        for length in (d for d in range(1, n + 1) if n % d == 0):
            others = n // length
            if size_classes.length(length) != choice["axis_length"] or (count == 1 and others > 1):
                continue
            for along in (1, 3):
                indices = others * along
                if (
                    size_classes.elements(n) == wanted
                    and size_classes.whole(n * data_type.size) == choice["output_bytes"]
                    and (indices == 1 if choice["index_count"] == "1" else indices > 2)
                ):
                    sizes = size_classes.spread(others, count - 1)
                    made = outline((*sizes[:axis], length, *sizes[axis:]), axis, along)
                    return complete_sizes(Desc, *made, data_type=data_type, index_type=DataType[choice["index_type"]])
    return None


def world(dimensions, size):
    """Gives every valid descriptor with up to these dimensions and sizes."""
    for count in range(1, min(dimensions, 3) + 1):
        for axis in range(count):
            for data in itertools.product(range(1, size + 1), repeat=count):
                for length in range(1, size + 1):
                    yield outline(data, axis, length)


def draw(source, dimension_count, max_elements):
    """Returns a random descriptor."""
    axis = source.integer(0, dimension_count - 1)
    data = draw_sizes(source, dimension_count, max_elements)
    (length,) = draw_sizes(source, 1, max_elements // prod(data[:axis] + data[axis + 1 :]))
    return complete_sizes(Desc, *outline(data, axis, length))


def samples():
    """Gives one descriptor per dimension count."""
    for count in (1, 2, 3):
        yield complete_sizes(Desc, *outline((4, 3, 2)[:count], 0, 2))


OPERATOR = Operator(
    descriptor=Desc,
    parameters={"axis": size_classes.PLACES},
    classify=classify,
    build=build,
    world=world,
    draw=draw,
    samples=samples,
)
