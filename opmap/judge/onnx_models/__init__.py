"""ONNX models from outside: read with limits, their operator nodes turned into cases, and judged on a provider.

`wire` checks the bytes of a file before it is parsed, `reading` reads a model with its test data, `inner_graphs` puts
the branches that the data takes in place of their Ifs and makes models of the bodies of Loops and Scans, `nodes` finds
the nodes and the descriptors that the DirectML EP makes of them, `values` computes what flows between nodes on the CPU
EP, `node_cases` puts these together, `judging` runs the model itself on a provider, and `node_judge` judges one node.
"""

from .judging import ITSELF, judge_model
from .node_cases import NodeCase, node_cases, symbolic_dimensions
from .nodes import others
from .reading import DataSet, GivenModel, find_targets, is_model, read_inputs, read_model_file
from .values import CpuValues

__all__ = [
    "ITSELF",
    "CpuValues",
    "DataSet",
    "GivenModel",
    "NodeCase",
    "find_targets",
    "is_model",
    "judge_model",
    "node_cases",
    "others",
    "read_inputs",
    "read_model_file",
    "symbolic_dimensions",
]
