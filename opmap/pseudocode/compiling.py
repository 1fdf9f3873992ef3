"""Writes an address as the text of a Python function over all its loop positions, and compiles it.

The text of a function holds no sizes: they are its constants. So the many descriptors of a catalogue need few different
texts, and Python compiles each text once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from math import inf, prod
from typing import Any

from .access import Address, IndexRead, Term

UNDEFINED = -(1 << 62)
"""Stands for an index that is out of range. No address reaches 2**62, so every sum with it is negative."""

LONGEST = 1 << 16
"""The largest number of elements in a piece that is a list. A piece that is a range may be longer."""

Tensors = Mapping[str, Sequence[int]]
"""Flat elements by the pseudocode's tensor names: numbers for index tensors, bit patterns for all others."""

Pieces = Callable[[Tensors], Iterator[Sequence[int]]]
"""Gives the addresses for all loop positions in pieces. A negative address stands for an undefined element."""

Reader = Callable[[Tensors], Sequence[int]]
"""Reads the elements for all loop positions. Raises IndexError if an index is out of range."""

PiecesReader = Callable[[Tensors], Iterator[Sequence[int]]]
"""Reads the same in pieces. Each is overwritten when the next one is read."""


def compile_address(address: Address) -> Pieces:
    """Compiles an address into a function that gives its value for all loop positions."""
    pieces: Pieces = _PiecesWriter(address).compiled()
    return pieces


def compile_reader(address: Address) -> Reader:
    """Compiles an address into a function that reads the element at each loop position."""
    reader: Reader = _ReaderWriter(address).compiled()
    return reader


def compile_pieces_reader(address: Address) -> PiecesReader:
    """Compiles an address into a function that reads the elements at all loop positions in pieces."""
    reader: PiecesReader = _PiecesReaderWriter(address).compiled()
    return reader


@lru_cache(maxsize=512)
def _factory(text: str) -> Callable[..., Callable[[Tensors], Any]]:
    """Compiles the text of a function that takes constants and returns the compiled function."""
    namespace: dict[str, Any] = {"array": array, "islice": islice, "partial": partial}
    # The text is safe to execute: it has only fixed names. Tensor names are constants, or quoted strings in it.
    exec(compile(text, "<pseudocode>", "exec"), namespace)
    factory: Callable[..., Callable[[Tensors], Any]] = namespace["make"]
    return factory


class _Writer:
    """Writes the text of a function over all loop positions of an address.

    Indices, or tables of resolved indices, come first. Then there is one loop per loop of the address. Each part of the address is
    added in the outermost loop in which its value is fixed. A subclass says how indices are resolved, and writes the
    innermost loop.
    """

    def __init__(self, address: Address):
        self.address = address
        self.lines: list[str] = []
        self.constants: list[object] = []
        self.steps: dict[int, int] = {}
        self.reads: dict[str, dict[int, int]] = {}
        """Name of a variable with resolved or raw indices -> loop -> step in that variable."""
        self.resolved: dict[str, str] = {}
        """Name of such a variable -> the text of an index's part of the address, with `{0}` for the element."""
        for term in address.terms:
            if term.loop is not None:
                self.steps[term.loop] = self.steps.get(term.loop, 0) + term.stride
        self.loops = self._merged()
        self.depth = {loop: i for i, (loop, _) in enumerate(self.loops)}
        for term in address.terms:
            if term.read:
                name = f"t{len(self.reads)}"
                self.reads[name] = {n: s for n, s in _steps(term.read).items() if n in self.depth and s}
                self.resolved[name] = self.resolve(name, term.read, term.size, term.stride)

    def resolve(self, name: str, read: IndexRead, size: int, stride: int) -> str:
        """Writes the lines that define the variable of one index read. Returns the text for `resolved`."""
        raise NotImplementedError

    def innermost(self, base: str, loop: int, size: int, waiting: Sequence[str]) -> list[str]:
        """Returns the text of the innermost loop. `waiting` are the variables whose elements depend on it."""
        raise NotImplementedError

    def compiled(self) -> Any:
        """Returns the compiled function."""
        self._write()
        return self._made()

    def _made(self) -> Any:
        names = ", ".join(f"n{i}" for i in range(len(self.constants)))
        head = f"def make({names}):\n    def run(tensors):\n"
        return _factory(head + "".join(f"        {line}\n" for line in self.lines) + "    return run\n")(
            *self.constants
        )

    def constant(self, value: object) -> str:
        """Returns the name of a constant of the function."""
        self.constants.append(value)
        return f"n{len(self.constants) - 1}"

    def indices(self, read: IndexRead) -> str:
        """Returns the text of the elements of an index tensor, or of one coordinate of its tuples."""
        text = f"tensors[{self.constant(read.tensor)}]"
        return (
            f"{text}[{self.constant(read.offset)}::{self.constant(read.tuple_size)}]" if read.tuple_size > 1 else text
        )

    def row(self, name: str, loop: int, size: int) -> str:
        """Returns the text of the elements of a variable that a loop goes through, at the positions of the loops outside."""
        steps = self.reads[name]
        by, start = steps[loop], self._sum({n: s for n, s in steps.items() if n != loop})
        if start == "0" and by == 1 and len(self.loops) == 1:
            return f"{name}[:{self.constant(size)}]" if self.count(name) > size else name
        step = f" : {self.constant(by)}" if by > 1 else ""
        return f"{name}[{start} : {start} + {self.constant((size - 1) * by + 1)}{step}]"

    def count(self, name: str) -> int:
        """Returns the number of elements of a variable of indices."""
        read = [term.read for term in self.address.terms if term.read][int(name[1:])]
        return prod(read.sizes) // read.tuple_size

    def times_read(self, name: str) -> int:
        """Returns how many elements of a variable are read: more than it has, if some are read several times."""
        loops = self.loops[: 1 + max((self.depth[n] for n in self.reads[name]), default=-1)]
        return prod(size for _, size in loops)

    def _write(self) -> None:
        """Writes all lines."""
        waiting, indent = list(self.reads), ""
        base = self.constant(sum(term.constant * term.stride for term in self.address.terms))
        for name in [name for name in waiting if not self.reads[name]]:
            waiting.remove(name)
            base += " + " + self.resolved[name].format(f"{name}[0]")
        self.lines.append(f"b0 = {base}")
        for i, (loop, size) in enumerate(self.loops[:-1]):
            ready = [name for name in waiting if max(self.depth[n] for n in self.reads[name]) == i]
            waiting = [name for name in waiting if name not in ready]
            step, rows, terms = self.steps.get(loop, 0), {}, [f"b{i}"]
            if any(loop in self.reads[name] for name in waiting) or (not step and not ready):
                rows[f"v{i}"] = f"range({self.constant(size)})"
                terms += [f"v{i} * {self.constant(step)}"] if step else []
            elif step:
                rows[f"p{i}"] = f"range(b{i}, b{i} + {self.constant(size * step)}, {self.constant(step)})"
                terms = [f"p{i}"]
            for name in ready:
                rows[f"x{name}"] = self.row(name, loop, size)
                terms.append(self.resolved[name].format(f"x{name}"))
            over = ", ".join(rows.values())
            self.lines.append(f"{indent}for {', '.join(rows)} in {f'zip({over})' if len(rows) > 1 else over}:")
            indent += "    "
            self.lines.append(f"{indent}b{i + 1} = {' + '.join(terms)}")
        loop, size = self.loops[-1] if self.loops else (-1, 1)
        self.lines += [indent + line for line in self.innermost(f"b{max(len(self.loops) - 1, 0)}", loop, size, waiting)]

    def _merged(self) -> list[tuple[int, int]]:
        """Removes loops of length 1 and merges adjacent loops whose addresses are contiguous."""
        merged: list[tuple[int, int]] = []
        parts = (self.steps, *(_steps(read) for read in self.address.reads))
        for loop, size in ((n, s) for n, s in reversed(list(enumerate(self.address.loops))) if s > 1):
            inner, count = merged[-1] if merged else (-1, 0)
            if merged and all(part.get(loop, 0) == part.get(inner, 0) * count for part in parts):
                merged[-1] = inner, count * size
            else:
                merged.append((loop, size))
        return merged[::-1]

    def _sum(self, steps: Mapping[int, int]) -> str:
        """Returns the text of a sum: each loop variable times its step."""
        terms = [
            f"v{self.depth[n]} * {self.constant(s)}" if s != 1 else f"v{self.depth[n]}" for n, s in steps.items() if s
        ]
        return " + ".join(terms) or "0"


class _PiecesWriter(_Writer):
    """Writes the function that gives addresses in pieces. The innermost loop is a range or a comprehension."""

    def resolve(self, name: str, read: IndexRead, size: int, stride: int) -> str:
        low, high, factor = self.constant(-size), self.constant(size), self.constant(stride)
        part = f"(({{0}} if {{0}} >= 0 else {{0}} + {high}) * {factor} if {low} <= {{0}} < {high} else {UNDEFINED})"
        if self.times_read(name) <= self.count(name):
            self.lines.append(f"{name} = {self.indices(read)}")
            return part
        self.lines.append(f"{name} = array('q', ({part.format('i')} for i in {self.indices(read)}))")
        return "{0}"

    def innermost(self, base: str, loop: int, size: int, waiting: Sequence[str]) -> list[str]:
        step = self.steps.get(loop, 0)
        if loop < 0:
            return [f"yield ({base},)"]
        if not waiting:
            if not step:
                return [f"yield ({base},) * {self.constant(size)}"]
            return [f"yield range({base}, {base} + {self.constant(size * step)}, {self.constant(step)})"]
        rows = {f"x{name}": self.row(name, loop, size) for name in waiting}
        terms = [self.resolved[name].format(f"x{name}") for name in waiting]
        if step:
            rows["p"] = f"range({base}, {base} + {self.constant(size * step)}, {self.constant(step)})"
        terms.append("p" if step else base)
        over = f"zip({', '.join(rows.values())})" if len(rows) > 1 else next(iter(rows.values()))
        if size <= LONGEST:
            return [f"yield [{' + '.join(terms)} for {', '.join(rows)} in {over}]"]
        part = f"[{' + '.join(terms)} for {', '.join(rows)} in islice(row, {self.constant(LONGEST)})]"
        return [f"row = iter({over})", f"while part := {part}:", "    yield part"]


class _ReaderWriter(_Writer):
    """Writes the function that reads elements. Contiguous elements are read as a slice.

    Python's own lists resolve the indices: a list counts a negative index from the end, and raises IndexError for one
    that is out of range. If an index is read several times, a table holds its part of the address. If the innermost
    loop reads about as many elements as lie from the first to the last that it may read, this part is first copied as
    a row. If the innermost loop is short and the loop around it is not, the two change places: a column at a time is
    read. The column is first copied in the same way. A short row or column becomes a list: Python reads the elements of a
    list faster than those of an array.
    """

    most_together: float = inf
    """The most elements in the rows that are read a column at a time."""

    def __init__(self, address: Address):
        super().__init__(address)
        self.lines += [
            f"values = tensors[{self.constant(address.tensor)}]",
            "output = values[:0] if isinstance(values, array) else []",
            "extend = output.extend",
            "take = output.fromlist if isinstance(values, array) else extend",  # faster than extend
        ]
        if self.column:
            self.lines.append("new = partial(array, values.typecode) if isinstance(values, array) else list")
        if self._cut_to_list():
            self.lines.append("cut = array.tolist if isinstance(values, array) else list")

    def resolve(self, name: str, read: IndexRead, size: int, stride: int) -> str:
        self.lines.append(f"{name} = {self.indices(read)}")
        if self._only_indices_of_row() or self._only_indices_of_column():
            return "{0}"
        count, times = self.count(name), self.times_read(name)
        if self.column and self.loops[-1][0] in self.reads[name]:
            times *= self.column[1]
        parts = f"range(0, {self.constant(size * stride)}, {self.constant(stride)})"
        self.lines.append(f"l{name} = {f'list({parts})' if size <= count else parts}")
        if times <= count:
            return f"l{name}[{{0}}]"
        self.lines.append(f"{name} = [l{name}[i] for i in {name}]")
        return "{0}"

    def compiled(self) -> Any:
        self._write()
        self.lines.append("return output")
        return self._made()

    def innermost(self, base: str, loop: int, size: int, waiting: Sequence[str]) -> list[str]:
        step = self.steps.get(loop, 0)
        if loop < 0:
            return [f"extend(values[{base} : {base} + 1])"]
        if not waiting:
            if not step:
                return [f"extend([values[{base}]] * {self.constant(size)})"]
            by = f" : {self.constant(step)}" if step > 1 else ""
            return [f"extend(values[{base} : {base} + {self.constant((size - 1) * step + 1)}{by}])"]
        if self.column:
            return self._by_columns(base, loop, size, waiting)
        rows = {f"x{name}": self.row(name, loop, size) for name in waiting}
        terms = [self.resolved[name].format(f"x{name}") for name in waiting]
        lines, source = [], "row"
        if self._has_row():
            lines.append(f"row = {self._cut(f'values[{base} : {base} + {self.constant(self._span())}]')}")
            base = "0"
        else:
            source = "values"
        if step:
            rows["p"] = f"range({base}, {base} + {self.constant(size * step)}, {self.constant(step)})"
            terms.append("p")
        elif base != "0":
            terms.append(base)
        over = f"zip({', '.join(rows.values())})" if len(rows) > 1 else next(iter(rows.values()))
        elements = f"[{source}[{' + '.join(terms)}] for {', '.join(rows)} in "
        if size <= LONGEST:
            return [*lines, f"take({elements}{over}])"]
        part = f"{elements}islice(positions, {self.constant(LONGEST)})]"
        return [*lines, f"positions = iter({over})", f"while part := {part}:", "    take(part)"]

    def _by_columns(self, base: str, loop: int, size: int, waiting: Sequence[str]) -> list[str]:
        """Returns the text of the innermost two loops, the inner one outside."""
        assert self.column, "the caller checks it"
        inner, columns = self.column
        step, width = self.steps.get(loop, 0), self.constant(columns)
        rows = {}
        for name in waiting:
            start, by = self._sum({n: s for n, s in self.reads[name].items() if n != loop}), self.reads[name][loop]
            first = f"{start} + column * {self.constant(by // columns)}"
            rows[f"x{name}"] = f"{name}[{first} : {first} + {self.constant((size - 1) * by + 1)} : {self.constant(by)}]"
        terms = [self.resolved[name].format(f"x{name}") for name in waiting]
        if step:
            rows["p"] = f"range(start, start + {self.constant(size * step)}, {self.constant(step)})"
        over = f"zip({', '.join(rows.values())})" if len(rows) > 1 else next(iter(rows.values()))
        source, element, cut = "values", " + ".join([*terms, "p" if step else "start"]), list[str]()
        if self._only_indices_of_column():
            source, element = "part", terms[0]
            stride = self.constant(self._only_read().stride)
            cut = [f"    part = {self._cut(f'values[start : start + {self.constant(self._span())} : {stride}]')}"]
        return [
            f"block = new([0]) * {self.constant(size * columns)}",
            f"for column in range({width}):",
            f"    start = {base} + column * {self.constant(self.steps.get(inner, 0))}",
            *cut,
            f"    block[column::{width}] = new([{source}[{element}] for {', '.join(rows)} in {over}])",
            "extend(block)",
        ]

    def _merged(self) -> list[tuple[int, int]]:
        """Returns the loops, without `column` if there is one: (loop, size) of a short last loop, run outside."""
        loops = super()._merged()
        self.column: tuple[int, int] | None = None
        if len(loops) > 1:
            (outer, rows), (inner, columns) = loops[-2:]
            reads = [_steps(read) for read in self.address.reads]
            moving = [steps for steps in reads if steps.get(inner) or steps.get(outer)]
            in_order = all(steps.get(outer, 0) == steps.get(inner, 0) * columns for steps in moving)
            if moving and in_order and columns <= 16 and rows >= 4 * columns and rows * columns <= self.most_together:
                self.column = loops.pop()
        return loops

    def _span(self) -> int:
        """Returns how many elements lie from the first to the last that the innermost loop may read, both included."""
        loop, size = self.loops[-1]
        reads = [term for term in self.address.terms if term.read and loop in _steps(term.read)]
        return 1 + (size - 1) * self.steps.get(loop, 0) + sum((term.size - 1) * term.stride for term in reads)

    def _has_row(self) -> bool:
        """Returns whether the innermost loop reads from a row."""
        return bool(self.loops) and not self.column and self._span() <= 4 * self.loops[-1][1]

    def _cut(self, elements: str) -> str:
        """Returns the text that copies the elements of a slice, from the text of that slice."""
        return f"cut({elements})" if self._cut_to_list() else elements

    def _cut_to_list(self) -> bool:
        """Returns whether a row or column is copied to a list. That pays if it has no more elements than are read from it."""
        if self._has_row():
            return self._span() <= min(self.loops[-1][1], LONGEST)
        return self._only_indices_of_column() and self._only_read().size <= min(self.loops[-1][1], LONGEST)

    def _only_indices_of_row(self) -> bool:
        """Returns whether the indices themselves are the positions of the elements in a row."""
        return self._has_row() and self._only_indices() and self._only_read().stride == 1

    def _only_indices_of_column(self) -> bool:
        """Returns whether the indices themselves are positions in a column, and the column is worth cutting out."""
        return bool(self.column) and self._only_indices() and self._only_read().size <= 4 * self.loops[-1][1]

    def _only_indices(self) -> bool:
        """Returns whether one index is all that changes the address in the innermost loop."""
        reads = sum(term.read is not None for term in self.address.terms)
        loop = self.loops[-1][0] if self.loops else -1
        return reads == 1 and loop in self.reads["t0"] and not self.steps.get(loop, 0)

    def _only_read(self) -> Term:
        return next(term for term in self.address.terms if term.read)


class _PiecesReaderWriter(_ReaderWriter):
    """Writes the function that reads elements in pieces. It gives what was read as soon as it is enough for a piece."""

    most_together = LONGEST

    def compiled(self) -> Any:
        self._write()
        self.lines.append("yield output")
        return self._made()

    def innermost(self, base: str, loop: int, size: int, waiting: Sequence[str]) -> list[str]:
        lines = super().innermost(base, loop, size, waiting)
        indent = lines[-1][: -len(lines[-1].lstrip())]
        return [*lines, f"{indent}if len(output) >= {LONGEST}: yield output; del output[:]"]


def _steps(read: IndexRead) -> dict[int, int]:
    """Returns the step of an index read in each loop, in tuples."""
    steps: dict[int, int] = {}
    for loop, step in read.steps:
        steps[loop] = steps.get(loop, 0) + step // read.tuple_size
    return steps
