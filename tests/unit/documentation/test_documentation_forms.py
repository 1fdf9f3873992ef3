"""A documentation page in other forms: without blank lines, as HTML, as copied text, with a translated table, older."""

import json
import re
from pathlib import Path

import pytest
from documentation_pages import (
    BEFORE_HTML,
    COPIED_GAPS,
    ENGLISH,
    FORMS,
    PAGES,
    as_html,
    from_search_engine,
    gap,
    in_forms,
    page,
    replaced,
    review_page,
    without_headings,
)

from opmap.cli import main
from opmap.documentation import Finding, read_page
from opmap.errors import InputError

LOST_INPUT = dict.fromkeys(
    ("depth_to_space1", "split", "cumulative_summation", "cumulative_product", "activation_hardmax1"),
    "without headings, the input of several examples goes to the first one",
)
"""English page -> why opmap does not read it whole without its headings. A known gap."""

LOST_LEVEL = dict.fromkeys(
    (
        "padding1",
        "diagonal_matrix1",
        "activation_hardmax1",
        *(f"element_wise_{n}" for n in ("negate", "clip1", "difference_square")),
    ),
    "its table has no heading with a feature level; copied, it is said that none names it",
)
"""English page -> why opmap does not read it whole as copied text. A known gap."""

MARKDOWN = [name for name in PAGES if name.endswith(".md")]


def facts(findings: tuple[Finding, ...]) -> list[tuple]:
    """The findings without their lines and messages."""
    return sorted((f.kind, f.subject, str(f.erratum)) for f in findings)


class TestForms:
    """The form of a page does not matter: the same facts give the same findings."""

    @pytest.mark.parametrize(("name", "form"), in_forms(MARKDOWN, COPIED_GAPS | LOST_LEVEL))
    def test_same_findings(self, name, form):
        """Every page in every form has the findings of the page itself, and no other."""
        wanted = facts(review_page(page(name), name))
        if name == "gather_nd.pt-BR.md" and form not in FORMS[:2]:
            wanted.remove(("contradiction", "GATHER_ND.C4", "GATHER_ND.E2"))  # no sentence says it in readable words
        assert wanted == facts(review_page(form(page(name)), name))

    @pytest.mark.parametrize(("name", "form"), in_forms(ENGLISH, {"slice1": COPIED_GAPS["slice1"]}))
    def test_nothing_is_assumed(self, name, form):
        """Every range and formula is read from the page in this form too."""
        assert read_page(page(name), name=name).assumed == read_page(form(page(name)), name=name).assumed

    def test_lines_of_html(self):
        """A finding names the line of the HTML page: of the code, and of the row."""
        text = replaced(as_html(page("gather")), ("Output</td>\n<td>4<", "Output</td>\n<td>5<"))
        lines = text.split("\n")
        found = {f.message: lines[f.line - 1 :] for f in review_page(text, "x")}
        (range_broken,) = [below for message, below in found.items() if "example 1: IndexDimensions" in message]
        assert "IndexDimensions: 1" == range_broken[0]
        (row_wrong, _) = [below for message, below in found.items() if "has 5 dimensions" in message]
        assert ["<tr>", "<td>OutputTensor</td>", "<td>Output</td>", "<td>5</td>"] == row_wrong[:4]

    def test_html_without_a_document(self):
        """A piece of a page, as HTML without `<html>`, and a Markdown page with `<pre>` in place of fences."""
        text = as_html(page("gather"))
        wanted = facts(review_page(page("gather"), "x"))
        assert wanted == facts(review_page(text[text.index("<h1>") : text.index("</main>")], "x"))
        markdown = page("gather").replace("```\n\n", "</pre>\n\n").replace("```\n", "<pre>\n")
        assert wanted == facts(review_page(markdown, "x"))

    def test_tags_in_code(self):
        """Colours, line breaks and references in `<pre>`, and tags in upper case."""
        text = as_html(page("gather")).replace("Axis: 0\n", '<span class="number">Axis: 0</span><br>')
        text = text.replace("<pre>", "<PRE class='x'>").replace("</pre>", "</PRE>").replace("{4}", "&#123;4}")
        assert facts(review_page(page("gather"), "x")) == facts(review_page(text, "x"))

    def test_a_tag_that_is_not_closed(self):
        """A browser reads the rest of the page as part of it."""
        text = BEFORE_HTML.format(title="DML_GATHER_OPERATOR_DESC") + "<pre>output[...] = input[..., indices[...], ...]"
        assert read_page(text, name="x").spec.pseudocode.line == 7
        assert read_page(text.replace("<pre>output", "<pre>\noutput"), name="x").spec.pseudocode.line == 8


class TestSections:
    """A section starts with the name of a field alone on a line."""

    INSIDE = "Axis\nType: UINT\nThe axis, ranging [0, Axis).\nIndexDimensions\nType: UINT\nOther, ranging [0, Axis].\n"

    def ranges(self, text: str) -> dict[str, str]:
        """Rule id -> check, of the rules that the page states."""
        start = "UID: NS:directml.DML_GATHER_OPERATOR_DESC\n\noutput[...] = input[..., indices[...], ...]\n\n"
        return {rule.id: rule.check for rule in read_page(start + text, name="x").spec.rules if rule.line}

    def test_inside_a_paragraph(self):
        """Without blank lines, the line below must be the field's type."""
        assert {"GATHER.F1": "Axis in [0, Axis)", "GATHER.F2": "IndexDimensions in [0, Axis]"} == self.ranges(
            self.INSIDE
        )

    @pytest.mark.parametrize("gap", ["\n", "\n\n"])
    def test_a_name_inside_a_sentence(self, gap):
        """Copied text has line ends around inline code; that does not open a section."""
        text = self.INSIDE.replace("The axis,", f"Given{gap}IndexDimensions{gap}= 3, it is")
        assert {"GATHER.F1": "Axis in [0, Axis)", "GATHER.F2": "IndexDimensions in [0, Axis]"} == self.ranges(text)

    def test_a_sign_alone_on_a_line(self):
        """It does not make a heading of the text above it."""
        text = self.INSIDE.replace("The axis,", "Given Axis\n=\n3, it is")
        assert {"GATHER.F1": "Axis in [0, Axis)", "GATHER.F2": "IndexDimensions in [0, Axis]"} == self.ranges(text)


class TestTables:
    """Rows of a table are read whatever their case, and never from prose."""

    @pytest.mark.parametrize(
        "changes",
        [
            [("| InputTensor |", "| Inputtensor |")],
            [("| IndicesTensor |", "| INDICESTENSOR |"), ("FLOAT32, FLOAT16 |", "Float32, float16 |")],
            [("INT64, INT32, UINT64, UINT32 |", "Int64, Int32, UInt64, uint32 |")],
        ],
    )
    def test_case(self, changes):
        """Names of tensors and types in another case are the same."""
        assert facts(review_page(page("gather"), "x")) == facts(review_page(replaced(page("gather"), *changes), "x"))

    @pytest.mark.parametrize("name", ["ÍndicesTensor", "IndizesTensor", "инпуттенсор", "Tensor de índices"])
    def test_a_translated_name(self, name):
        """The row is named, and not reported as missing. The other rows are still compared."""
        text = replaced(page("gather"), ("| IndicesTensor |", f"| {name} |"))
        new = [f for f in review_page(text, "x") if f.erratum is None]
        assert {"unreadable"} == {f.kind for f in new}
        assert f'support 4_1: row "{name}" is no tensor of GATHER; it is not compared' == new[0].message
        assert [i for i, line in enumerate(text.split("\n"), 1) if f"| {name} |" in line] == [f.line for f in new]
        wrong = replaced(text, ("| OutputTensor | Output | 4 |", "| OutputTensor | Output | 5 |"))
        assert any("OutputTensor has 5 dimensions" in f.message for f in review_page(wrong, "x"))

    def test_a_translated_name_in_an_example(self):
        """The shipped spec has no such tensor; the messages say so."""
        text = replaced(page("gather"), ("IndicesTensor: (Sizes:{5}", "IndizesTensor: (Sizes:{5}"))
        messages = [f.message for f in review_page(text, "x")]
        assert "example 1: IndizesTensor.Sizes is {5}; the shipped spec has none" in messages
        assert "example 1: IndicesTensor.Sizes is missing; the shipped spec has {5}" in messages

    @pytest.mark.parametrize("space", ["\t", "\u00a0", "\u3000", "  "])
    def test_spaces_in_copied_text(self, space):
        """Cells may be separated by tabs, no-break spaces or ideographic spaces."""
        text = re.sub(r"(?<=Tensor) (\w+put) ", rf"{space}\1{space}", from_search_engine(page("gather")))
        text = re.sub(r"(?m) (?=(FLOAT|U?INT)\d+(,|$))", space, text)
        assert facts(review_page(page("gather"), "x")) == facts(review_page(text, "x"))

    def test_a_translated_type(self):
        """The type is named, and not reported as lacking."""
        text = replaced(page("gather"), ("4 | FLOAT32, FLOAT16 |", "4 | Gleitkomma32 und FLOAT16 |"))
        new = [f.message for f in review_page(text, "x") if f.erratum is None]
        assert 'support 1_0: row "InputTensor" has "Gleitkomma32", no data type; it is not compared' == new[0]
        assert 2 == len(new)

    @pytest.mark.parametrize(
        "sentence",
        [
            "InputTensor has 4 dimensions of FLOAT32 values.",
            "InputTensor 4 dimensions and FLOAT32, see above",
            "InputTensor 4 (DataType FLOAT32)",
            "OutputTensor is 5 times INT8, and so on",
        ],
    )
    @pytest.mark.parametrize("where", ["### DML_FEATURE_LEVEL_3_0 and above\n", "UINT16, UINT8 |\n"])
    def test_prose_is_no_row(self, sentence, where):
        """A sentence below a heading, or below a table without a blank line between."""
        text = replaced(page("gather"), (where, f"{where}{sentence}\n"))
        assert [f for f in review_page(text, "x") if f.erratum is None] == []

    @pytest.mark.parametrize("name", [pytest.param(n, marks=gap(n, COPIED_GAPS | LOST_INPUT)) for n in ENGLISH])
    def test_lost_headings(self, name):
        """Copied text without headings: no table is compared, and each is named once."""
        text = without_headings(page(name))
        new = [f for f in review_page(text, name) if f.erratum is None]
        assert {"support: no heading names the feature level of this table; it is not compared"} == {
            f.message for f in new
        }
        assert len(read_page(page(name), name=name).spec.support) == len(new)


class TestCommand:
    """`opmap docs` on such pages."""

    def run(self, path: Path, text: str, capsys, *options: str) -> tuple[int, list[str], list[str]]:
        """Exit code, and the lines on stdout and stderr, with the file's name shortened."""
        path.write_text(text, encoding="utf-8")
        code = main(["docs", *options, str(path)])
        out, err = capsys.readouterr()
        return code, *(stream.replace(str(path), "page").splitlines() for stream in (out, err))

    @pytest.mark.parametrize(
        "text",
        [
            "# DML_GATHER_OPERATOR_DESC structure\n\n## -struct-fields\n\n### -field Axis\n\nThe axis, ranging [0, Axis).\n",
            BEFORE_HTML.format(title="DML_GATHER_OPERATOR_DESC") + "<p>Sign in to go on.</p></main>",
        ],
    )
    def test_nothing_to_compare(self, text, tmp_path, capsys):
        """A page without pseudocode, example and table is refused in one line."""
        message = "the page must hold pseudocode, an example or a table of DML_GATHER_OPERATOR_DESC; it holds none"
        assert (2, [], [f"opmap: page: {message}"]) == self.run(tmp_path / "page", text, capsys)

    def test_a_page_with_pseudocode_only(self, tmp_path, capsys):
        """What is missing is one line for the examples and one for the tables."""
        text = "# DML_GATHER_OPERATOR_DESC\n\n```\noutput[...] = input[..., indices[...], ...]\n```\n"
        code, out, _ = self.run(tmp_path / "page", text, capsys)
        assert (1, ["page:1: difference: examples: no example that can be read"]) == (code, out[1:2])
        assert "page:1: difference: support: no table that can be read" == out[2]
        assert out[3].startswith("page: assumed from the shipped spec, not read from the page: GATHER.C1, GATHER.C2, ")

    @pytest.mark.parametrize("name", [name for name in PAGES if name.split(".")[1] in ("es-ES", "zh-TW", "pt-BR")])
    def test_an_older_page(self, name, tmp_path, capsys):
        """It lacks the table of a level above all of its own: that is nothing new."""
        assert 0 == self.run(tmp_path / "page", page(name), capsys, "--new-only")[0]
        code, out, _ = self.run(tmp_path / "page", page(name), capsys)
        assert (1, 1) == (code, sum("no table for DML_FEATURE_LEVEL_4_1" in line for line in out))

    def test_a_lower_level_is_new(self, tmp_path, capsys):
        """A table that is missing between others is red with --new-only too."""
        text = page("gather")
        text = text[: text.index("### DML_FEATURE_LEVEL_2_1")] + text[text.index("### DML_FEATURE_LEVEL_1_0") :]
        assert 1 == self.run(tmp_path / "page", text, capsys, "--new-only")[0]

    def test_what_is_assumed(self, tmp_path, capsys):
        """The rules that come from the shipped spec are named, on stderr beside a JSON document."""
        note = "page: assumed from the shipped spec, not read from the page: GATHER_ELEMENTS.C4"
        assert note in self.run(tmp_path / "page", page("gather_elements"), capsys)[1]
        _, out, err = self.run(tmp_path / "page", page("gather_elements"), capsys, "--json")
        assert [f"opmap: {note}"] == err and ["contradiction"] == [f["kind"] for f in json.loads(out[0])]
        assert not any("assumed" in line for line in self.run(tmp_path / "page", page("gather"), capsys)[1])

    def test_an_assumed_rule_is_named_as_such(self):
        """An example that breaks a rule that was not read from the page."""
        text = replaced(page("gather"), ("InputTensor.Sizes[0..Axis]", "???"), ("Sizes:{5}, DataType:FLOAT32)\n    [14,", "Sizes:{4}, DataType:FLOAT32)\n    ["))  # fmt: skip
        assert any("OutputTensor.Sizes: GATHER.C5 of the shipped spec gives {5}; the example has {4}" in f.message for f in review_page(text, "x"))  # fmt: skip

    def test_pseudocode_that_was_not_read(self):
        """Values are then computed with the shipped spec's pseudocode, and the message says so."""
        text = replaced(page("gather"), ("output[...] = input[..., indices[...], ...]", "…"), ("[14,12,14,11,13]", "[14,12,14,11,12]"))  # fmt: skip
        assert any("the shipped spec's pseudocode gives 13; the example prints 12" in f.message for f in review_page(text, "x"))  # fmt: skip

    def test_control_characters(self, tmp_path, capsys):
        """An escape sequence in a cell does not reach the terminal."""
        text = replaced(page("gather"), ("| IndicesTensor |", "| \x1b[31mTensor |"))
        out = self.run(tmp_path / "page", text, capsys)[1]
        assert any(r'row "\x1b[31mTensor" is no tensor' in line for line in out) and "\x1b" not in "".join(out)

    def test_nothing_is_refused_that_has_an_unreadable_part(self):
        """A page with one example that cannot be read is reported, not refused."""
        text = "# DML_GATHER_OPERATOR_DESC\n\n```\nInputTensor: (Sizes:{1}, DataType:FLOAT32)\n[1\n```\n"
        assert "unreadable" in {f.kind for f in review_page(text, "x")}
        with pytest.raises(InputError, match="it holds none"):
            review_page(text.replace("InputTensor", "ThirdTensor"), "x")
