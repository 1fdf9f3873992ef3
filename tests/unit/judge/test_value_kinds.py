"""Kinds of wrong values: in a mismatch in which every address is right, only the values differ."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fixed_answers import Fixed, gather, judge

from opmap.cases.variants import Check, Inputs
from opmap.engines.protocol import Placement
from opmap.judge.compare import value_kinds
from opmap.judge.record import Record
from opmap.known.final import Evidence, final
from opmap.tensors import DataType, Tensor
from opmap.vocabulary import Verdict

QUIET, SIGNALLING, DENORMAL, MINUS_ZERO, ONE = 0x7FC00000, 0x7F80002A, 1, 0x80000000, 0x3F800000


class TestKinds:
    """A mismatch in which every address is right says in which way the values are wrong."""

    def judge(self, bits, answer, *, indices=None, **options) -> Record:
        """Returns the record of a case on data with these bits, which gets an answer with these bits."""
        indices = tuple(range(len(bits))) if indices is None else indices
        case = gather(values=[0.0] * len(bits), indices=indices)
        data = Tensor(DataType.FLOAT32, (len(bits),), list(bits))
        case = dataclasses.replace(case, tensors={**case.tensors, "InputTensor": data})
        return judge([np.array(answer, "<u4").view("<f4")], case, **options)

    @pytest.mark.parametrize(
        ("bits", "answer", "kinds", "words"),
        [
            ((SIGNALLING, ONE), (SIGNALLING | 1 << 22, ONE), ["nan-payload"], "values only: NaN payload; 1 of 2"),
            ((SIGNALLING, QUIET, ONE), (QUIET, QUIET, ONE), ["nan-payload"], "NaN payload;"),
            ((SIGNALLING, ONE), (SIGNALLING | 1 << 31, ONE), ["nan-payload"], "NaN payload;"),
            ((DENORMAL, 0, ONE), (0, 0, ONE), ["denormals-as-zero"], "values only: denormals as zero;"),
            ((DENORMAL | 1 << 31, ONE), (MINUS_ZERO, ONE), ["denormals-as-zero"], "denormals as zero;"),
            ((MINUS_ZERO, ONE), (0, ONE), ["zero-sign"], "values only: sign of zero;"),
            (
                (SIGNALLING, DENORMAL, ONE),
                (QUIET, 0, ONE),
                ["nan-payload", "denormals-as-zero"],
                "NaN payload, denormals as zero;",
            ),
        ],
    )
    def test_values_only(self, bits, answer, kinds, words):
        """The verdict stays `mismatch`; the record has the kinds, and the message has them in words."""
        record = self.judge(bits, answer)

        assert ("mismatch", kinds) == (record.verdict, record.kinds)
        assert words in record.message

    @pytest.mark.parametrize(
        ("bits", "answer"),
        [
            pytest.param((SIGNALLING, ONE, 0), (QUIET, 0, 0), id="an element beside is wrong"),
            pytest.param((SIGNALLING, ONE), (ONE, ONE), id="a number in place of a NaN"),
            pytest.param((ONE, SIGNALLING), (QUIET, SIGNALLING), id="a NaN in place of a number"),
            pytest.param((DENORMAL, 2, 0), (2, 2, 0), id="another denormal"),
            pytest.param((DENORMAL, 2, 0), (0, 2, 0), id="only some denormals"),
            pytest.param((SIGNALLING, QUIET | 7), (QUIET | 7, QUIET | 7), id="another NaN of the input"),
            pytest.param((ONE, 0), (0, 0), id="zero in place of a number"),
            pytest.param((DENORMAL, 2, 0), (0, 0, 0), id="every element is the same zero"),
            pytest.param((MINUS_ZERO, 0), (0, 0), id="another zero"),
        ],
    )
    def test_not_certain(self, bits, answer):
        """Values that may come from another address are of no kind."""
        record = self.judge(bits, answer)

        assert ("mismatch", None) == (record.verdict, record.kinds)
        assert "values only" not in record.message

    @pytest.mark.parametrize(
        ("data_type", "infinity"), [(DataType.FLOAT16, 0x7C00), (DataType.FLOAT64, 0x7FF0000000000000)]
    )
    def test_widths(self, data_type, infinity):
        """Each type of floats has its own NaNs and denormals; an infinity is no NaN."""
        case = gather(values=(0.0, 0.0, 0.0), indices=(0, 1, 2), data_type=data_type)

        def kinds(bits, answer):
            data = Tensor(data_type, (3,), bits)
            inputs = Inputs(case.desc, {**case.tensors, "InputTensor": data})
            return value_kinds(
                [Check("", inputs, "OutputTensor", inputs.expected, dataclasses.replace(data, bits=answer))]
            )

        assert ("nan-payload", "denormals-as-zero") == kinds([infinity + 1, 3, infinity], [infinity + 9, 0, infinity])
        assert () == kinds([infinity + 1, 3, infinity], [infinity, 3, infinity])

    def test_not_by_value(self):
        """The same NaN that comes back in two ways was not changed by what it is."""
        record = self.judge((SIGNALLING, ONE), (SIGNALLING, SIGNALLING | 1 << 22), indices=(0, 0))

        assert ("mismatch", None) == (record.verdict, record.kinds)

    def test_nothing_else_is_wrong(self):
        """A case that would be a fallback with the right values is of no kind: a known kind must not hide that."""

        class Elsewhere(Fixed):
            def placement(self):
                return Placement("asserted", (("Gather", "Elsewhere"),))

        answer = Elsewhere([np.array([QUIET | 0x2A], "<u4").view("<f4")])
        record = self.judge((SIGNALLING,), (), provider=answer)

        assert ("mismatch", None) == (record.verdict, record.kinds)

    def test_other_runs(self):
        """A walk whose second run read from a wrong address is of no kind, although its first run is."""
        inputs = gather(values=("NaN", 1.0), indices=(0, 1)).inputs
        nan = dataclasses.replace(inputs.tensors["InputTensor"], bits=[SIGNALLING, ONE])
        inputs = Inputs(inputs.desc, {**inputs.tensors, "InputTensor": nan})
        right, quiet, wrong = (SIGNALLING, ONE), (QUIET | 0x2A, ONE), (ONE, ONE)

        def check(bits) -> Check:
            return Check("", inputs, "OutputTensor", inputs.expected, Tensor(DataType.FLOAT32, (2,), bits))

        assert ("nan-payload",) == value_kinds([check(right), check(quiet)])
        assert () == value_kinds([check(right), check(quiet), check(wrong)])
        assert () == value_kinds([check(quiet), Check("", inputs, "OutputTensor", inputs.expected, None, "a size")])

    def test_repeated(self):
        """A case with different results is of no kind."""
        records = [
            Record(case="x", verdict=Verdict.MISMATCH, message=text, kinds=["nan-payload"]) for text in ("a", "b")
        ]

        assert None is final(Evidence(records)).kinds
