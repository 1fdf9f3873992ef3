"""Hypothesis strategies: descriptors, cases, sequences over sessions; and a state machine that drives a provider.

    from hypothesis import given
    from opmap import strategies

    @given(strategies.cases())
    def test_my_backend(case): ...

`SessionMachine` looks for failures that need several steps:

    class MyMachine(strategies.SessionMachine):
        def open_provider(self): return MyProvider()

    TestMyProvider = MyMachine.TestCase

They need Hypothesis, which the extra `opmap[hypothesis]` installs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypedDict, Unpack

from hypothesis import assume, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from .cases import random_cases
from .cases.case import Case
from .descriptors import OperatorDesc, TensorDesc
from .engines.expectations import perform_steps
from .engines.performer import Performer
from .engines.steps import Clear
from .fuzz.draw_plan import PlanDrawing
from .fuzz.plan import Plan, Running
from .fuzz.reference import Invalid
from .fuzz.search import draw_sequence
from .fuzz.switches import GROUPS, available, draw_switches
from .judge.decide import NO_KERNEL
from .operators import OPERATORS
from .operators.random_source import RandomSource, SeededSource
from .tensors import DataType

MAX_ELEMENTS = 256
"""The default upper bound of elements in any tensor of a descriptor."""


class Options(TypedDict, total=False):
    """The options of `descriptors`, `cases` and `broken_descriptors`."""

    operators: Sequence[str] | None
    data_types: Sequence[DataType] | None
    index_types: Sequence[DataType] | None
    dimension_counts: tuple[int, int]
    max_elements: int


class _HypothesisSource:
    """A random source whose numbers Hypothesis draws, so that it can reduce a failing example."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        """Returns a number from low to high, both included."""
        return self._draw(st.integers(low, high))


def descriptors(
    *,
    operators: Sequence[str] | None = None,
    data_types: Sequence[DataType] | None = None,
    index_types: Sequence[DataType] | None = None,
    dimension_counts: tuple[int, int] = (1, 8),
    max_elements: int = MAX_ELEMENTS,
) -> st.SearchStrategy[OperatorDesc]:
    """Returns a strategy of valid descriptors.

    They are packed. An exception is an input whose strides are the purpose of the operator.

    `operators` are names without DML_OPERATOR_, by default all operators. `data_types` and `index_types` are by default
    those that the highest feature level supports; an operator without index tensors leaves `index_types` out.
    `dimension_counts` is (lowest, highest), from 1 to 8. No tensor has more than `max_elements` elements; the lowest
    limit is 8. Hypothesis reduces a failing example to few dimensions and small sizes.

    Raises ValueError if an operator or a type is unknown, a range is outside its limits, or a selection is empty.
    """
    chosen = tuple(OPERATORS) if operators is None else tuple(operators)
    unknown = [name for name in chosen if name not in OPERATORS]
    if unknown or not chosen:
        raise ValueError(f"operators must be some of {', '.join(OPERATORS)}, got {', '.join(unknown) or 'none'}")
    low, high = dimension_counts
    if not 1 <= low <= high <= 8:
        raise ValueError(f"dimension_counts must be (lowest, highest) from 1 to 8, got {dimension_counts}")
    if max_elements < 8:
        raise ValueError(f"max_elements must be at least 8, got {max_elements}")
    for name in chosen:
        for option, types, supported in (
            ("data_types", data_types, random_cases.data_types(name)),
            ("index_types", index_types, random_cases.index_types(name)),
        ):
            if types is not None and supported and not (types and set(types) <= set(supported)):
                raise ValueError(f"{option} must be some of {', '.join(t.name for t in supported)}, got {types}")
    return _descriptors(chosen, data_types, index_types, dimension_counts, max_elements)


def cases(**options: Unpack[Options]) -> st.SearchStrategy[Case]:
    """Returns a strategy of cases: valid descriptors with values for their inputs. Options are those of `descriptors`.

    Data tensors hold any bit patterns, such as NaN payloads and denormals. Indices are in range; they can be negative
    if the index type is signed. A case's id follows from its descriptor and values.
    """
    return _cases(descriptors(**options))


def broken_descriptors(**options: Unpack[Options]) -> st.SearchStrategy[tuple[OperatorDesc, str]]:
    """Returns a strategy of (descriptor, id of the first rule that it breaks).

    Each descriptor is a valid one with one member changed. Options are those of `descriptors`.
    """
    changed = descriptors(**options).flatmap(_member_changed).filter(lambda desc: desc.violations())
    return changed.map(lambda desc: (desc, desc.violations()[0].rule))


def sequences(*, kind: str = "session") -> st.SearchStrategy[Plan]:
    """Returns a strategy of sequences: random small graphs, and what is done with their sessions and values.

    `opmap.fuzz.state.planned(plan)` gives the steps with what each must return. `kind` says what the provider can do:
    `always` (run a model), `session` (also keep a session), `runtime` (all that ONNX Runtime has) or `directml`.

    Raises ValueError for an unknown kind.
    """
    if kind not in GROUPS:
        raise ValueError(f"kind must be one of {', '.join(GROUPS)}, got {kind!r}")
    return _sequences(available(kind)).filter(lambda plan: any(isinstance(a, Running) for a in plan.actions))


_SEEDS = st.integers(0, 2**16)


class SessionMachine(RuleBasedStateMachine):
    """Opens, runs and drops random sessions on a provider, and checks every result with the model of the state.

    A subclass gives `open_provider`, and perhaps `kind`, which is that of `sequences`. Hypothesis draws the graphs and
    the order of the rules; what one rule does follows from one seed, because a draw per value would be slow. An example
    with a node that ONNX Runtime has no kernel for is left out.
    """

    kind = "session"

    def open_provider(self) -> Performer:
        """Returns the provider: an object with `perform(step)`. It is asked once for each example."""
        raise NotImplementedError

    @initialize(data=st.data())
    def draw_graphs(self, data: st.DataObject) -> None:
        """Opens the provider, draws the graphs, and opens the first session."""
        source = _HypothesisSource(data.draw)
        self._provider = self.open_provider()
        self._drawing = PlanDrawing(source, draw_switches(source, available(self.kind)))
        self._take(source, self._drawing.open_session)

    @rule(seed=_SEEDS)
    def open_session(self, seed: int) -> None:
        """Creates another session."""
        self._take(SeededSource(seed), self._drawing.open_session)

    @rule(seed=_SEEDS)
    def run_session(self, seed: int) -> None:
        """Runs a session."""
        self._take(SeededSource(seed), self._drawing.run_session)

    @precondition(lambda self: self.kind != "always")
    @rule(seed=_SEEDS)
    def drop_session(self, seed: int) -> None:
        """Releases a session or a value."""
        self._take(SeededSource(seed), self._drawing.drop)

    @precondition(lambda self: self.kind in ("runtime", "directml"))
    @rule(seed=_SEEDS)
    def bind_session(self, seed: int) -> None:
        """Binds inputs and outputs of a session, or runs it on what is bound."""
        self._take(SeededSource(seed), self._drawing.bind)

    @precondition(lambda self: self.kind in ("runtime", "directml"))
    @rule(seed=_SEEDS)
    def run_on_values(self, seed: int) -> None:
        """Runs a session on OrtValues, and may keep its outputs."""
        self._take(SeededSource(seed), self._drawing.run_values)

    @precondition(lambda self: self.kind in ("runtime", "directml"))
    @rule(seed=_SEEDS)
    def change_value(self, seed: int) -> None:
        """Copies other values into an OrtValue."""
        self._take(SeededSource(seed), self._drawing.update)

    @precondition(lambda self: self.kind in ("runtime", "directml"))
    @rule(seed=_SEEDS)
    def read_value(self, seed: int) -> None:
        """Reads an OrtValue."""
        self._take(SeededSource(seed), self._drawing.get)

    def _take(self, source: RandomSource, draw: Callable[[], None]) -> None:
        """Draws actions, performs their steps, and checks what they return."""
        drawing = self._drawing
        drawing.random = source
        start = len(drawing.planned)
        with suppress(Invalid):  # an action that needs a session, and none can be opened
            draw()
        for action in drawing.actions[start:]:
            note(str(action))
        difference = perform_steps(drawing.planned[start:], self._provider)
        assume(difference is None or NO_KERNEL not in difference.text)
        assert difference is None, difference.text

    def teardown(self) -> None:
        """Releases everything."""
        provider = getattr(self, "_provider", None)
        if provider is not None:
            provider.perform(Clear())


@st.composite
def _sequences(draw: st.DrawFn, allowed: frozenset[str]) -> Plan:
    return draw_sequence(_HypothesisSource(draw), allowed)


@st.composite
def _descriptors(
    draw: st.DrawFn,
    operators: Sequence[str],
    data_types: Sequence[DataType] | None,
    index_types: Sequence[DataType] | None,
    dimension_counts: tuple[int, int],
    max_elements: int,
) -> OperatorDesc:
    operator = draw(st.sampled_from(operators))
    return random_cases.draw_descriptor(
        _HypothesisSource(draw),
        operator,
        data_types=data_types or random_cases.data_types(operator),
        index_types=(random_cases.index_types(operator) and index_types) or random_cases.index_types(operator),
        dimension_counts=dimension_counts,
        max_elements=max_elements,
    )


@st.composite
def _cases(draw: st.DrawFn, descs: st.SearchStrategy[OperatorDesc]) -> Case:
    return random_cases.draw_case(_HypothesisSource(draw), draw(descs))


@st.composite
def _member_changed(draw: st.DrawFn, desc: OperatorDesc) -> OperatorDesc:
    """Returns the descriptor with one member changed; the result may still be valid."""
    values = {**desc.numbers, **desc.tensors}
    names = [name for name in (*desc.members(), *desc.tensors) if name in values]
    name = draw(st.sampled_from(list(dict.fromkeys(names))))
    value, member = values[name], desc.members().get(name, "")
    if isinstance(value, tuple):
        at, number = draw(st.integers(0, len(value) - 1)), draw(st.integers(-10, 10) | st.integers(-(2**33), 2**33))
        return desc.replace(**{member: (*value[:at], number, *value[at + 1 :])})
    if not isinstance(value, TensorDesc):
        return desc.replace(**{member: draw(st.integers(0, 10) | st.integers(-1, 2**33))})
    sizes = list(value.sizes)
    match draw(st.sampled_from(("size", "count", "type", "bytes", "alignment"))):
        case "size":
            sizes[draw(st.integers(0, len(sizes) - 1))] = draw(st.integers(0, 10) | st.integers(-1, 2**33))
            changed = dataclasses.replace(value, sizes=tuple(sizes))
        case "count":
            sizes = draw(st.sampled_from((sizes[1:], [1, *sizes], [2, *sizes], [*sizes, 1])))
            changed = dataclasses.replace(value, sizes=tuple(sizes))
        case "type":
            changed = dataclasses.replace(value, data_type=draw(st.sampled_from(DataType)))
        case "bytes":
            size = draw(st.integers(0, value.minimum_size_in_bytes - 1))
            changed = dataclasses.replace(value, total_tensor_size_in_bytes=size)
        case "alignment":
            changed = dataclasses.replace(value, guaranteed_base_offset_alignment=draw(st.integers(1, 64)))
    return desc.with_tensors({name: changed})
