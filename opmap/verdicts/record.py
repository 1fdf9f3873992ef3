"""The result record: one versioned shape for every command, the worker and the results bundle."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..vocabulary import PROBE, Stage, Verdict

SCHEMA = "opmap-results/1"


class TensorRecord(msgspec.Struct, frozen=True):
    """An output. `Values` are flat and row-major, None where no value is defined; `Bits` (hexadecimal) is authoritative.

    Above MAX_LISTED elements both are None, and `Digest` (SHA-256 of the bit patterns) and `Differences` stand for them.
    """

    DataType: str
    Sizes: list[int]
    Values: list[int | float | str | None] | None
    Bits: list[str | None] | None
    Digest: str | None = None
    Differences: list[dict] | None = None


class PlacementRecord(msgspec.Struct, frozen=True):
    """Where the nodes ran: whether that proves the provider, how it is known, and (operator type, provider) of each."""

    proven: bool
    source: str
    nodes: list[tuple[str, str]]


class LoweredRecord(msgspec.Struct, frozen=True):
    """The descriptor that the EP makes of the model, in DxDispatch's spelling; `proof` says how that is known."""

    type: str
    desc: dict
    proof: str = "predicted"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one case. Every key is always present; None where it was not reached.

    `path` is the place in the file that is wrong, or the source file, line and HRESULT that ONNX Runtime's error names.
    """

    file: str | None = None
    case: str | None = None
    operator: str | None = None
    verdict: Verdict
    stage: Stage | None = None
    rule: str | None = None
    rules: list[str] | None = None
    path: str | None = None
    message: str | None = None
    expected: TensorRecord | None = None
    actual: TensorRecord | None = None
    provider: str | None = None
    placement: PlacementRecord | None = None
    device_class: str | None = None
    substitutions: list[str] | None = None
    lowered_as: LoweredRecord | None = None

    @property
    def proven(self) -> bool:
        """Whether the case is known to have run on the provider asked for."""
        return self.placement is not None and self.placement.proven

    @property
    def good(self) -> bool:
        """Whether the verdict leaves a run green."""
        return Verdict(self.verdict).good


def split(records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """The cases, and the probes."""
    records = list(records)
    probes = [r for r in records if (r.case or "").startswith(PROBE)]
    return [r for r in records if r not in probes], probes


def encode(records: Iterable[Record]) -> bytes:
    """The document that `--json` prints; probes stand in it where any were run."""
    cases, probes = split(records)
    document: dict = {"schema": SCHEMA, "cases": cases}
    if probes:
        document["probes"] = probes
    return msgspec.json.encode(document)
