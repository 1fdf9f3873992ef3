"""Wrong ways to gather as somebody else would write them: NumPy alone, from the model's nodes, nothing of opmap in it.

Each public name is a factory for `--provider planted_faults:NAME`; `right` is the one without an error.
"""

import numpy as np
import onnx
from onnx import numpy_helper


class Runtime:
    """Runs the nodes of a model with NumPy."""

    name = "planted"

    def run(self, model_bytes, feeds):
        """The outputs of the graph."""
        graph = onnx.load_from_string(model_bytes).graph
        values = {i.name: numpy_helper.to_array(i) for i in graph.initializer} | feeds
        for node in graph.node:
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            inputs = [values[name] for name in node.input]
            values[node.output[0]] = getattr(self, node.op_type)(*inputs, **attributes)
        return [self.last(values[output.name]) for output in graph.output]

    def last(self, output):
        """The output on its way out."""
        return output

    def Cast(self, x, to):
        """To the ONNX type."""
        return x.astype(onnx.helper.tensor_dtype_to_np_dtype(to))

    def Reshape(self, x, shape):
        """No zeros, no -1."""
        return x.reshape(shape)

    def Tile(self, x, repeats):
        """As it is."""
        return np.tile(x, repeats)

    def Gather(self, data, indices, axis=0):
        """np.take knows negative indices."""
        return np.take(data, indices, axis=axis)

    def GatherElements(self, data, indices, axis=0):
        """And so does take_along_axis."""
        return np.take_along_axis(data, indices, axis=axis)

    def GatherND(self, data, indices, batch_dims=0):
        """Batch by batch, tuple by tuple."""
        if batch_dims:
            return np.stack([self.GatherND(d, i, batch_dims - 1) for d, i in zip(data, indices)])
        return data[tuple(np.moveaxis(indices, -1, 0))]


right = Runtime


class clips(Runtime):
    """np.take with clipping: every negative index is 0."""

    def Gather(self, data, indices, axis=0):
        return np.take(data, indices, axis=axis, mode="clip")


class forgets_axis(Runtime):
    """The attribute is not read."""

    def Gather(self, data, indices, axis=0):
        out = np.take(data, indices.reshape(-1) % data.shape[axis] % data.shape[0], axis=0)
        return np.resize(out, data.shape[:axis] + indices.shape + data.shape[axis + 1 :])


class elements_by_first_row(Runtime):
    """GatherElements takes whole slices, by the first row of indices."""

    def GatherElements(self, data, indices, axis=0):
        line = np.moveaxis(indices, axis, 0).reshape(indices.shape[axis], -1)[:, 0]
        return np.take(data, line, axis=axis)


class elements_transposed(Runtime):
    """Row and column of the indices confused, where the shape allows it."""

    def GatherElements(self, data, indices, axis=0):
        if indices.ndim > 1 and indices.shape[-1] == indices.shape[-2]:
            indices = indices.swapaxes(-1, -2)
        return np.take_along_axis(data, indices, axis=axis)


class one_batch(Runtime):
    """batch_dims of 2 handled as 1."""

    def GatherND(self, data, indices, batch_dims=0):
        if batch_dims < 2:
            return super().GatherND(data, indices, batch_dims)
        return np.stack([self.GatherND(data[0], i, batch_dims - 1) for i in indices])


class tuples_backwards(Runtime):
    """x, y in place of y, x."""

    def GatherND(self, data, indices, batch_dims=0):
        size = indices.shape[-1]
        if batch_dims == 0 and size > 1:
            return data[tuple(indices[..., size - 1 - i] % data.shape[i] for i in range(size))]
        return super().GatherND(data, indices, batch_dims)


class adds_zero(Runtime):
    """A kernel that computes: -0 becomes +0, signalling NaNs become quiet."""

    def last(self, output):
        with np.errstate(all="ignore"):
            return output + output.dtype.type(0)


class by_double(Runtime):
    """Everything is moved as a double."""

    def last(self, output):
        with np.errstate(all="ignore"):
            return output.astype(np.float64).astype(output.dtype)


class fast_math(Runtime):
    """Denormals are zeros."""

    def last(self, output):
        if output.dtype.kind == "f":
            with np.errstate(all="ignore"):
                output = np.where(np.abs(output) < np.finfo(output.dtype).tiny, output.dtype.type(0), output)
        return output


class tidy_nans(Runtime):
    """One NaN is enough."""

    def last(self, output):
        if output.dtype.kind == "f":
            output = np.where(np.isnan(output), output.dtype.type("nan"), output)
        return output


class by_words(Runtime):
    """Copies whole 32-bit words, and forgets what is left over."""

    def last(self, output):
        raw = np.zeros(output.nbytes, np.uint8)
        whole = output.nbytes // 4 * 4
        raw[:whole] = np.ascontiguousarray(output).view(np.uint8).reshape(-1)[:whole]
        return raw.view(output.dtype).reshape(output.shape)


class one_group(Runtime):
    """One thread group of 256 is all that runs."""

    def last(self, output):
        flat = output.reshape(-1).copy()
        flat[256:] = 0
        return flat.reshape(output.shape)


class up_to_rank_5(Runtime):
    """Sizes beyond the fifth are taken together in the wrong order."""

    def last(self, output):
        if output.ndim <= 5:
            return output
        return output.reshape(*output.shape[:4], -1).swapaxes(-1, -2).reshape(output.shape)


class column_major(Runtime):
    """The output in Fortran's order."""

    def last(self, output):
        return np.frombuffer(output.tobytes(order="F"), output.dtype).reshape(output.shape)


class narrow_indices(Runtime):
    """Indices are bytes without sign."""

    def Gather(self, data, indices, axis=0):
        return np.take(data, indices.astype(np.uint8), axis=axis, mode="clip")


class remembers(Runtime):
    """Compiles once per model, and constant-folds what it should not."""

    def __init__(self):
        self.outputs = {}

    def run(self, model_bytes, feeds):
        if model_bytes not in self.outputs:
            self.outputs[model_bytes] = super().run(model_bytes, feeds)
        return self.outputs[model_bytes]


class tires(Runtime):
    """Every fiftieth answer is one of the past."""

    def __init__(self):
        self.count = 0

    def last(self, output):
        self.count += 1
        return np.roll(output, 1) if self.count % 50 == 0 else output


class as_float(Runtime):
    """Integers are returned as floats."""

    def last(self, output):
        return output.astype(np.float32) if output.dtype == np.int32 else output


class squeezes(Runtime):
    """Sizes of 1 are dropped."""

    def last(self, output):
        return output.squeeze()
