"""Reads constraints from prose in any language, by the identifiers in a sentence and their order.

`The *DimensionCount* of this tensor must match *InputTensor.DimensionCount*` is read as the two names that it holds. If
a translation has lost one of the names, nothing is read from the sentence.
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


Equality = tuple[str, str]
"""Two sides that must be equal: attributes of tensors, as `InputTensor.DataType`; or a number and one of a tensor."""


@dataclass(frozen=True)
class _Word:
    """A name of the operator in a sentence: a tensor, an attribute with or without its tensor, or a number field.

    `start` and `end` are offsets into the sentence.
    """

    tensor: str | None = None
    attribute: str | None = None
    number: str | None = None
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class ProseReader:
    """Reads sentences with the names of one operator."""

    spec: Spec

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """The names of the tensor fields."""
        return self.spec.field_names("input", "output")

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The names of the number fields."""
        return self.spec.field_names("uint")

    @cached_property
    def arrays(self) -> tuple[str, ...]:
        """The names of the fields that are arrays of numbers."""
        return self.spec.field_names("uints", "ints")

    def plain(self, text: str) -> str:
        """Returns the text without Markdown marks, and with split names joined: `*InputTensor. Sizes*`."""
        return self._split.sub(r"\1.\2", re.sub(r"[*`\\]", "", text))

    def sentences(self, text: str) -> Iterator[tuple[int, str]]:
        """Yields the sentences of a text, each with the number of line ends before it. Too long ones are left out."""
        text, at = self.plain(text), 0
        lines = 0
        for end in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
            sentence = text[at:end]
            before = sentence[: len(sentence) - len(sentence.lstrip())]
            if sentence.strip() and len(sentence) <= LONGEST_SENTENCE:
                yield lines + before.count("\n"), " ".join(sentence.split())
            lines += sentence.count("\n")
            at = end

    def field(self, text: str) -> str | None:
        """Returns the field whose section starts with this heading (`-field Axis`, or only the name), or None."""
        name = self.plain(text).strip().removeprefix("-field").strip()
        return name if name in (*self.tensors, *self.numbers, *self.arrays) else None

    def equalities(self, sentence: str, field: str | None) -> tuple[Equality, ...]:
        """Returns the equalities that a sentence states.

        They are about the tensors that it lists (`InputTensor and OutputTensor must have the same DataType`), or else
        about `field`, the field in whose section the sentence stands: a tensor, or the data type of a scalar.
        """
        words = self._words(sentence)
        if any(word.number for word in words):
            return ()
        if listed := self._listed(words):
            return listed
        if field in self.spec.scalars.values():
            typed = (word for word in words if word.tensor and word.attribute == "DataType")
            return tuple((str(field), f"{word.tensor}.DataType") for word in typed)
        return self._of_field(words, field) if field in self.tensors else ()

    def intervals(self, text: str) -> Iterator[tuple[int, str]]:
        """Yields intervals such as `[0, InputTensor.DimensionCount)`, each with the number of line ends before it."""
        text, lines, at = self.plain(text), 0, 0
        for match in _INTERVAL.finditer(text):
            lines, at = lines + text.count("\n", at, match.start()), match.start()
            interval = f"[{' '.join(match[1].split())}, {' '.join(match[2].split())}{match[3]}"
            if self._is_readable(interval, "in"):
                yield lines, interval

    def bound(self, sentence: str) -> str | None:
        """Returns the expression in `… cannot exceed InputTensor.DimensionCount`, or None."""
        match = _BOUND.search(sentence)
        if match is None:
            return None
        expression = re.sub(rf"\bminus\b|[{_DASHES}]", "-", re.sub(r"\bplus\b", "+", match[1])).rstrip(". ")
        return expression if self._is_readable(expression, "<=") else None

    # --- words ---

    @cached_property
    def _split(self) -> re.Pattern[str]:
        """A tensor and its attribute with spaces around the point."""
        return re.compile(rf"({'|'.join(self.tensors)})[ \t]?\.[ \t]?({'|'.join(_ATTRIBUTES)})")

    @cached_property
    def _piece(self) -> re.Pattern[str]:
        """One name of the operator, or a point."""
        numbers = "|".join(sorted(self.numbers, key=len, reverse=True)) or "(?!)"  # an operator may have none
        tensors, attributes = "|".join(self.tensors), "|".join(_ATTRIBUTES)
        return re.compile(rf"({numbers})|(?:({tensors})\.)?({attributes})|({tensors})|\.")

    def _is_readable(self, expression: str, relation: str) -> bool:
        """Returns whether an expression has names of the operator only, and can stand behind the relation in a
        formula.
        """
        names = re.findall(r"[A-Za-z_][\w.]*", expression)
        if not names or not all(map(self._is_name, names)):
            return False
        try:
            parse_formula(f"x {relation} {expression}")
        except PseudocodeError:
            return False
        return True

    def _is_name(self, name: str) -> bool:
        """Returns whether the operator has this number field, or this attribute of a tensor."""
        tensor, _, attribute = name.partition(".")
        return name in self.numbers or (tensor in self.tensors and attribute in _ATTRIBUTES)

    def _words(self, sentence: str) -> list[_Word]:
        """Returns the operator's names in a sentence, in order. Names that a translation ran together are separated."""
        words: list[_Word] = []
        for run in re.finditer(r"[A-Za-z_][A-Za-z0-9_.]*", sentence):
            pieces: list[_Word] = []
            at = 0
            while at < len(run[0]) and (piece := self._piece.match(run[0], at)):
                number, owner, attribute, tensor = piece.groups()
                if number or attribute or tensor:
                    start = run.start()
                    pieces.append(_Word(owner or tensor, attribute, number, start + piece.start(), start + piece.end()))
                at = piece.end()
            if at == len(run[0]):
                words += pieces
        return words

    def _listed(self, words: list[_Word]) -> tuple[Equality, ...]:
        """Reads `InputTensor and OutputTensor must have the same DataType and Sizes`: several tensors, then attributes.

        Sizes are read only if there are two tensors: of more, the spec chooses which one the others are compared with.
        """
        tensors = {word.tensor for word in words if word.tensor}
        attributes = dict.fromkeys(word.attribute for word in words if word.attribute)
        if len(tensors) < 2 or any(word.tensor and word.attribute for word in words):
            return ()
        first, *others = [tensor for tensor in self.tensors if tensor in tensors]
        readable = {*_COMPARED, "Sizes"} if len(tensors) == 2 else {*_COMPARED}
        pairs = ((other, a) for a in attributes if attributes.keys() <= readable for other in others)
        return tuple((f"{other}.{attribute}", f"{first}.{attribute}") for other, attribute in pairs)

    def _of_field(self, words: list[_Word], field: str) -> tuple[Equality, ...]:
        """Reads `The DimensionCount and DataType of this tensor must match InputTensor.DimensionCount`.

        Such a sentence has clauses. Each names attributes of `field` first, then attributes of another tensor.
        """
        clauses: list[tuple[list[_Word], list[_Word]]] = []
        for word in words:
            if word.tensor not in (None, field):
                if clauses:
                    clauses[-1][1].append(word)
            elif word.attribute and (word.tensor is None or word.attribute in _COMPARED):
                if not clauses or clauses[-1][1] or word.start - clauses[-1][0][-1].end > _CONJUNCTION:
                    clauses.append(([], []))
                clauses[-1][0].append(word)
        if len(clauses) > 1 and not clauses[-1][1] and clauses[-2][1]:
            # The last attributes belong to the other tensor: `… must match InputTensor.DimensionCount and DataType`.
            own_words, _ = clauses.pop()
            tensor = clauses[-1][1][-1].tensor
            clauses[-1][1].extend(_Word(tensor, word.attribute) for word in own_words)
        stated = []
        for own_words, other_words in clauses:
            if other_words and not any(word.attribute for word in other_words):  # `… must match those of InputTensor`
                stated += [
                    (f"{field}.{own.attribute}", f"{other_words[0].tensor}.{own.attribute}") for own in own_words
                ]
                continue
            if any(word.attribute is None for word in other_words):
                continue
            for attribute in [word.attribute for word in own_words] if other_words else ():
                same = [word for word in other_words if word.attribute == attribute] or other_words[:1]
                stated += [(f"{field}.{attribute}", f"{word.tensor}.{word.attribute}") for word in same]
        return tuple(stated)


LONGEST_SENTENCE = 2000
"""The longest sentence that is read, in characters. No page has a longer one, and hostile text could take long to
read."""

_CONJUNCTION = 12
"""The most characters between two attributes of one clause (` and its `). With more, another clause starts."""

_SENTENCE_END = re.compile(r"[.!?](?=\s)|[\u3002\uff01\uff1f]")
"""The end of a sentence; the last three marks are those of Chinese and Japanese."""

_DASHES = "\\u2212\\u2013"
"""The minus sign and the en dash, escaped for a regular expression: pages use them for a hyphen-minus."""

_INTERVAL = re.compile(
    r"\[\s{0,2}([A-Za-z0-9_.+ -]{1,80}?)\s{0,2},\s{0,2}([A-Za-z0-9_.+\s-]{1,120}?)\s{0,2}(\)|\](?!\())"
)
_BOUND = re.compile(
    r"\b(?:cannot|can't|can not|must not|may not|mustn't)\s+exceed\s+"
    rf"([A-Za-z_0-9.]+(?:\s*(?:[-+{_DASHES}]|\b(?:minus|plus)\b)\s*[A-Za-z_0-9.]+){{0,5}})"
)
