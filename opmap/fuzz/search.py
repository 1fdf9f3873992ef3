"""The search: draws plans, performs them, shrinks what fails, and goes on to what has not been found yet.

A find is excluded in two ways. Plans that have all the features that a find needs are not drawn, except one in
LET_THROUGH: another defect could hide behind these features. And a failure that equals a find, in a plan with all
features that the find needs, counts for this find and is not shrunk again.

What ran often is performed less often. The search draws a few plans, and performs the one whose operators, forms and
ways are the rarest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count as count_from
from math import inf
from typing import Annotated, Literal

import msgspec

from ..engines.performer import Performer
from ..errors import without_stack
from ..operators.random_source import RandomSource, SeededSource
from ..reducer import Budget, shrink
from ..tensors import DataType
from . import reference
from .coverage import Table, Watched, count, count_pairs, rarity
from .draw_graph import chance
from .draw_plan import WAYS, draw_idiom, draw_plan
from .features import Features, alike, covers, features, needed, operators, shared, without_context
from .graphs import Graph, Node, Source
from .handed_over import Maker, maker
from .judging import SESSIONS, WINDOWS, Failure, Kind, Lost, growth_of, other_answers, perform_plan
from .plan import Opening, Plan, Running, joined
from .reference import Invalid
from .smaller import fewer_actions, fewer_sessions, plainer_actions, plainest, smaller_graphs
from .state import planned
from .switches import available, draw_switches
from .table import Piece, pieces

LET_THROUGH = 12
"""One in so many plans may have all the features of a find."""

REDRAWS = 64
"""How often a plan is drawn if finds cover it."""

CHOICES = 2
"""Of so many plans the rarest one is performed."""

FRESH = 24
"""One in so many plans begins in a fresh process: what happens first in a process happens there only."""

HISTORY = 6
"""If a plan fails in the search but not alone, the search performs this many earlier plans and then the plan again."""

TRIALS, SHRINK_SECONDS = 1500, 40.0
"""The most plans and the most seconds that are spent to make one failing plan smaller."""

SHRINK_SHARE = 3
"""All failures together get one of so many parts of the search's seconds, one failure half of what is left of it."""

LATER_SECONDS = 300.0
"""The most seconds for a find that is shrunk after the search."""

RESERVE = 3
"""So many starts of a process, or repetitions of a plan, or waits for an answer, are taken for what a failure costs
beside shrinking."""

TRIES: dict[Kind, int] = {"silent": 2, "crash": 3, "hang": 1, "refusal": 1, "growth": 1}
"""How often a plan is performed until it fails: what depends on memory does not fail each time."""

REPEATED = 40
"""One in so many plans that are right is repeated, to see whether the process holds more memory each time."""


class Find(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A defect that was found: the shrunk plan and its failure.

    - `number`: the number of the plan that failed first.
    - `needs`: the features of the shrunk plan, for each session.
    - `stable`: whether the shrunk plan fails in a fresh process.
    - `unshrunk`: whether the time was over before it was shrunk to the end.
    - `oracle`: what gave the expected values. `odd`: which of three answers alone differs, if that was asked.
    - `made_by`: if the fused graph is it, who made the wrong values: the EP, whose graph is wrong, or DirectML.
    - `works`: what works in its place: the other way on the same provider, or the CPU EP.
    - `model`, `feeds`: of a crash of the control, the model and its inputs: type, sizes, and bytes.
    - `seconds`: when it was found.
    """

    id: str
    kind: Kind
    text: str
    number: int
    failure: Failure
    plan: Plan
    needs: list[list[str]]
    stable: bool = True
    unshrunk: bool = False
    oracle: Literal["pseudocode", "three answers"] = "pseudocode"
    odd: str = ""
    made_by: Maker = ""
    works: tuple[str, ...] = ()
    model: bytes = b""
    feeds: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    seconds: float = 0.0

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
    """How far a search is, in numbers.

    `seconds` counts the whole search, `shrinking` the part that shrinks finds, `covered` the sequences that have what a
    shipped defect needs. `pairs` has the pairs of switches that were proven to run together, `probes` what sequences
    showed that do what the DirectML EP's documentation does not allow.
    """

    next: Count = 0
    seconds: Seconds = 0.0
    sequences: Count = 0
    covered: Count = 0
    duplicates: Count = 0
    known: Count = 0
    both: Count = 0
    unstable: Count = 0
    unsupported: Count = 0
    uncompiled: Count = 0
    shrinking: Seconds = 0.0
    coverage: Table = field(default_factory=dict)
    pairs: Table = field(default_factory=dict)
    probes: Table = field(default_factory=dict)


@dataclass
class Progress(Counts):
    """How far a search is, what it has found, and why it stopped."""

    finds: list[Find] = field(default_factory=list)
    stopped: str | None = None


@dataclass(frozen=True)
class Excluded:
    """A known defect: what a plan needs to show it, and the kind of its failure, whose text has one of `texts`."""

    kind: Kind
    needs: Features
    texts: Sequence[str]

    def describes(self, failure: Failure) -> bool:
        """Returns whether a failure is the one that the defect states."""
        return self.kind == failure.kind and any(text in failure.text for text in self.texts)


@dataclass(kw_only=True)
class Search:
    """One search.

    - `fresh()`: returns a performer whose process is new. It is called at the start, and after each failure.
    - `control()`: returns a performer that says whether a refusal is a defect; None takes every refusal for one.
    - `sibling()`: returns a performer on the CPU EP of the provider's own package: what fails there too is no find.
    - `allowed`: the switches that plans may have.
    - `excluded`: known defects. Plans with their features are not drawn.
    - `beyond`: parts of messages that say that this device cannot do it: then a refusal is no find. It is counted by
      itself, because it may hide a defect.
    - `three`: whether the provider runs a model in two ways, so that three answers say which one is wrong.
    - `idioms`: performs each idiom of the table alone, in all its types, in place of drawn plans.
    - `keep_on`: whether a hang or a lost device does not end the search.
    - `found(find)`: called with each find. `advance(progress)`: called after each plan.
    """

    fresh: Callable[[], Performer]
    seed: int
    seconds: float
    control: Callable[[], Performer] | None = None
    sibling: Callable[[], Performer] | None = None
    allowed: frozenset[str] = available("runtime")
    excluded: Sequence[Excluded] = ()
    beyond: Sequence[str] = ()
    three: bool = False
    idioms: bool = False
    keep_on: bool = True
    limit: float | None = None
    most_sequences: int | None = None
    found: Callable[[Find], None] = lambda find: None
    advance: Callable[[Progress], None] = lambda progress: None
    progress: Progress = field(default_factory=Progress)
    clock: Callable[[], float] = time.monotonic
    _end: float = inf
    _starting: float = 0.0
    """The longest time in which a process started."""
    _repeating: float = 0.0
    """The longest time in which a plan was repeated."""

    def run(self) -> Progress:
        """Searches until the time is over. Returns what was found."""
        progress = self.progress
        self._start()
        before, start = progress.seconds, self.clock()
        self._end = start + self.seconds - before
        while progress.stopped is None and self._left() > min(RESERVE * self._starting, self.seconds / 10):
            if self.most_sequences is not None and progress.sequences >= self.most_sequences:
                break
            number = progress.next
            progress.next += 1
            if self.idioms and number >= len(_alone()) * len(WAYS):
                progress.stopped = f"all {len(_alone())} idioms were run, {len(WAYS)} times each"
                break
            plan = self.draw(number)
            if chance(SeededSource(_mixed(self.seed, number, REDRAWS)), FRESH):
                self._renew()
            try:
                began, limit = self.clock(), self._limit()
                failure = perform_plan(plan, self._performer, limit) if plan else None
                if failure and failure.kind == "hang" and limit != self.limit and self._left() <= 0:
                    progress.next, progress.stopped = number, f"the time was over before sequence {number} answered"
                    break
                repeated = chance(SeededSource(_mixed(self.seed, number, REDRAWS + 1)), REPEATED)
                lasts = max(self._repeating, (self.clock() - began) * SESSIONS * WINDOWS)
                if plan and failure is None and repeated and self._left() > RESERVE * lasts:
                    began = self.clock()
                    failure = self._perform(plan, self._performer, "growth")
                    self._repeating = max(self._repeating, self.clock() - began)
            except Lost as error:
                progress.stopped = str(error)
                break
            self._blame_control(number)
            if plan:
                progress.sequences += 1
                found = features(plan)
                progress.covered += any(covers(known.needs, found) for known in self.excluded)
                count(progress.coverage, plan, self._performer.placements)
                if failure is None:
                    count_pairs(progress.pairs, found, self._performer.placements, self.three)
                self._performer.placements.clear()
                self._past.append(plan)
                if self.three and "one-session" in frozenset().union(*found):
                    key = f"one session on two threads {failure.kind if failure else 'right'}"
                    progress.probes[key] = progress.probes.get(key, 0) + 1
                    self._renew()
                elif failure:
                    self._failed(number, plan, failure)
            progress.seconds = before + self.clock() - start
            self.advance(progress)
        return progress

    def _left(self) -> float:
        """Returns how many seconds are left."""
        return self._end - self.clock()

    def _limit(self) -> float | None:
        """Returns how long a step may take: no longer than the search."""
        return self.limit and min(self.limit, max(self._left(), 1.0))

    def _start(self) -> None:
        self._control = self.control() if self.control else None
        self._renew()

    def shrink_finds(self) -> Progress:
        """Shrinks the finds for which the search had no time. Returns what is left of them."""
        self._end = inf
        self._start()
        for find in [find for find in self.progress.finds if find.unshrunk]:
            self._shrink(find, find.plan, LATER_SECONDS)
            self._renew()
            self.advance(self.progress)
        return self.progress

    def draw(self, number: int) -> Plan | None:
        """Returns plan `number`; None if only plans were drawn that finds cover."""
        if self.idioms:
            piece, data_type = _alone()[number % len(_alone())]
            return draw_idiom(SeededSource(_mixed(self.seed, number, 0)), piece, data_type, number // len(_alone()))
        drawn: list[Plan] = []
        avoided = [*(find.features for find in self.progress.finds), *(known.needs for known in self.excluded)]
        if chance(SeededSource(_mixed(self.seed, number, 0)), LET_THROUGH):
            avoided = []
        for attempt in range(1, REDRAWS):
            seeded = SeededSource(_mixed(self.seed, number, attempt))
            with suppress(Invalid):
                drawn.append(draw_plan(seeded, draw_switches(seeded, self.allowed), avoided))
            if len(drawn) == CHOICES:
                break
        return max(drawn, key=partial(rarity, self.progress.coverage), default=None)

    def _blame_control(self, number: int) -> None:
        """Adds a find for each new crash of the CPU EP while it computed expected values."""
        for lost in reference.take_losses():
            text = f"the control crashes on {lost.operators}: {without_stack(str(lost))}"
            failure = Failure(kind="crash", text=text, signature=f"control: {lost.operators}", at=0)
            feeds = {name: (array.dtype.name, array.shape, array.tobytes()) for name, array in lost.feeds.items()}
            find = self._find(number, Plan(graphs=(), actions=()), failure)
            find = msgspec.structs.replace(find, id=f"control-{number}", model=lost.model, feeds=feeds)
            if not any(failure.same(other.failure) for other in self.progress.finds):
                self.progress.finds.append(find)
                self.found(find)

    # --- a failure ---

    def _failed(self, number: int, plan: Plan, failure: Failure) -> None:
        """Shrinks a failure in a part of the time that is left for it, unless it is known or found already, and adds it
        to the finds.
        """
        progress, start = self.progress, self.clock()
        for fewer in fewer_sessions(plan) if self._fails_on_control(plan, failure) else ():
            if _is_allowed(fewer) and (again := self._fails(fewer, failure)):
                plan, failure, self._past[-1] = fewer, again, fewer  # the control fails in another session only
                break
        reserved = RESERVE * (self._repeating if failure.kind == "growth" else self._starting)
        share = self.seconds / SHRINK_SHARE - progress.shrinking - reserved
        ended = msgspec.structs.replace(plan, actions=plan.actions[: failure.at + 1])
        if failure.unsupported:
            progress.unsupported += 1
        elif failure.kind == "refusal" and any(part in failure.text for part in self.beyond):
            progress.uncompiled += 1
        elif self._fails_on_control(plan, failure):
            progress.both += 1
        elif self._is_known(plan, failure):
            progress.known += 1
        elif any(find.failure.same(failure) and find.explains(features(plan)) for find in progress.finds):
            progress.duplicates += 1
        elif failure.kind == "hang" and not self.keep_on:
            progress.stopped = f"{failure.text}; --rerun-dangerous goes on after a hang or a lost device"
            self._add(self._find(number, plan, failure))
        elif self._fails_beside(ended, failure):  # a smaller plan may be right there by chance
            progress.both += 1
        elif min(share, self._left()) < (RESERVE * (self.limit or 0) if failure.kind == "hang" else 0):
            self._add(msgspec.structs.replace(self._find(number, ended, failure), unshrunk=True))
        else:
            past = tuple(self._past[-HISTORY:])
            for plans in (past[-1:], past):
                self._renew()
                whole = joined(plans)
                if again := self._fails(whole, failure):
                    ended = msgspec.structs.replace(whole, actions=whole.actions[: again.at + 1])
                    left = min(share - (self.clock() - start), self._left() - reserved)
                    self._shrink(self._find(number, whole, again), ended, min(left / 2, SHRINK_SECONDS))
                    break
            else:
                progress.unstable += 1
        self._renew()
        progress.shrinking += self.clock() - start

    def _find(self, number: int, plan: Plan, failure: Failure) -> Find:
        """Returns a new find, whose id no other one has."""
        ids = {find.id for find in self.progress.finds}
        return Find(
            id=next(id for at in count_from(len(ids) + 1) if (id := f"{failure.kind}-{at}") not in ids),
            kind=failure.kind,
            text=failure.text,
            number=number,
            failure=failure,
            plan=plan,
            needs=_sorted(needed(plan)),
            oracle="three answers" if any(graph.computes for graph in plan.graphs) else "pseudocode",
            seconds=round(self.progress.seconds, 1),
        )

    def _shrink(self, find: Find, whole: Plan, seconds: float) -> None:
        """Adds a find with the smallest plan that is found in these seconds."""
        failure, end = find.failure, self.clock() + seconds

        def fails(candidate: Plan, confirmed: bool) -> bool:
            if self._fails(candidate, failure) is None:
                return False
            if confirmed:
                self._renew()
            return not confirmed or self._fails(candidate, failure) is not None

        def smallest_of(plan: Plan, confirmed: bool) -> Plan:
            """Returns the smallest plan that fails. `confirmed`: each one fails in a fresh process too."""
            budgets.append(Budget(TRIALS, max(end - self.clock(), 0.0), self.clock))
            first = [plainest] if failure.kind == "crash" else []
            steps = [fewer_sessions, *first, fewer_actions, smaller_graphs, plainer_actions]
            fails_so = partial(fails, confirmed=confirmed)
            return shrink(plan, fails_so, steps, key=msgspec.json.encode, valid=_is_allowed, budget=budgets[-1])

        budgets: list[Budget] = []
        plan = smallest_of(whole, False)
        self._renew()
        last = self._fails(plan, failure)
        if last is None and plan != whole:  # what earlier trials left in the process has helped
            plan = smallest_of(whole, True)
            self._renew()
            last = self._fails(plan, failure)
        shown = last or failure
        asked = self.three and shown.kind == "silent"
        odd, works = other_answers(plan, shown, self._performer, self._limit()) if self.three else ("", ())
        made_by = maker(plan, self._performer) if asked else ""
        shrunk = msgspec.structs.replace(
            self._find(find.number, plan, shown),
            id=find.id,
            seconds=find.seconds,
            stable=last is not None,
            unshrunk=budgets[-1].spent,
            odd=odd,
            made_by=made_by,
            works=(*works, *(["the CPU EP"] if self._control and perform_plan(plan, self._control) is None else [])),
        )
        if self._fails_beside(plan, shown):
            self.progress.both += 1
            self._remove(find)
        elif self._is_known(plan, failure):
            self.progress.known += 1
            self._remove(find)
        else:
            self._add(shrunk, features(find.plan))

    def _add(self, find: Find, original: Features = ()) -> None:
        """Adds a find. Of several that are one, the smallest stays.

        An earlier find stays too if the plan that failed first, with the features `original`, shrank to it. Then it
        needs only what that plan has.
        """
        progress = self.progress
        self._remove(find)
        others = [other for other in progress.finds if other.failure.same(find.failure)]
        kept = next((other for other in others if _is_shown_by(other, find)), None)
        if kept:
            progress.duplicates += 1
            seen = find.features if _are_alike(kept, find) else original
            needs = _sorted(tuple(session_needs & frozenset().union(*seen) for session_needs in kept.features))
            if not seen or needs == kept.needs or not all(needs):
                return
            find = msgspec.structs.replace(kept, needs=needs)
        gone = [o for o in others if o is not kept and (covers(find.features, o.features) or _are_alike(find, o))]
        progress.duplicates += len(gone)
        if gone and not kept:
            find = msgspec.structs.replace(find, id=gone[-1].id)
        left = [find if other is kept else other for other in progress.finds if other not in gone]
        progress.finds[:] = left if kept else [*left, find]
        self.found(find)

    def _remove(self, find: Find) -> None:
        """Removes the find with the id of this one, if there is one."""
        self.progress.finds[:] = [other for other in self.progress.finds if other.id != find.id]

    def _fails(self, plan: Plan, failure: Failure) -> Failure | None:
        """Performs a plan. Returns its failure if it shows the same as `failure`; else None."""
        for _ in range(TRIES[failure.kind]):
            try:
                got = self._perform(plan, self._performer, failure.kind)
            except Invalid:
                return None
            if got is not None:
                break
            if failure.kind == "crash":  # what the plan left in the process must not end the next one
                perform_plan(_PLAIN, self._performer, self._limit())
        if got is None:
            return None
        same = got.kind == failure.kind and (got.kind in ("crash", "hang") or got.signature == failure.signature)
        return got if same and not self._fails_on_control(plan, got) else None

    def _perform(self, plan: Plan, performer: Performer, kind: Kind) -> Failure | None:
        """Performs a plan, or repeats it, to see a failure of this kind."""
        if kind == "growth":
            return growth_of(plan, performer, self._limit(), lambda: self._left() <= -RESERVE * self._repeating)
        return perform_plan(plan, performer, self._limit())

    def _is_known(self, plan: Plan, failure: Failure) -> bool:
        return any(known.describes(failure) and covers(known.needs, features(plan)) for known in self.excluded)

    def _fails_on_control(self, plan: Plan, failure: Failure) -> bool:
        """Returns whether the control fails in the same step. Then the plan is not allowed, and there is no defect."""
        if self._control is None or failure.kind not in ("refusal", "silent"):
            return False
        other = perform_plan(plan, self._control)
        if failure.kind == "refusal" or failure.signature == "accepted":
            return other is not None and other.at <= failure.at
        return failure.same(other) and other is not None and other.at == failure.at

    def _fails_beside(self, plan: Plan, failure: Failure) -> bool:
        """Returns whether the CPU EP of the same package shows the same: its version may have a defect of its own, as
        in folding.

        Memory that grows, and a crash, are compared with any CPU EP.
        """
        beside = self.sibling if failure.kind not in ("crash", "hang") else None
        beside = beside or (self.control if failure.kind in ("growth", "crash") else None)
        if beside is None:
            return False
        # a session that is refused hides the steps behind it
        fewer = fewer_sessions(plan) if failure.kind != "growth" else ()
        plans = (each for each in (plan, *filter(_is_allowed, fewer)) for _ in range(TRIES[failure.kind]))
        others = [self._perform(each, beside(), failure.kind) for each in plans]
        return any((o is not None and o.kind == failure.kind == "crash") or failure.same(o) for o in others)

    def _renew(self) -> None:
        """Has the next plan begin in a fresh process."""
        self._performer = Watched(self._started)
        self._past: list[Plan] = []

    def _started(self) -> Performer:
        began, performer = self.clock(), self.fresh()
        self._starting = max(self._starting, self.clock() - began)
        return performer


_COPY = Node(op="Identity", inputs=("x",), outputs=("y",))
_PLAIN = Plan(
    graphs=(Graph(sources=(Source(name="x", data_type="FLOAT32", sizes=(1,)),), nodes=(_COPY,), outputs=("y",)),),
    actions=(Opening(session="plain"), Running(session="plain")),
)
"""A plan that every provider performs."""


def draw_sequence(source: RandomSource, allowed: frozenset[str] = available("runtime")) -> Plan:
    """Returns a random plan that has only switches in `allowed`."""
    return draw_plan(source, draw_switches(source, allowed))


@cache
def _alone() -> list[tuple[Piece, DataType]]:
    """Returns what `--idioms` runs."""
    return [(piece, data_type) for piece in pieces() for data_type in piece.data_types]


def _are_alike(one: Find, other: Find) -> bool:
    """Returns whether two finds with the same failure are one: what only one of them has is there by chance."""
    says_all = one.kind == "refusal" and ".cpp(" not in one.failure.signature  # a message of its own
    few = says_all or (one.kind != "silent" and (one.unshrunk or other.unshrunk))
    return (
        # the same line of the sources refuses the same operators: the rest is there by chance
        (one.kind == "refusal" and operators(one.plan) == operators(other.plan))
        or alike(one.features, other.features)
        or (one.odd == other.odd and without_context(one.plan) == without_context(other.plan))
        or (few and shared(one.features, other.features))
    )


def _is_shown_by(find: Find, new: Find) -> bool:
    """Returns whether a new find with the same failure shows an earlier one, and nothing that is smaller."""
    if _are_alike(find, new):
        return new.unshrunk or not find.unshrunk
    return covers(find.features, new.features) or find.features == new.features


def _is_allowed(plan: Plan) -> bool:
    try:
        return bool(planned(plan))
    except Invalid:
        return False


def _sorted(needs: Features) -> list[list[str]]:
    return [sorted(session_needs) for session_needs in needs]


def _mixed(seed: int, number: int, attempt: int) -> int:
    """Returns one seed for a plan."""
    return (seed * 1_000_003 + number) * REDRAWS + attempt
