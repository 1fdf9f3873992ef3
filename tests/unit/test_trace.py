"""The naive evaluator says in words where an output element comes from."""

import re

import pytest
from concrete_lines import sized

from opmap.errors import PseudocodeError
from opmap.pseudocode import parse_lines, trace


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
        """Each tensor has all its coordinates, and each index its value; one out of range shows its range and gives no address."""
        origin = trace(parse_lines(text), sized(sizes), at, {"indices": indices})
        assert expected == (origin.text, origin.address)

    @pytest.mark.parametrize("at", [(0, 2, 0), (0, 0), (0, 0, -1), (1, 0, 0), (0, 0, 0, 0)])
    def test_a_position_outside_the_output_is_refused(self, at):
        """The error shows the position and the output's sizes."""
        message = f"[{', '.join(map(str, at))}] is not an element of sizes {{1,2,2}}"
        with pytest.raises(PseudocodeError, match=re.escape(message)):
            trace(parse_lines("output[y, x] = input[y, indices[x]]"), sized(self.SIZES), at, {"indices": [0, 0]})
