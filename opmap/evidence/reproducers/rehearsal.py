"""The steps of a case or contract probe, and what each must return, found without a provider. Programs are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ...catalogue.case import Case
from ...catalogue.contract_probes import ContractProbe
from ...catalogue.variants import VARIANTS, Formed, Inputs, VariantRun
from ...engines.expectations import ExpectedStep
from ...engines.sessions import DIRECTML
from ...engines.steps import AnyStep, Concurrent, Result
from ...mapping import map_descriptor
from .model_folders import formed_model
from .reproducer import Wanted

Performed: TypeAlias = list[tuple[AnyStep, Wanted]]
"""Steps, each with the outputs that it must return."""


def performed(item: Case | ContractProbe) -> Performed:
    """Returns the steps of a case or contract probe on the DirectML EP, each with the outputs that it must return."""
    if not isinstance(item, Case):
        return [(step.step, _wanted(step)) for step in item.steps]
    formed = formed_model(map_descriptor(item.desc, index_conversion="directml"), item)
    return rehearsed(formed, item.round, item.variant)


def rehearsed(formed: Formed, first: Inputs, variant: str) -> Performed:
    """Returns the steps of a variant with this model, each with the outputs that it must return.

    Elements without a documented value are masked.
    """
    walk = _Rehearsal(formed, first)
    VARIANTS[variant].way.go(walk)
    return walk.performed


def _wanted(expected: ExpectedStep) -> Wanted:
    """Returns what a step of a contract probe must return."""
    if expected.fails == "always":
        return "refused"
    if isinstance(expected.step, Concurrent):
        return expected.outputs or None
    return expected.outputs[0] if expected.outputs else "maybe" if expected.fails == "perhaps" else None


class _Rehearsal(VariantRun):
    """A walk without a provider: it notes the steps, and the outputs that each of them must return."""

    def __init__(self, formed: Formed, first: Inputs):
        super().__init__(self._note, formed, first, DIRECTML)
        self.performed: Performed = []

    def _note(self, step: AnyStep) -> Result:
        self.performed.append((step, None))
        return Result()

    def check(
        self,
        round: Inputs,
        result: Result,
        label: str = "",
        wanted: Sequence[str] | None = None,
        *,
        lasting: bool = False,
    ) -> None:
        """Notes the expected outputs of the last step."""
        arrays = self.expected_arrays(round)
        lacking = np.array([bits is None for bits in round.expected])
        if lacking.any():
            output_names = {name for name, field in self.formed.outputs.items() if field == round.output_field}
            arrays |= {n: np.ma.array(arrays[n], mask=lacking.reshape(arrays[n].shape)) for n in output_names}
        self.performed[-1] = self.performed[-1][0], {name: arrays[name] for name in wanted or self.formed.outputs}
