"""What a step must return, and the one comparison: performs steps, and holds each answer against what is promised.

Contract probes, the search of `opmap fuzz` and the programs of exported cases consist of `ExpectedStep`.
`perform_steps` performs them on a provider and returns the first difference:

    difference = perform_steps(expected_steps, performer)
    if difference is None: ...           # every answer is as promised
    difference.text                      # what is wrong, in one line
    difference.kind                      # which kind of difference, such as "values"; equal ones have the same kind
    difference.at, difference.step       # the step, as an index and as itself
    difference.error                     # the ProviderError of a step that failed, or that the process was lost in

The values are compared bit for bit, unless an output has a tolerance. Masked elements of a promised array are not
compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import numpy as np

from ..errors import ProviderError
from . import steps
from .arrays import wrong_array
from .performer import Performer
from .steps import AnyStep, Result

Outputs = Mapping[str, np.ndarray]
"""Arrays by the names of outputs."""

Failing = Literal["never", "perhaps", "always"]
"""Whether a step fails: it must not, it may, it must."""

Kind = Literal["lost", "error", "accepted", "malformed", "names", "type", "values"]
"""What a difference is.

- `lost`: the process that performs the steps ended, hangs, or cannot start.
- `error`, `accepted`: the step failed and must not; it must fail and did not.
- `malformed`, `names`: the outputs are no arrays; they have other names, or come in another order.
- `type`, `values`: an output has another type or other sizes; it has other values."""

TINY = 1e-300
"""A tolerance below this one says that numbers must be equal, and that -0 and 0 are."""

_SHOWN = 12
"""The most elements of an array in a text."""


class ExpectedStep(msgspec.Struct, frozen=True):
    """A step, and what must happen.

    - `outputs`: the outputs by name, one entry for each run of the step; a step that is no Concurrent has one entry.
      Empty means that no outputs are compared. The outputs of a run must come in this order, those of other steps in
      any order.
    - `fails`: whether the step fails. After a step that may fail and did, its outputs are not compared.
    - `signs`: wrong outputs that have a known meaning, by its text. A sign is the whole output.
    - `tolerances`: how far each element of an output may be off, by the output's name.
    """

    step: AnyStep
    outputs: tuple[Outputs, ...] = ()
    fails: Failing = "never"
    signs: Mapping[str, Outputs] = {}
    tolerances: Mapping[str, float] = {}


@dataclass(frozen=True)
class Difference:
    """The first answer that is not as promised. `text` says what is wrong, `at` is the index of the step in the list.

    `got` are the outputs of the step.
    """

    kind: Kind
    text: str
    at: int
    step: AnyStep
    error: ProviderError | None = None
    got: Outputs = field(default_factory=dict)


def perform_steps(
    expected_steps: Sequence[ExpectedStep], performer: Performer, limit: float | None = None
) -> Difference | None:
    """Performs steps up to the first one whose answer is not as promised.

    Returns the difference; None if there is none.

    `limit` is the limit of each step in seconds.
    """
    earlier: list[tuple[str, np.ndarray]] = []
    for at, expected in enumerate(expected_steps):
        try:
            result = performer.perform(expected.step, limit)
        except ProviderError as error:
            return Difference("lost", str(error), at, expected.step, error)
        if wrong := difference_of(expected, result, earlier):
            return Difference(*wrong, at, expected.step, result.failure, result.outputs)
        for outputs in expected.outputs:
            earlier += [(f"the values of {name} in step {at + 1}", np.ma.getdata(a)) for name, a in outputs.items()]
        if isinstance(expected.step, (steps.Put, steps.Update)):
            earlier.append((f"the content that {expected.step.value} got in step {at + 1}", expected.step.array))
    return None


def difference_of(
    expected: ExpectedStep, result: Result, earlier: Sequence[tuple[str, np.ndarray]] = ()
) -> tuple[Kind, str] | None:
    """Returns what is wrong with the result of a step, and its kind.

    `earlier` are the arrays before it, with a text each.
    """
    if result.error is not None:
        return ("error", f"must not fail, got {result.error}") if expected.fails == "never" else None
    if expected.fails == "always":
        got = ", ".join(f"{name} = {_shown(array)}" for name, array in result.outputs.items())
        return "accepted", f"must be refused, got {got or 'no error'}"
    if result.malformed:
        return "malformed", result.malformed
    answers = (result.results or [result]) if expected.outputs else []
    for number, answer in enumerate(answers):
        outputs = expected.outputs[number * len(expected.outputs) // len(answers)]
        if wrong := _wrong_outputs(expected, outputs, answer.outputs, earlier):
            label = f"run {number + 1} of {len(answers)}: " if result.results else ""
            return wrong[0], label + wrong[1]
    return None


def _wrong_outputs(
    expected: ExpectedStep, outputs: Outputs, got: Outputs, earlier: Sequence[tuple[str, np.ndarray]]
) -> tuple[Kind, str] | None:
    in_order = isinstance(expected.step, steps.Run)
    if (list(outputs) != list(got)) if in_order else (outputs.keys() != got.keys()):
        return "names", f"the outputs must be {', '.join(outputs) or 'none'}, got {', '.join(got) or 'none'}"
    for name, right in outputs.items():
        array = got[name].astype(got[name].dtype.newbyteorder("<"), copy=False)
        if problem := wrong_array(array, right.dtype, right.shape, name):
            return "type", problem
        wrong = _words(array) != _words(np.ma.getdata(right))
        if (tolerance := expected.tolerances.get(name, 0.0)) and wrong.any():
            with np.errstate(invalid="ignore"):
                off = np.abs(array.astype(np.float64) - np.ma.getdata(right).astype(np.float64))
            wrong = ~(off <= tolerance).reshape(-1)
        wrong &= ~np.ma.getmaskarray(right).reshape(-1)
        if wrong.any():
            signs = [text for text, sign in expected.signs.items() if name in sign and _is(array, sign[name], right)]
            meaning = signs[0] if signs else _meaning(array, wrong, [*_beside(expected, outputs, name), *earlier[::-1]])
            count = f"{wrong.sum()} of {array.size} elements are"
            about = f" within {tolerance:.2g}" if tolerance > TINY else ""
            return "values", f"{name} must be {_shown(right)}{about}, got {_shown(array)}: {count} {meaning}"
    return None


def _is(array: np.ndarray, sign: np.ndarray, right: np.ndarray) -> bool:
    """Returns whether all elements that are compared are those of a sign. A NaN is as good as another one."""
    differ = _words(array) != _words(sign)
    if array.dtype.kind == "f":
        differ &= ~(np.isnan(array) & np.isnan(sign)).reshape(-1)
    return not (differ & ~np.ma.getmaskarray(right).reshape(-1)).any()


def _beside(expected: ExpectedStep, outputs: Outputs, name: str) -> list[tuple[str, np.ndarray]]:
    """Returns what an output must be in the other runs of the same step."""
    others = (other for other in expected.outputs if other is not outputs and name in other)
    return [("the values of a run at the same time", np.ma.getdata(other[name])) for other in others]


def _meaning(array: np.ndarray, wrong: np.ndarray, known: Sequence[tuple[str, np.ndarray]]) -> str:
    """Returns what the wrong elements of an array are, in words: the elements of a known array at the same places, or
    zeros.
    """
    words, places = _words(array), np.flatnonzero(wrong)
    for text, other in known:
        if other.dtype == array.dtype and other.size > places[-1] and (_words(other)[places] == words[places]).all():
            return text
    return "other values" if words[places].any() else "zeros"


def _words(array: np.ndarray) -> np.ndarray:
    """Returns the bits of the elements, flat."""
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")


def _shown(array: np.ndarray) -> str:
    if array.size <= _SHOWN:
        return repr(array.tolist())
    return f"[{', '.join(map(str, array.reshape(-1)[:_SHOWN].tolist()))}, ...]"


_VERBS: Mapping[type[steps.Step], str] = {
    steps.Open: "create session",
    steps.RunBound: "run_with_iobinding of",
    steps.Unbind: "release the binding of",
    steps.Update: "update_inplace of",
    steps.Concurrent: "run at the same time",
}


def in_words(step: AnyStep) -> str:
    """Returns what a step does, in a few words."""
    names = (getattr(step, field, "") for field in ("session", "value", "name"))
    return f"{_VERBS.get(type(step), type(step).__name__.lower())} {''.join(names)}".rstrip()
