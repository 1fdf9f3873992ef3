"""Since which version something is wrong: runs it on pairs of ONNX Runtime and DirectML.dll, and says what their table
shows.

Each run has a fresh process. The table names a side only if each version of it has one result, whatever the other side
is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import get_args

import msgspec

from ..cases.case import Case
from ..cases.contract_probes import ContractProbe
from ..engines.dml_linux import version_key
from ..judge.contract import judge_contract
from ..judge.judge import Judge
from ..judge.record import Record
from ..known import SeenOn, Word
from ..known.known_failures import SHOWN_DIGITS
from ..vocabulary import DANGEROUS, Verdict

RUNS = 3
"""How often each pair runs the item."""

_SIDES = {"directml": "DirectML.dll", "onnxruntime": "ONNX Runtime"}

_WORDS: dict[Verdict, Word] = {
    Verdict.PASS: "right",
    Verdict.MISMATCH: "wrong",
    Verdict.ERROR: "refused",
    Verdict.CRASH: "crash",
    Verdict.DEVICE_LOST: "crash",
    Verdict.TIMEOUT: "hang",
}

WITHOUT_RESULT: tuple[Word, ...] = ("not loadable", "no answer")
"""The words of a pair that says nothing about the item."""


class Cell(SeenOn, frozen=True, kw_only=True):
    """A pair in the table. `runs` has the word of each run, `message` is that of the first run that was not right.

    `directml_sha256` is the digest of the DirectML.dll that was loaded, if it is known.
    """

    runs: tuple[Word, ...] = ()
    message: str | None = None
    directml_sha256: str | None = None

    @classmethod
    def of(
        cls, onnxruntime: str, directml: str, runs: Sequence[tuple[Word, str | None]], sha256: str | None = None
    ) -> Cell:
        """Returns the cell of a pair from (word, message) of each run."""
        words = tuple(word for word, _ in runs)
        message = next((message for word, message in runs if word != "right"), None)
        seen: Word = words[0] if len(set(words)) == 1 else "unstable"
        return cls(
            onnxruntime=onnxruntime,
            directml=directml,
            seen=seen,
            runs=words,
            message=message,
            directml_sha256=sha256,
        )


def told_apart(cells: Sequence[Cell]) -> list[Cell]:
    """Returns the cells. Where two files DirectML.dll have one version, the file's digest stands behind the version."""
    files = Counter(version for version, _ in {(c.directml, c.directml_sha256) for c in cells if c.directml_sha256})
    return [
        msgspec.structs.replace(cell, directml=f"{cell.directml} (SHA-256 {cell.directml_sha256[:SHOWN_DIGITS]})")
        if cell.directml_sha256 and files[cell.directml] > 1
        else cell
        for cell in cells
    ]


def word_of(record: Record) -> Word:
    """Returns the word for a record. A probe that the CPU EP fails too gives no answer."""
    observed = record.verdict == Verdict.OBSERVED and record.stage is None
    return "right" if observed else _WORDS.get(record.verdict, "no answer")


def run_item(item: Case | ContractProbe, judge: Judge) -> Iterator[tuple[Word, str | None]]:
    """Gives (word, message) for each run of a case or probe. A hang or a lost device is not tried again."""
    for _ in range(RUNS):
        judge.provider.close()  # the next run has a process of its own
        record = judge(item) if isinstance(item, Case) else judge_contract(item, judge.provider)
        yield word_of(record), record.message
        if record.verdict in DANGEROUS:
            return


def conclusion(cells: Sequence[SeenOn]) -> tuple[str, str | None, str]:
    """Returns what a table shows, in one line; the side that is probably in question, None if the table names none; and
    why.
    """
    answers = [cell for cell in cells if cell.seen not in WITHOUT_RESULT]
    if not answers:
        return "no pair gives an answer", None, "the table says nothing"
    words = {cell.seen for cell in answers}
    if len(words) == 1:
        (word,) = words
        why = "no version that was run is wrong" if word == "right" else "no version that was run is right"
        return f"{word} on {'every pair' if len(answers) > 1 else 'the one pair'} that gives an answer", None, why
    decides = [side for side in _SIDES if all(len(seen) == 1 for _, seen in _by(answers, side))]
    if len(decides) == 2:
        why = "no two pairs with different results have a version in common"
        return "; ".join(_line(answers, side) for side in _SIDES), None, why
    if not decides:
        why = "the result depends on both versions"
        lines = [f"ONNX Runtime {version}: {text}" for version, text in by_onnxruntime(answers)]
        return "; ".join(lines), None, "some results are unstable" if "unstable" in words else why
    (side,) = decides
    (other,) = set(_SIDES) - set(decides)
    text = f"{_line(answers, side)}; {_SIDES[other]}: {_no_difference(answers, other, side)}"
    if "unstable" in words:
        return text, None, "some results are unstable"
    return text, _SIDES[side], f"with the same {_SIDES[other]}, another {_SIDES[side]} alone gives another result"


def by_onnxruntime(cells: Sequence[SeenOn]) -> list[tuple[str, str]]:
    """Returns each ONNX Runtime with what is seen along the versions of DirectML.dll:
    `right in 1.12.1, wrong from 1.13.1 on`.
    """
    return [
        (version, _sequence([cell for cell in cells if cell.onnxruntime == version], "directml"))
        for version in _versions(cells, "onnxruntime")
    ]


def _line(cells: Sequence[SeenOn], side: str) -> str:
    return f"{_SIDES[side]}: {_sequence(cells, side)}"


def _no_difference(cells: Sequence[SeenOn], side: str, decides: str) -> str:
    versions = _versions(cells, side)
    if len(versions) == 1:
        return f"only {versions[0]} was run"
    alike = [[cell for cell in cells if getattr(cell, decides) == version] for version in _versions(cells, decides)]
    compared = any(len(_versions(group, side)) > 1 for group in alike)
    return "no difference" if compared else f"no two were run with the same {_SIDES[decides]}"


def _sequence(cells: Sequence[SeenOn], side: str) -> str:
    """Returns what is seen along the versions of a side: `right in 1.12.1, wrong from 1.13.1 on`."""
    seen = [(version, " or ".join(sorted(words, key=get_args(Word).index))) for version, words in _by(cells, side)]
    parts = [(word, [version for version, _ in group]) for word, group in groupby(seen, key=lambda entry: entry[1])]
    texts = []
    for number, (word, versions) in enumerate(parts):
        if len(versions) == 1:
            texts.append(f"{word} in {versions[0]}")
        elif 0 < number == len(parts) - 1:
            texts.append(f"{word} from {versions[0]} on")
        else:
            texts.append(f"{word} in {versions[0]} to {versions[-1]}")
    return ", ".join(texts)


def _by(cells: Sequence[SeenOn], side: str) -> list[tuple[str, set[Word]]]:
    """Returns what is seen with each version of a side, the oldest first."""
    return [
        (version, {cell.seen for cell in cells if getattr(cell, side) == version}) for version in _versions(cells, side)
    ]


def _versions(cells: Sequence[SeenOn], side: str) -> list[str]:
    return sorted({getattr(cell, side) for cell in cells}, key=version_key)
