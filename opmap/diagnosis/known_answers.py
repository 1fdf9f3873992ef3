"""What is known of a fault: the cases that fail, those that pass although they could show it, and the questions
left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ..cases.case import Case
from ..cases.features import Features, features
from ..cases.random_cases import MAX_SEED, drawn_case
from ..cases.values import rounds
from ..operators import OPERATORS
from ..operators.random_source import pick
from .conditions import Condition, Region
from .new_cases import NewCases, Sign
from .thresholds import FEW_DOUBTED, FEWER_TWINS, TWINS

MOST_FAILING, MOST_PASSING = 400, 1500
"""The most cases of a run from which a condition is sought."""

MOST_DOUBTED = 40
"""The most passing cases that are asked again at a time."""

FRESH_TRIES, LARGE = 20, 1 << 16
"""How often a fresh case is tried to be made; and the most elements of a tensor of a large one."""

_OF_VALUES = ("duplicates", "largest_index")
"""The features that a case with other values need not share."""

_WEAK_PATTERNS = ("one", "identity", "bounds")
"""Index patterns that many faults do not change."""

Answer = tuple[Case, bool]
"""A case that was asked, and whether it fails."""


@dataclass
class Asked:
    """What the questions gave.

    `condition` holds for all failing cases and no passing one; if `contradicting` is not 0, it is wrong for so many of
    the answers, and no condition fits all. It is None if there was nothing to separate. A case that passes by its
    values alone contradicts nothing. `by_chance`: it is too long for what it explains, or rests on too few failing
    cases. `checked`: it began with enough failing cases, enough questions were asked, and fresh cases,
    of which none had been used to find it, agree with it.
    `untested` says in words what of it nobody knows. `runs` counts all questions, also those without an answer.
    """

    condition: Condition | None
    runs: int = 0
    answers: list[Answer] = field(default_factory=list)
    contradicting: int = 0
    by_chance: bool = False
    checked: bool = True
    untested: tuple[str, ...] = ()

    @property
    def failing(self) -> int:
        """The number of the answers that fail."""
        return sum(fails for _, fails in self.answers)

    @property
    def passing(self) -> int:
        """The number of the answers that pass."""
        return len(self.answers) - self.failing

    @property
    def fits(self) -> bool:
        """Whether there is a condition that no answer contradicts."""
        return self.condition is not None and not self.contradicting

    @property
    def exact(self) -> bool:
        """Whether the condition fits all answers, those to fresh cases too, and each of its comparisons was kept by
        asking.
        """
        return self.fits and self.checked and not (self.untested or self.by_chance)


class Evidence:
    """The features of failing cases, and the witnesses: passing cases that most faults would change.

    `budget` is the most questions. `shows` says whether a case can show the fault at all, as far as its relation tells.
    `hides` says whether an output may be right by chance. A case that passes by its values alone is no witness any more
    as soon as this is known. `silent` holds the features of the cases of which the answer says nothing; `mute` are the
    regions of an operator or data type in which cases were made, and none could show the fault.
    """

    def __init__(
        self,
        question: Callable[[Case], bool | None],
        failing: Sequence[Case],
        passing: Sequence[Case],
        budget: int,
        shows: Callable[[Case], bool] = lambda case: True,
        *,
        hides: bool = True,
    ) -> None:
        self.question, self.budget, self.shows, self.hides = question, budget, shows, hides
        failing = failing[:: -(-len(failing) // MOST_FAILING)]
        passing = passing[:: max(-(-len(passing) // MOST_PASSING), 1)]
        self.failures: list[Features] = list(map(features, failing))
        self.patterns = {pattern for case in failing for pattern in (case.index_pattern, case.data_pattern)}
        seen = {frozenset(case_features.items()) for case_features in self.failures}
        pairs = zip(passing, map(features, passing), strict=True)
        unlike: dict[str, tuple[Case, Features]] = {
            case.id: (case, given) for case, given in pairs if frozenset(given.items()) not in seen
        }
        self.witnesses = {id: pair for id, pair in unlike.items() if self.is_witness(*pair)} or unlike
        self.seeds, self.passing_seeds = list(failing), list(passing)
        self.silent: list[Features] = []
        self.mute: set[Region] = set()
        self.ids = {case.id for case in (*failing, *passing)}
        self.new = NewCases([*failing, *(case for case, _ in self.witnesses.values())], seed=0)
        self.runs = 0
        self.answers: list[Answer] = []
        self._doubted: set[str] = set()

    @property
    def spent(self) -> bool:
        """Whether no question is left."""
        return self.runs >= self.budget

    @property
    def passes(self) -> list[Features]:
        """The features of the witnesses."""
        return [case_features for _, case_features in self.witnesses.values()]

    def result(self, condition: Condition, untested: Sequence[str], *, checked: bool) -> Asked:
        """Returns what was asked, with the condition, what contradicts it, and what of it was not tested.

        `checked` is whether fresh cases agree with it.
        """
        failing = [features(case) for case, fails in self.answers if fails]
        passing = [self.witnesses[case.id][1] for case, _ in self.answers if case.id in self.witnesses]
        contradicting = sum(not condition.holds(given) for given in failing) + sum(map(condition.holds, passing))
        by_chance = condition.is_by_chance(self.failures, self.passes)
        return Asked(condition, self.runs, self.answers, contradicting, by_chance, checked, tuple(untested))

    def ask(self, case: Case, case_features: Features) -> bool | None:
        """Asks a question, and keeps the answer."""
        self.runs += 1
        self.ids.add(case.id)
        answer = self.question(case)
        if answer is None:
            self.silent.append(case_features)
            return None
        self.answers.append((case, answer))
        if answer:
            self.failures.append(case_features)
            self.seeds.append(case)
        else:
            self.passing_seeds.append(case)
            if self.is_witness(case, case_features):
                self.witnesses[case.id] = case, case_features
        return answer

    def fresh(self, condition: Condition, count: int) -> Iterator[Case]:
        """Gives about so many cases that were not asked: random ones, some of failing types, and some near failing
        ones.

        Of the last, most are small; some have the sizes that a condition names.
        """
        new, usual = self.new, self.new.most_elements
        marks = {c.value for c in condition.all if type(c.value) is int and c.value > 1}
        new.aims = tuple(sorted({size for n in marks for size in (n - 1, n, n + 1, 2 * n)}))
        operators = tuple(OPERATORS)
        for number in range(count):
            for _ in range(FRESH_TRIES):
                case: Case | None
                if number % 5 == 0:
                    case = drawn_case(operators[number // 5 % len(operators)], new.source.integer(0, MAX_SEED))
                elif number % 5 < 3:
                    case = new.of_types(pick(new.source, self.seeds), number // 5)
                    if case is not None and not self.shows(case):  # other values may
                        case = new.twin(case, sign="positive", data="special")
                        case = case if self.shows(case) else None
                else:
                    new.most_elements = LARGE if number % 5 == 4 else usual
                    case = new.near(pick(new.source, self.seeds))
                if case is not None and case.id not in self.ids:
                    yield case
                    break
        new.most_elements = usual

    def doubt(self, condition: Condition | Region) -> bool:
        """Runs each witness against a condition again with other values. Returns whether one of them then fails.

        Such a case passes only because of its values, and is no longer a witness. No witness is run again twice. A case
        that cannot show the cause is no witness either.
        """
        silent = [id for id, pair in self.witnesses.items() if condition.holds(pair[1]) and not self.shows(pair[0])]
        for id in silent:
            del self.witnesses[id]
        against = [pair for id, pair in self.witnesses.items() if id not in self._doubted and condition.holds(pair[1])]
        against = against[:MOST_DOUBTED]
        twins = TWINS if len(against) <= FEW_DOUBTED else FEWER_TWINS
        return any([self._fails_with_other_values(*pair, twins, condition) for pair in against]) or bool(silent)

    def _fails_with_other_values(
        self, case: Case, case_features: Features, twins: int, condition: Condition | Region
    ) -> bool:
        self._doubted.add(case.id)
        signs: tuple[Sign, ...] = ("negative", "mixed") if case_features.get("negative") else ("positive",)
        alike = [case.id]
        for n in range(twins):
            twin = self.new.twin(case, sign=signs[n % len(signs)])
            twin_features = features(twin)
            same = all(twin_features.get(name) == v for name, v in case_features.items() if name not in _OF_VALUES)
            if not same or not condition.holds(twin_features) or twin.id in self.ids or self.spent:
                continue
            answer = self.ask(twin, twin_features)
            if answer:
                for id in alike:
                    self.witnesses.pop(id, None)
                return True
            if answer is not None:
                alike.append(twin.id)
                self._doubted.add(twin.id)
        return False

    def is_witness(self, case: Case, case_features: Features) -> bool:
        """Returns whether most faults would change the output of a passing case. If not, its pass says nothing.

        They do not if all indices name the same place, if the output has one element, if the data is one of several
        rounds, which do not reveal an address alone, and with some patterns that no failing case has.
        """
        patterns = {case.index_pattern, case.data_pattern} - self.patterns
        return not self.hides or (
            case_features.get("axis_length") != 1
            and case.desc.output.element_count > 1
            and len(rounds(case.desc, "addr")) == 1
            and not patterns & {*_WEAK_PATTERNS, "special"}
        )
