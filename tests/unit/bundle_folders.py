"""Results bundles of real runs, and the check of their files against opmap's JSON Schemas."""

from __future__ import annotations

import json

import jsonschema
import msgspec
from bundle_schemas import json_schema

from opmap.cli import main
from opmap.judge.record import Record
from opmap.reports.documents import RunDocument
from opmap.reports.sums import Sums, ids_digest


def validate(folder, *arguments: str) -> int:
    """Runs `opmap validate` with a results bundle in this folder."""
    return main(["validate", *arguments, "--report", str(folder)])


def agree(folder, exit_code: int | None = None) -> None:
    """Makes run.json say what the records add up to, with this exit code: as if the run had given these records."""
    records = [msgspec.json.decode(line, type=Record) for line in (folder / "results.jsonl").read_bytes().splitlines()]
    run = json.loads((folder / "run.json").read_bytes())
    run["selection"]["ids"] = ids_digest(run["selection"], (record.case for record in records))
    sums = Sums(run["selection"], records)
    code = int(bool(run.get("problems")) or sums.red(required=False)) if exit_code is None else exit_code
    document = msgspec.convert(run | {"totals": None}, RunDocument)
    (folder / "run.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(document, totals=sums.totals(code))))


def records(folder) -> list[dict]:
    """Returns the records of a bundle."""
    return [json.loads(record) for record in (folder / "results.jsonl").read_bytes().splitlines()]


def write_records(folder, changed: list[dict]) -> None:
    """Puts these records in place of those of a bundle."""
    text = "".join(f"{json.dumps(record)}\n" for record in changed)
    (folder / "results.jsonl").write_text(text, encoding="utf-8", newline="\n")
    agree(folder)


def change_json(file, change) -> None:
    """Calls `change` with the document of a file, and writes it back."""
    document = json.loads(file.read_bytes())
    change(document)
    file.write_text(json.dumps(document), encoding="utf-8")


def schema_of(name: str):
    """Returns a validator for one of opmap's JSON files."""
    schema = json_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def check_bundle(folder) -> None:
    """Checks each JSON file of a bundle against its schema."""
    schema_of("run").validate(json.loads((folder / "run.json").read_bytes()))
    schema_of("diagnosis").validate(json.loads((folder / "diagnosis.json").read_bytes()))
    if (folder / "times.json").exists():  # not in a merged bundle
        schema_of("times").validate(json.loads((folder / "times.json").read_bytes()))
    record = schema_of("record")
    for line in (folder / "results.jsonl").read_bytes().splitlines():
        record.validate(json.loads(line))
