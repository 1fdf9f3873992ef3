"""Runs a model from outside on a provider, as it is, and judges each node of our operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from ...cases.case import Case
from ...cases.variants import Check
from ...descriptors import pad
from ...engines.arrays import dtype_of, from_array, wrong_array
from ...engines.protocol import COPIES
from ...engines.providers import OpenProvider
from ...engines.steps import Evidence, Setup
from ...errors import InputError, ProviderError
from ...mapping.dxdispatch import desc_json
from ...vocabulary import Stage, Verdict
from ..compare import differences
from ..judge import Judge
from ..outcome import Outcome
from ..record import LoweredRecord, PlacementRecord, Record
from .node_cases import NodeCase, ResolvedModel, case_of, node_cases
from .nodes import behind, descriptor, seen_values, without_bool
from .reading import GivenModel, nodes_of
from .values import CpuValues, known_values, run_model

UNFOLDED = ["ConstantFolding"]
"""The optimizer that is switched off if no node of an operator is left in the session: it computes constants on the CPU EP."""


def judge_model(
    judge: Judge, given: GivenModel, data_set: str | None, cpu: CpuValues
) -> Iterator[tuple[Case | None, Record]]:
    """Gives the case and the record of each node of our operators, with one set of test data.

    A node that cannot be judged has no case, and a record `not-run` that says why. Raises InputError if the model or its test
    data cannot be used.
    """
    resolved = node_cases(given, data_set, cpu, feature_level=judge.feature_level)
    given = resolved.given
    prefix = f"{data_set}/" if data_set and len(given.data_sets) > 1 else ""
    if judge.provider.runs_cases or not any(entry.case for entry in resolved.cases):
        runs = None
    else:
        runs = _run(judge.provider, resolved)
    for entry in resolved.cases:
        if entry.case is None:
            fields = {"verdict": Verdict.NOT_RUN, "message": f"not judged: {entry.reason}", "file": given.file}
            yield None, Record.on(judge.provider.name, f"{prefix}{entry.node.label}", entry.node.operator, **fields)
            continue
        case = replace(entry.case, id=f"{prefix}{entry.case.id}")
        judged = _NodeJudge(judge, resolved, runs or _Runs(), replace(entry, case=case))
        yield case, judged.record() if runs else judged.record_of_case()


# --- running ---


@dataclass(frozen=True)
class _ModelRun:
    """What a provider made of a model. `error` ended the run."""

    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    evidence: Evidence | None = None
    error: ProviderError | None = None


@dataclass(frozen=True)
class _Runs:
    """The runs of a model: `own` is that of the model itself, `seen` that of the model with further outputs.

    `inside` has the outputs of the nodes whose values only `seen` shows. `unfolded` is whether ConstantFolding was off.
    """

    own: _ModelRun = _ModelRun()
    seen: _ModelRun = _ModelRun()
    inside: frozenset[str] = frozenset()
    unfolded: bool = False


def _run(provider: OpenProvider, resolved: ResolvedModel) -> _Runs:
    """Runs the model itself, and again with further outputs if a node's values are inside it."""
    given, feeds = resolved.given.as_run, resolved.data.inputs
    nodes = [entry.node for entry in resolved.cases if entry.case]
    setup = Setup(cpu_nodes=True, from_file=bool(given.files))

    def run(more: Sequence[str] = ()) -> _ModelRun:
        try:
            return _ModelRun(*run_model(provider.performer, given, feeds, more, setup))
        except ProviderError as error:
            return _ModelRun(error=error)

    own = run()
    placement = own.evidence.placement if own.evidence else None
    ran = {op_type for op_type, _ in placement.nodes} if placement else set()
    unfolded = not (own.error or provider.third_party or ran.issuperset(node.op_type for node in nodes))
    if unfolded:
        setup = msgspec.structs.replace(setup, disabled_optimizers=UNFOLDED)
        own = run()
    if own.error:
        return _Runs(own, unfolded=unfolded)
    exact = resolved.exact
    inside = [n for n in nodes if not own.outputs.keys() >= set(n.outputs) or not exact.issuperset(n.inputs)]
    more = {name for node in inside for name in (*node.inputs, *node.outputs)} & seen_values(given)
    seen = run(sorted(more)) if more else _ModelRun()
    return _Runs(own, seen, frozenset(name for node in inside for name in node.outputs), unfolded)


# --- judging one node ---


class _NodeJudge:
    """Judges one node from the runs of its model."""

    def __init__(self, judge: Judge, resolved: ResolvedModel, runs: _Runs, entry: NodeCase):
        assert entry.case is not None, "a node without a case is not judged"
        self.judge, self.given, self.resolved, self.runs = judge, resolved.given, resolved, runs
        self.node = entry.node
        self.inside = not runs.inside.isdisjoint(entry.node.outputs)
        self.run = runs.seen if self.inside else runs.own
        self.case = self._seen_case(entry.case) if self.inside else entry.case

    def _seen_case(self, case: Case) -> Case:
        """Returns the case with the inputs that the provider itself gave to the node."""
        values = self.run.outputs
        if not any(name in values for name in self.node.inputs):
            return case
        arrays = [values[name] if name in values else self._own_array(name) for name in self.node.inputs]
        constants = {name: self._own_array(value) for name, value in self.node.constants.items()}
        try:
            desc = descriptor(self.node, arrays, constants, feature_level=self.judge.feature_level)
        except InputError:  # the provider computed an input of another type or size: the output will be wrong too
            return case
        return replace(case_of(self.given, self.node, desc, arrays, case.variant), id=case.id)

    def _own_array(self, name: str) -> np.ndarray:
        """Returns a value that is fed, an initializer, or what the CPU EP computes inside a branch."""
        known_arrays = known_values(self.given, self.resolved.data.inputs, {name})
        return known_arrays[name] if name in known_arrays else self.resolved.computed[name]

    def record_of_case(self) -> Record:
        """Returns the record of the node on a provider that runs cases, not models."""
        outcome = self.judge.execute(self.case)
        return self._with_files(self.judge.record(outcome), outcome)

    def record(self) -> Record:
        """Returns the record of the node."""
        case, provider, evidence, error = self.case, self.judge.provider, self.run.evidence, self.run.error
        model = self.given.as_run.model
        helpers = {node.op_type for node in nodes_of(model.graph, *model.functions)} - {self.node.op_type}
        placement = PlacementRecord.of(evidence.placement if evidence else None, provider.name, COPIES | helpers)
        checks = [self._check(name, self.run.outputs[name]) for name in self.node.outputs] if error is None else []
        outcome = Outcome(case=case, inputs=case.inputs, placement=placement, checks=checks, error=error)
        record = self.judge.record(outcome)
        texts = [f"lowered-as: {self.node.op_type} -> DML_OPERATOR_{case.desc.operator}"]
        if self.inside:
            shown = (
                ", ".join(name for name in self.node.outputs if name not in self.runs.own.outputs)
                or self.node.outputs[0]
            )
            texts.append(f"output: {shown} is not an output of the model; a second run has it as one")
        if self.runs.unfolded:
            texts.append("optimizer: ConstantFolding is off, with it no such node is left to run")
        lowered = LoweredRecord(**desc_json(case.desc), proof="predicted")
        record = msgspec.structs.replace(record, lowered_as=lowered, substitutions=texts)
        return self._with_files(record, outcome)

    def _check(self, name: str, array: np.ndarray) -> Check:
        """Returns an output of the node, held against the pseudocode."""
        names, fields = list(self.node.outputs), [*self.case.desc.outputs]
        inputs = self.case.inputs.of(fields[names.index(name)])
        output = inputs.desc.output
        array = without_bool(array).reshape(pad(array.shape, output.dimension_count))
        problem = wrong_array(array, dtype_of(output.data_type), output.sizes)
        actual = None if problem else from_array(array)
        label = name if len(names) > 1 else ""
        return Check(label, inputs, inputs.output_field, inputs.expected, actual, problem)

    # --- the model's outputs and the folder's files ---

    def _with_files(self, record: Record, outcome: Outcome) -> Record:
        """Returns the record with what the folder's expected outputs say, and the outputs behind the node."""
        own = (self._own_file(name, outcome) for name in self.node.outputs)
        findings = [*own, *(self._behind(name) for name in behind(self.given, self.node))]
        bad = next((verdict for verdict, _ in findings if verdict), None)
        message = "; ".join(filter(None, [record.message, *(text for _, text in findings)])) or None
        if bad and record.good:
            return msgspec.structs.replace(record, verdict=bad, stage=Stage.COMPARE, message=message)
        return msgspec.structs.replace(record, message=message)

    def _own_file(self, name: str, outcome: Outcome) -> tuple[Verdict | None, str]:
        """Returns what the folder's expected output of the node says. The verdict is that of a file that is wrong."""
        data = self.resolved.data
        if name not in data.outputs:
            return None, self._unread(name)
        file = data.output_files[name]
        if not self.resolved.exact.issuperset(self.node.inputs):
            computed = "nodes before this one compute its inputs, and providers may round differently"
            return None, f"{file} is not compared: {computed}"
        check = self._check(name, data.outputs[name])
        own = next((other for other in outcome.checks if other.field == check.field), None)
        actual = own.actual if own else None
        if check.actual is None:
            return Verdict.ERROR, f"{file}: {check.problem}"
        differ = differences(check.expected, check.actual.bits)
        if outcome.error:
            return None, f"{file} differs from the pseudocode" if differ else ""
        right = actual is not None and not differences(check.expected, actual.bits)
        return _odd_one_out(
            file, right, not differ, actual is not None and list(actual.bits) == list(check.actual.bits)
        )

    def _unread(self, name: str) -> str:
        """Returns why an expected output is not compared; nothing if there is none."""
        file = self.resolved.data.output_files.get(name)
        return f"{file} is not compared: opmap does not read its type" if file else ""

    def _behind(self, name: str) -> tuple[Verdict | None, str]:
        """Returns what an output that the node reaches through others says, and the verdict if it is wrong."""
        provider, data = self.runs.own.outputs.get(name), self.resolved.data
        if provider is None:
            return None, ""
        file = data.output_files.get(name, "")
        if name not in self.resolved.exact:
            what = f"output {name}" + (f" and {file} are" if file else " is")
            return None, f"{what} not compared: nodes behind this one compute it, and providers may round differently"
        wanted, expected = self.resolved.computed.get(name), data.outputs.get(name)
        if wanted is None or self._computed_otherwise():
            return None, f"output {name} is not compared: the CPU EP has no right values for it"
        right, text = _equal(wanted, provider), f"output {name}, behind the node, is wrong"
        if expected is None:
            return (None, self._unread(name)) if right else (Verdict.MISMATCH, text)
        verdict, odd = _odd_one_out(file, right, _equal(wanted, expected), _equal(provider, expected))
        return (verdict, odd) if right else (Verdict.MISMATCH, f"{text}; {odd}")

    def _computed_otherwise(self) -> bool:
        """Returns whether the CPU EP computed a node of ours otherwise than the pseudocode: what follows is not right."""
        for entry in self.resolved.cases:
            if entry.case is None:
                return True
            for name, expected in zip(entry.node.outputs, entry.case.inputs.all_expected.values(), strict=True):
                array = self.resolved.computed.get(name)
                bits = None if array is None else from_array(without_bool(array)).bits
                if bits is None or len(bits) != len(expected) or differences(expected, bits):
                    return True
        return False


def _equal(array: np.ndarray, other: np.ndarray) -> bool:
    """Returns whether two arrays have the same type, sizes and bits."""
    return array.dtype == other.dtype and array.shape == other.shape and array.tobytes() == other.tobytes()


def _odd_one_out(file: str, right: bool, like_pseudocode: bool, like_provider: bool) -> tuple[Verdict | None, str]:
    """Returns which of pseudocode, provider and the folder's file differs from the two others, and a verdict if it is the file.

    `right` is whether the provider's output is that of the pseudocode.
    """
    if right:
        text = f"{file} is the odd one out: the provider's output is that of the pseudocode"
        return (None, "") if like_pseudocode else (Verdict.ERROR, text)
    if like_pseudocode:
        return None, f"the provider is the odd one out: {file} is what the pseudocode says"
    if like_provider:
        return None, f"the pseudocode is the odd one out: {file} is what the provider returned"
    return None, f"{file} differs from both"
