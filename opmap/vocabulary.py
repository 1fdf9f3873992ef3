"""The words that results are made of: verdicts, stages, tiers. Light to import, and below every room that uses them."""

from __future__ import annotations

import enum
from typing import Literal, get_args

Tier = Literal["smoke", "standard", "full"]
"""How many cases of the catalogue are run. Each tier holds the cases of the tier before it."""

TIERS: tuple[Tier, ...] = get_args(Tier)

PROBE = "probe/"
"""The prefix of every probe's id. No case id starts with it."""


class Verdict(enum.StrEnum):
    """What happened to one case or probe.

    `good` is whether the verdict leaves a run green, `text` says in one sentence what the verdict means.
    """

    good: bool
    text: str

    def __new__(cls, value: str, good: bool, text: str) -> Verdict:
        member = str.__new__(cls, value)
        member._value_ = value
        member.good, member.text = good, text
        return member

    PASS = "pass", True, "Every defined element has the expected bits, and the run is proven for the provider."
    MISMATCH = "mismatch", False, "The provider returned other bits, another shape or another type than expected."
    ERROR = "error", False, "A stage failed; the record's `stage` names it."
    FALLBACK = "fallback", False, "The result is right, but nothing proves that the provider asked for computed it."
    LOWERED_DIFFERENTLY = (
        "lowered-differently",
        False,
        "The provider made another DirectML descriptor of the model than the mapping predicts.",
    )
    UNSUPPORTED = "unsupported", True, "The feature level that was asked for does not support the descriptor."
    OBSERVED = "observed", True, "Some elements have no documented value. The other elements are right."
    NOT_EXPRESSIBLE = "not-expressible", True, "The descriptor is valid, but no ONNX graph says the same."
    CRASH = "crash", False, "The worker process ended while it handled the case."
    TIMEOUT = "timeout", False, "The worker process gave no answer within the time limit."
    DEVICE_LOST = "device-lost", False, "The GPU was removed, hung or reset."
    NOT_RUN = "not-run", False, "The case was not tried."
    KNOWN_FAILURE = "known-failure", True, "The case failed exactly as a known failure says."
    UNEXPECTED_PASS = "unexpected-pass", False, "The case passed, although a known failure says that it fails."


class Stage(enum.StrEnum):
    """The step at which a case ended."""

    READ = "read"
    VALIDATE = "validate"
    MAP = "map"
    LOAD = "load"
    RUN = "run"
    COMPARE = "compare"
