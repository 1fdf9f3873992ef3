"""The JSON Schema of each JSON file of a results bundle, made from the type that writes and reads the file."""

from __future__ import annotations

import msgspec

from ..errors import InputError, shown
from ..judge.record import SCHEMA, Record
from .documents import (
    DIAGNOSIS_SCHEMA,
    DIFF_SCHEMA,
    SURVEY_SCHEMA,
    TABLE_SCHEMA,
    TIMES_SCHEMA,
    DiagnosisDocument,
    DiffDocument,
    RunDocument,
    SurveyDocument,
    TableDocument,
    TimesDocument,
)

DOCUMENTS: dict[str, tuple[type, str]] = {
    "run": (RunDocument, SCHEMA),
    "record": (Record, ""),
    "diagnosis": (DiagnosisDocument, DIAGNOSIS_SCHEMA),
    "times": (TimesDocument, TIMES_SCHEMA),
    "survey": (SurveyDocument, SURVEY_SCHEMA),
    "diff": (DiffDocument, DIFF_SCHEMA),
    "diff-table": (TableDocument, TABLE_SCHEMA),
}
"""Name -> the type of a JSON file or of one of its lines, and the value of its key `schema`."""


def json_schema(name: str) -> dict[str, object]:
    """Returns the JSON Schema (2020-12) of one of the DOCUMENTS. Raises InputError if there is none of this name."""
    if name not in DOCUMENTS:
        raise InputError(f"schema: NAME must be one of {', '.join(DOCUMENTS)}, got {shown(name)}")
    type, version = DOCUMENTS[name]
    schema = msgspec.json.schema(type, schema_hook=_any)
    if version:
        schema["$defs"][type.__name__]["properties"]["schema"] = {"const": version}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"{name} of opmap", **schema}


def _any(type: type) -> dict[str, object]:
    """Returns the schema of a type that msgspec does not know: `object`, for any value."""
    return {"description": "Any JSON value."}
