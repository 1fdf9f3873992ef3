"""Judges one node of a model: by its page, by ONNX's definition, or by the file beside the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from typing import Any

import msgspec
import numpy as np

from ...cases.case import Case
from ...cases.variants import Check
from ...descriptors import OperatorDesc, pad
from ...engines.arrays import as_described, dtype_of, from_array, wrong_array
from ...engines.sessions import CPU
from ...errors import InputError
from ...mapping.dxdispatch import desc_json
from ...operators import OPERATORS
from ...tensors import settled
from ...vocabulary import Fate, JudgedBy, Stage, Verdict
from ..compare import differences, unravel
from ..decide import decide_right, no_judge
from ..judge import Judge
from ..outcome import Outcome
from ..record import LoweredRecord, PlacementRecord, Record
from .node_cases import NodeCase, ResolvedModel, UnknownValue, case_of, node_descriptor
from .nodes import GivenNode, behind, left_open, own_operator, without_bool
from .onnx_definition import not_fixed, without_signs_of_zeros
from .values import CpuValues, Opinion, known_values, reference_opinion

REPORT = "opmap's descriptor of this node may be wrong: please report the model"


@dataclass(frozen=True)
class NodeRun:
    """What a run showed of a node. `texts` say how it was seen."""

    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    placement: PlacementRecord | None = None
    fate: Fate | None = None
    texts: Sequence[str] = ()


class NodeJudge:
    """Judges the nodes of one model with one set of test data."""

    def __init__(self, judge: Judge, resolved: ResolvedModel, cpu: CpuValues):
        self.judge, self.provider, self.cpu = judge, judge.provider, cpu
        self.resolved, self.given = resolved, resolved.given

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """The values that stand in the model, are fed, or that the CPU EP computed."""
        entries = self.resolved.cases
        wanted = {name for entry in entries for name in entry.node.proto.input}
        return {**self.resolved.computed, **known_values(self.given, self.resolved.data.inputs, wanted)}

    def record_of_case(self, entry: NodeCase, case: Case) -> Record:
        """Returns the record of a node on a provider that runs cases, not models."""
        outcome = self.judge.execute(case)
        return self._with_files(entry.node, self.judge.record(outcome), outcome, {})

    def record(self, entry: NodeCase, run: NodeRun) -> tuple[Sequence[Case], Record]:
        """Returns the case and the record of a node from a run of its model."""
        node, arrays = entry.node, {**self.values, **run.outputs}
        lacking = next((name for name in node.outputs if name and name not in run.outputs), None)
        try:
            if lacking:
                raise UnknownValue(f"output {lacking}")
            desc, tensors = node_descriptor(node, arrays, self.judge.feature_level)
        except UnknownValue as error:
            reason = entry.reason or f"the values of its {error} are not known"
            return (), self._record(node, run, verdict=Verdict.NOT_RUN, message=f"not judged: {reason}")
        except InputError as error:
            return (), self._by_onnx(node, run, arrays, error.message)
        if why := desc.not_computed:
            return (), self._by_onnx(node, run, arrays, why, desc)
        variant = entry.case.variant if entry.case else "plain"
        case = case_of(self.given, node, desc, tensors, variant)
        return [case], self._by_page(node, run, arrays, case)

    def _by_page(self, node: GivenNode, run: NodeRun, arrays: Mapping[str, np.ndarray], case: Case) -> Record:
        checks = [check for name in node.outputs for check in self._checks(node, case, name, run.outputs[name], arrays)]
        outcome = Outcome(case=case, inputs=case.inputs, placement=run.placement, checks=checks, fate=run.fate)
        record = self.judge.record(outcome)
        if record.verdict is Verdict.MISMATCH and (why := no_judge(case, self.provider)):
            message = f"{why}; {record.message}"
            record = msgspec.structs.replace(record, verdict=Verdict.UNSUPPORTED, message=message, kinds=None)
        elif record.verdict is Verdict.MISMATCH and all(c.actual for c in checks) and (why := left_open(node)):
            message = f"not judged: {why}; {record.message}"
            record = msgspec.structs.replace(record, verdict=Verdict.NOT_RUN, stage=None, message=message, kinds=None)
        elif record.verdict is Verdict.MISMATCH:
            record = self._second_opinion(node, run, arrays, record)
        lowered = LoweredRecord(**desc_json(case.desc), proof="predicted")
        texts = [f"lowered-as: {node.op_type} -> DML_OPERATOR_{case.desc.operator}", *run.texts]
        record = msgspec.structs.replace(record, lowered_as=lowered, substitutions=texts)
        return self._with_files(node, record, outcome, run.outputs)

    def _record(self, node: GivenNode, run: NodeRun, **fields: Any) -> Record:
        more = {"placement": run.placement, "fate": run.fate, "substitutions": list(run.texts), "file": self.given.file}
        return Record.on(self.provider, node.label, node.operator, **more, **fields)

    def _checks(
        self, node: GivenNode, case: Case, name: str, array: np.ndarray, arrays: Mapping[str, np.ndarray]
    ) -> list[Check]:
        """Returns the outputs of the descriptor that an output of the node gives, held against the pseudocode."""
        outputs_of_node = OPERATORS[case.desc.operator].outputs_of_node
        if outputs_of_node is None:
            return [self._check(node, case, name, array, arrays)]
        found = outputs_of_node(case.desc, from_array(without_bool(array)))
        problem = None if found else f"no such output is possible: {array.dtype.name.upper()} {list(array.shape)}"
        checks = []
        for field_name, tensor in zip(case.desc.outputs, found or repeat(None), strict=False):
            inputs = case.inputs.of(field_name)
            expected = [bits or 0 for bits in inputs.expected]  # a node leaves out what is not documented
            actual = None if tensor is None else settled(expected, tensor)
            checks.append(Check(field_name, inputs, field_name, expected, actual, problem))
        return checks

    def _check(
        self, node: GivenNode, case: Case, name: str, array: np.ndarray, arrays: Mapping[str, np.ndarray]
    ) -> Check:
        """Returns an output of the node, held against the pseudocode.

        A descriptor may have fewer sizes of 1 than the node: then ONNX says which the output must have.
        """
        names, fields = list(node.outputs), [*case.desc.outputs]
        inputs = case.inputs.of(fields[names.index(name)])
        output = inputs.desc.output
        array, shape = without_bool(array), pad(array.shape, output.dimension_count)
        if shape != output.sizes and [n for n in shape if n > 1] == [n for n in output.sizes if n > 1]:
            shapes = {values[name].shape for values in self._opinions(node, arrays).values() if values}
            shape = output.sizes if array.shape in shapes else shape
        array = array.reshape(shape)
        lowering = OPERATORS[case.desc.operator].expressed(case.desc)
        if lowering and inputs.output_field in lowering.output_types:
            described = as_described(array, output.data_type)
            array = array if described is None else described
        problem = wrong_array(array, dtype_of(output.data_type), output.sizes)
        actual = None if problem else settled(inputs.expected, from_array(array))
        label = name if len(names) > 1 else ""
        return Check(label, inputs, inputs.output_field, inputs.expected, actual, problem)

    # --- other opinions ---

    def _opinions(self, node: GivenNode, arrays: Mapping[str, np.ndarray]) -> dict[str, Opinion]:
        """Returns the outputs of the node by the CPU EP and by ONNX's reference evaluator, where these are judges."""
        operator = own_operator(node.proto)
        cpu = self.cpu.opinion(self.given, node.proto, arrays)
        types = {array.dtype.name.upper() for array in (cpu or {}).values()}
        if any(data_type.name in types for data_type in operator.not_on_cpu):
            cpu = None
        wrong = operator.reference_is_wrong({**(node.attributes or {}), "num_outputs": len(node.outputs)})
        reference = None if wrong else reference_opinion(self.given, node.proto, arrays)
        return {"the CPU EP": cpu, "ONNX's reference evaluator": reference}

    def _second_opinion(
        self, node: GivenNode, run: NodeRun, arrays: Mapping[str, np.ndarray], record: Record
    ) -> Record:
        """Returns a mismatch, or an error if both other opinions agree with the provider."""
        opinions = self._opinions(node, arrays)
        agree = [name for name, values in opinions.items() if values and _agree(values, run.outputs)]
        if len(agree) == len(opinions):
            message = f"{REPORT}; {' and '.join(agree)} give the provider's values; by the descriptor, {record.message}"
            return msgspec.structs.replace(
                record, verdict=Verdict.ERROR, stage=Stage.DERIVE, message=message, kinds=None
            )
        if "the CPU EP" in agree and self.provider.name != CPU:
            message = f"{record.message}; the CPU EP gives the same values: both EPs share ONNX Runtime's optimizers"
            return msgspec.structs.replace(record, message=message)
        return record

    def _by_onnx(
        self,
        node: GivenNode,
        run: NodeRun,
        arrays: Mapping[str, np.ndarray],
        reason: str,
        desc: OperatorDesc | None = None,
    ) -> Record:
        """Returns the record of a node that is not judged by a page: its values are those that ONNX defines.

        It has no valid descriptor, or one that opmap does not compute.
        """
        if (why_open := not_fixed(node, arrays, desc)) and desc:
            return self._record(node, run, verdict=Verdict.NOT_RUN, message=f"not judged: {reason}; {why_open}")
        files = {name: array for name, array in self.resolved.data.outputs.items() if name in node.outputs}
        exact, file = self.resolved.exact.issuperset(node.proto.input), ""
        opinions = self._opinions(node, arrays)
        if self.provider.name == CPU:
            del opinions["the CPU EP"]
        if exact and files:
            file = "the file " + self.resolved.data.output_files[next(iter(files))]
            opinions[file] = files
        outputs = run.outputs
        if own_operator(node.proto).descriptor.spec().computes_numbers:
            outputs = without_signs_of_zeros(outputs)
            opinions = {name: values and without_signs_of_zeros(values) for name, values in opinions.items()}
        name, values = next(((n, v) for n, v in opinions.items() if v), ("", None))
        if values is None:
            text = f"not judged: {reason}; neither ONNX's definition nor a file gives a value"
            return self._record(node, run, verdict=Verdict.NOT_RUN, message=text)
        judge = JudgedBy.FILE if name == file else JudgedBy.ONNX
        why = f"judged by {name}: {reason}"
        wrong = _difference(values, outputs)
        if wrong and why_open and _alike(values, outputs):
            message = f"not judged: {reason}; {why_open}, and {name} gives other values"
            return self._record(node, run, verdict=Verdict.NOT_RUN, message=message)
        if wrong:
            agree = [n for n, v in opinions.items() if v and _agree(v, outputs)]
            stage = Stage.DERIVE if agree else Stage.COMPARE
            verdict = Verdict.ERROR if agree else Verdict.MISMATCH
            message = "; ".join([wrong, *(f"{n} gives the provider's values" for n in agree), why])
            return self._record(node, run, verdict=verdict, stage=stage, message=message, judge=judge)
        if file in opinions and not _agree(opinions[file] or {}, outputs):
            message = f"{file.removeprefix('the file ')} alone differs: the provider's output is that of {name}; {why}"
            return self._record(node, run, verdict=Verdict.ERROR, stage=Stage.COMPARE, message=message, judge=judge)
        fields = decide_right(run.placement, run.fate, self.provider)
        message = "; ".join(filter(None, [fields.get("message"), why]))
        return self._record(node, run, **{**fields, "message": message}, judge=judge)

    # --- the model's outputs and the folder's files ---

    def _with_files(
        self, node: GivenNode, record: Record, outcome: Outcome, outputs: Mapping[str, np.ndarray]
    ) -> Record:
        """Returns the record with what the folder's expected outputs say, and the outputs behind the node."""
        own = (self._own_file(node, name, outcome) for name in node.outputs)
        findings = [*own, *(self._behind(name, outputs) for name in behind(self.given, node))]
        bad = next((verdict for verdict, _ in findings if verdict), None)
        message = "; ".join(filter(None, [record.message, *(text for _, text in findings)])) or None
        if bad and record.good:
            return msgspec.structs.replace(record, verdict=bad, stage=Stage.COMPARE, message=message)
        return msgspec.structs.replace(record, message=message)

    def _own_file(self, node: GivenNode, name: str, outcome: Outcome) -> tuple[Verdict | None, str]:
        """Returns what the folder's expected output of the node says. The verdict is that of a file that is wrong."""
        data = self.resolved.data
        if name not in data.outputs:
            return None, self._unread(name)
        file = data.output_files[name]
        if not self.resolved.exact.issuperset(node.inputs):
            computed = "nodes before this one compute its inputs, and providers may round differently"
            return None, f"{file} is not compared: {computed}"
        if why := left_open(node):
            return None, f"{file} is not compared: {why}"
        checks = self._checks(node, outcome.case, name, data.outputs[name], self.values)
        actual = {other.field: other.actual for other in outcome.checks}
        if problem := next((check.problem for check in checks if check.actual is None), None):
            return Verdict.ERROR, f"{file}: {problem}"
        like_pseudocode = all(map(_is_right, checks))
        if outcome.error:
            return None, "" if like_pseudocode else f"{file} differs from the pseudocode"
        own = [replace(check, actual=actual.get(check.field)) for check in checks]
        alike = [check.actual and list(check.actual.bits) for check in own] == [
            check.actual and list(check.actual.bits) for check in checks
        ]
        return _odd_one_out(file, all(map(_is_right, own)), like_pseudocode, alike)

    def _unread(self, name: str) -> str:
        """Returns why an expected output is not compared; nothing if there is none."""
        file = self.resolved.data.output_files.get(name)
        return f"{file} is not compared: opmap does not read its type" if file else ""

    def _behind(self, name: str, outputs: Mapping[str, np.ndarray]) -> tuple[Verdict | None, str]:
        """Returns what an output that the node reaches through others says, and the verdict if it is wrong."""
        provider, data = outputs.get(name), self.resolved.data
        if provider is None:
            return None, ""
        file = data.output_files.get(name, "")
        if name not in self.resolved.exact:
            why = "nodes behind this one compute it, and providers may round differently"
            return None, f"{file} is not compared: {why}" if file else ""
        wanted, expected = self.resolved.computed.get(name), data.outputs.get(name)
        if wanted is None or self._computed_otherwise():
            return None, f"{file} is not compared: the CPU EP has no right values for it" if file else ""
        right, text = equal(wanted, provider), f"output {name}, behind the node, is wrong"
        if expected is None:
            return (None, self._unread(name)) if right else (Verdict.MISMATCH, text)
        verdict, odd = _odd_one_out(file, right, equal(wanted, expected), equal(provider, expected))
        return (verdict, odd) if right else (Verdict.MISMATCH, f"{text}; {odd}")

    def _computed_otherwise(self) -> bool:
        """Returns whether the CPU EP computed a node of ours otherwise than the pseudocode: what follows is not
        right.
        """
        for entry in self.resolved.cases:
            if entry.case is None:
                return True
            for name in entry.node.outputs:
                array = self.resolved.computed.get(name)
                checks = [] if array is None else self._checks(entry.node, entry.case, name, array, self.values)
                if not checks or not all(map(_is_right, checks)):
                    return True
        return False


def _is_right(check: Check) -> bool:
    return check.actual is not None and not differences(check.expected, check.actual.bits)


def equal(array: np.ndarray, other: np.ndarray) -> bool:
    """Returns whether two arrays have the same type, sizes and bits."""
    return array.dtype == other.dtype and array.shape == other.shape and array.tobytes() == other.tobytes()


def _alike(values: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> bool:
    """Returns whether outputs have the wanted types and sizes."""
    return all(wrong_array(outputs[name], wanted.dtype, wanted.shape) is None for name, wanted in values.items())


def _agree(values: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> bool:
    return all(equal(array, outputs[name]) for name, array in values.items())


def _difference(values: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> str | None:
    """Returns the first difference between the wanted values and a provider's outputs in words; None if there is
    none.
    """
    for name, wanted in values.items():
        got = outputs[name]
        if equal(wanted, got):
            continue
        if problem := wrong_array(got, wanted.dtype, wanted.shape, f"output {name}"):
            return problem
        as_bytes = (np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(a.size, -1) for a in (wanted, got))
        places = np.flatnonzero((next(as_bytes) != next(as_bytes)).any(axis=1))
        at = list(unravel(int(places[0]), wanted.shape)) if wanted.shape else []
        values_at = f"must be {wanted.reshape(-1)[places[0]]}, got {got.reshape(-1)[places[0]]}"
        return f"{len(places)} of {wanted.size} elements differ: {name}{at} {values_at}"
    return None


def _odd_one_out(file: str, right: bool, like_pseudocode: bool, like_provider: bool) -> tuple[Verdict | None, str]:
    """Returns which of pseudocode, provider and the folder's file differs from the two others, and a verdict if it is
    the file.

    `right` is whether the provider's output is that of the pseudocode.
    """
    if right:
        text = f"{file} alone differs: the provider's output is that of the pseudocode"
        return (None, "") if like_pseudocode else (Verdict.ERROR, text)
    if like_pseudocode:
        return None, f"the provider alone differs: {file} is what the pseudocode says"
    if like_provider:
        return None, f"the pseudocode alone differs: {file} is what the provider returned"
    return None, f"{file} differs from both"
