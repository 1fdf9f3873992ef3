"""Documentation pages: read in any language, run, and compared with the shipped spec."""

import re
import time
from pathlib import Path

import pytest

from opmap.documentation import Finding, contradictions, differences, read_page, review_page
from opmap.documentation.blocks import Block, original, read_blocks, visible
from opmap.documentation.equivalence import same_formula
from opmap.documentation.prose import ProseReader
from opmap.errors import InputError
from opmap.limits import MAX_PAGE_BYTES
from opmap.spec import all_specs, load_spec

PAGES = {path.name: path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("pages/*-*.*")}
ENGLISH = {
    "gather": "GATHER",
    "gather_elements": "GATHER_ELEMENTS",
    "gather_nd": "GATHER_ND",
    "gather_nd1": "GATHER_ND1",
}


def page(name: str) -> str:
    return PAGES[name if name in PAGES else f"{name}.en-US.md"]


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """The text with each change made at every place where it stands, which must be at least one."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def new(text: str, known: str) -> list[Finding]:
    """What is found in a changed page and not in the page as it is."""

    def told(finding: Finding) -> tuple:
        return finding.kind, finding.subject, finding.erratum, re.sub(r"line \d+", "line", finding.message)

    before = set(map(told, review_page(known, "page")))
    return [finding for finding in review_page(text, "page") if told(finding) not in before]


class TestThePages:
    """Each page's own text gives its errata, and nothing else."""

    @pytest.mark.parametrize(
        "expected, name",
        [
            ([(77, "GATHER.E3"), (109, "GATHER.E1"), (151, "GATHER.E1"), (162, "GATHER.E2")], "gather.en-US.md"),
            ([(42, "GATHER.E3"), (69, "GATHER.E1"), (107, "GATHER.E1"), (118, "GATHER.E2")], "gather.ja-JP.txt"),
            ([(98, "GATHER_ELEMENTS.E1")], "gather_elements.en-US.md"),
            ([(126, "GATHER_ELEMENTS.E1"), (139, None)], "gather_elements.es-ES.md"),
            ([(126, "GATHER_ELEMENTS.E1"), (139, None)], "gather_elements.zh-TW.md"),
            (
                [(72, "GATHER_ND.E2"), (96, "GATHER_ND.E1"), (125, "GATHER_ND.E3"), (143, "GATHER_ND.E1")],
                "gather_nd.en-US.md",
            ),
            (
                [
                    (100, "GATHER_ND.E2"),
                    (124, "GATHER_ND.E1"),
                    (155, "GATHER_ND.E3"),
                    (173, "GATHER_ND.E1"),
                    (189, None),
                ],
                "gather_nd.pt-BR.md",
            ),
            (
                [(72, "GATHER_ND1.E2"), (96, "GATHER_ND1.E1"), (135, "GATHER_ND1.E3"), (165, "GATHER_ND1.E1")],
                "gather_nd1.en-US.md",
            ),
        ],
    )
    def test_errata(self, expected, name):
        assert expected == [(f.line, f.erratum) for f in review_page(page(name), name)]

    def test_there_are_eight(self):
        assert 8 == len(PAGES)

    @pytest.mark.parametrize("name", [name for name in PAGES if name.split(".")[1] in ("es-ES", "zh-TW", "pt-BR")])
    def test_a_missing_table_is_a_difference(self, name):
        (finding,) = [f for f in review_page(page(name), name) if f.erratum is None]
        assert ("difference", "support 4_1") == (finding.kind, finding.subject)
        assert "no table for DML_FEATURE_LEVEL_4_1" in finding.message

    @pytest.mark.parametrize("name", PAGES)
    def test_every_range_and_formula_is_the_pages_own(self, name):
        """What no page says in words that can be read is the `except Axis` of GATHER_ELEMENTS."""
        assert set(read_page(page(name), name=name).assumed) <= {"GATHER_ELEMENTS.C4"}

    @pytest.mark.parametrize("name, operator", ENGLISH.items())
    def test_a_page_is_the_printed_spec(self, name, operator):
        """Read from the page: the same formulas, lines, tables and examples as the spec files hold."""
        spec, shipped = read_page(page(name), name=name).spec, load_spec(operator)
        for theirs, ours in zip(spec.rules, shipped.rules, strict=True):
            assert theirs.check == ours.check or same_formula(theirs.check, ours.check)
        assert [t.tensors for t in spec.support] == [t.tensors for t in shipped.support]
        assert [e.parsed() for e in spec.examples] == [e.parsed() for e in shipped.examples]
        assert [e.title for e in spec.examples] == [e.title for e in shipped.examples]
        assert (spec.pseudocode.line, spec.lines) == (shipped.pseudocode.line, shipped.lines)
        assert [(s.feature_level, s.line) for s in spec.support] == [(s.feature_level, s.line) for s in shipped.support]

    def test_messages_say_what_follows_from_what(self):
        found = {f.erratum: f.message for f in review_page(page("gather"), "gather")}
        assert found["GATHER.E2"] == (
            "example 3: OutputTensor.Sizes: the formula on line 80 gives {3,1,2}, which does not fit 2 dimensions; "
            "the example has {3,2}"
        )
        assert "InputTensor.DimensionCount = 1; the example has FLOAT32" in found["GATHER.E3"]


class TestTheShippedSpecs:
    """The errata of the spec files are computed from their text, not asserted."""

    @pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
    def test_contradictions_are_the_errata(self, spec):
        assert {e.id for e in spec.errata if e.kind == "contradiction"} == {f.erratum for f in contradictions(spec)}

    @pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
    def test_the_corrected_ones_have_none(self, spec):
        assert () == contradictions(spec.corrected)

    @pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
    def test_neither_differs_from_itself(self, spec):
        assert () == differences(spec, spec) == differences(spec.corrected, spec)


WRONG = "The *DimensionCount* and *DataType* of this tensor must match *InputTensor.DimensionCount*."
TUPLE = "InputTensor.DimensionCount - indexTupleSize)"
CORRECTIONS = {
    "gather": [
        ("[0, `IndicesTensor.DimensionCount`)", "[0, `IndicesTensor.DimensionCount`]"),
        (
            "Axis: 1\nIndexDimensions: 2\n\nInputTensor: (Sizes:{3,2}",
            "Axis: 1\nIndexDimensions: 1\n\nInputTensor: (Sizes:{3,2}",
        ),
    ],
    "gather_elements": [
        ("OutputTensor: (Sizes:{2,3}, DataType:UINT32)", "OutputTensor: (Sizes:{2,3}, DataType:FLOAT32)")
    ],
    "gather_nd": [
        (TUPLE, "InputTensor.DimensionCount - InputDimensionCount + indexTupleSize)"),
        ("input[indices[y], x]", "input[indices[y, 0], x]"),
    ],
    "gather_nd1": [
        (TUPLE, "InputTensor.DimensionCount - InputDimensionCount + BatchDimensionCount + indexTupleSize)"),
        ("input[indices[y], x]", "input[indices[y, 0], x]"),
    ],
}
GAPS = {
    "gather_nd": [("cannot exceed *InputTensor.DimensionCount*", "cannot exceed *InputDimensionCount*")],
    "gather_nd1": [
        ("cannot exceed *InputTensor.DimensionCount*", "cannot exceed *InputDimensionCount* - *BatchDimensionCount*"),
        ("[0, *InputTensor.DimensionCount*) … [0, *IndicesTensor.DimensionCount*)",
         "[0, *InputDimensionCount*) and [0, *IndicesDimensionCount*)"),
    ],
}  # fmt: skip
RIGHT = [
    "The *DimensionCount* and *DataType* of this tensor must match *InputTensor.DimensionCount* and *InputTensor.DataType*.",
    "The *DimensionCount* of this tensor must match *InputTensor.DimensionCount*, and its *DataType* must match"
    " *InputTensor.DataType*.",
    "The *DimensionCount* of this tensor must match *InputTensor.DimensionCount*. The *DataType* must match"
    " *InputTensor.DataType*.",
    "The *DataType* must match *InputTensor.DataType*, and *DimensionCount* must match *InputTensor.DimensionCount*.",
    "The *DimensionCount* and *DataType* of this tensor must match those of *InputTensor*.",
    "The *DimensionCount* and *DataType* of this tensor must match the *DimensionCount* and *DataType* of *InputTensor*.",
    "The *DimensionCount* and *DataType* of this tensor must match *InputTensor*'s *DimensionCount* and *DataType*.",
    "The *DimensionCount* and *DataType* of this tensor must match *InputTensor.DimensionCount* and *DataType*.",
    "*DataType* and *DimensionCount* must be the same as `InputTensor.DataType` and `InputTensor.DimensionCount`, respectively.",
    "*OutputTensor.DimensionCount* must match *InputTensor.DimensionCount*, *OutputTensor.DataType* *InputTensor.DataType*.",
    "The *DataType* of this tensor must match the input's, and its *DimensionCount* must match *InputTensor.DimensionCount*.",
    "The *DataType* is that of *InputTensor*, and the *DimensionCount* must match *InputTensor.DimensionCount*.",
    "The *DimensionCount* of this tensor must match *InputTensor.DimensionCount*.",
    "This tensor must have the same *DimensionCount* and *DataType* as *InputTensor*.",
    "…",
]


class TestCorrectedPages:
    """A page whose errata are put right gives nothing."""

    def corrected(self, name: str, wording: str = RIGHT[0]) -> str:
        prose = [(WRONG, wording)] if WRONG in page(name) else []
        return replaced(page(name), *CORRECTIONS[name], *prose)

    @pytest.mark.parametrize("name", ENGLISH)
    def test_errata(self, name):
        assert () == review_page(self.corrected(name), name)

    @pytest.mark.parametrize("name", GAPS)
    def test_gaps_too(self, name):
        assert () == review_page(replaced(self.corrected(name), *GAPS[name]), name)

    @pytest.mark.parametrize("wording", RIGHT)
    @pytest.mark.parametrize("name", ["gather", "gather_nd", "gather_nd1"])
    def test_words_for_the_data_type(self, name, wording):
        assert () == review_page(self.corrected(name, wording), name)

    def test_an_erratum_that_is_left_is_found(self):
        for name, changes in CORRECTIONS.items():
            for change in changes:
                text = self.corrected(name).replace(change[1], change[0], 1)
                assert review_page(text, name), change

    def test_another_way_to_write_the_formula(self):
        """Names for parts and the order of terms do not matter, wrong sums do."""
        for formula, right in [
            ("InputTensor.DimensionCount + indexTupleSize - InputDimensionCount)", True),
            ("InputTensor.DimensionCount - (InputDimensionCount - indexTupleSize))", True),
            ("InputTensor.DimensionCount - InputDimensionCount - indexTupleSize)", False),
        ]:
            text = replaced(page("gather_nd"), (TUPLE, formula), *CORRECTIONS["gather_nd"][1:], (WRONG, RIGHT[0]))
            assert right == (not review_page(text, "page")), formula

    def test_formula_without_the_batches(self):
        """ND's correction is not enough for ND1: the page's second example shows it."""
        text = replaced(page("gather_nd1"), (TUPLE, CORRECTIONS["gather_nd"][0][1]))
        found = [f for f in review_page(text, "page") if f.erratum is None]
        assert {"contradiction", "difference"} == {f.kind for f in found}
        assert ["example 2"] == [f.subject for f in found if f.kind == "contradiction"]

    def test_coordinates_under_other_names(self):
        text = replaced(
            self.corrected("gather_nd"),
            ("output[y, x] = input[indices[y, 0], x]", "output[i, j] = input[indices[i, 0], j]"),
        )
        assert () == review_page(text, "page")

    def test_windows_line_ends(self):
        assert review_page(page("gather"), "x") == review_page(page("gather").replace("\n", "\r\n"), "x")


class TestPlantedChanges:
    """A fact that is changed is found, on its line."""

    @pytest.mark.parametrize(
        "kinds, subject, marker, name, change",
        [
            # values, of examples with and without an erratum of their own
            ("cd", "example 1", "[14,12,14,11,12]", "gather", ("[14,12,14,11,13]", "[14,12,14,11,12]")),
            ("cd", "example 2", "     [3,7], // input row 1", "gather", ("[3,4], // input row 1\n     [5", "[3,7], // input row 1\n     [5")),
            ("cd", "example 2", "     [9,4], // input row 1\n", "gather", ("[3,4], // input row 1\n     [5", "[9,4], // input row 1\n     [5")),
            ("d", "example 3", "     [4,9],", "gather", ("     [4,3],", "     [4,9],")),
            ("cd", "example 1", "    [[2,3],[0,8]]", "gather_nd", ("    [[2,3],[0,1]]", "    [[2,3],[0,8]]")),
            ("cd", "example 1", "    [[4, 8, 5], // select", "gather_elements", ("[[4, 8, 3]", "[[4, 8, 5]")),
            ("cd", "example 2", "     [3,7], // input row 1", "gather.ja-JP.txt", ("[3,4], // input row 1\n     [5", "[3,7], // input row 1\n     [5")),
            ("cd", "example 1", "    [[4, 8, 5], // select", "gather_elements.zh-TW.md", ("[[4, 8, 3]", "[[4, 8, 5]")),
            # a value lost, a size changed, a type changed
            ("c", "example 1", "OutputTensor: (Sizes:{5}, DataType:FLOAT32)", "gather", ("[14,12,14,11,13]", "[14,12,14,11]")),
            ("c", "example 1", "InputTensor: (Sizes:{3}, DataType:FLOAT32)", "gather", ("(Sizes:{4}, ", "(Sizes:{3}, ")),
            ("cd", "example 4", "IndicesTensor: (Sizes:{1, 1,2}, DataType:FLOAT16)", "gather", ("{1, 1,2}, DataType:UINT32", "{1, 1,2}, DataType:FLOAT16")),
            ("cd", "example sizes", "OutputTensor.Sizes = {1, 1,2,6,6}", "gather_nd", ("{1, 1,2,6,7}", "{1, 1,2,6,6}")),
            # a swapped axis
            ("cd", "example 4", "OutputTensor: (Sizes:{3,1,2}, DataType:FLOAT32)", "gather", ("Axis: 2\n", "Axis: 1\n")),
            ("cd", "example 1", "IndicesTensor: (Sizes:{2,3}, DataType:UINT32)", "gather_elements", ("Axis = 0\n", "Axis = 1\n")),
            # ranges
            ("d", "GATHER.F1", "… *InputTensor* … `[0, *InputTensor.DimensionCount*]`.", "gather", ("`[0, *InputTensor.DimensionCount*)`", "`[0, *InputTensor.DimensionCount*]`")),
            ("cd", "GATHER_ND.F1", "### -field InputDimensionCount", "gather_nd", ("`[1, *InputTensor.DimensionCount*]`", "`[4, *InputTensor.DimensionCount*]`")),
            # constraints
            ("cd", "line 215", "* *InputTensor* and *IndicesTensor* must have the same *DataType*.", "gather", ("* *InputTensor* and *OutputTensor* must have the same *DataType*.", "* *InputTensor* and *IndicesTensor* must have the same *DataType*.")),
            ("d", "GATHER_ND.C5", "cannot exceed *OutputTensor.DimensionCount*", "gather_nd", ("cannot exceed *InputTensor.DimensionCount*", "cannot exceed *OutputTensor.DimensionCount*")),
            ("cd", "GATHER_ELEMENTS.C5", "*Sizes* must match *InputTensor.Sizes*, and", "gather_elements", ("*Sizes* must match *IndicesTensor.Sizes*, and", "*Sizes* must match *InputTensor.Sizes*, and")),
            # the size formula, the pseudocode, an expanded line
            ("cd", "GATHER.C5", "OutputTensor.Sizes = {", "gather", ("InputTensor.Sizes[0..Axis]", "InputTensor.Sizes[1..Axis]")),
            ("cd", "pseudocode", "output[...] = input[indices[...], ..., ...]", "gather", ("input[..., indices[...], ...]", "input[indices[...], ..., ...]")),
            ("cd", "example 4", "// output[z, y, x] = input[y, indices[z, x]]", "gather", ("input[z, indices[y, x]]", "input[y, indices[z, x]]")),
            # tables
            ("d", "support 1_0", "| InputTensor | Input | 4 | FLOAT32 |", "gather", ("4 | FLOAT32, FLOAT16 |\n| IndicesTensor", "4 | FLOAT32 |\n| IndicesTensor")),
            ("d", "support 2_1", "| IndicesTensor | Input | 4 | UINT32, INT32 |", "gather", ("| Input | 4 | UINT32 |", "| Input | 4 | UINT32, INT32 |")),
            ("d", "support 3_0", "| OutputTensor | Output | 1 to 7 | FLOAT32,", "gather", ("| Output | 1 to 8 | FLOAT32,", "| Output | 1 to 7 | FLOAT32,")),
            ("cd", "support 3_0", "IndicesTensor 入力 1 から 8 INT64、INT32、UINT64", "gather.ja-JP.txt", ("INT64、INT32、UINT64、UINT32\n", "INT64、INT32、UINT64\n")),
        ],
    )  # fmt: skip
    def test_one_change(self, kinds, subject, marker, name, change):
        text = replaced(page(name), change)
        found = new(text, page(name))
        assert set(kinds) == {f.kind[0] for f in found}
        lines = {i for i, line in enumerate(text.split("\n"), 1) if marker in f"{line}\n"}
        assert lines and any(f.line in lines or subject == "GATHER_ND.F1" for f in found)
        assert subject in {f.subject for f in found}
        assert all(f.erratum is None for f in found if f.kind == "difference")

    @pytest.mark.parametrize("id", "1245")
    def test_a_removed_example(self, id):
        text = page("gather")
        start = text.index("```\nAxis", text.index(f"### Example {id}."))
        text = text[:start] + text[text.index("\n```\n", start + 4) + 5 :]
        (finding,) = [f for f in new(text, page("gather")) if f.kind == "difference"]
        assert (f"example {id}", f"example {id}: missing") == (finding.subject, finding.message)

    @pytest.mark.parametrize("name", ["gather", "gather.ja-JP.txt"])
    def test_removed_with_its_title(self, name):
        text = page(name)
        marks = ("### Example 2.", "### Example 3.") if name == "gather" else ("例 2.", "例 3.")
        text = text[: text.index(marks[0])] + text[text.index(marks[1]) :]
        assert ["example 2: missing"] == [f.message for f in new(text, page(name)) if f.kind == "difference"]

    def test_a_removed_table(self):
        text = page("gather")
        text = text[: text.index("### DML_FEATURE_LEVEL_2_1")] + text[text.index("### DML_FEATURE_LEVEL_1_0") :]
        assert ["support 2_1"] == [f.subject for f in new(text, page("gather"))]

    def test_removed_pseudocode_and_formula(self):
        text = replaced(page("gather"), ("output[...] = input[..., indices[...], ...]\n", ""))
        assert ["pseudocode"] == [f.subject for f in new(text, page("gather"))]
        start = text.index("OutputTensor.Sizes = {")
        text = text[:start] + text[text.index("}", text.index("(Axis+1)")) + 1 :]
        assert {"pseudocode", "GATHER.C5"} == {f.subject for f in new(text, page("gather")) if f.kind == "difference"}

    @pytest.mark.parametrize(
        "old, wrong, subject",
        [
            ("output[...] = input[..., indices[...], ...]", "output[...] = input[..., indices[...], ...", "pseudocode"),
            ("InputTensor.Sizes[0..Axis],", "InputTensor.Sizes[0..Axis,", "size formula"),
            ("InputTensor: (Sizes:{4}, DataType:FLOAT32)", "InputTensor: (Sizes:{4, DataType:FLOAT32)", "example 1"),
        ],
    )
    def test_what_cannot_be_read(self, old, wrong, subject):
        text = replaced(page("gather"), (old, wrong))
        (line,) = [i for i, line in enumerate(text.split("\n"), 1) if wrong in line]
        assert (line, subject) in [(f.line, f.subject) for f in new(text, page("gather")) if f.kind == "unreadable"]

    def test_the_translation_is_read_as_well_as_the_original(self):
        """A cell that is changed in the visible text only, or in the hidden one only."""
        text = page("gather_nd.pt-BR.md")
        cell = "INT64, INT32, UINT64, UINT32</span>"
        first = text.index(cell)
        for at in (first, text.index(cell, first + 1)):
            changed = text[:at] + text[at:].replace("INT64, INT32", "INT64", 1)
            (finding,) = new(changed, text)
            assert ("support 3_0", text.count("\n", 0, at) + 1) == (finding.subject, finding.line)
            assert finding.message.endswith("IndicesTensor lacks INT32")

    def test_wrong_pseudocode_is_told_once(self):
        """Once for each example that it does not fit, and not once more for the values that it gives."""
        text = replaced(page("gather"), ("input[..., indices[...], ...]", "input[indices[...], ..., ...]"))
        found = [(f.kind, f.subject) for f in new(text, page("gather"))]
        assert [("difference", "pseudocode"), ("contradiction", "example 4")] == found

    def test_a_lost_heading(self):
        """Two tables under one feature level."""
        text = replaced(page("gather"), ("### DML_FEATURE_LEVEL_3_0 and above\n", "\n"))
        found = [(f.kind, f.subject.removesuffix("tputTensor")) for f in new(text, page("gather"))]
        assert {("contradiction", "support 4_1 Ou"), ("difference", "support 3_0")} <= set(found)

    def test_an_erratum_without_the_constraints_that_say_it_right(self):
        text = page("gather")
        text = text[: text.index("## Tensor constraints")] + text[text.index("## Tensor support") :]
        assert ["GATHER.E3"] == [f.erratum for f in review_page(text, "page") if f.subject == "GATHER.C4"]

    def test_a_changed_struct(self):
        text = replaced(page("gather_nd.pt-BR.md"), ("  UINT                  InputDimensionCount;\n", ""))
        assert ["field InputDimensionCount"] == [f.subject for f in new(text, page("gather_nd.pt-BR.md"))]

    def test_one_broken_rule_is_one_finding(self):
        """What every example contradicts is told once, on the line of the rule."""
        found = [f for f in review_page(page("gather"), "x") if f.erratum == "GATHER.E3"]
        assert [("GATHER.C4", 77)] == [(f.subject, f.line) for f in found]


class TestBlocks:
    """A page as blocks, Markdown or not."""

    def test_markdown(self):
        text = "---\nUID: x\n---\n# One\n\ntext\n\n```\ncode\n```\n\n| a | b |\n| - | - |\n| 1 | 2 |\n"
        blocks = [b for b in read_blocks(text) if b.text.strip("| -")]
        assert [("heading", 4), ("text", 6), ("code", 9), ("row", 12), ("row", 14)] == [
            (b.kind, b.line) for b in blocks
        ]
        assert "1 | 2" == blocks[-1].text

    @pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
    def test_code_without_fences(self, ends):
        text = "prose\n\nAxis: 0\n\nT: (Sizes:{1}, DataType:A)\n    [1] // x\n\nmore prose\nS = {\n  1\n}\nend".replace(
            "\n", ends
        )
        assert [("text", 1), ("code", 3), ("text", 8), ("code", 9), ("text", 12)] == [
            (b.kind, b.line) for b in read_blocks(text)
        ]

    def test_an_entry_given_again_starts_another_block(self):
        text = "Axis: 0\nT: (Sizes:{1}, DataType:A)\n[1]\n\nAxis: 1\nT: (Sizes:{1}, DataType:A)\n[2]\noutput[x] = input[x]\n"
        assert [("code", 1), ("code", 5), ("code", 8)] == [(b.kind, b.line) for b in read_blocks(text)]

    def test_a_byte_order_mark(self):
        text = "\ufeffUID: NS:directml.DML_GATHER_OPERATOR_DESC\n# DML_SCATTER_OPERATOR_DESC is another\n"
        assert "GATHER" == read_page(text, name="x").spec.name

    @pytest.mark.parametrize(
        "one, other, text",
        [
            ("hidden", "shown", '<span>shown</span><span class="sxs-lookup"><span>hidden</span></span>'),
            ("A. B.", "a. b.", '<span>a.</span><span class="sxs-lookup">A.</span> <span>b.</span><span class="sxs-lookup">B.</span>'),
            ("only", "only", "<span>only</span>"),
            ("aB", "ab", '<span>a</span><span>b</span><span class="sxs-lookup">B</span>'),
            ("a < b", "a < b", "a < b"),
            ("x & y", "x & y", "<em>x</em> &amp; <a name=1></a>y"),
        ],
    )  # fmt: skip
    def test_text_that_stands_twice(self, one, other, text):
        block = Block("text", 1, text)
        assert (one, other) == (original(block).text, visible(block).text)


class TestProse:
    """Sentences, read by the names in them."""

    @pytest.mark.parametrize(
        "expected, field, sentence",
        [
            ("O.DC == I.DC, O.DT == I.DC", "OutputTensor", WRONG),
            ("O.DC == I.DC, O.DT == I.DC", "OutputTensor", "このテン ソルの DimensionCountDataType、InputTensor.DimensionCount と一致する必要があります。"),
            ("O.DC == I.DC", "OutputTensor", "O *DimensionCount* e o *tipo de dados* desse tensor devem corresponder a *InputTensor. DimensionCount*."),
            ("X.DC == I.DC", "IndicesTensor", "このテン ソルの DimensionCountInputTensor.DimensionCount と一致する必要があります。"),
            ("O.DC == I.DC, O.DT == I.DT", "OutputTensor", RIGHT[0]),
            ("X.DC == I.DC, O.DC == I.DC", None, "`IndicesTensor`, *InputTensor*, and *OutputTensor* must have the same *DimensionCount*."),
            ("X.DC == I.DC, O.DC == I.DC", None, "IndicesTensorInputTensorおよび OutputTensor には、同じ DimensionCount が必要です。"),
            ("", None, "*InputTensor* y *OutputTensor* deben tener el mismo *tipo de texto*."),
            ("", "IndicesTensor", "The *Sizes* must match *InputTensor.Sizes* for every dimension except *Axis*."),
            ("", "Axis", WRONG),
            ("", None, WRONG),
        ],
    )  # fmt: skip
    def test_equalities(self, expected, field, sentence):
        words = ProseReader(load_spec("GATHER"))
        found = ", ".join(f"{e.left} == {e.right}" for e in words.equalities(words.plain(sentence), field))
        for long, short in (
            ("InputTensor", "I"),
            ("IndicesTensor", "X"),
            ("OutputTensor", "O"),
            ("DimensionCount", "DC"),
            ("DataType", "DT"),
        ):
            found = found.replace(long, short)
        assert expected == found

    @pytest.mark.parametrize(
        "expected, text",
        [
            (["[0, InputTensor.DimensionCount)"], "ranging `[0, *InputTensor.DimensionCount*)`."),
            (["[1, IndicesTensor.DimensionCount]"], "variando [1, *IndicesTensor. DimensionCount*]."),
            (["[0, InputTensor.DimensionCount)", "[0, Axis + 1]"], "both [0, *InputTensor.DimensionCount*) and [0, *Axis* + 1]"),
            ([], "[**UINT**](/windows/desktop), [0, 1], [0, *Axes*), {1, 2}, [text, Axis](link)"),
        ],
    )  # fmt: skip
    def test_intervals(self, expected, text):
        assert expected == [interval for _, interval in ProseReader(load_spec("GATHER")).intervals(text)]

    @pytest.mark.parametrize(
        "expected, sentence",
        [
            ("InputTensor.DimensionCount", "and it cannot exceed *InputTensor.DimensionCount*."),
            ("InputDimensionCount - BatchDimensionCount", "it must not exceed *InputDimensionCount* minus *BatchDimensionCount*."),
            (None, "it cannot exceed the number of meaningful dimensions."),
            (None, "não pode exceder *InputTensor. DimensionCount*."),
        ],
    )  # fmt: skip
    def test_bounds(self, expected, sentence):
        words = ProseReader(load_spec("GATHER_ND1"))
        assert expected == words.bound(words.plain(sentence))


class TestSameFormula:
    """Formulas that say the same in other words."""

    @pytest.mark.parametrize(
        "expected, one, other",
        [
            (True, "A in [0, B.DimensionCount)", "A in [0,B.DimensionCount)"),
            (False, "A in [0, B.DimensionCount)", "A in [0, B.DimensionCount]"),
            (True, "T.Sizes = {S.Sizes[(a+1) .. b]}", "T.Sizes = {S.Sizes[(1 + a) .. b]}"),
            (True, "k = S.Sizes[0]\nT.Sizes = {k - 1}", "T.Sizes = {S.Sizes[0] - 1}"),
            (True, "a.Sizes == b.Sizes", "a.Sizes = b.Sizes"),
            (False, "a.Sizes = {1..., b}", "a.Sizes = {1, b}"),
            (False, "a == b + c", "a == b - c"),
            (False, "a <= b", "a < b"),
            (False, "a <= b", "a <= )"),
        ],
    )
    def test_pairs(self, expected, one, other):
        assert expected == same_formula(one, other)


UID = "UID: NS:directml.DML_GATHER_OPERATOR_DESC\n"
ENTRY = "InputTensor: (Sizes:{1}, DataType:FLOAT32)\n"


class TestHostileInput:
    """Pages come from outside: one clear line, never a traceback, and no long wait."""

    @pytest.mark.parametrize(
        "wanted, text",
        [
            ("must name its operator", ""),
            ("must name its operator", "\0" * 100),
            ("must name its operator", "# A page about nothing\n"),
            ("DML_SCATTER_OPERATOR_DESC; known are DML_GATHER_OPERATOR_DESC", "# DML_SCATTER_OPERATOR_DESC structure"),
            ("…; known are", "# DML_" + "A" * 500 + "_OPERATOR_DESC"),
            (f"at most {MAX_PAGE_BYTES} bytes, got {MAX_PAGE_BYTES + 1}", "a" * (MAX_PAGE_BYTES + 1)),
        ],
    )
    def test_no_page(self, wanted, text):
        with pytest.raises(InputError) as raised:
            review_page(text, "some.md")
        assert str(raised.value).startswith("some.md: ") and wanted in str(raised.value)
        assert "\n" not in str(raised.value) and len(str(raised.value)) < 400

    @pytest.mark.parametrize(
        "text",
        [
            UID + "```\nAxis: 0\n" + ENTRY + "[" * 200_000 + "]" * 200_000,
            UID + "```\nOutputTensor.Sizes = {" + "(" * 1500 + "Axis" + ")" * 1500 + "}",
            UID
            + "```\na = {1,1,1,1,1,1,1,1}\n"
            + "a = {a,a,a,a,a,a}\n" * 60
            + "OutputTensor.Sizes = {a}\n```\n"
            + page("gather"),
            UID
            + "```\n"
            + "".join(f"a{i + 1} = InputTensor.Sizes[a{i}] + a{i}\n" for i in range(90))
            + "OutputTensor.Sizes = {a9}",
            UID + "```\nAxis: " + "9" * 5000 + "\nIndexDimensions: 1\n```",
            UID + "```\n" + "".join(f"{t}Tensor.Sizes = {{{'9' * 4000}}}\n" for t in ("Input", "Indices", "Output")),
            UID + "```\nOutputTensor.Sizes = 5\n```\n" + page("gather"),
            UID + "```\nOutputTensor.Sizes = {Axis[0], InputTensor.DataType}\n```\n" + page("gather"),
            UID + "```\noutput[...] = input[" + ",".join(f"a{i}" for i in range(40)) + "]\n```\n" + page("gather"),
            UID + "<span>a" * 100_000,
            UID + "# -field OutputTensor\n\n" + "DataType DimensionCount InputTensor.DimensionCount " * 15_000,
            UID + "# -field Axis\n\n" + "[0, " * 200_000,
            UID + "```\nInputTensor.Sizes = {1}\n```\n" * 20_000,
            UID + "```\nstruct DML_GATHER_OPERATOR_DESC {\n" + "UINT a;\n" * 90_000,
            UID + "DML_FEATURE_LEVEL_1_0\n" + "InputTensor 4 FLOAT32\n" * 30_000,
            UID + "output[" + "=a[" * 250_000,
            UID + ">" * 900_000,
            UID + "\ud800" * 100,
        ],
        ids=range(18),
    )
    def test_strange_pages(self, text):
        start = time.perf_counter()
        assert all("\n" not in str(f) and len(str(f)) < 600 for f in review_page(text, "some.md"))
        assert time.perf_counter() - start < 20

    @pytest.mark.parametrize("name", PAGES)
    def test_pages_cut_anywhere(self, name):
        for end in range(0, len(page(name)), 997):
            try:
                review_page(page(name)[:end], name)
            except InputError:
                assert end < 2000
