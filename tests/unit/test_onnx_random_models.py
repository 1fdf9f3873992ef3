"""Random models of one node, with test data that NumPy computed: `opmap check` judges each and agrees with the data."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from onnx import helper, numpy_helper

from opmap.cli import main
from opmap.evidence.reproducers.model_folders import write_files

DATA = ("bool", "float16", "float32", "float64", *(f"{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64)))
OPSETS = {"Gather": (1, 7, 11, 13, 21), "GatherElements": (11, 13, 21), "GatherND": (11, 12, 13, 21)}


class Draw:
    """One random node with its inputs and output. Every choice follows from the seed."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.op_type = self.random.choice(list(OPSETS))
        self.opset = self.random.choice(OPSETS[self.op_type])
        self.rank = self.random.randint(1, 6)
        sizes = self.sizes(self.rank)
        self.data = (np.arange(np.prod(sizes)) * 3 % 120).astype(self.random.choice(DATA)).reshape(sizes)
        self.attributes: dict[str, int] = {}
        self.indices, self.output = getattr(self, self.op_type.lower())()

    def sizes(self, rank: int) -> tuple[int, ...]:
        return tuple(self.random.randint(1, 5) for _ in range(rank))

    def valid(self, sizes, bounds, types=("int32", "int64")):
        """Indices of these sizes below the bounds; negative ones since opset 11."""
        high = np.broadcast_to(bounds, sizes)
        low = -1 * (self.opset >= 11) * high
        drawn = [self.random.randrange(int(a), int(b)) for a, b in zip(low.ravel(), high.ravel(), strict=True)]
        return np.array(drawn, self.random.choice(types)).reshape(sizes)

    def axis(self) -> int:
        axis = self.random.randrange(-self.rank if self.opset >= 11 else 0, self.rank)
        if axis or self.random.random() < 0.5:
            self.attributes["axis"] = axis
        return axis

    def gather(self):
        axis = self.axis()
        indices = self.valid(self.sizes(self.random.randint(0, 3)), self.data.shape[axis])
        return indices, np.take(self.data, indices, axis)

    def gatherelements(self):
        axis = self.axis()
        sizes = list(self.data.shape)
        sizes[axis] = self.random.randint(1, 5)
        indices = self.valid(tuple(sizes), self.data.shape[axis])
        return indices, np.take_along_axis(self.data, indices, axis)

    def gathernd(self):
        batches = self.random.randrange(self.rank) if self.opset >= 12 else 0
        if batches:
            self.attributes["batch_dims"] = batches
        count = self.random.randint(1, self.rank - batches)
        outer = self.data.shape[:batches] + self.sizes(self.random.randint(0, 2))
        indices = self.valid((*outer, count), self.data.shape[batches : batches + count], ("int64",))
        output = np.empty(outer + self.data.shape[batches + count :], self.data.dtype)
        for place in np.ndindex(*outer):
            output[place] = self.data[(*place[:batches], *indices[place])]
        return indices, output

    def files(self) -> dict[str, bytes]:
        """The model's folder: named and nameless tensors, inputs and initializers, fixed and symbolic sizes."""
        names = self.random.choice([("data", "indices"), ("z", "a")])
        arrays = dict(zip(names, (self.data, self.indices), strict=True))
        constant = self.random.choice([(), (), names[:1], names[1:]])
        symbolic, named = self.random.random() < 0.3, self.random.random() < 0.7
        values = {
            name: helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(array.dtype),
                [f"{name}{i}" for i in range(array.ndim)] if symbolic else array.shape,
            )
            for name, array in {**arrays, "y": self.output}.items()
        }
        node = helper.make_node(self.op_type, names, ["y"], **self.attributes)
        inputs = [values[name] for name in names if name not in constant]
        initializers = [numpy_helper.from_array(arrays[name], name) for name in constant]
        graph = helper.make_graph([node], "graph", inputs, [values["y"]], initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        files = {"model.onnx": model.SerializeToString()}
        fed = [name for name in names if name not in constant]
        for number, name in enumerate(fed):
            tensor = numpy_helper.from_array(arrays[name], name if named else "")
            files[f"test_data_set_0/input_{number}.pb"] = tensor.SerializeToString()
        tensor = numpy_helper.from_array(np.asarray(self.output), "y" if named else "")
        files["test_data_set_0/output_0.pb"] = tensor.SerializeToString()
        return files


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_agrees(seed, tmp_path, capsys):
    draw = Draw(seed)
    write_files(tmp_path / "model", draw.files())

    assert 0 == main(["check", str(tmp_path / "model"), "--provider", "cpu", "--json"])

    (record,) = json.loads(capsys.readouterr().out)["cases"]
    assert ("pass", None) == (record["verdict"], record["message"])
    assert record["placement"]["proven"]


def test_file_that_is_wrong(tmp_path, capsys):
    """The comparison with the file can fail."""
    draw = Draw(1)
    draw.output = np.asarray(draw.output).copy()
    draw.output.reshape(-1)[0] += 1
    write_files(tmp_path / "model", draw.files())

    assert 1 == main(["check", str(tmp_path / "model"), "--provider", "cpu", "--json"])

    (record,) = json.loads(capsys.readouterr().out)["cases"]
    assert "output_0.pb is the odd one out" in record["message"]
