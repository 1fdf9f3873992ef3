"""Two operators from outside the package run through all shared machinery: the contract assumes nothing that they lack.

SCATTER copies a tensor and then writes elements, and has two tensors of data. GRID has two index tensors and no numbers.
"""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from outside import grid, scatter

from opmap import register_operator, strategies, unregister_operator
from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue, example_descriptor
from opmap.cases.covering_arrays import arrays
from opmap.cases.parameters import cases_of, classify
from opmap.cases.random_cases import random_descriptors
from opmap.coverage.covered import measure
from opmap.errors import InputError, MappingError
from opmap.execution.protocol import Placement
from opmap.execution.providers import OpenProvider
from opmap.faults import open_fault
from opmap.faults.score import score
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS
from opmap.pseudocode import naive
from opmap.tensors import DataType, Tensor
from opmap.verdicts.judge import Judge

HERE = Path(__file__).parent / "outside"
OUTSIDE = {"SCATTER": scatter.OPERATOR, "GRID": grid.OPERATOR}


@pytest.fixture(scope="module", autouse=True)
def registered():
    """Both operators, registered for this module's tests only."""
    for name, operator in OUTSIDE.items():
        files = {kind: HERE / f"{name.lower()}.{end}" for kind, end in (("spec", "toml"), ("arrays", "json"))}
        register_operator(operator, **files)
    yield
    for name in OUTSIDE:
        unregister_operator(name)


@cache
def cases(tier: str, operator: str) -> list[Case]:
    """The operator's cases of a tier."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opmap.cases.catalogue.OPERATORS", {operator: OPERATORS[operator]})
        return list(catalogue(tier))


NOT_CONCERNED = {
    "SCATTER": """
        index-scalar-as-zero tuple-reversed tuple-last-coordinate-dropped tuple-first-coordinate-repeated tuple-planar
        axis-modulo-4 leading-order-reversed rank-above-4-leading-ignored rank-above-4-trailing-ignored rank-above-4-zero
        rank-8-first-ignored denormals-flushed-float16 denormals-flushed-float64 float16-through-float32
        float64-through-float32 int64-through-float64 int32-through-float32 int16-through-float16 sign-bit-lost-16
        word-low-half-only word-64-cut word-64-extended word-64-halves-swapped words-16-swapped
    """,
    "GRID": """
        index-scalar-as-zero index-axis-of-one-unwrapped indices-transposed indices-first-row-only tuple-reversed
        tuple-last-coordinate-dropped tuple-first-coordinate-repeated tuple-planar leading-block-ignored
        leading-order-reversed trailing-block-ignored trailing-order-reversed batch-0-of-data batch-0-of-indices
        batch-ignored batch-order-reversed rank-above-4-leading-ignored rank-8-first-ignored denormals-flushed-float16
        denormals-flushed-float64 float16-through-float32 float64-through-float32 int64-through-float64
        int32-through-float32 unsigned-saturated sign-bit-lost-8 word-64-cut word-64-extended word-64-halves-swapped
        words-8-swapped
    """,
}
"""The faults of `smoke` that change nothing for an operator: it has no tuples, no batches, fewer dimensions, fewer types."""


class Right:
    """A provider from outside that is given cases: each operator computed in NumPy, from what its page says."""

    def run(self, model_bytes, feeds):
        """Not used: these operators have no model."""
        raise NotImplementedError

    def placement(self):
        """Asserted, as that of every provider that is not ONNX Runtime."""
        return Placement("asserted", (("case", "right"),))

    def run_case(self, case):
        """The output as one array."""
        arrays = {}
        for name, tensor in case.tensors.items():
            values = np.frombuffer(tensor.to_bytes(), tensor.data_type.name.lower()).reshape(tensor.sizes)
            arrays[name] = values
        return [getattr(self, case.desc.operator)(case.desc, *arrays.values())]

    def SCATTER(self, desc, data, indices, updates):
        """ONNX's ScatterElements, which NumPy calls put_along_axis."""
        output = data.copy()
        np.put_along_axis(output, indices.astype(np.int64), updates, desc.axis)
        return output

    def GRID(self, desc, data, rows, columns):
        """Rows, then columns."""
        return data[..., rows.reshape(-1), :][..., columns.reshape(-1)]


class Swapped(Right):
    """Rows and columns are confused."""

    def GRID(self, desc, data, rows, columns):
        height, width = data.shape[-2:]
        return super().GRID(desc, data, columns % height, rows % width).reshape(desc.output.sizes)


class ForgetsTheCopy(Right):
    """Elements that no update writes stay zero."""

    def SCATTER(self, desc, data, indices, updates):
        return super().SCATTER(desc, np.zeros_like(data), indices, updates)


def judge(provider) -> Judge:
    """A judge on a provider that is given cases."""
    return Judge(OpenProvider("right", None, None, provider))


class TestRegistration:
    """Operators, specs and arrays from outside the package."""

    def test_are_there(self):
        """After the shipped operators."""
        assert [*OUTSIDE] == [*OPERATORS][-2:]

    def test_a_name_twice(self):
        """An operator that is registered already is refused."""
        with pytest.raises(ValueError, match="SCATTER is an operator already"):
            register_operator(scatter.OPERATOR, spec=HERE / "scatter.toml")

    def test_the_spec_of_another(self):
        """The spec must name the operator."""
        unregister_operator("GRID")
        try:
            with pytest.raises(ValueError, match="the spec must be that of GRID, got SCATTER"):
                register_operator(grid.OPERATOR, spec=HERE / "scatter.toml")
        finally:
            register_operator(grid.OPERATOR, spec=HERE / "grid.toml", arrays=HERE / "grid.json")

    @pytest.mark.parametrize("files", [{"spec": "grid.json"}, {"spec": "grid.toml", "arrays": "grid.toml"}])
    def test_a_bad_file(self, files):
        """Is named in one line, and nothing is registered."""
        unregister_operator("GRID")
        try:
            with pytest.raises(InputError, match="grid"):
                register_operator(grid.OPERATOR, **{kind: HERE / name for kind, name in files.items()})
            assert "GRID" not in OPERATORS
        finally:
            register_operator(grid.OPERATOR, spec=HERE / "grid.toml", arrays=HERE / "grid.json")

    def test_without_arrays(self):
        """The catalogue has the examples and the random descriptors; the coverage says what is missing."""
        unregister_operator("GRID")
        try:
            register_operator(grid.OPERATOR, spec=HERE / "grid.toml")
            own = [case for case in catalogue("standard") if case.desc.operator == "GRID"]
            assert len(own) > 50
            assert "covering arrays" in measure(own)["GRID"].missing(strength=2)
        finally:
            unregister_operator("GRID")
            register_operator(grid.OPERATOR, spec=HERE / "grid.toml", arrays=HERE / "grid.json")


class TestInterpreter:
    """The compiled access map, the naive evaluator and the documentation's examples agree."""

    @pytest.mark.parametrize(("operator", "example"), [("SCATTER", "1"), ("GRID", "1"), ("GRID", "2")])
    def test_examples(self, operator, example):
        """The printed output."""
        desc, tensors = example_descriptor(OPERATORS[operator].descriptor.spec(), example)
        output = tensors.pop("OutputTensor")
        assert list(output.bits) == list(desc.interpret(tensors))

    @given(st.deferred(lambda: strategies.cases(operators=[*OUTSIDE], dimension_counts=(2, 3), max_elements=48)))
    def test_agrees_with_the_naive_evaluator(self, case):
        """Element by element: the same tensor and address, or no documented value in both."""
        desc, starts, start = case.desc, {}, 0
        for name in desc.access.sources:
            starts[name], start = start, start + int(np.prod(desc.pseudocode_sizes[name]))
        origins = naive.evaluate(desc.statements, desc.pseudocode_sizes, desc.pseudocode_tensors(case.tensors))
        expected = [None if origin is None else starts[origin[0]] + origin[1] for origin in origins]
        assert expected == list(desc.origins(case.tensors))

    @pytest.mark.parametrize(
        ("indices", "expected", "text"),
        [
            ([1, -3], [8, 1, 7], "output[indices[0] = 1] = updates[0]"),
            ([1, 1], [0, None, 2], "two writes to one element have no documented order"),
            ([1, 3], [None, None, None], "a write out of range has no documented target"),
        ],
    )
    def test_writes(self, indices, expected, text):
        """A written element, two writes to one element, a write out of range."""
        desc = scatter.complete_sizes(scatter.Desc, *scatter.outline((3,), 0, 2), data_type=DataType.UINT8)
        tensors = {
            "InputTensor": Tensor.from_values(DataType.UINT8, (3,), [0, 1, 2]),
            "IndicesTensor": Tensor.from_values(DataType.INT64, (2,), indices),
            "UpdatesTensor": Tensor.from_values(DataType.UINT8, (2,), [7, 8]),
        }
        if indices == [1, -3]:
            expected = [8, 7, 2]
        assert expected == list(desc.interpret(tensors))
        assert text.replace("indices", "index") in desc.trace((1,), tensors).text

    def test_a_copied_element(self):
        """Is explained by the copy."""
        desc, tensors = example_descriptor(OPERATORS["SCATTER"].descriptor.spec(), "1")
        assert "output[1, 0] = input[1, 0]" == desc.trace((1, 0), tensors).text


class TestCatalogue:
    """Cases and coverage."""

    @pytest.mark.parametrize("operator", OUTSIDE)
    def test_covers(self, operator):
        """`smoke` every class, `standard` every possible pair, rule, example and field."""
        for tier, strength in (("smoke", 1), ("standard", 2)):
            covered = measure(cases(tier, operator))[operator]
            assert [] == [what for what in covered.missing(strength=strength) if not what.startswith("output_elements")]

    @pytest.mark.parametrize("operator", OUTSIDE)
    def test_rows_are_built_as_chosen(self, operator):
        """A row gives cases that are measured to have its classes."""
        kept = arrays(operator)
        for choice in kept.choices(kept.pairs):
            for case in cases_of(OPERATORS[operator], choice):
                assert choice == classify(case)

    def test_random_descriptors(self):
        """Are valid, and of both operators."""
        descs = list(random_descriptors(200, seed=3))
        assert {*OUTSIDE} < {desc.operator for desc in descs}
        assert not any(desc.violations() for desc in descs)

    @pytest.mark.parametrize("operator", OUTSIDE)
    def test_ids(self, operator):
        """Every id names one case, and is found without the others being built."""
        own = cases("standard", operator)
        assert len(own) == len({case.id.lower() for case in own})
        for case in own[::50]:
            assert [case.id] == [c.id for c in catalogue("standard", [case.id])]

    def test_two_tensors_of_data_differ(self):
        """No element of the updates has the value of an element of the input."""
        case = max(cases("smoke", "SCATTER"), key=lambda c: (c.data_pattern == "addr", c.desc.data_tensors() and 1))
        assert "addr" == case.data_pattern
        data, updates = (case.tensors[name].bits for name in ("InputTensor", "UpdatesTensor"))
        assert not {*data} & {*updates} or len(data) + len(updates) > 256


class TestVerdicts:
    """The judge and the fault score."""

    @pytest.mark.parametrize("operator", OUTSIDE)
    def test_a_right_provider(self, operator):
        """Everything that the page documents is right."""
        verdicts = {judge(Right())(case).verdict for case in cases("smoke", operator)}
        assert {"pass"} <= verdicts <= {"pass", "observed"}

    @pytest.mark.parametrize(("provider", "operator"), [(Swapped(), "GRID"), (ForgetsTheCopy(), "SCATTER")])
    def test_a_wrong_provider(self, provider, operator):
        """Is a mismatch, and the first wrong element is explained."""
        records = [judge(provider)(case) for case in cases("smoke", operator)]
        wrong = [record for record in records if record.verdict == "mismatch"]
        assert len(wrong) > 10
        assert all("elements differ: output[" in record.message for record in wrong)

    def test_models_only(self):
        """A provider that runs models only cannot be given the case: counted, and not red."""

        class Models:
            def run(self, model_bytes, feeds):
                raise AssertionError("there is no model")

        record = judge(Models())(cases("smoke", "GRID")[0])
        assert ("not-expressible", "map", True) == (record.verdict, record.stage, record.good)
        with pytest.raises(MappingError, match="DML_OPERATOR_GRID has no ONNX operator"):
            map_descriptor(next(OPERATORS["GRID"].samples()))

    @pytest.mark.parametrize("operator", OUTSIDE)
    def test_the_control_passes(self, operator):
        """The fault provider without a fault."""
        right = Judge(open_fault("none"))
        assert {right(case).verdict for case in cases("smoke", operator)} <= {"pass", "observed"}

    @pytest.mark.parametrize("operator", OUTSIDE)
    def test_faults_are_caught(self, operator):
        """All that concern the operator; none that is equivalent."""
        scores = score(cases("smoke", operator))
        assert {*NOT_CONCERNED[operator].split()} == {s.name for s in scores if s.due("smoke") and not s.caught_by}
        assert not [s.name for s in scores if s.fault.equivalent and s.caught_by]

    def test_faults_change_the_written_element(self):
        """An index that is off by one writes the next element."""
        desc, tensors = example_descriptor(OPERATORS["SCATTER"].descriptor.spec(), "1")
        del tensors["OutputTensor"]
        case = Case("it", desc, tensors)
        (output,) = open_fault("index-off-by-one").run_case(case)
        assert [[7, 2], [3, 8], [5, 6]] == output.tolist()


def test_shared_machinery_names_no_operator():
    """No file outside the operators' own rooms names one of the family that they belong to."""
    package = Path(__import__("opmap").__file__).parent
    rooms = {"operators", "spec", "faults", "manual"}
    named = [
        path.relative_to(package).as_posix()
        for path in itertools.chain(package.rglob("*.py"), package.rglob("*.lark"))
        if path.relative_to(package).parts[0] not in rooms and "gather" in path.read_text(encoding="utf-8").lower()
    ]
    assert [] == named
