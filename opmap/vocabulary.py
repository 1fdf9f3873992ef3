"""The words of results: verdicts, stages, tiers. Imports nothing of opmap, so that every module can import it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Literal, get_args

Tier = Literal["smoke", "standard", "full", "contract"]
"""The tiers. `smoke`, `standard` and `full` have ever more cases. `contract` has the contract probes, and `full` has them too."""

TIERS: tuple[Tier, ...] = get_args(Tier)

_INSIDE: dict[Tier, tuple[Tier, ...]] = {
    "smoke": ("smoke",),
    "standard": ("smoke", "standard"),
    "full": TIERS,
    "contract": ("contract",),
}


def tiers_in(tier: Tier) -> tuple[Tier, ...]:
    """Returns the tiers whose cases and probes a tier has, itself included."""
    return _INSIDE[tier]


PROBE = "probe/"
"""The prefix of every probe's id. No case id starts with it."""

CONTRACT = "contract/"
"""The prefix of every contract probe's id. No case id starts with it."""


class Verdict(enum.StrEnum):
    """What happened to one case or probe.

    `good` is true if the verdict leaves a run green. `text` is the meaning of the verdict in one sentence.
    """

    good: bool
    text: str

    def __new__(cls, value: str, good: bool, text: str) -> Verdict:
        member = str.__new__(cls, value)
        member._value_ = value
        member.good, member.text = good, text
        return member

    PASS = (
        "pass",
        True,
        "Every defined element has the expected bits, and the run is proven for the provider, or asserted by it.",
    )
    MISMATCH = "mismatch", False, "The provider returned other bits, another shape or another type than expected."
    ERROR = "error", False, "A stage failed; the record's `stage` names it."
    FALLBACK = "fallback", False, "The result is right, but nothing proves that the requested provider computed it."
    PATH_UNPROVEN = (
        "path-unproven",
        False,
        "The result is right, but nothing proves that the run took the execution path of its variant.",
    )
    LOWERED_DIFFERENTLY = (
        "lowered-differently",
        False,
        "The provider made another DirectML descriptor from the model than the mapping predicts.",
    )
    UNSUPPORTED = (
        "unsupported",
        True,
        "The requested feature level does not support the descriptor, or the provider says that it does not.",
    )
    OBSERVED = "observed", True, "Some elements have no documented value. The other elements are right."
    NOT_EXPRESSIBLE = "not-expressible", True, "The descriptor is valid, but no ONNX graph can express it."
    CRASH = "crash", False, "The worker process ended while it handled the case."
    TIMEOUT = "timeout", False, "The worker process gave no answer within the time limit."
    DEVICE_LOST = "device-lost", False, "The GPU was removed, hung or reset."
    NOT_RUN = "not-run", False, "The case was not tried."
    SKIPPED = "skipped", True, "The case was not tried: it is known to hang, or to lose the device."
    KNOWN_FAILURE = "known-failure", True, "The case failed exactly as a known failure says."
    UNEXPECTED_PASS = "unexpected-pass", False, "The case passed, although a known failure says that it fails."


DANGEROUS = (Verdict.TIMEOUT, Verdict.DEVICE_LOST)
"""The verdicts whose cases are not run again, unless somebody asks for it: each may cost the machine its display."""

VALUE_KINDS: Mapping[str, str] = {
    "nan-payload": "NaN payload",
    "denormals-as-zero": "denormals as zero",
    "zero-sign": "sign of zero",
}
"""Ways in which a right element comes back with other bits, each in words. None of them is a wrong address."""


class Stage(enum.StrEnum):
    """The step at which a case ended."""

    READ = "read"
    """A file or its JSON is read."""

    VALIDATE = "validate"
    """The descriptor is checked against the rules of its documentation."""

    MAP = "map"
    """The descriptor is turned into an ONNX model."""

    LOAD = "load"
    """The provider creates a session for the model."""

    RUN = "run"
    """The provider runs the model."""

    COMPARE = "compare"
    """The outputs are compared with the expected ones."""
