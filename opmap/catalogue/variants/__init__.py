"""Variants: how a descriptor is brought to an execution provider. Each is a form of the model and a way of running it.

`contract` says what a variant consists of, `walk` performs one. `forms` holds the forms of the model, `ways` the ways of
running, `proofs` what proves that a run took the road, and `registry` the declared pairs.
"""

from .contract import PLAIN, Form, Formed, Inputs, RunMode, Variant
from .registry import VARIANTS
from .variant_run import Check, VariantRun

__all__ = ["PLAIN", "VARIANTS", "Check", "Form", "Formed", "Inputs", "RunMode", "Variant", "VariantRun"]
