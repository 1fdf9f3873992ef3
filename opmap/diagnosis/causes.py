"""Groups the failed cases of a run by what happened to them, and says for each group which cases fail.

A group has one relation, which its cases share. Nothing here runs a case.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import inf

import numpy as np

from ..cases.case import Case
from ..errors import without_stack
from ..faults import FAULTS, Fault
from ..faults.case_arrays import CaseArrays
from ..judge.record import Record
from ..vocabulary import Verdict
from .conditions import Condition, separate
from .failures import (
    Failure,
    case_size,
    earlier_calls,
    failure_of,
    gives,
    is_large,
    output_of,
    own_output,
    relations_of_models,
)
from .judged_run import JudgedRun
from .relation import OF_FORM, STALE, Label, Relation, without_numbers
from .relations import session_faults
from .relations_wrong import WrongOutput
from .thresholds import FEWEST, FEWEST_CALLS, FEWEST_ELEMENTS, NEARLY_ALL

MOST_COMPARED = 8
"""The most causes with which another one is compared, to see whether they are one."""

MOST_MODELS = 40
"""The models, those that the most failures propose, that all failures are compared with."""

MOST_IN_TITLE = 160
"""The most characters of an error's message in a title."""

MOST_HELD_AGAINST = 60
"""The most cases that passed against which a fault is held that few wrong elements propose."""

MOST_RELATED = 200
"""The number of failed cases whose outputs are searched for relations. The others are compared with what these
showed."""


@dataclass(frozen=True)
class Cause:
    """One group: its label, its relation, its failures, and the condition that separates them.

    The failure with the smallest case comes first; of errors, the smallest with the message of the title.

    `relation` counts the wrong elements of the failures that were searched. `condition` is None if no condition holds
    for all failures of the group and for no case that passed.
    """

    label: Label
    relation: Relation
    failures: tuple[Failure, ...]
    condition: Condition | None

    @property
    def smallest(self) -> Failure:
        """The failure with the smallest case."""
        return self.failures[0]

    @property
    def operators(self) -> list[str]:
        """The operators of the failures, by their full names."""
        return sorted({f"DML_OPERATOR_{failure.case.desc.operator}" for failure in self.failures})

    @property
    def is_named(self) -> bool:
        """Whether enough failures have its relation, so that it is a cause of its own."""
        return not self.relation.vague and len(self.failures) >= FEWEST

    @property
    def only_batched(self) -> bool:
        """Whether its cases pass without the other cases of their session."""
        return bool(self.smallest.record.batched_with)

    @property
    def mismatch(self) -> bool:
        """Whether the outputs are wrong. If not, there are none: an error, a crash, a hang."""
        return self.smallest.record.verdict == Verdict.MISMATCH

    @property
    def manner(self) -> str:
        """Says that outputs are wrong; of a failure without an output, its verdict and stage.

        One bug may have many messages.
        """
        return "" if self.mismatch else self.label[1].partition(": ")[0]

    def is_like(self, record: Record) -> bool:
        """Returns whether a record has failed in the manner of this cause: with a wrong output, or without one."""
        if self.smallest.record.verdict is Verdict.NEWLY_UNSUPPORTED:
            return record.verdict is Verdict.UNSUPPORTED  # without the baseline
        return record.failed and (record.verdict == Verdict.MISMATCH) == self.mismatch

    def with_more(self, run: JudgedRun, failures: Sequence[Failure]) -> Cause:
        """Returns the cause with further failures, which show less of the relation than its own ones."""
        more = (Failure(failure.case, failure.record) for failure in failures)
        ordered = tuple(sorted((*self.failures, *more), key=lambda failure: case_size(failure.case)))
        return replace(self, failures=ordered, condition=run.condition([failure.case for failure in ordered]))

    def claims(self, failure: Failure) -> bool:
        """Returns whether a searched failure shows the relation of this cause."""
        if self.relation.vague:
            return False
        if self._label_in(failure) is not None:
            return True
        return self.relation.model is not None and any(relations_of_models(failure, [self.relation]))

    def is_refuted_by(self, failures: Sequence[Failure]) -> bool:
        """Returns whether few descriptors show the fault of this cause, and too many of these failures contradict it.

        These are failures of its operators whose wrong elements it does not give. Of many descriptors, another fault
        may be there.
        """
        fault = self.relation.rule
        own = {failure.case.desc for failure in self.failures}
        if fault is None or fault.session or fault.result or len(own) >= FEWEST:
            return False
        operators = {desc.operator for desc in own}
        wrong = [
            WrongOutput.of(failure.case, actual)
            for failure in failures
            if failure.case.desc.operator in operators
            and (actual := own_output(failure.case, failure.record)) is not None
        ]
        against = {output.case.desc for output in wrong if not _may_be_of(output, fault)}
        return len(against) > (1 - NEARLY_ALL) * len(own | against)

    def relation_of(self, failure: Failure) -> Relation:
        """Returns the relation of one failure: that of the cause if the failure shows it, else its simplest one."""
        label = self._label_in(failure)
        return whole_relation(label, [failure]) if label else failure.relations[0]

    def shows_label(self, failure: Failure) -> bool:
        """Returns whether a searched failure has the label of this cause, also if its relation explains too little."""
        return self._label_in(failure) is not None

    def _label_in(self, failure: Failure) -> Label | None:
        """Returns the failure's label that is one of the cause but for numbers: they depend on the sizes."""
        return next((label for label in failure.labels if without_numbers(label) in self._labels), None)

    @cached_property
    def _labels(self) -> set[Label]:
        """The labels of the cause without numbers: its own; without an output, also those of its failures."""
        more = () if self.mismatch else (label for failure in self.failures for label in failure.labels)
        return {without_numbers(label) for label in (self.label, *more)}


def _may_be_of(wrong: WrongOutput, fault: Fault) -> bool:
    """Returns whether a fault gives the wrong elements of an output. It may change others too."""
    return np.array_equal(fault.bits(wrong.arrays)[wrong.wrong], wrong.wrong_bits)


@lru_cache(maxsize=1)  # reruns and the diagnosis ask for those of the same run
def causes(run: JudgedRun) -> list[Cause]:
    """Returns the groups of the failed cases of a run, the largest first.

    Cases that fail only when batched have groups of their own, without a condition: the failure does not depend on a
    descriptor alone.
    """
    batched = [failure_of(*run.judged[n]) for n in run.failed if n not in set(run.failed_alone)]
    only_batched = [replace(cause, condition=None) for cause in _causes(run, batched)]
    alone = (_with_condition(run, cause) for cause in _fewer(run, _causes_alone(run)))
    groups = [*alone, *only_batched]
    return sorted(groups, key=lambda cause: (-len(cause.failures), case_size(cause.smallest.case)))


def _fewer(run: JudgedRun, groups: Sequence[Cause]) -> list[Cause]:
    """Returns the causes, after those were put together of which one condition is no longer than their own ones
    together.

    So are causes with the same condition, and those whose cases another condition holds for.
    """
    kept: list[Cause] = []
    for cause in sorted(groups, key=lambda cause: -len(cause.failures)):
        home = next((other for other in kept[:MOST_COMPARED] if _is_one(run, other, cause)), None)
        whole = joined(run, [home, cause]) if home else cause
        if home is None or (whole.relation.vague and home.is_named and cause.is_named):
            kept.append(cause)
        else:
            kept[kept.index(home)] = whole
    return kept


def _is_one(run: JudgedRun, first: Cause, second: Cause) -> bool:
    """Returns whether one condition for the failures of two causes costs no more than one for each. They fail alike."""
    if not (first.condition or second.condition) or not run.passed:
        return False
    if first.manner != second.manner:
        return False
    features = [run.features([failure.case for failure in cause.failures]) for cause in (first, second)]
    costs = [cause.condition.cost if cause.condition else inf for cause in (first, second)]
    if costs[0] < inf and first.condition is not None and all(map(first.condition.holds, features[1])):
        return True
    if not first.mismatch and first.label != second.label and not {*first.operators} & {*second.operators}:
        return False  # a list of operators, each with a message of its own
    together = separate([*features[0], *features[1]], run.features(run.passed))
    return together is not None and together.cost <= sum(costs)


def joined(run: JudgedRun, causes: Sequence[Cause]) -> Cause:
    """Returns one cause with the failures of several ones. Its label is the one that most of them have."""
    failures = [failure for cause in causes for failure in cause.failures]
    searched = [failure for failure in failures if failure.relations]
    return cause_of(run, best_label(searched), failures)


def _causes_alone(run: JudgedRun) -> list[Cause]:
    """Returns the groups of the cases that fail alone.

    If many cases failed, an even choice is searched for relations. Another failure belongs to the cause whose fault
    gives its output; or, if the cause is no fault, whose condition holds for it. If there is none, it is searched too.
    """
    of_sessions = _session_faults(run)
    if of_sessions:
        return _causes(run, [_of_session(of_sessions, *run.judged[n]) for n in run.failed_alone])
    listed = [n for n in run.failed_alone if not is_large(run.judged[n][1])]
    chosen = set(listed[:: max(1, -(-len(listed) // MOST_RELATED))])
    searched = with_models([_searched(run, n) for n in sorted(chosen)])
    unsearched = [n for n in run.failed_alone if n not in chosen]
    groups = _causes(run, searched)
    claimed = {n: cause.label for n in unsearched if (cause := _claimant(groups, run, n))}
    if len(claimed) < len(unsearched):
        groups = _causes(run, with_models([*searched, *(_searched(run, n) for n in unsearched if n not in claimed)]))
    more: dict[Label, list[Failure]] = {cause.label: [] for cause in groups}
    for n, label in claimed.items():
        more[label if label in more else groups[0].label].append(Failure(*run.judged[n]))
    return [cause_of(run, c.label, [*c.failures, *more[c.label]]) if more[c.label] else c for c in groups]


def _searched(run: JudgedRun, n: int) -> Failure:
    """Returns the n-th case with its relations. Outputs of earlier calls are used if nothing else is certain."""
    failure = failure_of(*run.judged[n])
    first = failure.relations[0]
    certain = first.explained == first.wrong and not first.vague and first.kind != "values"
    earlier = [] if certain else earlier_calls(run, n)
    return failure_of(*run.judged[n], earlier) if earlier else failure


def with_models(failures: Sequence[Failure]) -> list[Failure]:
    """Returns the failures with the models that others of them propose, where these give the output too."""
    proposed = Counter((r.kind, r.text) for failure in failures for r in failure.relations if r.model)
    by_text = {(r.kind, r.text): r for failure in failures for r in failure.relations if r.model}
    shared = [by_text[key] for key, _ in proposed.most_common(MOST_MODELS)]
    extended = []
    for failure in failures:
        if shared and failure.record.verdict == Verdict.MISMATCH:
            more = relations_of_models(failure, [r for r in shared if (r.kind, r.text) not in failure.labels])
            relations = sorted((*failure.relations, *more), key=lambda relation: relation.vague)
            failure = replace(failure, relations=tuple(relations))
        extended.append(failure)
    return extended


def _causes(run: JudgedRun, failures: Sequence[Failure]) -> list[Cause]:
    return [cause_of(run, label, members) for label, members in _grouped(failures)]


def cause_of(run: JudgedRun, label: Label, failures: Sequence[Failure]) -> Cause:
    """Returns the cause with this label and these failures; its condition separates them from the cases that passed."""
    other_message = {failure.case.id for failure in failures if label[0] == "error" and label not in failure.labels}
    ordered = tuple(sorted(failures, key=lambda f: (f.case.id in other_message, case_size(f.case))))
    relation = told_relation(run, label, ordered)
    return Cause(label, relation, ordered, run.condition([failure.case for failure in ordered]))


def told_relation(run: JudgedRun, label: Label, failures: Sequence[Failure]) -> Relation:
    """Returns the relation of failures, or that none was found: few wrong elements fit a fault by chance.

    So few say enough if the fault changes nothing in the cases that passed and have the same operators and types.
    """
    relation = whole_relation(label, failures)
    fault = relation.rule
    few = relation.explained < FEWEST_ELEMENTS and bool(run.passed)
    if relation.vague or not few or fault is None or fault.session or fault.result:
        return relation
    words = {_types(failure.case) for failure in failures}
    alike = [CaseArrays(case) for case in run.passed if _types(case) in words][:MOST_HELD_AGAINST]
    same = all(np.array_equal(fault.bits(arrays), arrays.right) for arrays in alike)
    return relation if same else relation.unknown()


def _types(case: Case) -> tuple[str, ...]:
    """Returns the operator of a case, and the data types of its tensors."""
    return case.desc.operator, *(tensor.data_type.name for tensor in case.desc.inputs.values())


def without_calls(run: JudgedRun, cause: Cause) -> Cause:
    """Returns a cause without the relations over calls: its smallest case fails as the first call of a process.

    A fault of a session stays if it changes the first call.
    """
    arrays = CaseArrays(cause.smallest.case)
    runs = {name: fault.session() for name, fault in FAULTS.items() if fault.session}
    later = {name for name, bits in runs.items() if np.array_equal(bits(arrays), arrays.right)}
    if cause.label[0] != STALE and cause.label[1] not in later:
        return cause
    failures = [
        replace(failure, relations=tuple(alone) or failure_of(failure.case, failure.record).relations)
        for failure in cause.failures
        for alone in ([r for r in failure.relations if r.kind != STALE and not later & {r.fault, *r.ties}],)
    ]
    return cause_of(run, best_label(failures), failures)


def _with_condition(run: JudgedRun, cause: Cause) -> Cause:
    """Returns a cause with its condition; if it has none, with that among the cases that could have shown its fault."""
    if cause.condition or not cause.relation.rule:
        return cause
    failed = [failure.case for failure in cause.failures]
    passed = run.telling(failed, cause.relation.rule)
    return replace(cause, condition=run.condition(failed, passed))


def _claimant(groups: Sequence[Cause], run: JudgedRun, n: int) -> Cause | None:
    """Returns the cause in `groups` that claims the n-th case, which was not searched; None if there is none.

    A fault gives every output of its cause. One that it does not give needs a search, also if the condition holds for
    the case.
    """
    case, record = run.judged[n]
    if record.verdict != Verdict.MISMATCH or record.actual is None:
        failure = failure_of(case, record)
        return next((cause for cause in groups if cause.claims(failure)), None)
    alike, arrays = [cause for cause in groups if cause.mismatch], CaseArrays(case)
    for cause in alike:
        kind, name = cause.label
        if kind == "fault" and gives(FAULTS[name], arrays, record):
            return cause
        if cause.relation.model and any(relations_of_models(Failure(case, record), [cause.relation])):
            return cause
    (case_features,) = run.features([case])
    by_condition = (cause for cause in alike if cause.condition and cause.label[0] != "fault")
    return next((cause for cause in by_condition if cause.condition and cause.condition.holds(case_features)), None)


def _session_faults(run: JudgedRun) -> list[str]:
    """Returns the fault models of a session that give exactly the outputs of all calls of a run, right and wrong ones.

    There are none if the numbers of the calls are not known, if the run had other calls between its cases, or if an
    output has another type or other sizes than its case: a fault of a session changes neither.
    """
    calls = [run.calls.get(case.id, 0) for case, _ in run.judged]
    follow = all(call in (1, before + 1) and call for before, call in pairwise([0, *calls]))
    if len(calls) < FEWEST_CALLS or not follow:
        return []
    mismatches = [run.judged[n] for n in run.failed if run.judged[n][1].verdict == Verdict.MISMATCH]
    if not mismatches or any(output_of(case, record) is None for case, record in mismatches):
        return []
    firsts = [at for at, call in enumerate(calls) if call == 1]
    processes = (run.judged[first:end] for first, end in pairwise([*firsts, len(calls)]))
    by_process = [
        set(session_faults((case, output_of(case, record)) for case, record in process)) for process in processes
    ]
    return [name for name in FAULTS if all(name in names for names in by_process)]


def _of_session(faults: Sequence[str], case: Case, record: Record) -> Failure:
    """Returns a failure that fault models of a session explain; a failure without an output shows what its record
    says.
    """
    if record.verdict != Verdict.MISMATCH:
        return failure_of(case, record)
    actual = own_output(case, record)
    wrong = 0 if actual is None else len(WrongOutput.of(case, actual).wrong)
    first, *ties = faults
    return Failure(case, record, (Relation("fault", FAULTS[first].text, first, tuple(ties), wrong, wrong),))


# --- groups ---


def _grouped(failures: Sequence[Failure]) -> list[tuple[Label, list[Failure]]]:
    """Returns groups of failures. All failures of a group have its label.

    The label of the most failures comes first; of equal ones, that of the simplest relation of the most failures. The
    only failures of a data type go where more of that type are, if they have that label too.
    """
    left = list(failures)
    groups: list[tuple[Label, list[Failure]]] = []
    while left:
        best = best_label(left)
        groups.append((best, [failure for failure in left if best in failure.labels]))
        left = [failure for failure in left if best not in failure.labels]
    types = [Counter(failure.case.desc.output.data_type for failure in members) for _, members in groups]
    for (_, members), own in zip(groups, types, strict=True):
        for failure in members[:]:
            data_type = failure.case.desc.output.data_type
            rivals = [n for n, (label, _) in enumerate(groups) if label in failure.labels and types[n] is not own]
            home = max(rivals, key=lambda n: types[n][data_type], default=None)
            if home is not None and types[home][data_type] > 2 * own[data_type] < len(members):
                members.remove(failure)
                groups[home][1].append(failure)
    return groups


def best_label(failures: Sequence[Failure]) -> Label:
    """Returns the label that the most failures have; a label that names no rule only if there is no other one."""
    counts = Counter(label for failure in failures for label in failure.labels)
    simplest = Counter(label for failure in failures for label in failure.simplest)
    vague = {label for failure in failures for label, relation in failure.labels.items() if relation.vague}
    order = {label: number for number, label in enumerate(counts)}
    return min(counts, key=lambda label: (label in vague, -counts[label], -simplest[label], order[label]))


def _error_title(label: Label, failures: Sequence[Failure]) -> str:
    """Returns verdict and stage, and what the first lines of the messages have in common; `...` stands for the rest.

    The messages are those of the failures with the label; if there are others, the title says so.
    """
    alike = [failure.record for failure in failures if label in failure.labels]
    if any(record.error_at or record.verdict is Verdict.FLAKY for record in alike):
        return label[1]  # the source line and the code name the error
    words = _common_words([without_stack(record.message or "") for record in alike])
    manner, _, fragment = label[1].partition(": ")
    if not {*words} - {"..."}:
        words = ["...", fragment, "..."] if fragment else []
    what = textwrap.shorten(" ".join(words), MOST_IN_TITLE, placeholder=" ...")
    others = "" if len(alike) == len(failures) else "; some cases have another message"
    return (f"{manner}: {what}" if what else manner) + others


def _common_words(lines: Sequence[str]) -> list[str]:
    """Returns the words that lines have in common from their start on; `...` stands for others."""
    words = [same[0] if len({*same}) == 1 else "..." for same in zip(*map(str.split, lines), strict=False)]
    words += ["..."] * (len({len(line.split()) for line in lines}) > 1)
    return [word for before, word in pairwise(["", *words]) if not before == word == "..."]


def whole_relation(label: Label, failures: Sequence[Failure]) -> Relation:
    """Returns the relation with this label, with the wrong elements of all failures that were searched.

    Its ties are the faults that fit each of them.
    """
    kind, name = label
    searched = [failure for failure in failures if failure.relations]
    of_label = [failure.labels.get(label) for failure in searched]
    explained = sum(r.explained for r in of_label if r)
    wrong = sum((r or failure.relations[0]).wrong for failure, r in zip(searched, of_label, strict=True))
    first = next(r for r in of_label if r)
    explaining = sum(r is not None and r.or_unknown() is r for r in of_label)
    if kind == "error":
        return replace(first, text=_error_title(label, searched))
    if kind in OF_FORM:
        text = " ".join(_common_words([r.text for r in of_label if r]))
        return replace(first, text=text, wrong=wrong).or_unknown(explaining, len(searched))
    if kind != "fault":
        text = "the output is the one of an earlier call" if kind == STALE and len(searched) > 1 else first.text
        whole = replace(first, text=text, explained=explained, wrong=wrong)
        return whole if first.vague else whole.or_unknown(explaining, len(searched))
    having = [failure for failure, r in zip(searched, of_label, strict=True) if r]
    common = set.intersection(*({n for k, n in failure.labels if k == "fault"} for failure in having)) - {name}
    ties = tuple(n for n in FAULTS if n in common)
    return Relation("fault", FAULTS[name].text, name, ties, explained, wrong).or_unknown(explaining, len(searched))
