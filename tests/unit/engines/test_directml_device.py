"""Operators on DirectML itself. Runs where there is a DirectML: on Windows, or within the folder of tools/dml_linux."""

from __future__ import annotations

import dataclasses
import random
from array import array

import numpy as np
import pytest
from tiers import one_of_a_file

from opmap.cases.catalogue import example_descriptor
from opmap.cases.random_cases import data_types, draw_case, draw_descriptor, index_types
from opmap.cases.written_once import rows_of
from opmap.descriptors import TensorDesc
from opmap.engines.directml.arena import Arena
from opmap.engines.directml.describing import dispatchable, touched
from opmap.engines.directml.device import Device
from opmap.engines.directml.dispatching import run
from opmap.engines.directml.hresults import INVALID_ARGUMENT, BindingRefused, CallFailed
from opmap.engines.machine.adapters import candidates
from opmap.errors import ProviderError, PseudocodeError
from opmap.mapping.memory import from_memory, to_memory
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource
from opmap.spec import all_specs, load_spec
from opmap.tensors import DataType, Tensor, settled

pytestmark = pytest.mark.platform

RUNNABLE = [
    (spec, example.id)
    for spec in all_specs()
    for example in spec.corrected.examples
    if example.runnable and not example.has_undefined
]
ALL = pytest.mark.parametrize(("spec", "example"), RUNNABLE, ids=lambda value: getattr(value, "name", value))
GRAPH = pytest.mark.parametrize("graph", [False, True], ids=["CompileOperator", "CompileGraph"])
REFUSED = {("GATHER", "3"), ("GATHER_ELEMENTS", "1")}
"""Examples that DirectML refuses as they are printed: the output of one has another data type than the input."""
NO_DESCRIPTOR = {
    ("TILE", "1"): "given twice",
    ("SCATTER", "2"): "values of sizes",
    ("SCATTER_ND", "1"): "InputDimensionCount",
    ("ELEMENT_WISE_IF", "1"): "unexpected '\\['",
    ("ELEMENT_WISE_BIT_XOR", "1"): "ATensor",
    ("REVERSE_SUBSEQUENCES", "1"): "SequenceLengthsTensor",
    ("REVERSE_SUBSEQUENCES", "2"): "SequenceLengthsTensor",
}
"""Examples that are no descriptor as they are printed -> the reason."""


def known_wrong(desc, *, graph=True):
    """Returns whether DirectML.dll copies other elements (manual page limits, `opmap known one-hot-second-value`)."""
    if desc.operator == "SLICE1":
        return OPERATORS["SLICE1"].classify(desc)["reach"] == "fewer"
    if desc.operator in ("SPLIT", "SPACE_TO_DEPTH1", "DIAGONAL_MATRIX1") or "_BIT_" in desc.operator:
        return graph and desc.output.data_type is DataType.FLOAT16 and any(t.strides for t in desc.tensors.values())
    return desc.operator == "ONE_HOT" and desc.values_tensor.sizes[-1] == 1


def sometimes_wrong(desc):
    """Returns whether DirectML.dll gives other values for some numbers: of INT64 the low halves are compared as signed
    numbers (`opmap known whole-numbers-halved`), halves of large numbers are rounded up, and a window of -infinity is
    the lowest finite number.
    """
    words = ("ARG", "TOP_K", "CLIP", "REDUCE", "MAX", "MIN", "LOGICAL")
    compares = any(word in desc.operator for word in words)
    rounds_up = desc.operator == "ELEMENT_WISE_ROUND" and desc.rounding_mode == 2
    has_windows = desc.operator.startswith("MAX_POOLING") and desc.output.data_type.kind == "float"
    return rounds_up or has_windows or (compares and desc.first_data.data_type is DataType.INT64)


@pytest.fixture(scope="module")
def place():
    """A device and its memory. Whatever was opened is released at the end."""
    try:
        adapter = next(candidates())
        device = Device(adapter.index if adapter else None)
    except ProviderError as error:
        pytest.skip(f"there is no DirectML: {error}")
    arena = Arena(device)
    yield device, arena
    arena.release()
    device.close()


def given(place, desc, tensors, *, offsets=None, **options):
    """Returns the elements of each output as bytes, after a check that no other memory was written.

    A test that would end the process is skipped.
    """
    if desc.operator == "FILL_VALUE_SEQUENCE" and options.get("graph"):
        pytest.skip("CompileGraph reads address 0 (opmap known sequence-graph-crash)")
    contents = {name: to_memory(tensor, tensors[name]) for name, tensor in desc.inputs.items()}
    try:
        regions = run(*place, dispatchable(desc), contents, offsets=offsets, **options)
    except CallFailed as error:
        if "80004005" in str(error) and desc.spec().computes_values:
            pytest.skip("the device compiles no such shader (opmap known emulated-arithmetic)")
        raise
    elements = []
    for name, output in desc.outputs.items():
        offset = (offsets or {}).get(name, 0)
        assert touched(output, regions[name], offset) is None
        actual = Tensor.from_bytes(output.data_type, output.sizes, from_memory(output, regions[name], offset).tobytes())
        expected = desc.of_output(name).interpret(tensors) if desc.spec().computes_values else actual.bits
        elements.append(settled(expected, actual).to_bytes())
    return elements


def wanted(desc, tensors):
    views = map(desc.of_output, desc.outputs)
    return [array(view.output.data_type.bits_code, view.interpret(tensors)).tobytes() for view in views]


class TestExamples:
    """The examples of the pages, with their own types and sizes."""

    @ALL
    @GRAPH
    def test_an_example_gives_the_values_that_are_printed(self, place, spec, example, graph):
        desc, tensors = example_descriptor(spec.corrected, example)
        printed = [tensors[output].to_bytes() for output in desc.outputs]
        assert (printed != given(place, desc, tensors, graph=graph)) == (graph and known_wrong(desc))

    @ALL
    @GRAPH
    def test_an_example_is_accepted_as_printed_unless_its_error_is_in_the_descriptor(self, place, spec, example, graph):
        if reason := NO_DESCRIPTOR.get((spec.name, example)):
            with pytest.raises((PseudocodeError, KeyError), match=reason):
                example_descriptor(spec, example)
            return
        desc, tensors = example_descriptor(spec, example)
        if (spec.name, example) in REFUSED:
            with pytest.raises(CallFailed, match="CreateOperator: 80070057 E_INVALIDARG") as refused:
                given(place, desc, tensors, graph=graph)
            assert INVALID_ARGUMENT == refused.value.code
            return
        undocumented = any(None in desc.of_output(output).interpret(tensors) for output in desc.outputs)
        right = [tensors[n].to_bytes() for n in desc.outputs] if undocumented else wanted(desc, tensors)
        assert (right != given(place, desc, tensors, graph=graph)) == (graph and known_wrong(desc))


class TestDescriptors:
    """What the documentation allows and no ONNX model can say."""

    @pytest.mark.parametrize("operator", one_of_a_file(OPERATORS))
    @GRAPH
    def test_strides_gaps_offsets_and_larger_sizes(self, place, operator, graph):
        for number in range(16):  # each value of `flags` twice; the step `direct` of .ci/run asks many more
            desc, case = drawn(operator, number, data_types(operator), index_types(operator))
            if any(None in desc.of_output(output).interpret(case.tensors) for output in desc.outputs):
                continue
            desc, tensors, offsets = laid_out(desc, case.tensors, random.Random(number))
            if known_wrong(desc, graph=graph) or sometimes_wrong(desc):
                continue
            flags = number % 8
            try:
                got = given(place, desc, tensors, offsets=offsets, flags=flags, graph=graph)
            except pytest.skip.Exception:
                if not desc.spec().computes_values:
                    raise
                continue
            assert wanted(desc, tensors) == got, (operator, number)

    @GRAPH
    def test_a_tensor_that_directml_keeps(self, place, graph):
        desc, tensors = example_descriptor(load_spec("GATHER").corrected, "2")
        for name, attribute in desc.members().items():
            if name in desc.inputs:
                owned = desc.replace(**{attribute: dataclasses.replace(desc.tensors[name], owned_by_dml=True)})
                assert wanted(desc, tensors) == given(place, owned, tensors, graph=graph)

    @pytest.mark.parametrize("alignment", [16, 256, 2**16, 2**20])
    def test_a_high_alignment(self, place, alignment):
        desc, tensors = example_descriptor(load_spec("GATHER").corrected, "2")
        for name, attribute in desc.members().items():
            if name in desc.tensors:
                tensor = dataclasses.replace(desc.tensors[name], guaranteed_base_offset_alignment=alignment)
                desc = desc.replace(**{attribute: tensor})
        assert wanted(desc, tensors) == given(place, desc, tensors)


class TestRefusals:
    """What DirectML refuses, and what happens then."""

    @pytest.mark.parametrize(
        "change",
        [
            {"axis": 2},
            {"index_dimensions": 3},
            {"input_tensor": TensorDesc(DataType.FLOAT32, (3, 0))},
            {"input_tensor": TensorDesc(DataType.FLOAT32, (3, 2), guaranteed_base_offset_alignment=3)},
            {"input_tensor": TensorDesc(DataType.FLOAT32, (3, 2), guaranteed_base_offset_alignment=8)},
            {"output_tensor": TensorDesc(DataType.FLOAT32, (4, 2), total_tensor_size_in_bytes=28)},
            {"output_tensor": TensorDesc(DataType.FLOAT32, (4, 2), strides=(0, 1))},
            {"output_tensor": TensorDesc(DataType.FLOAT32, (4, 2), owned_by_dml=True)},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_a_descriptor_that_breaks_a_rule_is_refused_and_the_next_one_runs(self, place, change):
        desc, tensors = example_descriptor(load_spec("GATHER").corrected, "2")
        contents = {name: to_memory(tensor, tensors[name]) for name, tensor in desc.inputs.items()}
        with pytest.raises(CallFailed, match="80070057"):
            run(*place, dispatchable(desc.replace(**change)), contents)
        assert wanted(desc, tensors) == given(place, desc, tensors)

    @pytest.mark.parametrize(("offset", "alignment"), [(4, 0), (8, 0), (16, 32)])
    def test_an_offset_that_is_not_aligned_costs_the_directml_device_only(self, place, offset, alignment):
        desc, tensors = example_descriptor(load_spec("GATHER").corrected, "2")
        tensor = dataclasses.replace(desc.tensors["InputTensor"], guaranteed_base_offset_alignment=alignment)
        for _ in range(2):
            with pytest.raises(BindingRefused, match="DirectML refused a binding"):
                given(place, desc.replace(input_tensor=tensor), tensors, offsets={"InputTensor": offset})
        assert wanted(desc, tensors) == given(place, desc, tensors)


def drawn(operator, number, types, indices):
    """Returns a random descriptor, and a case of it."""
    source = SeededSource(number)
    choice = {"data_types": types, "index_types": indices, "dimension_counts": (1, 8), "max_elements": 300}
    desc = draw_descriptor(source, operator, **choice)
    return desc, draw_case(source, desc)


def laid_out(desc, tensors, source):
    """Returns a descriptor with strides and larger sizes, the values that fit it, and offsets in the buffers.

    Along a dimension with stride 0, the values are those of its first position.
    """
    laid, values, offsets = {}, {}, {}
    for name, tensor in desc.tensors.items():
        if source.random() < 0.7:
            # the last dimension of indices may hold a tuple, whose coordinates have limits of their own; and an element
            # that is written at two indices has no documented value
            repeats = name in desc.inputs and not (name in desc.index_tensors() and rows_of(desc, name) is not None)
            dimensions = tensor.dimension_count - (name in desc.index_tensors()) if repeats else 0
            strides, repeated = drawn_strides(tensor, source, range(dimensions))
            tensor = dataclasses.replace(tensor, strides=strides)
        else:
            repeated = []
        alignment = source.choice([0, 16, 32, 256])
        total = tensor.minimum_size_in_bytes + 4 * source.choice([0, 0, 1, 17])
        laid[name] = dataclasses.replace(
            tensor, total_tensor_size_in_bytes=total, guaranteed_base_offset_alignment=alignment
        )
        offsets[name] = max(alignment, 16) * source.choice([0, 1, 2, 3, 16])
        if name in desc.inputs:
            bits = np.array(tensors[name].bits).reshape(tensor.sizes)
            for dimension in repeated:
                bits = np.broadcast_to(bits.take([0], dimension), tensor.sizes)
            codes = array(tensor.data_type.bits_code, bits.ravel().tolist())
            values[name] = Tensor(tensor.data_type, tensor.sizes, codes)
    return desc.with_tensors(laid), values, offsets


def drawn_strides(tensor, source, broadcast):
    """Returns strides of a permuted tensor with gaps, and the dimensions whose stride is 0: some of `broadcast`."""
    order = list(range(tensor.dimension_count))
    source.shuffle(order)
    strides, step, repeated = [0] * len(order), source.choice([1, 1, 2]), []
    for dimension in order:
        if dimension in broadcast and source.random() < 0.15:
            repeated.append(dimension)
            continue
        strides[dimension] = step
        step = step * tensor.sizes[dimension] + source.choice([0, 0, 0, 1])
    return tuple(strides), repeated
