"""The command with which a case runs again where it ran, and as it ran. Light to import, so that `--help` is quick."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping

_OPTIONS = (
    *("provider", "dml_runtime", "runtime", "adapter", "device_id", "feature_level", "index_conversion"),
    *("provider_option", "session_option", "ep_library", "disable_metacommands", "pack", "node"),
)


def again_words(
    selection: Mapping[str, object], *cases: str, file: str | None = None, command: str | None = None
) -> list[str]:
    """Returns the words of the command that runs cases of the catalogue again, or that judges a file again.

    `selection` has the values of the options, as run.json holds them. `command` takes the place of `validate` or
    `check`.
    """
    words = ["opmap", command or "validate"] if file is None else ["opmap", command or "check", file]
    for name in _OPTIONS:
        value, option = selection.get(name), f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif isinstance(value, list):
            words += [word for entry in value for word in (option, str(entry))]
        elif value not in (None, False):
            words += [option, str(value)]
    return [*words, *(word for id in cases for word in ("--case", id))]


def command_line(words: Iterable[str]) -> str:
    """Returns words as one line, which a shell of this system takes as these words."""
    if sys.platform == "win32":
        from subprocess import list2cmdline

        return list2cmdline(words)
    return shlex.join(words)
