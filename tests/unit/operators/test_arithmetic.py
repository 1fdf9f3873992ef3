"""The operators that compute numbers, element by element: random descriptors against NumPy, as the pages say it, and
against the CPU EP.

NumPy computes with numbers that are wide enough: int64 and uint64 as Python's integers, floats as FLOAT64.
"""

import math
import operator
from collections import Counter
from fractions import Fraction

import onnx
import pytest
from drawn_cases import drawn, verdicts_on_the_cpu_ep
from tiers import one_of_a_file

from opmap.descriptors import TensorDesc
from opmap.errors import InputError
from opmap.judge.onnx_models.nodes import find_nodes
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS, emitted
from opmap.tensors import AnyPattern, DataType, from_bits, to_bits

ELEMENTS = 64
"""How many elements a tensor has, at most."""


class NotSaid(Exception):
    """The page says nothing of this element."""


def of_numbers(function):
    """Returns a function that the page says nothing of for a NaN: it does not say where a NaN stands."""

    def ordered(*numbers, **fields):
        if any(math.isnan(n) for n in (*numbers, *fields.values())):
            raise NotSaid
        return function(*numbers, **fields)

    return ordered


def of_finite(function):
    """Returns a function that leaves a NaN or an infinity as it is, as C's functions do."""

    def finite(*numbers, **fields):
        if not all(map(math.isfinite, numbers)):
            return numbers[0]
        return function(*numbers, **fields)

    return finite


def clip(x, Min, Max):
    """The number within [Min, Max], which is no interval if Min is above Max."""
    if Min > Max:
        raise NotSaid
    return min(Max, max(Min, x))


def threshold(x, Alpha):
    """The number if it is above Alpha, else 0."""
    return x if x > Alpha else 0


def rounded(x, mode):
    """The number by the three modes of DML_ROUNDING_MODE, as their page says it."""
    if mode == 1:
        return math.trunc(x)
    below, fraction = math.floor(x), Fraction(x) - math.floor(x)
    if fraction == Fraction(1, 2):
        return below + below % 2 if mode == 0 else below + (x > 0)
    return below + (fraction > Fraction(1, 2))


SELECTS = {  # operator -> what the page makes of numbers, and of the fields of the struct
    "ELEMENT_WISE_ABS": abs,
    "ELEMENT_WISE_CEIL": of_finite(math.ceil),
    "ELEMENT_WISE_CLIP": of_numbers(clip),
    "ELEMENT_WISE_CLIP1": of_numbers(lambda x, Min, Max: max(Min, min(x, Max))),
    "ELEMENT_WISE_FLOOR": of_finite(math.floor),
    "ELEMENT_WISE_MAX": of_numbers(max),
    "ELEMENT_WISE_MIN": of_numbers(min),
    "ELEMENT_WISE_NEGATE": lambda x: -x,
    "ELEMENT_WISE_ROUND": of_finite(rounded),
    "ELEMENT_WISE_SIGN": lambda x: -1 if x < 0 else 1 if x > 0 else 0,
    "ACTIVATION_RELU": of_numbers(lambda x: max(0, x)),
    "ACTIVATION_THRESHOLDED_RELU": of_numbers(threshold),
}


def divided(a, b):
    """The quotient as a fraction; that of an infinity or a NaN is FLOAT64's."""
    if b == 0:
        raise NotSaid
    return Fraction(a) / Fraction(b) if math.isfinite(a) and math.isfinite(b) else a / b


def exact(*numbers):
    """Numbers with which no sum and no product is rounded; those of infinities are FLOAT64's."""
    return map(Fraction if all(map(math.isfinite, numbers)) else float, numbers)


def modulus(rounding):
    """Returns a - b * rounding(a / b); of floats, the page does not say how the quotient is rounded before."""

    def remainder(a, b, step):
        if not (math.isfinite(a) and math.isfinite(b)):
            raise NotSaid
        if isinstance(a, float):
            raise NotSaid
        quotient = divided(a, b)
        return Fraction(a) - step(Fraction(b) * step(Fraction(rounding(quotient))))

    return remainder


def difference_square(a, b, step):
    """The square of the difference."""
    a, b = exact(a, b)
    return step(a - b) * step(a - b)


COMPUTES = {  # operator -> what the page makes of two numbers; `step` refuses a number that the data type does not hold
    "ELEMENT_WISE_ADD": lambda a, b, step: sum(exact(a, b)),
    "ELEMENT_WISE_SUBTRACT": lambda a, b, step: operator.sub(*exact(a, b)),
    "ELEMENT_WISE_MULTIPLY": lambda a, b, step: operator.mul(*exact(a, b)),
    "ELEMENT_WISE_DIVIDE": lambda a, b, step: math.trunc(divided(a, b)) if isinstance(a, int) else divided(a, b),
    "ELEMENT_WISE_MODULUS_FLOOR": modulus(math.floor),
    "ELEMENT_WISE_MODULUS_TRUNCATE": modulus(math.trunc),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": difference_square,
}
BY_THE_PAGE = SELECTS | COMPUTES

NOT_ON_THE_CPU_EP = {  # operator -> the data types for which the CPU EP has no kernel, or is no judge
    "ELEMENT_WISE_CLIP1": "INT16 UINT16",
    "ELEMENT_WISE_MAX": "INT16 UINT16",
    "ELEMENT_WISE_MIN": "INT16 UINT16",
    "ELEMENT_WISE_SIGN": "FLOAT32",
    "ACTIVATION_RELU": "INT16",
}


def fields_of(desc):
    """The numbers of a descriptor's struct, by their names: scalars as numbers, the mode as its number."""
    fields = {name: scalar.values[0] for name, scalar in desc.scalar_tensors.items()}
    return fields | ({"mode": desc.rounding_mode} if "RoundingMode" in desc.numbers else {})


def bits_of(data_type, number):
    """The bit pattern of a number, in a word if there are several. Raises NotSaid if the type does not hold it."""
    if data_type.kind != "float":
        low, high = data_type.limits
        if not low <= number <= high:
            raise NotSaid
        return int(number) & (1 << 8 * data_type.size) - 1
    try:
        (bits,) = to_bits(data_type, [float(number)])
    except (InputError, OverflowError):
        raise NotSaid from None
    (held,) = from_bits(data_type, [bits])
    if held != number and number == number:
        raise NotSaid
    return "nan" if number != number else bits if number else "zero"


def expected(name, data_type, numbers, fields):
    """The bit pattern that the page gives for an element, or None; a zero and a NaN have any of theirs."""

    def step(number):
        bits_of(data_type, number)
        return number

    try:
        more = {"step": step} if name in COMPUTES else fields
        return bits_of(data_type, BY_THE_PAGE[name](*numbers, **more))
    except NotSaid:
        return None


def shown(data_type, bits):
    """A bit pattern of the output in the words of `expected`."""
    if data_type.kind == "float" and bits is not None and from_bits(data_type, [bits])[0] == 0:
        return "zero"
    return "nan" if isinstance(bits, AnyPattern) else bits


class TestByThePage:
    """What the interpreter gives is what the page says."""

    @pytest.mark.parametrize("name", BY_THE_PAGE)
    def test_random_descriptors(self, name):
        """Each element of the output has the page's value; all types, dimension counts and broadcasts occur."""
        seen, values = Counter(), Counter()
        for case in drawn(name, ELEMENTS):
            data_type, fields = case.desc.output.data_type, fields_of(case.desc)
            columns = zip(*(tensor.values for tensor in case.tensors.values()), strict=True)
            wanted = [expected(name, data_type, numbers, fields) for numbers in columns]
            assert wanted == [shown(data_type, bits) for bits in case.expected], case.id
            values.update("none" if w is None else w if isinstance(w, str) else "number" for w in wanted)
            seen.update([data_type.name, case.desc.output.dimension_count])
        support = OPERATORS[name].descriptor.spec().support[0].tensors["OutputTensor"]
        assert {*support.data_types, *range(1, 9)} == seen.keys()
        assert values["number"] + values["zero"] > 0.5 * values.total()

    @pytest.mark.parametrize("name", one_of_a_file(name for name in BY_THE_PAGE if OPERATORS[name].lower))
    def test_on_the_cpu_ep(self, name):
        """The CPU EP agrees for every type that it has a kernel for."""
        verdicts = verdicts_on_the_cpu_ep(drawn(name, ELEMENTS))
        absent = {*NOT_ON_THE_CPU_EP.get(name, "").split()}
        assert absent <= verdicts.keys()
        assert {t: {"unsupported"} for t in absent} == {t: {*verdicts[t]} for t in absent}
        assert {"pass", "observed"} >= {v for t in verdicts.keys() - absent for v in verdicts[t]}


class TestNodes:
    """ONNX nodes and the descriptors that the DirectML EP makes of them."""

    def test_mod(self):
        """The attribute fmod says which operator a Mod node is; it is 0 if it is not given, and 1 for floats."""
        tensor = TensorDesc(DataType.INT8, (2, 3))
        for attributes, name in (({}, "FLOOR"), ({"fmod": 0}, "FLOOR"), ({"fmod": 1}, "TRUNCATE")):
            assert f"ELEMENT_WISE_MODULUS_{name}" == emitted("Mod", [tensor, tensor], attributes).operator
        text = '<ir_version: 8, opset_import: ["" : 13]> g (int8[2] a) => (int8[2] b) {b = Mod<fmod = 1>(a, a)}'
        assert ["DML_OPERATOR_ELEMENT_WISE_MODULUS_TRUNCATE"] == [node.operator for node in find_nodes(given(text))]
        for data_type, expressed in ((DataType.INT8, True), (DataType.FLOAT32, False)):
            own, tensor = OPERATORS["ELEMENT_WISE_MODULUS_FLOOR"], TensorDesc(data_type, (2,))
            desc = own.descriptor(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
            assert expressed == (own.expressed(desc) is not None)

    def test_clip(self):
        """A limit that a Clip node lacks is the end of the data type; limits in the wrong order are refused."""
        tensor = TensorDesc(DataType.INT8, (2, 3))
        desc = emitted("Clip", [tensor], {})
        assert (DataType.INT8.number, 0x80, 0x7F) == (desc.min_max_data_type, desc.min, desc.max)
        text = '<ir_version: 8, opset_import: ["" : 13]> g (float[2] x) => (float[2] y) {y = Clip(x, low, high)}'
        assert [None] == [node.reason for node in find_nodes(given(text))]

    def test_not_expressible(self):
        """A Clip node has its limits in order, a Round node one mode."""
        for name, fields in (
            ("CLIP1", {"min_max_data_type": 1, "min": 0x40000000, "max": 0x3F800000}),
            ("ROUND", {"rounding_mode": 1}),
        ):
            own, tensor = OPERATORS[f"ELEMENT_WISE_{name}"], TensorDesc(DataType.FLOAT32, (2,))
            desc = own.descriptor(input_tensor=tensor, output_tensor=tensor, **fields)
            assert not desc.violations()
            assert own.expressed(desc) is None

    def test_thresholded_relu(self):
        """Alpha is an attribute of the node, 1 if it is not given."""
        tensor = TensorDesc(DataType.FLOAT32, (2, 3))
        assert 0x3F800000 == emitted("ThresholdedRelu", [tensor], {}).alpha
        desc = emitted("ThresholdedRelu", [tensor], {"alpha": 0.5})
        (node,) = [n for n in map_descriptor(desc).model.graph.node if n.op_type == "ThresholdedRelu"]
        assert [0.5] == [attribute.f for attribute in node.attribute]


def given(text):
    """A model as `check` has it."""
    return type("Given", (), {"model": onnx.parser.parse_model(text)})
