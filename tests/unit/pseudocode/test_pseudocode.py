"""The pseudocode's text becomes trees, and formulas are evaluated. Rows of (source, expected)."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmap.errors import PseudocodeError
from opmap.operators import OPERATORS
from opmap.pseudocode import Broken, assigned, check, evaluate, parse_example, parse_formula, parse_lines, right_align
from opmap.spec import all_specs

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

DEEP = "nested too deeply"
HOSTILE = {  # name -> text, and (problem, offset) of parse_lines, parse_formula and parse_example
    "references": ("a[" * 3000 + "]" * 3000, [(DEEP, 129)] * 3),
    "parentheses": ("x = " + "(" * 3000 + "1" + ")" * 3000, [(DEEP, 68)] * 3),
    "rows": ("T: (Sizes:{1}, DataType:INT8) " + "[" * 3000 + "1" + "]" * 3000, [(DEEP, 94)] * 3),
    "number": ("x = " + "9" * 6000, [("unexpected number", None)] * 3),
    "field": ("Axis: " + "9" * 6000, [("unexpected ':'", 4), ("unexpected ':'", 4), ("unexpected number", None)]),
    "constant": (
        "a[" + "9" * 6000 + "] = b[c]",
        [("unexpected number", None), ("unexpected '='", 6004), ("unexpected 'b'", 6006)],
    ),
    "nul": ("\0", [("unexpected '\\x00'", 0)] * 3),
    "surrogate": ("\ud800", [("unexpected '\\ud800'", 0)] * 3),
}


def line(text):
    """Returns the one line that a text holds."""
    (parsed,) = parse_lines(text)
    return parsed


class TestReading:
    """Pseudocode, formulas and examples become trees; `str` of a tree gives the text back."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("output [ a,b ]=input[b ,a]", "output[a, b] = input[b, a]"),
            ("\n\n  output[a] = input[a]\r\n", "output[a] = input[a]"),
            ("output[a] = input[a]   //   if Axis==2", "output[a] = input[a] // if Axis == 2"),
            ("  output=input ", "output = input"),
        ],
    )
    def test_spaces_do_not_matter(self, text, expected):
        """Spaces within a line and empty lines around it change nothing."""
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
        """A parsed formula prints as its text with normal spaces, and that text parses to the same tree."""
        (statement,) = parse_formula(text)
        assert (expected or text) == str(statement)
        assert (statement,) == parse_formula(str(statement))

    def test_every_line_and_formula_of_the_specs_round_trips(self):
        """The lines and rules of every spec, printed and parsed again, give the same trees."""
        specs = list(all_specs())
        assert set(OPERATORS) <= {spec.name for spec in specs}
        for spec in specs:
            assert spec.lines == parse_lines("\n".join(map(str, spec.lines)))
            formulas = [parse_formula(rule.check) for rule in spec.rules if rule.check != "support"]
            assert formulas or spec.name == "DIAGONAL_MATRIX", "its page has no rule beside the table of support"
            for formula in formulas:
                assert formula == parse_formula("\n".join(map(str, formula)))

    def test_an_example(self):
        """An example gives its fields, its tensors and its expanded line; other comments are skipped."""
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

    def test_an_example_without_a_tensor(self):
        """A tensor that is left out is none; numbers may be negative, and limits of their type."""
        example = parse_example("Input: none\nBegin: INT32_MIN\nEnd: -3\nOut: (Sizes:{1} DataType:INT8) [1]")
        assert ({"Begin": -(2**31), "End": -3}, ["Out"]) == (example.fields, [*example.tensors])

    @pytest.mark.parametrize(
        ("read", "text", "problem", "caret"),
        [
            (parse_lines, "output[a = input[a]", "unexpected '='", "output[a = input[a]\n         ^"),
            (parse_lines, "output[a] =", "unexpected end", "output[a] =\n           ^"),
            (parse_lines, "out[a] = in_[a]\nout[a] == in_[a]", "unexpected '='", "out[a] == in_[a]\n       ^"),
            (parse_formula, "Axis in [0, 3", "unexpected end", "Axis in [0, 3\n             ^"),
            (parse_formula, "Axis ! 3", "unexpected '!'", "Axis ! 3\n     ^"),
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
        """A parse error names the problem in one line, and `caret` points at its offset in the text."""
        with pytest.raises(PseudocodeError) as raised:
            read(text)
        assert problem in str(raised.value)
        assert "\n" not in str(raised.value)
        if caret is not None:
            assert caret == raised.value.caret()

    def test_errors_count_lines_and_columns_from_one(self):
        """An error counts lines and columns from 1, as an editor does."""
        with pytest.raises(PseudocodeError, match=r"^unexpected '@' at line 2, column 10$"):
            parse_lines("out[a] = b[a]\n  out[a] @ b[a]")

    @pytest.mark.parametrize(("text", "errors"), HOSTILE.values(), ids=HOSTILE)
    def test_hostile_text_is_refused(self, text, errors):
        """Every reader refuses the text with a PseudocodeError, and `caret` shows the text with the error's offset."""
        for read, (problem, offset) in zip((parse_lines, parse_formula, parse_example), errors, strict=True):
            with pytest.raises(PseudocodeError) as raised:
                read(text)
            assert (problem, offset) == (raised.value.problem, raised.value.offset)
            assert (text if offset is None else f"{text}\n{' ' * offset}^") == raised.value.caret()

    @given(st.text("oi[]=.,{}()0129ab \n/-+:<>", max_size=40))
    def test_any_text_is_read_or_refused(self, text):
        """No text raises any other error than PseudocodeError."""
        for read in (parse_lines, parse_formula, parse_example):
            with contextlib.suppress(PseudocodeError):
                read(text)


LISTS = {
    "InputTensor.Sizes": (4, 4),
    "OutputTensor.Sizes": (2, 9),
    "InputWindowOffsets": (0, 2),
    "InputWindowSizes": (2, 3),
    "InputWindowStrides": (-1, 0),
    "Repeats": (2, 3),
    "Order": "DEPTH_COLUMN_ROW",
    "n": -7,
}


class TestLists:
    """Formulas compute and compare lists element by element, as C computes numbers."""

    @pytest.mark.parametrize(
        ("text", "broken"),
        [
            (
                "InputWindowOffsets + InputWindowSizes <= InputTensor.Sizes",
                "InputWindowOffsets[1] + InputWindowSizes[1] must be at most InputTensor.Sizes[1] = 4, got 5",
            ),
            (
                "InputWindowSizes in [1, InputTensor.Sizes - InputWindowOffsets]",
                "InputWindowSizes[1] must be in [1, InputTensor.Sizes[1] - InputWindowOffsets[1]] = [1, 2], got 3",
            ),
            ("InputWindowStrides != 0", "InputWindowStrides[1] must be not 0, got 0"),
            ("OutputTensor.Sizes = InputTensor.Sizes * Repeats", "OutputTensor.Sizes must be {8,12}, got {2,9}"),
            (
                "OutputTensor.Sizes <= 1 + (InputWindowSizes - 1) / abs(InputWindowStrides - 2)",
                "OutputTensor.Sizes[0] must be at most "
                "1 + (InputWindowSizes[0] - 1) / abs(InputWindowStrides[0] - 2) = 1, got 2",
            ),
            ("Order == DEPTH_COLUMN_ROW", None),
            ("Order != DEPTH_COLUMN_ROW", "Order must be not DEPTH_COLUMN_ROW, got DEPTH_COLUMN_ROW"),
            ("Order == COLUMN_ROW_DEPTH", "Order must be COLUMN_ROW_DEPTH, got DEPTH_COLUMN_ROW"),
            ("n / 2 == -3\nn % 2 == -1\n7 / -2 == -3\n7 % -2 == 1\n-(n) == 7\nmin(n, 2) == n\nmax(n, 2) == 2", None),
            ("InputTensor.Sizes[1 .. 2] > 5", "InputTensor.Sizes[1] must be more than 5, got 4"),
        ],
    )
    def test_rules(self, text, broken):
        """A broken rule names the first element."""
        found = check(text, LISTS)
        assert broken == (found and f"{found.subject} {found}")

    @pytest.mark.parametrize("text", ["Repeats + InputTensor.DataType == 1", "n / 0 == 1", "{1, 2, 3} - Repeats == 0"])
    def test_refused(self, text):
        """Words, divisions by 0 and lists of different lengths are refused."""
        with pytest.raises(PseudocodeError):
            check(text, {**LISTS, "InputTensor.DataType": "INT8"})


class TestFormulas:
    """Formulas are evaluated as the pages mean them: sizes, right-alignment, constraints."""

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
        """An expression has the value that was computed by hand."""
        assert expected == assigned(parse_formula(text), "x", FIELDS)

    def test_names_defined_on_the_way_are_known_below(self):
        """A name that a formula defines can be used in the lines below it."""
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
        """Leading ones are cropped or added to fit the dimension count; a list with `1...` is only extended."""
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
        """A constraint that holds gives None; a broken one gives the field, the wanted value and the value that it
        has.
        """
        assert expected == check(text, FIELDS)

    @pytest.mark.parametrize(
        "text",
        [
            "x = Unknown",
            "x = A.Sizes[3]",
            "x = A.Sizes[0 .. 4]",
            "x = Axis[0]",
            "x = A.DataType - 1",
            "x = A.DataType[0 .. 1]",
            "A.Sizes = 3",
            "A.Sizes[A.Sizes] == 1",
        ],
    )
    def test_what_has_no_value_is_refused(self, text):
        """A formula with an unknown name, an index outside its list or a value of the wrong kind is a
        PseudocodeError.
        """
        with pytest.raises(PseudocodeError):
            check(text, FIELDS)
