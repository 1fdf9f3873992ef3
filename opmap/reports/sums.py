"""What the records of a run add up to. The records decide: `run.json` must say the same."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ..judge.record import Record
from ..judge.run import Results
from ..vocabulary import Verdict
from .documents import Totals


def ids_digest(selection: Mapping[str, object], ids: Iterable[str | None]) -> str:
    """Returns the SHA-256 of the ids of cases, of the opmap that selected them, and of the shard that they are."""
    return hashlib.sha256(
        "\n".join(map(str, (selection.get("opmap"), selection.get("shard"), *ids))).encode()
    ).hexdigest()


class Sums:
    """The sums of the records of one run, which are added in their order. `selection` is that of the run."""

    def __init__(self, selection: Mapping[str, object], records: Iterable[Record] = ()):
        self._selection = selection
        self._ids: list[str | None] = []
        self._kinds: dict[object, Record] = {}
        self.verdicts = Counter[Verdict]()
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Adds one record."""
        self.verdicts[record.verdict] += 1
        self._ids.append(record.case)
        kind = record.verdict, record.stage, record.proven, record.asserted, record.is_contract
        self._kinds.setdefault(kind, record)

    def totals(self, exit_code: int) -> Totals:
        """Returns the totals of the run."""
        digest = ids_digest(self._selection, self._ids)
        whole = digest == self._selection.get("ids")
        return Totals(dict(sorted(self.verdicts.items())), exit_code, msgspec.UNSET if whole else digest)

    def red(self, *, required: bool) -> bool:
        """Returns whether the records make the run red (see `Results.red`)."""
        results = Results()
        results.records = list(self._kinds.values())
        allowed = self._selection.get("allow_flaky")
        flaky = self.verdicts[Verdict.FLAKY] > (allowed if isinstance(allowed, int) else 0)
        return results.red(required=required, flaky=flaky)
