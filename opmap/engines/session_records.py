"""What sessions leave behind: their files, the nodes in a profile, the text of an error."""

from __future__ import annotations

import json
import locale
import os
import re
from pathlib import Path

import numpy as np

from ..errors import clean
from .steps import Event


def written_files(folder: Path, given_names: frozenset[str]) -> dict[str, np.ndarray]:
    """Returns the contents of the files in a folder, by relative name, without the files in `given_names`."""
    paths = sorted(Path(place, name) for place, _, names in os.walk(folder) for name in names)
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    return {n: np.frombuffer(p.read_bytes(), np.uint8) for n, p in names.items() if n not in given_names}


_BACKSLASH = re.compile(r'\\(["\\/bfnrtu]?)')
"""A backslash, with the letter of an escape sequence of JSON if it begins one."""


def profiled_nodes(path: Path) -> list[Event]:
    """Returns every node that ran, from ONNX Runtime's profile.

    Up to version 1.24 ONNX Runtime escapes no backslash in names, and on Windows names may not be UTF-8.
    """
    raw = path.read_bytes().decode(errors="replace")
    text = _BACKSLASH.sub(lambda match: match[0] if match[1] else "\\\\", raw)
    return [
        Event(
            event["args"]["op_name"],
            event["args"]["provider"],
            [next(iter(t.values())) for way in ("input", "output") for t in event["args"].get(f"{way}_type_shape", ())],
        )
        for event in json.loads(text)
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time") and event["args"].get("provider")
    ]


_NOISE = re.compile(r"\\[\w.]+\.(?:pyd|dll)![0-9A-F]+: \(caller: [0-9A-F]+\) Exception\(\d+\) tid\([0-9a-f]+\)")
_BUILD_FOLDER = re.compile(r"[A-Za-z]:\\(?:[^\\\s]+\\)*?(?=onnxruntime\\core\\)")


def tidy(message: str) -> str:
    """Returns ONNX Runtime's message in one line.

    Removes the parts that differ between runs and builds: addresses, thread ids, the folder where it was built.
    """
    return " ".join(_NOISE.sub(":", _BUILD_FOLDER.sub("", message)).split())


def one_line(error: Exception) -> str:
    """Returns the message of an error in one line; the name of its type if it has no message."""
    return tidy(clean(_message(error))) or type(error).__name__


def _message(error: Exception) -> str:
    """Returns the message of an error of ONNX Runtime.

    On a Windows in another language than English, DirectML's messages are in the system's code page. ONNX Runtime's
    Python package takes them for UTF-8 and raises a UnicodeDecodeError, which holds the message's bytes.
    """
    if isinstance(error, UnicodeDecodeError):
        return error.object.decode(locale.getencoding(), "replace")
    return str(error)
