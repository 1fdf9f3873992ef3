"""Backends that answer an invalid index each in its own way, for `--provider planted_answers:NAME`. They do not use
opmap."""

import os
import time

import numpy as np
import onnx
from onnx import helper, numpy_helper

FATAL = 2**63 - 2
"""The index at which Crashes and Hangs do so."""


def attribute(node, name):
    return next((a.i for a in node.attribute if a.name == name), 0)


class Backend:
    """Gathers one element after another. An invalid index goes to `index`, the address of the element to `value`."""

    def run(self, model_bytes, feeds):
        graph = onnx.load_from_string(model_bytes).graph
        values = {**feeds, **{i.name: numpy_helper.to_array(i) for i in graph.initializer}}
        for node in graph.node:
            inputs = [values[name] for name in node.input]
            if node.op_type == "Cast":
                values[node.output[0]] = inputs[0].astype(helper.tensor_dtype_to_np_dtype(attribute(node, "to")))
            elif node.op_type == "Reshape":
                values[node.output[0]] = inputs[0].reshape(inputs[1])
            else:
                values[node.output[0]] = self.gather(node, *inputs)
        return [values[output.name] for output in graph.output]

    def gather(self, node, data, indices):
        self.op, self.invalid = node.op_type, False
        coordinates, sizes = self.places(node, data, indices)
        bits = data.reshape(-1).view(f"u{data.itemsize}").tolist()
        output = [self.element(bits, coordinates(at), data.shape) for at in np.ndindex(*sizes)]
        return np.array(output, f"u{data.itemsize}").view(data.dtype).reshape(sizes)

    @staticmethod
    def places(node, data, indices):
        """Returns the function from an element of the output to its coordinates in the data, and the output's sizes."""
        axis, rank = attribute(node, "axis"), indices.ndim
        if node.op_type == "Gather":
            sizes = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
            return lambda at: (*at[:axis], int(indices[at[axis : axis + rank]]), *at[axis + rank :]), sizes
        if node.op_type == "GatherElements":
            return lambda at: (*at[:axis], int(indices[at]), *at[axis + 1 :]), indices.shape
        batches = attribute(node, "batch_dims")
        sizes = (*indices.shape[:-1], *data.shape[batches + indices.shape[-1] :])
        return lambda at: (*at[:batches], *map(int, indices[at[: rank - 1]]), *at[rank - 1 :]), sizes

    def element(self, bits, coordinates, shape):
        address, valid = 0, True
        for position, n in zip(coordinates, shape, strict=True):
            if -n <= position < n:
                position %= n
            else:
                valid, self.invalid = False, True
                position = self.index(position, n)
            address = address * n + position
        return self.value(bits, address, valid)

    def index(self, index, n):
        """Returns the position for an invalid index."""
        return index

    def value(self, bits, address, valid):
        """Returns the element at an address, which may be outside."""
        return bits[min(max(address, 0), len(bits) - 1)]


class Axis(Backend):
    def index(self, index, n):
        return 0 if index < 0 else n - 1


class Memory(Backend):
    """A negative index counts from the end; then the address is clamped."""

    def index(self, index, n):
        return index + n if index < 0 else index


class Wrapped(Backend):
    def index(self, index, n):
        return index % n


class Cut(Backend):
    """A negative index counts from the end; the address is a UINT32, and is clamped."""

    def index(self, index, n):
        return index + n if index < 0 else index

    def value(self, bits, address, valid):
        return bits[min(address % 2**32, len(bits) - 1)]


class Zero(Backend):
    def value(self, bits, address, valid):
        return super().value(bits, address, valid) if valid else 0


class Mirrored(Backend):
    """Elements of the input at places that nothing explains."""

    def value(self, bits, address, valid):
        return super().value(bits, address, valid) if valid else bits[address % 7 + 3]


class Nowhere(Backend):
    """A value that no element of the input has."""

    def value(self, bits, address, valid):
        return super().value(bits, address, valid) if valid else 1


class NowhereElsewhere(Nowhere):
    """The same, but Gather clamps."""

    def index(self, index, n):
        return (0 if index < 0 else n - 1) if self.op == "Gather" else index

    def value(self, bits, address, valid):
        return super().value(bits, address, valid or self.op == "Gather")


class Beside(Axis):
    """An invalid index spoils the whole output."""

    def gather(self, *arguments):
        output = super().gather(*arguments)
        return np.roll(output, 1) if self.invalid else output


class Malformed(Axis):
    def gather(self, *arguments):
        output = super().gather(*arguments)
        return output.astype(bool) if self.invalid else output


class Refuses(Backend):
    def index(self, index, n):
        raise ValueError(f"index {index} of {n}")


class WrongAnyway(Axis):
    """Valid indices are done wrong too."""

    def gather(self, *arguments):
        return np.roll(super().gather(*arguments), 1)


class Elsewhere(Axis):
    """It says that the host did the work."""

    name = "elsewhere"

    def placement(self):
        return [("Gather", "host"), ("GatherElements", "host"), ("GatherND", "host")]


class Crashes(Axis):
    """One invalid index of Gather ends the process."""

    def index(self, index, n):
        if index == FATAL and self.op == "Gather":
            os._exit(3)
        return super().index(index, n)


class Hangs(Axis):
    """One invalid index of Gather takes too long."""

    def index(self, index, n):
        if index == FATAL and self.op == "Gather":
            time.sleep(600)
        return super().index(index, n)
