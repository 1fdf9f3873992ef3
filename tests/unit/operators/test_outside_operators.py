"""Two operators that are defined outside the package run through all shared machinery.

SPREAD is SCATTER under another name: it copies a tensor and then writes elements; it has two data tensors. GRID has two
index tensors and no numbers.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from adequacy.covered import TierCovered
from adequacy.score import score
from adequacy.shown import shown_classes
from choose_cases.__main__ import choose
from outside import grid, spread
from registered_operators import FOLDER, OUTSIDE, register, registered

from opmap import register_operator, unregister_operator
from opmap.cases.case import Case
from opmap.cases.catalogue import cases_of, catalogue, example_descriptor, small_scope
from opmap.cases.choice import choice_of
from opmap.cases.coverage.covered import measure
from opmap.cases.parameters import parameters
from opmap.cases.random_cases import random_descriptors
from opmap.engines.protocol import Placement
from opmap.engines.providers import Provider
from opmap.engines.third_party import ThirdPartyProvider
from opmap.errors import InputError, MappingError
from opmap.faults import open_fault
from opmap.judge.judge import Judge
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS


@pytest.fixture(scope="module", autouse=True)
def both_registered():
    """Registers both operators for the tests of this module."""
    with registered():
        yield


@pytest.fixture
def without_grid():
    """Unregisters GRID for one test; the test may register it in another way."""
    unregister_operator("GRID")
    yield
    if "GRID" in OPERATORS:
        unregister_operator("GRID")
    register("GRID")


@cache
def cases(tier: str, operator: str) -> list[Case]:
    """Returns the operator's cases of a tier."""
    return build_cases(tier, operator)


def build_cases(tier: str, operator: str) -> list[Case]:
    """Returns the operator's cases of a tier, built anew. No other operator is in the catalogue meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opmap.cases.catalogue.OPERATORS", {operator: OPERATORS[operator]})
        return list(catalogue(tier, variants=False))


NOT_CONCERNED = {
    "SPREAD": """
        index-scalar-as-zero tuple-reversed tuple-last-coordinate-dropped tuple-first-coordinate-repeated tuple-planar
        axis-modulo-4 rank-above-4-leading-ignored rank-above-4-trailing-ignored
        rank-above-4-zero rank-8-first-ignored denormals-flushed-float16 denormals-flushed-float64
        float16-through-float32 float64-through-float32 int64-through-float64 int32-through-float32
        int16-through-float16 sign-bit-lost-16 word-low-half-only word-64-cut word-64-extended word-64-halves-swapped
        words-16-swapped offset-ignored outputs-exchanged inputs-reversed
        index-modulo index-clamped limit-of-position constant-along-last strides-in-inverse-order strides-of-0-packed
        condition-at-equality condition-transposed condition-16-bits""",
    "GRID": """
        index-scalar-as-zero indices-transposed tuple-reversed
        tuple-last-coordinate-dropped tuple-first-coordinate-repeated tuple-planar leading-block-ignored
        leading-order-reversed trailing-block-ignored trailing-order-reversed batch-0-of-data batch-0-of-indices
        batch-ignored batch-order-reversed rank-above-4-leading-ignored rank-8-first-ignored denormals-flushed-float16
        denormals-flushed-float64 float16-through-float32 float64-through-float32 int64-through-float64
        int32-through-float32 unsigned-saturated sign-bit-lost-8 word-64-cut word-64-extended word-64-halves-swapped
        words-8-swapped offset-ignored outputs-exchanged inputs-reversed
        index-modulo index-clamped limit-of-position constant-along-last strides-in-inverse-order strides-of-0-packed
        condition-at-equality condition-transposed condition-16-bits
    """,
}
"""The faults of `smoke` that cannot change an operator, because it lacks index tuples, batches, dimensions, arrays,
types, conditions or a meaning of every index."""


class Right:
    """A third party's provider that runs cases: it computes each operator with NumPy, as its page says."""

    def run(self, model_bytes, feeds):
        """Is never called, because these operators have no model."""
        raise NotImplementedError

    def placement(self):
        """Returns an asserted placement, as every provider that is not ONNX Runtime."""
        return Placement("asserted", (("case", "right"),))

    calls = 0

    def run_case(self, case):
        """Returns a list of one output."""
        arrays = {}
        for name, tensor in case.tensors.items():
            values = np.frombuffer(tensor.to_bytes(), tensor.data_type.name.lower()).reshape(tensor.sizes)
            arrays[name] = values
        return [getattr(self, case.desc.operator)(case.desc, *arrays.values())]

    def SPREAD(self, desc, data, indices, updates):
        """Computes ScatterElements, which is NumPy's put_along_axis."""
        output = data.copy()
        np.put_along_axis(output, indices.astype(np.int64), updates, desc.axis)
        return output

    def GRID(self, desc, data, rows, columns):
        """Chooses rows, then columns."""
        return data[..., rows.reshape(-1), :][..., columns.reshape(-1)]


def judge(provider) -> Judge:
    """Returns a judge on a provider that runs cases."""
    return Judge(Provider("right", None, None, provider))


class TestRegistration:
    """`register_operator` and `unregister_operator`."""

    def test_operators_are_added(self):
        """They come after the shipped operators."""
        assert [*OUTSIDE] == [*OPERATORS][-2:]

    def test_a_name_twice(self):
        """A second operator of the same name is refused."""
        with pytest.raises(ValueError, match="SPREAD is an operator already"):
            register_operator(spread.OPERATOR, spec=FOLDER / "spread.toml")

    def test_the_spec_of_another(self, without_grid):
        """The spec must name the operator."""
        with pytest.raises(ValueError, match="the spec must be that of GRID, got SPREAD"):
            register_operator(grid.OPERATOR, spec=FOLDER / "spread.toml")

    @pytest.mark.parametrize("files", [{"spec": "grid.json"}, {"spec": "grid.toml", "choice": "grid.toml"}])
    def test_a_bad_file(self, files, without_grid):
        """The error names the file, and nothing is registered."""
        with pytest.raises(InputError, match="grid"):
            register_operator(grid.OPERATOR, **{kind: FOLDER / name for kind, name in files.items()})
        assert "GRID" not in OPERATORS

    @pytest.mark.parametrize(
        ("choice", "problem"), [("missing.json", "no such file"), (".", "must be a file, got a folder")]
    )
    def test_no_file_of_chosen_cases(self, choice, problem, without_grid, tmp_path):
        """The error names what stands in place of the file."""
        with pytest.raises(InputError, match=problem) as error:
            register_operator(grid.OPERATOR, spec=FOLDER / "grid.toml", choice=tmp_path / choice)
        assert str(tmp_path / choice) == error.value.file

    def test_chosen_cases_of_another(self, without_grid):
        """The chosen cases must be those of the operator: nothing is registered."""
        with pytest.raises(InputError, match=r"spread\.json: must fit the operator"):
            register_operator(grid.OPERATOR, spec=FOLDER / "grid.toml", choice=FOLDER / "spread.json")
        assert "GRID" not in OPERATORS

    def test_a_changed_case(self, without_grid, tmp_path):
        """The id of a case must follow from its descriptor and its values."""
        text = (FOLDER / "grid.json").read_text(encoding="utf-8")
        changed = tmp_path / "changed.json"
        changed.write_text(text.replace("/addr.", "/special.", 1), encoding="utf-8")
        with pytest.raises(InputError, match=r"changed\.json: case \d+: must be grid/.*, got 'grid/"):
            register_operator(grid.OPERATOR, spec=FOLDER / "grid.toml", choice=changed)

    def test_without_chosen_cases(self, without_grid):
        """The catalogue has the examples and random cases; the coverage reports that the arrays are missing."""
        register_operator(grid.OPERATOR, spec=FOLDER / "grid.toml")
        own_cases = build_cases("standard", "GRID")
        assert len(own_cases) > 50
        assert "covering arrays" in measure(own_cases, TierCovered)["GRID"].missing(strength=2)


class TestCatalogue:
    """Cases and coverage."""

    @pytest.mark.parametrize("operator", OUTSIDE)
    def test_covers(self, operator):
        """`smoke` covers every class, `standard` every possible pair, rule, example and field."""
        for tier, strength in (("smoke", 1), ("standard", 2)):
            covered = measure(cases(tier, operator), TierCovered)[operator]
            missing = covered.missing(strength=strength)
            assert [] == [entry for entry in missing if not entry.startswith("output_elements")]

    @pytest.mark.parametrize("operator", OUTSIDE)
    def test_rows_are_built_as_chosen(self, operator):
        """The cases of array rows have a class of each parameter."""
        module = OPERATORS[operator]
        for case in cases_of(module, "classes", "pairs"):
            classes = shown_classes(case)
            assert all(classes[name] in names for name, names in parameters(module).items())

    @pytest.mark.slow
    def test_the_tool_chooses_these_cases(self):
        """`tools/choose_cases` chooses what the file holds, from as many rows as it was chosen from."""
        assert choice_of("SPREAD") == choose(OPERATORS["SPREAD"], 4000, 0, (0, 0))

    def test_small_scope(self):
        """No descriptor has more dimensions than the operator, and each has an output."""
        scope = list(itertools.islice(small_scope(OPERATORS["SPREAD"]), 0, None, 50))
        assert {1, 2, 3} == {case.desc.output.dimension_count for case in scope}
        assert all(case.expected is not None for case in scope)

    def test_random_descriptors(self):
        """Random descriptors are valid and include both operators."""
        descs = list(random_descriptors(200, seed=3))
        assert {*OUTSIDE} < {desc.operator for desc in descs}
        assert not any(desc.violations() for desc in descs)

    @pytest.mark.parametrize("operator", OUTSIDE)
    def test_ids(self, operator):
        """No two cases have the same id, and a case can be selected by its id."""
        own_cases = cases("standard", operator)
        assert len(own_cases) == len({case.id.lower() for case in own_cases})
        for case in own_cases[::50]:
            assert [case.id] == [c.id for c in catalogue("standard", [case.id])]

    def test_two_tensors_of_data_differ(self):
        """With unique data, the updates and the input have no value in common, if the type has enough values."""
        pairs = []
        for case in cases("smoke", "SPREAD"):
            data, updates = case.tensors["InputTensor"], case.tensors["UpdatesTensor"]
            if case.data_pattern == "addr" and len(data.bits) + len(updates.bits) <= 256**data.data_type.size:
                pairs.append((data, updates))
        assert len(pairs) >= 10
        assert not any({*data.bits} & {*updates.bits} for data, updates in pairs)


class TestVerdicts:
    """The judge and the fault score."""

    @pytest.mark.parametrize("operator", OUTSIDE)
    def test_a_right_provider(self, operator):
        """Every case passes, or is observed if it has elements without a documented value."""
        verdicts = {judge(Right())(case).verdict for case in cases("smoke", operator)}
        assert {"pass"} <= verdicts <= {"pass", "observed"}

    def test_models_only(self):
        """A provider that runs only models cannot run these operators: the verdict is good and says so."""

        class Models:
            def run(self, model_bytes, feeds):
                raise AssertionError("there is no model")

        record = judge(ThirdPartyProvider(Models(), "models"))(cases("smoke", "GRID")[0])
        assert ("not-expressible", "map", True) == (record.verdict, record.stage, record.good)
        with pytest.raises(MappingError, match="DML_OPERATOR_GRID has no ONNX operator"):
            map_descriptor(next(OPERATORS["GRID"].samples()))

    @pytest.mark.parametrize("operator", OUTSIDE)
    def test_faults_are_caught(self, operator):
        """`smoke` catches every fault that is due and can change the operator. It catches no equivalent fault."""
        scores = score(cases("smoke", operator))
        assert {*NOT_CONCERNED[operator].split()} == {s.name for s in scores if s.due("smoke") and not s.caught_by}
        assert not [s.name for s in scores if s.fault.equivalent and s.caught_by]

    def test_faults_change_the_written_element(self):
        """In an operator that writes by indices, an index that is off by one writes the next element."""
        desc, tensors = example_descriptor(OPERATORS["SPREAD"].descriptor.spec(), "1")
        del tensors["OutputTensor"]
        case = Case("it", desc, tensors)
        (output,) = open_fault("index-off-by-one").run_case(case).outputs.values()
        assert [[7, 2], [3, 8], [5, 6]] == output.tolist()
