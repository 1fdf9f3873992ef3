"""The steps of a case or contract probe, and what each must return, without a provider. Programs are made of them."""

from __future__ import annotations

from ...cases.case import Case
from ...cases.contract_probes import ContractProbe
from ...cases.variants import VARIANTS, Formed, Inputs
from ...cases.variants.run_modes import VariantStep
from ...engines.expectations import ExpectedStep
from ...engines.steps import Run
from ...mapping import map_descriptor
from .model_folders import formed_model


def expected_steps(item: Case | ContractProbe) -> list[ExpectedStep]:
    """Returns the steps of a case or contract probe on the DirectML EP, each with what it must return."""
    if isinstance(item, ContractProbe):
        return list(item.steps)
    formed = formed_model(map_descriptor(item.desc, index_conversion="directml"), item)
    return dry_run(formed, item.inputs, item.variant)


def dry_run(formed: Formed, first: Inputs, variant: str) -> list[ExpectedStep]:
    """Returns the steps of a variant with this model, each with what it must return.

    Elements without a documented value are masked, and a run that has such elements may fail.
    """
    return [_expected(formed, variant_step) for variant_step in VARIANTS[variant].run_mode.steps(formed, first)]


def _expected(formed: Formed, variant_step: VariantStep) -> ExpectedStep:
    step, inputs = variant_step.step, variant_step.inputs
    if inputs is None:
        return ExpectedStep(step)
    names = step.outputs if isinstance(step, Run) else None
    outputs = {name: formed.expected_array(name, inputs) for name in names or formed.outputs}
    return ExpectedStep(
        step, (outputs,), fails="perhaps" if any(None in bits for bits in inputs.all_expected.values()) else "never"
    )
