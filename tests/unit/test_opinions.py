"""Independent implementations compute the same outputs as the page's pseudocode."""

import numpy as np
import pytest
from hypothesis import given, settings

from opmap import strategies
from opmap.cases.random_cases import draw_case, random_descriptors
from opmap.engines.arrays import from_array, to_array
from opmap.engines.providers import open_provider
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource
from opmap.tensors import DataType

CPU = open_provider("cpu")

MAX_CHOICES = 32
"""The most arrays that np.choose accepts before NumPy 2; onnx.reference is wrong for GatherElements on longer axes."""


def on_the_cpu(case, **options):
    """Returns the output of a case on ONNX Runtime's CPU EP, and checks that it ran there."""
    mapped = map_descriptor(case.desc, **options)
    feeds = {name: to_array(tensor) for name, tensor in mapped.feed(case.tensors).items()}
    result = CPU.performer.run_once(mapped.model_bytes, feeds)
    assert result.placement.proves("CPUExecutionProvider")
    (output,) = result.outputs.values()
    return output


class TestOnnxRuntime:
    """ONNX Runtime's CPU EP, which shares no code with opmap."""

    @settings(max_examples=300)
    @given(strategies.cases())
    def test_agrees(self, case):
        """Bit for bit, for all operators and types."""
        output = on_the_cpu(case)
        assert case.desc.output.sizes == output.shape
        assert list(case.expected) == list(from_array(output).bits)

    @given(strategies.cases(index_types=[DataType.UINT32, DataType.UINT64], max_elements=64))
    def test_agrees_with_indices_converted_on_the_host(self, case):
        """Bit for bit too if opmap converts the indices before the graph."""
        for conversion in ("host", "directml"):
            assert list(case.expected) == list(from_array(on_the_cpu(case, index_conversion=conversion)).bits)

    def test_agrees_on_large_tensors(self):
        """Bit for bit on tensors with thousands of elements."""
        choices = SeededSource(11)
        for desc in random_descriptors(40, seed=11, max_elements=20_000):
            case = draw_case(choices, desc)
            assert list(case.expected) == list(from_array(on_the_cpu(case)).bits)


class TestOnnxReference:
    """onnx.reference, which is right for Gather and GatherND, and for GatherElements on short axes."""

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_agrees(self, operator):
        """Bit for bit on at least 30 random descriptors of each operator."""
        from onnx.reference import ReferenceEvaluator

        choices, compared = SeededSource(5), 0
        for desc in random_descriptors(400, seed=5, max_elements=128):
            if desc.operator != operator:
                continue
            if operator == "GATHER_ELEMENTS" and desc.input_tensor.sizes[desc.axis] >= MAX_CHOICES:
                continue
            case = draw_case(choices, desc)
            mapped = map_descriptor(desc)
            feeds = {name: to_array(tensor) for name, tensor in mapped.feed(case.tensors).items()}
            (output,) = ReferenceEvaluator(mapped.model).run(None, feeds)
            assert list(case.expected) == list(from_array(np.asarray(output)).bits), desc
            compared += 1
        assert compared >= 30


class TestNumPy:
    """NumPy's own functions, on bit patterns of any type."""

    @given(strategies.cases(operators=["GATHER", "GATHER_ELEMENTS"]))
    def test_take_and_take_along_axis(self, case):
        """GATHER is `take` along the axis, GATHER_ELEMENTS is `take_along_axis`."""
        desc = case.desc
        bits = np.array(case.tensors["InputTensor"].bits, np.uint64).reshape(desc.input_tensor.sizes)
        indices = np.array(case.tensors["IndicesTensor"].values, np.int64).reshape(desc.indices_tensor.sizes)
        if desc.operator == "GATHER":
            k = desc.index_dimensions
            expected = np.take(bits, indices.reshape(desc.indices_tensor.sizes[indices.ndim - k :]), axis=desc.axis)
        else:
            expected = np.take_along_axis(bits, indices, axis=desc.axis)
        assert list(case.expected) == expected.ravel().tolist()
