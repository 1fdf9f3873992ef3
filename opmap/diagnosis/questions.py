"""The next question: the new case that shows the most of what no case has shown yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from math import gcd

from ..cases.case import Case
from ..cases.comparisons import Comparison
from ..cases.features import SMALL_NUMBERS, Features, features, is_enumeration, is_number
from ..cases.random_cases import data_types, drawn_case
from ..operators import OPERATORS
from ..operators.random_source import pick
from ..tensors import DIRECTML_TYPES, DataType
from .conditions import Condition, Facet, Region, broken_alone, facets, regions_of
from .known_answers import Evidence
from .thresholds import KEPT, MOST_OF_WORD

TRIES = 180
"""The number of new cases without a new facet after which a region counts as seen."""

MOST_TRIES = 5000
"""The most new cases that are made for one question."""

GAP_TRIES = 400
"""The most new cases that are made for a gap between two values."""

WORD_TRIES, DRAWN = 120, 40
"""The most new cases that are made for one question about another operator or data type; and the number of random cases
that show which values the features of an operator can have."""

AT_A_TIME = 20
"""The number of new cases among which the next question is chosen."""

_EXCLUDED = {"operator": tuple(OPERATORS), "data_type": tuple(data_type.name for data_type in DIRECTML_TYPES)}
"""The features of which each value that a condition excludes is asked, and their values."""

_WORDS = ("operator", "data_type", "index_type", "index_path")
"""The features of which another value than the only one is sought on purpose."""

Question = tuple[Case, Features]

Gap = tuple[Comparison, int, int, Region]
"""A comparison, the last passing and the first failing value in ascending order, and the region of the cases between
them."""


@dataclass
class _Seen:
    """What is known of one region: the facets that were seen, cases to ask, the tries without a new facet, the nearest
    case.
    """

    facets: set[Facet] = field(default_factory=set)
    pool: list[tuple[Case, Features, frozenset[Facet]]] = field(default_factory=list)
    tries: int = 0
    nearest: tuple[float, Case] | None = None


class Questions:
    """The questions about one condition.

    `given_up` are the regions in which no case was found: gaps between two values, other operators and other data
    types. `known` counts the cases that break a comparison of operators or data types alone, by this comparison and
    word; and those with a certain layout or value of an enumeration: an execution provider may have other code for each
    of them.
    """

    def __init__(self, condition: Condition, evidence: Evidence, given_up: set[Region]) -> None:
        self.condition, self.evidence, self.given_up, self.new = condition, evidence, given_up, evidence.new
        self.marks = {int(c.value) + d for c in condition.all for d in (-1, 0, 1) if type(c.value) is int}
        self.features = {c.feature for c in condition.all}
        self.broken = list(broken_alone(condition))
        self.regions = {region: _Seen() for region in (*regions_of(condition), *self._other_words())}
        self.known: Counter[tuple[Comparison, object, Facet | None]] = Counter()
        for case_features in (*evidence.failures, *evidence.passes, *evidence.silent):
            self.count(case_features)

    def count(self, case_features: Features) -> None:
        """Counts what a case shows as seen."""
        shown = self._facets(case_features)
        for region, seen in self.regions.items():
            if region.holds(case_features):
                seen.facets |= shown
        for comparison, region in self.broken:
            if comparison.feature in _EXCLUDED and region.holds(case_features):
                self.known.update(_forms(comparison, case_features))

    def next(self) -> Question | None:
        """Returns the next question; None if nothing is left to ask.

        First come cases between the last passing and the first failing value of a comparison, then operators and data
        types that the condition excludes and of which no case was asked, then all others.
        """
        for gap in self._gaps():
            if gap[-1] not in self.given_up:
                question = self._between(*gap)
                if question is not None:
                    return question
                self.given_up.add(gap[-1])
        return self._of_other_word() or self._most_new()

    def rarely_broken(self) -> list[Region]:
        """Returns the regions of the comparisons that too few witnesses break alone."""
        return [region for _, region in self._rarely_broken()]

    def untested(self) -> list[str]:
        """Returns in words what nobody knows of the condition: nothing that was asked could refute it."""
        texts = [str(comparison) for comparison, _ in self._rarely_broken()]
        texts += [f"{c} (the limit is between {low} and {high})" for c, low, high, _ in self._open_gaps()]
        for comparison, word, own in self._excluded():
            if self.known[comparison, word, None] < KEPT and own not in self.evidence.mute:
                texts.append(f"{comparison} (no {word} meets the rest)")
        return texts

    def _rarely_broken(self) -> list[tuple[Comparison, Region]]:
        passes = self.evidence.passes
        kept = min(KEPT, len(passes))
        return [(c, region) for c, region in self.broken if sum(map(region.holds, passes)) < kept]

    def _facets(self, case_features: Features) -> frozenset[Facet]:
        return frozenset(facets(case_features, self.marks, self.features))

    def _other_words(self) -> Iterator[Region]:
        """Gives the cases that meet the condition without a word that all failing cases share: the word may matter."""
        for name in _WORDS:
            words = {str(case_features.get(name)) for case_features in self.evidence.failures}
            if len(words) == 1 and name not in self.features:
                yield Region((*self.condition.all, Comparison(name, "!=", *words)))

    # --- between two values ---

    def _gaps(self) -> Iterator[Gap]:
        for comparison, region in self.broken:
            if comparison.op not in ("<", "<=", ">", ">="):
                continue
            name, up = comparison.feature, comparison.op[0] == ">"
            edge = int(comparison.value) + {">": 1, "<": -1}.get(comparison.op, 0)  # type: ignore[arg-type]
            outer = [int(g[name]) for g in self.evidence.passes if name in g and region.holds(g)]
            near = max(outer, default=0) if up else min(outer, default=2 * edge + 2)
            low, high = sorted((near, edge))
            between = (Comparison(name, ">", low), Comparison(name, "<", high))
            if high - low >= 2:
                yield comparison, low, high, Region((*region.required, *between))

    def _open_gaps(self) -> Iterator[Gap]:
        """Gives the gaps in which cases may lie, as far as the values of the failing and of the passing cases show."""
        for comparison, low, high, gap in self._gaps():
            values = {int(given[comparison.feature]) for given in self.evidence.failures} | {low, high}
            step = reduce(gcd, (value - low for value in values))
            alike = [c for c in self.condition.all if c.feature == comparison.feature and c is not comparison]
            between = ({comparison.feature: value} for value in range(low + step, high, step))
            possible = any(all(c.holds(given) for c in alike) for given in between)
            if comparison.feature not in SMALL_NUMBERS and possible:
                yield comparison, low, high, gap

    def _between(self, comparison: Comparison, low: int, high: int, gap: Region) -> Question | None:
        """Returns a case of a gap, near its middle, whose answer says something."""
        name, middle, best, regions = comparison.feature, (low + high) // 2, None, {gap: _Seen()}
        self.new.aims = (middle, max(middle // 2, 1), max(middle // 4, 1), low + 1, high - 1)
        for _ in range(GAP_TRIES):
            drawn = self._drawn(regions)
            if drawn is None or not gap.holds(drawn[1]) or not self._tells(*drawn):
                continue
            if best is None or abs(int(drawn[1][name]) - middle) < abs(int(best[1][name]) - middle):
                best = drawn
                if abs(int(drawn[1][name]) - middle) * 4 <= high - low:
                    break
        return best

    def _tells(self, case: Case, case_features: Features) -> bool:
        """Returns whether a case can refute the condition if it passes, and if it fails."""
        return self.evidence.is_witness(case, case_features) and self.evidence.shows(case)

    # --- operators and data types that the condition excludes ---

    def _excluded(self) -> Iterator[tuple[Comparison, str, Region]]:
        """Gives a comparison, an operator or data type that it excludes, and the region of such cases that meet the
        rest.
        """
        for comparison, region in self.broken:
            for word in _EXCLUDED.get(comparison.feature, ()):
                if not comparison.holds({comparison.feature: word}) and self._is_possible(comparison, word, region):
                    yield comparison, word, Region((*region.required, Comparison(comparison.feature, "==", word)))

    def _of_other_word(self) -> Question | None:
        """Returns a case that breaks a comparison of operators, or of data types, alone, of one of which few such cases
        are known.
        """
        for comparison, word, own in self._excluded():
            if self.known[comparison, word, None] >= MOST_OF_WORD or own in self.given_up:
                continue
            nearest: tuple[float, Case] | None = None
            drawn = _drawn_cases(word) if comparison.feature == "operator" else []
            for turn in range(-len(drawn), WORD_TRIES):
                near = self.new.near(nearest[1]) if turn > 0 and turn % 2 and nearest else None
                case = drawn[turn][0] if turn < 0 else near or self._new_with(comparison.feature, word)
                if case is None or case.id in self.evidence.ids:
                    continue
                given = drawn[turn][1] if turn < 0 else features(case)
                lacks = (self.known[form] < (1 if form[-1] else KEPT) for form in _forms(comparison, given))
                distance = own.distance(given)
                if not distance and any(lacks):
                    if self._tells(case, given):
                        return case, given
                    self.evidence.mute.add(own)
                nearest = min(nearest or (distance, case), (distance, case), key=lambda pair: pair[0])
            self.given_up.add(own)
        return None

    def _is_possible(self, comparison: Comparison, word: str, region: Region) -> bool:
        """Returns whether there are cases of a region with this operator, or with this data type in an operator of the
        failures.
        """
        if comparison.feature == "operator":
            return all(_can_meet(word, c) for c in region.required)
        width = {"data_width": DataType[word].size}
        operators = {case.desc.operator for case in self.evidence.seeds}
        fits = all(c.holds(width) for c in region.required if c.feature in width)
        return fits and any(DataType[word] in data_types(operator) for operator in operators)

    def _new_with(self, feature: str, word: str) -> Case | None:
        seed = pick(self.new.source, self.evidence.seeds)
        if feature == "operator":
            return self.new.fresh(seed, word)
        return self.new.fresh(seed, seed.desc.operator, DataType[word])

    # --- all others ---

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
        """Adds a case to the pool of each region in which it shows a new facet.

        A case that cannot show the fault is left out.
        """
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

        It is near a failing case, or near the case that is nearest to a region: so rare regions are reached step by
        step.
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


def _forms(comparison: Comparison, given: Features) -> Iterator[tuple[Comparison, object, Facet | None]]:
    """Gives the word of a case, alone, then with its layout, and with the value of each of its enumerations."""
    word = given.get(comparison.feature)
    yield comparison, word, None
    for name, value in given.items():
        if name == "layout" or (value is True and is_enumeration(name)):
            yield comparison, word, (name, value)


@cache
def _can_meet(operator: str, comparison: Comparison) -> bool:
    """Returns whether a case of an operator can meet a comparison.

    If random cases of the operator have different values of a size, every value of this size counts as possible.
    """
    name, drawn = comparison.feature, [given for _, given in _drawn_cases(operator)]
    is_size = is_number(name) and name not in SMALL_NUMBERS
    return (is_size and len({given[name] for given in drawn if name in given}) > 1) or any(map(comparison.holds, drawn))


@cache
def _drawn_cases(operator: str) -> list[Question]:
    """Returns some random cases of an operator with their features."""
    return [(case, features(case)) for case in (drawn_case(operator, seed) for seed in range(DRAWN))]
