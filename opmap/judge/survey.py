"""Asks a provider what it does with invalid indices, and finds the explanations of each answer.

An answer is observed, not judged. The exceptions are a crash, a hang or a lost device; and a value that does not occur
in the input, where the operator's page promises that reads are clamped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ..cases.invalid_indices import ZERO, Question, simplest
from ..descriptors import OperatorDesc
from ..engines.worker import WorkerLost
from ..tensors import DataType, Tensor
from ..vocabulary import Verdict
from .judge import Judge
from .outcome import Outcome

ERROR = "error"
CRASH = "crash"
HANG = "hang"
LOST = "device lost"
INSIDE = "other: from the input"
OUTSIDE = "other: not from the input"
BESIDE = "other: valid indices too"
MALFORMED = "other: wrong output"
NOT_ASKED = "not asked"

_LOSSES = {Verdict.CRASH: CRASH, Verdict.TIMEOUT: HANG, Verdict.DEVICE_LOST: LOST}


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The answer to one question.

    `fits` are all explanations that fit, or the one other answer. `index_type` is the type that the indices have when
    the operator's node reads them. `message` is the provider's error, or the reason for the answer. `failure` says what
    is wrong with the answer; None if it is only observed. `not_run` is whether the provider could not be used at all.
    """

    question: Question
    fits: frozenset[str]
    index_type: DataType
    message: str | None = None
    failure: str | None = None
    not_run: bool = False

    @property
    def answers(self) -> list[str]:
        """The simplest explanations that fit, or the one other answer."""
        return simplest(self.fits)

    @property
    def answered(self) -> bool:
        """Whether the provider was asked."""
        return NOT_ASKED not in self.fits


class Survey:
    """Asks questions on one provider, one after another.

    Before the first question about a descriptor, and after each loss of the process, the descriptor is run with valid
    indices: only a provider that does them right is asked. What crashed is not asked again with another data type.
    After a hang or a lost device, nothing more is asked about the operator, unless `dangerous`.
    """

    def __init__(self, judge: Judge, *, dangerous: bool = False):
        self.judge, self.dangerous = judge, dangerous
        self._right: set[OperatorDesc] = set()
        self._problems: dict[OperatorDesc, str] = {}
        self._crashed: set[tuple[object, ...]] = set()
        self._hung: dict[str, str] = {}

    def ask(self, question: Question) -> Observation:
        """Returns the answer to a question. A provider's errors become answers; nothing is raised for them."""
        observation = self._refused(question) or self._ask(question)
        for loss in observation.fits & {*_LOSSES.values()}:
            self._right.clear()
            self._crashed.add(_subject(question))
            if loss != CRASH:
                self._hung[question.desc.operator] = loss
        return observation

    def _refused(self, question: Question) -> Observation | None:
        """Returns the observation of a question that is not asked, or whose descriptor fails with valid indices; or
        None.
        """
        desc = question.desc
        if desc.operator in self._hung and not self.dangerous:
            return _not_asked(question, f"after a {self._hung[desc.operator]}, without --rerun-dangerous")
        if _subject(question) in self._crashed:
            return _not_asked(question, "it crashed with other data")
        if desc not in self._right and desc not in self._problems:
            outcome = self.judge.execute(question.valid_case)
            error, problem = outcome.error, _problem(outcome, self.judge.provider.name)
            if isinstance(error, WorkerLost) and error.verdict not in _LOSSES:
                return replace(_not_asked(question, str(error)), not_run=True)
            if problem is None:
                self._right.add(desc)
                return None
            self._problems[desc] = problem
            if error is not None and error.verdict in _LOSSES:
                answer = _LOSSES[error.verdict]
                return replace(self._observed(question, outcome, [answer], problem), failure=f"{answer} {problem}")
        return _not_asked(question, self._problems[desc]) if desc in self._problems else None

    def _ask(self, question: Question) -> Observation:
        outcome = self.judge.execute(question.case)
        error, check = outcome.error, outcome.check
        if error is not None and error.verdict in _LOSSES:
            answer = _LOSSES[error.verdict]
            return replace(self._observed(question, outcome, [answer], str(error)), failure=f"{answer}: {error}")
        if isinstance(error, WorkerLost):
            return replace(_not_asked(question, str(error)), not_run=True)
        if not (self.judge.provider.runs_cases or _reached(question, outcome)):
            return _not_asked(question, f"an index above {DataType.INT64.limits[1]} cannot be given as INT64")
        if error is not None:
            return self._observed(question, outcome, [ERROR], str(error))
        if not (outcome.placement and outcome.placement.shown):
            return _not_asked(question, f"nothing shows that a node ran on {self.judge.provider.name}")
        assert check is not None, "an outcome without an error has a check"
        if check.actual is None:
            return self._observed(question, outcome, [MALFORMED], check.problem)
        observation = self._observed(question, outcome, _fits(question, outcome, check.actual))
        promise, strays = question.desc.spec().clamped_reads, _strays(question, check.actual)
        if promise and strays:
            count = len(question.place.affected)
            text = f"{strays} of {count} values do not occur in the input. The page: {promise.text}"
            return replace(observation, failure=text)
        return observation

    def _observed(
        self, question: Question, outcome: Outcome, answers: Collection[str], message: str | None = None
    ) -> Observation:
        """Returns the observation of a case that was run."""
        mapped = None if self.judge.provider.runs_cases else outcome.mapped
        read = mapped.lowered_as.tensors.get(question.field) if mapped is not None else None
        index_type = read.data_type if read is not None else question.index_type
        return Observation(question=question, fits=frozenset(answers), index_type=index_type, message=message)


def _fits(question: Question, outcome: Outcome, output: Tensor) -> Collection[str]:
    """Returns the explanations that predict the elements chosen by the invalid index; else one other answer."""
    if outcome.wrong_elements:
        return [BESIDE]
    values = [output.bits[i] for i in question.place.affected]
    data = question.data.bits
    fits = [
        explanation
        for explanation, addresses in question.predictions.items()
        if any([data[a] for a in possible] == values for possible in addresses)
    ]
    if not any(values):
        fits.append(ZERO)
    return fits or [OUTSIDE if _strays(question, output) else INSIDE]


def _strays(question: Question, output: Tensor) -> int:
    """Returns how many of the values chosen by the invalid index do not occur in the input."""
    inside = set(question.data.bits)
    return sum(output.bits[i] not in inside for i in question.place.affected)


def _problem(outcome: Outcome, provider: str) -> str | None:
    """Returns why a provider with this outcome for valid indices is not asked about invalid ones; else None."""
    if outcome.violations:
        return str(outcome.violations[0])
    if outcome.error is not None:
        return f"with valid indices: {outcome.error}"
    if outcome.wrong_elements or outcome.check is None or outcome.check.problem:
        return "the output is wrong with valid indices too"
    shown = outcome.placement is not None and outcome.placement.shown
    return None if shown else f"nothing shows that a node ran on {provider}"


def _reached(question: Question, outcome: Outcome) -> bool:
    """Returns whether the invalid index reached the model unchanged. A conversion on the host may move it."""
    if outcome.mapped is None:
        return True
    indices = question.case.tensors[question.field]
    fed = outcome.mapped.feed(question.case.tensors).get(question.field, indices)
    return list(fed.values) == list(indices.values)


def _subject(question: Question) -> tuple[object, ...]:
    return question.desc.operator, question.index_type, question.position


def _not_asked(question: Question, reason: str) -> Observation:
    return Observation(question=question, fits=frozenset([NOT_ASKED]), index_type=question.index_type, message=reason)


def failures(observations: Sequence[Observation]) -> list[Observation]:
    """Returns the observations that are wrong."""
    return [observation for observation in observations if observation.failure]
