"""Judges cases: maps them, runs them in one session, and compares each output bit for bit with that of the page's
pseudocode.

A case goes through `prepare`, `run` and `record`, whether it runs alone or shares its session. `execute` returns
everything that happened to one case (an `Outcome`), without the record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..cases.case import Case
from ..cases.selection import has_variant
from ..cases.variants import VARIANTS, Check, Formed, Inputs, Variant, VariantRun
from ..cases.variants.packs import Pack
from ..cases.variants.proofs import Proof
from ..cases.variants.run_modes import SESSION
from ..descriptors import FEATURE_LEVELS
from ..engines.arrays import dtype_of, from_array, not_arrays, wrong_array
from ..engines.performer import Performer
from ..engines.protocol import COPIES
from ..engines.providers import Provider
from ..engines.steps import Result
from ..engines.worker import WorkerLost
from ..errors import MappingError, ProviderError, Unsupported
from ..mapping import IndexConversion, MappedModel, map_descriptor
from ..operators import OPERATORS, not_expressible
from ..tensors import DataType, settled
from ..vocabulary import Verdict
from .decide import decide, no_judge
from .graph import described
from .outcome import Outcome
from .record import PathRecord, PlacementRecord, Record

_INT32 = 2**31


@dataclass(frozen=True)
class Ready:
    """A case that can be run: its own values, its model, and that in the form of its variant.

    A provider that runs cases needs no form. `mapped` is None if it has no model either.
    """

    case: Case
    inputs: Inputs
    mapped: MappedModel | None
    formed: Formed | None = None


@dataclass(frozen=True)
class Ran:
    """What one session gave for a group of cases: the outcomes in order, and the error that ended it.

    `at` is the place of the case at which the error came; None if it came for the whole group. A verdict in `of_all`
    belongs to the whole group, and says nothing about a single case.
    """

    outcomes: Sequence[Outcome]
    error: ProviderError | None = None
    at: int | None = None
    of_all: Collection[Verdict] = ()


@dataclass(frozen=True)
class Judge:
    """Judges cases on one provider.

    `index_conversion` (see `mapping.IndexConversion`): None means `directml` on the DirectML EP, else `graph`. With
    `brief`, the record of a case without wrong elements has a digest of the output in place of its values, and that of
    a good case without an output has none.
    """

    provider: Provider
    feature_level: str = FEATURE_LEVELS[-1]
    index_conversion: IndexConversion | None = None
    brief: bool = False

    def __call__(self, case: Case) -> Record:
        """Returns the record of one case. A provider's errors become verdicts; nothing is raised for them."""
        return self.record(self.execute(case))

    def record(self, outcome: Outcome) -> Record:
        """Returns the record of an outcome."""
        return decide(outcome, self.provider, brief=self.brief)

    def execute(self, case: Case) -> Outcome:
        """Runs one case on the provider and compares its outputs with the documented ones."""
        ready = self.prepare(case)
        return ready if isinstance(ready, Outcome) else self.run([ready]).outcomes[0]

    def prepare(self, case: Case) -> Ready | Outcome:
        """Returns a case with its model in the form of its variant; the outcome of a case that cannot be run.

        A provider that runs cases gets the case itself, but the record shows the model. DirectML itself gets the
        descriptor as it is, and the record shows no model.
        """
        inputs, provider = case.inputs, self.provider
        if violations := case.desc.violations(feature_level=self.feature_level):
            return Outcome(case=case, inputs=inputs, violations=violations)
        try:
            if provider.runs_cases:
                lowers = OPERATORS[case.desc.operator].expressed(case.desc) and not provider.direct
                return Ready(case, inputs, self.map(case) if lowers else None)
            variant = VARIANTS[case.variant]
            if not has_variant(provider, variant):
                message = f"{provider.name} does not have the variant {case.variant}"
                raise MappingError(message, verdict=Verdict.UNSUPPORTED)
            if why := no_judge(case, provider):
                raise MappingError(why, verdict=Verdict.UNSUPPORTED)
            mapped = self.map(case)
            formed = variant.form.build(mapped, inputs)
            if formed is None:
                message = f"the descriptor has no form {variant.form.name}"
                raise not_expressible(message)
        except MappingError as error:
            return Outcome(case=case, inputs=inputs, error=error)
        return Ready(case, inputs, mapped, formed)

    def run(self, group: Sequence[Ready], *, packed: bool = False) -> Ran:
        """Runs a group of cases in one session, and releases everything.

        Several cases have the same model, and run one after the other. With `packed`, their models run as one model.
        """
        if self.provider.runs_cases:
            return Ran([self._run_case(ready) for ready in group])
        variant, performer = VARIANTS[group[0].case.variant], self.provider.performer
        proof = self._proof(variant)
        profile = proof is not None and proof[0] == "profile"
        runs = [
            VariantRun(performer.perform, ready.formed, ready.inputs, self.provider.name, profile=profile)
            for ready in group
            if ready.formed
        ]
        pack = Pack([run.formed for run in runs]) if packed else None
        try:
            error, done, of_all = _perform(runs, variant, pack)
        finally:
            ended = end(performer)
        if isinstance(ended, WorkerLost) and error:  # a lost process is more than a refusal
            error = ended
        outcomes = [self.outcome(ready.case, run, error) for ready, run in zip(group, runs, strict=True)]
        if ended:
            outcomes = [replace(outcome, error=ended) if outcome.right else outcome for outcome in outcomes]
        error = error or ended
        at = None if pack or not error else min(done, len(group) - 1)
        return Ran(outcomes, error, at, tuple(Verdict) if error else of_all)

    def _run_case(self, ready: Ready) -> Outcome:
        """Gives the case itself to a provider that runs cases."""
        case, inputs = ready.case, ready.inputs
        try:
            result = self.provider.run_case(case)
        except ProviderError as error:
            return Outcome(case=case, inputs=inputs, mapped=ready.mapped, error=error)
        checks: list[Check] = []
        if result.error is None:
            checks = list(_checked(inputs, result))
        return Outcome(
            case=case,
            inputs=inputs,
            mapped=ready.mapped,
            placement=PlacementRecord.of(result.placement, self.provider.name),
            checks=checks,
            error=result.failure,
            messages=result.messages,
        )

    def outcome(self, case: Case, run: VariantRun, error: ProviderError | None = None) -> Outcome:
        """Returns the outcome of a case from what was seen while it ran. `error` ended the run."""
        formed, evidence = run.formed, run.evidence.get(SESSION)
        ran = None if isinstance(error, Unsupported) or not evidence else evidence.placement
        placement = PlacementRecord.of(ran, self.provider.name, _helpers(formed))
        reached: dict[str, Any] = {
            "case": case,
            "inputs": run.first,
            "mapped": formed.mapped,
            "substitutions": formed.substitutions,
            "placement": placement,
        }
        if error is not None:
            return Outcome(**reached, error=error)
        proof = self._proof(VARIANTS[case.variant])
        problem = proof[1](run) if proof else None
        proven = (problem is None) if proof else bool(placement and placement.proven)
        source = proof[0] if proof else placement.source if placement else "none"
        descriptor, differences = described(run) if evidence and evidence.files else (None, ())
        return Outcome(
            **reached,
            checks=run.checks,
            defaults=formed.defaults,
            path_proof=PathRecord(proven, source),
            path_problem=problem,
            descriptor=descriptor,
            differences=differences,
        )

    def _proof(self, variant: Variant) -> tuple[str, Proof] | None:
        """Returns (source, proof) of a variant on this provider; None if the placement alone is the proof."""
        return None if self.provider.third_party else variant.proof(self.provider.name)

    def map(self, case: Case) -> MappedModel:
        """Returns the model of a case in the variant `plain`. Raises MappingError if it has none."""
        conversion = self.conversion
        if conversion == "graph" and case.desc.spec().takes_any_index and not _fits_int64(case):
            conversion = "host"  # a Cast would wrap the index; the host takes the nearest that the type holds
        fits = conversion != "directml" or fits_int32(case)
        return map_descriptor(case.desc, index_conversion=conversion, fits_int32=fits)

    @property
    def conversion(self) -> IndexConversion:
        """How indices are converted: as asked for, else as is usual for the provider."""
        return self.index_conversion or self.provider.index_conversion


def _perform(
    runs: Sequence[VariantRun], variant: Variant, pack: Pack | None
) -> tuple[ProviderError | None, int, Collection[Verdict]]:
    """Runs a group of cases as their variant says, or as a pack.

    Returns the first error, or None; the number of cases that ran before it; and the verdicts that belong to the whole
    group. The evidence about the session is read also after an error, unless the process is lost.
    """
    error, done, of_all = None, 0, tuple[Verdict, ...]()
    try:
        if pack:
            of_all = tuple(Verdict) if pack.go(runs).malformed is not None else ()
        else:
            for run in runs:
                run.go(variant.run_mode, opens=run is runs[0])
                done += 1
    except ProviderError as failed:
        error = failed
    if runs[0].opened and not isinstance(error, WorkerLost):
        try:
            evidence = runs[0].examine()
        except ProviderError as failed:
            return error or failed, done, ()
        if pack and evidence.placement and not evidence.placement.names:
            of_all = of_all or (Verdict.FALLBACK,)
        for run, part in zip(runs, pack.evidence(evidence) if pack else [evidence] * len(runs), strict=True):
            run.evidence[SESSION] = part
    return error, done, of_all


def _checked(inputs: Inputs, result: Result) -> Iterator[Check]:
    """Gives the outputs of a run of a case itself, each beside what it must be; one check if the list of them is
    wrong.
    """
    outputs = inputs.desc.outputs
    if problem := result.malformed or not_arrays(list(result.outputs.values()), len(outputs)):
        yield Check("", inputs, inputs.output_field, inputs.expected, None, problem)
        return
    for (field, output), array in zip(outputs.items(), result.outputs.values(), strict=True):
        problem = wrong_array(array, dtype_of(output.data_type), output.sizes)
        own = inputs.of(field)
        actual = None if problem else settled(own.expected, from_array(array))
        yield Check(field if len(outputs) > 1 else "", own, field, own.expected, actual, problem)


def end(performer: Performer) -> ProviderError | None:
    """Releases everything. Returns the error if that fails: a provider that fails then has not run the case well."""
    try:
        performer.end()
    except ProviderError as failed:
        return failed
    return None


def _helpers(formed: Formed) -> frozenset[str]:
    """Returns the types of nodes in a model that do not compute the descriptor's operator."""
    return (COPIES | formed.node_types) - {formed.mapped.lowering.op_type}


def fits_int32(case: Case) -> bool:
    """Returns whether every index of a case fits INT32."""
    tensors = [case.tensors[name] for name in case.desc.index_tensors()]
    return all(t.data_type is DataType.INT32 or (min(t.values) >= -_INT32 and max(t.values) < _INT32) for t in tensors)


def _fits_int64(case: Case) -> bool:
    """Returns whether every index of a case fits INT64."""
    tensors = [case.tensors[name] for name in case.desc.index_tensors()]
    return all(t.data_type is not DataType.UINT64 or max(t.values) <= DataType.INT64.limits[1] for t in tensors)
