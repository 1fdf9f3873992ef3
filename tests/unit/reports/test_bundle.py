"""The results bundle: nothing that is in it is lost, and nothing foreign gets into it."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from opmap.cli import main
from opmap.engines.machine.facts import Fact
from opmap.engines.providers import Provider
from opmap.engines.sessions import CPU, DIRECTML, SessionProvider
from opmap.errors import InputError
from opmap.judge.record import PlacementRecord, Record, TensorRecord
from opmap.limits import MAX_FILE_BYTES, MAX_NESTING, MAX_RECORD_BYTES
from opmap.reports.bundle import Bundle
from opmap.reports.results_folder import identity
from opmap.vocabulary import Verdict

pytestmark = pytest.mark.platform

IDS = [f"case/{i}" for i in range(300)]
PROVEN = PlacementRecord(True, "a source", [])
RECORDS = [Record(case=case, verdict=Verdict.PASS, provider="p", placement=PROVEN) for case in IDS]
SELECTION = {"provider": "p", "filter": ["*"], "repeat": 1, "shuffle": None}

EXAMPLES = ["validate", "--provider", "cpu", "--filter", "gather/example.*"]

WRITE = """
import os, sys
from opmap.engines.machine.facts import Fact
from opmap.reports.bundle import Bundle
from opmap.judge.record import Record

def write(folder, resume):
    ids = [f"case/{i}" for i in range(5)]
    bundle = Bundle(folder, {"provider": "p"}, ids=ids, resume=resume)
    records = [Record(case=case, verdict="pass") for case in ids]
    for record in records:
        if record.case not in {r.case for r in bundle.done}:
            bundle.add(record)
    bundle.environment({"python": Fact("3", "a source")})
    bundle.complete(records, 1)  # none of them is proven
    bundle.release()
"""

KILLED = """
left = int(sys.argv[2])

def hook(event, arguments):
    global left
    path = os.fsdecode(arguments[0]) if arguments and isinstance(arguments[0], (str, bytes)) else ""
    if event in ("open", "os.rename", "os.remove", "os.mkdir") and path.startswith(sys.argv[1]):
        left -= 1
        if left < 0:
            os._exit(9)

sys.addaudithook(hook)
write(sys.argv[1], len(sys.argv) > 3)
"""
"""Ends the process before a number of operations on the folder, as a kill does."""


def content(folder) -> dict[str, bytes]:
    """Returns the files of a folder by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def interrupted(folder, records=RECORDS, tail: bytes = b"") -> None:
    """Makes the folder of a run that was killed after these records."""
    bundle = Bundle(folder, SELECTION, ids=IDS)
    for record in records:
        bundle.add(record)
    bundle.release()
    with open(folder / "results.jsonl", "ab") as file:
        file.write(tail)


def resume(folder, selection=SELECTION, ids=IDS) -> Bundle:
    return Bundle(folder, selection, ids=ids, resume=True)


def cases(folder) -> list[str]:
    return [json.loads(line)["case"] for line in (folder / "results.jsonl").read_bytes().splitlines()]


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


class TestKill:
    """A run can be killed at any moment; the next one goes on."""

    @pytest.mark.slow
    def test_each_operation(self, tmp_path):
        """Killed before each operation on the folder: --report or --resume takes it, and the end is the same."""
        space = {}
        exec(WRITE, space)
        space["write"](tmp_path / "whole", False)
        ended = []
        for number in range(100):
            folder = tmp_path / str(number)
            command = [sys.executable, "-c", WRITE + KILLED, str(folder), str(number)]
            ended.append(subprocess.run(command).returncode)
            if not ended[-1]:
                break
            if number % 2 and (folder / "run.json").exists():  # killed again, while it goes on
                subprocess.run([*command[:-1], str(number // 2), "resume"])
            space["write"](folder, (folder / "run.json").exists())
            assert content(tmp_path / "whole") == content(folder)

        assert [9] * (len(ended) - 1) + [0] == ended
        assert len(ended) > 8


class TestResume:
    """`--resume` reads all and checks all before it writes."""

    TAIL = b'{"file":null,"case":"case/299","ver'

    @pytest.mark.parametrize("function", ["fsync", "replace"])
    def test_full_disk(self, function, tmp_path, monkeypatch):
        """300 records and a torn line under a full disk: the records are still there."""
        interrupted(tmp_path, tail=self.TAIL)
        before = content(tmp_path)
        monkeypatch.setattr(os, function, no_space)

        with pytest.raises(InputError, match="No space left on device"):
            resume(tmp_path)

        assert before == content(tmp_path)
        monkeypatch.undo()
        assert RECORDS == resume(tmp_path).done

    @pytest.mark.parametrize("name", ["survey.json", "times.json"])
    def test_bad_file(self, name, tmp_path):
        """A spoilt file beside the records is refused; nothing is touched, also not the report."""
        interrupted(tmp_path)
        (tmp_path / name).write_bytes(b"x")
        (tmp_path / "report.html").write_bytes(b"x")
        before = content(tmp_path)

        with pytest.raises(InputError, match=f"{name}: JSON is malformed"):
            resume(tmp_path)

        assert before == content(tmp_path)

    @pytest.mark.parametrize(
        "line, message",
        [
            (b'{"case":"case/7","verdict":"pass"}', "line 301: must be the only record of case/7"),
            (
                b'{"case":"other","verdict":"pass"}',
                "line 301: --resume: must be the record of a case that was selected",
            ),
            (b'{"case":"case/7","verdict":"great"}', "Invalid enum value 'great'"),
            (b'{"case":"\xff","verdict":"pass"}', "invalid start byte"),
            (b'{"case":"case/7","ver', "JSON is malformed"),
            (b"[" * 200_000, f"must be nested at most {MAX_NESTING} deep"),
            (b'{"case":"' + b"x" * MAX_RECORD_BYTES + b'"}', f"a line of at most {MAX_RECORD_BYTES} bytes"),
        ],
        ids=range(7),
    )
    def test_bad_line(self, line, message, tmp_path):
        """A record that no run wrote, or not this one, is refused; nothing is touched."""
        interrupted(tmp_path, tail=line + b"\n")
        before = content(tmp_path)

        with pytest.raises(InputError) as error:
            resume(tmp_path)

        assert message in str(error.value)
        assert "results.jsonl" in str(error.value) and "\n" not in str(error.value)
        assert before == content(tmp_path)

    @pytest.mark.parametrize(
        "type, sizes",
        [("FLOAT8", [1]), ("INT8", [-1]), ("INT8", [-1, -1]), ("INT8", [1] * 33), ("INT8", [2]), ("INT16", [1])],
    )
    def test_impossible_output(self, type, sizes, tmp_path):
        """A record whose output is no tensor is refused, as the report refuses it."""
        output = TensorRecord(type, sizes, [0], ["00"])
        interrupted(tmp_path, [Record(case="case/1", verdict=Verdict.MISMATCH, actual=output)])

        with pytest.raises(InputError, match=r"results.jsonl: line 1: \$.actual.Bits: must "):
            resume(tmp_path)

    def test_other_provider_of_the_same_name(self, tmp_path, monkeypatch, capsys):
        """A run goes on only with the same MODULE:NAME, in the same file; the report's command names what can be
        typed.
        """
        monkeypatch.chdir(tmp_path)
        text = "class P:\n    name = 'mine'\n    def run(self, model, feeds): return [{}]\n\ndef make(): return P()\nother = make\n"
        (tmp_path / "backend.py").write_text(text.format("1"), encoding="utf-8")
        command = ["validate", "--case", "gather/example.1", "--provider"]
        assert 1 == main([*command, "backend:make", "--report", "r"])
        again = re.findall(r"Rerun: <code>([^<]*)", (tmp_path / "r" / "report.html").read_text(encoding="utf-8"))
        assert again and all("--provider backend:make" in words for words in again)
        (tmp_path / "r" / "diagnosis.json").unlink()
        assert 0 == main(["report", "r"])
        assert "--provider backend:make" in (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
        capsys.readouterr()

        assert 2 == main([*command, "backend:other", "--resume", "r"])
        assert "--resume must go on with the same factory" in capsys.readouterr().err
        (tmp_path / "backend.py").write_text(text.format("2"), encoding="utf-8")
        assert 2 == main([*command, "backend:make", "--resume", "r"])
        assert "--resume must go on with the same factory_sha256" in capsys.readouterr().err

    def test_brackets_in_texts(self, tmp_path):
        """Brackets in a message, or beside each other, are not nested."""
        record = Record(case="case/1", verdict=Verdict.PASS, message='\\"[{' * 500, rules=["[", '"'] * 100)
        interrupted(tmp_path, [record])

        assert [record] == resume(tmp_path).done

    @pytest.mark.parametrize("name", ["run.json", "results.jsonl"])
    def test_size(self, name, tmp_path):
        """A file of any size is refused before it is read."""
        interrupted(tmp_path, [])
        with open(tmp_path / name, "wb") as file:
            file.truncate(6 * 2**30 if sys.platform != "win32" else 2**27)  # sparse; NTFS writes zeros

        with pytest.raises(InputError, match=f"at most {MAX_FILE_BYTES if name == 'run.json' else MAX_RECORD_BYTES}"):
            resume(tmp_path)


class TestLock:
    """One process writes into a folder at a time."""

    def test_second(self, tmp_path, capsys):
        """A second --resume is refused with one line, and the first one ends as if it was alone."""
        interrupted(tmp_path, RECORDS[:100])
        first = resume(tmp_path)
        first.add(RECORDS[100])
        before = content(tmp_path)

        with pytest.raises(InputError, match="into which no other run writes"):
            resume(tmp_path)

        assert before["results.jsonl"] == (tmp_path / "results.jsonl").read_bytes()
        first.complete(RECORDS, 0)
        first.release()
        assert IDS == cases(tmp_path)
        assert ["results.jsonl", "run.json"] == sorted(content(tmp_path))
        resume(tmp_path).release()

    @pytest.mark.usefixtures("capsys")  # the run lets go of stdout, which without it is the file that pytest reads
    def test_failed_run(self, tmp_path, monkeypatch):
        """A run that ends with an error gives its folder free."""
        with monkeypatch.context() as patch:
            patch.setattr(Bundle, "environment", no_space)
            assert 2 == main([*EXAMPLES, "--report", str(tmp_path)])

        assert ["results.jsonl", "run.json"] == sorted(content(tmp_path))
        assert 0 == main([*EXAMPLES, "--resume", str(tmp_path)])


class TestLinks:
    """A link in the folder leads nowhere."""

    @pytest.mark.skipif(sys.platform == "win32", reason="a symbolic link needs a privilege there")
    @pytest.mark.parametrize("name", ["results.jsonl", "run.json", ".opmap-lock"])
    def test_not_followed(self, name, tmp_path):
        """What the link leads to is not changed."""
        folder, victim = tmp_path / "r", tmp_path / "victim"
        interrupted(folder, RECORDS[:100])
        victim.write_bytes(b"mine")
        if (folder / name).exists():
            shutil.copyfile(folder / name, victim)
            (folder / name).unlink()
        (folder / name).symlink_to(victim)
        before = victim.read_bytes()

        try:
            bundle = resume(folder)
            bundle.complete(RECORDS, 0)
            bundle.release()
        except InputError:
            assert ".opmap-lock" == name  # it cannot be locked

        assert before == victim.read_bytes()


class TestIdentity:
    """A bundle has the records of one machine, device and ONNX Runtime."""

    STUB = """
import os
class Stub:
    version = os.environ.get("STUB_VERSION", "1")
    device_class = os.environ.get("STUB_DEVICE", "hardware")
    def run(self, model_bytes, feeds): raise NotImplementedError
def make(): return Stub()
"""

    @pytest.mark.parametrize(
        "key, before, now",
        [
            ("version", "1", {"STUB_VERSION": "2"}),
            pytest.param("device_class", "hardware", {"STUB_DEVICE": "emulated"}, marks=pytest.mark.slow),
        ],
    )
    def test_provider(self, key, before, now, tmp_path, monkeypatch, capsys):
        """Another device class or version is refused, with both values."""
        (tmp_path / "stub_of_identity.py").write_text(self.STUB, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        arguments = ["validate", "--provider", "stub_of_identity:make", "--filter", "gather/example.*"]
        main([*arguments, "--report", "r"])
        kept = content(tmp_path / "r")
        capsys.readouterr()
        for name, value in now.items():
            monkeypatch.setenv(name, value)

        assert 2 == main([*arguments, "--resume", "r"])

        (after,) = now.values()
        err = capsys.readouterr().err
        assert f'r: --resume must go on with the same {key}: "{before}", got "{after}"' in err
        assert kept == content(tmp_path / "r")

    def test_driver(self):
        """The driver of the DirectML EP's adapter counts: an interrupted run may be why somebody installs another
        one.
        """
        adapters = [{"name": name, "driver_version": {"value": f"{name} 31"}} for name in ("GPU", "Other")]

        class Opened(Provider):
            def environment(self):
                return {"adapters": Fact(adapters, "DXGI")}

        directml, other = (
            Opened(name, "1", "hardware", adapter="GPU", runner=SessionProvider(CPU)) for name in (DIRECTML, CPU)
        )

        assert ("GPU 31", None) == (identity(directml)["driver"], identity(other)["driver"])

    @pytest.mark.parametrize("command", [EXAMPLES, ["fuzz", "--provider", "cpu", "--seconds", "0.1"]])
    def test_platform(self, command, tmp_path, monkeypatch, capsys):
        """Another operating system is refused, in `fuzz` too."""
        main([*command, "--report", str(tmp_path / "r")])
        monkeypatch.setattr("sysconfig.get_platform", lambda: "another-system")

        assert 2 == main([*command, "--resume", str(tmp_path / "r")])

        assert "--resume must go on with the same platform: " in capsys.readouterr().err
