"""A variant on one provider: performs its steps, keeps what they returned, and checks every output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import msgspec
import numpy as np

from ...engines.arrays import as_described, bytes_of, dtype_of, wrong_array
from ...engines.steps import AnyStep, Event, Evidence, Examine, Open, Result, Run
from ...tensors import Tensor, settled
from .formed import Formed, Inputs
from .run_modes import SESSION, RunMode, VariantStep

MOST_COPIED = 1 << 22
"""The most elements of an output that are copied. A larger right output is not copied: it is the expected one too."""


@dataclass(frozen=True)
class Check:
    """One output that was held against its expected values.

    `label` says which run and output it is, `field` which tensor of the descriptor it must equal. `expected` has None
    for undocumented elements; `actual` has the expected bit pattern where its own stands for the same number. `problem`
    is what is wrong with its type or shape; `actual` is None then.
    """

    label: str
    inputs: Inputs
    field: str
    expected: Sequence[int | None]
    actual: Tensor | None
    problem: str | None = None


class VariantRun:
    """Performs the steps of a variant. `perform` performs one step on a provider.

    `first` are the inputs of the case itself, `formed` its model, `provider` the name of the provider. With `profile`,
    the main session records the nodes that run.
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

    def go(self, run_mode: RunMode, *, opens: bool = True) -> None:
        """Runs the model in a run mode. Raises ProviderError at the first step that fails.

        Without `opens`, the session is open: a case with the same model opened it.
        """
        for variant_step in run_mode.steps(self.formed, self.first):
            if opens or not isinstance(variant_step.step, Open):
                self.perform(variant_step)

    def perform(self, variant_step: VariantStep) -> Result:
        """Performs one step, and checks the outputs that it must return. Raises ProviderError if it failed."""
        step = variant_step.step
        is_main = isinstance(step, Open) and step.session == SESSION
        if isinstance(step, Open) and is_main and self.profile:
            step = msgspec.structs.replace(step, setup=msgspec.structs.replace(step.setup, profile=True))
        result = self._performed(step)
        self.opened = self.opened or is_main
        if variant_step.inputs is not None:
            names = step.outputs if isinstance(step, Run) else None
            lasting = isinstance(step, Run) and step.method == "run"
            self.check(variant_step.inputs, result, variant_step.label, names, lasting=lasting)
        return result

    def _performed(self, step: AnyStep) -> Result:
        self.steps.append(step)
        result = self._perform(step)
        if failure := result.failure:
            raise failure
        self.devices |= result.devices
        return result

    def examine(self, session: str = SESSION) -> Evidence:
        """Returns the evidence about a session, and keeps it."""
        evidence = self._performed(Examine(session=session)).evidence
        assert evidence is not None, "Examine returns evidence"
        self.evidence[session] = evidence
        return evidence

    def events(self, session: str = SESSION) -> list[Event]:
        """Returns the profile's events of a session that was examined."""
        evidence = self.evidence.get(session)
        return list(evidence.events or ()) if evidence else []

    # --- checking ---

    def check(
        self,
        inputs: Inputs,
        result: Result,
        label: str = "",
        names: Sequence[str] | None = None,
        *,
        lasting: bool = False,
    ) -> None:
        """Compares the outputs of a run with the expected ones.

        `names` are the outputs that were asked for, in order; by default all. `lasting` is whether nothing writes into
        the memory of the outputs any more.
        """
        names, outputs = list(names or self.formed.outputs), result.outputs
        problem = result.malformed
        if problem is None and list(outputs) != names:
            problem = f"the outputs must be {', '.join(names)}, got {', '.join(outputs) or 'none'}"
        if problem is not None:
            self.checks.append(Check(label, inputs, inputs.output_field, inputs.expected, None, problem))
            return
        for name in names:
            self.checks.append(self._checked(inputs, name, outputs[name], label, lasting))

    def _checked(self, inputs: Inputs, name: str, array: np.ndarray, label: str, lasting: bool) -> Check:
        formed, field = self.formed, self.formed.outputs[name]
        data_type = formed.output_type(name, inputs)
        label = ", ".join(filter(None, (label, name if len(formed.outputs) > 1 else "")))
        problem = wrong_array(array, dtype_of(data_type), formed.output_sizes(name, inputs))
        if problem:
            return Check(label, inputs, field, formed.expected(name, inputs), None, problem)
        is_output = field in inputs.desc.outputs
        own = inputs.desc.tensors[field].data_type
        if is_output and own is not data_type:
            described = as_described(array, own)
            if described is None:
                problem = f"the output must hold numbers of {own.name}, got {array.min()} to {array.max()}"
                return Check(label, inputs, field, formed.expected(name, inputs), None, problem)
            array, data_type = described, own
        inputs = inputs.of(field) if is_output else inputs
        sizes = inputs.desc.tensors[field].sizes if is_output else formed.output_sizes(name, inputs)
        elements = bytes_of(array, data_type)
        bits = elements.cast(cast("Literal['B', 'H', 'I', 'Q']", data_type.bits_code))
        if lasting and len(bits) > MOST_COPIED and is_output and inputs.expects(bits):
            actual = Tensor(data_type, sizes, bits)
        else:
            actual = Tensor.from_bytes(data_type, sizes, elements)
        expected = formed.expected(name, inputs)
        return Check(label, inputs, field, expected, settled(expected, actual))
