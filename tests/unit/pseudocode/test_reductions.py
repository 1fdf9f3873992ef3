"""Reductions over a coordinate: the compiled form, the naive form and NumPy give the same values."""

import math
from array import array

import numpy as np
import pytest

from opmap.engines.arrays import dtype_of
from opmap.pseudocode import access_map, naive, parse_lines, run
from opmap.tensors import DataType, to_bits

REDUCTIONS = {  # text -> the sizes of a, b and output; NumPy's result of a and b, or a list with None
    "output[x] = sum(a[x, j] for j in [0, 4))": ((3, 4), (1,), (3,), lambda a, b: a.sum(1)),
    "output[x] = sum(a[j] for j in [0, x])": ((5,), (1,), (5,), lambda a, b: np.cumsum(a)),
    "output[x] = sum(a[j] for j in [x, 4])": ((5,), (1,), (5,), lambda a, b: np.cumsum(a[::-1])[::-1]),
    "output[x] = sum(a[j] for j in [0, x))": ((5,), (1,), (5,), lambda a, b: np.cumsum(a) - a),
    "output[x, y] = sum(a[x, k] * b[k, y] for k in [0, 3))": ((2, 3), (3, 4), (2, 4), lambda a, b: a @ b),
    "output[x] = max(a[x, j] for j in [0, 4))": ((3, 4), (1,), (3,), lambda a, b: a.max(1)),
    "output[x] = min(a[x, j] for j in [0, 4) if j != x)": (
        (3, 4),
        (1,),
        (3,),
        lambda a, b: np.where(np.eye(3, 4), 99, a).min(1),
    ),
    "output[x] = count(a[j] < a[x] for j in [0, 6))": ((6,), (1,), (6,), lambda a, b: (a[None] < a[:, None]).sum(1)),
    "output[x] = min(j for j in [0, 4) if count(a[x, k] > a[x, j] for k in [0, 4)) == 0)": (
        (5, 4),
        (1,),
        (5,),
        lambda a, b: a.argmax(1),
    ),
    "output[count(a[j] > a[x] or a[j] == a[x] and j < x for j in [0, 6))] = a[x]": (
        (6,),
        (1,),
        (6,),
        lambda a, b: np.sort(a)[::-1],
    ),
    "output = b\nif (count(a[j] > a[x] or a[j] == a[x] and j < x for j in [0, 6)) < 2) "
    "output[count(a[j] > a[x] or a[j] == a[x] and j < x for j in [0, 6))] = x": (
        (6,),
        (2,),
        (2,),
        lambda a, b: np.argsort(-a, kind="stable")[:2],
    ),
    "output = b\nif (a[x] != 0) output[count(a[j] != 0 for j in [0, x))] = x": (
        (6,),
        (6,),
        (6,),
        lambda a, b: np.append(np.flatnonzero(a), b[np.count_nonzero(a) :]),
    ),
    "if (a[x] > b[x]) output[x] = a[x]\nif (a[x] <= b[x]) output[x] = b[x]": ((6,), (6,), (6,), np.maximum),
    "output[x] = sum(a[x + j] * b[j] for j in [0, 3))": ((6,), (3,), (4,), lambda a, b: np.correlate(a, b)),
    "output[x] = max(a[x + j - 1] for j in [0, 3) if x + j >= 1 and x + j <= 6)": (
        (6,),
        (1,),
        (6,),
        lambda a, b: np.max([np.roll(np.pad(a, 1, constant_values=-99), -k)[:6] for k in range(3)], 0),
    ),
    "output[x] = sum(a[x + i, j] for i in [0, 1] for j in [x, 3) if i != j)": (
        (3, 3),
        (1,),
        (2,),
        lambda a, b: np.array([a[0, 1] + a[0, 2] + a[1, 0] + a[1, 2], a[1, 1] + a[1, 2] + a[2, 2]]),
    ),
    "output[x] = product(a[x, j] for j in [0, 4))": ((3, 4), (1,), (3,), lambda a, b: a.prod(1) + 0),
    "output[x] = argmin(a[x, i, j] for i in [0, 3) for j in [0, 4))": (
        (2, 3, 4),
        (1,),
        (2,),
        lambda a, b: a.reshape(2, 12).argmin(1),
    ),
    "output[x] = argmax(a[x, j] for j in [0, 4))": ((5, 4), (1,), (5,), lambda a, b: a.argmax(1)),
    "output[x] = address_of_max(a[x, j + 1] for j in [0, 3))": (
        (5, 4),
        (1,),
        (5,),
        lambda a, b: a[:, 1:].argmax(1) + 4 * np.arange(5) + 1,
    ),
    "output[x] = address_of_min(a[x, j] for j in [0, 4) if j >= x)": (
        (4, 4),
        (1,),
        (4,),
        lambda a, b: np.array([row[i:].argmin() + 5 * i for i, row in enumerate(a)]),
    ),
    "output[x] = max(j for j in [0, 0))": ((3,), (1,), (3,), lambda a, b: [None] * 3),
    "output[x] = count(j >= 0 for j in [0, 0)) + a[x] - a[x]": ((3,), (1,), (3,), lambda a, b: a - a),
}


class TestReductions:
    """Operators over all values of a coordinate: in values, in targets, and in guards."""

    @pytest.mark.parametrize("data_type", [DataType.INT32, DataType.INT8, DataType.FLOAT32, DataType.FLOAT16])
    @pytest.mark.parametrize("text", REDUCTIONS)
    def test_agree_with_numpy(self, text, data_type):
        """The compiled form, the naive form and NumPy give the same values."""
        *shapes, function = REDUCTIONS[text]
        sizes, source = dict(zip(("a", "b", "output"), shapes, strict=True)), np.random.default_rng(len(text))
        for _ in range(3):
            values = {name: source.integers(-3, 4, sizes[name]).astype(dtype_of(data_type)) for name in "ab"}
            wanted = function(*values.values())
            bits = [
                None if n is None else to_bits(data_type, [n])[0]
                for n in np.asarray(wanted, object).reshape(-1).tolist()
            ]
            tensors = {name: to_bits(data_type, own.reshape(-1).tolist()) for name, own in values.items()}
            types = dict.fromkeys(sizes, data_type)
            lines = parse_lines(text)
            assert bits == list(run(access_map(lines, sizes, types=types), tensors))
            places = [*np.ndindex(sizes["output"])]
            traced = [naive.trace(lines, sizes, at, tensors, types=types) for at in places]
            found = [o.value if o.tensor is None or o.address is None else tensors[o.tensor][o.address] for o in traced]
            assert bits == found
            assert text == "\n".join(map(str, lines))

    @pytest.mark.parametrize(
        ("data_type", "numbers", "known"),
        [
            (DataType.INT8, [100, 27, -1], True),
            (DataType.INT8, [100, 28, -1], False),
            (DataType.INT8, [-100, -28, 1], True),
            (DataType.INT8, [-100, -29, 1], False),
            (DataType.UINT8, [200, 55, 0], True),
            (DataType.FLOAT16, [2048, 1, -1], False),
            (DataType.FLOAT16, [1024, 1, -1], True),
            (DataType.FLOAT16, [1023.5, 1023.5, 1], False),
            (DataType.FLOAT16, [0.25, -8, 0], True),
            (DataType.FLOAT32, [2.0**24, 1, 0], False),
            (DataType.FLOAT32, [math.inf, 1, 0], False),
            (DataType.FLOAT16, [60000, 10000, -60000], False),
        ],
    )
    def test_order_of_adding(self, data_type, numbers, known):
        """A sum has a documented value only if the numbers can be added in every order."""
        sizes, types = {"a": (3,), "output": (1,)}, dict.fromkeys(("a", "output"), data_type)
        lines, tensors = parse_lines("output[x] = sum(a[j] for j in [0, 3))"), {"a": to_bits(data_type, numbers)}
        (found,) = run(access_map(lines, sizes, types=types), tensors)
        assert (to_bits(data_type, [sum(numbers)])[0] if known else None) == found
        assert found == naive.trace(lines, sizes, (0,), tensors, types=types).value

    @pytest.mark.parametrize(
        ("data_type", "numbers", "known"),
        [
            (DataType.INT8, [-2, 8, -8], False),
            (DataType.INT8, [-2, 8, 8], True),  # -128
            (DataType.INT8, [2, 8, 8], False),
            (DataType.INT8, [2, -64, -1], False),  # 2 * -64 * -1
            (DataType.INT8, [100, 2, 0], False),
            (DataType.UINT8, [5, 51, 1], True),
            (DataType.FLOAT16, [2047, 2, 16], True),
            (DataType.FLOAT16, [2047, 3, 0], False),
            (DataType.FLOAT16, [2.0**-14, 2.0**-11, 2.0**11], False),
            (DataType.FLOAT16, [2.0**15, 4, 0.25], False),
            (DataType.FLOAT16, [-0.0, -3, 5], True),
            (DataType.FLOAT32, [math.inf, 1, 1], False),
        ],
    )
    def test_order_of_multiplying(self, data_type, numbers, known):
        """A product has a documented value only if the numbers can be multiplied in every order."""
        sizes, types = {"a": (3,), "output": (1,)}, dict.fromkeys(("a", "output"), data_type)
        lines, tensors = parse_lines("output[x] = product(a[j] for j in [0, 3))"), {"a": to_bits(data_type, numbers)}
        (found,) = run(access_map(lines, sizes, types=types), tensors)
        wanted = to_bits(data_type, [math.prod(numbers)])[0] if known else None
        assert wanted == found or (found is not None and found.allows(wanted))
        assert found == naive.trace(lines, sizes, (0,), tensors, types=types).value

    def test_without_a_value(self):
        """An output whose guard has no documented value has none."""
        sizes, types = {"a": (3,), "output": (3,)}, dict.fromkeys(("a", "output"), DataType.FLOAT32)
        lines = parse_lines("output = a\nif (max(a[j] for j in [0, 3)) > x) output[x] = 0")
        for numbers, expected in (([1, 2, 0.5], [0, 0, 0.5]), ([1, math.nan, 2], [None] * 3)):
            tensors = {"a": to_bits(DataType.FLOAT32, numbers)}
            wanted = [None if n is None else to_bits(DataType.FLOAT32, [n])[0] for n in expected]
            assert wanted == list(run(access_map(lines, sizes, types=types), tensors))

    def test_wider_than_its_operands(self):
        """The output's type holds what is computed on the way: products of INT8 in an INT32."""
        sizes = {"a": (2,), "b": (2,), "output": (1,)}
        types = {"a": DataType.INT8, "b": DataType.UINT8, "output": DataType.INT32}
        tensors = {"a": to_bits(DataType.INT8, [-128, 127]), "b": to_bits(DataType.UINT8, [255, 255])}
        lines = parse_lines("output[x] = sum(a[j] * b[j] for j in [0, 2))")
        assert [to_bits(DataType.INT32, [-255])[0]] == list(run(access_map(lines, sizes, types=types), tensors))

    @pytest.mark.parametrize(
        ("text", "types", "numbers", "expected"),
        [
            ("a[x] + b[x]", (DataType.INT64, DataType.FLOAT32, DataType.FLOAT32), (2**60, 1), None),
            ("b[x] + a[x]", (DataType.INT64, DataType.FLOAT32, DataType.FLOAT64), (2**60, 0.5), None),
            ("a[x] / b[x]", (DataType.FLOAT32, DataType.FLOAT32, DataType.INT32), (3, 2), None),
            ("a[x] / b[x]", (DataType.FLOAT32, DataType.FLOAT32, DataType.INT32), (4, 2), 2),
            ("sum(a[j] for j in [0, 1)) & b[x]", (DataType.INT16, DataType.INT16, DataType.INT16), (-1, 255), 255),
            ("sum(a[j] for j in [0, 1)) | b[x]", (DataType.INT16, DataType.INT16, DataType.INT16), (-1, 0), -1),
            ("count(a[j] for j in [0, 1)) + b[x]", (DataType.INT16, DataType.INT16, DataType.INT16), (7, 1), 2),
        ],
    )
    def test_of_several_types(self, text, types, numbers, expected):
        """Numbers of several types are exact too, a fraction is no integer, and a bit operator takes bits of a
        reduction.
        """
        names = ("a", "b", "output")
        types, sizes = dict(zip(names, types, strict=True)), dict.fromkeys(names, (1,))
        tensors = {name: to_bits(types[name], [n]) for name, n in zip("ab", numbers, strict=True)}
        lines = parse_lines(f"output[x] = {text}")
        wanted = None if expected is None else to_bits(types["output"], [expected])[0]
        assert [wanted] == list(run(access_map(lines, sizes, types=types), tensors))
        assert wanted == naive.trace(lines, sizes, (0,), tensors, types=types).value

    def test_shown(self):
        """A text of one element shows the values of the reduction, up to eight."""
        sizes, types = {"a": (9,), "output": (1,)}, dict.fromkeys(("a", "output"), DataType.INT8)
        lines, tensors = parse_lines("output[x] = max(a[j] for j in [0, 9))"), {"a": array("B", range(9))}
        text = naive.trace(lines, sizes, (0,), tensors, types=types).text
        assert text.startswith("output[0] = max((a[0] = 0), (a[1] = 1), ") and text.endswith("(a[7] = 7), ...)")
