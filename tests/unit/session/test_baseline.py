"""`--baseline` and reruns in whole runs: `opmap validate`, and pytest with several workers."""

from __future__ import annotations

import json
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime, timedelta

import pytest

from opmap.cli import main
from opmap.reports.written_bundle import read_bundle

PROVIDER = """
import os
from pathlib import Path

import numpy
from opmap.engines.sessions import SessionProvider

class Emulated:
    name, version, device_class = "Emulated", "1", "emulated"
    right = SessionProvider("CPUExecutionProvider")
    count = 0

    def run(self, model_bytes, feeds):
        self.count += 1
        with Path("calls.txt").open("a") as file:
            file.write("x")
        calls = Path("calls.txt").stat().st_size
        outputs = self.right.run(model_bytes, feeds)
        types = {str(feed.dtype) for feed in feeds.values()}
        mode = os.environ.get("MODE", "")
        if mode == "changed" and "float16" in types:
            raise NotImplementedError("no FLOAT16")
        wrong = {
            "changed": "int8" in types,
            "one in ten": calls % 10 == 8,
            "after": self.count > 1 and "float32" in types,
            "hidden": calls == 3,
        }
        if mode == "crash":
            os._exit(3)
        if mode == "error once" and calls == 4:
            raise RuntimeError("the device is busy")
        return [numpy.ones_like(output) for output in outputs] if wrong.get(mode) else outputs

def make():
    return Emulated()

class Opened(Emulated):
    def open(self, model_bytes, setup, files=None):
        class Session:
            def run(session, feeds, outputs=None):
                return self.run(model_bytes, feeds)

        return Session()

def opened():
    return Opened()

class Other(Emulated):
    device_class = "hardware"

def other():
    return Other()
"""
CHOSEN = ("--filter", "gather/example.*", "--filter", "gather/float16/*", "--filter", "gather/int8/*")


@pytest.fixture
def validate(in_tmp_path, monkeypatch, capsys):
    """Runs `opmap validate` on the emulated device in this mode; returns exit code, stdout and stderr."""
    (in_tmp_path / "emulated.py").write_text(PROVIDER, encoding="utf-8")
    monkeypatch.syspath_prepend(in_tmp_path)

    def run(mode, *arguments, provider="emulated:make", chosen=CHOSEN):
        (in_tmp_path / "calls.txt").unlink(missing_ok=True)
        monkeypatch.setenv("MODE", mode)
        inside = () if mode == "crash" else ("--in-process",)
        code = main(["validate", "--provider", provider, *inside, *chosen, *arguments])
        return code, *capsys.readouterr()

    yield run
    sys.modules.pop("emulated", None)


def records(folder) -> dict[str, dict]:
    lines = (folder / "results.jsonl").read_text("utf-8").splitlines()
    return {record["case"]: record for record in map(json.loads, lines)}


def changed(records, verdict) -> set[str]:
    return {id for id, record in records.items() if record["verdict"] == verdict}


class TestThreeRuns:
    """As it is; with a planted fault and a type that became unsupported; as it is again."""

    def check(self, folder) -> tuple[int, int]:
        """Checks the bundles `one`, `two`, `again` and `three` in a folder; returns the numbers of changed cases."""
        one, two, again, three = (records(folder / name) for name in ("one", "two", "again", "three"))
        wrong, lost = changed(two, "mismatch"), changed(two, "newly-unsupported")
        assert wrong == {id for id in one if id.startswith("gather/int8/")} and wrong
        assert lost == {id for id in one if id.startswith("gather/float16/")} and lost
        assert {"pass"} == {two[id]["verdict"] for id in two.keys() - wrong - lost}
        assert (wrong, lost) == (changed(again, "known-failure"), changed(again, "unsupported"))
        assert all("the same failure as in the baseline two (" in again[id]["message"] for id in wrong)
        assert {"pass"} == {record["verdict"] for record in three.values()}
        assert {"mismatch", "newly-unsupported", "pass"} == {record["before"] for record in three.values()}
        suite = ElementTree.parse(folder / "two" / "junit.xml").find("testsuite")
        properties = {one.get("name"): one.get("value") for one in suite.find("properties")}
        assert str(len(wrong)) == properties["baseline.new failure"]
        assert str(len(lost)) == properties["baseline.newly unsupported"]
        assert ("one", str(len(wrong) + len(lost))) == (properties["baseline"], suite.get("failures"))
        assert {"mismatch", "newly-unsupported"} == {failure.get("type") for failure in suite.iter("failure")}
        summary = (folder / "two" / "summary.md").read_text("utf-8")
        assert (
            "## beside the baseline one" in summary
            and f"| newly unsupported | {len(lost)} | gather/float16/" in summary
        )
        page = (folder / "two" / "report.html").read_text("utf-8")
        assert "<h2>Beside the baseline one</h2>" in page and "1 newly lost." in page
        assert "Nothing changed." in (folder / "again" / "report.html").read_text("utf-8")
        assert "fixed" in (folder / "three" / "report.html").read_text("utf-8")
        for name in ("one", "two", "again", "three"):
            assert 0 == main(["report", "--verify", str(folder / name)])
        return len(wrong), len(lost)

    def test_validate(self, validate, tmp_path):
        """Each run says exactly what changed since the one before it, and the exit code follows."""
        first = validate("", "--report", "one")
        second = validate("changed", "--report", "two", "--baseline", "one")
        again = validate("changed", "--report", "again", "--baseline", "two")
        third = validate("", "--report", "three", "--baseline", "two")

        assert [0, 1, 0, 0] == [run[0] for run in (first, second, again, third)]
        wrong, lost = self.check(tmp_path)
        assert f"│ new failure       │ {wrong:>5} │ gather/int8/" in second[1]
        assert f"│ newly unsupported │ {lost:>5} │ gather/float16/" in second[1]
        assert "nothing changed" in again[1] and f"; {wrong} known failures; {lost} cannot be judged" in again[1]
        assert f"│ fixed  │ {wrong + lost:>5} │" in third[1]
        assert f"baseline two: it has {len(records(tmp_path / 'one'))} of these " in third[1]

    @pytest.mark.slow
    def test_pytest(self, pytester, tmp_path, monkeypatch):
        """The same with pytest and two workers, on the CPU EP with a fault."""
        pytest.importorskip("xdist")
        pytester.makepyfile("def test_case(opmap_case, opmap_check):\n    opmap_check(opmap_case)\n")
        pytester.makeconftest("""
            import os
            from opmap.engines.sessions import SessionProvider
            from opmap.engines.steps import Result, Run
            from opmap.vocabulary import Stage

            perform = SessionProvider.perform

            def changed(self, step):
                result = perform(self, step)
                types = {str(feed.dtype) for feed in step.feeds.values()} if isinstance(step, Run) else ()
                if "float16" in types:
                    return Result(error="no FLOAT16", stage=Stage.RUN, unsupported=True)
                if "int8" in types:
                    for output in result.outputs.values():
                        output[...] = 1
                return result

            if os.environ.get("MODE") == "changed":
                SessionProvider.perform = changed
        """)
        chosen = [word.replace("--", "--opmap-") for word in CHOSEN]

        def run(mode, *options):
            monkeypatch.setenv("MODE", mode)
            words = ("-p", "no:cacheprovider", "-n", "2", "--opmap-provider", "cpu", *chosen, *options)
            return pytester.runpytest_subprocess(*words)

        folder = {name: str(tmp_path / name) for name in ("one", "two", "again", "three")}
        first = run("", "--opmap-report", folder["one"])
        second = run("changed", "--opmap-report", folder["two"], "--opmap-baseline", folder["one"])
        again = run("changed", "--opmap-report", folder["again"], "--opmap-baseline", folder["two"])
        third = run("", "--opmap-report", folder["three"], "--opmap-baseline", folder["two"])

        assert [0, 1, 0, 0] == [one.ret for one in (first, second, again, third)]
        wrong, lost = self.check(tmp_path)
        second.assert_outcomes(failed=wrong + lost, passed=len(records(tmp_path / "one")) - wrong - lost)
        again.assert_outcomes(xfailed=wrong, passed=len(records(tmp_path / "one")) - wrong)
        second.stdout.fnmatch_lines([f"opmap: beside the baseline one: *{lost} newly unsupported*"])
        again.stdout.fnmatch_lines(["opmap: beside the baseline two: nothing changed"])
        third.stdout.fnmatch_lines([f"opmap: beside the baseline two: {wrong + lost} fixed"])


class TestChoice:
    """Which bundle is the baseline, and which cannot be one."""

    @pytest.fixture
    def one(self, validate, tmp_path):
        """The bundle of a run as it is."""
        validate("", "--report", "one")
        return tmp_path / "one"

    def test_newest(self, one, validate, tmp_path):
        """Of a folder of bundles, the newest counts that fits: what does not fit is passed over."""
        runs = tmp_path / "runs"
        for days, name in enumerate(("c", "b", "a", "unfinished")):
            shutil.copytree(one, runs / name)
            times = json.loads((runs / name / "times.json").read_text("utf-8"))
            ended = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=days)
            (runs / name / "times.json").write_text(json.dumps(times | {"ended": ended.isoformat()}), "utf-8")
        run = json.loads((runs / "unfinished" / "run.json").read_text("utf-8"))
        (runs / "unfinished" / "run.json").write_text(json.dumps(run | {"totals": None}), "utf-8")
        (runs / "foreign").mkdir()
        (runs / "foreign" / "run.json").write_text('{"schema": "another/1"}', "utf-8")

        code, out, _ = validate("", "--baseline", "runs", "--report", "new")

        assert 0 == code and "beside the baseline a\n" in out
        selection = json.loads((tmp_path / "new" / "run.json").read_text("utf-8"))["selection"]
        assert ("a", 64) == (selection["baseline"], len(selection["baseline_sha256"]))

    def spoil(self, key, value):
        def change(folder):
            run = json.loads((folder / "run.json").read_text("utf-8"))
            parts = key.split(".")
            inner = run
            for part in parts[:-1]:
                inner = inner[part]
            inner[parts[-1]] = value
            (folder / "run.json").write_text(json.dumps(run), "utf-8")

        return change

    @pytest.mark.parametrize(
        "key, value, arguments, said",
        [
            (
                "selection.provider",
                "Mine",
                (),
                "one: --baseline must be of Emulated, emulated, got 'Mine, emulated'; choose ",
            ),
            (
                "selection.adapter_name",
                "RTX",
                (),
                "must be of Emulated, emulated, got 'Emulated, RTX, emulated'; choose another bundle",
            ),
            ("selection.device_class", "cpu", (), "must be of Emulated, emulated, got 'Emulated, cpu'"),
            ("selection.tier", "full", (), "must be a run of tier smoke, got 'full'; use --tier full, or another"),
            ("selection.feature_level", "2_0", (), "must be judged by --feature-level 'the newest', got '2_0'; use"),
            ("selection.case_ids", True, (), "must be of version 1 of the case ids, got True"),
            (
                "selection.filter",
                ["gather/example.*"],
                (),
                "must be a run of the whole tier, or with the same --filter",
            ),
            ("selection.shard", "1/2", (), "must be a run of all shards, or of the same one, got 1/2; merge all"),
            ("totals.verdicts", {"pass": 3, "not-run": 7}, (), "a run in which each case was run, got 7 that were not"),
            ("selection.case_ids", 2, (), "must be of version 1 of the case ids, got 2; run the baseline again"),
            (
                "totals",
                None,
                (),
                "must be a run in which each case has a result, and some of this one have none; run it to its end",
            ),
            ("totals.exit_code", 130, (), "must be a run in which each case has a result"),
            ("totals.ids", "0" * 64, (), "must be a run in which each case has a result"),
            ("schema", "opmap-results/9", (), "run.json: schema must be opmap-results/1, got 'opmap-results/9'"),
            ("totals.verdicts", {"pass": 1}, (), "results.jsonl"),
            ("schema", "opmap-results/1", ("--resume", "one"), "must be another bundle than the run's own"),
        ],
    )
    def test_refused(self, key, value, arguments, said, one, validate):
        """One line says what differs and what to do; the exit code is 2, and no case is run."""
        self.spoil(key, value)(one)

        code, out, err = validate("", "--baseline", "one", *arguments)

        assert (2, "", 1) == (code, out, len(err.splitlines()))
        assert said in err

    @pytest.mark.parametrize(
        "path, said",
        [
            ("nowhere", "nowhere: --baseline must be a results bundle or a folder of bundles, got no such folder"),
            (
                ".",
                "must be a results bundle, or a folder that has one that fits, got 1 bundle: one must be of Emulated, hardware, got 'Emulated, emulated'",
            ),
        ],
    )
    def test_none(self, path, said, one, validate):
        """A folder without a bundle that fits is named, with what was looked for."""
        code, out, err = validate("", "--baseline", path, provider="emulated:other")

        assert (2, "", 1) == (code, out, len(err.splitlines()))
        assert said in err

    def test_named(self, one, validate):
        """A run of one case may have a baseline of any tier."""
        self.spoil("selection.tier", "standard")(one)
        assert 2 == validate("", "--baseline", "one")[0]
        assert 0 == validate("", "gather/example.1", "--baseline", "one", chosen=())[0]

    def test_other_version(self, one, validate):
        """A baseline of another opmap is compared where the ids are the same; a line says how many are."""
        self.spoil("selection.opmap", "0.0.9")(one)
        lines = (one / "results.jsonl").read_text("utf-8").splitlines(keepends=True)
        (one / "results.jsonl").write_text("".join(lines[1:]), "utf-8")
        run = json.loads((one / "run.json").read_text("utf-8"))
        from bundle_folders import agree

        (one / "run.json").write_text(json.dumps(run | {"environment": None}), "utf-8")
        self.spoil("environment", run["environment"])(one)
        run["environment"]["packages"]["value"]["opmap"] = "0.0.9"
        self.spoil("environment", run["environment"])(one)
        agree(one, 0)

        code, out, _ = validate("changed", "--baseline", "one")

        total = len(lines)
        assert 1 == code
        assert f"baseline one: it has {total - 1} of these {total} cases and probes; it is of opmap 0.0.9, and" in out

    def test_merged(self, one, validate, tmp_path):
        """Shards with two baselines are merged without a problem, and are one baseline."""
        shutil.copytree(one, tmp_path / "other")
        validate("", "--shard", "1/2", "--report", "first", "--baseline", "one")
        validate("", "--shard", "2/2", "--report", "second", "--baseline", "other")
        assert 0 == main(["merge", "first", "second", "-o", "both"])
        assert "beside the baseline one, other\n" in (tmp_path / "both" / "summary.md").read_text("utf-8")

        code, out, _ = validate("changed", "--baseline", "both")

        total = len(records(one))
        assert 1 == code
        assert f"it has {total} of these {total} " in out and "newly unsupported" in out

    def test_lost_variants(self, validate, tmp_path):
        """Cases in a variant that the provider has no more are newly unsupported, and are not left out."""
        chosen = ("--tier", "standard", "--filter", "gather/int8/*several-runs*")
        validate("", "--report", "wide", provider="emulated:opened", chosen=chosen)

        code, out, _ = validate("", "--report", "narrow", "--baseline", "wide", chosen=chosen)

        lost = changed(records(tmp_path / "narrow"), "newly-unsupported")
        assert 1 == code and lost and records(tmp_path / "narrow").keys() == records(tmp_path / "wide").keys()
        assert f"{len(lost)} newly-unsupported" in out
        assert 0 == main(["report", "--verify", str(tmp_path / "narrow")])

    def test_resume(self, one, validate, tmp_path):
        """A run goes on only with the same baseline."""
        validate("", "--report", "two", "--baseline", "one")
        assert 0 == validate("", "--resume", "two", "--baseline", "one")[0]
        shutil.copytree(one, tmp_path / "other")

        for arguments in ((), ("--baseline", "other")):
            code, _, err = validate("", "--resume", "two", *arguments)
            assert 2 == code and "--resume must go on with the same baseline" in err


class TestSometimes:
    """A provider that is wrong in one of ten calls, only after another case, or that ends its process."""

    @pytest.mark.parametrize(
        "mode, allowed, code, failed, said",
        [
            (
                "one in ten",
                (),
                1,
                {"flaky": 1},
                "right when it was run again after the same 7 earlier cases, and alone",
            ),
            ("one in ten", ("--allow-flaky", "1"), 0, {"flaky": 1}, "right when it was run again"),
            (
                "error once",
                (),
                1,
                {"flaky": 1},
                "error at run, and right when it was run again after the same 3 earlier",
            ),
            ("after", (), 1, {"mismatch": 9}, " earlier cases, and passes alone: "),
            ("crash", (), 1, {"crash": 10}, "the worker process ended"),
        ],
    )
    def test_run(self, mode, allowed, code, failed, said, validate, tmp_path):
        """The verdict, its words, the exit code and JUnit."""
        chosen = ("--filter", "gather*/example.*")

        got, out, _ = validate(mode, *allowed, "--report", "r", chosen=chosen)

        of_run = [record for record in records(tmp_path / "r").values() if record["verdict"] != "pass"]
        assert code == got
        assert failed == {
            verdict: sum(r["verdict"] == verdict for r in of_run) for verdict in {r["verdict"] for r in of_run}
        }
        assert any(said in record["message"] for record in of_run)
        suite = ElementTree.parse(tmp_path / "r" / "junit.xml").find("testsuite")
        broken = int(suite.get("failures")) + int(suite.get("errors"))
        assert (0 if allowed else len(of_run)) == broken
        assert 0 == main(["report", "--verify", str(tmp_path / "r")])
        if mode == "crash":
            assert len(of_run) == (tmp_path / "calls.txt").stat().st_size, "no crash is run again"
        if "flaky" in failed:
            assert "; 1 flaky" in out or "FAILED: 1 flaky" in out

    def test_dangerous(self, validate, tmp_path):
        """With --rerun-dangerous a crash is run again."""
        _, out, _ = validate("crash", "--rerun-dangerous", chosen=("--filter", "gather/example.1"))

        assert (tmp_path / "calls.txt").stat().st_size > 1
        assert "always (8 of 8 alone" in out

    def test_repeated(self, validate):
        """With --repeat nothing is run again: different results are flaky, equal ones are not."""
        _, out, _ = validate("hidden", "--repeat", "3", "--json", chosen=("--filter", "gather/example.1"))

        (record,) = json.loads(out)["cases"]
        assert ("flaky", True) == (
            record["verdict"],
            record["message"].startswith("3 runs gave pass, pass, mismatch at"),
        )

    def test_json(self, validate):
        """The verdict does not depend on what is printed."""
        chosen = ("--filter", "gather*/example.*")
        _, out, _ = validate("one in ten", "--json", chosen=chosen)

        assert ["flaky"] == [r["verdict"] for r in json.loads(out)["cases"] if r["verdict"] != "pass"]

    def test_in_bundle(self, validate, tmp_path):
        """The bundle that is read again holds the final verdicts."""
        validate("one in ten", "--report", "r", chosen=("--filter", "gather/*float32*"))

        assert any(str(record.verdict) == "flaky" for record in read_bundle(tmp_path / "r").records)
