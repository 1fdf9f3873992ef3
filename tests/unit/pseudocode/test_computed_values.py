"""Lines that compute a value from elements: the compiled form, the naive form and NumPy give the same bits."""

import dataclasses
import math
from array import array
from contextlib import contextmanager
from itertools import islice, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from outside import formula as computing

from opmap import register_operator, unregister_operator
from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue, example_descriptor
from opmap.cli import main
from opmap.engines.arrays import dtype_of
from opmap.errors import InputError, PseudocodeError
from opmap.faults import FAULTS
from opmap.faults.case_arrays import CaseArrays
from opmap.faults.expressions import EXPRESSION_FAULTS
from opmap.faults.fault import FaultProvider
from opmap.judge.compare import differences
from opmap.operators import OPERATORS
from opmap.pseudocode import access_map, naive, parse_lines, run
from opmap.pseudocode.computed import along
from opmap.pseudocode.interpreter import equals_documented
from opmap.tensors import AnyPattern, DataType, Tensor, settled, to_bits

INTEGERS = [t for t in DataType if t.number and t.kind != "float"]
UNSIGNED = [t for t in INTEGERS if t.kind == "unsigned"]
ALL = [t for t in DataType if t.number]


def shifted(function):
    """Returns a function of arrays that shifts; a shift by the width or more has no documented value."""

    def shift(a, b):
        width = a.dtype.itemsize * 8
        with np.errstate(all="ignore"):
            return np.where(b < width, function(a, np.minimum(b, width - 1)), 0), b < width

    return shift


def exact(function):
    """Returns a function of arrays of integers; a result that their type does not hold has no documented value."""

    def computed(*arrays):
        numbers = [[int(n) for n in a.reshape(-1)] for a in arrays]
        values = [function(*ns) for ns in zip(*numbers, strict=True)]
        limits = np.iinfo(arrays[0].dtype)
        holds = [v is not None and limits.min <= v <= limits.max for v in values]
        return np.array([v if ok else 0 for v, ok in zip(values, holds, strict=True)], arrays[0].dtype), np.array(holds)

    return computed


def always(function):
    """Returns a function of arrays whose result is always documented."""
    return lambda *arrays: (result := function(*arrays), np.ones(result.shape, bool))


ROWS = {  # text -> the data types of the inputs, the output's data type if it is another one, NumPy's function
    "output[x] = a[x] & b[x]": (ALL, None, always(np.bitwise_and)),
    "output[x] = a[x] | b[x]": (ALL, None, always(np.bitwise_or)),
    "output[x] = a[x] ^ b[x]": (ALL, None, always(np.bitwise_xor)),
    "output[x] = ~a[x]": (ALL, None, always(np.invert)),
    "output[x] = a[x] << b[x]": (UNSIGNED, None, shifted(np.left_shift)),
    "output[x] = a[x] >> b[x]": (UNSIGNED, None, shifted(np.right_shift)),
    "output[x] = ~(a[x] & b[x]) ^ a[x]": (INTEGERS, None, always(lambda a, b: ~(a & b) ^ a)),
    "output[x] = bit_count(a[x])": (UNSIGNED, DataType.UINT8, always(np.bitwise_count)),
    "output[x] = a[x] < b[x]": (ALL, DataType.UINT8, always(np.less)),
    "output[x] = a[x] == b[x]": (ALL, DataType.UINT8, always(np.equal)),
    "output[x] = a[x] != 0 and b[x] != 0": (INTEGERS, DataType.UINT8, always(np.logical_and)),
    "output[x] = a[x] + b[x]": (INTEGERS, None, exact(lambda a, b: a + b)),
    "output[x] = -a[x]": (INTEGERS, None, exact(lambda a: -a)),
    "output[x] = abs(a[x])": (INTEGERS, None, exact(abs)),
    "output[x] = a[x] / b[x]": (
        INTEGERS,
        None,
        exact(lambda a, b: int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else None),
    ),
    "output[x] = a[x] * 2 + 1": (INTEGERS, None, exact(lambda a: a * 2 + 1)),
    "output[x] = min(a[x], b[x])": (INTEGERS, None, always(np.minimum)),
    "output[x] = (a[x] & b[x]) < b[x]": (INTEGERS, DataType.UINT8, always(lambda a, b: (a & b) < b)),
    "output[x] = bit_count(a[x]) + b[x]": (UNSIGNED, None, exact(lambda a, b: a.bit_count() + b)),
}


def drawn(data_type, seed, count=60):
    """Returns bit patterns: random ones, and small numbers, so that some shifts and sums have documented values."""
    source = np.random.default_rng(seed)
    bits = source.integers(0, (1 << data_type.size * 8) - 1, count, dtype=np.uint64, endpoint=True)
    bits[::3] = source.integers(0, 2 * data_type.size * 8, len(bits[::3]))
    return bits.astype(f"<u{data_type.size}")


CASES = [(text, data_type) for text, (types, *_) in ROWS.items() for data_type in types]


class TestAlong:
    """Numbers that depend on nothing but the positions of loops."""

    @pytest.mark.parametrize("loops", [(), (1,), (3, 2), (2, 0, 3), (5000,), (2, 3, 70, 90), (5000, 2), (1, 5000, 1)])
    @pytest.mark.parametrize("steps", [{}, {0: 2}, {0: -1, 1: 7}, {1: 3, 2: -5, 3: 1}])
    def test_all_positions(self, loops, steps):
        """They are in the order of the positions, whatever is computed together."""
        positions = product(*map(range, loops))
        expected = [4 + sum(steps.get(loop, 0) * at for loop, at in enumerate(position)) for position in positions]
        assert expected == list(along(4, {loop: step for loop, step in steps.items() if loop < len(loops)}, loops))

    def test_a_long_loop(self):
        """A loop need not fit into the memory."""
        assert [4, 4, 6, 6] == list(islice(along(4, {0: 2}, (1 << 60, 2)), 4))
        assert [4, 6] == list(islice(along(4, {1: 2}, (1 << 40, 1 << 40)), 2))


class TestValues:
    """Each row with each of its data types."""

    @pytest.mark.parametrize(("text", "data_type"), CASES, ids=[f"{t}-{d.name}" for t, d in CASES])
    def test_agree_with_numpy(self, text, data_type):
        """The compiled form, the naive form and NumPy give the same bits, and the same elements have no documented
        value.
        """
        _, output, function = ROWS[text]
        names = [name for name in "ab" if f"{name}[" in text]
        arrays = {name: drawn(data_type, seed) for seed, name in enumerate(names)}
        numbers = any(sign in text for sign in ("< b", "+"))
        on_bits = not numbers and any(sign in text for sign in ("&", "|", "^", "~", "<<", ">>", "bit_count"))
        values = list(arrays.values()) if on_bits else [a.view(dtype_of(data_type)) for a in arrays.values()]
        with np.errstate(all="ignore"):
            wanted, documented = function(*values)
        output = output or data_type
        patterns = wanted.astype(dtype_of(output)).view(f"<u{output.size}") if not on_bits else wanted
        expected = [int(v) if known else None for v, known in zip(patterns, documented, strict=True)]
        sizes = {**dict.fromkeys(names, (60,)), "output": (60,)}
        tensors = {name: Tensor(data_type, (60,), _array(data_type, a)).bits for name, a in arrays.items()}
        types = {**dict.fromkeys(names, data_type), "output": output}
        lines = parse_lines(text)
        access = access_map(lines, sizes, types=types)
        assert expected == list(run(access, tensors))
        origins = [naive.trace(lines, sizes, (at,), tensors, types=types) for at in range(60)]
        assert expected == [origin.value for origin in origins]
        assert equals_documented(access, tensors, memoryview(_array(output, patterns))) == (None not in expected)

    def test_undefined_elements(self):
        """A value that is computed from an element without a documented value has none."""
        lines = parse_lines("output[x] = a[i[x]] & b[x]")
        types = dict.fromkeys(("a", "b", "output"), DataType.UINT8) | {"i": DataType.INT32}
        sizes = {"a": (3,), "b": (4,), "i": (4,), "output": (4,)}
        tensors = {"a": _array(DataType.UINT8, [1, 2, 3]), "b": _array(DataType.UINT8, [255] * 4), "i": [0, -1, 3, 2]}
        access = access_map(lines, sizes, types=types)
        assert [1, 3, None, 3] == list(run(access, tensors))
        assert [1, 3, None, 3] == [naive.trace(lines, sizes, (x,), tensors, types=types).value for x in range(4)]
        assert {"i": (3,)} == access.index_bounds

    def test_a_guard(self):
        """Where the guard does not hold, the element stays."""
        lines = parse_lines("output = a\nif (x % 2 == 0) output[x] = a[x] ^ b[x]")
        types, sizes = dict.fromkeys(("a", "b", "output"), DataType.UINT8), dict.fromkeys(("a", "b", "output"), (4,))
        tensors = {"a": _array(DataType.UINT8, [1, 2, 3, 4]), "b": _array(DataType.UINT8, [255, 255, 1, 1])}
        assert [254, 2, 2, 4] == list(run(access_map(lines, sizes, types=types), tensors))

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("output[x] = 1 + 1", "computed from no element"),
            ("output[x] = a[x] & unknown", "unknown has no value"),
            ("output[x] = a[y] & b[x]", "not a coordinate"),
            ("output[x] = a[x] + y", "y has no value"),
            ("output[x] = a[x] + sum(b[y] for y in [0, b[x]))", "must go from numbers and coordinates"),
            ("output[x] = sum(b[x] for x in [0, 4))", "x is a coordinate already"),
            ("output[x] = sum(max(b[y] for y in [0, 2)) for y in [0, 4))", "y is a coordinate already"),
            ("output[x] = sum(b[y] for y in [x - 1, x])", "coordinates that are at least 0"),
            ("output[x] = sum(b[y] for y in [0, x + 1])", "y runs to 4, the dimension has 4"),
            ("output[x] = sum(1 for y in [0, 1048577))", "must go over at most 4194304 positions, got 4194308"),
            ("output[x] = a[x] & 256", "256 is no bit pattern of UINT8"),
        ],
    )
    def test_refused(self, text, problem):
        """What has no value is refused with its line."""
        sizes, types = dict.fromkeys(("a", "b", "output"), (4,)), dict.fromkeys(("a", "b", "output"), DataType.UINT8)
        with pytest.raises(PseudocodeError, match=problem):
            access_map(parse_lines(text), sizes, types=types)

    @pytest.mark.parametrize(
        ("text", "numbers", "expected"),
        [
            (
                "a[x] + b[x]",
                [(1.5, 2.25), (0.1, 0.2), (math.inf, 1), (math.inf, -math.inf)],
                [3.75, None, math.inf, math.nan],
            ),
            ("a[x] - b[x]", [(1, 1), (2**24, -1), (3e38, -3e38)], [0.0, None, None]),
            ("a[x] * b[x]", [(3, 0.5), (0.1, 0.1), (-0.0, 5)], [1.5, None, 0.0]),
            ("a[x] / b[x]", [(3, 2), (1, 3), (1, 0), (1, math.inf)], [1.5, None, None, 0.0]),
            ("a[x] % b[x]", [(7.5, 2), (-7.75, 0.5), (1, 0), (1, math.inf)], [1.5, -0.25, None, None]),
            ("min(a[x], b[x])", [(1, 2), (-0.0, 0.0), (1, math.nan), (-math.inf, 0)], [1.0, 0.0, None, -math.inf]),
            ("max(a[x], b[x])", [(1, 2), (-0.0, 0.0), (math.nan, 1)], [2.0, 0.0, None]),
            ("abs(a[x])", [(-1.5, 0), (-0.0, 0), (-math.inf, 0), (math.nan, 0)], [1.5, 0.0, math.inf, math.nan]),
            ("-a[x] + 1", [(1, 0), (0.25, 0)], [0.0, 0.75]),
            ("a[x] + b[x] - a[x]", [(2**24, 1), (2, 1)], [None, 1.0]),
            ("(a[x] + b[x]) & b[x]", [(2, 2), (1, -1)], [2.0, None]),
            ("a[x] + x", [(1, 0), (1, 0)], [1.0, 2.0]),
        ],
    )
    def test_numbers_of_floats(self, text, numbers, expected):
        """A number of a float type is computed exactly. If the type does not hold it, it has no documented value.

        The sign of a zero and the bits of a NaN are open.
        """
        types = dict.fromkeys(("a", "b", "output"), DataType.FLOAT32)
        sizes, lines = dict.fromkeys(types, (len(numbers),)), parse_lines(f"output[x] = {text}")
        tensors = {
            name: to_bits(DataType.FLOAT32, column)
            for name, column in zip("ab", zip(*numbers, strict=True), strict=True)
        }
        found = run(access_map(lines, sizes, types=types), tensors)
        wanted = [None if n is None else to_bits(DataType.FLOAT32, [n])[0] for n in expected]
        assert wanted == list(found)
        assert wanted == [naive.trace(lines, sizes, (x,), tensors, types=types).value for x in range(len(numbers))]
        is_several = [n is not None and (n == 0 or n != n) and "&" not in text for n in expected]
        assert is_several == [isinstance(bits, AnyPattern) for bits in found]

    def test_several_patterns(self):
        """A computed zero may have either sign, and a computed NaN any bits; a zero that is moved has one pattern."""
        types = dict.fromkeys(("a", "b", "output"), DataType.FLOAT16)
        tensors = {"a": array("H", [0x8000, 0x7C01, 0x3C00, 0]), "b": array("H", [0, 0, 0, 0])}
        lines = parse_lines("output = a\nif (x < 3) output[x] = a[x] + b[x]")
        expected = run(access_map(lines, dict.fromkeys(types, (4,)), types=types), tensors)
        allowed = Tensor(DataType.FLOAT16, (4,), array("H", [0x8000, 0xFFFF, 0x3C00, 0]))
        assert [] == [*differences(expected, allowed.bits)]
        assert list(expected) == list(settled(expected, allowed).bits)
        for at, wrong in enumerate((0x0001, 0x7C00, 0xBC00, 0x8000)):
            bits = array("H", allowed.bits)
            bits[at] = wrong
            assert [at] == [*differences(expected, bits)]
            assert wrong == settled(expected, Tensor(DataType.FLOAT16, (4,), bits)).bits[at]

    def test_precedence(self):
        """The operators bind as in Python, and a printed line is read as the same line."""
        order = ["or", "and", "==", "|", "^", "&", "<<", "+", "*"]
        for weak, strong in pairwise(order):
            text = f"output[x] = a[x] {weak} b[x] {strong} c[x]"
            (line,) = parse_lines(text)
            assert weak == line.source.operator
            assert text == str(line)
            bracketed = f"output[x] = (a[x] {weak} b[x]) {strong} c[x]"
            assert bracketed == str(parse_lines(bracketed)[0])


def _array(data_type, values):
    return Tensor.from_bytes(data_type, (len(values),), np.asarray(values, f"<u{data_type.size}").tobytes()).bits


@contextmanager
def registered_with(formula, folder, target="output[x]"):
    """Has FORMULA registered with another formula, and gives its spec."""
    own, spec = dataclasses.replace(computing.OPERATOR), Path(computing.__file__).with_suffix(".toml")
    text = spec.read_text(encoding="utf-8").replace("output[x] = a[x] & b[x]", f"{target} = {formula}")
    (folder / "own.toml").write_text(text, encoding="utf-8")
    register_operator(own, spec=folder / "own.toml")
    try:
        yield own.descriptor.spec()
    finally:
        unregister_operator("FORMULA")


@pytest.fixture
def operator(tmp_path):
    """FORMULA, registered without chosen cases."""
    with registered_with("a[x] & b[x]", tmp_path):
        yield OPERATORS["FORMULA"]


NAMES = [name.removeprefix("value-") for name in EXPRESSION_FAULTS]


class TestOperator:
    """An operator that computes its values: its example, the CPU EP, faults of addresses, and where an element comes
    from.
    """

    def test_example(self, operator):
        """The interpreter gives the output of the example."""
        desc, tensors = example_descriptor(operator.descriptor.spec(), "1")
        output = tensors.pop("OutputTensor")
        assert list(output.bits) == list(desc.interpret(tensors))
        traced = desc.trace((1, 0), tensors)
        assert "output[1, 0] = (a[1, 0] = 0x2A) & (b[1, 0] = 0x0F)" == traced.text
        assert 10 == traced.value

    @pytest.mark.parametrize(
        ("formula", "expected"),
        [  # of {0, 128, 42, 255} and {7, 129, 15, 170}
            ("a[x] << b[x]", [0, None, None, None]),
            ("a[x] << 1", [0, 0, 84, 254]),
            ("a[x] >> 1", [0, 64, 21, 127]),
            ("~a[x] & b[x]", [7, 1, 5, 0]),
            ("bit_count(a[x])", [0, 1, 3, 8]),
            ("bit_count(a[x] ^ b[x]) + 1", [4, 2, 4, 5]),
        ],
    )
    def test_of_a_spec(self, tmp_path, formula, expected):
        """Each operator works in the pseudocode of a spec: its names are replaced, and its numbers are computed."""
        with registered_with(formula, tmp_path) as spec:
            desc, tensors = example_descriptor(spec, "1")
            tensors.pop("OutputTensor")
            assert expected == list(desc.interpret(tensors))
            assert expected == [desc.trace(at, tensors).value for at in ((0, 0), (0, 1), (1, 0), (1, 1))]

    @pytest.mark.parametrize(
        ("formula", "problem"),
        [
            ("a[x] << (1 << 10000000000)", "<< takes an element of a tensor"),
            ("a[x] << -1", "-1 is no bit pattern of UINT8"),
            ("a[x] & sum(b[x])", "sum has no value here"),
        ],
    )
    def test_refused_in_a_spec(self, tmp_path, formula, problem):
        """What has no value is one error, and takes no memory."""
        with registered_with(formula, tmp_path) as spec, pytest.raises(PseudocodeError, match=problem):
            desc, tensors = example_descriptor(spec, "1")
            desc.interpret(tensors)

    def test_unreadable(self, tmp_path):
        """A formula that cannot be read is an error of the spec file, and nothing is registered."""
        with pytest.raises(InputError, match="unexpected") as error, registered_with("a[x] ** b[x]", tmp_path):
            pass
        assert str(tmp_path / "own.toml") == error.value.file
        assert "FORMULA" not in OPERATORS

    @pytest.mark.parametrize("sign", ["+", "-", "*", "&", "and"])
    def test_a_long_chain(self, tmp_path, sign):
        """A formula of hundreds of operators is one error of the spec file."""
        chain = f" {sign} ".join(["a[x]"] * 300)
        with (
            pytest.raises(InputError, match="more than 64 operators in a line") as error,
            registered_with(chain, tmp_path),
        ):
            pass
        assert str(tmp_path / "own.toml") == error.value.file

    def test_an_unknown_name(self, tmp_path, refusal):
        """`explain` says in one line that a formula names no tensor."""
        with registered_with("a[x] & other[x]", tmp_path):
            assert "other is not a tensor of the operator" in refusal("explain", "formula/example.1")

    def test_registered_again(self, tmp_path):
        """An operator that is registered again has the new spec."""
        own, spec = dataclasses.replace(computing.OPERATOR), Path(computing.__file__).with_suffix(".toml")
        for formula in ("a[x] & b[x]", "a[x] | b[x]"):
            text = spec.read_text(encoding="utf-8").replace("a[x] & b[x]", formula)
            (tmp_path / "own.toml").write_text(text, encoding="utf-8")
            register_operator(own, spec=tmp_path / "own.toml")
            assert formula in own.descriptor.spec().pseudocode.text
            cases = catalogue("smoke", globs=["formula/*"])
            assert all(formula in case.desc.spec().pseudocode.text for case in cases)
            unregister_operator("FORMULA")

    def test_explained(self, operator, capsys):
        """`explain` names the elements and the value."""
        assert 0 == main(["explain", "formula/example.1", "--at", "1,0"])
        assert "output[1, 0] = (a[1, 0] = 0x2A) & (b[1, 0] = 0x0F) = 10" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("formula", "seen"),
        [
            ("a[x] & b[x]", {"other-operator", "narrower", "narrower-signed", "sign-lost"}),
            ("~a[x] | b[x]", {"other-operator", "operator-lost", "narrower", "narrower-signed"}),
            ("a[x] << (b[x] & 7)", {"other-operator", "operands-exchanged", "narrower"}),
            ("a[x] < b[x]", {"other-operator", "operands-exchanged", "narrower", "narrower-signed"}),
            ("a[x] <= a[x] * 1", {"other-operator", "equality"}),
            (
                "sum(min(a[j, n], b[m, n]) for j in [0, 2) if j <= m) & 255",
                {*NAMES} - {"operator-lost", "low-half-signed", "rounded-twice"},
            ),
        ],
    )
    def test_faults_of_expressions(self, tmp_path, formula, seen):
        """Each fault that is made from the table of operators changes the output exactly where a formula has such an
        operator.
        """
        with registered_with(formula, tmp_path, "output[m, n]" if "j" in formula else "output[x]") as spec:
            assert spec.computes_values
            assert seen <= {n.removeprefix("value-") for n, f in EXPRESSION_FAULTS.items() if f.tier == "standard"}
            desc, tensors = example_descriptor(spec, "1")
            tensors.pop("OutputTensor")
            arrays = CaseArrays(Case("own", desc, tensors))
            assert [bits or 0 for bits in desc.interpret(tensors)] == arrays.right.tolist()
            changed = {n for n, f in EXPRESSION_FAULTS.items() if f.bits(arrays).tolist() != arrays.right.tolist()}
            changed = {name.removeprefix("value-") for name in changed}
        assert seen == changed
        assert all(fault.tier == "standard" for fault in EXPRESSION_FAULTS.values())

    def test_faults_of_addresses(self, operator):
        """A fault in the address of the first input changes the values."""
        changed = set()
        for case in catalogue("standard", globs=["formula/*"]):
            arrays = CaseArrays(case)
            assert case.expected is not None
            assert list(case.expected) == arrays.right.tolist()
            for name in {"strides-column-major", "address-off-by-one", "output-zero"} - changed:
                (output,) = FaultProvider(FAULTS[name]).run_arrays(arrays)
                changed |= {name} if output.tobytes() != arrays.right.tobytes() else set()
        assert {"strides-column-major", "address-off-by-one", "output-zero"} == changed
