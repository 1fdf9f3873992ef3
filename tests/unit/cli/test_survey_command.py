"""The command `opmap survey` on planted backends: its exit code, its document, and what a crash or a hang costs."""

import json

import jsonschema
import pytest
from bundle_schemas import json_schema
from tiers import survey_questions

from opmap.cases.invalid_indices import AXIS
from opmap.cli import main
from opmap.cli.commands import survey as command
from opmap.judge.survey import CRASH, ERROR, HANG, NOT_ASKED, Survey
from opmap.tensors import DataType


@pytest.fixture
def survey(capsys, monkeypatch):
    """Runs the command with fewer questions, and returns its exit code and document."""
    some = {
        name: [
            q
            for q in asked
            if q.data.data_type.name in ("FLOAT32", "UINT8")
            and q.index_type is DataType.INT64
            and q.position in ("size", "2^63-2", "-far")
        ]
        for name, asked in survey_questions().items()
    }
    monkeypatch.setattr(command, "questions", lambda operator: some[operator.name])

    def run(*arguments):
        code = main(["survey", *arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def got(document, operator, position):
    """Returns the answers to one invalid index."""
    return [
        text
        for o in document["observations"]
        if (o["operator"], o["position"]) == (f"DML_OPERATOR_{operator}", position)
        for text in o["answers"]
    ]


class TestCommand:
    """The command, its exit code and its document."""

    def test_cpu(self, survey):
        """The CPU EP refuses every invalid index."""
        code, document = survey("--provider", "cpu", "--require-provider")
        assert (0, "opmap-survey/1", "CPUExecutionProvider", 0) == (
            code,
            document["schema"],
            document["provider"],
            document["failures"],
        )
        (row,) = [row for row in document["rows"] if "DML_OPERATOR_GATHER" in row["operators"]]
        assert {
            "operators": [
                "DML_OPERATOR_GATHER",
                "DML_OPERATOR_GATHER_ELEMENTS",
                "DML_OPERATOR_GATHER_ND",
                "DML_OPERATOR_GATHER_ND1",
            ],
            "index_types": ["INT64"],
            "indices": ["all"],
            "answer": ERROR,
            "failed": False,
        } == row
        first = document["observations"][0]
        assert first["index"] == first["axis_length"] > 0
        assert "out of data bounds" in first["message"]
        assert first["dxdispatch"] is None

    @pytest.mark.slow
    def test_crash(self, survey):
        """A crash is wrong, is not repeated with other data, and ends nothing: a new process answers on."""
        code, document = survey("--provider", "planted_answers:Crashes")
        assert 1 == code
        crashed = got(document, "GATHER", "2^63-2")
        assert [CRASH, *[NOT_ASKED] * (len(crashed) - 1)] == crashed
        assert AXIS in got(document, "GATHER", "-far") and AXIS in got(document, "GATHER_ND1", "-far")
        assert AXIS in got(document, "GATHER_ND1", "2^63-2")
        (failure,) = [o for o in document["observations"] if o["failure"]]
        assert failure["failure"].startswith("crash: the worker process ended with exit code ")

    def test_reproduced(self, survey, tmp_path, run_opmap):
        """A failure comes with a DxDispatch file, which crashes again."""
        _, document = survey("--provider", "planted_answers:Crashes")
        (failure,) = [o for o in document["observations"] if o["failure"]]
        (tmp_path / "crash.json").write_text(json.dumps(failure["dxdispatch"]), encoding="utf-8")
        assert "crash" in run_opmap(1, "check", tmp_path / "crash.json", "--provider", "planted_answers:Crashes").out

    @pytest.mark.slow
    def test_hang(self, survey):
        """After a hang, nothing more is asked about the operator; the others are asked."""
        code, document = survey("--provider", "planted_answers:Hangs", "--timeout-per-case", "1")
        assert 1 == code
        hung = got(document, "GATHER", "2^63-2")
        assert [HANG, *[NOT_ASKED] * (len(hung) - 1)] == hung
        assert NOT_ASKED in got(document, "GATHER", "size")
        assert AXIS in got(document, "GATHER_ELEMENTS", "2^63-2")

    @pytest.mark.parametrize(
        ("backend", "code"), [("Nowhere", 1), ("NowhereElsewhere", 0), ("Zero", 1), ("Refuses", 0)]
    )
    def test_exit_code(self, survey, backend, code):
        assert code == survey("--provider", f"planted_answers:{backend}", "--in-process")[0]

    def test_nothing_answered(self, survey):
        """A survey in which no provider answered is red: it shows nothing."""
        code, document = survey("--provider", "planted_answers:Elsewhere", "--in-process")
        assert (1, [NOT_ASKED]) == (code, [row["answer"] for row in document["rows"]])

    def test_missing_provider(self, capsys):
        """Without the provider nothing is asked, which is red only if it is required."""
        missing = ["survey", "--provider", "QNNExecutionProvider", "--json"]
        assert (0, 1) == (main(missing), main([*missing, "--require-provider"]))
        captured = capsys.readouterr()
        assert [] == json.loads(captured.out.splitlines()[0])["observations"]
        assert captured.err.startswith("opmap: not run: ")

    def test_interrupted(self, survey, monkeypatch):
        """Ctrl-C ends the questions; the document has the answers so far."""
        ask_one = Survey.ask

        def stop(self, question, asked=[]):  # noqa: B006  # counts the calls
            asked.append(question)
            if len(asked) > 2:
                raise KeyboardInterrupt
            return ask_one(self, question)

        monkeypatch.setattr(Survey, "ask", stop)
        code, document = survey("--provider", "cpu")
        assert (130, 2) == (code, len(document["observations"]))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--provider", "fault:nosuch"], "--provider fault:NAME must name one of"),
            (["--tier", "standard"], "unknown option --tier"),
            (["--provider", "cpu", "--adapter", "x"], "--adapter, --device-id and --disable-metacommands are for"),
        ],
    )
    def test_bad_usage(self, refusal, arguments, message):
        assert message in refusal("survey", *arguments)

    def test_failure_is_printed(self, run_opmap, survey):
        """The first failure of each operator is printed, with its type, index and size, and how many more there are."""
        lines = run_opmap(1, "survey", "--provider", "planted_answers:Nowhere", "--in-process").out.splitlines()
        (line,) = [line for line in lines if line.startswith("GATHER, ")]
        assert line.startswith("GATHER, FLOAT32 data, INT64 indices, size = ")
        assert line.endswith(" more)")


class TestReport:
    """`--report DIR` adds the table to a results bundle."""

    @pytest.fixture
    def bundle(self, tmp_path, capsys):
        folder = tmp_path / "bundle"
        main(["validate", "--provider", "cpu", "--case", "gather/example.1", "--report", str(folder)])
        capsys.readouterr()
        return folder

    def test_is_added(self, survey, bundle):
        """The document of --json lies in the bundle and fits its schema; the report has the table."""
        page = (bundle / "report.html").read_text(encoding="utf-8")
        assert "opmap survey --report</code> adds it" in page
        _, document = survey("--provider", "cpu", "--report", str(bundle))
        written = json.loads((bundle / "survey.json").read_bytes())
        jsonschema.validate(written, json_schema("survey"))
        assert document == written
        page = (bundle / "report.html").read_text(encoding="utf-8")
        assert f"<td>{written['rows'][0]['answer']}</td>" in page
        assert "What CPUExecutionProvider (cpu) does" in page

    @pytest.mark.parametrize(
        "provider, folder, wanted",
        [
            ("planted_answers:Axis", "bundle", "must be a results bundle of planted_answers:Axis, got one of CPUExecutionProvider"),
            ("cpu", "nothing", "must be the folder of a results bundle, got no such folder"),
        ],
    )  # fmt: skip
    def test_refused(self, provider, folder, wanted, bundle, tmp_path, refusal):
        """A bundle of another provider, and no bundle: one line before a question is asked, and nothing is written."""
        assert wanted in refusal("survey", "--provider", provider, "--report", tmp_path / folder)
        assert not (bundle / "survey.json").exists()

    def test_hostile(self, bundle, run_opmap):
        """Texts of a file from elsewhere are escaped, and a file of another form is refused."""
        row = {"operators": ["<q>o"], "index_types": ["<q>t"], "indices": ["<q>i"], "answer": "<q>a", "failed": True}
        document = {"schema": "opmap-survey/1", "provider": "<q>p", "device_class": "<q>d", "failures": 1}
        (bundle / "survey.json").write_text(json.dumps({**document, "rows": [row], "observations": []}))
        assert 0 == main(["report", str(bundle)])
        page = (bundle / "report.html").read_text(encoding="utf-8")
        assert "<q>" not in page
        assert all(f"&lt;q&gt;{letter}" in page for letter in "otiapd")
        (bundle / "survey.json").write_text(json.dumps(document))
        assert "survey.json: Object missing required field `rows`" in run_opmap(2, "report", bundle).err
