"""A walk: the steps of one variant on one provider, what they returned, and the checks of every output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import msgspec
import numpy as np

from ...engines.arrays import bytes_of, dtype_of, to_array
from ...engines.steps import AnyStep, Event, Evidence, Examine, Open, Result, Run, Setup
from ...tensors import DataType, Tensor
from .contract import Formed, Inputs

SESSION = "session"
"""The name of a walk's main session."""

MOST_COPIED = 1 << 22
"""The most elements of an output that are copied. A larger right output is not copied: it is the expected one too."""


@dataclass(frozen=True)
class Check:
    """One output that was held against its expected values.

    `label` says which run and output it is, `field` which tensor of the descriptor it must equal. `expected` has None for
    undocumented elements. `problem` is what is wrong with its type or shape; `actual` is None then.
    """

    label: str
    round: Inputs
    field: str
    expected: Sequence[int | None]
    actual: Tensor | None
    problem: str | None = None


class VariantRun:
    """Performs steps on a provider. `perform` performs one step.

    `first` is the case itself, `formed` its model, `provider` the name of the provider. With `profile`, the main session
    records the nodes that run.
    """

    def __init__(
        self,
        perform: Callable[[AnyStep], Result],
        formed: Formed,
        first: Inputs,
        provider: str,
        *,
        profile: bool = False,
    ):
        self.formed, self.first, self.provider, self.profile = formed, first, provider, profile
        self._perform = perform
        self.opened = False
        self.steps: list[AnyStep] = []
        self.checks: list[Check] = []
        self.evidence: dict[str, Evidence] = {}
        self.devices: dict[str, str] = {}

    # --- performing ---

    def perform(self, step: AnyStep) -> Result:
        """Performs one step, and returns its result. Raises ProviderError if it failed."""
        self.steps.append(step)
        result = self._perform(step)
        if failure := result.failure:
            raise failure
        self.devices |= result.devices
        return result

    def open(self, setup: Setup, *, session: str = SESSION) -> None:
        """Creates a session of the form's model. The main session records a profile if the proof of the road needs it."""
        files = {name: np.frombuffer(content, np.uint8) for name, content in self.formed.files.items()}
        model = np.frombuffer(self.formed.model_bytes, np.uint8)
        if self.profile and session == SESSION:
            setup = msgspec.structs.replace(setup, profile=True)
        self.perform(Open(session=session, model=model, setup=setup, files=files, static=not self.formed.dynamic))
        self.opened = self.opened or session == SESSION

    def run(
        self, round: Inputs, label: str = "", *, session: str = SESSION, config: Mapping[str, str] | None = None
    ) -> None:
        """Runs a session on the values of a round, fed from the host, and checks all outputs."""
        result = self.perform(Run(session=session, feeds=self.formed.feeds(round), config=dict(config or {})))
        self.check(round, result, label, lasting=True)

    def examine(self, session: str = SESSION) -> Evidence:
        """Returns the evidence about a session, and keeps it."""
        evidence = self.perform(Examine(session=session)).evidence
        assert evidence is not None, "Examine returns evidence"
        self.evidence[session] = evidence
        return evidence

    # --- checking ---

    def check(
        self,
        round: Inputs,
        result: Result,
        label: str = "",
        wanted: Sequence[str] | None = None,
        *,
        lasting: bool = False,
    ) -> None:
        """Compares the outputs of a run with the expected ones.

        `wanted` are the names of the outputs that were asked for, in order; by default all. `lasting` is whether nothing
        writes into the memory of the outputs any more.
        """
        names, outputs = list(self.formed.outputs if wanted is None else wanted), result.outputs
        problem = result.malformed
        if problem is None and list(outputs) != names:
            problem = f"the outputs must be {', '.join(names)}, got {', '.join(outputs) or 'none'}"
        if problem is not None:
            self.checks.append(Check(label, round, round.output_field, round.expected, None, problem))
            return
        for name in names:
            self._check_one(round, name, outputs[name], label, lasting)

    def _check_one(self, round: Inputs, name: str, array: np.ndarray, label: str, lasting: bool) -> None:
        field = self.formed.outputs[name]
        data_type, count = self._type_and_count(round, field)
        place = ", ".join(filter(None, (label, name if len(self.formed.outputs) > 1 else "")))
        if array.dtype.newbyteorder("<") != dtype_of(data_type):
            problem = f"the output must be {data_type.name}, got {array.dtype.name.upper()}"
        elif self.formed.dynamic and array.size != count:
            problem = f"the output must have {count} elements, got sizes {list(array.shape)}"
        elif not self.formed.dynamic and array.shape != round.desc.tensors[field].sizes:
            problem = f"the output must have sizes {list(round.desc.tensors[field].sizes)}, got {list(array.shape)}"
        else:
            sizes = round.desc.tensors[field].sizes
            elements = bytes_of(array, data_type)
            bits = elements.cast(cast("Literal['B', 'H', 'I', 'Q']", data_type.bits_code))
            if lasting and count > MOST_COPIED and field == round.output_field and round.expects(bits):
                actual = Tensor(data_type, sizes, bits)
            else:
                actual = Tensor.from_bytes(data_type, sizes, elements)
            self.checks.append(Check(place, round, field, self._expected(round, field)[0], actual))
            return
        self.checks.append(Check(place, round, field, self._expected(round, field)[0], None, problem))

    def _type_and_count(self, round: Inputs, field: str) -> tuple[DataType, int]:
        tensor = round.desc.tensors[field]
        if field == round.output_field:
            return tensor.data_type, tensor.element_count
        return self.formed.mapped.feeds.get(field, tensor.data_type), tensor.element_count

    def _expected(self, round: Inputs, field: str) -> tuple[Sequence[int | None], DataType, int]:
        data_type, count = self._type_and_count(round, field)
        if field == round.output_field:
            return round.expected, data_type, count
        return self.formed.mapped.feed(round.tensors).get(field, round.tensors[field]).bits, data_type, count

    def expected_arrays(self, round: Inputs) -> dict[str, np.ndarray]:
        """Returns an array for each output with its type and sizes. Undocumented elements are zero."""
        arrays = {}
        for name, field in self.formed.outputs.items():
            expected, data_type, _ = self._expected(round, field)
            tensor = Tensor(data_type, (len(expected),), [bits or 0 for bits in expected])
            arrays[name] = to_array(tensor).reshape(self.formed.output_sizes(name, round))
        return arrays

    # --- what was seen ---

    def events(self, session: str = SESSION) -> list[Event]:
        """Returns the profile's events of a session that was examined."""
        evidence = self.evidence.get(session)
        return list(evidence.events or ()) if evidence else []
