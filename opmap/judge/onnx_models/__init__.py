"""ONNX models from outside: read with limits, their operator nodes turned into cases, and judged on a provider.

`wire` checks the bytes of a file before it is parsed, `reading` reads a model with its test data, `branches` puts the
branches that the data takes in place of their Ifs, `nodes` finds the nodes and the descriptors that the DirectML EP makes of
them, `values` computes what flows between nodes on the CPU EP, `node_cases` puts these together, and `judging` runs the model
itself on a provider.
"""

from .judging import judge_model
from .node_cases import NodeCase, node_cases
from .reading import GivenModel, is_model, read_model_file
from .values import CpuValues

__all__ = ["CpuValues", "GivenModel", "NodeCase", "is_model", "judge_model", "node_cases", "read_model_file"]
