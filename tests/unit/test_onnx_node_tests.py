"""ONNX's own node tests, and a model of one node of each operator: every node of ours has its descriptor, or a reason why not."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from test_onnx_models import checked

from opmap.cli import main
from opmap.errors import InputError
from opmap.evidence.reproducers.model_folders import write_files
from opmap.judge.onnx_models import CpuValues, judge_model, read_model_file
from opmap.judge.onnx_models.nodes import is_ours
from opmap.judge.onnx_models.reading import nodes_of
from opmap.session import Session
from opmap.session.options import SessionOptions

OPERATORS = [
    "clip",
    "concat",
    "constantofshape",
    "depthtospace",
    "elu",
    "expand",
    "eyelike",
    "gather",
    "gatherelements",
    "gathernd",
    "onehot",
    "pad",
    "rangeop",
    "reversesequence",
    "scatterelements",
    "scatternd",
    "slice",
    "spacetodepth",
    "split",
    "tile",
    "transpose",
    "trilu",
    "where",
]
"""The modules of ONNX's node tests that have nodes of our operators, in a model of one node or in a short expansion."""


@cache
def node_tests(*modules):
    """ONNX's own node tests of these modules, by name. Without modules: all."""
    from onnx.backend.test.case import node

    for module in modules or [found.name for found in pkgutil.iter_modules(node.__path__)]:
        importlib.import_module(f"{node.__name__}.{module}")
    return {test.name: test for test in node._NodeTestCases}


def write_test(folder, test):
    """Writes a node test of ONNX as a model folder. Values that are no tensors are left out."""
    files = {"model.onnx": test.model.SerializeToString()}
    for number, (feeds, expected) in enumerate(test.data_sets):
        for kind, arrays in (("input", feeds), ("output", expected)):
            for i, array in enumerate(arrays):
                if isinstance(array, np.ndarray | np.generic):
                    array = numpy_helper.from_array(np.asarray(array))
                if isinstance(array, TensorProto):
                    files[f"test_data_set_{number}/{kind}_{i}.pb"] = array.SerializeToString()
    write_files(folder, files)
    return folder


class TestOnnxNodeTests:
    """ONNX's node tests come in as folders and pass."""

    @pytest.mark.parametrize(
        "name",
        [f"test_gather_{n}" for n in ("0", "1", "2d_indices", "negative_indices")]
        + [
            *(f"test_gather_elements_{n}" for n in ("0", "1", "negative_indices")),
            *(f"test_gathernd_example_{n}" for n in ("int32", "float32", "int32_batch_dim1")),
            *(f"test_scatter_elements_with_{n}" for n in ("axis", "negative_indices")),
            *(f"test_slice{n}" for n in ("", "_neg", "_end_out_of_bounds", "_default_axes", "_default_steps")),
            *(f"test_slice{n}" for n in ("_neg_steps", "_negative_axes")),
            *(
                f"test_{n}"
                for n in ("triu", "triu_neg", "triu_out_neg_out", "triu_pos", "triu_out_pos", "triu_one_row")
            ),
            *(f"test_{n}" for n in ("triu_square", "tril", "tril_neg", "tril_out_neg", "tril_pos", "tril_out_pos")),
            *(f"test_eyelike_{n}" for n in ("without_dtype", "with_dtype", "populate_off_main_diagonal")),
            "test_tril_one_row_neg",
            "test_tril_square_neg",
            "test_scatter_elements_without_axis",
            "test_scatternd",
            "test_tile",
            "test_tile_precomputed",
            "test_transpose_default",
            *(f"test_transpose_all_permutations_{n}" for n in range(6)),
            *("test_expand_dim_changed", "test_expand_dim_unchanged"),
        ],
    )
    def test_passes(self, name, tmp_path, capsys):
        code, (record,) = checked(capsys, write_test(tmp_path / name, node_tests(*OPERATORS)[name]))

        assert (0, "pass", None) == (code, record["verdict"], record["message"])
        assert record["placement"]["proven"]

    @pytest.mark.parametrize(
        ("name", "verdicts"),
        [
            ("test_clip_example_expanded", ["pass", "pass"]),
            ("test_elu_default_expanded_ver18", ["pass"]),
            *((f"test_onehot_{n}", ["pass"]) for n in ("negative_indices", "out_of_range_indices", "without_axis")),
            *((f"test_{n}", ["pass"]) for n in ("constant_pad_axes", "constant_pad_negative_axes", "wrap_pad")),
            *((f"test_reversesequence_{n}", ["pass"]) for n in ("batch", "time")),
            ("test_constantofshape_int_zeros", ["pass"]),
            ("test_range_int32_type_negative_delta", ["pass"]),
            ("test_split_1d_uneven_split_opset18", ["pass"]),
            ("test_concat_3d_axis_negative_2", ["pass"]),
        ],
    )
    def test_forms(self, name, verdicts, tmp_path, capsys):
        """Broadcast conditions, axes, scalars of one dimension, indices of one dimension: each node has a descriptor."""
        code, records = checked(capsys, write_test(tmp_path / name, node_tests(*OPERATORS)[name]))

        assert (0, verdicts) == (code, [record["verdict"] for record in records]), records

    @pytest.mark.slow
    def test_all(self, tmp_path):
        """No node of our operators in any of ONNX's node tests, single or expanded, ends in an exception or a false verdict.

        95 % of those whose types opmap has are judged.
        """
        counts, wrong = Counter(), []
        with Session(SessionOptions(provider="cpu")) as session, CpuValues() as cpu:
            judge = session.open()
            for test in node_tests().values():
                if test.model is None or not any(map(is_ours, nodes_of(test.model.graph, *test.model.functions))):
                    continue
                given = read_model_file(str(write_test(tmp_path / test.name, test)))
                for data_set in given.data_sets:
                    try:
                        records = [record for _, record in judge_model(judge, given, data_set, cpu)]
                    except InputError as error:
                        assert "must have a file for each input" in str(error)  # a sequence
                        continue
                    unknown = [r for r in records if r.case == "model" and "not a registered function/op" in r.message]
                    wrong += [
                        (test.name, r.verdict, r.message)
                        for r in records
                        if r.verdict not in ("pass", "not-run") and r not in unknown
                    ]
                    counts += Counter("judged" if r.judge else reason(r) for r in records)
        assert not wrong
        assert counts["judged"] > 2200
        lacking = sum(counts.values()) - counts["judged"] - counts["type"]
        assert counts["judged"] >= 0.95 * (counts["judged"] + lacking), counts


REASONS = {
    "type": r"BFLOAT16|ATensor.DataType|IndicesTensor.DataType",
    "subgraph": "inside",
    "no values": "AffineGrid",
    "empty": r"DirectML has no empty tensors|must be 1 to 4294967295, got 0",
    "attribute": "reduction|got mode",
}
"""Why a node of ONNX's node tests has no descriptor -> what its message says."""


def reason(record):
    """Returns why a node was not judged."""
    return next((name for name, text in REASONS.items() if re.search(text, record.message)), "other")


MODELS = sorted((Path(__file__).parent / "inputs").glob("m_*.onnx"))
NO_MODEL = {"m_where": "Strides"}
"""Models that are not written again, with the reason: ONNX has no strides."""


class TestOneNode:
    """A model of one node, of each operator, with and without constants: every command takes it."""

    @pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
    def test_commands(self, model, tmp_path, capsys):
        mapped = 2 if model.stem in NO_MODEL else 0

        assert mapped == main(["build", str(model), "-o", str(tmp_path / "mapped.onnx")]), capsys.readouterr().err
        assert NO_MODEL.get(model.stem, "") in capsys.readouterr().err
        for words in (["diagnose"], ["check"], ["export", "-o", str(tmp_path / "exported")]):
            assert 0 == main([words[0], str(model), *words[1:], "--provider", "cpu"]), capsys.readouterr().err
