"""The command line. Exit 0: fine; 1: something was found wrong; 2: bad usage or bad input; 130: interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import closing, contextmanager, nullcontext, redirect_stdout
from itertools import chain
from pathlib import Path

from .errors import InputError, OpmapError
from .options import parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; errors become one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        options = parser().parse_args(arguments)
        return COMMANDS[options.command](options)
    except OpmapError as error:
        return _bad(error)
    except KeyboardInterrupt:
        print("opmap: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except OSError as error:  # stdout or the report's folder can take no more
        return _bad(f"cannot write{f' {error.filename}' if error.filename else ''}: {error.strerror or error}")
    except SystemExit as exit:  # argparse: 0 for --help, 2 for bad usage
        return int(exit.code or 0)


def _bad(error: object) -> int:
    print(f"opmap: {' '.join(str(error).split())}", file=sys.stderr)
    return 2


# --- validate and check --------------------------------------------------------------------------------------------


def _validate(options) -> int:
    from .cases.catalogue import catalogue
    from .cases.probes import Probe, probes
    from .cases.selection import Selection, case_ids
    from .reporting.bundle import Bundle
    from .verdicts.known_failures import check_new, known_at, load, write
    from .verdicts.probes import judge_probe
    from .verdicts.run import Run, missing

    entries = load(options.known_failures) if options.known_failures else ()
    if options.write_known_failures:
        check_new(options.write_known_failures)
    asked = Selection(tier=options.tier, globs=options.filter, ids=case_ids(options.case), shard=options.shard)
    with _progress(None, "choosing cases") as advance:
        items = cases = asked.cases(advance)
    with _stdout_for_json(options):
        judge = _judge(options, brief=True)
    there = not isinstance(judge, OpmapError)
    name = judge.provider.name if there else options.provider
    with _stdout_for_json(options), closing(judge.provider) if there else nullcontext():
        if there:
            items = [*cases, *asked.probes(judge.provider)]
        if there and not items:
            raise InputError(f"--filter must match a case: {name} has no probes")
        bundle = None
        if options.report or options.resume:
            selection = _selection(options, name, asked.ids, [item.id for item in items])
            bundle = Bundle(options.report or options.resume, selection, resume=bool(options.resume))
        known = known_at(judge, name, entries, options.known_failures)
        run = Run(known, bundle, options.max_failures)
        if there:
            provider = judge.provider
            with _progress(len(items), provider.name) as advance:
                run.judge(
                    items,
                    lambda item: judge_probe(item, provider) if isinstance(item, Probe) else judge(item),
                    advance,
                    repeat=options.repeat,
                    seed=options.shuffle,
                )
            if bundle:
                bundle.environment(provider.environment())
        else:
            run.skip(missing(case, name, judge) for case in cases)
    run.problems += known.problems(chain(catalogue(options.tier), probes()), options.tier)
    for problem in run.problems:
        print(f"opmap: {problem}", file=sys.stderr)
    if options.write_known_failures:
        count = write(options.write_known_failures, run.records, known.place, options.tier)
        print(f"opmap: {options.write_known_failures}: {count} entries, each wants its reason", file=sys.stderr)
    return _finish(options, run, judge, bundle)


def _finish(options, run, judge, bundle) -> int:
    """Prints what the run found, closes the bundle, and returns the exit code."""
    from .verdicts.record import encode, split

    code = 130 if run.interrupted else 1 if run.red(required=options.require_provider) else 0
    if bundle:
        bundle.close(run.records, code, run.problems)
    if options.json:
        sys.stdout.buffer.write(encode(run.records) + b"\n")
        return code
    from .reporting.tables import print_failures, summary

    console = _console()
    for title, records in zip(("cases", "probes: models without a valid descriptor"), split(run.records), strict=True):
        if records:
            console.print(summary(records, title))
    print_failures(console, run.records)
    for note in run.notes():
        console.print(note, style="bold", soft_wrap=True, highlight=False, markup=False)
    if bundle:
        console.print(f"results: {bundle.folder / 'results.jsonl'}", soft_wrap=True, highlight=False, markup=False)
    return code


def _check(options) -> int:
    from .verdicts.record import encode
    from .verdicts.run import Run

    run, bad = Run(), False
    try:
        with _stdout_for_json(options):
            judge = _judge(options)
            with nullcontext() if isinstance(judge, OpmapError) else closing(judge.provider):
                bad = _check_files(options, judge, run)
    except KeyboardInterrupt:
        run.interrupted = True
    if options.json:
        sys.stdout.buffer.write(encode(run.records) + b"\n")
    if run.interrupted:
        raise KeyboardInterrupt
    return 2 if bad else 1 if run.red(required=options.require_provider) else 0


def _check_files(options, judge, run) -> bool:
    """Judges every dispatch of every file, and says whether a file was bad."""
    from .descriptors import FEATURE_LEVELS
    from .dxdispatch import Dispatch, read
    from .reporting.tables import line
    from .verdicts.judge import refuse
    from .verdicts.run import missing

    bad = False
    for file in options.files:
        try:
            dispatches = read(file)
        except InputError as error:
            dispatches = [Dispatch(error=error)]
        for dispatch in dispatches:
            if isinstance(judge, OpmapError):
                level = options.feature_level or FEATURE_LEVELS[-1]
                refusal = refuse(dispatch, file, provider=options.provider, feature_level=level)
                record = refusal or missing(dispatch, options.provider, judge, file)
            else:
                record = judge.dispatch(dispatch, file)
            run.add(record)
            if record.stage in ("read", "validate"):
                bad = True
                _bad(": ".join(str(part) for part in (record.file, record.path, record.message) if part))
            elif not options.json:
                _console().print(line(record), soft_wrap=True, highlight=False)
    return bad


@contextmanager
def _stdout_for_json(options):
    """With --json, stdout is the document's alone: what a provider prints, in C++ too, goes to stderr."""
    if not options.json:
        yield
        return
    sys.stdout.flush()
    try:
        stdout, saved = sys.stdout.fileno(), os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), stdout)
    except (OSError, ValueError):  # one of them is no file: a test's, a notebook's
        saved = None
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if saved is not None:
            os.dup2(saved, stdout)
            os.close(saved)


def _judge(options, *, brief: bool = False):
    """The judge for the provider that was asked for; where it is missing, the error that says so."""
    from .descriptors import FEATURE_LEVELS
    from .execution.providers import ProviderMissing
    from .session import open_judge

    level = options.feature_level or FEATURE_LEVELS[-1]
    place = {
        "adapter": options.adapter,
        "device_id": options.device_id,
        "disable_metacommands": options.disable_metacommands,
        "timeout": options.timeout_per_case,
        "dml_runtime": options.dml_runtime,
    }
    conversion = options.index_conversion
    try:
        return open_judge(options.provider, place=place, feature_level=level, index_conversion=conversion, brief=brief)
    except ProviderMissing as error:
        return error


def _selection(options, provider: str, asked: Sequence[str], ids: Sequence[str]) -> dict:
    """What was asked for, down to the ids: an interrupted run is finished with the same."""
    from .cases.case import CASE_IDS

    known = Path(options.known_failures).read_bytes() if options.known_failures else None
    return {
        "ids": _digest("\n".join(ids).encode()),
        "case_ids": CASE_IDS,
        "known_failures": known and _digest(known),
        "repeat": options.repeat,
        "shuffle": options.shuffle,
        "provider": provider,
        "tier": options.tier,
        "filter": options.filter,
        "case": asked,
        "shard": "/".join(map(str, options.shard)),
        "feature_level": options.feature_level,
        "index_conversion": options.index_conversion,
        "adapter": options.adapter,
        "device_id": options.device_id,
        "disable_metacommands": options.disable_metacommands,
    }


def _digest(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


def _console():
    from rich.console import Console

    return Console(emoji=False)


def _progress(total: int | None, name: str):
    """A progress bar on stderr, where a person is watching."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    @contextmanager
    def shown():
        console = Console(stderr=True)
        if not console.is_terminal:
            yield lambda: None
            return
        with Progress(
            *Progress.get_default_columns()[:2],
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        ) as progress:
            task = progress.add_task(name, total=total)
            yield lambda: progress.advance(task)

    return shown()


# --- map and explain -----------------------------------------------------------------------------------------------


def _one_dispatch(file: str, name: str | None):
    """The one dispatch of a file, or the one with this name. Raises InputError."""
    from .dxdispatch import read

    try:
        dispatches = read(file)
        if name is not None:
            dispatches = [d for d in dispatches if d.name == name] or _none_such(dispatches, name)
        if len(dispatches) > 1:
            names = ", ".join(str(d.name) for d in dispatches)
            raise InputError(f"must dispatch once, or be given --case, got {names}")
        (dispatch,) = dispatches
        return dispatch
    except InputError as error:
        error.file = file
        raise


def _none_such(dispatches, name):
    raise InputError(f"--case must be one of {', '.join(str(d.name) for d in dispatches)}, got {name!r}")


def _valid(dispatch, file: str, feature_level: str | None = None):
    """The dispatch, where nothing is wrong with it. Raises InputError."""
    from .descriptors import FEATURE_LEVELS

    try:
        if dispatch.desc is not None:
            dispatch.desc.validate(feature_level=feature_level or FEATURE_LEVELS[-1], path=dispatch.path)
        if dispatch.error is not None:
            raise dispatch.error
    except InputError as error:
        error.file = file
        raise
    return dispatch


def _map(options) -> int:
    import msgspec

    from .cases.case import Case
    from .dxdispatch import desc_json
    from .mapping import map_descriptor
    from .reporting.models import folder_files, write_files

    dispatch = _valid(_one_dispatch(options.file, options.case), options.file, options.feature_level)
    mapped = map_descriptor(dispatch.desc, index_conversion=options.index_conversion or "graph")
    output = Path(options.output)
    if output.suffix.lower() == ".onnx":
        write_files(output.parent, {output.name: mapped.model_bytes})
    else:
        write_files(output, folder_files(mapped, Case(dispatch.name, dispatch.desc, dispatch.tensors, options.file)))
    substitutions = [str(s) for s in mapped.substitutions]
    if options.json:
        told = {"output": str(output), "substitutions": substitutions, "lowered_as": desc_json(mapped.lowered_as)}
        print(msgspec.json.encode(told).decode())
        return 0
    print(f"{dispatch.operator} -> ONNX {mapped.lowering.op_type}: {output}")
    for substitution in substitutions:
        print(f"  substituted  {substitution}")
    same = mapped.lowered_as == mapped.desc
    print(
        f"  lowered as   {'the same descriptor' if same else f'DML_OPERATOR_{mapped.lowered_as.operator}'} (predicted)"
    )
    return 0


def _explain(options) -> int:
    dispatch = _valid(_one_dispatch(options.file, options.case), options.file)
    desc, spec = dispatch.desc, dispatch.desc.spec()
    told = [f"{spec.operator}  {spec.page.address}"]
    told += (f"  {text}" for text in spec.pseudocode.text.strip().splitlines())
    told += ["expands to", *(f"  {statement}" for statement in desc.statements)]
    if options.at is not None:
        told += _element(dispatch, options.at)
    print("\n".join(told))
    return 0


def _element(dispatch, at) -> list[str]:
    """How one element of the output is read. Raises InputError where there is no such element."""
    from .tensors import from_bits, plain

    desc = dispatch.desc
    try:
        origin = desc.trace(at, dispatch.tensors)
    except ValueError as error:
        raise InputError(f"--at {error}") from None
    value: object = "undefined"
    if origin.address is not None:
        source = dispatch.tensors[desc.spec().pseudocode.tensors[origin.tensor]]
        value = plain(from_bits(source.data_type, [source.bits[origin.address]])[0])
    return [f"element [{', '.join(map(str, at))}]", f"  {origin.text} = {value}"]


# --- rules, docs, faults, build, doctor -----------------------------------------------------------------------


def _rules(options) -> int:
    import msgspec

    from .spec import all_specs, tensor_rules

    specs, tensors = [s.corrected for s in all_specs()], tensor_rules()
    entries = [
        {
            "id": rule.id,
            "text": rule.text,
            "page": tensors.address,
            "check": None,
            "derived": False,
            "breaks": msgspec.to_builtins(rule.breaks),
        }
        for rule in tensors.rules
    ]
    for spec in specs:
        for rule in spec.rules:
            page = None if rule.derived else f"{spec.page.address} (line {rule.line} at {spec.page.commit})"
            breaks = {**msgspec.to_builtins(rule.breaks), "operator": spec.name}
            entries.append(
                {
                    "id": rule.id,
                    "text": rule.text,
                    "page": page,
                    "check": rule.check.strip(),
                    "derived": rule.derived,
                    "breaks": breaks,
                }
            )
    if options.id is not None:
        entries = [e for e in entries if e["id"] == options.id.upper()]
        if not entries:
            raise InputError(f"rules: must be a rule id, as TENSOR.C1 (opmap rules lists them), got {options.id!r}")
    if options.json:
        print(msgspec.json.encode(entries).decode())
    elif options.id is None:
        for e in entries:
            print(f"{e['id']:20} {e['text']}")
    else:
        _print_rule(entries[0])
    return 0


def _print_rule(entry: dict) -> None:
    print(f"{entry['id']}  {entry['text']}")
    if entry["check"]:
        print("states:")
        for text in entry["check"].splitlines():
            print(f"  {text}")
    print(f"page: {entry['page'] or 'derived: no page states it; what breaks it has no documented meaning'}")
    breaks = entry["breaks"]
    changes = ", ".join(f"{name} = {value}" for name, value in breaks["set"].items())
    print(f"broken by: example {breaks['example']} of {breaks['operator']}'s page with {changes}")


def _docs(options) -> int:
    import msgspec

    from .documentation import review_page
    from .files import read_text

    found, bad = [], False
    for file in options.files:
        try:
            of_file = review_page(read_text(file), file)
        except InputError as error:
            error.file = file
            bad = _bad(error)
            continue
        if options.new_only:
            of_file = tuple(f for f in of_file if f.erratum is None)
        found += [(file, f) for f in of_file]
        if not options.json:
            for f in of_file:
                print(f"{file}:{f.line}: {f.kind}: {f.message}{f' ({f.erratum})' if f.erratum else ''}")
            if not of_file:
                print(f"{file}: nothing{' new' if options.new_only else ''} found")
    if options.json:
        print(msgspec.json.encode([{"file": file, **msgspec.to_builtins(f)} for file, f in found]).decode())
    return 2 if bad else int(bool(found))


def _faults(options) -> int:
    from .cases.selection import Selection
    from .faults.score import encode, score, summary

    with _progress(None, "choosing cases") as advance:
        cases = Selection(tier=options.tier).cases(advance)
    with _progress(len(cases), "faults") as advance:
        scores = score(cases, advance=advance)
    if options.json:
        sys.stdout.buffer.write(encode(options.tier, cases, scores) + b"\n")
    else:
        for text in summary(options.tier, cases, scores):
            print(text)
    return int(not all(s.right(options.tier) for s in scores))


def _catalog(options) -> int:
    import msgspec

    from .cases.catalogue import catalogue
    from .reporting.coverage import print_coverage, told

    if options.list:
        for case in catalogue(options.tier):
            print(case.id)
        return 0
    with _progress(None, "cases") as advance:
        found = told(options.tier, advance)
    if options.json:
        print(msgspec.json.encode(found).decode())
    else:
        print_coverage(_console(), found)
    return int(bool(found["missing"]))


def _build(options) -> int:
    from .reporting.models import build

    print(f"{build(options.output)} models in {options.output}")
    return 0


def _doctor(options) -> int:
    from .reporting.doctor import diagnose

    return diagnose(_console(), json=options.json)


COMMANDS = {
    "validate": _validate,
    "check": _check,
    "map": _map,
    "explain": _explain,
    "rules": _rules,
    "docs": _docs,
    "faults": _faults,
    "catalog": _catalog,
    "build": _build,
    "doctor": _doctor,
}
"""What each command runs, by its name in the options."""
