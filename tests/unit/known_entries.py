"""Entries of known failures for tests: one for a case in one place, files of them, and a run with such a file."""

from __future__ import annotations

import json

from tiers import all_cases

from opmap.cli import main
from opmap.judge.items import Item
from opmap.judge.record import Record
from opmap.known.final import Evidence, final
from opmap.known.known_failures import SCHEMA, ActiveFailures, Environment, KnownFailure

CASES = {case.id: case for case in all_cases("smoke")}
CASE = CASES["gather/example.1"]
HERE = Environment(
    provider="DmlExecutionProvider",
    package="onnxruntime-directml",
    adapter="NVIDIA GeForce RTX 4060",
    driver="31.0.101.4999",
    directml="1.15.4.0",
    onnxruntime="1.24.4",
    device_class="hardware",
    feature_level="5_1",
)
ENTRY = {"case": "gather/example.1", "provider": "fault:output-zero", "verdict": "mismatch", "reason": "planted"}


def entry(**keys) -> KnownFailure:
    """Returns an entry with these keys instead of the usual ones; None removes a key."""
    values = ENTRY | {"provider": "dml"} | keys
    return KnownFailure(**{key: value for key, value in values.items() if value is not None})


def toml(path, *entries: dict, head: str = f'schema = "{SCHEMA}"\ncase_ids = 1') -> str:
    """Writes a file with these entries; returns its path."""
    lines = [head]
    for keys in entries:
        lines += ["[[known]]", *(f"{k} = {v if k == 'until' else json.dumps(v)}" for k, v in keys.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def validate(*arguments: str) -> int:
    """Runs `opmap validate` on one case; returns its exit code."""
    return main(["validate", "--case", "gather/example.1", *arguments])


def given(known: ActiveFailures, item: Item, *records: Record) -> Record:
    """Returns the final record of an item of these records, with its known failures."""
    return final(Evidence(records, known.matches(item, records)))
