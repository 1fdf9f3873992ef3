"""Asks a provider what it does with invalid indices, and finds the explanations of each answer.

An answer is observed, not judged. The exceptions are a crash, a hang or a lost device; and a value that stands nowhere in the
input, where the operator's page promises that reads are clamped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..cases.invalid_indices import EXPLANATIONS, ZERO, Question, simplest
from ..execution.worker import WorkerLost
from ..tensors import DataType, Tensor
from ..vocabulary import Verdict
from .judge import Judge, Outcome

ERROR = "error"
CRASH = "crash"
HANG = "hang"
LOST = "device lost"
INSIDE = "other: from the input"
OUTSIDE = "other: not from the input"
BESIDE = "other: valid indices too"
MALFORMED = "other: wrong output"
NOT_ASKED = "not asked"

ANSWERS = {
    ERROR: "the provider refuses the index with an error",
    **EXPLANATIONS,
    INSIDE: "every value stands in the input, but nothing above explains its place",
    OUTSIDE: "a value stands nowhere in the input",
    BESIDE: "an element that a valid index chooses is wrong too",
    MALFORMED: "the output has a wrong type or shape",
    CRASH: "the process ended",
    HANG: "there was no answer within the time limit",
    LOST: "the GPU was removed, hung or reset",
    NOT_ASKED: "the index could not be given to the provider; a line below the table says why",
}
"""The answers, each in a sentence. The explanations are words that an answer may join."""

_LOSSES = {Verdict.CRASH: CRASH, Verdict.TIMEOUT: HANG, Verdict.DEVICE_LOST: LOST}

AnswerSet: TypeAlias = frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The answer to one question.

    `fits` are all explanations that fit, or the one other answer. `index_type` is the type that the indices have when
    the operator's node reads them. `message` is the provider's error, or the reason for the answer. `failure` says what is
    wrong with the answer; None if it is only observed. `not_run` is whether the provider could not be used at all.
    """

    question: Question
    fits: AnswerSet
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
    indices: only a provider that does them right is asked. What crashed is not asked again with another data type. After
    a hang or a lost device, nothing more is asked about the operator, unless `dangerous`.
    """

    def __init__(self, judge: Judge, *, dangerous: bool = False):
        self.judge, self.dangerous = judge, dangerous
        self._problems: dict[str, str | None] = {}
        self._crashed: set[tuple[object, ...]] = set()
        self._hung: dict[str, str] = {}

    def ask(self, question: Question) -> Observation:
        """Returns the answer to a question. A provider's errors become answers; nothing is raised for them."""
        observation = self._refused(question) or self._ask(question)
        for loss in observation.fits & {*_LOSSES.values()}:
            self._problems.clear()
            self._crashed.add(_subject(question))
            if loss != CRASH:
                self._hung[question.desc.operator] = loss
        return observation

    def _refused(self, question: Question) -> Observation | None:
        """Returns the observation of a question that is not asked, or whose case does not even run with valid indices."""
        operator, provider = question.desc.operator, self.judge.provider.name
        reason = None
        if operator in self._hung and not self.dangerous:
            reason = f"not asked after a {self._hung[operator]} without --rerun-dangerous"
        elif _subject(question) in self._crashed:
            reason = "not asked again after it crashed with other data"
        if reason:
            return _not_asked(question, reason)
        case = question.valid_case
        if case.id not in self._problems:
            outcome = self.judge.execute(case)
            lost = outcome.error is not None and _LOSSES.get(outcome.error.verdict)
            if lost:
                text = f"{lost} with valid indices: {outcome.error}"
                return replace(_observation(question, outcome, lost), message=text, failure=text)
            self._problems[case.id] = _problem(outcome, provider)
            if outcome.error is not None and outcome.error.verdict is Verdict.NOT_RUN:
                return replace(_not_asked(question, str(outcome.error)), not_run=True)
        problem = self._problems[case.id]
        return _not_asked(question, problem) if problem else None

    def _ask(self, question: Question) -> Observation:
        outcome = self.judge.execute(question.case)
        error, check = outcome.error, outcome.check
        if error is not None and error.verdict in _LOSSES:
            answer = _LOSSES[error.verdict]
            return replace(_observation(question, outcome, answer, str(error)), failure=f"{answer}: {error}")
        if isinstance(error, WorkerLost):
            return replace(_not_asked(question, str(error)), not_run=True)
        if not _reached(question, outcome):
            return _not_asked(question, f"an index above {DataType.INT64.limits[1]} cannot be given as INT64")
        if error is not None:
            return _observation(question, outcome, ERROR, str(error))
        if not (outcome.placement and outcome.placement.shown):
            return _not_asked(question, f"nothing shows that a node ran on {self.judge.provider.name}")
        assert check is not None, "an outcome without an error has a check"
        if check.actual is None:
            return _observation(question, outcome, MALFORMED, check.problem)
        observation = replace(_observation(question, outcome, ""), fits=_fits(question, outcome, check.actual))
        promise, strays = question.desc.spec().clamped_reads, _strays(question, check.actual)
        if promise and strays:
            text = f"{strays} of {len(question.place.affected)} values stand nowhere in the input: {promise.text}"
            observation = replace(observation, failure=text)
        return observation


def _fits(question: Question, outcome: Outcome, output: Tensor) -> AnswerSet:
    """Returns the explanations that give exactly the elements that the invalid index chooses, or the one other answer."""
    if outcome.wrong_elements:
        return frozenset([BESIDE])
    values = [output.bits[i] for i in question.place.affected]
    data = question.data.bits
    fits = {
        explanation
        for explanation, addresses in question.predictions.items()
        if any([data[a] for a in possible] == values for possible in addresses)
    }
    if not any(values):
        fits.add(ZERO)
    return frozenset(fits or [OUTSIDE if _strays(question, output) else INSIDE])


def _strays(question: Question, output: Tensor) -> int:
    """Returns how many of the values that the invalid index chooses stand nowhere in the input."""
    inside = set(question.data.bits)
    return sum(output.bits[i] not in inside for i in question.place.affected)


def _problem(outcome: Outcome, provider: str) -> str | None:
    """Returns why a provider that did this with valid indices is not asked about invalid ones; None if all is right."""
    if outcome.violations:
        return str(outcome.violations[0])
    if outcome.error is not None:
        return f"with valid indices: {outcome.error}"
    if outcome.wrong_elements or outcome.check is None or outcome.check.problem:
        return "the output is wrong with valid indices too"
    shown = outcome.placement is not None and outcome.placement.shown
    return None if shown else f"nothing shows that a node ran on {provider}"


def _reached(question: Question, outcome: Outcome) -> bool:
    """Whether the invalid index reached the model as it is. A conversion on the host moves one that does not fit."""
    if outcome.mapped is None:
        return True
    given = question.case.tensors[question.field]
    fed = outcome.mapped.feed(question.case.tensors).get(question.field, given)
    return list(fed.values) == list(given.values)


def _subject(question: Question) -> tuple[object, ...]:
    return question.desc.operator, question.index_type, question.position


def _not_asked(question: Question, reason: str) -> Observation:
    return Observation(question=question, fits=frozenset([NOT_ASKED]), index_type=question.index_type, message=reason)


def _observation(question: Question, outcome: Outcome, answer: str, message: str | None = None) -> Observation:
    mapped = outcome.mapped
    read = mapped.lowered_as.tensors.get(question.field) if mapped is not None else None
    index_type = read.data_type if read is not None else question.index_type
    return Observation(question=question, fits=frozenset([answer]), index_type=index_type, message=message)


def failures(observations: Sequence[Observation]) -> list[Observation]:
    """Returns the observations that are wrong."""
    return [observation for observation in observations if observation.failure]
