"""Finds and reads the pages of the manual. Light to import: no NumPy, no ONNX."""

from __future__ import annotations

from ..errors import InputError, shown

ORDER = (
    "commands",
    "windows",
    "linux",
    "providers",
    "tiers",
    "cases",
    "variants",
    "results",
    "diagnosis",
    "survey",
    "baseline",
    "flaky",
    "known-failures",
    "versions",
    "dxdispatch",
    "export",
    "models",
    "fuzz",
    "documentation",
    "python",
    "safety",
    "limits",
)
"""The names of the pages, in the order in which a new user needs them. Each page is the file NAME.md beside this
one."""


def titles() -> dict[str, str]:
    """Returns the title of each page by the page's name, in the order of ORDER. A title is the page's first heading."""
    return {name: _title(_text(name)) for name in ORDER}


def read_page(name: str) -> str:
    """Returns the Markdown text of a page. Raises InputError if there is no page of this name."""
    if name not in ORDER:
        raise InputError(f"manual: PAGE must be one of {', '.join(ORDER)}, got {shown(name)}")
    return _text(name)


def _text(name: str) -> str:
    from importlib.resources import files  # here, so that --help is quick

    return files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ").strip()
