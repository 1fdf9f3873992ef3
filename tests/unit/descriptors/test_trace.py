"""The naive evaluator says in words where an output element comes from."""

import re
from typing import ClassVar

import pytest
from concrete_lines import sized

from opmap.errors import PseudocodeError
from opmap.pseudocode import access_map, naive, parse_lines, run, trace


class TestTrace:
    """The naive evaluator says in one line where an output element comes from."""

    SIZES = "output 1x2x2, input 2x3, indices 1x2"

    @pytest.mark.parametrize(
        ("text", "sizes", "at", "indices", "expected"),
        [
            (
                "output[y, x] = input[y, indices[x]]",
                SIZES,
                (0, 1, 0),
                [2, 0],
                ("output[0, 1, 0] = input[1, indices[0, 0] = 2]", 5),
            ),
            (
                "output[y, x] = input[y, indices[x]]",
                SIZES,
                (0, 1, 1),
                [2, -2],
                ("output[0, 1, 1] = input[1, indices[0, 1] = -2 -> 1]", 4),
            ),
            (
                "output[y, x] = input[y, indices[x]]",
                SIZES,
                (0, 0, 1),
                [2, 7],
                ("output[0, 0, 1] = input[0, indices[0, 1] = 7, outside [-3, 2]]", None),
            ),
            (
                "output[] = input[indices[0], indices[1]]",
                "output 1, input 2x3, indices 2",
                (0,),
                [1, -3],
                ("output[0] = input[indices[0] = 1, indices[1] = -3 -> 0]", 3),
            ),
            ("output = input", "output 2x3, input 2x3", (1, 0), [], ("output[1, 0] = input[1, 0]", 3)),
            (
                "output[indices[i], j] = input[i, j]",
                "output 3x2, input 2x2, indices 2",
                (2, 1),
                [0, -1],
                ("output[indices[1] = -1 -> 2, 1] = input[1, 1]", 3),
            ),
            (
                "output[indices[i], j] = input[i, j]",
                "output 3x2, input 2x2, indices 2",
                (1, 1),
                [0, -1],
                ("output[1, 1] is written by no statement", None),
            ),
            (
                "output[indices[i]] = input[i]",
                "output 3, input 2, indices 2",
                (0,),
                [0, 0],
                (
                    "output[indices[0] = 0] = input[0] and output[indices[1] = 0] = input[1]: two writes to one element"
                    " have no documented order",
                    None,
                ),
            ),
            (
                "output[indices[i]] = input[i]",
                "output 3, input 2, indices 2",
                (0,),
                [0, 3],
                (
                    "output[indices[1] = 3, outside [-3, 2]] = input[1]: a write out of range has no documented target",
                    None,
                ),
            ),
            (
                "output[] = input[indices[0], indices[1]]",
                "output 1, input 2x3, indices 2",
                (0,),
                [-3, 1],
                ("output[0] = input[indices[0] = -3, outside [-2, 1], indices[1] = 1]", None),
            ),
        ],
    )
    def test_in_words(self, text, sizes, at, indices, expected):
        """Each tensor has all its coordinates, and each index its value; one out of range shows its range and gives no
        address.
        """
        origin = trace(parse_lines(text), sized(sizes), at, {"indices": indices})
        assert expected == (origin.text, origin.address)

    @pytest.mark.parametrize("at", [(0, 2, 0), (0, 0), (0, 0, -1), (1, 0, 0), (0, 0, 0, 0)])
    def test_a_position_outside_the_output_is_refused(self, at):
        """The error shows the position and the output's sizes."""
        message = f"[{', '.join(map(str, at))}] is not an element of sizes {{1,2,2}}"
        with pytest.raises(PseudocodeError, match=re.escape(message)):
            trace(parse_lines("output[y, x] = input[y, indices[x]]"), sized(self.SIZES), at, {"indices": [0, 0]})


class TestGuards:
    """The text of one element names the values of computed coordinates and of the guard."""

    SIZES: ClassVar = {"output": (2, 3), "input": (2, 3), "lengths": (2, 1)}
    LINES = parse_lines("output = input\nif (b < lengths[a, 0]) output[a, b] = input[a, min(lengths[a, 0], 3) - 1 - b]")

    @pytest.mark.parametrize(
        ("at", "text"),
        [
            ((0, 0), "if (0 < (lengths[0, 0] = 2)) output[0, 0] = input[0, min((lengths[0, 0] = 2), 3) - 1 - 0 = 1]"),
            ((0, 2), "output[0, 2] = input[0, 2]; if (2 < (lengths[0, 0] = 2)) does not hold"),
        ],
    )
    def test_guards(self, at, text):
        """A line whose guard does not hold is named behind the line that gives the element."""
        assert text == naive.trace(self.LINES, self.SIZES, at, {"lengths": [2, 9]}).text

    def test_out_of_range(self):
        """An element that is read out of range has no value; a write that the page ignores changes nothing."""
        (line,) = parse_lines("output[a] = input[a - 1]")
        sizes = {"output": (2,), "input": (2,)}
        assert "output[0] = input[0 - 1 = -1, outside [0, 1]]" == naive.trace([line], sizes, (0,), {}).text
        assert [None, 5] == run(access_map([line], sizes), {"input": [5, 6]})
        lines = parse_lines("output = input\noutput[index[a]] = one[a]")
        sizes = {"output": (2,), "input": (2,), "index": (1,), "one": (1,)}
        values = {"input": [5, 6], "index": [2], "one": [7]}
        for index, ignored in (
            (3, [5, 6]),
            (2, [None, None]),
            (-3, [None, None]),
        ):  # of the last two no page says anything
            values["index"] = [index]
            assert [None, None] == run(access_map(lines, sizes), values)
            assert ignored == run(access_map(lines, sizes, ignores_outside=True), values)
            assert "a write out of range is ignored" not in naive.trace(lines, sizes, (0,), values).text
            origins = naive.evaluate(lines, sizes, values, ignores_outside=True)
            assert [(n is not None and ("input", i)) or None for i, n in enumerate(ignored)] == list(origins)

    def test_what_is_read_for_its_value(self):
        """Tensors in guards and expressions have no bounds, and are listed."""
        access = access_map(self.LINES, self.SIZES)
        assert ({}, ("lengths",)) == (access.index_bounds, access.value_reads)
