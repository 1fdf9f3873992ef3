"""The manual: short pages in Markdown, readable in the repository and shown in the terminal by `opmap manual`."""

from .pages import read_page, titles

__all__ = ["read_page", "titles"]
