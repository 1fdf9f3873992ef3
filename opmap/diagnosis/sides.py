"""Whose fault a failure is: the same case on the CPU EP, and on the provider with one thing changed at a time.

Each side runs in a process of its own, several times. A change counts if the case is right with it every time, while it
fails without it every time.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from ..cases.case import Case, case_id
from ..cases.in_variants import accepts
from ..cases.layouts import in_layout, without_layout
from ..cases.selection import has_variant
from ..cases.variants import PLAIN, VARIANTS
from ..cases.variants.run_modes import ARENA_OFF
from ..descriptors import OperatorDesc
from ..engines.provider_facts import DIRECT
from ..engines.providers import Provider
from ..engines.sessions import CPU, FUSION_OFF
from ..engines.worker import WorkerProvider
from ..errors import MappingError, OpmapError
from ..judge.judge import Judge
from ..judge.record import Record, TensorRecord
from ..mapping import IndexConversion
from ..tensors import Tensor
from ..vocabulary import PROCESS_ENDED, Verdict
from .case import is_possible
from .thresholds import SIDE_RUNS

OddOneOut = Literal["provider", "interpreter", "none"]

Answer = Literal["right", "same", "other"]
"""What another side does with a case that fails on the provider: right, the same as the provider, or another
failure."""

OpenWith = Callable[..., AbstractContextManager[Judge]]
"""Opens the provider anew, with further session configuration entries and some options replaced:
`ValidationRun.fresh`."""

_WRONG = (Verdict.MISMATCH, Verdict.ERROR, Verdict.CRASH, Verdict.TIMEOUT, Verdict.DEVICE_LOST)
"""The verdicts of a case that gives no right output."""

_WITHOUT_ANSWER = (Verdict.UNSUPPORTED, Verdict.NOT_EXPRESSIBLE, Verdict.NOT_RUN, Verdict.SKIPPED)


@dataclass(frozen=True)
class Side:
    """One side: what is changed, and how many of its runs failed. `only` says what the case has without the change."""

    change: str
    only: str
    failures: int
    runs: int


@dataclass(frozen=True)
class Sides:
    """Whose fault a failure is, as far as the sides show.

    `unchanged` is the case without a change. `odd_one_out` is who gives another output than the two others, or none if
    all three differ; None if the CPU EP gives no answer. `odd_text` says it in words. `sides` has the changes that the
    provider and the case have, the smallest change first; `left_out` names the others, each with the reason. `below` is
    what DirectML itself does with the case, without the EP; None if that is not known. `below_text` says it in words.
    """

    odd_one_out: OddOneOut | None
    odd_text: str
    unchanged: Side | None = None
    sides: tuple[Side, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    below: Answer | None = None
    below_text: str = ""

    @property
    def flips(self) -> list[Side]:
        """The changes with which the case is right every time, while it fails every time without them."""
        before = self.unchanged
        if before is None or before.failures < before.runs:
            return []
        return [side for side in self.sides if side.runs and not side.failures]

    def __str__(self) -> str:
        """Up to three lines: which one alone differs, what DirectML itself does, and what the changes show."""
        return "\n".join(filter(None, (self.odd_text, self.below_text, self._changes_text())))

    def _changes_text(self) -> str:
        text, absent = self._flips_text(), len(self.left_out)
        if not text or not absent:
            return text
        return f"{text}; {absent} change{'s do' if absent > 1 else ' does'} not exist here"

    def _flips_text(self) -> str:
        before, flips = self.unchanged, self.flips
        if before is None or not before.failures:
            return ""
        if before.failures < before.runs:
            return f"fails {before.failures} of {before.runs} times as it is, so that no change says anything"
        if not flips:
            return f"no change makes it right: {', '.join(side.change for side in self.sides)}" if self.sides else ""
        first = flips[0]
        alike = [side for side in self.sides if side.only == first.only]
        other_changes = [side.change for side in flips if side not in alike]
        text = f"fails only {first.only} ({before.failures} of {before.runs} against 0 of {first.runs})"
        if not all(side in flips for side in alike):
            text = f"right {first.change} (0 of {first.runs} fail, against {before.failures} of {before.runs} as it is)"
            other_changes = [side.change for side in flips[1:]]
        return f"{text}; also right {', '.join(other_changes)}" if other_changes else text


def whose_fault(
    case: Case, record: Record, open_with: OpenWith, *, dangerous: bool = False, runs: int = SIDE_RUNS
) -> Sides:
    """Returns whose fault the failure of a case is. `record` is the failure.

    `open_with(*entries, **options)` opens the provider in a process of its own, as `ValidationRun.fresh` does. Each
    side runs the case `runs` times; less often if its process ends. A case that hangs or loses the device is run again
    only if `dangerous`. Raises ProviderMissing if the provider cannot be opened again.
    """
    asking = _Asking(case, open_with, runs, dangerous)
    if not asking.may_run_again(record):
        return Sides(None, f"a {record.verdict} is run again only with --rerun-dangerous")
    with asking.opened() as judge:
        records = asking.records(judge, case)
        if not asking.may_run_again(records[-1]):
            return Sides(None, f"a {records[-1].verdict} is run again only with --rerun-dangerous")
        changes = list(asking.changes(judge))
    unchanged = _side("as it is", "as it is", records)
    if not unchanged.failures:
        return Sides(None, "", unchanged)
    wrong = next(record for record in records if record.verdict in _WRONG)
    odd, text = asking.odd_one_out(judge, wrong)
    below, below_text = asking.below(wrong) if judge.provider.directml else (None, "")
    sides = asking.ask(changes) if unchanged.failures == unchanged.runs else []
    return Sides(odd, text, unchanged, tuple(sides), asking.left_out, below, below_text)


def _side(change: str, only: str, records: list[Record]) -> Side:
    return Side(change, only, sum(record.verdict in _WRONG for record in records), len(records))


@dataclass(frozen=True)
class _Change:
    """One change: the changed case, options of the run that are replaced, further session configuration entries."""

    change: str
    only: str
    case: Case
    options: Mapping[str, Any] = field(default_factory=dict)
    entries: tuple[tuple[str, str], ...] = ()


@dataclass
class _Asking:
    """Runs one case on the sides. `left_out` collects the changes that are not there, with the reasons."""

    case: Case
    open_with: OpenWith
    runs: int
    dangerous: bool
    left_out: dict[str, str] = field(default_factory=dict)

    def records(self, judge: Judge, case: Case) -> list[Record]:
        """Runs a case several times, until the process ends."""
        records: list[Record] = []
        while len(records) < self.runs and not (records and records[-1].verdict in PROCESS_ENDED):
            records.append(judge(case))
        return records

    def may_run_again(self, record: Record) -> bool:
        """Returns whether a case with this record may be run again."""
        return self.dangerous or record.verdict not in PROCESS_ENDED

    @contextmanager
    def opened(self, *entries: tuple[str, str], **options: Any) -> Iterator[Judge]:
        """Opens the provider anew. If it may hang, hangs are not limited."""
        with self.open_with(*entries, **options) as judge:
            if self.dangerous and isinstance(judge.provider.runner, WorkerProvider):
                judge.provider.runner.ignore_hangs()
            yield judge

    def changes(self, judge: Judge) -> Iterator[_Change]:
        """Gives the changes that the provider and the case have, the smallest first."""
        case, provider = self.case, judge.provider
        for change, (only, options, entries) in _OF_DIRECTML.items():
            if provider.directml:
                yield _Change(change, only, case, options, entries)
            else:
                self.left_out[change] = f"{provider.name} has no such option"
        yield from _conversions(case, judge)
        plain = dataclasses.replace(case, variant=PLAIN)
        for name, text in _PATHS.items():
            variant = VARIANTS[name]
            if name == case.variant:
                continue
            if provider.runs_cases or not has_variant(provider, variant):
                self.left_out[text] = f"{provider.name} does not have the variant {name}"
            elif variant.base is not None and not accepts(variant, plain):
                self.left_out[text] = "the case has no such form"
            else:
                only = _PATHS.get(case.variant, f"in the variant {case.variant}")
                yield _Change(text, only, dataclasses.replace(plain, variant=name))
        if case.layout:
            yield _Change("without the layout", f"in the layout {case.layout}", without_layout(case))
        yield from _padded_cases(case)
        yield from _other_adapter(case, provider)

    def ask(self, changes: list[_Change]) -> list[Side]:
        """Runs the case with each change. A change that the provider refuses or does not support is left out."""
        sides = []
        for change in changes:
            try:
                with self.opened(*change.entries, **change.options) as judge:
                    records = self.records(judge, change.case)
            except OpmapError as error:
                self.left_out[change.change] = str(error)
                continue
            refused = next((record for record in records if record.verdict in _WITHOUT_ANSWER), None)
            if refused:
                self.left_out[change.change] = refused.message or str(refused.verdict)
            else:
                sides.append(_side(change.change, change.only, records))
        return sides

    def odd_one_out(self, judge: Judge, wrong: Record) -> tuple[OddOneOut | None, str]:
        """Compares the interpreter and the provider with the CPU EP."""
        if judge.provider.name == CPU and not judge.provider.third_party:
            return None, "the provider is the CPU EP itself: nothing else stands beside the documentation"
        variant = VARIANTS[self.case.variant]
        case = self.case if variant.has(CPU) else dataclasses.replace(self.case, variant=PLAIN)
        options = {**_ON_CPU, "index_conversion": judge.conversion}
        answer, text = self._answer("the CPU EP", case, options, wrong)
        match answer:
            case "right":
                return "provider", f"the provider alone differs: {text}"
            case "same":
                return "interpreter", f"{text}: the model, the mapping or the documentation is in question"
            case "other":
                return "none", "the CPU EP fails too, in another way: the documentation and both providers differ"
        return None, text

    def below(self, wrong: Record) -> tuple[Answer | None, str]:
        """Gives the case to DirectML itself, on the same adapter: the mapping and the EP have no part in it."""
        case = dataclasses.replace(self.case, variant=PLAIN)
        answer, text = self._answer("DirectML itself", case, _ON_DIRECTML, wrong)
        match answer:
            case "right":
                text += ": the EP or the mapping is in question"
            case "same":
                text += ": DirectML, or the driver below it, is in question"
        return answer, text

    def _answer(self, who: str, case: Case, options: Mapping[str, Any], wrong: Record) -> tuple[Answer | None, str]:
        """Asks another side once. Returns its answer, None if it gives none, and the same in words."""
        try:
            with self.opened(**options) as judge:
                record = judge(case)
        except OpmapError as error:
            return None, f"{who} was not asked: {error}"
        if record.verdict in _WITHOUT_ANSWER:
            return None, f"{who} gives no answer: {record.message or record.verdict}"
        if record.verdict not in _WRONG:
            return "right", f"{who} gives the documented output"
        if _same_answer(record, wrong):
            return "same", f"{who} {'gives the same wrong output' if record.actual else 'fails in the same way'}"
        return "other", f"{who} fails too, in another way: {record.message or record.verdict}"


_ON_DIRECTML: Mapping[str, Any] = {
    "provider": DIRECT,
    "in_process": False,
    "provider_option": (),
    "session_option": (),
    "ep_library": (),
}
"""The options of a run on DirectML itself. The adapter stays."""

_ON_CPU: Mapping[str, Any] = {
    **_ON_DIRECTML,
    "provider": "cpu",
    "adapter": None,
    "device_id": None,
    "disable_metacommands": False,
    "dml_runtime": None,
    "runtime": None,
}
"""The options of a run on the CPU EP."""


def _same_answer(one: Record, other: Record) -> bool:
    if one.verdict != other.verdict:
        return False
    return (
        one.stage == other.stage
        if one.actual is None or other.actual is None
        else _bits(one.actual) == _bits(other.actual)
    )


def _bits(output: TensorRecord) -> object:
    return output.form, output.Bits or output.Digest


# --- the changes ---

_PATHS: Mapping[str, str] = {
    PLAIN: "with data and indices as graph inputs",
    "init": "with indices as initializer",
    "node": "with indices as output of a node",
    "data-init": "with data as initializer",
    "data-node": "with data as output of a node",
    "both-init": "with data and indices as initializers",
}
"""The variants that bring data and indices to the operator in other ways, each in words."""


_OF_DIRECTML: Mapping[str, tuple[str, Mapping[str, Any], tuple[tuple[str, str], ...]]] = {
    "without metacommands": ("with metacommands", {"disable_metacommands": True}, ()),
    "without memory arena": ("with the memory arena", {}, ((ARENA_OFF, "1"),)),
    "without graph fusion": ("with graph fusion", {}, ((FUSION_OFF, "1"),)),
}
"""The changes that only the DirectML EP has: what the case has without them, options, session configuration entries."""


def _conversions(case: Case, judge: Judge) -> Iterator[_Change]:
    """Gives the case with other ways of converting indices. Ways with equal models and feeds come once."""
    if judge.provider.runs_cases:
        return
    conversion = judge.conversion
    try:
        mapped = judge.map(case)
    except MappingError:
        return
    if not any(s.kind in ("index-type", "data-type") for s in mapped.substitutions):
        return
    seen = [(mapped.model_bytes, mapped.feeds)]
    words: Mapping[IndexConversion, str] = {
        "graph": "in the graph",
        "host": "before the graph",
        "directml": "as the DirectML EP supports it best",
    }
    for other in words:
        changed = dataclasses.replace(judge, index_conversion=other).map(case)
        if (key := (changed.model_bytes, changed.feeds)) not in seen:
            seen.append(key)
            converted = "with indices converted"
            yield _Change(
                f"{converted} {words[other]}", f"{converted} {words[conversion]}", case, {"index_conversion": other}
            )


def _padded_cases(case: Case) -> Iterator[_Change]:
    """Gives the case with one more leading dimension of size 1, and with as many as the operator allows."""
    if case.layout:
        for change in _padded_cases(without_layout(case)):
            if (laid_out := in_layout(change.case, case.layout)) is not None:
                yield dataclasses.replace(change, case=laid_out)
        return
    if not all(tensor.packed for tensor in case.desc.tensors.values()):
        return  # the strides of more dimensions would be another change
    before, padded = case.desc.output.dimension_count, []
    desc: OperatorDesc | None = case.desc
    while desc is not None and (desc := _padded(desc, case)) is not None:
        padded.append(desc)
    for desc in dict.fromkeys((*padded[:1], *padded[-1:])):
        tensors = {n: Tensor(t.data_type, desc.tensors[n].sizes, t.bits) for n, t in case.tensors.items()}
        wide = dataclasses.replace(case, id=case_id(desc, "padded", "padded"), desc=desc, tensors=tensors)
        if is_possible(wide):
            only = f"in {before} dimension{'s' if before > 1 else ''}"
            yield _Change(f"padded to {desc.output.dimension_count} dimensions", only, wide)


def _padded(desc: OperatorDesc, case: Case) -> OperatorDesc | None:
    """Returns the descriptor with one more leading dimension of size 1 in all tensors; None if none is valid.

    Some numbers go up by one: the fewest with which the output is the same. An array of numbers gets a leading 0 or 1.
    """
    tensors = {
        name: dataclasses.replace(tensor, sizes=(1, *tensor.sizes), strides=None)
        for name, tensor in desc.tensors.items()
    }
    numbers = {name: attribute for name, attribute in desc.members().items() if name in desc.numbers}
    values = {name: Tensor(t.data_type, (1, *desc.tensors[name].sizes), t.bits) for name, t in case.tensors.items()}
    expected = list(case.expected)
    for more in sorted(itertools.product((0, 1), repeat=len(numbers)), key=sum):
        changed = {}
        for (name, attribute), step in zip(numbers.items(), more, strict=True):
            number = desc.numbers[name]
            changed[attribute] = number + step if isinstance(number, int) else (step, *number)
        wide = desc.with_tensors(tensors).replace(**changed)
        try:
            if not wide.violations() and list(wide.interpret(values)) == expected:
                return wide
        except (OpmapError, ValueError, LookupError, ArithmeticError):
            continue
    return None


def _other_adapter(case: Case, provider: Provider) -> Iterator[_Change]:
    """Gives the case on another hardware adapter, if this machine has one."""
    if not provider.directml:
        return
    fact = provider.environment().get("adapters")
    for adapter in msgspec.to_builtins(fact.value or []) if fact else []:
        if adapter["name"] != provider.adapter and not adapter["software"]:
            options = {"adapter": None, "device_id": adapter["index"]}
            yield _Change(f"on {adapter['name']}", f"on {provider.adapter}", case, options)
            return
