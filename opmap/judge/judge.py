"""Judges a case: maps it, runs it, and compares its output bit for bit with the output of the page's pseudocode.

`Judge.execute` runs a case and returns everything that happened (an `Outcome`). `decide` turns that into a record.
"""

from __future__ import annotations

import dataclasses
import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, cast

from ..catalogue.case import Case
from ..catalogue.variants import VARIANTS, Check, Formed, Inputs, Variant, VariantRun
from ..catalogue.variants.proofs import Proof
from ..catalogue.variants.run_modes import SESSION
from ..descriptors import FEATURE_LEVELS, OperatorDesc, TensorDesc, Violation
from ..engines.arrays import dtype_of, from_array, wrong_outputs
from ..engines.performer import Performer
from ..engines.protocol import origin
from ..engines.providers import OpenProvider
from ..engines.worker import WorkerLost
from ..errors import MappingError, ProviderError, Unsupported
from ..mapping import IndexConversion, MappedModel, map_descriptor
from ..mapping.dxdispatch import Dispatch, desc_json
from ..mapping.dxdispatch.descriptor_json import DescJson
from ..operators import OPERATORS, Substitution
from ..tensors import DataType, from_bits, plain
from ..vocabulary import VALUE_KINDS, Stage, Verdict
from .compare import differences, explain, relation, undefined, value_kinds
from .graph import described
from .record import LoweredRecord, PlacementRecord, Record, RoadRecord, TensorRecord

if TYPE_CHECKING:
    import numpy as np

MAX_LISTED = 10_000
"""The most elements of an output that a record lists in full."""

MAX_DIFFERENCES = 10
"""The number of differences that a record lists if the output is too large to be listed in full."""

_INT32 = 2**31


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The results of each step of one case. A step that was not reached leaves None or an empty value.

    `round` is the case's own descriptor and values, with its expected output. `check` is the first output that is wrong,
    or else the case's own output. `wrong_elements` holds the row-major addresses of its wrong elements, `relation` what
    they are as a whole. `kinds` are the kinds of wrong values, if all addresses are right. `error` is the exception that
    ended the case; if there is a check too, it came when a right case was released. `road_problem` says why the road of the
    variant is not proven. `messages` are what the debug layers said. `differences` are those between the DirectML graph that
    the EP wrote and `mapped.lowered_as`.
    """

    case: Case
    round: Inputs
    violations: Sequence[Violation] = ()
    mapped: MappedModel | None = None
    substitutions: Sequence[Substitution] = ()
    placement: PlacementRecord | None = None
    check: Check | None = None
    relation: str | None = None
    wrong_elements: Sequence[int] = ()
    kinds: Sequence[str] = ()
    error: MappingError | ProviderError | None = None
    road: RoadRecord | None = None
    road_problem: str | None = None
    descriptor: str | None = None
    differences: Sequence[str] = ()
    messages: Sequence[str] = ()


@dataclass(frozen=True)
class Ready:
    """A case that can be run: its own values, and its model in the form of its variant."""

    case: Case
    round: Inputs
    formed: Formed

    @cached_property
    def feeds(self) -> dict[str, np.ndarray]:
        """The arrays to feed."""
        return self.formed.feeds(self.round)


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
    _ahead: dict[str, Ready | Outcome] = field(init=False, repr=False, compare=False, default_factory=dict)
    """The cases that `prepare_ahead` prepared, and that did not run yet, by id."""

    def __call__(self, case: Case) -> Record:
        """Returns the record of one case. A provider's errors become verdicts; nothing is raised for them."""
        return decide(self.execute(case), self.provider, brief=self.brief)

    def execute(self, case: Case) -> Outcome:
        """Runs one case on the provider and compares its outputs with the documented ones."""
        if self.provider.runs_cases:
            round, violations = case.round, case.desc.violations(feature_level=self.feature_level)
            if violations:
                return Outcome(case=case, round=round, violations=violations)
            return replace(self._execute_case(case, round), messages=self.provider.messages())
        ready = self.prepare(case)
        return ready if isinstance(ready, Outcome) else self.execute_model(ready)

    def prepare(self, case: Case) -> Ready | Outcome:
        """Returns a case with its model in the form of its variant; the outcome of a case that no model can be made of."""
        ahead = self._ahead.pop(case.id, None)
        return ahead if ahead is not None and ahead.case is case else self._prepare(case, case.round)

    def prepare_ahead(self, cases: Sequence[Case]) -> list[Ready]:
        """Prepares the cases that run next, with their values and expected outputs. Returns the cases that can be run.

        Each step is done for all cases before the next step: the same code is faster several times in a row. `prepare`
        returns what is made here, which stays in memory until the case runs. Earlier preparations of other cases are
        forgotten.
        """
        held = {c.id: ahead for c in cases if (ahead := self._ahead.get(c.id)) is not None and ahead.case is c}
        self._ahead.clear()
        new = [case for case in cases if case.id not in held]
        valid = [case for case in new if not case.desc.violations(feature_level=self.feature_level)]
        rounds = [Inputs(case.desc, dict(case.tensors)) for case in valid]
        made = [self._prepare(case, round) for case, round in zip(valid, rounds, strict=True)]
        ready = [preparation for preparation in made if isinstance(preparation, Ready)]
        for preparation in ready:
            _ = preparation.round.desc.program.readers
        for preparation in ready:
            _ = preparation.round.expected
        self._ahead.update(held | {preparation.case.id: preparation for preparation in made})
        return [preparation for preparation in self._ahead.values() if isinstance(preparation, Ready)]

    def _prepare(self, case: Case, round: Inputs) -> Ready | Outcome:
        violations = case.desc.violations(feature_level=self.feature_level)
        if violations:
            return Outcome(case=case, round=round, violations=violations)
        try:
            mapped = self.map(case)
            formed = VARIANTS[case.variant].form.build(mapped, round)
            if formed is None:
                message = f"the descriptor has no form {VARIANTS[case.variant].form.name}"
                raise MappingError(message, verdict=Verdict.NOT_EXPRESSIBLE)
        except MappingError as error:
            return Outcome(case=case, round=round, error=error)
        return Ready(case, round, formed)

    def _execute_case(self, case: Case, round: Inputs) -> Outcome:
        """Gives the case itself to a provider that runs cases. A model is not needed, but the record shows it.

        DirectML itself gets the descriptor as it is: the record shows no model.
        """
        mapped = None
        try:
            if OPERATORS[case.desc.operator].lower is not None and not self.provider.direct:
                mapped = self.map(case)
            outputs = self.provider.run_case(case)
        except MappingError as error:
            return Outcome(case=case, round=round, error=error)
        except ProviderError as error:
            return Outcome(case=case, round=round, mapped=mapped, placement=self._asserted(), error=error)
        placement = self._asserted()
        expected, output = round.expected, case.desc.output
        problem = wrong_outputs(outputs, dtype_of(output.data_type), output.sizes)
        actual = None if problem else from_array(cast("Sequence[np.ndarray]", outputs)[0])
        check = Check("", round, round.output_field, expected, actual, problem)
        wrong = differences(expected, actual.bits) if actual else ()
        return Outcome(
            case=case,
            round=round,
            mapped=mapped,
            placement=placement,
            check=check,
            wrong_elements=wrong,
            kinds=value_kinds([check]) if wrong else (),
        )

    def execute_model(self, ready: Ready) -> Outcome:
        """Walks the road of the case's variant."""
        variant, performer = VARIANTS[ready.case.variant], self.provider.performer
        proof = self._proof(variant)
        profile = proof is not None and proof[0] == "profile"
        walk = VariantRun(performer.perform, ready.formed, ready.round, self.provider.name, profile=profile)
        try:
            error = _go(variant, walk)
        finally:
            ended = end(performer)
        return self.outcome(ready.case, walk, error, ended)

    def outcome(
        self, case: Case, walk: VariantRun, error: ProviderError | None = None, ended: ProviderError | None = None
    ) -> Outcome:
        """Returns the outcome of a case from what was seen while it ran.

        `error` ended the walk; `ended` is the error that came when everything was released.
        """
        variant, formed = VARIANTS[case.variant], walk.formed
        evidence = walk.evidence.get(SESSION)
        ran = None if isinstance(error, Unsupported) or not evidence else evidence.placement
        placement = PlacementRecord.of(ran, self.provider.name, _helpers(formed))
        outcome = Outcome(
            case=case,
            round=walk.first,
            mapped=formed.mapped,
            substitutions=formed.substitutions,
            placement=placement,
            error=ended if isinstance(ended, WorkerLost) and error else error,  # a lost process is more than a refusal
        )
        if error is not None:
            return outcome
        check, wrong = _worst(walk.checks)
        proof = self._proof(variant)
        problem = proof[1](walk) if proof else None
        proven = (problem is None) if proof else bool(placement and placement.proven)
        source = proof[0] if proof else placement.source if placement else "none"
        descriptor, texts = described(walk) if evidence else (None, ())
        return replace(
            outcome,
            error=None if wrong or check.problem else ended,
            check=check,
            relation=relation(check, walk.checks, formed.defaults) if wrong else None,
            wrong_elements=wrong,
            kinds=value_kinds(walk.checks) if wrong else (),
            road=RoadRecord(proven, source),
            road_problem=problem,
            descriptor=descriptor,
            differences=texts,
        )

    def _proof(self, variant: Variant) -> tuple[str, Proof] | None:
        """Returns (source, proof) of a variant on this provider; None if the placement alone is the proof."""
        return None if self.provider.third_party else variant.proof(self.provider.name)

    def dispatch(self, dispatch: Dispatch, file: str) -> Record:
        """Returns the record of a dispatch command that was read from a file."""
        refused = refusal(dispatch, file, provider=self.provider.name, feature_level=self.feature_level)
        if refused is not None:
            return refused
        assert dispatch.desc is not None, "a dispatch that is not refused must have a descriptor"
        return self(Case(dispatch.name or "", dispatch.desc, dispatch.tensors, file, offsets=dispatch.offsets))

    def map(self, case: Case) -> MappedModel:
        """Returns the model of a case in the variant `plain`. Raises MappingError if it has none."""
        fits = self.conversion != "directml" or fits_int32(case)
        return map_descriptor(case.desc, index_conversion=self.conversion, fits_int32=fits)

    @property
    def conversion(self) -> IndexConversion:
        """How indices are converted: as asked for, else as is usual for the provider."""
        return self.index_conversion or self.provider.index_conversion

    def _asserted(self) -> PlacementRecord | None:
        return PlacementRecord.of(self.provider.placement(), self.provider.name)


def _go(variant: Variant, walk: VariantRun) -> ProviderError | None:
    """Walks the road of a variant. Returns the first error, or None.

    The evidence about the session is read also after an error, unless the process is lost.
    """
    error: ProviderError | None = None
    try:
        walk.go(variant.run_mode)
    except ProviderError as failed:
        error = failed
    if walk.opened and not isinstance(error, WorkerLost):
        try:
            walk.examine()
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


def _worst(checks: Sequence[Check]) -> tuple[Check, Sequence[int]]:
    """Returns the first check that is wrong with its wrong elements; if all are right, the last one of the output."""
    for check in checks:
        wrong = differences(check.expected, check.actual.bits) if check.actual else ()
        if check.problem or wrong:
            return check, wrong
    return [check for check in checks if check.field == check.round.output_field][-1], ()


# --- deciding ------------------------------------------------------------------------------------------------------


def decide(outcome: Outcome, provider: OpenProvider, *, brief: bool = False) -> Record:
    """Returns the record of an outcome.

    If several verdicts fit, the first of these counts: the verdict of an error, `mismatch`, `fallback`, `path-unproven`,
    `lowered-differently`, `observed`, `pass`.
    """
    fields = _common_fields(outcome, provider, brief=brief)
    if outcome.violations:
        fields |= violation_fields(outcome.violations, None)
        support_rules = {rule.id for rule in outcome.case.desc.spec().rules if rule.check == "support"}
        if support_rules.issuperset(fields["rules"]):
            fields["verdict"] = Verdict.UNSUPPORTED
    elif outcome.error is not None:
        fields |= _decide_error(outcome, outcome.error, provider)
    else:
        fields |= _decide_output(outcome, provider)
    if outcome.messages:
        fields["message"] = "; ".join(filter(None, [fields.get("message"), *outcome.messages]))
    return Record(**fields)


def _decide_error(outcome: Outcome, error: MappingError | ProviderError, provider: OpenProvider) -> dict[str, Any]:
    """Returns verdict, stage and message of a case that an exception ended."""
    if isinstance(error, MappingError):
        return {"verdict": error.verdict, "stage": Stage.MAP, "message": str(error)}
    refused = error.verdict is Verdict.ERROR and error.stage is Stage.RUN and outcome.check is None
    if refused and undefined(outcome.round.expected):
        message = f"an index is out of range, and {provider.name} refused it: {error}"
        return {"verdict": Verdict.OBSERVED, "stage": Stage.RUN, "message": message}
    if error.verdict is Verdict.ERROR and error.stage is Stage.LOAD and (missing := _missing_types(outcome, provider)):
        message = f"IDMLDevice::CheckFeatureSupport: the device does not support {', '.join(missing)}: {error}"
        return {"verdict": Verdict.UNSUPPORTED, "stage": Stage.LOAD, "message": message}
    return {"verdict": error.verdict, "stage": error.stage, "path": origin(str(error)), "message": str(error)}


def _missing_types(outcome: Outcome, provider: OpenProvider) -> list[str]:
    """Returns the data types of a model, and of the descriptor made from it, that the device says it does not support."""
    mapped, supported = outcome.mapped, provider.device_types() if provider.directml else None
    if mapped is None or supported is None:
        return []
    used = {*mapped.feeds.values(), *(tensor.data_type for tensor in mapped.lowered_as.tensors.values())}
    return sorted(data_type.name for data_type in used if data_type.name not in supported)


def _decide_output(outcome: Outcome, provider: OpenProvider) -> dict[str, Any]:
    """Returns verdict, stage and message of a case that no exception ended."""
    check = outcome.check
    assert check is not None, "a case without an error has a check"
    where = f"{check.label}: " if check.label else ""
    if check.actual is None:
        return {"verdict": Verdict.MISMATCH, "stage": Stage.COMPARE, "message": f"{where}{check.problem}"}
    if outcome.wrong_elements:
        details = f"{outcome.relation}; " if outcome.relation else ""
        kinds = _only_values(outcome, provider)
        if kinds:
            details += f"values only: {', '.join(VALUE_KINDS[kind] for kind in kinds)}; "
        message = f"{where}{details}{explain(check, outcome.wrong_elements)}"
        return {"verdict": Verdict.MISMATCH, "stage": Stage.COMPARE, "message": message, "kinds": kinds or None}
    if outcome.placement is None or not outcome.placement.shown:
        return {"verdict": Verdict.FALLBACK, "message": _unproven(outcome.placement, provider)}
    if outcome.road_problem:
        return {"verdict": Verdict.PATH_UNPROVEN, "message": outcome.road_problem}
    if outcome.differences:
        return {"verdict": Verdict.LOWERED_DIFFERENTLY, "message": "; ".join(outcome.differences)}
    expected = outcome.round.expected
    if lacking := undefined(expected):
        message = f"{lacking} of {len(expected)} elements have no documented value, and are not judged"
        return {"verdict": Verdict.OBSERVED, "message": message}
    elsewhere = outcome.placement.elsewhere
    return {
        "verdict": Verdict.PASS,
        "message": f"not on {provider.name}: {', '.join(elsewhere)}" if elsewhere else None,
    }


def _only_values(outcome: Outcome, provider: OpenProvider) -> list[str]:
    """Returns the kinds of wrong values of a case that would be good with the right ones; nothing for any other case."""
    right = _decide_output(replace(outcome, wrong_elements=()), provider)
    return list(outcome.kinds) if right["verdict"].good else []


def _unproven(placement: PlacementRecord | None, provider: OpenProvider) -> str:
    if placement is None or not placement.nodes:
        return f"nothing shows that a node ran on {provider.name}"
    return f"asked for {provider.name}, got {', '.join(placement.elsewhere)}"


def _common_fields(outcome: Outcome, provider: OpenProvider, *, brief: bool) -> dict[str, Any]:
    """Returns all fields of a record except verdict, stage, message and rules."""
    case, desc, wrong, check = outcome.case, outcome.case.desc, outcome.wrong_elements, outcome.check
    fields: dict[str, Any] = {
        "file": case.file,
        "case": case.id,
        "operator": f"DML_OPERATOR_{desc.operator}",
        "variant": case.variant,
        "provider": provider.name,
        "device_class": provider.device_class,
        "placement": outcome.placement,
        "road": outcome.road,
        "descriptor": outcome.descriptor,
    }
    if outcome.mapped is not None:
        fields["substitutions"] = [str(s) for s in (*outcome.mapped.substitutions, *outcome.substitutions)]
        fields["lowered_as"] = LoweredRecord(
            **_json_of(outcome.mapped.lowered_as), proof="serialized-graph" if outcome.descriptor else "predicted"
        )
    if check is not None:
        as_digest = brief and check.actual is not None and not wrong
        tensor = check.round.desc.tensors[check.field]
        fields["expected"] = _tensor_record(tensor, check.expected, wrong, brief=as_digest)
        if check.actual is not None:
            same = not wrong and check.actual.data_type is tensor.data_type and check.expected == check.actual.bits
            if same:
                fields["actual"] = fields["expected"]
            else:
                tensor = dataclasses.replace(tensor, data_type=check.actual.data_type)
                fields["actual"] = _tensor_record(tensor, check.actual.bits, wrong, brief=as_digest)
    elif not outcome.violations:
        fields["expected"] = _tensor_record(desc.output, outcome.round.expected)
    return fields


@lru_cache(maxsize=512)
def _json_of(desc: OperatorDesc) -> DescJson:
    return desc_json(desc)


def _tensor_record(
    output: TensorDesc, bits: Sequence[int | None], wrong: Sequence[int] = (), *, brief: bool = False
) -> TensorRecord:
    """Returns an output for a record: all its values. If it is large or `brief`: a digest and the first wrong elements."""
    width = output.data_type.size * 2
    if isinstance(bits, (array, memoryview)):
        packed: array[int] | memoryview = bits
    else:
        packed = array(output.data_type.bits_code, [b or 0 for b in bits])  # undocumented elements as zero
    if brief or len(bits) > MAX_LISTED:
        digest = hashlib.sha256(packed).hexdigest()
        first = [{"element": i, "Bits": f"{packed[i]:0{width}x}"} for i in wrong[:MAX_DIFFERENCES]]
        return TensorRecord(output.data_type.name, list(output.sizes), None, None, digest, first)
    values = from_bits(output.data_type, packed)
    return TensorRecord(
        output.data_type.name,
        list(output.sizes),
        [plain(v) if b is not None else None for v, b in zip(values, bits, strict=True)],
        [f"{b:0{width}x}" if b is not None else None for b in bits],
    )


# --- refused dispatches --------------------------------------------------------------------------------------------


def refusal(dispatch: Dispatch, file: str, *, provider: str, feature_level: str) -> Record | None:
    """Returns the record of a dispatch that breaks rules or cannot be used; None if a provider can run it.

    If the feature level does not support the descriptor, the verdict is `error`, because the file is wrong. A case of
    the catalogue is `unsupported` in this situation.
    """
    fields: dict[str, Any] = {
        "file": file,
        "case": dispatch.name,
        "operator": dispatch.operator,
        "provider": provider,
    }
    violations = dispatch.desc.violations(feature_level=feature_level) if dispatch.desc else ()
    if violations:
        return Record(**fields, **violation_fields(violations, dispatch.path))
    if dispatch.error is not None:
        path, message = dispatch.error.path, dispatch.error.message
        return Record(**fields, verdict=Verdict.ERROR, stage=Stage.READ, path=path, message=message)
    return None


def violation_fields(violations: Sequence[Violation], path: str | None) -> dict[str, Any]:
    """Returns the fields of a record that describe broken rules."""
    first = violations[0]
    return {
        "verdict": Verdict.ERROR,
        "stage": Stage.VALIDATE,
        "rule": first.rule,
        "rules": list(dict.fromkeys(v.rule for v in violations)),
        "path": f"{path}.{first.subject}" if path else first.subject,
        "message": f"{first.message} ({first.rule})",
    }


def fits_int32(case: Case) -> bool:
    """Returns whether every index of a case fits INT32."""
    tensors = [case.tensors[name] for name in case.desc.index_tensors()]
    return all(t.data_type is DataType.INT32 or (min(t.values) >= -_INT32 and max(t.values) < _INT32) for t in tensors)
