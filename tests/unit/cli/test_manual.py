"""The README and the manual say what is true: links lead somewhere, commands exist, sessions print what is shown."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from adequacy.__main__ import main as adequacy

import opmap
from opmap import cli
from opmap.cases import invalid_indices
from opmap.cases.catalogue import catalogue
from opmap.cases.invalid_indices import POSITIONS
from opmap.cases.variants import VARIANTS
from opmap.cli.parser import parser
from opmap.engines.machine.runtimes import install_command, uninstall_command
from opmap.engines.sessions import DIRECTML
from opmap.errors import InputError
from opmap.faults import FAULTS
from opmap.judge import survey
from opmap.known.known_failures import load
from opmap.manual import read_page, titles
from opmap.reports import terminal
from opmap.session.options import OPTIONS, PYTEST, of_command
from opmap.vocabulary import Stage, Verdict

REPOSITORY = Path(__file__).resolve().parents[3]
MANUAL = REPOSITORY / "opmap" / "manual"
DOCUMENTS = {
    **{name: REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "tools/dml_linux/README.md")},
    **{name: MANUAL / f"{name}.md" for name in titles()},
}

in_repository = pytest.mark.skipif(not (REPOSITORY / ".github").is_dir(), reason="only the tests are here")
each_document = pytest.mark.parametrize("document", DOCUMENTS)

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")


def read(document: str) -> str:
    """Returns the text of a document in the repository."""
    return DOCUMENTS[document].read_text(encoding="utf-8")


def blocks(text: str) -> list[str]:
    """Returns the contents of the fenced code blocks."""
    return [content for _, content in BLOCK.findall(text)]


def prose(text: str) -> str:
    """Returns the text without its fenced code blocks."""
    return BLOCK.sub("", text)


def command_lines(text: str) -> list[list[str]]:
    """Returns the arguments of each `opmap ...` in code blocks and in inline code.

    FILE... and [ID] become FILE and ID, COMMAND a command.
    """
    snippets = []
    for block in blocks(text):
        typed = re.findall(r"^\$ (.+)$", block, re.MULTILINE)
        snippets += typed or block.splitlines()
    snippets += [re.sub(r"[][]|\.\.\.", "", code) for code in INLINE.findall(prose(text))]
    commands = []
    for snippet in snippets:
        for part in re.split(r"&&|[;{}]", snippet):
            word, _, arguments = part.strip().partition(" ")
            if re.split(r"[/\\]", word)[-1] == "opmap" and arguments:
                commands.append(shlex.split(arguments.replace("COMMAND", "validate")))
    return commands


class TestWorkflow:
    """The workflow of several machines in the manual."""

    def test_commands(self):
        """Its commands take these options, and its parts are as many as the matrix has."""
        (workflow,) = [content for kind, content in BLOCK.findall(read_page("cases")) if kind == "yaml"]
        validate, merge = re.findall(r"- run: opmap (.+)", workflow)
        (shards,) = re.findall(r"shard: \[(.+)\]", workflow)
        options = [
            parser().parse_args(shlex.split(validate.replace("${{ matrix.shard }}", number)))
            for number in shards.split(", ")
        ]

        assert [(i, len(options)) for i in range(1, len(options) + 1)] == [given.shard for given in options]
        assert {("full", "results")} == {(given.tier, given.report) for given in options}
        assert "whole" == parser().parse_args(shlex.split(merge)).output


def sessions(text: str, program: str = "opmap") -> list[tuple[str, str]]:
    """Returns each shown command of a program with the output below it.

    Leaves out commands that show no output, or a machine.
    """
    found = []
    for block in blocks(text):
        for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = entry.partition("\n")
            name, found_program, arguments = command.partition(f"{program} ")
            if found_program and name in ("", ".venv/bin/") and output and arguments != "doctor":
                found.append((arguments, output))
    return found


def long_options(parser: argparse.ArgumentParser) -> set[str]:
    """Returns the long options of all commands."""
    names: set[str] = set()
    for action in parser._actions:
        names.update(name for name in action.option_strings if name.startswith("--"))
        for sub in (action.choices or {}).values() if isinstance(action, argparse._SubParsersAction) else ():
            names |= long_options(sub)
    return names


class TestPages:
    """Pages come from the installed package."""

    @pytest.mark.parametrize("name", titles())
    def test_one_heading_and_content(self, name):
        """A page has one heading of the first level, which is its title, and text below it."""
        text = read_page(name)

        assert [titles()[name]] == re.findall(r"^# (.+)$", prose(text), re.MULTILINE)
        assert text.startswith(f"# {titles()[name]}\n\n")
        assert len(text.split()) > 50

    @pytest.mark.parametrize("name", ["", "../options", "commands.md", "Commands"])
    def test_unknown_page(self, name):
        """Only the names in the list are pages: any other is refused in one line that lists them."""
        with pytest.raises(InputError) as caught:
            read_page(name)

        assert f"manual: PAGE must be one of {', '.join(titles())}, got {name!r}" == str(caught.value)

    @in_repository
    def test_every_file_is_a_page(self):
        """Every Markdown file of the folder is in the list, and the installed text is the repository's."""
        assert {path.stem: path.read_text(encoding="utf-8") for path in MANUAL.glob("*.md")} == {
            name: read_page(name) for name in titles()
        }


@in_repository
class TestDocuments:
    """README, CONTRIBUTING and the pages, as they are read in the repository."""

    def test_readme_is_short(self):
        """The README has at most 200 lines."""
        assert len(read("README.md").splitlines()) <= 200

    def test_readme_lists_the_pages(self):
        """The README links to every page, in the order of the list."""
        assert list(titles()) == re.findall(
            r"^\| \[[\w-]+\]\(opmap/manual/([\w-]+)\.md\)", read("README.md"), re.MULTILINE
        )

    @each_document
    def test_links(self, document):
        """Every relative link leads to a file of the repository."""
        targets = re.findall(r"\]\(([^)\s]+)\)", prose(read(document)))
        relative = [target for target in targets if not target.startswith("https://")]

        assert [] == [target for target in relative if not (DOCUMENTS[document].parent / target).is_file()]

    @pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
    def test_paths(self, document):
        """Every path in code exists: in the repository, or in a folder that the same paragraph or table row names."""
        for part in re.split(r"\n(?=\n|\||- |\d)", prose(read(document))):
            codes = [
                code
                for code in INLINE.findall(part)
                if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", code) and "NAME" not in code
            ]
            paths = [code for code in codes if "/" in code or code.endswith((".py", ".md", ".toml", ".json"))]
            folders = [
                REPOSITORY,
                *(REPOSITORY / path for path in paths),
                *((REPOSITORY / path).parent for path in paths),
            ]

            assert [] == [path for path in paths if not any((folder / path).exists() for folder in folders)], part

    @each_document
    def test_commands(self, document):
        """Every `opmap ...` that is shown can be parsed; a name alone is the name of a command."""
        command_line = parser()
        for arguments in command_lines(read(document)):
            try:
                command_line.parse_args(arguments if len(arguments) > 1 else [*arguments, "--help"])
            except SystemExit as error:
                assert error.code == 0, arguments

    @each_document
    def test_options(self, document, pytestconfig):
        """Every option named in the text exists: in a command, in the pytest plugin, or in the tool that the page is
        about.
        """
        names = long_options(parser())
        if document == "tools/dml_linux/README.md":
            tool = (REPOSITORY / "tools" / "dml_linux" / "dml_linux.py").read_text(encoding="utf-8")
            names |= {*re.findall(r'"(--[a-z]+)"', tool), "--privileged"}  # the last one is Docker's
        for name in re.findall(r"`(--[a-z][a-z-]*[a-z])(?![a-z-])", prose(read(document))):
            if name.startswith("--opmap-"):
                pytestconfig.getoption(name)  # raises ValueError if the plugin has no such option
            else:
                assert name in names

    @each_document
    def test_faults(self, document):
        """Every fault that is named exists."""
        assert {*re.findall(r"fault:([a-z0-9][a-z0-9-]+)", read(document))} <= {*FAULTS}


@in_repository
class TestContent:
    """What the pages show is what opmap does."""

    def test_verdicts(self):
        """results.md has every verdict with its meaning, and says which are good."""
        rows = re.findall(r"^\| `([\w-]+)` \| (yes|no) \| (.*) \|$", read("results"), re.MULTILINE)

        assert [(verdict.value, "yes" if verdict.good else "no", verdict.text) for verdict in Verdict] == rows

    def test_answers(self):
        """survey.md has every answer with its meaning, and every invalid index."""
        rows = re.findall(r"^\| (.+?) \| (.+) \|$", read("survey").partition("## The answers")[2], re.MULTILINE)

        words = {name: value for module in (invalid_indices, survey) for name, value in vars(module).items()}
        answers = [
            "ERROR",
            "AXIS",
            "MEMORY",
            "WRAPPED",
            "CUT",
            "CUT_64",
            "SIGNED",
            "UNSIGNED",
            "ZERO",
            "INSIDE",
            "OUTSIDE",
        ]
        answers += ["BESIDE", "MALFORMED", "CRASH", "HANG", "LOST", "NOT_ASKED"]
        assert [words[name] for name in answers] == [word for word, _ in rows[1 : 1 + len(answers)]]
        assert {*POSITIONS} <= {*INLINE.findall(read("survey"))}

    def test_stages(self):
        """results.md has every stage."""
        assert {stage.value for stage in Stage} <= {*INLINE.findall(read("results"))}

    def test_providers(self):
        """providers.md has the two commands that opmap doctor prints, and says what feeds a provider may get."""
        text = read("providers")
        names = ("onnxruntime", "onnxruntime-openvino")
        assert f"{uninstall_command(names)}\n{install_command(names[1])}\n" in text
        (feeds,) = re.findall(r"^What runs of other backends have shown:\n\n((?:- .*\n)+)", text, re.MULTILINE)
        assert all(
            word in feeds for word in ("no dimension", 'np.array(feed, order="C")', "may be missing", "may be fed")
        )

    @pytest.mark.parametrize(
        ("document", "text"),
        [
            ("results", "| `report.html` |"),
            ("results", "| `failures/` |"),
            ("models", "`build`, `diagnose` and `export` take an ONNX model"),
            ("CONTRIBUTING.md", "the table of the manual page known-failures"),
        ],
    )
    def test_was_missing(self, document, text):
        """Sentences that were wrong or missing once."""
        assert text in read(document)

    def test_known_failures(self, tmp_path):
        """The example of known-failures.md can be loaded, and its table has every key."""
        (tmp_path / "known.toml").write_text(blocks(read("known-failures"))[0], encoding="utf-8")
        (entry,) = load(tmp_path / "known.toml")
        table = prose(read("known-failures")).partition("| key ")[2].partition("\n\n")[0]
        keys = [key for row in table.splitlines()[2:] for key in INLINE.findall(row.split("|")[1])]

        assert "gather/float16/*" == entry.case
        assert {*entry.__struct_fields__} == {*keys}

    def test_python(self, monkeypatch, capsys):
        """The first two examples of python.md run; the first one here with a few cases only."""
        monkeypatch.setattr(opmap, "catalogue", lambda tier: islice(catalogue(tier), 20), raising=False)
        for example in blocks(read("python"))[:2]:
            exec(compile(example, "python.md", "exec"), {})

        assert capsys.readouterr().out.startswith("0 ['5 of 5 cases proven")

    def test_tiers(self):
        """tiers.md has the number of cases of `smoke`, and says how large the others are (test_catalogue.py)."""
        count = sum(1 for _ in catalogue("smoke", variants=False))
        assert [f"smoke: {count} cases"] == re.findall(r"^smoke: .*", read("tiers"), re.MULTILINE)

    def test_linux(self):
        """linux.md has the number of cases of each gather that the DirectML EP gets."""
        cases = (case for case in catalogue("smoke") if VARIANTS[case.variant].has(DIRECTML))
        counts = Counter(case.desc.operator for case in cases)
        rows = re.findall(r"^│ (GATHER\w*) +│ +(\d+) │", read("linux"), re.MULTILINE)
        assert [(name, str(counts[name])) for name in counts if name.startswith("GATHER")] == rows

    @pytest.mark.slow
    def test_sessions_of_tiers(self, capsys):
        """The lines of `python tools/adequacy` in tiers.md are those that it prints."""
        for arguments, output in sessions(read("tiers"), "python tools/adequacy"):
            adequacy(shlex.split(arguments))
            printed = (line.rstrip() for line in capsys.readouterr().out.splitlines())
            assert {*output.splitlines()} <= {"...", *printed}

    @pytest.mark.skipif(sys.platform == "win32", reason="the sessions are shown as on Linux")
    @pytest.mark.parametrize(
        "document",
        ["README.md", "dxdispatch", "documentation", pytest.param("survey", marks=pytest.mark.slow), "export"],
    )
    def test_sessions(self, document, tmp_path, in_tmp_path, monkeypatch, capsys):
        """The commands print what is shown below them; a line `...` stands for any lines."""
        monkeypatch.setattr(terminal, "FIRST_LINE", 1e9)  # a slow machine would say where it is
        monkeypatch.setenv("COLUMNS", "80" if document == "survey" else "100")
        page = Path(__file__).parents[1] / "pages" / "gather.en-US.md"
        shutil.copy(page, tmp_path / "ns-directml-dml_gather_operator_desc.md")
        if document == "dxdispatch":
            nested = blocks(read(document))[0]
            wrong = nested.replace(
                '"OutputTensor":  { "DataType": "FLOAT32", "Sizes": [3, 1, 2]',
                '"OutputTensor": { "DataType": "FLOAT32", "Sizes": [1, 3, 2]',
            )
            (tmp_path / "nested.json").write_text(nested, encoding="utf-8")
            (tmp_path / "wrong.json").write_text(wrong, encoding="utf-8")
        shown = sessions(read(document))
        assert shown
        for arguments, output in shown:
            cli.main(shlex.split(arguments))
            printed = capsys.readouterr()
            lines = (printed.out + printed.err).splitlines()
            pattern = "\n".join(".*" if line == "..." else re.escape(line) for line in output.splitlines())

            assert re.fullmatch(pattern, "\n".join(line.rstrip() for line in lines), re.DOTALL), arguments


def test_options_of_the_plugin():
    """The page about pytest names each option that the plugin has, and no other."""
    named = set(re.findall(r"`--opmap-([a-z-]+)`", read_page("python")))

    assert {name.replace("_", "-") for name in of_command(PYTEST, OPTIONS)} == named
