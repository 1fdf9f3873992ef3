"""Packs: the models of several cases as one, and how their cases are judged."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter

import msgspec
import numpy as np
import onnx
import pytest
from judged_sessions import Planted, changed, fresh_run, judged, records, unlike

from opmap.cli import main
from opmap.engines.protocol import Placement
from opmap.engines.providers import Provider
from opmap.engines.sessions import CPU
from opmap.engines.steps import Clear, Examine, Open, Result, Run
from opmap.engines.worker import WorkerTimeout
from opmap.judge.judge import Judge
from opmap.judge.session_batcher import SessionBatcher
from opmap.vocabulary import Verdict

fresh = pytest.fixture(fresh_run, scope="module")


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

    def test_wrong_alone(self):
        """A case that is wrong in a pack and alone has the record that it has alone. The others of its pack pass."""

        def fault(planted, step, result):
            if not isinstance(step, Run):
                return result
            return changed(result, [name for name, array in result.outputs.items() if array.dtype == np.int8])

        session, _ = judged(fault, pack=8)
        alone, _ = judged(fault, fresh_sessions=True)

        assert [] == unlike(alone, session)
        assert {None} == {record.batched_with for record in session.results.records}
        assert {"mismatch", "pass"} <= {str(record.verdict) for record in session.results.records}
        its = records(alone)
        assert all(its[r.case] == r for r in session.results.records if r.failed)

    @pytest.mark.parametrize(("most", "pack"), [(6, 16), (3, 16), (6, 4)])
    def test_wrong_when_batched(self, most, pack):
        """A case that is wrong only in a model of more than so many nodes is told with the smallest pack that showed
        it.
        """

        def fault(planted, step, result):
            if not (isinstance(step, Run) and planted.nodes > most):
                return result
            return changed(result, list(result.outputs)[:1])

        session, _ = judged(fault, pack=pack, filter=("gather/float32/*",))
        failed = [record for record in session.results.records if record.failed]
        only_batched = [record for record in failed if record.batched_with]

        assert bool(only_batched) == (pack * 3 > most)
        for record in only_batched:
            assert record.verdict == Verdict.MISMATCH
            assert record.message.startswith(f"fails only when batched with {len(record.batched_with)} case")
            assert record.case not in record.batched_with
            assert f"--pack {pack}" in session.again(next(c for c in session.cases if c.id == record.case))
        alone = judged(fault, fresh_sessions=True, filter=("gather/float32/*",))[0]
        assert set(unlike(alone, session)) == {record.case for record in only_batched}

    @pytest.mark.parametrize("names", [True, False])
    def test_failure_of_the_pack(self, names):
        """What says nothing of single cases is no failure of the other cases in the pack.

        That are outputs that are no arrays, and a node elsewhere that has no name.
        """

        def fault(planted, step, result):
            if isinstance(step, Run):
                planted.bytes = {array.tobytes() for array in result.outputs.values()}
                unlucky = any(digest(one) % 8 == 0 for one in planted.bytes)
                return msgspec.structs.replace(result, malformed="no arrays") if names and unlucky else result
            if not isinstance(step, Examine) or names:
                return result
            unlucky = any(digest(one) % 8 == 0 for one in planted.bytes)
            nodes = [
                (type, "ElsewhereEP" if unlucky else provider) for type, provider in result.evidence.placement.nodes
            ]
            placement = Placement("assignment-info", tuple(nodes))
            return msgspec.structs.replace(
                result, evidence=msgspec.structs.replace(result.evidence, placement=placement)
            )

        def digest(content):
            return hashlib.sha256(content).digest()[0]

        session, _ = judged(fault, pack=8)
        alone, _ = judged(fault, fresh_sessions=True)
        failed = [record for record in session.results.records if record.failed]

        assert [] == unlike(alone, session)
        assert {Verdict.MISMATCH if names else Verdict.FALLBACK} == {record.verdict for record in failed}
        assert {None} == {record.batched_with for record in session.results.records}

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
        assert {None} == {record.batched_with for record in session.results.records}
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

        assert len(hangs) == len(timeouts) == len([r for r in timeouts if r.batched_with])

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
        assert all("ElsewhereExecutionProvider" in r.message and r.batched_with for r in failed)
        assert len(failed) < len(session.results.records) / 2

    def test_large_cases_run_alone(self, monkeypatch):
        monkeypatch.setattr("opmap.judge.session_batcher.MOST_BYTES", 0)
        session, _ = judged(pack=16)

        assert (
            {"plain", "init", "node"}
            >= {r.variant for r in session.results.records if r.variant.endswith("packed")}
            == set()
        )

    def test_size_of_a_pack(self, monkeypatch, fresh):
        """A pack ends before it has more bytes than a pack may have."""
        monkeypatch.setattr("opmap.judge.session_batcher.MOST_BYTES_TOGETHER", 2000)
        judge = Judge(Provider(CPU, "", "hardware", Planted()))
        cases = [case for case in fresh[0].cases if case.variant == "plain"]
        sizes = [
            [sum(t.element_count * t.data_type.size for t in case.desc.tensors.values()) for case in group]
            for group in SessionBatcher(judge, pack=16).batches(cases)
        ]

        assert all(sum(group) <= 2000 or len(group) == 1 for group in sizes)
        assert max(map(len, sizes)) > 1

    def test_known_failures_run_alone(self, fresh):
        """Cases of which a failure is expected run alone, as if there were no packs."""
        planted = Planted()
        judge = Judge(Provider(CPU, planted.version, "hardware", planted))
        cases = [case for case in fresh[0].cases if case.variant == "plain"][:6]
        groups = SessionBatcher(judge, pack=4).batches(cases, lambda case: case is cases[1])

        assert [[0, 2, 3, 4], [1], [5]] == [[cases.index(case) for case in group] for group in groups]

    def test_interrupted(self):
        """Ctrl-C while a pack runs ends the run, and releases the session."""

        def fault(planted, step, result):
            if isinstance(step, Run) and planted.opened == 2:
                raise KeyboardInterrupt
            return result

        session, planted = judged(fault, pack=8, filter=("gather_elements/int8/*.*/addr*",))

        assert (True, 8) == (session.results.interrupted, len(session.results.records))
        assert session.results.left == len(session.items) - 8
        assert Clear is planted.steps[-1]

    def test_report_when_batched(self, tmp_path, in_tmp_path, capsys):
        """The report names the other cases of the batch, `again` runs them, and no folder says that the case fails
        alone.
        """
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
        assert {"batched"} == {group["stability"] for group in groups}
        assert not (tmp_path / "out" / "failures").exists()
        capsys.readouterr()
        command = shlex.split(groups[0]["again"])
        assert 1 == main([*command[1:], "--json"])
        failed = [r for r in json.loads(capsys.readouterr().out)["cases"] if r["verdict"] == "mismatch"]
        assert groups[0]["smallest"]["case"] in [record["case"] for record in failed]
        assert all(record["batched_with"] for record in failed)

    @pytest.mark.parametrize(
        ("arguments", "wanted"),
        [
            (["--pack", "0"], "--pack: must be a whole number from 1 on, got '0'"),
            (["--pack", "x"], "--pack: must be a whole number from 1 on, got 'x'"),
            (["--pack", "4", "--provider", "directml"], "--pack needs a provider that runs models, got 'directml'"),
            (
                ["--pack", "4", "--provider", "fault:clamp"],
                "--pack needs a provider that runs models, got 'fault:clamp'",
            ),
            (["--pack", "4", "--fresh-sessions"], "use one of them"),
        ],
    )
    def test_wrong_use(self, arguments, wanted, refusal):
        """Wrong use is one line and exit code 2."""
        assert wanted in refusal("validate", *arguments)
