"""Plans: what is done with which graphs, in which order. A plan is data, so that it can be drawn, shrunk and stored.

An action is not a step: it names graphs and seeds, not models and arrays. So a plan takes a line of finds.jsonl, two
plans can be compared, and `state` can say for each action what its step must return and whether it is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from ..cases.variants.run_modes import ARENA_OFF
from ..engines.sessions import FUSION_OFF
from ..engines.steps import Method, Setup
from .graphs import Graph
from .reference import Sizes

SETTINGS = {FUSION_OFF: "fusion-off", ARENA_OFF: "arena-off"}
"""An entry of a session's configuration that is 1 -> the switch, and the feature, with this meaning."""

PLAIN = Setup(cpu_nodes=True)
"""The plainest setup."""

Wrong = Literal["missing", "unknown", "type", "rank", "size", "output"]
"""What is wrong with a call: an input is missing, unknown, of another type, rank or size; or an output is unknown."""


Unfit = Literal["", "type", "rank", "size", "sizes"]
"""What is wrong with a value: it is of another type, rank or size, or its sizes are others with as many elements."""


class SeededInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one run.

    They follow from `seed`. `sizes` are those of inputs with other sizes than the graph's own.

    `fed` names the initializers with a default that are fed.
    """

    seed: int = 0
    sizes: dict[str, Sizes] = {}
    fed: tuple[str, ...] = ()


class Action(msgspec.Struct, frozen=True, kw_only=True, tag_field="action", tag=str.lower):
    """The base class of all actions. Each becomes one step."""


class Opening(Action, frozen=True):
    """Creates a session of a graph. With `replay` its runs are captured once and then replayed."""

    session: str
    graph: int = 0
    setup: Setup = PLAIN
    replay: bool = False


class Running(Action, frozen=True):
    """Runs a session. `values` feeds OrtValues, `keep` leaves outputs in OrtValues; both are by the graph's names.

    Without `outputs` all are asked for.
    """

    session: str
    round: SeededInputs = SeededInputs()
    outputs: tuple[str, ...] = ()
    method: Method = "run"
    values: dict[str, str] = {}
    keep: dict[str, str] = {}


class Overlapping(Action, frozen=True):
    """Runs several sessions at the same time."""

    runs: tuple[Running, ...]


class Binding(Action, frozen=True):
    """Binds all inputs: those in `values` to OrtValues, the others from the host. `outputs` says where outputs go."""

    session: str
    round: SeededInputs = SeededInputs()
    values: dict[str, str] = {}
    outputs: dict[str, str] = {}


class RunningBound(Action, frozen=True):
    """Runs a session on what is bound."""

    session: str


class Unbinding(Action, frozen=True):
    """Removes the bindings of a session."""

    session: str


class Putting(Action, frozen=True):
    """Makes an OrtValue: the values of an input in a round, or zeros with the sizes of an output.

    `wrong` makes a value that does not fit the output: one more dimension or element, or as many bytes of another type
    or of other sizes.
    """

    value: str
    name: str
    graph: int = 0
    round: SeededInputs = SeededInputs()
    place: str = "device"
    wrong: Unfit = ""


class Updating(Action, frozen=True):
    """Copies the values of an input in a round into an OrtValue.

    With `strided` they do not lie one after the other in memory. `wrong` gives values that do not fit.
    """

    value: str
    name: str
    graph: int = 0
    round: SeededInputs = SeededInputs()
    strided: bool = False
    wrong: Unfit = ""


class Getting(Action, frozen=True):
    """Reads an OrtValue."""

    value: str


class Misfeeding(Action, frozen=True):
    """Runs a session with a wrong call, which must be refused. `name` is the input that is wrong."""

    session: str
    wrong: Wrong
    name: str = ""


class Dropping(Action, frozen=True):
    """Releases a session or an OrtValue."""

    name: str


class Clearing(Action, frozen=True):
    """Releases everything."""


AnyAction = (
    Opening
    | Running
    | Overlapping
    | Binding
    | RunningBound
    | Unbinding
    | Putting
    | Updating
    | Getting
    | Misfeeding
    | Dropping
    | Clearing
)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Graphs, and the actions on their sessions and values in the order in which they happen."""

    graphs: tuple[Graph, ...]
    actions: tuple[AnyAction, ...]


OF_GRAPHS = Opening, Putting, Updating
"""The actions that name a graph by its number."""


def renumbered(actions: Iterable[AnyAction], number_of: Callable[[int], int]) -> list[AnyAction]:
    """Returns actions that name other graphs. `number_of` gives a graph's new number."""
    return [msgspec.structs.replace(a, graph=number_of(a.graph)) if isinstance(a, OF_GRAPHS) else a for a in actions]


def joined(plans: Iterable[Plan]) -> Plan:
    """Returns one plan that does what these plans do, one after the other, with everything released in between."""
    graphs: list[Graph] = []
    actions: list[AnyAction] = []
    for number, plan in enumerate(plans):
        actions += [*([Clearing()] if number else []), *renumbered(plan.actions, len(graphs).__add__)]
        graphs.extend(plan.graphs)
    return Plan(graphs=tuple(graphs), actions=tuple(actions))
