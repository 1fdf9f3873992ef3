"""Holds what opmap tells of a planted defect against the defect itself.

A title must match what is true of the outputs. A condition must agree with the defect on 99 % of the cases of the tier,
of random cases, and of cases near failing ones. What a failure needs (nothing, earlier calls, luck) must be told too.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import planted_defects
from planted_defects import DEFECTS, Both, Defect

from opmap.cases.case import Case
from opmap.cases.comparisons import Comparison
from opmap.cases.features import Features, features
from opmap.cases.random_cases import drawn_case
from opmap.diagnosis.conditions import Condition
from opmap.diagnosis.diagnose import diagnoses, quick_diagnoses
from opmap.diagnosis.judged_run import JudgedRun
from opmap.diagnosis.new_cases import NewCases, largest_tensor
from opmap.engines.providers import open_provider
from opmap.judge.judge import Judge
from opmap.operators import OPERATORS
from opmap.reports.cause_view import MOST_CHECKED, cause_group, condition_text
from opmap.reports.documents import ConditionDocument, Group
from opmap.session import ValidationRun
from opmap.session.options import SessionOptions

WANTED = 0.99
"""The share of cases on which a true condition agrees with the defect."""

RIGHT, UNKNOWN, FALSE = "right", "don't know", "false"


class Cause(NamedTuple):
    """What is told of one cause, and whether title, condition and stability are right.

    `agreement` is the lowest share.
    """

    group: Group
    title: str
    condition: str
    stability: str
    agreement: float | None
    of: str

    @property
    def result(self) -> str:
        """`false` if one of the three is, `right` if all are."""
        parts = (self.title, self.condition, self.stability)
        if FALSE in parts:
            return FALSE
        return RIGHT if set(parts) == {RIGHT} else UNKNOWN if self.title == self.condition == UNKNOWN else "partly"

    def __str__(self) -> str:
        group, relation = self.group, self.group.relation
        share = "" if self.agreement is None else f" {self.agreement:.1%}"
        where = condition_text(group.condition, group.closest, group.asked)
        of_elements = "{} of {}".format(*relation.explains)
        return (
            f"{group.cases} cases, {self.of}: {relation.text} ({relation.fault}, {of_elements}): {self.title}; "
            f"{where}: {self.condition}{share}; {group.stability_text}: {self.stability}"
        )


@dataclass(frozen=True)
class Told:
    """What `validate` and `diagnose` tell of a defect. `quick` is how many causes `validate` tells.

    `seconds` are those of the processors: other work on the machine does not count.
    """

    name: str
    quick: int
    causes: list[Cause]
    seconds: float
    error: str = ""

    @property
    def result(self) -> str:
        """`false` if a sentence is, or if `diagnose` fails or leaves a failed case out; `right` if each bug has a cause
        that is fully right.
        """
        if self.error or any(cause.result == FALSE for cause in self.causes):
            return FALSE
        best = {bug.__name__: {c.result for c in self.causes if c.of == bug.__name__} for bug in bugs(self.name)}
        if all(RIGHT in results for results in best.values()):
            return RIGHT
        return "partly" if any(results & {RIGHT, "partly"} for results in best.values()) else UNKNOWN

    @property
    def few(self) -> bool:
        """Whether at most three causes are told for each bug, by `validate` too."""
        return max(self.quick, len(self.causes)) <= 3 * len(bugs(self.name))


def bugs(name: str) -> tuple[type[Defect], ...]:
    """Returns the single defects of a backend."""
    kind = DEFECTS[name]
    return kind.kinds if issubclass(kind, Both) else (kind,)


def processor_seconds() -> float:
    """Returns the seconds that this process and its ended child processes have used the processors."""
    return sum(os.times()[:4])


def judged(name: str, tier: str = "smoke", *, operators: tuple[str, ...] = ()) -> Told:
    """Runs `validate` and `diagnose` on a backend, and returns what they tell.

    A backend that crashes runs in a worker. `operators` are those whose cases run; all if there are none.
    """
    in_process = not any(bug.titles == "crash" for bug in bugs(name))
    options = {"provider": f"planted_defects:{name}", "tier": tier, "in_process": in_process, "operator": operators}
    start = processor_seconds()
    with ValidationRun(SessionOptions.read(options)) as session:
        session.judge_all()
        run, judge = JudgedRun(session.judged, session.calls), session.open()
        between = processor_seconds()
        quick = quick_diagnoses(run, session.fresh, most=MOST_CHECKED)
        between -= processor_seconds()
        try:
            found = diagnoses(run, judge, session.fresh, budget=500)
        except Exception as error:  # the table goes on with the next defect
            return Told(name, len(quick), [], processor_seconds() - start, repr(error)[:200])
        groups = [cause_group(diagnosis, session.again) for diagnosis in found]
        seconds = processor_seconds() - start + between
        causes = [checked(name, group, run) for group in groups]
    counted = {id for group in groups for id in group.ids}
    error = "" if len(counted) == len(run.failed) else f"{len(counted)} of {len(run.failed)} failed cases have a cause"
    return Told(name, len(quick), causes, seconds, error)


def checked(name: str, group: Group, run: JudgedRun) -> Cause:
    """Returns a cause with what is right of it: for the bug of which most is."""
    some = [partial(_checked, name, group, run)(bug) for bug in bugs(name)]
    order = [RIGHT, "partly", UNKNOWN, FALSE]
    return min(some, key=lambda cause: order.index(cause.result))


def _checked(name: str, group: Group, run: JudgedRun, bug: type[Defect]) -> Cause:
    relation = group.relation
    vague = relation.text.startswith(("no relation found", "every wrong element is another element"))
    title = UNKNOWN
    if not vague:
        said = " ".join(filter(None, (relation.text, relation.fault, *relation.ties)))
        explained, wrong = relation.explains
        title = RIGHT if re.search(bug.titles, said) and explained >= 0.95 * wrong else FALSE
    elif bug.history and not bug.titles:
        title = RIGHT
    condition, agreement = UNKNOWN, None
    if group.condition is not None:
        agreement = agreed(name, bug, group.condition, [case for case, _ in run.judged])
        condition = RIGHT if agreement >= WANTED else FALSE
    elif bug.history:
        condition = RIGHT
    kind = group.stability
    stability = UNKNOWN if kind is None else RIGHT if re.fullmatch(bug.stability, kind) else FALSE
    if group.after and stability == RIGHT:
        stability = RIGHT if needs(name, group, run) else FALSE
    if kind == "always" and stability == FALSE and bug.history:  # true of a case that is enough for the failure
        stability = RIGHT if fails_alone(name, group, run) else FALSE
    return Cause(group, title, condition, stability, agreement, bug.__name__)


# --- the truth ---


@dataclass(frozen=True)
class OneOf:
    """A condition as the documents hold it: conjunctions, of which one must hold."""

    parts: list[Condition]

    def holds(self, given: Features) -> bool:
        """Returns whether a case with these features meets it."""
        return any(part.holds(given) for part in self.parts)


def agreed(name: str, bug: type[Defect], document: ConditionDocument, tier: list[Case]) -> float:
    """Returns the lowest share of the cases of a kind on which a condition agrees with a defect."""
    condition = OneOf(
        [
            Condition(
                tuple(
                    Comparison(c.feature, c.op, tuple(c.value) if isinstance(c.value, list) else c.value) for c in part
                )
            )
            for part in document.any
        ]
    )
    failing = [case for case in tier if truth(name, bug, case)]
    shares = []
    for cases in (tier, drawn(), *near(failing, condition)):
        answers = [(answer, condition.holds(features(c))) for c in cases if (answer := truth(name, bug, c)) is not None]
        shares.append(sum(answer == holds for answer, holds in answers) / len(answers) if answers else 1.0)
    return min(shares)


_TRUTH: dict[tuple[str, str, str], bool | None] = {}


def truth(name: str, bug: type[Defect], case: Case) -> bool | None:
    """Returns whether a case fails because of a bug of a backend; None if that does not show, or if another bug is
    there too.

    Of a bug that needs earlier calls, whether it may fail.
    """
    if not OPERATORS[case.desc.operator].expressed(case.desc):
        return None  # it never runs
    key = (name, bug.__name__, case.id)
    if key not in _TRUTH:
        fails, applied = alone(bug.__name__, case)
        others = [alone(other.__name__, case)[1] for other in bugs(name) if other is not bug]
        shows = applied if bug.history else True if fails else None if applied else False
        _TRUTH[key] = None if any(others) and applied else shows
    return _TRUTH[key]


@cache
def _judge(bug: str) -> Judge:
    return Judge(open_provider(f"planted_defects:{bug}", in_process=True), brief=True)


def alone(bug: str, case: Case) -> tuple[bool, bool]:
    """Returns whether a case fails on a backend with one bug, and whether the bug is in its way."""
    planted_defects.APPLIED.clear()
    planted_defects.DRY = True
    record = _judge(bug)(case)
    return record.failed, bug in planted_defects.APPLIED


def fails_alone(name: str, group: Group, run: JudgedRun) -> bool:
    """Returns whether the smallest case fails three times, each in a new backend."""
    case = {case.id: case for case, _ in run.judged}.get(group.again.split()[-1])
    judges = (Judge(open_provider(f"planted_defects:{name}", in_process=True)) for _ in range(3))
    return case is not None and all(judge(case).failed for judge in judges)


def needs(name: str, group: Group, run: JudgedRun) -> bool:
    """Returns whether the smallest case passes alone, and fails after the cases that are told."""
    cases = {case.id: case for case, _ in run.judged}
    told = [cases.get(id) for id in re.findall(r"--case (\S+)", group.again)]
    if len(told) < 2 or None in told:
        return False
    records = []
    for calls in (told[-1:], told):
        judge = Judge(open_provider(f"planted_defects:{name}", in_process=True))
        records.append([judge(call) for call in calls][-1])
    return not records[0].failed and records[1].failed


@cache
def drawn() -> list[Case]:
    """Returns random cases of all operators, small ones and large ones."""
    return [drawn_case(operator, seed) for operator in OPERATORS for seed in range(100)]


def near(failing: list[Case], condition: OneOf) -> tuple[list[Case], list[Case]]:
    """Returns new cases near small failing ones; and some near any, with the sizes that the condition names."""
    by_size = sorted(failing, key=largest_tensor)
    numbers = [c.value for part in condition.parts for c in part.all if type(c.value) is int and c.value > 1]
    aims = tuple(size for n in numbers for size in (n - 1, n, n + 1, 2 * n))
    large = by_size[:: -max(len(by_size) // 20, 1)] if aims else []
    return _near(by_size[:60], 300, 2**11), _near(large, 100, 2**18, aims)


def _near(failing: list[Case], count: int, most_elements: int, aims: tuple[int, ...] = ()) -> list[Case]:
    new, cases = NewCases(failing, 78), []
    new.most_elements, new.aims = most_elements, aims
    for tried in range(20 * count):
        case = new.near(failing[tried % len(failing)]) if failing else None
        if case is not None:
            cases.append(case)
        if len(cases) == count:
            break
    return cases
