"""Reads a page into a spec: the page's own text in the form of the shipped spec.

If the page does not state a fact, or states it in words that cannot be read, the fact is taken from the corrected spec
of the operator and has no line. So nothing is found wrong with text that the page does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, zip_longest
from typing import Literal, TypeVar

import msgspec

from ..errors import InputError, PseudocodeError
from ..limits import MAX_PAGE_BYTES, MAX_PAGE_CODE, MAX_PAGE_DIGITS, MAX_PAGE_LINES
from ..pseudocode import ZERO, Copy, Example, array_of, lines_in, parse_formula, parse_lines
from ..spec import Field, Pseudocode, Rule, Spec, SpecExample, Support, load_spec
from .block import LINE_END, Block, original, visible
from .blocks import read_blocks
from .equivalence import assigned_names, same_lines, tensors_of
from .examples import parsed
from .finding import Finding
from .page_rules import PageRules
from .prose import Equality, ProseReader
from .tables import Tables
from .title import operator_of
from .wording import holds

_MOST_RANGES = 20
"""The most ranges and bounds that are read. Pages of Microsoft have far fewer."""

_MOST_SHARING = 20
"""The most examples that share the inputs above them. Each of them holds the lines between."""

_SHORT = 200
_LABEL = re.compile(r"\s*[^\s:\uff1a][^:\uff1a]{0,20}[:\uff1a]")
"""A label and a colon (`Type: UINT`); the other mark is the colon of Chinese and Japanese."""
_CONTINUATION = re.compile(r"\s*[,.;:=)a-z\u3001\u3002\uff0c]")
"""The rest of a sentence; the last three marks are a comma, a full stop and a comma of Chinese and Japanese."""
_LONG_NUMBER = re.compile(rf"\d{{{MAX_PAGE_DIGITS + 1}}}")
_LONG_REFERENCE = re.compile(r"&#[xX]?[0-9a-fA-F]{9,};?")
"""A reference to a character by a number that no character has. Python refuses to read thousands of digits."""

_ARRAY_TYPE = re.compile(r"\bconst\W{1,4}(U?INT)\b")
"""The type of a member that is an array of numbers."""
_NUMBER_KINDS = {"INT": "int", "FLOAT": "float", "DML_SCALAR_UNION": "scalar"}
"""Type of a member that is no pointer -> its kind. All others are numbers without a sign."""

_Parsed = TypeVar("_Parsed")


class PageSpec(Spec, frozen=True, forbid_unknown_fields=True, dict=True):
    """A spec made from a page's text. Lines are the page's.

    `places` gives the lines of facts that have no line in a Spec: `struct`, `field Axis`, `introduced`, `support 2_1`,
    `support 2_1 InputTensor`, `example 1 title`. `incomplete` holds the feature levels whose table cannot be read
    completely.
    """

    places: dict[str, int] = msgspec.field(default_factory=dict)
    incomplete: tuple[str, ...] = ()


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
    """Takes a documentation page apart: Markdown, HTML or plain text, in any language. `name` is for messages.

    Raises InputError if the page or the code on it is too large, if it is not about an operator that opmap knows, or if
    it holds no pseudocode, no example and no table.
    """
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_PAGE_BYTES:
        raise InputError(f"a page must have at most {MAX_PAGE_BYTES} bytes, got {size}", file=name)
    line_count = len(LINE_END.findall(text)) + 1
    if line_count > MAX_PAGE_LINES:
        raise InputError(f"a page must have at most {MAX_PAGE_LINES} lines, got {line_count}", file=name)
    text = _LONG_REFERENCE.sub("\ufffd", text.removeprefix("\ufeff"))
    blocks = read_blocks(text)
    code = sum(len(block.text) for block in blocks if block.kind == "code")
    if code > MAX_PAGE_CODE:
        raise InputError(f"a page must have at most {MAX_PAGE_CODE} characters of code, got {code}", file=name)
    shipped = load_spec(operator_of(text, blocks, name=name))
    page = _read(shipped, blocks, name)
    if not (page.unreadable or any(spec.pseudocode.line or spec.examples or spec.support for spec in page.readings)):
        message = f"the page must hold pseudocode, an example or a table of {shipped.struct}; it holds none"
        raise InputError(message, file=name)
    return page


def _read(shipped: Spec, blocks: Iterable[Block], name: str) -> Page:
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


class _Reader:
    """Reads the blocks of a page, in order. `spec` and `unreadable` are the result."""

    def __init__(self, shipped: Spec, blocks: Iterable[Block]):
        self.shipped = shipped
        self.prose = ProseReader(shipped)
        self.unreadable: list[Finding] = []
        self.places: dict[str, int] = {}
        # the page's facts
        self.introduced = shipped.introduced
        self.fields = shipped.corrected.fields
        self.pseudocode: Pseudocode | None = None
        self.examples: list[SpecExample] = []
        self.shared: Block | None = None
        self.wordings: list[tuple[int, Rule]] = []
        self.equalities: dict[tuple[Equality, str | None], int] = {}
        self.intervals: list[tuple[int, str, str]] = []
        self.bounds: list[tuple[int, str, str]] = []
        self.formulas: list[tuple[int, str]] = []
        # the reader's position: the section's field, the text of the next block, the last title
        self.section: str | None = None
        self.following = ""
        self.title: Block | None = None
        blocks = list(blocks)
        self.has_headings = any(block.kind == "heading" for block in blocks)
        self.tables = Tables(shipped, has_headings=self.has_headings)
        for block, next_block in zip_longest(blocks, blocks[1:]):
            self.following = next_block.text if next_block and next_block.kind == "text" else ""
            self._read(block)
        self.examples += self._printed_examples(blocks)
        self.unreadable += self.tables.findings
        self.spec = self._spec()

    # --- blocks ---

    def _read(self, block: Block) -> None:
        match block.kind:
            case "heading":
                self._heading(block)
            case "text":
                self._text(block)
            case "row":
                self.tables.read(block.line, self.prose.plain(block.text))
            case "code":
                self._code(block)

    def _heading(self, block: Block) -> None:
        self.section = self.prose.field(block.text)
        self.title = block
        self.tables.read(block.line, self.prose.plain(block.text))

    def _text(self, block: Block) -> None:
        """Reads a paragraph. Copied text may lack blank lines: then a paragraph holds whole sections."""
        lines = block.text.split("\n")
        starts = {at for at in range(len(lines)) if self._opens_section(lines, at)}
        for start, end in pairwise(sorted({0, len(lines), *starts})):
            if start in starts:
                self.section = self.prose.field(lines[start])
            self._paragraph(replace(block, line=block.line + start, text="\n".join(lines[start:end])))

    def _opens_section(self, lines: Sequence[str], at: int) -> bool:
        """Returns whether a line is only the name of a field, and the text below does not go on with the same sentence.

        Copied text has line ends, and even blank lines, before and after a name in the middle of a sentence. Inside a
        paragraph, the next line must be the field's type (`Type: UINT`).
        """
        if self.prose.field(lines[at]) is None:
            return False
        if at + 1 < len(lines):
            return _LABEL.match(self.prose.plain(lines[at + 1])) is not None
        below = self.prose.plain(self.following[:_SHORT])
        return _LABEL.match(below) is not None or _CONTINUATION.match(below) is None

    def _paragraph(self, block: Block) -> None:
        self._wordings(block, formulas_only=True)
        last_line = block.text.rsplit("\n", 1)[-1]
        if not self.has_headings and last_line.strip() and len(last_line) < _SHORT:
            self.title = replace(block, text=last_line)  # plain text has no headings: any short line may be a title
        for line, text in enumerate(block.text.split("\n"), block.line):
            self.tables.read(line, self.prose.plain(text))
        for line_offset, sentence in self.prose.sentences(block.text):
            line = block.line + line_offset
            introduced = re.search(r"\bThis operator was introduced in DML_FEATURE_LEVEL_(\d+_\d+)", sentence)
            if introduced:
                self.introduced = introduced[1]
                self.places["introduced"] = line
            for equality in self.prose.equalities(sentence, self.section):
                self.equalities.setdefault((equality, self.section), line)
            if self.section in self.prose.tensors and len(self.bounds) < _MOST_RANGES:
                bound = self.prose.bound(sentence)
                self.bounds += [(line, self.section, bound)] if bound else []
        if self.section in self.prose.arrays and (stated := _ARRAY_TYPE.search(self.prose.plain(block.text))):
            kind = f"{_NUMBER_KINDS.get(stated[1], 'uint')}s"
            self.fields = tuple(f.of_kind(kind) if f.name == self.section else f for f in self.fields)
            self.places[f"field {self.section}"] = block.line
        if self.section in self.prose.numbers and len(self.intervals) < _MOST_RANGES:
            for line_offset, interval in islice(self.prose.intervals(block.text), _MOST_RANGES):
                self.intervals.append((block.line + line_offset, self.section, interval))

    def _code(self, block: Block) -> None:
        if _LONG_NUMBER.search(block.text):
            message = f"this code is not read: a number must have at most {MAX_PAGE_DIGITS} digits"
            self.unreadable.append(Finding("unreadable", block.line, "code", message))
            return
        match self._code_kind(block.text):
            case "example":
                self._example(block)
            case "pseudocode":
                self._pseudocode(block)
            case "formula":
                self._formula(block)
            case None:
                if not self._struct(block):
                    self._wordings(block)
                    self._text(block)

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
            named = {array_of(name) or name for name in example.tensors}
            return "example" if fields & {*named, *example.fields} else None
        lines = _try(parse_lines, text)
        tensors = self.shipped.pseudocode.tensors
        if lines and any(line.target.tensor in tensors for line in lines_in(lines)):
            return "pseudocode"
        statements = _try(parse_formula, text)
        if statements and any(f"{name}.Sizes" in assigned_names(statements) for name in self.prose.tensors):
            return "formula"
        names = "|".join(self.prose.tensors)
        if re.search(rf"(?m)^[ \t]*(?:{names})[ \t]*:[ \t]*\(", text):
            return "example"
        if re.search(rf"(?m)^[ \t]*(?:{names})\.Sizes[ \t]*=", text):
            return "example" if len(re.findall(rf"(?m)^[ \t]*(?:{names})\.Sizes[ \t]*=", text)) > 1 else "formula"
        if re.match(rf"\s*(?:{'|'.join(self.shipped.pseudocode.tensors)})\s*\[", text):
            return "pseudocode"
        return None

    def _pseudocode(self, block: Block) -> None:
        if self.pseudocode is not None:
            return
        text = block.text.strip("\n")
        tensors = self.shipped.pseudocode.tensors
        try:
            lines = parse_lines(text)
            moves = (n for n in lines if not (isinstance(n, Copy) and n.source in self.shipped.short_names))
            names = {name for line in moves for name in tensors_of(line)}
            unknown = sorted(names - {*tensors, ZERO})
            if unknown:
                raise PseudocodeError(f"it names {', '.join(unknown)}, which is no tensor of {self.shipped.name}")
        except PseudocodeError as error:
            self._cannot_read(block, "pseudocode", error)
            return
        for version in (self.shipped, self.shipped.corrected):
            if same_lines(lines, version.lines, tensors):  # the same but for the names of coordinates
                text = version.pseudocode.text
                break
        self.pseudocode = msgspec.structs.replace(
            self.shipped.pseudocode, line=block.line, text=text, derived=False, lines=()
        )

    def _formula(self, block: Block) -> None:
        try:
            parse_formula(block.text)
        except PseudocodeError as error:
            self._cannot_read(block, "size formula", error)
        else:
            self.formulas.append((block.line, block.text))

    def _example(self, block: Block) -> None:
        example = parsed(block.text)
        shared = parsed(self.shared.text) if self.shared else None
        if example and example.tensors and self._only_inputs(example):
            self.shared = block  # the inputs of the examples that follow
            return
        if example and shared and self.shared and not {*shared.tensors} & {*example.tensors}:
            block = _behind(self.shared, block) if len(self.examples) < _MOST_SHARING else block
        typed = any(t.data_type for t in example.tensors.values()) if example else "DataType" in block.text
        used_ids = {example.id for example in self.examples}
        title = re.sub(r"\s+", " ", self.prose.plain(self.title.text)).strip() if self.title else ""
        # "Example 2. Title", also with the full-width full stop and colon and the stops of Chinese and Japanese
        numbered = re.match(r"\D{0,40}?(\d{1,3})\s*[.\uff0e\u3002:\uff1a\u3001]\s*(.*)", title)
        if not typed:
            id, title = "sizes", ""
        elif numbered and numbered[1] not in used_ids:
            id, title = numbered[1], numbered[2]
        else:
            id, title = next(str(n) for n in range(1, len(used_ids) + 2) if str(n) not in used_ids), ""
        if id in used_ids:
            id = next(f"{id} {n}" for n in range(2, len(used_ids) + 3) if f"{id} {n}" not in used_ids)
        self.examples.append(SpecExample(id=id, line=block.line, text=block.text, title=title))
        if title and self.title:
            self.places[f"example {id} title"] = self.title.line
        if typed:
            self.section, self.title = None, None

    def _printed_examples(self, blocks: Sequence[Block]) -> Iterator[SpecExample]:
        """Gives the examples in no notation of examples, of which the page has the same lines as the shipped spec."""
        lines = [
            (number, text.strip())
            for block in blocks
            if block.kind in ("code", "text")
            for number, text in enumerate(block.text.split("\n"), block.line)
            if text.strip()
        ]
        read = [_filled(example.text) for example in self.examples]
        for example in (e for e in self.shipped.examples if parsed(e.text) is None):
            printed = _filled(example.text)
            for at in range(len(lines) if printed not in read else 0):
                if [text for _, text in lines[at : at + len(printed)]] == printed:
                    yield msgspec.structs.replace(example, line=lines[at][0])
                    break

    def _only_inputs(self, example: Example) -> bool:
        """Returns whether an example lacks the outputs, and a number if it has any numbers."""
        outputs = {*self.shipped.field_names("output")}
        lacks_numbers = not example.fields or {*self.shipped.short_names} - {*example.fields}
        return bool(lacks_numbers) and not any({name, array_of(name)} & outputs for name in example.tensors)

    def _wordings(self, block: Block, *, formulas_only: bool = False) -> None:
        """Reads the rules that a block states in the words of an erratum: all of them, or those that give a tensor its
        sizes, or a number its limits or its value.
        """
        numbers = tuple(f"{name} <" for name in self.prose.numbers) + tuple(f"{name} >" for name in self.prose.numbers)
        rules = {
            rule.id
            for rule in self.shipped.rules
            if not formulas_only
            or ".Sizes = {" in rule.check
            or rule.check.strip().startswith(numbers)
            or re.fullmatch(r"[\w.]*DimensionCount == \d", rule.check)
        }
        for erratum in self.shipped.errata:
            if erratum.sentence is None or erratum.subject not in rules:
                continue
            for line, text in enumerate(block.text.split("\n"), block.line):
                for spec, wording in (
                    (self.shipped, erratum.sentence.printed),
                    (self.shipped.corrected, erratum.sentence.corrected),
                ):
                    if holds(text, 0, len(text), wording):
                        self.wordings.append((line, spec.rule(erratum.subject)))

    def _struct(self, block: Block) -> bool:
        """Reads `struct DML_…_OPERATOR_DESC { … };`. Returns whether the block is this struct."""
        if not re.match(rf"\s*(?:typedef\s+)?struct\s+{self.shipped.struct}\b", block.text):
            return False
        outputs = self.shipped.field_names("output")
        fields = []
        for member in re.finditer(
            r"(?m)^[ \t]*(_Maybenull_)?(?:_Field_size_\(\w+\))?[ \t]*(?:const[ \t]+)?"
            r"([A-Za-z_]\w*)[ \t]*(\*?)[ \t]*([A-Za-z_]\w*)[ \t]*;",
            block.text,
        ):
            optional, type, pointer, name = member.groups()
            if name in [left_out.name for left_out in self.shipped.left_out]:
                continue
            # Inputs and outputs are pointers alike: the shipped spec tells which is which.
            is_tensor = pointer and type not in ("INT", "UINT")
            kind = _NUMBER_KINDS.get(type, "uint") if not is_tensor else "output" if name in outputs else "input"
            kind += "s" if name in self.shipped.arrays or (pointer and not is_tensor) else ""
            fields.append(Field(name=name, kind=kind, optional=bool(optional)))  # type: ignore[arg-type]
            self.places[f"field {name}"] = block.line + block.text.count("\n", 0, member.start(4))
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
            rules.add_equality(line, *equality)
        for field in self.prose.numbers:
            ranges = {text: line for line, name, text in reversed(self.intervals) if name == field}
            rules.add_intervals(field, sorted((line, text) for text, line in ranges.items()))
        for line, tensor, expression in self.bounds[:_MOST_RANGES]:
            rules.add_bound(line, tensor, expression)
        for line, text in self.formulas[:_MOST_RANGES]:
            rules.add_formula(line, text)
        for line, rule in self.wordings[:_MOST_RANGES]:
            rules.add_wording(line, rule)
        support = [
            Support(feature_level=level, line=self.tables.places[f"support {key}"], tensors=tensors, of=tuple(of))
            for key, tensors in self.tables.supported.items()
            for level, *of in [key.split()]
        ]
        facts = msgspec.structs.asdict(corrected) | {
            "introduced": self.introduced,
            "fields": self.fields,
            "pseudocode": self.pseudocode or msgspec.structs.replace(corrected.pseudocode, line=0),
            "rules": rules.result(),
            "support": tuple(support),
            "examples": tuple(self.examples),
            "places": self.places | self.tables.places,
            "incomplete": tuple(sorted(self.tables.incomplete)),
        }
        return PageSpec(**facts)


def _filled(text: str) -> list[str]:
    """Returns the lines that are not blank, without the spaces around them."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def _behind(shared: Block, block: Block) -> Block:
    """Returns one block with both texts. Empty lines between them keep the line numbers of the page right."""
    lines = block.line - shared.line - shared.text.count("\n")
    return replace(shared, text=shared.text + "\n" * lines + block.text)


def _try(parse: Callable[[str], _Parsed], text: str) -> _Parsed | None:
    """Returns the parsed text, or None if it cannot be read."""
    try:
        return parse(text)
    except PseudocodeError:
        return None
