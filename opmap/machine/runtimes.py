"""Which ONNX Runtime is installed. Several distributions put files into the same package, and break each other."""

from __future__ import annotations

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
"""Distributions that install the `onnxruntime` package."""

WINDOWSML_HINT = "python -m pip install --no-deps onnxruntime-windowsml"
"""How onnxruntime-windowsml goes beside opmap: with its dependencies, pip would add another ONNX Runtime."""


def installed() -> dict[str, str]:
    """Installed distributions of ONNX Runtime -> version."""
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


def require_one(found: dict[str, str] | None = None) -> str:
    """The name of the one installed distribution. Raises ProviderError for none or several, with the command to run."""
    found = installed() if found is None else found
    if not found:
        raise ProviderError(
            "ONNX Runtime is not installed: python -m pip install onnxruntime (on Windows with a GPU: onnxruntime-directml)"
        )
    if len(found) > 1:
        names = " and ".join(f"{name} {version}" for name, version in found.items())
        keep = next((n for n in ("onnxruntime-directml", "onnxruntime-windowsml") if n in found), next(iter(found)))
        raise ProviderError(
            f"{names} are installed together, and overwrite each other's files: python -m pip uninstall -y"
            f" {' '.join(found)}, then python -m pip install {'--no-deps ' if keep == 'onnxruntime-windowsml' else ''}{keep}"
        )
    return next(iter(found))
