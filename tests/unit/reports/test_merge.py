"""`opmap merge`: one bundle of many; what is missing, doubled or different is said."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys

import pytest
from bundle_folders import agree, check_bundle, validate
from planted_markup import diagnosis, smallest

from opmap.cli import main
from opmap.errors import InputError
from opmap.files import write_file
from opmap.limits import MAX_FILE_BYTES, MAX_RECORD_BYTES
from opmap.reports import failure_folders, json_files, results_folder
from opmap.reports.written_bundle import read_bundle

FAULT = ["--provider", "fault:index-clamped-early", "--filter", "gather/example.*"]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Returns a folder with the bundles `one`, `two`, `three` (shards of a red run), `whole` (all of them) and
    `cpu`.
    """
    folder = tmp_path_factory.mktemp("bundles")
    for number, name in enumerate(("one", "two", "three"), 1):
        validate(folder / name, *FAULT, "--shard", f"{number}/3")
    validate(folder / "whole", *FAULT)
    validate(folder / "cpu", "--provider", "cpu", "--filter", "gather/example.*")
    return folder


@pytest.fixture
def merge(bundles, capsys):
    """Returns a function that merges bundles into `new`. It returns the exit code, and the lines about problems."""

    def merge(*names: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        code = main(["merge", *names, "-o", "new"])
        return code, capsys.readouterr().err.splitlines()

    return merge


def cases(folder) -> list[str]:
    return sorted(json.loads(line)["case"] for line in (folder / "results.jsonl").read_bytes().splitlines())


def run_of(folder) -> dict:
    return json.loads((folder / "run.json").read_bytes())


def write_run(folder, **changes: object) -> None:
    """Changes keys of run.json."""
    (folder / "run.json").write_text(json.dumps(run_of(folder) | changes), encoding="utf-8")


class TestMerge:
    """Shards and adapters become one bundle."""

    @pytest.mark.slow
    def test_times(self, bundles, merge):
        """Each case has its time; of a case in several bundles it is the longest one."""

        def times(name):
            return json.loads((bundles / name / "times.json").read_bytes())["seconds"]

        merge("one", "two", "three")
        assert {**times("one"), **times("two"), **times("three")} == times("new")
        shutil.rmtree("new")
        (bundles / "one" / "times.json").write_bytes(
            b'{"schema": "opmap-times/1", "seconds": {"gather/example.1": 1e9}}'
        )
        (bundles / "two" / "times.json").unlink()
        merge("one", "two", "whole", "cpu")
        both = {case: max(times("whole")[case], times("cpu")[case]) for case in times("whole")}
        assert {**both, "gather/example.1": 1e9} == times("new")

    def test_survey(self, bundles, capsys):
        """The survey of a bundle comes along; another one is named. The last line says why the exit code is 1."""
        survey = (
            b'{"schema":"opmap-survey/1","provider":"P","device_class":null,"failures":0,"rows":[],"observations":[]}'
        )
        (bundles / "two" / "survey.json").write_bytes(survey)
        (bundles / "three" / "survey.json").write_bytes(survey.replace(b'"P"', b'"Q"'))

        assert 1 == main(["merge", "one", "two", "three", "-o", "new"])

        out, err = capsys.readouterr()
        assert "P" == json.loads((bundles / "new" / "survey.json").read_bytes())["provider"]
        assert "survey.json: left out: the merged bundle has that of two" in err
        assert "It was not asked" not in (bundles / "new" / "report.html").read_text(encoding="utf-8")
        assert "FAILED: 5 failed (5 mismatch); 0 of 5 cases passed." == out.splitlines()[-1]

    @pytest.mark.parametrize("command", ["merge", "export"])
    @pytest.mark.parametrize("limit", ["MAX_FAILURE_BYTES", "MAX_FAILURES_BYTES"])
    def test_large_folders(self, command, limit, bundles, monkeypatch, capsys):
        """A folder of a failure that is too large, alone or with those before it, is left out, and named."""
        folders = sorted((bundles / "whole" / "failures").iterdir())
        assert 2 <= len(folders)
        with open(folders[1] / "before_1.onnx", "wb") as file:
            file.truncate(2**20)  # takes no room on the disk
        small = sum(path.stat().st_size for path in folders[0].rglob("*"))
        monkeypatch.setattr(failure_folders, limit, 2**20 + (small if limit == "MAX_FAILURES_BYTES" else 0))
        target = ["cpu"] if command == "merge" else ["--redact"]

        main([command, "whole", *target, "-o", "new"])

        out, err = capsys.readouterr()
        assert folders[1].name in out + err and "left out" in out + err
        assert not (bundles / "new" / "failures" / folders[1].name).exists()
        assert (bundles / "new" / "failures" / folders[0].name).exists()

    @pytest.mark.parametrize("command", [["merge", "two"], ["export", "--redact"], ["diff", "two"], ["report"]])
    def test_many_values(self, command, bundles, monkeypatch, capsys):
        """A document with too many values is refused in one line."""
        monkeypatch.setattr(json_files, "MAX_JSON_VALUES", 10_000)
        write_run(bundles / "one", problems=["a"] * 10_001)
        output = ["-o", "other"] if command[0] in ("merge", "export") else []

        assert 2 == main([command[0], "one", *command[1:], *output])

        assert "one/run.json: must have at most 10000 values" in (err := capsys.readouterr().err)
        assert 1 == err.count("\n") and not (bundles / "other").exists()

    @pytest.mark.slow
    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the memory of a process")
    def test_memory(self, bundles):
        """A file of a stranger's bundle that takes no room on the disk, or many values, is refused in one line, in 1
        GiB.
        """
        words = (["merge", "bad", "two", "-o", "new"], ["export", "bad", "--redact", "-o", "new"], ["report", "bad"])
        program = f"""
import json, os, resource, shutil
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
from opmap.cli import main
run = json.load(open("one/run.json"))
large = "run.json", "results.jsonl", "diagnosis.json", "survey.json", "times.json"
texts = "[" * 20_000_000, '{{"a":' * 9_000_000, json.dumps(run | {{"problems": ["a"] * 9_000_000}}, separators=(",", ":"))
for name, text in [*((name, None) for name in large), *(("run.json", text) for text in texts)]:
    shutil.rmtree("bad", ignore_errors=True)
    shutil.copytree("one", "bad")
    with open("bad/" + name, "w") as file:
        file.write(text) if text else file.truncate(6 * 2**30)
    for words in {words}:
        print(main(words), words[0], name, os.path.exists("new"))
"""
        done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, cwd=bundles)
        assert (0, 24) == (done.returncode, len(done.stderr.splitlines())), done.stderr
        assert all(line.startswith("2 ") and line.endswith(" False") for line in done.stdout.splitlines()), done.stdout

    def test_tier(self, tmp_path):
        """The shards of a tier with its probes have each record of the whole run once, byte for byte.

        They are as green.
        """
        arguments = ("--provider", "cpu", "--require-provider", "--filter", "gather/example.*", "--filter", "probe/*")
        parts = [str(tmp_path / number) for number in "123"]
        whole = validate(tmp_path / "whole", *arguments)
        codes = [validate(part, *arguments, "--shard", f"{part[-1]}/3") for part in parts]

        merged = main(["merge", *parts, "-o", str(tmp_path / "new")])

        assert [0, 0, 0] == codes
        assert 0 == whole == merged
        lines = [(tmp_path / name / "results.jsonl").read_bytes().splitlines() for name in ("whole", "new")]
        assert sorted(lines[0]) == sorted(lines[1])
        assert run_of(tmp_path / "whole")["totals"] == run_of(tmp_path / "new")["totals"]

    def test_causes(self, merge, bundles):
        """The causes are those of one run, byte for byte.

        A case that is not in the catalogue leaves the causes of the shards.
        """
        merge("one", "two", "three")
        assert (bundles / "whole" / "diagnosis.json").read_bytes() == (bundles / "new" / "diagnosis.json").read_bytes()
        shutil.rmtree("new")
        for file in ("results.jsonl", "diagnosis.json"):
            text = (bundles / "one" / file).read_text(encoding="utf-8")
            (bundles / "one" / file).write_text(
                text.replace("gather/example.1", "mine"), encoding="utf-8", newline="\n"
            )
        agree(bundles / "one")

        merge("one", "two", "three")

        document = json.loads((bundles / "new" / "diagnosis.json").read_bytes())
        assert [5] == [group["cases"] for group in document["groups"]] and "mine" in document["groups"][0]["ids"]

    def test_failures(self, merge, bundles):
        """The folders of failures come along, and the report links to them; a folder from elsewhere does not."""
        (bundles / "one" / "failures" / "foreign").mkdir()
        (bundles / "one" / "failures" / "foreign" / "issue.md").write_text("x", encoding="utf-8")
        merge("one", "two", "three")
        names = {path.name for name in ("one", "two", "three") for path in (bundles / name / "failures").iterdir()}
        assert names - {"foreign"} == {path.name for path in (bundles / "new" / "failures").iterdir()}
        (name, *_) = sorted(names - {"foreign"})
        assert (bundles / "new" / "failures" / name / "repro.py").is_file()
        assert f'href="failures/{name}/"' in (bundles / "new" / "report.html").read_text(encoding="utf-8")

    def test_adapters(self, merge, bundles):
        """The same cases at two places are not doubled."""
        assert (1, []) == merge("whole", "cpu")

        assert 10 == len(cases(bundles / "new"))
        assert [5, 5] == [part["records"] for part in run_of(bundles / "new")["parts"]]

    def test_merged_again(self, merge, bundles):
        """A merged bundle can be merged with what was missing."""
        merge("one", "two")
        (bundles / "new").rename("both")

        assert (1, []) == merge("both", "three")

        assert cases(bundles / "whole") == cases(bundles / "new")
        check_bundle(bundles / "new")

    def test_resume(self, merge, capsys):
        """A merged bundle is no run that can go on."""
        merge("one", "two", "three")

        assert 2 == main(["validate", *FAULT, "--resume", "new"])

        err = capsys.readouterr().err
        assert "new: --resume must be the bundle of one run, got one that opmap merge wrote\n" in err
        assert 1 == err.count("\n")


class TestProblems:
    """Each gap or conflict is one line, and makes the exit code 1."""

    def test_missing(self, merge, bundles):
        """A shard that is missing is named, also in the new bundle."""
        line = "missing: shard 2/3"
        write_run(bundles / "cpu", selection=run_of(bundles / "cpu")["selection"] | {"shard": "2/999999999"})
        agree(bundles / "cpu")
        code, (many,) = merge("cpu")  # which is green
        assert 1 == code and many.startswith("opmap: missing: shard 1/999999999, 3/999999999, 4/")
        assert many.endswith(", 11/999999999 and 999,999,988 more")
        shutil.rmtree("new")

        assert (1, [f"opmap: {line}"]) == merge("one", "three")

        assert [line] == run_of(bundles / "new")["problems"]
        assert line in (bundles / "new" / "summary.md").read_text(encoding="utf-8")
        assert line in (bundles / "new" / "junit.xml").read_text(encoding="utf-8")

    def test_last_line(self, bundles, capsys):
        """The last line says why the exit code of green bundles is 1."""
        write_run(bundles / "cpu", selection=run_of(bundles / "cpu")["selection"] | {"shard": "1/2"})
        agree(bundles / "cpu")
        capsys.readouterr()

        assert 1 == main(["merge", "cpu", "-o", "new"])

        assert "FAILED: 5 of 5 cases; see the problems above." == capsys.readouterr().out.splitlines()[-1]

    def test_doubled(self, merge, bundles):
        """A case in two bundles of one place is there once; the line says from where."""
        doubled = len(cases(bundles / "one"))

        code, lines = merge("whole", "one", "two", "three")

        assert 1 == code
        assert f"opmap: one: {doubled} cases are in whole too; one record of each is kept" in lines[0]
        assert cases(bundles / "whole") == cases(bundles / "new")
        assert [5, 0, 0, 0] == [part["records"] for part in run_of(bundles / "new")["parts"]]
        check_bundle(bundles / "new")

    def test_other_verdict(self, merge, bundles):
        """Of two records of a case, the failed one is kept: a merged bundle hides no failure."""
        shutil.copytree("whole", "passed")
        passed = {"verdict": "pass", "stage": None, "failure": None, "actual": None, "expected": None, "outputs": None}
        records = [
            json.loads(line) | passed for line in (bundles / "whole" / "results.jsonl").read_bytes().splitlines()
        ]
        (bundles / "passed" / "results.jsonl").write_bytes(b"".join(json.dumps(r).encode() + b"\n" for r in records))
        agree(bundles / "passed")

        for names in (("passed", "whole"), ("whole", "passed")):
            _, lines = merge(*names)
            assert "5 cases are in" in lines[0] and "5 of them with another verdict" in lines[0]
            assert {"mismatch": 5} == run_of(bundles / "new")["totals"]["verdicts"]
            shutil.rmtree("new")

    def test_different(self, merge, bundles):
        """Other options are named with both values."""
        write_run(bundles / "two", selection=run_of(bundles / "two")["selection"] | {"tier": "standard", "repeat": 2})

        _, lines = merge("one", "two")

        assert 'opmap: two: other options than in one: repeat 2, not 1; tier "standard", not "smoke"' in lines

    def test_not_ended(self, merge, bundles):
        """A run that was killed, or interrupted, and causes that nobody sought."""
        write_run(bundles / "one", totals=None)
        agree(bundles / "two", exit_code=130)
        (bundles / "three" / "diagnosis.json").unlink()

        code, lines = merge("one", "two", "three")

        assert 1 == code
        assert [
            "opmap: one: the run has not ended",
            "opmap: two: the run was interrupted",
            "opmap: three: the causes of its failures are missing: there is no diagnosis.json",
        ] == lines


NO_BITS = {"DataType": "INT8", "Sizes": [1], "Values": None, "Bits": ["x"]}

REFUSALS = {
    "no folder": (None, None, "whole: must be the folder of a results bundle, got no such folder"),
    "no bundle": ("run.json", None, "whole: must be the folder of a results bundle, got a folder without run.json"),
    "schema": ("run.json", b'{"schema":"opmap-results/9"}', "schema must be opmap-results/1, got 'opmap-results/9'"),
    "other folder": ("run.json", b'{"schema":"opmap-fuzz/1","options":{}}', "got 'opmap-fuzz/1'"),
    "no JSON": ("run.json", b"x", "run.json: JSON is malformed"),
    "nested": ("run.json", b"[" * 200_000, "run.json: must be nested at most 64 deep"),
    "no parts": ("run.json", b'{"schema":"opmap-results/1","selection":{},"parts":[]}', "must hold a part"),
    "negative": ("run.json", b'{"schema":"opmap-results/1","selection":{},"parts":[{"selection":{},"records":-1}]}', "$.parts"),
    "too few": ("run.json", b'{"schema":"opmap-results/1","selection":{},"parts":[{"selection":{},"records":4}]}', "must have 4 lines"),
    "too many": ("run.json", b'{"schema":"opmap-results/1","selection":{},"parts":[{"selection":{},"records":6}]}', "got 5"),
    "broken line": ("results.jsonl", b"{\n", "results.jsonl: line 1: "),
    "no record": ("results.jsonl", b"{}\n", "missing required field `verdict`"),
    "no case": ("results.jsonl", b'{"verdict":"pass"}\n', "case must be an id of at most 500 characters, got None"),
    "long case": ("results.jsonl", b'{"verdict":"pass","case":"%s"}\n' % (b"x" * 501), "at most 500 characters"),
    "twice": ("results.jsonl", b'{"verdict":"pass","case":"a"}\n' * 2, "line 2: must be the only record of a"),
    "long line": ("results.jsonl", b'"%s"\n' % (b"x" * MAX_RECORD_BYTES), f"at most {MAX_RECORD_BYTES} bytes"),
    "no bits": ("results.jsonl", b'{"verdict":"mismatch","case":"a","actual":%s}\n' % json.dumps(NO_BITS).encode(),
                "results.jsonl: line 1: $.actual.Bits: must have 2 hexadecimal digits each, got 'x'"),
    "no bits of the smallest": ("diagnosis.json", json.dumps(diagnosis(smallest=smallest(actual=NO_BITS))).encode(),
                                "diagnosis.json: $.groups[0].smallest.actual.Bits: must have 2 hexadecimal digits each, got 'x'"),
    "diagnosis": ("diagnosis.json", b'{"schema":"opmap-diagnosis/2"}', "got 'opmap-diagnosis/2'"),
    "no groups": ("diagnosis.json", b'{"schema":"opmap-diagnosis/1","provider":"x"}', "missing required field `groups`"),
    "large": ("diagnosis.json", b" " * (MAX_FILE_BYTES + 1), f"at most {MAX_FILE_BYTES} bytes"),
}  # fmt: skip


@pytest.mark.parametrize("file, content, message", REFUSALS.values(), ids=REFUSALS)
def test_refused(file, content, message, bundles):
    """A folder that is no bundle, or a broken one, is refused in one line."""
    if file is None:
        shutil.rmtree("whole")
    elif content is None:
        (bundles / "whole" / file).unlink()
    else:
        (bundles / "whole" / file).write_bytes(content)

    with pytest.raises(InputError) as error:
        list(read_bundle("whole").read_records())

    assert message in str(error.value) and "\n" not in str(error.value) and "whole" in str(error.value)


@pytest.mark.parametrize(
    "command", [("merge", "-o", "new", "cpu"), ("diff", "cpu"), ("diff", "cpu", "cpu"), ("report",)]
)
def test_commands(command, bundles, capsys):
    """Each command that reads bundles says so in one line, with exit code 2; nothing is written."""
    (bundles / "whole" / "results.jsonl").write_bytes(b"{}\n")
    before = sorted((bundles / "whole").iterdir())
    capsys.readouterr()

    assert 2 == main([*command, "whole"])

    out, err = capsys.readouterr()
    assert "whole/results.jsonl: line 1: " in err.replace("\\", "/") and 1 == err.count("\n")
    assert "" == out and not (bundles / "new").exists() and before == sorted((bundles / "whole").iterdir())


class TestOutput:
    """The new folder is new."""

    def test_not_empty(self, merge, bundles):
        """A folder with files is refused; -o may not be a bundle that is read."""
        assert 2 == main(["merge", "cpu", "-o", "cpu"])
        (bundles / "new").mkdir()
        (bundles / "new" / "mine").touch()

        assert (2, ["opmap: new: -o must be a new or empty folder"]) == merge("cpu")

        assert ["mine"] == [path.name for path in (bundles / "new").iterdir()]

    @pytest.mark.parametrize("command", [["merge", "cpu", "two"], ["export", "one", "--redact"]])
    def test_full_disk(self, command, bundles, monkeypatch, capsys):
        """A folder that cannot be written to its end is removed: the same command is free to write it later."""

        def no_space(path, content):
            if path.name == "summary.md":
                raise OSError(errno.ENOSPC, "No space left on device")
            write_file(path, content)

        with monkeypatch.context() as full:
            full.setattr(results_folder, "write_file", no_space)
            assert 2 == main([*command, "-o", "new"])
        assert "opmap: new: No space left on device\n" == capsys.readouterr().err
        assert not (bundles / "new").exists()
        assert 2 != main([*command, "-o", "new"])

    @pytest.mark.skipif(sys.platform == "win32", reason="a symbolic link needs a privilege there")
    def test_link(self, merge, bundles):
        """A link to a device, which never ends, is refused."""
        (bundles / "cpu" / "results.jsonl").unlink()
        (bundles / "cpu" / "results.jsonl").symlink_to("/dev/zero")

        code, (line,) = merge("cpu")

        assert 2 == code and "results.jsonl: must be a file" in line
