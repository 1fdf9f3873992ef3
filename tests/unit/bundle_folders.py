"""Results bundles of real runs, and the check of their files against opmap's JSON Schemas."""

from __future__ import annotations

import json

import jsonschema

from opmap.cli import main
from opmap.evidence.schemas import json_schema


def validate(folder, *arguments: str) -> int:
    """Runs `opmap validate` with a results bundle in this folder."""
    return main(["validate", *arguments, "--report", str(folder)])


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
