"""`opmap schema`: prints the JSON Schema of a file of the results bundle."""

from __future__ import annotations

from argparse import Namespace

from ...evidence.results_folder import formatted
from ...evidence.schemas import json_schema
from ...evidence.terminal import write_json


def run(options: Namespace) -> int:
    """Prints the schema. Raises InputError if there is no file of this name."""
    write_json(formatted(json_schema(options.name)).rstrip())
    return 0
