"""The result record: one versioned shape for every command, the worker and the results bundle."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import msgspec

from ..cases.case import Case
from ..engines.protocol import Placement
from ..engines.provider_facts import ProviderFacts
from ..engines.providers import Provider
from ..files import to_json
from ..operators import OPERATORS
from ..vocabulary import CONTRACT, PROBE, Change, Fate, JudgedBy, Stage, Verdict
from .tally import NOT_RUN, ran

SCHEMA = "opmap-results/1"

GOOD = frozenset(verdict for verdict in Verdict if verdict.good)
"""The verdicts that leave a run green."""


EXCUSED = (Fate.FOLDED, Fate.OPTIMIZED_AWAY, Fate.CPU)
"""What ONNX Runtime itself does to nodes of a model: it needs no proof that the provider ran them."""


class TensorRecord(msgspec.Struct, frozen=True):
    """An output tensor.

    `Values` are flat and row-major, None for an undefined value; `Bits` (hexadecimal) is authoritative.

    Above MAX_LISTED elements `Values` and `Bits` are None. `Digest` (SHA-256 of the bit patterns) and `Differences`
    (the first different elements) replace them.
    """

    DataType: str
    Sizes: list[int]
    Values: list[int | float | str | None] | None
    Bits: list[str | None] | None
    Digest: str | None = None
    Differences: list[dict[str, object]] | None = None

    @property
    def digest(self) -> str | None:
        """The SHA-256 of the bit patterns, each little-endian; None if they are not known."""
        if self.Bits is None or None in self.Bits:
            return self.Digest
        return hashlib.sha256(b"".join(bytes.fromhex(bits)[::-1] for bits in self.Bits if bits)).hexdigest()

    @property
    def form(self) -> tuple[str, list[int]]:
        """The data type and the sizes."""
        return self.DataType, self.Sizes

    def agrees(self, expected: TensorRecord) -> bool:
        """Returns whether this is the expected tensor. An element without a documented value agrees with everything."""
        if self.form != expected.form:
            return False
        if self.Bits is None or expected.Bits is None:
            return self.digest is not None and self.digest == expected.digest
        return len(self.Bits) == len(expected.Bits) and all(
            wanted in (None, bits) for bits, wanted in zip(self.Bits, expected.Bits, strict=False)
        )


class OutputRecord(msgspec.Struct, frozen=True):
    """One output: what it must be, and what it is; None if the provider gave none of the right type and sizes."""

    expected: TensorRecord
    actual: TensorRecord | None = None


class PlacementRecord(msgspec.Struct, frozen=True):
    """Where the nodes of the model ran.

    `proven` is whether that proves the provider asked for, `source` names the evidence, and `nodes` holds (operator
    type, provider) of each node. `asserted` is whether the provider only says so itself: then it is not proven.
    `elsewhere` lists the nodes that did not run on the provider asked for, as `Reshape on CPUExecutionProvider`.
    """

    proven: bool
    source: str
    nodes: list[tuple[str, str]]
    asserted: bool = False
    elsewhere: list[str] = []

    @classmethod
    def of(cls, placement: Placement | None, provider: str, helpers: Collection[str] = ()) -> PlacementRecord | None:
        """Returns the record of a placement for a run on this provider; None if the placement is unknown.

        Nodes of the types in `helpers` may have run elsewhere.
        """
        if placement is None:
            return None
        proven = placement.proves(provider, helpers)
        asserted = not proven and placement.shows(provider, helpers)
        elsewhere = [
            f"{op_type} on {name}".removeprefix(" on ") for op_type, name in placement.nodes if name != provider
        ]
        return cls(proven, placement.source, list(placement.nodes), asserted, elsewhere)

    def names(self, provider: str | None) -> bool:
        """Returns whether a node ran on this provider."""
        return any(name == provider for _, name in self.nodes)

    @property
    def shown(self) -> bool:
        """Whether the nodes ran on the provider asked for: by proof, or by the provider's own word."""
        return self.proven or self.asserted


class PathRecord(msgspec.Struct, frozen=True):
    """Whether the run is proven to have taken the execution path of its variant, and the evidence for it."""

    proven: bool
    source: str


class LoweredRecord(msgspec.Struct, frozen=True):
    """The descriptor that the EP makes of the model, in DxDispatch's spelling; `proof` names the evidence for it."""

    type: str
    desc: Mapping[str, object]
    proof: str = "predicted"


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):  # 16 bytes less each: no record is part of a cycle
    """The result of one case or probe.

    In JSON every key is present; the value is null if the run ended before it was known.

    `variant` names how the descriptor was run on the provider. `descriptor` says how the DirectML graph that the EP
    wrote holds the case's descriptor: `identical`, `substituted` (as the mapping lists) or `differs`.

    `expected` and `actual` are those of the first output, `outputs` has those of all, by field, in the page's order.

    `kinds` are the kinds of wrong values (vocabulary.VALUE_KINDS) of a `mismatch` in which nothing else is wrong.

    `batched_with` names the other cases in the session of a case that failed with them, and passes without them. Else
    it is null.

    `path_proof` says whether the execution path of the variant is proven.

    `judge` says whose value counted, and `fate` what ONNX Runtime made of a node of a model from outside.

    `error_at` is the place of an error: in the input file, or the source file, line and HRESULT in ONNX Runtime's
    message.

    `failure` says how a case failed, in words that two runs with the same failure have in common; also of a known
    failure. `before` is the verdict of the case in the baseline.
    """

    file: str | None = None
    case: str | None = None
    operator: str | None = None
    variant: str = "plain"
    verdict: Verdict
    stage: Stage | None = None
    rule: str | None = None
    rules: list[str] | None = None
    error_at: str | None = None
    message: str | None = None
    kinds: list[str] | None = None
    judge: JudgedBy | None = None
    fate: Fate | None = None
    expected: TensorRecord | None = None
    actual: TensorRecord | None = None
    outputs: dict[str, OutputRecord] | None = None
    provider: str | None = None
    placement: PlacementRecord | None = None
    path_proof: PathRecord | None = None
    device_class: str | None = None
    ep_version: str | None = None
    library: str | None = None
    library_sha256: str | None = None
    substitutions: list[str] | None = None
    lowered_as: LoweredRecord | None = None
    descriptor: str | None = None
    batched_with: list[str] | None = None
    failure: str | None = None
    before: Verdict | None = None

    @classmethod
    def on(cls, provider: Provider | str, case: str | None, operator: str | None, **others: Any) -> Record:
        """Returns the record of a case or probe with the facts about its provider; of a missing one with its name
        only.
        """
        if isinstance(provider, str):
            return cls(case=case, operator=operator, provider=provider, **others)
        facts = {name: getattr(provider, name) for name in FACTS}
        return cls(case=case, operator=operator, provider=provider.name, **facts, **others)

    @property
    def proven(self) -> bool:
        """Whether it is proven that the provider asked for ran the case."""
        return self.placement is not None and self.placement.proven

    @property
    def asserted(self) -> bool:
        """Whether the provider itself says that it ran the case, and nothing proves it."""
        return self.placement is not None and self.placement.asserted

    @property
    def digest(self) -> str | None:
        """The SHA-256 of the actual output; of several outputs, that of their digests. None if one is not known."""
        if not self.outputs or len(self.outputs) == 1:
            return self.actual.digest if self.actual else None
        digests = [output.actual.digest if output.actual else None for output in self.outputs.values()]
        return None if None in digests else hashlib.sha256("".join(filter(None, digests)).encode()).hexdigest()

    @property
    def ran(self) -> bool:
        """Whether the provider was given the case. It may have answered that it does not support it."""
        return ran(self.verdict, self.stage)

    @property
    def good(self) -> bool:
        """Whether the verdict leaves a run green."""
        return self.verdict in GOOD

    @property
    def failed(self) -> bool:
        """Whether the verdict alone makes a run red."""
        return self.verdict.failed

    @property
    def change(self) -> Change | None:
        """How the case changed since the baseline of the run; None if it did not change in one of these ways.

        A case that the baseline does not have is a new failure if it fails.
        """
        if self.verdict is Verdict.FLAKY:
            return None if self.before is Verdict.FLAKY else Change.NEWLY_FLAKY
        if self.verdict in _CHANGES and self.verdict != self.before:
            elsewhere = self.placement is not None and bool(self.placement.elsewhere)
            return Change.NEWLY_FALLBACK if self.verdict is Verdict.FALLBACK and elsewhere else _CHANGES[self.verdict]
        if self.failed:
            return None if self.verdict is Verdict.UNEXPECTED_PASS else Change.NEW_FAILURE
        if self.before is None:
            return None
        if self.verdict in (Verdict.NOT_RUN, Verdict.SKIPPED):
            return None if self.before in NOT_RUN else Change.NO_LONGER_RUN
        failed = self.before is Verdict.KNOWN_FAILURE or (self.before.failed and self.before not in _BY_CHANCE)
        failed = failed and not (self.before is Verdict.FALLBACK and not self.proven)  # it is still only asserted
        return Change.FIXED if failed and self.verdict.standing == "right" else None

    @property
    def contradiction(self) -> tuple[str, str] | None:
        """The first key that cannot be part of a record with this verdict, and what is wanted there; None if there is
        none.

        A probe can pass because its model is refused: then it has no placement that proves anything.
        """
        is_case, right = not (self.is_probe or self.is_contract), self.verdict.standing == "right"
        name = (self.case or "").partition("/")[0].upper()
        if is_case and name in OPERATORS and self.operator not in (None, f"DML_OPERATOR_{name}"):
            return "operator", f"DML_OPERATOR_{name}, as in the id"
        if self.failed or self.verdict is Verdict.KNOWN_FAILURE:
            return None
        outputs = {f"outputs[{name}].actual": output for name, output in (self.outputs or {}).items()}
        if self.expected and self.actual:
            outputs["actual"] = OutputRecord(self.expected, self.actual)
        refused = self.verdict is Verdict.OBSERVED and self.stage is Stage.RUN  # then there is no output
        for key, output in outputs.items():
            if right and not refused if output.actual is None else not self._allows(output.expected, output.actual):
                return key, f"the expected output, as the verdict is {self.verdict}"
        if self.failure and self.verdict.standing != "excused":
            return "failure", f"null, as the verdict is {self.verdict}"
        passed = is_case and self.verdict is Verdict.PASS
        if right and (self.stage is Stage.COMPARE or (passed and self.stage)):
            return "stage", f"null, as the verdict is {self.verdict}"
        shown = refused or not self.placement or self.placement.shown or self.fate in EXCUSED
        if right and is_case and not shown:
            return "placement.proven", f"true, as the verdict is {self.verdict}"
        if self.proven and self.placement and self.placement.nodes and not self.placement.names(self.provider):
            return "placement.nodes", f"nodes on {self.provider}, as it is proven"
        wrong = {"kinds": self.kinds, "fate": self.fate is Fate.FALLBACK, "descriptor": self.descriptor == "differs"}
        first = next((key for key, is_wrong in wrong.items() if is_wrong), None)
        return (first, f"another value, as the verdict is {self.verdict}") if passed and first else None

    def _allows(self, expected: TensorRecord, actual: TensorRecord) -> bool:
        """Returns whether an output is the expected one.

        Where elements have no documented value, a digest says nothing.
        """
        if self.verdict is Verdict.OBSERVED and actual.Bits is None:
            return actual.form == expected.form
        return actual.agrees(expected)

    @property
    def is_probe(self) -> bool:
        """Whether this is the result of a probe."""
        return (self.case or "").startswith(PROBE)

    @property
    def is_contract(self) -> bool:
        """Whether this is the result of a contract probe."""
        return (self.case or "").startswith(CONTRACT)


def at_wrong_output(case: Case, record: Record) -> tuple[Case, Record]:
    """Returns a case and its record as if the first wrong output were the first one.

    They stay as they are if the case has one output, or if no output is wrong.
    """
    return next(at_wrong_outputs(case, record), (case, record))


def at_wrong_outputs(case: Case, record: Record) -> Iterator[tuple[Case, Record]]:
    """Gives a case and its record as if each wrong output were the first one; nothing if the case has one output."""
    for field, output in (record.outputs or {}).items() if record.outputs and len(record.outputs) > 1 else ():
        wrong = output.actual is None or not output.actual.agrees(output.expected)
        if wrong and field in case.desc.outputs:
            seen = replace(case, desc=case.desc.of_output(field))
            yield seen, msgspec.structs.replace(record, expected=output.expected, actual=output.actual)


_CHANGES = {
    Verdict.NEWLY_UNSUPPORTED: Change.NEWLY_UNSUPPORTED,
    Verdict.FALLBACK: Change.NEWLY_NOT_PROVEN,
    Verdict.PATH_UNPROVEN: Change.NEWLY_NOT_PROVEN,
}
"""The verdicts that say by themselves what became of a case."""

_BY_CHANCE = (Verdict.FLAKY, Verdict.UNEXPECTED_PASS)
"""The verdicts of cases that passed in one of their runs: a pass is no news."""

FACTS = tuple(fact.name for fact in fields(ProviderFacts) if fact.name in Record.__struct_fields__)
"""The facts about a provider that a record has under their own names."""


_TEXTS = ("operator", "variant", "message", "provider", "descriptor", *FACTS)
_PARTS = ("placement", "path_proof", "substitutions")
"""The texts, and the other parts, that many good records have in common."""


def shortened(record: Record) -> Record:
    """Returns a good record without its outputs and `lowered_as`; any other as it is. Takes few hundred bytes.

    What many records have in common is one object for all.
    """
    if not record.good:
        return record
    shared: dict[str, Any] = {name: sys.intern(t) for name in _TEXTS if type(t := getattr(record, name)) is str}
    shared |= {name: _shared(name, part) for name in _PARTS if (part := getattr(record, name)) is not None}
    return msgspec.structs.replace(record, expected=None, actual=None, outputs=None, lowered_as=None, **shared)


_ONE: dict[tuple[str, bytes], Any] = {}
"""A key of records and its value as JSON -> the object that all records with this value share. It holds at most
MOST_SHARED."""

MOST_SHARED = 4096


def _shared(name: str, part: Any) -> Any:
    """Returns the equal part that was seen first; the part itself if there are too many."""
    key = name, msgspec.json.encode(part)
    return _ONE.setdefault(key, part) if len(_ONE) < MOST_SHARED else _ONE.get(key, part)


def split(records: Iterable[Record]) -> tuple[list[Record], list[Record], list[Record]]:
    """Returns the records of cases, those of probes, and those of contract probes."""
    parts: tuple[list[Record], list[Record], list[Record]] = [], [], []
    for record in records:
        parts[1 if record.is_probe else 2 if record.is_contract else 0].append(record)
    return parts


def encode(records: Iterable[Record]) -> bytes:
    """Returns the JSON document that `--json` prints. The key `probes` is present if a probe was run.

    The key `contract` is present if a contract probe was run.
    """
    cases, probes, contract = split(records)
    document: dict[str, object] = {"schema": SCHEMA, "cases": cases}
    if probes:
        document["probes"] = probes
    if contract:
        document["contract"] = contract
    return to_json(document)
