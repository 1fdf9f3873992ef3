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
                outputs = self.outputs_of(branch, values)
            else:
                outputs = getattr(self, node.op_type)(*inputs, **attributes)
            values.update(zip(node.output, outputs if isinstance(outputs, list) else [outputs], strict=True))
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

    def Transpose(self, x, perm=None):
        """Permutes the dimensions."""
        return np.transpose(x, perm)

    def Expand(self, x, shape):
        """The output has the larger of two sizes."""
        return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))

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
