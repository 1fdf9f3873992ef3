"""Reproducers: programs that run without opmap, on the CPU EP, and say whether the outputs are right."""

import os
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import pytest

from opmap.cases.contract_probes import contract_probes
from opmap.engines.expectations import ExpectedStep
from opmap.engines.sessions import CPU
from opmap.engines.steps import Concurrent, Examine, Open, Run, RunBound, Setup
from opmap.reports.reproducers.reproducer import expected_steps, program

X = np.float32([1, 2])
RUN = Run(session="s", feeds={"x": X})


def identity(name="x"):
    """Returns a session's model: y is x."""
    node, kind = onnx.helper.make_node("Identity", [name], ["y"]), onnx.TensorProto.FLOAT
    values = [onnx.helper.make_tensor_value_info(value, kind, [2]) for value in (name, "y")]
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    return np.frombuffer(model.SerializeToString(), np.uint8)


OPEN = ExpectedStep(Open(session="s", model=identity()))


def text_of(*steps, **options):
    """Returns the program of these steps, or of these runs of one session."""
    return program(steps, **{"title": 'quotes " and \\', "provider": CPU, **options})


@pytest.fixture
def run(monkeypatch, capsys):
    """A function that runs the text of a program in this process, and returns its exit code and what it printed."""

    def run_text(text, *arguments):
        monkeypatch.setattr(sys, "argv", ["program.py", *arguments])
        with pytest.raises(SystemExit) as ended:
            exec(compile(text, "program.py", "exec"), {"__name__": "__main__", "__doc__": "", "__file__": "program.py"})
        return ended.value.code, capsys.readouterr().out

    return run_text


class TestProgram:
    """Programs and their exit codes."""

    @pytest.mark.slow
    def test_contract_probes(self, run):
        """The program of each contract probe is right: every kind of step, and most settings of a session."""
        for probe in contract_probes():
            text = text_of(*expected_steps(probe))
            code, out = run(text)
            assert (probe.id, 0) == (probe.id, code), out
            assert "opmap" not in text

    def test_alone(self, tmp_path):
        """A program needs no opmap, neither in its folder nor on the path."""
        file = tmp_path / "program.py"
        file.write_text(text_of(OPEN, ExpectedStep(RUN, ({"y": X},))), encoding="utf-8")
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        blocked = "import runpy, sys; sys.modules['opmap'] = None; sys.argv = ['p']; runpy.run_path('program.py')"
        command = [sys.executable, "-I", "-c", blocked]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
        assert (0, "") == (ended.returncode, ended.stderr)
        assert ended.stdout.endswith("  right\nright\n")

    @pytest.mark.parametrize(
        ("last", "code", "text"),
        [
            (ExpectedStep(RUN, ({"y": X},)), 0, "run: y\n  expected [1. 2.]\n  actual   [1. 2.]\n  right"),
            (
                ExpectedStep(RUN, ({"y": X + 1},)),
                1,
                "WRONG at [0]: must be 2.0 (bits 40000000), got 1.0 (bits 3f800000)",
            ),
            (ExpectedStep(RUN, ({"y": np.float64([1, 2])},)), 1, "WRONG: must be float64 [2], got float32 [2]"),
            (ExpectedStep(Run(session="s", feeds={"x": X}, outputs=["y"]), ({"z": X},)), 1, "WRONG: z is not returned"),
            (ExpectedStep(RUN, ({"y": np.ma.array([9, 2], np.float32, mask=[1, 0])},)), 0, "actual   [1. 2.]\n  right"),
            (ExpectedStep(RUN, fails="always"), 1, "run 2 is accepted, but must be refused"),
            (ExpectedStep(Run(session="s"), fails="always"), 0, "run 2 is refused, as it must be: Required inputs"),
            (ExpectedStep(Run(session="s"), fails="perhaps"), 0, "run 2 is refused, as it may be: Required inputs"),
            (ExpectedStep(RUN, ({"y": X + 1},), fails="perhaps"), 1, "WRONG at [0]"),
            (ExpectedStep(Run(session="s")), 1, "WRONG: ValueError: Required inputs"),
            (ExpectedStep(RunBound(session="s")), 1, "WRONG: KeyError"),
        ],
    )
    def test_exit_code(self, last, code, text, run):
        """A wrong output, an error and a call that is accepted in error are wrong, and are printed."""
        got, out = run(text_of(OPEN, last))
        assert (code, True) == (got, text in out), out
        assert out.endswith("right\n" if code == 0 else out)

    @pytest.mark.parametrize("name", ["run", "Model", "Sessions"])
    def test_own_provider(self, name, run, tmp_path, monkeypatch):
        """A program runs on a provider MODULE:NAME: a function `run`, or an object with `run` and perhaps `open`."""
        module = f"own_provider_{name.lower()}"
        lines = [
            "def run(model, feeds):",
            "    return [feeds['x'] + 1]",
            "class Session:",
            "    def run(self, feeds, outputs=None):",
            "        return run(None, feeds)",
            "class Model:",
            "    run = staticmethod(run)",
            "class Sessions(Model):",
            "    run = None",
            "    def open(self, model, setup):",
            "        assert setup['config'] == {} and setup['level'] == 0",
            "        return Session()",
        ]
        (tmp_path / f"{module}.py").write_text("\n".join(lines), encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        opened = ExpectedStep(Open(session="s", model=identity(), setup=Setup(level=0)))
        for right, code in ((X + 1, 0), (X, 1)):
            text = text_of(opened, ExpectedStep(RUN, ({"y": right},)), provider=f"{module}:{name}")
            assert code == run(text)[0]
        assert 0 == run(text, CPU)[0]

    def test_threads(self, run):
        """The outputs of runs at the same time are checked, those of each thread."""
        runs = Concurrent(runs=[RUN, Run(session="s", feeds={"x": X + 1})], times=3)
        right = ({"y": X}, {"y": X + 1})
        assert 0 == run(text_of(OPEN, ExpectedStep(runs, right)))[0]
        assert 1 == run(text_of(OPEN, ExpectedStep(runs, right[::-1])))[0]

    def test_provider(self, run):
        """The execution provider is the first argument, by default that of the failure; without it the exit code is
        2.
        """
        text = text_of(OPEN, provider="NoExecutionProvider")
        assert 2 == run(text)[0]
        assert 0 == run(text, "cpu")[0] == run(text, CPU)[0]

    def test_plain(self):
        """A session that is created and run once is plain Python; any other step or setting is data."""
        last = ExpectedStep(RUN, ({"y": X},))
        assert "outputs = session.run(names, {'x': np.array([1.0, 2.0], np.float32)})" in text_of(OPEN, last)
        assert "{'step': 'run', 'session': 's', 'feeds'" in text_of(OPEN, last, last)
        level = ExpectedStep(Open(session="s", model=identity(), setup=Setup(level=1)))
        assert "{'step': 'open', 'session': 's', 'model': MODEL1, 'setup': {'level': 1}}" in text_of(level, last)

    def test_bits(self, run):
        """NaN payloads, -0 and infinities come through exactly."""
        for bits in ([0x7FC00001, 0x80000000], [0x7F800000, 0xFF800000], [1, 0x7F7FFFFF]):
            array = np.uint32(bits).view(np.float32)
            assert 0 == run(text_of(OPEN, ExpectedStep(Run(session="s", feeds={"x": array}), ({"y": array},))))[0]

    def test_odd_names_and_setups(self, run):
        """Names that are no Python names, and options of a session that no contract probe has."""
        setup = Setup(level=0, profile=True, free_dimensions={"n": 2})
        steps = [
            ExpectedStep(Open(session="class", model=identity('a "b" \\ c'), setup=setup)),
            ExpectedStep(Open(session="1 2", model=identity(), setup=Setup(disabled_optimizers=["ConstantFolding"]))),
            ExpectedStep(Run(session="class", feeds={'a "b" \\ c': X}), ({"y": X},)),
            ExpectedStep(Examine(session="class")),
        ]
        code, out = run(text_of(*steps))
        assert 0 == code, out

    def test_model_text(self):
        """A model is written as ONNX text, if that says exactly the same."""
        assert "Identity (x)" in text_of(OPEN)
        model = onnx.load_from_string(identity().tobytes())
        model.graph.node[0].doc_string = "not in the text"
        raw = np.frombuffer(model.SerializeToString(), np.uint8)
        assert "MODEL1 = bytes.fromhex(" in text_of(ExpectedStep(Open(session="s", model=raw)))
