"""Measures the suite beside bare sessions of ONNX Runtime, and the paces of the DirectML EP; makes the document of all
that is measured.

`interpreting` and `children` measure the rest.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from statistics import median
from time import perf_counter
from typing import Any

import msgspec
import numpy as np

from opmap import descriptors
from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue
from opmap.cases.values import Filled
from opmap.cases.variants import PLAIN, VARIANTS
from opmap.engines.arrays import to_array
from opmap.engines.steps import Clear, Examine, Open, Run
from opmap.errors import InputError
from opmap.files import to_json
from opmap.judge import decide
from opmap.judge.compare import differences
from opmap.judge.judge import Judge
from opmap.judge.record import encode
from opmap.judge.session_batcher import SessionBatcher
from opmap.session import ValidationRun
from opmap.session.options import SessionOptions
from opmap.tensors import Tensor
from opmap.vocabulary import NOT_JUDGED, Tier, Verdict

from . import children, interpreting
from .children import Memory, Pytest, Start
from .interpreting import Interpreted

CHUNK = 200
"""The number of cases after which the bare sessions and the suite change places."""

PACK = 64
"""How many cases are put into one model where `packed_ms` is measured."""

Clock = Callable[[], float]


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """The suite beside bare sessions, in milliseconds per case.

    - `bare_ms`: for each case a session is created from its finished model, and run.
    - `whole_ms`: the values of a case are generated, it is validated, mapped, built, run, interpreted, compared, and
      recorded.
    - `overhead_ratio`: the median over the rounds of the second over the first.
    - `packed_ms`, `packed_ratio`: the same with packs of PACK cases.
    - `parts_ms`: the steps of the second, each measured alone.
    - `catalogue_ms`: to choose a case of the tier, without its values. It is not part of `whole_ms`.
    """

    tier: str
    cases: int
    models: int
    output_elements: int
    bare_ms: float
    whole_ms: float
    overhead_ratio: float
    packed_ms: float
    packed_ratio: float
    cases_per_second: float
    elements_per_second: float
    catalogue_ms: float
    parts_ms: dict[str, float]


def measure_suite(
    tier: Tier = "standard",
    rounds: int = 3,
    limit: int | None = None,
    advance: Callable[[], None] = lambda: None,
    clock: Clock = time.perf_counter,
) -> Suite:
    """Returns the measurement of the cases of a tier in the variant `plain`, on the CPU EP; of the first `limit` if
    given.

    Cases that cannot pass there are left out: ONNX cannot express them, the CPU EP has no kernel, or the page no value.

    Calls `advance` after each round, and after the parts. Raises InputError if there is no such case, AssertionError if
    a case does not pass.
    """
    start = clock()
    chosen = list(catalogue(tier, variants=False))
    catalogue_seconds = clock() - start
    plain = (case for case in chosen if case.variant == PLAIN)
    with ValidationRun(SessionOptions(provider="cpu")) as session:
        judge = session.open()
        assert isinstance(judge, Judge), "every ONNX Runtime has the CPU EP"
        cases = list(islice((case for case in plain if judge(case).verdict not in NOT_JUDGED), limit))
        if not cases:
            raise InputError(f"--tier must have cases, got {tier}")
        seconds = []
        for _ in range(rounds):
            seconds.append(_round(judge, cases, clock))
            advance()
        parts = _parts(judge, _fresh(cases), clock)
        models = len({judge.map(case).model_bytes for case in cases})
        advance()
    per_case, seconds_of_whole = 1000 / len(cases), median(whole for _, whole, _ in seconds)
    elements = sum(case.desc.output.element_count for case in cases)
    return Suite(
        tier=tier,
        cases=len(cases),
        models=models,
        output_elements=elements,
        bare_ms=median(bare for bare, _, _ in seconds) * per_case,
        whole_ms=seconds_of_whole * per_case,
        overhead_ratio=median(whole / bare for bare, whole, _ in seconds),
        packed_ms=median(packed for _, _, packed in seconds) * per_case,
        packed_ratio=median(packed / bare for bare, _, packed in seconds),
        cases_per_second=len(cases) / seconds_of_whole,
        elements_per_second=elements / seconds_of_whole,
        catalogue_ms=catalogue_seconds / len(chosen) * 1000,
        parts_ms={name: seconds * per_case for name, seconds in parts.items()},
    )


def _fresh(cases: Sequence[Case]) -> list[Case]:
    """Returns the cases as new objects, without cached results. Cached results of equal descriptors are removed too."""
    descriptors.results_of.cache_clear()
    decide._json_of.cache_clear()
    fresh = []
    for case in cases:
        desc = case.desc.replace()
        if isinstance(case.tensors, Filled):
            fresh.append(dataclasses.replace(case, desc=desc, tensors=case.tensors.of(desc)))
        else:
            tensors = {n: Tensor(t.data_type, t.sizes, t.bits) for n, t in case.tensors.items()}
            fresh.append(dataclasses.replace(case, desc=desc, tensors=tensors))
    return fresh


def _chunks(cases: Sequence[Case]) -> Iterator[Sequence[Case]]:
    return (cases[at : at + CHUNK] for at in range(0, len(cases), CHUNK))


def _round(judge: Judge, cases: Sequence[Case], clock: Clock) -> tuple[float, float, float]:
    """Returns the seconds of the bare sessions, of the whole suite, and of the whole suite with packs, in turn."""
    bare = whole = packed = 0.0
    for chunk in _chunks(cases):
        prepared = []
        for case in chunk:
            mapped = judge.map(case)
            feeds = {name: to_array(tensor) for name, tensor in mapped.feed(case.tensors).items()}
            prepared.append((mapped.model_bytes, feeds))
        start = clock()
        _run_bare(prepared)
        bare += clock() - start
        whole += _judged(chunk, clock)
        packed += _judged(chunk, clock, PACK)
    return bare, whole, packed


def _judged(cases: Sequence[Case], clock: Clock, pack: int = 1) -> float:
    """Returns the seconds of the whole suite, with up to `pack` cases in one model."""
    with ValidationRun(SessionOptions(provider="cpu", pack=pack), cases=_fresh(cases)) as session:
        session.open()  # a run does this once, however many cases it has
        start = clock()
        session.judge_all()
        encode(session.results.records)
        seconds = clock() - start
    verdicts = Counter(record.verdict for record in session.results.records)
    assert verdicts == {Verdict.PASS: len(cases)}, f"every case passes on the CPU EP, got {dict(verdicts)}"
    return seconds


def _run_bare(prepared: Sequence[tuple[bytes, dict[str, np.ndarray]]]) -> None:
    """Creates a session of each model and runs it, with the same number of threads as opmap."""
    import onnxruntime

    for model, feeds in prepared:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def _parts(judge: Judge, cases: Sequence[Case], clock: Clock) -> dict[str, float]:
    """Returns the seconds of each step, summed over the cases. Each case has a session of its own."""
    spent: dict[str, float] = defaultdict(float)
    now = clock()

    def add(name: str) -> None:
        nonlocal now
        spent[name] += clock() - now
        now = clock()

    performer = judge.provider.performer
    for case in cases:
        now = clock()
        inputs = dataclasses.replace(case.inputs, tensors=dict(case.tensors))
        add("generate")
        case.desc.violations()
        add("validate")
        mapped = judge.map(case)
        add("map")
        formed = VARIANTS[PLAIN].form.build(mapped, inputs)
        assert formed is not None, "each case has the form of the variant plain"
        model = np.frombuffer(formed.model_bytes, np.uint8)
        add("build")
        performer.perform(Open(session="measured", model=model))
        add("session")
        performer.perform(Run(session="measured", feeds=formed.feeds(inputs)))
        add("run")
        performer.perform(Examine(session="measured"))
        performer.perform(Clear())
        add("session")
        _ = inputs.expected
        add("interpret")
        outcome = judge.execute(dataclasses.replace(case, tensors=inputs.tensors))
        check = outcome.check
        assert check is not None and check.actual is not None, "each case passes on the CPU EP"
        now = clock()
        differences(check.expected, check.actual.bits)
        add("compare")
        to_json(judge.record(outcome))
        add("record")
    return dict(spent)


PACKS = (4, 8, 16, 32, 64)
"""The sizes of packs that are measured if no others are asked for."""

BLOCK = 400
"""The number of cases after which the next way has its turn: no way has the machine at its best alone."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """One way of running cases: its name (`fresh`, `shared`, `packed 16`), how many cases it ran, and in how many
    seconds.

    `against_fresh` is how many times as many cases per second it did as `fresh`. `differing` are the ids of the cases
    whose verdict is another one than in a fresh session.
    """

    name: str
    cases: int
    seconds: float
    against_fresh: float
    differing: list[str] = []

    @property
    def per_second(self) -> float:
        """The cases per second."""
        return self.cases / self.seconds


def measure_paces(
    tier: Tier = "standard",
    limit: int | None = None,
    packs: Sequence[int] = PACKS,
    advance: Callable[[], object] = lambda: None,
    *,
    provider: str = "dml",
    dml_runtime: str | None = None,
) -> list[Pace] | None:
    """Returns the paces of the cases of a tier in the variant `plain`, on the DirectML EP; of the first `limit` if
    given.

    Cases of which a failure is known are left out. Returns None if this machine does not have the provider.
    """
    with ValidationRun(SessionOptions(provider=provider, tier=tier, dml_runtime=dml_runtime)) as session:
        judge = session.open()
        if not isinstance(judge, Judge):
            return None
        active_failures = session.active_failures
        cases = [
            c for c in session.cases if c.variant == PLAIN and not (active_failures and active_failures.expectations(c))
        ][:limit]
        paces(judge, cases, packs[-1:])  # the first session of a process, and the first of each shader, are slow
        return paces(judge, cases, packs, advance=advance)


def paces(
    judge: Judge,
    cases: Sequence[Case],
    packs: Sequence[int] = PACKS,
    *,
    block: int = BLOCK,
    advance: Callable[[], object] = lambda: None,
) -> list[Pace]:
    """Judges the cases in fresh sessions, in shared ones, and in packs of each size, and returns the pace of each way.

    All ways run the same `block` of cases, one after the other, before the next block begins; another way begins each
    block. Calls `advance` after each case. A provider's errors are verdicts.
    """
    ways = {"fresh": SessionBatcher(judge, fresh=True), "shared": SessionBatcher(judge)}
    ways |= {f"packed {pack}": SessionBatcher(judge, pack=pack) for pack in packs}
    seconds, verdicts = dict.fromkeys(ways, 0.0), {name: dict[str, str]() for name in ways}
    names = list(ways)
    for number, start in enumerate(range(0, len(cases), block)):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            together = ways[name]
            begin = perf_counter()
            for batch in together.batches(cases[start : start + block]):
                for case, judged in zip(batch, together.run_batch(batch), strict=True):
                    verdicts[name][case.id] = judged.record.verdict
                    advance()
            seconds[name] += perf_counter() - begin
    return [
        Pace(
            name=name,
            cases=len(cases),
            seconds=seconds[name],
            against_fresh=seconds["fresh"] / seconds[name],
            differing=[case.id for case in cases if verdicts[name][case.id] != verdicts["fresh"][case.id]],
        )
        for name in names
    ]


SCHEMA = "opmap-bench/1"

PARTS: Mapping[str, str] = {
    "suite": "the whole suite beside bare sessions of ONNX Runtime, on the same cases",
    "interpreter": "the interpreter beside loops written by hand for the same line",
    "pytest": "what pytest adds to each case",
    "start": "the start of opmap, and what its pytest plugin adds to a session of another project",
    "memory": "the peak of memory of a case with 10,000,000 output elements",
    "directml": "cases per second on the DirectML EP: in fresh sessions, in shared ones, and in packs",
}
"""What can be measured, in this order: name -> what it is."""

PACKAGES = ("opmap", "onnxruntime", "onnxruntime-directml", "onnx", "numpy", "msgspec", "pytest")
"""The packages whose versions the document holds."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured. `load` is the system's load average over one minute before it; None if it has none."""

    platform: str
    processor: str
    cores: int
    load: float | None
    python: str
    packages: dict[str, str]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """All that was measured; None for a part that was not asked for. `measured` is the day, in UTC.

    `directml` is None too where there is no DirectML EP.
    """

    schema: str = SCHEMA
    measured: str
    rounds: int
    machine: Machine
    overhead_ratio: float | None = None
    interpreter_ratio: float | None = None
    cases_per_second: float | None = None
    elements_per_second: float | None = None
    suite: Suite | None = None
    interpreter: list[Interpreted] | None = None
    pytest: Pytest | None = None
    start: Start | None = None
    memory: Memory | None = None
    directml: list[Pace] | None = None


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """One value that is wanted to be at most `limit`. `unit` is empty for a ratio."""

    name: str
    value: float
    limit: float
    unit: str


TARGETS: Mapping[str, tuple[Callable[[Document], float | None], float, str]] = {
    "the suite over bare sessions": (lambda d: d.overhead_ratio, 3.0, ""),
    f"the interpreter over loops by hand, {interpreting.RATIO_AT:,} elements": (lambda d: d.interpreter_ratio, 3.0, ""),
    "pytest, per case": (lambda d: d.pytest.added_ms if d.pytest else None, 1.5, "ms"),
    "the plugin in another project's session": (
        lambda d: d.start.pytest_plugin * 1000 if d.start and d.start.pytest_plugin is not None else None,
        20,
        "ms",
    ),
    "opmap --help": (lambda d: d.start.help * 1000 if d.start else None, 100, "ms"),
    "packs over fresh sessions on the DirectML EP": (
        lambda d: 1 / max(way.against_fresh for way in d.directml) if d.directml else None,
        1 / 6,
        "",
    ),
    "peak of memory": (lambda d: max(d.memory.peak_bytes.values()) / 1e6 if d.memory else None, 1000, "MB"),
}
"""What is wanted: name -> (value, limit, unit). Seconds and memory are recorded, and never tested."""


def measure(
    parts: Collection[str],
    *,
    tier: Tier = "standard",
    rounds: int = 3,
    limit: int | None = None,
    dml_runtime: str | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Document:
    """Measures these parts of PARTS in this process and its children.

    `tier` and `limit` choose the cases of the parts `suite` and `directml`. On Linux, `dml_runtime` is the folder of
    the DirectML EP. Calls `advance` after each step. Raises InputError if there is no
    such case, OpmapError if a child process fails.
    """
    machine = _machine()
    whole = measure_suite(tier, rounds, limit, advance) if "suite" in parts else None
    interpreted = interpreting.measure(rounds=rounds, advance=advance) if "interpreter" in parts else None
    return Document(
        measured=datetime.now(UTC).date().isoformat(),
        rounds=rounds,
        machine=machine,
        overhead_ratio=whole.overhead_ratio if whole else None,
        interpreter_ratio=interpreting.interpreter_ratio(interpreted) if interpreted else None,
        cases_per_second=whole.cases_per_second if whole else None,
        elements_per_second=whole.elements_per_second if whole else None,
        suite=whole,
        interpreter=interpreted,
        pytest=children.pytest_cost(rounds=rounds, advance=advance) if "pytest" in parts else None,
        start=children.start(3 * rounds, advance) if "start" in parts else None,
        memory=children.memory(advance=advance) if "memory" in parts else None,
        directml=measure_paces(tier, limit, advance=advance, dml_runtime=dml_runtime) if "directml" in parts else None,
    )


def reached(document: Document) -> Iterator[Reached]:
    """Gives each of TARGETS that was measured."""
    for name, (value_of, limit, unit) in TARGETS.items():
        value = value_of(document)
        if value is not None:
            yield Reached(name=name, value=value, limit=limit, unit=unit)


def _machine() -> Machine:
    load: Any = getattr(os, "getloadavg", None)
    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return Machine(
        platform=platform.platform(),
        processor=_processor(),
        cores=os.cpu_count() or 1,
        load=round(load()[0], 2) if load else None,
        python=platform.python_version(),
        packages=packages,
    )


def _processor() -> str:
    """Returns the name of the processor, as far as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
