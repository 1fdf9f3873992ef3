"""What proves that a run took the road of its variant. Each proof returns None, or what is wrong in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...engines.sessions import DIRECTML
from ...engines.steps import Event, Run, RunBound
from .contract import Proof
from .variant_run import SESSION, VariantRun

_FUSED = "FusedNode"
"""A part of the name of every node that the DirectML EP made of several nodes, or of one."""


def both(*proofs: Proof) -> Proof:
    """Returns the proof that all of these hold."""

    def proof(walk: VariantRun) -> str | None:
        return next((problem for p in proofs if (problem := p(walk))), None)

    return proof


def fused(walk: VariantRun) -> str | None:
    """Each run of the session ran fused nodes of the DirectML EP only, one at least."""
    return _only(walk, "a fused node", lambda event: event.op_type.startswith("Dml") and _FUSED in event.op_type)


def one_fused_node(walk: VariantRun) -> str | None:
    """Each run of the session was one fused node."""
    wanted, got = _runs(walk), len(walk.events())
    return fused(walk) or (None if got == wanted else f"{wanted} runs must be {wanted} node events, got {got}")


def ran(walk: VariantRun) -> str | None:
    """The profile has an event of the operator's own node on the provider for each run. A fused node has another name."""
    op_type = walk.formed.mapped.lowering.op_type
    got = sum(event.op_type == op_type and event.provider == walk.provider for event in walk.events())
    if got < _runs(walk):
        return f"the profile must have {_runs(walk)} events of {op_type} on {walk.provider}, got {got}"
    return None


def branch(walk: VariantRun) -> str | None:
    """An If ran, and in its branch the operator: fused on the DirectML EP, as a node of its own elsewhere."""
    events = walk.events()
    if not any(event.op_type == "If" for event in events):
        return f"the profile must have an event of If, got {_names(events)}"
    if walk.provider == DIRECTML and not any(_FUSED in event.op_type for event in events):
        return f"the profile must have an event of a fused node, got {_names(events)}"
    return None if walk.provider == DIRECTML else ran(walk)


def two_shapes(walk: VariantRun) -> str | None:
    """The operator's node ran with inputs of two different sizes."""
    op_type = walk.formed.mapped.lowering.op_type
    sizes = {str(event.input_sizes) for event in walk.events() if event.op_type == op_type}
    return None if len(sizes) > 1 else f"the events of {op_type} must have two different sizes, got {len(sizes)}"


def on_device(walk: VariantRun) -> str | None:
    """Every bound input and output lay on the DirectML device."""
    places = sorted(set(walk.devices.values()))
    return None if places == ["dml"] else f"every value must lie on dml, got {', '.join(places) or 'no value'}"


def not_an_input(walk: VariantRun) -> str | None:
    """The values that are part of the model cannot be fed: the session has no such input."""
    evidence = walk.evidence.get(SESSION)
    fixed = [name for name in walk.formed.fixed if evidence and name in (*evidence.inputs, *evidence.overridable)]
    return f"{', '.join(fixed)} must be no input of the session" if fixed or not evidence else None


def overridable(walk: VariantRun) -> str | None:
    """The session has an initializer that may be fed."""
    evidence = walk.evidence.get(SESSION)
    return None if evidence and evidence.overridable else "the session must have an initializer that may be fed"


def five_nodes(walk: VariantRun) -> str | None:
    """Five nodes or more were assigned to the provider."""
    evidence = walk.evidence.get(SESSION)
    nodes = evidence.placement.nodes if evidence and evidence.placement else ()
    got = sum(provider == walk.provider for _, provider in nodes)
    return None if got >= 5 else f"5 nodes must be assigned to {walk.provider}, got {got}"


def replayed(walk: VariantRun) -> str | None:
    """The session ran twice, but its nodes only once."""
    got = len(walk.events())
    return None if _runs(walk) == 2 and got == 1 else f"2 runs must be one node event, got {got}"


def serialized(walk: VariantRun) -> str | None:
    """The EP wrote the DirectML graph of the session."""
    evidence = walk.evidence.get(SESSION)
    return None if evidence and graphs(evidence.files) else "the session must write Partition_0.bin, got no such file"


def graphs(files: Iterable[str]) -> list[str]:
    """Returns the names of the files that hold a DirectML graph."""
    return [name for name in files if name.rsplit("/", 1)[-1].startswith("Partition_")]


def _only(walk: VariantRun, wanted: str, fits: Callable[[Event], bool]) -> str | None:
    events = walk.events()
    if len(events) >= _runs(walk) and all(fits(event) and event.provider == DIRECTML for event in events):
        return None
    return f"every event must be {wanted} on {DIRECTML}, got {_names(events)}"


def _runs(walk: VariantRun) -> int:
    """Returns how often the session was run."""
    return sum(isinstance(step, (Run, RunBound)) and step.session == SESSION for step in walk.steps)


def _names(events: list[Event]) -> str:
    return ", ".join(sorted({f"{event.op_type} on {event.provider}" for event in events})) or "none"
