"""Worked examples of a page: the facts that they state, and the line on which each fact stands."""

from __future__ import annotations

import re
from functools import lru_cache

from ..errors import PseudocodeError
from ..pseudocode import Example, canonical, parse_example, show
from ..spec import SpecExample

VALUES = "'s values"
"""The end of a fact's name if the fact is a tensor's values: `OutputTensor's values`."""

EXPANSION = "its line"
"""The name of the fact that is the expanded line."""


@lru_cache(maxsize=256)
def read_example(text: str) -> Example | PseudocodeError:
    """Returns the parsed example, or the error if it cannot be read."""
    try:
        return parse_example(text)
    except PseudocodeError as error:
        return error


def parsed(text: str) -> Example | None:
    """Returns the parsed example, or None if it cannot be read."""
    example = read_example(text)
    return example if isinstance(example, Example) else None


def only_sizes(example: Example) -> bool:
    """Returns whether the example shows sizes without types and values."""
    return all(tensor.data_type is None for tensor in example.tensors.values())


def facts(example: SpecExample) -> dict[str, object] | None:
    """Returns the facts that an example states, by name, or None if it cannot be read.

    The names are those of the fields, `InputTensor.Sizes`, `InputTensor.DataType`, `InputTensor's values` and
    `its line`.
    """
    content = parsed(example.text)
    if content is None:
        return None
    stated: dict[str, object] = dict(content.fields)
    for name, tensor in content.tensors.items():
        stated[f"{name}.Sizes"] = show(tensor.sizes)
        if tensor.data_type:
            stated[f"{name}.DataType"] = tensor.data_type
            stated[f"{name}{VALUES}"] = tensor.values
    if content.expansion:
        stated[EXPANSION] = canonical(content.expansion)
    return stated


def line_of(example: SpecExample, subject: str) -> int:
    """Returns the page's line that states a field or tensor.

    `subject` starts with its name. Without a name, or if no line states it, the result is the example's first line.
    """
    name = re.match(r"\w+(\[\d+\])?", subject)
    return _line_of_match(example, rf"(?m)^[ \t]*{re.escape(name[0])}\s*(?:\.Sizes\s*)?[:=]") if name else example.line


def line_of_expansion(example: SpecExample) -> int:
    """Returns the page's line that holds the expanded line, `// output[y, x] = …`."""
    return _line_of_match(example, r"(?m)^[ \t]*//.*\[.*=.*\[")


def line_of_value(example: SpecExample, tensor: str, at: int) -> int:
    """Returns the page's line that holds value number `at` of a tensor, counted from 0."""
    heading = re.search(rf"(?m)^[ \t]*{tensor}\s*:[^)]*\)", example.text)
    if heading is None:
        return example.line
    line = example.line + example.text.count("\n", 0, heading.end())
    for text in example.text[heading.end() :].split("\n"):
        count = len(re.findall(r"-?\d[\d.eE+-]*", text.split("//", 1)[0]))
        if at < count:
            return line
        at -= count
        line += 1
    return example.line


def _line_of_match(example: SpecExample, pattern: str) -> int:
    match = re.search(pattern, example.text)
    return example.line + (example.text.count("\n", 0, match.start()) if match else 0)
