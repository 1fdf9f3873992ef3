"""Backends with one defect each, of the kinds that drivers have, as a third party would write them. They do not use
opmap.

Each name in `DEFECTS` is a factory for `--provider planted_defects:NAME`. A defect says of a gather node whether it is
there (`applies`), and changes the indices, the addresses or the output. `titles` and `stability` are what may be told
of it.
"""

import os
from functools import cached_property

import numpy as np
from onnx import numpy_helper
from planted_faults import Runtime

APPLIED = set()
"""The names of the defects that changed something, until the test clears it."""

DRY = False
"""Whether a crash is an exception in place of the end of the process."""


class Call:
    """A gather node with its inputs."""

    def __init__(self, op, data, indices, axis, batches, gather, *, from_node):
        self.op, self.data, self.indices, self.axis, self.batches = op, data, indices, axis, batches
        self.gather, self.from_node = gather, from_node

    @property
    def tuples(self):
        return self.op == "GatherND"

    @cached_property
    def indexed(self):
        """The dimensions of the data that the indices point into."""
        return range(self.batches, self.batches + self.indices.shape[-1]) if self.tuples else [self.axis]

    @cached_property
    def lengths(self):
        """The sizes of these dimensions, one for each coordinate of an index."""
        return np.array([self.data.shape[d] for d in self.indexed])

    @cached_property
    def block(self):
        """The number of elements behind the indexed dimensions."""
        return int(np.prod(self.data.shape[self.indexed[-1] + 1 :], dtype=int))

    def addresses(self, indices):
        """Returns the flat address in the data of each element of the output."""
        return self.gather(np.arange(self.data.size).reshape(self.data.shape), indices)

    @cached_property
    def size(self):
        """The number of elements of the output."""
        return self.addresses(self.indices).size


def places(array):
    """Returns the position of each element of an array, in its shape."""
    return np.arange(array.size).reshape(array.shape)


class Defect(Runtime):
    """A backend with one defect. `titles` matches every true sentence about its wrong outputs."""

    titles = r"no sentence"
    stability = "always"
    history = False
    """Whether a failure needs earlier calls, or does not happen each time: then `applies` says where it is possible."""

    def __init__(self):
        self.parts = [self]

    def Gather(self, data, indices, axis=0):
        return self.gathered("Gather", data, indices, axis, 0, lambda d, i: super(Defect, self).Gather(d, i, axis))

    def GatherElements(self, data, indices, axis=0):
        gather = super().GatherElements
        return self.gathered("GatherElements", data, indices, axis, 0, lambda d, i: gather(d, i, axis))

    def GatherND(self, data, indices, batch_dims=0):
        return self.gathered(
            "GatherND", data, indices, 0, batch_dims, lambda d, i: Runtime().GatherND(d, i, batch_dims)
        )

    def Tile(self, data, repeats):
        if self.node.output[0].endswith(".copy"):  # it copies indices
            return np.tile(data, repeats)
        return self.picked(np.tile(places(data), repeats), data)

    def Slice(self, data, starts, ends, axes, steps):
        windows = [slice(None)] * data.ndim
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            windows[axis] = slice(start, end if end >= -data.shape[axis] else None, step)
        return self.picked(places(data)[tuple(windows)], data)

    def ScatterElements(self, data, indices, updates, axis=0):
        chosen = places(data)
        np.put_along_axis(chosen, indices.astype(np.int64), data.size + places(updates), axis)
        return self.picked(chosen, data, updates)

    def ScatterND(self, data, indices, updates):
        chosen = places(data)
        chosen[tuple(np.moveaxis(indices.astype(np.int64), -1, 0))] = data.size + places(updates)
        return self.picked(chosen, data, updates)

    def Split(self, data, split, axis=0):
        """Has the defect in its first output: a condition is about that one."""
        first, *others = np.split(places(data), np.cumsum(split)[:-1], axis)
        return [self.picked(first, data), *(data.reshape(-1)[part] for part in others)]

    def MaxPool(self, data, **attributes):
        """Has the defect in its first output, as Split."""
        attributes.setdefault("dilations", [1] * (data.ndim - 2))
        values, addresses = (windows(*of, **attributes) for of in ((data, lowest(data)), (places(data), -1)))
        inside = np.maximum(values.astype(np.float64), -1e300)  # also -infinity comes before padding
        first = np.argmax(np.where(addresses < 0, -np.inf, inside), -1)[..., np.newaxis]
        found = [np.take_along_axis(each, first, -1)[..., 0] for each in (values, addresses)]
        return [self.written(found[0]), *found[1 : len(self.node.output)]]

    def Transpose(self, data, perm):
        return self.picked(np.transpose(places(data), perm), data)

    def Expand(self, data, shape):
        return self.picked(np.broadcast_to(places(data), np.broadcast_shapes(data.shape, tuple(shape))), data)

    def Pad(self, data, pads, value, mode=b"constant"):
        widths = list(zip(pads[: data.ndim].tolist(), pads[data.ndim :].tolist(), strict=True))
        if mode == b"constant":
            return self.written(np.pad(data, widths, constant_values=value))
        return self.picked(np.pad(places(data), widths, mode=mode.decode()), data)

    def DepthToSpace(self, data, blocksize, mode=b"DCR"):
        n, c, h, w = data.shape
        crd, inner = mode == b"CRD", c // blocksize**2
        split = places(data).reshape(
            n, *((inner, blocksize, blocksize) if crd else (blocksize, blocksize, inner)), h, w
        )
        moved = split.transpose((0, 1, 4, 2, 5, 3) if crd else (0, 3, 4, 1, 5, 2))
        return self.picked(moved.reshape(n, inner, h * blocksize, w * blocksize), data)

    def SpaceToDepth(self, data, blocksize):
        n, c, h, w = data.shape
        split = places(data).reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize)
        moved = split.transpose(0, 3, 5, 1, 2, 4)
        return self.picked(moved.reshape(n, -1, h // blocksize, w // blocksize), data)

    def Concat(self, *tensors, axis):
        return self.written(np.concatenate(tensors, axis))

    def Where(self, condition, a, b):
        return self.written(np.where(condition, a, b))

    def BitwiseAnd(self, a, b):
        return self.written(a & b)

    def BitwiseOr(self, a, b):
        return self.written(a | b)

    def BitwiseXor(self, a, b):
        return self.written(a ^ b)

    def BitwiseNot(self, data):
        return self.written(~data)

    def BitShift(self, a, b, direction):
        return self.written((np.left_shift if direction == b"LEFT" else np.right_shift)(a, b))

    def Trilu(self, data, k=0, upper=1):
        return self.written((np.triu if upper else np.tril)(data, int(k)))

    def EyeLike(self, like, k=0):
        return self.written(np.eye(*like.shape, k=k, dtype=like.dtype))

    def ConstantOfShape(self, shape, value):
        return self.written(np.full(shape, numpy_helper.to_array(value)))

    def Range(self, start, limit, delta):
        return self.written(np.arange(start, limit, delta, dtype=start.dtype))

    def OneHot(self, indices, depth, values, axis=-1):
        indices = np.expand_dims(indices.astype(object), axis)
        shape = [1] * indices.ndim
        shape[axis] = -1
        place = np.arange(int(depth.reshape(-1)[0])).reshape(shape)
        return self.written(values[(place == np.where(indices < 0, indices + place.size, indices)).astype(np.int64)])

    def ReverseSequence(self, data, lengths, batch_axis=1, time_axis=0):
        chosen = places(data)
        rows = np.moveaxis(chosen, (batch_axis, time_axis), (0, 1))
        for row, length in zip(rows, np.minimum(lengths, rows.shape[1]).tolist(), strict=True):
            row[:length] = row[:length][::-1].copy()
        return self.picked(chosen, data)

    def TopK(self, data, k, axis=-1, largest=1, sorted=1):
        """Has the defect in its first output. Of equal elements, the first one comes first."""
        given = np.flip(data, axis) if largest else data
        order = np.argsort(given, axis, kind="stable")
        order = data.shape[axis] - 1 - np.flip(order, axis) if largest else order
        order = np.take(order, np.arange(int(k.reshape(-1)[0])), axis)
        return [self.written(np.take_along_axis(data, order, axis)), order]

    def picked(self, chosen, *tensors):
        """Returns these elements of all tensors, one after the other, as one Gather."""
        flat = np.concatenate([tensor.reshape(-1) for tensor in tensors])
        return self.gathered(self.node.op_type, flat, chosen, 0, 0, lambda data, indices: data[indices])

    def written(self, right):
        """Returns the output of a node that reads nothing by addresses: only defects of the output are in it."""
        parts, self.parts = self.parts, [part for part in self.parts if type(part).output is not Defect.output]
        output = self.picked(places(right), right)
        self.parts = parts
        return output

    def gathered(self, op, data, indices, axis, batches, gather):
        from_node = any(name in node.output for node in self.graph.node for name in self.node.input[1:2])
        call = Call(op, data, indices, axis % max(data.ndim, 1), batches, gather, from_node=from_node)
        parts = [part for part in self.parts if part.applies(call)]
        APPLIED.update(type(part).__name__ for part in parts)
        for part in parts:
            indices = part.indices(call, indices)
        addresses = call.addresses(indices)
        for part in parts:
            addresses = part.addresses(call, addresses)
        output = data.reshape(-1)[np.clip(addresses, 0, data.size - 1)]
        for part in parts:
            output = part.output(call, output.reshape(-1).copy()).reshape(addresses.shape)
        return output

    def applies(self, call):
        """Returns whether the defect changes this node: what a condition must say."""
        return True

    def indices(self, call, indices):
        """Returns the indices that are used."""
        return indices

    def addresses(self, call, addresses):
        """Returns the addresses that are read."""
        return addresses

    def output(self, call, flat):
        """Returns the output that is given, from a flat copy."""
        return flat


# --- nodes that compute values ---


def quotient(a, b):
    """Returns a / b; of integers, rounded towards 0, and anything if b is 0."""
    if a.dtype.kind == "f":
        return a / b
    b = np.where(b == 0, b.dtype.type(1), b)
    return a // b + ((a % b != 0) & ((a < 0) != (b < 0)))


def cumulated(data, axis, exclusive=0, reverse=0):
    axis = int(axis.reshape(-1)[0])
    given = np.flip(data, axis) if reverse else data
    total = np.cumsum(given, axis, dtype=data.dtype)
    if exclusive:
        total = np.roll(total, 1, axis)
        np.moveaxis(total, axis, 0)[0] = 0
    return np.flip(total, axis) if reverse else total


def place_of(function):
    """Returns the node that gives the place of the first or the last element that a function of NumPy chooses."""

    def chosen(data, axis=0, keepdims=1, select_last_index=0):
        if select_last_index:
            return data.shape[axis] - 1 - function(np.flip(data, axis), axis, keepdims=True)
        return function(data, axis, keepdims=True)

    return chosen


def reduced(function, before=lambda data: data):
    """Returns the node that reduces with a function of NumPy; floats are rounded once."""

    def node(data, axes, keepdims=1):
        wide = before(data.astype(np.float64) if data.dtype.kind == "f" else data)
        return function.reduce(wide, tuple(int(axis) for axis in axes), dtype=wide.dtype, keepdims=True)

    return node


def windows(data, fill, kernel_shape, strides, dilations, pads):
    """Returns the elements of the window of each place, in a last dimension; `fill` is padding."""
    count = len(kernel_shape)
    padded = np.pad(data, [(0, 0), (0, 0), *zip(pads[:count], pads[count:], strict=True)], constant_values=fill)
    spans = [(size - 1) * step + 1 for size, step in zip(kernel_shape, dilations, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(padded, spans, tuple(range(2, 2 + count)))
    seen = seen[(slice(None), slice(None), *(slice(None, None, step) for step in (*strides, *dilations)))]
    return seen.reshape(*seen.shape[: 2 + count], -1)


def lowest(data):
    return -np.inf if data.dtype.kind == "f" else np.iinfo(data.dtype).min


def convolved(data, filters, zero=0, filter_zero=0, *, strides, dilations, pads, group=1):
    """Returns the sums of products without the zero points."""
    zeros = np.asarray(filter_zero, np.int32)
    filters = filters.astype(np.int32) - zeros.reshape(-1, *[1] * (filters.ndim - 1) if zeros.ndim else [])
    seen = windows(data.astype(np.int32) - np.int32(zero), 0, filters.shape[2:], strides, dilations, pads)
    batch, channels, *sizes, length = seen.shape
    seen = seen.reshape(batch, group, channels // group, -1, length)
    sums = np.einsum("bgcpw,gfcw->bgfp", seen, filters.reshape(group, -1, channels // group, length))
    return sums.reshape(batch, -1, *sizes)


def along(axis, scale, data):
    return scale.reshape(-1, *[1] * (data.ndim - 1 - axis % data.ndim)) if scale.ndim else scale


def quantized(data, scale, zero, axis=1):
    limits, zero = np.iinfo(zero.dtype), along(axis, zero, data)
    numbers = np.rint(data / along(axis, scale, data)).astype(np.float64) + zero
    return np.nan_to_num(np.clip(numbers, limits.min, limits.max)).astype(zero.dtype)


def dequantized(data, scale, zero, axis=1):
    wide = data.astype(np.int64) - along(axis, zero, data)
    return (wide * along(axis, scale, data).astype(np.float64)).astype(scale.dtype)


COMPUTED = {
    "GlobalMaxPool": lambda x: x.max(tuple(range(2, x.ndim)), keepdims=True),
    "ConvInteger": convolved,
    "MatMulInteger": lambda a, b, zero=0, other=0: (a.astype(np.int32) - zero) @ (b.astype(np.int32) - other),
    **{"QuantizeLinear": quantized, "DequantizeLinear": dequantized},
    **{"Abs": np.abs, "Ceil": np.ceil, "Floor": np.floor, "Neg": np.negative, "Round": np.rint},
    **{"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": quotient, "Max": np.maximum, "Min": np.minimum},
    "Sign": lambda x: np.where(x == x, np.sign(x), x.dtype.type(0)),  # of a NaN too, as the page says
    "Mod": lambda a, b, fmod=0: (np.fmod if fmod else np.mod)(a, b),
    "Clip": np.clip,
    "Relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "ThresholdedRelu": lambda x, alpha: np.where(x > np.float32(alpha), x, x.dtype.type(0)),
    **{"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Not": np.logical_not, "Equal": np.equal},
    **{"Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Less": np.less, "LessOrEqual": np.less_equal},
    "IsNaN": np.isnan,
    "IsInf": lambda x, detect_negative=1, detect_positive=1: (
        np.isinf(x) & np.where(np.signbit(x), detect_negative, detect_positive).astype(bool)
    ),
    "CumSum": cumulated,
    "Hardmax": lambda x, axis: (np.indices(x.shape)[axis] == np.argmax(x, axis, keepdims=True)).astype(x.dtype),
    **{"ArgMin": place_of(np.argmin), "ArgMax": place_of(np.argmax)},
    **{"ReduceMax": reduced(np.maximum), "ReduceMin": reduced(np.minimum), "ReduceProd": reduced(np.multiply)},
    **{
        "ReduceSum": reduced(np.add),
        "ReduceSumSquare": reduced(np.add, np.square),
        "ReduceL1": reduced(np.add, np.abs),
    },
}
"""The nodes that compute values -> a function that gives their output."""


def node_of(name):
    """Returns the method of a node that computes values. Where no page says a value, any is right."""

    def node(self, *inputs, **attributes):
        with np.errstate(all="ignore"):
            right = np.asarray(COMPUTED[name](*inputs, **attributes))
        return self.written(right.astype(inputs[0].dtype) if name.startswith("Reduce") else right)

    return node


for _name in COMPUTED:
    setattr(Defect, _name, node_of(_name))


# --- numbers ---


class Converts(Defect):
    """Data of the type `data_type` is converted."""

    data_type = ""

    def applies(self, call):
        return call.data.dtype == self.data_type

    def output(self, call, flat):
        with np.errstate(all="ignore"):
            return self.converted(flat)


class float64_by_float32(Converts):
    """FLOAT64 passes through FLOAT32; what is too large becomes the largest number."""

    data_type, titles = "float64", r"\bFLOAT32\b"

    def converted(self, x):
        most = np.finfo(np.float32).max
        return np.clip(x, -most, most).astype(np.float32).astype(x.dtype)


class int64_by_float32(Converts):
    """INT64 passes through FLOAT32; what is too large becomes the largest number."""

    data_type, titles = "int64", r"\bFLOAT32\b"

    def converted(self, x):
        y = x.astype(np.float32)
        return np.where(y >= 2.0**63, np.iinfo(np.int64).max, np.where(y >= 2.0**63, 0, y).astype(x.dtype))


class int64_by_int32(Converts):
    """INT64 passes through INT32 and wraps."""

    data_type = "int64"
    titles = r"\bINT32\b|lower 32 bits.*sign extended|word-64-extended"

    def converted(self, x):
        return x.astype(np.int32).astype(x.dtype)


class uint32_by_int32(Converts):
    """UINT32 passes through INT32 and saturates."""

    data_type = "uint32"
    titles = r"\bINT32\b|unsigned-saturated|clamped to (the range of INT32|2147483647|0x7fffffff)"

    def converted(self, x):
        return np.minimum(x, 2**31 - 1).astype(x.dtype)


class float16_by_float32(Converts):
    """FLOAT16 passes through FLOAT32: signalling NaNs become quiet."""

    data_type = "float16"
    titles = r"\bFLOAT32\b|float16-through-float32|signalling NaNs.*quiet|nan-signalling-quieted"

    def converted(self, x):
        bits = x.view(np.uint16)
        return np.where(np.isnan(x), bits | 0x200, bits).astype(np.uint16).view(x.dtype)


class uint64_by_float64(Converts):
    """UINT64 passes through FLOAT64; what is too large becomes the largest number."""

    data_type, titles = "uint64", r"\bFLOAT64\b"

    def converted(self, x):
        y = x.astype(np.float64)
        return np.where(y >= 2.0**64, np.iinfo(np.uint64).max, np.where(y >= 2.0**64, 0, y).astype(x.dtype))


# --- what is written ---


class wave_tail(Defect):
    """The last wave of 32 elements is not written if it is not full."""

    titles = r"group-last-partial-lost|\b32\b|(the |^)(last|tail)\b(?!.*vector of four)"

    def applies(self, call):
        return call.size % 32 != 0 and call.size > 32

    def output(self, call, flat):
        flat[len(flat) // 32 * 32 :] = 0
        return flat


class row_tail(Defect):
    """Rows are written in vectors of four; what is left of a row is a copy of its last whole vector."""

    titles = r"(row|last dimension|each \d+|vector|group).*(copy|copies|repeat|earlier|before|- 4)|position - 4"

    def length(self, call):
        return call.addresses(call.indices).shape[-1]

    def applies(self, call):
        return call.addresses(call.indices).ndim > 0 and self.length(call) > 4 and self.length(call) % 4 != 0

    def output(self, call, flat):
        rows, whole = flat.reshape(-1, self.length(call)), self.length(call) // 4 * 4
        rows[:, whole:] = rows[:, whole - 4 : whole][:, : self.length(call) - whole]
        return flat


class byte_lanes(Defect):
    """The second and the third of each four bytes are exchanged."""

    titles = r"(group|each) .*\b4\b.*|\bbytes 1 and 2\b|elements 1 and 2|order \[?0, 2, 1, 3"

    def applies(self, call):
        return call.data.itemsize == 1 and call.size >= 4

    def output(self, call, flat):
        whole = flat[: len(flat) // 4 * 4].reshape(-1, 4)
        whole[:] = whole[:, [0, 2, 1, 3]].copy()
        return flat


class groups_of_65536(Defect):
    """Elements from 65,536 on are not written: the group's number has 16 bits."""

    titles = r"(from|behind|after) (element )?(number )?65,?53[56].*|element-65536-lost"

    def applies(self, call):
        return call.size > 65536

    def output(self, call, flat):
        flat[65536:] = 0
        return flat


# --- what is read ---


def coordinates(call, addresses):
    """Returns the position along each dimension.

    NumPy 2.4 gives wrong ones for more than 8,192 addresses that are not flat.
    """
    flat = np.unravel_index(np.asarray(addresses).reshape(-1), call.data.shape)
    return np.stack(flat).reshape(-1, *np.shape(addresses))


def flat_addresses(call, positions):
    return np.ravel_multi_index(tuple(positions), call.data.shape)


class reciprocal_division(Defect):
    """The number of the row is the element's number times a reciprocal of 11 bits of the row's length."""

    titles = r"next|previous|position [-+] 1|one (row|element)|address(es)? (behind|before)|element \d+ addresses"

    def row(self, call):
        at = np.arange(call.size)
        return (at.astype(np.float32) * (np.float32(np.float16(1 / call.block)))).astype(np.int64)

    def applies(self, call):
        return call.op != "GatherElements" and bool((self.row(call) != np.arange(call.size) // call.block).any())

    def addresses(self, call, addresses):
        at, row, flat = np.arange(call.size), self.row(call), addresses.reshape(-1)
        return (flat[row * call.block] + at - row * call.block).reshape(addresses.shape)


class constant_buffer_of_four(Defect):
    """Sizes and strides stand in a buffer of four: coordinates from the fifth dimension on are 0."""

    titles = r"rank-above-4-trailing-ignored|(from|behind|after) the (fifth|fourth)|fifth|dimension 4 on|dimensions? (4|>= 4)"

    def applies(self, call):
        return call.data.ndim > 4 and int(np.prod(call.data.shape[4:])) > 1

    def addresses(self, call, addresses):
        positions = coordinates(call, addresses)
        positions[4:] = 0
        return flat_addresses(call, positions)


class fifth_coordinate(Defect):
    """Coordinates of an index tuple from the fifth on are read as 0."""

    titles = r"fifth|coordinates? (4|5|from)"

    def applies(self, call):
        return call.tuples and call.indices.shape[-1] > 4

    def indices(self, call, indices):
        changed = indices.copy()
        changed[..., 4:] = 0
        return changed


class previous_row(Defect):
    """GatherElements reads the row before in the dimension before the axis."""

    titles = r"(previous|before|position - 1|- 1 along)|coordinate-previous"

    def applies(self, call):
        return call.op == "GatherElements" and call.axis > 0

    def addresses(self, call, addresses):
        positions = coordinates(call, addresses)
        positions[call.axis - 1] = np.maximum(positions[call.axis - 1] - 1, 0)
        return flat_addresses(call, positions)


class next_element(Defect):
    """A gather of 8-byte data reads the element behind the right one."""

    titles = r"address-off-by-one|(next|element 1 address(es)? behind|\+ 1)"

    def applies(self, call):
        return call.op.startswith("Gather") and call.data.itemsize == 8

    def addresses(self, call, addresses):
        return addresses + 1


# --- indices ---


class negative_as_last(Defect):
    """A negative index reads the last element of the axis."""

    titles = r"negative.*(last|n - 1|- 1|one (value|position|element))"

    def applies(self, call):
        return bool((call.indices < 0).any())

    def indices(self, call, indices):
        return np.where(indices < 0, call.lengths - 1 if call.tuples else call.lengths[0] - 1, indices)


class from_16(Defect):
    """An index of 16 or above of a gather reads element 15."""

    titles = r"(16|15)"

    def applies(self, call):
        return call.op.startswith("Gather") and bool((call.indices >= 16).any())

    def indices(self, call, indices):
        return np.minimum(indices, 15)


class missing_barrier(Defect):
    """Indices that a node of the model computes are not there yet: zeros are read."""

    titles = r"index-ignored|every index (means|is|as) (element )?(0|zero)|indices.*zero"

    def applies(self, call):
        return call.op.startswith("Gather") and call.from_node

    def indices(self, call, indices):
        return np.zeros_like(indices)


class rank_8_crash(Defect):
    """A node with data of rank 8 ends the process."""

    titles = r"crash"

    def applies(self, call):
        return call.data.ndim == 8

    def indices(self, call, indices):
        if DRY:
            raise RuntimeError("the process ends")
        os._exit(3)


# --- history ---


class race(Defect):
    """Of more than 512 elements, a group of 32 is not written in one of three runs."""

    titles, stability, history = r"zero|not written|missing|lost", "sometimes", True

    def applies(self, call):
        return call.size > 512

    def output(self, call, flat):
        random = np.random.default_rng(int.from_bytes(os.urandom(4)))
        at = 32 * random.integers(len(flat) // 32)
        if random.integers(3) == 0:
            flat[at : at + 32] = 0
        return flat


class cache_by_size(Defect):
    """The strides of a model are kept for the next one with an output of as many elements and the same operator."""

    titles, stability, history = r"", "after", True

    def __init__(self):
        super().__init__()
        self.kept = {}

    def applies(self, call):
        return call.data.ndim > 1

    def addresses(self, call, addresses):
        own = np.array([int(np.prod(call.data.shape[d + 1 :])) for d in range(call.data.ndim)])
        strides = self.kept.setdefault((call.op, call.data.ndim, call.size), own)
        return np.tensordot(strides, coordinates(call, addresses), 1)


class upload_ring(Defect):
    """Indices are uploaded through a ring of 16 kB; what stands behind its end is lost."""

    titles, stability, history = r"", "after|sometimes|periodic", True

    def __init__(self):
        super().__init__()
        self.used = 0

    def applies(self, call):
        return call.op.startswith("Gather") and call.indices.size > 1

    def indices(self, call, indices):
        left = (2**14 - self.used) // indices.itemsize
        self.used = (self.used + indices.nbytes + 255) // 256 * 256
        if self.used <= 2**14:
            return indices
        self.used = 0
        changed = indices.copy()
        changed.reshape(-1)[max(left, 0) :] = 0
        return changed


# --- two at once ---


class Both(Defect):
    """Two defects in one backend."""

    kinds = ()

    def __init__(self):
        super().__init__()
        self.parts = [kind() for kind in self.kinds]


class negative_in_gather(negative_as_last):
    """Only in Gather."""

    def applies(self, call):
        return super().applies(call) and call.op == "Gather"


class float64_and_buffer(Both):
    kinds = (float64_by_float32, constant_buffer_of_four)


class tail_and_negative(Both):
    kinds = (negative_as_last, wave_tail)


class row_and_negative(Both):
    kinds = (negative_in_gather, previous_row)


class lanes_and_crash(Both):
    kinds = (rank_8_crash, byte_lanes)


DEFECTS = {
    kind.__name__: kind
    for kind in (
        *(float64_by_float32, int64_by_float32, int64_by_int32, uint32_by_int32, float16_by_float32, uint64_by_float64),
        *(wave_tail, row_tail, byte_lanes, groups_of_65536),
        *(reciprocal_division, constant_buffer_of_four, fifth_coordinate, previous_row, next_element),
        *(negative_as_last, from_16, missing_barrier, rank_8_crash),
        *(race, cache_by_size, upload_ring),
        *(float64_and_buffer, tail_and_negative, row_and_negative, lanes_and_crash),
    )
}
"""Twenty-six defects: four are two at once."""


# --- one operator ---


class where_by_four(Defect):
    """Where reads the condition of the first of each four elements."""

    def Where(self, condition, a, b):
        shape = np.broadcast_shapes(condition.shape, a.shape, b.shape)
        flat = np.broadcast_to(condition, shape).reshape(-1)
        return np.where(flat[np.arange(flat.size) // 4 * 4].reshape(shape), a, b)


class pad_by_zero(Defect):
    """Pad takes every constant as zero."""

    titles = r"\bzero\b"

    def Pad(self, data, pads, value, mode=b"constant"):
        return super().Pad(data, pads, np.zeros_like(value), mode)


class concat_second_first(Defect):
    """Concat takes the second of two inputs of the same sizes for the first one too."""

    def Concat(self, *tensors, axis):
        same = len(tensors) > 1 and tensors[0].shape == tensors[1].shape
        return super().Concat(*(tensors[1:2] if same else tensors[:1]), *tensors[1:], axis=axis)


OF_ONE_OPERATOR = {kind.__name__: kind for kind in (where_by_four, pad_by_zero, concat_second_first)}
"""Defects of which few cases fail. Most titles that fit some of them are false."""
