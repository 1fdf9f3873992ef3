"""Judges a case: maps it, runs it, and compares its output bit for bit with the output of the page's pseudocode.

`Judge.execute` runs a case and returns everything that happened (an `Outcome`). `Judge.record` decides what record that gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..cases.case import Case
from ..cases.selection import has_variant
from ..cases.variants import VARIANTS, Check, Formed, Inputs, Variant, VariantRun
from ..cases.variants.proofs import Proof
from ..cases.variants.run_modes import SESSION
from ..descriptors import FEATURE_LEVELS
from ..engines.arrays import dtype_of, from_array, only_output
from ..engines.performer import Performer
from ..engines.providers import OpenProvider
from ..engines.worker import WorkerLost
from ..errors import MappingError, ProviderError, Unsupported
from ..mapping import IndexConversion, MappedModel, map_descriptor
from ..operators import OPERATORS
from ..tensors import DataType
from ..vocabulary import Verdict
from .decide import decide
from .graph import described
from .outcome import Outcome
from .record import PlacementRecord, Record, RoadRecord

_INT32 = 2**31


@dataclass(frozen=True)
class Ready:
    """A case that can be run: its own values, and its model in the form of its variant."""

    case: Case
    inputs: Inputs
    formed: Formed


@dataclass(frozen=True)
class Judge:
    """Judges cases on one provider.

    `index_conversion` (see `mapping.IndexConversion`): None means `directml` on the DirectML EP, else `graph`. With
    `brief`, the record of a case without wrong elements has a digest of the output in place of its values.
    """

    provider: OpenProvider
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
        if self.provider.runs_cases:
            return self._execute_case(case)
        ready = self.prepare(case)
        return ready if isinstance(ready, Outcome) else self.execute_model(ready)

    def prepare(self, case: Case) -> Ready | Outcome:
        """Returns a case with its model in the form of its variant; the outcome of a case that no model can be made of."""
        inputs = case.inputs
        if violations := case.desc.violations(feature_level=self.feature_level):
            return Outcome(case=case, inputs=inputs, violations=violations)
        variant = VARIANTS[case.variant]
        if not has_variant(self.provider, variant):
            message = f"{self.provider.name} does not have the variant {case.variant}"
            return Outcome(case=case, inputs=inputs, error=MappingError(message, verdict=Verdict.UNSUPPORTED))
        try:
            mapped = self.map(case)
            formed = variant.form.build(mapped, inputs)
        except MappingError as error:
            return Outcome(case=case, inputs=inputs, error=error)
        if formed is None:
            message = f"the descriptor has no form {variant.form.name}"
            return Outcome(case=case, inputs=inputs, error=MappingError(message, verdict=Verdict.NOT_EXPRESSIBLE))
        return Ready(case, inputs, formed)

    def _execute_case(self, case: Case) -> Outcome:
        """Gives the case itself to a provider that runs cases. A model is not needed, but the record shows it.

        DirectML itself gets the descriptor as it is: the record shows no model.
        """
        inputs, provider, output = case.inputs, self.provider, case.desc.output
        if violations := case.desc.violations(feature_level=self.feature_level):
            return Outcome(case=case, inputs=inputs, violations=violations)
        try:
            lowers = OPERATORS[case.desc.operator].lower is not None and not provider.direct
            mapped = self.map(case) if lowers else None
        except MappingError as error:
            return Outcome(case=case, inputs=inputs, error=error)
        try:
            result = provider.run_case(case)
        except ProviderError as error:
            return Outcome(case=case, inputs=inputs, mapped=mapped, error=error)
        checks: list[Check] = []
        if result.error is None:
            array = only_output(result, dtype_of(output.data_type), output.sizes)
            actual, problem = (None, array) if isinstance(array, str) else (from_array(array), None)
            checks = [Check("", inputs, inputs.output_field, inputs.expected, actual, problem)]
        return Outcome(
            case=case,
            inputs=inputs,
            mapped=mapped,
            placement=PlacementRecord.of(result.placement, provider.name),
            checks=checks,
            error=result.failure,
            messages=result.messages,
        )

    def execute_model(self, ready: Ready) -> Outcome:
        """Runs a case as its variant says, and releases everything."""
        variant, performer = VARIANTS[ready.case.variant], self.provider.performer
        proof = self._proof(variant)
        profile = proof is not None and proof[0] == "profile"
        run = VariantRun(performer.perform, ready.formed, ready.inputs, self.provider.name, profile=profile)
        try:
            error = _perform(variant, run)
        finally:
            ended = end(performer)
        if isinstance(ended, WorkerLost) and error:  # a lost process is more than a refusal
            error = ended
        outcome = self.outcome(ready.case, run, error)
        return replace(outcome, error=ended) if ended and outcome.right else outcome

    def outcome(self, case: Case, run: VariantRun, error: ProviderError | None = None) -> Outcome:
        """Returns the outcome of a case from what was seen while it ran. `error` ended the run."""
        formed, evidence = run.formed, run.evidence.get(SESSION)
        ran = None if isinstance(error, Unsupported) or not evidence else evidence.placement
        placement = PlacementRecord.of(ran, self.provider.name, _helpers(formed))
        outcome = Outcome(
            case=case,
            inputs=run.first,
            mapped=formed.mapped,
            substitutions=formed.substitutions,
            placement=placement,
            error=error,
        )
        if error is not None:
            return outcome
        proof = self._proof(VARIANTS[case.variant])
        problem = proof[1](run) if proof else None
        proven = (problem is None) if proof else bool(placement and placement.proven)
        source = proof[0] if proof else placement.source if placement else "none"
        descriptor, differences = described(run) if evidence else (None, ())
        return replace(
            outcome,
            checks=run.checks,
            defaults=formed.defaults,
            road=RoadRecord(proven, source),
            road_problem=problem,
            descriptor=descriptor,
            differences=differences,
        )

    def _proof(self, variant: Variant) -> tuple[str, Proof] | None:
        """Returns (source, proof) of a variant on this provider; None if the placement alone is the proof."""
        return None if self.provider.third_party else variant.proof(self.provider.name)

    def map(self, case: Case) -> MappedModel:
        """Returns the model of a case in the variant `plain`. Raises MappingError if it has none."""
        fits = self.conversion != "directml" or fits_int32(case)
        return map_descriptor(case.desc, index_conversion=self.conversion, fits_int32=fits)

    @property
    def conversion(self) -> IndexConversion:
        """How indices are converted: as asked for, else as is usual for the provider."""
        return self.index_conversion or self.provider.index_conversion


def _perform(variant: Variant, run: VariantRun) -> ProviderError | None:
    """Runs a case as its variant says. Returns the first error, or None.

    The evidence about the session is read also after an error, unless the process is lost.
    """
    error: ProviderError | None = None
    try:
        run.go(variant.run_mode)
    except ProviderError as failed:
        error = failed
    if run.opened and not isinstance(error, WorkerLost):
        try:
            run.examine()
        except ProviderError as failed:
            error = error or failed
    return error


def end(performer: Performer) -> ProviderError | None:
    """Releases everything. Returns the error if that fails: a provider that fails then has not run the case well."""
    try:
        performer.end()
    except ProviderError as failed:
        return failed
    return None


_COPIES = frozenset({"MemcpyFromHost", "MemcpyToHost"})
"""Nodes that ONNX Runtime adds to copy values between devices."""


def _helpers(formed: Formed) -> frozenset[str]:
    """Returns the types of nodes in a model that do not compute the descriptor's operator."""
    return (_COPIES | formed.node_types) - {formed.mapped.lowering.op_type}


def fits_int32(case: Case) -> bool:
    """Returns whether every index of a case fits INT32."""
    tensors = [case.tensors[name] for name in case.desc.index_tensors()]
    return all(t.data_type is DataType.INT32 or (min(t.values) >= -_INT32 and max(t.values) < _INT32) for t in tensors)
