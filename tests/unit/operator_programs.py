"""Pseudocode of operators that move data, each with random fields and with NumPy's answer by ONNX's definition."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from opmap.pseudocode import COORDINATES, Expansion

BEFORE, AFTER = "abcd", "efgh"


@dataclass
class Drawn:
    """One descriptor of a program: its fields, its tensors by the pseudocode's names, and the right output."""

    fields: dict
    tensors: dict
    output: np.ndarray
    expansion: Expansion = field(default_factory=lambda: Expansion(rest={}))
    undocumented: np.ndarray | None = None


def sizes_of(source, low=1, high=4, count=None):
    return tuple(int(n) for n in source.integers(low, high + 1, count or source.integers(1, 5)))


def data(source, sizes):
    """Returns a tensor in which every element is another one."""
    return source.permutation(np.arange(1, int(np.prod(sizes)) + 1)).reshape(sizes)


def dimensions(name, count):
    """Returns the expansion in which a name stands for one coordinate per dimension."""
    return Expansion(rest={}, series={name: tuple(COORDINATES[:count])})


def around(axis, count):
    """Returns the expansion in which `before` and `after` stand for the coordinates around an axis."""
    return Expansion(rest={}, series={"before": tuple(BEFORE[:axis]), "after": tuple(AFTER[: count - axis - 1])})


SLICE = """
CopyStart = InputWindowOffsets
for dimension i in [0, DimensionCount - 1]:
    if InputWindowStrides[i] < 0:
        CopyStart[i] += InputWindowSizes[i] - 1 // start at the end of the window in this dimension

OutputTensor[OutputCoordinates] = InputTensor[CopyStart + InputWindowStrides * OutputCoordinates]
"""


def draw_slice(source):
    sizes = sizes_of(source, high=7)
    offsets = tuple(int(source.integers(0, n)) for n in sizes)
    windows = tuple(int(source.integers(1, n - o + 1)) for n, o in zip(sizes, offsets, strict=True))
    strides = tuple(int(source.choice([-3, -2, -1, 1, 2, 3])) for _ in sizes)
    values = data(source, sizes)
    window = values[tuple(slice(o, o + w) for o, w in zip(offsets, windows, strict=True))]
    right = window[tuple(slice(None, None, s) for s in strides)]
    right = right[tuple(slice(0, int(source.integers(1, n + 1))) for n in right.shape)]
    fields = {
        "DimensionCount": len(sizes),
        "InputWindowOffsets": offsets,
        "InputWindowSizes": windows,
        "InputWindowStrides": strides,
    }
    return Drawn(fields, {"InputTensor": values}, right, dimensions("OutputCoordinates", len(sizes)))


TILE = "output[x] = input[x % InputTensor.Sizes]"


def draw_tile(source):
    sizes = sizes_of(source)
    values, repeats = data(source, sizes), sizes_of(source, high=3, count=len(sizes))
    return Drawn({"Repeats": repeats}, {"input": values}, np.tile(values, repeats), dimensions("x", len(sizes)))


ONE_HOT = """
Last = 0
for dimension i in [0, DimensionCount):
    if ValuesTensor.Sizes[i] > 1:
        Last = i
On = 0 * ValuesTensor.Sizes
On[Last] = 1
output = values[0 * On]
output[before, indices[before, 0, after], after] = values[On]
"""


def draw_one_hot(source):
    sizes = list(sizes_of(source))
    axis = int(source.integers(0, len(sizes)))
    depth, sizes[axis] = sizes[axis], 1
    indices = source.integers(-depth, depth + 1, sizes)
    indices[indices == depth] += 1  # an index that is ignored exceeds the number of elements
    values = np.array([7, 9]).reshape([1] * (len(sizes) - 1) + [2])
    place = np.arange(depth).reshape([-1 if d == axis else 1 for d in range(len(sizes))])
    right = np.where(place == np.where(indices < 0, indices + depth, indices), 9, 7)
    fields = {"DimensionCount": len(sizes)}
    return Drawn(fields, {"indices": indices, "values": values}, right, around(axis, len(sizes)))


REVERSE = """
output = input
if (y < lengths[before, 0, after]) output[before, y, after] = input[before, min(lengths[before, 0, after], InputTensor.Sizes[Axis]) - 1 - y, after]
"""


def draw_reverse(source):
    sizes = sizes_of(source)
    axis = int(source.integers(0, len(sizes)))
    values, lengths = data(source, sizes), source.integers(0, sizes[axis] + 2, (*sizes[:axis], 1, *sizes[axis + 1 :]))
    rows, right = np.moveaxis(values, axis, -1), values.copy()
    written = np.moveaxis(right, axis, -1)
    for at in np.ndindex(rows.shape[:-1]):
        count = int(np.moveaxis(lengths, axis, -1)[at][0])
        written[at][:count] = rows[at][:count][::-1]
    return Drawn({"Axis": axis}, {"input": values, "lengths": lengths}, right, around(axis, len(sizes)))


PADDING = """
place = x - StartPadding
n = InputTensor.Sizes
if PaddingMode == REFLECTION:
    output[x] = input[min(max(place, -place), 2 * (n - 1) - max(place, -place))]
if PaddingMode == SYMMETRIC:
    output[x] = input[min(max(place, -1 - place), 2 * n - 1 - max(place, -1 - place))]
if PaddingMode == EDGE:
    output[x] = input[min(max(place, 0), n - 1)]
if PaddingMode == WRAP:
    output[x] = input[(place % n + n) % n]
if PaddingMode == CONSTANT:
    output = PaddingValue
    output[x + StartPadding] = input[x]
"""


def draw_padding(source):
    sizes = sizes_of(source, low=2)
    mode = str(source.choice(["CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC", "WRAP"]))
    start, end = (tuple(int(source.integers(0, n)) for n in sizes) for _ in range(2))
    values, names = data(source, sizes), {"REFLECTION": "reflect"}
    constant = {"constant_values": 99} if mode == "CONSTANT" else {}
    right = np.pad(values, tuple(zip(start, end, strict=True)), names.get(mode, mode.lower()), **constant)
    fields = {"PaddingMode": mode, "StartPadding": start, "EndPadding": end}
    return Drawn(fields, {"input": values, "PaddingValue": np.array(99)}, right, dimensions("x", len(sizes)))


WHERE = """
if (condition[x] != 0) output[x] = a[x]
if (condition[x] == 0) output[x] = b[x]
"""


def draw_where(source):
    sizes = sizes_of(source)
    tensors = {"condition": source.integers(0, 3, sizes), "a": data(source, sizes), "b": -data(source, sizes)}
    right = np.where(tensors["condition"] != 0, tensors["a"], tensors["b"])
    return Drawn({}, tensors, right, dimensions("x", len(sizes)))


DIAGONAL = """
for each coordinate in OutputTensor
    topX = coordinate.x - coordinate.y
    useValue = (DiagonalFillEnd >= DiagonalFillBegin) ^ (topX >= DiagonalFillBegin) ^ (topX < DiagonalFillEnd)
    OutputTensor[coordinate] = if useValue then Value
                               else if InputTensor not null then InputTensor[coordinate]
                               else 0
endfor
"""


def draw_diagonal(source):
    """ONNX's Trilu: a triangle of the input is kept and the rest is the value. EyeLike: one diagonal has the value."""
    sizes, k = sizes_of(source, count=source.integers(2, 5)), int(source.integers(-4, 5))
    kind, value = str(source.choice(["upper", "lower", "eye"])), int(source.choice([0, 5]))
    values = data(source, sizes)
    if kind == "eye":
        right = np.broadcast_to(np.eye(*sizes[-2:], k=k, dtype=np.int64) * value, sizes)
        return Drawn({"DiagonalFillBegin": k, "DiagonalFillEnd": k + 1}, {"Value": np.array(value)}, right)
    kept = np.triu(np.ones(sizes), k) if kind == "upper" else np.tril(np.ones(sizes), k)
    begin, end = (-(2**31), k) if kind == "upper" else (k + 1, 2**31 - 1)
    fields = {"DiagonalFillBegin": begin, "DiagonalFillEnd": end}
    return Drawn(fields, {"InputTensor": values, "Value": np.array(value)}, np.where(kept, values, value))


DEPTH_TO_SPACE = """
C = OutputTensor.Sizes[1]
if Order == DEPTH_COLUMN_ROW:
    output[n, c, y, x] = input[n, (y % BlockSize * BlockSize + x % BlockSize) * C + c, y / BlockSize, x / BlockSize]
if Order == COLUMN_ROW_DEPTH:
    output[n, c, y, x] = input[n, c * BlockSize * BlockSize + y % BlockSize * BlockSize + x % BlockSize, y / BlockSize, x / BlockSize]
"""


def draw_depth_to_space(source):
    (n, c, h, w), b = sizes_of(source, high=3, count=4), int(source.integers(1, 4))
    values, order = data(source, (n, c * b * b, h, w)), str(source.choice(["DEPTH_COLUMN_ROW", "COLUMN_ROW_DEPTH"]))
    if order == "DEPTH_COLUMN_ROW":
        moved = values.reshape(n, b, b, c, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = values.reshape(n, c, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return Drawn({"BlockSize": b, "Order": order}, {"input": values}, moved.reshape(n, c, h * b, w * b))


SPACE_TO_DEPTH = """
C = InputTensor.Sizes[1]
output[n, k, y, x] = input[n, k % C, y * BlockSize + k / C / BlockSize, x * BlockSize + k / C % BlockSize]
"""


def draw_space_to_depth(source):
    (n, c, h, w), b = sizes_of(source, high=3, count=4), int(source.integers(1, 4))
    values = data(source, (n, c, h * b, w * b))
    right = values.reshape(n, c, h, b, w, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h, w)
    return Drawn({"BlockSize": b}, {"input": values}, right)


FILL = """
for each coordinate in OutputTensor
    OutputTensor[coordinate] = Value
endfor
"""


def draw_fill(source):
    return Drawn({}, {"Value": np.array(13)}, np.full(sizes_of(source), 13))


JOIN = """
output[before, y + 0, after] = first[before, y, after]
output[before, y + Split, after] = second[before, y, after]
"""
SPLIT = "output[before, y, after] = input[before, y + Split, after]"


def draw_join(source):
    sizes = sizes_of(source)
    axis, other = int(source.integers(0, len(sizes))), int(source.integers(1, 4))
    first, second = data(source, sizes), -data(source, (*sizes[:axis], other, *sizes[axis + 1 :]))
    right = np.concatenate((first, second), axis)
    return Drawn({"Split": sizes[axis]}, {"first": first, "second": second}, right, around(axis, len(sizes)))


def draw_split(source):
    sizes = sizes_of(source, low=2)
    axis = int(source.integers(0, len(sizes)))
    values, at = data(source, sizes), int(source.integers(1, sizes[axis]))
    right = np.split(values, [at], axis)[1]
    return Drawn({"Split": at}, {"input": values}, right, around(axis, len(sizes)))


SCATTER = """
output = input
output[index[i, j, k, ...], j, k, ...] = updates[i, j, k, ...] // if axis == 0
output[i, index[i, j, k, ...], k, ...] = updates[i, j, k, ...] // if axis == 1
output[i, j, index[i, j, k, ...], ...] = updates[i, j, k, ...] // if axis == 2
...
"""


def draw_scatter(source):
    """ONNX's ScatterElements with indices that write each element at most once."""
    sizes = sizes_of(source, count=source.integers(1, 6), high=3)
    axis, values = int(source.integers(0, len(sizes))), data(source, sizes)
    count = int(source.integers(1, sizes[axis] + 1))
    order = np.argsort(source.random(sizes), axis=axis)
    indices = np.take(order, np.arange(count), axis)
    updates = -data(source, indices.shape)
    right = values.copy()
    np.put_along_axis(right, indices, updates, axis)
    indices = np.where(source.random(indices.shape) < 0.3, indices - sizes[axis], indices)
    names = tuple(COORDINATES[: len(sizes)])
    rest = dict.fromkeys(("output", "index", "updates"), (names[3:],))
    series = {"i": names[0:1], "j": names[1:2], "k": names[2:3]}
    return Drawn(
        {"Axis": axis}, {"input": values, "index": indices, "updates": updates}, right, Expansion(rest, series)
    )


SCATTER_ND = """
output = input
output[indices[...]] = updates[...]
"""


def draw_scatter_nd(source):
    """ONNX's ScatterND with tuples that write each element at most once."""
    sizes = sizes_of(source, high=3)
    length = int(source.integers(1, len(sizes) + 1))
    values = data(source, sizes)
    tuples = np.array(list(np.ndindex(sizes[:length])))
    indices = source.permutation(tuples)[: int(source.integers(1, len(tuples) + 1))]
    updates = -data(source, (len(indices), *sizes[length:]))
    right = values.copy()
    right[tuple(indices.T)] = updates
    indices = np.where(source.random(indices.shape) < 0.3, indices - sizes[:length], indices)
    block = tuple(COORDINATES[1 : 1 + len(sizes) - length])
    rest = {"output": (block,), "indices": (("a",),), "updates": (("a", *block),)}
    expansion = Expansion(rest, tuples={"indices": length})
    return Drawn({}, {"input": values, "indices": indices, "updates": updates}, right, expansion)


PROGRAMS = {
    "SLICE1": (SLICE, draw_slice),
    "TILE": (TILE, draw_tile),
    "ONE_HOT": (ONE_HOT, draw_one_hot),
    "REVERSE_SUBSEQUENCES": (REVERSE, draw_reverse),
    "PADDING1": (PADDING, draw_padding),
    "ELEMENT_WISE_IF": (WHERE, draw_where),
    "DIAGONAL_MATRIX1": (DIAGONAL, draw_diagonal),
    "DEPTH_TO_SPACE1": (DEPTH_TO_SPACE, draw_depth_to_space),
    "SPACE_TO_DEPTH1": (SPACE_TO_DEPTH, draw_space_to_depth),
    "FILL_VALUE_CONSTANT": (FILL, draw_fill),
    "JOIN": (JOIN, draw_join),
    "SPLIT": (SPLIT, draw_split),
    "SCATTER": (SCATTER, draw_scatter),
    "SCATTER_ND": (SCATTER_ND, draw_scatter_nd),
}
"""Operator -> its pseudocode, and a function that draws a descriptor."""
IGNORES_OUTSIDE = {"ONE_HOT"}
