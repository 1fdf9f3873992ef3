"""What can be read from the prose in any language: the identifiers, and the order they stand in.

`The *DimensionCount* of this tensor must match *InputTensor.DimensionCount*` is read as the names that it holds. Where
a translation has lost one of them the sentence says nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ..errors import PseudocodeError
from ..pseudocode import parse_formula
from ..spec import Spec

_ATTRIBUTES = ("DimensionCount", "DataType", "Sizes")
_COMPARED = ("DimensionCount", "DataType")


@dataclass(frozen=True)
class Equality:
    """`left` must equal `right`, both as `InputTensor.DataType`."""

    left: str
    right: str


@dataclass(frozen=True)
class _Word:
    """A known name: a tensor, an attribute (of a tensor, if it says of which), or a number field."""

    tensor: str | None = None
    attribute: str | None = None
    number: str | None = None
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class Vocabulary:
    """The names of one operator, and how sentences are read with them."""

    spec: Spec

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        return self.spec.tensors("input", "output")

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        return self.spec.tensors("uint")

    def plain(self, text: str) -> str:
        """Without emphasis and code marks, and with names put together again: `*InputTensor. Sizes*`."""
        return self._split.sub(r"\1.\2", re.sub(r"[*`\\]", "", text))

    def sentences(self, text: str) -> Iterator[tuple[int, str]]:
        """Sentences, each with the number of line ends before it; none that is longer than a page's could be."""
        text, at = self.plain(text), 0
        lines = 0
        for end in [*(m.end() for m in re.finditer(r"[.!?](?=\s)|[。！？]", text)), len(text)]:
            sentence = text[at:end]
            before = sentence[: len(sentence) - len(sentence.lstrip())]
            if sentence.strip() and len(sentence) <= LONGEST_SENTENCE:
                yield lines + before.count("\n"), " ".join(sentence.split())
            lines += sentence.count("\n")
            at = end

    def field(self, text: str) -> str | None:
        """The field whose section begins with this text: `-field Axis`, or only the name."""
        name = self.plain(text).strip().removeprefix("-field").strip()
        return name if name in self.tensors or name in self.numbers else None

    def equalities(self, sentence: str, field: str | None) -> tuple[Equality, ...]:
        """The equalities that a sentence states: of `field`, in whose section it stands, or of all tensors it lists."""
        words = self._words(sentence)
        if any(word.number for word in words):
            return ()
        return self._listed(words) or (self._of_field(words, field) if field in self.tensors else ())

    def intervals(self, text: str) -> Iterator[tuple[int, str]]:
        """`[0, *InputTensor.DimensionCount*)`, each with the number of line ends before it."""
        text, lines, at = self.plain(text), 0, 0
        for match in _INTERVAL.finditer(text):
            lines, at = lines + text.count("\n", at, match.start()), match.start()
            interval = f"[{' '.join(match[1].split())}, {' '.join(match[2].split())}{match[3]}"
            names = re.findall(r"[A-Za-z_][\w.]*", interval)
            if names and all(map(self._known, names)) and _is_formula(f"x in {interval}"):
                yield lines, interval

    def bound(self, sentence: str) -> str | None:
        """What something `cannot exceed`."""
        match = _BOUND.search(sentence)
        if match is None:
            return None
        expression = re.sub(r"\bminus\b|−|–", "-", re.sub(r"\bplus\b", "+", match[1])).rstrip(". ")
        names = re.findall(r"[A-Za-z_][\w.]*", expression)
        known = names and all(map(self._known, names)) and _is_formula(f"x <= {expression}")
        return expression if known else None

    # --- words ---

    @cached_property
    def _split(self) -> re.Pattern:
        return re.compile(rf"({'|'.join(self.tensors)})[ \t]?\.[ \t]?({'|'.join(_ATTRIBUTES)})")

    @cached_property
    def _piece(self) -> re.Pattern:
        longest_first = sorted(self.numbers, key=len, reverse=True)
        tensors, attributes = "|".join(self.tensors), "|".join(_ATTRIBUTES)
        return re.compile(rf"({'|'.join(longest_first)})|(?:({tensors})\.)?({attributes})|({tensors})|\.")

    def _known(self, name: str) -> bool:
        tensor, _, attribute = name.partition(".")
        return name in self.numbers or (tensor in self.tensors and attribute in _ATTRIBUTES)

    def _words(self, sentence: str) -> list[_Word]:
        """The known names in their order; names that a translation has run together are taken apart."""
        words = []
        for run in re.finditer(r"[A-Za-z_][A-Za-z0-9_.]*", sentence):
            pieces, at = [], 0
            while at < len(run[0]) and (piece := self._piece.match(run[0], at)):
                number, of, attribute, tensor = piece.groups()
                if number or attribute or tensor:
                    start = run.start()
                    pieces.append(_Word(of or tensor, attribute, number, start + piece.start(), start + piece.end()))
                at = piece.end()
            if at == len(run[0]):
                words += pieces
        return words

    def _listed(self, words: list[_Word]) -> tuple[Equality, ...]:
        """`InputTensor and OutputTensor must have the same DataType`."""
        tensors = {word.tensor for word in words if word.tensor}
        attributes = {word.attribute for word in words if word.attribute}
        if len(tensors) < 2 or len(attributes) != 1 or any(word.tensor and word.attribute for word in words):
            return ()
        (attribute,) = attributes
        first, *others = [tensor for tensor in self.tensors if tensor in tensors]
        if attribute not in _COMPARED:
            return ()
        return tuple(Equality(f"{other}.{attribute}", f"{first}.{attribute}") for other in others)

    def _of_field(self, words: list[_Word], field: str) -> tuple[Equality, ...]:
        """`The DimensionCount and DataType of this tensor must match InputTensor.DimensionCount`: attributes of this
        tensor, then what they must match, where that names another tensor's."""
        groups: list[tuple[list[_Word], list[_Word]]] = []
        for word in words:
            if word.tensor not in (None, field):
                if groups:
                    groups[-1][1].append(word)
            elif word.attribute and (word.tensor is None or word.attribute in _COMPARED):
                if not groups or groups[-1][1] or word.start - groups[-1][0][-1].end > _CONJUNCTION:
                    groups.append(([], []))
                groups[-1][0].append(word)
        if len(groups) > 1 and not groups[-1][1] and groups[-2][1]:
            # the last attributes belong to what goes before: `… must match InputTensor.DimensionCount and DataType`
            own, _ = groups.pop()
            of = groups[-1][1][-1].tensor
            groups[-1][1].extend(_Word(of, word.attribute) for word in own)
        stated = []
        for own, matched in groups:
            if any(word.attribute is None for word in matched):  # `… must match those of InputTensor`
                continue
            for attribute in [word.attribute for word in own] if matched else ():
                same = [word for word in matched if word.attribute == attribute] or matched[:1]
                stated += [Equality(f"{field}.{attribute}", f"{word.tensor}.{word.attribute}") for word in same]
        return tuple(stated)


LONGEST_SENTENCE = 2000

_CONJUNCTION = 12
"""Attributes with more characters between them (` and its `) stand in clauses of their own."""

_INTERVAL = re.compile(
    r"\[\s{0,2}([A-Za-z0-9_.+ -]{1,80}?)\s{0,2},\s{0,2}([A-Za-z0-9_.+ -]{1,120}?)\s{0,2}(\)|\](?!\())"
)
_BOUND = re.compile(
    r"\b(?:cannot|can't|can not|must not|may not|mustn't)\s+exceed\s+"
    r"([A-Za-z_0-9.]+(?:\s*(?:[-+−–]|\b(?:minus|plus)\b)\s*[A-Za-z_0-9.]+){0,5})"
)


def _is_formula(text: str) -> bool:
    try:
        parse_formula(text)
    except PseudocodeError:
        return False
    return True
