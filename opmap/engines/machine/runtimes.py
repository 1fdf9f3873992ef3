"""Which ONNX Runtime is installed, and which plugin EPs. It asks the files that are there, not a list of names.

Several distributions install the same package `onnxruntime` (onnxruntime-directml, onnxruntime-webgpu, ...): two of
them in one folder break each other's files. A plugin EP has a package of its own and lives beside any of them.
"""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import msgspec

from ...errors import ProviderError
from .facts import one_line

FAMILY = "onnxruntime"
"""The name of the package, and how the names of ONNX Runtime's distributions begin."""

UNNAMED = "onnxruntime (of no distribution)"
"""Stands for the name of an ONNX Runtime that was not installed, but built, and found on the import path."""

DIRECTML_WHEELS = {"win-amd64": "onnxruntime-directml", "win-arm64": "onnxruntime-windowsml"}
"""The distribution with the DirectML EP, by the platform that Python was built for. Other platforms have none."""

_PLUGIN_NAMES = f"{FAMILY}-ep-"
_PACKAGES = re.compile(r"^(?:\.\./)?(\w+)[/\\]__init__\.py\b", re.MULTILINE)
_VERSION = re.compile(r"^__version__ *= *[\"']([\w.+!-]{1,50})[\"']", re.MULTILINE)
_MAX_SOURCE = 100_000
"""The most bytes of a package's `__init__.py` that are read."""


class Plugin(msgspec.Struct, frozen=True):
    """An installed plugin EP. `package` is the Python package with `get_library_path()` and `get_ep_names()`."""

    distribution: str
    version: str
    package: str


def installed() -> dict[str, str]:
    """Returns the version of each distribution that installed the package `onnxruntime`, by the distribution's name.

    More than one means that they overwrote each other's files. The key is UNNAMED if the package can be imported but no
    distribution has it. The dictionary is empty if there is no such package.
    """
    file = _package_file()
    if file is None:
        return {}
    return {name: str(distribution.version) for name, distribution in _owners(file)} or {UNNAMED: _version_in(file)}


def package_of(file: str | None) -> str | None:
    """Returns the installed distribution that a file of the package `onnxruntime` belongs to.

    `file` is `onnxruntime.__file__`. Returns None if no distribution has this file, or several have it.
    """
    owners = dict(_owners(file)) if file else {}
    return next(iter(owners)) if len(owners) == 1 else None


def require_one(versions: dict[str, str] | None = None) -> str:
    """Returns the name of the one installed distribution, or UNNAMED. `versions` is by default `installed()`.

    Raises ProviderError if none or several are installed. The message contains the command that repairs it.
    """
    if versions is None:
        versions = installed()
        if not versions and (broken := sorted({name for name, _ in _distributions(FAMILY)})):
            command = replace_command(broken, broken[0])
            raise ProviderError(f"{' and '.join(broken)} cannot be imported, its files are missing: {command}")
    if not versions:
        wanted = DIRECTML_WHEELS.get(sysconfig.get_platform(), FAMILY)
        raise ProviderError(f"ONNX Runtime is not installed: {install_command(wanted)}")
    if len(versions) > 1:
        pairs = " and ".join(f"{name} {version}" for name, version in versions.items())
        own = (name for name in versions if name != FAMILY)  # the plain one may be there as a dependency alone
        keep = next((name for name in DIRECTML_WHEELS.values() if name in versions), next(own, FAMILY))
        commands = f"{uninstall_command(list(versions))}, then {install_command(keep)}"
        raise ProviderError(f"{pairs} are installed together, and overwrite each other's files: {commands}")
    return next(iter(versions))


def plugins() -> list[Plugin]:
    """Returns the installed plugin EPs, sorted. It reads their files, and imports nothing.

    A plugin EP is a distribution named `onnxruntime-ep-*`, or another distribution of the family whose package has
    `get_library_path` and `get_ep_names` (or `get_ep_name`).
    """
    plugins_by_name = {}
    for name, distribution in _distributions():
        if name in plugins_by_name or not name.startswith(FAMILY):
            continue
        packages = sorted(p for p in _packages(distribution) if p != FAMILY and _is_plugin(distribution, p))
        if not packages and name.startswith(_PLUGIN_NAMES):
            packages = [name.replace("-", "_")]
        if packages:
            plugins_by_name[name] = Plugin(name, str(distribution.version), packages[0])
    return [plugins_by_name[name] for name in sorted(plugins_by_name)]


def import_problem(error: Exception) -> str:
    """Returns one line that says why ONNX Runtime cannot be imported, and what to install if Windows lacks a DLL."""
    text = one_line(error)
    if "DLL load failed" not in text:  # the words of Python for Windows, in every language of Windows
        return text
    processor = "arm64" if sysconfig.get_platform() == "win-arm64" else "x64"
    return (
        f"{text.rstrip('.')}; the Microsoft Visual C++ runtime may be missing or too old: install"
        f" https://aka.ms/vc14/vc_redist.{processor}.exe"
    )


# --- commands for the user ---


def install_command(name: str) -> str:
    """Returns the command that installs a distribution of ONNX Runtime.

    With its dependencies, pip would install a second ONNX Runtime beside onnxruntime-windowsml.
    """
    return f"python -m pip install {'--no-deps ' if name == 'onnxruntime-windowsml' else ''}{name}"


def uninstall_command(names: Sequence[str]) -> str:
    """Returns the command that uninstalls distributions."""
    return f"python -m pip uninstall -y {' '.join(names)}"


def replace_command(names: Sequence[str], wanted: str) -> str:
    """Returns one line, for PowerShell or a POSIX shell, after which `wanted` is installed in place of `names`."""
    return f"{uninstall_command(names)}; {install_command(wanted)}"


# --- what the files say ---


def _package_file() -> str | None:
    """Returns the `__init__.py` of the package `onnxruntime` that an import takes or took; None if there is none.

    A folder without this file is what a broken installation leaves.
    """
    try:
        spec = find_spec(FAMILY)
    except (ImportError, ValueError):  # a module without a spec is in its place
        return None
    return spec.origin if spec else None


def _owners(file: str) -> list[tuple[str, metadata.Distribution]]:
    """Returns (name, distribution) for each distribution that installed this file of the package, sorted by name."""
    wanted = _real_path(file)
    owners = {
        name: distribution
        for name, distribution in _distributions(FAMILY)
        if _real_path(distribution.locate_file(f"{FAMILY}/__init__.py")) == wanted
    }
    return sorted(owners.items())


def _distributions(package: str | None = None) -> Iterator[tuple[str, metadata.Distribution]]:
    """Yields (name, distribution) for each readable distribution on the import path. The name is in its normal form.

    With `package`, it yields only those that installed this top-level package. The metadata of the others is not read.
    """
    for distribution in metadata.distributions():
        if Path(getattr(distribution, "_path", "")).name.startswith("~"):
            continue  # pip has renamed what it could not remove, for example a DLL in use
        if package is not None and package not in _packages(distribution):
            continue
        try:
            name = distribution.metadata["Name"]
        except Exception:  # without metadata, each version of Python raises another exception
            continue
        if name:
            yield re.sub(r"[-_.]+", "-", name).lower(), distribution


def _packages(distribution: metadata.Distribution) -> set[str]:
    """Returns the top-level packages of a distribution, by its list of files.

    Some systems keep only `top_level.txt`.
    """
    try:
        files = distribution.read_text("RECORD") or distribution.read_text("installed-files.txt")
        return set(_PACKAGES.findall(files)) if files else set((distribution.read_text("top_level.txt") or "").split())
    except (OSError, ValueError):  # not readable, not UTF-8
        return set()


def _is_plugin(distribution: metadata.Distribution, package: str) -> bool:
    """Returns whether the package's `__init__.py` names the functions of a plugin EP."""
    text = _text(str(distribution.locate_file(f"{package}/__init__.py")))
    return re.search(r"\bget_library_path\b", text) is not None and re.search(r"\bget_ep_names?\b", text) is not None


def _version_in(file: str) -> str:
    match = _VERSION.search(_text(file))
    return match[1] if match else "unknown"


def _text(file: str) -> str:
    """Returns the beginning of a source file; an empty text if it cannot be read."""
    try:
        with open(file, "rb") as source:
            return source.read(_MAX_SOURCE).decode("utf-8", "replace")
    except OSError:
        return ""


def _real_path(path: object) -> str:
    return os.path.normcase(os.path.realpath(str(path)))
