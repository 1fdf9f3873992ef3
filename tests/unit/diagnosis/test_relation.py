"""The relation of a wrong output to the right one: planted changes and fault models are named."""

import dataclasses

import numpy as np
import pytest
from planted_outputs import PLANTED, SHAPES, changed, found, made, right_of
from tiers import others_slow, own_cases

from opmap.cases.case import Case
from opmap.cases.catalogue import generated
from opmap.cases.parameters import is_large
from opmap.cases.selection import find_case
from opmap.cases.values import seed_of
from opmap.descriptors import TensorDesc, complete, complete_sizes
from opmap.diagnosis.causes import causes
from opmap.diagnosis.judged_run import JudgedRun
from opmap.diagnosis.relations import (
    Earlier,
    problem_relation,
    relations,
    reveals_addresses,
    session_faults,
)
from opmap.diagnosis.relations_wrong import MAX_OUTPUT
from opmap.engines.arrays import dtype_of, wrong_outputs
from opmap.engines.providers import Provider
from opmap.faults import FAULTS, Fault, FaultProvider
from opmap.faults.case_arrays import CaseArrays, resolve
from opmap.faults.conversions import CONVERSION_FAULTS, through
from opmap.judge.judge import Judge
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor

OF_SESSIONS = [name for name, fault in FAULTS.items() if fault.session]
SMOKE = [case for case in own_cases("smoke") if case.desc.output.element_count <= 300]


class TestPlanted:
    """Changes of the right output that are no fault models."""

    @pytest.mark.parametrize("operator", SHAPES)
    @pytest.mark.parametrize("name", PLANTED)
    def test_named(self, operator, name):
        """A change is named, and explains all wrong elements; or a fault model that does the same is named."""
        make, kind, text = PLANTED[name]
        case = made(operator)
        relation = found(case, make(case))
        assert relation.explained == relation.wrong
        if relation.kind == "fault":
            every = relations(case, np.ascontiguousarray(make(case)).reshape(-1).tolist())
            assert any((kind, True) == (other.kind, text in other.text) for other in every)
        else:
            assert (kind, True) == (relation.kind, text in relation.text), relation

    @pytest.mark.parametrize("operator", SHAPES)
    def test_any_order(self, operator):
        """The same elements in an order without a rule are a permutation, if no element repeats a right one."""
        case = made(operator, sizes=None, pattern="random")
        output = np.random.default_rng(3).permutation(right_of(case).reshape(-1))
        every = relations(case, output.tolist())
        assert "the output has the right elements in another order" in [relation.text for relation in every]

    def test_missing_in_part(self):
        """Many wrong elements are zero, and the others are noise: the zeros are a relation if they are nearly all."""
        case = made("GATHER")
        for noise, kind in ((1, "missing"), (4, "none")):
            output = changed(right_of(case), part=slice(0, 120, 3), to=0)
            output[1 : 1 + 3 * noise : 3] = np.random.default_rng(1).integers(1, 2**32, noise, dtype=np.uint32)
            relation = found(case, output)
            assert (kind, 40 + noise) == (relation.kind, relation.wrong)
            assert "some elements are zero" in (relation.remark or relation.text)

    def test_missing_label(self):
        """Lost elements have one label wherever they are, beside the one that says where."""
        case = made("GATHER")
        for part in (slice(-1, None), slice(60, None), slice(0, 120, 7)):
            told = relations(case, changed(right_of(case), part=part, to=0).tolist())
            assert ("missing", "some elements are zero") in {label for relation in told for label in relation.labels}

    def test_undocumented(self):
        """Elements without a documented value break no relation; but nothing is known of one that comes from them."""
        base = made("GATHER_ELEMENTS")
        indices = base.tensors["IndicesTensor"]
        values = list(indices.values)
        values[17], values[77] = 7, 100  # out of range; a rotation by 60 exchanges them
        tensors = {**base.tensors, "IndicesTensor": Tensor.from_values(DataType.INT64, indices.sizes, values)}
        case = Case(base.id, base.desc, tensors)
        assert [17, 77] == [i for i, bits in enumerate(case.expected) if bits is None]
        rotated = np.roll([bits or 0 for bits in case.expected], 60)
        relation = relations(case, rotated.tolist())[0]
        pairs = enumerate(zip(case.expected, rotated.tolist(), strict=True))
        wrong = [i for i, (e, a) in pairs if e is not None and e != a]
        assert ("shift", "the output is rotated by 60") == (relation.kind, relation.text)
        assert (len(wrong), len(wrong)) == (relation.wrong, relation.explained)
        zeros = relations(case, [0] * 120)[0]
        assert ("output-zero", 118, 118) == (zeros.fault, zeros.explained, zeros.wrong)

    @pytest.mark.parametrize("id", ["max_pooling/example.1", "top_k/example.1"])
    def test_zeros_of_a_computed_value(self, id):
        """An output of zeros is told as such, although a changed operator of the page gives zeros too."""
        case = find_case(id)
        assert "output-zero" == relations(case, [0] * len(case.expected))[0].fault


class TestBackends:
    """Whole outputs of backends that are wrong under a condition; here the condition holds."""

    @pytest.mark.parametrize("operator", SHAPES)
    def test_last_but_one(self, operator):
        """16-bit data with an odd number of elements repeats the last but one."""
        sizes = {name: (*size[:-1], 3) if size[-1] == 5 else size for name, size in SHAPES[operator][0].items()}
        sizes = {name: (5, *size[1:]) if size[0] == 6 else size for name, size in sizes.items()}
        sizes = {name: tuple(3 if n == 4 else n for n in size) for name, size in sizes.items()}
        case = made(operator, DataType.INT16, sizes=sizes)
        right = right_of(case).reshape(-1)
        assert 45 == len(right)
        relation = found(case, changed(right, part=-1, to=right[-2]))
        assert ("repeat", "the last element is a copy of the one before it", 1, 1) == (
            relation.kind,
            relation.text,
            relation.explained,
            relation.wrong,
        )


class TestStale:
    """Outputs of earlier calls."""

    def test_faults(self):
        """A call back, of the same sizes and the first: two fault models of a session give the same output."""
        case, before = made("GATHER"), made("GATHER_ND")
        memory = right_of(before).reshape(-1)
        earlier = [Earlier(before.id, 1, memory.tolist(), before.desc.output.sizes, DataType.FLOAT32)]
        relation = found(case, memory, earlier=earlier)
        assert ("stale", "run-previous-output", ("kept-output-by-sizes",)) == (
            relation.kind,
            relation.fault,
            relation.ties,
        )

    @pytest.mark.parametrize("count", [50, 300])
    def test_other_size(self, count):
        """Memory of another type and size is compared byte by byte."""
        case = made("GATHER")
        memory = np.random.default_rng(5).integers(0, 2**16, count, dtype=np.uint16)
        actual = np.resize(memory.view("u1"), 480).view("<u4")
        earlier = [Earlier("other", 4, memory.tolist(), (count,), DataType.FLOAT16)]
        assert ("stale", "the output is the one of other, 4 calls back") == (
            (relation := found(case, actual, earlier=earlier)).kind,
            relation.text,
        )

    def test_tail(self):
        """The elements that are left over from an earlier call are named."""
        case, before = made("GATHER"), made("GATHER_ND")
        memory = right_of(before).reshape(-1)
        actual = np.concatenate((right_of(case).reshape(-1)[:100], memory[100:]))
        earlier = [Earlier(before.id, 3, memory.tolist(), before.desc.output.sizes, DataType.FLOAT32)]
        relation = found(case, actual, earlier=earlier)
        assert f"the elements from number 100 on are left over from the output of {before.id}, 3 calls back" == (
            relation.text
        )
        assert ("stale", 20) == (relation.kind, relation.explained)

    def test_other_calls(self):
        """An earlier output that is another one is not named."""
        case = made("GATHER")
        other = right_of(made("GATHER_ELEMENTS")).reshape(-1).tolist()
        actual = np.roll(right_of(case).reshape(-1), 1)
        earlier = [Earlier("other", 1, other, (6, 4, 5), DataType.FLOAT32)]
        assert "shift" == found(case, actual, earlier=earlier).kind

    @pytest.mark.parametrize("name", others_slow(OF_SESSIONS, *OF_SESSIONS[::10]))
    def test_session(self, name):
        """A fault of a session is among those that give exactly the outputs of all calls."""
        cases = [case for case in SMOKE if case.desc.output.element_count < 100]
        provider = FaultProvider(FAULTS[name])
        outputs = [provider.run_case(case)[0] for case in cases]
        bits = [np.ascontiguousarray(o).view(f"<u{o.itemsize}").reshape(-1).tolist() for o in outputs]
        wrong = [right_of(case).reshape(-1).tolist() != actual for case, actual in zip(cases, bits, strict=True)]
        names = session_faults(list(zip(cases, bits, strict=True)))
        assert name in names
        assert not any(wrong) or len(names) < 4


class TestFaults:
    """The fault models."""

    @pytest.mark.parametrize("times", others_slow([1, len(SMOKE)], 1))
    def test_each(self, times):
        """Each fault is named, or tied with the one that is, in the first cases of a sample that it changes."""
        left = {name: times for name, fault in FAULTS.items() if not (fault.session or fault.result)}
        for case in sorted(SMOKE[::8], key=lambda case: seed_of(case.id)):
            for name in self.named([name for name, cases in left.items() if cases], case):
                left[name] -= 1
        assert 140 < sum(cases < times for cases in left.values())

    def named(self, names, case):
        """Gives the faults that change a case, after a check that each is named."""
        arrays, expected = CaseArrays(case), case.expected
        for name in names:
            actual = FAULTS[name].bits(arrays).tolist()
            if any(e is not None and e != a for e, a in zip(expected, actual, strict=True)):
                yield name
                relation = relations(case, actual)[0]
                assert "fault" == relation.kind
                assert name in (relation.fault, *relation.ties)
                assert relation.explained == relation.wrong > 0
                for tie in (relation.fault, *relation.ties):
                    other = FAULTS[tie].bits(arrays).tolist()
                    assert all(e is None or a == b for e, a, b in zip(expected, actual, other, strict=True))

    @pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.result])
    def test_results(self, name):
        """A fault in type, shape or number of the outputs is named by the judge's words about it."""
        case = made("GATHER", DataType.INT32)
        output = case.desc.output
        problem = wrong_outputs(FaultProvider(FAULTS[name]).run_case(case), dtype_of(output.data_type), output.sizes)
        relation = problem_relation(case, problem)
        assert ("type" if name == "result-other-type" else "shape", name) == (relation.kind, relation.fault)


class TestConversions:
    """Data that passes through another type: one title, whatever the values of a case show of it."""

    @pytest.mark.parametrize(
        ("data_type", "via", "mode", "numbers", "converted"),
        [
            (DataType.FLOAT64, "FLOAT32", "saturating", [1e300, 0.1, -np.inf], [2**128 - 2**104, 0.10000000149011612, -(2**128 - 2**104)]),
            (DataType.FLOAT64, "FLOAT32", "", [1e300, 1e-40, -1e-60], [np.inf, 9.99994610111476e-41, -0.0]),
            (DataType.FLOAT64, "FLOAT32", "flushing", [1e-40, 1e-30], [0.0, 1.0000000031710769e-30]),
            (DataType.FLOAT64, "FLOAT32", "toward zero", [0.1, -1e300], [0.09999999403953552, -(2**128 - 2**104)]),
            (DataType.FLOAT32, "BFLOAT16", "", [1.00390625, 1.01171875], [1.0, 1.015625]),
            (DataType.FLOAT32, "INT32", "saturating", [1e20, -2.9, np.nan], [2**31, -2, 0]),
            (DataType.FLOAT32, "INT32", "wrapping", [1e20, 2.9], [-(2**31), 2]),
            (DataType.INT64, "INT32", "wrapping", [2**31, -1], [-(2**31), -1]),
            (DataType.INT64, "INT32", "saturating", [2**31, -(2**40)], [2**31 - 1, -(2**31)]),
            (DataType.INT64, "UINT32", "wrapping", [2**32 + 5, -1], [5, 2**32 - 1]),
            (DataType.INT64, "FLOAT32", "", [2**24 + 1, 2**63 - 1], [2**24, -(2**63)]),
            (DataType.INT64, "FLOAT64", "saturating", [2**53 + 1, 2**63 - 1], [2**53, 2**63 - 1]),
            (DataType.UINT32, "INT32", "saturating", [2**31, 7], [2**31 - 1, 7]),
            (DataType.UINT64, "FLOAT64", "", [2**64 - 1, 2**53 + 1], [0, 2**53]),
            (DataType.INT8, "UINT8", "saturating", [-5, 100], [0, 100]),
        ],
    )  # fmt: skip
    def test_numbers(self, data_type, via, mode, numbers, converted):
        """The numbers that come back."""
        right = np.array(numbers, dtype_of(data_type))
        back = through(via, mode)(right.view(f"<u{data_type.size}"), data_type).view(right.dtype)
        assert np.array(converted, right.dtype).tolist() == back.tolist()

    def test_nans(self):
        """A NaN becomes quiet, and loses the bits of its payload that the other type lacks."""
        float16 = np.array([0x7C01, 0xFC00, 0x7E05], "<u2")
        assert [0x7E01, 0xFC00, 0x7E05] == through("FLOAT32")(float16, DataType.FLOAT16).tolist()
        float32 = np.array([0xFF801FFF, 0x7F802000], "<u4")
        assert [0xFFC00000, 0x7FC02000] == through("FLOAT16")(float32, DataType.FLOAT32).tolist()
        assert [0x7FC00000] * 2 == through("FLOAT16", "one NaN")(float32, DataType.FLOAT32).tolist()

    @pytest.mark.parametrize(
        "name",
        others_slow(
            ["data-through-float32-saturating", "data-through-int32", "data-through-int16-saturating"],
            "data-through-int32",
        ),
    )
    def test_one_cause(self, name):
        """All cases of one conversion have its label, beside those of others that give the same output there."""
        failures = 0
        for case in SMOKE[::9]:
            arrays = CaseArrays(case)
            actual = CONVERSION_FAULTS[name].bits(arrays)
            if (actual != arrays.right).any():
                failures += 1
                assert ("fault", name) in relations(case, actual.tolist())[0].labels
        assert failures > 3

    def test_zero(self):
        """Elements that are zero are not said to be converted, although small numbers become zero."""
        case = made("GATHER", DataType.FLOAT32)
        tail = changed(right_of(case), part=slice(64, None), to=0)
        assert ("missing", "the elements from number 64 on are zero") == (
            found(case, tail).kind,
            found(case, tail).text,
        )
        assert not [r for r in relations(case, tail.tolist()) if r.kind == "values"]


def _written_up_to(group):
    return lambda bits, arrays: np.where(np.arange(len(bits)) < len(bits) // group * group, bits, 0 * bits)


def _second_and_third(bits, arrays):
    if bits.itemsize == 1:
        whole = bits[: len(bits) // 4 * 4].reshape(-1, 4)
        whole[:] = whole[:, [0, 2, 1, 3]]
    return bits


def _rows_of_four(bits, arrays):
    rows = bits.reshape(-1, arrays.output_sizes[-1])
    whole = rows.shape[1] // 4 * 4
    if whole:
        rows[:, whole:] = rows[:, whole - 4 : rows.shape[1] - 4]
    return bits


def _taken_as(member, words, other):
    """Returns the change of a member whose number is one of `words`."""

    def output(bits, arrays):
        desc = arrays.case.desc
        if getattr(desc, member, None) not in words:
            return bits
        return CaseArrays(dataclasses.replace(arrays.case, desc=desc.replace(**{member: other}))).right

    return output


def _row_before(addresses, arrays):
    """Reads the position before in the dimension before the axis, of GATHER_ELEMENTS with one in front of its axis."""
    desc = arrays.case.desc
    if desc.operator != "GATHER_ELEMENTS" or desc.axis == 0:
        return addresses
    sizes = desc.tensors["InputTensor"].sizes
    positions = list(np.unravel_index(addresses, sizes))
    positions[desc.axis - 1] = np.maximum(positions[desc.axis - 1] - 1, 0)
    return np.ravel_multi_index(positions, sizes)


MODELS = {
    "PaddingMode REFLECTION is taken as SYMMETRIC": Fault(text="", output=_taken_as("padding_mode", [2], 3)),
    "PaddingMode is always taken as CONSTANT": Fault(text="", output=_taken_as("padding_mode", [1, 2, 3, 4], 0)),
    "Order COLUMN_ROW_DEPTH is taken as DEPTH_COLUMN_ROW": Fault(text="", output=_taken_as("order", [1], 0)),
    "every wrong element is the input's element with position - 1 along the dimension before the axis, clamped": Fault(
        text="", addresses=_row_before
    ),
    "the elements behind the last whole group of 32 are zero": Fault(text="", output=_written_up_to(32)),
    "the elements from number 128 on are zero": Fault(
        text="", output=lambda bits, arrays: np.where(np.arange(len(bits)) < 128, bits, 0 * bits)
    ),
    "the elements of each row behind its last whole group of 4 are copies of those 4 before them": Fault(
        text="", output=_rows_of_four
    ),
    "the bytes of each group of 4 bytes are taken in the order 0, 2, 1, 3": Fault(text="", output=_second_and_third),
    "an index of 16 or more means element 15": Fault(
        text="", position=lambda i, n: np.where(i >= 16, 15, resolve(i, n))
    ),
    "a negative index means the last element": Fault(text="", position=lambda i, n: np.where(i < 0, n - 1, i)),
}
"""Backends that are wrong by a rule with a number in it, and the sentence about them."""


class TestModels:
    """A rule that one case proposes is held against all cases: one defect is one cause, whatever the sizes are."""

    @pytest.mark.slow
    @pytest.mark.parametrize("text", MODELS)
    def test_one_cause(self, text):
        """The largest cause has the rule and nearly all cases; the others say that they do not know."""
        judge = Judge(Provider("fault:planted", None, None, FaultProvider(MODELS[text])))
        run = JudgedRun([(case, judge(case)) for case in own_cases("smoke") if not is_large(case.desc)])
        first, *others = causes(run)
        assert (text, None) == (first.relation.text, first.relation.fault)
        assert len(first.failures) >= 0.98 * len(run.failed)
        assert len(others) <= 2

    @pytest.mark.parametrize(
        ("taken", "text"),
        [
            ((-1, 1, 2), "the first input of the array is lost"),
            ((0, 0, 2), "the input before it is read in place of input number 1"),
        ],
    )
    def test_inputs_of_an_array(self, taken, text):
        """JOIN: that one input is lost, or its neighbour is read in its place, is a relation."""
        cls = OPERATORS["JOIN"].descriptor
        sizes = {f"InputTensors[{i}]": (4, 5) for i in range(3)}
        desc = complete_sizes(
            cls, sizes, {"InputCount": 3, "Axis": 0}, data_type=DataType.INT32, index_type=DataType.INT32
        )
        case = generated(desc, "", "addr")
        inputs = [list(tensor.bits) for tensor in case.tensors.values()]
        output = [bits for at in taken for bits in (inputs[at] if at >= 0 else [0] * 20)]
        assert text in " ".join(relation.text for relation in relations(case, output))

    def test_few_elements(self):
        """Few wrong elements name no fault that would change cases that passed: it is the remark."""
        fault = FAULTS["index-off-by-one"]
        cases = [case for case in SMOKE if case.desc.operator == "GATHER_ELEMENTS"]
        wrong = [case for case in cases if not np.array_equal(fault.bits(CaseArrays(case)), CaseArrays(case).right)]
        few = min(wrong, key=lambda case: case.desc.output.element_count).id
        provider = FaultProvider(dataclasses.replace(fault, concerns=lambda arrays: arrays.case.id == few))
        judge = Judge(Provider("fault:planted", None, None, provider))
        (cause,) = causes(JudgedRun([(case, judge(case)) for case in cases]))
        assert ("no relation found", True) == (cause.relation.text, fault.text in cause.relation.remark)


class TestReveals:
    """Whether data reveals addresses."""

    @pytest.mark.parametrize(
        ("data_type", "size", "reveals"),
        [(DataType.UINT8, 256, True), (DataType.UINT8, 257, False), (DataType.UINT16, 257, True)],
    )
    def test_width(self, data_type, size, reveals):
        """A type of 8 bits reveals up to 256 addresses."""
        inputs = {"InputTensor": TensorDesc(data_type, (size,)), "IndicesTensor": TensorDesc(DataType.INT64, (3,))}
        desc = complete(OPERATORS["GATHER"].descriptor, inputs, {"Axis": 0, "IndexDimensions": 1})
        data = "addr" if reveals else "addr0"
        assert reveals is reveals_addresses(generated(desc, "random", data))


def test_large():
    """In a large output nothing is moved, and a lost tail is still found."""
    sizes = {"InputTensor": (1000, 150), "IndicesTensor": (1, 1000)}
    case = made("GATHER", sizes=sizes, numbers={"Axis": 0})
    right = right_of(case).reshape(-1)
    assert 150_000 == len(right) > MAX_OUTPUT
    relation = found(case, changed(right, part=slice(131072, None), to=0))
    assert ("missing", "the elements from number 131072 on are zero", 150_000 - 131_072) == (
        relation.kind,
        relation.text,
        relation.explained,
    )
    assert "the output has the right elements in another order" == found(case, np.roll(right, 1)).text
