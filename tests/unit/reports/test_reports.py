"""The reports in a results bundle: junit.xml, summary.md, diagnosis.json; and the JSON Schema of each JSON file."""

from __future__ import annotations

import errno
import json
import shutil
import sys
import xml.etree.ElementTree as ET

import jsonschema
import msgspec
import pytest
from bundle_folders import check_bundle, schema_of, validate
from bundle_schemas import DOCUMENTS
from markdown_it import MarkdownIt

from opmap.cases.selection import find_case
from opmap.cli import main
from opmap.errors import ProviderError
from opmap.files import write_file
from opmap.judge.record import Record
from opmap.manual import read_page
from opmap.reports.bundle import Bundle
from opmap.reports.documents import FILES, RunDocument, Totals
from opmap.reports.export import export_folder
from opmap.reports.failure_folders import is_written
from opmap.reports.junit import junit
from opmap.reports.markdown import block, code, plain, table
from opmap.reports.reproducers.model_folders import write_files
from opmap.reports.summary import STEP_SUMMARY, summary
from opmap.vocabulary import Stage, Verdict

FAULT = ["--provider", "fault:index-clamped-early", "--filter", "gather/example.*"]
GREEN = ["--provider", "cpu", "--filter", "gather/example.*"]
IDS = [f"gather/example.{n}" for n in range(1, 6)]
ABSENT = ["--provider", "AbsentExecutionProvider", "--filter", "gather/example.*"]
RUNS = {"red": FAULT, "green": GREEN, "absent": ABSENT}

MARKUP = "</x><img src=x onerror=alert(1)> | `a` ``b`` [l](https://e.x) www.e.x *b* _i_ &lt; \x1b[2J\n# h \ud800 \ufffe"
"""A text that does something wherever it is not escaped."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The bundles of a run with a planted fault, of a green one, and of one whose provider is absent."""
    folder = tmp_path_factory.mktemp("runs")
    codes = [validate(folder / name, *arguments) for name, arguments in RUNS.items()]
    assert [1, 0, 0] == codes
    return folder


def ran(exit_code: int, problems: tuple[str, ...] = (), **selection: str) -> RunDocument:
    """The run.json of a run that has ended."""
    return RunDocument(schema="", selection=selection, problems=list(problems), totals=Totals({}, exit_code))


class TestFiles:
    """A run that has ended leaves all files, also if something fails after the cases ran."""

    @pytest.mark.parametrize("name", RUNS)
    def test_schemas(self, name, runs):
        """The files of a real run fit their schemas."""
        folders = {"failures"} if name == "red" else set()
        assert {*FILES, "times.json", "report.html", *folders} == {path.name for path in (runs / name).iterdir()}
        check_bundle(runs / name)

    @pytest.mark.parametrize("name", DOCUMENTS)
    def test_manual(self, name):
        """The manual names each key of a document."""
        manual = "".join(map(read_page, ("results", "diagnosis", "survey")))
        keys = [field.encode_name for field in msgspec.structs.fields(DOCUMENTS[name])]
        assert [] == [key for key in keys if f"`{key}`" not in manual]

    @pytest.mark.parametrize("name", DOCUMENTS)
    def test_schema_refuses(self, name):
        """A schema is not so wide that it takes anything."""
        with pytest.raises(jsonschema.ValidationError):
            schema_of(name).validate({"schema": "other"})

    def test_diagnosing_fails(self, tmp_path, monkeypatch, capsys):
        """The results are there before the causes are sought; then there is no diagnosis.json that says there is
        none.
        """

        def fails(*_: object, **__: object) -> None:
            run = json.loads((tmp_path / "run.json").read_bytes())
            assert {"mismatch": 5} == run["totals"]["verdicts"]
            raise ProviderError("gone")

        monkeypatch.setattr("opmap.diagnosis.diagnose.quick_diagnoses", fails)

        assert 1 == validate(tmp_path, *FAULT)

        assert "the causes were not found: gone" in capsys.readouterr().err
        assert {*FILES, "times.json", "report.html"} - {"diagnosis.json"} == {path.name for path in tmp_path.iterdir()}

    def test_diagnosing_breaks(self, tmp_path, monkeypatch):
        """Also an error of opmap itself costs no result, and the folder is free for --resume."""
        with monkeypatch.context() as patch:
            patch.setattr("opmap.diagnosis.diagnose.quick_diagnoses", lambda *_, **__: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                validate(tmp_path, *FAULT)

        assert ["results.jsonl", "run.json"] == sorted(path.name for path in tmp_path.iterdir())
        assert 1 == json.loads((tmp_path / "run.json").read_bytes())["totals"]["exit_code"]
        assert 1 == main(["validate", *FAULT, "--resume", str(tmp_path)])
        assert {*FILES, "times.json", "report.html", "failures"} == {path.name for path in tmp_path.iterdir()}

    def test_resumed(self, tmp_path):
        """The reports of an earlier end are gone while a resumed run goes on: they would say less than there is."""
        for name in ("junit.xml", "summary.md", "report.html"):
            (tmp_path / name).write_text("old", encoding="utf-8")
        diagnosis = '{"schema":"opmap-diagnosis/1","provider":"x","groups":[]}'
        (tmp_path / "diagnosis.json").write_text(diagnosis, encoding="utf-8")
        (tmp_path / "run.json").write_text('{"schema":"opmap-results/1","selection":{}}', encoding="utf-8")

        Bundle(tmp_path, {}, resume=True).release()

        assert ["results.jsonl", "run.json"] == sorted(path.name for path in tmp_path.iterdir())

    def test_failures_of_an_earlier_end(self, runs, tmp_path):
        """A resumed run removes the folders of failures that it does not write again, and none that opmap did not
        write.
        """
        tmp_path = shutil.copytree(runs / "red", tmp_path / "r")
        failures = tmp_path / "failures"
        (first, *_) = names = sorted(path.name for path in failures.iterdir())
        for name in ("stale", "with notes", "nested"):
            shutil.copytree(failures / first, failures / name)
        (failures / "with notes" / "notes.txt").touch()
        (failures / "nested" / "dxdispatch" / "mine").mkdir(parents=True)
        (failures / "mine").mkdir()
        (failures / "mine" / "model.onnx").touch()
        (failures / "file").touch()

        main(["validate", *FAULT, "--resume", str(tmp_path)])

        kept = {"with notes", "nested", "mine", "file"}
        assert kept | {*names} == {path.name for path in failures.iterdir()}

    @pytest.mark.skipif(sys.platform == "win32", reason="a symbolic link needs a privilege there")
    @pytest.mark.parametrize("linked", ["failures", "failures/stale", "failures/stale/model.onnx"])
    def test_links(self, linked, runs, tmp_path):
        """A link in place of a folder or a file of failures is not followed, and stays."""
        shutil.copytree(runs / "red", tmp_path / "r")
        (first, *_) = (tmp_path / "r" / "failures").iterdir()
        shutil.copytree(first, tmp_path / "r" / "failures" / "stale")
        link, elsewhere = tmp_path / "r" / linked, tmp_path / "elsewhere"
        link.rename(elsewhere)
        link.symlink_to(elsewhere)

        Bundle(
            tmp_path / "r", json.loads((tmp_path / "r" / "run.json").read_bytes())["selection"], ids=IDS, resume=True
        ).release()

        assert link.is_symlink() and elsewhere.exists()
        assert elsewhere.is_file() or (elsewhere / "issue.md").is_file() or (elsewhere / "stale" / "issue.md").is_file()

    @pytest.mark.parametrize("before", [[], ["gather/example.2"], ["gather/uint16/d6.axis3.k3/int64.mix/addr.125c69"]])
    @pytest.mark.parametrize("id", ["gather/example.1", "gather/example.1/external"])
    def test_is_written(self, id, before, tmp_path):
        """All files of an exported folder are files that opmap writes.

        A large array of the program has a file of its own.
        """
        files = export_folder(find_case(id), before=[find_case(one) for one in before])
        write_files(tmp_path, files)

        assert is_written(tmp_path)
        (tmp_path / "mine").touch()
        assert not is_written(tmp_path)


class TestFullDisk:
    """A disk that is full at the end costs a file, and nobody reads that all is well."""

    @pytest.mark.parametrize("name", ["results.jsonl", "run.json", "diagnosis.json", "summary.md", "report.html"])
    def test_last_line(self, name, tmp_path, monkeypatch, capsys):
        really, most = write_file, 2 if name == "run.json" else 1 if name == "results.jsonl" else 0

        def full(path, content):
            nonlocal most
            most -= path.name == name
            if path.name == name and most < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            really(path, content)

        for module in ("reports.results_folder", "files"):
            monkeypatch.setattr(f"opmap.{module}.write_file", full)

        assert 2 == validate(tmp_path / "r", "--provider", "cpu", "--filter", "gather/example.*")

        out, err = capsys.readouterr()
        assert "No space left on device" in err
        assert "FAILED: not everything could be written." == out.splitlines()[-1] and "5 passed" not in out


class TestJUnit:
    """junit.xml is red exactly if the run is."""

    RECORDS = (
        Record(case="gather/a", operator="DML_OPERATOR_GATHER", verdict=Verdict.PASS),
        Record(case="gather/b", operator="DML_OPERATOR_GATHER", verdict=Verdict.MISMATCH, message=MARKUP),
        Record(case="gather/c", verdict=Verdict.ERROR, stage=Stage.LOAD, message="no"),
        Record(case="gather/d", verdict=Verdict.NOT_RUN, message="gone"),
        Record(case="gather/e", verdict=Verdict.KNOWN_FAILURE),
    )

    def test_verdicts(self):
        """A mismatch is a failure, an error is an error, what was not run or is known is skipped; no text is markup."""
        root = ET.fromstring(junit([(ran(1, provider=MARKUP, tier="smoke").runs[0], self.RECORDS)]))

        (suite,) = root
        kinds = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
        assert {"gather/a": [], "gather/b": ["failure"], "gather/c": ["error"], "gather/d": ["skipped"]} | {
            "gather/e": ["skipped"]
        } == kinds
        assert ("5", "1", "1", "2") == tuple(suite.get(name) for name in ("tests", "failures", "errors", "skipped"))
        assert {"testsuites", "testsuite", "properties", "property", "testcase", "failure", "error", "skipped"} == {
            element.tag for element in root.iter()
        }
        failure = root.find(".//failure")
        assert failure is not None and "</x><img src=x onerror=alert(1)>" in (failure.get("message") or "")

    @pytest.mark.parametrize(
        "exit_code, problems, message",
        [(1, (), "the run is red: a case was not run"), (130, (), "interrupted"), (1, ("stale",), "stale")],
    )
    def test_red_without_failure(self, exit_code, problems, message):
        """A run that is red although no case failed has a test case that says why."""
        root = ET.fromstring(junit([(ran(exit_code, problems).runs[0], self.RECORDS[:1])]))

        (failure,) = root.iter("failure")
        assert message in (failure.get("message") or "")


class TestSummary:
    """summary.md says what was tested on what, the verdict, and the causes."""

    def test_red(self, runs):
        """The verdict is the heading, then come the causes, then the counts."""
        text = (runs / "red" / "summary.md").read_text(encoding="utf-8")
        assert text.startswith(
            "# opmap: failed, 5 cases of tier smoke: 5 failed, of 1 cause\n\nOn fault:index-clamped-early"
        )
        assert "## Cause 1: the last element of the axis cannot be reached" in text
        assert text.index("## Cause 1") < text.index("| GATHER | 5 | 5 |")

    @pytest.mark.parametrize(
        "name, heading",
        [
            ("green", "passed, 5 cases of tier smoke: none failed"),
            ("absent", "not run, 5 cases of tier smoke: none was run"),
        ],
    )
    def test_not_red(self, name, heading, runs):
        """A run in which nothing ran does not look like one in which all passed."""
        text = (runs / name / "summary.md").read_text(encoding="utf-8")
        assert text.startswith(f"# opmap: {heading}\n")

    def test_step_summary(self, tmp_path, monkeypatch):
        """GitHub's page of the run gets the summary too, after what other steps wrote."""
        page = tmp_path / "page.md"
        page.write_text("before\n", encoding="utf-8")
        monkeypatch.setenv(STEP_SUMMARY, str(page))

        validate(tmp_path / "r", *FAULT)

        assert f"before\n{(tmp_path / 'r' / 'summary.md').read_text(encoding='utf-8')}\n" == page.read_text(
            encoding="utf-8"
        )

    def test_step_summary_missing(self, tmp_path, monkeypatch, capsys):
        """A page that cannot be written is one line and exit code 2; the bundle is complete."""
        monkeypatch.setenv(STEP_SUMMARY, str(tmp_path / "no" / "page.md"))

        assert 2 == validate(tmp_path / "r", *FAULT)

        assert "GITHUB_STEP_SUMMARY must name a file that can be written" in capsys.readouterr().err
        assert {*FILES, "times.json", "report.html", "failures"} == {path.name for path in (tmp_path / "r").iterdir()}

    def test_markup(self):
        """Nothing from outside becomes a link, an image, HTML or a heading."""
        records = [Record(case=MARKUP, operator=MARKUP, provider=MARKUP, verdict=Verdict.MISMATCH, message=MARKUP)]
        text = summary(ran(1, (MARKUP,), provider=MARKUP, tier=MARKUP), records, [MARKUP])

        tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
        kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or ()}
        assert not kinds & {"html_block", "html_inline", "link_open", "image", "em_open"}
        assert 1 == sum(token.type == "heading_open" and token.tag == "h1" for token in tokens)
        assert 2 == sum(token.type == "fence" for token in tokens) - 1

    @pytest.mark.parametrize("text", [MARKUP, "`", "a|b", "", " x ", "```", "\\|"])
    def test_cells(self, text):
        """A text in a table stays in its cell, and a text in a block in its block."""
        cells = MarkdownIt("gfm-like", {"linkify": False}).render(table(["a", "b"], [[plain(text), code(text)]]))
        lines = MarkdownIt().parse(block([text, "end"]))

        assert (1, 2) == (cells.count("<tbody>"), cells.count("<td>"))
        assert "<img" not in cells and "<a " not in cells
        assert ["fence"] == [token.type for token in lines]
