"""The words of results: verdicts, stages, tiers. Imports nothing of opmap, so that every module can import it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Literal, get_args

Tier = Literal["smoke", "standard", "full", "contract"]
"""The tiers. `smoke`, `standard` and `full` have ever more cases. `contract` has the contract probes, and `full` has
them too."""

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


Standing = Literal["right", "excused", "failed", "broken", "not run"]
"""How a verdict stands: the values are right; nothing is wrong, but nothing was shown either; something is wrong; the
run itself went wrong, so its message may hold addresses and times; nothing ran. The first two leave a run green."""


class Verdict(enum.StrEnum):
    """What happened to one case or probe.

    `standing` says how reports, JUnit and repetitions treat it, and `colour` is its colour in tables. `text` is its
    meaning in one sentence.
    """

    standing: Standing
    colour: str
    text: str

    def __new__(cls, value: str, standing: Standing, colour: str, text: str) -> Verdict:
        member = str.__new__(cls, value)
        member._value_ = value
        member.standing, member.colour, member.text = standing, colour, text
        return member

    @property
    def good(self) -> bool:
        """Whether the verdict leaves a run green."""
        return self.standing in ("right", "excused")

    @property
    def failed(self) -> bool:
        """Whether a case with this verdict has failed. Such a case makes the run red."""
        return self.standing in ("failed", "broken")

    PASS = (
        "pass",
        "right",
        "green",
        "Every defined element has the expected bits, and the run is proven for the provider, or asserted by it.",
    )
    MISMATCH = (
        "mismatch",
        "failed",
        "red",
        "The provider returned other bits, another shape or another type than expected.",
    )
    ERROR = "error", "broken", "red", "A stage failed; the record's `stage` names it."
    FALLBACK = (
        "fallback",
        "failed",
        "red",
        "The result is right, but nothing proves that the requested provider computed it.",
    )
    PATH_UNPROVEN = (
        "path-unproven",
        "failed",
        "red",
        "The result is right, but nothing proves that the run took the execution path of its variant, or ONNX Runtime "
        "assigned no node of the operator.",
    )
    LOWERED_DIFFERENTLY = (
        "lowered-differently",
        "failed",
        "red",
        "The provider made another DirectML descriptor from the model than the mapping predicts.",
    )
    UNSUPPORTED = (
        "unsupported",
        "excused",
        "cyan",
        "The requested feature level does not support the descriptor, or the provider says that it does not.",
    )
    OBSERVED = "observed", "right", "cyan", "Some elements have no documented value. The other elements are right."
    NEWLY_UNSUPPORTED = (
        "newly-unsupported",
        "failed",
        "red",
        "The requested feature level, or the provider, does not support the descriptor. In the baseline it ran.",
    )
    NOT_EXPRESSIBLE = "not-expressible", "excused", "cyan", "The descriptor is valid, but no ONNX graph can express it."
    CRASH = "crash", "broken", "red", "The worker process ended while it handled the case."
    TIMEOUT = "timeout", "broken", "red", "The worker process gave no answer within the time limit."
    DEVICE_LOST = "device-lost", "broken", "red", "The GPU was removed, hung or reset."
    FLAKY = "flaky", "failed", "red", "The case failed, and passed when it was run again in the same way."
    NOT_RUN = "not-run", "not run", "yellow", "The case was not tried."
    SKIPPED = "skipped", "excused", "yellow", "The case was not tried: it is known to hang, or to lose the device."
    KNOWN_FAILURE = "known-failure", "excused", "yellow", "The case failed exactly as a known failure says."
    UNEXPECTED_PASS = (
        "unexpected-pass",
        "failed",
        "red",
        "The case passed, although a known failure says that it fails.",
    )


FINAL = (Verdict.KNOWN_FAILURE, Verdict.UNEXPECTED_PASS, Verdict.NEWLY_UNSUPPORTED, Verdict.FLAKY)
"""The verdicts that no single run gives: they need known failures, a baseline or another run."""


class Change(enum.StrEnum):
    """What became of a case since the baseline."""

    NEW_FAILURE = "new failure"
    FIXED = "fixed"
    NEWLY_FLAKY = "newly flaky"
    NEWLY_UNSUPPORTED = "newly unsupported"
    NEWLY_FALLBACK = "newly fallback"
    NEWLY_NOT_PROVEN = "newly not proven"
    NO_LONGER_RUN = "no longer run"


NOT_JUDGED: Mapping[Verdict, str] = {
    Verdict.UNSUPPORTED: "not supported there",
    Verdict.NOT_EXPRESSIBLE: "not expressible in ONNX",
    Verdict.OBSERVED: "no documented value",
    Verdict.NOT_RUN: "not run",
    Verdict.SKIPPED: "dangerous",
}
"""The verdicts of cases that neither passed nor failed, each with the reason in words."""

DANGEROUS = (Verdict.TIMEOUT, Verdict.DEVICE_LOST)
"""The verdicts of known failures that are not run, unless somebody asks for it: each may cost the machine its
display."""

PROCESS_ENDED = (Verdict.CRASH, *DANGEROUS)
"""The verdicts of cases that end the provider's process. They are run again only with --rerun-dangerous."""

VALUE_KINDS: Mapping[str, str] = {
    "nan-payload": "NaN payload",
    "denormals-as-zero": "denormals as zero",
    "zero-sign": "sign of zero",
}
"""Ways in which the output has the right element with other bits, each in words. None of them is a wrong address."""


class JudgedBy(enum.StrEnum):
    """Whose value an output was compared with."""

    PAGE = "page"
    """The documentation's pseudocode."""

    ONNX = "onnx"
    """ONNX's definition: the node has no valid descriptor. The value is the CPU EP's, or that of ONNX's reference
    evaluator."""

    FILE = "file"
    """The expected file beside the model. Nothing else has a value."""


class Fate(enum.StrEnum):
    """What ONNX Runtime made of a node of a model. Only `fallback` is wrong."""

    RAN = "ran"
    """It ran on the provider."""

    FOLDED = "folded"
    """ONNX Runtime computed it at load, because all its inputs are constants. A second session without ConstantFolding
    ran it."""

    OPTIMIZED_AWAY = "optimized away"
    """ONNX Runtime's optimizers removed it, or put another node in its place."""

    CPU = "cpu by ONNX Runtime"
    """ONNX Runtime itself gave it to the CPU EP: it computes with sizes of tensors, which lie in host memory."""

    FALLBACK = "fallback"
    """It ran elsewhere, or nothing shows where."""


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

    DERIVE = "derive"
    """opmap derives the descriptor of a model's node. It may be wrong: two other opinions agree with the provider."""
