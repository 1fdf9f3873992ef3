"""The access map of expanded statements: the bounds of the indices, the order of the addresses, the indexed side."""

import pytest
from concrete_lines import run_line, sized

from opmap.pseudocode import access_map, parse_lines


class TestAccessMap:
    """The statements as numbers."""

    @pytest.mark.parametrize(
        ("text", "sizes", "expected"),
        [
            ("output[a] = input[t[a], 1]", "output 2, input 3x5, t 2", "t 3"),
            # one index goes into dimensions of 5 and of 3
            ("output[a] = input[t[a], t[a]]", "output 2, input 5x3, t 2", "t 3"),
            ("output[a] = input[t[a], t[a]]", "output 2, input 3x5, t 2", "t 3"),
            # a tuple of two coordinates, of which the first is read twice
            ("output[a] = input[t[a, 0], t[a, 1], t[a, 0]]", "output 2, input 4x5x2, t 2x2", "t 2x5"),
            ("output[a] = input[u[a], t[a]]", "output 2, input 4x5, t 2, u 2", "u 4, t 5"),
            ("output[t[a]] = updates[a]", "output 7, updates 2, t 2", "t 7"),
            ("output = input", "output 7, input 7", ""),
        ],
    )
    def test_index_bounds(self, text, sizes, expected):
        """An index is held against the smallest dimension that it goes into, on either side of the line."""
        assert sized(expected) == access_map(parse_lines(text), sized(sizes)).index_bounds

    def test_the_smallest_dimension_decides_what_is_read(self):
        """An index that is in range of one dimension, but not of the other, reads nothing."""
        sizes = {"output": (3,), "input": (3, 2), "t": (3,)}
        assert [3, None, None] == run_line("output[a] = input[t[a], t[a]]", sizes, range(6), t=[1, 2, -3])

    @pytest.mark.parametrize(
        ("text", "sizes", "target", "source"),
        [
            ("output[a, b] = input[a, b]", "output 2x3, input 2x3", True, True),
            ("output[a, b] = input[b, a]", "output 2x2, input 2x2", True, False),
            ("output[a, b] = input[a, b]", "output 1x2x3, input 2x3", True, False),
            ("output[a] = input[a]", "output 2, input 3", True, False),
            ("output[a] = input[1, a]", "output 3, input 2x3", True, False),
            ("output[t[a]] = updates[a]", "output 2, updates 2, t 2", False, True),
            ("output[t[a], b] = updates[a, b]", "output 2x2, updates 2x2, t 2", False, True),
            ("output[a] = input[t[a]]", "output 2, input 2, t 2", True, False),
        ],
    )
    def test_in_order(self, text, sizes, target, source):
        """An address is in order if the loops visit every element of its tensor once, in row-major order."""
        (move,) = access_map(parse_lines(text), sized(sizes)).moves
        assert (target, source) == (move.target.in_order, move.source.in_order)

    def test_the_indexed_side(self):
        """The side that reads indices is the target if the line writes by index; its terms can be changed."""
        sizes = {"output": (4, 2), "updates": (3, 2), "t": (3, 2), "input": (4, 2)}
        for text, side in (
            ("output[t[a, b], b] = updates[a, b]", "target"),
            ("updates[a, b] = input[t[a, b], b]", "source"),
        ):
            (move,) = access_map(parse_lines(text), sizes).moves
            assert getattr(move, side) is move.indexed_side
            assert {1} == move.indexed_side.shared_loops
            changed = move.indexed_side.change(lambda i, term: term.at_zero())
            assert [] == changed.indexed_dimensions
            assert changed != move.indexed_side
