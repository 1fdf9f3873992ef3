"""Results that are incomplete or contradict themselves: no command takes them for those of a run, and none writes
anything."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sys

import pytest
from bundle_folders import agree, validate
from tiers import others_slow

from opmap.cli import main

ARGUMENTS = ("--provider", "cpu", "--filter", "gather/example.*")

SHARDS = ("s1", "s2", "s3")


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Returns a folder with the bundles of a green run, `whole`, of its three shards, and of a run that stopped at a
    failure.
    """
    folder = tmp_path_factory.mktemp("bundles")
    validate(folder / "whole", *ARGUMENTS)
    for number, name in enumerate(SHARDS, 1):
        validate(folder / name, *ARGUMENTS, "--shard", f"{number}/3")
    stopping = ("--provider", "fault:index-clamped-early", "--filter", "gather/example.*", "--max-failures", "2")
    validate(folder / "stopped", *stopping)
    return folder


def lines_of(folder) -> list[bytes]:
    return (folder / "results.jsonl").read_bytes().splitlines(keepends=True)


def write(folder, content: bytes) -> None:
    (folder / "results.jsonl").write_bytes(content)


def replaced(old: bytes, new: bytes, count: int = 1):
    """Returns a change of the records: a text in place of another one."""

    def change(folder) -> None:
        content = (folder / "results.jsonl").read_bytes()
        assert old in content
        write(folder, content.replace(old, new, count))

    return change


def lines(change):
    """Returns a change of the records, which `change` makes of the list of lines."""
    return lambda folder: write(folder, b"".join(change(lines_of(folder))))


def run_json(change):
    """Returns a change of run.json, which `change` makes in its document."""

    def edit(folder) -> None:
        document = json.loads((folder / "run.json").read_bytes())
        change(document)
        (folder / "run.json").write_text(json.dumps(document), encoding="utf-8")

    return edit


def record(change):
    """Returns a change of the records, which `change` makes in the first one."""

    def edit(lines: list[bytes]) -> list[bytes]:
        document = json.loads(lines[0])
        change(document)
        return [json.dumps(document).encode() + b"\n", *lines[1:]]

    return lines(edit)


def both(*changes):
    """Returns several changes as one."""
    return lambda folder: [change(folder) for change in changes]


def loop(folder) -> None:
    (folder / "results.jsonl").unlink()
    (folder / "results.jsonl").symlink_to("results.jsonl")


def mark(folder) -> None:
    write(folder, b"\xef\xbb\xbf" + (folder / "results.jsonl").read_bytes())


def selected(**options):
    return run_json(lambda run: run["selection"].update(options))


def totals(**entries):
    return run_json(lambda run: run["totals"].update(entries))


def other_version(run: dict) -> None:
    run["environment"]["packages"]["value"]["opmap"] = "0.0.9"


FAILED = replaced(b'"verdict":"pass"', b'"verdict":"mismatch"')

INCOMPLETE = {
    "cut by 50 bytes": (lambda folder: write(folder, b"".join(lines_of(folder))[:-50]), "must have 5 lines, each with its line break, as run.json says, got 4"),
    "cut by its last line break": (lambda folder: write(folder, b"".join(lines_of(folder))[:-1]), "got 4"),
    "without a line": (lines(lambda lines: lines[:2] + lines[3:]), "got 4"),
    "without a line, with its count": (both(lines(lambda lines: lines[1:]), totals(verdicts={"pass": 4})), "$.selection.ids: must be the digest of opmap"),
    "empty": (lambda folder: write(folder, b""), "got 0"),
    "missing": (lambda folder: (folder / "results.jsonl").unlink(), "got 0"),
    "a line more": (lines(lambda lines: [*lines, lines[0].replace(b"example.1", b"example.x")]), "got more"),
    "a line twice": (lines(lambda lines: [*lines[:-1], lines[0]]), "line 5: must be the only record of gather/example.1"),
    "lines in another order": (lines(lambda lines: lines[::-1]), "$.selection.ids: must be the digest"),
    "a failure more": (FAILED, '$.totals.verdicts: must be {"mismatch":1,"pass":4}, as results.jsonl says, got {"pass":5}'),
    "a failure more, counted": (both(FAILED, totals(verdicts={"pass": 4, "mismatch": 1})), "$.totals.exit_code: must be 1, as results.jsonl says, got 0"),
    "not proven": (replaced(b'"proven":true', b'"proven":false'), "line 1: $.placement.proven: must be true, as the verdict is pass"),
    "no placement": (lines(lambda lines: [json.dumps(json.loads(line) | {"placement": None}).encode() + b"\n" for line in lines]), "$.totals.exit_code: must be 1"),
    "another output": (record(lambda record: record["actual"].update(Digest="0" * 64)), "line 1: $.actual: must be the expected output, as the verdict is pass"),
    "other sizes": (record(lambda record: next(iter(record["outputs"].values()))["actual"].update(Sizes=[1, 99])), "line 1: $.outputs[OutputTensor].actual: must be the expected output"),
    "no output": (record(lambda record: record["outputs"]["OutputTensor"].update(actual=None)), "line 1: $.outputs[OutputTensor].actual: must be the expected output"),
    "an excuse": (both(record(lambda record: [record["actual"].update(DataType="INT8"), record.update(verdict="unsupported")]), totals(verdicts={"pass": 4, "unsupported": 1})), "line 1: $.actual: must be the expected output, as the verdict is unsupported"),
    "a stage": (record(lambda record: record.update(stage="compare")), "line 1: $.stage: must be null, as the verdict is pass"),
    "another operator": (record(lambda record: record.update(operator="DML_OPERATOR_SLICE1")), "line 1: $.operator: must be DML_OPERATOR_GATHER, as in the id"),
    "no device class": (record(lambda record: record.update(device_class=None)), "line 1: $.device_class: must be 'cpu', as in run.json, got None"),
    "no device class of the run": (selected(device_class=None), "line 1: $.device_class: must be None, as in run.json, got 'cpu'"),
    "nodes elsewhere": (record(lambda record: record["placement"].update(nodes=[["Gather", "OtherEP"]])), "line 1: $.placement.nodes: must be nodes on CPUExecutionProvider"),
    "another descriptor": (record(lambda record: record.update(descriptor="differs")), "line 1: $.descriptor: must be another value, as the verdict is pass"),
    "not run": (both(record(lambda record: [record["actual"].update(Digest="0" * 64), record.update(verdict="not-run")]), totals(verdicts={"pass": 4, "not-run": 1})), "line 1: $.actual: must be the expected output, as the verdict is not-run"),
    "more without a line break": (lambda folder: write(folder, b"".join([*lines_of(folder), b'{"case"'])), "got more"),
    "shard 0/3 with its digest": (both(selected(shard="0/3"), agree), "$.selection.shard: must be I/N with I from 1 to N, got '0/3'"),
    "no environment": (run_json(lambda run: run.update(environment=None)), "run.json: $.environment: must hold the facts about CPUExecutionProvider, got null"),
    "red without a reason": (totals(exit_code=1), "$.totals.exit_code: must be 0, as results.jsonl says, got 1"),
    "another exit code": (totals(exit_code=3), "$.totals.exit_code: must be 0"),
    "a problem": (run_json(lambda run: run.update(problems=["a known failure is out of date"])), "$.totals.exit_code: must be 1"),
    "a foreign id": (replaced(b"gather/example.2", b"gather/example.9"), "$.selection.ids: must be the digest"),
    "another provider": (replaced(b'"provider":"CPUExecutionProvider"', b'"provider":"DmlExecutionProvider"'), "line 1: $.provider: must be 'CPUExecutionProvider', as in run.json, got 'DmlExecutionProvider'"),
    "another device": (replaced(b'"device_class":"cpu"', b'"device_class":"emulated"'), "line 1: $.device_class: must be"),
    "other totals": (totals(verdicts={"pass": 3, "unsupported": 2}), "$.totals.verdicts: must be"),
    "more totals": (totals(verdicts={"pass": 7}), "must have 7 lines, each with its line break, as run.json says, got 5"),
    "other ids": (selected(ids="0" * 64), "$.selection.ids: must be the digest"),
    "no ids": (run_json(lambda run: run["selection"].pop("ids")), "$.selection.ids: must be the digest"),
    "other ids of the records": (totals(ids="0" * 64), "$.selection.ids: must be the digest"),
    "shard 0/3": (selected(shard="0/3"), "shard 0/3 and the ids in results.jsonl"),
    "another shard": (selected(shard="2/3"), "shard 2/3 and the ids in results.jsonl"),
    "another version": (selected(opmap="0.0.9"), "must be the digest of opmap 0.0.9"),
    "another version of the package": (run_json(other_version), "$.environment.packages: must have opmap"),
}  # fmt: skip

UNREADABLE = {
    "a byte order mark": (mark, "results.jsonl: line 1: JSON is malformed"),
    "no verdicts": (run_json(lambda run: run["totals"].pop("verdicts")), "run.json: "),
    "no selection": (run_json(lambda run: run.pop("selection")), "run.json: "),
    "fewer elements": (record(lambda record: record["actual"].update(Bits=[], Digest=None)), "line 1: $.actual.Bits: must have as many elements as its sizes say, got 0"),
    "bits of a pass": (record(lambda record: record["expected"].update(Bits=["zz"], Sizes=[1], DataType="UINT8")), "line 1: $.expected.Bits: must have 2 hexadecimal digits each"),
    "a negative count": (totals(verdicts={"pass": 6, "mismatch": -1}), "run.json: Expected `int` >= 0"),
    "a count of another type": (totals(verdicts={"pass": "5"}), "run.json: Expected `int`"),
    "an exit code of another type": (totals(exit_code=None), "run.json: Expected `int`"),
    "an unknown verdict": (totals(verdicts={"fine": 5}), "run.json: Invalid enum value 'fine'"),
    "cut run.json": (lambda folder: (folder / "run.json").write_bytes((folder / "run.json").read_bytes()[:-50]), "run.json: "),
    "folder in its place": (lambda folder: [(folder / "results.jsonl").unlink(), (folder / "results.jsonl").mkdir()], "results.jsonl: must be a file"),
}  # fmt: skip

if sys.platform != "win32":  # a symbolic link needs a privilege there
    UNREADABLE["a loop of links"] = loop, "results.jsonl: must be a file"

COMMANDS = {
    "merge": ["merge", "bad", "-o", "new"],
    "merge with others": ["merge", "s1", "s2", "s3", "bad", "-o", "new"],
    "diff": ["diff", "whole", "bad"],
    "page of diff": ["diff", "bad", "whole", "stopped", "--html", "new"],
    "report": ["report", "bad"],
    "resume": ["validate", *ARGUMENTS, "--resume", "bad"],
    "redact": ["export", "bad", "--redact", "-o", "new"],
    "survey": ["survey", "--provider", "cpu", "--report", "bad"],
}

QUICK = [COMMANDS[name] for name in ("merge", "diff", "report", "resume")]


def content(folder) -> dict:
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def refused(arguments: list[str], folder, capsys) -> tuple[int, str]:
    """Returns the exit code of a command, and the one line that it prints. It writes nothing."""
    capsys.readouterr()
    before = content(folder)

    code = main(arguments)

    out, err = capsys.readouterr()
    assert "" == out and 1 == err.count("\n") and before == content(folder)
    return code, err.replace("\\", "/")


class TestRefused:
    """Each kind is one line, for each command that reads a bundle."""

    @pytest.mark.parametrize("command", others_slow(COMMANDS.values(), *QUICK), ids=COMMANDS)
    @pytest.mark.parametrize("change, message", INCOMPLETE.values(), ids=INCOMPLETE)
    def test_contradiction(self, change, message, command, bundles, capsys):
        """Results that are incomplete, or contradict themselves: exit code 1."""
        shutil.copytree("whole", "bad")
        change(bundles / "bad")

        code, line = refused(command, bundles, capsys)

        if "--resume must go on with the same" in line:  # the options come first
            assert (2, "validate") == (code, command[0])
        elif "must be the record of a case that was selected" in line:
            assert (1, "validate") == (code, command[0]) and b"gather/example.9" in b"".join(lines_of(bundles / "bad"))
        else:
            assert (1, True, True) == (code, "bad/" in line, message in line), line

    @pytest.mark.parametrize("command", others_slow(COMMANDS.values(), *QUICK), ids=COMMANDS)
    @pytest.mark.parametrize("change, message", UNREADABLE.values(), ids=UNREADABLE)
    def test_unreadable(self, change, message, command, bundles, capsys):
        """Files that cannot be read: exit code 2."""
        shutil.copytree("whole", "bad")
        change(bundles / "bad")

        code, line = refused(command, bundles, capsys)

        assert (2, True, True) == (code, "bad/" in line, message in line), line

    @pytest.mark.parametrize("change", [FAILED, lines(lambda lines: lines[1:]), run_json(lambda run: run["parts"][1]["totals"].update(exit_code=1)),
                                        run_json(lambda run: run["parts"][0]["selection"].update(shard="3/3")), totals(exit_code=1), totals(verdicts={"pass": 4})])  # fmt: skip
    def test_merged(self, change, bundles, capsys):
        """A merged bundle is checked part by part, and as a whole."""
        assert 0 == main(["merge", *SHARDS, "-o", "bad"])
        assert 0 == main(["report", "bad"]) == main(["diff", "bad", "whole"])
        change(bundles / "bad")

        assert 1 == refused(["merge", "bad", "-o", "new"], bundles, capsys)[0]
        assert 1 == refused(["report", "bad"], bundles, capsys)[0]

    def test_failures_made_passes(self, bundles, capsys):
        """Failures are no passes, also if the totals say so: the differing outputs are still there."""
        replaced(b'"verdict":"mismatch"', b'"verdict":"pass"', 99)(bundles / "stopped")
        totals(verdicts={"pass": 2}, exit_code=0)(bundles / "stopped")

        assert 1 == refused(["report", "stopped"], bundles, capsys)[0]

    def test_not_all(self, bundles, capsys):
        """Totals that say themselves that cases are missing do not make a shard whole."""
        lines(lambda lines: lines[:-1])(bundles / "s1")
        ids = json.loads((bundles / "s1" / "run.json").read_bytes())["selection"]["ids"]
        agree(bundles / "s1")
        own = json.loads((bundles / "s1" / "run.json").read_bytes())["selection"]["ids"]
        both(selected(ids=ids), totals(ids=own))(bundles / "s1")
        capsys.readouterr()

        assert 1 == main(["merge", *SHARDS, "-o", "new"])

        assert "opmap: s1: the run did not reach every case that it selected\n" in capsys.readouterr().err

    def test_versions(self, bundles, monkeypatch, capsys):
        """Shards of two versions of opmap are no one run, and a run goes on with the version that began it."""
        version = importlib.metadata.version
        monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.9" if name == "opmap" else version(name))
        shutil.rmtree("s2")
        assert 0 == validate("s2", *ARGUMENTS, "--shard", "2/3")

        code, line = refused(["merge", *SHARDS, "-o", "new"], bundles, capsys)
        assert (1, "opmap: s2: must be a run of opmap 0.1.0, as s1 is, got one of 0.0.9\n") == (code, line)
        code, line = refused(["validate", *ARGUMENTS, "--resume", "whole"], bundles, capsys)
        assert 2 == code and 'must go on with the same opmap: "0.1.0", got "0.0.9"' in line

    @pytest.mark.parametrize("other", ["./s1", "s1/", "s1/../s1"])
    def test_one_folder(self, other, bundles, capsys):
        """A folder that is given twice is no second shard."""
        code, line = refused(["merge", "s1", other, "-o", "new"], bundles, capsys)

        assert (2, True) == (code, f"opmap: {other}: must be another folder than s1" in line), line


class TestAccepted:
    """What is no contradiction is taken."""

    def test_line_ends(self, bundles):
        """Line ends of Windows change no record."""
        write(bundles / "whole", b"".join(lines_of(bundles / "whole")).replace(b"\n", b"\r\n"))

        assert 0 == main(["merge", "whole", "-o", "new"]) == main(["report", "whole"])

    def test_stopped(self, bundles, capsys):
        """A run that stopped after some failures has fewer records than were selected; it is merged, compared and
        finished.
        """
        run = json.loads((bundles / "stopped" / "run.json").read_bytes())
        assert 2 == run["totals"]["verdicts"]["mismatch"] and run["totals"]["ids"] not in (
            None,
            run["selection"]["ids"],
        )
        assert 1 == main(["merge", "stopped", "-o", "new"]) and 0 == main(["report", "new"])
        assert 0 == main(["diff", "stopped", "new"]) == main(["report", "stopped"])
        command = ["validate", "--provider", "fault:index-clamped-early", "--filter", "gather/example.*"]
        assert 1 == main([*command, "--resume", "stopped"])

        run = json.loads((bundles / "stopped" / "run.json").read_bytes())
        assert {"verdicts": {"mismatch": 5}, "exit_code": 1} == run["totals"]

    def test_doubled(self, bundles, capsys):
        """Of a case in two bundles one record is kept. The merged bundle says so, and can be read again."""
        assert 1 == main(["merge", "s1", "whole", "-o", "new"])

        assert 0 == main(["report", "new"]) == main(["diff", "new", "whole"])
        assert 1 == main(["merge", "new", "s2", "-o", "newer"]) and 0 == main(["report", "newer"])


class TestKilled:
    """A run that was killed in the middle of a line goes on; everybody else says that it has not ended."""

    @pytest.fixture
    def killed(self, bundles):
        run_json(lambda run: run.update(totals=None))(bundles / "s2")
        for name in ("diagnosis.json", "junit.xml", "summary.md", "report.html", "times.json"):
            (bundles / "s2" / name).unlink()
        write(bundles / "s2", b"".join(lines_of(bundles / "s2"))[:-50])

    def test_told(self, killed, bundles, capsys):
        """`merge`, `diff` and `report` say that it has not ended; the merged bundle is red."""
        assert 1 == main(["merge", *SHARDS, "-o", "new"])
        assert "opmap: s2: the run has not ended\n" in capsys.readouterr().err
        assert 1 == json.loads((bundles / "new" / "run.json").read_bytes())["totals"]["exit_code"]
        assert 0 == main(["report", "new"])
        main(["diff", "whole", "s2"])
        assert "s2: the run has not ended" in (out := capsys.readouterr().out) and "nothing got worse" not in out
        main(["report", "s2"])
        assert "opmap: s2: the run has not ended: more cases may fail\n" in capsys.readouterr().err
        assert "unfinished" in (bundles / "s2" / "report.html").read_text(encoding="utf-8")

    def test_goes_on(self, killed, bundles):
        """`--resume` runs what is missing."""
        assert 0 == main(["validate", *ARGUMENTS, "--shard", "2/3", "--resume", "s2"])
        assert 0 == main(["merge", *SHARDS, "-o", "new"])

    def test_interrupted(self, bundles, capsys):
        """A run that Ctrl-C ended is whole as far as it is written, and interrupted."""
        agree(bundles / "s2", exit_code=130)
        capsys.readouterr()

        assert 1 == main(["merge", *SHARDS, "-o", "new"])

        assert "opmap: s2: the run was interrupted\n" in capsys.readouterr().err
