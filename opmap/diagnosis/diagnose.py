"""From the failures of a run to their causes: how reliably each fails, its condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

import numpy as np

from ..cases.case import Case
from ..cases.features import features
from ..errors import names
from ..faults import Fault
from ..faults.case_arrays import CaseArrays
from ..judge.record import Record
from ..reducer import Budget
from ..tensors import special_values
from ..vocabulary import PROCESS_ENDED, Verdict
from .asking import Asked, make_exact
from .causes import (
    Cause,
    best_label,
    causes,
    joined,
    told_relation,
    with_models,
    without_calls,
)
from .diagnosis import (
    NOT_ALWAYS,
    NOT_CHECKED,
    Diagnosis,
    apart,
    is_unknown,
    join_a_larger_one,
    part_of,
    unknown_as_one,
    vague_as_one,
    with_covered,
    with_errors,
)
from .failures import Failure, case_size, failure_of
from .judged_run import JudgedRun
from .new_cases import NewCases
from .reruns import Fresh, Run
from .sides import OpenWith, whose_fault
from .smaller_failure import SmallerFailure
from .stability import Stability, in_common, stability
from .thresholds import FEWEST_KNOWN

SHRINKING = Budget(trials=200, seconds=20.0)

TWINS = 4
"""How often a failure is asked again with other values, to see if it shows the relation of a larger cause."""

MOST_ASKED_AGAIN = 5
"""The most failures of a cause that are asked again."""

MOST_SIDES = 3
"""The number of causes, the largest first, whose side is asked for."""

MOST_STABLE = 12
"""The number of causes, the largest first, whose stability is checked."""

AGAIN = Stability("sometimes", "sometimes (passes when it is run again)")
"""The stability of those of them that pass when they are run again."""

MOST_AGAIN = 200
"""The largest number of failed cases that are run a second time, to see which of them fail again."""

MOST_LEARNED = 40
"""The most failed answers whose relations are searched."""

MOST_STARTS = 10
"""The number of failing cases, the smallest first, among which one is sought that can be made smaller."""


def quick_diagnoses(run: JudgedRun, fresh: Fresh, *, most: int, dangerous: bool = False) -> list[Diagnosis]:
    """Returns the causes of the failures. Of the `most` largest ones the stability is checked; nothing more is run.

    Where no condition fits, the closest one is sought for these. Crashes, hangs and lost devices are run
    again only if `dangerous`.
    """
    checked = vague_as_one(run, separated(run, causes(run), fresh, most=most, dangerous=dangerous))
    return [diagnosis.with_closest(run) if at < most else diagnosis for at, diagnosis in enumerate(checked)]


def separated(
    run: JudgedRun, groups: Sequence[Cause], fresh: Fresh, *, most: int, dangerous: bool = False
) -> list[Diagnosis]:
    """Returns the causes with the stability of the `most` largest ones.

    The cases that passed when they ran again become one cause. The cases that fail only after earlier calls become
    another one. Both have no condition, because it would depend on chance. No other cause keeps these cases. If neither
    the relation nor the condition of a cause is known, it is divided by operator. A cause that depends on earlier calls
    is not divided.
    """
    unstable = _not_again(run, fresh)
    parts = [part_of(run, cause, unstable, inside) for cause in groups for inside in (False, True)]
    ordered = sorted(filter(None, parts), key=lambda cause: -len(cause.failures))
    found: list[Diagnosis] = []
    for cause in ordered[:most]:
        diagnosis = check_stability(cause, run, fresh, dangerous=dangerous)
        own = apart(run, diagnosis.cause, ordered) if diagnosis.always else []
        found += [check_stability(part, run, fresh, dangerous=dangerous) for part in own] or [diagnosis]
    found += [
        Diagnosis(part, NOT_CHECKED) for cause in ordered[most:] for part in apart(run, cause, ordered) or [cause]
    ]
    checked = [_with_unstable(diagnosis, unstable) for diagnosis in found]
    return sorted(_joined_by_kind(run, checked, fresh), key=lambda diagnosis: -len(diagnosis.cause.failures))


def _with_unstable(diagnosis: Diagnosis, unstable: Set[str]) -> Diagnosis:
    """Returns the diagnosis of failures that passed when they were run again after others: they fail sometimes."""
    stability = diagnosis.stability
    if (
        stability is None
        or stability.kind in NOT_ALWAYS
        or not {f.case.id for f in diagnosis.cause.failures} <= unstable
    ):
        return diagnosis
    if stability.kind is None:
        return replace(diagnosis, stability=AGAIN)
    text = f"sometimes ({stability.text}, but not after others)"
    return replace(diagnosis, stability=replace(stability, kind="sometimes", text=text))


def _joined_by_kind(run: JudgedRun, found: Sequence[Diagnosis], fresh: Fresh) -> Iterator[Diagnosis]:
    """Gives the causes that always fail, and one for each way of not always failing.

    What passes alone joins the first.
    """
    moving: dict[str, list[Diagnosis]] = {}
    for diagnosis in sorted(found, key=lambda diagnosis: diagnosis.stability == AGAIN):
        kind = diagnosis.stability.kind if diagnosis.stability else None
        if moving and (diagnosis.stability == AGAIN or (kind is None and _passes_alone(diagnosis.cause, fresh))):
            next(iter(moving.values())).append(diagnosis)
        elif kind in NOT_ALWAYS:
            moving.setdefault(str(kind), []).append(diagnosis)
        else:
            yield diagnosis
    for some in moving.values():
        first = some[0]
        whole = joined(run, [diagnosis.cause for diagnosis in some]) if len(some) > 1 else first.cause
        checked = first.cause.smallest  # the one of which the stability is known
        failures = (checked, *(failure for failure in whole.failures if failure is not checked))
        yield replace(first, cause=replace(whole, failures=failures, condition=None))


def _passes_alone(cause: Cause, fresh: Fresh) -> bool:
    """Returns whether the smallest case of a cause passes in a process of its own."""
    if cause.only_batched or cause.smallest.record.verdict in PROCESS_ENDED:
        return False
    with fresh() as judge:
        return not judge(cause.smallest.case).failed


def _not_again(run: JudgedRun, fresh: Fresh) -> set[str]:
    """Returns the ids of the failed cases that pass when they are run again, in one process and in another order.

    Flaky ones have passed already.
    """
    flaky = {record.case or "" for _, record in run.judged if record.verdict is Verdict.FLAKY}
    failed = [run.judged[n] for n in run.failed_alone if run.judged[n][1].verdict in (Verdict.MISMATCH, Verdict.ERROR)]
    if not failed:
        return flaky
    ordered = sorted(failed, key=lambda judged: case_size(judged[0]))
    with fresh() as judge:
        return flaky | {
            case.id for case, _ in ordered[:: -(-len(ordered) // MOST_AGAIN) or 1] if not judge(case).failed
        }


def diagnoses(
    run: JudgedRun,
    judge: Run,
    fresh: OpenWith,
    *,
    budget: int,
    dangerous: bool = False,
    advance: Callable[[], object] = lambda: None,
) -> list[Diagnosis]:
    """Returns the causes of the failures, the largest first.

    `judge` is asked about new cases, up to `budget` for a cause.

    Only a failure that occurs every time is asked about. Calls `advance` after each cause.
    """
    found = separated(run, causes(run), fresh, dangerous=dangerous, most=MOST_STABLE)
    left = [diagnosis for diagnosis in found if not diagnosis.always]
    left += unknown_as_one(run, settled(run, [diagnosis for diagnosis in found if diagnosis.always], judge))
    left.sort(key=lambda diagnosis: (not diagnosis.always, -len(diagnosis.cause.failures)))
    done: list[Diagnosis] = []
    while left:
        diagnosis, *left = left
        cause = diagnosis.cause
        too_few = bool(done) and is_unknown(diagnosis) and len(cause.failures) < FEWEST_KNOWN
        if diagnosis.always and not too_few:
            diagnosis = make_condition_exact(diagnosis, run, judge, [*done, *left], budget=budget)
            diagnosis, left = with_covered(diagnosis, left, run)
        if len(done) < MOST_SIDES and not cause.only_batched:
            smallest = diagnosis.smallest
            diagnosis = replace(
                diagnosis, sides=whose_fault(smallest.case, smallest.record, fresh, dangerous=dangerous)
            )
        if not join_a_larger_one(diagnosis, done, run):
            done.append(diagnosis)
        advance()
    return [diagnosis.with_closest(run) for diagnosis in vague_as_one(run, done)]


def check_stability(cause: Cause, run: JudgedRun, fresh: Fresh, *, dangerous: bool = False) -> Diagnosis:
    """Returns the cause with its stability. Crashes, hangs and lost devices are run again only if `dangerous`."""
    smallest = cause.smallest
    if cause.only_batched:
        others = smallest.record.batched_with or ()
        return Diagnosis(cause, Stability("batched", f"only in one session with {names(others)}; right without"))
    if smallest.record.verdict is Verdict.FLAKY:
        return Diagnosis(cause, AGAIN)
    if smallest.record.verdict in PROCESS_ENDED and not dangerous:
        text = f"not known: a {smallest.record.verdict} is run again only with --rerun-dangerous"
        return Diagnosis(cause, Stability(None, text))
    before = run.before(smallest.case)
    twin = NewCases([smallest.case], seed=0).twin(smallest.case)
    observed = stability(smallest.case, twin, before, fresh, cause.is_like)
    if len(observed.earlier) == 1:  # of several, no pair has the key of a cache
        observed = replace(observed, text=observed.text + in_common(observed.earlier[0], smallest.case))
    return Diagnosis(without_calls(run, cause) if observed.kind == "always" else cause, observed)


def settled(run: JudgedRun, found: Sequence[Diagnosis], judge: Run) -> list[Diagnosis]:
    """Returns the causes that always fail, after some failures were asked again with other values.

    The values of a case may say too little of what happened, or fit another relation by chance. If new data does not
    reproduce the relation, its cases join the matching cause; without one, the relation is vague.
    """
    kept: list[Diagnosis] = []
    for diagnosis in found:
        cause = diagnosis.cause
        larger = [other for other in kept if other.cause.mismatch and not other.cause.relation.vague]
        if cause.mismatch and (larger or cause.relation.vague):
            twins = _twins(cause, judge)
            home = max(larger, key=lambda other: sum(map(other.cause.claims, twins)), default=None)
            if home and sum(map(home.cause.claims, twins)) * 2 > len(twins):
                kept[kept.index(home)] = replace(home, cause=home.cause.with_more(run, cause.failures))
                continue
            if not larger or not _comes_back(cause, larger, twins):
                cause = _learned(run, cause, twins)
            if larger and not _comes_back(cause, larger, twins):
                cause = replace(cause, relation=replace(cause.relation, vague=True))
        kept.append(replace(diagnosis, cause=cause))
    return kept


def _twins(cause: Cause, judge: Run) -> list[Failure]:
    """Returns failures of a cause with other values. Those that do not fail in its manner are left out."""
    failures: dict[str, Failure] = {}
    for failure in cause.failures[:MOST_ASKED_AGAIN]:
        new = NewCases([failure.case], seed=0)
        for _ in range(TWINS):
            twin = new.twin(failure.case, data="addr")
            if twin.id not in failures and cause.is_like(record := judge(twin)):
                failures[twin.id] = failure_of(twin, record)
    return list(failures.values())


def _comes_back(cause: Cause, larger: Sequence[Diagnosis], twins: Sequence[Failure]) -> bool:
    """Returns whether most failures with other values show the relation of a cause, and not that of a larger one."""
    own = [cause.claims(twin) and not any(other.cause.claims(twin) for other in larger) for twin in twins]
    return sum(own) * 2 > len(twins)


# --- asking ---


@dataclass
class Asking:
    """Asks whether a new case fails because of a cause, and not because of one of its rivals: the other causes.

    `failures` are the first of those that did. `elsewhere` are the failures that were not counted: a rival may explain
    them.
    """

    cause: Cause
    rivals: Sequence[Diagnosis]
    judge: Run
    failures: list[tuple[Case, Record]] = field(default_factory=list)
    elsewhere: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.words = {_words(failure.case) for failure in self.cause.failures}
        self.rivals = [rival for rival in self.rivals if rival.cause.mismatch and not rival.cause.relation.vague]

    @cached_property
    def fault(self) -> Fault | None:
        """The fault by which the outputs are wrong, if the relation of the cause is one."""
        return self.cause.relation.rule

    @property
    def moves(self) -> bool:
        """Whether that fault changes which elements are moved, not what becomes of them."""
        return self.fault is not None and (self.fault.moves or self.cause.relation.kind == "address")

    def changes(self, case: Case) -> bool:
        """Returns whether a case says something of the cause, if that changes values, or elements of the output.

        One of the values that are moved must change; or none of this data type would, so that the type is what matters.
        Elements of the output must change, unless other values in them would not either.
        """
        fault = self.fault
        if fault is None or self.moves or not (fault.value or fault.output):
            return True
        arrays, data_type = CaseArrays(case), case.desc.output.data_type
        right = arrays.right
        if not np.array_equal(fault.bits(arrays), right):
            return True
        if fault.value:
            values = np.array(special_values(data_type), np.uint64).astype(right.dtype)
            return np.array_equal(fault.value(values, data_type), values)  # no value of this type would change
        assert fault.output is not None
        values = np.frombuffer(np.random.default_rng(0).bytes(right.nbytes), right.dtype)
        return np.array_equal(fault.output(values.copy(), arrays), values)

    def shows(self, case: Case) -> bool:
        """Returns whether a case can show the cause: one of other addresses, if another element stands there; one of
        values, see `changes`.
        """
        if self.fault is None or not self.moves:
            return self.changes(case)
        arrays = CaseArrays(case)
        return not np.array_equal(self.fault.bits(arrays), arrays.right)

    def is_silent(self, case: Case) -> bool:
        """Returns whether the pass of a case says nothing: elements that become zero hardly show where most are."""
        right = (
            CaseArrays(case).right if self.fault is None and self.cause.relation.kind in ("zero", "missing") else None
        )
        return right is not None and 2 * int(np.count_nonzero(right)) < len(right)

    def __call__(self, case: Case) -> bool | None:
        """Returns whether the case fails; None if it cannot be told, or fails because of a rival."""
        if not self.changes(case):
            return None
        record = self.judge(case)
        if record.good:
            return False if record.verdict == Verdict.PASS and not self.is_silent(case) else None
        if not self.cause.is_like(record):
            return None
        search = cache(partial(failure_of, case, record))
        if self.is_apart(case) and any(rival.cause.claims(search()) for rival in self.rivals):
            self.elsewhere.append(search())
            return None if self.cause.claims(search()) else False
        if not self._is_explained(case, search):
            self.elsewhere.append(search())
            return None
        if len(self.failures) < MOST_LEARNED:
            self.failures.append((case, record))
        return True

    def is_apart(self, case: Case) -> bool:
        """Returns whether a case has an operator or a data type with which no failure of the cause was seen.

        If it fails because of a rival, the cause does not show there: it counts as passing. Not if the relation leaves
        wrong elements open: they may be those of the rival.
        """
        if self.cause.relation.explained < self.cause.relation.wrong:
            return False
        operator, data_type = _words(case)
        known = [set(words) for words in zip(*self.words, strict=True)]
        return not self.cause.relation.vague and (operator not in known[0] or data_type not in known[1])

    def _is_explained(self, case: Case, search: Callable[[], Failure]) -> bool:
        """Returns whether the cause explains a failure; of its operators and data types, whether no rival does.

        Any other failure may be another defect: the search must not go on there.
        """
        if not self.cause.mismatch:
            return self.cause.claims(search())
        rivals = [rival.cause for rival in self.rivals if _is_possible(rival, case)]
        alike = _words(case) in self.words
        if alike and not rivals:
            return True
        failure = search()
        return self.cause.claims(failure) or (alike and not any(rival.claims(failure) for rival in rivals))


def _words(case: Case) -> tuple[str, str]:
    return case.desc.operator, case.desc.output.data_type.name


def _is_possible(rival: Diagnosis, case: Case) -> bool:
    """Returns whether a cause may explain a failure: its exact condition holds, or it has none."""
    condition = rival.cause.condition if rival.exact else None
    return condition is None or condition.holds(features(case))


def make_condition_exact(
    diagnosis: Diagnosis, run: JudgedRun, judge: Run, rivals: Sequence[Diagnosis], *, budget: int
) -> Diagnosis:
    """Returns the diagnosis with a condition for which new cases were asked, and with a smaller case.

    The relation is the one that most of the failures have in common, with those of the new cases. The answers can
    show another relation, which other cases can show. Then everything is asked again under the new relation. If the
    answers show a third one, the diagnosis names no relation, and its condition is not exact.
    """
    first, same = _with_answers(diagnosis, run, judge, rivals, budget)
    if same:
        return first
    second, same = _with_answers(first, run, judge, rivals, budget)
    if same or second.asked is None:
        return second
    unknown = replace(second.cause, relation=second.cause.relation.unknown())
    return replace(second, cause=unknown, asked=replace(second.asked, checked=False))


def _with_answers(
    diagnosis: Diagnosis, run: JudgedRun, judge: Run, rivals: Sequence[Diagnosis], budget: int
) -> tuple[Diagnosis, bool]:
    """Returns the diagnosis with what was asked, and whether the answers say the same under the relation that they
    show.
    """
    cause = diagnosis.cause
    ask = Asking(cause, rivals, judge)
    failing = [failure.case for failure in cause.failures]
    passing = [case for case in run.passed if ask.changes(case) and not ask.is_silent(case)]
    others = (failure for rival in ask.rivals for failure in rival.cause.failures)
    passing += [failure.case for failure in others if ask.is_apart(failure.case) and not cause.claims(failure)]
    asked = make_exact(
        ask, failing, passing, budget=budget, first=cause.condition, shows=ask.shows, hides=cause.mismatch
    )
    answers = [failure_of(case, record) for case, record in ask.failures]
    learned = _learned(run, replace(cause, condition=asked.condition or cause.condition), answers)
    excluded = (f for f in ask.elsewhere if asked.condition and not asked.condition.holds(features(f.case)))
    if any(map(learned.claims, excluded)) or (
        cause.relation.vague and any(rival.asked and not rival.exact for rival in ask.rivals)
    ):
        asked = replace(asked, checked=False)  # nobody knows which failures are the rival's
    cases, new = [*passing, *(case for case, _ in asked.answers)], Asking(learned, rivals, judge)
    same = new.fault is ask.fault or all(ask.shows(case) == new.shows(case) for case in cases)
    exact = replace(diagnosis, cause=learned, asked=asked, shrunk=_smaller(learned, asked, judge) if same else None)
    return exact if cause.mismatch else with_errors(exact, cause.failures), same


def _learned(run: JudgedRun, cause: Cause, answers: Sequence[Failure]) -> Cause:
    """Returns the cause with the relation that most failures, of the run and of the answers, have in common."""
    if not cause.mismatch:
        return cause
    failures = with_models([*(failure for failure in cause.failures if failure.relations), *answers])
    label = best_label(failures)
    return replace(cause, label=label, relation=told_relation(run, label, failures))


def _smaller(cause: Cause, asked: Asked, judge: Run) -> Failure | None:
    """Returns a smaller case that fails with the same relation and meets the condition; None if there is none."""
    condition = None if asked.contradicting else asked.condition
    failing = [failure.case for failure in cause.failures]
    words = set(map(_words, failing))
    types = {data_type for _, data_type in words}
    search = SmallerFailure(cause, judge, replace(SHRINKING), condition, types=types)
    failing += [case for case, fails in asked.answers if fails and _words(case) in words]
    start = next(filter(search.shows, sorted(failing, key=case_size)[:MOST_STARTS]), None)
    if start is not None:
        search.shrink(start)
    smallest = search.smallest
    return None if smallest is None or smallest.case is cause.smallest.case else smallest
