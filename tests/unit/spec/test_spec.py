"""The specs: every example passes under the corrected text, every rule can be broken, every erratum is a real one."""

import dataclasses
import itertools
import json
import re

import pytest

from opmap.cases.catalogue import example_descriptor
from opmap.descriptors import TensorDesc, environment
from opmap.errors import InputError
from opmap.mapping.dxdispatch import model_json, read_model
from opmap.operators import OPERATORS
from opmap.pseudocode import Broken, canonical, check
from opmap.spec import all_specs, load_spec, read_spec, tensor_rules
from opmap.spec.loader import Pseudocode
from opmap.spec.short_form import completed, shared
from opmap.tensors import DataType

SPECS = [pytest.param(spec, id=spec.name) for spec in all_specs()]
RULES = [pytest.param(spec, rule, id=rule.id) for spec in all_specs() for rule in spec.corrected.rules if rule.breaks]
EXAMPLES = [
    pytest.param(spec, example, id=f"{spec.name}-{example.id}")
    for spec in all_specs()
    for example in spec.corrected.examples
    if example.id != "sizes"
]
WITH_LINES = [param for param in EXAMPLES if param.values[1].parsed().expansion]

SAME_DEMAND = {
    "GATHER.C4": "GATHER.C3",
    "GATHER_ND.C4": "GATHER_ND.C3",
    "GATHER_ND1.C4": "GATHER_ND1.C3",
    "SCATTER_ND.C6": "SCATTER_ND.C5",
}
"""Rule -> the rule above it that demands the same."""


def errata(kind):
    """The errata of a kind, as test parameters."""
    return [pytest.param(spec, e, id=e.id) for spec in all_specs() for e in spec.errata if e.kind == kind]


def broken(spec, breaks):
    """The descriptor that breaks a rule: an example with some members changed, as DxDispatch JSON writes them."""
    desc, tensors = example_descriptor(spec.corrected, breaks.example)
    model = model_json("broken", desc, tensors)
    for name, value in breaks.set.items():
        *parents, member = re.findall(r"\w+", name)
        parent = model["dispatchables"]["broken"]["desc"]
        for step in parents:
            parent = parent[int(step) if isinstance(parent, list) else step]
        parent[member] = value
    (dispatch,) = read_model(json.dumps(model))
    return dispatch.desc


class TestFiles:
    """The contents of the spec files are consistent."""

    def test_every_operator_has_a_spec_and_every_spec_an_operator(self):
        """Both are discovered in their folders, in the order of DirectML's numbers."""
        assert [spec.name for spec in all_specs()] == list(OPERATORS)
        assert {
            "SCATTER": 94,
            "SCATTER_ND": 109,
            "GATHER": 67,
            "GATHER_ELEMENTS": 107,
            "GATHER_ND": 108,
            "GATHER_ND1": 140,
        }.items() <= {spec.name: spec.number for spec in all_specs()}.items()

    @pytest.mark.parametrize("spec", SPECS)
    def test_ids_are_unique_and_say_where_they_belong(self, spec):
        """A rule's id begins with its operator. No id is used twice in all files."""
        rules = [rule.id for rule in spec.rules]
        assert all(id.startswith(f"{spec.name}.") for id in rules + [e.id for e in spec.errata])
        everything = [x.id for s in all_specs() for x in (*s.rules, *s.errata)] + [r.id for r in tensor_rules().rules]
        assert len(everything) == len(set(everything))

    @pytest.mark.parametrize("spec", SPECS)
    def test_members_are_those_of_the_dataclass_in_order(self, spec):
        """The descriptor's dataclass has the spec's fields under their Python names; numbers have short names."""
        desc = OPERATORS[spec.name].descriptor
        assert [f.name for f in spec.fields] == list(desc.members())
        assert [f.name for f in dataclasses.fields(desc)] == list(desc.members().values())
        assert set(desc.short_names()) == {f.name for f in spec.fields if not f.is_tensor}

    @pytest.mark.parametrize("spec", SPECS)
    def test_rules_stand_on_a_line_unless_derived(self, spec):
        """A rule has a line on the page, or it is derived and its id says so."""
        assert all((rule.line is None) == rule.derived for rule in spec.rules)
        assert [r.derived for r in spec.rules] == [r.id.split(".")[1].startswith("D") for r in spec.rules]


class TestExamples:
    """Every worked example passes under the corrected text."""

    def test_all_have_a_line_but_those_with_arrays_of_numbers(self):
        """Only gathers and scatters print one beside their examples."""
        with_line = {id.rpartition("-")[0] for id in (param.id for param in WITH_LINES)}
        without = {id.rpartition("-")[0] for id in (param.id for param in EXAMPLES if param not in WITH_LINES)}
        assert with_line and all("GATHER" in name or "SCATTER" in name for name in with_line)
        assert not any("GATHER" in name or "SCATTER" in name for name in without)

    @pytest.mark.parametrize(("spec", "example"), WITH_LINES)
    def test_its_line_is_the_general_one_expanded(self, spec, example):
        """The expanded line is the line that the page prints beside the example, up to names."""
        desc, _ = example_descriptor(spec.corrected, example.id)
        tensors = spec.pseudocode.tensors
        assert canonical(example.parsed().expansion, tensors) == canonical(desc.statements[-1], tensors)

    @pytest.mark.parametrize(("spec", "example"), EXAMPLES)
    def test_gives_the_printed_values(self, spec, example):
        """The example breaks no rule, and the interpreter computes the outputs that the page prints."""
        desc, tensors = example_descriptor(spec.corrected, example.id)
        assert () == desc.violations()
        for name, output in {name: tensors.pop(name) for name in desc.outputs}.items():
            pairs = zip(output.bits, desc.of_output(name).interpret(tensors), strict=True)
            assert all(own == bits or (own is None and example.has_undefined) for bits, own in pairs)

    @pytest.mark.parametrize(
        "name, rule, tensor",
        [
            ("GATHER_ND", "C6", "OutputTensor"),
            ("GATHER_ND1", "C6", "OutputTensor"),
            ("SCATTER_ND", "C9", "UpdatesTensor"),
        ],
    )
    def test_the_example_of_sizes(self, name, rule, tensor):
        """The example's sizes follow from the corrected formula, and not from the printed one."""
        spec = load_spec(name)
        rule, subject = f"{name}.{rule}", f"{tensor}.Sizes"
        example = spec.example("sizes").parsed()
        names = {**example.fields, "BatchDimensionCount": 0}
        for tensor, t in example.tensors.items():
            names |= {f"{tensor}.Sizes": t.sizes, f"{tensor}.DimensionCount": len(t.sizes)}
        assert None is check(spec.corrected.rule(rule).check, names)
        assert Broken(subject, "{1,2,5,6,7}", "{1,1,2,6,7}") == check(spec.rule(rule).check, names)


class TestRules:
    """Each rule can be broken, and the violation names it."""

    @pytest.mark.parametrize(("spec", "rule"), RULES)
    def test_its_example_breaks_it(self, spec, rule):
        """The rule is broken. It is also the first broken rule, unless another rule demands the same.

        The subject is a member of the struct; the wanted and the actual value are given and differ.
        """
        violations = broken(spec, rule.breaks).violations()
        assert SAME_DEMAND.get(rule.id, rule.id) == violations[0].rule
        violation = next(v for v in violations if v.rule == rule.id)
        fields = re.findall(r"(?:^| )([A-Za-z]\w*)", violation.subject)
        assert fields and set(fields) <= set(OPERATORS[spec.name].descriptor.members())
        assert violation.wanted and violation.got
        assert violation.wanted != violation.got
        assert f"{violation.subject} must be {violation.wanted}, got {violation.got} ({rule.id})" == str(violation)

    @pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in tensor_rules().rules])
    def test_the_example_of_a_tensor_rule_breaks_it_alone(self, rule):
        """The rule is broken in the changed tensor, and no other rule is."""
        (violation,) = broken(load_spec(rule.breaks.operator), rule.breaks).violations()
        (changed,) = {name.partition(".")[0] for name in rule.breaks.set}
        assert (rule.id, changed) == (violation.rule, violation.subject.partition(".")[0])

    def test_messages(self):
        """Five messages in full, as a user reads them."""
        texts = {
            v.rule: str(v)
            for s in all_specs()
            for r in s.rules
            if r.breaks
            for v in broken(s, r.breaks).violations()
            if v.rule == r.id
        }
        assert "IndicesTensor.Sizes[0] must be 1, got 3 (GATHER.D2)" == texts["GATHER.D2"]
        assert "IndexDimensions must be at most Axis + 1 = 1, got 2 (GATHER.D1)" == texts["GATHER.D1"]
        assert "OutputTensor.Sizes must be {2,3}, got {3,3} (GATHER_ELEMENTS.C5)" == texts["GATHER_ELEMENTS.C5"]
        assert (
            "BatchDimensionCount must be in [0, IndicesDimensionCount) = [0, 1), got 1 (GATHER_ND1.F4)"
            == texts["GATHER_ND1.F4"]
        )
        assert (
            "IndicesTensor.DataType must be one of INT64, INT32, UINT64, UINT32, got INT16 (GATHER.S1)"
            == texts["GATHER.S1"]
        )


class TestErrata:
    """The spec holds wrong text as printed; the corrected spec replaces it."""

    def test_there_are_these(self):
        """The list of all ids: a lost erratum would be noticed."""
        assert [
            *("REDUCE.E1", "GATHER.E1", "GATHER.E2", "GATHER.E3", "GATHER.E4", "GATHER.E5"),
            *("TILE.E1", "TILE.E2", "TOP_K.E1", "ELEMENT_WISE_IF.E1"),
            *("SCATTER.E1", "SCATTER.E2", "SCATTER.E3"),
            "FILL_VALUE_SEQUENCE.E1",
            *("REVERSE_SUBSEQUENCES.E1", "REVERSE_SUBSEQUENCES.E2", "GATHER_ELEMENTS.E1", "GATHER_ELEMENTS.E2"),
            *("GATHER_ND.E1", "GATHER_ND.E2", "GATHER_ND.E3", "GATHER_ND.E4", "GATHER_ND.E5"),
            *("SCATTER_ND.E1", "SCATTER_ND.E2", "SCATTER_ND.E3", "SCATTER_ND.E4", "SCATTER_ND.E5", "SCATTER_ND.E6"),
            *("SCATTER_ND.E7", "SCATTER_ND.E8"),
            "MAX_POOLING2.E1",
            *("SLICE1.E1", "SLICE1.E2", "TOP_K1.E1", "SPACE_TO_DEPTH1.E1"),
            *("MATRIX_MULTIPLY_INTEGER.E1", "CONVOLUTION_INTEGER.E1", "ELEMENT_WISE_BIT_XOR.E1"),
            "NONZERO_COORDINATES.E1",
            *("GATHER_ND1.E1", "GATHER_ND1.E2", "GATHER_ND1.E3", "GATHER_ND1.E4", "GATHER_ND1.E5", "GATHER_ND1.E6"),
            "GATHER_ND1.E7",
            "DIAGONAL_MATRIX1.E1",
        ] == [e.id for spec in all_specs() for e in spec.errata]

    @pytest.mark.parametrize(("spec", "erratum"), [*errata("contradiction"), *errata("gap"), *errata("note")])
    def test_printed_text_stands_in_the_spec_and_not_in_the_corrected_one(self, spec, erratum):
        """The spec holds the printed text, and the corrected spec holds the corrected text in its place."""
        printed, corrected = _subject(spec, erratum.subject), _subject(spec.corrected, erratum.subject)
        others = [e for e in spec.errata if e.subject == erratum.subject and e is not erratum]
        for wording in (erratum, *erratum.further):
            assert wording.printed in printed
            assert wording.corrected in corrected
        for other in (e for e in spec.errata if e is erratum or e in others):
            printed = other.correct(printed)
        assert printed == corrected

    @pytest.mark.parametrize("spec", SPECS)
    def test_nothing_else_is_changed(self, spec):
        """The corrected spec differs only in the subjects of errata, and has no errata."""
        subjects = {e.subject for e in spec.errata}
        corrected = spec.corrected
        assert () == corrected.errata
        fields = [f"field {field.name}" for field in spec.fields]
        for subject in [
            "pseudocode",
            *(r.id for r in spec.rules),
            *(f"example {e.id}" for e in spec.examples),
            *fields,
        ]:
            assert (subject in subjects) == (_subject(spec, subject) != _subject(corrected, subject)), subject
        assert (spec.support, spec.page) == (corrected.support, corrected.page)

    @pytest.mark.parametrize(("spec", "erratum"), errata("gap"))
    def test_a_gap_has_a_witness(self, spec, erratum):
        """The printed rule accepts some small descriptor that the corrected rule refuses."""
        witness = next(_witnesses(spec, erratum), None)
        assert witness is not None
        first = [v.rule for v in witness.violations()]
        assert erratum.subject in first


def _subject(spec, subject):
    """The text that an erratum is about."""
    if subject == "pseudocode":
        return spec.pseudocode.text
    if subject.startswith("example "):
        id, _, title = subject.removeprefix("example ").partition(" ")
        return spec.example(id).title if title else spec.example(id).text
    if subject.startswith("field "):
        return {field.name: field.kind for field in spec.fields}[subject.removeprefix("field ")]
    return spec.rule(subject).check


def _witnesses(spec, erratum):
    """Descriptors of one to three dimensions that the printed rule accepts and the corrected rule refuses."""
    printed, corrected = spec.rule(erratum.subject).check, spec.corrected.rule(erratum.subject).check
    fields = [f.name for f in spec.fields if f.kind == "uint"]
    for count in (1, 2, 3):
        sizes = list(itertools.product((1, 2, 3), repeat=count))
        for data, indices in itertools.product(sizes, sizes):
            for numbers in itertools.product(range(count + 1), repeat=len(fields)):
                tensors = {name: TensorDesc(DataType.FLOAT32, data) for name in spec.field_names("input", "output")}
                tensors["IndicesTensor"] = TensorDesc(DataType.INT64, indices)
                members = {**tensors, **dict(zip(fields, numbers, strict=True))}
                desc = OPERATORS[spec.name].descriptor.from_members(members)
                names = environment(desc.spec(), desc.tensors, desc.numbers)
                if check(printed, names) is None and check(corrected, names) is not None:
                    yield desc


class TestShortForm:
    """What follows from the rest of a spec file may be left out."""

    def test_what_is_left_out(self):
        """Ids, the operator, the page, texts of two checks, and that a rule without a line is derived."""
        text = "OutputTensor.DataType == InputTensor.DataType"
        rules = {
            "C1": {"line": 3, "check": text},
            "D1": {"text": "x", "check": "A == 1"},
            "S1": {"line": 4, "check": "support"},
        }
        whole = completed(
            {"struct": "DML_A_B_OPERATOR_DESC", "page": {"path": "p"}, "rules": rules, "examples": {"1": {}}}
        )
        assert ("DML_OPERATOR_A_B", [{"id": "1"}]) == (whole["operator"], whole["examples"])
        assert ("NS:directml.DML_A_B_OPERATOR_DESC", "p") == (whole["page"]["id"], whole["page"]["path"])
        assert whole["page"]["address"].endswith("/ns-directml-dml_a_b_operator_desc")
        ids = [("A_B.C1", False), ("A_B.D1", True), ("A_B.S1", False)]
        assert ids == [(rule["id"], rule["derived"]) for rule in whole["rules"]]
        texts = ["Output and input have the same data type.", "x"]
        assert texts == [rule["text"] for rule in whole["rules"][:2]]

    def test_what_is_written_stays(self):
        """Nothing that a file says is replaced; the long form, with lists, stays as it is."""
        rule = {"id": "X", "derived": False, "text": "own", "check": "support"}
        assert [rule] == completed({"struct": "S", "rules": {"C1": rule}})["rules"]
        assert [{}] == completed({"struct": "S", "rules": [{}], "operator": 3})["rules"]

    def test_an_older_version(self):
        """It has what its document lacks from that of the newer one, without what names a field that it lacks."""
        newer = {
            "struct": "B",
            "fields": [{"name": "K"}, {"name": "N"}],
            "drawn": "K <= 1\nN <= 2",
            "rules": {
                "C1": {"line": 1, "check": "N == K"},
                "C2": {"line": 2, "check": "N == 1", "also": [{"set": {"K": 1}}, {"set": {"N": 1}}]},
                "C3": {"line": 3, "check": "N > 0"},
            },
        }
        own = {"like": "b", "lacks": ["K"], "struct": "A", "rules": {"C2": {"line": 9}, "C3": False}}
        rules = {"C2": {"line": 9, "check": "N == 1", "also": [{"set": {"N": 1}}]}}
        expected = {"struct": "A", "fields": [{"name": "N"}], "drawn": "N <= 2", "rules": rules}
        assert expected == shared(own, {"b": newer})
        assert {**newer, "struct": "A"} == shared({"like": "b", "struct": "A"}, {"b": newer})
        assert newer is shared(newer, {})

    def test_tables_of_types(self):
        """Tensors that are alike share a text; `to` stands for the types between. Any other text stays, and is refused."""
        tables = [{"tensors": {"A B": "1 to 8: FLOAT16, UINT64 to UINT16", "C": "4: INT8"}}]
        types = ["FLOAT16", "UINT64", "UINT32", "UINT16"]
        expected = {key: {"dimension_counts": [1, 8], "data_types": types} for key in "AB"}
        expected |= {"C": {"dimension_counts": [4, 4], "data_types": ["INT8"]}}
        assert [{"tensors": expected}] == completed({"struct": "S", "support": tables})["support"]
        odd = [{"tensors": {"A": "FLOAT16"}}, {"tensors": {"A": {"data_types": []}}}, {"tensors": 3}, 7]
        assert odd == completed({"struct": "S", "support": odd})["support"]

    @pytest.mark.parametrize("part", ["page", "rules", "errata", "examples", "support", "struct"])
    @pytest.mark.parametrize("value", ["7", "[7]", "{ C1 = 7 }", "{ C1 = { check = 7, line = 1 } }", "'x'"])
    def test_a_wrong_type_is_refused(self, tmp_path, part, value):
        """As an InputError, whatever stands in its place."""
        file = tmp_path / "spec.toml"
        file.write_text(f"{part} = {value}\n", encoding="utf-8")
        with pytest.raises(InputError):
            read_spec(file)


class TestPseudocode:
    """The marks of a spec's pseudocode."""

    def test_derived_lines(self):
        """A derived text has the page's line, or a rule, for each of its lines, and shows it."""
        shown = Pseudocode(1, "a = b\nlong = c", {}, derived=True, lines=(31, "A.D1")).shown
        assert ("a = b     derived from line 31", "long = c  derived from A.D1") == shown
        assert ("a = b",) == Pseudocode(1, "a = b\n", {}).shown
        for lines, derived in (((31,), True), ((31,), False)):
            with pytest.raises(ValueError, match="`lines` must have"):
                Pseudocode(1, "a = b\nc = d", {}, derived=derived, lines=lines)
