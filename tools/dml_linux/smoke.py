"""Run Gather, GatherElements and GatherND on the DirectML execution provider.

Exits 0 only if each ran there, by ONNX Runtime's own record of the placement, and gave the right elements.
"""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)
# operator, indices, attributes, expected output
CASES = [
    ("Gather", [2, 0], {"axis": 0}, [[8, 9, 10, 11], [0, 1, 2, 3]]),
    ("GatherElements", [[3, 0], [1, 1], [2, -4]], {"axis": 1}, [[3, 0], [5, 5], [10, 8]]),
    ("GatherND", [[0, 3], [2, 1]], {}, [3, 9]),
]


def session(op, indices, output, attributes):
    graph = helper.make_graph(
        [helper.make_node(op, ["data", "indices"], ["output"], **attributes)],
        op,
        [
            helper.make_tensor_value_info("data", TensorProto.FLOAT, DATA.shape),
            helper.make_tensor_value_info("indices", TensorProto.INT64, indices.shape),
        ],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, output.shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["DmlExecutionProvider"], enable_fallback=0
    )


failed = 0
for op, indices, attributes, expected in CASES:
    indices, expected = np.array(indices, np.int64), np.array(expected, np.float32)
    dml = session(op, indices, expected, attributes)
    (output,) = dml.run(None, {"data": DATA, "indices": indices})
    placed = [subgraph.ep_name for subgraph in dml.get_provider_graph_assignment_info()]
    right = placed == ["DmlExecutionProvider"] and np.array_equal(expected, output)
    failed += not right
    print(op, *placed, "ok" if right else f"WRONG: {output.tolist()}", flush=True)
sys.exit(1 if failed else 0)
