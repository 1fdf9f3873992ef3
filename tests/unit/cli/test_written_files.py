"""Files that opmap writes: a program that holds one, a full disk, a folder that cannot be written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from opmap import files
from opmap.cases.selection import find_case
from opmap.cli import main
from opmap.files import to_json
from opmap.judge.record import Record
from opmap.mapping.dxdispatch import model_json
from opmap.reports.bundle import Bundle
from opmap.reports.finds import FindsFolder
from opmap.vocabulary import Verdict

pytestmark = pytest.mark.platform


def cases(folder) -> list[str]:
    """Returns the case of each record of a bundle."""
    return [json.loads(line)["case"] for line in (folder / "results.jsonl").read_bytes().splitlines()]


def no_space(*_: object) -> None:
    """What any function of the operating system does on a full disk."""
    raise OSError(errno.ENOSPC, "No space left on device")


class TestReplace:
    """A file that a scanner or an editor holds for a moment is replaced a moment later."""

    @pytest.fixture
    def busy(self, monkeypatch):
        """Makes each first two attempts to replace a file fail; returns the list of attempts."""
        real, attempts = os.replace, []

        def replace(source, target):
            attempts.append(os.fspath(target))
            if attempts.count(os.fspath(target)) <= 2:
                raise PermissionError(errno.EACCES, "held", os.fspath(target))
            real(source, target)

        monkeypatch.setattr(os, "replace", replace)
        return attempts

    def test_bundle(self, busy, tmp_path):
        """The bundle is complete."""
        bundle = Bundle(tmp_path, {}, ids=["a"])
        bundle.complete([Record(case="a", verdict=Verdict.PASS)], 0)
        bundle.release()

        assert ["a"] == cases(tmp_path)
        assert {"run.json", "results.jsonl"} == {os.path.basename(path) for path in busy}

    def test_finds(self, busy, tmp_path):
        """The folder of a search is complete."""
        FindsFolder(str(tmp_path), {}, "p").release()

        assert {"run.json", "finds.jsonl"} == set(os.listdir(tmp_path))

    def test_patience(self, tmp_path, monkeypatch):
        """After PATIENCE seconds it is an error, and no temporary file is left."""

        def replace(source, target):
            raise PermissionError(errno.EACCES, "held")

        monkeypatch.setattr(os, "replace", replace)
        monkeypatch.setattr(files, "PATIENCE", 0.1)

        with pytest.raises(PermissionError):
            files.write_file(tmp_path / "a", b"")

        assert [] == os.listdir(tmp_path)


class TestForeignFiles:
    """No command writes over its input, nor without --force over what opmap did not write."""

    COMMANDS = (
        ("build", "d.json", "-o", "m.onnx"),
        ("diagnose", "d.json", "--provider", "fault:output-zero", "--budget", "1", "-o", "small.json"),
        ("report", "b", "-o", "r.html"),
        ("diff", "b", "b", "--html", "d.html"),
        ("docs", "page.md", "--html", "-o", "p.html"),
        ("docs", "page.md", "--patch", "-o", "p.patch"),
    )

    @pytest.fixture
    def place(self, tmp_path, in_tmp_path):
        """Gives a folder with a dispatch, a bundle and a page, as the current one."""
        case = find_case("gather/example.1")
        Path("d.json").write_bytes(to_json(model_json("d", case.desc, case.tensors)))
        main(["validate", "--provider", "cpu", "--case", "gather/example.1", "--report", "b"])
        shutil.copy(Path(__file__).parents[1] / "pages" / "gather.en-US.md", "page.md")
        return tmp_path

    def test_own_output(self, place, capsys):
        """A second run writes over its own file; a foreign file stays, unless --force is given.

        An empty one is free.
        """
        for command in self.COMMANDS:
            output = Path(command[-1])
            output.write_bytes(b"")
            codes = [main([*command]) for _ in range(2)]
            assert codes[0] == codes[1] in (0, 1) and output.stat().st_size, command
            output.write_bytes(b"mine")
            assert 2 == main([*command]), command
            assert b"mine" == output.read_bytes()
            assert codes[0] == main([*command, "--force"])
            assert b"mine" != output.read_bytes()

    @pytest.mark.parametrize(
        "command",
        [
            "build d.json -o d.json/",
            "diagnose d.json --provider fault:output-zero -o d.json --force",
            "report b -o b/results.jsonl --force",
            "diff b b --html b/run.json --force",
            "docs page.md --html -o page.md --force",
            "build mine.onnx -o mine.onnx --force",
        ],
    )
    def test_input(self, command, place):
        """An input is never written over."""
        main(["build", "d.json", "-o", "mine.onnx"])
        before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}

        assert 2 == main(command.split())

        assert before == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}

    @pytest.mark.skipif(sys.platform == "win32", reason="a pipe with a name is POSIX's")
    def test_pipe(self, place):
        """What is written goes into a pipe, which stays one."""
        os.mkfifo("pipe")
        reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE)

        assert 0 == main(["report", "b", "-o", "pipe"])
        assert reader.communicate(timeout=60)[0].startswith(b"<!doctype html>")
        assert stat.S_ISFIFO(os.stat("pipe").st_mode)

    @pytest.mark.skipif(sys.platform == "win32", reason="a pipe with a name is POSIX's")
    def test_not_replaced(self, place, refusal, capsys):
        """What is written as a whole replaces no pipe, and no device, which would end it for all programs."""
        pipe = Path("pipe.onnx")
        os.mkfifo(pipe)
        capsys.readouterr()

        line = refusal("build", "d.json", "-o", "pipe.onnx")
        assert f"opmap: {pipe}: must be a file, got a device or a pipe\n" == line
        assert stat.S_ISFIFO(os.stat(pipe).st_mode)

    @pytest.mark.skipif(sys.platform == "win32", reason="a device of POSIX")
    @pytest.mark.parametrize("command", ["report b -o /dev/stdout", "docs page.md --html -o /dev/stdout"])
    def test_stdout(self, command, place):
        """/dev/stdout is stdout, also if that is a file: it gets the page, and nothing else."""
        with open("page.html", "wb") as file:
            subprocess.run([sys.executable, "-m", "opmap", *command.split()], stdout=file, check=False)

        page = Path("page.html").read_bytes()
        assert page.startswith(b"<!doctype html>") and page.rstrip().endswith(b"</html>")
