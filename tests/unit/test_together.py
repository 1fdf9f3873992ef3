"""Cases in one session: those of one model one after the other, and packs of cases at once."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections import Counter

import msgspec
import numpy as np
import onnx
import pytest

from opmap import Session, SessionOptions
from opmap.cli import main
from opmap.diagnosis.diagnose import quick_diagnoses
from opmap.diagnosis.judged_run import JudgedRun
from opmap.execution.dml_linux import VARIABLE
from opmap.execution.protocol import Placement
from opmap.execution.providers import OpenProvider
from opmap.execution.sessions import CPU, SessionProvider
from opmap.execution.steps import Clear, Evidence, Examine, Open, Result, Run
from opmap.execution.worker import WorkerCrashed, WorkerProvider, WorkerTimeout
from opmap.variants import VARIANTS
from opmap.variants.packs import Pack, can_be_packed
from opmap.verdicts.judge import Judge
from opmap.verdicts.record import encode
from opmap.verdicts.together import Together
from opmap.vocabulary import Verdict

SELECTION = ("gather/float32/*", "gather_elements/int8/*", "gather_nd1/int8/*", "gather/example.*")


class Planted(SessionProvider):
    """The CPU EP with a fault. It notes the steps, and gives `fault` each model and each run.

    `nodes` is the number of nodes in the open model, `runs` the number of runs of its session so far, the present included.
    """

    def __init__(self, fault=None, **options):
        super().__init__(CPU, **options)
        self.steps, self.fault, self.nodes, self.runs = [], fault or (lambda planted, step, result: result), 0, 0

    def perform(self, step, limit=None):
        self.steps.append(type(step))
        if isinstance(step, Open):
            self.nodes, self.runs = len(onnx.load_from_string(step.model.tobytes()).graph.node), 0
        self.runs += isinstance(step, Run)
        return self.fault(self, step, super().perform(step, limit))

    @property
    def opened(self):
        return self.steps.count(Open)


def changed(result, names=None):
    """Returns a result in which the first element of these outputs (default: all) has another bit."""
    outputs = {}
    for name, array in result.outputs.items():
        raw = bytearray(np.ascontiguousarray(array).tobytes())
        if names is None or name in names:
            raw[0] ^= 1
        outputs[name] = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)
    return msgspec.structs.replace(result, outputs=outputs)


def every_run(planted, step, result):
    """Every run is wrong."""
    return changed(result) if isinstance(step, Run) else result


def second_run(planted, step, result):
    """Every run of a session but the first is wrong."""
    return changed(result) if isinstance(step, Run) and planted.runs > 1 else result


def judged(fault=None, *, proof=None, filter=SELECTION, report=None, **options):
    """Returns a session whose cases were judged on the planted provider, and the provider."""
    planted = fault if isinstance(fault, Planted) else Planted(fault, proof=proof)
    session = Session(SessionOptions(provider="cpu", filter=filter, **options))
    session._opened = Judge(OpenProvider(CPU, planted.version, "hardware", planted), brief=True)
    session.judge_all()
    return session, planted


def records(session):
    return {record.case: record for record in session.results.records}


def unlike(session, other):
    """Returns the ids whose verdict differs between two runs."""
    mine, its = records(session), records(other)
    assert list(mine) == list(its)
    return [case for case, record in mine.items() if record.verdict != its[case].verdict]


@pytest.fixture(scope="module")
def fresh():
    """A run in which each case had a session of its own."""
    return judged(fresh_sessions=True)


class TestSharedSessions:
    """Cases that have the same model share a session. Nothing else in their records changes."""

    def test_same_records(self, fresh):
        session, planted = judged()

        assert encode(session.results.records) == encode(fresh[0].results.records)
        assert planted.opened < fresh[1].opened
        assert planted.steps.count(Run) == fresh[1].steps.count(Run)

    @pytest.mark.parametrize("shuffle", [None, 4])
    def test_order(self, shuffle):
        """Only neighbours share a session: the order of the runs is that of the cases."""
        session, _ = judged(shuffle=shuffle)
        order = [case.id for case, _ in session.judged]

        assert order == [case.id for case in session.cases]
        numbers = [session.calls[case] for case in order]
        assert numbers == sorted(numbers)

    def test_wrong_at_the_second_run(self):
        """A fault that is there from the second run of a session on is told as such, with the cases before it."""
        session, _ = judged(second_run)
        failed = [record for record in session.results.records if record.failed and record.variant in ("plain", "node")]

        assert failed
        for record in failed:
            assert (Verdict.MISMATCH, True) == (record.verdict, record.message.startswith("only in company of "))
            assert all(records(session)[other].verdict == Verdict.PASS for other in record.company[:1])
            assert f"--case {record.company[0]}" in session.again(next(c for c in session.cases if c.id == record.case))
        assert any(record.company is None and record.verdict == Verdict.PASS for record in session.results.records)

        run = JudgedRun(session.judged, session.calls)
        told = [
            one
            for one in quick_diagnoses(run, lambda: pytest.fail("nothing is run again"), most=99)
            if one.cause.in_company
        ]
        assert {record.case for record in failed} == {f.case.id for one in told for f in one.cause.failures}
        assert {"company"} == {one.stability.kind for one in told}
        assert all(failed[0].company[0] in one.stability.text or len(told) > 1 for one in told)

    def test_no_known_failure_of_company(self, tmp_path):
        """A case that fails in company only passes where a known failure is looked at, so none is written."""
        session, _ = judged(second_run)

        assert 0 == session.write_known_failures(str(tmp_path / "known.toml"))

    def test_always_wrong(self, fresh):
        """A case that is wrong alone too has the record that it has alone."""

        session, _ = judged(every_run)
        alone, _ = judged(every_run, fresh_sessions=True)

        assert encode(alone.results.records) == encode(session.results.records)
        assert {Verdict.MISMATCH} == {r.verdict for r in session.results.records if r.actual and r.placement.proven}

    def test_error_at_the_third_run(self):
        """An error ends the session. The case that it came to is told with the cases before it, the others pass."""

        def fault(planted, step, result):
            return Result(error="planted", stage="run") if planted.runs == 3 and isinstance(step, Run) else result

        session, _ = judged(fault)
        failed = [record for record in session.results.records if record.failed]
        alike = [r for r in failed if r.company]

        assert alike
        assert {2} == {len(r.company) for r in alike}
        assert all((Verdict.ERROR, "run") == (r.verdict, r.stage) and r.message.endswith(": planted") for r in alike)

    def test_crash_when_a_session_ends(self, fresh):
        """A crash at the release of a session that several cases shared belongs to the last of them."""

        def fault(planted, step, result):
            if planted.runs > 1 and step.__class__.__name__ == "Clear":
                planted.runs = 0
                raise WorkerCrashed("planted")
            return result

        session, _ = judged(fault)
        shared = [record for record in session.results.records if record.verdict == Verdict.CRASH]

        assert shared
        assert all(
            record.company and record.message.endswith(": planted") for record in shared if record.variant == "plain"
        )

    def test_hang(self):
        """A case that hangs is not run again."""
        hangs = []

        def fault(planted, step, result):
            if planted.runs == 2 and isinstance(step, Run):
                hangs.append(planted.runs)
                raise WorkerTimeout("planted", stage="run")
            return result

        session, _ = judged(fault, filter=("gather/float32/*",))
        timeouts = [r for r in session.results.records if r.verdict == Verdict.TIMEOUT]

        assert len(timeouts) == len(hangs) > 0

    def test_profile(self):
        """Where a profile is the proof, each case has a session of its own: a profile counts the runs of all cases as one."""
        session, _ = judged(proof="profile")
        alone, _ = judged(proof="profile", fresh_sessions=True)

        assert encode(alone.results.records) == encode(session.results.records)
        assert "profile" in {r.placement.source for r in session.results.records if r.placement}

    def test_repeat(self, fresh):
        session, planted = judged(repeat=2)

        assert encode(fresh[0].results.records) == encode(session.results.records)
        assert planted.steps.count(Run) > fresh[1].steps.count(Run)

    def test_most_failures(self):
        """The run stops after as many failures as were asked for."""
        session, _ = judged(every_run, max_failures=3)

        assert 3 == len(session.results.failures())

    @pytest.mark.parametrize("pack", [1, 4])
    def test_resumed(self, tmp_path, pack):
        """An interrupted run that is resumed has the same records as one that was not."""
        whole = tmp_path / "whole"
        options = {"provider": "cpu", "filter": SELECTION, "pack": pack}
        with Session(SessionOptions(**options, report=str(whole))) as session:
            session.judge_all()
            session.finish()
        part = tmp_path / "part"
        with Session(SessionOptions(**options, report=str(part))) as session:
            calls = iter(range(7))

            def stop():
                if next(calls, None) is None:
                    session.results.interrupted = True

            session.judge_all(stop)
            session.finish()
        with Session(SessionOptions(**options, resume=str(part))) as session:
            assert 0 < len(session.items)
            session.judge_all()
            session.finish()

        assert (whole / "results.jsonl").read_bytes() == (part / "results.jsonl").read_bytes()
        times = json.loads((whole / "times.json").read_bytes())["seconds"]
        assert set(times) == {json.loads(line)["case"] for line in (whole / "results.jsonl").read_bytes().splitlines()}


class TestPack:
    """Several models as one."""

    def test_model(self):
        """Every name is unique, each node and value of a member is there, and the model is valid."""
        cases = [
            case for case in Session(SessionOptions(provider="cpu", filter=("gather_nd1/*", "gather/int8/*"))).cases
        ]
        cases = [case for case in cases if can_be_packed(VARIANTS[case.variant])][:12]
        judge = Judge(OpenProvider(CPU, "", "hardware", SessionProvider(CPU)))
        ready = [judge.prepare(case) for case in cases]
        pack = Pack([one.formed for one in ready])
        graph = pack.model.graph

        onnx.checker.check_model(pack.model, full_check=True)
        assert (
            sum(len(one.formed.model.graph.node) for one in ready)
            == len(graph.node)
            == len({n.name for n in graph.node})
        )
        assert {value.name for value in graph.input} == set(pack.feeds(one.feeds for one in ready))
        assert pack.model_bytes == Pack([one.formed for one in ready]).model_bytes

    def test_evidence_of_a_member(self):
        """A member has the nodes with its prefix, and those of no member."""
        judge = Judge(OpenProvider(CPU, "", "hardware", SessionProvider(CPU)))
        (case,) = Session(SessionOptions(case=("gather/example.1",))).cases
        formed = judge.prepare(case).formed
        pack = Pack([formed] * 11)
        nodes = (("Gather", "A"), ("Gather", "B"), ("MemcpyToHost", "C"))
        placement = Placement("assignment-info", nodes, ("case1.Gather", "case10.Gather", "Memcpy"))
        shown = pack.evidence(Evidence(placement=placement, inputs=["case1.InputTensor", "case10.IndicesTensor"]))

        assert Placement("assignment-info", (nodes[0], nodes[2]), ("Gather", "Memcpy")) == shown[1].placement
        assert (["InputTensor"], ["IndicesTensor"], []) == (shown[1].inputs, shown[10].inputs, shown[0].inputs)


class TestPacks:
    """A pack is judged case by case; one that fails is split until each case has the result that it has alone."""

    @pytest.mark.parametrize("pack", [2, 5, 64])
    def test_same_verdicts(self, fresh, pack):
        session, planted = judged(pack=pack)

        assert [] == unlike(fresh[0], session)
        assert planted.opened < fresh[1].opened * (0.7 if pack == 2 else 0.5)
        variants = Counter(record.variant for record in session.results.records)
        assert variants["packed"] > variants["plain"] and variants["init.packed"] and variants["node.packed"]
        for record in session.results.records:
            alone = records(fresh[0])[record.case]
            assert msgspec.structs.replace(record, variant=alone.variant) == alone

    def test_two_runs(self):
        first, second = (judged(pack=8)[0] for _ in range(2))

        assert encode(first.results.records) == encode(second.results.records)

    def test_wrong_alone(self):
        """A case that is wrong in a pack and alone has the record that it has alone. The others of its pack pass."""

        def fault(planted, step, result):
            if not isinstance(step, Run):
                return result
            return changed(result, [name for name, array in result.outputs.items() if array.dtype == np.int8])

        session, _ = judged(fault, pack=8)
        alone, _ = judged(fault, fresh_sessions=True)

        assert [] == unlike(alone, session)
        assert {None} == {record.company for record in session.results.records}
        assert {"mismatch", "pass"} <= {str(record.verdict) for record in session.results.records}
        its = records(alone)
        assert all(its[r.case] == r for r in session.results.records if r.failed)

    @pytest.mark.parametrize(("most", "pack"), [(6, 16), (3, 16), (6, 4)])
    def test_wrong_in_company(self, most, pack):
        """A case that is wrong only in a model of more than so many nodes is told with the smallest pack that showed it."""

        def fault(planted, step, result):
            if not (isinstance(step, Run) and planted.nodes > most):
                return result
            return changed(result, list(result.outputs)[:1])

        session, _ = judged(fault, pack=pack, filter=("gather/float32/*",))
        failed = [record for record in session.results.records if record.failed]
        in_company = [record for record in failed if record.company]

        assert bool(in_company) == (pack * 3 > most)
        for record in in_company:
            assert record.verdict == Verdict.MISMATCH
            assert record.message.startswith(f"only in company of {len(record.company)} case")
            assert record.case not in record.company
            assert f"--pack {pack}" in session.again(next(c for c in session.cases if c.id == record.case))
        alone = judged(fault, fresh_sessions=True, filter=("gather/float32/*",))[0]
        assert set(unlike(alone, session)) == {record.case for record in in_company}

    def test_refused_in_company(self):
        """A model that is too large to load is told once, at the first case of the smallest pack that was too large."""

        def fault(planted, step, result):
            return Result(error="too many", stage="load") if isinstance(step, Open) and planted.nodes > 7 else result

        session, _ = judged(fault, pack=32, filter=("gather_elements/int8/*",))
        failed = [record for record in session.results.records if record.failed]

        assert failed
        assert all((Verdict.ERROR, "load") == (r.verdict, r.stage) and r.company for r in failed)
        assert all(r.message.endswith(": too many") for r in failed)
        assert len(failed) < len(session.results.records) / 3

    def test_one_does_not_load(self):
        """One case that does not load has the error that it has alone; no other case has one."""

        def fault(planted, step, result):
            if not isinstance(step, Open):
                return result
            wrong = any(
                a.name == "axis" and a.i == 1
                for n in onnx.load_from_string(step.model.tobytes()).graph.node
                for a in n.attribute
            )
            return Result(error="axis 1", stage="load") if wrong else result

        session, _ = judged(fault, pack=16)
        alone, _ = judged(fault, fresh_sessions=True)

        assert [] == unlike(alone, session)
        assert {None} == {record.company for record in session.results.records}
        assert 1 <= sum(record.verdict == Verdict.ERROR for record in session.results.records)

    def test_hang(self):
        """A pack that hangs is not halved: each hang counts against the adapter."""
        hangs = []

        def fault(planted, step, result):
            if isinstance(step, Run) and planted.nodes > 4 and len(step.feeds) > 4:
                hangs.append(planted.nodes)
                raise WorkerTimeout("planted", stage="run")
            return result

        session, _ = judged(fault, pack=64, filter=("gather/float32/*",))
        timeouts = [record for record in session.results.records if record.verdict == Verdict.TIMEOUT]

        assert len(hangs) == len(timeouts) == len([r for r in timeouts if r.company])

    def test_placement_of_each_node(self):
        """The placement is proven node by node: a node elsewhere fails its own case only."""

        def fault(planted, step, result):
            if not isinstance(step, Examine):
                return result
            placement = result.evidence.placement
            first = next((at for at, name in enumerate(placement.names) if name.startswith("case1.")), None)
            if first is None:
                return result
            nodes = list(placement.nodes)
            nodes[first] = (nodes[first][0], "ElsewhereExecutionProvider")
            evidence = msgspec.structs.replace(
                result.evidence, placement=Placement(placement.source, tuple(nodes), placement.names)
            )
            return msgspec.structs.replace(result, evidence=evidence)

        session, _ = judged(fault, pack=4, filter=("gather/float32/*",))
        failed = [record for record in session.results.records if record.failed]

        assert failed
        assert {Verdict.FALLBACK} == {record.verdict for record in failed}
        assert all("ElsewhereExecutionProvider" in r.message and r.company for r in failed)
        assert len(failed) < len(session.results.records) / 2

    def test_large_cases_run_alone(self, monkeypatch):
        monkeypatch.setattr("opmap.verdicts.together.MOST_BYTES", 0)
        session, _ = judged(pack=16)

        assert (
            {"plain", "init", "node"}
            >= {r.variant for r in session.results.records if r.variant.endswith("packed")}
            == set()
        )

    def test_size_of_a_pack(self, monkeypatch, fresh):
        """A pack ends before it has more bytes than a pack may have."""
        monkeypatch.setattr("opmap.verdicts.together.MOST_BYTES_TOGETHER", 2000)
        judge = Judge(OpenProvider(CPU, "", "hardware", Planted()))
        cases = [case for case in fresh[0].cases if case.variant == "plain"]
        sizes = [
            [sum(t.element_count * t.data_type.size for t in case.desc.tensors.values()) for case in group]
            for group in Together(judge, pack=16).companies(cases)
        ]

        assert all(sum(group) <= 2000 or len(group) == 1 for group in sizes)
        assert max(map(len, sizes)) > 1

    def test_known_failures_run_alone(self, fresh):
        """Cases of which a failure is expected run alone, as if there were no packs."""
        planted = Planted()
        judge = Judge(OpenProvider(CPU, planted.version, "hardware", planted))
        cases = [case for case in fresh[0].cases if case.variant == "plain"][:6]
        groups = Together(judge, pack=4).companies(cases, lambda case: case is cases[1])

        assert [[0, 2, 3, 4], [1], [5]] == [[cases.index(case) for case in group] for group in groups]

    def test_third_party(self, tmp_path, monkeypatch, capsys):
        """A third party's provider gets packs as any model. It shares no session."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "third.py").write_bytes(
            b"import onnxruntime\n\nMODELS = []\n\n\nclass Provider:\n    def run(self, model_bytes, feeds):\n"
            b"        MODELS.append(model_bytes)\n        with open('models', 'a') as file:\n            file.write('x')\n"
            b"        return onnxruntime.InferenceSession(model_bytes, providers=['CPUExecutionProvider']).run(None, feeds)\n"
        )
        code = main(
            ["validate", "--provider", "third:Provider", "--filter", "gather/float32/*", "--pack", "8", "--json"]
        )
        document = json.loads(capsys.readouterr().out)

        assert code == 0
        assert {"pass"} == {record["verdict"] for record in document["cases"] if record["variant"] == "packed"}
        assert len((tmp_path / "models").read_bytes()) < len(document["cases"]) / 2

    def test_prepared_ahead(self, monkeypatch):
        """The cases of the next pack are prepared while a pack runs, and no case is prepared twice."""
        prepared, prepare, waited = [], Judge._prepare, []
        monkeypatch.setattr(Judge, "_prepare", lambda *args: prepared.append(args[1].id) or prepare(*args))
        monkeypatch.setattr(Together, "_elsewhere", True)

        def fault(planted, step, result):
            if isinstance(step, Run) and planted.opened == 1:
                deadline = time.monotonic() + 60
                while len(prepared) <= 8 and time.monotonic() < deadline:
                    time.sleep(0.001)
                waited.append(len(prepared))
            return result

        judged(fault, pack=8, filter=("gather_elements/int8/*.*/addr*",))

        assert waited[0] > 8
        assert len(prepared) == len(set(prepared))

    def test_prepared_together(self, monkeypatch):
        """On a provider in this process, the cases of a pack are prepared together, and before the pack runs."""
        together, known, prepare = [], [], Judge.prepare_ahead
        monkeypatch.setattr(Judge, "prepare_ahead", lambda *args: together.append(len(args[1])) or prepare(*args))

        def fault(planted, step, result):
            if isinstance(step, Open):
                known.append(len(together))
            return result

        session, _ = judged(fault, pack=8, filter=("gather_elements/int8/*.*/addr*",))

        assert [1, 2] == known[:2]
        assert [8, 3] == together
        assert 11 == sum(record.variant.endswith("packed") for record in session.results.records)

    def test_interrupted(self, monkeypatch):
        """Ctrl-C while the next pack is prepared ends the run after the steps of the pack that runs."""
        prepare, numbers = Judge._prepare, iter(range(99))

        def interrupted(*arguments):
            if next(numbers) == 10:
                raise KeyboardInterrupt
            return prepare(*arguments)

        monkeypatch.setattr(Judge, "_prepare", interrupted)
        monkeypatch.setattr(Together, "_elsewhere", True)
        session, planted = judged(pack=8, filter=("gather_elements/int8/*.*/addr*",))

        assert session.results.interrupted
        assert Clear is planted.steps[-1]

    def test_report_of_company(self, tmp_path, monkeypatch, capsys):
        """The report names the company, `again` runs it, and no folder says that the case fails alone."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "third_wrong.py").write_bytes(
            b"import onnx\nimport onnxruntime\n\n\nclass Provider:\n    def run(self, model_bytes, feeds):\n"
            b"        session = onnxruntime.InferenceSession(model_bytes, providers=['CPUExecutionProvider'])\n"
            b"        outputs = session.run(None, feeds)\n"
            b"        if len(onnx.load_from_string(model_bytes).graph.node) > 5:\n"
            b"            outputs[1] = outputs[1] * 0\n"
            b"        return outputs\n"
        )
        arguments = [
            "validate",
            "--provider",
            "third_wrong:Provider",
            "--filter",
            "gather_elements/int8/*",
            "--pack",
            "8",
        ]

        assert 1 == main([*arguments, "--report", "out"])
        groups = json.loads((tmp_path / "out" / "diagnosis.json").read_bytes())["groups"]
        assert {"company"} == {group["stability"] for group in groups}
        assert not (tmp_path / "out" / "failures").exists()
        capsys.readouterr()
        command = shlex.split(groups[0]["again"])
        assert 1 == main([*command[1:], "--json"])
        failed = [r for r in json.loads(capsys.readouterr().out)["cases"] if r["verdict"] == "mismatch"]
        assert groups[0]["smallest"]["case"] in [record["case"] for record in failed]
        assert all(record["company"] for record in failed)

    @pytest.mark.parametrize(
        ("arguments", "wanted"),
        [
            (["--pack", "0"], "--pack: must be a whole number from 1 on, got '0'"),
            (["--pack", "x"], "--pack: must be a whole number from 1 on, got 'x'"),
            (["--pack", "4", "--provider", "directml"], "--pack needs a provider that runs models, got directml"),
            (["--pack", "4", "--provider", "fault:clamp"], "--pack needs a provider that runs models, got fault:clamp"),
            (["--pack", "4", "--fresh-sessions"], "use one of them"),
        ],
    )
    def test_wrong_use(self, arguments, wanted, capsys):
        """Wrong use is one line and exit code 2."""
        try:
            code = main(["validate", *arguments])
        except SystemExit as end:
            code = end.code

        assert code == 2
        assert wanted in capsys.readouterr().err.splitlines()[-1]


class TestInWorker:
    """Shared sessions and packs run through a worker process as in this process."""

    @pytest.mark.parametrize("options", [{"pack": 8}, {}])
    def test_same_records(self, options):
        here, _ = judged(filter=("gather_elements/int8/*",), **options)
        with WorkerProvider(CPU) as worker:
            session = Session(SessionOptions(provider="cpu", filter=("gather_elements/int8/*",), **options))
            session._opened = Judge(OpenProvider(CPU, worker.version, "hardware", worker), brief=True)
            session.judge_all()

        assert encode(here.results.records) == encode(session.results.records)

    @pytest.mark.skipif(not os.environ.get(VARIABLE), reason=f"{VARIABLE} is not set")
    @pytest.mark.parametrize("options", [{"pack": 8}, {}])
    def test_directml(self, options):
        """On the DirectML EP the verdicts are those of fresh sessions too, and each node is proven."""
        runs = []
        for given in (options, {"fresh_sessions": True}):
            with Session(SessionOptions(provider="dml", filter=("*int8/*/addr*",), **given)) as session:
                session.judge_all()
                runs.append(session)
        packed, fresh = runs

        assert [] == unlike(fresh, packed)
        assert all(record.proven for record in packed.results.records if record.verdict == Verdict.PASS)
        assert not [record for record in packed.results.records if record.company]


class TestPackedTiers:
    """The verdicts of a tier are the same in packs, in shared sessions and in fresh ones."""

    @pytest.mark.parametrize("options", [{"pack": 16}, {}])
    def test_smoke(self, options):
        packed, _ = judged(filter=(), **options)
        alone, _ = judged(filter=(), fresh_sessions=True)

        assert [] == unlike(alone, packed)
