"""What is known of a fault: the cases that fail and pass, and the answers to further questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..cases.case import Case
from ..cases.features import Features, features, features_of
from ..cases.values import rounds
from .conditions import Condition
from .new_cases import NewCases, Sign

MOST_FAILING, MOST_PASSING = 400, 1500
"""The most cases of a run from which a condition is sought."""

TWINS = 8
"""How many times a passing case that contradicts the condition is asked again, with other values."""

FEW_CHALLENGED, FEWER_TWINS = 5, 3
"""If more than so many cases are asked again at a time: how many times each."""

MOST_CHALLENGED = 40
"""The most passing cases that are asked again at a time, because no condition fits all answers."""

_WEAK_PATTERNS = ("one", "identity", "bounds")
"""Index patterns that many faults do not change."""


@dataclass
class Asked:
    """What the questions gave.

    `condition` holds for all failing cases and no passing one; if `contradicting` is not 0, it is wrong for so many of
    the answers, and no condition fits all. A case that passes by its values alone, while it fails with others,
    contradicts nothing. `condition` is None if there was nothing to separate. `runs` counts all questions,
    `failing` and `passing` the answers. `answers` holds each case that was asked, and whether it fails.
    """

    condition: Condition | None
    runs: int = 0
    failing: int = 0
    passing: int = 0
    contradicting: int = 0
    answers: list[tuple[Case, bool]] = field(default_factory=list)

    def __str__(self) -> str:
        """`41 descriptors asked: 20 fail, 21 pass, none contradicts`."""
        contradicting = f"{self.contradicting or 'none'} contradict{'' if self.contradicting > 1 else 's'}"
        return f"{self.runs} descriptors asked: {self.failing} fail, {self.passing} pass, {contradicting}"


class Evidence:
    """The features of failing and passing cases. `ask` asks one question more, `budget` is the most questions.

    Passing cases of a run that few faults would change are left out. A case that passes by its values alone is forgotten
    as soon as this is known.
    """

    def __init__(
        self,
        question: Callable[[Case], bool | None],
        failing: Sequence[Case],
        passing: Sequence[Case],
        budget: int,
        seed: int,
    ) -> None:
        self.question, self.budget = question, budget
        failing = failing[:: -(-len(failing) // MOST_FAILING)]
        passing = passing[:: max(-(-len(passing) // MOST_PASSING), 1)]
        self.failures: list[Features] = list(features_of(failing))
        witnesses = _unlike(self.failures, [case for case in passing if _shows_faults(case)] or passing)
        self.passes: list[Features] = list(features_of(witnesses))
        self.pass_cases = witnesses
        self.seeds, self.passing_seeds = list(failing), list(passing)
        self.ids = {case.id for case in (*failing, *witnesses)}
        self.new = NewCases([*failing, *witnesses], seed)
        self.asked = Asked(None)
        self.lenient = False  # whether cases that pass because they show nothing are forgotten
        self._challenged: set[str] = set()
        self._forgotten: set[str] = set()

    @property
    def spent(self) -> bool:
        """Whether no question is left."""
        return self.asked.runs >= self.budget

    def result(self, condition: Condition) -> Asked:
        """Returns what was asked, with the condition and the number of answers that contradict it."""
        kept = [(case, fails) for case, fails in self.asked.answers if case.id not in self._forgotten]
        self.asked.condition = condition
        self.asked.contradicting = sum(condition.holds(features(case)) != fails for case, fails in kept)
        return self.asked

    def ask(self, case: Case, case_features: Features) -> bool | None:
        """Asks a question, and keeps the answer."""
        self.asked.runs += 1
        self.ids.add(case.id)
        answer = self.question(case)
        if answer is None:
            return None
        self.asked.answers.append((case, answer))
        if answer:
            self.asked.failing += 1
            self.failures.append(case_features)
            self.seeds.append(case)
        else:
            self.asked.passing += 1
            self.passes.append(case_features)
            self.pass_cases.append(case)
            self.passing_seeds.append(case)
        return answer

    def challenge(self, condition: Condition) -> bool:
        """Asks passing cases that contradict a condition again, with other values. Returns whether some of them fail."""
        among = [i for i, case_features in enumerate(self.passes) if condition.holds(case_features)]
        among = [i for i in among if self.pass_cases[i].id not in self._challenged][:MOST_CHALLENGED]
        twins = TWINS if len(among) <= FEW_CHALLENGED else FEWER_TWINS
        return any([self.is_coincidence(self.pass_cases[i], self.passes[i], twins) for i in reversed(among)])

    def is_coincidence(self, case: Case, case_features: Features, twins: int = TWINS) -> bool:
        """Returns whether a case passes only because of its values: with the same features and other values it fails.

        Such a case is forgotten.
        """
        self._challenged.add(case.id)
        if self.lenient and _is_hidden(case, case_features):
            self._forget(case)
            return True
        passed = [case]
        signs: tuple[Sign, ...] = ("negative", "mixed") if case_features.get("negative") else ("positive",)
        for n in range(twins):
            sign = signs[n % len(signs)]
            twin = self.new.twin(case, sign=sign)
            twin_features = features(twin)
            alike = all(
                twin_features.get(name) == value for name, value in case_features.items() if name != "duplicates"
            )
            if alike and twin.id not in self.ids and not self.spent:
                if self.ask(twin, twin_features):
                    for coincidence in passed:
                        self._forget(coincidence)
                    return True
                passed += self.pass_cases[-1:]
        return False

    def _forget(self, case: Case) -> None:
        self._forgotten.add(case.id)
        at = self.pass_cases.index(case)
        del self.pass_cases[at], self.passes[at]

    def forget_hidden(self, condition: Condition) -> bool:
        """Forgets passing cases that contradict a condition and could not show a wrong element.

        Returns whether there are any.
        """
        self.lenient = True
        pairs = enumerate(zip(self.pass_cases, self.passes, strict=True))
        hidden = [
            i
            for i, (case, case_features) in pairs
            if condition.holds(case_features) and _is_hidden(case, case_features)
        ]
        self._forgotten |= {self.pass_cases[i].id for i in hidden}
        for i in reversed(hidden):
            del self.passes[i], self.pass_cases[i]
        return bool(hidden)


def _is_hidden(case: Case, case_features: Features) -> bool:
    """Returns whether most faults leave the output of a case as it is.

    That is so if all its indices name the same place, if its output has one element, and if its data is one of several
    rounds, which do not reveal an address alone.
    """
    return (
        case_features.get("axis_length") == 1
        or case_features["output_elements"] == 1
        or len(rounds(case.desc, "addr")) > 1
    )


def _unlike(failures: Sequence[Features], passing: Sequence[Case]) -> list[Case]:
    """Returns the passing cases whose features differ from those of each failing one.

    The others pass by their values alone.
    """
    failing = {frozenset(case_features.items()) for case_features in failures}
    pairs = zip(passing, features_of(passing), strict=True)
    return [case for case, case_features in pairs if frozenset(case_features.items()) not in failing]


def _shows_faults(case: Case) -> bool:
    """Returns whether most faults would change the output of a case. If not, a pass says nothing about its features."""
    return (
        case.desc.output.element_count >= 4
        and case.index_pattern not in _WEAK_PATTERNS
        and (case.data_pattern or "addr") == "addr"
    )
