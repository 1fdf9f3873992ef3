"""The one comparison: what a step must return, and what is said of an answer that differs."""

import numpy as np
import onnx.parser
import pytest

from opmap.engines.expectations import ExpectedStep, in_words, perform_steps
from opmap.engines.performer import Performer
from opmap.engines.sessions import CPU, SessionProvider
from opmap.engines.steps import Clear, Concurrent, Examine, Open, Put, Result, Run, RunBound
from opmap.engines.worker import NotRun, WorkerCrashed
from opmap.vocabulary import Stage

RIGHT = np.float32([[5, 6], [1, 2]])
SEEN = {"output": np.float32([[8, 9], [1, 2]])}
PUT = ExpectedStep(Put(value="y", array=np.full((2, 2), 7, np.float32)))
EARLIER = ExpectedStep(RunBound(session="one"), ({"output": np.float32([[0, 1], [2, 3]])},))
LAST = ExpectedStep(Run(session="one"), ({"output": RIGHT},), signs={"the values of a sign": SEEN})


class Scripted(Performer):
    """Answers the steps with these results. An exception is raised."""

    def __init__(self, *answers):
        super().__init__()
        self.answers = list(answers)

    def perform(self, step, limit=None):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def outputs(values, dtype=np.float32, name="output"):
    return Result(outputs={name: np.array(values, dtype)})


def difference(answer, last=LAST):
    """Returns the difference after a value was put and a run was right."""
    steps = [PUT, EARLIER, last]
    found = perform_steps(steps, Scripted(Result(), Result(outputs=dict(EARLIER.outputs[0])), answer))
    assert found is None or (found.at, found.step) == (2, last.step)
    return found


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (
            outputs([[0, 0], [0, 0]]),
            "values",
            "output must be [[5.0, 6.0], [1.0, 2.0]], got [[0.0, 0.0], [0.0, 0.0]]: ",
        ),
        (outputs([[0, 0], [0, 0]]), "values", ": 4 of 4 elements are zeros"),
        (outputs([[5, 0], [1, 2]]), "values", ": 1 of 4 elements are zeros"),
        (outputs([[9, 0], [0, 0]]), "values", ": 4 of 4 elements are other values"),
        (outputs([[8, 9], [1, 2]]), "values", ": 2 of 4 elements are the values of a sign"),
        (outputs([[0, 1], [2, 3]]), "values", ": 4 of 4 elements are the values of output in step 2"),
        (outputs([[5, 1], [1, 3]]), "values", ": 2 of 4 elements are the values of output in step 2"),
        (outputs([[7, 7], [7, 7]]), "values", ": 4 of 4 elements are the content that y got in step 1"),
        (outputs([5, 6, 1, 2]), "type", "output must have sizes [2, 2], got [4]"),
        (outputs([[5, 6], [1, 2]], np.float64), "type", "output must be FLOAT32, got FLOAT64"),
        (outputs([[5, 6], [1, 2]], name="o"), "names", "the outputs must be output, got o"),
        (Result(), "names", "the outputs must be output, got none"),
        (Result(malformed="must be a list"), "malformed", "must be a list"),
        (Result(error="no"), "error", "must not fail, got no"),
        (WorkerCrashed("ended"), "lost", "ended"),
        (outputs([[5, 6], [1, 2]], ">f4"), None, None),
    ],
)
def test_difference(answer, kind, text):
    """Each kind of difference is named, and wrong elements are recognized; the byte order does not count."""
    found = difference(answer)
    assert kind == (found and found.kind)
    assert text is None or text in found.text


def test_longer_outputs():
    """An earlier array that ends before the wrong element explains nothing."""
    longer = ExpectedStep(LAST.step, ({"output": np.float32([0, 1, 2, 3, 5])},))
    assert difference(outputs([0, 1, 2, 3, 9]), longer).text.endswith("1 of 5 elements are other values")


def test_errors():
    """The error of a step, or of the process, is kept with its stage."""
    assert Stage.LOAD == difference(Result(error="no", stage=Stage.LOAD)).error.stage
    assert isinstance(difference(NotRun("no worker")).error, NotRun)
    assert difference(outputs([[9, 0], [0, 0]])).error is None


@pytest.mark.parametrize(
    ("fails", "answer", "text"),
    [
        ("always", Result(error="no"), None),
        ("always", outputs([1]), "must be refused, got output = [1.0]"),
        ("always", Result(), "must be refused, got no error"),
        ("perhaps", Result(error="no"), None),
        ("perhaps", outputs([[0, 0], [0, 0]]), "zeros"),
        ("perhaps", outputs([[5, 6], [1, 2]]), None),
    ],
)
def test_failing_steps(fails, answer, text):
    """A step that must fail is wrong if it does not; one that may fail is compared if it does not."""
    found = difference(answer, ExpectedStep(LAST.step, LAST.outputs, fails=fails))
    assert (found is None) if text is None else found.text.endswith(text)


def test_masked():
    """Masked elements are not compared, and are not counted as wrong."""
    masked = ExpectedStep(LAST.step, ({"output": np.ma.array(RIGHT, mask=[[1, 0], [0, 0]])},))
    assert difference(outputs([[99, 6], [1, 2]]), masked) is None
    assert "1 of 4" in difference(outputs([[99, 0], [1, 2]]), masked).text


def test_bits():
    """NaN payloads and the sign of zero count; scalars and empty arrays have bits too."""
    for right, wrong in (([0x7FC00001], [0x7FC00000]), ([0x80000000], [0])):
        expected = ExpectedStep(LAST.step, ({"output": np.uint32(right).view(np.float32)},))
        assert difference(Result(outputs=dict(expected.outputs[0])), expected) is None
        assert difference(outputs(np.uint32(wrong).view(np.float32)), expected)
    for array in (np.array(True), np.zeros((0, 2), np.float16)):
        assert difference(Result(outputs={"output": array}), ExpectedStep(LAST.step, ({"output": array},))) is None


def test_order():
    """The outputs of a run come in order, those of a binding in any."""
    two = {"b": RIGHT, "a": RIGHT}
    answer = Result(outputs={"a": RIGHT, "b": RIGHT})
    assert "must be b, a, got a, b" in difference(answer, ExpectedStep(Run(session="one"), (two,))).text
    assert difference(answer, ExpectedStep(RunBound(session="one"), (two,))) is None


def test_concurrent():
    """Each repetition of each run is held against the outputs of its run."""
    other = {"output": RIGHT + 1}
    runs = ExpectedStep(Concurrent(runs=[Run(session="a"), Run(session="b")], times=100), ({"output": RIGHT}, other))
    results = [Result(outputs={"output": RIGHT})] * 100 + [Result(outputs=other)] * 100
    assert difference(Result(results=results), runs) is None
    results[150] = results[0]
    assert difference(Result(results=results), runs).text.startswith("run 151 of 200: output must be")


def test_in_words():
    """A step is said by what it does and with which session or value."""
    model = np.zeros(1, np.uint8)
    steps = (
        Open(session="s", model=model),
        Run(session="s"),
        PUT.step,
        RunBound(session="s"),
        Examine(session="s"),
        Clear(),
    )
    wanted = ["create session s", "run s", "put y", "run_with_iobinding of s", "examine s", "clear"]
    assert wanted == [in_words(step) for step in steps]


def test_limit():
    """The limit of a step goes to the performer, and steps stop at the first difference."""
    limits = []

    class Timed(SessionProvider):
        def perform(self, step, limit=None):
            limits.append(limit)
            return super().perform(step, limit)

    text = '<ir_version: 8, opset_import: ["" : 13]> m (float[2] x) => (float[2] y) { y = Neg(x) }'
    model = np.frombuffer(onnx.parser.parse_model(text).SerializeToString(), np.uint8)
    run = Run(session="s", feeds={"x": np.float32([1, 2])})
    wrong = ExpectedStep(run, ({"y": np.float32([1, 2])},))
    found = perform_steps([ExpectedStep(Open(session="s", model=model)), wrong, wrong], Timed(CPU), 7)
    assert (1, [7, 7]) == (found.at, limits)
