"""The relation of a wrong output to the right one: planted changes and fault models are named."""

import numpy as np
import pytest
from planted_outputs import LONG_AXIS, PLANTED, SHAPES, axis_of, changed, found, made, read, right_of

from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue, generated
from opmap.descriptors import TensorDesc, complete
from opmap.diagnosis.relations import (
    Earlier,
    problem_relation,
    relations,
    reveals_addresses,
    session_faults,
)
from opmap.diagnosis.relations_wrong import MAX_OUTPUT
from opmap.engines.arrays import dtype_of, wrong_outputs
from opmap.faults import FAULTS, FaultProvider
from opmap.faults.case_arrays import CaseArrays
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor

SMOKE = [case for case in catalogue("smoke", variants=False) if case.desc.output.element_count <= 300]


class TestPlanted:
    """Changes of the right output that are no fault models."""

    @pytest.mark.parametrize("operator", SHAPES)
    @pytest.mark.parametrize("name", PLANTED)
    def test_named(self, operator, name):
        """A change is named, and explains all wrong elements; or a fault model that does the same is named."""
        make, kind, text = PLANTED[name]
        case = made(operator, sizes=LONG_AXIS[operator] if "along" in text else None)
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

    @pytest.mark.parametrize(("share", "most"), [(60, True), (40, False)])
    def test_at_least_half(self, share, most):
        """A rule counts if it explains at least half; the other wrong elements are any of the input."""
        case = made("GATHER", sizes=LONG_AXIS["GATHER"])
        output = read(case, lambda p, n: [p[0], (p[1] + 2) % n[1], p[2]])
        generator = np.random.default_rng(1)
        places = generator.choice(300, 300 - 3 * share, replace=False)
        output[places] = generator.choice(CaseArrays(case).data, len(places))
        relation = found(case, output)
        rule = "most wrong elements are the input's element with position + 2 along the axis, modulo its size"
        assert most is (rule == relation.text)
        assert most is (relation.explained < relation.wrong)

    def test_missing_in_part(self):
        """Half of the wrong elements are zero, and the others are noise: the zeros are counted."""
        case = made("GATHER")
        output = changed(right_of(case), part=slice(0, 120, 3), to=0)
        output[1:13:3] = np.random.default_rng(1).integers(1, 2**32, 4, dtype=np.uint32)
        relation = found(case, output)
        assert ("missing", "some elements are zero", 40, 44) == (
            relation.kind,
            relation.text,
            relation.explained,
            relation.wrong,
        )

    @pytest.mark.parametrize(
        ("distance", "text", "unrelated"),
        [(60, "rotated by 12 rows", []), (5, "shifted by 1 row", [0, 1, 2, 3, 4, 22, 82])],
    )
    def test_undocumented(self, distance, text, unrelated):
        """Elements without a documented value break no relation; but nothing is known of one that comes from them."""
        base = made("GATHER_ELEMENTS")
        indices = base.tensors["IndicesTensor"]
        values = list(indices.values)
        values[17], values[77] = 7, 100  # out of range; a rotation by 60 exchanges them
        tensors = {**base.tensors, "IndicesTensor": Tensor.from_values(DataType.INT64, indices.sizes, values)}
        case = Case(base.id, base.desc, tensors)
        assert [17, 77] == [i for i, bits in enumerate(case.expected) if bits is None]
        rotated = np.roll([bits or 0 for bits in case.expected], distance)
        relation = relations(case, rotated.tolist())[0]
        pairs = enumerate(zip(case.expected, rotated.tolist(), strict=True))
        wrong = [i for i, (e, a) in pairs if e is not None and e != a]
        assert ("shift", f"the output is {text}") == (relation.kind, relation.text)
        assert (len(wrong), len(set(wrong).difference(unrelated))) == (relation.wrong, relation.explained)
        zeros = relations(case, [0] * 120)[0]
        assert ("output-zero", 118, 118) == (zeros.fault, zeros.explained, zeros.wrong)


def planted_axis(case):
    """Reads along the axis before the right one, as take_along_axis does."""
    d = axis_of(case) - 1
    data = CaseArrays(case).data.reshape(case.desc.tensors["InputTensor"].sizes)
    indices = np.array(case.tensors["IndicesTensor"].values).reshape(case.desc.tensors["IndicesTensor"].sizes)
    return np.take_along_axis(data, indices % data.shape[d], d)


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

    def test_axis_before(self):
        """GATHER_ELEMENTS reads along the axis before, with indices as large as the input."""
        size = (3, 2, 3, 4, 5)
        case = made("GATHER_ELEMENTS", sizes={"InputTensor": size, "IndicesTensor": size}, numbers={"Axis": 3})
        relation = found(case, planted_axis(case))
        assert ("address", relation.wrong) == (relation.kind, relation.explained)
        assert (
            "every wrong element is the input's element with the index of the axis along the dimension before the axis,"
            " modulo its size and with the output's position along the axis"
        ) == relation.text


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

    @pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.session])
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


SAMPLE = SMOKE[::8]


class TestFaults:
    """The fault models."""

    @pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.id)
    def test_each(self, case):
        """Each fault that changes the case is named, or tied with the one that is."""
        arrays, expected = CaseArrays(case), case.expected
        for name, fault in FAULTS.items():
            if fault.session or fault.result:
                continue
            actual = fault.bits(arrays).tolist()
            if any(e is not None and e != a for e, a in zip(expected, actual, strict=True)):
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

    def test_in_part(self):
        """A fault that would change other elements too is no exact one, and is said to be so."""
        case = made("GATHER_ND1")
        wrong = FAULTS["batch-0-of-indices"].bits(CaseArrays(case)).reshape(6, 20)
        output = np.where(np.arange(6)[:, None] > 2, wrong, right_of(case).reshape(6, 20))
        relation = found(case, output)
        assert relation.fault is None
        texts = [r.text for r in relations(case, output.reshape(-1).tolist())]
        text = "the wrong elements are those of the fault {}, which would change others too"
        same = ("batch-0-of-indices", "indices-first-row-only")  # here, the first dimension of the indices is the batch
        assert any(text.format(name) in texts for name in same)


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
