"""Independent implementations compute the same outputs as the page's pseudocode."""

from hypothesis import assume, given, settings

from opmap import strategies
from opmap.engines.arrays import from_array, to_array
from opmap.engines.providers import open_provider
from opmap.errors import ProviderError
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS
from opmap.tensors import DataType

CPU = open_provider("cpu")

GATHERS = ["GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1"]


def on_the_cpu(case, **options):
    """Returns the output of a case on ONNX Runtime's CPU EP, and checks that it ran there."""
    mapped = map_descriptor(case.desc, **options)
    feeds = {name: to_array(tensor) for name, tensor in mapped.feed(case.tensors).items()}
    try:
        result = CPU.performer.run_once(mapped.model_bytes, feeds)
    except ProviderError as error:
        assume("NOT_IMPLEMENTED" not in str(error))  # no kernel
        raise
    assert result.placement.proves("CPUExecutionProvider")
    return result.outputs


def compare(case, outputs):
    """Asserts that outputs have the sizes, and the bits of the page's pseudocode where it gives an element a value."""
    expected = case.inputs.all_expected
    assert expected.keys() == outputs.keys()
    for name, output in outputs.items():
        assert case.desc.tensors[name].sizes == output.shape
        pairs = zip(expected[name], from_array(output).bits, strict=True)
        assert list(expected[name]) == [None if wanted is None else bits for wanted, bits in pairs]


class TestOnnxRuntime:
    """ONNX Runtime's CPU EP, which shares no code with opmap."""

    @settings(max_examples=max(300, settings.default.max_examples))
    @given(strategies.cases())
    def test_agrees(self, case):
        """Bit for bit, for all operators and types that it has."""
        operator = OPERATORS[case.desc.operator]
        assume(case.desc.output.data_type not in operator.not_on_cpu and operator.expressed(case.desc))
        assume(not operator.beyond_onnx(case.desc))
        compare(case, on_the_cpu(case))

    @given(strategies.cases(operators=GATHERS, index_types=[DataType.UINT32, DataType.UINT64], max_elements=64))
    def test_agrees_with_indices_converted_on_the_host(self, case):
        """Bit for bit too if opmap converts the indices before the graph."""
        for conversion in ("host", "directml"):
            compare(case, on_the_cpu(case, index_conversion=conversion))
