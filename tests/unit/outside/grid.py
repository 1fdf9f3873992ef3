"""GRID, defined outside the package: an operator with two index tensors and without numbers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from opmap.descriptors import OperatorDesc, TensorDesc, complete_sizes, pad
from opmap.operators import Operator, Outline, size_classes
from opmap.operators.random_source import draw_sizes
from opmap.pseudocode import Expansion
from opmap.tensors import DataType


@dataclass(frozen=True, kw_only=True)
class Desc(OperatorDesc):
    """Rows and columns of a matrix, each chosen by its own index tensor."""

    operator = "GRID"
    short_names = {}  # noqa: RUF012  # a ClassVar of the base class

    input_tensor: TensorDesc
    rows_tensor: TensorDesc
    columns_tensor: TensorDesc
    output_tensor: TensorDesc

    def expansion(self) -> Expansion:
        """Returns an empty expansion: the page's line is concrete."""
        return Expansion(rest={})


def outline(data, rows, columns, count):
    """Returns the outline with this matrix and these numbers of indices, padded to `count` dimensions."""
    sizes = {"InputTensor": data, "RowsTensor": (rows,), "ColumnsTensor": (columns,)}
    return Outline({name: pad(size, count) for name, size in sizes.items()}, {})


def classify(desc):
    """Returns the class of the parameter `shape`."""
    rows, columns = desc.rows_tensor.sizes[-1], desc.columns_tensor.sizes[-1]
    return {"shape": "square" if rows == columns else "tall" if rows > columns else "flat"}


def build(choice):
    """Returns a small descriptor with these classes; None if there is none."""
    data_type, wanted = DataType[choice["data_type"]], choice["output_elements"]
    if wanted in size_classes.LARGE["output_elements"]:
        return None
    length = size_classes.lengths(choice["axis_length"])[0]
    numbers = [int(wanted)] if wanted != "other" else [1, 9, 12, 15, 3, 16, 4, 25]
    for n in numbers:
        for rows in (d for d in range(1, n + 1) if n % d == 0):
            columns = n // rows
            made = outline((min(length, 2), length), rows, columns, int(choice["dimensions"]))
            desc = complete_sizes(Desc, *made, data_type=data_type, index_type=DataType[choice["index_type"]])
            if (
                size_classes.elements(n) == wanted
                and size_classes.whole(n * data_type.size) == choice["output_bytes"]
                and classify(desc)["shape"] == choice["shape"]
                and (max(rows, columns) == 1 if choice["index_count"] == "1" else min(rows, columns) > 2)
            ):
                return desc
    return None


def world(dimensions, size):
    """Gives every valid descriptor with up to these dimensions and sizes."""
    for count in range(2, dimensions + 1):
        for height, width, rows, columns in itertools.product(range(1, size + 1), repeat=4):
            yield outline((height, width), rows, columns, count)


def draw(source, dimension_count, max_elements):
    """Returns a random descriptor."""
    data = draw_sizes(source, 2, max_elements)
    rows, columns = draw_sizes(source, 2, max_elements)
    return complete_sizes(Desc, *outline(data, rows, columns, dimension_count))


def samples():
    """Gives one descriptor."""
    yield complete_sizes(Desc, *outline((2, 3), 3, 2, 2))


OPERATOR = Operator(
    descriptor=Desc,
    parameters={"shape": ("square", "tall", "flat")},
    classify=classify,
    build=build,
    world=world,
    draw=draw,
    samples=samples,
)
