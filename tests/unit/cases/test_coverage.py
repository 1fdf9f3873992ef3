"""Coverage is measured from the cases. Each tier covers what it promises, and the arrays agree with the operators."""

import itertools
import json
from functools import cache

import msgspec
import pytest
from adequacy.__main__ import main
from adequacy.coverage import tier_coverage
from adequacy.covered import TierCovered
from adequacy.kernels import kernel_files, kernel_reached
from adequacy.shown import shown_classes
from tiers import others_slow, own_cases

from opmap.cases.catalogue import cases_of, catalogue, check_choice, example_descriptor
from opmap.cases.choice import choice_of
from opmap.cases.coverage.boundaries import boundary_rules
from opmap.cases.coverage.covered import measure
from opmap.cases.in_variants import accepts
from opmap.cases.parameters import classify_desc, parameters
from opmap.cases.probes import probes
from opmap.cases.random_cases import random_descriptors
from opmap.cases.variants import VARIANTS
from opmap.cli import main as opmap
from opmap.operators import OPERATORS
from opmap.operators.size_classes import length

SMOKE = own_cases("smoke")


@cache
def smoke_coverage():
    """Returns what `smoke` covers, by operator."""
    return measure(SMOKE, TierCovered)


@cache
def some_descriptors():
    """Returns random descriptors of all operators."""
    return list(random_descriptors(4000, seed=1, max_elements=4096))


class TestTiers:
    """A tier covers everything that it promises."""

    @pytest.mark.slow
    @pytest.mark.parametrize(("tier", "strength"), [("smoke", 1), ("standard", 2)])
    def test_covers(self, tier, strength):
        """`smoke` covers every class, rule, example and field; `standard` covers every possible pair as well."""
        covered = smoke_coverage() if tier == "smoke" else measure(catalogue(tier, variants=False), TierCovered)
        assert list(OPERATORS) == list(covered)
        for coverage in covered.values():
            assert [] == coverage.missing(strength=strength)
            classes, pairs = coverage.possible(strength)
            assert classes == len(coverage.classes)
            assert len(coverage.pairs) <= pairs
            assert len(coverage.triples) <= coverage.possible_triples
            assert strength < 2 or pairs == len(coverage.pairs)

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_every_kind_of_gap_is_seen(self, operator):
        """A class, a pair, a rule, an example and a field that no case has are missing."""
        coverage, spec = TierCovered(operator), OPERATORS[operator].descriptor.spec()
        last = spec.support[0].tensors[spec.first_data].data_types[-1]
        for case in SMOKE:
            if case.desc.operator == operator and f"/{last.lower()}/" not in case.id and "example" not in case.id:
                coverage.take(case)
        missing = coverage.missing(strength=2)
        fewest = OPERATORS[operator].dimension_counts[0]
        assert {f"data_type {last}", "example 1", f"data_type {last}, dimensions {fewest}"} <= set(missing)
        assert f"rule {spec.rules[0].id}" in TierCovered(operator).missing(strength=1)
        missing = TierCovered(operator).missing(strength=1)
        assert {f"field {output}" for output in spec.field_names("output")} <= set(missing)

    @pytest.mark.slow
    def test_full_covers_everything(self, monkeypatch):
        """`full` covers every possible triple, every large class, and the small scope in every width.

        Measured for one operator. For all operators, test_catalogue.py counts the small scope and the large classes,
        and test_rows_are_built_as_chosen samples the rows that hold the triples.
        """
        name = "GATHER_ELEMENTS"
        monkeypatch.setattr("opmap.cases.catalogue.OPERATORS", {name: OPERATORS[name]})
        coverage = measure(catalogue("full", variants=False), TierCovered)[name]
        assert [] == coverage.missing(strength=3)
        counts = (len(coverage.classes), len(coverage.pairs), len(coverage.triples))
        assert counts == (*coverage.possible(3), coverage.possible_triples)
        assert 4 * 1278 == len(coverage.small_scope)

    def test_what_full_lacks_is_named(self):
        """A triple, a large class and a descriptor of the small scope that no case has are missing."""
        coverage = smoke_coverage()["GATHER_ELEMENTS"]
        missing = coverage.missing(strength=3)
        assert coverage.possible_triples - len(coverage.triples) == sum(
            m.count(", ") == 2 and "descriptor" not in m for m in missing
        )
        assert {
            "data_type INT8, dimensions 1, axis_length 32769+",
            "output_elements 2^27+1",
            "axis_length 16777217+",
            "descriptor INT64, InputTensor {3,3,3,3}, IndicesTensor {3,3,3,3}, OutputTensor {3,3,3,3}, Axis 3",
        } <= set(missing)


class TestClosedWorld:
    """A new rule or a new field is missing until a case covers it."""

    @pytest.mark.parametrize(
        ("check", "missing"), [("Axis < 100000", ["rule GATHER.X1"]), ("Axis < InputTensor.DimensionCount", [])]
    )
    def test_a_new_rule(self, monkeypatch, check, missing):
        """A new rule is missing if no neighbour of a case breaks it; if one does, nothing is missing."""
        module = OPERATORS["GATHER"]
        spec = module.descriptor.spec()
        new = msgspec.structs.replace(spec.rules[0], id="GATHER.X1", check=check)
        changed = msgspec.structs.replace(spec, rules=(*spec.rules, new))
        monkeypatch.setattr(module.descriptor, "spec", classmethod(lambda cls: changed))
        assert missing == measure(SMOKE, TierCovered)["GATHER"].missing(strength=1)

    def test_a_new_field(self, monkeypatch):
        """A new field is missing, because no two cases have different values of it."""
        module = OPERATORS["GATHER"]
        spec, coverage = module.descriptor.spec(), smoke_coverage()["GATHER"]
        new = msgspec.structs.replace(spec.fields[-1], name="Mode")
        changed = msgspec.structs.replace(spec, fields=(*spec.fields, new))
        monkeypatch.setattr(module.descriptor, "spec", classmethod(lambda cls: changed))
        assert ["field Mode"] == coverage.missing(strength=1)

    def test_boundaries(self):
        """A descriptor is at a rule's boundary if one step in one member breaks the rule; an axis in the middle is
        not.
        """
        desc, _ = example_descriptor(OPERATORS["GATHER"].descriptor.spec(), "1")
        assert "GATHER.F1" in boundary_rules(desc)
        middle = next(
            d for d in OPERATORS["GATHER"].descriptors(4, 2) if len(d.input_tensor.sizes) == 4 and d.axis == 1
        )
        assert "GATHER.F1" not in boundary_rules(middle)


class TestSpace:
    """The shipped arrays agree with what the operators say about their parameters."""

    @pytest.mark.parametrize("every", others_slow((20, 1), 20))
    @pytest.mark.parametrize("operator", OPERATORS)
    def test_choice_fits_the_spec(self, operator, every):
        """Each chosen descriptor is valid, and each id follows from the content of its case.

        Some are checked at each commit, all weekly.
        """
        check_choice(OPERATORS[operator], choice_of(operator), every)

    @pytest.mark.parametrize("every", others_slow((50, 1), 50))
    @pytest.mark.parametrize("operator", others_slow(OPERATORS, "GATHER"))
    def test_variants_accept_their_cases(self, operator, every):
        """Each case that was chosen for a variant can be brought into it."""
        choice = choice_of(operator)
        cases = [*cases_of(OPERATORS[operator], *choice.parts)]
        chosen = [entry for part in choice.variants for entry in choice.listed(part)]
        assert chosen
        for number, variant in chosen[::every]:
            assert accepts(VARIANTS[variant], cases[number])

    @pytest.mark.parametrize("operator", others_slow(OPERATORS, "GATHER_ND1"))
    def test_rows_have_their_classes(self, operator):
        """Every case of the pair array has a class of each parameter; of the rows for triples every fifth is
        measured.
        """
        module = OPERATORS[operator]
        own = parameters(module)
        rows = [*cases_of(module, "classes", "pairs"), *itertools.islice(cases_of(module, "triples"), None, None, 5)]
        for case in rows:
            assert () == case.desc.violations()
            measured = shown_classes(case)
            assert all(measured[name] in names for name, names in own.items())

    def test_lengths(self):
        """A class of axis lengths begins with the number in its name."""
        assert ["129+", "257+", "257+", "32769+", "32769+", "65537+"] == [
            length(n) for n in (256, 257, 32768, 32769, 65536, 65537)
        ]

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_small_scope(self, operator):
        """Each descriptor of a small scope keeps the rules of its page."""
        own = OPERATORS[operator]
        found = itertools.islice(own.descriptors(max(2, own.dimension_counts[0]), 2), 500)
        assert [()] == [*dict.fromkeys(desc.violations() for desc in found)]

    @pytest.mark.slow
    @pytest.mark.parametrize("operator", OPERATORS)
    def test_what_is_called_impossible_does_not_occur(self, operator):
        """No descriptor of the small scope and no random one has a pair of classes that the arrays call impossible."""
        impossible = set(choice_of(operator).impossible_pairs)
        own = parameters(OPERATORS[operator])
        seen = set()
        random_ones = (desc for desc in some_descriptors() if desc.operator == operator)
        for desc in itertools.chain(OPERATORS[operator].descriptors(4, 3), random_ones):
            classes = [(n, c) for n, c in classify_desc(desc).items() if c in own[n]]
            seen.update(itertools.combinations(classes, 2))
        assert set() == impossible & {f"{a} {x}, {b} {y}" for (a, x), (b, y) in seen}
        assert len(seen) > 300


class TestKernels:
    """DirectML's kernel classes are counted by the names in its library."""

    def test_are_those_of_the_library(self):
        """The library has 60 names; 24 classes can be reached on one adapter, and `smoke` reaches all of them."""
        (kernels,) = kernel_files()
        names = [name for kind_names in kernels.kinds().values() for name in kind_names]
        assert 60 == len(names) == len(set(names))
        assert {
            "Gather_256_uint8_typed32_MultipleIndices_int64_emulated_8",
            "Gather_256_uint16_native_uint32_native_4",
        } <= set(names)
        reachable = [kind for kind in kernels.kinds() if not kernels.why_not(kind)]
        assert 24 == len(reachable)
        assert set(reachable) == {kernel_reached(kernels, case) for case in SMOKE} - {None}

    def test_what_is_missing_is_seen(self):
        """Cases of at most 4 dimensions reach no kernel class for 8 dimensions."""
        (kernels,) = kernel_files()
        few = [c for c in SMOKE if c.desc.output.dimension_count <= 4]
        assert {4} == {kind[3] for case in few if (kind := kernel_reached(kernels, case))}


class TestCommand:
    """`python tools/adequacy coverage`, and `opmap validate --list`."""

    def test_table(self, capsys):
        """The table shows kernel classes, unreachable rules with the reason, and probes; nothing is missing."""
        assert 0 == main(["coverage", "--tier", "smoke"])
        out = capsys.readouterr().out
        assert "24 of 24 reachable classes on one adapter; the library names 60" in out
        assert "20 not reachable: ONNX's operators take no UINT32 indices" in out
        assert "not reachable: TENSOR.C4" in out
        assert "probe/gather/bool" in out
        assert "missing" not in out

    def test_json(self, capsys):
        """`--json` gives the same facts to a program."""
        assert 0 == main(["coverage", "--json"])
        document = json.loads(capsys.readouterr().out)
        assert len(SMOKE) == document["cases"] == sum(row["cases"] for row in document["operators"])
        assert [] == document["missing"]
        assert not any("small_scope" in row for row in document["operators"])  # smoke does not hold it

    def test_list(self, capsys):
        """`--list` prints one id per line, of the cases and probes that the provider has: the format of
        `opmap validate FILE`.
        """
        assert 0 == opmap(["validate", "--list", "--provider", "cpu"])
        lines = capsys.readouterr().out.splitlines()
        assert [c.id for c in SMOKE] == lines[: len(SMOKE)]
        of_cpu = [case.id for case in catalogue("smoke") if case.variant != "eager"]
        assert [*of_cpu, *(p.id for p in probes())] == lines

    def test_what_is_missing_is_red(self, capsys, monkeypatch):
        """A missing class gives exit code 1, and the table and the JSON name it."""
        monkeypatch.setattr("adequacy.coverage.catalogue", lambda tier: [c for c in SMOKE if "/int8/" not in c.id])
        assert 1 == main(["coverage", "--tier", "smoke"])
        assert "missing: GATHER: data_type INT8" in capsys.readouterr().out
        assert "GATHER_ND1: data_type INT8" in tier_coverage("smoke").missing
