"""The errors opmap raises. Each names where, what was wanted and what was got, in one line."""

from __future__ import annotations

from typing import ClassVar

from .vocabulary import Verdict


class OpmapError(Exception):
    """Base of every error that opmap raises on purpose."""


class PseudocodeError(OpmapError, ValueError):
    """Raised when pseudocode, a formula or an example cannot be read or evaluated.

    `text` and `offset` say where; `str()` is one line, `caret()` shows the place.
    """

    def __init__(self, problem: str, text: str = "", offset: int | None = None):
        self.problem, self.text, self.offset = problem, text, offset
        where = ""
        if offset is not None:
            line = text.count("\n", 0, offset) + 1
            column = offset - (text.rfind("\n", 0, offset) + 1) + 1
            where = f" at line {line}, column {column}"
        super().__init__(f"{problem}{where}")

    def caret(self) -> str:
        """The offending line with a caret under the offset."""
        if self.offset is None:
            return self.text
        start = self.text.rfind("\n", 0, self.offset) + 1
        end = self.text.find("\n", self.offset)
        line = self.text[start : end if end >= 0 else len(self.text)]
        return f"{line}\n{' ' * (self.offset - start)}^"


class InputError(OpmapError, ValueError):
    """Raised when something given from outside is unusable: a file, a JSON value, an option.

    `path` is the place inside the file (`$.resources.x`), `file` the file, `rule` the rule id if one is broken. Message
    and path quote what they were given; line breaks and control characters in it are escaped.
    """

    def __init__(self, message: str, *, path: str | None = None, file: str | None = None, rule: str | None = None):
        self.message, self.path, self.file, self.rule = printable(message), path and printable(path), file, rule
        super().__init__(self.message)

    def __str__(self) -> str:
        return ": ".join(printable(str(part)) for part in (self.file, self.path, self.message) if part)


class RuleError(InputError):
    """Raised when a descriptor breaks rules of its documentation; `violations` lists all, in the spec's order."""

    def __init__(self, violations, *, path: str | None = None, file: str | None = None):
        self.violations = tuple(violations)
        first = self.violations[0]
        path = f"{path}.{first.subject}" if path else first.subject
        super().__init__(f"{first.message} ({first.rule})", path=path, file=file, rule=first.rule)


class MappingError(OpmapError, ValueError):
    """Raised when a valid descriptor has no equivalent ONNX graph; the message says why.

    `verdict` is the verdict of a case that meets this error.
    """

    def __init__(self, message: str, *, verdict: Verdict = Verdict.ERROR):
        self.verdict = verdict
        super().__init__(message)


class ProviderError(OpmapError, RuntimeError):
    """Raised when an execution provider is missing, cannot load a model, or fails to run it; `stage` says which.

    `verdict` is what a case that meets it gets.
    """

    verdict: ClassVar[Verdict] = Verdict.ERROR

    def __init__(self, message: str, *, stage: str | None = "load"):
        self.stage = stage
        super().__init__(message)


def describe(error: BaseException) -> str:
    """`ValueError: its message` in one line; a foreign exception may fail even at saying its message."""
    try:
        said = " ".join(str(error).split())
    except Exception:
        said = ""
    return f"{type(error).__name__}{': ' if said else ''}{said}"


def printable(text: str) -> str:
    """The text with control characters and line breaks escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
