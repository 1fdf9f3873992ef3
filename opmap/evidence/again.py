"""The options with which a case runs again where it ran, and as it ran. Light to import, so that `--help` is quick."""

from __future__ import annotations

from collections.abc import Mapping

_OPTIONS = (
    *("provider", "dml_runtime", "runtime", "adapter", "device_id", "feature_level", "index_conversion"),
    *("provider_option", "session_option", "ep_library", "disable_metacommands"),
)


def option_words(selection: Mapping[str, object]) -> list[str]:
    """Returns the words of these options on a command line. `selection` has their values, as run.json holds them."""
    words = []
    for name in _OPTIONS:
        value, option = selection.get(name), f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif isinstance(value, list):
            words += [word for entry in value for word in (option, str(entry))]
        elif value not in (None, False):
            words += [option, str(value)]
    return words
