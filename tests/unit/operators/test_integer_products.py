"""Products of matrices and convolutions of 8-bit integers: random descriptors against NumPy, as the pages say it, and
against the CPU EP; the descriptors of nodes.
"""

from collections import Counter
from itertools import product

import numpy as np
import onnx
import pytest
from drawn_cases import drawn, verdicts_on_the_cpu_ep

from opmap.cli import main
from opmap.descriptors import TensorDesc
from opmap.engines.arrays import to_array
from opmap.errors import MappingError
from opmap.mapping.mapper import map_descriptor
from opmap.operators import OPERATORS, emitted
from opmap.tensors import DataType, Tensor, from_bits

NAMES = ("MATRIX_MULTIPLY_INTEGER", "CONVOLUTION_INTEGER")
U8, I8 = DataType.UINT8, DataType.INT8


def found_in(case):
    """The documented elements of the output; None where there are none."""
    output = case.desc.output
    bits = case.desc.interpret(case.tensors)
    numbers = [None if b is None else from_bits(output.data_type, [b])[0] for b in bits]
    return np.array(numbers, object).reshape(output.sizes)


def without_zero(case, field):
    """An input without its zero point, as INT64."""
    zero = case.tensors.get(field.replace("Tensor", "ZeroPointTensor"))
    array = to_array(case.tensors[field]).astype(np.int64)
    if zero is None:
        return array
    shape = zero.sizes if field != "FilterTensor" else (-1,) + (1,) * (array.ndim - 1)
    return array - to_array(zero).astype(np.int64).reshape(shape)


def types_in(case):
    """The data types of both inputs."""
    return " ".join(case.desc.tensors[name].data_type.name for name in case.desc.data_tensors() if "Zero" not in name)


TYPES = {f"{first} {second}" for first, second in product(("UINT8", "INT8"), repeat=2)}


class TestMatrices:
    """MATRIX_MULTIPLY_INTEGER."""

    def test_random_descriptors(self):
        """Each element is the sum of the products, and each one is documented."""
        seen = Counter()
        for case in drawn("MATRIX_MULTIPLY_INTEGER"):
            wanted = without_zero(case, "ATensor") @ without_zero(case, "BTensor")
            assert found_in(case).tolist() == wanted.tolist(), case.id
            zeros = [t.element_count > 1 for n, t in case.desc.inputs.items() if "Zero" in n]
            seen.update([types_in(case), case.desc.output.dimension_count, f"zeros {len(zeros)}"])
            seen["per row or column"] += any(zeros)
        assert {*TYPES, 2, 3, 4, "zeros 0", "zeros 1", "zeros 2"} <= seen.keys()
        assert seen["per row or column"] > 30

    def test_overflow_has_no_documented_value(self):
        """The page says nothing of a sum that INT32 does not hold, in any order of adding."""
        count = 2**31 // 255**2 + 1
        for length, known in ((count - 1, True), (count, False)):
            desc = emitted("MatMulInteger", [TensorDesc(U8, (1, length)), TensorDesc(U8, (length, 1))], {})
            full = {n: Tensor.from_values(U8, own.sizes, [255] * length) for n, own in desc.inputs.items()}
            assert [*desc.interpret(full)] == [length * 255**2 if known else None]

    def test_broadcast_batches(self):
        """The EP repeats matrices with a stride of 0, and a vector is a matrix of one row or column."""
        desc = emitted("MatMulInteger", [TensorDesc(U8, (3, 1, 2, 4)), TensorDesc(I8, (5, 4, 7))], {})
        assert [(t.sizes, t.strides) for t in desc.inputs.values()] == [
            ((3, 5, 2, 4), (8, 0, 4, 1)),
            ((3, 5, 4, 7), (0, 28, 7, 1)),
        ]
        assert desc.output == TensorDesc(DataType.INT32, (3, 5, 2, 7))
        vectors = emitted("MatMulInteger", [TensorDesc(U8, (4,)), TensorDesc(U8, (4,))], {})
        assert [t.sizes for t in vectors.tensors.values()] == [(1, 1, 1, 4), (1, 1, 4, 1), (1, 1, 1, 1)]

    def test_a_zero_point_for_each_row_of_a_vector(self):
        """A list of zero points of A becomes one of columns, which the page does not have."""
        inputs = [TensorDesc(U8, (2, 4)), TensorDesc(U8, (4, 3)), TensorDesc(U8, (2,))]
        assert [v.rule for v in emitted("MatMulInteger", inputs, {}).violations()] == ["MATRIX_MULTIPLY_INTEGER.C7"]


def convolution(case):
    """The sums of products, and where a window reaches into the padding."""
    desc, data, filters = case.desc, without_zero(case, "InputTensor"), without_zero(case, "FilterTensor")
    pads = [(0, 0), (0, 0), *zip(desc.start_padding, desc.end_padding, strict=True)]
    is_padding = np.pad(np.zeros_like(data), pads, constant_values=1)
    data, wanted, touched = np.pad(data, pads), np.zeros(desc.output.sizes, np.int64), np.zeros(desc.output.sizes, bool)
    of_group = filters.shape[0] // desc.group_count
    for place in np.ndindex(*desc.output.sizes):
        batch, channel, *at = place
        first = channel // of_group * filters.shape[1]
        spans = zip(at, desc.strides, desc.dilations, filters.shape[2:], strict=True)
        own = (
            batch,
            slice(first, first + filters.shape[1]),
            *(slice(i * s, i * s + (n - 1) * d + 1, d) for i, s, d, n in spans),
        )
        wanted[place], touched[place] = (data[own] * filters[channel]).sum(), is_padding[own].any()
    return wanted, touched


class TestConvolution:
    """CONVOLUTION_INTEGER."""

    def test_random_descriptors(self):
        """Each element is the sum of the products; none is documented beside padding if the input has a zero point."""
        seen = Counter()
        for case in drawn("CONVOLUTION_INTEGER"):
            desc, (wanted, touched), found = case.desc, convolution(case), found_in(case)
            zero = case.tensors.get("InputZeroPointTensor")
            unknown = touched & bool(zero and any(zero.values))
            assert (np.equal(found, None) == unknown).all(), case.id
            assert (found[~unknown] == wanted[~unknown]).all(), case.id
            seen.update([types_in(case), f"groups {desc.group_count}", f"spatial {desc.dimension_count}"])
            seen["unknown"] += int(unknown.sum())
            seen["known in padding"] += int((touched & ~unknown).sum())
            seen["dilated"] += max(desc.dilations) > 1
        assert {*TYPES, "groups 1", "groups 2", "groups 3", "spatial 1", "spatial 2"} <= seen.keys()
        assert min(seen["unknown"], seen["known in padding"], seen["dilated"]) > 100

    def test_one_spatial_dimension(self):
        """The EP adds a one behind the channels, and gives the zero points of channels their dimension."""
        shapes = [(U8, (2, 4, 9)), (I8, (6, 2, 3)), (U8, ()), (I8, (6,))]
        attributes = {"strides": (2,), "pads": (1, 0), "group": 2}
        desc = emitted("ConvInteger", [TensorDesc(*own) for own in shapes], attributes)
        assert not desc.violations()
        assert desc.inputs["FilterZeroPointTensor"].sizes == (1, 6, 1, 1)
        assert desc.output == TensorDesc(DataType.INT32, (2, 6, 1, 4))
        assert (desc.strides, desc.dilations, desc.start_padding, desc.end_padding) == ((1, 2), (1, 1), (0, 1), (0, 0))


class TestNodes:
    """Both."""

    @pytest.mark.parametrize(
        ("name", "types", "verdicts"),
        [
            ("MATRIX_MULTIPLY_INTEGER", {"UINT8", "INT8"}, {"pass", "unsupported"}),
            ("CONVOLUTION_INTEGER", {"UINT8", "INT8"}, {"pass", "observed", "unsupported"}),
        ],
    )
    def test_on_the_cpu_ep(self, name, types, verdicts):
        """The CPU EP agrees for every type that it has a kernel for."""
        found = verdicts_on_the_cpu_ep(drawn(name))
        assert types == {data_type for data_type, own in found.items() if own["pass"] > 20}, found
        assert verdicts >= {verdict for own in found.values() for verdict in own}, found

    @pytest.mark.parametrize("name", NAMES)
    def test_inverse(self, name):
        """The descriptor of the node is that of which the node was made, but for leading ones."""
        operator = OPERATORS[name]
        for case in filter(lambda own: operator.expressed(own.desc), drawn(name)):
            lowered = map_descriptor(case.desc).lowered_as
            assert not lowered.violations(), case.id
            for field, tensor in case.desc.tensors.items():
                assert [n for n in lowered.tensors[field].sizes if n > 1] == [n for n in tensor.sizes if n > 1]

    def test_the_second_zero_point_alone(self):
        """A model's node has no gap among its inputs."""
        wanted = {"InputTensor", "FilterTensor", "FilterZeroPointTensor"}
        case = next(own for own in drawn(NAMES[1]) if own.desc.inputs.keys() == wanted)
        with pytest.raises(MappingError, match="FilterZeroPointTensor without InputZeroPointTensor"):
            OPERATORS[NAMES[1]].lowering(case.desc)


class TestBadInput:
    """One line that says what is wrong."""

    @pytest.mark.parametrize(
        ("op_type", "sizes", "attributes", "message"),
        [
            ("ConvInteger", [(1, 2, 3), (2, 1, 2)], {"group": 1}, "CONVOLUTION_INTEGER.D4"),
            ("ConvInteger", [(1, 2, 3, 3), (2, 2, 4, 1)], {}, "CONVOLUTION_INTEGER.D5"),
            ("MatMulInteger", [(2, 3), (3, 2), (3, 1)], {}, "MATRIX_MULTIPLY_INTEGER.C7"),
        ],
    )
    def test_a_node_that_breaks_a_rule(self, op_type, sizes, attributes, message):
        """The rule is named."""
        desc = emitted(op_type, [TensorDesc(U8, own) for own in sizes], attributes)
        assert message in [v.rule for v in desc.violations()]

    @pytest.mark.parametrize(
        ("inputs", "said"),
        [
            ("a, b, , z", "MatMulInteger must have no gap among its inputs: input 3"),
            ("a, b, ", "1 pass"),
            ("a, b, z", "1 pass"),
        ],
    )
    def test_inputs_that_are_left_out(self, inputs, said, tmp_path, capsys):
        """A gap before a given input is named; an input that is left out at the end makes no difference."""
        text = f"g (uint8[2,2] a, uint8[2,2] b) => (int32[2,2] y) <uint8 z = {{2}}> {{ y = MatMulInteger({inputs}) }}"
        model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 13]>' + text)
        onnx.save(model, tmp_path / "model.onnx")
        assert 0 == main(["check", str(tmp_path / "model.onnx"), "--provider", "cpu"])
        assert said in capsys.readouterr().out

    def test_more_products_than_opmap_computes(self, tmp_path, capsys):
        """ONNX's reference evaluator judges a node with larger matrices."""
        values = [
            onnx.helper.make_tensor_value_info(name, element_type, [1 << 8, 1 << 8])
            for name, element_type in (
                ("a", onnx.TensorProto.UINT8),
                ("b", onnx.TensorProto.UINT8),
                ("y", onnx.TensorProto.INT32),
            )
        ]
        node = onnx.helper.make_node("MatMulInteger", ["a", "b"], ["y"])
        opsets = [onnx.helper.make_opsetid("", 13)]
        model = onnx.helper.make_model(
            onnx.helper.make_graph([node], "g", values[:2], values[2:]), opset_imports=opsets, ir_version=8
        )
        onnx.save(model, tmp_path / "model.onnx")
        assert 0 == main(["check", str(tmp_path / "model.onnx"), "--provider", "cpu"])
        assert "must go over at most 4194304 positions, got 16777216" in capsys.readouterr().out
