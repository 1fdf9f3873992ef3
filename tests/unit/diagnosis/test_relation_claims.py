"""No relation is claimed for a wrong output that has another one, or none."""

import numpy as np
import pytest
from planted_outputs import SHAPES, changed, found, made, right_of

from opmap.cases.catalogue import generated
from opmap.descriptors import complete_sizes
from opmap.diagnosis.relations import relations, reveals_addresses
from opmap.faults import FAULTS
from opmap.faults.case_arrays import CaseArrays
from opmap.operators import OPERATORS
from opmap.tensors import DataType

CORRUPTED = [
    made(operator, data_type, pattern=pattern)
    for operator in SHAPES
    for data_type in (DataType.FLOAT32, DataType.UINT16, DataType.INT64)
    for pattern in ("random", "dups", "asc")
]


class TestFalseClaims:
    """A relation is not claimed for an output that has another one, or none."""

    @pytest.mark.parametrize("case", CORRUPTED, ids=lambda case: case.id)
    def test_noise(self, case):
        """Random bits have no relation."""
        generator = np.random.default_rng(len(case.id))
        right = right_of(case).reshape(-1)
        for count in (3, 11, 60, 120):
            noise = generator.integers(0, 256, count * right.itemsize, dtype=np.uint8).view(right.dtype)
            output = changed(right, part=generator.choice(120, count, replace=False), to=noise)
            relation = found(case, output)
            assert ("none", "no relation found", 0) == (relation.kind, relation.text, relation.explained)

    @pytest.mark.parametrize("case", CORRUPTED, ids=lambda case: case.id)
    def test_random_addresses(self, case):
        """Random elements of the input follow no rule, and nothing is said of them."""
        generator = np.random.default_rng(len(case.id))
        right, data = right_of(case).reshape(-1), CaseArrays(case).data
        for count in (3, 11, 60, 120):
            places = generator.choice(120, count, replace=False)
            relation = found(case, changed(right, part=places, to=generator.choice(data, count)))
            assert ("none", "no relation found", 0) == (relation.kind, relation.text, relation.explained)

    @pytest.mark.parametrize("case", CORRUPTED, ids=lambda case: case.id)
    def test_exact(self, case):
        """One more wrong element takes a rotation away."""
        output = np.roll(right_of(case).reshape(-1), 7)
        assert "shift" == found(case, output).kind
        output[40] ^= 1 << 5
        assert found(case, output).kind in ("address", "none", "missing")
        assert "rotated" not in found(case, output).text

    def test_few_values(self):
        """Data of few different bits names no address, and the text says so."""
        desc = complete_sizes(OPERATORS["GATHER"].descriptor, *SHAPES["GATHER"])
        case = generated(desc, "random", "special")
        assert not reveals_addresses(case)
        right = right_of(case).reshape(-1)
        generator = np.random.default_rng(2)
        output = changed(right, part=generator.choice(120, 30), to=generator.choice(CaseArrays(case).data, 30))
        relation = found(case, output)
        assert ("none", "no relation found, and the data does not reveal addresses") == (relation.kind, relation.text)

    def test_few_values_zero_in_part(self):
        """Many wrong elements are zero, which is an element of the input: they are not said to be lost."""
        desc = complete_sizes(OPERATORS["GATHER"].descriptor, *SHAPES["GATHER"])
        case = generated(desc, "random", "special")
        output = changed(right_of(case), part=slice(0, 80, 2), to=0)
        output[1:50:5] = np.roll(output[1:50:5], 3)
        relation = found(case, output)
        assert ("none", 0) == (relation.kind, relation.explained)

    def test_one_change_of_values(self):
        """One change of 8 bits, in two equal elements, is no rule of values."""
        case = made("GATHER", DataType.UINT8, pattern="dups")
        right = right_of(case).reshape(-1)
        value = next(v for v in right.tolist() if (right == v).sum() == 2 and (right == v ^ 0x80).sum() < 2)
        output = np.where(right == value, right ^ 0x80, right)
        assert "values" not in [relation.kind for relation in relations(case, output.tolist())]

    def test_one_small_element(self):
        """One element of 8 bits says too little, unless it is the last one."""
        case = made("GATHER", DataType.UINT8)
        right = right_of(case).reshape(-1)
        assert "none" == found(case, changed(right, part=53, to=right[52])).kind
        assert "repeat" == found(case, changed(right, part=-1, to=right[-2])).kind

    @pytest.mark.parametrize("seed", range(12))
    def test_two_values(self, seed):
        """Where the output has two different elements, a wrong one is the other: no rule is claimed."""
        inputs = {"InputTensor": (11,), "IndicesTensor": (60,)}
        case = made("GATHER", sizes=inputs, numbers={"Axis": 0}, pattern="bounds")
        right, generator = right_of(case), np.random.default_rng(seed)
        assert 2 == len(set(right.tolist()))
        zeros, ones = np.flatnonzero(right == right[0]), np.flatnonzero(right != right[0])
        output = right.copy()
        output[generator.choice(zeros, 3, replace=False)] = right[ones[0]]
        output[generator.choice(ones, 3, replace=False)] = right[0]
        relation = found(case, output)
        assert "the output has the right elements in another order" == relation.text or "none" == relation.kind

    @pytest.mark.parametrize("seed", range(12))
    def test_few_addresses(self, seed):
        """Two elements of a small input, by chance, follow no rule of addresses."""
        inputs = {"InputTensor": (8,), "IndicesTensor": (60,)}
        case = made("GATHER", sizes=inputs, numbers={"Axis": 0})
        generator = np.random.default_rng(seed)
        places = generator.choice(range(10, 50, 3), 2, replace=False)
        shifts = generator.choice([2, 3, 5], 2)
        positions = np.array(case.desc.origins(case.tensors))
        positions[places] = (positions[places] + shifts) % 8
        relation = found(case, CaseArrays(case).data[positions])
        assert ("none", 2) == (relation.kind, relation.wrong)

    @pytest.mark.parametrize("special", ["nan", "denormal"])
    def test_value_kinds(self, special):
        """Altered NaNs and denormals together are values, and no addresses."""
        desc = complete_sizes(OPERATORS["GATHER"].descriptor, *SHAPES["GATHER"])
        case = generated(desc, "random", "special")
        arrays = CaseArrays(case)
        output = FAULTS["nan-payload-lost"].bits(arrays)
        if special == "denormal":
            output = FAULTS["denormals-flushed"].value(output, DataType.FLOAT32)
        relation = found(case, output)
        assert relation.explained == relation.wrong
        if special == "nan":
            assert "nan-payload-lost" in (relation.fault, *relation.ties)
        else:
            assert ("values", "the values are altered: NaN payload, denormals as zero") == (
                relation.kind,
                relation.text,
            )
