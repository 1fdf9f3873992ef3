"""`opmap check`: judges the dispatches of DxDispatch JSON files, and the nodes of ONNX models."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence

from ...errors import InputError
from ...evidence.tables import line
from ...evidence.terminal import console, print_error, stdout_for_json, write_json
from ...judge.judge import Judge
from ...judge.onnx_models import (
    CpuValues,
    GivenModel,
    is_model,
    judge_model,
    node_cases,
    read_model_file,
)
from ...judge.record import Record, encode
from ...mapping.dxdispatch import Dispatch, read
from ...session import Session
from ...session.options import SessionOptions
from ...vocabulary import Stage, Verdict

_MOST_LINES = 10
"""How many lines a bad file gets on stderr, one for each bad dispatch. A last line counts the others."""


def run(options: Namespace) -> int:
    """Judges every dispatch or node of every file, and prints each result.

    Returns 2 if a file or descriptor is bad, else 1 if a result is wrong, else 0.
    """
    session = Session(SessionOptions.read(vars(options)), brief=False)
    bad = False
    try:
        with stdout_for_json(options.json), session, CpuValues(session.options.timeout_per_case) as cpu:
            for file in options.files:
                bad |= _print_file(file, _judged(session, file, cpu), quiet=options.json)
    except KeyboardInterrupt:
        session.results.interrupted = True
    if options.json:
        write_json(encode(session.results.records))
    if session.results.interrupted:
        raise KeyboardInterrupt
    return 2 if bad else session.exit_code


def _judged(session: Session, file: str, cpu: CpuValues) -> Iterator[Record]:
    """Judges the dispatches of a file, or the nodes of a model with each set of its test data, and gives their records.

    For a file that cannot be read it gives one record with the error.
    """
    try:
        if not is_model(file):
            for dispatch in read(file):
                yield session.judge_dispatch(dispatch, file)
            return
        model = read_model_file(file)
        data_sets: Sequence[str | None] = model.data_sets or [None]
        for data_set in data_sets:
            for record in _of_data_set(session, model, data_set, cpu):
                session.results.add(record)
                yield record
    except InputError as error:
        yield session.judge_dispatch(Dispatch(error=error), file)


def _of_data_set(session: Session, model: GivenModel, data_set: str | None, cpu: CpuValues) -> Iterator[Record]:
    """Judges the nodes of a model with one set of its test data, with known failures taken into account."""
    judge = session.open()
    if not isinstance(judge, Judge):
        for entry in node_cases(model, data_set, cpu, feature_level=session.feature_level).all_cases:
            fields = {"verdict": Verdict.NOT_RUN, "message": str(judge), "file": model.file}
            yield Record.on(session.provider_name, entry.node.label, entry.node.operator, **fields)
        return
    known = session.active_failures
    for cases, record in judge_model(judge, model, data_set, cpu):
        applied = [known.apply(case, record) for case in cases] if known else []
        explained = (one for one in applied if one.verdict is Verdict.KNOWN_FAILURE)
        yield next(explained, applied[0] if len(applied) == 1 else record)


def _print_file(file: str, records: Iterable[Record], *, quiet: bool) -> bool:
    """Prints a line for each record of a file, with `quiet` only for bad input.

    Returns whether the input is bad.
    """
    bad = 0
    for record in records:
        if record.stage in (Stage.READ, Stage.VALIDATE):
            bad += 1
            if bad <= _MOST_LINES:
                print_error(": ".join(str(part) for part in (record.file, record.path, record.message) if part))
        elif not quiet:
            console().print(line(record), soft_wrap=True, highlight=False)
    if bad > _MOST_LINES:
        print_error(f"{file}: ... and {bad - _MOST_LINES} more")
    return bool(bad)
