"""Independent implementations compute the same outputs as the page's pseudocode."""

from hypothesis import assume, given, settings

from opmap import strategies
from opmap.engines.arrays import from_array, to_array
from opmap.engines.providers import open_provider
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS
from opmap.tensors import DataType

CPU = open_provider("cpu")

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
        """Bit for bit, for all operators and types that it has."""
        assume(case.desc.output.data_type not in OPERATORS[case.desc.operator].cast_on_cpu)
        output = on_the_cpu(case)
        assert case.desc.output.sizes == output.shape
        assert list(case.expected) == list(from_array(output).bits)

    @given(strategies.cases(index_types=[DataType.UINT32, DataType.UINT64], max_elements=64))
    def test_agrees_with_indices_converted_on_the_host(self, case):
        """Bit for bit too if opmap converts the indices before the graph."""
        for conversion in ("host", "directml"):
            assert list(case.expected) == list(from_array(on_the_cpu(case, index_conversion=conversion)).bits)
