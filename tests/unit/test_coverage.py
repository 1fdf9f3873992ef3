"""Coverage is measured from the cases, the arrays hold what the operators say is possible, and nothing is left out."""

import dataclasses
import itertools
import json
import os
import sys
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest

from opmap.cases import covering_arrays
from opmap.cases.catalogue import catalogue, example_descriptor
from opmap.cases.covering_arrays import arrays
from opmap.cases.parameters import cases_of, cases_with, classify, classify_desc, parameters
from opmap.cases.random_cases import random_descriptors
from opmap.cli import main
from opmap.coverage.boundaries import boundary_rules
from opmap.coverage.covered import Covered, measure
from opmap.coverage.kernels import kernel_files, kernels_reached
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS
from opmap.reporting.coverage import told
from opmap.session import open_judge

SMOKE = list(catalogue("smoke"))
TOOL = Path(__file__).parents[2] / "tools" / "build_arrays.py"


class TestTiers:
    """What a tier promises, it covers."""

    @pytest.mark.parametrize(("tier", "strength"), [("smoke", 1), ("standard", 2)])
    def test_covers(self, tier, strength):
        """`smoke` every class, rule, example and field; `standard` every possible pair as well."""
        for found in measure(catalogue(tier)).values():
            assert [] == found.missing(strength=strength)
            values, pairs, triples = found.possible(strength=strength)
            assert values == len(found.values)
            assert len(found.pairs) <= pairs and len(found.triples) <= triples
            assert strength < 2 or pairs == len(found.pairs)

    def test_smoke_does_not_cover_every_pair(self):
        """So that the measure can fail."""
        assert all(found.missing(strength=2) for found in measure(SMOKE).values())

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_every_kind_of_gap_is_seen(self, operator):
        """A class, a pair, a rule, an example and a field that no case has."""
        cases = [c for c in SMOKE if c.desc.operator == operator]
        found = Covered(operator)
        for case in cases:
            if "/int8/" not in case.id and "example" not in case.id:
                found.take(case)
        missing = found.missing(strength=2)
        assert {"data_type INT8", "example 1", "data_type INT8, dimensions 1"} <= set(missing)
        assert f"rule {operator}.C1" in Covered(operator).missing(strength=1)
        assert "field OutputTensor" in Covered(operator).missing(strength=1)

    def test_full_covers_everything(self, monkeypatch):
        """Every possible triple, every large class, and the small world in every width; here of one operator."""
        name = "GATHER_ELEMENTS"
        monkeypatch.setattr("opmap.cases.catalogue.OPERATORS", {name: OPERATORS[name]})
        found = measure(catalogue("full"))[name]
        assert [] == found.missing(strength=3)
        assert found.possible(strength=3) == (len(found.values), len(found.pairs), len(found.triples))
        assert 4 * 1278 == len(found.world)

    def test_what_full_lacks_is_named(self):
        """A triple, a large class, a descriptor of the small world."""
        found = measure(SMOKE)["GATHER_ELEMENTS"]
        missing = found.missing(strength=3)
        _, _, triples = found.possible(strength=3)
        assert triples - len(found.triples) == sum(m.count(", ") == 2 and "descriptor" not in m for m in missing)
        assert {
            "data_type INT8, dimensions 1, axis_length 32769+",
            "output_elements 2^27+1",
            "axis_length 16777217+",
            "descriptor INT64, InputTensor {3,3,3,3}, IndicesTensor {3,3,3,3}, OutputTensor {3,3,3,3}, Axis 3",
        } <= set(missing)

    def test_triples_are_counted(self):
        """The arrays for triples hold every triple that is possible."""
        found = Covered("GATHER_ELEMENTS")
        known = arrays("GATHER_ELEMENTS")
        for choice in known.rows(known.pairs + known.triples):
            found.triples.update(itertools.combinations(choice.items(), 3))
        assert known.possible_triples == len(found.triples)


class TestClosedWorld:
    """A rule or a field that is new fails until a case has it."""

    @pytest.mark.parametrize(
        ("check", "missing"),
        [("Axis < 100000", ["rule GATHER.X1"]), ("Axis < InputTensor.DimensionCount", [])],
    )
    def test_a_new_rule(self, monkeypatch, check, missing):
        """That no neighbour of a case breaks; with one that does, nothing is missing."""
        module = OPERATORS["GATHER"]
        spec = module.descriptor.spec()
        new = msgspec.structs.replace(spec.rules[0], id="GATHER.X1", check=check)
        changed = msgspec.structs.replace(spec, rules=(*spec.rules, new))
        monkeypatch.setattr(module.descriptor, "spec", classmethod(lambda cls: changed))
        assert missing == measure(SMOKE)["GATHER"].missing(strength=1)

    def test_a_new_field(self, monkeypatch):
        """That no case has with two values."""
        module = OPERATORS["GATHER"]
        spec, found = module.descriptor.spec(), measure(SMOKE)["GATHER"]
        new = msgspec.structs.replace(spec.fields[-1], name="Mode")
        changed = msgspec.structs.replace(spec, fields=(*spec.fields, new))
        monkeypatch.setattr(module.descriptor, "spec", classmethod(lambda cls: changed))
        assert ["field Mode"] == found.missing(strength=1)

    def test_boundaries(self):
        """One step in one member; an axis in the middle of many is at no boundary of its own."""
        desc, _ = example_descriptor(OPERATORS["GATHER"].descriptor.spec(), "1")
        assert "GATHER.F1" in boundary_rules(desc)
        middle = next(d for d in OPERATORS["GATHER"].world(4, 2) if len(d.input_tensor.sizes) == 4 and d.axis == 1)
        assert "GATHER.F1" not in boundary_rules(middle)


class TestSpace:
    """What the operators say of their parameters."""

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_arrays_are_of_these_parameters(self, operator):
        """Else tools/build_arrays.py must be run."""
        assert arrays(operator).parameters == {n: tuple(c) for n, c in parameters(OPERATORS[operator]).items()}

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_rows_are_built_as_chosen(self, operator):
        """Every row gives a valid case, that is measured to have exactly the classes of the row."""
        known, module = arrays(operator), OPERATORS[operator]
        for choice in known.rows(known.pairs):
            for case in cases_of(module, choice):
                assert () == case.desc.violations()
                measured = classify(case)
                if case.id.split("/")[-1].startswith("addr"):
                    measured["data_pattern"] = "addr"
                assert choice == measured
        for choice in known.rows(known.triples[::5]):
            desc = module.build(choice)
            assert () == desc.violations()
            assert choice == {**choice, **classify_desc(desc)}
            assert cases_of(module, choice)

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_what_is_called_impossible_does_not_occur(self, operator):
        """Neither in the small world nor among random descriptors is there one of an impossible pair of classes."""
        impossible = set(arrays(operator).impossible_pairs)
        known = arrays(operator).parameters
        seen = set()
        some = itertools.chain(
            OPERATORS[operator].world(4, 3),
            (d for d in random_descriptors(4000, seed=1, max_elements=4096) if d.operator == operator),
        )
        for desc in some:
            found = [(n, c) for n, c in classify_desc(desc).items() if c in known[n]]
            seen.update(f"{a} {x}, {b} {y}" for (a, x), (b, y) in itertools.combinations(found, 2))
        assert set() == seen & impossible
        assert len(seen) > 300

    @pytest.mark.skipif(not TOOL.is_file(), reason="needs a checkout")
    def test_the_tool_finds_the_rows_possible(self, monkeypatch):
        """As it asks the operator's `build`: after a change there, arrays that hold no longer are seen without making new
        ones."""
        monkeypatch.syspath_prepend(str(TOOL.parent))
        import build_arrays

        known = arrays("GATHER_ELEMENTS")
        space = build_arrays.Space(OPERATORS["GATHER_ELEMENTS"])
        assert len(known.pairs) == sum(space.possible(row) for row in known.pairs)
        assert known.possible_triples == sum(int(table.sum()) for table in space.tables(3).values())

    @pytest.mark.skipif(not TOOL.is_file(), reason="needs a checkout")
    def test_the_tool_makes_these_arrays(self, monkeypatch, tmp_path):
        """The shipped file is what the tool writes."""
        if not os.environ.get("OPMAP_REBUILD_ARRAYS"):
            pytest.skip("takes minutes: set OPMAP_REBUILD_ARRAYS=1 after a change to the tool or the parameters")
        monkeypatch.syspath_prepend(str(TOOL.parent))
        import build_arrays

        monkeypatch.setattr(build_arrays, "FOLDER", tmp_path)
        monkeypatch.setattr(sys, "argv", ["build_arrays.py", "GATHER_ELEMENTS"])
        build_arrays.main()
        shipped = Path(covering_arrays.__file__).parent / "arrays" / "gather_elements.json"
        assert shipped.read_bytes() == (tmp_path / "gather_elements.json").read_bytes()


class TestIndexPaths:
    """How the indices come to the operator."""

    CASE = next(c for c in SMOKE if c.id.startswith("gather/") and "/int32.mix" in c.id and c.desc.index_dimensions)

    @pytest.mark.parametrize(
        ("path", "inputs", "operators", "kinds"),
        [
            ("input", ["InputTensor", "IndicesTensor"], {"Gather"}, set()),
            ("initializer", ["InputTensor"], {"Gather"}, {"index-path"}),
            ("node", ["InputTensor", "IndicesTensor"], {"Tile", "Gather"}, {"index-path"}),
        ],
    )
    def test_in_the_model(self, path, inputs, operators, kinds):
        """What the graph takes and holds; what is not as the descriptor says is listed."""
        (case,) = cases_with(self.CASE.desc, "mix", "addr", path)
        mapped = map_descriptor(case.desc, index_path=path, values=case.tensors)
        onnx.checker.check_model(mapped.model, full_check=True)
        assert inputs == [i.name for i in mapped.model.graph.input] == list(mapped.feeds)
        assert operators == {n.op_type for n in mapped.model.graph.node} - {"Reshape", "Cast"}
        assert kinds == {s.kind for s in mapped.substitutions} - {"reshape", "index-type"}
        held = [i for i in mapped.model.graph.initializer if i.name == "IndicesTensor"]
        assert (path == "initializer") == bool(held)
        if held:
            assert list(case.tensors["IndicesTensor"].values) == np.ravel(onnx.numpy_helper.to_array(held[0])).tolist()
        assert case.desc == mapped.lowered_as

    @pytest.mark.parametrize("conversion", ["graph", "host", "directml"])
    @pytest.mark.parametrize("index_type", ["INT32", "INT64", "UINT32", "UINT64"])
    @pytest.mark.parametrize("path", ["initializer", "one", "node"])
    @pytest.mark.parametrize("operator", OPERATORS)
    def test_pass_on_the_cpu(self, operator, path, index_type, conversion):
        """With every index type and conversion."""
        known, module = arrays(operator), OPERATORS[operator]
        choice = next(c for c in known.rows(known.triples) if (c["index_path"], c["index_type"]) == (path, index_type))
        judge = dataclasses.replace(open_judge("cpu"), index_conversion=conversion)
        for case in cases_of(module, choice):
            record = judge(case)
            assert ("pass", None) == (record.verdict, record.message)
            assert any(s.startswith("index-path") for s in record.substitutions)


class TestKernels:
    """DirectML's kernel classes, by the names in its library."""

    def test_are_those_of_the_library(self):
        """60 names, of which 24 can be reached on one adapter."""
        (kernels,) = kernel_files()
        names = [name for found in kernels.kinds().values() for name in found]
        assert 60 == len(names) == len(set(names))
        assert {
            "Gather_256_uint8_typed32_MultipleIndices_int64_emulated_8",
            "Gather_256_uint16_native_uint32_native_4",
        } <= set(names)
        reachable = [kind for kind in kernels.kinds() if not kernels.why_not(kind)]
        assert 24 == len(reachable)
        assert set(reachable) == set(kernels_reached(kernels, SMOKE))

    def test_what_is_missing_is_seen(self):
        """Without cases above 4 dimensions, half of them."""
        (kernels,) = kernel_files()
        few = [c for c in SMOKE if c.desc.output.dimension_count <= 4]
        assert {4} == {kind[3] for kind in kernels_reached(kernels, few)}


class TestCommand:
    """`opmap catalog`."""

    def test_table(self, capsys):
        """Coverage, what is not reachable and why; nothing missing."""
        assert 0 == main(["catalog", "--tier", "smoke"])
        out = capsys.readouterr().out
        assert "24 of 24 reachable classes on one adapter; the library names 60" in out
        assert "20 not reachable: ONNX's operators take no UINT32 indices" in out
        assert "not reachable: TENSOR.C4" in out
        assert "probe/gather/bool" in out
        assert "missing" not in out

    def test_json(self, capsys):
        """The same for a program."""
        assert 0 == main(["catalog", "--json"])
        found = json.loads(capsys.readouterr().out)
        assert len(SMOKE) == found["cases"] == sum(row["cases"] for row in found["operators"])
        assert [] == found["missing"]

    def test_list(self, capsys):
        """An id a line, as `validate --case @FILE` takes them."""
        assert 0 == main(["catalog", "--list"])
        assert [c.id for c in SMOKE] == capsys.readouterr().out.splitlines()

    def test_what_is_missing_is_red(self, capsys, monkeypatch):
        """Exit code 1, and it is named."""
        monkeypatch.setattr(
            "opmap.reporting.coverage.catalogue", lambda tier: [c for c in SMOKE if "/int8/" not in c.id]
        )
        assert 1 == main(["catalog", "--tier", "smoke"])
        assert "missing: GATHER: data_type INT8" in capsys.readouterr().out
        assert "GATHER_ND1: data_type INT8" in told("smoke")["missing"]
