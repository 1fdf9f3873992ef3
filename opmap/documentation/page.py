"""A page's own text, put into the shape of the shipped spec.

What a page does not say, or says in words that cannot be read, is taken from the corrected spec of its operator, and
has no line there: nothing is found wrong with text that the page does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ..errors import InputError, PseudocodeError
from ..limits import MAX_PAGE_BYTES
from ..pseudocode import Line, parse_formula, parse_lines
from ..spec import Breaks, Field, Pseudocode, Rule, Spec, SpecExample, Support, TensorSupport, all_specs, load_spec
from .blocks import Block, original, read_blocks, visible
from .equivalence import assigns, membership, same_formula, same_lines, tensors_of, upper_bound
from .examples import parsed
from .finding import Finding
from .prose import Equality, Vocabulary

_LONGEST_FORMULA = 4000
_MOST_EXAMPLES = 200
_MOST_RANGES = 20
_Parsed = TypeVar("_Parsed")


class PageSpec(Spec, frozen=True, forbid_unknown_fields=True, dict=True):
    """A spec made of a page's text: lines are the page's, and `places` holds those that a Spec has no room for."""

    places: dict[str, int] = {}


@dataclass(frozen=True)
class Page:
    """A page taken apart.

    `spec` holds what it says; where the page holds its text twice, the translation beside the original, `readings` has
    both, the original first. `unreadable` are the blocks that look like code of the operator and are not.
    """

    name: str
    readings: tuple[PageSpec, ...]
    unreadable: tuple[Finding, ...] = ()

    @property
    def spec(self) -> PageSpec:
        """What the page says, in the language it was written in."""
        return self.readings[0]

    @property
    def assumed(self) -> tuple[str, ...]:
        """The rules that no sentence of the page could be read for: they are the shipped spec's."""
        read = {rule.id for spec in self.readings for rule in spec.rules if rule.line is not None}
        return tuple(r.id for r in self.spec.rules if r.id not in read and not r.derived and r.check != "support")


def read_page(text: str, *, name: str) -> Page:
    """Takes a documentation page apart, Markdown or plain text, in any language; `name` is for messages.

    Raises InputError where it is too large, or names no operator that is known.
    """
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_PAGE_BYTES:
        raise InputError(f"a page must have at most {MAX_PAGE_BYTES} bytes, got {size}", file=name)
    text = text.removeprefix("\ufeff")
    shipped = load_spec(operator_of(text, name=name))
    blocks = read_blocks(text)
    first, second = (_Reader(shipped, [rendering(block) for block in blocks]) for rendering in (original, visible))
    # what the translation says in words that cannot be read is what it was translated from
    known = {rule.id: rule for rule in first.spec.rules}
    rules = tuple(rule if rule.line is not None else known.get(rule.id, rule) for rule in second.spec.rules)
    translated = msgspec.structs.replace(second.spec, rules=rules)
    readings = (first.spec,) if translated == first.spec else (first.spec, translated)
    return Page(name, readings, tuple(dict.fromkeys(first.unreadable + second.unreadable)))


def operator_of(text: str, *, name: str) -> str:
    """The operator that a page is about, by its short name: of its UID, its title, its struct, or the first that it names."""
    known = {spec.struct: spec.name for spec in all_specs()}
    places = ([], [], [])
    for line in re.split(r"\r\n?|\n", text):
        structs = [word for word in re.findall(r"[A-Za-z0-9_]+", line) if re.fullmatch(r"DML_\w+_OPERATOR_DESC", word)]
        if structs:
            first = 0 if re.match(r"(?:UID|title)\s*:", line) else 1 if re.match(r"\s*(?:#|struct\b)", line) else 2
            places[first].append(structs[0])
    found = next((place[0] for place in places if place), None)
    if found is None:
        raise InputError(f"the page must name its operator, as {' or '.join(known)}; it names none", file=name)
    if found not in known:
        found = found if len(found) <= 80 else found[:79] + "…"
        raise InputError(f"the page is about {found}; known are {', '.join(known)}", file=name)
    return known[found]


class _Reader:
    """Goes through the blocks once, in order; `spec` and `unreadable` are the result."""

    def __init__(self, shipped: Spec, blocks: Iterable[Block]):
        self.shipped = shipped
        self.words = Vocabulary(shipped)
        self.unreadable: list[Finding] = []
        self.places: dict[str, int] = {}
        # what the page says
        self.introduced = shipped.introduced
        self.fields = shipped.fields
        self.pseudocode: Pseudocode | None = None
        self.examples: list[SpecExample] = []
        self.tables: dict[str, dict[str, TensorSupport]] = {}
        self.equalities: dict[tuple[Equality, str | None], int] = {}
        self.intervals: list[tuple[int, str, str]] = []
        self.bounds: list[tuple[int, str, str]] = []
        self.formulas: list[tuple[int, str]] = []
        # where it is
        self.section: str | None = None
        self.level: tuple[int, str] | None = None
        self.title: Block | None = None
        self.too_many = False
        blocks = list(blocks)
        self.has_headings = any(block.kind == "heading" for block in blocks)
        for block in blocks:
            getattr(self, f"_{block.kind}")(block)
        self.spec = self._spec()

    # --- blocks ---

    def _heading(self, block: Block) -> None:
        self.section = self.words.field(block.text)
        self.title = block
        self._mentioned(block.line, block.text)

    def _text(self, block: Block) -> None:
        if field := self.words.field(block.text):
            self.section = field
            return
        if not self.has_headings and "\n" not in block.text and len(block.text) < 200:
            self.title = block
        lines = block.text.split("\n")
        for number, line in enumerate(lines, block.line):
            self._mentioned(number, line)
            self._table_row(number, line)
        for after, sentence in self.words.sentences(block.text):
            line = block.line + after
            introduced = re.search(r"\bThis operator was introduced in DML_FEATURE_LEVEL_(\d+_\d+)", sentence)
            if introduced:
                self.introduced = introduced[1]
                self.places["introduced"] = line
            for equality in self.words.equalities(sentence, self.section):
                self.equalities.setdefault((equality, self.section), line)
            if self.section in self.words.tensors and (bound := self.words.bound(sentence)):
                self.bounds.append((line, self.section, bound))
        if self.section in self.words.numbers:
            for after, interval in self.words.intervals(block.text):
                self.intervals.append((block.line + after, self.section, interval))

    def _row(self, block: Block) -> None:
        self._table_row(block.line, block.text)

    def _code(self, block: Block) -> None:
        kind = self._kind(block.text)
        if kind is None:
            if not self._struct(block):
                self._text(block)
        else:
            getattr(self, f"_{kind}")(block)

    # --- tables ---

    def _mentioned(self, line: int, text: str) -> None:
        for level in re.findall(r"DML_FEATURE_LEVEL_(\d{1,2}_\d{1,2})", text):
            self.level = line, level

    def _table_row(self, line: int, text: str) -> None:
        """`InputTensor | Input | 1 to 8 | FLOAT32, FLOAT16`, with or without the bars."""
        text = self.words.plain(text).strip(" |\t")
        tensor = next((t for t in self.words.tensors if re.match(rf"{t}(?![A-Za-z0-9_.])", text)), None)
        types = [m for m in re.finditer(r"(?<![A-Za-z0-9_])(?:[A-Z]*FLOAT|U?INT|BOOL)\d{0,3}(?![A-Za-z0-9_])", text)]
        if tensor is None or not types or self.level is None:
            return
        counts = [int(n) for n in re.findall(r"[0-9]{1,3}", text[len(tensor) : types[0].start()])]
        if not counts:
            return
        heading, level = self.level
        names = tuple(m[0] for m in types)
        support = TensorSupport(dimension_counts=(min(counts), max(counts)), data_types=names)
        table = self.tables.setdefault(level, {})
        self.places.setdefault(f"support {level}", heading)
        subject = f"support {level} {tensor}"
        if table.get(tensor, support) != support:
            at = self.places[subject]
            message = f"{subject}: says otherwise than line {at} for the same tensor and feature level"
            self.unreadable.append(Finding("contradiction", line, subject, message))
            return
        table[tensor] = support
        self.places.setdefault(subject, line)

    # --- code ---

    def _kind(self, text: str) -> str | None:
        """What a block of code is: read as what it parses as, else as what it looks like."""
        if not text.strip():
            return None
        example = parsed(text)
        if example and (example.tensors or example.fields):
            known = {*self.words.tensors, *self.words.numbers}
            return "example" if known & {*example.tensors, *example.fields} else None
        if len(text) <= _LONGEST_FORMULA:
            lines = _try(parse_lines, text)
            if lines and any(isinstance(line, Line) and self._speaks_of_tensors(line) for line in lines):
                return "pseudocode"
            (output,) = self.shipped.tensors("output")
            statements = _try(parse_formula, text)
            if statements and assigns(statements, f"{output}.Sizes"):
                return "formula"
        names = "|".join(self.words.tensors)
        if re.search(rf"(?m)^\s*(?:{names})\s*:\s*\(", text):
            return "example"
        if re.search(rf"(?m)^\s*(?:{names})\.Sizes\s*=", text):
            return "example" if len(re.findall(rf"(?m)^\s*(?:{names})\.Sizes\s*=", text)) > 1 else "formula"
        if re.match(rf"\s*(?:{'|'.join(self.shipped.pseudocode.tensors)})\s*\[", text):
            return "pseudocode"
        return None

    def _speaks_of_tensors(self, line: Line) -> bool:
        return line.target.tensor in self.shipped.pseudocode.tensors

    def _pseudocode(self, block: Block) -> None:
        if self.pseudocode is not None:
            return
        text = block.text.strip("\n")
        try:
            lines = parse_lines(text) if len(text) <= _LONGEST_FORMULA else _refuse("is too long")
            unknown = {t for line in lines if isinstance(line, Line) for t in tensors_of(line)} - set(
                self.shipped.pseudocode.tensors
            )
            if unknown:
                _refuse(f"names {', '.join(sorted(unknown))}, which is no tensor of {self.shipped.name}")
        except PseudocodeError as error:
            self._cannot_read(block, "pseudocode", error)
            return
        for theirs in (self.shipped, self.shipped.corrected):
            if same_lines(lines, theirs.lines, self.shipped.pseudocode.tensors):  # coordinates under other names
                text = theirs.pseudocode.text
                break
        self.pseudocode = msgspec.structs.replace(self.shipped.pseudocode, line=block.line, text=text)

    def _formula(self, block: Block) -> None:
        try:
            if len(block.text) > _LONGEST_FORMULA:
                _refuse("is too long")
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
        taken = {e.id for e in self.examples}
        title = re.sub(r"\s+", " ", self.words.plain(self.title.text)).strip() if self.title else ""
        numbered = re.match(r"\D{0,40}?(\d{1,3})\s*[.．。:：、]\s*(.*)", title)
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
        """`struct DML_…_OPERATOR_DESC { … };`"""
        is_struct = re.match(rf"\s*(?:typedef\s+)?struct\s+{self.shipped.struct}\b", block.text)
        if not is_struct or len(block.text) > _LONGEST_FORMULA:
            return False
        kinds = {field.name: field.kind for field in self.shipped.fields}
        members = []
        for member in re.finditer(r"(?m)^\s*(?:const\s+)?([A-Za-z_]\w*)\s*(\*?)\s*([A-Za-z_]\w*)\s*;", block.text):
            kind = kinds.get(member[3], "input") if member[2] else "uint"
            members.append(Field(name=member[3], kind="input" if member[2] and kind == "uint" else kind))
            self.places[f"field {member[3]}"] = block.line + block.text.count("\n", 0, member.start(3))
        self.fields = tuple(members)
        self.places["struct"] = block.line
        return True

    def _cannot_read(self, block: Block, subject: str, error: PseudocodeError) -> None:
        line = block.line + (error.text.count("\n", 0, error.offset) if error.offset else 0)
        self.unreadable.append(Finding("unreadable", line, subject, f"the {subject} cannot be read: {error.problem}"))

    # --- the result ---

    def _spec(self) -> PageSpec:
        corrected = self.shipped.corrected
        rules = _Rules(self.shipped)
        for (equality, _), line in self.equalities.items():
            rules.equality(line, equality.left, equality.right)
        for field in self.words.numbers:
            ranges = [(line, text) for line, name, text in self.intervals if name == field]
            rules.intervals(field, ranges[:_MOST_RANGES])
        for line, tensor, expression in self.bounds[:_MOST_RANGES]:
            rules.bound(line, tensor, expression)
        for line, text in self.formulas[:_MOST_RANGES]:
            rules.formula(line, text)
        support = [
            Support(feature_level=level, line=self.places[f"support {level}"], tensors=tensors)
            for level, tensors in self.tables.items()
        ]
        own = {name: getattr(corrected, name) for name in corrected.__struct_fields__}
        own |= {
            "introduced": self.introduced,
            "fields": self.fields,
            "pseudocode": self.pseudocode or msgspec.structs.replace(corrected.pseudocode, line=0),
            "rules": rules.result(),
            "support": tuple(support),
            "examples": tuple(self.examples),
            "places": self.places,
        }
        return PageSpec(**own)


class _Rules:
    """The rules of a page: the shipped ones, with the page's text where it states them."""

    def __init__(self, shipped: Spec):
        self.printed = {rule.id: rule for rule in shipped.rules}
        self.rules = {r.id: msgspec.structs.replace(r, line=None) for r in shipped.corrected.rules}
        self.others: list[tuple[int, str, str]] = []

    def _put(self, id: str, line: int, check: str | None = None) -> None:
        rule = self.rules[id]
        self.rules[id] = msgspec.structs.replace(rule, line=rule.line or line, check=check or rule.check)

    def equality(self, line: int, left: str, right: str) -> None:
        check = f"{left} == {right}"
        same, printed = (
            [id for id, rule in rules.items() if not rule.derived and _states(rule, check)]
            for rules in (self.rules, self.printed)
        )
        if same:
            for id in [id for id in same if self.rules[id].line is None][:1]:
                self._put(id, line)
        elif printed:
            self._put(printed[0], line, check)
        elif left.endswith((".DimensionCount", ".DataType")) or self._simple(left):
            self.others.append((line, left, right))

    def _simple(self, left: str) -> list[str]:
        """The rules that demand that `left` equals another field, and nothing more."""
        return [r.id for r in self.rules.values() if not r.derived and re.fullmatch(rf"{left} ==? [\w.]+", r.check)]

    def intervals(self, field: str, intervals: list[tuple[int, str]]) -> None:
        waiting = [r.id for r in self.rules.values() if not r.derived and membership(r.check) == field]
        others = []
        for line, interval in intervals:
            check = f"{field} in {interval}"
            for id in waiting:
                if _states(self.rules[id], check) or _states(self.printed[id], check):
                    self._put(id, line, check)
                    waiting.remove(id)
                    break
            else:
                others.append((line, check))
        for id, (line, check) in zip(waiting, others):
            self._put(id, line, check)
        for line, check in others[len(waiting) :]:
            self._add(line, check, f"The range of {field}.")

    def bound(self, line: int, tensor: str, expression: str) -> None:
        for rule in list(self.rules.values()):
            left = upper_bound(rule.check)
            if left is not None and not rule.derived and left.startswith(f"{tensor}."):
                self._put(rule.id, line, f"{left} <= {expression}")

    def formula(self, line: int, text: str) -> None:
        for rule in list(self.rules.values()):
            for name in assigns(_try(parse_formula, text) or ()):
                if rule.check != "support" and name in assigns(parse_formula(rule.check)) and "." in name:
                    self._put(rule.id, line, text)

    def result(self) -> tuple[Rule, ...]:
        for line, left, right in self.others:
            free = [id for id in self._simple(left) if self.rules[id].line is None]
            if free:
                sign = "=" if " = " in self.rules[free[0]].check else "=="
                self._put(free[0], line, f"{left} {sign} {right}")
            else:
                self._add(line, f"{left} == {right}", "A constraint of the page.")
        return tuple(self.rules.values())

    def _add(self, line: int, check: str, text: str) -> None:
        """A rule that the shipped spec does not have."""
        id = f"line {line}" if f"line {line}" not in self.rules else f"line {line}: {check}"
        self.rules[id] = Rule(id=id, line=line, text=text, check=check, breaks=Breaks(example="", set={}))


def _states(rule: Rule, check: str) -> bool:
    return rule.check != "support" and same_formula(rule.check, check)


def _try(parse: Callable[[str], _Parsed], text: str) -> _Parsed | None:
    try:
        return parse(text)
    except PseudocodeError:
        return None


def _refuse(problem: str):
    raise PseudocodeError(problem)
