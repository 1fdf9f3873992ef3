"""Takes user names, host names and paths out of texts, before results go to people elsewhere. In a bundle, takes the
folders out of the paths of libraries."""

from __future__ import annotations

import getpass
import os
import platform
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ..engines.machine.facts import Fact

KINDS = {"path": "path", "user": "user name", "host": "host name"}
"""What is taken out, each with its name in a list. A placeholder such as <path> stands in its place."""

_GENERIC = frozenset(
    (
        *("admin", "administrator", "all", "build", "builder", "ci", "default", "github", "home", "host", "localhost"),
        *("machine", "nobody", "opmap", "public", "root", "runner", "runneradmin", "shared", "system", "test"),
        *("ubuntu", "user", "users", "vagrant"),
    )
)
"""Names that say nothing about a person or a machine, in lower case."""

_SHORTEST = 3
"""A name with fewer characters is taken out of paths only: it would stand in other words."""

_STOP = r"""\s/\\'"`<>|:*?;,()\[\]{}"""

_PATHS = re.compile(
    rf"""
      (?<![\w:/]) (?: file: /{{2,3}} )? [A-Za-z] :
        (?: [\\/]+ (?: [^\\/'"`<>|:*?;,\r\n]+ (?=\\) | [^{_STOP}]+ (?=/) ) )* [\\/]+ [^{_STOP}]*  # C:\Program Files\x
    | (?<![\w:\\]) \\{{2,4}} [\w.$?-]+ (?: \\{{1,2}} [^{_STOP}]+ )+                                  # \\host\share\x
    | (?<![\w:/.<>\\)\]-]) (?: file:// )? / (?: [^{_STOP}]+ / )+ [^{_STOP}]*                         # /home/name/x
    """,
    re.VERBOSE,
)

_PERSONS = re.compile(rf"(?:/home|[\\/]Users|Documents[ ]and[ ]Settings)[\\/]+([^{_STOP}]+)", re.IGNORECASE)
"""The part of a path that is the name of a user."""

_HOSTS = re.compile(r"(?<![\w:\\])\\{2,4}([\w-]+)[\w.$-]*\\")
"""The part of a network path that is the name of a host."""


class Redactor:
    """Takes names and paths out of texts, and keeps in `removed` what was taken out, by its kind (see KINDS).

    It knows the user, the host and the folders of this machine. Call `learn` with all texts first: a name that stands
    in a path of one text is then taken out of all of them.
    """

    def __init__(self) -> None:
        self.removed: dict[str, list[str]] = {}
        self._names = {"user": _names(_users()), "host": _names(_hosts())}
        self._folders = _folders()

    def learn(self, texts: Iterable[str]) -> None:
        """Adds the names of users and hosts that stand in paths of these texts."""
        for text in texts:
            self._names["user"] |= _names(_PERSONS.findall(text))
            self._names["host"] |= _names(_HOSTS.findall(text))

    def __call__(self, text: str) -> str:
        """Returns the text with placeholders. Of a path, the file name stays if it has an extension."""
        self.learn([text])
        text = _in_paths(text, self._folders, self._path)
        for kind, names in self._names.items():
            for name in sorted(names, key=len, reverse=True):
                pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
                text = re.sub(pattern, partial(self._name, kind), text, flags=re.IGNORECASE)
        return text

    def _path(self, match: re.Match[str]) -> str:
        self._remove("path", match[0])
        last = re.split(r"[\\/]", match[0])[-1]
        return f"<path>/{last}" if re.search(r"\w\.\w", last) else "<path>"

    def _name(self, kind: str, match: re.Match[str]) -> str:
        self._remove(kind, match[0])
        return f"<{kind}>"

    def _remove(self, kind: str, text: str) -> None:
        removed = self.removed.setdefault(kind, [])
        if text not in removed:
            removed.append(text)


def texts(value: object) -> Iterator[str]:
    """Yields the texts in a value of JSON's types, and in a fact."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Fact):
        yield from texts(value.value)
    elif isinstance(value, Mapping):
        yield from texts([*value, *value.values()])
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from texts(entry)


def summary(removed: Mapping[str, list[str]]) -> str:
    """Returns how much was taken out, without saying what: `2 paths, 1 user name`."""
    counts = [(len(removed[kind]), name) for kind, name in KINDS.items() if kind in removed]
    return ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts) or "nothing"


def _users() -> list[str]:
    names = [os.environ.get(name, "") for name in ("USER", "USERNAME", "LOGNAME")]
    with suppress(OSError, RuntimeError, KeyError, ImportError):  # a container may have a user without a name
        names.append(getpass.getuser())
    with suppress(RuntimeError):
        names.append(Path.home().name)
    return names


def _hosts() -> list[str]:
    names = [platform.node(), os.environ.get("COMPUTERNAME", ""), os.environ.get("HOSTNAME", "")]
    return [*names, *(name.partition(".")[0] for name in names)]


def _names(words: Iterable[str]) -> set[str]:
    """Returns the names that are long enough and not generic."""
    return {name for name in words if len(name) >= _SHORTEST and name.lower() not in _GENERIC}


def _folders() -> list[str]:
    """Returns patterns for the folders of this machine, with either separator, also doubled as in JSON. The longest
    folder is the first.
    """
    parts = (re.split(r"[\\/]+", folder.rstrip("\\/")) for folder in {os.getcwd(), tempfile.gettempdir(), *_own_home()})
    patterns = (r"[\\/]+".join(map(re.escape, words)) for words in parts if len([word for word in words if word]) > 1)
    return sorted(patterns, key=len, reverse=True)


def _own_home() -> list[str]:
    with suppress(RuntimeError):
        return [str(Path.home())]
    return []


def _in_paths(text: str, folders: Iterable[str], replace: Callable[[re.Match[str]], str]) -> str:
    """Returns a text with each path replaced. `folders` are patterns of known folders."""
    for folder in folders:  # they may hold spaces, and further parts may follow
        text = re.sub(rf"(?<![\w/\\]){folder}(?:[\\/]+[^{_STOP}]+)*[\\/]*", replace, text, flags=re.IGNORECASE)
    return _PATHS.sub(replace, text)


# --- the paths of libraries ---

_LIBRARY = re.compile(r"\.(?:dll|pyd|dylib|so)(?:\.\d+)*$", re.IGNORECASE)
"""The end of a path that is the path of a library."""

_RUNTIME = re.compile(r"[\\/]onnxruntime[\\/]+capi[\\/]+$", re.IGNORECASE)
"""The end of a path to the folder of ONNX Runtime's own libraries."""

_HOMES = re.compile(r"(?:[A-Za-z]:)?[\\/]+(?:home|Users|Documents and Settings)[\\/]+[^\\/]+[\\/]", re.IGNORECASE)
"""The beginning of a path in the home of a user."""


def without_folders(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Returns facts about a machine in which the paths of libraries have no folders, as they stand in a bundle.

    A library of ONNX Runtime's package is `<runtime>/NAME`, another one in a user's home `<home>/NAME`, any other NAME.
    """
    folders = _folders()

    def placed_in(value: Any, key: str = "") -> Any:
        if isinstance(value, str):
            return _placed(value) if key == "path" else _in_paths(value, folders, placed_match)
        if isinstance(value, Mapping):
            return {name: placed_in(entry, name) for name, entry in value.items()}
        return list(map(placed_in, value)) if isinstance(value, (list, tuple)) else value

    def placed_match(match: re.Match[str]) -> str:
        return _placed(match[0]) if _LIBRARY.search(match[0]) else match[0]

    return {name: Fact(placed_in(fact.value), fact.source, placed_in(fact.error)) for name, fact in facts.items()}


def _placed(path: str) -> str:
    """Returns the path of a library with a placeholder for its folders, or the file name alone."""
    name = re.split(r"[\\/]", path)[-1]
    folder = path.removesuffix(name)
    if _RUNTIME.search(folder):
        return f"<runtime>/{name}"
    in_home = _HOMES.match(folder) or any(folder.startswith(f"{home}{os.sep}") for home in _own_home())
    return f"<home>/{name}" if in_home else name
