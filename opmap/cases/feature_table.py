"""The features of many cases as columns, so that one comparison is asked of all cases at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np

from .comparisons import Comparison, Conjunction
from .features import CATEGORIES, Value


class FeatureTable:
    """The features of many cases, one array per feature. A number that a case does not have is -1, a word is ''."""

    def __init__(self, features: Sequence[Mapping[str, Value]]) -> None:
        self.features = features
        self._values: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The values of each feature that a case has, in the order of the cases."""
        names = sorted({name for row in self.features for name in row})
        return {n: np.array([row.get(n, "" if n in CATEGORIES else -1) for row in self.features]) for n in names}

    def values(self, name: str) -> list[Any]:
        """The different values of a feature, in ascending order."""
        if name not in self._values:
            self._values[name] = sorted(set(self.columns[name].tolist())) if name in self.columns else []
        return self._values[name]

    def rows(self, at: Sequence[int] | Any) -> FeatureTable:
        """Returns the table of some of the cases."""
        table = FeatureTable([self.features[i] for i in at])
        table.columns = {name: column[list(at)] for name, column in self.columns.items()}
        return table

    def meets(self, conjunctions: Sequence[Conjunction]) -> Any:
        """Returns for each case whether one of the conjunctions holds for it. One without comparisons always holds."""
        met = np.zeros(len(self), bool)
        for conjunction in conjunctions:
            met |= reduce(np.logical_and, (self.holds(c) for c in conjunction), np.ones(len(self), bool))
        return met

    def holds(self, comparison: Comparison) -> Any:
        """Returns for each case whether a comparison holds."""
        column = self.columns.get(comparison.feature)
        if column is None or not len(self):
            return np.zeros(len(self), bool)
        return (column != ("" if comparison.feature in CATEGORIES else -1)) & comparison.compare(column)
