"""The pseudocode: read, written back, expanded for a descriptor, run, and told in words. Rows of (source, expected)."""

import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmap import strategies
from opmap.descriptors import TensorDesc, complete
from opmap.errors import PseudocodeError
from opmap.operators import OPERATORS
from opmap.pseudocode import (
    Broken,
    Expansion,
    assigned,
    canonical,
    chain,
    check,
    compile_line,
    evaluate,
    expand,
    interpreter,
    parse_example,
    parse_formula,
    parse_lines,
    right_align,
    run,
)
from opmap.pseudocode.expansion import advance
from opmap.spec import all_specs
from opmap.tensors import DataType, Tensor

FIELDS = {
    "Axis": 1,
    "Count": 3,
    "A.Sizes": (2, 3, 4),
    "A.DimensionCount": 3,
    "A.DataType": "FLOAT32",
    "B.Sizes": (1, 1, 4),
    "B.DimensionCount": 3,
    "B.DataType": "UINT8",
}


def line(text):
    """One concrete line."""
    (parsed,) = parse_lines(text)
    return parsed


def run_line(text, sizes, values, **indices):
    """The output that a concrete line gives."""
    return run(compile_line(line(text), sizes), values, indices)


class TestReading:
    """What is read can be written again."""

    @pytest.mark.parametrize(
        "text",
        [
            "output[...] = input[..., indices[...], ...]",
            "output[i, j, k, ...] = input[i, index[i, j, k, ...], k, ...] // if axis == 1",
            "output[batch, ...] = input[batch, indices[batch, ...], ...]",
            "output[y, x] = input[indices[y, 0], x]",
            "output[] = input[0]",
            "...",
        ],
    )
    def test_lines_round_trip(self, text):
        """A line's text is the line again."""
        assert text == str(line(text))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("output [ a,b ]=input[b ,a]", "output[a, b] = input[b, a]"),
            ("\n\n  output[a] = input[a]\r\n", "output[a] = input[a]"),
            ("output[a] = input[a]   //   if Axis==2", "output[a] = input[a] // if Axis == 2"),
        ],
    )
    def test_spaces_do_not_matter(self, text, expected):
        """Spaces and empty lines around are skipped."""
        assert expected == str(line(text))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Axis in [0, A.DimensionCount)", None),
            ("Axis in [0, A.DimensionCount]", None),
            ("A.Sizes[0 .. Count - 1] == {1...}", None),
            ("x = A.Sizes[Count - 1]", None),
            ("A.Sizes = {1..., A.Sizes[0 .. 1], 7}", None),
            ("A.Sizes[0..Axis] == B.Sizes[(Axis+1)..Count]", "A.Sizes[0 .. Axis] == B.Sizes[Axis + 1 .. Count]"),
            ("Count - (Axis - 1) <= 4", None),
            ("A.Sizes = {}", None),
        ],
    )
    def test_formulas_round_trip(self, text, expected):
        """A formula's text is the formula again."""
        (statement,) = parse_formula(text)
        assert (expected or text) == str(statement)
        assert (statement,) == parse_formula(str(statement))

    def test_every_line_and_formula_of_the_specs_round_trips(self):
        """Written and read again, the specs' texts are the same trees."""
        for spec in all_specs():
            lines = spec.lines
            assert lines == parse_lines("\n".join(map(str, lines)))
            for rule in spec.rules:
                if rule.check != "support":
                    formula = parse_formula(rule.check)
                    assert formula == parse_formula("\n".join(map(str, formula)))

    def test_an_example(self):
        """Fields, tensors and the expanded line; other comments are skipped."""
        example = parse_example(
            """
            Axis: 1            // the axis
            Count = 2
            // a remark, then the line
            Input: (Sizes:{2, 2}, DataType:FLOAT32)
                [[1, -2.5],   // first row
                 [3e2, 0]]
            // output[y, x] = input[x, y]
            Out.Sizes = {2,2}
            """
        )
        assert {"Axis": 1, "Count": 2} == example.fields
        assert ((2, 2), "FLOAT32", (1, -2.5, 300.0, 0)) == (
            example.tensors["Input"].sizes,
            example.tensors["Input"].data_type,
            example.tensors["Input"].values,
        )
        assert (2, 2) == example.tensors["Out"].sizes
        assert "output[y, x] = input[x, y]" == str(example.expansion)

    @pytest.mark.parametrize(
        ("read", "text", "problem", "caret"),
        [
            (parse_lines, "output[a = input[a]", "unexpected '='", "output[a = input[a]\n         ^"),
            (parse_lines, "output[a] =", "unexpected end", "output[a] =\n           ^"),
            (parse_lines, "out[a] = in_[a]\nout[a] == in_[a]", "unexpected '='", "out[a] == in_[a]\n        ^"),
            (parse_formula, "Axis in [0, 3", "unexpected end", "Axis in [0, 3\n             ^"),
            (parse_formula, "Axis ! 3", "unexpected '!'", "Axis ! 3\n     ^"),
            (parse_example, "Axis: -1", "Axis must be a whole number, got -1", "Axis: -1\n      ^"),
            (parse_example, "Axis: 1\nAxis: 2", "Axis is given twice", None),
            (
                parse_example,
                "T: (Sizes:{2}, DataType:INT8) [1]",
                "Sizes {2} and values of sizes {1}",
                "T: (Sizes:{2}, DataType:INT8) [1]\n^",
            ),
            (parse_example, "T: (Sizes:{2,2}, DataType:INT8) [[1],[1,2]]", "rows differ in length", None),
            (parse_example, "T: (Sizes:{2,2}, DataType:INT8) [1,[1,2]]", "a row mixes values and rows", None),
            (parse_example, "T: (Sizes:{1.5}, DataType:INT8) [1]", "unexpected number", None),
            (parse_lines, "", "unexpected end", None),
        ],
    )
    def test_errors_show_the_place(self, read, text, problem, caret):
        """A parse error keeps text and offset, and shows a caret."""
        with pytest.raises(PseudocodeError) as raised:
            read(text)
        assert problem in str(raised.value)
        assert "\n" not in str(raised.value)
        if caret is not None:
            assert caret == raised.value.caret()

    def test_errors_count_lines_and_columns_from_one(self):
        """The line and column are those of an editor."""
        with pytest.raises(PseudocodeError, match="^unexpected '@' at line 2, column 10$"):
            parse_lines("out[a] = b[a]\n  out[a] @ b[a]")

    @pytest.mark.parametrize("read", [parse_lines, parse_formula, parse_example])
    @pytest.mark.parametrize(
        "text",
        [
            "a[" * 3000 + "]" * 3000,
            "x = " + "(" * 3000 + "1" + ")" * 3000,
            "T: (Sizes:{1}, DataType:INT8) " + "[" * 3000 + "1" + "]" * 3000,
            "x = " + "9" * 6000,
            "Axis: " + "9" * 6000,
            "a[" + "9" * 6000 + "] = b[c]",
            "\0",
            "\ud800",
        ],
        ids=["references", "parentheses", "rows", "number", "field", "constant", "nul", "surrogate"],
    )
    def test_hostile_text_is_refused(self, read, text):
        """Whatever cannot be read is a PseudocodeError."""
        try:
            read(text)
        except PseudocodeError as error:
            assert error.caret() is not None

    @given(st.text("oi[]=.,{}()0129ab \n/-+:<>", max_size=40))
    def test_any_text_is_read_or_refused(self, text):
        """No text raises anything else."""
        for read in (parse_lines, parse_formula, parse_example):
            try:
                read(text)
            except PseudocodeError:
                pass


class TestFormulas:
    """Formulas are evaluated as the pages mean them."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("x = 3", 3),
            ("x = Count - Axis - 1", 1),
            ("x = Count - (Axis - 1)", 3),
            ("x = A.Sizes[Axis]", 3),
            ("x = A.Sizes[0 .. 2]", (2, 3)),
            ("x = A.Sizes[Axis .. A.DimensionCount]", (3, 4)),
            ("x = A.Sizes[2 .. 1]", ()),
            ("x = A.Sizes[3 .. 3]", ()),
            ("x = {A.Sizes[0 .. Axis], 9, B.Sizes[2 .. 3]}", (2, 9, 4)),
            ("x = {}", ()),
        ],
    )
    def test_values(self, text, expected):
        """Rows computed by hand."""
        assert expected == assigned(parse_formula(text), "x", FIELDS)

    def test_names_defined_on_the_way_are_known_below(self):
        """`n = …` in a formula is not a field."""
        assert (2, 3) == assigned(parse_formula("n = A.Sizes[0]\nx = A.Sizes[0 .. n]"), "x", FIELDS)

    @pytest.mark.parametrize(
        ("sizes", "count", "expected"),
        [
            ("{2, 3}", 2, (2, 3)),
            ("{2, 3}", 4, (1, 1, 2, 3)),
            ("{1, 1, 2}", 2, (1, 2)),
            ("{1, 1, 2}", 1, (2,)),
            ("{2, 1}", 1, None),
            ("{1...}", 3, (1, 1, 1)),
            ("{1..., 2}", 3, (1, 1, 2)),
            ("{1..., 2}", 1, (2,)),
            ("{1..., 1, 2}", 1, None),
            ("{}", 2, (1, 1)),
        ],
    )
    def test_right_alignment(self, sizes, count, expected):
        """Leading ones are cropped or prepended; after `1...` nothing is cropped."""
        (statement,) = parse_formula(f"x = {sizes}")
        assert expected == right_align(evaluate(statement.value, {}), count)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Axis in [0, Count)", None),
            ("Axis in [0, Axis]", None),
            ("Axis in [0, Axis)", Broken("Axis", "in [0, Axis) = [0, 1)", "1")),
            ("Axis in [2, 3]", Broken("Axis", "in [2, 3]", "1")),
            ("Count <= 3", None),
            ("Count <= Axis + 1", Broken("Count", "at most Axis + 1 = 2", "3")),
            ("Count < 3", Broken("Count", "less than 3", "3")),
            ("Count >= 4", Broken("Count", "at least 4", "3")),
            ("Count > 3", Broken("Count", "more than 3", "3")),
            ("A.DataType == A.DataType", None),
            ("A.DataType == B.DataType", Broken("A.DataType", "B.DataType = UINT8", "FLOAT32")),
            ("A.DataType == A.DimensionCount", Broken("A.DataType", "A.DimensionCount = 3", "FLOAT32")),
            ("A.DataType <= Count", Broken("A.DataType", "at most Count = 3", "FLOAT32")),
            ("B.Sizes[0 .. 2] == {1...}", None),
            ("B.Sizes[0 .. 0] == {1...}", None),
            ("A.Sizes[1 .. 2] == {1...}", Broken("A.Sizes[1]", "1", "3")),
            ("A.Sizes[0 .. 2] == A.Sizes[1 .. 2]", Broken("A.Sizes", "1 sizes (A.Sizes[1 .. 2])", "{2,3}")),
            ("A.Sizes = {2, 3, 4}", None),
            ("A.Sizes = {1, 2, 3, 4}", None),
            ("A.Sizes = {3, 4}", Broken("A.Sizes", "{1,3,4}", "{2,3,4}")),
            ("A.Sizes = {2, 2, 3, 4}", Broken("A.Sizes", "{2,2,3,4}, which does not fit 3 dimensions", "{2,3,4}")),
            ("n = A.Sizes[2]\nAxis in [0, n)\nCount in [n, n]", Broken("Count", "in [n, n] = [4, 4]", "3")),
        ],
    )
    def test_constraints(self, text, expected):
        """What holds gives nothing; what does not, says what was wanted and what was got."""
        assert expected == check(text, FIELDS)

    @pytest.mark.parametrize(
        "text",
        [
            "x = Unknown",
            "x = A.Sizes[3]",
            "x = A.Sizes[0 .. 4]",
            "x = Axis[0]",
            "x = A.DataType - 1",
            "x = A.Sizes - 1",
            "x = A.DataType[0 .. 1]",
            "A.Sizes in [0, 1]",
            "Axis in [0, A.Sizes)",
            "A.Sizes == Axis",
            "A.Sizes = 3",
            "A.Sizes[A.Sizes] == 1",
        ],
    )
    def test_what_has_no_value_is_refused(self, text):
        """A formula of the wrong kind is a PseudocodeError."""
        with pytest.raises(PseudocodeError):
            check(text, FIELDS)


def gather(count, axis, k):
    """A GATHER descriptor with all sizes 1."""
    ones = TensorDesc(DataType.FLOAT32, (1,) * count)
    indices = TensorDesc(DataType.INT64, (1,) * count)
    return complete(
        OPERATORS["GATHER"].descriptor, {"InputTensor": ones, "IndicesTensor": indices}, {"Axis": axis, "IndexDimensions": k}
    )


def gather_elements(count, axis):
    """A GATHER_ELEMENTS descriptor with all sizes 1."""
    ones = TensorDesc(DataType.FLOAT32, (1,) * count)
    indices = TensorDesc(DataType.INT64, (1,) * count)
    return complete(OPERATORS["GATHER_ELEMENTS"].descriptor, {"InputTensor": ones, "IndicesTensor": indices}, {"Axis": axis})


def gather_nd1(count, rank, index_rank, batches, size):
    """A GATHER_ND1 descriptor with input sizes 9."""
    inputs = {
        "InputTensor": TensorDesc(DataType.FLOAT32, (1,) * (count - rank) + (9,) * rank),
        "IndicesTensor": TensorDesc(DataType.INT64, (1,) * (count - index_rank) + (9,) * (index_rank - 1) + (size,)),
    }
    numbers = {"InputDimensionCount": rank, "IndicesDimensionCount": index_rank, "BatchDimensionCount": batches}
    return complete(OPERATORS["GATHER_ND1"].descriptor, inputs, numbers)


class TestExpansion:
    """The general line becomes the line of one descriptor."""

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
        """Rows written by hand from the pages."""
        assert expected == canonical(desc.line, {"index": "indices"})

    def test_nd_says_what_nd1_says_without_batches(self):
        """Two pages, two general lines, one meaning."""
        desc = gather_nd1(5, 4, 3, 0, 2)
        same = OPERATORS["GATHER_ND"].descriptor(
            **{name: getattr(desc, name) for name in OPERATORS["GATHER_ND"].descriptor.members().values()}
        )
        assert "output[...] = input[indices[...]]" == str(same.spec().lines[0])
        assert canonical(desc.line) == canonical(same.line)

    @pytest.mark.parametrize("axis", range(8))
    def test_gather_elements_along_every_axis(self, axis):
        """The page prints axes 0 to 2, then `...`: the others follow."""
        names = list("abcdefgh")
        inside = [*names[:axis], f"indices[{', '.join(names)}]", *names[axis + 1 :]]
        expected = f"output[{', '.join(names)}] = input[{', '.join(inside)}]"
        assert expected == canonical(gather_elements(8, axis).line)

    def test_each_printed_line_follows_from_the_one_above(self):
        """The step that reads the closing `...` leads from each printed line to the next."""
        lines = OPERATORS["GATHER_ELEMENTS"].descriptor.spec().lines
        expansion = gather_elements(8, 0).expansion()
        concrete = [expand(lines[:3], expansion, {"Axis": axis}) for axis in range(3)]
        assert 3 == len({str(c) for c in concrete})
        assert concrete[1:] == [advance(c) for c in concrete[:-1]]

    def test_the_last_axis_has_no_next_line(self):
        """There is nothing after the last dimension."""
        with pytest.raises(PseudocodeError, match="has no next line"):
            advance(gather_elements(2, 1).line)

    @pytest.mark.parametrize(
        ("text", "rest", "message"),
        [
            (
                "output[...] = input[..., ...]",
                {"output": (("a",),), "input": (("a",),)},
                "nothing is known of this ...",
            ),
            ("output[a] = input[a] // if axis == 0", {}, "no line of the pseudocode applies"),
            ("output[a] = input[a]\noutput[a] = input[a] // if axis == 0", {}, "one of several lines has no condition"),
            ("output[a] = input[a] // if other == 0\n...", {}, "no line of the pseudocode applies"),
            ("output[a] = input[a] // if axis == 0\n...", {}, "has no next line"),
        ],
    )
    def test_what_cannot_be_expanded_is_refused(self, text, rest, message):
        """The error quotes what is missing."""
        with pytest.raises(PseudocodeError, match=message):
            expand(parse_lines(text), Expansion(rest=rest), {"Axis": 3})

    def test_canonical_forgets_names_only(self):
        """Lines that say the same are equal, others are not."""
        assert canonical(line("output[y, x] = input[x, y]")) == canonical(line("output[a, b] = input[b, a]"))
        assert canonical(line("output[y, x] = input[x, y]")) != canonical(line("output[y, x] = input[y, x]"))
        assert canonical(line("o[a] = i[index[a]]"), {"index": "indices"}) == canonical(line("o[a] = i[indices[a]]"))


class TestInterpreter:
    """Expanded lines are run over the output's coordinates."""

    @pytest.mark.parametrize(
        ("text", "sizes", "indices", "expected"),
        [
            # input 0..5 as {2,3}: [[0,1,2],[3,4,5]]
            ("output[a, b] = input[b, a]", {"output": (3, 2), "input": (2, 3)}, {}, [0, 3, 1, 4, 2, 5]),
            ("output[a] = input[1, a]", {"output": (3,), "input": (2, 3)}, {}, [3, 4, 5]),
            ("output[a] = input[a, a]", {"output": (2,), "input": (2, 3)}, {}, [0, 4]),
            ("output[a, b] = input[a]", {"output": (2, 2), "input": (6,)}, {}, [0, 0, 1, 1]),
            ("output[] = input[1, 2]", {"output": (1,), "input": (2, 3)}, {}, [5]),
            (
                "output[a, b] = input[a, indices[b]]",
                {"output": (2, 2), "input": (2, 3), "indices": (2,)},
                {"indices": [2, 0]},
                [2, 0, 5, 3],
            ),
            (
                "output[a, b] = input[indices[a], b]",
                {"output": (3, 3), "input": (2, 3), "indices": (3,)},
                {"indices": [1, -1, -2]},
                [3, 4, 5, 3, 4, 5, 0, 1, 2],
            ),
            (
                "output[a] = input[a, indices[]]",
                {"output": (1, 2), "input": (2, 3), "indices": (1, 1)},
                {"indices": [-1]},
                [2, 5],
            ),
            (
                "output[a, b] = input[indices[a, b], b]",
                {"output": (2, 3), "input": (2, 3), "indices": (2, 3)},
                {"indices": [1, 0, 1, 0, 0, -1]},
                [3, 1, 5, 0, 1, 5],
            ),
            (
                "output[a] = input[indices[a, 0], indices[a, 1]]",
                {"output": (3,), "input": (2, 3), "indices": (3, 2)},
                {"indices": [1, 2, 0, 0, -1, -3]},
                [5, 0, 3],
            ),
            (
                "output[a, b] = input[a, indices[a, b, 0]]",
                {"output": (2, 2), "input": (2, 3), "indices": (2, 2, 1)},
                {"indices": [0, 1, 2, -2]},
                [0, 1, 5, 4],
            ),
            (
                "output[a] = input[0, indices[a, a]]",
                {"output": (2,), "input": (2, 3), "indices": (2, 2)},
                {"indices": [2, 0, 0, 1]},
                [2, 1],
            ),
            # an index of a row and one of a column, from two tensors
            (
                "output[a, b] = input[rows[a], columns[b]]",
                {"output": (2, 2), "input": (2, 3), "rows": (2,), "columns": (2,)},
                {"rows": [1, 0], "columns": [2, 0]},
                [5, 3, 2, 0],
            ),
            # out of range: no value, whatever the other coordinate is
            (
                "output[a, b] = input[a, indices[b]]",
                {"output": (2, 4), "input": (2, 3), "indices": (4,)},
                {"indices": [3, -4, 2, 2**63]},
                [None, None, 2, None, None, None, 5, None],
            ),
            (
                "output[a] = input[indices[a, 0], indices[a, 1]]",
                {"output": (4,), "input": (2, 3), "indices": (4, 2)},
                {"indices": [1, 3, 2, 0, 5, -9, -2, -3]},
                [None, None, None, 0],
            ),
        ],
    )
    def test_small_tables(self, text, sizes, indices, expected):
        """Rows computed by hand, input 0 to 5."""
        assert expected == run_line(text, sizes, range(6), **indices)

    @pytest.mark.parametrize(
        ("text", "sizes", "message"),
        [
            ("output[a] = input[b]", {"output": (2,), "input": (2,)}, "b is not a coordinate of the output"),
            ("output[a] = input[a]", {"output": (3,), "input": (2,)}, "a runs to 2, the dimension has 2"),
            ("output[a, a] = input[a]", {"output": (2, 2), "input": (2,)}, "does not name each coordinate once"),
            ("output[0] = input[0]", {"output": (2,), "input": (2,)}, "does not name each coordinate once"),
            ("output[a, b] = input[a]", {"output": (2,), "input": (2,)}, "does not address a tensor of sizes {2}"),
            ("output[a] = input[a]", {"output": (2, 3), "input": (3,)}, "does not address a tensor of sizes {2,3}"),
            (
                "output[a] = input[t[u[a]]]",
                {"output": (2,), "input": (2,), "t": (2,), "u": (2,)},
                "an index of an index",
            ),
            ("output[a] = input[t[a, 3]]", {"output": (2,), "input": (2,), "t": (2, 3)}, "the last dimension has 3"),
            ("output[a] = input[t[a]]", {"output": (3,), "input": (2,), "t": (2,)}, "a runs to 2, the dimension has 2"),
            ("output[a] = input[a, 2]", {"output": (3,), "input": (3, 2)}, "there is no 2, the dimension has 2"),
            ("output[a] = other[a]", {"output": (3,), "input": (3,)}, "other is not a tensor of the operator"),
            ("output[a] = input[other[a]]", {"output": (3,), "input": (3,)}, "other is not a tensor of the operator"),
        ],
    )
    def test_what_reads_nothing_is_refused_before_it_runs(self, text, sizes, message):
        """A line that does not fit the sizes is an error when it is compiled, not a wrong address."""
        with pytest.raises(PseudocodeError) as raised:
            compile_line(line(text), sizes)
        assert message in str(raised.value)

    def test_names_of_the_page_cannot_become_code(self):
        """The compiled text holds numbers and own names only: a page's names appear as quoted tensor names."""
        program = compile_line(
            line("import[print] = exec[lambda[print]]"), {"import": (2,), "exec": (2,), "lambda": (2,)}
        )
        assert [1, 0] == run(program, [0, 1], {"lambda": [1, 0]})

    @pytest.mark.parametrize(
        ("text", "sizes", "pieces"),
        [
            ("output[a, b, c] = input[a, b, c]", {"output": (2, 3, 4), "input": (2, 3, 4)}, [range(24)]),
            ("output[a, b] = input[b, a]", {"output": (2, 3), "input": (3, 2)}, [range(0, 6, 2), range(1, 7, 2)]),
            (
                "output[a, b, c] = input[t[a], b, c]",
                {"output": (2, 3, 4), "input": (9, 3, 4), "t": (2,)},
                [range(12, 24), range(96, 108)],
            ),
            (
                "output[a, b] = input[t[a, b], b]",
                {"output": (2, 2), "input": (9, 2), "t": (2, 2)},
                [[2, 17], [0, 3]],
            ),
            ("output[a, b] = input[t[a, b]]", {"output": (2, 2), "input": (9,), "t": (2, 2)}, [[1, 8, 0, 1]]),
        ],
    )
    def test_what_goes_on_alike_is_one_piece(self, text, sizes, pieces):
        """Neighbouring coordinates that neither an index nor a stride tells apart."""
        assert pieces == list(compile_line(line(text), sizes).pieces({"t": [1, 8, 0, 1]}))

    @pytest.mark.parametrize("longest", [1, 3, 4, 7])
    def test_long_pieces_are_cut(self, monkeypatch, longest):
        """A row whose elements are read one by one is never a longer list; the addresses stay."""
        text, sizes = "output[a, b] = input[t[a, b], b]", {"output": (3, 8), "input": (5, 8), "t": (3, 8)}
        indices = {"t": [i * 7 % 5 - 2 for i in range(24)]}
        whole = compile_line(line(text), sizes)
        monkeypatch.setattr(interpreter, "LONGEST", longest)
        cut = compile_line(line(text), sizes)
        assert [8] * 3 == [len(piece) for piece in whole.pieces(indices)]
        assert max(len(piece) for piece in cut.pieces(indices)) == longest
        assert whole.addresses(indices) == cut.addresses(indices)

    def test_is_as_compact_as_what_is_read(self):
        """An array where every element is defined, a list where one is not; the same elements otherwise."""
        program = compile_line(line("output[a] = input[t[a]]"), {"output": (3,), "input": (4,), "t": (3,)})
        values = array("H", [10, 11, 12, 13])
        assert array("H", [13, 10, 11]) == run(program, values, {"t": [-1, 0, 1]})
        assert [13, None, 11] == run(program, values, {"t": [-1, 4, 1]})
        assert [13, None, 11] == run(program, tuple(values), {"t": [-1, -5, 1]})
        rows = compile_line(line("output[a, b] = input[t[a], b]"), {"output": (3, 2), "input": (2, 2), "t": (3,)})
        assert [12, 13, None, None, 10, 11] == run(rows, values, {"t": [1, 2, 0]})

    @given(strategies.cases())
    def test_agrees_with_the_chain_element_by_element(self, case):
        """The compiled function and the words of `chain` find the same address for every element."""
        desc = case.desc
        values = desc.pseudocode_tensors({n: t.values for n, t in case.tensors.items()})
        addresses = desc.addresses(case.tensors)
        coordinates = [()]
        for size in desc.output.sizes:
            coordinates = [(*c, i) for c in coordinates for i in range(size)]
        assert addresses == [chain(desc.line, desc.pseudocode_sizes, at, values)[1] for at in coordinates]

    @pytest.mark.parametrize(
        ("data_type", "code", "patterns"),
        [
            (DataType.FLOAT16, "H", [0x7C01, 0x7E00, 0xFE2A, 0xFC01, 0x8000, 0x0001]),
            (DataType.FLOAT32, "I", [0x7F800001, 0x7FC00000, 0xFFC0BEEF, 0xFF800001, 0x80000000, 0x00000001]),
            (
                DataType.FLOAT64,
                "Q",
                [0x7FF0000000000001, 0x7FF8 << 48, 0xFFF8000000BADBAD, 0xFFF0000000000001, 1 << 63, 1],
            ),
        ],
    )
    def test_nan_payloads_come_out_bit_for_bit(self, data_type, code, patterns):
        """Signalling NaNs stay signalling, payloads, -0 and denormals stay."""
        inputs = {
            "InputTensor": TensorDesc(data_type, (6,)),
            "IndicesTensor": TensorDesc(DataType.INT64, (6,)),
        }
        desc = complete(OPERATORS["GATHER"].descriptor, inputs, {"Axis": 0, "IndexDimensions": 1})
        data = Tensor.from_bytes(data_type, (6,), struct.pack(f"<6{code}", *patterns))
        indices = Tensor.from_values(DataType.INT64, (6,), [5, 4, 3, 2, 1, 0])
        out = desc.interpret({"InputTensor": data, "IndicesTensor": indices})
        assert patterns[::-1] == list(out)
        assert struct.pack(f"<6{code}", *patterns[::-1]) == Tensor(data_type, (6,), out).to_bytes()


class TestChain:
    """One output element, in words."""

    SIZES = {"output": (1, 2, 2), "input": (2, 3), "indices": (1, 2)}

    @pytest.mark.parametrize(
        ("text", "sizes", "at", "indices", "expected"),
        [
            (
                "output[y, x] = input[y, indices[x]]",
                SIZES,
                (0, 1, 0),
                [2, 0],
                ("output[1, 0] = input[1, indices[0] = 2]", 5),
            ),
            (
                "output[y, x] = input[y, indices[x]]",
                SIZES,
                (0, 1, 1),
                [2, -2],
                ("output[1, 1] = input[1, indices[1] = -2 -> 1]", 4),
            ),
            (
                "output[y, x] = input[y, indices[x]]",
                SIZES,
                (0, 0, 1),
                [2, 7],
                ("output[0, 1] = input[0, indices[1] = 7, outside [-3, 2]]", None),
            ),
            (
                "output[] = input[indices[0], indices[1]]",
                {"output": (1,), "input": (2, 3), "indices": (2,)},
                (0,),
                [1, -3],
                ("output[] = input[indices[0] = 1, indices[1] = -3 -> 0]", 3),
            ),
            (
                "output[] = input[indices[0], indices[1]]",
                {"output": (1,), "input": (2, 3), "indices": (2,)},
                (0,),
                [-3, 1],
                ("output[] = input[indices[0] = -3, outside [-2, 1], indices[1] = 1]", None),
            ),
        ],
    )
    def test_in_words(self, text, sizes, at, indices, expected):
        """Rows written by hand."""
        assert expected == chain(line(text), sizes, at, {"indices": indices})

    @pytest.mark.parametrize("at", [(0, 2, 0), (0, 0), (0, 0, -1), (1, 0, 0), (0, 0, 0, 0)])
    def test_what_is_no_element_is_refused(self, at):
        """A coordinate outside the output is an error that shows it."""
        with pytest.raises(PseudocodeError, match="is not an element of sizes {1,2,2}"):
            chain(line("output[y, x] = input[y, indices[x]]"), self.SIZES, at, {"indices": [0, 0]})
