"""Planted faults: the catalogue catches every one that differs from the right answer, and passes what is right.

A fault that is not caught is a hole in the catalogue; a right provider that does not pass is an error of the suite.
"""

import hashlib
import itertools
import json
from functools import cache

import numpy as np
import pytest

from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue, large
from opmap.cli import main
from opmap.descriptors import TensorDesc, complete
from opmap.errors import InputError
from opmap.faults import FAULTS, FaultProvider, open_fault
from opmap.faults.score import score
from opmap.faults.work import CaseArrays
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor
from opmap.verdicts.judge import Judge

REAL = [name for name, fault in FAULTS.items() if fault.tier in ("smoke", "standard")]
HUGE = [name for name, fault in FAULTS.items() if fault.tier == "full"]
EQUIVALENT = [name for name, fault in FAULTS.items() if fault.equivalent]


def gather(
    values=(11, 12, 13, 14), indices=(3, 1, 3, 0, 2), data_type=DataType.FLOAT32, index_type=DataType.INT64, k=1
):
    """A case of GATHER along the only axis."""
    inputs = {
        "InputTensor": TensorDesc(data_type, (len(values),)),
        "IndicesTensor": TensorDesc(index_type, (len(indices),)),
    }
    desc = complete(OPERATORS["GATHER"].descriptor, inputs, {"Axis": 0, "IndexDimensions": k})
    tensors = {
        "InputTensor": Tensor.from_values(data_type, (len(values),), values),
        "IndicesTensor": Tensor.from_values(index_type, (len(indices),), indices),
    }
    return Case("case", desc, tensors)


def square(axis):
    """A case of GATHER whose sizes say nothing about the axis."""
    inputs = {
        "InputTensor": TensorDesc(DataType.INT32, (2, 2)),
        "IndicesTensor": TensorDesc(DataType.INT32, (1, 2)),
    }
    desc = complete(OPERATORS["GATHER"].descriptor, inputs, {"Axis": axis, "IndexDimensions": 1})
    tensors = {
        "InputTensor": Tensor(DataType.INT32, (2, 2), (1, 2, 3, 4)),
        "IndicesTensor": Tensor(DataType.INT32, (1, 2), (1, 0)),
    }
    return Case(f"axis{axis}", desc, tensors)


def columns(rows, length):
    """A case of GATHER_ELEMENTS whose axes are short, and whose last element is read alone."""
    inputs = {
        "InputTensor": TensorDesc(DataType.UINT32, (length, rows)),
        "IndicesTensor": TensorDesc(DataType.INT64, (length, 1)),
    }
    desc = complete(OPERATORS["GATHER_ELEMENTS"].descriptor, inputs, {"Axis": 1})
    tensors = {
        "InputTensor": Tensor.from_values(DataType.UINT32, (length, rows), range(length * rows)),
        "IndicesTensor": Tensor.from_values(DataType.INT64, (length, 1), [rows - 1] * length),
    }
    return Case("columns", desc, tensors)


def long(count, *indices, data_type=DataType.UINT32):
    """A case with a long axis."""
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
"""Cases that show what needs more than most do."""


@cache
def catalogue_of(tier):
    """The cases of a tier."""
    return list(catalogue(tier))


@cache
def scores(tier):
    """The scores of a tier by name."""
    return {s.name: s for s in score(catalogue_of(tier))}


class TestFaults:
    """Every one is caught, and what is right passes."""

    def test_there_are_enough(self):
        """Forty or more that differ from the right answer."""
        assert 40 <= len(REAL)
        assert all(fault.text for fault in FAULTS.values())

    @pytest.mark.parametrize("name", [n for n in REAL if FAULTS[n].tier == "smoke"])
    def test_smoke_catches_what_a_small_tensor_shows(self, name):
        """In one run; and the judge says mismatch of the case that does."""
        found = scores("smoke")[name]
        assert found.caught_by
        case = next(c for c in catalogue_of("smoke") if c.id == found.caught_by[0])
        assert "mismatch" == Judge(open_fault(name), brief=True)(case).verdict

    @pytest.mark.parametrize("name", REAL)
    def test_standard_catches(self, name):
        """Whatever can be caught."""
        assert scores("standard")[name].caught_by

    @pytest.mark.parametrize("name", EQUIVALENT)
    @pytest.mark.parametrize("tier", ["smoke", "standard"])
    def test_what_differs_in_nothing_is_not_caught(self, name, tier):
        """The control, and the faults that no valid input shows."""
        assert () == scores(tier)[name].caught_by

    def test_the_control_passes_everything(self):
        """By the judge's word too."""
        judge = Judge(open_fault("none"), brief=True)
        assert {"pass"} == {judge(case).verdict for case in catalogue_of("smoke")}

    @pytest.mark.parametrize("name", SHOWN_BY)
    def test_is_shown_by_the_case_that_it_needs(self, name):
        """So it is the catalogue that lacks it where it is not caught."""
        judge = Judge(open_fault(name))
        verdicts = [judge(case).verdict for case in SHOWN_BY[name]]
        assert [*["pass"] * (len(verdicts) - 1), "mismatch"] == verdicts

    @pytest.mark.parametrize("name", EQUIVALENT)
    def test_is_not_shown_by_any_of_these(self, name):
        """Long axes show nothing of what differs in nothing."""
        judge = Judge(open_fault(name))
        assert {"pass"} == {judge(case).verdict for cases in SHOWN_BY.values() for case in cases}

    def test_huge_tensors_are_left_to_full(self):
        """`standard` has none; of the large cases of one operator each fault is caught by those that are large enough."""
        assert not [name for name in HUGE if scores("standard")[name].caught_by]
        cases = list(large(OPERATORS["GATHER"]))
        elements = {c.id: c.desc.output.element_count for c in cases}
        found = {s.name: [elements[id] for id in s.caught_by] for s in score(cases) if s.caught_by}
        assert {
            "dispatch-65535-groups": [65535 * 256 + 1, 2**27 - 1, 2**27 + 1],
            "typed-buffer-limit": [2**27 + 1],
            "index-through-float32": [255],
        } == found

    def test_no_two_are_the_same(self):
        """Their outputs differ somewhere."""
        cases = [*catalogue_of("smoke"), *itertools.chain(*SHOWN_BY.values())]
        cases_arrays = [CaseArrays(case) for case in cases]
        seen = {}
        for name in ("none", *REAL):
            provider, digest = FaultProvider(FAULTS[name]), hashlib.sha256()
            for arrays in cases_arrays:
                for output in provider.run_arrays(arrays):
                    digest.update(f"{output.dtype}{output.shape}".encode() + output.tobytes())
            assert name == seen.setdefault(digest.hexdigest(), name)

    def test_unknown_ones_are_refused_by_name(self):
        """The error suggests similar names."""
        with pytest.raises(InputError, match="must name one of the .* planted faults, got 'nothing'"):
            open_fault("nothing")


class TestWhatTheyDo:
    """Rows by hand."""

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
        """GATHER along the only axis."""
        (output,) = open_fault(name).provider.run_case(gather(values, indices))
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
        """Other types are left alone."""
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
        """By width."""
        data_type = DataType[data_type]
        assert expected == moved(name, data_type, Tensor.from_values(data_type, (4,), values).bits).tolist()

    def test_partial_words(self):
        """Three bytes and the two halves of a word are lost, whole words are not."""
        for count, data_type, expected in ((7, "UINT8", 4), (3, "INT16", 2), (4, "INT16", 4), (3, "INT32", 3)):
            case = gather([1] * count, range(count), DataType[data_type])
            (output,) = open_fault("partial-word-lost").provider.run_case(case)
            assert [1] * expected + [0] * (count - expected) == output.tolist()

    def test_to_huge_tensors(self):
        """The function itself, at its limit."""
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
        """One provider is one session."""
        provider = open_fault(name).provider
        assert expected == [provider.run_case(gather([i, 0], (0, 0)))[0].tolist() for i in (1, 2, 3, 4)]

    def test_is_forgotten_with_the_session(self):
        """The next provider begins anew."""
        for _ in range(2):
            (output,) = open_fault("kept-output").provider.run_case(gather())
            assert [14, 12, 14, 11, 13] == output.tolist()


def moved(name, data_type, bits):
    """Four elements of a type, gathered in their order."""
    case = gather(indices=(0, 1, 2, 3))
    desc = case.desc.replace(input_tensor=TensorDesc(data_type, (4,)), output_tensor=TensorDesc(data_type, (4,)))
    tensors = {**case.tensors, "InputTensor": Tensor(data_type, (4,), bits)}
    (output,) = open_fault(name).provider.run_case(Case("it", desc, tensors))
    return output


class TestAccess:
    """The address computation that faults change."""

    def test_is_the_interpreters(self):
        """Address by address, for every case of smoke."""
        for case in catalogue_of("smoke"):
            work = Work(case)
            indices = {name: i.rows.reshape(-1) for name, i in work.indices.items()}
            assert list(case.desc.origins(case.tensors)) == addresses(work.access, indices).tolist()

    def test_batches_are_what_both_sides_count(self):
        """Of the operators here, GATHER has none."""
        desc = next(c.desc for c in catalogue_of("smoke") if c.id == "gather_nd1/example.1")
        assert set(range(desc.batch_dimension_count)) == desc.access.moves[-1].indexed_side.shared_loops
        assert not any(
            c.desc.access.moves[-1].indexed_side.shared_loops
            for c in catalogue_of("smoke")
            if c.desc.operator == "GATHER"
        )


class TestCommand:
    """`opmap faults`."""

    def test_prints_the_score(self, capsys):
        """A line per fault with the first case, what was missed, and what one case alone catches."""
        code = main(["faults"])
        out = capsys.readouterr().out
        assert 0 == code
        lines = {line.split()[0]: line.split()[1:] for line in out.splitlines()[: len(FAULTS)]}
        assert list(FAULTS) == list(lines)
        assert [str(len(catalogue_of("smoke"))), catalogue_of("smoke")[0].id] == lines["output-zero"]
        assert ["1", catalogue_of("smoke")[0].id, "alone"] == lines["run-first-wrong"]
        assert f"{catalogue_of('smoke')[0].id} alone catches run-first-wrong" in out
        caught = sum(bool(s.caught_by) for s in scores("smoke").values())
        assert (
            f"{caught} of {len(REAL) + len(HUGE)} faults caught by the {len(catalogue_of('smoke'))} cases of smoke"
            in out
        )

    def test_as_json(self, capsysbinary, monkeypatch):
        """The cases that catch each are places in the list of cases."""
        monkeypatch.setattr("opmap.faults.score.score", lambda cases, advance: list(scores("smoke").values()))
        main(["faults", "--tier", "smoke", "--json"])
        document = json.loads(capsysbinary.readouterr().out)
        assert ("opmap-faults/1", "smoke") == (document["schema"], document["tier"])
        assert [case.id for case in catalogue_of("smoke")] == document["cases"]
        for told in document["faults"]:
            found = scores("smoke")[told["name"]]
            assert found.caught_by == tuple(document["cases"][i] for i in told["caught_by"])
            assert len(found.caught_by) == told["caught"]

    def test_what_is_not_caught_is_red(self, capsys, monkeypatch):
        """And so is an equivalent one that is."""
        monkeypatch.setattr("opmap.cases.selection.catalogue", lambda tier: [gather((1, 2), (0, 1))])
        assert 1 == main(["faults"])
        out = capsys.readouterr().out
        assert "negative-index-as-zero                    0  NOT CAUGHT" in out
        assert "wrong: negative-index-as-zero, " in out
