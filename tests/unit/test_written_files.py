"""Files that opmap writes: a program that holds one, a full disk, a folder that cannot be written."""

from __future__ import annotations

import errno
import json
import os

import pytest

from opmap import files
from opmap.cli import main
from opmap.evidence.bundle import Bundle
from opmap.evidence.finds import FindsFolder
from opmap.judge.record import Record
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
        Bundle(tmp_path, {}, ids=["a"]).close([Record(case="a", verdict=Verdict.PASS)], 0)

        assert ["a"] == cases(tmp_path)
        assert {"run.json", "results.jsonl"} == {os.path.basename(path) for path in busy}

    def test_finds(self, busy, tmp_path):
        """The folder of a search is complete."""
        FindsFolder(str(tmp_path), {}, "p").release()

        assert {"run.json", "finds.jsonl"} == set(os.listdir(tmp_path))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "arguments",
        [
            ["build", "-o", "m"],
            ["validate", "--provider", "cpu", "--case", "gather/example.1", "--write-known-failures", "m"],
        ],
        ids=["build", "known failures"],
    )
    def test_commands(self, arguments, busy, tmp_path, monkeypatch):
        """Models and known failures are written."""
        monkeypatch.chdir(tmp_path)

        assert 0 == main(arguments)

        assert ["m"] == os.listdir(tmp_path)
        assert busy

    def test_patience(self, tmp_path, monkeypatch):
        """After PATIENCE seconds it is an error, and no temporary file is left."""

        def replace(source, target):
            raise PermissionError(errno.EACCES, "held")

        monkeypatch.setattr(os, "replace", replace)
        monkeypatch.setattr(files, "PATIENCE", 0.1)

        with pytest.raises(PermissionError):
            files.write_file(tmp_path / "a", b"")

        assert [] == os.listdir(tmp_path)


class TestWriteKnownFailures:
    """`--write-known-failures` never costs the results of a run."""

    ARGUMENTS = ("validate", "--provider", "fault:output-zero", "--filter", "gather/example.*")

    @pytest.mark.parametrize("name", ["no/folder.toml", "x" * 300, "there.toml", "folder", "there.toml/x"])
    def test_refused_before(self, name, tmp_path, monkeypatch, capsys):
        """A file that cannot be written is refused before a case is run, and nothing is left."""
        (tmp_path / "there.toml").touch()
        (tmp_path / "folder").mkdir()
        monkeypatch.setattr("opmap.session.Session.judge_all", lambda *_: pytest.fail("the cases were run"))

        assert 2 == main([*self.ARGUMENTS, "--write-known-failures", str(tmp_path / name)])

        assert capsys.readouterr().err.count("\n") == 1
        assert ["folder", "there.toml"] == sorted(os.listdir(tmp_path))

    @pytest.mark.parametrize("function", ["fsync", "replace"])
    def test_folder_that_cannot_be_written(self, function, tmp_path, monkeypatch, capsys):
        """The folder is tried before a case is run."""
        monkeypatch.setattr(os, function, no_space)
        monkeypatch.setattr("opmap.session.Session.judge_all", lambda *_: pytest.fail("the cases were run"))

        assert 2 == main([*self.ARGUMENTS, "--write-known-failures", str(tmp_path / "k.toml")])

        assert "k.toml: --write-known-failures: No space left" in capsys.readouterr().err
        assert [] == os.listdir(tmp_path)

    @pytest.mark.parametrize("report", [False, True])
    def test_full_at_the_end(self, report, tmp_path, monkeypatch, capsys):
        """If the disk is full at the end, the results are printed all the same; a line for each file says why."""
        from opmap.session import Session

        judge_all = Session.judge_all

        def then_full(*arguments):
            judge_all(*arguments)
            monkeypatch.setattr(os, "fsync", no_space)

        monkeypatch.setattr(Session, "judge_all", then_full)
        more = ["--report", str(tmp_path / "r")] if report else []

        code = main([*self.ARGUMENTS, "--write-known-failures", str(tmp_path / "k.toml"), *more])

        out, err = capsys.readouterr()
        assert 2 == code
        assert "gather/example.1: DML_OPERATOR_GATHER" in out
        assert 1 + report == err.count("No space left on device") == err.count("\n")
        assert not (tmp_path / "k.toml").exists()
        if report:
            assert {f"gather/example.{i}" for i in range(1, 6)} == set(cases(tmp_path / "r"))
