"""Worked examples: what they say, and on which line they say it."""

from __future__ import annotations

import re
from functools import lru_cache

from ..errors import PseudocodeError
from ..pseudocode import Example, canonical, parse_example, show
from ..spec import SpecExample


@lru_cache(maxsize=256)
def read_example(text: str) -> Example | PseudocodeError:
    """The example, or why it cannot be read."""
    try:
        return parse_example(text)
    except PseudocodeError as error:
        return error


def parsed(text: str) -> Example | None:
    """The example, or None where it cannot be read."""
    example = read_example(text)
    return example if isinstance(example, Example) else None


def only_sizes(example: Example) -> bool:
    """Whether it shows sizes without types and values."""
    return all(tensor.data_type is None for tensor in example.tensors.values())


def facts(example: SpecExample) -> dict[str, object] | None:
    """What an example says, by name; None where it cannot be read."""
    read = parsed(example.text)
    if read is None:
        return None
    said: dict[str, object] = dict(read.fields)
    for name, tensor in read.tensors.items():
        said[f"{name}.Sizes"] = show(tensor.sizes)
        if tensor.data_type:
            said[f"{name}.DataType"] = tensor.data_type
            said[f"{name}'s values"] = tensor.values
    if read.expansion:
        said["its line"] = canonical(read.expansion)
    return said


def line_of(example: SpecExample, subject: str) -> int:
    """The line that gives a field or tensor, by its name or the beginning of something about it."""
    name = re.match(r"\w+", subject)
    return _line(example, rf"(?m)^[ \t]*{name[0]}\s*(?:\.Sizes\s*)?[:=]" if name else None)


def line_of_expansion(example: SpecExample) -> int:
    """The line of `// output[y, x] = …`."""
    return _line(example, r"(?m)^[ \t]*//.*\[.*=.*\[")


def line_of_value(example: SpecExample, tensor: str, at: int) -> int:
    """The line of a tensor's value, the first being 0."""
    start = re.search(rf"(?m)^[ \t]*{tensor}\s*:[^)]*\)", example.text)
    line = example.line + (example.text.count("\n", 0, start.end()) if start else 0)
    for text in example.text[start.end() :].split("\n") if start else ():
        here = len(re.findall(r"-?\d[\d.eE+-]*", text.split("//", 1)[0]))
        if at < here:
            return line
        at -= here
        line += 1
    return example.line


def _line(example: SpecExample, pattern: str | None) -> int:
    found = pattern and re.search(pattern, example.text)
    return example.line + (example.text.count("\n", 0, found.start()) if found else 0)
