"""What is found wrong with a documentation page: its contradictions, and its differences from the shipped spec."""

import re
from functools import cache

import msgspec
import pytest
from documentation_pages import ENGLISH, PAGES, RIGHT, WRONG, page, replaced, review_page

from opmap.documentation import Finding, contradictions, differences, read_page
from opmap.documentation.equivalence import same_formula
from opmap.documentation.examples import facts, parsed
from opmap.documentation.page import PageSpec
from opmap.spec import all_specs, load_spec


def content(finding: Finding) -> tuple:
    """A finding without line numbers, which a change further up moves."""
    return finding.kind, finding.subject, finding.erratum, re.sub(r"line \d+", "line", finding.message)


ARITHMETIC = (
    "max",
    "min",
    "add",
    "subtract",
    "multiply",
    "divide",
    "modulus_floor",
    "modulus_truncate",
    "difference_square",
)
COMPARISONS = "equals", "greater_than", "less_than", "greater_than_or_equal", "less_than_or_equal"


@cache
def contents(text: str) -> set[tuple]:
    """The findings of a page, without line numbers."""
    return set(map(content, review_page(text, "page")))


def new(changed_text: str, text: str) -> list[Finding]:
    """The findings of a changed page that the page itself does not have."""
    return [finding for finding in review_page(changed_text, "page") if content(finding) not in contents(text)]


class TestThePages:
    """Each page's own text gives its errata and no other finding."""

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
            ([(112, "SCATTER.E1"), (120, "SCATTER.E2")], "scatter.en-US.md"),
            (
                [
                    *((91, "SCATTER_ND.E3"), (98, "SCATTER_ND.E1"), (122, "SCATTER_ND.E6"), (125, "SCATTER_ND.E5")),
                    *((125, "SCATTER_ND.E4"), (133, "SCATTER_ND.E2")),
                ],
                "scatter_nd.en-US.md",
            ),
            ([(151, "SLICE1.E2"), (153, "SLICE1.E1")], "slice1.en-US.md"),
            ([(80, "TILE.E1")], "tile.en-US.md"),
            (
                [(88, "REVERSE_SUBSEQUENCES.E1"), (109, "REVERSE_SUBSEQUENCES.E2")],
                "reverse_subsequences.en-US.md",
            ),
            ([(129, "DIAGONAL_MATRIX1.E1")], "diagonal_matrix1.en-US.md"),
            ([(50, "ELEMENT_WISE_IF.E1")], "element_wise_if.en-US.md"),
            ([(75, "ELEMENT_WISE_BIT_XOR.E1")], "element_wise_bit_xor.en-US.md"),
            ([(87, "NONZERO_COORDINATES.E1")], "nonzero_coordinates.en-US.md"),
            *(([], f"{name}.en-US.md") for name in ("split", "join", "one_hot", "depth_to_space1", "padding1")),
        ],
    )
    def test_errata(self, expected, name):
        """Line and erratum of every finding; a finding without an erratum is a missing table."""
        assert expected == [(f.line, f.erratum) for f in review_page(page(name), name)]

    @pytest.mark.parametrize("name", PAGES)
    def test_every_range_and_formula_is_the_pages_own(self, name):
        """The only rules that no page states in readable words are the `except Axis` of GATHER_ELEMENTS and SCATTER.

        A known gap: of the pages about arrays of numbers, the prose is not read. Words such as "this value must match
        the DimensionCount of both tensors", and constraints of each element `[i]`, need forms of their own; so do names
        of dimensions in braces.
        """
        unread = {
            "slice1": "C1 C2 C3 C4 F1 C5 F2",
            "tile": "C1 C2 C3 F1 C5",
            "reverse_subsequences": "F1 C4 C5",
            "depth_to_space1": "C1 C2 C4",
            "space_to_depth1": "C1 C2",
            "padding1": "C1 C2 C3 C4 C5 C7",
            "diagonal_matrix1": "C3",
            "split": "F1 C1 C4 C5",
            "join": "F1 C1 C4 C5",
            "one_hot": "F1 C4 C5",
            "element_wise_if": "C1 C2 C3 C6 C7 C8",
            **dict.fromkeys(("cumulative_summation", "cumulative_product"), "F1"),
            **dict.fromkeys(("argmin", "argmax"), "C2 F1 C3"),
            "element_wise_quantize_linear": "C1 C2 C3 C4 C5 C6 C9",
            "element_wise_dequantize_linear": "C1 C2 C3 C4 C5 C6",
            "reduce": "C4 C2 F1 C3",
            "nonzero_coordinates": "C1 C2 C3 C4",
            "activation_hardmax": "C4",
            "activation_hardmax1": "C4 F1",
            **dict.fromkeys(("top_k", "top_k1"), "F1 C4 C5"),
            "matrix_multiply_integer": "C6 C5 C7 C8",
            "convolution_integer": "C1 C2 C3 C8 C7 C9",
            **{"max_pooling": "C1 C3 C4 C5 C6", "max_pooling1": "C1 C2 C4 C5 C6 C7", "max_pooling2": "C1 C2 C4 C5 C7"},
            **{f"element_wise_bit_{n}": "C1 C2 C3 C4 C5 C6" for n in ("and", "or", "xor", "shift_left", "shift_right")},
            **{f"element_wise_logical_{n}": "C1 C2 C3 C4 C5 C6" for n in ("and", "or", "xor")},
            **{f"element_wise_{n}": "C1 C2 C3 C4 C5 C6" for n in ARITHMETIC},
            **{f"element_wise_logical_{n}": "C1 C2 C4 C5" for n in COMPARISONS},
        }.get(name.split(".")[0])
        if unread:
            operator = ENGLISH[name.split(".")[0]]
            assert [f"{operator}.{rule}" for rule in unread.split()] == list(read_page(page(name), name=name).assumed)
            return
        assert set(read_page(page(name), name=name).assumed) <= {"GATHER_ELEMENTS.C4", "SCATTER.C6"}

    @pytest.mark.parametrize("name, operator", ENGLISH.items())
    def test_a_page_is_the_printed_spec(self, name, operator):
        """The page gives the same formulas, pseudocode, tables and examples as the spec file holds."""
        spec, shipped = read_page(page(name), name=name).spec, load_spec(operator)
        for page_rule, shipped_rule in zip(spec.rules, shipped.rules, strict=True):
            assert page_rule.check == shipped_rule.check or same_formula(page_rule.check, shipped_rule.check)
        assert [t.tensors for t in spec.support] == [t.tensors for t in shipped.support]
        printed = [e for e in shipped.examples if not e.derived]
        assert [facts(e) for e in spec.examples] == [facts(e) for e in printed]
        assert [e.title for e in spec.examples] == [e.title for e in printed]
        line = 0 if shipped.pseudocode.derived else shipped.pseudocode.line
        assert (spec.pseudocode.line, spec.lines) == (line, shipped.lines)
        assert [(s.feature_level, s.line) for s in spec.support] == [(s.feature_level, s.line) for s in shipped.support]

    def test_messages_say_what_follows_from_what(self):
        """A message names the line of the formula, the value that it gives, and the value in the example."""
        messages = {f.erratum: f.message for f in review_page(page("gather"), "gather")}
        assert messages["GATHER.E2"] == (
            "example 3: OutputTensor.Sizes: the formula on line 80 gives {3,1,2}, which does not fit 2 dimensions; "
            "the example has {3,2}"
        )
        assert "InputTensor.DimensionCount = 1; the example has FLOAT32" in messages["GATHER.E3"]


class TestTheShippedSpecs:
    """The errata of the spec files are computed from their text, not asserted."""

    @pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
    def test_contradictions_are_the_errata(self, spec):
        """The spec as printed has the contradictions that are listed as errata, and no others; the corrected one has
        none.
        """
        assert {e.id for e in spec.errata if e.kind == "contradiction"} == {f.erratum for f in contradictions(spec)}
        assert () == contradictions(spec.corrected)

    @pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
    def test_neither_differs_from_itself(self, spec):
        """The printed spec and the corrected one both count as the shipped spec."""
        for version in (spec, spec.corrected):
            assert () == differences(PageSpec(**msgspec.structs.asdict(version)), spec)


TUPLE = "InputTensor.DimensionCount - indexTupleSize)"
STRIDES = "### -field InputWindowStrides\n\nType: \\_Field\\_size\\_(DimensionCount) <b>const "
CORRECTIONS = {
    "diagonal_matrix1": [
        (
            "Value: 7\nDiagonalFillBegin: 0\nDiagonalFillEnd: 1\n",
            "Value: 1\nDiagonalFillBegin: 0\nDiagonalFillEnd: 1\n",
        )
    ],
    **dict.fromkeys(("split", "join", "one_hot"), ()),
    "nonzero_coordinates": [
        *(("[[1.0f,", "[[[[1.0f,"), ("-5.2f]]", "-5.2f]]]]"), ("[4]", "[[[[4]]]]")),
        *(("[[0, 0, 0],", "[[[[0, 0, 0],"), ("[0, 0, 0]]", "[0, 0, 0]]]]")),
    ],
    "element_wise_if": [
        (
            "    [[1, 0], [1, 1]] // Cond",
            "```\n\n```\nConditionTensor: (Sizes:{2,2}, DataType:UINT8)\n[[1, 0], [1, 1]] // Cond",
        ),
        ("    [[1, 2], [3, 4]] //", "ATensor: (Sizes:{2,2}, DataType:FLOAT32)\n[[1, 2], [3, 4]] //"),
        ("    [[9, 8], [7, 6]] //", "BTensor: (Sizes:{2,2}, DataType:FLOAT32)\n[[9, 8], [7, 6]] //"),
        ("    [[1, 8], [3, 4]] //", "OutputTensor: (Sizes:{2,2}, DataType:FLOAT32)\n[[1, 8], [3, 4]] //"),
    ],
    "element_wise_bit_xor": [
        ("InputTensor: (", "ATensor: ("),
        ("OutputTensor: (", "BTensor: (Sizes:{2,2}, DataType:UINT8)\n[[255, 255],\n [255, 255]]\n\nOutputTensor: ("),
    ],
    "space_to_depth1": [
        (
            "{ Batch, Channels / (BlockSize * BlockSize), Height * BlockSize, Width * BlockSize }",
            "{ Batch, Channels * (BlockSize * BlockSize), Height / BlockSize, Width / BlockSize }",
        )
    ],
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
    "scatter": [
        ("[3,1,3,0]", "[4,1,3,0]"),
        ("[8,6,2,7,4]", "[8,6,2,7,5]"),
        ("InputTensor: (Sizes:{2,3}", "InputTensor: (Sizes:{3,3}"),
    ],
    "scatter_nd": [
        (TUPLE, "InputTensor.DimensionCount - InputDimensionCount + indexTupleSize)"),
        ("[1, *InputTensor.DimensionCount*)", "[1, *InputTensor.DimensionCount*]"),
        ("[1, *IndicesTensor.DimensionCount*)", "[1, *IndicesTensor.DimensionCount*]"),
        ("must match *InputTensor.Sizes*.", "must match *InputTensor.Sizes* and *InputTensor.DataType*."),
        ("(Sizes:{4,1}, DataType:FLOAT32)", "(Sizes:{4,1}, DataType:UINT32)"),
        ("InputTensor: (Sizes:{8}", "InputDimensionCount: 1\nIndicesDimensionCount: 2\nInputTensor: (Sizes:{1,8}"),
        ("    [1, 2, 3, 4, 5, 6, 7, 8]", "    [[1, 2, 3, 4, 5, 6, 7, 8]]"),
        ("UpdatesTensor: (Sizes:{4}", "UpdatesTensor: (Sizes:{1,4}"),
        ("    [9, 10, 11, 12]", "    [[9, 10, 11, 12]]"),
        ("OutputTensor: (Sizes:{8}", "OutputTensor: (Sizes:{1,8}"),
        ("    [1, 11, 3, 10, 9, 6, 7, 12]", "    [[1, 11, 3, 10, 9, 6, 7, 12]]"),
    ],
    "slice1": [
        ("/ InputWindowStrides[i]", "/ abs(InputWindowStrides[i])"),
        (f"{STRIDES}[UINT]", f"{STRIDES}[INT]"),
    ],
    "tile": [("InputTensor: (Sizes:{1, 1, 6, 9}", "OutputTensor: (Sizes:{1, 1, 6, 9}")],
    "reverse_subsequences": [("SequenceTensor:", "SequenceLengthsTensor:")],
    "gather_nd1": [
        (TUPLE, "InputTensor.DimensionCount - InputDimensionCount + BatchDimensionCount + indexTupleSize)"),
        ("input[indices[y], x]", "input[indices[y, 0], x]"),
    ],
}
GAPS = {
    "scatter_nd": [("mustn't exceed *InputTensor.DimensionCount*", "mustn't exceed *InputDimensionCount*")],
    "gather_nd": [("cannot exceed *InputTensor.DimensionCount*", "cannot exceed *InputDimensionCount*")],
    "gather_nd1": [
        ("cannot exceed *InputTensor.DimensionCount*", "cannot exceed *InputDimensionCount* - *BatchDimensionCount*"),
        ("[0, *InputTensor.DimensionCount*) … [0, *IndicesTensor.DimensionCount*)",
         "[0, *InputDimensionCount*) and [0, *IndicesDimensionCount*)"),
    ],
}  # fmt: skip


class TestArraysOfNumbers:
    """The type of an array of numbers: in the struct of a rendered page, and in the field's own section."""

    STRUCT = """
```cpp
struct DML_SLICE1_OPERATOR_DESC {
  const DML_TENSOR_DESC *InputTensor;
  const DML_TENSOR_DESC *OutputTensor;
  UINT                  DimensionCount;
  const UINT            *InputWindowOffsets;
  const UINT            *InputWindowSizes;
  const INT             *InputWindowStrides;
};
```

"""

    def reviewed(self, struct, *changes):
        text = replaced(
            page("slice1"), ("## -description", struct + "## -description"), *CORRECTIONS["slice1"], *changes
        )
        return [(finding.subject, finding.erratum) for finding in review_page(text, "page")]

    def test_struct(self):
        assert [] == self.reviewed(self.STRUCT)
        no_section = f"{STRIDES}[INT]", "const values "
        wrong = replaced(self.STRUCT, ("const INT  ", "const UINT "))
        assert [("example 2", "SLICE1.E2")] == self.reviewed(wrong, no_section)

    def test_another_array(self):
        """A type that the shipped spec does not have is a difference."""
        wrong = replaced(self.STRUCT, ("const UINT            *InputWindowSizes", "const INT *InputWindowSizes"))
        section = page("slice1").split("-field InputWindowSizes")[1].split("const [UINT]")[0] + "const "
        assert [("field InputWindowSizes", None)] == self.reviewed(wrong, (section + "[UINT]", "values "))


class TestCorrectedPages:
    """A page whose errata are corrected has no finding."""

    def corrected(self, name: str, wording: str = RIGHT[0]) -> str:
        """An English page without its contradictions."""
        prose = [(WRONG, wording)] if WRONG in page(name) else []
        return replaced(page(name), *CORRECTIONS.get(name, ()), *prose)

    @pytest.mark.parametrize("name", ENGLISH)
    def test_errata(self, name):
        """With every contradiction corrected."""
        assert () == review_page(self.corrected(name), name)

    @pytest.mark.parametrize("name", GAPS)
    def test_gaps_too(self, name):
        """With the gaps corrected as well."""
        assert () == review_page(replaced(self.corrected(name), *GAPS[name]), name)

    @pytest.mark.parametrize("wording", RIGHT)
    @pytest.mark.parametrize("name", ["gather", "gather_nd", "gather_nd1"])
    def test_words_for_the_data_type(self, name, wording):
        """The corrected sentence may be worded in many ways."""
        assert () == review_page(self.corrected(name, wording), name)

    def test_an_erratum_that_is_left_is_found(self):
        """Each correction that is taken back gives a finding."""
        for name, changes in CORRECTIONS.items():
            for change in changes:
                text = self.corrected(name).replace(change[1], change[0], 1)
                assert review_page(text, name), change

    def test_another_way_to_write_the_formula(self):
        """The order of terms and parentheses do not matter; a wrong sign does."""
        for formula, right in [
            ("InputTensor.DimensionCount + indexTupleSize - InputDimensionCount)", True),
            ("InputTensor.DimensionCount - (InputDimensionCount - indexTupleSize))", True),
            ("InputTensor.DimensionCount - InputDimensionCount - indexTupleSize)", False),
        ]:
            text = replaced(page("gather_nd"), (TUPLE, formula), *CORRECTIONS["gather_nd"][1:], (WRONG, RIGHT[0]))
            assert right == (not review_page(text, "page")), formula


class TestPlantedChanges:
    """A fact that is changed is found, on its line.

    `kinds` are the first letters of the findings' kinds, `marker` is text of the line that a finding must be on.
    """

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
            ("cd", "GATHER_ND.F1", "`[4, *InputTensor.DimensionCount*]`", "gather_nd", ("`[1, *InputTensor.DimensionCount*]`", "`[4, *InputTensor.DimensionCount*]`")),
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
        """One changed value, size, type, axis, range, constraint, formula, line or table cell."""
        text = replaced(page(name), change)
        findings = new(text, page(name))
        assert set(kinds) == {f.kind[0] for f in findings}
        lines = {i for i, line in enumerate(text.split("\n"), 1) if marker in f"{line}\n"}
        assert lines and any(f.line in lines for f in findings)
        assert subject in {f.subject for f in findings}
        assert all(f.erratum is None for f in findings if f.kind == "difference")

    @pytest.mark.parametrize("id", "1245")
    def test_a_removed_example(self, id):
        """Its title is left: the next examples keep their numbers."""
        text = page("gather")
        start = text.index("```\nAxis", text.index(f"### Example {id}."))
        text = text[:start] + text[text.index("\n```\n", start + 4) + 5 :]
        (finding,) = [f for f in new(text, page("gather")) if f.kind == "difference"]
        assert (f"example {id}", f"example {id}: missing") == (finding.subject, finding.message)

    @pytest.mark.parametrize("name", ["gather", "gather.ja-JP.txt"])
    def test_removed_with_its_title(self, name):
        """A whole section is gone."""
        text = page(name)
        marks = ("### Example 2.", "### Example 3.") if name == "gather" else ("例 2.", "例 3.")
        text = text[: text.index(marks[0])] + text[text.index(marks[1]) :]
        assert ["example 2: missing"] == [f.message for f in new(text, page(name)) if f.kind == "difference"]

    def test_a_removed_table(self):
        """A feature level without a table is one finding."""
        text = page("gather")
        text = text[: text.index("### DML_FEATURE_LEVEL_2_1")] + text[text.index("### DML_FEATURE_LEVEL_1_0") :]
        assert ["support 2_1"] == [f.subject for f in new(text, page("gather"))]

    def test_removed_pseudocode_and_formula(self):
        """Both are facts that a page must state."""
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
        """Code with a missing bracket is a finding on the line of the bracket, not silently skipped."""
        text = replaced(page("gather"), (old, wrong))
        (line,) = [i for i, line in enumerate(text.split("\n"), 1) if wrong in line]
        assert (line, subject) in [(f.line, f.subject) for f in new(text, page("gather")) if f.kind == "unreadable"]

    def test_the_translation_is_read_as_well_as_the_original(self):
        """A table cell that is changed only in the visible text, or only in the hidden one, is found."""
        text = page("gather_nd.pt-BR.md")
        cell = "INT64, INT32, UINT64, UINT32</span>"
        first = text.index(cell)
        for at in (first, text.index(cell, first + 1)):
            changed = text[:at] + text[at:].replace("INT64, INT32", "INT64", 1)
            (finding,) = new(changed, text)
            assert ("support 3_0", text.count("\n", 0, at) + 1) == (finding.subject, finding.line)
            assert finding.message.endswith("IndicesTensor lacks INT32")

    def test_wrong_pseudocode_is_found_once(self):
        """Once for each example that it does not fit, but not again for the values that it gives."""
        text = replaced(page("gather"), ("input[..., indices[...], ...]", "input[indices[...], ..., ...]"))
        findings = [(f.kind, f.subject) for f in new(text, page("gather"))]
        assert [("difference", "pseudocode"), ("contradiction", "example 4")] == findings

    def test_an_erratum_without_the_constraints_that_say_it_right(self):
        """The wrong sentence is found even if the page's list of constraints, which has it right, is gone."""
        text = page("gather")
        text = text[: text.index("## Tensor constraints")] + text[text.index("## Tensor support") :]
        assert ["GATHER.E3"] == [f.erratum for f in review_page(text, "page") if f.subject == "GATHER.C4"]

    def test_names_that_are_no_fields(self):
        """Of several, the first one is told."""
        names = [(f"{name}:", f"{name}s:") for name in ("Axis", "IndexDimensions", "InputTensor", "IndicesTensor")]
        example, *_ = [f for f in new(replaced(page("gather"), *names), page("gather")) if f.kind == "contradiction"]
        assert "example 1: Axiss is not a field of DML_GATHER_OPERATOR_DESC" == example.message

    def test_a_changed_struct(self):
        """A member that is missing in the struct."""
        text = replaced(page("gather_nd.pt-BR.md"), ("  UINT                  InputDimensionCount;\n", ""))
        assert ["field InputDimensionCount"] == [f.subject for f in new(text, page("gather_nd.pt-BR.md"))]


class TestArrays:
    """What the pages about arrays of numbers need."""

    @pytest.mark.parametrize(
        ("values", "reads"),
        [("[[1,2]\n [3,4]]", True), ("[[1,2] \n [3,4]\n]", True), ("[[1,2] [3,4]]", False), ("[[1 2],[3,4]]", False)],
    )
    def test_rows_without_commas(self, values, reads):
        """A line end may stand for the comma between two rows, and for no other one."""
        text = f"InputTensor: (Sizes:{{2,2}}, DataType:UINT32)\n{values}"
        assert reads == (parsed(text) is not None)

    def test_a_shared_input(self):
        """A fact of the input above all examples is found in each of them, on its own line."""
        text = replaced(page("slice1"), (" [13, 14, 15, 16]]]]", " [13, 14, 15, 17]]]]"))
        found = {(f.subject, f.line) for f in new(text, page("slice1")) if f.kind == "difference"}
        assert {("example 1", 123), ("example 2", 123)} == found

    def test_its_own_lines(self):
        """A fact of an example below a shared input is found on its own line."""
        text = replaced(page("slice1"), ("[[[[14, 16],", "[[[[14, 15],"))
        found = {(f.subject, f.line) for f in new(text, page("slice1")) if f.kind == "difference"}
        assert {("example 2", 154)} == found

    @pytest.mark.parametrize("wrong", ["InputWindowSizes = {1, 1, 4}", "InputWindowSizes = {1, 1, 5, 3}"])
    def test_a_wrong_array(self, wrong):
        """The rule about the array is broken, and the shipped spec has other numbers."""
        text = page("slice1").replace("InputWindowSizes   = {1, 1, 4, 3}", wrong, 1)
        found = new(text, page("slice1"))
        assert {"contradiction", "difference"} == {f.kind for f in found}
        assert {"example 1"} == {f.subject for f in found}

    @pytest.mark.parametrize("wrong", ["2", "{1, 1, 2147483648, 2}", "{1, 1, 2, -2147483649}"])
    def test_numbers_that_the_type_does_not_hold(self, wrong):
        """An array has numbers of its type, and is not one number."""
        text = replaced(page("slice1"), ("InputWindowStrides = {1, 1, 2, 2}", f"InputWindowStrides = {wrong}"))
        (found,) = [f for f in new(text, page("slice1")) if f.kind == "contradiction"]
        assert ("example 1", 131) == (found.subject, found.line)
        assert "InputWindowStrides must be numbers from -2147483648 to 2147483647, got" in found.message

    def test_the_loop(self):
        """Another line of the pseudocode is a difference, and gives other values."""
        text = replaced(page("slice1"), ("if InputWindowStrides[i] < 0", "if InputWindowStrides[i] > 0"))
        assert {"pseudocode", "example 1", "example 2"} == {f.subject for f in new(text, page("slice1"))}
