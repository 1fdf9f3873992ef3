"""Gives the final verdict of a case or probe: one function of all that is known about it.

A record says what one run showed. Repetitions, reruns, known failures and a baseline may change its verdict; nothing
else does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..errors import without_stack
from ..files import to_json
from ..judge.record import Record
from ..judge.tally import NOT_RUN
from ..vocabulary import FINAL, Stage, Verdict
from .known_failures import Match


class Rerun(NamedTuple):
    """The verdicts of a failed case that was run again.

    `alone` is that in a fresh process. `after` is that in another fresh process, after the same cases as in the run;
    None if the case failed alone. `before` is the number of these cases.
    """

    alone: Verdict
    after: Verdict | None
    before: int


class Before(NamedTuple):
    """What the baseline of this name has of a case or probe: its verdict, its failure, whether it was proven, and the
    cause of the failure in words, which decides nothing.
    """

    name: str
    verdict: Verdict
    failure: str | None
    proven: bool
    cause: str | None = None

    @property
    def ran(self) -> bool:
        """Whether the provider ran the case. Its result may have been right or wrong."""
        return self.verdict not in (*NOT_RUN, Verdict.NEWLY_UNSUPPORTED)


class Evidence(NamedTuple):
    """All that decides about one case or probe: a record per repetition, and what is known beside them."""

    records: Sequence[Record]
    matches: Sequence[Match] = ()
    before: Before | None = None
    rerun: Rerun | None = None


def final(evidence: Evidence) -> Record:
    """Returns the record of a case or probe with its final verdict.

    Different results of repetitions are `flaky`, and so is a failure that does not come again. A failure that a known
    failure describes, or that the baseline has, is a `known-failure`. A pass that a known failure contradicts is an
    `unexpected-pass`. What ran in the baseline and is refused now is `newly-unsupported`.
    """
    records, matches = list(map(_with_failure, evidence.records)), evidence.matches
    if any(match.entry.may_pass for match in matches):  # a repetition may pass: the first failure counts
        applied = [_known(record, matches, n) for n, record in enumerate(records)]
        order = [Verdict.KNOWN_FAILURE, Verdict.PASS]  # behind every red verdict
        record = min(applied, key=lambda one: order.index(one.verdict) if one.verdict in order else -1)
    else:
        one = _of_repetitions(records)
        record = _known(one, matches, next((n for n, other in enumerate(records) if other is one), 0))
    if evidence.rerun and record.failed:
        record = _again(record, evidence.rerun)
    return _beside(record, evidence.before) if evidence.before else record


# --- repetitions and reruns ---


def _of_repetitions(records: Sequence[Record]) -> Record:
    """Returns one record for all repetitions.

    If one was not run, the record is `not-run`, unless the others differ.
    """
    ran = [record for record in records if record.verdict != Verdict.NOT_RUN]
    if len({_comparable(record) for record in ran}) > 1:
        wrong = next((record for record in ran if not record.good), ran[0])
        message = f"{len(records)} runs gave {', '.join(map(_got, records))}"
        return _changed(wrong, Verdict.FLAKY, message, **_NO_FAILURE)
    return next((record for record in records if record.verdict == Verdict.NOT_RUN), records[0])


def _comparable(record: Record) -> bytes:
    """Returns the part of a record that must be equal in every repetition.

    The message of a crash or error may contain addresses and times, and an undefined value may change. For such a
    record only the verdict, the stage and the place in ONNX Runtime count. That of a pass is a note, except for the
    nodes elsewhere.
    """
    message: object = record.message if record.verdict.standing in ("right", "failed") else None
    if record.verdict is Verdict.PASS:
        message = record.placement and record.placement.elsewhere
    outputs = None if record.verdict == Verdict.OBSERVED else [record.actual, record.outputs]
    return to_json([record.verdict, record.stage, record.error_at, message, outputs])


def _again(record: Record, rerun: Rerun) -> Record:
    """Returns the record of a failed case after it was run again."""
    if rerun.alone.standing != "right" or rerun.after is None:
        return record
    after = f"{rerun.before} earlier case{'s' * (rerun.before != 1)}"
    if rerun.after.failed:
        return _changed(record, record.verdict, f"fails only after {after}, and passes alone")
    if rerun.after.standing != "right":
        return record
    ways = f"after the same {after}, and alone" if rerun.before else "alone"
    message = f"{_got(record)}, and right when it was run again {ways}"
    return _changed(record, Verdict.FLAKY, message, **_NO_FAILURE)


_NO_FAILURE = {"stage": None, "kinds": None, "failure": None}
"""What a flaky record does not have: no other run can have the same failure."""


# --- known failures and the baseline ---


def _known(record: Record, matches: Sequence[Match], number: int) -> Record:
    """Returns a record, which has this number among the repetitions, after known failures were taken into account.

    The expected failure becomes `known-failure`. A good verdict becomes `unexpected-pass`, unless an entry says that
    the item may pass. Any other verdict stays, and the expected verdict is added to its message. The same holds for the
    expected failure with another cause than the entry's.
    """
    if not matches or record.verdict in (Verdict.NOT_RUN, *FINAL):
        return record
    entry, got = matches[0].entry, _got(record)
    described = [match for match in matches if match.entry.describes(record)]
    fitting = next((match.entry for match in described if number not in match.other_causes), None)
    if fitting:
        return _changed(record, Verdict.KNOWN_FAILURE, f"known {fitting.expected}: {fitting.why}")
    if record.good:
        if any(match.entry.may_pass for match in matches) or (not matches[0].own and record.verdict in NOT_RUN):
            return record
        text = f"expected {entry.expected}: {entry.why}"
        if record.verdict is Verdict.PASS:  # its message is a note
            return msgspec.structs.replace(record, verdict=Verdict.UNEXPECTED_PASS, message=text)
        return _changed(record, Verdict.UNEXPECTED_PASS, f"{text}, got {got}")
    if described:
        entry = described[0].entry
        causes = f"known: {entry.cause}, got: {described[0].other_causes[number]}"
        return _changed(record, record.verdict, f"expected {entry.verdict} for another cause ({causes}): {entry.why}")
    return _changed(record, record.verdict, f"expected {entry.expected}: {entry.why}, got {got}")


def _beside(record: Record, before: Before) -> Record:
    """Returns a record after the baseline was taken into account."""
    record = msgspec.structs.replace(record, before=before.verdict)
    if record.verdict in FINAL:
        return record
    if record.failed and record.failure is not None and record.failure == before.failure:
        cause = f" ({before.cause})" if before.cause else ""
        return _changed(record, Verdict.KNOWN_FAILURE, SAME_FAILURE.format(before.name) + cause)
    if before.ran and record.verdict is Verdict.UNSUPPORTED:
        verdict, was = Verdict.NEWLY_UNSUPPORTED, str(before.verdict)
    elif before.proven and record.asserted and record.verdict.standing == "right":
        verdict, was = Verdict.FALLBACK, "only asserted by the provider, proven"
    else:
        return record
    message = "; ".join(filter(None, (record.message, f"{was} in the baseline {before.name}")))
    return msgspec.structs.replace(record, verdict=verdict, message=message)


SAME_FAILURE = "the same failure as in the baseline {}"
"""The beginning of the message about a known failure of a baseline with this name."""


def _changed(record: Record, verdict: Verdict, why: str, **fields: object) -> Record:
    """Returns a record with this verdict, and why before its message."""
    message = f"{why}: {record.message}" if record.message else why
    return msgspec.structs.replace(record, verdict=verdict, message=message, **fields)


def _got(record: Record) -> str:
    return f"{record.verdict}{f' at {record.stage}' if record.stage else ''}"


# --- how a case failed ---


def _with_failure(record: Record) -> Record:
    """Returns a record with its failure. That of a case which passes without others says so."""
    if not record.failed or record.failure is not None:
        return record
    record = msgspec.structs.replace(record, failure=failure(record))
    if not record.batched_with:
        return record
    others = f"{len(record.batched_with)} case{'s' * (len(record.batched_with) != 1)}"
    return _changed(record, record.verdict, f"{ONLY_BATCHED} with {others} in its session")


def failure(record: Record) -> str | None:
    """Returns how a case failed, in words that two runs with the same failure have in common; None if it did not fail.

    It is the verdict and the stage with the digest of a wrong output, or with the source file and the HRESULT of an
    error. Line numbers are left out: they differ between versions. Without these, the message counts, without addresses
    in memory.
    """
    if not record.failed or record.verdict in FINAL:
        return None
    if record.verdict is Verdict.MISMATCH and (digest := record.digest):
        detail: str | None = f"SHA-256 {digest}"
    elif record.verdict.standing == "broken" and record.error_at:
        detail = _LINE.sub("", record.error_at)
    else:
        detail = _VARIES.sub("", without_stack(record.message or ""))
        digests = [output.actual.digest if output.actual else None for output in (record.outputs or {}).values()]
        detail += f"; outputs {', '.join(map(str, digests))}" if any(digests) else ""
    return ": ".join(filter(None, (_got(record), detail)))


ONLY_BATCHED = "fails only when batched"
"""The beginning of the message about a case that fails in one session with other cases, and passes without them."""

_LINE = re.compile(r"\(\d+\)")
"""The number of a line in a source file."""

_VARIES = re.compile(r"\b0x[0-9a-f]{9,}\b|(?<=\.cpp)\(\d+\)|(?<=\.cc):\d+|(?<=\.h):\d+", re.IGNORECASE)
"""An address in memory, which is longer than an HRESULT, and the number of a line."""

SHORTEST = 8
"""The smallest number of characters that a text must have to tell one error from another."""

_VARIABLE = re.compile(
    r"""'[^']*' | "[^"]*" | \[[^]]*\] | \([^)]*\) | \{[^}]*\} | [^\s:;,]*\d[^\s:;,]* | [^ -~]+""", re.VERBOSE
)
"""What differs between two messages about one fault: names, lists, words with digits, line breaks."""


def stable_text(record: Record) -> str | None:
    """Returns the part of a message by which the fault is recognized in another case or run; None if there is none."""
    message = record.message or ""
    if record.verdict in FINAL or message.startswith("expected "):  # of another entry, which the case did not fail as
        return None
    if record.stage == Stage.COMPARE and " elements differ: " in message:
        return "elements differ"
    code = (record.error_at or "").split(" ")[-1]
    if code and code in message:
        return code
    pieces = (piece.strip(" ,:;") for piece in _VARIABLE.split(without_stack(message)))
    longest = max(pieces, key=len, default="")
    return longest if len(longest) >= SHORTEST else None
