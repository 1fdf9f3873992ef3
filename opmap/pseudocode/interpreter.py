"""Compiles an access map and runs it. `naive` gives the same results slowly, one element at a time.

Each address of the map is compiled once per descriptor into a function that gives the addresses for all loop positions.
The function gives them in pieces, so that a large output needs little memory beside its own elements. Values are moved
as bit patterns and never interpreted.

An index counts from the end if it is negative. An index outside `[-n, n - 1]` has no documented value. Two writes to
one element, and a write whose index is out of range, have no documented result either.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from .access import AccessMap, Address, IndexRead, access_map
from .tree import Copy, Statement

UNDEFINED = -(1 << 62)
"""Stands for an index that is out of range. No address reaches 2**62, so every sum with it is negative."""

LONGEST = 1 << 16
"""The largest number of elements in a piece that is a list. A piece that is a range may be longer."""

Tensors = Mapping[str, Sequence[int]]
"""Flat elements by the pseudocode's tensor names: numbers for index tensors, bit patterns for all others."""

Pieces = Callable[[Tensors], Iterator[Sequence[int]]]
"""Gives the addresses for all loop positions in pieces. A negative address stands for an undefined element."""


@dataclass(frozen=True)
class CompiledMove:
    """A statement that moves single elements. `target` is None if it writes every output element in row-major order."""

    tensor: str
    source: Pieces
    target: Pieces | None


@dataclass(frozen=True)
class Program:
    """A compiled access map."""

    access: AccessMap
    statements: tuple[Copy | CompiledMove, ...]


def compile_statements(statements: Sequence[Statement], sizes: Mapping[str, tuple[int, ...]]) -> Program:
    """Compiles expanded statements for tensors of these sizes. Raises PseudocodeError if they do not fit."""
    return compile_map(access_map(statements, sizes))


def compile_map(access: AccessMap) -> Program:
    """Compiles an access map."""
    compiled: list[Copy | CompiledMove] = []
    for statement in access.statements:
        if isinstance(statement, Copy):
            compiled.append(statement)
        else:
            target = None if statement.target.in_order else compile_address(statement.target)
            compiled.append(CompiledMove(statement.source.tensor, compile_address(statement.source), target))
    return Program(access, tuple(compiled))


def run(program: Program, tensors: Tensors) -> Sequence[int | None]:
    """Returns the output's elements in row-major order, None for each element without a documented value.

    The result is an array if every element is documented and the elements that are moved come from an array.
    """
    count = 1
    for size in program.access.sizes[program.access.output]:
        count *= size
    output: Sequence[int | None] | None = None
    for statement in program.statements:
        if isinstance(statement, Copy):
            output = tensors[statement.source][:]
        elif statement.target is None:
            output = _read(statement, tensors)
        else:
            output = _write(statement, statement.target, tensors, [None] * count if output is None else output)
    return [None] * count if output is None else output


def _read(move: CompiledMove, tensors: Tensors) -> Sequence[int | None]:
    """The elements that a move reads, if it writes them in row-major order."""
    values = tensors[move.tensor]
    output = values[:0] if isinstance(values, array) else []
    for piece in move.source(tensors):
        if isinstance(piece, range) and piece.start >= 0:
            output.extend(values[piece.start : piece.stop : piece.step])
        elif min(piece) >= 0:
            output.extend([values[a] for a in piece])
        else:
            output = list(output)
            output.extend([values[a] if a >= 0 else None for a in piece])
    return output


def _write(move: CompiledMove, target: Pieces, tensors: Tensors, before: Sequence[int | None]) -> Sequence[int | None]:
    """The output after a move whose target addresses are not simply in row-major order."""
    values = tensors[move.tensor]
    output: list[int | None] = list(before)
    written = bytearray(len(output))
    sources = chain.from_iterable(move.source(tensors))
    for place, address in zip(chain.from_iterable(target(tensors)), sources, strict=True):
        if place < 0:
            return [None] * len(output)
        output[place] = values[address] if address >= 0 and not written[place] else None
        written[place] = 1
    if isinstance(before, array) and None not in output:
        elements = before[:0]
        elements.extend(value for value in output if value is not None)
        return elements
    return output


# --- compiling an address ------------------------------------------------------------------------------------------


def compile_address(address: Address) -> Pieces:
    """Compiles an address into a function that gives its value for all loop positions."""
    namespace: dict[str, object] = {"array": array, "islice": islice}
    # The text is safe to execute: it has only numbers and fixed names. Tensor names are quoted strings in it.
    exec(compile(_Writer(address).write(), "<pseudocode>", "exec"), namespace)
    return namespace["pieces"]  # type: ignore[return-value]  # defined by the text


class _Writer:
    """Writes the function's text.

    Tables of resolved indices come first. Then there is one loop per loop of the address. Each part of the address is
    added in the outermost loop in which its value is fixed. The innermost loop is a range or a comprehension.
    """

    def __init__(self, address: Address):
        self.lines: list[str] = ["def pieces(tensors):"]
        self.loops = list(enumerate(address.loops))
        self.constant = sum(term.constant * term.stride for term in address.terms)
        self.steps: dict[int, int] = {}
        self.tables: dict[str, dict[int, int]] = {}
        for term in address.terms:
            if term.read:
                self._table(term.read, term.size, term.stride)
            elif term.loop is not None:
                self.steps[term.loop] = self.steps.get(term.loop, 0) + term.stride

    def _table(self, read: IndexRead, size: int, stride: int) -> None:
        """Writes the table of one index read: for each index, its part of the address (position times stride)."""
        tuple_size = read.tuple_size
        steps: dict[int, int] = {}
        for loop, step in read.steps:
            steps[loop] = steps.get(loop, 0) + step // tuple_size
        name = f"t{len(self.tables)}"
        indices = f"tensors[{read.tensor!r}]" + (f"[{read.offset}::{tuple_size}]" if tuple_size > 1 else "")
        self.lines.append(
            f"    {name} = array('q', ((i if i >= 0 else i + {size}) * {stride} if {-size} <= i < {size}"
            f" else {UNDEFINED} for i in {indices}))"
        )
        self.tables[name] = steps

    def write(self) -> str:
        """Returns the text."""
        loops = self._merged()
        depth = {loop: i for i, (loop, _) in enumerate(loops)}
        waiting = {table: {n: s for n, s in steps.items() if n in depth} for table, steps in self.tables.items()}
        indent = "    "

        def bind(bound: int) -> None:
            """Adds the entries of the tables that depend on no loop after the first `bound` ones."""
            for table in [t for t, steps in waiting.items() if all(depth[n] < bound for n in steps)]:
                self.lines.append(f"{indent}b{bound} += {table}[{_sum(waiting.pop(table), depth)}]")

        self.lines.append(f"    b0 = {self.constant}")
        bind(0)
        for i, (loop, size) in enumerate(loops[:-1]):
            self.lines.append(f"{indent}for v{i} in range({size}):")
            indent += "    "
            self.lines.append(f"{indent}b{i + 1} = b{i} + v{i} * {self.steps.get(loop, 0)}")
            bind(i + 1)
        self.lines += [indent + line for line in self._innermost(loops, waiting, depth)]
        return "\n".join(self.lines) + "\n"

    def _merged(self) -> list[tuple[int, int]]:
        """Removes loops of length 1 and merges adjacent loops whose addresses are contiguous."""
        merged: list[tuple[int, int]] = []
        for loop, size in ((n, s) for n, s in reversed(self.loops) if s > 1):
            inner, count = merged[-1] if merged else (-1, 0)
            parts = (self.steps, *self.tables.values())
            if merged and all(part.get(loop, 0) == part.get(inner, 0) * count for part in parts):
                merged[-1] = inner, count * size
            else:
                merged.append((loop, size))
        return merged[::-1]

    def _innermost(
        self, loops: list[tuple[int, int]], waiting: dict[str, dict[int, int]], depth: Mapping[int, int]
    ) -> list[str]:
        """The text of the innermost loop: one range, or one address per element if an index depends on this loop."""
        if not loops:
            return ["yield (b0,)"]
        loop, size = loops[-1]
        base, step = f"b{len(loops) - 1}", self.steps.get(loop, 0)
        block = f"range({base}, {base} + {size * step}, {step})" if step else f"({base},) * {size}"
        if not waiting:
            return [f"yield {block}"]
        runs, long = [], size > LONGEST
        for table, steps in waiting.items():
            by = steps.pop(loop)
            start = _sum(steps, depth)
            read = f"memoryview({table})" if long else table
            runs.append(f"{read}[{start} : {start} + {(size - 1) * by + 1}{f' : {by}' if by > 1 else ''}]")
        letters = [f"x{i}" for i in range(len(runs))]
        if step:
            runs, letters, base = [block, *runs], ["p", *letters], ""
        over = runs[0] if len(runs) == 1 else f"zip({', '.join(runs)})"
        terms = " + ".join([base, *letters] if base else letters)
        if not long:
            return [f"yield [{terms} for {', '.join(letters)} in {over}]"]
        rows = f"[{terms} for {', '.join(letters)} in islice(row, {LONGEST})]"
        return [f"row = iter({over})", f"while part := {rows}:", "    yield part"]


def _sum(steps: Mapping[int, int], depth: Mapping[int, int]) -> str:
    """The text of a sum: each loop variable times its step."""
    terms = [f"v{depth[n]} * {s}" if s != 1 else f"v{depth[n]}" for n, s in steps.items() if s]
    return " + ".join(terms) or "0"
