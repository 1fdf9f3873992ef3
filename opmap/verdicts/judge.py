"""Judges a case: maps it, runs it, and compares its output bit for bit with the output of the page's pseudocode.

`Judge.execute` runs a case and returns everything that happened (an `Outcome`). `decide` turns that into a record.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..cases.case import Case
from ..descriptors import FEATURE_LEVELS, OperatorDesc, Violation
from ..dxdispatch import Dispatch, desc_json
from ..errors import MappingError, ProviderError
from ..execution.arrays import dtype_of, from_array, to_array, wrong_outputs
from ..execution.protocol import origin
from ..execution.providers import OpenProvider
from ..mapping import IndexConversion, MappedModel, map_descriptor
from ..operators import OPERATORS
from ..tensors import DataType, Tensor, from_bits, plain
from ..vocabulary import Stage, Verdict
from .compare import differences, explain, undefined
from .record import LoweredRecord, PlacementRecord, Record, TensorRecord

MAX_LISTED = 10_000
"""The most elements of an output that a record lists in full."""

MAX_DIFFERENCES = 10
"""The number of differences that a record lists if the output is too large to be listed in full."""

_INT32 = 2**31


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The results of each step of one case. A step that was not reached leaves None or an empty value.

    `wrong_elements` holds the row-major addresses of the wrong elements. `shape_problem` describes a wrong number, type
    or shape of the outputs. `error` is the exception that ended the case.
    """

    case: Case
    violations: Sequence[Violation] = ()
    expected: Sequence[int | None] | None = None
    mapped: MappedModel | None = None
    placement: PlacementRecord | None = None
    actual: Tensor | None = None
    wrong_elements: Sequence[int] = ()
    shape_problem: str | None = None
    error: MappingError | ProviderError | None = None


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
        return decide(self.execute(case), self.provider, brief=self.brief)

    def execute(self, case: Case) -> Outcome:
        """Runs one case on the provider and compares its output with the documented one."""
        desc = case.desc
        violations = desc.violations(feature_level=self.feature_level)
        if violations:
            return Outcome(case=case, violations=violations)
        expected = case.expected
        mapped = None
        try:
            if OPERATORS[desc.operator].lower is not None or not self.provider.runs_cases:
                mapped = self._map(case)
            outputs = self._run(case, mapped)
        except MappingError as error:
            return Outcome(case=case, expected=expected, error=error)
        except ProviderError as error:
            return Outcome(case=case, expected=expected, mapped=mapped, placement=self._placement(), error=error)
        placement = self._placement()
        shape_problem = wrong_outputs(outputs, dtype_of(desc.output.data_type), desc.output.sizes)
        if shape_problem:
            return Outcome(
                case=case, expected=expected, mapped=mapped, placement=placement, shape_problem=shape_problem
            )
        actual = from_array(outputs[0])
        return Outcome(
            case=case,
            expected=expected,
            mapped=mapped,
            placement=placement,
            actual=actual,
            wrong_elements=differences(expected, actual.bits),
        )

    def dispatch(self, dispatch: Dispatch, file: str) -> Record:
        """Returns the record of a dispatch command that was read from a file."""
        refused = refusal(dispatch, file, provider=self.provider.name, feature_level=self.feature_level)
        if refused is not None:
            return refused
        assert dispatch.desc is not None, "a dispatch that is not refused must have a descriptor"
        return self(Case(dispatch.name or "", dispatch.desc, dispatch.tensors, file))

    def _map(self, case: Case) -> MappedModel:
        return map_descriptor(
            case.desc,
            index_conversion=self.index_conversion or ("directml" if self.provider.directml else "graph"),
            fits_int32=_fits_int32(case),
            index_path=case.index_path,
            values=case.tensors,
        )

    def _run(self, case: Case, mapped: MappedModel | None) -> Any:
        """The provider's return value, not checked yet."""
        if self.provider.runs_cases or mapped is None:
            return self.provider.run_case(case)
        feeds = {name: to_array(tensor) for name, tensor in mapped.feed(case.tensors).items()}
        return self.provider.run(mapped.model_bytes, feeds)

    def _placement(self) -> PlacementRecord | None:
        placement = self.provider.placement()
        if placement is None:
            return None
        return PlacementRecord(placement.proves(self.provider.name), placement.source, list(placement.nodes))


# --- deciding ------------------------------------------------------------------------------------------------------


def decide(outcome: Outcome, provider: OpenProvider, *, brief: bool = False) -> Record:
    """Returns the record of an outcome.

    If several verdicts fit, the first of these counts: the verdict of an error, `mismatch`, `fallback`, `observed`,
    `pass`.
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
    return Record(**fields)


def _decide_error(outcome: Outcome, error: MappingError | ProviderError, provider: OpenProvider) -> dict[str, Any]:
    """Verdict, stage and message of a case that an exception ended."""
    if isinstance(error, MappingError):
        return {"verdict": error.verdict, "stage": Stage.MAP, "message": str(error)}
    refused = error.verdict is Verdict.ERROR and error.stage is Stage.RUN
    if refused and outcome.expected is not None and undefined(outcome.expected):
        message = f"an index is out of range, and {provider.name} refused it: {error}"
        return {"verdict": Verdict.OBSERVED, "stage": Stage.RUN, "message": message}
    return {"verdict": error.verdict, "stage": error.stage, "path": origin(str(error)), "message": str(error)}


def _decide_output(outcome: Outcome, provider: OpenProvider) -> dict[str, Any]:
    """Verdict, stage and message of a case that no exception ended."""
    case, expected, actual = outcome.case, outcome.expected, outcome.actual
    if outcome.shape_problem or expected is None or actual is None:
        return {"verdict": Verdict.MISMATCH, "stage": Stage.COMPARE, "message": outcome.shape_problem}
    if outcome.wrong_elements:
        message = explain(case, expected, outcome.wrong_elements, actual)
        return {"verdict": Verdict.MISMATCH, "stage": Stage.COMPARE, "message": message}
    if outcome.placement is None or not outcome.placement.proven:
        return {"verdict": Verdict.FALLBACK, "message": _unproven(outcome.placement, provider)}
    if lacking := undefined(expected):
        message = f"{lacking} of {len(expected)} elements have no documented value, and are not judged"
        return {"verdict": Verdict.OBSERVED, "message": message}
    return {"verdict": Verdict.PASS}


def _unproven(placement: PlacementRecord | None, provider: OpenProvider) -> str:
    if placement is None or not placement.nodes:
        return f"nothing shows that a node ran on {provider.name}"
    elsewhere = ", ".join(f"{op} on {name}" for op, name in placement.nodes if name != provider.name)
    return f"asked for {provider.name}, got {elsewhere}"


def _common_fields(outcome: Outcome, provider: OpenProvider, *, brief: bool) -> dict[str, Any]:
    """All fields of a record except verdict, stage, message and rules."""
    case, desc, wrong = outcome.case, outcome.case.desc, outcome.wrong_elements
    fields: dict[str, Any] = {
        "file": case.file,
        "case": case.id,
        "operator": f"DML_OPERATOR_{desc.operator}",
        "provider": provider.name,
        "device_class": provider.device_class,
        "placement": outcome.placement,
    }
    if outcome.mapped is not None:
        fields["substitutions"] = [str(s) for s in outcome.mapped.substitutions]
        fields["lowered_as"] = LoweredRecord(**desc_json(outcome.mapped.lowered_as))
    if outcome.expected is not None:
        as_digest = brief and outcome.actual is not None and not wrong
        fields["expected"] = _tensor_record(desc, outcome.expected, wrong, brief=as_digest)
        if outcome.actual is not None:
            fields["actual"] = _tensor_record(desc, outcome.actual.bits, wrong, brief=as_digest)
    return fields


def _tensor_record(
    desc: OperatorDesc, bits: Sequence[int | None], wrong: Sequence[int] = (), *, brief: bool = False
) -> TensorRecord:
    """An output, listed in full; or its digest and the first wrong elements, if it is large or `brief`."""
    output = desc.output
    width = output.data_type.size * 2
    filled = bits if isinstance(bits, array) else [b or 0 for b in bits]  # undocumented elements as zero
    packed = array(output.data_type.bits_code, filled)
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


def _fits_int32(case: Case) -> bool:
    """Whether every index fits INT32."""
    tensors = [case.tensors[name] for name in case.desc.index_tensors()]
    return all(t.data_type is DataType.INT32 or (min(t.values) >= -_INT32 and max(t.values) < _INT32) for t in tensors)
