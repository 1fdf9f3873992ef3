"""The errors that opmap raises. Each message says in one line where the error is, what was wanted and what was got."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import ClassVar, Protocol

from .limits import MAX_LINE, MAX_MESSAGE, MAX_NAME, MAX_SHOWN
from .vocabulary import Stage, Verdict


class OpmapError(Exception):
    """The base class of every error that opmap raises on purpose. `exit_code` is that of a command which it ends."""

    exit_code: ClassVar[int] = 2


class PseudocodeError(OpmapError, ValueError):
    """Raised if pseudocode, a formula or an example cannot be read or evaluated.

    `text` is the source text. `offset` is the position of the error in it, or None. `str()` gives one line, `caret()`
    shows the position.
    """

    def __init__(self, problem: str, text: str = "", offset: int | None = None):
        self.problem, self.text, self.offset = problem, text, offset
        position = ""
        if offset is not None:
            line = text.count("\n", 0, offset) + 1
            column = offset - (text.rfind("\n", 0, offset) + 1) + 1
            position = f" at line {line}, column {column}"
        super().__init__(f"{problem}{position}")

    def caret(self) -> str:
        """Returns the line with the error, and a second line with a caret under the offset."""
        if self.offset is None:
            return self.text
        start = self.text.rfind("\n", 0, self.offset) + 1
        end = self.text.find("\n", self.offset)
        line = self.text[start : end if end >= 0 else len(self.text)]
        return f"{line}\n{' ' * (self.offset - start)}^"


class InputError(OpmapError, ValueError):
    """Raised if input from outside cannot be used: a file, a JSON value, an option.

    `path` is the position inside the file (`$.resources.x`), `file` is the file's name, `rule` is the id of the broken
    rule, if there is one. Control characters and line breaks are escaped, and each part is cut: the file's name to
    MAX_NAME, the others to MAX_LINE.
    """

    def __init__(self, message: str, *, path: str | None = None, file: str | None = None, rule: str | None = None):
        self.message, self.path, self.file, self.rule = short_line(message), path and short_line(path), file, rule
        super().__init__(self.message)

    def __str__(self) -> str:
        file = self.file and cut(str(self.file), MAX_NAME)
        return ": ".join(printable(str(part)) for part in (file, self.path, self.message) if part)


@contextmanager
def in_file(file: str) -> Iterator[None]:
    """Adds the name of the file to an InputError that is raised while it is read."""
    try:
        yield
    except InputError as error:
        error.file = error.file or file
        raise


class ContradictionError(InputError):
    """Raised if results can be read, but are incomplete or contradict themselves."""

    exit_code = 1


class BrokenRule(Protocol):
    """One broken rule: the rule's id, the field that breaks it, and a message that says what was wanted and got."""

    @property
    def rule(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def message(self) -> str: ...


class RuleError(InputError):
    """Raised if a descriptor breaks rules of its documentation. `violations` holds all of them, in the spec's order."""

    def __init__(self, violations: Iterable[BrokenRule], *, path: str | None = None, file: str | None = None):
        self.violations = tuple(violations)
        first = self.violations[0]
        path = f"{path}.{first.subject}" if path else first.subject
        super().__init__(f"{first.message} ({first.rule})", path=path, file=file, rule=first.rule)


class MappingError(OpmapError, ValueError):
    """Raised if a valid descriptor has no equivalent ONNX graph. The message says why.

    `verdict` is the verdict of a case that meets this error.
    """

    def __init__(self, message: str, *, verdict: Verdict = Verdict.ERROR):
        self.verdict = verdict
        super().__init__(message)


class ProviderError(OpmapError, RuntimeError):
    """Raised if an execution provider is missing, cannot load a model, or fails to run it.

    `stage` is the stage that failed; None if no stage was reached. `verdict` is the verdict of the case. The message
    may come from outside: it is cleaned (see `clean`).
    """

    verdict: ClassVar[Verdict] = Verdict.ERROR

    def __init__(self, message: str, *, stage: Stage | None = Stage.LOAD):
        self.stage = stage
        super().__init__(clean(message))


class Unsupported(ProviderError):
    """Raised if a provider says that it does not support a model. The message is the provider's own."""

    verdict = Verdict.UNSUPPORTED


def describe(error: BaseException) -> str:
    """Returns `TypeOfError: message` in one line, or only the type if there is no message."""
    message = told(lambda: error)
    return f"{type_name(error)}{': ' if message else ''}{message}"


def type_name(value: object) -> str:
    """Returns the name of the type of a third-party object."""
    return told(lambda: type(value).__name__) or "nameless type"


def told(value: Callable[[], object]) -> str:
    """Returns what `value` returns as a cleaned text. If it raises anything, also SystemExit, the text is empty.

    For the texts of third-party objects: each of their attributes and their `__str__` may be code.
    """
    try:
        return clean(str(value()))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return ""


def clean(text: str) -> str:
    """Returns a text from outside in one line of at most MAX_MESSAGE characters, without what UTF-8 cannot encode."""
    return " ".join(encodable(text[:MAX_MESSAGE]).split())[:MAX_MESSAGE]


def encodable(text: str) -> str:
    """Returns the text with what UTF-8 cannot encode escaped (`\\udc80`): half of a surrogate pair."""
    return text.encode(errors="backslashreplace").decode()


def printable(text: str) -> str:
    """Returns the text with its control characters and line breaks escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def printable_lines(text: str) -> str:
    """Returns the text with its control characters other than line breaks escaped."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def one_line(text: str) -> str:
    """Returns the text in one line, with its control characters escaped."""
    return printable(" ".join(text.split()))


def without_stack(text: str) -> str:
    """Returns the first line of a message, without a stack that follows in it.

    A message that begins with its stack stays whole.
    """
    line = text.partition("\n")[0]
    start = _STACK.split(line, maxsplit=1)[0]
    return line if start.endswith(":") else start


def short_line(text: str) -> str:
    """Returns the beginning of a text in one line, with its control characters and line breaks escaped (see `cut`)."""
    return printable(cut(text))


def cut(text: str, limit: int = MAX_LINE) -> str:
    """Returns the beginning of a text, with a note of how many characters are left out if it is longer than the
    limit.
    """
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text) - limit:,} more characters)"


def shown(value: object) -> str:
    """Returns a value from outside as a message shows it: like `repr`, cut to MAX_SHOWN, and a number of any size."""
    return _SHOWN.repr(value)


def names(values: Collection[object]) -> str:
    """Returns names from outside as a message lists them: the first ten, and how many more there are."""
    listed = ", ".join(cut(str(value), MAX_SHOWN) for value in islice(values, 10))
    return f"{listed} and {len(values) - 10:,} more" if len(values) > 10 else listed


_STACK = re.compile(
    r"\s+(?:stack (?:back)?trace:|(?:(?:current )?thread \w+ (?:\[[^\]]*\] )?|stack )?\(most recent call first\)"
    r"|traceback \(most)",
    re.IGNORECASE,
)
"""The words with which Rust, C++ and Python begin a stack."""


class _Shown(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 2, MAX_SHOWN, MAX_SHOWN

    def repr_int(self, number: int, level: int) -> str:
        """Python refuses to print an integer of more than 4,300 digits."""
        if number.bit_length() <= 256:
            return str(number)
        return f"a number of about {round(number.bit_length() * 0.30103):,} digits"


_SHOWN = _Shown()


def similar(word: str, words: Iterable[str]) -> str:
    """Returns `, did you mean X?` for the most similar one of some words; nothing if none is near."""
    import difflib  # here, so that --help is quick

    near = difflib.get_close_matches(word[:100], [other for other in words if other != word], n=1, cutoff=0.7)
    return f", did you mean {near[0]}?" if near else ""
