"""The report in a browser: it loads, filters, opens a failure, prints, and can be used by everybody."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from browser import browser, missing
from planted_markup import planted

from opmap.cli import main
from opmap.reports.html_report import write_report
from opmap.reports.written_bundle import read_bundle

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
"""The digest of axe.min.js in axe-core 4.14.1."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """The bundle of a run with a planted fault."""
    folder = tmp_path_factory.mktemp("bundle") / "ran"
    arguments = ["--filter", "gather/example.*", "--filter", "gather_elements/*32/*"]
    assert main(["validate", *arguments, "--provider", "fault:negative-index-off-by-one", "--report", str(folder)]) == 1
    return folder


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """The bundle of tier smoke with the same fault."""
    folder = tmp_path_factory.mktemp("bundle") / "smoke"
    assert main(["validate", "--provider", "fault:negative-index-off-by-one", "--report", str(folder)]) == 1
    return folder


@pytest.fixture(scope="module")
def window():
    """A browser for all tests."""
    with browser() as page:
        yield page


@pytest.fixture
def opened(window, bundle):
    """The report of that bundle, opened anew in a window of a desktop."""
    window.size(1200, 900)
    window.colours("light")
    window.problems.clear()
    window.open(write_report(read_bundle(bundle)))
    yield window
    assert not window.problems


def count_of(page) -> str:
    return page.value("document.getElementById('count').textContent")


class TestFirstScreen:
    """What a reader of a red run sees before anything is scrolled or opened."""

    @pytest.mark.parametrize("width", [1400, 420])
    @pytest.mark.parametrize("run", ["bundle", pytest.param("smoke", marks=pytest.mark.slow)])
    def test_failure(self, run, width, window, request):
        """The verdict, what was tested, and the first cause with its picture and its command."""
        window.size(width, 900, mobile=width < 500)
        window.open(write_report(read_bundle(request.getfixturevalue(run))))

        visible = window.value("""[".badge", ".tested", "#cause-1 h3", "#cause-1 .grids", "#cause-1 .again code"].map((name) => {
            const element = document.querySelector(name);
            const { top, bottom, left, right } = element.getBoundingClientRect();
            const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
            return top >= 0 && bottom <= innerHeight && element.contains(hit) ? element.innerText : `${name} at ${top} to ${bottom}`;
        })""")

        badge, tested, cause, picture, command = visible
        assert "FAILED" == badge
        assert tested.startswith("Tested: fault:negative-index-off-by-one, ")
        assert "a negative index means the element before the right one" in cause
        assert "expected output" in picture and "actual output" in picture
        assert command.startswith("opmap validate --provider fault:negative-index-off-by-one --case gather")

    def test_matrix(self, opened):
        """The matrix has a row for each operator, open if a case failed; a legend explains each mark."""
        rows = opened.value("""[...document.querySelectorAll("#matrix details")].map((row) =>
            [row.querySelector(".name").innerText, row.open, row.querySelector(".outcome").innerText[0]])""")
        marks = opened.value(
            """[...new Set([...document.querySelectorAll("#matrix td")].map((cell) => cell.textContent.trim()[0]))]"""
        )
        legend = opened.value(
            """[...document.querySelectorAll("#matrix .legend span")].map((mark) => mark.innerText[0])"""
        )

        assert [["GATHER_ELEMENTS", True, "✗"], ["GATHER", False, "✓"]] == rows
        assert set(marks) <= set(legend) == {"✗", "✓", "●", "\N{EN DASH}"}


class TestInBrowser:
    """A report of a run."""

    @pytest.mark.slow
    def test_loads(self, opened, bundle):
        lines = (bundle / "results.jsonl").read_text().count("\n")

        assert f"{lines} cases" == count_of(opened)
        assert min(lines, 100) == opened.value("document.querySelectorAll('#list details').length")

    @pytest.mark.slow
    def test_search(self, opened):
        """All words must occur, in upper or lower case."""
        found = opened.value("""new Promise((done) => {
            const search = document.getElementById("search");
            search.value = "GATHER_ELEMENTS neg";
            search.dispatchEvent(new Event("input"));
            setTimeout(() => done([...document.querySelectorAll("#list code")].map((code) => code.textContent)), 500);
        })""")

        assert found
        assert all("gather_elements/" in id and "neg" in id for id in found)

    def test_cell(self, opened):
        """A click on a cell of a matrix shows its cases, and `show all` shows all again."""
        wanted = opened.value("""(() => {
            const button = document.querySelector("#matrix td button.bad");
            button.click();
            return JSON.parse(button.dataset.filter);
        })()""")
        ids = opened.value("[...document.querySelectorAll('#list code')].map((code) => code.textContent)")
        begin = f"{wanted['operator']}/{wanted['data_type']}/d{wanted['dimensions']}.".lower()

        assert ids
        assert all(id.startswith(begin) for id in ids)
        opened.value(
            "new Promise((done) => { document.querySelector('[type=reset]').click(); setTimeout(done, 200); })"
        )
        assert " of " not in count_of(opened)

    def test_support(self, opened):
        """A click on a failed pair shows its failures only. All signs stand in the legend, and fit a phone."""
        wanted = opened.value("""(() => {
            const button = document.querySelector("#support td button.failed");
            button.click();
            return JSON.parse(button.dataset.filter);
        })()""")
        shown = opened.value("""[...document.querySelectorAll('#list summary')].map((line) =>
            [line.querySelector(".verdict").textContent, line.querySelector("code").textContent])""")
        signs, legend = (
            opened.value(f"[...new Set([...document.querySelectorAll('{cells}')].map((c) => c.textContent[0]))]")
            for cells in ("#support td .sign", "#support .legend .sign")
        )
        opened.size(400, 800, mobile=True)
        table, room = opened.value("""(() => {
            const table = document.querySelector(".support");
            return [table.scrollWidth, table.parentElement.clientWidth];
        })()""")

        assert {"mismatch"} == {verdict for verdict, _ in shown}
        assert all(id.startswith(f"{wanted['operator']}/{wanted['data_type']}/".lower()) for _, id in shown)
        assert set(signs) <= set(legend) and len(legend) == 8
        assert table <= room

    def test_opens_a_failure(self, opened):
        """The cases of a cause; one that is opened says what was wrong, and the command that runs it again."""
        told = opened.value("""new Promise((done) => {
            document.querySelector(".cause [data-filter]").click();
            const first = document.querySelector("#list details");
            first.open = true;
            setTimeout(() => done(first.textContent), 300);
        })""")

        assert told.startswith("mismatch")
        assert "elements differ" in told
        assert "opmap validate --provider fault:negative-index-off-by-one --case gather" in told

    def test_prints(self, opened):
        assert opened.pdf().startswith(b"%PDF")

    def test_phone(self, opened):
        """Nothing but the parts that scroll by themselves is wider than a phone."""
        opened.size(375, 800, mobile=True)

        assert 375 == opened.value("document.documentElement.scrollWidth")

    @pytest.mark.parametrize("colours", ["light", "dark"])
    def test_can_be_used_by_everybody(self, opened, colours):
        """axe-core finds nothing: contrast, names of controls, order of headings, and more."""
        file = os.environ.get("OPMAP_AXE")
        if not file:
            pytest.skip("needs OPMAP_AXE, the path of axe.min.js (npm pack axe-core@4.14.1)")
        content = Path(file).read_bytes()
        assert AXE_SHA256 == hashlib.sha256(content).hexdigest(), "axe.min.js of axe-core 4.14.1"
        opened.colours(colours)
        opened.value("document.querySelector('.cause [data-filter]').click()")
        opened.value("document.querySelector('#list details').open = true")

        opened.value(f"{content.decode()}; 1")
        found = opened.value("axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes[0].html]))")

        assert [] == found


class TestOtherBundles:
    """Bundles that no run writes."""

    def test_markup(self, window, tmp_path):
        """Texts with markup are shown as texts, also in a case that is opened: nothing of them runs."""
        planted(tmp_path)
        window.problems.clear()

        window.open(write_report(read_bundle(tmp_path)))
        told = window.value("""new Promise((done) => {
            const first = document.querySelector("#list details");
            first.open = true;
            setTimeout(() => done(first.textContent), 300);
        })""")

        assert "<img src=x onerror=alert('record.message')></script><!--<script>" in told
        assert 0 == window.value("document.querySelectorAll('img').length")
        assert not window.problems

    def test_comparison(self, window, tmp_path, bundle, monkeypatch):
        """The page of a comparison loads, has no markup of others, and fits a phone."""
        (tmp_path / "planted").mkdir()
        planted(tmp_path / "planted")
        monkeypatch.chdir(tmp_path)
        main(["diff", str(bundle), "planted", "--html", "page.html"])
        window.problems.clear()
        window.size(375, 800, mobile=True)

        window.open(Path("page.html"))

        assert "a negative index means" in window.value("document.body.textContent")
        assert 0 == window.value("document.querySelectorAll('img, script').length")
        assert 375 == window.value("document.documentElement.scrollWidth")
        assert not window.problems

    def test_history(self, window, tmp_path, bundle, monkeypatch):
        """The page of a history loads nothing, fits a phone, and can be read in light and in dark."""
        name = "<script>window.planted = 1<" if os.name != "nt" else "&amp"
        shutil.copytree(bundle, tmp_path / name)
        monkeypatch.chdir(tmp_path)
        assert 0 == main(["report", str(bundle), name])
        window.problems.clear()
        window.size(375, 800, mobile=True)
        colour = """getComputedStyle(document.querySelector("svg .passed")).fill"""
        colours = []

        for scheme in ("light", "dark"):
            window.colours(scheme)
            window.open(Path("history.html"))
            colours.append(window.value(colour))

        assert 2 == len({*colours, "rgb(0, 0, 0)"} - {"rgb(0, 0, 0)"})
        assert f"2: {name}" in window.value("document.querySelector('table').textContent")
        assert 0 == window.value("document.querySelectorAll('img, script, [style]').length")
        assert "undefined" == window.value("typeof window.planted")
        assert 375 == window.value("document.documentElement.scrollWidth")
        assert not window.problems
