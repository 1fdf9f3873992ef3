"""The next question: a case between two values of a boundary, or one that shows what no case has shown yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..cases.case import Case
from ..cases.features import Features, Value, features
from .conditions import Comparison, Condition
from .evidence import Evidence
from .regions import Facet, Region, facets, regions_of

TRIES = 180
"""The number of new cases without a new facet after which a region counts as seen."""

MOST_TRIES = 5000
"""The most new cases that are made for one question."""

STARTS, STEPS = 16, 50
"""A rare case is made in up to STEPS steps; this is tried STARTS times."""

FRESH = 15
"""The number of cases of another operator of which the best one is taken first."""

_RARE = ("operator", "data_type", "index_type", "index_path")
"""The features of which a value that is rare in a region is made step by step."""

Question = tuple[Case, Features]


@dataclass
class _Seen:
    """What is known of one region: the facets that were seen, cases to ask, the tries without a new facet, and words tried."""

    facets: set[Facet] = field(default_factory=set)
    pool: list[tuple[Case, Features, frozenset[Facet]]] = field(default_factory=list)
    tries: int = 0
    impossible: set[tuple[str, Value]] = field(default_factory=set)


class Questions:
    """The questions about one condition. `given_up` are the gaps between two values in which no case was found."""

    def __init__(self, condition: Condition, evidence: Evidence, given_up: set[tuple[str, int, int]]) -> None:
        self.condition, self.evidence, self.given_up, self.new = condition, evidence, given_up, evidence.new
        comparisons = [c for conjunction in condition.any for c in conjunction]
        self.marks = {int(c.value) + d for c in comparisons for d in (-1, 0, 1) if type(c.value) is int}
        self.features = {c.feature for c in comparisons}
        self.new.aims = tuple(sorted(m for m in self.marks if m > 0))
        self.regions = {region: _Seen() for region in regions_of(condition)}
        for case_features in (*evidence.failures, *evidence.passes):
            self.count(case_features)

    def count(self, case_features: Features) -> None:
        """Counts what a case shows as seen."""
        shown = self._facets(case_features)
        for region, seen in self.regions.items():
            if region.holds(case_features):
                seen.facets |= shown

    def next(self) -> Question | None:
        """Returns the next question; None if nothing is left to ask."""
        return self._halving() or self._most_new() or self._rare()

    def _facets(self, case_features: Features) -> frozenset[Facet]:
        return frozenset(facets(case_features, self.marks, self.features))

    def _halving(self) -> Question | None:
        """Returns a case between the last passing and the first failing value of a comparison.

        All other comparisons hold.
        """
        for conjunction in self.condition.any:
            for comparison in conjunction:
                if comparison.op not in ("<", "<=", ">", ">="):
                    continue
                name, up = comparison.feature, comparison.op[0] == ">"
                region = Region(tuple(c for c in conjunction if c is not comparison), comparison, self.condition)
                edge = int(comparison.value) + {">": 1, "<": -1}.get(comparison.op, 0)  # type: ignore[arg-type]
                outer = [int(g[name]) for g in self.evidence.passes if name in g and region.holds(g)]
                near = max(outer, default=0) if up else min(outer, default=2 * edge + 2)
                low, high = sorted((near, edge))
                if high - low < 2 or (name, low, high) in self.given_up:
                    continue
                question = self._between(region, name, low, high)
                if question is not None:
                    return question
                self.given_up.add((name, low, high))
        return None

    def _between(self, region: Region, name: str, low: int, high: int) -> Question | None:
        middle = (low + high) // 2
        aims, self.new.aims = self.new.aims, (middle, max(middle // 2, 1), max(middle // 4, 1), low + 1, high - 1)
        best: Question | None = None
        for _ in range(TRIES):
            drawn = self._drawn()
            if drawn is None:
                continue
            value = drawn[1].get(name)
            if value is None or not low < int(value) < high or not region.holds(drawn[1]):
                continue
            if best is None or abs(int(value) - middle) < abs(int(best[1][name]) - middle):
                best = drawn
                if abs(int(value) - middle) * 4 <= high - low:
                    break
        if best is None:
            goals = [Comparison(name, ">", low), Comparison(name, "<", high)]
            best = self._climbed(region, goals, lambda case_features: abs(int(case_features.get(name, 0)) - middle))
        self.new.aims = aims
        return best

    def _most_new(self) -> Question | None:
        """Returns the case that shows the most new facets of its region; None if no region has new ones."""
        for tried in range(1, MOST_TRIES):
            drawn = self._drawn()
            if drawn is not None:
                self._sort_in(*drawn)
            if tried % 60 == 0:
                best = self._best()
                if best is not None:
                    return best
            if all(seen.tries >= TRIES for seen in self.regions.values()):
                break
        return self._best()

    def _sort_in(self, case: Case, case_features: Features) -> None:
        """Puts a case into the pools of its regions, if it shows something new there."""
        shown = self._facets(case_features)
        for region, seen in self.regions.items():
            new = region.holds(case_features) and not shown <= seen.facets
            seen.tries = 0 if new else seen.tries + 1
            if new:
                seen.pool.append((case, case_features, shown))

    def _best(self) -> Question | None:
        """Returns the case of the pools with the most new facets; of equal ones, one with several output elements."""
        best, most = None, 0.0
        for seen in self.regions.values():
            seen.pool = [
                entry for entry in seen.pool if entry[0].id not in self.evidence.ids and not entry[2] <= seen.facets
            ]
            for case, case_features, shown in seen.pool:
                new = len(shown - seen.facets) + min(int(case_features["output_elements"]), 8) / 10
                if new > most:
                    best, most = (case, case_features), new
        return best

    def _rare(self) -> Question | None:
        """Returns a case with a word or flag that is new in its region, made step by step; None if none is left."""
        words = {
            c
            for passing in self.evidence.passes
            for c in passing.items()
            if c[0] in _RARE or (type(c[1]) is bool and c[1])
        }
        for region, seen in self.regions.items():
            for name, value in sorted(words - seen.facets - seen.impossible, key=str):
                if region.outside is None or (region.broken and region.broken.feature == name):
                    seen.impossible.add((name, value))
                    climbed = self._climbed(region, [Comparison(name, "==", value)])
                    if climbed is not None:
                        return climbed
        return None

    def _climbed(
        self, region: Region, goals: Sequence[Comparison], distance: Callable[[Features], int] | None = None
    ) -> Question | None:
        """Returns a case of a region that reaches the goals, step by step; None if STEPS are too few.

        `distance` says how far a case is from the goals, among those that reach as many of them.
        """
        wanted, source = (*region.required, *goals), self.new.source
        operators = [str(c.value) for c in goals if c.feature == "operator"]

        def reached(case_features: Features) -> tuple[int, int]:
            hits = sum(c.holds(case_features) for c in wanted) + region.holds(case_features)
            return hits, -distance(case_features) if distance else 0

        starts = STARTS // 4 if distance else STARTS  # a path is longer if each step can be measured
        for _ in range(starts):
            case = self.evidence.seeds[source.integer(0, len(self.evidence.seeds) - 1)]
            case_features = features(case)
            for operator in operators:
                fresh = [c for _ in range(FRESH) if (c := self.new.fresh(case, operator)) is not None]
                case, case_features = max(
                    ((c, features(c)) for c in fresh), key=lambda q: reached(q[1]), default=(case, case_features)
                )
            for _ in range(STEPS * STARTS // starts):
                if reached(case_features)[0] == len(wanted) + 1 and case.id not in self.evidence.ids:
                    return case, case_features
                near = self.new.near(case)
                if near is not None and reached(then := features(near)) >= reached(case_features):
                    case, case_features = near, then
        return None

    def _drawn(self) -> Question | None:
        """Returns a case that was not asked yet, mostly near a failing one; None if this try gave none."""
        source = self.new.source
        kind = source.integer(0, 9)
        pool = self.evidence.passing_seeds if kind == 9 and self.evidence.passing_seeds else self.evidence.seeds
        near = pool[source.integer(0, len(pool) - 1)]
        case = self.new.fresh(near) if kind in (7, 8) else self.new.near(near)
        if case is None or case.id in self.evidence.ids:
            return None
        return case, features(case)
