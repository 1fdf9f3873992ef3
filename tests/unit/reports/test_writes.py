"""Statements that copy a whole tensor, and statements that write single elements by index."""

import re
from array import array
from math import prod
from typing import ClassVar

import pytest
from concrete_lines import compiled, sized
from hypothesis import given
from hypothesis import strategies as st

from opmap.errors import PseudocodeError
from opmap.pseudocode import naive, parse_lines, run

pytestmark = pytest.mark.platform

KINDS = ("constant", "coordinate", "index", "same index")


@st.composite
def writing_statements(draw):
    """Draws statements that write by index, as text; sizes that fit them; values of the index tables.

    Output and updates have 1 to 3 dimensions. A dimension of the output has an index, a coordinate or a constant; at
    least one has an index. An index table has any of the coordinates in any order, and may hold tuples. In half of the
    draws, all indices are in range.
    """
    loops = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    names = "abc"[: len(loops)]
    sizes = {"updates": tuple(loops)}
    rank = draw(st.integers(1, 3))
    kinds = draw(
        st.permutations(["index", *draw(st.lists(st.sampled_from(KINDS), min_size=rank - 1, max_size=rank - 1))])
    )
    target, output, tables, limits = [], [], [], {}
    for place, kind in enumerate(kinds):
        if kind == "constant":
            target.append(str(constant := draw(st.integers(0, 1))))
            output.append(constant + draw(st.integers(1, 2)))
        elif kind == "coordinate":
            loop = draw(st.integers(0, len(loops) - 1))
            target.append(names[loop])
            output.append(loops[loop] + draw(st.integers(0, 1)))
        else:
            if kind == "index" or not tables:
                chosen = draw(st.permutations(range(len(loops))))[: draw(st.integers(0, len(loops)))]
                inside = [names[loop] for loop in chosen]
                table_sizes = [loops[loop] + draw(st.integers(0, 1)) for loop in chosen]
                if not chosen or draw(st.booleans()):
                    inside.append(str(constant := draw(st.integers(0, 1))))
                    table_sizes.append(constant + draw(st.integers(1, 2)))
                table = f"t{place}"
                sizes[table] = tuple(table_sizes)
                tables.append(f"{table}[{', '.join(inside)}]")
            target.append(tables[-1])
            output.append(draw(st.integers(1, 6)))
            limits[table] = min(output[-1], limits.get(table, 6))
    sizes["output"] = sizes["input"] = tuple(output)
    line = f"output[{', '.join(target)}] = updates[{', '.join(names)}]"
    beyond = draw(st.integers(0, 1))
    values = {
        table: draw(st.lists(st.integers(-n - beyond, n - 1 + beyond), min_size=count, max_size=count))
        for table, n in limits.items()
        for count in [prod(sizes[table])]
    }
    return draw(st.sampled_from(["", "output = input\n"])) + line, sizes, values


class TestWrites:
    """Statements that copy a whole tensor, and statements that write single elements by index."""

    ROWS = "output = input\noutput[index[i, j], j] = updates[i, j]"
    COLUMNS = "output = input\noutput[i, index[i, j]] = updates[i, j]"
    ALONE = "output[index[i]] = updates[i]"
    TWO_TABLES = "output = input\noutput[rows[i], columns[i]] = updates[i]"

    SIZES: ClassVar = {
        ROWS: {"output": (3, 2), "input": (3, 2), "index": (2, 2), "updates": (2, 2)},
        COLUMNS: {"output": (2, 3), "input": (2, 3), "index": (2, 2), "updates": (2, 2)},
        ALONE: {"output": (4,), "index": (3,), "updates": (3,)},
        TWO_TABLES: {"output": (2, 3), "input": (2, 3), "rows": (2,), "columns": (2,), "updates": (2,)},
    }

    @pytest.mark.parametrize(
        ("text", "indices", "expected"),
        [
            # rows 2, 0 and 0, 1 (-2) of columns 0 and 1
            (ROWS, {"index": [2, 0, 0, -2]}, [12, 11, 2, 13, 10, 5]),
            # row 0: columns 2 and 0; row 1: columns 2 (-1) and 1
            (COLUMNS, {"index": [2, 0, -1, 1]}, [11, 1, 10, 3, 13, 12]),
            (TWO_TABLES, {"rows": [1, 0], "columns": [-1, 1]}, [0, 11, 2, 3, 4, 10]),
            # without a copy, elements that are not written have no value
            (ALONE, {"index": [3, 0, 1]}, [11, 12, None, 10]),
            # two or three writes to one element have no documented order; the other elements keep their values
            (ROWS, {"index": [0, 1, 0, 0]}, [None, 13, 2, 11, 4, 5]),
            (TWO_TABLES, {"rows": [1, -1], "columns": [0, 0]}, [0, 1, 2, None, 4, 5]),
            (ALONE, {"index": [2, 2, 2]}, [None, None, None, None]),
            (ALONE, {"index": [1, 3, 1]}, [None, None, None, 11]),
            # a write out of range may have changed any element
            (ROWS, {"index": [0, 1, 3, 2]}, [None] * 6),
            (ROWS, {"index": [-4, 1, 0, 2]}, [None] * 6),
            (TWO_TABLES, {"rows": [1, 0], "columns": [2, 3]}, [None] * 6),
        ],
    )
    def test_small_tables(self, text, indices, expected):
        """The output was computed by hand for an input of 0 to 5 and updates of 10 to 13; the naive evaluator
        agrees.
        """
        sizes = self.SIZES[text]
        values = {"input": range(6), "updates": range(10, 14)}
        assert expected == list(run(compiled(text, sizes), {**values, **indices}))
        origins = naive.evaluate(parse_lines(text), sizes, indices)
        assert expected == [origin and values[origin[0]][origin[1]] for origin in origins]

    def test_a_copy_moves_the_whole_tensor(self):
        """A copy alone gives every element of the source, as an array if the source is one."""
        program = compiled("output = input", {"output": (2, 2), "input": (2, 2)})
        values = array("H", [7, 5, 3, 1])
        output = run(program, {"input": values})
        assert values == output and values is not output

    def test_the_input_is_not_written(self):
        """Writes go to a copy of the input: a second run gives the same result."""
        values = {"input": array("H", range(6)), "updates": array("H", range(10, 14)), "index": [2, 0, 0, -2]}
        program = compiled(self.ROWS, self.SIZES[self.ROWS])
        assert array("H", [12, 11, 2, 13, 10, 5]) == run(program, values) == run(program, values)
        assert array("H", range(6)) == values["input"]

    @pytest.mark.parametrize(
        ("text", "sizes", "message"),
        [
            ("output = input", "output 2, input 3", "output = input: the sizes {2} and {3} differ"),
            ("output = input", "output 2x3, input 3x2", "the sizes {2,3} and {3,2} differ"),
            ("output = input", "output 1x2, input 2", "the sizes {1,2} and {2} differ"),
            ("output = input", "output 2", "input is not a tensor of the operator"),
            (
                "output = input\nother[i] = input[i]",
                "output 2, input 2, other 2",
                "the statements must write one tensor, got other, output",
            ),
            (
                "output[t[i]] = updates[u[j]]",
                "output 2, updates 2, t 2, u 2",
                "updates[u[j]] does not name each coordinate once",
            ),
            ("output[t[i], i] = updates[i]", "output 2x2, updates 3, t 3", "i runs to 2, the dimension has 2"),
            ("output[t[i]] = updates[i]", "output 9, updates 3, t 2", "i runs to 2, the dimension has 2"),
        ],
    )
    def test_statements_that_do_not_fit_are_refused(self, text, sizes, message):
        """A statement that does not fit the sizes is refused when it is compiled."""
        with pytest.raises(PseudocodeError, match=re.escape(message)):
            compiled(text, sized(sizes))

    @given(writing_statements())
    def test_agree_with_the_naive_evaluator(self, drawn):
        """The compiled form and the naive evaluator find the same origin for every element of random writes by
        index.
        """
        text, sizes, indices = drawn
        elements = {name: [(name, i) for i in range(prod(sizes[name]))] for name in ("input", "updates")}
        expected = list(naive.evaluate(parse_lines(text), sizes, indices))
        assert prod(sizes["output"]) == len(expected)
        assert expected == list(run(compiled(text, sizes), {**elements, **indices}))
