"""The table of options: the command line, the pytest plugin and SessionOptions say the same."""

from __future__ import annotations

import argparse
import sys

import pytest

from opmap import SessionOptions
from opmap.cli.parser import COMMANDS, Parser, add_options, parser
from opmap.errors import InputError
from opmap.files import without_limit
from opmap.reports.again import command_line
from opmap.session.option_types import count
from opmap.session.options import JUDGING, OPTIONS, PYTEST, WRITTEN, Option, add_pytest_options, of_command

pytestmark = pytest.mark.platform

KINDS = {
    "flag": Option(False, "A flag."),
    "text": Option(None, "A text.", metavar="TEXT"),
    "typed": Option(3, "A number.", count, "N"),
    "seconds": Option(30.0, "A time.", float),
    "choice": Option("one", "A word.", choices=("one", "two")),
    "many": Option((), "Numbers.", count, "N"),
    "many_of": Option((), "Words.", choices=("one", "two")),
    "left": Option(False, "One of two.", group=WRITTEN, instead="side"),
    "right": Option(False, "One of two.", group=WRITTEN, instead="side"),
    "needed": Option(None, "A must.", short=("-n",), required=True),
    "file": Option(None, "A file.", nargs="1"),
    "more": Option(None, "Files.", nargs="?"),
}
"""An option of each kind."""


@pytest.fixture
def parse():
    """Parses words with the options of all kinds. A word that is needed is added."""
    command_line = Parser("it")
    add_options(command_line, KINDS)
    return lambda *words: vars(command_line.parse_args(["-n", "x", "f", *words]))


class TestKinds:
    """Each kind of option takes its values, and refuses all others in one line."""

    def test_defaults(self, parse):
        """An option that is not given has its default; one that may be repeated has an empty list."""
        defaults = {name: [] if option.default == () else option.default for name, option in KINDS.items()}
        assert {**defaults, "needed": "x", "file": "f"} == parse()

    @pytest.mark.parametrize(
        "words, values",
        [
            (["--flag"], {"flag": True}),
            (["--text", "a"], {"text": "a"}),
            (["--typed=4"], {"typed": 4}),
            (["--choice", "two"], {"choice": "two"}),
            (["--many", "1", "--many", "2"], {"many": [1, 2]}),
            (["--many-of", "two", "--many-of", "one"], {"many_of": ["two", "one"]}),
            (["--right"], {"left": False, "right": True}),
            (["--needed", "y"], {"needed": "y"}),
            (["g"], {"file": "f", "more": "g"}),
        ],
    )
    def test_taken(self, words, values, parse):
        assert values.items() <= parse(*words).items()

    @pytest.mark.parametrize(
        "words, message",
        [
            (["--flag=1"], "argument --flag: takes no value, got '1'"),
            (["--text"], "argument --text: expected one argument"),
            (["--typed", "0"], "argument --typed: must be a whole number from 1 on, got '0'"),
            (["--choice", "three"], "argument --choice: invalid choice: 'three'"),
            (["--many", "x"], "argument --many: must be a whole number from 1 on, got 'x'"),
            (["--many-of", "one", "--many-of", "nonsense"], "argument --many-of: invalid choice: 'nonsense'"),
            (["--left", "--right"], "argument --right: not allowed with argument --left"),
            (["g", "h"], "unexpected argument 'h'"),
            (["--typo"], "unknown option --typo, did you mean --typed?"),
        ],
    )
    def test_refused(self, words, message, parse, capsys):
        with pytest.raises(SystemExit, match="2"):
            parse(*words)
        error = capsys.readouterr().err
        assert error.startswith(f"it: {message}") and error.endswith(" (see it --help)\n")
        assert 1 == error.count("\n")

    def test_missing(self, capsys):
        """Without a required option and an argument, the line names both."""
        command_line = Parser("it")
        add_options(command_line, KINDS)
        with pytest.raises(SystemExit, match="2"):
            command_line.parse_args([])
        assert "the following arguments are required: -n/--needed, file" in capsys.readouterr().err

    def test_help(self):
        """The help has the default of a value, and says what may be repeated."""
        command_line = Parser("it")
        add_options(command_line, KINDS)
        text = " ".join(command_line.format_help().split())
        for part in (
            "A number. (default: 3)",
            "A time. (default: 30)",
            "Words.; may be repeated",
            "A flag. --text TEXT",
        ):
            assert part in text
        assert text.index("what is written:") < text.index("One of two.")

    def test_pytest(self, monkeypatch):
        """The plugin takes the same values with another prefix; an option that is not given is None."""
        kinds = {name: row._replace(group=JUDGING) for name, row in KINDS.items() if not (row.nargs or row.required)}
        monkeypatch.setattr("opmap.session.options.OPTIONS", kinds)
        plugin = argparse.ArgumentParser(exit_on_error=False)
        add_pytest_options(plugin.add_argument)

        assert {None} == set(vars(plugin.parse_args([])).values())
        words = ["--opmap-flag", "--opmap-typed", "4", "--opmap-many-of", "two"]
        values = {"opmap_flag": True, "opmap_typed": 4, "opmap_many_of": ["two"]}
        assert values.items() <= vars(plugin.parse_args(words)).items()
        with pytest.raises(argparse.ArgumentError, match="invalid choice: 'nonsense'"):
            plugin.parse_args(["--opmap-many-of", "nonsense"])


class TestTable:
    """Every option is declared once."""

    def test_defaults(self):
        """Without options, the command line, pytest and Python ask for the same session."""
        plugin = argparse.ArgumentParser()
        add_pytest_options(plugin.add_argument)
        given = vars(plugin.parse_args([]))
        assert {f"opmap_{name}" for name in of_command(PYTEST, OPTIONS)} == set(given)

        command_line = SessionOptions.read(vars(parser().parse_args(["validate"])))
        assert command_line == SessionOptions.read(given) == SessionOptions()

    def test_read(self):
        """Values of other options are left out, and None is the default."""
        assert SessionOptions(repeat=3) == SessionOptions.read({"provider": None, "repeat": 3, "json": True})

    def test_commands(self):
        """Each option of a run belongs to a command that exists, and `validate` has them all."""
        listed = {name for row in OPTIONS.values() for name in (*row.group.commands, *row.also)}
        assert listed <= {PYTEST, *COMMANDS}
        assert list(OPTIONS) == list(of_command("validate", OPTIONS))

    def test_pytest_note(self):
        """Where pytest needs another spelling, its help says so."""
        helps = {}
        add_pytest_options(lambda name, help, **_: helps.update({name: help}))
        assert helps["--opmap-case"].endswith("; for a file write --opmap-case=@FILE; may be repeated")

    def test_contradictions(self):
        """Options that exclude each other are refused."""
        for options in ({"fresh_sessions": True}, {"provider": "directml"}, {"provider": "fault:none"}):
            with pytest.raises(InputError, match="--pack"):
                SessionOptions(pack=2, **options).check()


class TestCommandLine:
    """Commands are printed as a shell of the system takes them."""

    def test_windows(self, monkeypatch):
        """cmd knows no single quotes."""
        words = ["opmap", "check", r"C:\my models\x.onnx", "--provider", "dml"]
        monkeypatch.setattr(sys, "platform", "linux")
        assert r"opmap check 'C:\my models\x.onnx' --provider dml" == command_line(words)
        monkeypatch.setattr(sys, "platform", "win32")
        assert r'opmap check "C:\my models\x.onnx" --provider dml' == command_line(words)


def test_long_paths(monkeypatch, tmp_path):
    """On Windows a long folder gets the form to which the limit of 260 characters does not apply."""
    long = tmp_path / ("x" * 100)
    monkeypatch.setattr(sys, "platform", "linux")
    assert long == without_limit(long)
    monkeypatch.setattr(sys, "platform", "win32")
    assert (f"\\\\?\\{long}", tmp_path / "x") == (str(without_limit(long)), without_limit(tmp_path / "x"))
