"""The page's general lines become the statements of one descriptor."""

import re

import pytest
from described import described

from opmap.errors import PseudocodeError
from opmap.operators import OPERATORS
from opmap.pseudocode import Copy, Expansion, canonical, expand, full_rank, parse_lines
from opmap.pseudocode.expansion import advance
from opmap.spec import load_spec


def line(text):
    """Returns the one line that a text holds."""
    (parsed,) = parse_lines(text)
    return parsed


def gather(count, axis, k):
    """Returns a GATHER descriptor with all sizes 1."""
    return described("GATHER", (1,) * count, (1,) * count, axis, k)


def gather_elements(count, axis):
    """Returns a GATHER_ELEMENTS descriptor with all sizes 1."""
    return described("GATHER_ELEMENTS", (1,) * count, (1,) * count, axis)


def gather_nd1(count, rank, index_rank, batches, size):
    """Returns a GATHER_ND1 descriptor whose meaningful sizes are 9."""
    data = (1,) * (count - rank) + (9,) * rank
    indices = (1,) * (count - index_rank) + (9,) * (index_rank - 1) + (size,)
    return described("GATHER_ND1", data, indices, rank, index_rank, batches)


class TestExpansion:
    """The page's general lines become the statements of one descriptor."""

    @pytest.mark.parametrize(
        ("desc", "expected"),
        [
            (gather(1, 0, 1), "output[a] = input[indices[a]]"),
            (gather(1, 0, 0), "output[] = input[indices[]]"),
            (gather(2, 0, 1), "output[a, b] = input[indices[a], b]"),
            (gather(2, 1, 1), "output[a, b] = input[a, indices[b]]"),
            (gather(2, 1, 0), "output[a] = input[a, indices[]]"),
            (gather(2, 1, 2), "output[a, b] = input[indices[a, b]]"),
            (gather(3, 2, 2), "output[a, b, c] = input[a, indices[b, c]]"),
            (gather(3, 1, 2), "output[a, b, c] = input[indices[a, b], c]"),
            (gather(8, 4, 3), "output[a, b, c, d, e, f, g, h] = input[a, b, indices[c, d, e], f, g, h]"),
            (gather_elements(1, 0), "output[a] = input[indices[a]]"),
            (gather_elements(2, 1), "output[a, b] = input[a, indices[a, b]]"),
            (gather_elements(3, 0), "output[a, b, c] = input[indices[a, b, c], b, c]"),
            (gather_elements(4, 0), "output[a, b, c, d] = input[indices[a, b, c, d], b, c, d]"),
            (gather_nd1(2, 2, 2, 0, 1), "output[a, b] = input[indices[a, 0], b]"),
            (gather_nd1(3, 3, 2, 0, 2), "output[a, b] = input[indices[a, 0], indices[a, 1], b]"),
            (gather_nd1(4, 3, 3, 1, 2), "output[a, b] = input[a, indices[a, b, 0], indices[a, b, 1]]"),
            (gather_nd1(3, 1, 1, 0, 1), "output[] = input[indices[0]]"),
            (gather_nd1(5, 3, 4, 2, 1), "output[a, b, c] = input[a, b, indices[a, b, c, 0]]"),
            (gather_nd1(5, 4, 3, 2, 1), "output[a, b, c] = input[a, b, indices[a, b, 0], c]"),
        ],
        ids=str,
    )
    def test_of_small_descriptors(self, desc, expected):
        """A descriptor's line is the one that was written by hand from its page."""
        assert expected == canonical(desc.statements[-1], {"index": "indices"})

    def test_nd_says_what_nd1_says_without_batches(self):
        """GATHER_ND and GATHER_ND1 without batches expand to the same statements, from different general lines."""
        desc = gather_nd1(5, 4, 3, 0, 2)
        same = OPERATORS["GATHER_ND"].descriptor(
            **{name: getattr(desc, name) for name in OPERATORS["GATHER_ND"].descriptor.members().values()}
        )
        assert "output[...] = input[indices[...]]" == str(same.spec().lines[0])
        assert [canonical(s) for s in desc.statements] == [canonical(s) for s in same.statements]

    def test_each_printed_line_follows_from_the_one_above(self):
        """`advance`, which continues the series, also leads from each printed line to the next."""
        lines = OPERATORS["GATHER_ELEMENTS"].descriptor.spec().lines
        expansion = gather_elements(8, 0).expansion()
        concrete = [expand(lines[:3], expansion, {"Axis": axis})[-1] for axis in range(3)]
        assert 3 == len({str(c) for c in concrete})
        assert concrete[1:] == [advance(c) for c in concrete[:-1]]

    def test_the_next_line_moves_the_index_on_the_side_that_reads_it(self):
        """In a line that writes by index, `advance` moves the index of the target; the source stays."""
        first = line("output[index[i, j, k], j, k] = updates[i, j, k]")
        second = line("output[i, index[i, j, k], k] = updates[i, j, k]")
        third = line("output[i, j, index[i, j, k]] = updates[i, j, k]")
        assert [second, third] == [advance(first), advance(second)]
        with pytest.raises(PseudocodeError, match="has no next line"):
            advance(third)

    @pytest.mark.parametrize(
        ("axis", "expected"),
        [(0, "output[index[i, j], j] = updates[i, j]"), (1, "output[i, index[i, j]] = updates[i, j]")],
    )
    def test_copies_come_before_the_line_that_applies(self, axis, expected):
        """The statements of a descriptor are the page's copies, then the one line for its axis."""
        page = parse_lines("output = input\noutput[index[i, j], j] = updates[i, j] // if axis == 0\n...")
        assert (Copy("output", "input"), line(expected)) == expand(page, Expansion(rest={}), {"Axis": axis})

    @pytest.mark.parametrize(
        ("text", "rest", "message"),
        [
            (
                "output[...] = input[..., ...]",
                {"output": (("a",),), "input": (("a",),)},
                "the operator's expansion has no coordinates for this ...",
            ),
            ("output[a] = input[a] // if axis == 0", {}, "no line of the pseudocode applies"),
            ("output[a] = input[a]\noutput[a] = input[a] // if axis == 0", {}, "one of several lines has no condition"),
            ("output[a] = input[a] // if other == 0\n...", {}, "no line of the pseudocode applies"),
            ("if (Axis == 0) output[a] = input[a]", {}, "no line of the pseudocode applies"),
            ("output[a] = input[a] // if axis == 0\n...", {}, "has no next line"),
        ],
    )
    def test_what_cannot_be_expanded_is_refused(self, text, rest, message):
        """The error names what is missing."""
        with pytest.raises(PseudocodeError, match=re.escape(message)):
            expand(parse_lines(text), Expansion(rest=rest), {"Axis": 3})

    @pytest.mark.parametrize(
        "text, full",
        [
            ("output[a, b] = input[a, indices[b]]", "output[0, a, b] = input[0, 0, a, indices[0, b]]"),
            ("output[indices[a]] = input[a]", "output[0, 0, indices[0, a]] = input[0, 0, 0, a]"),
            ("output[] = input[indices[0], indices[1]]", "output[0, 0, 0] = input[0, 0, indices[0, 0], indices[0, 1]]"),
            ("output[0, a, b] = input[0, 0, a, b]", "output[0, a, b] = input[0, 0, a, b]"),
        ],
    )
    def test_full_rank(self, text, full):
        """Each tensor, also one that gives an index, gets a 0 for each leading dimension that is left out."""
        assert full == str(full_rank(line(text), {"output": (1,) * 3, "input": (1,) * 4, "indices": (1,) * 2}))

    def test_canonical_forgets_names_only(self):
        """Lines that differ in names only have the same canonical text; other lines have another."""
        assert canonical(line("output[y, x] = input[x, y]")) == canonical(line("output[a, b] = input[b, a]"))
        assert canonical(line("output[y, x] = input[x, y]")) != canonical(line("output[y, x] = input[y, x]"))
        assert canonical(line("o[a] = i[index[a]]"), {"index": "indices"}) == canonical(line("o[a] = i[indices[a]]"))
        assert "output = input" == canonical(line("o = i"), {"o": "output", "i": "input"})


class TestDefinitions:
    """What a text may define, and what is refused."""

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("n = 10\n" + "n = n * n\n" * 60 + "output[a] = input[a]", "more than 128 bits"),
            ("t = a + 1\n" + "t = t + t\n" * 60 + "output[a] = input[t]", "take too long"),
            ("for dimension i in [0, 99999999]:\n  if i < 0:\n    n = i\noutput[a] = input[a]", "take too long"),
            ("L[2] = 1\noutput[a] = input[a]", "L has no such element"),
            ("output[a] = input[L[2]]", "L[2] is outside its 2 elements"),
            ("output[a] = input[L + M]", "lists of 2 and 3 numbers"),
            ("output[a] = input[1 / 0]", "1 is divided by 0"),
            ("if a < 0:\n  n = 1\noutput[a] = input[a]", "a < 0 is not a number"),
            ("n = 1", "does not end with a line that writes a tensor"),
        ],
    )
    def test_refused(self, text, message):
        """The error names the problem; no text takes long."""
        with pytest.raises(PseudocodeError, match=re.escape(message)):
            expand(parse_lines(text), Expansion(rest={}), {"L": (1, 2), "M": (1, 2, 3)})

    def test_slice_as_printed(self):
        """The statements of SLICE1's page for one descriptor."""
        fields = {"DimensionCount": 2, "InputWindowOffsets": (0, 1), "InputWindowSizes": (4, 3)}
        (line,) = expand(
            load_spec("SLICE1").lines,
            Expansion(rest={}, series={"OutputCoordinates": ("a", "b")}),
            {**fields, "InputWindowStrides": (-2, 2)},
        )
        assert "OutputTensor[a, b] = InputTensor[3 + -2 * a, 1 + 2 * b]" == str(line)
