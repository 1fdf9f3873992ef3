"""Faults: named wrong ways to move data, each of which can run as a provider; and the score of the cases that catch them."""

from .fault import Fault, FaultProvider
from .registry import FAULTS, open_fault

__all__ = ["FAULTS", "Fault", "FaultProvider", "open_fault"]
