"""The element-wise operators: random descriptors against NumPy, as the pages say it, and against the CPU EP.

Inputs are packed or have strides of 0, as nodes of ONNX broadcast them.
"""

from collections import Counter

import numpy as np
import onnx
import pytest
from drawn_cases import drawn, types_on_the_cpu_ep
from tiers import others_slow

from opmap.cases.catalogue import catalogue
from opmap.cases.random_cases import draw_case
from opmap.descriptors import TensorDesc
from opmap.engines.arrays import dtype_of
from opmap.judge.onnx_models.nodes import find_nodes
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS, emitted
from opmap.operators.random_source import SeededSource
from opmap.tensors import DataType


def shifted(function):
    """Returns a function of bit patterns that shifts.

    The pages say nothing of a shift by the width of the type or more.
    """

    def shift(a, b):
        width = a.dtype.itemsize * 8
        return function(a, np.minimum(b, a.dtype.type(width - 1))), b < width

    return shift


def always(function):
    """Returns a function of bit patterns that the pages say everything of."""
    return lambda *bits: (function(*bits), True)


def infinite(a, mode):
    """Where a number is an infinity of the sign that the mode names."""
    return np.isinf(a) & ((mode == 0) | ((a > 0) == (mode == 1)))


BY_THE_PAGE = {  # operator -> what NumPy makes of the inputs' bit patterns, and where the page says so
    "BIT_AND": always(np.bitwise_and),
    "BIT_OR": always(np.bitwise_or),
    "BIT_XOR": always(np.bitwise_xor),
    "BIT_NOT": always(np.invert),
    "BIT_COUNT": always(lambda a: sum((a >> a.dtype.type(n)) & a.dtype.type(1) for n in range(a.dtype.itemsize * 8))),
    "BIT_SHIFT_LEFT": shifted(np.left_shift),
    "BIT_SHIFT_RIGHT": shifted(np.right_shift),
}

COMPARED = {  # operator -> what NumPy makes of the inputs' numbers
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
    "LOGICAL_XOR": np.logical_xor,
    "LOGICAL_NOT": np.logical_not,
    "LOGICAL_EQUALS": np.equal,
    "LOGICAL_GREATER_THAN": np.greater,
    "LOGICAL_LESS_THAN": np.less,
    "LOGICAL_GREATER_THAN_OR_EQUAL": np.greater_equal,
    "LOGICAL_LESS_THAN_OR_EQUAL": np.less_equal,
    "IS_NAN": np.isnan,
    "IS_INFINITY": infinite,
}
BY_THE_PAGE |= {name: always(function) for name, function in COMPARED.items()}

ON_THE_CPU_EP = {  # operator -> the data types for which the CPU EP has a kernel
    **dict.fromkeys(("BIT_AND", "BIT_OR", "BIT_XOR", "BIT_NOT"), "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64"),
    **dict.fromkeys(("BIT_SHIFT_LEFT", "BIT_SHIFT_RIGHT"), "UINT8 UINT16 UINT32 UINT64"),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR", "LOGICAL_NOT"), "UINT8"),
    **dict.fromkeys(("IS_NAN", "IS_INFINITY"), "FLOAT32 FLOAT16"),
    **dict.fromkeys(
        [name for name in COMPARED if "EQUAL" in name or "THAN" in name],
        "FLOAT32 FLOAT16 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64",
    ),
}


class TestByThePage:
    """What the interpreter gives is what the page says."""

    @pytest.mark.parametrize("name", BY_THE_PAGE)
    def test_random_descriptors(self, name):
        """Each element of the output has the page's value; all types, dimension counts and broadcasts occur."""
        seen, unknown = Counter(), 0
        for case in drawn(f"ELEMENT_WISE_{name}"):
            inputs = [
                np.array(tensor.bits, f"<u{tensor.data_type.size}")
                .view(dtype_of(tensor.data_type) if name in COMPARED else f"<u{tensor.data_type.size}")
                .reshape(tensor.sizes)
                for tensor in case.tensors.values()
            ]
            wanted, known = BY_THE_PAGE[name](*inputs, *case.desc.numbers.values())
            documented = np.broadcast_to(known, wanted.shape).ravel()
            wanted = wanted.astype(f"<u{case.desc.output.data_type.size}").ravel()
            expected = [int(n) if is_known else None for n, is_known in zip(wanted, documented, strict=True)]
            assert expected == list(case.expected), case.id
            unknown += expected.count(None)
            tensors = case.desc.tensors.values()
            seen.update([*(t.data_type.name for t in tensors), case.desc.output.dimension_count])
            seen.update(f"{field} repeated" for field, t in case.desc.inputs.items() if not t.packed)
        support = OPERATORS[f"ELEMENT_WISE_{name}"].descriptor.spec().support[0].tensors
        types = {t for own in support.values() for t in own.data_types}
        repeated = {f"{field} repeated" for field in ("ATensor", "BTensor") if field in support}
        assert {*types, *range(1, 9), *repeated} == seen.keys()
        assert (unknown > 0) == ("SHIFT" in name)

    @pytest.mark.parametrize("name", others_slow(ON_THE_CPU_EP, *[*ON_THE_CPU_EP][::6]))
    def test_on_the_cpu_ep(self, name):
        """The CPU EP agrees for every type that it has a kernel for."""
        assert {*ON_THE_CPU_EP[name].split()} == types_on_the_cpu_ep(drawn(f"ELEMENT_WISE_{name}"))


class TestShifts:
    """The numbers by which values are shifted."""

    @pytest.mark.parametrize("name", ["BIT_SHIFT_LEFT", "BIT_SHIFT_RIGHT"])
    def test_most_are_below_the_width(self, name):
        """Every number below the width occurs, the width itself, and larger numbers."""
        amounts = {}
        for case in drawn(f"ELEMENT_WISE_{name}"):
            tensor = case.tensors["BTensor"]
            amounts.setdefault(tensor.data_type.size * 8, Counter()).update(tensor.bits)
        assert {8, 16, 32, 64} == amounts.keys()
        for width, found in amounts.items():
            assert {*range(width + 1)} < found.keys()
            assert sum(n for amount, n in found.items() if amount < width) > 0.75 * found.total()


class TestValues:
    """What the values of cases show."""

    @pytest.mark.parametrize("name", [name for name in COMPARED if name != "IS_INFINITY"])
    def test_both_answers(self, name):
        """Of the smallest tier and of random cases, at least one element in 30 is 1, and one is 0."""
        for cases in (catalogue("smoke", globs=[f"element_wise_{name.lower()}/*"]), drawn(f"ELEMENT_WISE_{name}")):
            found = Counter(bits for case in cases for bits in case.expected)
            assert min(found[0], found[1]) > 0.03 * found.total()

    def test_near(self):
        """Of numbers that are compared, a third are equal, a third are neighbours."""
        found = Counter()
        for case in drawn("ELEMENT_WISE_LOGICAL_EQUALS"):
            if case.desc.a_tensor.packed and case.desc.b_tensor.packed:
                a, b = (case.tensors[name].bits for name in ("ATensor", "BTensor"))
                found.update(y - x if abs(y - x) < 2 else "far" for x, y in zip(a, b, strict=True))
        assert all(found[n] > 0.15 * found.total() for n in (-1, 0, 1, "far"))


class TestNodes:
    """ONNX nodes and the descriptors that the DirectML EP makes of them."""

    @pytest.mark.parametrize(("direction", "name"), [("LEFT", "BIT_SHIFT_LEFT"), ("RIGHT", "BIT_SHIFT_RIGHT")])
    def test_direction(self, direction, name):
        """Of BitShift, the direction says which operator it is."""
        tensor = TensorDesc(DataType.UINT8, (2, 3))
        assert f"ELEMENT_WISE_{name}" == emitted("BitShift", [tensor, tensor], {"direction": direction}).operator

    def test_broadcast(self):
        """An input with one element along a dimension gets the stride 0; a scalar everywhere."""
        row, scalar = TensorDesc(DataType.INT32, (3, 1)), TensorDesc(DataType.INT32, ())
        desc = emitted("BitwiseXor", [TensorDesc(DataType.INT32, (2, 1, 4)), row], {})
        assert (1, 2, 3, 4) == desc.output_tensor.sizes
        assert ((0, 4, 0, 1), (0, 0, 1, 0)) == (desc.a_tensor.strides, desc.b_tensor.strides)
        assert (0, 0, 0, 0) == emitted("BitwiseXor", [scalar, row], {}).a_tensor.strides

    def test_not_expressible(self):
        """A node broadcasts, and does nothing else with strides; floats are no type of it."""
        operator = OPERATORS["ELEMENT_WISE_BIT_OR"]

        def expressed(a, b, data_type=DataType.UINT8):
            tensors = [TensorDesc(data_type, (2, 3), strides) for strides in (a, b, None)]
            desc = operator.descriptor(**dict(zip(operator.descriptor.members().values(), tensors, strict=True)))
            assert not desc.violations()
            return operator.expressed(desc) is not None

        assert expressed(None, None) and expressed((0, 1), (1, 0)) and expressed((0, 0), None)
        assert not expressed((1, 2), None)  # permuted
        assert not expressed((4, 1), None)  # with a gap
        assert not expressed((0, 1), (0, 1))  # both are repeated
        assert not expressed(None, None, DataType.FLOAT32)

    def test_models(self):
        """A model feeds the memory of a broadcast input."""
        desc = OPERATORS["ELEMENT_WISE_BIT_AND"].descriptor(
            a_tensor=TensorDesc(DataType.UINT8, (2, 3), (1, 0)),
            b_tensor=TensorDesc(DataType.UINT8, (2, 3)),
            output_tensor=TensorDesc(DataType.UINT8, (2, 3)),
        )
        case = draw_case(SeededSource(1), desc)
        mapped = map_descriptor(desc)
        assert [(2, 1), (2, 3)] == [tensor.sizes for tensor in mapped.feed(case.tensors).values()]
        assert 18 == mapped.model.opset_import[0].version

    def test_an_unknown_direction(self):
        """`check` names the known ones."""
        text = '<ir_version: 8, opset_import: ["" : 13]> g (uint8[2] a, uint8[2] b) => (uint8[2] c) {'
        model = onnx.parser.parse_model(text + 'c = BitShift<direction = "UP">(a, b)}')
        given = type("Given", (), {"model": model})
        (node,) = find_nodes(given)
        assert "got direction; known words are LEFT, RIGHT" in node.reason

    def test_samples(self):
        """A node that takes no floats has samples of integers, which it expresses."""
        for name, data_type in (("BIT_AND", DataType.INT32), ("BIT_SHIFT_LEFT", DataType.UINT32)):
            operator = OPERATORS[f"ELEMENT_WISE_{name}"]
            samples = [*operator.samples()]
            assert {data_type} == {desc.output.data_type for desc in samples}
            assert any(map(operator.expressed, samples))
