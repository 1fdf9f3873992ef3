"""Measures the whole suite beside bare sessions of ONNX Runtime, on the same cases."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from statistics import median

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
from opmap.session import Session
from opmap.session.options import SessionOptions
from opmap.tensors import Tensor
from opmap.vocabulary import NOT_JUDGED, Tier, Verdict

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


def measure(
    tier: Tier = "standard",
    rounds: int = 3,
    limit: int | None = None,
    advance: Callable[[], None] = lambda: None,
    clock: Clock = time.perf_counter,
) -> Suite:
    """Returns the measurement of the cases of a tier in the variant `plain`, on the CPU EP; of the first `limit` if given.

    Cases that cannot pass there are left out: ONNX cannot express them, the CPU EP has no kernel, or the page no value.

    Calls `advance` after each round, and after the parts. Raises InputError if there is no such case, AssertionError if a
    case does not pass.
    """
    start = clock()
    chosen = list(catalogue(tier, variants=False))
    catalogue_seconds = clock() - start
    plain = (case for case in chosen if case.variant == PLAIN)
    with Session(SessionOptions(provider="cpu")) as session:
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
    with Session(SessionOptions(provider="cpu", pack=pack), cases=_fresh(cases)) as session:
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
