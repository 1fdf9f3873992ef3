"""Runs a model from outside on a provider, as it is, and judges each node of our operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import msgspec
import numpy as np

from ...cases.case import Case
from ...engines.protocol import ASSERTED, COPIES, Placement
from ...engines.steps import Evidence, Setup
from ...engines.worker import WorkerLost, WorkerProvider
from ...errors import ProviderError, describe
from ...limits import MAX_EXPOSED_BYTES
from ...vocabulary import Fate, Stage, Verdict
from ..decide import decide_error, error_fields
from ..judge import Judge
from ..outcome import Outcome
from ..record import PlacementRecord, Record
from .node_cases import NodeCase, ResolvedModel, node_cases
from .node_judge import NodeJudge, NodeRun, equal
from .nodes import constant_values, seen_values, sizes_of_tensors
from .reading import DataSet, GivenModel
from .values import CpuValues, node_model, run_model, with_names

UNFOLDED = ["ConstantFolding"]
"""The optimizer without which a second session runs the nodes that ONNX Runtime computes at load, on the CPU EP."""

ITSELF = "opmap itself failed, please report this model"

_USUAL = Setup()

Judged = tuple[Sequence[Case], Record]
"""A record, and the cases that it is about: that of a node, those of all nodes, or none."""


def judge_model(
    judge: Judge,
    given: GivenModel,
    data_set: DataSet | str | None,
    cpu: CpuValues,
    *,
    dimensions: Mapping[str, int] | None = None,
    notes: list[str] | None = None,
) -> Iterator[Judged]:
    """Gives the record of each node of our operators, with one set of test data, and records of the model as a whole.

    `dimensions` are sizes for symbolic dimensions of the inputs that opmap makes. `notes` gets what opmap chose. Raises
    InputError if the model or its test data cannot be used.
    """
    resolved = node_cases(given, data_set, cpu, feature_level=judge.feature_level, dimensions=dimensions)
    prefix = f"{data_set}/" if isinstance(data_set, str) and len(given.data_sets) > 1 else ""
    if notes is not None and resolved.data.note:
        notes.append(resolved.data.note)
    labels: set[str] = set()
    for cases, record in _ModelJudge(judge, resolved, cpu).judged():
        name = record.case or ""
        label = next(
            n for number in range(len(labels) + 1) if (n := f"{name} ({number + 1})" if number else name) not in labels
        )
        labels.add(label)
        yield [replace(case, id=prefix + label) for case in cases], msgspec.structs.replace(record, case=prefix + label)


class _View(Enum):
    """Which run shows the values of a node: the model's own, or a further one.

    The value is what the record says of it.
    """

    OWN = ""
    INSIDE = "output: {} is not an output of the model; a second run has it as one"
    FOLDED = "optimizer: ConstantFolding is off in a second run"
    APART = "judged apart: in a model with the taken branch in place of its If"


@dataclass(frozen=True)
class _ModelRun:
    """What a provider made of a model. `error` ended the run."""

    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    evidence: Evidence | None = None
    error: ProviderError | None = None

    @property
    def placement(self) -> Placement | None:
        """Where the nodes ran."""
        return self.evidence.placement if self.evidence else None


class _ModelJudge:
    """Judges a model, or a part of one, which `where` names: a body of a Loop or Scan, or a branch."""

    def __init__(self, judge: Judge, resolved: ResolvedModel, cpu: CpuValues, where: str = ""):
        self.judge, self.provider, self.resolved, self.cpu, self.where = judge, judge.provider, resolved, cpu, where
        self.as_run = with_names(resolved.given.as_run)
        self.named = self.as_run if resolved.given.own is None else with_names(resolved.given)
        self.changed: list[str] = []

    def judged(self) -> Iterator[Judged]:
        """Gives the records of the nodes, and those of the model as a whole."""
        entries = self.resolved.cases
        if self.resolved.data.unusable:
            yield from (((), self._not_run(entry, entry.reason)) for entry in entries)
        elif self.provider.runs_cases:
            for entry in entries:
                if entry.case:
                    yield [entry.case], self._node_judge.record_of_case(entry, entry.case)
                else:
                    yield (), self._not_run(entry, entry.reason)
        else:
            yield from self._of_model(entries)
        for where, part in self.resolved.parts:
            yield from _ModelJudge(self.judge, part, self.cpu, where).judged()
        for node in self.resolved.unused:
            yield (), self._not_run(NodeCase(node), node.reason)

    def _not_run(self, entry: NodeCase, reason: str | None) -> Record:
        fields = {"verdict": Verdict.NOT_RUN, "message": f"not judged: {reason}", "file": self.resolved.given.file}
        return Record.on(self.provider, entry.node.label, entry.node.operator, **fields)

    @cached_property
    def _node_judge(self) -> NodeJudge:
        return NodeJudge(self.judge, self.resolved, self.cpu)

    @cached_property
    def _computed_names(self) -> set[str]:
        return {
            name for node in self.resolved.given.model.graph.node if node.op_type != "Constant" for name in node.output
        }

    def _of_model(self, entries: Sequence[NodeCase]) -> Iterator[Judged]:
        """Runs the model itself, and again with further outputs for the nodes whose values are inside it."""
        own = self._run(self.as_run)
        if own.error:
            yield self._whole(own.error)
            yield from (((), self._not_run(entry, "the model did not run")) for entry in entries)
            return
        fates = {entry.node.outputs[0]: self._fate(entry, own) for entry in entries}
        groups: dict[_View, list[NodeCase]] = {view: [] for view in _View}
        for entry in entries:
            groups[self._view(entry, own, fates)].append(entry)
        judged: dict[str, Judged] = {}
        for view, group in groups.items():
            judged.update(self._of_group(group, view, own, fates))
        yield from (judged[entry.node.outputs[0]] for entry in entries)
        if self.changed:
            names = ", ".join(dict.fromkeys(self.changed))
            message = f"the answer changes when inner values are outputs: {names}"
            yield self._record_of_all(verdict=Verdict.MISMATCH, stage=Stage.COMPARE, message=message)

    def _view(self, entry: NodeCase, own: _ModelRun, fates: Mapping[str, Fate | None]) -> _View:
        """Returns which run shows the values of a node."""
        inputs, outputs = ({*names} - {""} for names in (entry.node.proto.input, entry.node.outputs))
        seen = seen_values(self.resolved.given)
        if not (outputs <= seen and inputs <= seen | self.resolved.exact):
            return _View.APART
        if fates[entry.node.outputs[0]] is Fate.FOLDED:
            return _View.FOLDED
        return _View.OWN if outputs <= own.outputs.keys() and inputs.isdisjoint(self._computed_names) else _View.INSIDE

    def _of_group(
        self, entries: Sequence[NodeCase], view: _View, own: _ModelRun, fates: Mapping[str, Fate | None]
    ) -> Iterator[tuple[str, Judged]]:
        """Judges nodes whose values one more run shows; several runs if these are many bytes.

        Gives each node's first output too.
        """
        model = self.named if view is _View.APART else self.as_run
        setup = Setup(disabled_optimizers=UNFOLDED) if view is _View.FOLDED else _USUAL
        for part, names in self._parts(entries, model):
            run = own if view is _View.OWN else self._run(model, names, setup)
            if run.error and len(part) > 1 and not isinstance(run.error, WorkerLost):
                for entry in part:  # the model itself ran: one session may not bear all the outputs
                    yield from self._of_group([entry], view, own, fates)
                continue
            if model is self.as_run and setup is _USUAL and run is not own and not run.error:
                self.changed += [
                    name for name in own.outputs if not self._like(name, own.outputs[name], run.outputs[name])
                ]
            for entry in part:
                first = entry.node.outputs[0]
                if run.error:
                    yield first, self._alone(entry, run.error, fates[first])
                    continue
                hidden = [name for name in entry.node.outputs if name not in own.outputs]
                texts = [view.value.format(", ".join(hidden or [first]))] if view.value else []
                texts += [f"judged apart: in a model of {self.where}"] if self.where else []
                apart = view is _View.APART and self.named is not self.as_run
                yield first, self._of_node(entry, run, self._fate(entry, run) if apart else fates[first], texts)

    def _alone(self, entry: NodeCase, error: ProviderError, fate: Fate | None) -> Judged:
        """Judges a node in a model of its own, because no session of the model shows its values."""
        node, values = entry.node, self._node_judge.values
        reason = f"the model does not run with its inner values as outputs: {error}"
        if not values.keys() >= {*node.proto.input} - {""}:
            return (), self._not_run(entry, reason)
        model = node_model(self.resolved.given, node.proto, values)
        run = self._run(model, feeds={value.name: values[value.name] for value in model.model.graph.input})
        if run.error:
            return (), self._not_run(entry, f"{reason}; alone: {run.error}")
        texts = [f"judged apart: in a model of this node alone, because {reason}"]
        return self._of_node(entry, run, fate, texts)

    def _parts(self, entries: Sequence[NodeCase], model: GivenModel) -> Iterator[tuple[list[NodeCase], list[str]]]:
        """Gives nodes, and the values of theirs that become outputs, within a limit of bytes."""
        seen, computed = seen_values(replace(model, own=None)), self.resolved.computed
        part: list[NodeCase] = []
        names: dict[str, int] = {}
        for entry in entries:
            own = {
                name: computed[name].nbytes if name in computed else 0
                for name in seen & {*entry.node.proto.input, *entry.node.outputs}
            }
            if part and sum((names | own).values()) > MAX_EXPOSED_BYTES:
                yield part, sorted(names)
                part, names = [], {}
            part.append(entry)
            names |= own
        if part:
            yield part, sorted(names)

    def _run(
        self,
        model: GivenModel,
        more: Sequence[str] = (),
        setup: Setup = _USUAL,
        feeds: Mapping[str, np.ndarray] | None = None,
    ) -> _ModelRun:
        inside = not isinstance(self.provider.runner, WorkerProvider)
        if self.resolved.lost and inside:  # it must not run in this process
            return _ModelRun(error=self.resolved.lost)
        setup = msgspec.structs.replace(setup, cpu_nodes=True, from_file=bool(model.files))
        feeds = self.resolved.data.inputs if feeds is None else feeds
        try:
            return _ModelRun(*run_model(self.provider.performer, model, feeds, more, setup))
        except ProviderError as error:
            return _ModelRun(error=error)

    # --- the model as a whole ---

    def _whole(self, error: ProviderError) -> Judged:
        """Returns the record of a model that did not run.

        A node that may be refused makes it no failure of the provider.
        """
        fields, text = error_fields(error, self.provider), str(error)
        cases = [entry.case for entry in self.resolved.cases if entry.case]
        for entry in self.resolved.cases:
            if entry.case and (len(cases) == 1 or entry.node.op_type in text):
                outcome = Outcome(case=entry.case, inputs=entry.case.inputs, error=error)
                decided = decide_error(outcome, error, self.provider)
                fields = decided if decided["verdict"].good else fields
        if self.provider.device_class == "emulated" and "80004005" in text:
            fields["message"] += " (the emulated device could not compile a shader; a GPU may run this model)"
        return self._record_of_all(**fields)

    def _record_of_all(self, **fields: object) -> Judged:
        """Returns a record of the model. A known failure of any of its nodes may explain it."""
        name = f"model: {self.where}" if self.where else "model"
        cases = [entry.case for entry in self.resolved.cases if entry.case]
        return cases, Record.on(self.provider, name, None, file=self.resolved.given.file, **fields)

    def _like(self, name: str, array: np.ndarray, other: np.ndarray) -> bool:
        """Returns whether two runs gave the same output: the same bits, or nearly the same floats if arithmetic made
        it.
        """
        if equal(array, other) or {n.op_type for n in self.as_run.model.graph.node} & _RANDOM:
            return True
        if name in self.resolved.exact or array.dtype.kind != "f" or array.shape != other.shape:
            return False
        return bool(np.allclose(array, other, rtol=1e-2, atol=1e-3, equal_nan=True))

    # --- what ONNX Runtime made of a node ---

    def _fate(self, entry: NodeCase, run: _ModelRun) -> Fate | None:
        """Returns what became of a node in a session; None if the provider only says itself what it ran."""
        placement, node = run.placement, entry.node
        if placement is None or placement.source == ASSERTED:
            return None if placement else Fate.FALLBACK
        where = places(placement, self._name(node.outputs[0]), node.op_type)
        if self.provider.name in where and len({*where}) == 1:
            return Fate.RAN
        sizes = sizes_of_tensors(self.resolved.given)
        if where:
            return Fate.CPU if sizes.issuperset(node.outputs) else Fate.FALLBACK
        constant = constant_values(self.resolved.given) | sizes
        return Fate.FOLDED if constant.issuperset(node.outputs) else Fate.OPTIMIZED_AWAY

    def _name(self, output: str) -> str:
        return next(
            (n.name for model in (self.as_run, self.named) for n in model.model.graph.node if output in n.output), ""
        )

    def _of_node(self, entry: NodeCase, run: _ModelRun, fate: Fate | None, texts: Sequence[str]) -> Judged:
        """Returns the case and the record of a node. An exception of opmap itself is an error of this node."""
        placement, op_type = run.placement, entry.node.op_type
        if placement and placement.source != ASSERTED:
            where = places(placement, self._name(entry.node.outputs[0]), op_type)
            where = where or places(Placement("", placement.nodes), "", op_type)
            placement = Placement(placement.source, tuple((op_type, provider) for provider in where))
        placed = PlacementRecord.of(placement, self.provider.name, COPIES)
        try:
            return self._node_judge.record(entry, NodeRun(run.outputs, placed, fate, texts))
        except Exception as error:
            fields = {"verdict": Verdict.ERROR, "stage": Stage.DERIVE, "file": self.resolved.given.file}
            message = f"{ITSELF}: {describe(error)}"
            return (), Record.on(self.provider, entry.node.label, entry.node.operator, message=message, **fields)


_RANDOM = frozenset(
    ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"]
)


def places(placement: Placement, name: str, op_type: str) -> list[str]:
    """Returns where a node ran, by its name; by its type if the source of the placement tells no names."""
    if placement.names:
        pairs: Iterable[tuple[str, str]] = zip(
            placement.names, (provider for _, provider in placement.nodes), strict=True
        )
        return [provider for own_name, provider in pairs if own_name == name]
    return [provider for own_type, provider in placement.nodes if own_type == op_type]
