"""A comparison of one feature with a value: what it says, how simple it is, and how it reads."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from math import log2
from typing import Any, Literal, TypeAlias

from .feature_names import FEATURES, OTHER
from .features import CATEGORIES, FLAGS, NEGATIVE, Value

Op: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">=", "in", "%==", "%!=", "same"]

_OPERATOR_COST = {"==": 0.0, "same": 0.0, "<": 1.1, "<=": 1.1, ">": 1.0, ">=": 1.0, "!=": 2.0, "%!=": 5.0}
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ORDER = {name: at for at, name in enumerate(FEATURES)}


@dataclass(frozen=True)
class Comparison:
    """One comparison. It does not hold for a case that lacks the feature.

    `value` is a tuple of values for `in`, (modulus, rest) for `%==` and `%!=`, and the two fields for `same`: then
    `feature` is the name that `same_sizes` gives.
    """

    feature: str
    op: Op
    value: Value | tuple[Value, ...]

    def holds(self, features: Mapping[str, Value]) -> bool:
        """Returns whether it holds for a case with these features."""
        return self.feature in features and bool(self.compare(features[self.feature]))

    @cached_property
    def compare(self) -> Callable[[Any], Any]:
        """The function that says whether it holds for a value of the feature; for an array of values, an array of
        answers.

        It is made once, because a search calls it millions of times.
        """
        value = self.value
        if self.op == "same":
            return lambda values: values == True  # noqa: E712  # of an array, each element
        if not isinstance(value, tuple):
            compare = _COMPARE[self.op]
            return lambda values: compare(values, value)
        if self.op == "in":
            return lambda values: reduce(operator.or_, (values == option for option in value))
        modulus, rest = value
        equal = self.op == "%=="
        return lambda values: (values % modulus == rest) == equal

    @cached_property
    def cost(self) -> float:
        """How far the comparison is from simple: about the bits that it takes to say it."""
        cost = _OPERATOR_COST.get(self.op, 0.0) + FEATURES.get(self.feature, OTHER).cost
        cost += _ORDER.get(self.feature, len(_ORDER)) * 0.02
        if self.op == "in" and isinstance(self.value, tuple):
            cost += 2 * len(self.value)
        if self.op == "%==" and isinstance(self.value, tuple):
            cost += 2 + log2(int(self.value[0])) * (2 if self.value[1] else 1)
        return 10 + cost + (self.value is False and self.feature not in FLAGS) * 2

    @cached_property
    def order(self) -> tuple[int, str]:
        """The sort key: comparisons are sorted as the features are listed, and equal sizes come last."""
        return _ORDER.get(self.feature, len(_ORDER)), str(self)

    @property
    def plain(self) -> tuple[Comparison, ...]:
        """The alternatives to this comparison, one of which must hold, without `%!=`: `--json` does not have it."""
        if self.op != "%!=" or not isinstance(self.value, tuple):
            return (self,)
        modulus, without = self.value
        return tuple(Comparison(self.feature, "%==", (modulus, r)) for r in range(int(modulus)) if r != without)

    def to_json(self) -> dict[str, object]:
        """Returns the comparison as `--json` prints it."""
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        return {"feature": self.feature, "is": self.op, "value": value}

    def __str__(self) -> str:
        """`DimensionCount >= 5`, `index type INT32`, `an index < 0`, `A.Sizes == B.Sizes`."""
        words = FEATURES.get(self.feature, OTHER).words or self.feature.replace("_", " ")
        if self.feature == "negative":
            return "an index < 0" if self.value else "no index < 0"
        if self.feature == "computed_indices":
            return f"indices that {'a' if self.value else 'no'} node computes"
        if self.feature == "duplicates":
            return "an index that occurs twice" if self.value else "no index that occurs twice"
        if isinstance(self.value, bool) or self.op == "same":
            holds = self.op == "same" or self.value
            return self.feature if holds else self.feature.replace("==", "!=").replace(NEGATIVE, "no negative ")
        if self.feature in CATEGORIES:
            values = self.value if isinstance(self.value, tuple) else (self.value,)
            prefix = "" if self.feature == "operator" else f"{words} "
            return prefix + ("not " if self.op == "!=" else "") + " or ".join(map(str, values))
        if not isinstance(self.value, tuple):
            return f"{words} {self.op} {self.value}"
        if self.op == "in":
            return f"{words} in {', '.join(map(str, self.value))}"
        modulus, rest = self.value
        if modulus == 2:
            return f"{words} {'odd' if (rest == 1) == (self.op == '%==') else 'even'}"
        if rest == 0:
            return f"{words} {'' if self.op == '%==' else 'not '}a multiple of {modulus}"
        return f"{words} % {modulus} {self.op[1:]} {rest}"


Conjunction: TypeAlias = tuple[Comparison, ...]
"""Comparisons that must all hold."""


def at_least(name: str, value: int) -> Comparison:
    """Returns `>= value`; above a power of two from 16 on, `> value - 1`."""
    return Comparison(name, ">", value - 1) if is_round(value - 1) else Comparison(name, ">=", value)


def at_most(name: str, value: int) -> Comparison:
    """Returns `<= value`; below a power of two from 16 on, `< value + 1`."""
    return Comparison(name, "<", value + 1) if is_round(value + 1) else Comparison(name, "<=", value)


def is_round(value: int) -> bool:
    """Returns whether a number is a power of two from 16 on."""
    return value >= 16 and value & (value - 1) == 0
