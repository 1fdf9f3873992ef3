"""The features of a case: the table `features.toml`. Light to import, for `--help`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from typing import Literal, NamedTuple


class Feature(NamedTuple):
    """What is said about one feature. `features.toml` says what the members mean."""

    text: str
    kind: Literal["number", "word", "flag"] = "number"
    words: str = ""
    cost: float = 0.0
    few_values: bool = False


def _features() -> Mapping[str, Feature]:
    # importlib.resources takes longer to load than all else that `--help` needs
    with open(os.path.join(os.path.dirname(__file__), "features.toml"), "rb") as file:
        return {name: Feature(**row) for name, row in tomllib.load(file).items()}


FEATURES: Mapping[str, Feature] = _features()
"""Each feature by its name, in the order of the help."""

OTHER = Feature("")
"""A feature that is not in the table: a member of an operator, or whether two fields are equal."""
