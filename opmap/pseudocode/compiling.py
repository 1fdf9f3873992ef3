"""Writes a statement as the text of a Python function over all positions of its loops, and compiles it.

The function makes one pass: it computes an address, and gives the element there. The text of a function holds no sizes:
they are its constants. So the many descriptors of a catalogue need few different texts, and Python compiles each text
once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from .arithmetic import ARITHMETIC, quotient, remainder
from .computed import Computed, Expression, IndexRead, LoopPosition, interval, is_inside, linear

if TYPE_CHECKING:
    from .access import Address, Term

UNDEFINED = -(1 << 62)
"""Stands for an index that is out of range. No address reaches 2**62, so every sum with it is negative."""

LONGEST = 1 << 14
"""The largest number of elements in a piece that is a list. A piece that is a slice may be longer."""

Tensors = Mapping[str, Sequence[int]]
"""Flat elements by the pseudocode's tensor names: numbers for index tensors, bit patterns for all others."""

Pieces = Callable[[Tensors, Sequence[Any], Sequence[Any]], Iterator[Sequence[Any]]]
"""Gives, for all loop positions in pieces, what a function computes from the tensors.

The second argument holds the elements of the tensor that the address is of. The third one holds the output before the
statement, for a function with a guard.
"""


def compile_elements(address: Address, guard: Computed | None = None) -> Pieces:
    """Compiles an address into a function that gives the elements there, None for an undefined one.

    Of a range it gives the addresses.

    With a guard, it gives the element of the output before where the guard is 0. The loops must then write every
    element in order.
    """
    return _Writer(address, guard).compiled()


@lru_cache(maxsize=1024)
def _factory(text: str) -> Callable[..., Pieces]:
    """Compiles the text of a function that takes constants and returns the compiled function."""
    namespace: dict[str, Any] = {
        "UNDEFINED": UNDEFINED,
        "cuts": _cuts,
        "indices": _indices,
        "islice": islice,
        "listed": _listed,
        "picked": _picked,
        "quotient": quotient,
        "remainder": remainder,
        **{sign: own.function for sign, own in ARITHMETIC.items() if not own.level},
    }
    # The text is safe to execute: it has only fixed names. Tensor names are constants.
    exec(compile(text, "<pseudocode>", "exec"), namespace)
    factory: Callable[..., Pieces] = namespace["make"]
    return factory


def _indices(tensor: Sequence[int], offset: int, step: int) -> Sequence[int]:
    """Returns the elements of an index tensor, or one coordinate of its tuples; as a list if they are few."""
    own = tensor if step == 1 else tensor[offset::step]
    return _listed(own) if len(own) <= LONGEST else own


def _listed(elements: Sequence[int]) -> Sequence[int]:
    """Returns elements as a list, which Python reads faster than other memory."""
    return elements.tolist() if isinstance(elements, (array, memoryview)) else elements


def _cuts(count: int) -> Iterator[tuple[int, int]]:
    """Gives the start and the length of each piece of so many elements."""
    return ((at, min(count - at, LONGEST)) for at in range(0, count, LONGEST))


def _picked(row: Sequence[Any], indices: Sequence[int]) -> Sequence[Any]:
    """Returns the elements of a whole dimension at these indices, None for an index out of range.

    Python's sequences do the same: a negative index counts from the end, and one out of range raises IndexError.
    """
    try:
        return list(map(row.__getitem__, indices))
    except IndexError:
        return [row[index] if -len(row) <= index < len(row) else None for index in indices]


class _Part(NamedTuple):
    """A part of an address that is no sum of loops.

    `sets` are the names that it needs, each with its text. `text` is the part if `check` holds; an empty check always
    holds. `loops` are the loops whose positions it names, `reads` the variables with the elements that it reads.
    """

    text: str
    check: str
    sets: tuple[tuple[str, str], ...]
    loops: frozenset[int]
    reads: tuple[str, ...]
    place: str = ""
    """The part as an element of a list that refuses an index out of range; empty if there is no such list."""

    @property
    def whole(self) -> str:
        """The text of the part, or of what stands for an undefined element."""
        return f"({self.text} if {self.check} else UNDEFINED)" if self.check else self.text


class _Writer:
    """Writes the text of a function over all loop positions of an address.

    There is one loop per loop of the address. Each part of the address is added in the outermost loop in which its
    value is fixed. The inner loops together are one comprehension, or the innermost one is a slice.
    """

    def __init__(self, address: Address, guard: Computed | None):
        self.address = address
        self.head: list[str] = []
        self.constants: list[object] = []
        self.names: dict[object, str] = {}
        self.steps: dict[int, int] = {}
        self.base = 0
        computed: list[tuple[Term, Computed, bool]] = []
        """The terms that are computed and that are no sum of loops."""
        for term in address.terms:
            constant, steps = term.constant, {} if term.loop is None else {term.loop: 1}
            if term.computed:
                affine, inside = linear(term.computed), is_inside(term.computed, address.loops, term.size)
                if affine is None or not inside:
                    computed.append((term, term.computed, inside))
                    continue
                constant, steps = affine
            self.base += constant * term.stride
            for loop, step in steps.items():
                self.steps[loop] = self.steps.get(loop, 0) + step * term.stride
        expressions = [*(expression for _, expression, _ in computed), *filter(None, [guard])]
        named = {leaf.loop for e in expressions for leaf in e.leaves if isinstance(leaf, LoopPosition)}
        self.alone = frozenset(loop for loop in named if address.loops[loop] > 1)
        """The loops whose positions the text of a part names."""
        every_read = {r for e in expressions for r in e.leaves if isinstance(r, IndexRead)} | {*address.reads}
        self.loops = self._merged(every_read)
        self.depth = {loop: i for i, (loop, _) in enumerate(self.loops)}
        self.reads: dict[str, dict[int, int]] = {}
        """Name of a variable with indices -> loop -> step in that variable."""
        self.long: set[str] = set()
        """The names of the variables that are no list."""
        self.parts: list[_Part] = []
        for term in address.terms:
            if term.read:
                self.parts.append(self._index(self._variable(term.read), term.size, term.stride))
        for term, expression, inside in computed:
            self.parts.append(self._position(expression, inside, term))
        self.guard = None
        if guard is not None:
            self.guard = _Part(self._text(guard, []), "", (), self._named(guard), ())

    # --- the parts of an address ---

    def _named(self, node: Computed) -> frozenset[int]:
        """Returns the loops whose positions an expression names."""
        return frozenset(leaf.loop for leaf in node.leaves if isinstance(leaf, LoopPosition)) & self.alone

    def _index(self, name: str, size: int, stride: int) -> _Part:
        """Returns an index's part of the address, in a dimension of this size and stride."""
        x, low, high = f"x{name}", self._constant(-size), self._constant(size)
        text = f"({x} if {x} >= 0 else {x} + {high}){self._times(stride)}"
        place = ""
        if size <= min(LONGEST, prod(self.address.loops)):
            place = f"u{len(self.parts)}[{x}]"
            ends = f"0, {self._constant(size * stride)}, {self._constant(stride)}"
            self.head.append(f"u{len(self.parts)} = list(range({ends}))")
        return _Part(text, f"{low} <= {x} < {high}", (), frozenset(), (name,), place)

    def _position(self, expression: Computed, inside: bool, term: Term) -> _Part:
        """Returns a computed position's part of the address.

        One that depends on one loop alone is computed once for each position.
        """
        reads: list[str] = []
        text, loops, name = self._text(expression, reads), self._named(expression), f"p{len(self.parts)}"
        factor, limit = self._times(term.stride), self._constant(term.size)
        if len(loops) == 1 and not reads:
            (loop,) = loops
            part = f"{name}{factor}" if inside else f"{name}{factor} if 0 <= {name} < {limit} else UNDEFINED"
            size = self._constant(self.address.loops[loop])
            self.head.append(f"{name}s = [{part} for v{self.depth[loop]} in range({size}) for {name} in [{text}]]")
            self.reads[f"{name}s"] = {loop: 1}
            return _Part(f"x{name}s", "" if inside else f"x{name}s >= 0", (), frozenset(), (f"{name}s",))
        check = "" if inside else f"0 <= {name} < {limit}"
        return _Part(f"{name}{factor}", check, ((name, text),), loops, tuple(reads))

    def _variable(self, read: IndexRead) -> str:
        """Writes a variable with the elements that are read, and returns its name."""
        if read not in self.names:
            name = self.names[read] = f"t{len(self.reads)}"
            self.reads[name] = {n: s for n, s in _steps(read).items() if n in self.depth and s}
            tensor, *which = (self._constant(c) for c in (read.tensor, read.offset, read.tuple_size))
            self.head.append(f"{name} = indices(tensors[{tensor}], {', '.join(which)})")
            if prod(read.sizes) > LONGEST * read.tuple_size:
                self.long.add(name)
        return self.names[read]

    def _text(self, node: Expression, names: list[str]) -> str:
        """Returns the text of an expression, and adds the variables of its elements to `names`."""
        if isinstance(node, int):
            return self._constant(node)
        if isinstance(node, LoopPosition):
            return f"v{self.depth[node.loop]}" if node.loop in self.depth else "0"
        if isinstance(node, IndexRead):
            names.append(self._variable(node))
            return f"x{names[-1]}"
        assert isinstance(node, Computed), "an operand stands only in the value of a move"
        texts = [self._text(operand, names) for operand in node.operands]
        match node.operator:
            case "/" | "%":
                bounds = [interval(operand, self.address.loops) for operand in node.operands]
                if all(b is not None and b[0] >= 0 for b in bounds):
                    return f"({texts[0]} {node.operator.replace('/', '//')} {texts[1]})"
                return f"{'quotient' if node.operator == '/' else 'remainder'}({', '.join(texts)})"
            case "min" | "max":
                return (
                    f"({texts[0]} if {texts[0]} {'<=' if node.operator == 'min' else '>='} {texts[1]} else {texts[1]})"
                )
            case "and" | "or":
                return f"(1 if {texts[0]} {node.operator} {texts[1]} else 0)"
            case "xor":
                return f"(bool({texts[0]}) != bool({texts[1]}))"
            case sign if not ARITHMETIC[sign].level:
                return f"{sign}({', '.join(texts)})"
        return f"({f' {node.operator} '.join(texts)})" if len(texts) > 1 else f"({node.operator} {texts[0]})"

    def _constant(self, value: object) -> str:
        """Returns the name of a constant of the function."""
        self.constants.append(value)
        return f"n{len(self.constants) - 1}"

    def _times(self, factor: int) -> str:
        return "" if factor == 1 else f" * {self._constant(factor)}"

    # --- the function ---

    def compiled(self) -> Pieces:
        """Returns the compiled function."""
        lines = self._lines()
        names = ", ".join(f"n{i}" for i in range(len(self.constants)))
        head = f"def make({names}):\n    def run(tensors, values, before):\n"
        text = head + "".join(f"        {line}\n" for line in (*self.head, *lines)) + "    return run\n"
        return _factory(text)(*self.constants)

    def _lines(self) -> list[str]:
        """Returns the lines behind the variables: loops, and in the innermost one `yield`."""
        lines, base, missing = ["old = iter(before)"] if self.guard else [], self._constant(self.base), False
        indent, first = "", self._first_together()
        sets, base, missing = self._fixed(-1, base, missing)
        lines += [f"{name} = {text}" for name, text in sets]
        for i in range(first):
            clause, sets, base, missing = self._outer(i, base, missing)
            lines.append(f"{indent}{clause}:")
            indent += "    "
            lines += [f"{indent}{name} = {text}" for name, text in sets]
        clauses: list[str] = []
        for i in range(first, len(self.loops) - 1):
            clause, sets, base, missing = self._outer(i, base, missing)
            clauses += [clause, *(f"for {name} in [{text}]" for name, text in sets)]
        return lines + [indent + line for line in self._innermost(clauses, base, missing)]

    def _first_together(self) -> int:
        """Returns the first of the loops that are one comprehension: as many of the inner ones as fit into a piece.

        Elements at one distance are a slice: it is faster than any comprehension.
        """
        first = len(self.loops) - 1
        count = LONGEST if self._is_slice else self.loops[first][1]
        while first and count * self.loops[first - 1][1] <= LONGEST:
            first -= 1
            count *= self.loops[first][1]
        return first

    def _depth(self, part: _Part) -> int:
        """Returns the depth of the innermost loop that a part depends on; -1 if it depends on none."""
        loops = {*part.loops, *(loop for name in part.reads for loop in self.reads[name])}
        return max((self.depth[loop] for loop in loops), default=-1)

    @property
    def _is_slice(self) -> bool:
        """Whether the innermost loop goes through elements at one distance."""
        last = len(self.loops) - 1
        return self.guard is None and all(self._depth(part) < last for part in self.parts)

    def _fixed(self, depth: int, base: str, missing: bool, moved: str = "") -> tuple[list[tuple[str, str]], str, bool]:
        """Returns what is fixed in the loop of this depth: names with their texts, the name of the address so far, and
        whether it may be undefined.
        """
        names = [name for name, steps in self.reads.items() if max((self.depth[n] for n in steps), default=-1) == depth]
        sets = [(f"x{name}", f"{name}[{self._sum(self.reads[name])}]") for name in names]
        parts = [part for part in self.parts if self._depth(part) == depth]
        for part in parts:
            sets += part.sets
            missing = missing or bool(part.check)
        terms = [base, *filter(None, [moved]), *(part.whole for part in parts)]
        if len(terms) > 1:
            base = f"b{depth + 1}"
            sets.append((base, " + ".join(terms)))
        return sets, base, missing

    def _outer(self, i: int, base: str, missing: bool) -> tuple[str, list[tuple[str, str]], str, bool]:
        """Returns the beginning of a loop that is not the innermost one, and what `_fixed` returns for it."""
        loop, size = self.loops[i]
        step, count = self.steps.get(loop, 0), self._constant(size)
        is_named = loop in self.alone or any(loop in steps for steps in self.reads.values())
        if step and not is_named:
            distance = self._constant(step)
            stop = self._constant(size * step)
            sets, own, missing = self._fixed(i, f"a{i}", missing)
            return f"for a{i} in range({base}, {base} + {stop}, {distance})", sets, own, missing
        sets, own, missing = self._fixed(i, base, missing, f"v{i}{self._times(step)}" if step else "")
        return f"for v{i} in range({count})", sets, own, missing

    def _innermost(self, clauses: Sequence[str], base: str, missing: bool) -> list[str]:
        """Returns the lines of the innermost loop, and of those around it whose `clauses` are in one comprehension with
        it.
        """
        (loop, count), last = self.loops[-1], len(self.loops) - 1
        step, size = self.steps.get(loop, 0), self._constant(count)
        none = f" if {base} >= 0 else [None] * {size}" if missing else ""
        if self._is_slice:
            return [f"yield {self._slice(base, step, count)}{none}"]
        parts = [part for part in self.parts if self._depth(part) == last]
        is_cut = not clauses and count > LONGEST
        at, length = ("at", "length") if is_cut else ("", size)
        lines, indent = ([f"for at, length in cuts({size}):"], "    ") if is_cut else ([], "")
        rows = {f"x{name}": self._row(name, loop, count, at) for name, steps in self.reads.items() if loop in steps}
        row = "" if clauses or step or self.guard or len(rows) != 1 else self._whole_row(parts, base, count)
        if row:
            return [*lines, f"{indent}yield picked({row}, {next(iter(rows.values()))}){none.replace(size, length)}"]
        if any(loop in part.loops for part in (*parts, *filter(None, [self.guard]))):
            rows[f"v{last}"] = f"range({at}, {at} + length)" if is_cut else f"range({size})"
        if step:
            start = f"{base} + at{self._times(step)}" if is_cut else base
            stop = f"{start} + length{self._times(step)}" if is_cut else f"{base} + {self._constant(count * step)}"
            rows["p"] = f"range({start}, {stop}, {self._constant(step)})"
        if self.guard:
            rows["o"] = f"islice(old, {length})"
        checks = [*([f"{base} >= 0"] if missing else []), *(part.check for part in parts if part.check)]
        element = f"values[{' + '.join([*(part.text for part in parts), 'p' if step else base])}]"
        if checks:
            element = f"{element} if {' and '.join(checks)} else None"
        if self.guard:
            element = f"({element}) if {self.guard.text} else o"
        over = f"zip({', '.join(rows.values())})" if len(rows) > 1 else next(iter(rows.values()))
        sets = [f"for {name} in [{text}]" for part in parts for name, text in part.sets]
        every = " ".join([*clauses, f"for {', '.join(rows)} in {over}", *sets])
        if missing or self.guard or not all(part.place for part in parts):
            return [*lines, f"{indent}yield [{element} {every}]"]
        places = f"values[{' + '.join([*(part.place for part in parts), 'p' if step else base])}]"
        lines += [f"{indent}try:", f"{indent}    piece = [{places} {every}]"]
        return [
            *lines,
            f"{indent}except IndexError:",
            f"{indent}    piece = [{element} {every}]",
            f"{indent}yield piece",
        ]

    def _slice(self, base: str, step: int, count: int) -> str:
        """Returns the text of elements at one distance."""
        if not step:
            return f"[values[{base}]] * {self._constant(count)}"
        stop, by = f"{base} + {self._constant(count * step)}", self._constant(step)
        return f"values[{base} : {stop if step > 0 else f'{stop} if {stop} >= 0 else None'} : {by}]"

    def _whole_row(self, parts: Sequence[_Part], base: str, count: int) -> str:
        """Returns the text of all elements of a dimension, if nothing but one index chooses among them; else an empty
        text.

        It is empty too if the dimension is much longer than what is read of it.
        """
        reads = [(t.size, t.stride) for t in self.address.terms if t.read and self.names[t.read] in parts[0].reads]
        if len(parts) != 1 or len(reads) != 1 or parts[0].sets or reads[0][0] > 8 * count:
            return ""
        ((size, stride),) = reads
        return f"values[{base} : {base} + {self._constant(size * stride)} : {self._constant(stride)}]"

    def _row(self, name: str, loop: int, count: int, at: str) -> str:
        """Returns the text of the indices that a loop goes through, at the positions of the loops outside.

        With `at`, it goes through `length` positions from there.
        """
        steps = self.reads[name]
        by, outside = steps[loop], {n: s for n, s in steps.items() if n != loop}
        start = self._sum(outside)
        if at:
            start = f"{start} + {at}{self._times(by)}"
            stop = f"{start} + length{self._times(by)}"
        else:
            stop = f"{start} + {self._constant((count - 1) * by + 1)}"
        whole = not at and not outside and by == 1 and name.endswith("s")
        row = name if whole else f"{name}[{start} : {stop}{'' if by == 1 else f' : {self._constant(by)}'}]"
        return f"listed({row})" if name in self.long else row

    def _sum(self, steps: Mapping[int, int]) -> str:
        """Returns the text of a sum: each loop variable times its step."""
        return " + ".join(f"v{self.depth[n]}{self._times(s)}" for n, s in steps.items()) or "0"

    def _merged(self, reads: set[IndexRead]) -> list[tuple[int, int]]:
        """Removes loops of length 1 and merges adjacent loops whose addresses are contiguous."""
        merged: list[tuple[int, int]] = []
        parts = (self.steps, *map(_steps, reads))
        for loop, size in ((n, s) for n, s in reversed(list(enumerate(self.address.loops))) if s > 1):
            inner, count = merged[-1] if merged else (-1, 0)
            alone = {loop, inner} & self.alone
            if merged and not alone and all(part.get(loop, 0) == part.get(inner, 0) * count for part in parts):
                merged[-1] = inner, count * size
            else:
                merged.append((loop, size))
        return merged[::-1] or [(-1, 1)]


def _steps(read: IndexRead) -> dict[int, int]:
    """Returns the step of an index read in each loop, in tuples."""
    steps: dict[int, int] = {}
    for loop, step in read.steps:
        steps[loop] = steps.get(loop, 0) + step // read.tuple_size
    return steps
