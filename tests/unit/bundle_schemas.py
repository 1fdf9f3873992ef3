"""The JSON Schema of each JSON file of a results bundle, made from the type that writes and reads the file."""

from __future__ import annotations

import msgspec

from opmap.judge.record import Record
from opmap.reports.diff import DiffDocument, TableDocument
from opmap.reports.documents import (
    DiagnosisDocument,
    RunDocument,
    SurveyDocument,
    TimesDocument,
)

DOCUMENTS: dict[str, type] = {
    "run": RunDocument,
    "record": Record,
    "diagnosis": DiagnosisDocument,
    "times": TimesDocument,
    "survey": SurveyDocument,
    "diff": DiffDocument,
    "diff-table": TableDocument,
}
"""Name -> the type of a JSON file or of one of its lines."""


def json_schema(name: str) -> dict[str, object]:
    """Returns the JSON Schema (2020-12) of one of the DOCUMENTS."""
    type = DOCUMENTS[name]
    schema = msgspec.json.schema(type, schema_hook=_any)
    document = schema["$defs"][type.__name__]
    if "schema" in document["properties"]:
        document["properties"]["schema"] = {"const": document["properties"]["schema"]["default"]}
        document["required"] = ["schema", *document["required"]]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"{name} of opmap", **schema}


def _any(type: type) -> dict[str, object]:
    """Returns the schema of a type that msgspec does not know: `object`, for any value."""
    return {"description": "Any JSON value."}
