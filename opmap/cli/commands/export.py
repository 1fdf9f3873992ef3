"""`opmap export`: writes a folder that reproduces a case without opmap, or a redacted bundle."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence

from ...cases.case import Case
from ...cases.selection import find_case
from ...diagnosis.failures import failure_of
from ...diagnosis.sides import whose_fault
from ...errors import InputError
from ...judge.judge import Judge
from ...judge.record import Record
from ...reports.again import command_line
from ...reports.cause_view import CauseView
from ...reports.export import export_folder
from ...reports.failure_folders import ISSUE, PROGRAM
from ...reports.redaction import Redactor
from ...reports.reproducers.model_folders import write_files
from ...reports.results_folder import check_folder
from ...reports.tables import line
from ...reports.terminal import console, print_error, print_line, progress
from ...reports.written_bundle import is_bundle
from ...session import ValidationRun
from ...session.options import OPTIONS, SessionOptions, of_command
from .dispatches import read_case

_WITHOUT_RUN = ("provider", "feature_level", "index_conversion")
"""The options of a run that have a meaning without a provider. All others say how it runs."""


def run(options: Namespace) -> int:
    """Writes the folder. Returns 1 if a provider was asked for and the case failed on it, else 0.

    Raises InputError, and writes nothing, if the case is bad or the folder is not empty; ProviderMissing if the
    provider is not there.
    """
    _check(options)
    redactor = Redactor() if options.redact else None
    code = (_export_bundle if is_bundle(options.target) else _export_case)(options, redactor)
    for kind, texts in (redactor.removed if redactor else {}).items():
        print_line(f"  taken out    {kind}: {', '.join(texts)}")
    return code


def _check(options: Namespace) -> None:
    """Raises InputError for options that do not go together, and for a folder that is not empty."""
    if is_bundle(options.target):
        if not options.redact:
            raise InputError("--redact must be given with the folder of a results bundle", file=options.target)
        if options.provider is not None or options.after or options.node:
            raise InputError("--provider, --after and --node must be given with one case, got a results bundle")
    for name, row in of_command("export", OPTIONS).items():
        if name not in _WITHOUT_RUN and getattr(options, name) not in (row.default, []) and options.provider is None:
            raise InputError(f"--{name.replace('_', '-')} must be given with --provider")
    check_folder(options.output, option="")


def _export_bundle(options: Namespace, redactor: Redactor | None) -> int:
    assert redactor, "_check asks for --redact"
    from ...reports.redacted_bundle import write_redacted

    left_out = write_redacted(options.target, options.output, redactor)
    print_line(f"{options.target}: the copy is in {options.output}")
    for name in left_out:
        print_line(f"  left out     {name}: opmap did not write it, or it is too large or cannot be read")
    return 0


def _export_case(options: Namespace, redactor: Redactor | None) -> int:
    case = read_case(options.target, name=options.node, feature_level=options.feature_level)
    before = [find_case(id, wanted="the id of a case for --after") for id in options.after]
    if options.provider is None:
        files = export_folder(case, index_conversion=options.index_conversion, before=before, redactor=redactor)
        code, again = 0, ""
    else:
        files, code, again = _run(options, case, before, redactor)
    write_files(options.output, files)
    print_line(f"{case.id}: {len(files)} files in {options.output}")
    if PROGRAM in files:
        program = ["python", os.path.join(options.output, PROGRAM)]
        if code and ":" in options.provider:  # a provider that no program can make
            print_line(f"  run it       {again}")
            print_line(f"  recorded     {command_line([*program, 'recorded'])}")
        else:
            print_line(f"  run it       {command_line(program)}")
    print_line(f"  to report it {os.path.join(options.output, ISSUE)}")
    return code


def _run(
    options: Namespace, case: Case, before: Sequence[Case], redactor: Redactor | None
) -> tuple[dict[str, bytes], int, str]:
    """Runs a case after the earlier ones.

    Returns the files of its folder, the exit code, and the command that runs the case again.
    """
    session = ValidationRun(SessionOptions.read(vars(options)), brief=False)
    with session:
        judge = session.open()
        if not isinstance(judge, Judge):
            raise judge
        for earlier in before:
            session.judge(earlier)
        record = session.judge(case)
        console().print(line(record), soft_wrap=True, highlight=False)
        provider = judge.provider
        again = session.again(case) if case.file is None else session.options.again("", "dxdispatch.json")
        files = export_folder(
            case,
            record=record,
            provider=provider.name,
            provider_options=_provider_options(options),
            session_options=dict(options.session_option),
            index_conversion=options.index_conversion,
            before=before,
            environment=provider.environment(),
            diagnosis=_diagnosis(session, case, record, options) if record.failed and not before else (),
            again=again,
            redactor=redactor,
        )
    return files, int(record.failed), again


def _provider_options(options: Namespace) -> dict[str, str]:
    number = {} if options.device_id is None else {"device_id": str(options.device_id)}
    metacommands = {"disable_metacommands": "True"} if options.disable_metacommands else {}
    return {**metacommands, **dict(options.provider_option), **number}


def _diagnosis(session: ValidationRun, case: Case, record: Record, options: Namespace) -> list[str]:
    """Returns the relation of a wrong output to the right one, and whose fault it is."""
    failure, sides = failure_of(case, record), None
    if not options.no_sides:
        try:
            with progress(None, "sides"):
                sides = whose_fault(case, record, session.fresh, dangerous=options.rerun_dangerous)
        except KeyboardInterrupt:
            print_error("interrupted: whose fault it is was not found")
    return CauseView.of_failure(failure, failure.relations[0], sides).texts("relation")
