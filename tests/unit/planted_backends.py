"""Backends with one fault each under a condition, as a third party would write them, for
`--provider planted_backends:NAME`.

They run models with ONNX Runtime's CPU EP, and change what the gather node reads or gives. They do not use opmap.
"""

import numpy as np
import onnx
import onnxruntime
from onnx import helper


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class Backend:
    """Runs a model; `data_and_indices` and `output` may change what the gather node reads and gives."""

    def __init__(self):
        self.calls, self.outputs = 0, {}

    def run(self, model_bytes, feeds):
        self.calls += 1
        model = onnx.load_from_string(model_bytes)
        node = next((node for node in model.graph.node if node.op_type.startswith("Gather")), None)
        if node is None:  # it is in a branch
            return session(model).run(None, feeds)
        names = [output.name for output in model.graph.output]
        for name in node.input:
            model.graph.output.append(helper.make_empty_tensor_value_info(name))
        *outputs, data, indices = session(model).run([*names, *node.input], feeds)
        changed = self.read(node, data, indices)
        if changed is not None:
            (output,) = self.gather(node, *changed)
            outputs[0] = output.reshape(outputs[0].shape)
        before = self.outputs.get(outputs[0].shape)
        self.outputs[outputs[0].shape] = outputs[0]
        return [self.given(node, indices, outputs[0], before), *outputs[1:]]

    @staticmethod
    def gather(node, data, indices):
        """Runs the node alone."""
        own = onnx.NodeProto()
        own.CopyFrom(node)
        own.input[:], own.output[:] = ["data", "indices"], ["output"]
        types = [helper.np_dtype_to_tensor_dtype(array.dtype) for array in (data, indices)]
        inputs = [
            helper.make_tensor_value_info(name, kind, array.shape)
            for name, kind, array in zip(own.input, types, (data, indices), strict=True)
        ]
        graph = helper.make_graph([own], "g", inputs, [helper.make_tensor_value_info("output", types[0], None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return session(model).run(None, {"data": data, "indices": indices})

    def read(self, node, data, indices):
        """Returns the data and indices that the node reads; None changes nothing."""

    def given(self, node, indices, output, before):
        """Returns the output; `before` is the one of the call before with this shape."""
        return output


def attribute(node, name):
    return next((a.i for a in node.attribute if a.name == name), 0)


def lengths(node, data, indices):
    """Returns the length of the axis of each coordinate of an index."""
    if node.op_type == "GatherND":
        batches = attribute(node, "batch_dims")
        return np.array(data.shape[batches : batches + indices.shape[-1]])
    return np.array(data.shape[attribute(node, "axis")])


class SignedByteIndex(Backend):
    """An index is a signed byte."""

    def read(self, node, data, indices):
        if not indices.ndim:
            return None
        n = lengths(node, data, indices)
        cut = indices.astype(np.int8).astype(indices.dtype)
        return data, np.clip(np.where(cut < 0, cut + n, cut), 0, n - 1).astype(indices.dtype)


class TuplesRotate(Backend):
    """Tuples of two or more rotate the output by one."""

    def given(self, node, indices, output, before):
        rotates = node.op_type == "GatherND" and indices.shape[-1] >= 2
        return np.roll(output.reshape(-1), 1).reshape(output.shape) if rotates else output


class OddHalves(Backend):
    """16-bit data with an odd number of output elements repeats the last but one."""

    def given(self, node, indices, output, before):
        if output.itemsize != 2 or output.size % 2 == 0 or output.size < 2:
            return output
        flat = output.reshape(-1).copy()
        flat[-1] = flat[-2]
        return flat.reshape(output.shape)


class FirstBatch(Backend):
    """Batch 0's tuples are used for all batches."""

    def read(self, node, data, indices):
        if node.op_type != "GatherND" or not attribute(node, "batch_dims"):
            return None
        return data, np.ascontiguousarray(np.broadcast_to(indices[:1], indices.shape))


class AxisBefore(Backend):
    """GatherElements above rank 4 with indices as large as the input reads along axis - 1."""

    def read(self, node, data, indices):
        axis = attribute(node, "axis")
        if node.op_type != "GatherElements" or data.ndim < 5 or axis < 1 or data.shape != indices.shape:
            return None
        n, other = data.shape[axis], data.shape[axis - 1]
        node.attribute[0].i = axis - 1
        return data, (np.where(indices < 0, indices + n, indices) % other).astype(indices.dtype)


class Every37th(Backend):
    """Every 37th call returns the previous output of that shape."""

    def given(self, node, indices, output, before):
        stale = self.calls % 37 == 0 and before is not None and before.dtype == output.dtype
        return before if stale else output


class NegativeOnLongAxis(Backend):
    """A negative index on an axis longer than 128 is off by one."""

    def read(self, node, data, indices):
        if not indices.ndim:
            return None
        n = lengths(node, data, indices)
        moved = np.where((indices < 0) & (n > 128), np.clip(indices + n - 1, 0, n - 1), indices)
        return data, moved.astype(indices.dtype)


class ConstantIndices(Backend):
    """Indices that are initializers: the output is zero."""

    def given(self, node, indices, output, before):
        return np.zeros_like(output) if self.constant else output

    def run(self, model_bytes, feeds):
        model = onnx.load_from_string(model_bytes)
        node = next(node for node in model.graph.node if node.op_type.startswith("Gather"))
        self.constant = node.input[1] in {value.name for value in model.graph.initializer}
        return super().run(model_bytes, feeds)


class WideIndices(Backend):
    """64-bit indices: the output is zero."""

    def given(self, node, indices, output, before):
        return np.zeros_like(output) if indices.itemsize == 8 else output


class RankTwo(Backend):
    """GatherElements of rank 2: the output is zero."""

    def given(self, node, indices, output, before):
        return np.zeros_like(output) if node.op_type == "GatherElements" and output.ndim == 2 else output


class EachSecond(Backend):
    """Every second call: the output is zero."""

    def given(self, node, indices, output, before):
        return output if self.calls % 2 else np.zeros_like(output)
