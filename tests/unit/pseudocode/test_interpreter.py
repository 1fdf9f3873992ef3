"""Expanded statements become an access map, which is compiled and run.

The naive evaluator runs the statements themselves. It must give the same origins.
"""

import itertools
import math
import tracemalloc
from array import array
from math import prod

import pytest
from bench import interpreting
from bench.interpreting import LOOPS
from concrete_lines import compiled, naive_elements, run_line, sized
from hypothesis import assume, example, given

from opmap import strategies
from opmap.cases.case import Case
from opmap.descriptors import TensorDesc
from opmap.errors import PseudocodeError
from opmap.operators import OPERATORS
from opmap.pseudocode import access_map, compiling, equals_documented, naive, parse_lines, run
from opmap.tensors import DataType, Tensor

COUNT, HALF = 1 << 20, 1 << 19


def below_alpha():
    """A case of ACTIVATION_THRESHOLDED_RELU: -0.25 is below Alpha 0 as a number, and above it as a bit pattern."""
    tensor = TensorDesc(DataType.FLOAT32, (1,))
    desc = OPERATORS["ACTIVATION_THRESHOLDED_RELU"].descriptor(input_tensor=tensor, output_tensor=tensor, alpha=0)
    return Case("below", desc, {"InputTensor": Tensor.from_values(DataType.FLOAT32, (1,), [-0.25])})


class TestInterpreter:
    """Expanded statements are compiled and run over the output's coordinates."""

    @pytest.mark.parametrize(
        ("text", "sizes", "indices", "expected"),
        [
            # input 0..5 as {2,3}: [[0,1,2],[3,4,5]]
            ("output[a, b] = input[b, a]", "output 3x2, input 2x3", {}, [0, 3, 1, 4, 2, 5]),
            ("output[a] = input[1, a]", "output 3, input 2x3", {}, [3, 4, 5]),
            ("output[a] = input[a, a]", "output 2, input 2x3", {}, [0, 4]),
            ("output[a, b] = input[a]", "output 2x2, input 6", {}, [0, 0, 1, 1]),
            ("output[] = input[1, 2]", "output 1, input 2x3", {}, [5]),
            (
                "output[a, b] = input[a, indices[b]]",
                "output 2x2, input 2x3, indices 2",
                {"indices": [2, 0]},
                [2, 0, 5, 3],
            ),
            (
                "output[a, b] = input[indices[a], b]",
                "output 3x3, input 2x3, indices 3",
                {"indices": [1, -1, -2]},
                [3, 4, 5, 3, 4, 5, 0, 1, 2],
            ),
            ("output[a] = input[a, indices[]]", "output 1x2, input 2x3, indices 1x1", {"indices": [-1]}, [2, 5]),
            (
                "output[a, b] = input[indices[a, b], b]",
                "output 2x3, input 2x3, indices 2x3",
                {"indices": [1, 0, 1, 0, 0, -1]},
                [3, 1, 5, 0, 1, 5],
            ),
            (
                "output[a] = input[indices[a, 0], indices[a, 1]]",
                "output 3, input 2x3, indices 3x2",
                {"indices": [1, 2, 0, 0, -1, -3]},
                [5, 0, 3],
            ),
            (
                "output[a, b] = input[a, indices[a, b, 0]]",
                "output 2x2, input 2x3, indices 2x2x1",
                {"indices": [0, 1, 2, -2]},
                [0, 1, 5, 4],
            ),
            (
                "output[a] = input[0, indices[a, a]]",
                "output 2, input 2x3, indices 2x2",
                {"indices": [2, 0, 0, 1]},
                [2, 1],
            ),
            # an index of a row and one of a column, from two tensors
            (
                "output[a, b] = input[rows[a], columns[b]]",
                "output 2x2, input 2x3, rows 2, columns 2",
                {"rows": [1, 0], "columns": [2, 0]},
                [5, 3, 2, 0],
            ),
            # out of range: no value, whatever the other coordinate is
            (
                "output[a, b] = input[a, indices[b]]",
                "output 2x4, input 2x3, indices 4",
                {"indices": [3, -4, 2, 2**63]},
                [None, None, 2, None, None, None, 5, None],
            ),
            (
                "output[a] = input[indices[a, 0], indices[a, 1]]",
                "output 4, input 2x3, indices 4x2",
                {"indices": [1, 3, 2, 0, 5, -9, -2, -3]},
                [None, None, None, 0],
            ),
        ],
    )
    def test_small_tables(self, text, sizes, indices, expected):
        """The output is the one that was computed by hand for an input of 0 to 5."""
        assert expected == run_line(text, sized(sizes), range(6), **indices)

    @pytest.mark.parametrize(
        ("text", "sizes", "message"),
        [
            ("output[a] = input[b]", "output 2, input 2", "b is not a coordinate of output[a]"),
            ("output[a] = input[a]", "output 3, input 2", "a runs to 2, the dimension has 2"),
            ("output[a, a] = input[a]", "output 2x2, input 2", "does not name each coordinate once"),
            ("output[0] = input[0]", "output 2, input 2", "does not name each coordinate once"),
            ("output[a, b] = input[a]", "output 2, input 2", "does not address a tensor of 1 dimensions"),
            ("output[a] = input[a]", "output 2x3, input 3", "does not address a tensor of sizes {2,3}"),
            ("output[a] = input[t[u[a]]]", "output 2, input 2, t 2, u 2", "an index of an index"),
            ("output[a] = input[t[a, 3]]", "output 2, input 2, t 2x3", "there is no 3, the dimension has 3"),
            ("output[a] = input[t[a]]", "output 3, input 2, t 2", "a runs to 2, the dimension has 2"),
            ("output[a] = input[a, 2]", "output 3, input 3x2", "there is no 2, the dimension has 2"),
            ("output[a] = other[a]", "output 3, input 3", "other is not a tensor of the operator"),
            ("output[a] = input[other[a]]", "output 3, input 3", "other is not a tensor of the operator"),
        ],
    )
    def test_what_reads_nothing_is_refused_before_it_runs(self, text, sizes, message):
        """A line that does not fit the sizes is refused when it is compiled; it never gives a wrong address."""
        with pytest.raises(PseudocodeError) as raised:
            compiled(text, sized(sizes))
        assert message in str(raised.value)

    def test_names_of_the_page_cannot_become_code(self):
        """Python keywords and built-in names can be tensor names: the compiled text holds names as quoted strings
        only.
        """
        program = compiled("import[print] = exec[lambda[print]]", {"import": (2,), "exec": (2,), "lambda": (2,)})
        assert [1, 0] == run(program, {"exec": [0, 1], "lambda": [1, 0]})

    @pytest.mark.parametrize(
        ("text", "sizes", "pieces"),
        [
            ("output[a, b, c] = input[a, b, c]", "output 2x3x4, input 2x3x4", [range(24)]),
            ("output[a, b] = input[b, a]", "output 2x3, input 3x2", [range(0, 6, 2), range(1, 7, 2)]),
            ("output[a, b, c] = input[t[a], b, c]", "output 2x3x4, input 9x3x4, t 2", [range(12, 24), range(96, 108)]),
            ("output[a, b] = input[t[a, b], b]", "output 2x2, input 9x2, t 2x2", [[2, 17, 0, 3]]),
            ("output[a, b] = input[t[a, b]]", "output 2x2, input 9, t 2x2", [[1, 8, 0, 1]]),
        ],
    )
    def test_contiguous_addresses_are_one_piece(self, text, sizes, pieces):
        """Loops whose addresses are contiguous are merged into one piece, and short ones are one list."""
        (move,), count = compiled(text, sized(sizes)).statements, math.prod(sized(sizes)["input"])
        assert pieces == list(move.elements[0]({"t": [1, 8, 0, 1]}, range(count), ()))

    @pytest.mark.parametrize("longest", [1, 7, 1 << 16])
    @pytest.mark.parametrize(
        ("text", "sizes"),
        [
            # the elements of a row, by their numbers
            ("output[a, b] = input[a, t[a, b]]", "output 3x4, input 3x5, t 3x4"),
            ("output[a, b] = input[a, t[b]]", "output 3x4, input 3x5, t 4"),
            # the same, but the row is too long to be cut out for each loop position
            ("output[a, b] = input[a, t[a, b]]", "output 3x2, input 3x99, t 3x2"),
            ("output[a, b] = input[a, t[b]]", "output 3x2, input 3x99, t 2"),
            # a row from which elements are read by another stride, by two indices, or by index and loop
            ("output[a, b] = input[a, t[b], 1]", "output 3x8, input 3x5x2, t 8"),
            ("output[a, b] = input[a, t[a, b, 0], t[a, b, 1]]", "output 3x8, input 3x5x2, t 3x8x2"),
            ("output[a, b, c] = input[a, t[a, b, c], c]", "output 2x3x8, input 2x4x8, t 2x3x8"),
            # a short loop inside of a long one
            ("output[a, b] = input[t[a, b], b]", "output 9x2, input 5x2, t 9x2"),
            ("output[a, b, c] = input[a, t[a, b, c], c]", "output 3x9x2, input 3x5x2, t 3x9x2"),
            ("output[a, b, c] = input[a, t[b, c], c]", "output 3x9x2, input 3x5x2, t 9x2"),
            ("output[a, b, c] = input[b, t[b, c], a]", "output 3x9x2, input 9x5x4, t 9x2"),
            ("output[a, b] = input[t[a, b, 0], u[a, b], t[a, b, 1]]", "output 9x2, input 5x2x3, t 9x2x2, u 9x2"),
            ("output[a, b] = input[u[a], t[a, b], b]", "output 9x2, input 5x4x2, t 9x2, u 9"),
            # contiguous elements, elements at a distance, one element repeated
            ("output[a, b, c] = input[t[b], a, c]", "output 2x3x4, input 5x2x4, t 3"),
            ("output[a, b] = input[t[a], b, 1]", "output 3x4, input 5x4x2, t 3"),
            ("output[a, b] = input[a, t[a]]", "output 3x4, input 3x5, t 3"),
            ("output[a, b] = input[t[0], t[a]]", "output 3x4, input 5x5, t 3"),
            # the loop of an index lies outside of a loop that moves the element, and its index is read again inside
            ("output[a, b, c] = input[t[a, c], b]", "output 2x3x4, input 5x3, t 2x4"),
            ("output[a, b] = input[t[a], u[a, b]]", "output 2x6, input 5x3, t 2, u 2x6"),
        ],
    )
    def test_every_way_to_read(self, monkeypatch, text, sizes, longest):
        """The compiled reader gives the elements at the addresses of the naive evaluator, in range and out of range."""
        monkeypatch.setattr(compiling, "LONGEST", longest)
        sizes, lines = sized(sizes), parse_lines(text)
        program = compiled(text, sizes)
        values = array("I", (i * 7919 % 10007 for i in range(math.prod(sizes["input"]))))
        for outside in (False, True):
            tensors = {}
            for name, bounds in program.index_bounds.items():
                smallest, count = min(bounds), math.prod(sizes[name])
                tensors[name] = [(i * 5 + 3) % (2 * smallest) - smallest for i in range(count)]
                tensors[name][0] = bounds[0] - 1 + outside
            expected = naive_elements(lines, sizes, {"input": values, **tensors})
            assert (None in expected) == outside
            assert expected == list(run(program, {"input": values, **tensors}))
            assert expected == list(run(program, {"input": list(values), **tensors}))

    @pytest.mark.parametrize("longest", [1, 7, 1 << 16])
    @pytest.mark.parametrize(
        ("text", "sizes"),
        [
            # a position that depends on one loop, on two, and on none; inside of its dimension, and not
            ("output[a, b] = input[b * 3 % 5, a]", "output 3x9, input 5x3"),
            ("output[a, b] = input[b * 3 % 5, a]", "output 3x9, input 4x3"),
            ("output[a, b] = input[a, min(b + a, 4)]", "output 3x9, input 3x5"),
            ("output[a, b] = input[a, b - a]", "output 3x9, input 3x9"),
            ("output[a, b, c] = input[(a + 1) % 3, b, c * c]", "output 3x2x4, input 3x2x9"),
            ("output[a, b, c] = input[(a + 1) % 3, b, c * c]", "output 3x2x20, input 2x2x400"),
            ("output[a, b] = input[a * a, b]", "output 3x9, input 4x9"),
            ("output[a] = input[1 % 2, a]", "output 1, input 2x1"),
            # backwards, and one element repeated
            ("output[a, b] = input[a, 8 - b]", "output 3x9, input 3x9"),
            ("output[a, b, c] = input[2 - a, 0, 19 - c]", "output 3x2x20, input 3x1x20"),
            ("output[a, b] = input[a, 2]", "output 3x30, input 3x4"),
            # with a guard, after a copy and alone
            ("output = other\nif (a < b) output[a, b] = input[b, a]", "output 3x9, input 9x3, other 3x9"),
            ("if (b < a + 4) output[a, b] = input[b * b % 5, a]", "output 3x9, input 4x3"),
            ("if (a < 1) output[a] = input[a]", "output 1, input 1"),
            ("if (b < 4 and a != 1) output[a, b] = input[a * a, b]", "output 3x9, input 4x9"),
            # other elements than in their order
            ("output[a + 1, b] = input[a, b]", "output 5x9, input 3x9"),
            ("output = other\noutput[8 - b, a * 2] = input[a, b]", "output 9x5, input 3x9, other 9x5"),
            ("output[a * b] = input[a, b]", "output 20, input 3x9"),
            ("if (b < 4) output[a + b] = input[a, b]", "output 20, input 3x9"),
        ],
    )
    def test_every_way_to_compute(self, monkeypatch, text, sizes, longest):
        """The compiled form gives the elements of the naive evaluator for computed positions and guards."""
        monkeypatch.setattr(compiling, "LONGEST", longest)
        sizes, lines = sized(sizes), parse_lines(text)
        values = {name: array("I", range(7, 7 + math.prod(own))) for name, own in sizes.items()}
        expected = naive_elements(lines, sizes, values)
        assert expected == list(run(compiled(text, sizes), values))

    def test_descriptors_share_texts(self):
        """The texts of compiled functions hold no sizes: another descriptor of the same kind compiles no new text."""
        misses = []
        for rows in (5, 6, 7):
            sizes = {"output": (rows, 3), "input": (rows, 3), "t": (rows,)}
            run(compiled("output[a, b] = input[t[a], b]", sizes), {"input": range(3 * rows), "t": [0] * rows})
            misses.append(compiling._factory.cache_info().misses)
        assert misses == [misses[0]] * 3

    def test_the_result_is_an_array_if_every_element_is_documented(self):
        """Elements of an array give an array if all are documented; else the result is a list with None."""
        program = compiled("output[a] = input[t[a]]", {"output": (3,), "input": (4,), "t": (3,)})
        values = array("H", [10, 11, 12, 13])
        assert array("H", [13, 10, 11]) == run(program, {"input": values, "t": [-1, 0, 1]})
        assert [13, None, 11] == run(program, {"input": values, "t": [-1, 4, 1]})
        assert [13, None, 11] == run(program, {"input": tuple(values), "t": [-1, -5, 1]})
        rows = compiled("output[a, b] = input[t[a], b]", {"output": (3, 2), "input": (2, 2), "t": (3,)})
        assert [12, 13, None, None, 10, 11] == run(rows, {"input": values, "t": [1, 2, 0]})

    @given(strategies.cases())
    @example(below_alpha())
    def test_agrees_with_the_naive_evaluator(self, case):
        """The compiled access map and the naive evaluator find the same origin for every element of a random case; the
        same value, if it is computed.
        """
        desc = case.desc
        tensors = desc.pseudocode_tensors(case.tensors)
        if desc.spec().computes_values:
            positions = itertools.product(*map(range, desc.output.sizes))
            traced = [desc.trace(at, case.tensors) for at in positions]
            found = [o.value if o.address is None else tensors[o.tensor][o.address] for o in traced]
            assert found == list(case.expected)
            return
        types = desc.access.types  # a guard may compare floats
        origins = list(naive.evaluate(desc.output_statements, desc.pseudocode_sizes, tensors, types=types))
        assert desc.output.element_count == len(origins)
        starts, start = {}, 0
        for name in desc.access.sources:  # the addresses of a tensor begin behind those of the one before
            starts[name], start = start, start + prod(desc.access.sizes[name])
        places = [origin and starts[origin[0]] + origin[1] for origin in origins]
        assert places == list(desc.origins(case.tensors))

    @given(strategies.cases(), strategies.st.data())
    def test_gives(self, case, data):
        """`gives` is true for the documented output alone: not with another element, one less or more, or one
        undefined.
        """
        desc, tensors = case.desc, case.desc.pseudocode_tensors(case.tensors)
        expected = desc.interpret(case.tensors)
        first, *others = desc.access.statements
        assume(not others and getattr(first, "in_order", False))  # it knows nothing of other statements
        code = desc.output.data_type.bits_code
        output = array(code, [bits or 0 for bits in expected])
        defined = None not in expected and not desc.access.computes_floats  # those are in no array
        assert defined == equals_documented(desc.access, tensors, memoryview(output))
        assert not equals_documented(desc.access, tensors, memoryview(output[:-1]))
        assert not equals_documented(desc.access, tensors, memoryview(output + output[:1]))
        output[data.draw(strategies.st.integers(0, len(output) - 1))] ^= 1
        assert not equals_documented(desc.access, tensors, memoryview(output))

    @pytest.mark.parametrize("written", LOOPS, ids=lambda w: f"{w.operator} {w.name}")
    def test_gives_in_several_pieces(self, written):
        """An output of several pieces is compared to its end, whatever the loops are."""
        desc, tensors = interpreting.described(written, 200_000)
        inputs, output = desc.pseudocode_tensors(tensors), desc.interpret(tensors)
        pieces = [len(piece) for piece in desc.access.statements[-1].elements[0](inputs, inputs["input"], ())]
        assert len(output) == sum(pieces)
        assert max(pieces) < 150_000
        assert equals_documented(desc.access, inputs, memoryview(output))
        for wrong in (0, 199_999):
            changed = output[:]
            changed[wrong] ^= 1
            assert not equals_documented(desc.access, inputs, memoryview(changed))

    def test_gives_only_what_it_can_compare(self):
        """A whole copy, elements of no array, and items of another size are not compared."""
        values = array("H", [10, 11])
        copy = compiled("output = input", {"output": (2,), "input": (2,)})
        move = compiled("output[a] = input[a]", {"output": (2,), "input": (2,)})
        assert equals_documented(move, {"input": values}, memoryview(values))
        assert not equals_documented(copy, {"input": values}, memoryview(values))
        assert not equals_documented(move, {"input": [10, 11]}, memoryview(values))
        assert not equals_documented(move, {"input": array("I", values)}, memoryview(values))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("text", "sizes"),
        [
            ("output[a, b] = input[a, t[a, b]]", {"output": (1, COUNT), "input": (1, 2), "t": (1, COUNT)}),
            ("output[a, b] = input[t[a, b], b]", {"output": (2, HALF), "input": (2, HALF), "t": (2, HALF)}),
            ("output[a] = input[t[a, 0], t[a, 1]]", {"output": (HALF,), "input": (2, 2), "t": (HALF, 2)}),
            ("output[a, b] = input[t[a, 0], b]", {"output": (HALF, 2), "input": (2, 2), "t": (HALF, 1)}),
        ],
    )
    def test_memory(self, text, sizes):
        """A run takes the memory of its output and little more, and `gives` takes little: no index is copied.

        Nor are the addresses in memory at once.
        """
        program = compiled(text, sizes)
        count = math.prod(sizes["output"])
        indices = Tensor(
            DataType.INT32, (math.prod(sizes["t"]),), array("I", [0, 0xFFFFFFFF]) * (math.prod(sizes["t"]) // 2)
        )
        tensors = {"input": array("B", bytes(range(2))) * (math.prod(sizes["input"]) // 2)}

        def peak(use):
            tracemalloc.start()
            try:
                use({**tensors, "t": indices.integers})
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

        output = run(program, {**tensors, "t": indices.integers})
        few = 100 * compiling.LONGEST + len(tensors["input"])  # two pieces with their numbers, and a slice
        assert peak(lambda given: run(program, given)) < 1.25 * count + few
        assert peak(lambda given: equals_documented(program, given, memoryview(output))) < few
        (move,) = program.statements
        assert (
            peak(lambda given: sum(len(piece) for piece in move.elements[0](given, given["input"], ())))
            < 100 * compiling.LONGEST
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("output[a] = input[0, 2 - a]", [2, 1, 0]),
        ("output[a] = input[1, (a - 2) % 3]", [None, None, 3]),
        ("output[a] = input[1, (a - 3) / 2]", [None, None, 3]),
        ("if (a xor 1) output[a] = input[min(a, 1), abs(a - 2)]", [2, None, None]),
    ],
)
def test_small_expressions(text, expected):
    """Addresses that go down to 0, and remainders and quotients below 0."""
    sizes = {"output": (3,), "input": (2, 3)}
    lines = parse_lines(text)
    assert expected == list(run(access_map(lines, sizes), {"input": range(6)}))
    assert expected == [origin and origin[1] for origin in naive.evaluate(lines, sizes, {})]


class TestUnsaid:
    """What no page says has no documented value; all else has one."""

    @pytest.mark.parametrize(
        ("index", "expected"),
        [
            (3, [0, 0, 0, 1]),
            (-4, [1, 0, 0, 0]),
            (5, [0, 0, 0, 0]),  # it exceeds the number of elements
            (2**31 - 1, [0, 0, 0, 0]),
            (4, [None] * 4),  # it does not exceed it
            (-5, [None] * 4),
            (-(2**31), [None] * 4),
        ],
    )
    def test_one_hot(self, index, expected):
        """An index that equals the number of elements, or is below its negative; the elements beside it keep their
        values.
        """
        sizes = (1, 2, 1), (1, 2, 4)
        indices, output = (TensorDesc(t, s) for t, s in zip((DataType.INT32, DataType.UINT8), sizes, strict=True))
        values = TensorDesc(DataType.UINT8, (1, 1, 2))
        desc = OPERATORS["ONE_HOT"].descriptor(
            indices_tensor=indices, values_tensor=values, output_tensor=output, axis=2
        )
        tensors = {
            "IndicesTensor": Tensor.from_values(DataType.INT32, indices.sizes, [index, 1]),
            "ValuesTensor": Tensor.from_values(DataType.UINT8, values.sizes, [0, 1]),
        }
        assert [*expected, 0, 1, 0, 0] == list(desc.interpret(tensors))
        assert [value is None for value in expected] == [
            desc.trace((0, 0, k), tensors).tensor is None for k in range(4)
        ]

    def test_scatter(self):
        """More indices than elements along the axis: what is written twice has no value, all else has."""
        sizes = {"input": (2, 2), "indices": (3, 2), "updates": (3, 2), "output": (2, 2)}
        types = {"indices": DataType.INT32}
        descs = {f"{n}_tensor": TensorDesc(types.get(n, DataType.UINT8), s) for n, s in sizes.items()}
        desc = OPERATORS["SCATTER"].descriptor(**descs, axis=0)
        assert () == desc.violations()
        tensors = {
            "InputTensor": Tensor.from_values(DataType.UINT8, (2, 2), [1, 2, 3, 4]),
            "IndicesTensor": Tensor.from_values(DataType.INT32, (3, 2), [0, 1, 0, 1, 1, 1]),
            "UpdatesTensor": Tensor.from_values(DataType.UINT8, (3, 2), [5, 6, 7, 8, 9, 10]),
        }
        assert [None, 2, 9, None] == list(desc.interpret(tensors))
