"""Cases in a layout: strides, larger tensors, CompileGraph. Only DirectML itself has them."""

from __future__ import annotations

import dataclasses
import itertools
from contextlib import contextmanager
from functools import cache
from importlib.resources import files

import pytest
from tiers import others_slow, with_layouts

from opmap.cases.catalogue import catalogue
from opmap.cases.features import features
from opmap.cases.layouts import LAYOUTS, in_layout, layout_of
from opmap.cases.selection import find_case
from opmap.cases.values import as_stored
from opmap.cases.written_once import must_write_twice, rows_of
from opmap.diagnosis.case import shrink_case
from opmap.diagnosis.new_cases import NewCases
from opmap.diagnosis.sides import whose_fault
from opmap.engines.providers import Provider
from opmap.judge.record import Record
from opmap.operators import OPERATORS
from opmap.pseudocode import strides_of
from opmap.session import ValidationRun
from opmap.session.options import SessionOptions
from opmap.vocabulary import Verdict

EXAMPLE = "gather/example.2"


@cache
def laid_out():
    """The cases of `standard` in layouts."""
    return [case for case in with_layouts("standard") if case.layout]


@cache
def repeated():
    """A case whose input repeats elements."""
    return next(
        case
        for case in laid_out()
        if case.layout == "strides" and 0 in (case.desc.inputs[case.desc.data_tensors()[0]].strides or ())
    )


def writes_twice(case):
    """Returns whether indices write some elements twice: with the pattern `dups`, or because they are too many."""
    writes = any(rows_of(case.desc, name) is not None for name in case.desc.index_tensors())
    return writes and (case.index_pattern == "dups" or must_write_twice(case.desc))


def stored(case):
    """Gives of each input whether its values are those that memory holds."""
    return (
        list(as_stored(case.desc.inputs[name], tensor).bits) == list(tensor.bits)
        for name, tensor in case.tensors.items()
    )


def of(layout):
    return [case for case in laid_out() if case.layout == layout]


class TestCases:
    """Which cases there are."""

    @pytest.mark.slow
    def test_the_other_cases_stay_as_they_are(self):
        assert [case.id for case in catalogue("standard")] == [
            case.id for case in with_layouts("standard") if not case.layout
        ]

    def test_each_operator_has_each_layout(self):
        assert set(itertools.product(OPERATORS, LAYOUTS)) == {(case.desc.operator, case.layout) for case in laid_out()}

    def test_a_tier_has_those_of_the_tier_before(self):
        assert {case.id for case in with_layouts("smoke") if case.layout} < {case.id for case in laid_out()}

    @pytest.mark.parametrize("step", others_slow([4, 1], 4))
    def test_their_descriptors_keep_the_rules_and_their_outputs_are_defined(self, step):
        for case in laid_out()[::step]:
            assert () == tuple(case.desc.violations()), case.id
            shifted = any(field.chosen for field in case.desc.spec().fields)
            if not writes_twice(case) and not case.desc.spec().running and not shifted:
                assert None not in case.expected, case.id

    @pytest.mark.slow
    def test_an_id_ends_in_the_name_and_gives_the_same_case(self):
        for case in laid_out()[::29]:
            base = case.id.removesuffix(f"/{case.layout}")
            assert layout_of(find_case(base)) == case.layout
            again = find_case(case.id)
            assert (again.id, again.desc, dict(again.tensors)) == (case.id, case.desc, dict(case.tensors))

    def test_the_manual_has_them(self):
        manual = files("opmap").joinpath("manual", "variants.md").read_text(encoding="utf-8")
        assert all(f"| `{name}` | {text} |" in manual for name, text in LAYOUTS.items())


class TestStrides:
    """The layout `strides`."""

    def test_there_are_permuted_tensors_gaps_and_repeated_values(self):
        kinds = set()
        for case in of("strides"):
            for name, tensor in case.desc.tensors.items():
                side = (
                    "output"
                    if name not in case.desc.inputs
                    else "index"
                    if name in case.desc.index_tensors()
                    else "input"
                )
                long = [
                    s for s, n in zip(tensor.strides or strides_of(tensor.sizes), tensor.sizes, strict=True) if n > 1
                ]
                kinds |= {(side, "repeated")} if 0 in long else set()
                kinds |= {(side, "permuted")} if long != sorted(long, reverse=True) else set()
                kinds |= {(side, "gaps")} if tensor.buffer_element_count > tensor.element_count else set()
        sides = itertools.product(("input", "index", "output"), ("permuted", "gaps"))
        assert {("input", "repeated"), ("index", "repeated"), *sides} == kinds

    def test_elements_at_one_address_are_equal(self):
        for case in of("strides")[::4]:
            for name, tensor in case.desc.inputs.items():
                values = {}
                coordinates = itertools.product(*map(range, tensor.sizes))
                for at, bits in zip(coordinates, case.tensors[name].bits, strict=True):
                    strides = tensor.strides or strides_of(tensor.sizes)
                    address = sum(i * stride for i, stride in zip(at, strides, strict=True))
                    assert bits == values.setdefault(address, bits), (case.id, name)

    def test_no_two_elements_of_an_output_share_an_address(self):
        for case in of("strides")[::3]:
            output = case.desc.output
            coordinates = itertools.product(*map(range, output.sizes))
            addresses = [sum(i * s for i, s in zip(at, output.strides, strict=True)) for at in coordinates]
            assert len(addresses) == len(set(addresses)), case.id


class TestOtherLayouts:
    """The layouts `padding` and `compile-graph`."""

    def test_with_padding_each_tensor_is_larger_than_it_needs(self):
        for case in of("padding"):
            for name, tensor in case.desc.tensors.items():
                assert 4 <= tensor.total_tensor_size_in_bytes - tensor.minimum_size_in_bytes <= 128
                assert tensor.packed or name in case.desc.spec().strided

    def test_a_case_that_is_compiled_as_a_graph_is_the_same_otherwise(self):
        by_id = {case.id: case for case in with_layouts("standard")}
        for case in of("compile-graph"):
            base = by_id[case.id.removesuffix("/compile-graph")]
            assert (base.desc, base.tensors) == (case.desc, case.tensors)

    def test_a_large_case_has_none(self):
        case = find_case(EXAMPLE)
        wide = max((c for c in with_layouts("standard") if not c.layout), key=lambda c: c.desc.output.element_count)
        assert in_layout(case, "strides") and wide.desc.output.element_count > 65_536
        assert [None] * len(LAYOUTS) == [in_layout(wide, layout) for layout in LAYOUTS]


class TestProviders:
    """Which providers have them."""

    @pytest.mark.parametrize(("provider", "has"), [("cpu", False), ("fault:none", False), ("DirectML", True)])
    def test_only_directml_itself_is_asked_for_them(self, provider, has):
        selection = ValidationRun(SessionOptions(provider=provider)).selection
        assert has == selection.layouts
        assert has == any(case.layout for case in selection.cases())

    def test_another_provider_leaves_out_one_that_is_asked_for(self):
        ids = [f"{EXAMPLE}/{layout}" for layout in LAYOUTS]
        session = ValidationRun(SessionOptions(provider="cpu", case=[EXAMPLE, *ids]))
        session.choose()
        assert [EXAMPLE] == [case.id for case in session.cases]
        assert "3 cases left out: the provider lacks variants padding, strides, compile-graph" == session.variants_note


class TestDiagnosis:
    """What a diagnosis knows of a layout, and the cases that it makes of one."""

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_a_condition_can_name_it(self, layout):
        assert layout == features(find_case(f"{EXAMPLE}/{layout}"))["variant"]

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_other_values(self, layout):
        """They are what memory holds: a tensor with stride 0 repeats its first elements."""
        for case in of(layout)[::17]:
            twin = NewCases([case], seed=1).twin(case)
            assert (case.layout, case.desc.output.sizes) == (twin.layout, twin.desc.output.sizes), case.id
            assert all(stored(twin)), case.id

    def test_new_cases(self):
        """They are in the layout of the case that they are like, or in none."""
        like = of("strides")[3]
        source = NewCases([like], seed=2)
        made = [case for _ in range(200) if (case := source.fresh(like))]
        assert {"strides", None} == {case.layout for case in made}
        assert all(all(stored(case)) and not [*case.desc.violations()] for case in made)

    def test_of_a_file(self):
        """A descriptor with strides that is in no layout keeps them; its new values are what memory holds."""
        case = dataclasses.replace(repeated(), layout=None, id="file")
        base = find_case(repeated().id.removesuffix("/strides"))
        assert not all(stored(dataclasses.replace(case, tensors=base.tensors)))
        twin = NewCases([case], seed=1).twin(case)
        assert case.desc == twin.desc and all(stored(twin))
        tried = []
        shrink_case(case, lambda one: tried.append(one) or False)
        assert tried and all(all(stored(one)) for one in tried)

    def test_shrinking_keeps_a_layout_that_is_needed(self):
        tried = []

        def fails(case):
            tried.append(case)
            return case.layout == "strides" and case.desc.output.element_count > 1

        smallest = shrink_case(repeated(), fails)
        assert ("strides", 2) == (smallest.layout, smallest.desc.output.element_count)
        assert smallest.id.endswith("/strides") and smallest.desc.output.strides
        assert all(all(stored(case)) for case in tried)

    def test_shrinking_leaves_a_layout_out_that_is_not_needed(self):
        smallest = shrink_case(repeated(), lambda case: case.desc.output.element_count > 1)
        assert (None, 2) == (smallest.layout, smallest.desc.output.element_count)
        assert all(tensor.packed for tensor in smallest.desc.tensors.values())

    def test_whose_fault(self):
        """A failure that only the layout shows is told so; another change keeps the layout."""
        seen = []

        class Direct:
            provider, conversion = Provider("directml", None, None, None), "graph"

            def __call__(self, case):
                seen.append(case)
                return Record(verdict=Verdict.MISMATCH if case.layout else Verdict.PASS)

        @contextmanager
        def open_with(*entries, **options):
            yield Direct()

        found = whose_fault(repeated(), Record(verdict=Verdict.MISMATCH), open_with, runs=2)
        assert "fails only in the layout strides (2 of 2 against 0 of 2)" in str(found)
        padded = [side for side in found.sides if side.change.startswith("padded")]
        assert padded and all(side.failures == 2 for side in padded)
