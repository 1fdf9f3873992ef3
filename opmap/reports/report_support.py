"""What a provider supports: for each operator and data type, what is documented and what the run showed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..descriptors import FEATURE_LEVELS
from ..errors import cut
from ..judge.record import Record
from ..limits import MAX_SHOWN
from ..tensors import DataType
from ..vocabulary import Fate, Stage, Verdict
from .documents import RunDocument
from .report_matrix import MatrixCell, documents, sized, spec_of


class Pair(NamedTuple):
    """An operator with a data type.

    `documented` is whether the page has the type at the feature level; None if the operator or the type is not known.
    Of all `cases`, the provider was to run those that are `tried`: without those that ONNX Runtime itself kept from it.
    It was `given` all of these but the ones that were not run. `undefined` cases have elements without a documented
    value, `lost` ones ran in the baseline and are refused now. `words` say all this for the tip over the cell.
    """

    documented: bool | None
    cases: int
    tried: int
    given: int
    accepted: int
    passed: int
    failed: int
    undefined: int
    lost: int
    words: str

    @classmethod
    def of(cls, documented: bool | None, records: Sequence[Record]) -> Pair:
        """Returns the pair with these records."""
        counted = [r for r in records if r.ran or r.verdict in (Verdict.SKIPPED, Verdict.NOT_RUN)]
        tried = [r for r in counted if r.failed or r.fate not in (Fate.OPTIMIZED_AWAY, Fate.CPU)]
        accepted, verdicts = sum(map(_accepted, tried)), Counter(record.verdict for record in records)
        known = {True: "documented", False: "not documented", None: "not known whether it is documented"}[documented]
        taken = f"{accepted:,} of {len(tried):,} accepted; " if tried else ""
        counts = ", ".join(f"{verdicts[verdict]:,} {verdict}" for verdict in Verdict if verdicts[verdict])
        return cls(
            documented,
            len(records),
            tried=len(tried),
            given=sum(record.ran for record in tried),
            accepted=accepted,
            passed=sum(record.verdict == Verdict.PASS for record in tried),
            failed=sum(record.failed for record in tried),
            undefined=sum(record.verdict == Verdict.OBSERVED for record in tried),
            lost=verdicts[Verdict.NEWLY_UNSUPPORTED],
            words=f"{known}; {taken}{counts or 'no case'}",
        )

    @property
    def shown(self) -> SupportClass:
        """The class of the pair: the first one that fits."""
        return next(one for one in CLASSES if one.fits(self))

    @property
    def sign(self) -> str:
        """The sign in the cell, with a star if the provider was given cases that are not documented."""
        return f"{self.shown.sign}{'*' if self.given and self.documented is False else ''}"

    @property
    def number(self) -> str:
        """The number in the cell, behind the sign; empty if the provider was to run no case."""
        if self.shown.name == "passed":
            return f"{self.passed:,}"
        return f"{self.failed or self.passed:,} of {self.tried:,}" if self.tried else ""


class SupportClass(NamedTuple):
    """How a pair stands: a word, the sign in its cell, and the meaning of both."""

    name: str
    sign: str
    meaning: str
    fits: Callable[[Pair], bool]


_PARTLY = (
    "accepted, none failed: the other cases were refused, failed as known, have no documented value or were not run"
)

CLASSES = (
    SupportClass(
        "lost",
        "⊘",
        "newly lost: cases ran in the baseline and are refused now, and no other case failed",
        lambda pair: 0 < pair.lost == pair.failed,
    ),
    SupportClass("failed", "✗", "cases failed", lambda pair: pair.failed > 0),
    SupportClass(
        "passed",
        "✓",
        "every case passed that can be judged",
        lambda pair: 0 < pair.passed == pair.tried - pair.undefined,
    ),
    SupportClass("partly", "◐", _PARTLY, lambda pair: pair.accepted > 0),
    SupportClass("refused", "○", "the provider accepted no case", lambda pair: pair.given > 0),
    SupportClass(
        "untried", "\N{EN DASH}", "documented; the provider was given no case", lambda pair: pair.documented is True
    ),
    SupportClass("nothing", "·", "not known to be documented; the provider was given no case", lambda pair: True),
)
"""The classes of a pair, the one that says most first."""


@dataclass(frozen=True)
class Support:
    """The picture: a row of pairs for each operator of the run, with a column for each data type.

    `level` is the feature level of the documentation, and `asked` are the feature levels of the bundle's runs.
    """

    level: str
    asked: Sequence[str]
    data_types: Sequence[str]
    rows: Mapping[str, Sequence[Pair]]

    @property
    def text(self) -> str:
        """What is to be seen, in words."""
        pairs = [pair for row in self.rows.values() for pair in row]
        documented = [pair for pair in pairs if pair.documented]
        others = [pair for pair in pairs if not pair.documented and (pair.accepted or pair.failed)]
        text = (
            f"Of the operators of this run, DirectML documents {len(documented):,} pairs of operator and data type at "
            f"feature level {self.level}; {_summed(documented)}."
        )
        return f"{text} Of other pairs, {_summed(others)}." if others else text

    @property
    def data(self) -> dict[str, object]:
        """The same as the data of the page."""
        rows = [
            (operator, data_type, pair.shown.name, *pair)
            for operator, row in self.rows.items()
            for data_type, pair in zip(self.data_types, row, strict=True)
        ]
        return {"level": self.level, "columns": ("operator", "data_type", "shown", *Pair._fields), "rows": rows}


def _summed(pairs: Sequence[Pair]) -> str:
    shown = Counter(pair.shown.name for pair in pairs)
    accepted, lost = (sum(getattr(pair, name) > 0 for pair in pairs) for name in ("accepted", "lost"))
    text = f"the provider accepted {accepted:,}, {shown['passed']:,} passed wholly, {shown['failed']:,} with failures"
    return f"{text}, {lost:,} newly lost" if lost else text


def support(run: RunDocument, places: Sequence[MatrixCell], records: Sequence[Record]) -> Support:
    """Returns the picture of the records of a run, at the highest feature level by which its cases were judged."""
    newest = FEATURE_LEVELS[-1]
    asked = sorted({cut(str(part.selection.get("feature_level") or newest), MAX_SHOWN) for part in run.runs})
    level = next((level for level in reversed(FEATURE_LEVELS) if level in asked), newest)
    by_pair: dict[tuple[str, str], list[Record]] = {}
    for where, record in zip(places, records, strict=True):
        by_pair.setdefault((where.operator, where.data_type), []).append(record)
    operators = sorted({operator for operator, _ in by_pair})
    specs = {operator: spec for operator in operators if (spec := spec_of(operator))}
    documented = {
        (operator, data_type): documents(spec, level, spec.first_data, data_type, None)
        for operator, spec in specs.items()
        for data_type in DataType.__members__
    }
    data_types = sorted({type for _, type in (*by_pair, *filter(documented.get, documented))}, key=sized)
    rows = {
        operator: [Pair.of(documented.get((operator, type)), by_pair.get((operator, type), [])) for type in data_types]
        for operator in operators
    }
    return Support(level, asked, data_types, rows)


def _accepted(record: Record) -> bool:
    """Returns whether the provider took a case: it was not refused before its first run, nor left to another one."""
    refused = record.stage in (Stage.READ, Stage.VALIDATE, Stage.MAP, Stage.LOAD)
    without_output = record.verdict == Verdict.OBSERVED and record.stage == Stage.RUN
    elsewhere = record.verdict in (Verdict.UNSUPPORTED, Verdict.NEWLY_UNSUPPORTED, Verdict.FALLBACK)
    return record.ran and not (refused or without_output or elsewhere)
