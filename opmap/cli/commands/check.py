"""`opmap check`: judges the dispatches of DxDispatch JSON files, and the nodes of ONNX models."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby

from ...errors import InputError, describe, names, shown
from ...judge.judge import Judge
from ...judge.onnx_models import (
    ITSELF,
    CpuValues,
    DataSet,
    GivenModel,
    find_targets,
    is_model,
    judge_model,
    node_cases,
    others,
    read_inputs,
    read_model_file,
    symbolic_dimensions,
)
from ...judge.record import Record, encode
from ...known.final import Evidence, final
from ...mapping.dxdispatch import Dispatch, read
from ...reports.tables import line, print_notes, print_tested, print_total
from ...reports.terminal import console, print_error, print_line, progress, stdout_for_json, write_json
from ...session import ValidationRun
from ...session.options import SessionOptions
from ...vocabulary import Fate, JudgedBy, Stage, Verdict

_MOST_LINES = 10
"""How many lines a bad file gets on stderr, one for each bad dispatch. A last line counts the others."""

_BAD = (Stage.READ, Stage.VALIDATE)
"""The stages of an error that is in the file."""

_OF_LATER_DATA = re.compile(r"test_data_set_[^0]\d*/").match
"""Whether the name of a result begins with a set of test data that is not the first one."""

_MOST_NAMES = 5
"""How many nodes with the same result a line names."""


def run(options: Namespace) -> int:
    """Judges every dispatch or node of every file, and prints each result.

    Returns 2 if a file or descriptor is bad, else 1 if a result is wrong or nothing was judged, else 0.
    """
    options.dimensions = _dimensions(options.dim)
    targets, other_files = find_targets(options.files)
    if options.inputs and len(targets) != 1:
        raise InputError(f"--inputs must be given with one model, got {len(targets)} files")
    session = ValidationRun(SessionOptions.read(vars(options)), brief=False)
    show_tested = cache(lambda: print_tested(console(), session.provider))  # once, before the first result
    bad = idle = False
    try:
        with stdout_for_json(options.json), session, CpuValues(session.options.timeout_per_case) as cpu:
            for file in targets:
                one = _File(session, file, cpu, options, show_tested)
                bad |= one.judge()
                idle |= options.require_provider and is_model(file) and one.is_idle()
    except KeyboardInterrupt:
        session.results.interrupted = True
    records = session.results.records
    if options.json:
        write_json(encode(records))
    elif other_files:
        print_line(f"other files in these folders, which are no models: {other_files}")
    nothing = not any(map(_says_something, records))
    code = 2 if bad else session.exit_code or int(idle or nothing)
    if not options.json and (len(targets) > 1 or not bad):
        code = 130 if session.results.interrupted else code
        print_notes(console(), _next(session, options))
        print_total(console(), records, code, why="nothing was judged" if nothing else "", noun="result")
    if session.results.interrupted:
        raise KeyboardInterrupt
    if nothing and not bad:
        lacking = (
            "test data beside the model (test_data_set_0/), --inputs, --dim or"
            if session.provider
            else "the provider is missing;"
        )
        print_error(f"nothing was judged: {lacking} another --provider may help")
    return code


def _next(session: ValidationRun, options: Namespace) -> list[str]:
    """Returns a line with the command that asks about the first wrong result; none if `diagnose` would take other
    data.
    """
    records = session.results.records
    wrong = [
        record
        for record in records
        if record.failed and record.operator and record.stage not in _BAD and not _OF_LATER_DATA(record.case or "")
    ]
    if not wrong or options.dim or options.inputs:
        return []
    first = wrong[0]
    several = sum(record.file == first.file for record in records) > 1
    node = (first.case or "").removeprefix("test_data_set_0/") if several else None
    return [f"next: {session.options.again('', first.file, command='diagnose', node=node)}"]


def _dimensions(words: Sequence[str]) -> dict[str, int]:
    """Returns the sizes that --dim gives, by name. Raises InputError."""
    dimensions: dict[str, int] = {}
    for word in words:
        name, _, size = word.rpartition("=")
        if not name or not size.isascii() or not size.isdigit() or len(size) > 9:
            raise InputError(f"--dim must be NAME=SIZE with a size of at least 0, got {shown(word)}")
        if name in dimensions:
            raise InputError(f"--dim must give each name once, got {shown(name)} twice")
        dimensions[name] = int(size)
    return dimensions


class _File:
    """Judges one file, and prints what was found."""

    def __init__(
        self, session: ValidationRun, file: str, cpu: CpuValues, options: Namespace, show_tested: Callable[[], None]
    ):
        self.session, self.file, self.cpu, self.show_tested = session, file, cpu, show_tested
        self.dimensions: Mapping[str, int] = options.dimensions
        self.inputs, self.quiet = options.inputs, options.json
        self.other_nodes, self.notes, self.records = 0, list[str](), list[Record]()

    def judge(self) -> bool:
        """Judges the file, and prints a line for each result, with `quiet` only for bad input.

        Returns whether the input is bad.
        """
        records = self.records
        try:
            with progress(None, self.file) as advance:
                for record in self._judged():
                    records.append(record)
                    advance()
        finally:  # after Ctrl-C, what was judged before
            bad = [record for record in records if record.stage in _BAD]
            self._print_bad(bad)
            if not self.quiet:
                self._print([record for record in records if record not in bad])
        if not self.quiet and not bad and is_model(self.file):
            self._print_summary(records)
        return bool(bad)

    def is_idle(self) -> bool:
        """Returns whether no node of the model ran on the provider, and says so.

        A node that ONNX Runtime folds does not run.
        """
        idle = not any(
            record.fate in (None, Fate.RAN) and record.placement and record.placement.shown for record in self.records
        )
        if idle:
            print_error(f"{self.file}: no node is proven to have run on {self.session.provider_name}")
        return idle

    def _print_bad(self, bad: Sequence[Record]) -> None:
        """Prints a line on stderr for each bad dispatch."""
        for record in bad[:_MOST_LINES]:
            print_error(InputError(record.message or "", path=record.error_at, file=record.file))
        if len(bad) > _MOST_LINES:
            print_error(f"{self.file}: ... and {len(bad) - _MOST_LINES} more")

    def _print(self, records: Sequence[Record]) -> None:
        """Prints what opmap chose, and one line for each result; equal ones share a line."""
        if records:
            self.show_tested()
        for note in dict.fromkeys(self.notes):
            print_line(f"{self.file}: {note}")
        for _, group in groupby(records, lambda record: (record.verdict, record.stage, record.message)):
            alike = list(group)
            case = ", ".join(record.case or "" for record in alike[:_MOST_NAMES])
            more = f" and {len(alike) - _MOST_NAMES} more" if len(alike) > _MOST_NAMES else ""
            console().print(line(alike[0], f"{case}{more}"), soft_wrap=True, highlight=False)

    def _print_summary(self, records: Sequence[Record]) -> None:
        """Prints how many nodes were judged, and by whom."""
        nodes = [record for record in records if record.operator]
        counts = Counter(_count_of(record) for record in nodes)
        judged = ", ".join(f"{count} {what}" for what, count in counts.items()) or "none"
        others = (
            f"; {self.other_nodes} node{'s' * (self.other_nodes != 1)} of other operators" if self.other_nodes else ""
        )
        print_line(f"{self.file}: {len(nodes)} node{'s' * (len(nodes) != 1)}: {judged}{others}")

    def _judged(self) -> Iterator[Record]:
        """Judges the dispatches of a file, or the nodes of a model with each set of its test data, and gives their
        records.

        For a file that cannot be read it gives one record with the error.
        """
        session, file = self.session, self.file
        try:
            if not is_model(file):
                if self.dimensions or self.inputs:
                    raise InputError("must be an ONNX model with --dim or --inputs")
                for dispatch in read(file):
                    yield session.judge_dispatch(dispatch, file)
                return
            model = read_model_file(file)
            unknown = [name for name in self.dimensions if name not in (known := symbolic_dimensions(model))]
            if unknown:
                raise InputError(f"--dim must be one of {names(known) or 'no symbolic size'}, got {shown(unknown[0])}")
            data_sets: Sequence[DataSet | str | None] = model.data_sets or [None]
            if self.inputs:
                data_sets = [read_inputs(model, self.inputs)]
            elif self.dimensions:
                data_sets = [None]
            for data_set in data_sets:
                for record in self._of_data_set(model, data_set):
                    session.results.add(record)
                    yield record
        except InputError as error:
            yield session.judge_dispatch(Dispatch(error=error), file)

    def _of_data_set(self, model: GivenModel, data_set: DataSet | str | None) -> Iterator[Record]:
        """Judges the nodes of a model with one set of its test data, with known failures taken into account."""
        session, judge = self.session, self.session.open()
        if not isinstance(judge, Judge):
            for entry in node_cases(model, data_set, self.cpu, feature_level=session.feature_level).all_cases:
                fields = {"verdict": Verdict.NOT_RUN, "message": str(judge), "file": model.file}
                yield Record.on(session.provider_name, entry.node.label, entry.node.operator, **fields)
            return
        known = session.active_failures
        try:
            judged = judge_model(judge, model, data_set, self.cpu, dimensions=self.dimensions, notes=self.notes)
            for cases, record in judged:
                matches = [known.matches(case, [record]) if known else [] for case in cases] or [[]]
                applied = [final(Evidence([record], matching)) for matching in matches]
                explained = (one for one in applied if one.verdict is Verdict.KNOWN_FAILURE)
                yield next(explained, applied[0] if len(applied) == 1 else final(Evidence([record])))
        except (InputError, KeyboardInterrupt):
            raise
        except Exception as error:
            message = f"{ITSELF}: {describe(error)}"
            fields = {"verdict": Verdict.ERROR, "stage": Stage.DERIVE, "message": message, "file": model.file}
            yield Record.on(judge.provider, "model", None, **fields)
        self.other_nodes = others(model)


def _says_something(record: Record) -> bool:
    """Returns whether an element was judged, or may have been: a large output is recorded without its elements."""
    if record.verdict is Verdict.OBSERVED:
        outputs = [output.expected.Values for output in (record.outputs or {}).values()]
        return any(values is None or any(value is not None for value in values) for values in outputs)
    return record.verdict not in (Verdict.NOT_RUN, Verdict.UNSUPPORTED)


def _count_of(record: Record) -> str:
    """Returns under which words a node is counted."""
    if record.judge in (JudgedBy.ONNX, JudgedBy.FILE) and record.verdict is Verdict.PASS:
        return f"judged by {'ONNX' if record.judge is JudgedBy.ONNX else 'the file'}"
    return str(record.verdict)
