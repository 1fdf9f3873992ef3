"""All faults by name. Each can run as a provider: to show how a failure looks, and to test the suite."""

from ..engines.providers import Provider
from ..errors import InputError, shown, similar
from .addresses import ADDRESS_FAULTS
from .arrays import ARRAY_FAULTS
from .conditions import CONDITION_FAULTS
from .conversions import CONVERSION_FAULTS
from .expressions import EXPRESSION_FAULTS
from .fault import Fault, FaultProvider
from .indices import INDEX_FAULTS
from .outputs import OUTPUT_FAULTS
from .stale_state import SESSION_FAULTS
from .values import VALUE_FAULTS

__all__ = ["FAULTS", "Fault", "FaultProvider", "open_fault"]

CONTROL = "none"
"""The name of the fault that changes nothing."""

FAULTS: dict[str, Fault] = {
    CONTROL: Fault(text="no fault: the control", equivalent="nothing is wrong"),
    **INDEX_FAULTS,
    **ADDRESS_FAULTS,
    **VALUE_FAULTS,
    **EXPRESSION_FAULTS,
    **OUTPUT_FAULTS,
    **SESSION_FAULTS,
    **CONVERSION_FAULTS,
    **ARRAY_FAULTS,
    **CONDITION_FAULTS,
}


def open_fault(name: str) -> Provider:
    """Returns the provider `fault:<name>`. Raises InputError for an unknown name."""
    if name not in FAULTS:
        hint = f"{similar(name, FAULTS)} (opmap validate --list faults prints them)"
        raise InputError(
            f"--provider fault:NAME must name one of the {len(FAULTS)} planted faults, got {shown(name)}{hint}"
        )
    return Provider(f"fault:{name}", None, None, FaultProvider(FAULTS[name]))
