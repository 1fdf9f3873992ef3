"""Reproducers: programs that run without opmap, on the CPU EP, and say whether the outputs are right."""

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from opmap.engines.expectations import ExpectedStep
from opmap.engines.steps import Concurrent, Examine, Open, Run, Setup
from opmap.evidence.reproducers.reproducer import program
from opmap.fuzz.search import draw_sequence
from opmap.fuzz.state import planned
from opmap.fuzz.switches import available
from opmap.operators.random_source import SeededSource

CPU = "CPUExecutionProvider"


def run(text, folder, *arguments):
    """Runs a program in a folder, in a Python that has neither opmap's folder nor the current one on its path."""
    file = folder / "program.py"
    file.write_text(text, encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-I", str(file), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=100)


def identity(data_type=TensorProto.FLOAT, name="x"):
    """Returns a session's model: y is x."""
    graph = helper.make_graph(
        [helper.make_node("Identity", [name], ["y"])],
        "g",
        [helper.make_tensor_value_info(name, data_type, [2])],
        [helper.make_tensor_value_info("y", data_type, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return np.frombuffer(model.SerializeToString(), np.uint8)


X = np.array([1, 2], np.float32)


class TestProgram:
    """Programs and their exit codes."""

    def test_random(self, tmp_path):
        """The programs of 24 random sequences, put together by fours, exit with 0."""
        for group in range(6):
            performed = []
            for number in range(4):
                plan = draw_sequence(SeededSource(group * 4 + number), available("directml"))
                text = program(planned(plan), title="t", provider=CPU)
                assert "opmap" not in text
                performed.append(text)
            joined = "\n".join(f"def part{i}():\n    exec({text!r}, {{}})\n" for i, text in enumerate(performed))
            calls = "".join(
                f"try:\n    part{i}()\nexcept SystemExit as end:\n    if end.code: raise\n"
                for i in range(len(performed))
            )
            ended = run(joined + calls, tmp_path)
            assert 0 == ended.returncode, ended.stdout[-500:] + ended.stderr

    def test_wrong(self, tmp_path):
        """A wrong output is printed beside the wanted one, and the exit code is 1."""
        steps = [
            ExpectedStep(Open(session="s", model=identity())),
            ExpectedStep(Run(session="s", feeds={"x": X}), ({"y": X + 1},)),
        ]
        ended = run(program(steps, title="wrong", provider=CPU), tmp_path)
        assert 1 == ended.returncode
        assert "WRONG" in ended.stdout
        assert "expected [2. 3.]" in ended.stdout
        assert "actual   [1. 2.]" in ended.stdout

    def test_provider(self, tmp_path):
        """The execution provider is the first argument, by default that of the failure."""
        steps = [ExpectedStep(Open(session="s", model=identity()))]
        text = program(steps, title="t", provider="NoExecutionProvider")
        assert 0 != run(text, tmp_path).returncode
        assert 0 == run(text, tmp_path, CPU).returncode

    @pytest.mark.parametrize(("feeds", "code"), [({}, 0), ({"x": X}, 1)])
    def test_refused(self, feeds, code, tmp_path):
        """A call that must be refused is wrong only if it is accepted."""
        steps = [
            ExpectedStep(Open(session="s", model=identity())),
            ExpectedStep(Run(session="s", feeds=feeds), fails="always"),
        ]
        assert code == run(program(steps, title="t", provider=CPU), tmp_path).returncode

    def test_an_error_is_wrong(self, tmp_path):
        """A call that fails ends the program with 1."""
        steps = [ExpectedStep(Open(session="s", model=identity())), ExpectedStep(Run(session="s", feeds={}))]
        ended = run(program(steps, title="t", provider=CPU), tmp_path)
        assert 1 == ended.returncode
        assert "WRONG: ValueError: Required inputs" in ended.stdout

    def test_bits(self, tmp_path):
        """NaN payloads, -0 and long arrays come through exactly."""
        for bits in ([0x7FC00001, 0x80000000], [0x7F800000, 0xFF800000], [1, 0x7F7FFFFF]):
            array = np.array(bits, np.uint32).view(np.float32)
            steps = [
                ExpectedStep(Open(session="s", model=identity())),
                ExpectedStep(Run(session="s", feeds={"x": array}), ({"y": array},)),
            ]
            text = program(steps, title='quotes " and \\', provider=CPU)
            assert 0 == run(text, tmp_path).returncode

    def test_odd_names_and_setups(self, tmp_path):
        """Names that are no Python names, all options of a session, and sessions in threads."""
        setup = Setup(
            config={"session.use_env_allocators": "0"}, level=0, profile=True, memory_pattern=True, cpu_nodes=True
        )
        steps = [
            ExpectedStep(Open(session="class", model=identity(name='a "b" \\ c'), setup=setup)),
            ExpectedStep(Open(session="1 2", model=identity(), setup=Setup(disabled_optimizers=["ConstantFolding"]))),
            ExpectedStep(Run(session="class", feeds={'a "b" \\ c': X}), ({"y": X},)),
            ExpectedStep(Concurrent(runs=[Run(session="1 2", feeds={"x": X})])),
            ExpectedStep(Examine(session="class")),
        ]
        ended = run(program(steps, title="t", provider=CPU), tmp_path)
        assert 0 == ended.returncode, ended.stderr

    def test_model_text(self):
        """A model is written as ONNX text, if that says exactly the same."""
        text = program([ExpectedStep(Open(session="s", model=identity()))], title="t", provider=CPU)
        assert "Identity (x)" in text
        model = onnx.load_from_string(identity().tobytes())
        model.metadata_props.add(key="k", value="v")
        model.graph.node[0].doc_string = "not in the text"
        raw = np.frombuffer(model.SerializeToString(), np.uint8)
        assert "MODEL1 = bytes.fromhex(" in program(
            [ExpectedStep(Open(session="s", model=raw))], title="t", provider=CPU
        )
