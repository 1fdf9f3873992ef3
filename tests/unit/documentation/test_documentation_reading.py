"""How a documentation page is read: its blocks, its prose, its formulas, and input that is no page."""

import re
import time

import pytest
from documentation_pages import PAGES, RIGHT, WRONG, page, review_page

from opmap.documentation import read_page
from opmap.documentation.block import Block, original, visible
from opmap.documentation.blocks import read_blocks
from opmap.documentation.equivalence import same_formula
from opmap.documentation.prose import ProseReader
from opmap.errors import InputError, names
from opmap.limits import MAX_PAGE_BYTES, MAX_PAGE_CODE, MAX_PAGE_DIGITS, MAX_PAGE_LINES
from opmap.spec import all_specs, load_spec


class TestBlocks:
    """A page as blocks, Markdown or not."""

    def test_markdown(self):
        """Headings, text, fences and table rows, each with its line. The YAML in front is left out."""
        text = "---\nUID: x\n---\n# One\n\ntext\n\n```\ncode\n```\n\n| a | b |\n| - | - |\n| 1 | 2 |\n"
        blocks = [b for b in read_blocks(text) if b.text.strip("| -")]
        assert [("heading", 4), ("text", 6), ("code", 9), ("row", 12), ("row", 14)] == [
            (b.kind, b.line) for b in blocks
        ]
        assert "1 | 2" == blocks[-1].text

    @pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
    def test_code_without_fences(self, ends):
        """Code in plain text is found by its notation; the lines of each block are right for all line ends."""
        text = "prose\n\nAxis: 0\n\nT: (Sizes:{1}, DataType:A)\n    [1] // x\n\nmore prose\nS = {\n  1\n}\nend".replace(
            "\n", ends
        )
        assert [("text", 1), ("code", 3), ("text", 8), ("code", 9), ("text", 12)] == [
            (b.kind, b.line) for b in read_blocks(text)
        ]

    def test_an_entry_given_again_starts_another_block(self):
        """Two examples without text between them are two blocks."""
        text = "Axis: 0\nT: (Sizes:{1}, DataType:A)\n[1]\n\nAxis: 1\nT: (Sizes:{1}, DataType:A)\n[2]\noutput[x] = input[x]\n"
        assert [("code", 1), ("code", 5), ("code", 8)] == [(b.kind, b.line) for b in read_blocks(text)]

    def test_a_byte_order_mark(self):
        """It does not hide the UID on the first line."""
        text = "\ufeffUID: NS:directml.DML_GATHER_OPERATOR_DESC\n# DML_GEMM_OPERATOR_DESC is another\n"
        text += "```\noutput[...] = input[..., indices[...], ...]\n```\n"
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
        """A translated page holds the hidden original beside the translation.

        `one` is the original, `other` the visible text.
        """
        block = Block("text", 1, text)
        assert (one, other) == (original(block).text, visible(block).text)


class TestProse:
    """Sentences are read by the names in them, in any language."""

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
        """Equalities of a sentence in the section of `field`, with names shortened: I.DC is
        InputTensor.DimensionCount.
        """
        prose = ProseReader(load_spec("GATHER"))
        equalities = ", ".join(" == ".join(sides) for sides in prose.equalities(prose.plain(sentence), field))
        for long, short in (
            ("InputTensor", "I"),
            ("IndicesTensor", "X"),
            ("OutputTensor", "O"),
            ("DimensionCount", "DC"),
            ("DataType", "DT"),
        ):
            equalities = equalities.replace(long, short)
        assert expected == equalities

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
        """Only intervals between names of the operator are ranges."""
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
        """The expression behind `cannot exceed`, if it is made of names of the operator."""
        prose = ProseReader(load_spec("GATHER_ND1"))
        assert expected == prose.bound(prose.plain(sentence))


class TestSameFormula:
    """Formulas that say the same in different notation."""

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
        """Spacing, the order of terms and defined names do not matter; operators and bounds do."""
        assert expected == same_formula(one, other)


UID = "UID: NS:directml.DML_GATHER_OPERATOR_DESC\n"
ENTRY = "InputTensor: (Sizes:{1}, DataType:FLOAT32)\n"


def answers(text: str) -> list[str]:
    """The findings of a page, or the refusal, as they are printed."""
    try:
        return [str(finding) for finding in review_page(text, "some.md")]
    except InputError as error:
        return [str(error)]


class TestHostileInput:
    """Pages come from outside: every problem is one line, never a traceback, and reading takes no long time."""

    @pytest.mark.parametrize(
        "wanted, text",
        [
            ("must name its operator", ""),
            ("must name its operator", "\0" * 100),
            ("must name its operator", "# A page about nothing\n"),
            (
                f"knows ({names([spec.name for spec in all_specs()])}), got DML_GEMM_OPERATOR_DESC",
                "# DML_GEMM_OPERATOR_DESC structure",
            ),
            ("), got DML_" + "A" * 55 + "…", "# DML_" + "A" * 500 + "_OPERATOR_DESC"),
            (f"at most {MAX_PAGE_BYTES} bytes, got {MAX_PAGE_BYTES + 1}", "a" * (MAX_PAGE_BYTES + 1)),
        ],
    )
    def test_no_page(self, wanted, text):
        """A text that is not about a known operator is refused in one line that names the file."""
        with pytest.raises(InputError) as raised:
            review_page(text, "some.md")
        assert str(raised.value).startswith("some.md: ") and wanted in str(raised.value)
        assert "\n" not in str(raised.value) and len(str(raised.value)) < 400

    @pytest.mark.slow
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
            UID + "```\nInputTensor.Sizes = {1}\n```\n" * 800,
            UID + "```\nstruct DML_GATHER_OPERATOR_DESC {\n" + "UINT a;\n" * 2_400,
            UID + "DML_FEATURE_LEVEL_1_0\n" + "InputTensor 4 FLOAT32\n" * 19_000,
            UID + "output[" + "=a[" * 250_000,
            UID + ">" * 900_000,
            UID + "\ud800" * 100,
            UID + "&#" + "9" * 5000 + ";\n<p>&#" + "9" * 5000 + ";</p>\n\n" + page("gather"),
            "<!doctype html><title>DML_GATHER_OPERATOR_DESC</title>" + "<a " * 300_000,
            "<!doctype html><title>DML_GATHER_OPERATOR_DESC</title>" + "<tr><td>" * 100_000,
            UID + "[0, Axis + 1]\n\n# Axis\n\n" + "".join(f"[0, Axis + {i}] " for i in range(50_000)),
            UID + "# OutputTensor\n\n" + "".join(f"It cannot exceed Axis + {i}. " for i in range(30_000)),
            UID + "Axis\n" * 19_000,
        ],
        ids=range(24),
    )
    def test_strange_pages(self, text):
        """Large or malformed pages give findings or a refusal of one line each, within 20 seconds (usually: one)."""
        start = time.perf_counter()
        assert all("\n" not in line and len(line) < 600 for line in answers(text))
        assert time.perf_counter() - start < 20

    @pytest.mark.parametrize(
        "wanted, text",
        [
            (f"at most {MAX_PAGE_LINES} lines, got {MAX_PAGE_LINES + 1}", UID + "\n" * (MAX_PAGE_LINES - 1)),
            (f"at most {MAX_PAGE_CODE} characters of code", UID + "```\n" + "output[x] = 1 " * 2000 + "\n```\n"),
            (f"at most {MAX_PAGE_CODE} characters of code", UID + f"```\n{'#' * 9000}\n```\n" * 3),
            (f"at most {MAX_PAGE_DIGITS} digits", UID + "```\nAxis: " + "9" * 5000 + "\n```\n"),
            (f"at most {MAX_PAGE_DIGITS} digits", UID + f"```\nOutputTensor.Sizes = {{{'9' * 3900} + 1}}\n```\n"),
        ],
        ids=range(5),
    )
    def test_limits(self, wanted, text):
        """A page, its code and the numbers in it may have a size only. The answer names the limit, once."""
        assert [True] == [wanted in answer for answer in answers(text) if "at most" in answer]

    def test_numbers_of_the_largest_size(self):
        """A number of MAX_PAGE_DIGITS digits is read everywhere, and its message is one line."""
        number = "9" * MAX_PAGE_DIGITS
        for old in ("Axis: 0", "{4}", "[11,", "- IndexDimensions", "{5}, DataType:FLOAT32)\n    [14"):
            text = page("gather").replace(old, re.sub(r"\d+|IndexD.*", number, old), 1)
            assert text != page("gather") and all("\n" not in answer for answer in answers(text))

    @pytest.mark.parametrize("name", PAGES)
    def test_pages_cut_anywhere(self, name):
        """A page that ends early is read; only a beginning that does not name the operator yet is refused."""
        for end in range(0, len(page(name)), 997):
            try:
                review_page(page(name)[:end], name)
            except InputError:
                assert end < 4000
