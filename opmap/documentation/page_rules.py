"""The rules of a page: the shipped rules, with the page's own formulas in place of the shipped ones."""

from __future__ import annotations

import re

import msgspec

from ..pseudocode import parse_formula
from ..spec import Breaks, Rule, Spec
from .equivalence import assigned_names, bounded_side, ranged_name, same_formula


class PageRules:
    """Collects the statements of a page and assigns each to the shipped rule that it states.

    A rule that no statement is assigned to keeps the corrected formula of the shipped spec and has no line. A statement
    that fits no rule becomes a rule of its own.
    """

    def __init__(self, shipped: Spec):
        self._printed = {rule.id: rule for rule in shipped.rules}
        self._rules = {rule.id: msgspec.structs.replace(rule, line=None) for rule in shipped.corrected.rules}
        self._arrays = shipped.arrays
        self._unassigned: list[tuple[int, str, str]] = []
        """Equalities without a rule: line, left side, right side."""

    def add_equality(self, line: int, left: str, right: str) -> None:
        """Adds `left == right`, from the prose. That an array equals a tensor holds for each of its tensors."""
        if right.partition(".")[0] in self._arrays:
            left, right = right, left
        if (array := left.partition(".")[0]) in self._arrays:
            left = left.replace(array, f"{array}[i]")
        check = f"{left} == {right}"
        stated, printed = (
            [id for id, rule in rules.items() if not rule.derived and _states(rule, check)]
            for rules in (self._rules, self._printed)
        )
        if stated:
            without_line = [id for id in stated if self._rules[id].line is None]
            if without_line:
                self._assign(without_line[0], line)
        elif printed:
            self._assign(printed[0], line, check)
        elif left.endswith((".DimensionCount", ".DataType")) or self._plain_equalities(left):
            self._unassigned.append((line, left, right))

    def add_intervals(self, field: str, intervals: list[tuple[int, str]]) -> None:
        """Adds the ranges of a number field, as pairs of line and interval.

        A range goes to the rule that states the same; the remaining ranges go to the remaining rules in order.
        """
        waiting = [rule.id for rule in self._rules.values() if not rule.derived and ranged_name(rule.check) == field]
        unmatched = []
        for line, interval in intervals:
            check = f"{field} in {interval}"
            for id in waiting:
                if _states(self._rules[id], check) or _states(self._printed[id], check):
                    self._assign(id, line, check)
                    waiting.remove(id)
                    break
            else:
                unmatched.append((line, check))
        for id, (line, check) in zip(waiting, unmatched, strict=False):
            self._assign(id, line, check)
        for line, check in unmatched[len(waiting) :]:
            self._add(line, check, f"The range of {field}.")

    def add_bound(self, line: int, tensor: str, expression: str) -> None:
        """Adds `… <= expression`, stated in the section of a tensor."""
        for rule in list(self._rules.values()):
            left = bounded_side(rule.check)
            if left is not None and not rule.derived and left.startswith(f"{tensor}."):
                self._assign(rule.id, line, f"{left} <= {expression}")

    def add_formula(self, line: int, text: str) -> None:
        """Adds a size formula, which can be read."""
        names = assigned_names(parse_formula(text))
        for rule in list(self._rules.values()):
            for name in names:
                if rule.check != "support" and name in assigned_names(parse_formula(rule.check)) and "." in name:
                    self._assign(rule.id, line, text)

    def add_wording(self, line: int, rule: Rule) -> None:
        """Adds a shipped rule that the page states in words of its own."""
        self._assign(rule.id, line, rule.check)

    def result(self) -> tuple[Rule, ...]:
        """Returns all rules, the shipped ones first. Call it once, after all statements were added."""
        for line, left, right in self._unassigned:
            without_line = [id for id in self._plain_equalities(left) if self._rules[id].line is None]
            if without_line:
                sign = "=" if " = " in self._rules[without_line[0]].check else "=="
                self._assign(without_line[0], line, f"{left} {sign} {right}")
            else:
                self._add(line, f"{left} == {right}", "A constraint of the page.")
        return tuple(self._rules.values())

    def _plain_equalities(self, left: str) -> list[str]:
        """Returns the ids of the rules that only demand that `left` equals another field."""
        pattern = rf"{re.escape(left)} ==? [\w.]+"
        return [rule.id for rule in self._rules.values() if not rule.derived and re.fullmatch(pattern, rule.check)]

    def _assign(self, id: str, line: int, check: str | None = None) -> None:
        """Gives a rule its line on the page, and the page's formula. A rule keeps the first line that it was given."""
        rule = self._rules[id]
        self._rules[id] = msgspec.structs.replace(rule, line=rule.line or line, check=check or rule.check)

    def _add(self, line: int, check: str, text: str) -> None:
        """Adds a rule that the shipped spec does not have."""
        id = f"line {line}" if f"line {line}" not in self._rules else f"line {line}: {check}"
        self._rules[id] = Rule(id=id, line=line, text=text, check=check, breaks=Breaks(example="", set={}))


def _states(rule: Rule, check: str) -> bool:
    return rule.check != "support" and same_formula(rule.check, check)
