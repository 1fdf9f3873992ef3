"""`python tools/bench` measures what it says. Its seconds are recorded and never tested."""

import json
import sys
from itertools import count

import pytest
from bench import children, costs, interpreting
from bench.__main__ import main
from bench.interpreting import LOOPS
from judged_sessions import Planted, second_run

from opmap import SessionOptions, ValidationRun
from opmap.cases.selection import find_case
from opmap.engines.providers import Provider
from opmap.engines.sessions import CPU
from opmap.errors import OpmapError
from opmap.judge.judge import Judge

ELEMENTS = 1000


class TestLoops:
    """The loops written by hand compute what the interpreter computes, for the line that they stand for."""

    @pytest.mark.parametrize("written", LOOPS, ids=lambda w: f"{w.operator} {w.name}")
    def test_line(self, written):
        """The descriptor expands to the loop's line."""
        desc, _ = interpreting.described(written, ELEMENTS)
        assert written.line == str(desc.statements[-1])
        assert ELEMENTS == desc.output.element_count

    def test_a_wrong_loop_is_told(self, monkeypatch):
        """A measurement of something else than the interpreter's output is none."""
        wrong = [interpreting.Written(*[*vars(LOOPS[0]).values()][:-1], lambda values, indices, count: values[:count])]
        monkeypatch.setattr(interpreting, "LOOPS", wrong)
        with pytest.raises(AssertionError, match="GATHER, rows of 10: the loop and the interpreter differ"):
            interpreting.measure([ELEMENTS], 1)


class TestSuite:
    """The whole suite and bare sessions run the same cases."""

    def test_every_step_is_measured(self):
        """With a clock that ticks at each look, every number is known to be made of the right differences."""
        ticks = count()
        found = costs.measure_suite("smoke", 2, 5, clock=lambda: float(next(ticks)))
        assert (5, 1000.0) == (found.cases, found.bare_ms * 5)
        assert 1.0 == found.overhead_ratio == found.packed_ratio
        assert ["generate", "validate", "map", "build", "session", "run", "interpret", "compare", "record"] == list(
            found.parts_ms
        )
        assert 2000.0 == found.parts_ms["session"]

    def test_what_the_cpu_ep_does_not_run_is_left_out(self, monkeypatch):
        """A case without a kernel, and one without a documented value. The third runs."""
        ids = "one_hot/example.1", "scatter_nd/float64/d4.r4.q2/uint32.dups/special.a63382", "gather/example.1"
        monkeypatch.setattr(costs, "catalogue", lambda tier, variants: map(find_case, ids))
        assert 1 == costs.measure_suite("smoke", 1).cases


class TestChildren:
    """What only a fresh process shows."""

    def test_a_child_that_fails_is_told(self, tmp_path):
        """The error says what was run, and how it ended."""
        with pytest.raises(OpmapError, match="ended with 3: no such thing"):
            children._run(
                [sys.executable, "-c", "import sys; print('no such thing', file=sys.stderr); sys.exit(3)"], tmp_path
            )


class TestPace:
    """Every way runs every case, and a verdict that is another one than in a fresh session is named."""

    @pytest.mark.parametrize("fault", [None, second_run])
    def test_ways(self, fault):
        cases = ValidationRun(SessionOptions(filter=("gather_elements/int8/*",))).cases
        steps = []
        judge = Judge(Provider(CPU, "", "hardware", Planted(fault)))

        found = costs.paces(judge, cases, (3, 5), block=9, advance=lambda: steps.append(None))

        assert ["fresh", "shared", "packed 3", "packed 5"] == [one.name for one in found]
        assert {len(cases)} == {one.cases for one in found}
        assert 4 * len(cases) == len(steps)
        assert 1.0 == found[0].against_fresh and all(one.per_second > 0 for one in found)
        assert [] == found[0].differing
        assert (fault is not None) == bool(found[1].differing)
        assert set(found[1].differing) < {case.id for case in cases}

    def test_missing(self):
        """Without the provider there is nothing to measure."""
        assert None is costs.measure_paces("smoke", 5, provider="NoSuchExecutionProvider")


class TestCommand:
    """`python tools/bench`."""

    def test_json(self, capfd):
        """One document with the ratios, the pace, the machine and the versions."""
        assert 0 == main(["--part", "suite", "--tier", "smoke", "--cases", "3", "--rounds", "1", "--json"])
        found = json.loads(capfd.readouterr().out)
        assert "opmap-bench/1" == found["schema"]
        assert found["overhead_ratio"] == found["suite"]["overhead_ratio"] > 0
        assert found["cases_per_second"] > 0 < found["elements_per_second"]
        assert None is found["interpreter_ratio"]
        assert {"platform", "processor", "cores", "load", "python", "packages"} == set(found["machine"])
        assert "onnxruntime" in str(found["machine"]["packages"])

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--part", "all"], "invalid choice: 'all'"),
            (["--rounds", "0"], "--rounds: must be a whole number from 1 on, got '0'"),
            (["--part", "suite", "--tier", "contract"], "--tier must have cases, got contract"),
        ],
    )
    def test_wrong_input(self, arguments, said, capfd):
        """One line, and exit code 2."""
        assert 2 == main(arguments)
        error = capfd.readouterr().err
        assert said in error
        assert 1 == error.count("\n")
