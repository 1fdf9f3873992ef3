"""The search: draws plans, performs them, shrinks what fails, and goes on to what has not been found yet.

A find is excluded in two ways. Plans that have all the features that a find needs are not drawn, except one in LET_THROUGH:
another defect could hide behind these features. And a failure that equals a find, in a plan with all features that the
find needs, counts for this find and is not shrunk again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import msgspec

from ..diagnosis.shrink import Budget
from ..engines.performer import Performer
from ..operators.random_source import RandomSource, RecordedSource, SeededSource
from .choices import History, RecordedPlan, Sections, joined_plan, shrink_history
from .draw_graph import chance
from .draw_plan import draw_plan
from .features import Features, alike, covers, features, needed, switches_of
from .judging import Failure, Kind, Lost, perform_plan
from .plan import Plan
from .switches import available, draw_switches

LET_THROUGH = 12
"""One in so many plans may have all the features of a find."""

REDRAWS = 64
"""How often a plan is drawn if finds cover it."""

HISTORY = 6
"""If a plan fails in the search but not alone, the search performs this many earlier plans and then the plan again."""

TRIALS, SHRINK_SECONDS = 1500, 180.0
"""The most plans and the most seconds that are spent to make one failing plan smaller."""

TRIES: dict[Kind, int] = {"silent": 2, "crash": 3, "hang": 1, "refusal": 1}
"""How often a plan is performed until it fails: what depends on memory does not fail each time."""

FRESH_TRIALS = 60
"""The most trials of a shrinking in which each trial needs a process of its own."""

RENEW = 150
"""A process performs this many plans; then a fresh one starts."""


class Find(msgspec.Struct, frozen=True, kw_only=True):
    """A defect that was found: the shrunk plan and its failure.

    - `number`: the number of the plan that failed first.
    - `needs`: the features of the shrunk plan, for each session.
    - `stable`: whether the shrunk plan fails in a fresh process.
    - `unshrunk`: the recorded numbers of its plans, if the time was over before it was shrunk; else empty.
    """

    id: str
    kind: Kind
    text: str
    number: int
    failure: Failure
    plan: Plan
    needs: list[list[str]]
    stable: bool = True
    unshrunk: tuple[Sections, ...] = ()

    @property
    def features(self) -> Features:
        """The features that the find needs."""
        return tuple(frozenset(session_needs) for session_needs in self.needs)

    def explains(self, plan: Features) -> bool:
        """Returns whether a plan with these features and the same failure needs no shrinking.

        Wrong values alone say little. So a find of wrong values that needs no feature explains no other plan.
        """
        return covers(self.features, plan) or (self.kind != "silent" and not any(self.features))


Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


@dataclass
class Counts:
    """How far a search is, in numbers. `seconds` counts the whole search, `shrinking` the part that shrinks finds."""

    next: Count = 0
    seconds: Seconds = 0.0
    sequences: Count = 0
    duplicates: Count = 0
    known: Count = 0
    both: Count = 0
    unstable: Count = 0
    unsupported: Count = 0
    shrinking: Seconds = 0.0


@dataclass
class Progress(Counts):
    """How far a search is, what it has found, and why it stopped."""

    finds: list[Find] = field(default_factory=list)
    stopped: str | None = None


@dataclass(kw_only=True)
class Search:
    """One search.

    - `fresh()`: returns a performer whose process is new. It is called at the start, and after each failure.
    - `control()`: returns a performer that says whether a refusal is a defect; None takes every refusal for one.
    - `allowed`: the switches that plans may have.
    - `excluded`: known defects as kinds and features. Plans with these features are not drawn.
    - `keep_on`: whether a hang or a lost device does not end the search.
    - `found(find)`: called with each find. `advance(progress)`: called after each plan.
    """

    fresh: Callable[[], Performer]
    seed: int
    seconds: float
    control: Callable[[], Performer] | None = None
    allowed: frozenset[str] = available("runtime")
    excluded: Sequence[tuple[Kind, Features]] = ()
    keep_on: bool = True
    limit: float | None = None
    most_sequences: int | None = None
    found: Callable[[Find], None] = lambda find: None
    advance: Callable[[Progress], None] = lambda progress: None
    progress: Progress = field(default_factory=Progress)
    clock: Callable[[], float] = time.monotonic

    def run(self) -> Progress:
        """Searches until the time is over. Returns what was found."""
        progress = self.progress
        self._start()
        while progress.stopped is None and progress.seconds < self.seconds:
            if self.most_sequences is not None and progress.sequences >= self.most_sequences:
                break
            start = self.clock()
            number = progress.next
            progress.next += 1
            recorded = self.draw(number)
            try:
                failure = perform_plan(recorded.plan, self._performer, self.limit) if recorded else None
            except Lost as error:
                progress.stopped = str(error)
                break
            if recorded:
                progress.sequences += 1
                self._past.append(recorded)
                if failure:
                    left = self.seconds - progress.seconds - (self.clock() - start)
                    self._failed(number, recorded.plan, failure, left / 2)  # the other half is for further finds
                elif len(self._past) >= RENEW:
                    self._renew()
            progress.seconds += self.clock() - start
            self.advance(progress)
        return progress

    def _start(self) -> None:
        self._control = self.control() if self.control else None
        self._renew()

    def shrink_finds(self) -> Progress:
        """Shrinks the finds for which the search had no time. Returns what is left of them."""
        self._start()
        for find in [find for find in self.progress.finds if find.unshrunk]:
            plans = tuple(RecordedPlan.draw(self._draw_again, RecordedSource(None, s)) for s in find.unshrunk)
            self._shrink(find, plans, SHRINK_SECONDS)
            self._renew()
            self.advance(self.progress)
        return self.progress

    def draw(self, number: int) -> RecordedPlan | None:
        """Returns plan `number`; None if only plans were drawn that finds cover."""
        excluded = [*(find.features for find in self.progress.finds), *(needs for _, needs in self.excluded)]
        if chance(SeededSource(_mixed(self.seed, number, 0)), LET_THROUGH):
            excluded = []
        for attempt in range(1, REDRAWS):
            seeded = SeededSource(_mixed(self.seed, number, attempt))
            switches = draw_switches(seeded, self.allowed)
            if any(needs and needs <= switches for needs in map(switches_of, excluded)):
                continue
            recorded = RecordedPlan.draw(partial(draw_plan, switches=switches), RecordedSource(seeded))
            if not any(covers(find, features(recorded.plan)) for find in excluded):
                return recorded
        return None

    # --- a failure ---

    def _failed(self, number: int, plan: Plan, failure: Failure, seconds: float) -> None:
        """Shrinks a failure for some seconds, unless it is known or found already, and adds it to the finds."""
        progress, start = self.progress, self.clock()
        if failure.unsupported:
            progress.unsupported += 1
        elif self._refused_by_control(plan, failure):
            progress.both += 1
        elif self._is_known(plan, failure):
            progress.known += 1
        elif any(f.failure.same(failure) and f.explains(features(plan)) for f in progress.finds):
            progress.duplicates += 1
        elif failure.kind == "hang" and not self.keep_on:
            progress.stopped = f"{failure.text}; --rerun-dangerous goes on after a hang or a lost device"
            self._add(self._find(number, plan, failure))
        else:
            past = tuple(self._past[-HISTORY:])
            for plans in (past[-1:], past):
                self._renew()
                if again := self._fails(joined_plan(plans), failure):
                    self._shrink(self._find(number, joined_plan(plans), again), plans, seconds)
                    break
            else:
                progress.unstable += 1
        self._renew()
        progress.shrinking += self.clock() - start

    def _find(self, number: int, plan: Plan, failure: Failure) -> Find:
        """Returns a new find."""
        return Find(
            id=f"{failure.kind}-{len(self.progress.finds) + 1}",
            kind=failure.kind,
            text=failure.text,
            number=number,
            failure=failure,
            plan=plan,
            needs=_sorted(needed(plan)),
        )

    def _shrink(self, find: Find, plans: History, seconds: float) -> None:
        """Adds a find with the smallest plan that is found in these seconds."""
        failure = find.failure

        def fails(candidate: Plan, fresh: bool = False) -> bool:
            if fresh:
                self._renew()
            return self._fails(candidate, failure) is not None

        budget = Budget(TRIALS, min(seconds / 2, SHRINK_SECONDS), self.clock)
        smallest = shrink_history(plans, fails, self._draw_again, budget)
        self._renew()
        last = self._fails(joined_plan(smallest), failure)
        if last is None and smallest != plans:  # what earlier trials left in the process has helped
            budget = Budget(FRESH_TRIALS, min(seconds / 2, SHRINK_SECONDS), self.clock)
            smallest = shrink_history(plans, partial(fails, fresh=True), self._draw_again, budget)
            self._renew()
            last = self._fails(joined_plan(smallest), failure)
        plan, shown = joined_plan(smallest), last or failure
        shrunk = msgspec.structs.replace(
            find,
            plan=plan,
            failure=shown,
            text=shown.text,
            needs=_sorted(needed(plan)),
            stable=last is not None,
            unshrunk=tuple(recorded.sections for recorded in smallest) if budget.spent else (),
        )
        if self._is_known(plan, failure):
            self.progress.known += 1
            self._remove(find)
        else:
            self._add(shrunk, features(find.plan))

    def _draw_again(self, source: RandomSource) -> Plan:
        return draw_plan(source, self.allowed)

    def _add(self, find: Find, original: Features = ()) -> None:
        """Adds a find, unless the plan that failed first, with the features `original`, shrank to an earlier find."""
        progress, name = self.progress, find.id
        self._remove(find)
        for other in progress.finds:
            if not other.failure.same(find.failure):
                continue
            is_alike = alike(other.features, find.features)  # what only one of the two has is there by chance
            if is_alike or covers(other.features, find.features) or other.features == find.features:
                progress.duplicates += 1
                self._generalize(other, find.features if is_alike else original)
                return
            if covers(find.features, other.features):  # the other find needs less than it seemed
                progress.duplicates += 1
                name = other.id
        find = msgspec.structs.replace(find, id=name)
        self._remove(find)
        progress.finds.append(find)
        self.found(find)

    def _remove(self, find: Find) -> None:
        """Removes the find with the id of this one, if there is one."""
        self.progress.finds[:] = [other for other in self.progress.finds if other.id != find.id]

    def _generalize(self, find: Find, original: Features) -> None:
        """Removes needs of a find that another plan, which shrank to the same failure, does not have."""
        seen = frozenset().union(*original)
        needs = _sorted(tuple(session_needs & seen for session_needs in find.features))
        if original and needs != find.needs:
            changed = msgspec.structs.replace(find, needs=needs)
            self.progress.finds[:] = [changed if other is find else other for other in self.progress.finds]
            self.found(changed)

    def _fails(self, plan: Plan, failure: Failure) -> Failure | None:
        """Performs a plan. Returns its failure if it shows the same as `failure`; else None."""
        for _ in range(TRIES[failure.kind]):
            got = perform_plan(plan, self._performer, self.limit)
            if got is not None:
                break
        if got is None:
            return None
        same = got.kind == failure.kind and (got.kind in ("crash", "hang") or got.signature == failure.signature)
        return got if same and not self._refused_by_control(plan, got) else None

    def _is_known(self, plan: Plan, failure: Failure) -> bool:
        return any(kind == failure.kind and covers(needs, features(plan)) for kind, needs in self.excluded)

    def _refused_by_control(self, plan: Plan, failure: Failure) -> bool:
        """Returns whether the control fails in the same step. Then the plan is not allowed, and there is no defect."""
        if self._control is None or not (failure.kind == "refusal" or failure.signature == "accepted"):
            return False
        other = perform_plan(plan, self._control)
        return other is not None and other.at <= failure.at

    def _renew(self) -> None:
        self._performer = self.fresh()
        self._past: list[RecordedPlan] = []


def draw_sequence(source: RandomSource, allowed: frozenset[str] = available("runtime")) -> Plan:
    """Returns a random plan that has only switches in `allowed`."""
    return draw_plan(source, draw_switches(source, allowed))


def _sorted(needs: Features) -> list[list[str]]:
    return [sorted(session_needs) for session_needs in needs]


def _mixed(seed: int, number: int, attempt: int) -> int:
    """Returns one seed for a plan."""
    return (seed * 1_000_003 + number) * REDRAWS + attempt
