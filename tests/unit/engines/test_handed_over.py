"""Who made a wrong value of a fused graph: the DirectML EP or DirectML."""

from dataclasses import replace

import numpy as np
import pytest

from opmap.engines.expectations import ExpectedStep
from opmap.engines.steps import Run
from opmap.fuzz.handed_over import maker_of
from opmap.mapping.serialized_graph import ConstantNode, OperatorNode, SerializedGraph, SerializedTensor

X = np.array([[1, 2, 3, 4]], np.float32)
HALVES = np.split(X, 2, axis=1)
RIGHT = HALVES[0] / (1 + np.exp(-HALVES[1]))
OTHER_HALF = HALVES[1] / (1 + np.exp(-HALVES[0]))


def tensor(*sizes, strides=None):
    return SerializedTensor("DML_TENSOR_DATA_TYPE_FLOAT32", sizes, strides, None)


def node(operator, inputs, outputs, **attributes):
    """A node. `inputs` and `outputs` are tensors by name."""
    sides = tuple(inputs.values()), tuple(outputs.values())
    return OperatorNode(
        outputs and next(iter(outputs)), f"DML_OPERATOR_{operator}", *sides, attributes, tuple(inputs), tuple(outputs)
    )


HALF = tensor(1, 1, 1, 2)
SPLIT = node("SPLIT", {"x": tensor(1, 1, 1, 4)}, {"a": HALF, "b": HALF}, OutputCount=2, Axis=3)


def gate(gated, gating, *more):
    """The graph of a half times the sigmoid of a half."""
    sigmoid = node("ACTIVATION_SIGMOID", {gating: HALF}, {"s": HALF})
    return SerializedGraph(
        (*more, SPLIT, sigmoid, node("ELEMENT_WISE_MULTIPLY", {gated: HALF, "s": HALF}, {"y": HALF})), ("x",), ("y",)
    )


def made_by(graph, got, files=None):
    expected = ExpectedStep(Run(session="s", feeds={"x": X}), ({"y": RIGHT},), tolerances={"y": 0.01})
    return maker_of(graph, files or {}, expected, {"y": got})


@pytest.mark.parametrize(
    ("graph", "got", "expected"),
    [
        (gate("a", "b"), OTHER_HALF, "DirectML"),
        (gate("b", "a"), OTHER_HALF, "the DirectML EP"),
        (gate("a", "b"), RIGHT, ""),
        (gate("b", "b"), OTHER_HALF, ""),
        (gate("c", "b"), OTHER_HALF, ""),
        (SerializedGraph((), ("x",), ("y",)), OTHER_HALF, ""),
    ],
)
def test_gate(graph, got, expected):
    """A right graph blames DirectML, one that gives the wrong values the EP, and any other nobody."""
    assert expected == made_by(graph, got)


def test_constants():
    """Constants are in the graph or in files beside it, and strides of 0 repeat them."""
    one = tensor(1, 1, 1, 4, strides=(0, 0, 0, 0))
    multiply = node("ELEMENT_WISE_MULTIPLY", {"x": tensor(1, 1, 1, 4), "c": one}, {"y": tensor(1, 1, 1, 4)})
    two = np.frombuffer(np.float32(2).tobytes(), np.uint8)
    inside = ConstantNode("c", two.tobytes(), None, ("c",))
    expected = ExpectedStep(Run(session="s", feeds={"x": X}), ({"y": X * 2},))
    for constant, files in ((inside, {}), (replace(inside, data=None, external="c"), {"c": two})):
        graph = SerializedGraph((constant, multiply), ("x",), ("y",))
        assert "DirectML" == maker_of(graph, files, expected, {"y": X * 3})


def test_behind_the_memory():
    """A tensor that reaches behind its memory is not read."""
    far = node("ELEMENT_WISE_ADD", {"x": tensor(1, 1, 1, 4, strides=(0, 0, 0, 9)), "s": HALF}, {"y": HALF})
    assert "" == made_by(SerializedGraph((far,), ("x",), ("y",)), OTHER_HALF)
