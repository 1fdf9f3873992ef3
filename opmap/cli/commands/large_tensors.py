"""`opmap validate --large`: cases with more than 2^31 bytes of data, of whose outputs a sample is checked."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from time import perf_counter

from ...cases.large_tensors import LargeCase, large_cases
from ...errors import InputError
from ...judge.large import judge_large
from ...judge.record import Record, encode
from ...judge.run import Results, shuffled
from ...reports.tables import print_failures, print_notes, print_tables, print_total
from ...reports.terminal import console, progress, stdout_for_json, write_json
from ...session import ValidationRun
from ...session.options import OPTIONS, SessionOptions
from ...vocabulary import Verdict

_ALONE = (
    *("filter", "case", "shard", "known_failures", "baseline", "allow_flaky", "repeat", "pack", "fresh_sessions"),
    *("report", "resume"),
)
"""The options that have no meaning beside --large."""


def run_large(options: Namespace) -> int:
    """Runs the large cases, prints the results, and returns the exit code. Raises InputError for bad options."""
    for name in _ALONE:
        if getattr(options, name) not in (OPTIONS[name].default, []):
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"--large runs its own cases one by one and writes no bundle: leave out {option}")
    session, cases = ValidationRun(SessionOptions.read(vars(options))), large_cases()
    results = Results(max_failures=options.max_failures)

    def judge(batch: Sequence[LargeCase]) -> list[Record]:
        (case,) = batch
        if session.provider is None:
            message = f"{options.provider} is not available"
            operator = f"DML_OPERATOR_{case.desc.operator}"
            return [Record.on(options.provider, case.id, operator, verdict=Verdict.NOT_RUN, message=message)]
        return [judge_large(case, session.provider)]

    begin, out = perf_counter(), console()
    with stdout_for_json(options.json), session, progress(len(cases), session.provider_name) as advance:
        results.collect(cases, judge, advance, batches=[[case] for case in shuffled(cases, options.shuffle)])
    if options.json:
        write_json(encode(results.records))
    else:
        print_tables(out, results.records, verbose=options.verbose)
        print_failures(out, results.records)
        checked = [f"{record.case}: {record.message}" for record in results.records if record.good and record.message]
        print_notes(out, [*checked, *results.notes()])
    exit_code = 130 if results.interrupted else int(results.red(required=options.require_provider))
    if not options.json:
        print_total(out, results.records, exit_code, perf_counter() - begin)
    return exit_code
