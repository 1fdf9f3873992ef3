"""HTML pages of one file that load nothing, Markdown, XML, and programs, made of the templates in the folder
`templates`."""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from importlib import metadata

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from ..errors import printable, printable_lines, short_line
from ..files import write_output
from .markdown import block, code, plain

MARK = '<meta name="generator" content="opmap">'
"""What a page of opmap has in its first lines (see page.html)."""


def page(template: str, *, styles: Sequence[str] = (), script: str | None = None, **values: object) -> str:
    """Returns a page. The template gets the values, the version of opmap, the style sheets and the script.

    `styles` are the names of further style sheets, `script` is that of the script. The page's own policy forbids every
    other script and style. All texts are escaped.
    """
    environment = _environment()
    policy, sources = "default-src 'none'", {}
    for kind, names in (("style", ("report.css", *styles)), ("script", (script,) if script else ())):
        source = "".join(_source(environment, name) for name in names)
        policy += f"; {kind}-src '{_hash(source)}'" if names else ""
        sources[kind] = Markup(source)
    return environment.get_template(template).render(
        **values, **sources, policy=policy, version=metadata.version("opmap")
    )


def text_page(template: str, **values: object) -> str:
    """Returns a text: Markdown, XML, or a program.

    Markdown must pass each text from outside through `plain`, `code` or `block`.
    """
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("opmap", "reports/templates"),
        autoescape=select_autoescape(),
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {filter.__name__: filter for filter in (short_line, printable, plain, code, block)}
    return environment


def _printable(value: object) -> object:
    """Returns what a page shows of a value: a text that is no markup without control characters."""
    return printable_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def write_page(path: str | os.PathLike[str], content: str) -> None:
    """Writes a page into a file. Raises InputError if it cannot be written."""
    write_output(path, content.encode(errors="backslashreplace"))


def _source(environment: Environment, name: str) -> str:
    """Returns the text of a template that is no template: a style sheet or a script."""
    assert environment.loader is not None, "the environment has a loader"
    return environment.loader.get_source(environment, name)[0].replace("\r\n", "\n")


def _hash(text: str) -> str:
    """Returns the hash by which the page's own policy knows a style sheet or a script. No other one is obeyed."""
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
