"""The pseudocode of operators that move data: compiled, naive and by NumPy."""

import re
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from operator_programs import IGNORES_OUTSIDE, PROGRAMS
from tiers import others_slow

from opmap.cases.case import Case
from opmap.descriptors import TensorDesc
from opmap.errors import PseudocodeError
from opmap.faults import FAULTS
from opmap.faults.case_arrays import CaseArrays
from opmap.faults.fault import FaultProvider
from opmap.pseudocode import Expansion, access_map, expand, naive, parse_lines, run
from opmap.spec.loader import Pseudocode
from opmap.tensors import DataType, Tensor


def prepared(name, seed):
    """Returns a random descriptor of a program, its statements, the sizes and the flat elements of its tensors."""
    text, draw = PROGRAMS[name]
    drawn = draw(np.random.default_rng(seed))
    sizes = {n: t.shape for n, t in drawn.tensors.items()}
    lines = parse_lines(text)
    output = "OutputTensor" if "OutputTensor[" in text else "output"
    fields = dict(drawn.fields)
    for tensor, field in (("input", "InputTensor"), ("InputTensor", "InputTensor"), ("values", "ValuesTensor")):
        if tensor in sizes:
            fields[f"{field}.Sizes"] = sizes[tensor]
    fields["OutputTensor.Sizes"] = sizes[output] = drawn.output.shape
    statements = expand(lines, drawn.expansion, fields)
    return drawn, statements, sizes, {n: t.reshape(-1).tolist() for n, t in drawn.tensors.items()}


@pytest.mark.parametrize("name", PROGRAMS)
class TestPrograms:
    """Each program at random sizes."""

    @pytest.mark.parametrize("count", others_slow([5, 30], 5))
    def test_agree_with_numpy(self, name, count):
        """The compiled form, the naive form and NumPy give the same output."""
        ignores = name in IGNORES_OUTSIDE
        for seed in range(count):
            drawn, statements, sizes, tensors = prepared(name, seed)
            expected = drawn.output.reshape(-1).tolist()
            access = access_map(statements, sizes, ignores_outside=ignores)
            assert expected == list(run(access, tensors)), (seed, *map(str, statements))
            origins = naive.evaluate(statements, sizes, tensors, ignores_outside=ignores)
            zero = {**tensors, "0": [0]}
            assert expected == [origin and zero[origin[0]][origin[1]] for origin in origins], seed


def case_arrays(name, seed):
    """Returns the arrays of one random descriptor of a program, with elements of INT32, and its right output."""
    drawn, statements, sizes, _ = prepared(name, seed)
    access = access_map(statements, sizes, ignores_outside=name in IGNORES_OUTSIDE)
    tensors = {n: Tensor.from_values(DataType.INT32, t.shape, t.reshape(-1).tolist()) for n, t in drawn.tensors.items()}
    spec = SimpleNamespace(pseudocode=SimpleNamespace(tensors={n: n for n in tensors}), strided=(), running={})
    output = TensorDesc(DataType.INT32, drawn.output.shape)
    outputs = {"outputs": {"output": output}, "output_field": "output", "output": output}
    desc = SimpleNamespace(
        operator="IT", access=access, own_spec=spec, tensors={}, numbers={}, named_tensors=dict, **outputs
    )
    return CaseArrays(Case("it", desc, tensors)), drawn.output.reshape(-1).tolist()


STRIDES = {"strides-column-major", "strides-padded-to-4", "innermost-coordinate-ignored", "address-off-by-one"}
AXES = {"axis-first", "axis-last", "axis-next", "axis-previous", "batch-0-of-data", "batch-0-of-indices"}
CONDITIONS = {"condition-at-equality", "condition-transposed", "condition-16-bits"}
INDICES = {"index-off-by-one", "index-ignored", "negative-index-as-zero", "indices-transposed"}
SHOWN = {
    "SLICE1": STRIDES | {"strides-of-output"},
    "TILE": STRIDES | {"strides-of-output"},
    "ONE_HOT": STRIDES | AXES | INDICES,
    "REVERSE_SUBSEQUENCES": STRIDES | AXES,
    "PADDING1": STRIDES,
    "DEPTH_TO_SPACE1": STRIDES,
    "ELEMENT_WISE_IF": STRIDES,
    "DIAGONAL_MATRIX1": STRIDES | CONDITIONS,
    "FILL_VALUE_CONSTANT": {"output-zero"},
    "SCATTER": STRIDES | AXES | INDICES,
    "SCATTER_ND": STRIDES | {"axis-next"} | INDICES - {"indices-transposed"},
}
"""Operator -> some of the faults that must change its output for one of a few descriptors."""


@pytest.mark.parametrize("name", SHOWN)
def test_faults_change_the_output(name):
    """Without a fault the arrays give the right output; the faults of addresses and indices show without an operator's help."""
    changed = set()
    for seed in range(30):
        arrays, right = case_arrays(name, seed)
        assert right == arrays.right.view(np.int32).tolist(), seed
        for fault in SHOWN[name] - changed:
            (output,) = FaultProvider(FAULTS[fault]).run_arrays(arrays)
            changed |= {fault} if output.reshape(-1).tolist() != right else set()
    assert SHOWN[name] == changed


class TestTrace:
    """The text of one element names the values of computed coordinates and of the guard."""

    SIZES: ClassVar = {"output": (2, 3), "input": (2, 3), "lengths": (2, 1)}
    LINES = parse_lines("output = input\nif (b < lengths[a, 0]) output[a, b] = input[a, min(lengths[a, 0], 3) - 1 - b]")

    @pytest.mark.parametrize(
        ("at", "text"),
        [
            ((0, 0), "if (0 < (lengths[0, 0] = 2)) output[0, 0] = input[0, min((lengths[0, 0] = 2), 3) - 1 - 0 = 1]"),
            ((0, 2), "output[0, 2] = input[0, 2]; if (2 < (lengths[0, 0] = 2)) does not hold"),
        ],
    )
    def test_guards(self, at, text):
        """A line whose guard does not hold is named behind the line that gives the element."""
        assert text == naive.trace(self.LINES, self.SIZES, at, {"lengths": [2, 9]}).text

    def test_out_of_range(self):
        """An element that is read out of range has no value; a write that the page ignores changes nothing."""
        (line,) = parse_lines("output[a] = input[a - 1]")
        sizes = {"output": (2,), "input": (2,)}
        assert "output[0] = input[0 - 1 = -1, outside [0, 1]]" == naive.trace([line], sizes, (0,), {}).text
        assert [None, 5] == run(access_map([line], sizes), {"input": [5, 6]})
        lines = parse_lines("output = input\noutput[index[a]] = one[a]")
        sizes = {"output": (2,), "input": (2,), "index": (1,), "one": (1,)}
        values = {"input": [5, 6], "index": [2], "one": [7]}
        for index, ignored in (
            (3, [5, 6]),
            (2, [None, None]),
            (-3, [None, None]),
        ):  # of the last two no page says anything
            values["index"] = [index]
            assert [None, None] == run(access_map(lines, sizes), values)
            assert ignored == run(access_map(lines, sizes, ignores_outside=True), values)
            assert "a write out of range is ignored" not in naive.trace(lines, sizes, (0,), values).text
            origins = naive.evaluate(lines, sizes, values, ignores_outside=True)
            assert [(n is not None and ("input", i)) or None for i, n in enumerate(ignored)] == list(origins)

    def test_what_is_read_for_its_value(self):
        """Tensors in guards and expressions have no bounds, and are listed."""
        access = access_map(self.LINES, self.SIZES)
        assert ({}, ("lengths",)) == (access.index_bounds, access.value_reads)


class TestDefinitions:
    """What a text may define, and what is refused."""

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("n = 10\n" + "n = n * n\n" * 60 + "output[a] = input[a]", "more than 128 bits"),
            ("t = a + 1\n" + "t = t + t\n" * 60 + "output[a] = input[t]", "take too long"),
            ("for dimension i in [0, 99999999]:\n  if i < 0:\n    n = i\noutput[a] = input[a]", "take too long"),
            ("L[2] = 1\noutput[a] = input[a]", "L has no such element"),
            ("output[a] = input[L[2]]", "L[2] is outside its 2 elements"),
            ("output[a] = input[L + M]", "lists of 2 and 3 numbers"),
            ("output[a] = input[1 / 0]", "1 is divided by 0"),
            ("if a < 0:\n  n = 1\noutput[a] = input[a]", "a < 0 is not a number"),
            ("n = 1", "does not end with a line that writes a tensor"),
        ],
    )
    def test_refused(self, text, message):
        """The error names the problem; no text takes long."""
        with pytest.raises(PseudocodeError, match=re.escape(message)):
            expand(parse_lines(text), Expansion(rest={}), {"L": (1, 2), "M": (1, 2, 3)})

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_text_of_the_parts(self, name):
        """`str` of the parts of a text is a text with the same parts."""
        lines = parse_lines(PROGRAMS[name][0])
        assert lines == parse_lines("\n".join(map(str, lines)))

    def test_slice_as_printed(self):
        """The statements of SLICE1's page for one descriptor."""
        fields = {"DimensionCount": 2, "InputWindowOffsets": (0, 1), "InputWindowSizes": (4, 3)}
        (line,) = expand(
            parse_lines(PROGRAMS["SLICE1"][0]),
            Expansion(rest={}, series={"OutputCoordinates": ("a", "b")}),
            {**fields, "InputWindowStrides": (-2, 2)},
        )
        assert "OutputTensor[a, b] = InputTensor[3 + -2 * a, 1 + 2 * b]" == str(line)


class TestSpec:
    """The marks of a spec's pseudocode."""

    def test_derived_lines(self):
        """A derived text has the page's line, or a rule, for each of its lines, and shows it."""
        shown = Pseudocode(1, "a = b\nlong = c", {}, derived=True, lines=(31, "A.D1")).shown
        assert ("a = b     derived from line 31", "long = c  derived from A.D1") == shown
        assert ("a = b",) == Pseudocode(1, "a = b\n", {}).shown
        for lines, derived in (((31,), True), ((31,), False)):
            with pytest.raises(ValueError, match="`lines` must have"):
                Pseudocode(1, "a = b\nc = d", {}, derived=derived, lines=lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("output[a] = input[0, 2 - a]", [2, 1, 0]),
        ("output[a] = input[1, (a - 2) % 3]", [None, None, 3]),
        ("output[a] = input[1, (a - 3) / 2]", [None, None, 3]),
        ("if (a xor 1) output[a] = input[min(a, 1), abs(a - 2)]", [2, None, None]),
    ],
)
def test_small_expressions(text, expected):
    """Addresses that go down to 0, and remainders and quotients below 0."""
    sizes = {"output": (3,), "input": (2, 3)}
    lines = parse_lines(text)
    assert expected == list(run(access_map(lines, sizes), {"input": range(6)}))
    assert expected == [origin and origin[1] for origin in naive.evaluate(lines, sizes, {})]
