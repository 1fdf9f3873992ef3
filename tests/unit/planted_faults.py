"""Wrong backends as a third party would write them: they run the model's nodes with NumPy and do not use opmap.

Each public name is a factory for `--provider planted_faults:NAME`. `right` is the backend without an error.
"""

import numpy as np
import onnx
from onnx import numpy_helper


class Runtime:
    """Runs the nodes of a model with NumPy."""

    name = "planted"

    def run(self, model_bytes, feeds):
        """Returns the outputs of the graph."""
        graph = onnx.load_from_string(model_bytes).graph
        return [self.last(output) for output in self.outputs_of(graph, feeds)]

    def outputs_of(self, graph, values):
        """Returns the outputs of a graph; `values` are its inputs, and for a branch the outer values."""
        values = {i.name: numpy_helper.to_array(i) for i in graph.initializer} | values
        for node in graph.node:
            self.graph, self.node = graph, node
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            inputs = [values[name] for name in node.input]
            if node.op_type == "If":
                branch = attributes["then_branch" if inputs[0] else "else_branch"]
                (values[node.output[0]],) = self.outputs_of(branch, values)
            else:
                values[node.output[0]] = getattr(self, node.op_type)(*inputs, **attributes)
        return [values[output.name] for output in graph.output]

    def last(self, output):
        """Returns an output of the graph as the backend returns it."""
        return output

    def Cast(self, x, to):
        """Converts to an ONNX type."""
        return x.astype(onnx.helper.tensor_dtype_to_np_dtype(to))

    def Reshape(self, x, shape):
        """Supports neither 0 nor -1 in the shape: the models have none."""
        return x.reshape(shape)

    def Tile(self, x, repeats):
        """Repeats the tensor."""
        return np.tile(x, repeats)

    def Gather(self, data, indices, axis=0):
        """np.take accepts negative indices."""
        return np.take(data, indices, axis=axis)

    def GatherElements(self, data, indices, axis=0):
        """take_along_axis accepts negative indices too."""
        return np.take_along_axis(data, indices, axis=axis)

    def GatherND(self, data, indices, batch_dims=0):
        """Handles one batch after the other; within a batch, all index tuples at once."""
        if batch_dims:
            return np.stack([self.GatherND(d, i, batch_dims - 1) for d, i in zip(data, indices, strict=True)])
        return data[tuple(np.moveaxis(indices, -1, 0))]


right = Runtime


class clips(Runtime):
    """np.take clips: every negative index becomes 0."""

    def Gather(self, data, indices, axis=0):
        return np.take(data, indices, axis=axis, mode="clip")


class forgets_axis(Runtime):
    """Gather ignores the axis attribute."""

    def Gather(self, data, indices, axis=0):
        out = np.take(data, indices.reshape(-1) % data.shape[axis] % data.shape[0], axis=0)
        return np.resize(out, data.shape[:axis] + indices.shape + data.shape[axis + 1 :])


class elements_by_first_row(Runtime):
    """GatherElements uses the first row of indices for whole slices."""

    def GatherElements(self, data, indices, axis=0):
        line = np.moveaxis(indices, axis, 0).reshape(indices.shape[axis], -1)[:, 0]
        return np.take(data, line, axis=axis)


class elements_transposed(Runtime):
    """GatherElements exchanges rows and columns of the indices if the shape allows it."""

    def GatherElements(self, data, indices, axis=0):
        if indices.ndim > 1 and indices.shape[-1] == indices.shape[-2]:
            indices = indices.swapaxes(-1, -2)
        return np.take_along_axis(data, indices, axis=axis)


class one_batch(Runtime):
    """With two batch dimensions or more, every batch uses the data of the first."""

    def GatherND(self, data, indices, batch_dims=0):
        if batch_dims < 2:
            return super().GatherND(data, indices, batch_dims)
        return np.stack([self.GatherND(data[0], i, batch_dims - 1) for i in indices])


class tuples_backwards(Runtime):
    """The coordinates of an index tuple are in reverse order."""

    def GatherND(self, data, indices, batch_dims=0):
        size = indices.shape[-1]
        if batch_dims == 0 and size > 1:
            return data[tuple(indices[..., size - 1 - i] % data.shape[i] for i in range(size))]
        return super().GatherND(data, indices, batch_dims)


class adds_zero(Runtime):
    """The kernel adds 0 to each element: -0 becomes +0, signalling NaNs become quiet."""

    def last(self, output):
        with np.errstate(all="ignore"):
            return output + output.dtype.type(0)


class by_double(Runtime):
    """Every element is converted to FLOAT64 and back."""

    def last(self, output):
        with np.errstate(all="ignore"):
            return output.astype(np.float64).astype(output.dtype)


class fast_math(Runtime):
    """Denormals become zero."""

    def last(self, output):
        if output.dtype.kind == "f":
            with np.errstate(all="ignore"):
                output = np.where(np.abs(output) < np.finfo(output.dtype).tiny, output.dtype.type(0), output)
        return output


class tidy_nans(Runtime):
    """Every NaN becomes the same NaN."""

    def last(self, output):
        if output.dtype.kind == "f":
            output = np.where(np.isnan(output), output.dtype.type("nan"), output)
        return output


class by_words(Runtime):
    """Copies whole 32-bit words; a partial last word stays zero."""

    def last(self, output):
        raw = np.zeros(output.nbytes, np.uint8)
        whole = output.nbytes // 4 * 4
        raw[:whole] = np.ascontiguousarray(output).view(np.uint8).reshape(-1)[:whole]
        return raw.view(output.dtype).reshape(output.shape)


class one_group(Runtime):
    """Only the first group of 256 elements is written."""

    def last(self, output):
        flat = output.reshape(-1).copy()
        flat[256:] = 0
        return flat.reshape(output.shape)


class up_to_rank_5(Runtime):
    """An output of more than five dimensions is written in the wrong order."""

    def last(self, output):
        if output.ndim <= 5:
            return output
        return output.reshape(*output.shape[:4], -1).swapaxes(-1, -2).reshape(output.shape)


class column_major(Runtime):
    """The output is written column-major."""

    def last(self, output):
        return np.frombuffer(output.tobytes(order="F"), output.dtype).reshape(output.shape)


class narrow_indices(Runtime):
    """Gather converts indices to unsigned bytes."""

    def Gather(self, data, indices, axis=0):
        return np.take(data, indices.astype(np.uint8), axis=axis, mode="clip")


class remembers(Runtime):
    """The first outputs of a model are returned in all its later runs."""

    def __init__(self):
        self.outputs = {}

    def run(self, model_bytes, feeds):
        if model_bytes not in self.outputs:
            self.outputs[model_bytes] = super().run(model_bytes, feeds)
        return self.outputs[model_bytes]


class tires(Runtime):
    """Every fiftieth output is shifted by one element."""

    def __init__(self):
        self.count = 0

    def last(self, output):
        self.count += 1
        return np.roll(output, 1) if self.count % 50 == 0 else output


class as_float(Runtime):
    """INT32 is returned as FLOAT32."""

    def last(self, output):
        return output.astype(np.float32) if output.dtype == np.int32 else output


class squeezes(Runtime):
    """Dimensions of size 1 are removed."""

    def last(self, output):
        return output.squeeze()
