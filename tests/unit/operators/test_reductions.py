"""Operators that reduce, accumulate, order and index: random descriptors against NumPy, as the pages say it, and against
the CPU EP.
"""

import io
from collections import Counter
from contextlib import redirect_stdout
from math import isfinite, prod

import numpy as np
import onnx
import pytest
from drawn_cases import check, coverage, drawn, exact, seen_in, types_on_the_cpu_ep, values_of, verdicts_on_the_cpu_ep

from opmap.cli import main
from opmap.descriptors import TensorDesc
from opmap.engines.arrays import to_array
from opmap.operators import OPERATORS, emitted
from opmap.operators.random_source import SeededSource
from opmap.tensors import DataType

SMALL = 6
"""The largest of the small whole numbers that most inputs have."""


def is_small(array):
    """Where the elements are small whole numbers."""
    return np.vectorize(lambda n: abs(n) <= SMALL and n == round(n) if isfinite(n) else False, otypes=[bool])(array)


class TestCumulative:
    """Sums and products up to each element."""

    @pytest.mark.parametrize(
        ("name", "function"), [("CUMULATIVE_SUMMATION", np.add), ("CUMULATIVE_PRODUCT", np.multiply)]
    )
    def test_random_descriptors(self, name, function):
        """Each documented element is the page's; each one is documented of which all parts are small."""
        seen = Counter()
        for case in drawn(name):
            desc, array = case.desc, to_array(case.tensors["InputTensor"])
            axis, is_exclusive = desc.axis, [*desc.numbers.values()][-1]
            order = slice(None, None, -1 if desc.axis_direction else 1)
            rows, small = (np.moveaxis(own, axis, -1)[..., order] for own in (exact(array), is_small(array)))
            if is_exclusive:
                first = np.full((*rows.shape[:-1], 1), function.identity, object)
                rows = np.concatenate([first, rows[..., :-1]], -1)
                small = np.concatenate([np.full(first.shape, True), small[..., :-1]], -1)
            with np.errstate(invalid="ignore"):
                wanted, known = function.accumulate(rows, -1, object), np.logical_and.accumulate(small, -1)
            sizes = np.multiply.accumulate(np.vectorize(lambda n: max(abs(n), 1))(np.where(small, rows, 1)), -1)
            known &= sizes <= 1000 if function is np.multiply else True
            wanted, known = (np.moveaxis(own[..., order], -1, axis) for own in (wanted, known))
            documented = check(case, "OutputTensor", wanted, known)
            seen.update(seen_in(case))
            seen["unknown"] += int((~documented).sum())
            seen.update([f"direction {desc.axis_direction}", f"exclusive {is_exclusive}"])
        coverage(name, seen)
        assert {f"{word} {n}" for word in ("direction", "exclusive") for n in (0, 1)} <= seen.keys()
        assert seen["unknown"] > 100

    def test_on_the_cpu_ep(self):
        """The CPU EP agrees for every type that it has a kernel for."""
        assert {"FLOAT32", "FLOAT16", "INT32", "INT64"} == types_on_the_cpu_ep(drawn("CUMULATIVE_SUMMATION"))


def rows_of(desc, array):
    """The elements of an input, one row for each element of the output."""
    axes = [*desc.axes]
    others = [d for d in range(array.ndim) if d not in axes]
    count = int(np.prod([array.shape[d] for d in axes]))
    return array.transpose(*others, *axes).reshape(-1, count)


class TestIndices:
    """Places of the least and the largest elements."""

    @pytest.mark.parametrize(("name", "function"), [("ARGMIN", min), ("ARGMAX", max)])
    def test_random_descriptors(self, name, function):
        """Each element is the place of the first or the last of equal ones; none is documented beside a NaN."""
        seen = Counter()
        for case in drawn(name):
            desc, rows = case.desc, rows_of(case.desc, to_array(case.tensors["InputTensor"])).tolist()
            known = [not any(n != n for n in row) for row in rows]
            places = [[i for i, n in enumerate(row) if n == function(row)] or [0] for row in rows]
            wanted = np.array([found[-desc.axis_direction] for found in places], object).reshape(desc.output.sizes)
            documented = check(case, "OutputTensor", wanted, np.array(known).reshape(desc.output.sizes))
            assert documented.ravel().tolist() == known
            seen.update([*seen_in(case), f"axes {desc.axis_count}", f"direction {desc.axis_direction}"])
            seen["ties"] += sum(len(found) > 1 for found in places)
            seen["unknown"] += known.count(False)
        coverage(name, seen)
        assert {"axes 1", "axes 2", "axes 8", "direction 0", "direction 1"} <= seen.keys()
        assert seen["ties"] > 200 and seen["unknown"] > 5

    @pytest.mark.parametrize("name", ["ARGMIN", "ARGMAX"])
    def test_on_the_cpu_ep(self, name):
        """The CPU EP agrees for every type that it has a kernel for."""
        assert {"FLOAT32", "FLOAT16", "INT8", "INT32", "INT64", "UINT8"} == types_on_the_cpu_ep(drawn(name))


class TestTopK:
    """The largest or smallest elements, in order."""

    @pytest.mark.parametrize("name", ["TOP_K", "TOP_K1"])
    def test_random_descriptors(self, name):
        """The elements are sorted, equal ones by their places; none is documented beside a NaN."""
        seen = Counter()
        for case in drawn(name):
            desc, array = case.desc, to_array(case.tensors["InputTensor"])
            rows = np.moveaxis(array, desc.axis, -1)
            sign = 1 if name == "TOP_K1" and not desc.axis_direction else -1
            shape = (*rows.shape[:-1], desc.k)
            keys = [
                sorted((sign * n, i) for i, n in enumerate(row))[: desc.k]
                for row in exact(rows).reshape(-1, rows.shape[-1]).tolist()
            ]
            known = np.full(desc.output.sizes, not any(n != n for n in array.ravel().tolist()))
            for field, part in (
                ("OutputValueTensor", [[sign * n for n, _ in row] for row in keys]),
                ("OutputIndexTensor", [[i for _, i in row] for row in keys]),
            ):
                wanted = np.moveaxis(np.array(part, object).reshape(shape), -1, desc.axis)
                assert (check(case, field, wanted, known) == known).all()
            seen.update([*seen_in(case), f"sign {sign}", "all" if desc.k == rows.shape[-1] else "some"])
            seen["unknown"] += int((~known).sum())
        coverage(name, seen)
        assert {"all", "some", "sign -1"} <= seen.keys() and ("sign 1" in seen) == (name == "TOP_K1")
        assert seen["unknown"] > 100

    def test_on_the_cpu_ep(self):
        """The CPU EP agrees for every type that it has a kernel for."""
        assert {"FLOAT32", "FLOAT16", "INT64", "INT32", "INT16", "INT8", "UINT8"} == types_on_the_cpu_ep(
            drawn("TOP_K1")
        )


class TestHardmax:
    """1 at the first of the largest elements along the axes, 0 elsewhere."""

    @pytest.mark.parametrize("name", ["ACTIVATION_HARDMAX", "ACTIVATION_HARDMAX1"])
    def test_random_descriptors(self, name):
        """One element of each row is 1; no element of a row with a NaN is documented."""
        seen = Counter()
        for case in drawn(name):
            array = to_array(case.tensors["InputTensor"])
            axes = getattr(case.desc, "axes", (array.ndim - 1,))
            order = [*(d for d in range(array.ndim) if d not in axes), *axes]
            moved = array.transpose(order)
            rows = moved.reshape(-1, int(np.prod([array.shape[d] for d in axes]))).tolist()
            known = [[not any(n != n for n in row)] * len(row) for row in rows]
            wanted = [[int(i == row.index(max(row))) for i in range(len(row))] for row in rows]
            wanted, known = (np.array(own).reshape(moved.shape).transpose(np.argsort(order)) for own in (wanted, known))
            assert (check(case, "OutputTensor", wanted, known) == known).all()
            seen.update([*seen_in(case), f"axes {len(axes)}"])
            seen["ties"] += sum(row.count(max(row)) > 1 for row in rows)
            seen["unknown"] += int((~known).sum())
        coverage(name, seen)
        assert {"axes 1"} <= seen.keys() and ("axes 8" in seen) == (name == "ACTIVATION_HARDMAX1")
        assert seen["ties"] > 50 and seen["unknown"] > 20

    def test_on_the_cpu_ep(self):
        """The CPU EP agrees for every type."""
        assert {"FLOAT32", "FLOAT16"} == types_on_the_cpu_ep(drawn("ACTIVATION_HARDMAX1"))

    @pytest.mark.parametrize(("rank", "axis", "wanted"), [(2, -1, 3), (2, 0, 2), (5, 1, 1)])
    def test_nodes(self, rank, axis, wanted):
        """The tensors are padded to four dimensions, and the axis moves with them; the last one is the default."""
        tensor = TensorDesc(DataType.FLOAT32, tuple(range(2, 2 + rank)))
        desc = emitted("Hardmax", [tensor], {"axis": axis} if axis != -1 else {})
        assert ((wanted,), max(rank, 4)) == (desc.axes, desc.output.dimension_count)


class TestNonzeroCoordinates:
    """The count of the elements that are not zero, and their coordinates."""

    def test_random_descriptors(self):
        """The rows are the coordinates, in the order of the elements; those behind them are not documented."""
        seen = Counter()
        for case in drawn("NONZERO_COORDINATES"):
            array = to_array(case.tensors["InputTensor"])
            found = np.argwhere(array != 0)  # both zeros are zero, and a NaN is not
            check(case, "OutputCountTensor", np.full(case.desc.output.sizes, len(found), object), np.array(True))
            *_, rows, columns = sizes = case.desc.output_coordinates_tensor.sizes
            wanted = np.zeros((rows, columns), object)
            wanted[: len(found)] = found[:, array.ndim - columns :]
            known = (np.indices((rows, columns))[0] < len(found)).reshape(sizes)
            assert (check(case, "OutputCoordinatesTensor", wanted.reshape(sizes), known) == known).all()
            seen.update([*seen_in(case), "left out" if columns < array.ndim else "all"])
            seen["unknown"] += int((~known).sum())
        coverage("NONZERO_COORDINATES", seen)
        assert {"left out", "all"} <= seen.keys() and seen["unknown"] > 100

    @pytest.mark.parametrize("most", [1, 8, 1 << 18])
    def test_any_limit(self, most):
        """A row has up to eight coordinates: with few elements and with many, descriptors are found."""
        operator = OPERATORS["NONZERO_COORDINATES"]
        for number in range(20):
            desc = operator.draw(SeededSource(number), 8, most)
            assert not desc.violations() and most >= max(t.element_count for t in desc.tensors.values())


REDUCED = {  # function -> the value of exact numbers
    "L1": lambda row: sum(map(abs, row)),
    "MAX": max,
    "MIN": min,
    "MULTIPLY": prod,
    "SUM": sum,
    "SUM_SQUARE": lambda row: sum(n * n for n in row),
    "ARGMAX": lambda row: row.index(max(row)),
    "ARGMIN": lambda row: row.index(min(row)),
}


class TestReduce:
    """Sums, products, extremes and places of the elements along axes."""

    def test_random_descriptors(self):
        """Each documented element is the page's; each one is documented of which all parts are small."""
        seen = Counter()
        for case in drawn("REDUCE"):
            desc, array = case.desc, to_array(case.tensors["InputTensor"])
            function = desc.named_numbers["Function"]
            rows, small = rows_of(desc, exact(array)).tolist(), rows_of(desc, is_small(array))
            known = small.all(-1)
            if function == "MULTIPLY":
                known &= np.array([np.prod([max(abs(n), 1) if isfinite(n) else 1 for n in row]) <= 120 for row in rows])
            wanted = [REDUCED[function](row) if all(map(isfinite, row)) else None for row in rows]
            found = values_of(case, "OutputTensor").ravel()
            for row, value, got, is_known in zip(rows, wanted, found, known, strict=True):
                assert got is not None or not is_known, case.id
                if value is None and got is not None:  # an infinity may be the least or the largest
                    assert function in ("MIN", "MAX", "ARGMIN", "ARGMAX") and got == REDUCED[function](row)
                elif got is not None:
                    assert got == value, case.id
            seen.update(
                [*seen_in(case), function, f"axes {desc.axis_count}", f"ascend {list(desc.axes) == sorted(desc.axes)}"]
            )
            seen["unknown"] += found.ravel().tolist().count(None)
        coverage("REDUCE", seen)
        assert {*REDUCED, "axes 1", "axes 8", "ascend True", "ascend False"} <= seen.keys()
        assert seen["unknown"] > 20

    def test_on_the_cpu_ep(self):
        """The CPU EP agrees for every type that it has a kernel for."""
        verdicts = verdicts_on_the_cpu_ep(drawn("REDUCE"))
        assert {"pass", "observed", "unsupported"} >= {v for found in verdicts.values() for v in found}, verdicts
        assert {"FLOAT32", "FLOAT16", "INT32", "INT8", "UINT8"} <= {t for t, found in verdicts.items() if found["pass"]}
        assert {"unsupported"} == {*verdicts["INT64"]}  # it computes with doubles

    def test_a_type_that_a_function_lacks(self):
        """Another function takes its place; a descriptor with it breaks the rule of the tables."""
        operator = OPERATORS["REDUCE"]
        outline = next(operator.small_scope(1, 2))._replace(numbers={"Function": 10, "AxisCount": 1, "Axes": (0,)})
        assert "SUM" == operator.described(outline, DataType.INT32).named_numbers["Function"]
        desc = operator.described(outline, DataType.INT8)
        assert "MIN" == desc.named_numbers["Function"] and not desc.violations()
        (violation, *_) = desc.replace(function=10).violations()
        wanted = "must be one of FLOAT32, FLOAT16, INT64, INT32, UINT64, UINT32, got INT8 (REDUCE.S1)"
        assert f"InputTensor.DataType {wanted}" == str(violation)

    @pytest.mark.parametrize(("op_type", "function"), [("ReduceSum", "SUM"), ("ReduceL1", "L1"), ("ReduceMax", "MAX")])
    def test_nodes(self, op_type, function):
        """The node says the function; axes may be negative, and none are all."""
        tensor = TensorDesc(DataType.INT32, (2, 3, 4))
        desc = emitted(op_type, [tensor], {"axes": (-1, 0)})
        assert (function, (2, 0), (1, 3, 1)) == (desc.named_numbers["Function"], desc.axes, desc.output.sizes)
        assert (0, 1, 2) == emitted(op_type, [tensor], {}).axes


class TestGivenNodes:
    """`check` on nodes of users."""

    def judged(self, tmp_path, text, *, code, opset=13):
        """The lines that `check` prints for a model on the CPU EP."""
        path = tmp_path / "m.onnx"
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}'), path)
        lines = io.StringIO()
        with redirect_stdout(lines):
            assert code == main(["check", "--provider", "cpu", str(path)])
        return lines.getvalue()

    def test_indices_of_top_k(self, tmp_path):
        """The DirectML EP declares them UINT64; the bits are those of ONNX's INT64."""
        text = "(float[2,4] x) => (float[2,2] y, int64[2,2] i) <int64[1] k = {2}> {y, i = TopK<axis = -1>(x, k)}"
        assert "pass" in self.judged(tmp_path, text, code=0)

    def test_no_axes(self, tmp_path):
        """Without axes a node reduces all dimensions, or none: the page says nothing of none."""
        axes = "int64[0] a = {}"
        text = f"(float[2,3] x) => (float[1,1] y) <{axes}> {{y = ReduceSum(x, a)}}"
        assert "1 pass" in self.judged(tmp_path, text, code=0)
        text = f"(float[2,3] x) => (float[2,3] y) <{axes}> {{y = ReduceSum<noop_with_empty_axes = 1>(x, a)}}"
        assert "judged by ONNX" in self.judged(tmp_path, text, code=0)

    def test_axis_of_cum_sum(self, tmp_path):
        """It is an input, and may be negative."""
        text = "(int32[2,3] x) => (int32[2,3] y) <int64 a = {-1}> {y = CumSum<reverse = 1>(x, a)}"
        assert "pass" in self.judged(tmp_path, text, code=0)

    def test_an_older_meaning(self, tmp_path):
        """Before opset 13, a Hardmax node has one 1 in all dimensions from its axis on."""
        text = "(float[2,2,2] x) => (float[2,2,2] y) {y = Hardmax<axis = 1>(x)}"
        for opset in (11, 13):
            lines = self.judged(tmp_path, text, code=0, opset=opset)
            assert "1 pass" in lines and "judged by ONNX" not in lines
