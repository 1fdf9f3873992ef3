"""Decides what record an outcome gives: its verdict, and what it says.

The verdict of one run is given here; probes have one of their own. `opmap.known.final` has the final verdict.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from ..cases.case import Case
from ..cases.values import FAR
from ..cases.variants import VARIANTS
from ..descriptors import OperatorDesc, TensorDesc, Violation
from ..engines.protocol import ASSERTED, origin
from ..engines.providers import Provider
from ..engines.sessions import CPU
from ..engines.steps import Result
from ..errors import MappingError, ProviderError
from ..mapping.dxdispatch import Dispatch, desc_json
from ..mapping.dxdispatch.descriptor_json import DescJson
from ..operators import OPERATORS
from ..tensors import from_bits, plain
from ..vocabulary import VALUE_KINDS, Fate, JudgedBy, Stage, Verdict
from .compare import differences, explain, undefined
from .items import Item, operator_of
from .outcome import Outcome
from .record import EXCUSED, LoweredRecord, OutputRecord, PlacementRecord, Record, TensorRecord

NO_KERNEL = "NOT_IMPLEMENTED"
"""ONNX Runtime's name of the error that no kernel fits a node."""

MAX_LISTED = 10_000
"""The most elements of an output that a record lists in full."""

MAX_DIFFERENCES = 1_000
"""The number of differences that a record lists if the output is too large to be listed in full."""


def decide(outcome: Outcome, provider: Provider, *, brief: bool = False) -> Record:
    """Returns the record of an outcome.

    If several verdicts fit, the first of these counts: the verdict of an error, `mismatch`, `fallback`,
    `path-unproven`, `lowered-differently`, `observed`, `pass`.
    """
    case = outcome.case
    if outcome.violations:
        decided = violation_fields(outcome.violations, None)
        support_rules = {rule.id for rule in case.desc.spec().rules if rule.check == "support"}
        if support_rules.issuperset(decided["rules"]):
            decided["verdict"] = Verdict.UNSUPPORTED
    elif outcome.error is not None:
        decided = decide_error(outcome, outcome.error, provider)
    else:
        decided = _decide_output(outcome, provider)
    if outcome.messages:
        decided["message"] = "; ".join(filter(None, [decided.get("message"), *outcome.messages]))
    return Record.on(
        provider,
        case.id,
        f"DML_OPERATOR_{case.desc.operator}",
        file=case.file,
        variant=case.variant,
        placement=_believed(outcome),
        path_proof=outcome.path_proof,
        descriptor=outcome.descriptor,
        judge=JudgedBy.PAGE if outcome.check else None,
        fate=outcome.fate,
        **_model_fields(outcome),
        **_output_fields(outcome, brief=brief, good=decided["verdict"].good),
        **decided,
    )


def _believed(outcome: Outcome) -> PlacementRecord | None:
    """Returns the placement, without what a provider only says itself about a case that an error ended."""
    asserted = outcome.placement is not None and outcome.placement.source == ASSERTED
    return None if asserted and outcome.error is not None else outcome.placement


def _beyond(outcome: Outcome) -> str | None:
    """Returns why an EP that is not DirectML's may refuse a descriptor that the page allows, or None."""
    return OPERATORS[outcome.case.desc.operator].beyond_onnx(outcome.case.desc)


def decide_error(outcome: Outcome, error: MappingError | ProviderError, provider: Provider) -> dict[str, Any]:
    """Returns verdict, stage and message of a case that an exception ended.

    An EP that is not DirectML's may refuse an index that is out of range. DirectML cannot: it takes indices where they
    are, on the device.
    """
    if isinstance(error, MappingError):
        return {"verdict": error.verdict, "stage": Stage.MAP, "message": str(error)}
    refused = error.verdict is Verdict.ERROR and error.stage is Stage.RUN and outcome.check is None
    undocumented = any(map(undefined, outcome.inputs.all_expected.values())) and outcome.case.desc.index_tensors()
    outside = "an index is out of range" if undocumented or outcome.case.index_pattern == FAR else None
    if refused and not (provider.directml or provider.direct) and (beyond := outside or _beyond(outcome)):
        return {
            "verdict": Verdict.OBSERVED if undocumented else Verdict.UNSUPPORTED,
            "stage": Stage.RUN,
            "message": f"{beyond}, and {provider.name} refused it: {error}",
        }
    if error.verdict is Verdict.ERROR and error.stage is Stage.LOAD and (missing := _missing_types(outcome, provider)):
        message = f"IDMLDevice::CheckFeatureSupport: the device does not support {', '.join(missing)}: {error}"
        return {"verdict": Verdict.UNSUPPORTED, "stage": Stage.LOAD, "message": message}
    return error_fields(error, provider)


def no_judge(case: Case, provider: Provider) -> str | None:
    """Returns why a provider is no judge of the bits of a case; None if it is one."""
    operator, data_type = OPERATORS[case.desc.operator], case.desc.output.data_type
    why = operator.not_on_cpu.get(data_type) if provider.name == CPU else None
    return f"the CPU EP is no judge of {operator.onnx_operator} of {data_type.name}: {why}" if why else None


def error_fields(error: ProviderError, provider: Provider | None = None) -> dict[str, Any]:
    """Returns the fields of a record about an error that ended an item.

    That the CPU EP lacks a kernel is no fault of it.
    """
    if provider and error.stage is Stage.LOAD and provider.name == CPU and NO_KERNEL in str(error):
        named = re.search(r" for (\w+)\(", str(error))
        message = f"the CPU EP has no kernel of {named[1] if named else 'an operator'}: {error}"
        return {"verdict": Verdict.UNSUPPORTED, "stage": Stage.LOAD, "message": message}
    return {"verdict": error.verdict, "stage": error.stage, "error_at": origin(str(error)), "message": str(error)}


def _missing_types(outcome: Outcome, provider: Provider) -> list[str]:
    """Returns the data types of a model, and of the descriptor made from it, that the device says it does not
    support.
    """
    mapped, supported = outcome.mapped, provider.device_types() if provider.directml else None
    if mapped is None or supported is None:
        return []
    used = {*mapped.feeds.values(), *(tensor.data_type for tensor in mapped.lowered_as.tensors.values())}
    return sorted(data_type.name for data_type in used if data_type.name not in supported)


def _decide_output(outcome: Outcome, provider: Provider) -> dict[str, Any]:
    """Returns verdict, stage and message of a case that no exception ended."""
    check = outcome.check
    assert check is not None, "a case without an error has a check"
    where = f"{check.label}: " if check.label else ""
    if check.actual is None:
        return {"verdict": Verdict.MISMATCH, "stage": Stage.COMPARE, "message": f"{where}{check.problem}"}
    right = _decide_right(outcome, provider)
    if not outcome.wrong_elements:
        return right
    kinds = list(outcome.kinds) if right["verdict"].good else []
    values = f"values only: {', '.join(VALUE_KINDS[kind] for kind in kinds)}" if kinds else None
    place = outcome.placement
    elsewhere = _unproven(place, provider) if place and place.nodes and not place.shown else None
    details = "; ".join(filter(None, [elsewhere, outcome.relation, values, explain(check, outcome.wrong_elements)]))
    message = f"{where}{details}"
    return {"verdict": Verdict.MISMATCH, "stage": Stage.COMPARE, "message": message, "kinds": kinds or None}


def _decide_right(outcome: Outcome, provider: Provider) -> dict[str, Any]:
    """Returns verdict and message of a case whose outputs are right, or count as right."""
    if outcome.fate not in EXCUSED and (outcome.placement is None or not outcome.placement.shown):
        in_ort_format = VARIANTS[outcome.case.variant].run_mode.name == "ort-format"
        if in_ort_format and not provider.directml and provider.name != CPU:
            message = f"a model in ONNX Runtime's own format does not reach {provider.name}"
            return {"verdict": Verdict.UNSUPPORTED, "stage": Stage.LOAD, "message": message}
        return decide_right(outcome.placement, outcome.fate, provider)
    if lacking_node := _lacking_node(outcome):
        verdict = Verdict.PATH_UNPROVEN if provider.directml else Verdict.UNSUPPORTED
        return {"verdict": verdict, "message": lacking_node}
    if outcome.path_problem:
        return {"verdict": Verdict.PATH_UNPROVEN, "message": outcome.path_problem}
    if outcome.differences:
        return {"verdict": Verdict.LOWERED_DIFFERENTLY, "message": "; ".join(outcome.differences)}
    expected = outcome.inputs.all_expected.values()
    if (lacking := sum(map(undefined, expected))) and any(undefined(check.expected) for check in outcome.checks):
        message = f"{lacking} of {sum(map(len, expected))} elements have no documented value, and are not judged"
        return {"verdict": Verdict.OBSERVED, "message": message}
    return decide_right(outcome.placement, outcome.fate, provider)


def _lacking_node(outcome: Outcome) -> str | None:
    """Returns what was assigned in place of the operator's own node; None if this node was assigned.

    ONNX Runtime removes nodes, and runs the ONNX function of a node for which an EP has no kernel.
    """
    placement = outcome.placement
    if outcome.mapped is None or placement is None or placement.source != "assignment-info" or not placement.nodes:
        return None
    op_type, assigned = outcome.mapped.lowering.op_type, {name for name, _ in placement.nodes}
    return None if op_type in assigned else f"ONNX Runtime assigned no {op_type}, but {', '.join(sorted(assigned))}"


def decide_right(placement: PlacementRecord | None, fate: Fate | None, provider: Provider) -> dict[str, Any]:
    """Returns verdict and message of a result whose values are right, where only the place at which it ran can be
    wrong.
    """
    if fate not in EXCUSED and (placement is None or not placement.shown):
        return {"verdict": Verdict.FALLBACK, "message": _unproven(placement, provider)}
    elsewhere = placement.elsewhere if placement else ()
    message = f"not on {provider.name}: {', '.join(elsewhere)}" if elsewhere else None
    return {"verdict": Verdict.PASS, "message": message}


def _unproven(placement: PlacementRecord | None, provider: Provider) -> str:
    if placement is None or not placement.nodes:
        return f"nothing shows that a node ran on {provider.name}"
    return f"asked for {provider.name}, got {', '.join(placement.elsewhere)}"


def _model_fields(outcome: Outcome) -> dict[str, Any]:
    """Returns the fields of a record about the model."""
    mapped = outcome.mapped
    if mapped is None:
        return {}
    proof = "serialized-graph" if outcome.descriptor else "predicted"
    return {
        "substitutions": [str(s) for s in (*mapped.substitutions, *outcome.substitutions)],
        "lowered_as": LoweredRecord(**_json_of(mapped.lowered_as), proof=proof),
    }


def _output_fields(outcome: Outcome, *, brief: bool, good: bool) -> dict[str, Any]:
    """Returns the fields of a record about the expected and the actual outputs.

    They are those of the run that `outcome.check` is about. If it is about another tensor than an output, so are
    `expected` and `actual`. With `brief`, a good case that gave no output has none of these fields.
    """
    if outcome.violations or (brief and good and outcome.check is None):
        return {}
    outputs = {field: _output_record(outcome, field, brief, good) for field in outcome.case.desc.outputs}
    check = outcome.check
    own = check is None or check.field in outputs
    first = next(iter(outputs.values())) if own or check is None else _output_record(outcome, check.field, brief, good)
    return {"expected": first.expected, "actual": first.actual, "outputs": outputs}


def _output_record(outcome: Outcome, field: str, brief: bool, good: bool) -> OutputRecord:
    """Returns what a record says about one output. It is the check of this field that is nearest to `outcome.check`.

    With `brief`, a digest is enough for an output that is right, and for one that was not reached in a good case. In
    both digests an element without a documented value counts as 0.
    """
    own, main = [check for check in outcome.checks if check.field == field], outcome.check
    if main is None or not own:
        inputs = outcome.inputs.of(field)
        return OutputRecord(_tensor_record(inputs.desc.output, inputs.expected, brief=brief and good))
    at = outcome.checks.index(main)
    check = main if main.field == field else min(own, key=lambda other: abs(outcome.checks.index(other) - at))
    tensor, actual = check.inputs.desc.tensors[field], check.actual
    if actual is not None and actual.sizes != tensor.sizes:
        tensor = dataclasses.replace(tensor, sizes=actual.sizes)  # those of a copy of an input are the graph's
    wrong = outcome.wrong_elements if check is main else differences(check.expected, actual.bits) if actual else ()
    as_digest = brief and actual is not None and not wrong
    expected = _tensor_record(tensor, check.expected, wrong, brief=as_digest)
    if actual is None:
        return OutputRecord(expected)
    if not wrong and actual.data_type is tensor.data_type and check.expected == actual.bits:
        return OutputRecord(expected, expected)
    tensor, bits = dataclasses.replace(tensor, data_type=actual.data_type), actual.bits
    if as_digest and undefined(check.expected):
        bits = [0 if wanted is None else got for wanted, got in zip(check.expected, bits, strict=True)]
    return OutputRecord(expected, _tensor_record(tensor, bits, wrong, brief=as_digest))


@lru_cache(maxsize=512)
def _json_of(desc: OperatorDesc) -> DescJson:
    return desc_json(desc)


def _tensor_record(
    output: TensorDesc, bits: Sequence[int | None], wrong: Sequence[int] = (), *, brief: bool = False
) -> TensorRecord:
    """Returns an output for a record: all its values.

    If it is large or `brief`: a digest and the first wrong elements.
    """
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


# --- models that are no case's -------------------------------------------------------------------------------------


def decide_model(record: Record, provider: Provider, result: Result, problem: str | None) -> Record:
    """Returns the record of a model that was run once.

    `problem` is what is wrong with its outputs; None if they are right.
    """
    record = msgspec.structs.replace(record, placement=PlacementRecord.of(result.placement, provider.name))
    if problem:
        return msgspec.structs.replace(record, verdict=Verdict.MISMATCH, stage=Stage.COMPARE, message=problem)
    if record.proven or record.asserted:
        return record
    return msgspec.structs.replace(record, verdict=Verdict.FALLBACK, message=_unproven(None, provider))


# --- what was not run ----------------------------------------------------------------------------------------------


def not_run(item: Item, provider: Provider | str, verdict: Verdict, message: str) -> Record:
    """Returns the record of an item that was not run. `provider` is its name if it is missing."""
    fields = {"variant": item.variant, "file": item.file} if isinstance(item, Case) else {}
    return Record.on(provider, item.id, operator_of(item), verdict=verdict, message=message, **fields)


def refusal(dispatch: Dispatch, file: str, *, provider: str, feature_level: str) -> Record | None:
    """Returns the record of a dispatch that breaks rules or cannot be used; None if a provider can run it.

    If the feature level does not support the descriptor, the verdict is `error`, because the file is wrong. A case of
    the catalogue is `unsupported` in this situation.
    """
    violations = dispatch.desc.violations(feature_level=feature_level) if dispatch.desc else ()
    if violations:
        fields = violation_fields(violations, dispatch.path)
        return Record.on(provider, dispatch.name, dispatch.operator, file=file, **fields)
    if dispatch.error is not None:
        path, message = dispatch.error.path, dispatch.error.message
        fields = {"verdict": Verdict.ERROR, "stage": Stage.READ, "error_at": path, "message": message}
        return Record.on(provider, dispatch.name, dispatch.operator, file=file, **fields)
    return None


def violation_fields(violations: Sequence[Violation], path: str | None) -> dict[str, Any]:
    """Returns the fields of a record that describe broken rules."""
    first = violations[0]
    return {
        "verdict": Verdict.ERROR,
        "stage": Stage.VALIDATE,
        "rule": first.rule,
        "rules": list(dict.fromkeys(v.rule for v in violations)),
        "error_at": f"{path}.{first.subject}" if path else first.subject,
        "message": f"{first.message} ({first.rule})",
    }
