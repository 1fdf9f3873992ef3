"""What proves that a run took the execution path of its variant."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...engines.sessions import DIRECTML
from ...engines.steps import Event, Run, RunBound
from .run_modes import SESSION
from .variant_run import VariantRun

Proof = Callable[[VariantRun], "str | None"]
"""Looks at what a run has shown. Returns None if the execution path is proven, else what is wrong or lacking, in one
line."""

_FUSED = "FusedNode"
"""A part of the name of every node that the DirectML EP made of several nodes, or of one."""


def both(*proofs: Proof) -> Proof:
    """Returns the proof that all of these hold."""

    def proof(run: VariantRun) -> str | None:
        return next((problem for p in proofs if (problem := p(run))), None)

    return proof


def fused(run: VariantRun) -> str | None:
    """Each run of the session ran fused nodes of the DirectML EP only, one at least."""
    return _only(run, "a fused node", lambda event: event.op_type.startswith("Dml") and _FUSED in event.op_type)


def fused_if_it_can(run: VariantRun) -> str | None:
    """Each run ran fused nodes only; or the operator's own node, if constants are fed: no session fuses it when it is
    created.
    """
    return ran(run) if run.formed.feeds_constants else fused(run)


def one_fused_node(run: VariantRun) -> str | None:
    """Each run of the session was one fused node."""
    wanted, got = _runs(run), len(run.events())
    return fused(run) or (None if got == wanted else f"{wanted} runs must be {wanted} node events, got {got}")


def ran(run: VariantRun) -> str | None:
    """The profile has an event of the operator's own node on the provider for each run.

    A fused node has another name.
    """
    op_type = run.formed.mapped.lowering.op_type
    got = sum(event.op_type == op_type and event.provider == run.provider for event in run.events())
    if got < _runs(run):
        return f"the profile must have {_runs(run)} events of {op_type} on {run.provider}, got {got}"
    return None


def branch(run: VariantRun) -> str | None:
    """An If ran, and in its branch the operator: fused on the DirectML EP, as a node of its own elsewhere."""
    events = run.events()
    if not any(event.op_type == "If" for event in events):
        return f"the profile must have an event of If, got {_names(events)}"
    if run.provider != DIRECTML or run.formed.feeds_constants:
        return ran(run)
    if not any(_FUSED in event.op_type for event in events):
        return f"the profile must have an event of a fused node, got {_names(events)}"
    return None


def two_shapes(run: VariantRun) -> str | None:
    """The operator's node ran with inputs or outputs of two different sizes."""
    op_type = run.formed.mapped.lowering.op_type
    sizes = {str(event.sizes) for event in run.events() if event.op_type == op_type}
    return None if len(sizes) > 1 else f"the events of {op_type} must have two different sizes, got {len(sizes)}"


def on_device(run: VariantRun) -> str | None:
    """Every bound input and output lay on the DirectML device."""
    places = sorted(set(run.devices.values()))
    return None if places == ["dml"] else f"every value must lie on dml, got {', '.join(places) or 'no value'}"


def not_an_input(run: VariantRun) -> str | None:
    """The values that are part of the model cannot be fed: the session has no such input."""
    evidence = run.evidence.get(SESSION)
    fixed = [name for name in run.formed.fixed if evidence and name in (*evidence.inputs, *evidence.overridable)]
    return f"{', '.join(fixed)} must be no input of the session" if fixed or not evidence else None


def overridable(run: VariantRun) -> str | None:
    """The session has an initializer that may be fed."""
    evidence = run.evidence.get(SESSION)
    return None if evidence and evidence.overridable else "the session must have an initializer that may be fed"


def five_nodes(run: VariantRun) -> str | None:
    """Five nodes or more were assigned to the provider."""
    evidence = run.evidence.get(SESSION)
    nodes = evidence.placement.nodes if evidence and evidence.placement else ()
    got = sum(provider == run.provider for _, provider in nodes)
    return None if got >= 5 else f"5 nodes must be assigned to {run.provider}, got {got}"


def replayed(run: VariantRun) -> str | None:
    """The session ran twice, but its nodes only once."""
    got = len(run.events())
    return None if _runs(run) == 2 and got == 1 else f"2 runs must be one node event, got {got}"


def serialized(run: VariantRun) -> str | None:
    """The EP wrote the DirectML graph of the session."""
    evidence = run.evidence.get(SESSION)
    return None if evidence and graphs(evidence.files) else "the session must write Partition_0.bin, got no such file"


def graphs(files: Iterable[str]) -> list[str]:
    """Returns the names of the files that hold a DirectML graph."""
    return [name for name in files if name.rsplit("/", 1)[-1].startswith("Partition_")]


def _only(run: VariantRun, wanted: str, fits: Callable[[Event], bool]) -> str | None:
    events = run.events()
    if len(events) >= _runs(run) and all(fits(event) and event.provider == DIRECTML for event in events):
        return None
    return f"every event must be {wanted} on {DIRECTML}, got {_names(events)}"


def _runs(run: VariantRun) -> int:
    """Returns how often the session was run."""
    return sum(isinstance(step, (Run, RunBound)) and step.session == SESSION for step in run.steps)


def _names(events: list[Event]) -> str:
    return ", ".join(sorted({f"{event.op_type} on {event.provider}" for event in events})) or "none"
