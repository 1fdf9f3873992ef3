"""Writes an address as the text of a Python function over all its loop positions, and compiles it.

The text of a function holds no sizes: they are its constants. So the many descriptors of a catalogue need few different
texts, and Python compiles each text once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .access import Address, IndexRead

UNDEFINED = -(1 << 62)
"""Stands for an index that is out of range. No address reaches 2**62, so every sum with it is negative."""

LONGEST = 1 << 14
"""The largest number of elements in a piece that is a list. A piece that is a range may be longer."""

Tensors = Mapping[str, Sequence[int]]
"""Flat elements by the pseudocode's tensor names: numbers for index tensors, bit patterns for all others."""

Pieces = Callable[[Tensors], Iterator[Sequence[int]]]
"""Gives the addresses for all loop positions in pieces. A negative address stands for an undefined element."""


def compile_address(address: Address) -> Pieces:
    """Compiles an address into a function that gives its value for all loop positions."""
    return _Writer(address).compiled()


@lru_cache(maxsize=512)
def _factory(text: str) -> Callable[..., Pieces]:
    """Compiles the text of a function that takes constants and returns the compiled function."""
    namespace: dict[str, Any] = {"islice": islice}
    # The text is safe to execute: it has only fixed names. Tensor names are constants, or quoted strings in it.
    exec(compile(text, "<pseudocode>", "exec"), namespace)
    factory: Callable[..., Pieces] = namespace["make"]
    return factory


class _Writer:
    """Writes the text of a function over all loop positions of an address.

    There is one loop per loop of the address. Each part of the address is added in the outermost loop in which its value is
    fixed. The innermost loop is a range or a comprehension.
    """

    def __init__(self, address: Address):
        self.address = address
        self.lines: list[str] = []
        self.constants: list[object] = []
        self.steps: dict[int, int] = {}
        for term in address.terms:
            if term.loop is not None:
                self.steps[term.loop] = self.steps.get(term.loop, 0) + term.stride
        self.loops = self._merged()
        self.depth = {loop: i for i, (loop, _) in enumerate(self.loops)}
        self.reads: dict[str, dict[int, int]] = {}
        """Name of a variable with indices -> loop -> step in that variable."""
        self.parts: dict[str, str] = {}
        """Name of such a variable -> the text of an index's part of the address. The index is named `x` and the variable."""
        for term in address.terms:
            if term.read:
                name = f"t{len(self.reads)}"
                self.reads[name] = {n: s for n, s in _steps(term.read).items() if n in self.depth and s}
                self.parts[name] = self._part(name, term.size, term.stride)
                self.lines.append(f"{name} = {self._indices(term.read)}")

    def compiled(self) -> Pieces:
        """Returns the compiled function."""
        self._write()
        names = ", ".join(f"n{i}" for i in range(len(self.constants)))
        head = f"def make({names}):\n    def run(tensors):\n"
        text = head + "".join(f"        {line}\n" for line in self.lines) + "    return run\n"
        return _factory(text)(*self.constants)

    def _constant(self, value: object) -> str:
        """Returns the name of a constant of the function."""
        self.constants.append(value)
        return f"n{len(self.constants) - 1}"

    def _indices(self, read: IndexRead) -> str:
        """Returns the text of the elements of an index tensor, or of one coordinate of its tuples."""
        text = f"tensors[{self._constant(read.tensor)}]"
        if read.tuple_size == 1:
            return text
        return f"{text}[{self._constant(read.offset)}::{self._constant(read.tuple_size)}]"

    def _part(self, name: str, size: int, stride: int) -> str:
        """Returns the text of an index's part of the address, in a dimension of this size and stride."""
        x, low, high, factor = f"x{name}", self._constant(-size), self._constant(size), self._constant(stride)
        return f"(({x} if {x} >= 0 else {x} + {high}) * {factor} if {low} <= {x} < {high} else {UNDEFINED})"

    def _write(self) -> None:
        """Writes all lines."""
        base = self._constant(sum(term.constant * term.stride for term in self.address.terms))
        self.lines.append(f"b0 = {' + '.join([base, *self._fixed(-1, '')])}")
        indent = ""
        for i, (loop, size) in enumerate(self.loops[:-1]):
            self.lines.append(f"{indent}for v{i} in range({self._constant(size)}):")
            indent += "    "
            terms = [f"b{i}", *self._fixed(i, indent)]
            if step := self.steps.get(loop, 0):
                terms.append(f"v{i} * {self._constant(step)}")
            self.lines.append(f"{indent}b{i + 1} = {' + '.join(terms)}")
        self.lines += [indent + line for line in self._innermost()]

    def _fixed(self, depth: int, indent: str) -> list[str]:
        """Writes the indices whose innermost loop has this depth (-1: no loop). Returns the texts of their parts."""
        names = [name for name, steps in self.reads.items() if max((self.depth[n] for n in steps), default=-1) == depth]
        self.lines += [f"{indent}x{name} = {name}[{self._sum(self.reads[name])}]" for name in names]
        return [self.parts[name] for name in names]

    def _innermost(self) -> list[str]:
        """Returns the text of the innermost loop."""
        if not self.loops:
            return ["yield (b0,)"]
        (loop, count), base = self.loops[-1], f"b{len(self.loops) - 1}"
        step, size = self.steps.get(loop, 0), self._constant(count)
        moved = f"range({base}, {base} + {self._constant(count * step)}, {self._constant(step)})"
        rows = {f"x{name}": self._row(name, loop, count) for name, steps in self.reads.items() if loop in steps}
        if not rows:
            return [f"yield {moved}" if step else f"yield ({base},) * {size}"]
        terms = [*(self.parts[name[1:]] for name in rows), "p" if step else base]
        rows |= {"p": moved} if step else {}
        over = f"zip({', '.join(rows.values())})" if len(rows) > 1 else next(iter(rows.values()))
        element = f"{' + '.join(terms)} for {', '.join(rows)} in"
        if count <= LONGEST:
            return [f"yield [{element} {over}]"]
        piece = f"[{element} islice(row, {self._constant(LONGEST)})]"
        return [f"row = iter({over})", f"while piece := {piece}:", "    yield piece"]

    def _row(self, name: str, loop: int, count: int) -> str:
        """Returns the text of the indices that a loop goes through, at the positions of the loops outside."""
        steps = self.reads[name]
        start, by = self._sum({n: s for n, s in steps.items() if n != loop}), steps[loop]
        stop = f"{start} + {self._constant((count - 1) * by + 1)}"
        return f"{name}[{start} : {stop} : {self._constant(by)}]"

    def _sum(self, steps: Mapping[int, int]) -> str:
        """Returns the text of a sum: each loop variable times its step."""
        return " + ".join(f"v{self.depth[n]} * {self._constant(s)}" for n, s in steps.items()) or "0"

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


def _steps(read: IndexRead) -> dict[int, int]:
    """Returns the step of an index read in each loop, in tuples."""
    steps: dict[int, int] = {}
    for loop, step in read.steps:
        steps[loop] = steps.get(loop, 0) + step // read.tuple_size
    return steps
