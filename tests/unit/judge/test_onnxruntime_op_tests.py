"""Facts of ONNX Runtime's own op tests: inputs, attributes and outputs as numbers. `check` gives each one its right
verdict.

Source: onnxruntime/test/providers/cpu/tensor of microsoft/onnxruntime (MIT). Each line of the file holds for every
opset and type that it names; an input that is "both" is tried as a graph input and as a constant.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_onnx_node_tests import judged
from tiers import others_slow

from opmap.reports.reproducers.model_folders import write_files

FACTS = json.loads((Path(__file__).parents[1] / "onnxruntime_op_tests.json").read_text(encoding="utf-8"))


def tensor(given, data_type, name):
    """Returns a tensor of the file as a TensorProto."""
    data_type = TensorProto.DataType.Value(given.get("type", data_type))
    values = np.array(given["values"], helper.tensor_dtype_to_np_dtype(data_type)).reshape(given["shape"])
    return numpy_helper.from_array(values, name)


def value_info(proto):
    return helper.make_tensor_value_info(proto.name, proto.data_type, list(proto.dims))


def write_fact(folder, fact, opset, data_type, constant):
    """Writes a fact as a model folder."""
    given = [(i and tensor(i, data_type, f"i{n}"), (i or {}).get("constant")) for n, i in enumerate(fact["inputs"])]
    outputs = [tensor(o, data_type, f"o{n}") for n, o in enumerate(fact["outputs"])]
    initializers = [proto for proto, kind in given if kind == "yes" or (kind == "both" and constant)]
    feeds = [proto for proto, _ in given if proto and proto not in initializers]
    names = [proto.name if proto else "" for proto, _ in given], [proto.name for proto in outputs]
    graph = helper.make_graph(
        [helper.make_node(fact["operator"], *names, name="n", **fact["attributes"])],
        fact["operator"],
        [value_info(proto) for proto in feeds],
        [value_info(proto) for proto in outputs],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    files = {"model.onnx": model.SerializeToString()}
    for kind, protos in (("input", feeds), ("output", outputs)):
        files |= {f"test_data_set_0/{kind}_{n}.pb": proto.SerializeToString() for n, proto in enumerate(protos)}
    write_files(folder, files)
    return folder


def folders(root, facts):
    """Writes each form of the facts as a model folder, and returns the folders."""
    for n, fact in enumerate(facts):
        ways = (False, True) if any(i and i.get("constant") == "both" for i in fact["inputs"]) else (False,)
        for opset in fact["opsets"]:
            for data_type in fact["types"]:
                for constant in ways:
                    name = f"{n}-{fact['operator']}-{opset}-{data_type}{'-constant' * constant}"
                    yield write_fact(root / name, fact, opset, data_type, constant)


@pytest.mark.parametrize("every", others_slow([5, 1], 5))
def test_all(tmp_path, every):
    """No fact is called wrong. Those that the CPU EP has a kernel for are judged. A part at each commit, all weekly."""
    counts, wrong = judged(folders(tmp_path, FACTS[::every]))

    assert not wrong
    assert counts["judged"] == sum(counts.values()) == {5: 169, 1: 775}[every], counts


def test_a_wrong_fact_is_seen(tmp_path):
    """An output with one other number is called wrong: the facts are compared."""
    fact = json.loads(json.dumps(next(fact for fact in FACTS if fact["operator"] == "Gather")))
    fact["outputs"][0]["values"][0] += 1
    _, wrong = judged(folders(tmp_path, [fact]))

    assert [("0-Gather-7-FLOAT", "error"), ("0-Gather-7-FLOAT-constant", "error")] == [fact[:2] for fact in wrong]
    assert all("output_0.pb alone differs" in message for _, _, message in wrong)
