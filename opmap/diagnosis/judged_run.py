"""A run that was judged: its cases with their records, and what else is known of each case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from ..cases.case import Case
from ..cases.features import Features, features
from ..faults.case_arrays import CaseArrays
from ..faults.fault import Fault
from ..judge.record import Record, at_wrong_output
from ..vocabulary import PROCESS_ENDED, Verdict
from .conditions import Condition, approximate, separate

MOST_ROUNDS, MOST_AGAINST = 3, 400
"""The most rounds of `telling`, and the most cases of each round that are compared with the fault."""


def may_come_before(record: Record) -> bool:
    """Returns whether a case with this record may run again before another case: it ran, and its process went on."""
    return record.ran and record.verdict not in PROCESS_ENDED


class JudgedRun:
    """The cases of a run with their records, in the order in which they were judged.

    `calls` has the number of the run in the provider's process by case id, as far as it is known. Features are computed
    once for each case. Of several outputs, a case is about the first wrong one.
    """

    def __init__(self, judged: Sequence[tuple[Case, Record]], calls: Mapping[str, int] | None = None) -> None:
        self.judged, self.calls = [at_wrong_output(case, record) for case, record in judged], calls or {}
        self._features: dict[str, Features] = {}
        self._at = {case.id: at for at, (case, _) in enumerate(judged)}

    @cached_property
    def failed(self) -> list[int]:
        """The places of the failed cases, sorted by the ids: the order of the run changes nothing."""
        failed = [n for n, (_, r) in enumerate(self.judged) if r.failed and r.verdict != Verdict.UNEXPECTED_PASS]
        return sorted(failed, key=lambda n: self.judged[n][0].id)

    @cached_property
    def failed_alone(self) -> list[int]:
        """The places of the failed cases that do not pass without the other cases of their session."""
        return [n for n in self.failed if not self.judged[n][1].batched_with]

    @cached_property
    def passed(self) -> list[Case]:
        """The cases that passed, sorted by their ids."""
        passed = [case for case, record in self.judged if record.verdict == Verdict.PASS]
        return sorted(passed, key=lambda case: case.id)

    def features(self, cases: Sequence[Case]) -> list[Features]:
        """Returns the features of cases of this run."""
        self._features |= {case.id: features(case) for case in cases if case.id not in self._features}
        return [self._features[case.id] for case in cases]

    def condition(self, failed: Sequence[Case], passed: Sequence[Case] | None = None) -> Condition | None:
        """Returns the condition that is true for the failed cases and false for those that passed; None if it may be so
        by chance.
        """
        failing, passing = self.features(failed), self.features(self.passed if passed is None else passed)
        condition = separate(failing, passing)
        return None if condition is None or condition.is_by_chance(failing, passing) else condition

    def telling(self, failed: Sequence[Case], fault: Fault | None) -> list[Case]:
        """Returns the cases that passed and could have shown the fault of the failed ones; all if it is not known.

        Left out are those that meet the closest condition, and of which the fault gives the right output: they say
        nothing about the condition.
        """
        passed = list(self.passed)
        if fault is None or fault.session or fault.result:
            return passed
        for _ in range(MOST_ROUNDS if passed else 0):
            condition = approximate(self.features(failed), self.features(passed))
            met = [
                c for c, of in zip(passed, self.features(passed), strict=True) if condition.all and condition.holds(of)
            ]
            arrays = {case.id: CaseArrays(case) for case in met[:MOST_AGAINST]}
            blind = {id for id, case in arrays.items() if np.array_equal(fault.bits(case), case.right)}
            passed = [case for case in passed if case.id not in blind]
            if not blind or not passed:
                break
        return passed or list(self.passed)

    def before(self, case: Case, most: int | None = None) -> list[Case]:
        """Returns the cases that ran before a case in the same process, the latest first; at most `most` of them.

        If the numbers of the runs are not known, the process is taken to be the same. Cases that were not run, because
        they are dangerous for example, and those that ended their process are left out.
        """
        earlier_cases: list[Case] = []
        call = self.calls.get(case.id)
        for earlier, record in reversed(self.judged[: self._at[case.id]][-(most or len(self.judged)) :]):
            if not may_come_before(record):
                continue
            call_before = self.calls.get(earlier.id)
            if call is not None and call_before is not None and call_before >= call:
                break
            earlier_cases.append(earlier)
            call = call if call_before is None else call_before
        return earlier_cases

    def record(self, case: Case) -> Record:
        """Returns the record of a case."""
        return self.judged[self._at[case.id]][1]
