"""What reaches the terminal: no control characters from outside, JSON as UTF-8, and streams that are closed."""

from __future__ import annotations

import errno
import io
import json
import re
import subprocess
import sys

import pytest
from rich.console import Console

from opmap.cli import main
from opmap.errors import InputError
from opmap.judge.record import Record
from opmap.reports import terminal
from opmap.reports.cause_view import print_lines
from opmap.reports.sections import Section
from opmap.reports.tables import MOST_NAMED, count_tables, print_failures, print_notes, print_tables
from opmap.vocabulary import Verdict

pytestmark = pytest.mark.platform

GREEN = ["validate", "--filter", "gather/example.*"]

HOSTILE = "a\x1b[31mb\u202ec\x9bd[red]e[/red]\u2028f"
"""A colour, a change of the direction of writing, a CSI of one byte, rich's markup, and a line separator."""

SHOWN = r"a\x1b[31mb\u202ec\x9bd[red]e[/red]\u2028f"


def raw(text: str) -> set[str]:
    """Returns the characters of a text that a terminal may obey."""
    return {c for c in text if not c.isprintable()} - {"\n"}


class TestEscapes:
    """Texts from outside are printed escaped, wherever they come from."""

    def test_line_breaks(self, capsys):
        """One line stays one line; a text of several lines keeps them."""
        terminal.print_line("a\nb\rc")
        terminal.print_text("a\nb\rc")

        assert "a\\nb\\rc\na\nb\\rc\n" == capsys.readouterr().out

    @pytest.mark.parametrize("colours", [False, True])
    def test_console(self, colours, monkeypatch, capsys):
        """Every text in a table and beside it; the console's own colours stay."""
        monkeypatch.setenv("COLUMNS", "300")
        if colours:
            monkeypatch.setenv("FORCE_COLOR", "1")
        record = Record(
            case=HOSTILE,
            operator=f"DML_OPERATOR_{HOSTILE}",
            file=HOSTILE,
            error_at=HOSTILE,
            provider=HOSTILE,
            device_class=HOSTILE,
            verdict=Verdict.ERROR,
            message=HOSTILE,
        )

        print_tables(terminal.console(), [record])
        print_failures(terminal.console(), [record])
        print_notes(terminal.console(), [HOSTILE])

        out = capsys.readouterr().out
        assert out.count(SHOWN) >= 7
        assert ("\x1b[" in out) == colours
        assert raw(out) <= ({"\x1b"} if colours else set())
        assert "b\x1b[31mb" not in out

    def test_progress_bar(self, monkeypatch):
        """The name beside a progress bar is shown as it is, and escaped."""
        stream = io.StringIO()
        stream.isatty = lambda: True  # type: ignore[method-assign]  # a terminal
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("COLUMNS", "300")
        monkeypatch.delenv("TERM", raising=False)

        with terminal.progress(2, HOSTILE) as advance:
            advance()

        assert SHOWN in stream.getvalue()
        assert "\u202e" not in stream.getvalue() and "a\x1b[31mb" not in stream.getvalue()


class TestNotUtf8:
    """Names that are not UTF-8 abort nothing."""

    NAME = b"bad\xff.json".decode("utf-8", "surrogateescape")

    @pytest.mark.parametrize("command", ["check", "docs"])
    def test_file(self, command, capsysbinary):
        """The JSON document is UTF-8, and has the byte escaped."""
        assert 2 == main([command, self.NAME, "--json"])

        out, err = capsysbinary.readouterr()
        document = json.loads(out.decode("utf-8"))
        assert b"\\udcff" in err and 1 == err.count(b"\n")
        assert command == "docs" or [r"bad\udcff.json"] == [r["file"] for r in document["cases"]]

    def test_filter(self, tmp_path, capsys):
        """A filter that no id can match stands in the bundle, escaped."""
        filters = ["--filter", self.NAME, "--filter", "gather/example.1"]

        assert 2 == main(["validate", "--provider", "cpu", *filters[:2]])
        assert 0 == main(["validate", "--provider", "cpu", *filters, "--report", str(tmp_path / "r"), "--json"])

        run = json.loads((tmp_path / "r" / "run.json").read_text(encoding="utf-8"))
        assert [r"bad\udcff.json", "gather/example.1"] == run["selection"]["filter"]

    def test_json(self, capsysbinary):
        """A document with such a name anywhere is written."""
        terminal.write_json({self.NAME: [self.NAME, {"é": "ü"}, None, 1]})

        out = capsysbinary.readouterr().out
        assert {r"bad\udcff.json": [r"bad\udcff.json", {"é": "ü"}, None, 1]} == json.loads(out.decode("utf-8"))


class TestJson:
    """JSON documents are UTF-8, whatever the code page is."""

    @pytest.mark.parametrize(
        "arguments",
        [["explain", "--json"], ["check", "näme.json", "--json"], ["build", "näme.json", "-o", "näme.onnx", "--json"]],
        ids=lambda arguments: arguments[0],
    )
    def test_code_page(self, arguments, tmp_path, in_tmp_path, monkeypatch):
        """A stdout with another encoding gets bytes of UTF-8."""
        (tmp_path / "näme.json").write_text(json.dumps(_model()), encoding="utf-8")
        raw = io.BytesIO()
        stdout = io.TextIOWrapper(raw, encoding="cp437", errors="strict")
        monkeypatch.setattr(sys, "stdout", stdout)

        code = main(arguments)
        stdout.flush()

        assert json.loads(raw.getvalue().decode("utf-8")) and code in (0, 1)
        assert "näme" in raw.getvalue().decode("utf-8") or arguments[0] == "explain"

    def test_no_buffer(self, monkeypatch):
        """A stdout without a buffer, as in a notebook, gets text."""

        class Notebook(io.StringIO):
            pass

        monkeypatch.setattr(sys, "stdout", Notebook())
        terminal.write_json({"ü": 1})

        assert '{"ü":1}\n' == sys.stdout.getvalue()


def _model() -> dict[str, object]:
    from opmap.cases.catalogue import catalogue
    from opmap.mapping.dxdispatch import model_json

    case = next(iter(catalogue("smoke")))
    return model_json("näme", case.desc, case.tensors)


COMMANDS = [
    ["explain", "GATHER.F1"],
    ["check", "no-such-file.json", "--provider", "cpu"],
    ["validate", "--provider", "cpu", "--case", "gather/example.1"],
]


class TestRows:
    """A short table has a row for each operator, or one for many that are alike."""

    @pytest.mark.parametrize(
        ("count", "names"),
        [
            (MOST_NAMED, ["GATHER", *"abcd"]),
            (MOST_NAMED + 1, ["GATHER", "5 other operators"]),
        ],
    )
    def test_names(self, count, names):
        """A few operators without a failure are named."""
        records = [Record(case="c", operator=f"DML_OPERATOR_{name}", verdict=Verdict.PASS) for name in "abcde"[:count]]
        records.append(Record(case="c", operator="DML_OPERATOR_GATHER", verdict=Verdict.PASS))

        (table,) = count_tables(records, brief=True)

        assert names == [row[0] for row in table.rows]


class TestWidth:
    """What a terminal of 80 columns shows."""

    @pytest.fixture
    def terminal(self):
        """Gives a terminal of 80 columns."""
        return Console(width=80, force_terminal=True, color_system=None, file=io.StringIO())

    def test_table(self, terminal):
        """Names are never broken, and a column in which every cell is empty is left out."""
        texts = ["lowered-differently a"] * 6
        rows = [["GATHER_ELEMENTS", "", *texts], ["GATHER_ND1", "", *texts]]
        Section("cases", ["operator", "nothing", *"abcdef"], rows).print(terminal)

        out = terminal.file.getvalue()
        assert "GATHER_ELEMENTS" in out and "nothing" not in out
        assert max(map(len, out.splitlines())) <= 80

    def test_a_table_that_is_wider(self, terminal):
        """No name and no number of it is cut; the width of the terminal stays what it was."""
        header = ["operator", *Verdict, "cases"]
        row = ["REVERSE_SUBSEQUENCES", *(str(1000 + n) for n in range(len(Verdict))), "21243"]
        Section(title="cases", header=header, rows=[row]).print(terminal)

        assert {*header, *row} <= set(re.split(r"[\s┃│]+", terminal.file.getvalue()))
        assert 80 == terminal.width

    def test_cause(self, terminal):
        """A long line of a cause is wrapped at words, below its text; a command is one line."""
        words = "IndicesTensor.Sizes[1] " * 8
        print_lines(terminal, [("  when", words), ("  rerun", words)])

        *where, again = terminal.file.getvalue().rstrip("\n").split("\n")
        assert [line[:11].strip() for line in where] == ["when", *[""] * (len(where) - 1)] and len(where) > 1
        assert words.split() == " ".join(line[11:] for line in where).split() and len(again) > 80


class TestClosedStreams:
    """A stdout or stderr that is closed, or that nobody reads any more."""

    @pytest.mark.slow
    @pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX closes the stream")
    @pytest.mark.parametrize(
        "command, close",
        [(COMMANDS[0], ">&-"), (COMMANDS[1], "2>&-"), (COMMANDS[2], "2>&-"), (COMMANDS[2], "<&- >&- 2>&-")],
    )
    def test_closed(self, command, close):
        """There is no traceback. --json without a stdout is bad usage; without a stderr the document is whole."""
        shell = f'exec "$0" -m opmap "$@" --json {close}'
        done = subprocess.run(["sh", "-c", shell, sys.executable, *command], capture_output=True, text=True)

        assert "Traceback" not in done.stdout + done.stderr
        if ">&-" in close.replace("2>&-", ""):
            assert (2, "") == (done.returncode, done.stdout)
            message = "opmap: --json must have a stdout, but it is closed\n"
            assert ("" if "2>&-" in close else message) == done.stderr
        else:
            assert json.loads(done.stdout)
            assert (2 if command[0] == "check" else 0) == done.returncode

    @pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX closes the stream")
    def test_nothing_is_written_into_a_file(self):
        """A file that is opened later does not get the number of a closed stream, in which C++ code would print."""
        script = "import os, sys; from opmap.cli import main; main(['explain']); print(os.open(os.devnull, 0), file=sys.stderr)"
        done = subprocess.run(
            ["sh", "-c", 'exec "$0" -c "$1" <&- >&-', sys.executable, script], capture_output=True, text=True
        )

        assert int(done.stderr) > 2

    @pytest.mark.skipif(
        sys.platform == "win32", reason="a pipe of POSIX; test_closed_pipe_on_windows stands for the other"
    )
    @pytest.mark.parametrize(
        "command",
        [
            ["explain", "--json"],
            ["validate", "--list"],
            [*GREEN, "--json"],
            GREEN,
            [*GREEN, "--provider", "fault:output-zero"],
        ],
    )
    def test_nobody_reads(self, command):
        """The command ends without a word, and not as if a case had failed."""
        shell = '{ "$0" -m opmap "$@"; echo "code $?" >&2; } | true'
        done = subprocess.run(["sh", "-c", shell, sys.executable, *command], capture_output=True, text=True)

        assert done.stderr in ("code 0\n", "code 141\n")

    @pytest.mark.parametrize(
        ("platform", "error", "code", "said"),
        [
            ("win32", OSError(errno.EINVAL, "Invalid argument"), 141, ""),
            ("linux", OSError(errno.EINVAL, "Invalid argument"), 2, "cannot write: Invalid argument"),
            ("linux", BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
            ("win32", OSError(errno.EINVAL, "Invalid argument", "a<b"), 2, "a<b: Invalid argument"),
            ("linux", OSError(errno.EMFILE, "Too many open files"), 2, "a file or a process: Too many open files"),
            ("linux", FileNotFoundError(errno.ENOENT, "gone"), 2, "the current folder: gone"),
        ],
    )
    def test_closed_pipe_on_windows(self, platform, error, code, said, monkeypatch, run_opmap):
        """Windows reports a closed pipe as EINVAL without a file name."""

        def run(options):
            raise error

        monkeypatch.setattr("opmap.cli.commands.explain.run", run)
        monkeypatch.setattr("opmap.cli.entry.sys.platform", platform)

        assert (f"opmap: {said}\n" if said else "") == run_opmap(code, "explain").err

    def test_stderr_that_takes_no_more(self, monkeypatch):
        """An error that cannot be printed is no error."""

        class Full(io.StringIO):
            def write(self, text):
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(sys, "stderr", Full())

        assert 2 == main(["explain", "GATHER.X9"])

    def test_closed_stdout(self, monkeypatch):
        monkeypatch.setattr(sys, "stdout", None)

        with pytest.raises(InputError, match="--json must have a stdout, but it is closed"):
            terminal.write_json([])
        with pytest.raises(InputError, match="it is closed"), terminal.stdout_for_json(True):
            pass


class TestProgress:
    """Where stderr is no terminal, a long run says now and then where it is."""

    def lines(self, seconds, total, capsys) -> list[str]:
        """Returns the lines of a run whose steps end at these seconds."""
        times = iter([0.0, *seconds])
        now = next(times)
        with terminal.progress(total, "Mine", lambda: now) as advance:
            for now in times:  # noqa: B007  # the clock reads it
                advance()
        out, err = capsys.readouterr()
        assert "" == out
        return err.splitlines()

    def test_long(self, capsys):
        """The first line comes after 30 seconds, the next ones every minute."""
        lines = self.lines(range(10, 1010, 10), 6455, capsys)

        assert ["opmap: Mine: 3 of 6,455 (0 %)", "opmap: Mine: 9 of 6,455 (0 %)"] == lines[:2]
        assert 17 == len(lines)

    def test_short(self, capsys):
        """A run of less than 30 seconds says nothing, however many steps it has."""
        assert [] == self.lines([29.9] * 5000, 5000, capsys)
