"""Which ONNX Runtime is installed. Its distributions share one package folder: two of them break each other's files."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata

from ..errors import ProviderError

DISTRIBUTIONS = (
    "onnxruntime",
    "onnxruntime-directml",
    "onnxruntime-windowsml",
    "onnxruntime-gpu",
    "onnxruntime-openvino",
    "onnxruntime-qnn",
)
"""Names of the distributions that install the package `onnxruntime`."""

WINDOWSML_HINT = "python -m pip install --no-deps onnxruntime-windowsml"
"""The command that installs onnxruntime-windowsml. With its dependencies, pip would install a second ONNX Runtime."""


def installed() -> dict[str, str]:
    """Returns the version of each installed distribution of ONNX Runtime, by the distribution's name."""
    versions: dict[str, str] = {}
    for name in DISTRIBUTIONS:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


@dataclass(frozen=True)
class Plugin:
    """An installed plugin EP: its distribution with its version, and the package to import."""

    distribution: str
    version: str
    module: str


def plugins() -> list[Plugin]:
    """Returns the installed plugin EPs."""
    found = []
    for d in metadata.distributions():
        name = d.metadata["Name"]
        if name.startswith("onnxruntime-ep-") or name == "onnxruntime-qnn":
            found.append(Plugin(name, d.version, name.replace("-", "_")))
    return found


def import_problem(error: ImportError) -> str:
    """Returns why ONNX Runtime cannot be imported, in one line."""
    return f"ONNX Runtime cannot be imported: {error}"


def package_of(file: str | None) -> str | None:
    """Returns the installed distribution that a file of the package `onnxruntime` belongs to.

    `file` is `onnxruntime.__file__`. Returns None if no distribution has this file, or several have it.
    """
    owners = []
    for name in installed():
        own = metadata.distribution(name).locate_file("onnxruntime/__init__.py")
        if file and os.path.normcase(os.path.abspath(str(own))) == os.path.normcase(os.path.abspath(file)):
            owners.append(name)
    return owners[0] if len(owners) == 1 else None


def require_one(versions: dict[str, str] | None = None) -> str:
    """Returns the name of the one installed distribution. `versions` is by default `installed()`.

    Raises ProviderError if none or several are installed. The message contains the command that repairs it.
    """
    versions = installed() if versions is None else versions
    if not versions:
        raise ProviderError(
            "ONNX Runtime is not installed: python -m pip install onnxruntime"
            " (on Windows with a GPU: onnxruntime-directml)"
        )
    if len(versions) > 1:
        pairs = " and ".join(f"{name} {version}" for name, version in versions.items())
        preferred = ("onnxruntime-directml", "onnxruntime-windowsml")
        keep = next((name for name in preferred if name in versions), next(iter(versions)))
        no_deps = "--no-deps " if keep == "onnxruntime-windowsml" else ""
        raise ProviderError(
            f"{pairs} are installed together, and overwrite each other's files: python -m pip uninstall -y"
            f" {' '.join(versions)}, then python -m pip install {no_deps}{keep}"
        )
    return next(iter(versions))
