"""Runs an expanded line over the output's coordinates.

The line is compiled once per descriptor into a function that gives, for every output element in row-major order, the
address of the input element that it reads: piece by piece, so that an output of any size takes no more memory than its
own. Values are never looked at: they are moved as bit patterns.

An index counts from the end where it is negative. An index outside `[-n, n - 1]` has no documented value: the address
is then UNDEFINED (any negative number).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain as chained
from itertools import islice

from ..errors import PseudocodeError
from .tree import Constant, Coordinate, Line, Reference

UNDEFINED = -(1 << 62)
"""Added to an address, it keeps the sum negative: no address reaches 2**62."""

LONGEST = 1 << 16
"""Elements of the longest piece that is a list."""


@dataclass(frozen=True)
class Program:
    """A compiled line. `pieces` takes the flat values of each tensor that the line reads its indices from, and gives the
    addresses of one piece of the output after the other."""

    line: Line
    sizes: Mapping[str, tuple[int, ...]]
    source: str
    pieces: Callable[[Mapping[str, Sequence[int]]], Iterator[Sequence[int]]]

    def addresses(self, indices: Mapping[str, Sequence[int]]) -> list[int]:
        """All addresses, row-major."""
        return list(chained.from_iterable(self.pieces(indices)))


def run(program: Program, values: Sequence[int], indices: Mapping[str, Sequence[int]]) -> Sequence[int | None]:
    """The output's values in row-major order, None where the page defines none; an array, where it defines all and
    `values` are one."""
    out = values[:0] if isinstance(values, array) else []
    for piece in program.pieces(indices):
        if isinstance(piece, range) and piece.start >= 0:
            out.extend(values[piece.start : piece.stop : piece.step])
        elif min(piece) >= 0:
            out.extend([values[a] for a in piece])
        else:
            out = list(out)
            out.extend([values[a] if a >= 0 else None for a in piece])
    return out


def compile_line(line: Line, sizes: Mapping[str, tuple[int, ...]]) -> Program:
    """Compiles an expanded line for tensors of these sizes (by the line's names). Raises PseudocodeError."""
    source = _Writer(line, sizes).write()
    namespace: dict = {"array": array, "islice": islice}
    exec(compile(source, "<pseudocode>", "exec"), namespace)  # text made below from numbers and own names only
    return Program(line, dict(sizes), source, namespace["pieces"])


def strides_of(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def aligned(reference: Reference, sizes: Sequence[int]) -> list[tuple[object, int, int]]:
    """(coordinate, size, stride) of each coordinate, right-aligned. Raises PseudocodeError where it does not fit."""
    skipped = len(sizes) - len(reference.coordinates)
    if skipped < 0 or any(size != 1 for size in sizes[: max(skipped, 0)]):
        raise PseudocodeError(f"{reference} does not address a tensor of sizes {{{','.join(map(str, sizes))}}}")
    return list(zip(reference.coordinates, sizes[skipped:], strides_of(sizes)[skipped:]))


class _Writer:
    """Writes the function's text: tables of resolved indices first, then one loop per output coordinate, everything
    hoisted to the loop that it depends on, and the innermost loop as a range or a comprehension."""

    def __init__(self, line: Line, sizes: Mapping[str, tuple[int, ...]]):
        self.lines: list[str] = ["def pieces(tensors):"]
        self.loops: list[tuple[str, int]] = []
        self.sizes = sizes
        self.line = line
        for coordinate, size, _ in self._aligned(line.target):
            if not isinstance(coordinate, Coordinate) or coordinate.name in dict(self.loops):
                raise PseudocodeError(f"{line.target} does not name each coordinate once")
            self.loops.append((coordinate.name, size))
        # what is added to the address: (coordinate, stride) terms, and tables with such terms for their own addresses
        self.constant = 0
        self.steps: dict[str, int] = {}
        self.tables: dict[str, dict[str, int]] = {}

    def write(self) -> str:
        for coordinate, size, stride in self._aligned(self.line.source):
            match coordinate:
                case Constant(value):
                    if value >= size:
                        raise PseudocodeError(f"{self.line.source}: there is no {value}, the dimension has {size}")
                    self.constant += value * stride
                case Coordinate(name):
                    self._bound(coordinate, size)
                    self.steps[name] = self.steps.get(name, 0) + stride
                case Reference():
                    self._table(coordinate, size, stride)
        self._loops()
        return "\n".join(self.lines) + "\n"

    def _aligned(self, reference: Reference) -> list[tuple[object, int, int]]:
        if reference.tensor not in self.sizes:
            raise PseudocodeError(f"{self.line}: {reference.tensor} is not a tensor of the operator")
        return aligned(reference, self.sizes[reference.tensor])

    def _bound(self, coordinate: Coordinate, size: int) -> None:
        count = dict(self.loops).get(coordinate.name)
        if count is None:
            raise PseudocodeError(f"{self.line}: {coordinate} is not a coordinate of the output")
        if count > size:
            raise PseudocodeError(f"{self.line}: {coordinate} runs to {count - 1}, the dimension has {size}")

    def _table(self, reference: Reference, size: int, stride: int) -> None:
        """The indices of one reference, made addresses: a table as long as the index tensor (or as one coordinate of its
        tuples)."""
        steps: dict[str, int] = {}
        offset, every = 0, 1
        entries = self._aligned(reference)
        if entries and isinstance(entries[-1][0], Constant):
            coordinate, every, _ = entries.pop()
            offset = coordinate.value
            if offset >= every:
                raise PseudocodeError(f"{reference}: the last dimension has {every}")
        for coordinate, count, step in entries:
            match coordinate:
                case Coordinate(name):
                    self._bound(coordinate, count)
                    steps[name] = steps.get(name, 0) + step // every
                case _:
                    raise PseudocodeError(f"{reference}: an index of an index cannot be run")
        name = f"t{len(self.tables)}"
        indices = f"tensors[{reference.tensor!r}]" + (f"[{offset}::{every}]" if every > 1 else "")
        self.lines.append(
            f"    {name} = array('q', ((i if i >= 0 else i + {size}) * {stride} if {-size} <= i < {size} else {UNDEFINED}"
            f" for i in {indices}))"
        )
        self.tables[name] = steps

    def _loops(self) -> None:
        loops = self._merged()
        depth = {name: i for i, (name, _) in enumerate(loops)}
        waiting = {table: {n: s for n, s in steps.items() if n in depth} for table, steps in self.tables.items()}
        indent = "    "

        def bind(known: int) -> None:
            """Adds the tables whose coordinates are those of the first `known` loops."""
            for table in [t for t, steps in waiting.items() if all(depth[n] < known for n in steps)]:
                self.lines.append(f"{indent}b{known} += {table}[{_sum(waiting.pop(table), depth)}]")

        self.lines.append(f"    b0 = {self.constant}")
        bind(0)
        for i, (name, size) in enumerate(loops[:-1]):
            self.lines.append(f"{indent}for v{i} in range({size}):")
            indent += "    "
            self.lines.append(f"{indent}b{i + 1} = b{i} + v{i} * {self.steps.get(name, 0)}")
            bind(i + 1)
        self.lines += [indent + line for line in self._innermost(loops, waiting, depth)]

    def _merged(self) -> list[tuple[str, int]]:
        """The loops, without those that stay at 0, and with one in place of two through which all addresses go on alike."""
        merged: list[tuple[str, int]] = []
        for name, size in ((n, s) for n, s in reversed(self.loops) if s > 1):
            inner, count = merged[-1] if merged else (None, 0)
            if merged and all(t.get(name, 0) == t.get(inner, 0) * count for t in (self.steps, *self.tables.values())):
                merged[-1] = inner, count * size
            else:
                merged.append((name, size))
        return merged[::-1]

    def _innermost(self, loops, waiting, depth) -> list[str]:
        """The last loop: a block in one piece, or element by element where an index decides each."""
        if not loops:
            return ["yield (b0,)"]
        name, size = loops[-1]
        base, step = f"b{len(loops) - 1}", self.steps.get(name, 0)
        line = f"range({base}, {base} + {size * step}, {step})" if step else f"({base},) * {size}"
        if not waiting:
            return [f"yield {line}"]
        runs, long = [], size > LONGEST
        for table, steps in waiting.items():
            by = steps.pop(name)
            start = _sum(steps, depth)
            read = f"memoryview({table})" if long else table
            runs.append(f"{read}[{start} : {start} + {(size - 1) * by + 1}{f' : {by}' if by > 1 else ''}]")
        letters = [f"x{i}" for i in range(len(runs))]
        if step:
            runs, letters, base = [line, *runs], ["p", *letters], None
        over = runs[0] if len(runs) == 1 else f"zip({', '.join(runs)})"
        terms = " + ".join([base, *letters] if base else letters)
        if not long:
            return [f"yield [{terms} for {', '.join(letters)} in {over}]"]
        some = f"[{terms} for {', '.join(letters)} in islice(row, {LONGEST})]"
        return [f"row = iter({over})", f"while some := {some}:", "    yield some"]


def _sum(steps: Mapping[str, int], depth: Mapping[str, int]) -> str:
    """The address that loop variables make with these strides."""
    terms = [f"v{depth[n]} * {s}" if s != 1 else f"v{depth[n]}" for n, s in steps.items() if s]
    return " + ".join(terms) or "0"


# --- one element, in words -----------------------------------------------------------------------------------------


def chain(line: Line, sizes: Mapping[str, tuple[int, ...]], at: Sequence[int], indices: Mapping[str, Sequence[int]]):
    """How one output element is read: (text, address), as ("output[1, 0] = input[1, indices[0] = 2]", 5).

    `at` holds one coordinate per dimension of the output; the address is None where the page defines no value.
    """
    target = sizes[line.target.tensor]
    if len(at) != len(target) or any(not 0 <= c < s for c, s in zip(at, target)):
        raise PseudocodeError(
            f"[{', '.join(map(str, at))}] is not an element of sizes {{{','.join(map(str, target))}}}"
        )
    names = {
        c.name: value
        for (c, _, _), value in zip(aligned(line.target, target), at[len(at) - len(line.target.coordinates) :])
    }

    def walk(reference: Reference) -> tuple[str, int | None]:
        words, address = [], 0
        for coordinate, size, stride in aligned(reference, sizes[reference.tensor]):
            if isinstance(coordinate, Reference):
                inner, place = walk(coordinate)
                index = indices[coordinate.tensor][place]
                word = f"{inner} = {index}"
                if not -size <= index < size:
                    word += f", outside [{-size}, {size - 1}]"
                    address = None
                elif index < 0:
                    word += f" -> {index + size}"
                position = index % size
            else:
                position = names[coordinate.name] if isinstance(coordinate, Coordinate) else coordinate.value
                word = str(position)
            words.append(word)
            if address is not None:
                address += position * stride
        return f"{reference.tensor}[{', '.join(words)}]", address

    text, address = walk(line.source)
    shown = [names[c.name] for c in line.target.coordinates]
    return f"{line.target.tensor}[{', '.join(map(str, shown))}] = {text}", address
