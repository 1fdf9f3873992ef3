"""Named wrong ways to move data, each a provider of its own, and how many of them a set of cases catches."""

from .fault import Fault, FaultProvider
from .registry import FAULTS, open_fault

__all__ = ["FAULTS", "Fault", "FaultProvider", "open_fault"]
