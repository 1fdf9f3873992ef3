"""The worker process on the DirectML EP on Linux: a failure of it costs one case only, and each node is proven."""

import os
import shutil
import signal
import threading
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from troubled_workers import CHILD, Planted, first_cases, linux

from opmap.engines import dml_linux
from opmap.engines.child import processes_with
from opmap.engines.providers import Provider
from opmap.engines.sessions import DIRECTML
from opmap.engines.steps import Open
from opmap.engines.worker import HangLimit
from opmap.judge.judge import Judge
from opmap.mapping import map_descriptor

cases = pytest.fixture(first_cases, scope="module")


@linux
@pytest.mark.rig
@pytest.mark.skipif(not os.environ.get(dml_linux.VARIABLE), reason=f"{dml_linux.VARIABLE} is not set")
class TestDirectMLOnLinux:
    """The worker on the DirectML EP, in the rig that OPMAP_DML_RUNTIME names."""

    @pytest.fixture
    def command(self):
        command = dml_linux.find_dml_runtime()
        work = Path(command[3], "work")
        staged = command[-1].split("/")[0]
        child = work / f"trouble-{os.getpid()}.py"
        shutil.copyfile(CHILD, child)
        yield [*command[:-1], child.name, staged]
        child.unlink()

    @pytest.fixture
    def worker(self, command):
        with Planted(DIRECTML, command=command, timeout=10, hang_limit=HangLimit()) as worker:
            yield worker.plant(0, b"")

    @staticmethod
    def windows_python(token):
        """Returns the process id of the Python under Wine: the only process of the worker that is not a parent."""
        pids = processes_with(token)
        parents = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in pids}
        (pid,) = set(pids) - parents
        return pid

    def judge(self, worker):
        return Judge(Provider.of(worker.facts, worker))

    def test_cases(self, worker, cases):
        assert "emulated" == worker.facts.device_class
        records = list(map(self.judge(worker), cases))
        assert ["pass"] * 12 == [record.verdict for record in records]
        assert all(record.proven for record in records)
        facts = worker.environment()
        assert facts["wine"].value
        assert "directml.dll" in str(facts["loaded_modules"].value).lower()

    @pytest.mark.parametrize(("model", "verdict"), [(b"exit", "crash"), (b"crash", "crash"), (b"sleep", "timeout")])
    def test_trouble(self, worker, cases, model, verdict):
        worker.plant(3, model)
        token = []
        records = []
        for case in cases:
            records.append(self.judge(worker)(case).verdict)
            token.append(worker._child and worker._child.token)
        assert ["pass", "pass", verdict, *["pass"] * 9] == records
        assert [] == processes_with(token[0])

    @pytest.mark.parametrize(("number", "verdict"), [("SIGKILL", "crash"), ("SIGSTOP", "timeout")])
    def test_signal_from_outside(self, worker, cases, number, verdict):
        judge = self.judge(worker)
        assert "pass" == judge(cases[0]).verdict
        token = worker._child.token
        pid = self.windows_python(token)
        worker.plant(1, b"sleep")
        threading.Timer(0.5, os.kill, (pid, getattr(signal, number))).start()
        assert [verdict, "pass"] == [judge(case).verdict for case in cases[:2]]
        assert [] == processes_with(token)

    def test_removed_device(self, worker, cases):
        """After ID3D12Device5::RemoveDevice, ONNX Runtime's error is recognised as a lost device."""
        judge, perform = self.judge(worker), worker.perform
        assert "pass" == judge(cases[0]).verdict
        token = worker._child.token

        def removes(step, limit=None):
            if isinstance(step, Open):
                model = b"remove device\n" + step.model.tobytes()
                step = msgspec.structs.replace(step, model=np.frombuffer(model, np.uint8))
            return perform(step, limit)

        worker.perform = removes
        record = judge(cases[1])
        worker.perform = perform
        assert "device-lost" == record.verdict, record.message
        assert "887A0005" in record.message
        assert [] == processes_with(token)
        assert "pass" == judge(cases[2]).verdict

    @pytest.mark.parametrize(
        ("prefix", "verdict", "stage"), [(b"", "error", "load"), (b"allow fallback\n", "fallback", None)]
    )
    def test_planted_fallback(self, worker, cases, prefix, verdict, stage):
        """DirectML has no kernel for a Gather of strings. The values are right, but the verdict is not `pass`."""
        model = onnx.load_from_string(map_descriptor(cases[0].desc, index_conversion="directml").model_bytes)
        (gather,) = (node for node in model.graph.node if node.op_type == "Gather")
        data, name = gather.input[0], model.graph.output[0].name
        gather.input[0], model.graph.node[-1].output[0] = "text", "gathered"
        model.graph.node.insert(0, helper.make_node("Cast", [data], ["text"], to=TensorProto.STRING))
        model.graph.node.append(helper.make_node("Cast", ["gathered"], [name], to=TensorProto.FLOAT))
        worker.plant(1, prefix + model.SerializeToString())
        record = self.judge(worker)(cases[0])
        assert (verdict, stage) == (record.verdict, record.stage), record.message
        assert not record.proven
        if prefix:
            assert "Gather on CPUExecutionProvider" in record.message

    def test_helper_on_the_cpu(self, worker, cases):
        """Where the fallback is allowed, a Cast on the CPU EP does not unprove the Gather; the record says where it
        was.
        """
        model = onnx.load_from_string(map_descriptor(cases[0].desc, index_conversion="directml").model_bytes)
        name = model.graph.output[0].name
        model.graph.node[-1].output[0] = "gathered"
        for source, target, to in (("gathered", "text", TensorProto.STRING), ("text", name, TensorProto.FLOAT)):
            model.graph.node.append(helper.make_node("Cast", [source], [target], to=to))
        worker.plant(1, b"allow fallback\n" + model.SerializeToString())
        record = self.judge(worker)(cases[0])
        assert ("pass", True) == (record.verdict, record.proven)
        assert "Cast on CPUExecutionProvider" in record.message
