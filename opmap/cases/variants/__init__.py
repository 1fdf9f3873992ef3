"""Variants: how a descriptor is run on an execution provider. Each is a form of the model and a run mode.

`forms` holds the forms of the model, `run_modes` the ways of running it, `proofs` what proves that a run took the
execution path, and `registry` the declared pairs. `variant_run` performs one.
"""

from .drafts import Form
from .formed import Formed, Inputs
from .registry import VARIANTS, Variant
from .run_modes import PLAIN, RunMode
from .variant_run import Check, VariantRun

__all__ = ["PLAIN", "VARIANTS", "Check", "Form", "Formed", "Inputs", "RunMode", "Variant", "VariantRun"]
