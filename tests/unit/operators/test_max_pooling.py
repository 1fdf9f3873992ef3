"""Operators that take the largest element of a window: random descriptors against NumPy, as the pages say it, and against
the CPU EP; nodes of users.
"""

import io
from collections import Counter
from contextlib import redirect_stdout
from itertools import product

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from drawn_cases import check, coverage, drawn, exact, seen_in, types_on_the_cpu_ep

from opmap.cli import main
from opmap.descriptors import TensorDesc
from opmap.engines.arrays import to_array
from opmap.errors import InputError
from opmap.operators import OPERATORS, emitted
from opmap.tensors import DataType, Tensor

NAMES = ["MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"]


def windows(desc):
    """For each element of the output, the flat places of the input's elements in its window, in ascending order."""
    sizes, dilations = desc.input_tensor.sizes, desc.numbers.get("Dilations", (1,) * desc.dimension_count)
    places = np.arange(desc.input_tensor.element_count).reshape(sizes)
    for batch, channel, *at in np.ndindex(desc.output.sizes):
        axes = [
            [place for k in range(window) if 0 <= (place := x * stride + k * dilation - start) < size]
            for x, size, window, stride, dilation, start in zip(
                at, sizes[2:], desc.window_size, desc.strides, dilations, desc.start_padding, strict=True
            )
        ]
        yield [int(places[(batch, channel, *place)]) for place in product(*axes)]


def pooled(desc, array):
    """The largest element of each window, its place, and whether both are documented."""
    flat, found = exact(array).ravel(), []
    for own in windows(desc):
        known = bool(own) and not any(flat[i] != flat[i] for i in own)
        best = max(own, key=lambda i: (flat[i], -i)) if known else 0
        found.append((flat[best], best, known))
    return [np.array(column, object).reshape(desc.output.sizes) for column in zip(*found, strict=True)]


class TestRandomDescriptors:
    """300 of each operator."""

    @pytest.mark.parametrize("name", NAMES)
    def test_as_numpy(self, name):
        """An element is the largest of its window, and its index the first of equal ones; none beside a NaN."""
        seen = Counter()
        for case in drawn(name):
            value, place, known = pooled(case.desc, to_array(case.tensors["InputTensor"]))
            known = known.astype(bool)
            assert (check(case, "OutputTensor", value, known) == known).all(), case.id
            if "OutputIndicesTensor" in case.desc.outputs:
                assert (check(case, "OutputIndicesTensor", place, known) == known).all(), case.id
            seen.update([*seen_in(case), *OPERATORS[name].classify(case.desc).items()])
            seen["unknown"] += int((~known).sum())
        coverage(name, seen)
        assert {(n, c) for n, classes in OPERATORS[name].parameters.items() for c in classes} <= seen.keys()
        assert seen["unknown"] > 5

    @pytest.mark.parametrize(("name", "types"), [("MAX_POOLING", set()), ("MAX_POOLING2", {"FLOAT32"})])
    def test_on_the_cpu_ep(self, name, types):
        """The CPU EP agrees for every type of which it is a judge."""
        assert types | {"FLOAT16", "INT8", "UINT8"} == types_on_the_cpu_ep(drawn(name))

    def test_infinities_on_the_cpu_ep(self):
        """Without indices, FLOAT32 has the lowest finite number in place of -infinity there."""
        for count, wanted in ((1, np.finfo(np.float32).min), (2, -np.inf)):
            outputs = ", int64[1,1,1,1] i"[: 21 * (count - 1)], ", i"[: 3 * (count - 1)]
            text = "g (float[1,1,1,2] x) => (float[1,1,1,1] y{}) {{ y{} = MaxPool<kernel_shape = [1, 2]>(x) }}"
            model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 12]> ' + text.format(*outputs))
            session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            value, *_ = session.run(None, {"x": np.full((1, 1, 1, 2), -np.inf, np.float32)})
            assert wanted == value.item()


def example(**members):
    """The descriptor of the first example, with other members."""
    return OPERATORS["MAX_POOLING2"].descriptor(
        **dict(
            input_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 1, 3)),
            output_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 1, 2)),
            output_indices_tensor=TensorDesc(DataType.UINT32, (1, 1, 1, 2)),
            dimension_count=2,
            strides=(1, 1),
            window_size=(1, 2),
            start_padding=(0, 0),
            end_padding=(0, 0),
            dilations=(1, 1),
        )
        | members
    )


def results(desc, values):
    """Both outputs for a FLOAT32 input."""
    tensors = {"InputTensor": Tensor.from_values(DataType.FLOAT32, desc.input_tensor.sizes, values)}
    return [list(desc.of_output(field).interpret(tensors)) for field in desc.outputs]


class TestValues:
    """What the page says of a window, and what it leaves open."""

    def test_a_nan(self):
        """No element of a window with a NaN is documented; that of another one is."""
        assert [[None, None], [None, None]] == results(example(), [1, float("nan"), 2])
        assert [[None, 0x40000000], [None, 1]] == results(example(), [float("nan"), 2, 1])

    def test_zeros(self):
        """The zero may have each sign; its index is that of the first one."""
        (value, _), (index, _) = results(example(), [-0.0, 0.0, 1])
        assert (0, True) == (index, type(value).__name__ == "AnyPattern")

    def test_infinities(self):
        """Padding is no element: the index of the lowest number is that of the first element of the input."""
        desc = example(
            start_padding=(0, 1), end_padding=(0, 1), output_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 1, 4))
        )
        desc = desc.replace(output_indices_tensor=TensorDesc(DataType.UINT64, (1, 1, 1, 4)))
        assert [[0xFF800000] * 4, [0, 0, 1, 2]] == results(desc, [-float("inf")] * 3)

    def test_a_window_in_the_padding(self):
        """It has no element, and no documented value."""
        desc = example(end_padding=(0, 2), output_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 1, 4)))
        desc = desc.replace(output_indices_tensor=TensorDesc(DataType.UINT32, (1, 1, 1, 4)))
        assert [2, None] == results(desc, [1, 2, 3])[1][2:]

    def test_a_window_that_is_too_large(self):
        """One line says where, wanted and got."""
        (violation, *_) = example(window_size=(1, 4)).violations()
        assert "WindowSize[1]" in str(violation) and "= 3, got 4 (MAX_POOLING2.D2)" in str(violation)


FLOATS = TensorDesc(DataType.FLOAT32, (2, 3, 7, 5))


class TestNodes:
    """The descriptor that the DirectML EP makes of a node."""

    def test_versions(self):
        """Indices or dilations make it MAX_POOLING2."""
        assert "MAX_POOLING" == emitted("MaxPool", [FLOATS], {"kernel_shape": (2, 2)}).operator
        desc = emitted("MaxPool", [FLOATS], {"kernel_shape": (2, 2), "dilations": (1, 2)})
        assert ("MAX_POOLING2", (2, 3, 6, 3), 1) == (desc.operator, desc.output.sizes, len(desc.outputs))
        desc = emitted("MaxPool", [FLOATS], {"kernel_shape": (2, 2), "num_outputs": 2})
        assert (DataType.UINT64, (1, 1)) == (desc.output_indices_tensor.data_type, desc.dilations)

    def test_one_dimension(self):
        """Leading ones are added: batch and channel move to the right."""
        desc = emitted("MaxPool", [TensorDesc(DataType.FLOAT32, (2, 3, 9))], {"kernel_shape": (4,), "pads": (1, 2)})
        assert ((1, 2, 3, 9), (1, 4), (0, 1), (0, 2)) == (
            *(desc.input_tensor.sizes, desc.window_size),
            *(desc.start_padding, desc.end_padding),
        )
        assert not desc.violations()

    def test_global(self):
        """The window is the whole image."""
        desc = emitted("GlobalMaxPool", [FLOATS], {})
        assert ("MAX_POOLING", (7, 5), (2, 3, 1, 1)) == (desc.operator, desc.window_size, desc.output.sizes)

    @pytest.mark.parametrize(
        ("auto_pad", "start", "end"),
        [("SAME_UPPER", (1, 0), (1, 1)), ("SAME_LOWER", (1, 1), (1, 0)), ("VALID", (0, 0), (0, 0))],
    )
    def test_auto_pad(self, auto_pad, start, end):
        """An odd pad is longer at the end, or at the start."""
        desc = emitted("MaxPool", [FLOATS], {"kernel_shape": (3, 2), "strides": (2, 1), "auto_pad": auto_pad})
        assert (start, end) == (desc.start_padding, desc.end_padding)
        assert not desc.violations()

    def test_refused(self):
        """Column-major indices, and a last window behind the padded input."""
        with pytest.raises(InputError, match="storage_order must be 0"):
            emitted("MaxPool", [FLOATS], {"kernel_shape": (2, 2), "storage_order": 1})
        ceil = {"kernel_shape": (2, 2), "strides": (2, 3), "ceil_mode": 1}
        with pytest.raises(InputError, match="ceil_mode"):
            emitted("MaxPool", [FLOATS], ceil)
        assert (2, 3, 4, 2) == emitted("MaxPool", [FLOATS], ceil | {"pads": (0, 0, 1, 0)}).output.sizes

    @pytest.mark.parametrize(
        ("text", "verdict"),
        [
            ("float[1,2,3,2] y) {y = MaxPool<kernel_shape = [2, 3]>(x)}", "1 pass"),
            ("float[1,2,2,2] y) {y = MaxPool<kernel_shape = [2, 2], dilations = [2, 2]>(x)}", "1 pass"),
            (
                "float[1,2,2,2] y, int64[1,2,2,2] i) {y, i = MaxPool<kernel_shape = [2,2], strides = [2,2]>(x)}",
                "1 pass",
            ),
            ("float[1,2,1,1] y) {y = GlobalMaxPool(x)}", "1 pass"),
            (
                "float[1,2,2,2] y) {y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(x)}",
                "judged by ONNX",
            ),
            ("float[1,2,3,3] y) {y = MaxPool<kernel_shape = [2,2], storage_order = 1>(x)}", "judged by ONNX"),
        ],
    )
    def test_check(self, tmp_path, text, verdict):
        """`check` judges them on the CPU EP."""
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 12]> g (float[1,2,4,4] x) => ({text}')
        onnx.save(model, tmp_path / "m.onnx")
        lines = io.StringIO()
        with redirect_stdout(lines):
            assert main(["check", "--provider", "cpu", str(tmp_path / "m.onnx")]) == 0, lines.getvalue()
        assert verdict in lines.getvalue()

    @pytest.mark.parametrize(
        ("declared", "indices", "node", "verdict"),
        [
            ("float[1,2,4] x", "int64[1,2,3] i", "kernel_shape = [2], storage_order = 1", "pass"),
            ("float[1,2,3,4] x", "int64[1,2,2,4] i", "kernel_shape = [2,1], storage_order = 1", "not-run"),
            ("double[1,2,4] x", "int64[1,2,3] i", "kernel_shape = [2]", "not-run"),
        ],
    )
    def test_indices_of_the_reference_evaluator(self, tmp_path, declared, indices, node, verdict, capsys):
        """They are wrong: no page judges the last two nodes. Along one dimension, the storage order means nothing."""
        output = indices.replace("int64", declared.split("[")[0]).replace(" i", " y")
        text = f"g ({declared}) => ({output}, {indices}) {{y, i = MaxPool<{node}>(x)}}"
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 12]> {text}'), tmp_path / "m.onnx")
        main(["check", "--provider", "cpu", str(tmp_path / "m.onnx")])
        assert f"{verdict}  {tmp_path / 'm.onnx'}" in capsys.readouterr().out
