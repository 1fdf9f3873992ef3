"""Wrong outputs that are planted into small cases: moved, repeated, lost and altered elements, and other addresses."""

import numpy as np

from opmap.cases.catalogue import generated
from opmap.descriptors import complete_sizes
from opmap.diagnosis.relation import RELATION_KINDS
from opmap.diagnosis.relations import relations, reveals_addresses
from opmap.faults.case_arrays import CaseArrays
from opmap.operators import OPERATORS
from opmap.tensors import DataType

ND = {"InputDimensionCount": 3, "IndicesDimensionCount": 3}
SHAPES = {
    "GATHER": ({"InputTensor": (6, 7, 5), "IndicesTensor": (1, 1, 4)}, {"Axis": 1, "IndexDimensions": 1}),
    "GATHER_ELEMENTS": ({"InputTensor": (6, 7, 5), "IndicesTensor": (6, 4, 5)}, {"Axis": 1}),
    "GATHER_ND": ({"InputTensor": (7, 9, 5), "IndicesTensor": (6, 4, 2)}, ND),
    "GATHER_ND1": ({"InputTensor": (6, 9, 5), "IndicesTensor": (6, 4, 1)}, {**ND, "BatchDimensionCount": 1}),
}
"""Operator -> input sizes and numbers that give an output of 6 x 4 x 5 elements."""


def made(operator, data_type=DataType.FLOAT32, *, pattern="random", sizes=None, numbers=None, index=DataType.INT64):
    """Returns a case whose data reveals addresses."""
    own_sizes, own_numbers = SHAPES[operator]
    cls = OPERATORS[operator].descriptor
    desc = complete_sizes(
        cls, sizes or own_sizes, {**own_numbers, **(numbers or {})}, data_type=data_type, index_type=index
    )
    assert not desc.violations()
    case = generated(desc, pattern, "addr")
    assert reveals_addresses(case)
    return case


def right_of(case):
    """Returns the right output with its sizes."""
    return CaseArrays(case).right.reshape(case.desc.output.sizes)


def changed(output, **places):
    """Returns a copy with the elements of a flat slice replaced: `changed(x, part=slice, to=bits)`."""
    copy = output.reshape(-1).copy()
    copy[places["part"]] = places["to"]
    return copy


def found(case, output, **options):
    """Returns the relation of an output, and holds its counts against the differences."""
    output = np.ascontiguousarray(output).reshape(-1)
    relation = relations(case, output.tolist(), **options)[0]
    assert relation.wrong == (output != right_of(case).reshape(-1)).sum() > 0
    assert 0 <= relation.explained <= relation.wrong
    assert relation.kind in RELATION_KINDS
    return relation


def flat(change):
    """Changes the right output as a flat array."""
    return lambda case: change(right_of(case).reshape(-1))


def whole(change):
    """Changes the right output with its sizes."""
    return lambda case: change(right_of(case))


PLANTED = {
    "rotated": (flat(lambda x: np.roll(x, 1)), "shift", "the output is rotated by 1"),
    "rotated back": (flat(lambda x: np.roll(x, -3)), "shift", "the output is rotated by -3"),
    "rotated by rows": (flat(lambda x: np.roll(x, 10)), "shift", "the output is rotated by 10"),
    "rotated in rows": (whole(lambda x: np.roll(x, 1, 2)), "shift", "the output is rotated by 1 along dimension 2"),
    "rotated in batches": (whole(lambda x: np.roll(x, 1, 1)), "shift", "the output is rotated by 1 along dimension 1"),
    "flipped": (whole(lambda x: np.flip(x, 1)), "permutation", "the output is in reverse order along dimension 1"),
    "exchanged": (
        whole(lambda x: x.transpose(1, 0, 2)),
        "permutation",
        "the dimensions of the output are in the order [1, 0, 2]",
    ),
    "exchanged back": (
        flat(lambda x: x.reshape(4, 6, 5).transpose(1, 0, 2)),
        "permutation",
        "the dimensions of the output are in the order [1, 0, 2], as an output of the exchanged sizes",
    ),
    "column-major": (
        whole(lambda x: x.transpose()),
        "permutation",
        "the dimensions of the output are in the order [2, 1, 0]",
    ),
    "cycled": (
        whole(lambda x: x.transpose(1, 2, 0)),
        "permutation",
        "the dimensions of the output are in the order [1, 2, 0]",
    ),
    "in fours": (
        flat(lambda x: x.reshape(-1, 4)[:, ::-1]),
        "permutation",
        "the elements of each group of 4 are in reverse order",
    ),
    "first row": (
        whole(lambda x: 0 * x + x[:1, :1]),
        "repeat",
        "every position along dimension 0 to 1 is the first one",
    ),
    "last block": (whole(lambda x: 0 * x + x[-1:]), "repeat", "every position along dimension 0 is the last one"),
    "first of each block": (
        whole(lambda x: 0 * x + x[:, :1, :1]),
        "repeat",
        "every position along dimension 1 to 2 is the first one",
    ),
    "first of the middle": (
        whole(lambda x: 0 * x + x[:, :1]),
        "repeat",
        "every position along dimension 1 is the first one",
    ),
    "vectors": (
        flat(lambda x: np.repeat(x[::4], 4)),
        "repeat",
        "each group of 4 elements holds its first element only",
    ),
    "first group": (flat(lambda x: np.resize(x[:64], 120)), "repeat", "each group of 64 elements is a copy"),
    "constant": (whole(lambda x: 0 * x + x[1, 1, 1]), "repeat", "every element is the same element"),
    "last element": (
        flat(lambda x: changed(x, part=-1, to=x[-2])),
        "repeat",
        "the last element is a copy of the one before it",
    ),
    "head lost": (flat(lambda x: changed(x, part=slice(9), to=0)), "missing", "the elements up to number 8 are zero"),
    "tail lost": (
        flat(lambda x: changed(x, part=slice(-7, None), to=0)),
        "missing",
        "the elements from number 113 on are zero",
    ),
    "tail not written": (
        flat(lambda x: changed(x, part=slice(-7, None), to=0xA5A5A5A5)),
        "missing",
        "the elements from number 113 on are not written: each byte is 0xa5",
    ),
    "ends of rows lost": (
        whole(lambda x: np.where(np.arange(5) > 2, x.dtype.type(0), x)),
        "missing",
        "some elements are zero",
    ),
    "a block lost": (
        whole(lambda x: np.where(np.arange(6)[:, None, None] == 2, x.dtype.type(0), x)),
        "missing",
        "some elements are zero",
    ),
    "every third lost": (
        flat(lambda x: np.where(np.arange(120) % 3 == 1, x.dtype.type(0), x)),
        "missing",
        "some elements are zero",
    ),
    "not written": (flat(lambda x: 0 * x + 0xA5A5A5A5), "missing", "every element is not written: each byte is 0xa5"),
    "sign flipped": (flat(lambda x: x ^ 0x80000000), "values", "the bits 0x80000000 of the values are flipped"),
    "sign lost": (flat(lambda x: x & 0x7FFFFFFF), "values", "the bits 0x80000000 of the values are lost"),
    "bits flipped": (flat(lambda x: x ^ 0x1040), "values", "the bits 0x00001040 of the values are flipped"),
    "bits lost": (flat(lambda x: x & ~np.uint32(0x1F)), "values", "the bits 0x0000001f of the values are lost"),
}
"""Changes that no fault model makes on these cases: the wrong output, the kind, and a part of the text."""
