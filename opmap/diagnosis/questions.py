"""The next question: the new case that shows the most of what no case has shown yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from ..cases.case import Case
from ..cases.comparisons import Comparison
from ..cases.features import Features, features, is_enumeration
from ..cases.random_cases import data_types, drawn_case
from ..operators import OPERATORS
from ..operators.random_source import pick
from ..tensors import DIRECTML_TYPES, DataType
from .conditions import Condition
from .evidence import KEPT, Evidence
from .regions import Facet, Region, broken_alone, facets, regions_of

TRIES = 180
"""The number of new cases without a new facet after which a region counts as seen."""

MOST_TRIES = 5000
"""The most new cases that are made for one question."""

GAP_TRIES = 400
"""The most new cases that are made for a gap between two values."""

WORD_TRIES = 60
"""The most new cases that are made for one question about another operator or data type."""

MOST_OF_WORD = 6
"""The number of cases of one other operator or data type, those of the run too, from which on no more are asked."""

AT_A_TIME = 20
"""The number of new cases among which the next question is chosen."""

_EXCLUDED = {"operator": tuple(OPERATORS), "data_type": tuple(data_type.name for data_type in DIRECTML_TYPES)}
"""The features of which each value that a condition excludes is asked, and their values."""

_WORDS = ("operator", "data_type", "index_type", "index_path")
"""The features of which another value than the only one is sought on purpose."""

Question = tuple[Case, Features]


@dataclass
class _Seen:
    """What is known of one region: the facets that were seen, cases to ask, the tries without a new facet, the nearest case."""

    facets: set[Facet] = field(default_factory=set)
    pool: list[tuple[Case, Features, frozenset[Facet]]] = field(default_factory=list)
    tries: int = 0
    nearest: tuple[float, Case] | None = None


@dataclass
class _Excluding:
    """A comparison of operators or data types, the region of the cases that break it alone, and the cases that are known there.

    `known` counts the cases of each operator or data type (word). `forms` are their layouts and values of enumerations: an execution
    provider may have other code for each of them.
    """

    comparison: Comparison
    region: Region
    known: Counter[object] = field(default_factory=Counter)
    forms: set[tuple[object, Facet]] = field(default_factory=set)

    def count(self, case_features: Features) -> None:
        """Counts a case if it is in the region."""
        if self.region.holds(case_features):
            word = case_features.get(self.comparison.feature)
            self.known[word] += 1
            self.forms.update((word, form) for form in _forms(case_features))

    def lacks(self, case_features: Features) -> bool:
        """Returns whether few cases with the word of this one are known, or none that has the same form."""
        word = case_features.get(self.comparison.feature)
        return self.known[word] < KEPT or any((word, form) not in self.forms for form in _forms(case_features))


def _forms(case_features: Features) -> Iterator[Facet]:
    """Yields the layout of a case, and the value of each of its enumerations."""
    return ((n, v) for n, v in case_features.items() if n == "layout" or (v is True and is_enumeration(n)))


class Questions:
    """The questions about one condition.

    `given_up` are the regions in which no case was found: gaps between two values, other operators and other data types.
    """

    def __init__(self, condition: Condition, evidence: Evidence, given_up: set[Region]) -> None:
        self.condition, self.evidence, self.given_up, self.new = condition, evidence, given_up, evidence.new
        comparisons = [c for conjunction in condition.any for c in conjunction]
        self.marks = {int(c.value) + d for c in comparisons for d in (-1, 0, 1) if type(c.value) is int}
        self.features = {c.feature for c in comparisons}
        self.excluding = [_Excluding(*pair) for pair in broken_alone(condition) if pair[0].feature in _EXCLUDED]
        self.regions = {region: _Seen() for region in (*regions_of(condition), *self._other_words())}
        for case_features in (*evidence.failures, *evidence.passes):
            self.count(case_features)

    def count(self, case_features: Features) -> None:
        """Counts what a case shows as seen."""
        shown = self._facets(case_features)
        for region, seen in self.regions.items():
            if region.holds(case_features):
                seen.facets |= shown
        for excluding in self.excluding:
            excluding.count(case_features)

    def next(self) -> Question | None:
        """Returns the next question; None if nothing is left to ask.

        First come cases between the last passing and the first failing value of a comparison, then operators and data types that the
        condition excludes and of which no case was asked, then all others.
        """
        for name, low, high, gap in self._gaps():
            question = self._between(name, low, high, gap)
            if question is not None:
                return question
            self.given_up.add(gap)
        return self._of_other_word() or self._most_new()

    def _facets(self, case_features: Features) -> frozenset[Facet]:
        return frozenset(facets(case_features, self.marks, self.features))

    def _other_words(self) -> Iterator[Region]:
        """Gives the cases that meet the condition without a word that all failing cases share: the word may matter."""
        for name in _WORDS:
            words = {str(case_features.get(name)) for case_features in self.evidence.failures}
            for conjunction in self.condition.any:
                if len(words) == 1 and name not in {c.feature for c in conjunction}:
                    yield Region((*conjunction, Comparison(name, "!=", *words)))

    def _gaps(self) -> Iterator[tuple[str, int, int, Region]]:
        """Gives features, the last passing and the first failing value, and the region of the cases between them."""
        for comparison, region in broken_alone(self.condition):
            if comparison.op not in ("<", "<=", ">", ">="):
                continue
            name, up = comparison.feature, comparison.op[0] == ">"
            edge = int(comparison.value) + {">": 1, "<": -1}.get(comparison.op, 0)  # type: ignore[arg-type]
            outer = [int(g[name]) for g in self.evidence.passes if name in g and region.holds(g)]
            near = max(outer, default=0) if up else min(outer, default=2 * edge + 2)
            low, high = sorted((near, edge))
            between = (Comparison(name, ">", low), Comparison(name, "<", high))
            gap = Region((*region.required, *between))
            if high - low >= 2 and gap not in self.given_up:
                yield name, low, high, gap

    def _between(self, name: str, low: int, high: int, gap: Region) -> Question | None:
        """Returns a case of a gap, near its middle."""
        middle, best, regions = (low + high) // 2, None, {gap: _Seen()}
        self.new.aims = (middle, max(middle // 2, 1), max(middle // 4, 1), low + 1, high - 1)
        for _ in range(GAP_TRIES):
            drawn = self._drawn(regions)
            if drawn is None or not gap.holds(drawn[1]):
                continue
            if best is None or abs(int(drawn[1][name]) - middle) < abs(int(best[1][name]) - middle):
                best = drawn
                if abs(int(drawn[1][name]) - middle) * 4 <= high - low:
                    break
        return best

    def _of_other_word(self) -> Question | None:
        """Returns a witness that breaks a comparison of operators, or of data types, alone, of one of which few such cases are known."""
        evidence = self.evidence
        for excluding in self.excluding:
            comparison, region, feature = excluding.comparison, excluding.region, excluding.comparison.feature
            for word in _EXCLUDED[feature]:
                own = Region((*region.required, Comparison(feature, "==", word)))
                if comparison.holds({feature: word}) or excluding.known[word] >= MOST_OF_WORD or own in self.given_up:
                    continue
                for _ in range(WORD_TRIES if self._is_possible(feature, word, region) else 0):
                    case = self._new_with(feature, word)
                    if case is None or case.id in evidence.ids or not evidence.shows(case):
                        continue
                    given = features(case)
                    if own.holds(given) and excluding.lacks(given) and evidence.is_witness(case, given):
                        return case, given
                self.given_up.add(own)
        return None

    def _is_possible(self, feature: str, word: str, region: Region) -> bool:
        """Returns whether there are cases of a region with this operator, or with this data type in an operator of the failures."""
        if feature == "operator":
            return {c.feature for c in region.required} <= _names(word)
        return any(
            DataType[word] in data_types(operator) for operator in {s.desc.operator for s in self.evidence.seeds}
        )

    def _new_with(self, feature: str, word: str) -> Case | None:
        seed = pick(self.new.source, self.evidence.seeds)
        if feature == "operator":
            return self.new.fresh(seed, word)
        return self.new.fresh(seed, seed.desc.operator, DataType[word])

    def _most_new(self) -> Question | None:
        """Returns the case that shows the most new facets of its region; None if no region has new ones."""
        self.new.aims = tuple(sorted(m for m in self.marks if m > 0))
        for tried in range(1, MOST_TRIES):
            drawn = self._drawn(self.regions)
            if drawn is not None:
                self._sort_in(*drawn)
            if tried % AT_A_TIME == 0 and (best := self._best()) is not None:
                return best
            if all(seen.tries >= TRIES for seen in self.regions.values()):
                break
        return self._best()

    def _sort_in(self, case: Case, case_features: Features) -> None:
        """Adds a case to the pool of each region in which it shows a new facet. A case that cannot show the fault is left out."""
        shown = self._facets(case_features)
        lacking = [s for region, s in self.regions.items() if region.holds(case_features) and not shown <= s.facets]
        telling = bool(lacking) and self.evidence.shows(case)
        for seen in self.regions.values():
            seen.tries += 1
        for seen in lacking if telling else ():
            seen.tries = 0
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

    def _drawn(self, regions: Mapping[Region, _Seen]) -> Question | None:
        """Returns a case that was not asked yet; None if this try gave none.

        It is near a failing case, or near the case that is nearest to a region: so rare regions are reached step by step.
        """
        source, kind = self.new.source, self.new.source.integer(0, 9)
        pool = self.evidence.passing_seeds if kind == 9 and self.evidence.passing_seeds else self.evidence.seeds
        start = pool[source.integer(0, len(pool) - 1)]
        towards = pick(source, tuple(regions.values())).nearest
        if towards is not None and kind < 4:
            start = towards[1]
        case = self.new.fresh(start) if kind in (7, 8) else self.new.near(start)
        if case is None:
            return None
        case_features = features(case)
        for region, seen in regions.items():
            distance = region.distance(case_features)
            if seen.nearest is None or distance <= seen.nearest[0]:
                seen.nearest = distance, case
        return None if case.id in self.evidence.ids else (case, case_features)


@cache
def _names(operator: str) -> frozenset[str]:
    """Returns the names of the features that cases of an operator have."""
    return frozenset(features(drawn_case(operator, 0)))
