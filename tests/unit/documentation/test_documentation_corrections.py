"""Corrections of a documentation page: the patch applies, the contradictions are gone, nothing else changes."""

import hashlib
import html
import io
import os
import re
import shutil
import subprocess
import sys
from base64 import b64encode

import pytest
from documentation_pages import ENGLISH, PAGES, page, replaced, review_page

from opmap.cli import main
from opmap.documentation import correct_page, patch_of
from opmap.documentation.wording import holds, replacements
from opmap.errors import InputError
from opmap.spec import all_specs, load_spec

PROGRAMS = {"git": ["git", "apply", "x.patch"], "patch": ["patch", "-s", "-p0", "--binary", "-i", "x.patch"]}

ERRATA = [
    pytest.param(spec, erratum, id=erratum.id) for spec in all_specs() for erratum in spec.errata if erratum.sentence
]

ENDS = {
    "as it is": str,
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "no final line end": lambda text: text.rstrip("\n"),
    "byte order mark": lambda text: "\ufeff" + text,
    "two lines at the end": lambda text: text + "\n\n",
}


def applied(folder, content: bytes, patch: bytes) -> bytes:
    """The page after the patch; each program that is installed gives the same."""
    pages = set()
    for program in filter(shutil.which, PROGRAMS):
        own = folder / program
        own.mkdir(parents=True)
        (own / "page.md").write_bytes(content)
        (own / "x.patch").write_bytes(patch)
        alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder)}
        done = subprocess.run(PROGRAMS[program], cwd=own, capture_output=True, text=True, env=alone)
        assert 0 == done.returncode, done.stdout + done.stderr
        pages.add((own / "page.md").read_bytes())
    if not pages:
        pytest.skip("needs git or patch")
    (page,) = pages
    return page


WITH_CORRECTIONS = [
    n for n in PAGES if any(not e.adds_lines and e.kind != "note" for e in load_spec(ENGLISH[n.split(".")[0]]).errata)
]
"""The pages with a finding whose correction adds no line."""


class TestPatch:
    """`opmap docs --patch`, applied to the page."""

    @pytest.mark.parametrize(
        "name, ends",
        [
            *((name, "as it is") for name in WITH_CORRECTIONS),
            *(("gather.en-US.md", ends) for ends in ENDS if ends != "as it is"),
        ],
    )
    def test_applies(self, name, ends, tmp_path, capsysbinary):
        """The patched page has the findings that the text before the diff calls not corrected, and no other."""
        text = ENDS[ends](page(name))
        (tmp_path / "page.md").write_bytes(text.encode())

        assert 1 == main(["docs", "--patch", str(tmp_path / "page.md")])
        patch = capsysbinary.readouterr().out
        patched = applied(tmp_path / "in", text.encode(), patch).decode()

        before, after = (review_page(text, name) for text in (text, patched))
        assert set(after) <= set(before) and len(after) < len(before)
        assert all(f"line {f.line}: {f.kind}: {f.message}" in patch.decode() for f in after)
        assert name.endswith(".txt") or all(f.older or f.erratum == "SCATTER_ND.E6" for f in after)  # it adds lines
        assert text.count("\n") == patched.count("\n")

    @pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
    @pytest.mark.parametrize("fence", ["```\n", ""])
    def test_small_page(self, fence, ends, tmp_path, capsysbinary):
        """The first and the last line of the page are in the diff; without a fence the last line is the changed one."""
        line = "output[i, j, k, ...] = input[index[i, j, k, ...], j, k, ...]\n"
        text = ends(f"# DML_GATHER_ELEMENTS_OPERATOR_DESC\n\n{fence}{line}{fence}")
        (tmp_path / "page.md").write_bytes(text.encode())

        assert 1 == main(["docs", "--patch", str(tmp_path / "page.md")])
        patched = applied(tmp_path / "in", text.encode(), capsysbinary.readouterr().out)

        assert text.replace("index[", "indices[") == patched.decode()

    @pytest.mark.parametrize("name, operator", ENGLISH.items())
    def test_all_errata(self, name, operator):
        """Every erratum of an English page is corrected, and nothing is left over."""
        corrected = correct_page(page(name), name=name)

        errata = [e for e in load_spec(operator).errata if not e.adds_lines]
        assert [e.id for e in errata] == [c.erratum.id for c in corrected.corrections]
        left = [f"({e.id})" for e in load_spec(operator).errata if e.adds_lines]
        assert len(left) == len(corrected.findings) == len(corrected.uncorrected)
        assert all(id in str(finding) for id, finding in zip(left, corrected.findings, strict=True))
        found = [f for c in corrected.corrections for f in c.findings]
        assert sorted(review_page(page(name), name), key=str) == sorted([*found, *corrected.findings], key=str)
        reasons = patch_of(corrected, "page.md")
        assert all(f"# why: {e.why}\n" in reasons for e in errata)

    def test_output(self, tmp_path, run_opmap):
        """-o writes the same bytes into a file; several pages make one patch."""
        for name in ("gather", "gather_nd"):
            (tmp_path / f"{name}.md").write_bytes(page(name).replace("\n", "\r\n").encode())
        files = [str(tmp_path / f"{name}.md") for name in ("gather", "gather_nd")]

        assert ("", "") == run_opmap(1, "docs", "--patch", *files, "-o", tmp_path / "x.patch")
        written = (tmp_path / "x.patch").read_bytes()
        assert written.decode() == run_opmap(1, "docs", "--patch", *files).out
        assert 2 == written.count(b"\n--- ") and b"IndexDimensions: 1\r\n" in written

    def test_terminal(self, tmp_path, monkeypatch):
        """A terminal gets the control characters of the page escaped, a pipe gets the page's own bytes."""
        text = replaced(page("gather"), ("IndexDimensions: 2\n", "IndexDimensions: 2 // \x1b[31m\n"))
        (tmp_path / "page.md").write_text(text, encoding="utf-8")
        shown = []
        for terminal in (True, False):
            stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
            monkeypatch.setattr(stdout, "isatty", lambda terminal=terminal: terminal)
            monkeypatch.setattr(sys, "stdout", stdout)
            assert 1 == main(["docs", "--patch", str(tmp_path / "page.md")])
            stdout.flush()
            shown.append(stdout.buffer.getvalue().decode())

        assert r"+IndexDimensions: 1 // \x1b[31m" in shown[0] and "\x1b" not in shown[0]
        assert "+IndexDimensions: 1 // \x1b[31m" in shown[1]

    def test_name_with_spaces(self):
        """git and patch find the page."""
        found = correct_page(page("gather"), name="x")
        assert "--- my page.md\t\n+++ my page.md\t\n" in patch_of(found, "my page.md")

    def test_hunks(self):
        """A hunk names its errata; its numbers are those of the lines that it holds."""
        patch = patch_of(correct_page(page("gather_nd1"), name="x"), "page.md")
        lines = page("gather_nd1").split("\n")
        for start, count, ids, hunk in re.findall(r"(?m)^@@ -(\d+),(\d+) \+\1,\2 @@ (.*)\n((?:[ +-].*\n)+)", patch):
            old = [line[1:] for line in hunk.splitlines() if line[0] in " -"]
            assert lines[int(start) - 1 : int(start) - 1 + int(count)] == old
            assert ids and all(f"# {id}, " in patch for id in ids.split())
        assert 6 == patch.count("\n@@ ")


class TestNotCorrected:
    """What has no correction is said before the diff, as comments."""

    def patch(self, text: str) -> str:
        return patch_of(correct_page(text, name="page"), "page.md")

    def left(self, text: str) -> list[str]:
        """The lines about what is not corrected."""
        comments = [line for line in self.patch(text).split("\n--- ")[0].split("\n") if line]
        assert all(line.startswith("#") for line in comments)
        return comments[comments.index("# not corrected:") + 1 :]

    def test_other_language(self):
        """The Japanese sentence cannot be corrected; the comment says what is right."""
        first, *titles = self.left(page("gather.ja-JP.txt"))

        assert first.startswith("# line 42: contradiction: GATHER.C4: ") and "(GATHER.E3): " in first
        assert "the page does not hold the words `The *DimensionCount* and *DataType* of this tensor" in first
        assert first.endswith("right is OutputTensor.DataType == InputTensor.DataType")
        assert ["GATHER.E4", "GATHER.E5"] == [re.findall(r"\((GATHER\.\w+), ", line)[0] for line in titles]

    @pytest.mark.parametrize(
        "old, new, why",
        [
            ("[14,12,14,11,13]", "[14,12,14,11,12]", "it is not known which side is right"),
            ("Axis: 2\n", "Axis: 2\nAxis: x\n", "a text that cannot be read is not judged"),
            ("FLOAT16", "UINT4", "it is not known whether the page or opmap's spec of it is right"),
        ],
    )
    def test_unknown(self, old, new, why):
        """A finding that no erratum covers."""
        left = self.left(replaced(page("gather"), (old, new)))
        assert left and all(line.endswith(why) for line in left if "difference" not in line or "UINT4" in new)

    def test_not_better(self):
        """With a wrong value in example 3 the correction of its IndexDimensions would show that value: not
        corrected.
        """
        text = replaced(page("gather"), ("[[2,1],\n     [4,3]", "[[2,1],\n     [4,4]"))

        assert "+IndexDimensions: 1" not in self.patch(text)
        (line,) = [line for line in self.left(text) if "(GATHER.E2)" in line]
        assert "the corrected page would have another finding, on line 164: example 3: OutputTensor[1,1]: " in line

    def test_states_it_otherwise(self):
        """A formula with the same fault in other words is not touched."""
        text = replaced(page("gather_nd"), ("DimensionCount - indexTupleSize)", "DimensionCount + 0 - indexTupleSize)"))

        (line, *_) = self.left(text)
        assert "(GATHER_ND.E1): the page does not hold the words `InputTensor.DimensionCount - indexTupleSize)`" in line
        assert "GATHER_ND.C6" not in self.patch(text).split("--- page.md")[1]

    def test_translated(self):
        """The page with its text twice: only the original is corrected, and that is said."""
        text = page("gather_nd.pt-BR.md")
        assert "sentences are corrected in the original only" in self.patch(text)
        assert (
            "*InputTensor.DimensionCount* and *InputTensor.DataType*.</span>" in correct_page(text, name="x").corrected
        )
        assert "original" not in self.patch(page("gather_nd"))


class TestRefused:
    """One line on stderr, and 2."""

    @pytest.mark.parametrize(
        "content, said",
        [
            (b"# DML_GEMM_OPERATOR_DESC\n", "the page must be about an operator that opmap knows ("),
            (None, "no such file"),
            (b"nothing", "the page must name its operator"),
            (b"\xff", "must be UTF-8 text, got byte 0xff at 0"),
            (b"a" * 1_000_001, "a page must have at most 1000000 bytes, got 1000001"),
        ],
    )
    @pytest.mark.parametrize("option", ["--patch", "--html"])
    def test_page(self, option, content, said, tmp_path, run_opmap):
        """The other pages are corrected all the same."""
        if content is not None:
            (tmp_path / "bad.md").write_bytes(content)
        (tmp_path / "good.md").write_text(page("gather"), encoding="utf-8")

        out, err = run_opmap(2, "docs", option, tmp_path / "bad.md", tmp_path / "good.md")
        assert 1 == err.count("\n") and said in err and "bad.md" in err
        assert "GATHER.E1" in out

    @pytest.mark.parametrize(
        "options, said",
        [
            (["-o", "x"], "-o must come with --patch or --html"),
            (["--patch", "--new-only"], "--new-only must come without --patch and --html"),
            (["--patch", "--html"], "not allowed with argument"),
            (["--patch", "-o", "no such folder/x"], "cannot be written: "),
            (["--patch", "-o", "."], "cannot be written: "),
            (["--html", "-o", "."], "cannot be written: "),
        ],
    )
    def test_options(self, options, said, tmp_path, in_tmp_path, refusal):
        (tmp_path / "page.md").write_text(page("gather"), encoding="utf-8")

        assert said in refusal("docs", "page.md", *options)

    @pytest.mark.parametrize("name", ['a"b.md', "a\nb.md", "a\x1bb.md", "a\\b.md"])
    def test_name(self, name):
        """git and patch would read such a name as another one."""
        with pytest.raises(InputError, match="must have a name without control characters, quotes and backslashes"):
            patch_of(correct_page(page("gather"), name=name), name)


class TestWording:
    """Words are replaced, spaces and marks stay."""

    @pytest.mark.parametrize(
        "text, printed, corrected, wanted",
        [
            ("ranging [0, `A.B`). `C`", "[0, A.B)", "[0, A.B]", "ranging [0, `A.B`]. `C`"),
            ("`[0, *A.B*)`", "[0, A.B)", "[0, C)", "`[0, *C*)`"),
            (
                "must match *A.B*. The",
                "must match *A.B*",
                "must match *A.B* and *A.C*",
                "must match *A.B* and *A.C*. The",
            ),
            ("must match A.B. The", "must match *A.B*", "must match *A.B* and *A.C*", "must match A.B and A.C. The"),
            ("<em>A.B</em>)", "A.B)", "A.C)", "<em>A.C</em>)"),
            ("x[y], x[ y ]", "x[y]", "x[y, 0]", "x[y, 0], x[ y, 0 ]"),
            ("x[y, 0]", "y", "y, 0", "x[y, 0]"),
            ("1\n2  3", "1 2 3", "1 4 3", "1\n4  3"),
            ("a b", "b", "c b", "a c b"),
            ("a b c", "a b c", "a c", "a c"),
            ("abc a.b", "a", "z", "abc a.b"),
            ("a", "*", "b", "a"),
        ],
    )
    def test_replaced(self, text, printed, corrected, wanted):
        for edit in reversed(list(replacements(text, 0, len(text), printed, corrected))):
            text = text[: edit.start] + edit.new + text[edit.end :]
        assert re.sub(" +", " ", wanted) == re.sub(" +", " ", text)

    @pytest.mark.parametrize("spec, erratum", ERRATA)
    def test_sentences(self, spec, erratum):
        """The sentence of an erratum is on the page; its correction is one line."""
        text = page(spec.name.lower())
        assert holds(text, 0, len(text), erratum.sentence.printed)
        assert erratum.sentence.corrected.isprintable() and erratum.sentence.corrected != erratum.sentence.printed


class TestHtml:
    """`opmap docs --html`: the same as one page that stands alone."""

    PLANTED = "<img src=x onerror=alert(1)></pre></style><!--<script>'\"&{{ 7 * 7 }}\x1b[31m\u202e"

    def page(self, tmp_path, *names: str) -> str:
        output = tmp_path / "corrections.html"
        assert main(["docs", "--html", *names, "-o", str(output)]) in (1, 2)
        return output.read_text(encoding="utf-8")

    def test_content(self, tmp_path):
        """Every correction with its lines and its reason, of every page."""
        names = []
        pages = {name: operator for name, operator in ENGLISH.items() if f"{name}.en-US.md" in WITH_CORRECTIONS}
        for name in pages:
            (tmp_path / f"{name}.md").write_bytes(page(name).encode())
            names.append(str(tmp_path / f"{name}.md"))
        shown = html.unescape(self.page(tmp_path, *names))

        for name, operator in pages.items():
            found = correct_page(page(name), name=name)
            for erratum in (e for e in load_spec(operator).errata if not e.adds_lines):
                assert f"<h3>{erratum.id}, {erratum.kind}</h3>" in shown and erratum.why in shown
            for change in (change for c in found.corrections for change in c.changes):
                assert f"line {change.line}</p>" in shown and f"<b>{change.new}</b>" in shown
            assert patch_of(found, f"{name}.md").rstrip("\n") in shown
        assert str(tmp_path) not in shown

    def test_markup(self, tmp_path):
        """Texts of the page and of its name are escaped: beside a change, in a finding, in the patch."""
        text = replaced(
            page("gather"),
            (
                "IndexDimensions: 2\n\nInputTensor: (Sizes:{3,2}",
                f"IndexDimensions: 2 // {self.PLANTED}\n\nInputTensor: (Sizes:{{3,2}}",
            ),
            ("DataType:FLOAT32)\n    [14,", f"DataType:{'<img src=y>'})\n    [14,"),
        )
        name = tmp_path / ("page <b>&.md" if os.name != "nt" else "page &.md")  # Windows has no such name
        name.write_text(text, encoding="utf-8")

        shown = self.page(tmp_path, str(name))

        assert not re.search("<img|<!--|<script|\x1b|\u202e|<b>&", shown) and 1 == shown.count("</style>")
        escaped = html.escape(self.PLANTED.split("\x1b")[0], quote=False)
        assert html.unescape(shown).count(self.PLANTED.split("\x1b")[0]) >= 3 and escaped.split("'")[0] in shown
        assert r"\x1b[31m\u202e" in shown

    def test_alone(self, tmp_path):
        """The page loads nothing, has no script, and its policy allows its own style only."""
        (tmp_path / "page.md").write_text(page("gather"), encoding="utf-8")
        shown = self.page(tmp_path, str(tmp_path / "page.md"))
        (style,) = re.findall("<style>(.*?)</style>", shown, re.DOTALL)
        digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()

        assert not re.search(r"<script|<link|<iframe|\ssrc=|\shref=|@import|url\(|\sstyle=|\son\w+=", shown)
        assert f"default-src 'none'; style-src 'sha256-{digest}'" in html.unescape(shown)
        assert "prefers-color-scheme: dark" in style

    def test_nothing(self, tmp_path, capsys):
        """A page that is right."""
        (tmp_path / "page.md").write_text(correct_page(page("gather"), name="x").corrected, encoding="utf-8")
        assert 0 == main(["docs", "--html", str(tmp_path / "page.md")])
        assert "There is no correction that opmap can compute." in capsys.readouterr().out
