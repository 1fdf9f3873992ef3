"""Planted faults: named wrong ways to move data, each a provider of its own. They test the suite itself.

`score` says which of them a set of cases catches. What real providers return is judged in `judge`.
"""

from .fault import Fault, FaultProvider
from .registry import FAULTS, open_fault

__all__ = ["FAULTS", "Fault", "FaultProvider", "open_fault"]
