"""`opmap fuzz`: performs random sequences on a provider, and shrinks what fails."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack, nullcontext

import numpy as np

from ...engines.performer import Performer
from ...engines.provider_facts import DIRECT
from ...engines.providers import Provider, full_name, open_provider
from ...engines.sessions import CPU
from ...engines.steps import HOST, Put
from ...engines.worker import WorkerProvider
from ...errors import InputError
from ...fuzz.coverage import unproven
from ...fuzz.judging import InSetup, of_control
from ...fuzz.search import Excluded, Find, Progress, Search
from ...fuzz.switches import PROBES, available
from ...known import KINDS, defects
from ...reports.finds import FindsFolder, entry, models_of, side, steps_of, variant
from ...reports.results_folder import identity
from ...reports.terminal import print_error, print_line, stdout_for_json, write_json
from ...session.options import SessionOptions

_NO_SHADER = "80004005"
"""What an emulated Direct3D 12 says if it cannot compile a shader: that of an Add of a multiple of four FLOAT32
elements, or of a Cast to INT64."""

_EVERY = 10.0
"""How many seconds lie between two lines of progress."""


def run(options: Namespace) -> int:
    """Searches, and prints what was found.

    Returns 1 if something was found, or if the provider supports nothing. Raises InputError for bad options.
    """
    if options.provider.startswith("fault:") or full_name(options.provider) == DIRECT:
        shown = "fault:NAME" if ":" in options.provider else DIRECT
        instead = (
            "dml, cpu, an execution provider by ONNX Runtime's name, or MODULE:NAME (opmap manual fuzz: Plant a defect)"
        )
        raise InputError(f"--provider {shown} takes cases in place of models: opmap fuzz needs {instead}")
    if options.shrink and not options.resume:
        raise InputError("--shrink must come with --resume DIR, the folder of a search")
    session_options = SessionOptions.read(vars(options))
    opened = open_provider(options.provider, **session_options.place)
    asked = {"provider": opened.name, "adapter": options.adapter, "device_id": options.device_id}
    settings = {**asked, **session_options.of_runtime, **identity(opened)}
    place: AbstractContextManager[str] = tempfile.TemporaryDirectory(prefix="opmap-fuzz-")
    if options.report or options.resume:
        place = nullcontext(options.report or options.resume)
    try:
        with place as name, stdout_for_json(options.json), ExitStack() as closing:
            named = options.provider if opened.third_party else opened.name
            folder = FindsFolder(name, settings, named, seed=options.seed, resume=bool(options.resume))
            progress = folder.progress
            try:
                search = _search(options, opened, folder, closing)
                interrupted = _go(search.shrink_finds if options.shrink else search.run, folder)
            finally:
                folder.release()
            written = bool(options.report or options.resume)
            entries = [entry(find, folder.path(find) if written else None) for find in progress.finds]
    finally:
        opened.close()
    if options.json:
        names = ("operator", "placement", "form", "way")
        covered = [(key.split(" "), number) for key, number in sorted(progress.coverage.items())]
        coverage = [dict(zip(names, words, strict=True)) | {"plans": number} for words, number in covered]
        counts = {"sequences": progress.sequences, "covered": progress.covered}
        content = {"seed": folder.seed, "seconds": round(progress.seconds, 1), **counts}
        pairs = unproven(progress.pairs, search.allowed)
        write_json({**content, "probes": progress.probes, "finds": entries, "coverage": coverage, "unproven": pairs})
    else:
        _print(progress, folder if written else None, opened.name, search.allowed)
    nothing_ran = 0 < progress.sequences == progress.unsupported + progress.uncompiled
    return 130 if interrupted else int(bool(progress.finds) or nothing_ran)


def _search(options: Namespace, opened: Provider, folder: FindsFolder, closing: ExitStack) -> Search:
    emulated = opened.device_class == "emulated"
    keep_on = emulated or options.rerun_dangerous
    provider = opened.runner
    if isinstance(provider, WorkerProvider) and keep_on:
        provider.ignore_hangs()
    group = "directml" if opened.directml else "runtime" if opened.name.endswith("ExecutionProvider") else "always"
    if group == "always" and opened.sessions:
        probe = Put(value="probe", array=np.zeros(1, np.float32), place=HOST)
        group = "session" if opened.performer.perform(probe).error else "runtime"
        folder.has_programs = group == "session"

    control = WorkerProvider(CPU)  # the CPU EP crashes on some models
    control.ignore_hangs()
    is_cpu = opened.name == CPU and not opened.third_party
    if is_cpu:
        provider = control

    if isinstance(provider, WorkerProvider):
        provider.keep_spare()

    def fresh() -> Performer:
        if isinstance(provider, WorkerProvider):
            provider.restart()
            return InSetup(provider, of_control) if is_cpu else provider
        return opened.performer

    def add_find(find: Find) -> None:
        folder.add(find)
        print_error(f"found {find.id}: {find.text}")

    sibling = None
    if isinstance(provider, WorkerProvider) and opened.directml:
        sibling = WorkerProvider(CPU, command=provider.command)
        sibling.ignore_hangs()
        closing.callback(sibling.close)
    closing.callback(control.close)
    return Search(
        fresh=fresh,
        control=lambda: InSetup(control, of_control),
        sibling=(lambda: InSetup(sibling, of_control)) if sibling else None,
        beyond=[_NO_SHADER] if opened.directml and emulated else [],
        three=opened.directml,
        idioms=options.idioms,
        seed=folder.seed,
        seconds=options.seconds,
        allowed=available(group) | (PROBES if group in ("runtime", "directml") else frozenset()),
        excluded=[] if options.no_shipped_known_failures else _shipped(opened),
        keep_on=keep_on,
        limit=options.timeout_per_case,
        found=add_find,
        advance=_reporter(folder),
        progress=folder.progress,
    )


def _shipped(opened: Provider) -> list[Excluded]:
    """Returns the known defects of this provider, and what sequences need to show them."""
    if not opened.directml:
        return []
    return [
        Excluded(kind, tuple(frozenset(session.split()) for session in sequence), texts)
        for defect in defects()
        if defect.seen_on(opened.device_class, opened.version)
        for sequence in defect.sequences
        for kind, texts in defect.shown.items()
    ]


def _reporter(folder: FindsFolder) -> Callable[[Progress], None]:
    """Returns a function that writes the state, and a line of progress every few seconds."""
    last = 0.0

    def advance(progress: Progress) -> None:
        nonlocal last
        if progress.seconds - last >= _EVERY:
            last = progress.seconds
            folder.write(progress)
            print_error(
                f"{progress.sequences} sequences in {progress.seconds:.0f} s "
                f"({progress.shrinking:.0f} s of them shrinking), {len(progress.finds)} found, "
                f"{progress.duplicates} again"
            )

    return advance


def _go(work: Callable[[], Progress], folder: FindsFolder) -> bool:
    """Searches or shrinks. Returns whether Ctrl-C ended it."""
    try:
        work()
        return False
    except KeyboardInterrupt:
        print_error("interrupted")
        return True
    finally:
        folder.end(folder.progress)


def _print(progress: Progress, folder: FindsFolder | None, provider: str, allowed: Collection[str]) -> None:
    for find in progress.finds:
        seen = "" if find.kind == "growth" else f"{KINDS[find.kind]}: "
        seen = "a wrong call is accepted: " if find.failure.signature == "accepted" else seen
        print_line(f"{find.id}: {seen}{find.text}")
        large = "it is not as small as it could be: there was no time to shrink it further (--resume DIR --shrink)"
        program = folder and folder.path(find)
        none = f"no program: {provider} performs opmap's own steps, and a program has none"
        lines = [
            *(line for model in models_of(find) for line in model.splitlines()),
            *steps_of(find),
            folder and (f"program: {program}" if program else none),
            f"needs: {variant(find)}",
            None if find.stable else "it does not fail each time",
            large if find.unshrunk else None,
            find.works and f"works in its place: {', or '.join(find.works)}",
            f"side: {side(find)}",
        ]
        for line in filter(None, lines):
            print_line(f"  {line}")
    total = f"{progress.sequences} sequences on {provider} in {progress.seconds:.0f} s: {len(progress.finds)} found"
    counts = [
        (progress.covered, "have what a shipped defect needs"),
        (progress.duplicates, "failed like a find"),
        (progress.known, "are known"),
        (progress.both, "fail on the CPU EP too"),
        (progress.unstable, "did not fail again"),
        (progress.unsupported, "are not supported"),
        (progress.uncompiled, "could not be compiled by the emulated device, which may hide a refusal"),
    ]
    print_line("; ".join([total, *(f"{count} {text}" for count, text in counts if count)]))
    pairs = unproven(progress.pairs, allowed)
    some = ", ".join(" + ".join(pair) for pair in pairs[:: len(pairs) // 3 + 1])
    every = len(pairs) + len(progress.pairs)
    unshown = f"{len(pairs)} of {every} pairs of ingredients were never proven to run, such as {some} (--json has all)"
    if progress.coverage and all(key.split(" ")[1] == "?" for key in progress.coverage):
        unshown = f"{provider} does not tell where nodes ran, so nothing is proven to run there"
    print_line(unshown)
    for probe, number in sorted(progress.probes.items()):
        print_line(f"recorded, documented as not supported: {probe}: {number}")
    if progress.finds:
        print_line(f"found at second: {', '.join(f'{find.seconds:.0f}' for find in progress.finds)}")
    if progress.stopped:
        print_line(f"stopped: {progress.stopped}")
