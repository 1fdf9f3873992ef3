"""Operators against ONNX's definition of the node that stands for them: ONNX's own reference implementation, and NumPy
where that lacks something."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from onnx.reference import ReferenceEvaluator
from tiers import one_of_a_file, others_slow

from opmap import strategies
from opmap.cases.catalogue import generated
from opmap.cases.parameters import possible_patterns
from opmap.cases.random_cases import draw_any
from opmap.cases.values import FAR
from opmap.engines.arrays import from_array, to_array
from opmap.engines.providers import open_provider
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS
from opmap.operators.integer_products import beyond_onnx
from opmap.operators.random_source import SeededSource, pick
from opmap.tensors import AnyPattern, DataType, Tensor

CPU = open_provider("cpu")
GATHERS = ["GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1"]


def scatter_elements(data, indices, updates, *, axis):
    """ScatterElements: each update goes to the place of its index along the axis."""
    places = ((at, (*at[:axis], indices[at] % data.shape[axis], *at[axis + 1 :])) for at in np.ndindex(indices.shape))
    return written(data, updates, places)


def scatter_nd(data, indices, updates):
    """ScatterND: each block of updates goes to the place that its tuple names."""
    tuples = np.ndindex(indices.shape[:-1])
    return written(
        data, updates, ((at, tuple(i % n for i, n in zip(indices[at], data.shape, strict=False))) for at in tuples)
    )


def written(data, updates, places):
    """The data with updates written over it; None where ONNX gives nothing, because two of them have one place."""
    output, taken = data.copy(), set()
    for at, place in places:
        output[place] = None if place in taken else updates[at]
        taken.add(place)
    return output


def one_hot(indices, depth, values, *, axis):
    """OneHot: a new axis of `depth` elements, the second value at the index, the first one elsewhere."""
    (depth,) = depth
    output = np.full((*indices.shape[:axis], depth, *indices.shape[axis:]), values[0], object)
    for at in np.ndindex(indices.shape):
        if -depth <= indices[at] < depth:
            output[(*at[:axis], indices[at] % depth, *at[axis:])] = values[1]
    return output


def reverse_sequence(data, lengths, *, batch_axis, time_axis):
    """ReverseSequence: the first elements along the time axis, as many as the length, in reverse order."""
    output = data.copy()
    for batch, length in enumerate(lengths):
        row = [slice(None), slice(None)]
        row[batch_axis], row[time_axis] = batch, slice(0, int(length))
        output[tuple(row)] = data[tuple(row)][::-1]
    return output


def counted(start, limit, delta):
    """Range: start + k * delta, until the limit is reached; None from the first one on that rounding can change."""
    (first,), (end,), (step,) = ([Fraction(n) for n in value.values] for value in (start, limit, delta))
    values = [(k * step, first + k * step) for k in range(math.ceil((end - first) / step))]
    if start.data_type.kind != "float":
        return np.array(Tensor.from_values(start.data_type, [len(values)], [int(n) for _, n in values]).bits, object)

    def known(number):
        return Fraction(float(np.float32(number))) == number and not 0 < abs(number) < Fraction(
            float(np.finfo("f4").tiny)
        )

    exact = [*itertools.takewhile(lambda pair: all(map(known, pair)) and start.bits[0] != 1 << 31, values)]
    bits = np.array([float(n) for _, n in exact], np.float32).view(np.uint32).tolist()
    return np.array([*bits, *[None] * (len(values) - len(exact))], object)


DEFINITIONS = {
    "Expand": lambda data, shape: np.broadcast_to(data, np.broadcast_shapes(data.shape, shape)),  # theirs multiplies
    "OneHot": one_hot,  # the reference implementation takes no list of one depth
    "Range": counted,
    "ReverseSequence": reverse_sequence,  # that of onnx 1.18 takes no length 0
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
}
"""What some ONNX operators give: an array, with None where no value is documented. Of all others, the reference
implementation says it."""


WITH_KERNEL = {
    "ONE_HOT": 0.03,
    "DEPTH_TO_SPACE1": 0.25,
    "SPACE_TO_DEPTH1": 0.25,
    "ELEMENT_WISE_IF": 0.4,
    "PADDING1": 0.4,
    "DIAGONAL_MATRIX1": 0.2,
    "DIAGONAL_MATRIX": 0.3,
    **dict.fromkeys(
        ("ELEMENT_WISE_MAX", "ELEMENT_WISE_MIN", "ACTIVATION_RELU", "ELEMENT_WISE_CLIP1", "ELEMENT_WISE_SIGN"), 0.6
    ),
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": 0.5,
    **dict.fromkeys(("REDUCE", "CUMULATIVE_SUMMATION", "TOP_K1", "ARGMIN", "ARGMAX", "ACTIVATION_HARDMAX1"), 0.6),
    **dict.fromkeys(("MATRIX_MULTIPLY_INTEGER", "CONVOLUTION_INTEGER"), 0.6),
    **dict.fromkeys(("MAX_POOLING", "MAX_POOLING2"), 0.4),
}
"""At least this part of the random descriptors has a kernel of the CPU EP, where it is not most of them."""

REDUCTIONS = (
    "REDUCE",
    "CUMULATIVE_SUMMATION",
    "TOP_K1",
    "ARGMIN",
    "ARGMAX",
    "ACTIVATION_HARDMAX1",
    "CONVOLUTION_INTEGER",
)

NUMBERS = pytest.mark.parametrize("count", others_slow([50, 300], 50))
"""How many random descriptors of each operator are drawn."""


def is_beyond_the_reference(desc):
    """Whether a filter of one spatial dimension has several zero points: theirs takes them of two only."""
    return desc.operator == "CONVOLUTION_INTEGER" and desc.dimension_count == 1 and bool(beyond_onnx(desc))


@cache
def random_cases(name, count):
    """Cases of random descriptors that ONNX can express, of all types and dimension counts, with any index pattern but
    `far`.
    """
    source, operator, cases = SeededSource(26), OPERATORS[name], []
    while len(cases) < count:
        desc, pattern = draw_any(source, name, 512), ""
        if operator.expressed(desc) is None or is_beyond_the_reference(desc):
            continue
        if indices := desc.index_tensors():
            patterns = possible_patterns(desc, desc.tensors[indices[0]].data_type)
            pattern = pick(source, [p for p in patterns if p != FAR or name == "ONE_HOT"])
        cases.append(generated(desc, pattern, "addr0"))
    return cases


def by_definition(case):
    """What ONNX's definition gives for the node that the case is mapped to: the bits of each output."""
    operator, mapped = OPERATORS[case.desc.operator], map_descriptor(case.desc)
    lowering = operator.lowering(case.desc)
    if lowering.op_type not in DEFINITIONS:
        outputs = ReferenceEvaluator(mapped.model).run(None, arrays_of(mapped, case))
        if lowering.op_type == "BitShift":  # the page says nothing of a shift by the width or more
            width, shifts = 8 * case.desc.output.data_type.size, case.tensors["BTensor"].bits
            bits = zip(from_array(outputs[0]).bits, shifts, strict=True)
            return [[value if shift < width else None for value, shift in bits]]
        if lowering.op_type == "Sign":  # ONNX says nothing of a NaN, of which theirs is a NaN
            outputs = [np.nan_to_num(outputs[0])]
        return [list(from_array(np.asarray(output)).bits) for output in outputs]
    arrays = []
    fed = mapped.feed(case.tensors) if lowering.in_memory else case.tensors
    for name, shape in lowering.shapes.items():
        tensor = fed[name]
        values = tensor.integers if name in case.desc.index_tensors() else tensor.bits
        arrays.append(np.array(values, object).reshape(shape))
    for position, name in operator.constant_inputs.items():
        if name in lowering.constants:
            arrays.insert(position, lowering.constants[name])
    return [np.ravel(DEFINITIONS[lowering.op_type](*arrays, **lowering.attributes)).tolist()]


def arrays_of(mapped, case):
    """What a case feeds to its model."""
    return {name: to_array(tensor) for name, tensor in mapped.feed(case.tensors).items()}


def allows(wanted, bits):
    """Whether the page's pseudocode gives a bit pattern, or gives none; a computed zero may have each sign."""
    return wanted in (None, bits) or (isinstance(wanted, AnyPattern) and wanted.allows(bits))


def differing(case, outputs):
    """The elements that outputs of the documented sizes have otherwise than the page's pseudocode gives them."""
    wrong = []
    for output, (name, wanted) in zip(outputs, case.inputs.all_expected.items(), strict=True):
        assert case.desc.tensors[name].sizes == output.shape
        wrong += [w for w, b in zip(wanted, from_array(output).bits, strict=True) if not allows(w, b)]
    return wrong


class TestValues:
    """The interpreter of the page against ONNX's definition."""

    @NUMBERS
    @pytest.mark.parametrize(
        "operator",  # the reference implementation of MaxPool takes no padded integers: test_max_pooling.py has another
        [name for name, own in OPERATORS.items() if own.lower and own.onnx_operator != "MaxPool"],
    )
    def test_random_descriptors(self, operator, count):
        """Random descriptors: the same bits, and none exactly where an element is written twice or a shift too far."""
        for case in random_cases(operator, count):
            given, expected = by_definition(case), list(map(list, case.inputs.all_expected.values()))
            if operator.startswith(("ELEMENT_WISE", "ACTIVATION", "CAST", *REDUCTIONS)):  # the page says less than ONNX
                expected = [
                    [b if allows(w, b) else w for w, b in zip(*pair, strict=True)]
                    for pair in zip(expected, given, strict=True)
                ]
            if operator == "ELEMENT_WISE_QUANTIZE_LINEAR":  # onnx's reference goes through INT32, without a limit
                numbers, scales, *_ = (tensor.values for tensor in case.tensors.values())
                large = [abs(n) >= 2**30 * abs(scale) for n, scale in zip(numbers, scales, strict=True)]
                expected[0] = [
                    g if is_large else b for g, b, is_large in zip(given[0], expected[0], large, strict=True)
                ]
            assert given == expected, case.id

    @NUMBERS
    @pytest.mark.parametrize("operator", one_of_a_file(name for name, own in OPERATORS.items() if own.lower))
    def test_on_the_cpu(self, operator, count):
        """The model of each descriptor gives them on the CPU EP, if it has a kernel."""
        ran = 0
        for case in random_cases(operator, count):
            if case.desc.output.data_type in OPERATORS[operator].not_on_cpu:
                continue
            mapped = map_descriptor(case.desc)
            try:
                session = onnxruntime.InferenceSession(mapped.model_bytes, providers=["CPUExecutionProvider"])
            except Exception as error:
                assert "NOT_IMPLEMENTED" in str(error)
                continue
            if OPERATORS[operator].beyond_onnx(case.desc):
                continue  # the CPU EP refuses it
            assert [] == differing(case, session.run(None, arrays_of(mapped, case))), case.id
            ran += 1
        assert ran > count * WITH_KERNEL.get(operator, 0.85)

    @given(strategies.cases(operators=GATHERS, index_types=[DataType.UINT32, DataType.UINT64], max_elements=64))
    def test_indices_converted_on_the_host(self, case):
        """The CPU EP gives the same bits if opmap converts the indices before the graph."""
        for conversion in ("host", "directml"):
            mapped = map_descriptor(case.desc, index_conversion=conversion)
            result = CPU.performer.run_once(mapped.model_bytes, arrays_of(mapped, case))
            assert result.placement.proves("CPUExecutionProvider")
            assert differing(case, result.outputs.values()) == []
