"""One run, from its options to its exit code. The command line and the pytest plugin both use it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import metadata
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from ..cases.case import CASE_IDS, Case
from ..cases.catalogue import catalogue
from ..cases.contract_probes import ContractProbe, contract_probes
from ..cases.probes import Probe, probes
from ..cases.selection import Selection, find_cases, has_variant
from ..cases.variants import VARIANTS
from ..descriptors import FEATURE_LEVELS
from ..engines.providers import (
    Provider,
    ProviderMissing,
    open_provider,
    refuse_options,
)
from ..engines.worker import WorkerProvider
from ..errors import ContradictionError, InputError, names
from ..files import read_bytes
from ..judge.decide import not_run, refusal
from ..judge.items import Item
from ..judge.judge import Judge
from ..judge.record import Record, shortened
from ..judge.run import Results, shuffled
from ..judge.session_batcher import SessionBatcher
from ..known.final import Evidence, final
from ..mapping import IndexConversion
from ..mapping.dxdispatch import Dispatch
from ..vocabulary import Tier, Verdict, tiers_in
from .options import SessionOptions
from .selected import selection

if TYPE_CHECKING:  # loaded only if a run has a bundle, known failures or failures
    from ..diagnosis.judged_run import JudgedRun
    from ..diagnosis.known_causes import KnownCauses
    from ..diagnosis.relations import Earlier
    from ..known.known_failures import ActiveFailures, KnownFailure
    from ..reports.baseline import Baseline
    from ..reports.bundle import Bundle
    from ..reports.documents import DiagnosisDocument

Advance: TypeAlias = Callable[[], None]
"""A function that is called after each step, to show progress."""


MOST_NAMED = 3
"""The most variants that the line about cases that are left out names, the shortest first: the line fits one row."""


def _no_progress() -> None:
    """Shows no progress."""


class ValidationRun:
    """One run on one provider.

    `opmap validate` calls `choose`, `judge_all`, `close` and `finish` in this order. The pytest plugin takes `cases`
    and `probes`, and calls `judge` for one item at a time. The provider is opened when it is first needed.

    `cases` are run in place of those that the options choose; then no probe is run. With `brief`, the record of a case
    that passed holds a digest of its output instead of the values; without `whole`, `results` keeps less of it. Raises
    InputError if the file of known failures cannot be used.
    """

    def __init__(
        self, options: SessionOptions, *, brief: bool = True, whole: bool = True, cases: Sequence[Case] | None = None
    ):
        options.check()
        self.options, self.brief = options, brief
        self.known_failures: tuple[KnownFailure, ...] = ()
        self._known_failures_digest: str | None = None
        if options.known_failures:
            from ..known.known_failures import load

            self.known_failures = load(options.known_failures)
            self._known_failures_digest = hashlib.sha256(read_bytes(options.known_failures)).hexdigest()
            if any(entry.cause for entry in self.known_failures):
                from ..diagnosis.known_causes import check_causes

                check_causes(self.known_failures, options.known_failures)
        if options.baseline and not os.path.isdir(options.baseline):
            got = "a file" if os.path.exists(options.baseline) else "no such folder"
            raise InputError(
                f"--baseline must be a results bundle or a folder of bundles, got {got}", file=options.baseline
            )
        self.results = Results(max_failures=options.max_failures, whole=whole)
        self.bundle: Bundle | None = None
        self.active_failures: ActiveFailures | None = None
        self.baseline: Baseline | None = None
        self.calls: dict[str, int] = {}
        """Case id -> the number of its last run in the provider's process, from 1. Records do not hold it: it differs
        after a run was resumed."""
        self._order: list[Item] | None = None
        self._before: list[tuple[Case, Record]] = []  # only for known failures, whose cause may be an earlier call
        self._opened: Judge | ProviderMissing | None = None
        self._cases = None if cases is None else list(cases)
        self._only_cases = cases is not None

    # --- the provider ---

    def open(self) -> Judge | ProviderMissing:
        """Opens the provider, unless it is open, and finds the known failures that apply to it.

        Returns the judge on the provider, or the error that says why the provider is missing. Raises InputError for a
        provider that does not exist, and for options that the provider does not take.
        """
        if self._opened is None:
            self._opened = self._open(self.options)
            shipped = self._shipped_failures()
            if self.known_failures or shipped:
                self.active_failures = self._active_failures(shipped)
            if self.options.baseline and isinstance(self._opened, Judge):
                self.baseline = self._read_baseline(self.options.baseline, self._opened.provider)
        return self._opened

    def _open(self, options: SessionOptions) -> Judge | ProviderMissing:
        try:
            return open_judge(
                options.provider,
                place=options.place,
                feature_level=self.feature_level,
                index_conversion=options.index_conversion,
                brief=self.brief,
            )
        except ProviderMissing as error:
            return error

    def _read_baseline(self, path: str, provider: Provider) -> Baseline:
        """Returns the baseline that was asked for. Raises InputError if there is none of this provider."""
        from ..reports.baseline import Wanting, read_baseline

        options = self.options
        device = provider.name, provider.adapter, provider.device_class
        named = self._only_cases or options.wanted or options.case or options.failed_of
        wanted = Wanting(device, None if named else options.tier, options.selected, options.report or options.resume)
        try:
            return read_baseline(path, wanted)
        except ContradictionError as error:  # it says nothing of this run, as exit code 1 would
            raise InputError(error.message, path=error.path, file=error.file) from None

    @property
    def provider(self) -> Provider | None:
        """The provider, or None if it is missing. Opens it."""
        judge = self.open()
        return judge.provider if isinstance(judge, Judge) else None

    @property
    def feature_level(self) -> str:
        """The feature level by which cases are judged."""
        return self.options.feature_level or FEATURE_LEVELS[-1]

    @property
    def provider_name(self) -> str:
        """ONNX Runtime's name of the provider; if it is missing, the name that was asked for."""
        return self.provider.name if self.provider else self.options.provider

    @contextmanager
    def fresh(self, *entries: tuple[str, str], **changes: Any) -> Iterator[Judge]:
        """Opens the provider anew, in a process of its own if it runs in one, and gives the judge on it.

        `changes` are options that replace those of the run, `entries` are further session configuration entries. Raises
        ProviderMissing if the provider cannot be opened so, InputError if it does not take an option.
        """
        options = self.options._replace(**changes)
        judge = self._open(options._replace(session_option=(*options.session_option, *entries)))
        if not isinstance(judge, Judge):
            raise judge
        try:
            yield judge
        finally:
            judge.provider.close()

    def close(self) -> None:
        """Ends the provider, if it was opened."""
        if isinstance(self._opened, Judge):
            self._opened.provider.close()

    def __enter__(self) -> ValidationRun:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.close()
        if error and self.bundle:
            self.bundle.release()

    def check(self) -> None:
        """Raises InputError for options that no case is needed for: a wrong provider, file of ids, bundle or folder."""
        self.selection  # noqa: B018  # reads files of ids
        options = self.options
        if folder := options.report or options.resume:
            from ..reports.results_folder import check_folder

            check_folder(folder, resume=bool(options.resume))
        self.open()

    # --- what is run ---

    @cached_property
    def selection(self) -> Selection:
        """The cases and probes that were asked for. Raises InputError if a file of ids or a bundle cannot be read."""
        return selection(self.options)

    def choose(self) -> list[Case]:
        """Returns the chosen cases in the order of the catalogue, and keeps them.

        Raises InputError if nothing matches.
        """
        if self._cases is None:
            self._cases = self.selection.cases()
        return self._cases

    @property
    def cases(self) -> Sequence[Case]:
        """The chosen cases that the provider has, in the order in which they are run."""
        return shuffled(self._cases_of_provider[0], self.options.shuffle)

    @cached_property
    def _cases_of_provider(self) -> tuple[list[Case], list[Case]]:
        """The chosen cases in variants that the provider has, and the others. A missing provider has all."""
        mine: list[Case] = []
        others: list[Case] = []
        for case in self.choose():
            (mine if self._has_variant(case) else others).append(case)
        return mine, others

    def _has_variant(self, case: Case) -> bool:
        if self.provider is None:
            return True
        before = self.baseline.results.get(case.id) if self.baseline else None
        if before and before.ran:  # the provider had the variant: the case is newly unsupported, and is not left out
            return True
        return has_variant(self.provider, VARIANTS[case.variant]) and (case.layout is None or self.provider.direct)

    @property
    def variants_note(self) -> str | None:
        """Returns a line about the cases that are left out because the provider does not have their variant."""
        others = self._cases_of_provider[1]
        if not others:
            return None
        variants = sorted({case.layout or case.variant for case in others}, key=lambda name: (len(name), name))
        more = f" and {len(variants) - MOST_NAMED} more" if len(variants) > MOST_NAMED else ""
        missing = f"variant{'s' * (len(variants) > 1)} {names(variants[:MOST_NAMED])}{more}"
        return f"{len(others)} case{'s' * (len(others) > 1)} left out: the provider lacks {missing}"

    @property
    def probes(self) -> Sequence[Probe | ContractProbe]:
        """The chosen probes and contract probes in the order in which they are run. A missing provider has none."""
        return shuffled(self._chosen_probes(), self.options.shuffle)

    def _chosen_probes(self) -> list[Probe | ContractProbe]:
        return self.selection.probes(self.provider) if self.provider and not self._only_cases else []

    def _catalogue(self) -> Iterator[Case]:
        """Gives the cases of the tier that the provider could have."""
        return catalogue(self._tier, layouts=self.selection.layouts)

    # --- judging ---

    def judge(self, item: Item) -> Record:
        """Returns the record of a case or probe: run as often as asked for, with known failures taken into account.

        A provider's errors become verdicts. If the provider is missing, the verdict is `not-run`.
        """
        return self.judge_batch([item])[0]

    def judge_batch(self, batch: Sequence[Item]) -> list[Record]:
        """Returns the records of items that run together, in their order, as `judge` returns that of one."""
        judge = self.open()
        if not isinstance(judge, Judge):
            return [not_run(item, self.provider_name, Verdict.NOT_RUN, str(judge)) for item in batch]
        known = self.active_failures
        danger = known.danger(batch[0]) if known and not self.options.rerun_dangerous else None
        if danger:  # such an item is alone in its batch
            message = f"not tried without --rerun-dangerous: known {danger.expected}: {danger.why}"
            return [not_run(batch[0], judge.provider, Verdict.SKIPPED, message)]
        repetitions = [self._batcher.run_batch(batch) for _ in range(self.options.repeat)]
        records = []
        for item, judged in zip(batch, zip(*repetitions, strict=True), strict=True):
            self.calls[item.id] = judged[-1].call
            of_item = [one.record for one in judged]
            before = self.baseline.results.get(item.id) if self.baseline else None
            records.append(final(Evidence(of_item, known.matches(item, of_item) if known else (), before)))
            if known and isinstance(item, Case):
                self._before.append((item, shortened(of_item[-1])))
        return records

    def judge_dispatch(self, dispatch: Dispatch, file: str) -> Record:
        """Returns the record of a dispatch command in a file, and adds it to the results.

        A dispatch that no provider can run is an `error` at stage `read` or `validate`, also if the provider is
        missing.
        """
        record = refusal(dispatch, file, provider=self.provider_name, feature_level=self.feature_level)
        if record is None:
            assert dispatch.desc is not None, "a dispatch that is not refused must have a descriptor"
            record = self.judge(
                Case(dispatch.name or "", dispatch.desc, dispatch.tensors, file, offsets=dispatch.offsets)
            )
        self.results.add(record)
        return record

    @cached_property
    def items(self) -> list[Item]:
        """The chosen cases, then the chosen probes. Raises InputError if there are none."""
        items: list[Item] = [*self._cases_of_provider[0], *self._chosen_probes()]
        if not items and self.provider:
            none = f"must select a case: {self.provider_name} has no probes"
            raise InputError(self.variants_note or (none if self.provider.runs_cases else self.selection.unmatched))
        return items

    @cached_property
    def _batcher(self) -> SessionBatcher:
        judge = self.open()
        assert isinstance(judge, Judge), "the provider is open"
        return SessionBatcher(judge, pack=self.options.pack, fresh=self.options.fresh_sessions)

    def judge_all(self, advance: Advance = _no_progress) -> None:
        """Judges all items, and writes each record to the results bundle. Calls `advance` after each item.

        Ctrl-C or too many failures end the run early. Raises InputError if the bundle cannot be written.
        """
        self.open_bundle()
        if not self.provider:
            self.results.skip(map(self.judge, self.items))
            return
        known = self.active_failures
        items = shuffled(self.items, self.options.shuffle)
        batches = self._batcher.batches(items, known.expectations if known else None)
        self._order = [item for batch in batches for item in batch]
        self.results.collect(self.items, self.judge_batch, advance, batches=batches)

    def open_bundle(self) -> None:
        """Opens the results bundle, if one was asked for. Raises InputError if it cannot be written."""
        options = self.options
        folder = options.report or options.resume
        if folder:
            from ..reports.bundle import Bundle

            ids = {item.id for item in self.items}
            whole = self.results.whole
            self.bundle = Bundle(folder, self._selection_json(), ids=ids, resume=bool(options.resume), whole=whole)
            self.results = Results(self.bundle, options.max_failures, whole=whole)

    def _selection_json(self) -> dict[str, object]:
        """Returns what was asked for, as `run.json` holds it. A run is continued only with the same."""
        from ..reports.results_folder import factory, identity
        from ..reports.sums import ids_digest

        selected = {"opmap": metadata.version("opmap"), **self.options.selected}
        return {
            "ids": ids_digest(selected, (item.id for item in self.items)),
            "case_ids": CASE_IDS,
            "known_failures": self._known_failures_digest,
            "provider": self.provider_name,
            "wanted": [*self.selection.wanted.ids, *self.selection.wanted.globs],
            "case": self.selection.ids,
            **factory(self.options.provider),
            **(self.baseline.identity if self.baseline else {}),
            **selected,
            **identity(self.provider),
        }

    def ran_in_order(self, ids: Sequence[str]) -> None:
        """Keeps the order in which items were judged elsewhere: by pytest, or by its workers, one after the other."""
        items = {item.id: item for item in self.items}
        self._order = [items[id] for id in ids]

    # --- after the run ---

    @property
    def judged(self) -> list[tuple[Case, Record]]:
        """The cases with their records, in the order in which they were judged.

        Without those that crashed, if the provider runs in this process: a question about them would end it.
        """
        inside = self.provider is not None and not isinstance(self.provider.runner, WorkerProvider)
        crashed = (Verdict.CRASH,) if inside else ()
        records = {record.case: record for record in self.results.records if record.verdict not in crashed}
        cases = self.cases if self._order is None else [item for item in self._order if isinstance(item, Case)]
        return [(case, records[case.id]) for case in cases if case.id in records]

    @cached_property
    def judged_run(self) -> JudgedRun:
        """The judged cases, for the search for causes. It holds until a record changes."""
        from ..diagnosis.judged_run import JudgedRun

        return JudgedRun(self.judged, self.calls)

    def run_again(self) -> bool:
        """Runs failed cases and probes again, and gives them their final verdict. Returns whether a record changed.

        With --repeat nothing is run again: the repetitions have shown what differs.
        """
        if self.options.repeat > 1 or not self.provider or not self.results.failures():
            return False
        from ..diagnosis.reruns import reruns

        records = {record.case: record for record in self.results.records}
        probes, changed = [(item, records[item.id]) for item in self._chosen_probes() if item.id in records], False
        for id, rerun in reruns(self.judged_run, probes, self.fresh, dangerous=self.options.rerun_dangerous):
            record = final(Evidence([records[id]], rerun=rerun))
            if record != records[id]:
                self.results.replace(record)
                changed = True
        if changed:
            del self.judged_run
        return changed

    def again(
        self, case: Case, before: Sequence[Case] = (), command: str | None = None, *, in_bundle: bool = False
    ) -> str:
        """Returns the command that runs a case of the catalogue again, or the file that a case is from.

        `before` are cases that run before it. `command` takes the place of the command's name. `in_bundle` is whether
        the command stands in a bundle, which has no path of a library.
        """
        batched_with = next(
            (r.batched_with for r in self.results.records if r.case == case.id and r.batched_with), None
        )
        first = batched_with or [earlier.id for earlier in before]
        options = self.options.for_bundle if in_bundle else self.options
        return options.again(case.id, case.file, first, command)

    # --- known failures ---

    @cached_property
    def _tier(self) -> Tier:
        """The tier that was asked for; if it does not have all the ids that were asked for, the smallest that has
        them.
        """
        ids, tier = self.selection.all_ids, self.options.tier
        return find_cases(ids, tier)[0] if ids else tier

    def _shipped_failures(self) -> Sequence[KnownFailure]:
        """Returns the known defects, unless they were switched off.

        Only the DirectML EP and DirectML itself have some.
        """
        provider = self.provider
        if self.options.no_shipped_known_failures or not (provider and (provider.directml or provider.direct)):
            return ()
        from ..known import shipped_failures

        return shipped_failures()

    def _active_failures(self, shipped: Sequence[KnownFailure] = ()) -> ActiveFailures:
        from ..known.known_failures import active_failures

        options = self.options
        file = options.known_failures or ""
        return active_failures(
            self.open(), options.provider, self.known_failures, file, shipped=shipped, other_cause=self._other_cause
        )

    def _other_cause(self, entry: KnownFailure, case: Case, record: Record) -> str | None:
        """Returns the cause of a failed case in words, if it is not the one that a known failure says; else None."""
        from ..diagnosis.failures import earlier_calls
        from ..diagnosis.judged_run import JudgedRun

        def earlier() -> Sequence[Earlier]:
            run = JudgedRun([*self._before, (case, record)], self.calls)
            return earlier_calls(run, len(run.judged) - 1)

        return self._known_causes.other_cause(entry, case, record, earlier)

    @cached_property
    def _known_causes(self) -> KnownCauses:
        from ..diagnosis.known_causes import KnownCauses

        return KnownCauses()

    @cached_property
    def problems(self) -> list[str]:
        """A line for each known failure that expired, or that matches nothing in the tier. Each makes the run red.

        Known failures that opmap ships are not among them.
        """
        if not self.known_failures:
            return []
        self.open()
        assert self.active_failures is not None, "open() finds the known failures that apply"
        tier = self._tier
        contract = contract_probes() if "contract" in tiers_in(tier) else ()
        return self.active_failures.problems(chain(self._catalogue(), probes(), contract), tier)

    # --- the end ---

    @property
    def notes(self) -> list[str]:
        """The lines below the tables, and what to know of the provider, which the terminal prints first."""
        return [*self.own_notes, *filter(None, [self.provider.note if self.provider else None])]

    @property
    def own_notes(self) -> list[str]:
        """The lines below the tables: those of the results, and those about cases that passed or are left out."""
        lines = self.results.notes()
        passed = self.active_failures.passed(self.items, self.results.records) if self.active_failures else 0
        if passed:
            lines.append(f"{passed} cases passed that known failures allow to fail")
        return [*lines, *filter(None, [self.variants_note, self.baseline_note])]

    @property
    def baseline_note(self) -> str | None:
        """A line about the baseline: how many of the run's cases it has."""
        if not self.baseline or not self.provider:
            return None
        return self.baseline.note({item.id for item in self.items}, self.provider)

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 1 if the run is red, 0 if it is green."""
        if self.results.interrupted:
            return 130
        flaky = sum(record.verdict is Verdict.FLAKY for record in self.results.records) > self.options.allow_flaky
        return int(bool(self.problems) or self.results.red(required=self.options.require_provider, flaky=flaky))

    def complete(self) -> None:
        """Writes all records in their order, the environment and the totals into the results bundle: whatever comes
        later, they are there.
        """
        if self.bundle:
            try:
                if self.provider:
                    self.bundle.environment(self.provider.environment())
            except KeyboardInterrupt:
                self.results.interrupted = True
            self.bundle.complete(self.results.records, self.exit_code, self.problems)

    def finish(self, diagnosis: DiagnosisDocument | None = None) -> int:
        """Completes the results bundle, writes its reports, and returns the exit code.

        `diagnosis` holds the causes of the failures; None if they were not sought or not found.
        """
        if self.bundle:
            if not self.bundle.completed:
                self.complete()
            try:
                self.bundle.write_reports(self.results.records, notes=self.notes, diagnosis=diagnosis)
            finally:
                self.bundle.release()
        return self.exit_code


def open_judge(
    provider: str,
    *,
    place: Mapping[str, Any] | None = None,
    feature_level: str = FEATURE_LEVELS[-1],
    index_conversion: IndexConversion | None = None,
    brief: bool = False,
) -> Judge:
    """Returns a judge on the provider of this name, which may be `fault:NAME`.

    `place` holds the keyword options of `open_provider`; the other options are those of Judge. Raises ProviderMissing
    if the provider is not installed or has no device, InputError if there is no provider of this name.
    """
    fault = provider.removeprefix("fault:")
    if fault != provider:
        from ..faults import open_fault

        refuse_options(provider, **place or {})
        opened = open_fault(fault)
    else:
        opened = open_provider(provider, **place or {})
    return Judge(opened, feature_level=feature_level, index_conversion=index_conversion, brief=brief)
