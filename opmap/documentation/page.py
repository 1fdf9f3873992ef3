"""Reads a page into a spec: the page's own text in the form of the shipped spec.

If the page does not state a fact, or states it in words that cannot be read, the fact is taken from the corrected spec
of the operator and has no line. So nothing is found wrong with text that the page does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeVar

import msgspec

from ..errors import InputError, PseudocodeError
from ..limits import MAX_PAGE_BYTES
from ..pseudocode import Line, parse_formula, parse_lines
from ..spec import Field, Pseudocode, Spec, SpecExample, Support, TensorSupport, all_specs, load_spec
from .blocks import Block, original, read_blocks, visible
from .equivalence import same_lines
from .examples import parsed
from .finding import Finding
from .page_rules import PageRules
from .prose import Equality, ProseReader
from .statements import assigned_names, tensors_of

_LONGEST_FORMULA = 4000
_MOST_EXAMPLES = 200
_MOST_RANGES = 20
"""Pages come from outside. Pages of Microsoft stay far below these limits."""

_Parsed = TypeVar("_Parsed")


class PageSpec(Spec, frozen=True, forbid_unknown_fields=True, dict=True):
    """A spec made from a page's text. Lines are the page's.

    `places` gives the lines of facts that have no line in a Spec: `struct`, `field Axis`, `introduced`, `support 2_1`,
    `support 2_1 InputTensor`.
    """

    places: dict[str, int] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """A page taken apart.

    `readings` holds the page as one spec. If the page holds its text twice, the translation beside the hidden original,
    it holds two: the original first. `unreadable` are findings about blocks that look like code of the operator but
    cannot be read.
    """

    name: str
    readings: tuple[PageSpec, ...]
    unreadable: tuple[Finding, ...] = ()

    @property
    def spec(self) -> PageSpec:
        """The page in the language in which it was written."""
        return self.readings[0]

    @property
    def assumed(self) -> tuple[str, ...]:
        """The ids of the rules that no sentence of the page states in readable words. They are the shipped spec's."""
        stated = {rule.id for spec in self.readings for rule in spec.rules if rule.line is not None}
        return tuple(
            rule.id
            for rule in self.spec.rules
            if rule.id not in stated and not rule.derived and rule.check != "support"
        )


def read_page(text: str, *, name: str) -> Page:
    """Takes a documentation page apart: Markdown or plain text, in any language. `name` is for messages.

    Raises InputError if the page is too large, or if it is not about an operator that opmap knows.
    """
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_PAGE_BYTES:
        raise InputError(f"a page must have at most {MAX_PAGE_BYTES} bytes, got {size}", file=name)
    text = text.removeprefix("\ufeff")
    shipped = load_spec(operator_of(text, name=name))
    blocks = read_blocks(text)
    originals, translations = ([rendering(block) for block in blocks] for rendering in (original, visible))
    page = _Reader(shipped, originals)
    if translations == originals:  # the page holds its text once
        return Page(name, (page.spec,), tuple(dict.fromkeys(page.unreadable)))
    translation = _Reader(shipped, translations)
    # A rule that the translation states in unreadable words is taken from the original.
    original_rules = {rule.id: rule for rule in page.spec.rules}
    rules = tuple(
        rule if rule.line is not None else original_rules.get(rule.id, rule) for rule in translation.spec.rules
    )
    translated = msgspec.structs.replace(translation.spec, rules=rules)
    readings = (page.spec,) if translated == page.spec else (page.spec, translated)
    return Page(name, readings, tuple(dict.fromkeys(page.unreadable + translation.unreadable)))


def operator_of(text: str, *, name: str) -> str:
    """Returns the short name of the operator that a page is about.

    That is the struct in the page's UID or title; without one, in a heading or struct definition; else the first that
    is named. Raises InputError if the page names none, or one that opmap does not know.
    """
    operators = {spec.struct: spec.name for spec in all_specs()}
    in_title: list[str] = []
    in_heading: list[str] = []
    elsewhere: list[str] = []
    for line in re.split(r"\r\n?|\n", text):
        if "_OPERATOR_DESC" not in line:
            continue
        structs = [word for word in re.findall(r"[A-Za-z0-9_]+", line) if re.fullmatch(r"DML_\w+_OPERATOR_DESC", word)]
        if re.match(r"(?:UID|title)\s*:", line):
            in_title += structs[:1]
        elif re.match(r"\s*(?:#|struct\b)", line):
            in_heading += structs[:1]
        else:
            elsewhere += structs[:1]
    struct = next((structs[0] for structs in (in_title, in_heading, elsewhere) if structs), None)
    if struct is None:
        raise InputError(f"the page must name its operator, as {' or '.join(operators)}; it names none", file=name)
    if struct not in operators:
        struct = struct if len(struct) <= 80 else struct[:79] + "…"
        raise InputError(f"the page must be about {' or '.join(operators)}, got {struct}", file=name)
    return operators[struct]


class _Reader:
    """Reads the blocks of a page, in order. `spec` and `unreadable` are the result."""

    def __init__(self, shipped: Spec, blocks: Iterable[Block]):
        self.shipped = shipped
        self.prose = ProseReader(shipped)
        self.unreadable: list[Finding] = []
        self.places: dict[str, int] = {}
        # the page's facts
        self.introduced = shipped.introduced
        self.fields = shipped.fields
        self.pseudocode: Pseudocode | None = None
        self.examples: list[SpecExample] = []
        self.tables: dict[str, dict[str, TensorSupport]] = {}
        self.equalities: dict[tuple[Equality, str | None], int] = {}
        self.intervals: list[tuple[int, str, str]] = []
        self.bounds: list[tuple[int, str, str]] = []
        self.formulas: list[tuple[int, str]] = []
        # the reader's position: the section's field, the last feature level that was named, the last title
        self.section: str | None = None
        self.level: tuple[int, str] | None = None
        self.title: Block | None = None
        self.too_many = False
        blocks = list(blocks)
        self.has_headings = any(block.kind == "heading" for block in blocks)
        for block in blocks:
            self._read(block)
        self.spec = self._spec()

    # --- blocks ---

    def _read(self, block: Block) -> None:
        match block.kind:
            case "heading":
                self._heading(block)
            case "text":
                self._text(block)
            case "row":
                self._table_row(block.line, block.text)
            case "code":
                self._code(block)

    def _heading(self, block: Block) -> None:
        self.section = self.prose.field(block.text)
        self.title = block
        self._note_feature_level(block.line, block.text)

    def _text(self, block: Block) -> None:
        if field := self.prose.field(block.text):
            self.section = field
            return
        if not self.has_headings and "\n" not in block.text and len(block.text) < 200:
            self.title = block  # plain text has no headings: any short line may be a title
        for line, text in enumerate(block.text.split("\n"), block.line):
            self._note_feature_level(line, text)
            self._table_row(line, text)
        for line_offset, sentence in self.prose.sentences(block.text):
            line = block.line + line_offset
            introduced = re.search(r"\bThis operator was introduced in DML_FEATURE_LEVEL_(\d+_\d+)", sentence)
            if introduced:
                self.introduced = introduced[1]
                self.places["introduced"] = line
            for equality in self.prose.equalities(sentence, self.section):
                self.equalities.setdefault((equality, self.section), line)
            if self.section and self.section in self.prose.tensors and (bound := self.prose.bound(sentence)):
                self.bounds.append((line, self.section, bound))
        if self.section and self.section in self.prose.numbers:
            for line_offset, interval in self.prose.intervals(block.text):
                self.intervals.append((block.line + line_offset, self.section, interval))

    def _code(self, block: Block) -> None:
        match self._code_kind(block.text):
            case "example":
                self._example(block)
            case "pseudocode":
                self._pseudocode(block)
            case "formula":
                self._formula(block)
            case None:
                if not self._struct(block):
                    self._text(block)

    # --- tables ---

    def _note_feature_level(self, line: int, text: str) -> None:
        """Remembers the last feature level that the text names: the tables below belong to it."""
        for level in re.findall(r"DML_FEATURE_LEVEL_(\d{1,2}_\d{1,2})", text):
            self.level = line, level

    def _table_row(self, line: int, text: str) -> None:
        """Reads a row such as `InputTensor | Input | 1 to 8 | FLOAT32, FLOAT16`, with or without the bars."""
        if self.level is None:
            return
        text = self.prose.plain(text).strip(" |\t")
        tensor = next((t for t in self.prose.tensors if re.match(rf"{t}(?![A-Za-z0-9_.])", text)), None)
        types = list(re.finditer(r"(?<![A-Za-z0-9_])(?:[A-Z]*FLOAT|U?INT|BOOL)\d{0,3}(?![A-Za-z0-9_])", text))
        if tensor is None or not types:
            return
        counts = [int(n) for n in re.findall(r"[0-9]{1,3}", text[len(tensor) : types[0].start()])]
        if not counts:
            return
        heading, level = self.level
        data_types = tuple(match[0] for match in types)
        support = TensorSupport(dimension_counts=(min(counts), max(counts)), data_types=data_types)
        table = self.tables.setdefault(level, {})
        self.places.setdefault(f"support {level}", heading)
        subject = f"support {level} {tensor}"
        if table.get(tensor, support) != support:
            at = self.places[subject]
            message = f"{subject}: this row differs from the one on line {at} for the same tensor and feature level"
            self.unreadable.append(Finding("contradiction", line, subject, message))
            return
        table[tensor] = support
        self.places.setdefault(subject, line)

    # --- code ---

    def _code_kind(self, text: str) -> Literal["example", "pseudocode", "formula"] | None:
        """Returns the kind of a code block, or None if it is no such code of this operator.

        The kind is that of the notation in which the block parses. A block that does not parse has the kind that its
        beginning looks like, so that it is reported as unreadable.
        """
        if not text.strip():
            return None
        example = parsed(text)
        if example and (example.tensors or example.fields):
            fields = {*self.prose.tensors, *self.prose.numbers}
            return "example" if fields & {*example.tensors, *example.fields} else None
        if len(text) <= _LONGEST_FORMULA:
            lines = _try(parse_lines, text)
            tensors = self.shipped.pseudocode.tensors
            if lines and any(isinstance(line, Line) and line.target.tensor in tensors for line in lines):
                return "pseudocode"
            (output,) = self.shipped.field_names("output")
            statements = _try(parse_formula, text)
            if statements and f"{output}.Sizes" in assigned_names(statements):
                return "formula"
        names = "|".join(self.prose.tensors)
        if re.search(rf"(?m)^\s*(?:{names})\s*:\s*\(", text):
            return "example"
        if re.search(rf"(?m)^\s*(?:{names})\.Sizes\s*=", text):
            return "example" if len(re.findall(rf"(?m)^\s*(?:{names})\.Sizes\s*=", text)) > 1 else "formula"
        if re.match(rf"\s*(?:{'|'.join(self.shipped.pseudocode.tensors)})\s*\[", text):
            return "pseudocode"
        return None

    def _pseudocode(self, block: Block) -> None:
        if self.pseudocode is not None:
            return
        text = block.text.strip("\n")
        tensors = self.shipped.pseudocode.tensors
        try:
            lines = parse_lines(text) if len(text) <= _LONGEST_FORMULA else _refuse("it is too long")
            names = {name for line in lines for name in tensors_of(line)}
            unknown = sorted(names - set(tensors))
            if unknown:
                _refuse(f"it names {', '.join(unknown)}, which is no tensor of {self.shipped.name}")
        except PseudocodeError as error:
            self._cannot_read(block, "pseudocode", error)
            return
        for version in (self.shipped, self.shipped.corrected):
            if same_lines(lines, version.lines, tensors):  # the same but for the names of coordinates
                text = version.pseudocode.text
                break
        self.pseudocode = msgspec.structs.replace(self.shipped.pseudocode, line=block.line, text=text)

    def _formula(self, block: Block) -> None:
        try:
            if len(block.text) > _LONGEST_FORMULA:
                _refuse("it is too long")
            parse_formula(block.text)
        except PseudocodeError as error:
            self._cannot_read(block, "size formula", error)
        else:
            self.formulas.append((block.line, block.text))

    def _example(self, block: Block) -> None:
        if len(self.examples) == _MOST_EXAMPLES:
            if not self.too_many:
                message = f"only the first {_MOST_EXAMPLES} examples are read"
                self.unreadable.append(Finding("unreadable", block.line, "examples", message))
            self.too_many = True
            return
        example = parsed(block.text)
        typed = any(t.data_type for t in example.tensors.values()) if example else "DataType" in block.text
        taken = {example.id for example in self.examples}
        title = re.sub(r"\s+", " ", self.prose.plain(self.title.text)).strip() if self.title else ""
        # "Example 2. Title", also with the full-width full stop and colon and the stops of Chinese and Japanese
        numbered = re.match(r"\D{0,40}?(\d{1,3})\s*[.\uff0e\u3002:\uff1a\u3001]\s*(.*)", title)
        if not typed:
            id, title = "sizes", ""
        elif numbered and numbered[1] not in taken:
            id, title = numbered[1], numbered[2]
        else:
            id, title = next(str(n) for n in range(1, len(taken) + 2) if str(n) not in taken), ""
        id = id if id not in taken else next(f"{id} {n}" for n in range(2, len(taken) + 3) if f"{id} {n}" not in taken)
        self.examples.append(SpecExample(id=id, line=block.line, text=block.text, title=title))
        if typed:
            self.section, self.title = None, None

    def _struct(self, block: Block) -> bool:
        """Reads `struct DML_…_OPERATOR_DESC { … };`. Returns whether the block is this struct."""
        is_struct = re.match(rf"\s*(?:typedef\s+)?struct\s+{self.shipped.struct}\b", block.text)
        if not is_struct or len(block.text) > _LONGEST_FORMULA:
            return False
        outputs = self.shipped.field_names("output")
        fields = []
        for member in re.finditer(r"(?m)^\s*(?:const\s+)?([A-Za-z_]\w*)\s*(\*?)\s*([A-Za-z_]\w*)\s*;", block.text):
            pointer, name = member[2], member[3]
            # Inputs and outputs are pointers alike: the shipped spec tells which is which.
            fields.append(Field(name=name, kind="uint" if not pointer else "output" if name in outputs else "input"))
            self.places[f"field {name}"] = block.line + block.text.count("\n", 0, member.start(3))
        self.fields = tuple(fields)
        self.places["struct"] = block.line
        return True

    def _cannot_read(self, block: Block, subject: str, error: PseudocodeError) -> None:
        line = block.line + (error.text.count("\n", 0, error.offset) if error.offset else 0)
        self.unreadable.append(Finding("unreadable", line, subject, f"the {subject} cannot be read: {error.problem}"))

    # --- the result ---

    def _spec(self) -> PageSpec:
        corrected = self.shipped.corrected
        rules = PageRules(self.shipped)
        for (equality, _), line in self.equalities.items():
            rules.add_equality(line, equality.left, equality.right)
        for field in self.prose.numbers:
            ranges = [(line, text) for line, name, text in self.intervals if name == field]
            rules.add_intervals(field, ranges[:_MOST_RANGES])
        for line, tensor, expression in self.bounds[:_MOST_RANGES]:
            rules.add_bound(line, tensor, expression)
        for line, text in self.formulas[:_MOST_RANGES]:
            rules.add_formula(line, text)
        support = [
            Support(feature_level=level, line=self.places[f"support {level}"], tensors=tensors)
            for level, tensors in self.tables.items()
        ]
        facts = msgspec.structs.asdict(corrected) | {
            "introduced": self.introduced,
            "fields": self.fields,
            "pseudocode": self.pseudocode or msgspec.structs.replace(corrected.pseudocode, line=0),
            "rules": rules.result(),
            "support": tuple(support),
            "examples": tuple(self.examples),
            "places": self.places,
        }
        return PageSpec(**facts)


def _try(parse: Callable[[str], _Parsed], text: str) -> _Parsed | None:
    """Returns the parsed text, or None if it cannot be read."""
    try:
        return parse(text)
    except PseudocodeError:
        return None


def _refuse(problem: str) -> NoReturn:
    raise PseudocodeError(problem)
