"""A run: its results do not depend on the order, on repetitions that agree, or on an interruption."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import tracemalloc
from types import SimpleNamespace

import msgspec
import pytest

from opmap.cases.selection import find_case
from opmap.cli import main
from opmap.files import to_json
from opmap.judge.record import Record, TensorRecord
from opmap.judge.run import Results, shuffled
from opmap.known.final import Evidence, final
from opmap.reports.bundle import Bundle
from opmap.session import open_judge
from opmap.vocabulary import Stage, Verdict

ITEMS = [SimpleNamespace(id=f"case/{i}") for i in range(20)]

STUB = """
import os
import onnx, numpy
from opmap.engines.sessions import SessionProvider

class Stub:
    count = 0
    right = SessionProvider("CPUExecutionProvider")

    def run(self, model_bytes, feeds):
        self.count += 1
        outputs = self.right.run(model_bytes, feeds)
        {body}
        return outputs

def make():
    return Stub()
"""


def result(verdict="pass", bits="00", stage=None, **keys) -> Record:
    """Returns a record whose output has these bits."""
    stage = stage and Stage(stage)
    return Record(
        case="c", verdict=Verdict(verdict), stage=stage, actual=TensorRecord("UINT8", [1], None, [bits]), **keys
    )


def stub(folder, body: str) -> None:
    """Writes a module `stub` whose provider is the CPU EP with a change.

    In `body`, `self.count` is the number of the run.
    """
    (folder / "stub.py").write_text(STUB.format(body=textwrap.indent(body, " " * 8).lstrip()), encoding="utf-8")


def opmap(folder, *arguments: str, **environment: str) -> int:
    """Runs `opmap validate` in a process of its own, in this folder; returns its exit code."""
    command = [sys.executable, "-m", "opmap", "validate", *arguments]
    return subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True).returncode


@pytest.fixture
def validate(tmp_path, in_tmp_path, monkeypatch, capsys):
    """Runs `opmap validate` in this process, in the test's folder; returns exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["validate", *arguments])
        return code, *capsys.readouterr()

    monkeypatch.syspath_prepend(tmp_path)
    yield run
    sys.modules.pop("stub", None)


def lines(folder) -> list[dict]:
    """Returns the records of a bundle."""
    return [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]


class TestOrder:
    """The order of the work follows from the seed; the order of the results does not."""

    def test_shuffled(self):
        """The order follows from the seed, and no item is lost."""
        orders = [[item.id for item in shuffled(ITEMS, seed)] for seed in (None, 0, 0, 1)]

        assert [item.id for item in ITEMS] == orders[0]
        assert orders[1] == orders[2]
        assert orders[1] not in (orders[0], orders[3])
        assert {frozenset(orders[0])} == set(map(frozenset, orders))

    def test_part(self):
        """Other selected items do not change the order of two items: an order that shows a failure can be shrunk."""
        part = [item for item in shuffled(ITEMS, 7) if item in ITEMS[::2]]

        assert part == list(shuffled(ITEMS[::2], 7))

    def test_pinned(self):
        """A seed in a bug report gives the same order in the next version."""
        assert "12 19 14 6 1" == " ".join(i.id.removeprefix("case/") for i in shuffled(ITEMS, 4)[:5])

    def test_results(self, tmp_path):
        """Each record is flushed at once; in the end the records have the order of the items, also in the bundle."""
        bundle = Bundle(tmp_path / "r", {})
        run, seen = Results(bundle), []

        def judge(batch):
            assert seen == [r["case"] for r in lines(tmp_path / "r")]
            seen.extend(item.id for item in batch)
            return [Record(case=item.id, verdict=Verdict.PASS) for item in batch]

        order = shuffled(ITEMS, 3)
        run.collect(ITEMS, judge, batches=[order[:3], order[3:4], order[4:]])
        bundle.complete(run.records, 0)
        bundle.release()

        assert seen != [item.id for item in ITEMS]
        assert (
            [item.id for item in ITEMS] == [r.case for r in run.records] == [r["case"] for r in lines(tmp_path / "r")]
        )

    def test_max_failures(self):
        """The run stops after max_failures failures, and counts the cases that are left."""
        run = Results(max_failures=3)

        def crash(batch):
            return [Record(case=item.id, verdict=Verdict.CRASH) for item in batch]

        run.collect(ITEMS, crash, batches=[ITEMS[:2], ITEMS[2:9], ITEMS[9:]])

        assert (3, 17) == (len(run.records), run.left)

    def test_max_failures_resumed(self):
        """A resumed run that is stopped at once counts the same cases as left: those without a record."""
        run = Results(max_failures=3)
        for item in ITEMS[:3]:
            run.add(Record(case=item.id, verdict=Verdict.CRASH))

        run.collect(ITEMS, lambda batch: [])

        assert (3, 17) == (len(run.records), run.left)


class TestShortened:
    """A run that need not keep all of its good records keeps what its tables and notes need."""

    @staticmethod
    def records(count: int, verdict: str = "pass") -> list[Record]:
        """Returns so many records as a judge makes them: equal parts are objects of their own."""
        text = to_json(
            {
                "case": "c",
                "operator": "DML_OPERATOR_X",
                "verdict": verdict,
                "provider": "P",
                "expected": {"DataType": "UINT8", "Sizes": [1], "Values": None, "Bits": None, "Digest": "0" * 64},
                "placement": {"proven": True, "source": "info", "nodes": [["Gather", "P"]], "elsewhere": ["X on Y"]},
                "path_proof": {"proven": True, "source": "info"},
                "substitutions": ["reshape: a", "reshape: b"],
                "lowered_as": {"type": "X", "desc": {"InputTensor": {"Sizes": [1, 2, 3]}}},
            }
        )
        made = [msgspec.json.decode(text, type=Record) for _ in range(count)]
        return [msgspec.structs.replace(record, case=f"case/{i}") for i, record in enumerate(made)]

    def test_good_records(self):
        """A good record loses outputs and lowering. All else stays, and one that is not good stays whole."""
        (record,) = self.records(1)
        run = Results(whole=False)
        run.add(record)
        assert [msgspec.structs.replace(record, expected=None, lowered_as=None)] == run.records
        (wrong,) = self.records(1, "mismatch")
        run.add(wrong)
        assert wrong is run.records[1]
        whole = Results()
        whole.add(record)
        assert record is whole.records[0]

    def test_memory(self):
        """A good record takes few hundred bytes beside its id."""
        run, count = Results(whole=False), 1000
        run.add(self.records(1)[0])
        tracemalloc.start()
        try:
            for _ in range(count // 10):
                for record in self.records(10):
                    run.add(msgspec.structs.replace(record, case=run.records[0].case))
            used = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert used < 260 * count

    def test_cases(self):
        """A case that was judged holds no longer what was computed from its descriptor."""
        case = find_case("gather/example.1")
        Results().collect([case], lambda batch: [open_judge("cpu")(*batch)])
        assert vars(case.desc).keys() == set(case.desc.members().values())

    def test_bundle(self, tmp_path):
        """The bundle holds whole records in the order of the items, also those from before an interruption."""
        records = self.records(4)
        ids = [record.case for record in records]
        whole = [json.loads(to_json(record)) for record in records]
        bundle = Bundle(tmp_path / "r", {}, ids=ids, whole=False)
        run = Results(bundle, whole=False)
        for n in (2, 0):
            run.add(records[n])
        bundle.release()
        bundle = Bundle(tmp_path / "r", {}, ids=ids, resume=True, whole=False)
        assert [None, None] == [record.lowered_as for record in bundle.done]
        run = Results(bundle, whole=False)
        run.collect(
            [SimpleNamespace(id=id) for id in ids], lambda batch: [records[ids.index(item.id)] for item in batch]
        )
        assert [None] * 4 == [record.lowered_as for record in run.records]
        bundle.complete(run.records, 0)
        bundle.release()
        lines = (tmp_path / "r" / "results.jsonl").read_text("utf-8").splitlines()
        assert whole == [json.loads(line) for line in lines]


class TestRepeat:
    """A case with different results is flaky, never averaged away."""

    @pytest.mark.parametrize(
        "records, verdict, said",
        [
            ([result(), result()], "pass", None),
            ([result(), result("mismatch", "01")], "flaky", "2 runs gave pass, mismatch"),
            (
                [result("mismatch", "01"), result("mismatch", "02")],
                "flaky",
                "2 runs gave mismatch, mismatch",
            ),
            ([result("mismatch", "01"), result("mismatch", "01")], "mismatch", None),
            ([result()] * 9 + [result("error", stage="run")], "flaky", "pass, error at run"),
            ([result("error", stage="load"), result("error", stage="run")], "flaky", "error at load, error at run"),
            (
                [result("error", error_at="a.cpp(1) 80070057"), result("error", error_at="b.cpp(2) 80004005")],
                "flaky",
                "2 runs gave error, error",
            ),
            ([result("crash", message="at 0x12"), result("crash", message="at 0x34")], "crash", "at 0x12"),
            ([result("crash"), result()], "flaky", "crash, pass"),
            ([result(), result("fallback")], "flaky", "pass, fallback"),
            ([result(message="a note"), result()], "pass", None),
            ([result("observed", "01"), result("observed", "02")], "observed", None),
            (
                [result("observed", message="pass"), result("observed", message="error: x")],
                "flaky",
                "2 runs gave observed, observed",
            ),
            ([result("timeout"), result("timeout"), result("not-run", message="hung")], "not-run", "hung"),
            ([result(), result("timeout"), result("not-run")], "flaky", "3 runs gave pass, timeout, not-run"),
            ([result("not-run", message="gone")] * 2, "not-run", "gone"),
        ],
    )
    def test_one_record(self, records, verdict, said):
        """One record represents all; if they differ, the message lists the results."""
        got = final(Evidence(records))

        assert verdict == got.verdict
        assert said is None or said in got.message
        assert got.stage is None or verdict != "flaky"

    @pytest.mark.parametrize(
        "body, said",
        [
            ("if self.count == 2: outputs = [o * 0 for o in outputs]", "3 runs gave pass, mismatch at compare, pass: "),
            ("if self.count == 3: raise RuntimeError('lost')", "3 runs gave pass, pass, error at run: "),
            (
                "outputs = [o + self.count for o in outputs]",
                "3 runs gave mismatch at compare, mismatch at compare, mismatch at compare: ",
            ),
        ],
    )
    def test_flaky(self, body, said, tmp_path, validate):
        """A provider that is sometimes wrong is caught, and no known mismatch excuses it."""
        stub(tmp_path, body)
        (tmp_path / "known.toml").write_text(
            'schema = "opmap-known-failures/1"\n[[known]]\ncase = "*"\nprovider = "stub:make"\nverdict = "mismatch"\n'
            'stage = "compare"\nreason = "always wrong"\n',
            encoding="utf-8",
        )

        arguments = ("--in-process", "--provider", "stub:make", "--case", "gather/example.1", "--repeat", "3", "--json")
        for more in ((), ("--known-failures", "known.toml")):
            code, out, _ = validate(*arguments, *more)

            (record,) = json.loads(out)["cases"]
            assert (1, "flaky", None) == (code, record["verdict"], record["stage"])
            assert said in record["message"]

    def test_probes(self, tmp_path, validate):
        """A probe is repeated like a case."""
        stub(tmp_path, "if self.count % 3 == 0: raise RuntimeError('lost')")

        globs = ("--filter", "gather*/example.*", "--filter", "probe/*")
        _, out, _ = validate("--in-process", "--provider", "stub:make", "--repeat", "3", "--json", *globs)

        document = json.loads(out)
        assert {"flaky"} == {r["verdict"] for r in document["cases"]}
        assert any(r["verdict"] == "flaky" and "3 runs gave" in r["message"] for r in document["probes"])


class TestSame:
    """Two runs of the same catalogue give the same bytes."""

    @pytest.mark.slow
    def test_processes(self, tmp_path):
        """Hash seed, order and repetitions do not change the bytes, also if results are wrong."""
        stub(
            tmp_path,
            "if outputs[0].size % 3 == 0: outputs = [o * 0 for o in outputs]\nif outputs[0].size == 5: raise RuntimeError('five')",
        )
        options = {"a": (), "b": ("--shuffle", "1"), "c": ("--shuffle", "2", "--repeat", "2")}

        codes = {
            opmap(
                tmp_path,
                "--in-process",
                "--provider",
                "stub:make",
                "--shard",
                "1/3",
                "--report",
                name,
                *more,
                PYTHONHASHSEED=str(i),
            )
            for i, (name, more) in enumerate(options.items())
        }

        results = [(tmp_path / name / "results.jsonl").read_bytes() for name in options]
        assert {1} == codes
        assert 1 == len(set(results))
        assert {"pass", "mismatch", "error"} <= {record["verdict"] for record in lines(tmp_path / "a")}


class TestResume:
    """A resumed run ends like an uninterrupted one."""

    @pytest.mark.parametrize(
        "more", [("--shuffle", "5"), ("--repeat", "2"), ("--known-failures", "known.toml"), ("--tier", "standard")]
    )
    def test_something_else(self, more, tmp_path, run_opmap):
        """A run is not resumed with other options that change the verdicts."""
        folder, arguments = tmp_path / "r", ["validate", "--provider", "cpu", "--case", "gather/example.1"]
        (tmp_path / "known.toml").write_text('schema = "opmap-known-failures/1"\n', encoding="utf-8")
        more = [str(tmp_path / m) if m.endswith(".toml") else m for m in more]
        main([*arguments, "--report", str(folder)])
        with open(folder / "results.jsonl", "ab") as file:
            file.write(b'{"file":null,"case":"gather/')
        before = {path.name: path.read_bytes() for path in folder.iterdir()}

        line = run_opmap(2, *arguments, *more, "--resume", folder).err
        assert f"the same {more[0].removeprefix('--').replace('-', '_')}: " in line
        assert before == {path.name: path.read_bytes() for path in folder.iterdir()}

    def test_known_failures_changed(self, tmp_path, capsys):
        """A run is not resumed with a known-failures file whose content has changed."""
        known, folder = tmp_path / "known.toml", tmp_path / "r"
        arguments = ["validate", "--provider", "cpu", "--case", "gather/example.1", "--known-failures", str(known)]
        known.write_text('schema = "opmap-known-failures/1"\n', encoding="utf-8")
        main([*arguments, "--report", str(folder)])
        known.write_text('schema = "opmap-known-failures/1"\n# changed\n', encoding="utf-8")

        assert 2 == main([*arguments, "--resume", str(folder)])

    def test_other_catalogue(self, tmp_path, run_opmap, monkeypatch):
        """A run is not resumed after the catalogue has changed."""
        from opmap.cases import selection

        arguments = ["validate", "--provider", "cpu", "--filter", "*/example.1"]
        main([*arguments, "--report", str(tmp_path / "r")])
        whole = list(selection.listed("smoke"))
        monkeypatch.setattr(selection, "listed", lambda *_, **__: whole[1:])

        assert "the same cases: this opmap selects others" in run_opmap(2, *arguments, "--resume", tmp_path / "r").err

    def test_missing_provider(self, tmp_path, capsys):
        """Resuming a finished run changes nothing: no case has two records, and the environment stays."""
        arguments = ["validate", "--provider", "AbsentExecutionProvider", "--filter", "*/example.*"]
        main([*arguments, "--report", str(tmp_path / "r")])
        before = (tmp_path / "r" / "results.jsonl").read_bytes()
        run = json.loads((tmp_path / "r" / "run.json").read_bytes())
        (tmp_path / "r" / "run.json").write_text(json.dumps({**run, "environment": {"python": "3.11"}}))

        main([*arguments, "--resume", str(tmp_path / "r")])

        assert before == (tmp_path / "r" / "results.jsonl").read_bytes()
        assert {"python": "3.11"} == json.loads((tmp_path / "r" / "run.json").read_bytes())["environment"]
