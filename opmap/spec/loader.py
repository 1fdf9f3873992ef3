"""Loads the spec files. A spec holds the page's text as printed; `corrected()` is the same with the errata put right."""

from __future__ import annotations

import os
from functools import cache, cached_property
from importlib.resources import files
from typing import Literal

import msgspec

from ..errors import InputError
from ..files import read_text
from ..pseudocode import Example, parse_example, parse_lines


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a page stands: its id (`NS:directml.…`), public address, and the repository file at a commit."""

    id: str
    address: str
    repository: str
    path: str
    commit: str


class Pseudocode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The general lines, and which field each of their tensor names is."""

    line: int
    text: str
    tensors: dict[str, str]


class Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member of the struct."""

    name: str
    kind: Literal["input", "output", "uint"]


class Breaks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to break a rule: the example to start from, and the fields to set."""

    example: str
    set: dict[str, int | str | list[int]]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One constraint: its id, our words for it, and the formula that states it (`support` is the support table).

    A derived rule is printed nowhere, and follows from what the page gives a meaning to.
    """

    id: str
    text: str
    check: str
    breaks: Breaks
    line: int | None = None
    derived: bool = False


class SpecExample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A worked example, as printed."""

    id: str
    line: int
    text: str
    title: str = ""

    def parsed(self) -> Example:
        """The example's fields, tensors and expanded line."""
        return parse_example(self.text)


class TensorSupport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a feature level supports for one tensor; dimension counts as [lowest, highest]."""

    dimension_counts: tuple[int, int]
    data_types: tuple[str, ...]


class Support(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table: a feature level, and what it and the ones above support."""

    feature_level: str
    line: int
    tensors: dict[str, TensorSupport]


class Erratum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Printed text that is wrong, and the corrected text.

    `subject` is a rule id, `pseudocode`, `example N` or `example N title`. Kinds: `contradiction` (the page contradicts
    itself: computed from its examples), `gap` (the printed rule lets pass what has no meaning), `note` (a wording).
    """

    id: str
    kind: Literal["contradiction", "gap", "note"]
    subject: str
    printed: str
    corrected: str
    why: str


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One operator's reference page."""

    operator: str
    number: int
    struct: str
    introduced: str
    page: Page
    pseudocode: Pseudocode
    fields: tuple[Field, ...]
    rules: tuple[Rule, ...]
    support: tuple[Support, ...]
    examples: tuple[SpecExample, ...]
    errata: tuple[Erratum, ...] = ()

    @property
    def name(self) -> str:
        """The operator without its prefix, `GATHER`."""
        return self.operator.removeprefix("DML_OPERATOR_")

    @cached_property
    def lines(self):
        """The general pseudocode, parsed."""
        return parse_lines(self.pseudocode.text)

    def tensors(self, *kinds: str) -> tuple[str, ...]:
        """The names of the tensor fields of these kinds (`input`, `output`), in the struct's order."""
        return tuple(f.name for f in self.fields if f.kind in kinds)

    def rule(self, id: str) -> Rule:
        """The rule with this id. Raises KeyError."""
        return {r.id: r for r in self.rules}[id]

    def example(self, id: str) -> SpecExample:
        """The example with this id. Raises KeyError."""
        return {e.id: e for e in self.examples}[id]

    @cached_property
    def corrected(self) -> Spec:
        """This spec with every erratum's printed text replaced; it has no errata left."""
        by_subject: dict[str, list[Erratum]] = {}
        for erratum in self.errata:
            by_subject.setdefault(erratum.subject, []).append(erratum)

        def fixed(subject: str, text: str) -> str:
            for erratum in by_subject.pop(subject, ()):
                if erratum.printed not in text:
                    raise ValueError(f"{erratum.id}: {subject} does not hold the printed text {erratum.printed!r}")
                text = text.replace(erratum.printed, erratum.corrected)
            return text

        spec = msgspec.structs.replace(
            self,
            pseudocode=msgspec.structs.replace(self.pseudocode, text=fixed("pseudocode", self.pseudocode.text)),
            rules=tuple(msgspec.structs.replace(r, check=fixed(r.id, r.check)) for r in self.rules),
            examples=tuple(
                msgspec.structs.replace(
                    e, text=fixed(f"example {e.id}", e.text), title=fixed(f"example {e.id} title", e.title)
                )
                for e in self.examples
            ),
            errata=(),
        )
        if by_subject:
            raise ValueError(f"{self.operator}: errata of unknown subjects: {', '.join(by_subject)}")
        return spec


class TensorBreaks(Breaks, frozen=True, forbid_unknown_fields=True):
    """How to break a rule of every tensor: an example of an operator's page, and the fields to set."""

    operator: str


class TensorRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of every tensor."""

    id: str
    text: str
    breaks: TensorBreaks


class TensorRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the pages say of tensors in general; feature levels in ascending order."""

    struct: str
    address: str
    feature_levels: tuple[str, ...]
    dimension_counts: tuple[int, int]
    maximum_elements: int
    minimum_alignment: int
    rules: tuple[TensorRule, ...]


@cache
def _specs() -> dict[str, Spec]:
    """The specs by short name: the shipped ones in the order of their numbers, then those that were added."""
    paths = [p for p in files(__package__).iterdir() if p.name.endswith(".toml") and p.name != "tensor.toml"]
    specs = sorted((_decode(path, Spec) for path in paths), key=lambda spec: spec.number)
    return {spec.name: spec for spec in specs}


def load_spec(name: str) -> Spec:
    """Returns the spec of an operator, by short name (`GATHER`), as printed. Raises KeyError if there is none."""
    return _specs()[name]


def all_specs() -> tuple[Spec, ...]:
    """Returns every operator's spec, in the order of DirectML's numbers; specs that were added come last."""
    return tuple(_specs().values())


def read_spec(path: str | os.PathLike[str]) -> Spec:
    """Returns the spec that a TOML file holds. Raises InputError if the file is no spec."""
    try:
        return msgspec.toml.decode(read_text(path), type=Spec)
    except msgspec.DecodeError as error:
        raise InputError(str(error), file=str(path)) from None


def add_spec(spec: Spec) -> None:
    """Adds the spec of an operator from outside the package. Raises ValueError if there is one of this name."""
    if spec.name in _specs():
        raise ValueError(f"{spec.name} has a spec already")
    _specs()[spec.name] = spec


def remove_spec(name: str) -> None:
    """Removes a spec that was added. Raises KeyError if there is none."""
    del _specs()[name]


@cache
def tensor_rules() -> TensorRules:
    """The rules that hold for every tensor."""
    return _decode(files(__package__).joinpath("tensor.toml"), TensorRules)


def _decode(path, type):
    return msgspec.toml.decode(path.read_bytes(), type=type)
