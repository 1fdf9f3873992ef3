"""The types of the JSON files in a results bundle. `opmap manual results` has the keys."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec

from ..diagnosis.relation import STALE, Label, without_numbers
from ..diagnosis.sides import Answer, OddOneOut
from ..engines.machine.facts import Fact
from ..errors import cut
from ..judge.against import RuleRow
from ..judge.record import FACTS, SCHEMA, TensorRecord
from ..limits import MAX_RECORDS, MAX_SHOWN
from ..vocabulary import Verdict

RUN, RECORDS, TIMES, SURVEY = "run.json", "results.jsonl", "times.json", "survey.json"
"""The files of a results bundle. Two runs never have the same times; `opmap survey --report` adds the last one."""

DIAGNOSIS, JUNIT, SUMMARY, HTML = "diagnosis.json", "junit.xml", "summary.md", "report.html"

REPORTS = (DIAGNOSIS, JUNIT, SUMMARY)
"""The files that are made of the results at the end of a run."""

FILES = (RUN, RECORDS, *REPORTS)
"""The files of every bundle with failures whose run has ended."""

Option: TypeAlias = bool | int | float | str | list[str] | None
"""One thing that was asked for, as run.json holds it."""

Facts: TypeAlias = dict[str, Fact]
"""The facts about the machine and the software by their names (see opmap.engines.machine.environment)."""


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_RECORDS)]
"""A number of records."""


class Totals(msgspec.Struct, frozen=True):
    """The number of records by verdict, and the exit code of the run.

    `ids` is the digest of the ids of the records (see opmap.reports.sums). It is absent if it is that of the selection:
    every case that was selected has a record.
    """

    verdicts: dict[Verdict, Count]
    exit_code: int
    ids: str | msgspec.UnsetType = msgspec.UNSET


PLACE = ("provider", "platform", "package", "version", *FACTS, "adapter_name", "driver")
"""The keys of a selection that say on which software and device the provider ran."""


_SHARD = re.compile(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,8})")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a merged bundle. `records` is the number of its lines in results.jsonl.

    The lines of the parts follow each other. The other keys are those of the part's own run.json.
    """

    selection: dict[str, Option]
    environment: Facts | None = None
    problems: list[str] = []
    totals: Totals | None = None
    records: Count

    @property
    def place(self) -> tuple[Option, ...]:
        """On which software and device the provider ran. Results of two runs at one place belong together."""
        return tuple(self.selection.get(name) for name in PLACE)

    @property
    def baseline(self) -> str | None:
        """The name of the baseline with which the run was compared."""
        name = self.selection.get("baseline")
        return None if name is None else cut(str(name), MAX_SHOWN)

    @property
    def device(self) -> tuple[Option, ...]:
        """The provider, the adapter and the device class, with any driver and version."""
        return tuple(self.selection.get(name) for name in ("provider", "adapter_name", "device_class"))

    @property
    def device_name(self) -> str:
        """The device in words, as far as it is known."""
        return device_name(self.device)

    @property
    def shard(self) -> tuple[int, int] | None:
        """The number of the shard that ran, and the number of all shards; None if the selection names no shard I/N."""
        found = _SHARD.fullmatch(str(self.selection.get("shard")))
        number, total = map(int, found.groups()) if found else (1, 0)
        return (number, total) if number <= total else None

    @property
    def exit_code(self) -> int:
        """The exit code of the run; that of Ctrl-C if it has not ended."""
        return self.totals.exit_code if self.totals else 130


def device_name(device: tuple[Option, ...]) -> str:
    """Returns a device (see Part.device) in words, as far as it is known."""
    return cut(", ".join(str(fact) for fact in device if fact is not None), MAX_SHOWN)


class RunDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What run.json holds.

    `selection` holds the options, and on which software and device the provider ran. `environment` is null before the
    end of a run and if the provider is missing; `totals` is null if the run has not ended. `problems` are lines about
    known failures that are out of date.

    `parts` is there in a merged bundle only. Then `selection` holds what all parts have in common, `environment` is
    null if they differ, and `problems` also says what `opmap merge` said.
    """

    schema: str = SCHEMA
    selection: dict[str, Option]
    environment: Facts | None = None
    problems: list[str] = []
    totals: Totals | None = None
    parts: list[Part] | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def merged(self) -> bool:
        """Whether `opmap merge` wrote this."""
        return isinstance(self.parts, list)

    @property
    def runs(self) -> list[Part]:
        """The runs that were merged; of a bundle that is not merged, the one run.

        If that has not ended, its `records` is MAX_RECORDS.
        """
        if isinstance(self.parts, list):
            return self.parts
        facts = {name: getattr(self, name) for name in ("selection", "environment", "problems", "totals")}
        return [Part(**facts, records=sum(self.totals.verdicts.values()) if self.totals else MAX_RECORDS)]

    @property
    def exit_code(self) -> int:
        """The exit code of the run; that of Ctrl-C if it has not ended."""
        return self.totals.exit_code if self.totals else 130


class TimesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What times.json holds: how long each case took, in seconds, by its id.

    After a run that was killed and resumed, only the times of the cases that ran since are there. In a merged bundle, a
    case that ran in several bundles has its longest time. `ended` is when the run ended.
    """

    schema: str = "opmap-times/1"
    ended: Annotated[datetime.datetime, msgspec.Meta(tz=True)] | None = None
    seconds: dict[str, Annotated[float, msgspec.Meta(ge=0)]]


# --- survey.json ---


class SurveyRow(msgspec.Struct, frozen=True):
    """Operators, index types and invalid indices with one answer. `failed` is whether it is wrong somewhere."""

    operators: tuple[str, ...]
    index_types: tuple[str, ...]
    indices: tuple[str, ...]
    answer: str
    failed: bool


class SurveyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider does with invalid indices, and DirectML itself with descriptors that keep or break the rules.

    `observations` has each question about an index with its answers. `rules` is null for all other providers.
    """

    schema: str = "opmap-survey/1"
    provider: str
    device_class: str | None
    failures: int
    rows: list[SurveyRow]
    observations: list[dict[str, object]]
    rules: list[RuleRow] | None = None


# --- diagnosis.json ---


class ComparisonDocument(msgspec.Struct, frozen=True):
    """One comparison of a feature of a case with a value."""

    feature: str
    op: str = msgspec.field(name="is")
    value: bool | int | str | list[int | str] = msgspec.field()


class ConditionDocument(msgspec.Struct, frozen=True):
    """The cases that fail: those for which all comparisons of one of the lists in `any` hold."""

    text: str
    any: list[list[ComparisonDocument]]


class ClosestDocument(ConditionDocument, frozen=True, kw_only=True):
    """A condition that is right for most cases.

    `failing` holds how many cases of the group meet it, and how many there are; `passing` the same of the cases of the
    run that passed. If no condition fits all answers, the answers are counted too.
    """

    failing: tuple[int, int]
    passing: tuple[int, int]


class RelationDocument(msgspec.Struct, frozen=True):
    """What happened to the outputs.

    `explains` holds how many wrong elements are as the relation says, and how many there are.

    `fault` is the planted fault that gives exactly these outputs; `ties` are others that give the same. `remark` names
    the closest relation, if there is none.
    """

    kind: str
    fault: str | None
    ties: list[str]
    text: str
    explains: tuple[int, int]
    remark: str | None = None


class SideDocument(msgspec.Struct, frozen=True):
    """One side: what was changed, and how many of its runs failed."""

    change: str
    failures: int
    runs: int


class SidesDocument(msgspec.Struct, frozen=True):
    """Whose fault a failure is (see opmap.diagnosis.sides).

    `directml` says what DirectML itself does with a case that fails on the DirectML EP; null if it was not asked.
    """

    odd_one_out: OddOneOut | None
    text: str
    flips: list[str]
    sides: list[SideDocument]
    left_out: dict[str, str]
    directml: Answer | None = None


class SmallestDocument(msgspec.Struct, frozen=True):
    """The smallest case: its id, its tensors in words, and the message of its record.

    `dxdispatch` is the case as a DxDispatch file; null if its tensors are too large for that. `actual` is its output,
    if it has one; if it should have several, the one that `output` names.
    """

    case: str
    text: str
    message: str | None
    dxdispatch: dict[str, object] | None
    actual: TensorRecord | None = None
    output: str | None = None


class AskedDocument(msgspec.Struct, frozen=True):
    """How many new descriptors were run to make a condition exact, and how many of them fail and pass.

    `contradicting` is how many answers no condition explains. `untested` says what of the condition no case could
    refute.
    """

    runs: int
    failing: int
    passing: int
    contradicting: int = 0
    untested: list[str] = []

    @property
    def text(self) -> str:
        """`46 new descriptors: 7 fail, 6 pass, 33 tell nothing, none contradicts`.

        Of these 33, nothing says if the fault is there.
        """
        silent = self.runs - self.failing - self.passing
        rest = f", {silent} tell{'s' * (silent == 1)} nothing" if silent else ""
        contradicting = f"{self.contradicting or 'none'} contradict{'' if self.contradicting > 1 else 's'}"
        return f"{self.runs} new descriptors: {self.failing} fail, {self.passing} pass{rest}, {contradicting}"


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One cause: the failures that have it.

    `ids` are the cases of the run that have this cause, and `cases` is their number. `condition` is null if no
    condition is right for all cases; then `closest` is one that is right for most, if it was sought. `stability` is
    null if the smallest case was not run again; `stability_text` says it in words, and `after` names the case after
    which alone it fails. `side` is null if it was not asked. `again` is the command that runs a case of the group
    again.
    """

    cases: int
    ids: list[str]
    verdicts: list[Verdict]
    operators: list[str]
    condition: ConditionDocument | None
    closest: ClosestDocument | None = None
    relation: RelationDocument
    stability: Literal["always", "sometimes", "periodic", "after", "batched"] | None
    stability_text: str | None
    after: str | None
    side: SidesDocument | None
    smallest: SmallestDocument
    asked: AskedDocument
    again: str

    @property
    def label(self) -> Label:
        """What this group has in common with those of the same cause in other runs."""
        relation = self.relation
        if relation.fault:
            return ("fault", relation.fault)
        return (STALE, "") if relation.kind == STALE else without_numbers((relation.kind, relation.text))

    @property
    def where(self) -> str:
        """The condition in words."""
        return self.condition.text if self.condition else "no exact condition"


class DiagnosisDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What diagnosis.json holds, and what `diagnose --json` prints: the causes of the failures, the largest first."""

    schema: str = "opmap-diagnosis/1"
    provider: str
    groups: list[Group]


DOCUMENTS: Mapping[str, type[msgspec.Struct]] = {
    RUN: RunDocument,
    DIAGNOSIS: DiagnosisDocument,
    TIMES: TimesDocument,
    SURVEY: SurveyDocument,
}
"""The JSON files of a bundle, each with its type."""
