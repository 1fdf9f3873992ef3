"""The catalogue catches every planted fault that can change an output, and passes the right outputs.

A fault that no case catches is a hole in the catalogue. A mismatch of right outputs is an error of the suite.
"""

import json
from collections import Counter
from functools import cache
from itertools import accumulate
from math import prod
from types import SimpleNamespace

import numpy as np
import pytest
from adequacy.__main__ import main
from adequacy.score import Score, score, summary
from described import described
from fixed_answers import gather
from tiers import others_slow, own_cases

from opmap.cases.case import Case
from opmap.cases.catalogue import Listed, cases_of
from opmap.descriptors import TensorDesc
from opmap.errors import PseudocodeError
from opmap.faults import FAULTS, Fault, FaultProvider, open_fault
from opmap.faults.case_arrays import CaseArrays
from opmap.faults.indices import INDEX_FAULTS
from opmap.judge.judge import Judge
from opmap.operators import OPERATORS
from opmap.pseudocode import Computed, LoopPosition, access_map, parse_lines, run, strides_of
from opmap.tensors import DataType, Tensor

REAL = [name for name, fault in FAULTS.items() if fault.tier in ("smoke", "standard")]
HUGE = [name for name, fault in FAULTS.items() if fault.tier == "full"]
EQUIVALENT = [name for name, fault in FAULTS.items() if fault.equivalent]


def square(axis):
    """Returns a case of GATHER on a square input, whose sizes do not show the axis."""
    desc = described("GATHER", (2, 2), (1, 2), axis, 1, data_type=DataType.INT32, index_type=DataType.INT32)
    tensors = {
        "InputTensor": Tensor(DataType.INT32, (2, 2), (1, 2, 3, 4)),
        "IndicesTensor": Tensor(DataType.INT32, (1, 2), (1, 0)),
    }
    return Case(f"axis{axis}", desc, tensors)


def columns(rows, length):
    """Returns a case of GATHER_ELEMENTS that reads the last element of each short row, from a large input."""
    desc = described("GATHER_ELEMENTS", (length, rows), (length, 1), 1, data_type=DataType.UINT32)
    tensors = {
        "InputTensor": Tensor.from_values(DataType.UINT32, (length, rows), range(length * rows)),
        "IndicesTensor": Tensor.from_values(DataType.INT64, (length, 1), [rows - 1] * length),
    }
    return Case("columns", desc, tensors)


def long(count, *indices, data_type=DataType.UINT32):
    """Returns a case of GATHER with an axis of this length."""
    return gather(range(count), indices, data_type)


SHOWN_BY = {
    "negative-index-modulo-64-bits": [long(7, -1)],
    "index-8-bits-signed": [long(129, 128)],
    "index-8-bits-saturated": [long(129, 128)],
    "index-8-bits-position": [long(257, -1)],
    "index-through-float16": [long(2050, 2049)],
    "index-16-bits-signed": [long(32769, 32768)],
    "index-16-bits-unsigned": [long(70000, -1)],
    "index-16-bits-position": [long(65537, 65536)],
    "size-16-bits": [long(65537, -1)],
    "address-16-bits": [columns(3, 21846)],
    "address-16-bits-of-bytes": [long(16385, 16384)],
    "element-65536-lost": [gather((5, 6), [1] * 65537, DataType.UINT8)],
    "index-scalar-as-zero": [gather(indices=(1,), k=0)],
    "kernel-without-numbers": [square(0), square(1)],
}
"""Hand-made cases, in one session, of which only the last shows the fault."""


STRIDES = {"strides-column-major", "strides-padded-to-4", "innermost-coordinate-ignored", "address-off-by-one"}
AXES = {"axis-first", "axis-last", "axis-next", "axis-previous"}
CONDITIONS = {"condition-at-equality", "condition-transposed", "condition-16-bits"}
INDICES = {"index-off-by-one", "index-ignored", "negative-index-as-zero"}
SHOWN = {
    **dict.fromkeys(("SLICE1", "TILE", "PADDING1", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1", "ELEMENT_WISE_IF"), STRIDES),
    "ONE_HOT": STRIDES | AXES | INDICES,
    "REVERSE_SUBSEQUENCES": STRIDES | AXES,
    "DIAGONAL_MATRIX1": STRIDES | CONDITIONS,
    "FILL_VALUE_CONSTANT": {"output-zero"},
    "SCATTER": STRIDES | AXES | INDICES,
    "SCATTER_ND": STRIDES | INDICES,
}
"""Operator -> some of the faults that must change its output for one of its cases of `smoke`."""


def scored(tier):
    """Returns the cases of a tier that the faults are tried on.

    Large cases of operators that compute are left out: each fault computes them anew.
    """
    most = 100 if tier == "smoke" else 300
    return [c for c in own_cases(tier) if not c.desc.spec().computes_values or c.desc.output.element_count <= most]


@cache
def scores(tier):
    """Returns the scores of a tier by the fault's name. Computed once, because `standard` takes long."""
    return {s.name: s for s in score(scored(tier))}


class TestFaults:
    """Each tier catches the faults that it must catch; equivalent faults pass."""

    def test_smoke_catches(self):
        """`smoke` catches each fault that needs no large tensor; the judge calls the first case a mismatch too."""
        first = {name: scores("smoke")[name].first for name in REAL if FAULTS[name].tier == "smoke"}
        cases = {case.id: case for case in own_cases("smoke")}
        assert [] == [name for name, case_id in first.items() if case_id is None]
        verdicts = {
            name: Judge(open_fault(name), brief=True)(cases[case_id]).verdict for name, case_id in first.items()
        }
        assert dict.fromkeys(first, "mismatch") == verdicts

    @pytest.mark.slow
    def test_standard_catches(self):
        """`standard` catches each fault that needs no huge tensor, and no equivalent one."""
        assert [] == [name for name in REAL if not scores("standard")[name].caught_by]
        assert [] == [name for name in EQUIVALENT if scores("standard")[name].caught_by]

    def test_equivalent_faults_are_not_caught(self):
        """No case of `smoke` catches the control or a fault that no valid input shows."""
        assert [] == [name for name in EQUIVALENT if scores("smoke")[name].caught_by]

    @pytest.mark.parametrize("name", SHOWN_BY)
    def test_is_shown_by_a_case_made_for_it(self, name):
        """The fault works: if a tier does not catch it, the tier lacks such a case."""
        judge = Judge(open_fault(name))
        verdicts = [judge(case).verdict for case in SHOWN_BY[name]]
        assert [*["pass"] * (len(verdicts) - 1), "mismatch"] == verdicts

    @pytest.mark.slow
    def test_huge_tensors_are_left_to_full(self):
        """`standard` catches no huge fault; the large cases of GATHER catch each one, and only if they are large
        enough.

        `test_to_huge_tensors` shows the exact limits, so the case one element below 2**27 is left out.
        """
        assert not [name for name in HUGE if scores("standard")[name].caught_by]
        large = [*cases_of(OPERATORS["GATHER"], "large")]
        elements = {c.id: c.desc.output.element_count for c in large}
        assert [65535 * 256 - 1, 65535 * 256 + 1, 2**27 - 1, 2**27 + 1, 255] == list(elements.values())
        cases = [c for c in large if elements[c.id] != 2**27 - 1]
        caught = {s.name: [elements[case_id] for case_id in s.caught_by] for s in score(cases) if s.caught_by}
        assert {
            "dispatch-65535-groups": [65535 * 256 + 1, 2**27 + 1],
            "typed-buffer-limit": [2**27 + 1],
            "index-through-float32": [255],
        } == caught


class TestEffects:
    """Faults on small cases whose wrong output was computed by hand."""

    @pytest.mark.parametrize(
        ("name", "values", "indices", "expected"),
        [
            ("none", (1, 2, 3), (0, -1), [1, 3]),
            ("negative-index-as-zero", (1, 2, 3), (-1, 2), [1, 3]),
            ("negative-index-ignored", (1, 2, 3), (-1, 2), [1, 3]),
            ("negative-index-off-by-one", (1, 2, 3), (-1, 2), [2, 3]),
            ("negative-index-from-n-minus-one", (1, 2, 3), (-3, -2), [3, 2]),
            ("negative-index-sign-lost", (1, 2, 3), (-1, 2), [2, 3]),
            ("negative-index-modulo-32-bits", (1, 2, 3, 4, 5, 6, 7), (-1, 2), [4, 3]),
            ("negative-index-modulo-64-bits", (1, 2, 3, 4, 5, 6, 7), (-1, 2), [2, 3]),
            ("index-unsigned", (1, 2, 3), (-2, 1), [3, 2]),
            ("index-off-by-one", (1, 2, 3), (0, 2, -1), [2, 1, 1]),
            ("index-clamped-early", (1, 2, 3), (2, 1, 0), [2, 2, 1]),
            ("index-clamped-late", (1, 2, 3), (2, 1, 0), [3, 2, 2]),
            ("index-reversed", (1, 2, 3), (0, 2, -2), [3, 1, 2]),
            ("index-lowest-bit-lost", (1, 2, 3), (0, 1, -1), [1, 1, 3]),
            ("index-high-word", (1, 2, 3), (-2, 2), [3, 1]),
            ("index-as-32-bit-pairs", (1, 2, 3), (1, 2, 2, 2), [2, 1, 3, 1]),
            ("indices-sorted", (1, 2, 3), (2, -1, 0, 1), [3, 1, 2, 3]),
            ("indices-backwards", (1, 2, 3), (0, 1, 2, 2), [3, 3, 2, 1]),
            ("indices-deduplicated", (1, 2, 3), (2, 2, 0, 1), [3, 1, 2, 2]),
            ("indices-pairs-swapped", (1, 2, 3), (0, 1, 2), [2, 1, 3]),
            ("indices-late-by-one", (1, 2, 3), (0, 1, 2), [2, 3, 3]),
            ("indices-last-skipped", (1, 2, 3), (0, 1, 2), [1, 2, 2]),
            ("address-off-by-one", (1, 2, 3), (0, 1, 2), [2, 3, 3]),
            ("last-element-lost", (1, 2, 3), (0, 2), [1, 0]),
            ("first-element-lost", (1, 2, 3), (0, 2), [0, 3]),
            ("partial-vector-lost", (1, 2, 3), (0, 1, 2, 0, 1), [1, 2, 3, 1, 0]),
            ("output-shifted", (1, 2, 3), (0, 1, 2), [0, 1, 2]),
            ("output-zero", (1, 2, 3), (0, 2), [0, 0]),
        ],
    )
    def test_to_a_row(self, name, values, indices, expected):
        """The output of GATHER along the only axis."""
        (output,) = open_fault(name).runner.run_case(gather(values, indices))
        assert expected == output.tolist()

    @pytest.mark.parametrize(
        ("name", "bits", "expected"),
        [
            ("nan-payload-lost", [0x7F800001, 0xFFC0BEEF, 0x7F800000, 1], [0x7FC00000, 0x7FC00000, 0x7F800000, 1]),
            (
                "nan-signalling-quieted",
                [0x7F800001, 0xFFC0BEEF, 0xFF800000, 1],
                [0x7FC00001, 0xFFC0BEEF, 0xFF800000, 1],
            ),
            ("nan-sign-lost", [0xFF800001, 0xFFC0BEEF, 0xFF800000, 1], [0x7F800001, 0x7FC0BEEF, 0xFF800000, 1]),
            ("nan-as-zero", [0xFF800001, 0x7F800000, 3, 1], [0, 0x7F800000, 3, 1]),
            ("infinity-as-largest", [0xFF800000, 0x7F800000, 0x7F800001, 1], [0xFF7FFFFF, 0x7F7FFFFF, 0x7F800001, 1]),
            ("negative-zero-lost", [0x80000000, 0x80000001, 0, 0xBF800000], [0, 0x80000001, 0, 0xBF800000]),
            ("denormals-flushed", [0x80000001, 0x007FFFFF, 0x00800000, 0], [0x80000000, 0, 0x00800000, 0]),
            (
                "float32-through-float16",
                [0x3F800001, 0x3F802000, 0x7F000000, 0],
                [0x3F800000, 0x3F802000, 0x7F800000, 0],
            ),
        ],
    )
    def test_to_floats(self, name, bits, expected):
        """Bit patterns of FLOAT32; the same bits as UINT32 do not change."""
        for data_type, result in ((DataType.FLOAT32, expected), (DataType.UINT32, bits)):
            assert result == moved(name, data_type, bits).view("<u4").tolist()

    @pytest.mark.parametrize(
        ("name", "data_type", "values", "expected"),
        [
            ("int64-through-float64", "INT64", [2**53 + 1, -1, 2**63 - 1, -(2**63)], [2**53, -1, 2**63 - 1, -(2**63)]),
            ("int64-through-float64", "UINT64", [2**53 + 1, 1, 2**64 - 1, 2**63], [2**53, 1, 2**64 - 1, 2**63]),
            ("int32-through-float32", "INT32", [2**24 + 1, -1, 2**31 - 1, 3], [2**24, -1, 2**31 - 1, 3]),
            ("int16-through-float16", "UINT16", [2049, 1, 65535, 3], [2048, 1, 65535, 3]),
            ("unsigned-saturated", "UINT8", [0, 127, 128, 255], [0, 127, 127, 127]),
            ("sign-bit-lost-8", "INT8", [0, 127, -128, -1], [0, 127, 0, 127]),
            ("word-64-cut", "UINT64", [2**32 + 1, 2**31, 0, 1], [1, 2**31, 0, 1]),
            ("word-64-extended", "INT64", [2**32 + 1, 2**31, 0, 1], [1, -(2**31), 0, 1]),
            ("word-64-halves-swapped", "UINT64", [2**32, 2**31, 0, 1], [1, 2**63, 0, 2**32]),
            ("bytes-swapped", "UINT16", [1, 256, 0, 3], [256, 1, 0, 768]),
            ("words-16-swapped", "UINT16", [1, 2, 3, 4], [2, 1, 4, 3]),
            ("words-8-swapped", "UINT8", [1, 2, 3, 4], [4, 3, 2, 1]),
            ("word-clobbered", "UINT16", [1, 2, 3, 4], [0, 2, 0, 4]),
            ("word-clobbered", "UINT32", [1, 2, 3, 4], [1, 2, 3, 4]),
            ("address-at-word-start", "UINT16", [1, 2, 3, 4], [1, 1, 3, 3]),
        ],
    )
    def test_to_integers(self, name, data_type, values, expected):
        """Integers of each width."""
        data_type = DataType[data_type]
        assert expected == moved(name, data_type, Tensor.from_values(data_type, (4,), values).bits).tolist()

    def test_partial_words(self):
        """The elements of a partial last word are lost, those of whole words are not."""
        for count, data_type, expected in ((7, "UINT8", 4), (3, "INT16", 2), (4, "INT16", 4), (3, "INT32", 3)):
            case = gather([1] * count, range(count), DataType[data_type])
            (output,) = open_fault("partial-word-lost").runner.run_case(case)
            assert [1] * expected + [0] * (count - expected) == output.tolist()

    def test_to_huge_tensors(self):
        """The fault's function at its limit, without a case."""
        position = FAULTS["index-through-float32"].position
        assert [2**24, 2**24 - 1] == position(np.array([2**24 + 1, -2]), 2**24 + 1).tolist()
        for name, limit in (("dispatch-65535-groups", 65535 * 256), ("typed-buffer-limit", 2**27)):
            output = FAULTS[name].output(np.ones(limit + 2, np.uint8), None)
            assert ([1, 0, 0], limit) == (output[-3:].tolist(), np.count_nonzero(output))

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("run-previous-output", [[1, 1], [1, 1], [2, 2], [3, 3]]),
            ("run-first-wrong", [[0, 0], [2, 2], [3, 3], [4, 4]]),
            ("run-every-3rd-wrong", [[1, 1], [2, 2], [0, 0], [4, 4]]),
            ("kept-output", [[1, 1], [1, 1], [1, 1], [1, 1]]),
            ("kept-indices", [[1, 1], [2, 2], [3, 3], [4, 4]]),
        ],
    )
    def test_to_several_runs(self, name, expected):
        """Each run of one provider depends on the runs before it."""
        provider = open_fault(name).runner
        assert expected == [provider.run_case(gather([i, 0], (0, 0)))[0].tolist() for i in (1, 2, 3, 4)]

    def test_another_session_starts_empty(self):
        """A new provider remembers no run of another provider."""
        for _ in range(2):
            (output,) = open_fault("kept-output").runner.run_case(gather())
            assert [14, 12, 14, 11, 13] == output.tolist()


def moved(name, data_type, bits):
    """Returns the output for four elements of a type, read in their order."""
    case = gather(indices=(0, 1, 2, 3))
    desc = case.desc.replace(input_tensor=TensorDesc(data_type, (4,)), output_tensor=TensorDesc(data_type, (4,)))
    tensors = {**case.tensors, "InputTensor": Tensor(data_type, (4,), bits)}
    (output,) = open_fault(name).runner.run_case(Case("it", desc, tensors))
    return output


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ELEMENT_WISE_MAX", [1, 1 << 32 | 1, -1]),
        ("ELEMENT_WISE_MIN", [1 << 31, 1 << 31, -1 << 31]),
        ("ELEMENT_WISE_LOGICAL_GREATER_THAN", [1, 0, 0]),
    ],
)
def test_low_halves_as_signed_numbers(name, expected):
    """The high halves are compared first; of a maximum, the element itself is the output."""
    left, right = (
        Tensor.from_values(DataType.INT64, (3,), v) for v in ([1, 1 << 31, -1 << 31], [1 << 31, 1 << 32 | 1, -1])
    )
    fields = zip(("a_tensor", "b_tensor"), [TensorDesc(DataType.INT64, (3,))] * 2, strict=True)
    output = DataType.UINT8 if "LOGICAL" in name else DataType.INT64
    desc = OPERATORS[name].descriptor(**dict(fields), output_tensor=TensorDesc(output, (3,)))
    (found,) = open_fault("value-low-half-signed").runner.run_case(
        Case("it", desc, {"ATensor": left, "BTensor": right})
    )
    assert expected == found.tolist()


def test_a_half_that_is_rounded_twice():
    """Of odd numbers of FLOAT32 above 2^23, the magnitude grows by one; no other number changes."""
    numbers = [8388609.0, -8388609.0, 8388610.0, 2.5, 16777217.0]
    desc = OPERATORS["ELEMENT_WISE_ROUND"].descriptor(
        input_tensor=TensorDesc(DataType.FLOAT32, (5,)),
        output_tensor=TensorDesc(DataType.FLOAT32, (5,)),
        rounding_mode=2,
    )
    case = Case("it", desc, {"InputTensor": Tensor.from_values(DataType.FLOAT32, (5,), numbers)})
    (found,) = open_fault("value-rounded-twice").runner.run_case(case)
    assert [8388610.0, -8388610.0, 8388610.0, 3.0, 16777216.0] == found.tolist()


@pytest.mark.parametrize("sign", ["/", "%"])
def test_a_division_by_zero(sign):
    """An address that divides by 0 has no value, as in the interpreter; the remainder has the sign of the dividend."""
    arrays = CaseArrays(square(0))
    address, loop = arrays.address, next(i for i, size in enumerate(arrays.address.loops) if size > 1)
    with pytest.raises(PseudocodeError, match="divided by 0"):
        arrays.computed(Computed(sign, (1, LoopPosition(loop))), address)
    assert [[-3], [-1]][sign == "%"] == arrays.computed(Computed(sign, (-7, 2)), address).reshape(-1).tolist()


class TestAccess:
    """The addresses that faults change."""

    def test_agrees_with_the_interpreter(self):
        """Address by address, for every case of smoke but those of operators with guards, those that ignore indices, and
        those that compute.
        """
        for case in own_cases("smoke"):
            arrays, access = CaseArrays(case), case.desc.access
            if access.ignores_outside or any(move.guard is not None for move in access.moves):
                continue
            if case.desc.spec().computes_values:  # its elements come from several places
                continue
            packed = arrays.address.with_strides(strides_of(arrays.address.sizes))  # the origins know no strides
            move, wanted = arrays.move, arrays.element_addresses(packed).tolist()
            if arrays.address is move.target:  # the input, and in some places an update; or one tensor behind the other
                counts = (prod(access.sizes[name]) for name in access.sources[:-1])
                starts = dict(zip(access.sources, accumulate(counts, initial=0), strict=True))
                wanted = [None] * prod(access.sizes[access.output])
                for statement in access.statements:
                    if statement not in access.moves:
                        wanted = [*range(prod(access.sizes[statement.source]))]
                        continue
                    written = arrays.element_addresses(statement.target).tolist()
                    writes = Counter(written)
                    for at, read in zip(written, arrays.element_addresses(statement.source).tolist(), strict=True):
                        wanted[at] = starts[statement.source.tensor] + read if writes[at] == 1 else None
            assert list(case.desc.origins(case.tensors)) == wanted

    @pytest.mark.parametrize("step", others_slow([1, 5], 5))
    def test_without_a_fault(self, step):
        """The arrays give the documented output, also where a guard or an index that is ignored leaves an element."""
        for case in own_cases("smoke")[::step]:
            right = CaseArrays(case).right.tolist()
            assert all(e in (None, r) for e, r in zip(case.expected, right, strict=True)), case.id

    @pytest.mark.parametrize("operator", SHOWN)
    def test_of_each_operator(self, operator):
        """The faults of addresses, indices and conditions show without an operator's help."""
        own = {case.id for case in own_cases("smoke") if case.desc.operator == operator}
        shown = {name for name, score in scores("smoke").items() if own & {*score.caught_by}}
        assert set() == SHOWN[operator] - shown

    def test_without_index_tensors(self):
        """Faults in indices change nothing in an operator without index tensors; other faults do."""
        arrays = arrays_of("output[i, j] = input[i, 0]", (2, 3), input=MATRIX)
        assert [1, 1, 1, 4, 4, 4] == arrays.right.tolist()
        assert {"address-off-by-one", "strides-column-major", "output-zero"} < changed_by(arrays)
        assert set() == changed_by(arrays) & {*INDEX_FAULTS}

    def test_a_copy(self):
        """Faults change the copy of a whole tensor as if it moved element by element."""
        arrays = arrays_of("output = input", (2, 3), input=MATRIX)
        assert [1, 2, 3, 4, 5, 6] == arrays.right.tolist()
        assert {"address-off-by-one", "strides-column-major", "innermost-coordinate-ignored"} < changed_by(arrays)
        assert set() == changed_by(arrays) & {*INDEX_FAULTS}

    def test_several_statements(self):
        """The statements before the last one run without the fault."""
        text = "output = input\noutput[first[i]] = updates[i]\noutput[last[i]] = updates[i]"
        row, updates = Tensor(DataType.UINT8, (3,), (1, 2, 3)), Tensor(DataType.UINT8, (1,), (9,))
        indices = {name: Tensor.from_values(DataType.INT32, (1,), [i]) for name, i in (("first", 0), ("last", -1))}
        arrays = arrays_of(text, (3,), input=row, updates=updates, **indices)
        assert [9, 2, 9] == arrays.right.tolist()
        (output,) = FaultProvider(FAULTS["index-off-by-one"]).run_arrays(arrays)
        assert [9, 2, 3] == output.tolist()


MATRIX = Tensor(DataType.UINT8, (2, 3), range(1, 7))


def arrays_of(text, output_sizes, **tensors):
    """Returns the arrays of a case of an operator with these pseudocode lines; the interpreter gives the same
    output.
    """
    access = access_map(parse_lines(text), {"output": output_sizes, **{n: t.sizes for n, t in tensors.items()}})
    spec = SimpleNamespace(pseudocode=SimpleNamespace(tensors={name: name for name in tensors}), strided=())
    output = TensorDesc(DataType.UINT8, output_sizes)
    outputs = {"outputs": {"output": output}, "output_field": "output", "output": output}
    desc = SimpleNamespace(
        operator="IT", access=access, own_spec=spec, tensors={}, numbers={}, named_tensors=dict, **outputs
    )
    arrays = CaseArrays(Case("it", desc, tensors))
    assert list(run(access, {name: tensor.values for name, tensor in tensors.items()})) == [*arrays.right]
    return arrays


def changed_by(arrays):
    """Returns the names of the faults that change the output, in one run."""
    outputs = {name: FaultProvider(fault).run_arrays(arrays) for name, fault in FAULTS.items()}
    right = [arrays.right.tobytes()]
    return {name for name, own in outputs.items() if right != [output.tobytes() for output in own]}


class TestScore:
    """One fault's score against a tier."""

    REAL = Fault(text="it is wrong", needs="a large tensor")
    SAME = Fault(text="it is right", equivalent="it changes nothing")

    @pytest.mark.parametrize(
        ("fault", "caught_by", "tier", "right"),
        [
            (REAL, (), "smoke", True),
            (REAL, (), "standard", False),
            (REAL, ("it",), "standard", True),
            (SAME, (), "full", True),
            (SAME, ("it",), "smoke", False),
        ],
    )
    def test_right(self, fault, caught_by, tier, right):
        """Wrong are a due fault that is not caught and an equivalent one that is."""
        own = Score("its-name", fault, caught_by)
        assert right is own.right(tier)
        assert right is ("wrong: its-name" not in summary(tier, [], [own]))

    def test_caught_though_equivalent(self):
        """The line of the fault says so."""
        (line, *_) = summary("smoke", [], [Score("its-name", self.SAME, ("it",))])
        assert line.endswith("CAUGHT, but no valid input shows it: it changes nothing")


class TestCommand:
    """`python tools/adequacy faults`."""

    def test_prints_the_score(self, capsys, monkeypatch):
        """A line per fault with its first case, the totals, and the cases that alone catch a fault."""
        monkeypatch.setattr("adequacy.__main__.score", lambda cases, advance: list(scores("smoke").values()))
        code = main(["faults"])
        out = capsys.readouterr().out
        assert 0 == code
        lines = {line.split()[0]: line.split()[1:] for line in out.splitlines()[: len(FAULTS)]}
        assert list(FAULTS) == list(lines)
        other_than_zero = sum(any(map(any, case.inputs.all_expected.values())) for case in scored("smoke"))
        assert [str(other_than_zero), own_cases("smoke")[0].id] == lines["output-zero"]
        assert ["1", own_cases("smoke")[0].id, "alone"] == lines["run-first-wrong"]
        assert f"{own_cases('smoke')[0].id} alone catches run-first-wrong" in out
        caught = sum(bool(s.caught_by) for s in scores("smoke").values() if s.fault.tier)
        assert (
            f"{caught} of {len(REAL) + len(HUGE)} faults caught by the {len(own_cases('smoke'))} cases of smoke" in out
        )

    def test_as_json(self, capsysbinary, monkeypatch):
        """`caught_by` holds positions in the list of cases."""
        monkeypatch.setattr("adequacy.__main__.score", lambda cases, advance: list(scores("smoke").values()))
        main(["faults", "--tier", "smoke", "--json"])
        document = json.loads(capsysbinary.readouterr().out)
        assert ("opmap-faults/1", "smoke") == (document["schema"], document["tier"])
        assert [case.id for case in own_cases("smoke")] == document["cases"]
        assert list(FAULTS) == [entry["name"] for entry in document["faults"]]
        for entry in document["faults"]:
            expected = scores("smoke")[entry["name"]]
            assert expected.caught_by == tuple(document["cases"][i] for i in entry["caught_by"])
            assert len(expected.caught_by) == entry["caught"]

    def test_a_fault_that_is_not_caught_is_red(self, capsys, monkeypatch):
        """Exit code 1, and the fault is listed as wrong."""
        monkeypatch.setattr("opmap.cases.selection.listed", lambda *_, **__: [Listed.of(gather((1, 2), (0, 1)))])
        assert 1 == main(["faults"])
        out = capsys.readouterr().out
        assert "negative-index-as-zero                    0  NOT CAUGHT" in out
        assert "wrong: negative-index-as-zero, " in out
