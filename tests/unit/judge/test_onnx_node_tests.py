"""ONNX's own node tests, and a model of one node of each operator: every node of ours has its descriptor, or a reason
why not."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from test_onnx_models import checked

from opmap.cli import main
from opmap.errors import InputError
from opmap.judge.onnx_models import CpuValues, judge_model, read_model_file
from opmap.judge.onnx_models.nodes import is_ours
from opmap.judge.onnx_models.reading import nodes_of
from opmap.reports.reproducers.model_folders import write_files
from opmap.session import ValidationRun
from opmap.session.options import SessionOptions

OTHER = "OPMAP_ONNX_TESTS"
"""The variable that names the folder with the node tests of another version of onnx."""

OPERATORS = [
    "bitshift",
    "bitwiseand",
    "bitwisenot",
    "bitwiseor",
    "bitwisexor",
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
        [
            *(f"test_gather_{n}" for n in ("2d_indices", "negative_indices")),
            *("test_gather_elements_negative_indices", "test_gathernd_example_int32_batch_dim1"),
            *("test_scatter_elements_with_negative_indices", "test_scatter_elements_without_axis", "test_scatternd"),
            *(f"test_slice{n}" for n in ("_end_out_of_bounds", "_default_axes", "_neg_steps", "_negative_axes")),
            *(f"test_{n}" for n in ("triu_out_neg_out", "triu_one_row", "tril_out_pos", "tril_square_neg")),
            *("test_eyelike_without_dtype", "test_eyelike_populate_off_main_diagonal", "test_tile"),
            *("test_transpose_default", "test_transpose_all_permutations_3", "test_expand_dim_unchanged"),
            *("test_bitwise_and_ui64_bcast_3v1d", "test_bitwise_or_i16_4d", "test_bitwise_xor_ui8_bcast_4v3d"),
            *("test_bitwise_not_3d", "test_bitshift_left_uint16", "test_bitshift_right_uint64"),
        ],
    )
    def test_passes(self, name, tmp_path, capsys):
        """A sample of them; `test_all` has all."""
        code, (record,) = checked(capsys, write_test(tmp_path / name, node_tests(*OPERATORS)[name]))

        assert (0, "pass", None) == (code, record["verdict"], record["message"])
        assert record["placement"]["proven"]

    @pytest.mark.parametrize(
        ("name", "verdicts"),
        [
            ("test_clip_example_expanded", ["pass"] * 4),
            ("test_elu_default_expanded_ver18", ["pass", "observed", "pass", "pass"]),  # 1 * x, x - 1
            *((f"test_onehot_{n}", ["pass"]) for n in ("negative_indices", "without_axis")),
            (
                "test_onehot_out_of_range_indices",
                ["observed"],
            ),  # DirectML's page says nothing of an index equal to the depth
            *((f"test_{n}", ["pass"]) for n in ("constant_pad_axes", "constant_pad_negative_axes", "wrap_pad")),
            *((f"test_reversesequence_{n}", ["pass"]) for n in ("batch", "time")),
            ("test_constantofshape_int_zeros", ["pass"]),
            ("test_range_int32_type_negative_delta", ["pass"]),
            ("test_split_1d_uneven_split_opset18", ["pass"]),
            ("test_concat_3d_axis_negative_2", ["pass"]),
        ],
    )
    def test_forms(self, name, verdicts, tmp_path, capsys):
        """Broadcast conditions, axes, scalars of one dimension, indices of one dimension: each node has a
        descriptor.
        """
        code, records = checked(capsys, write_test(tmp_path / name, node_tests(*OPERATORS)[name]))

        assert (0, verdicts) == (code, [record["verdict"] for record in records]), records

    @pytest.mark.slow
    def test_all(self, tmp_path):
        """No node of our operators in any of ONNX's node tests, single or expanded, ends in an exception or a false
        verdict.

        95 % of those whose types opmap has are judged.
        """
        tests = [test for test in node_tests().values() if test.model is not None and has_ours(test.model)]
        counts, wrong = judged(write_test(tmp_path / test.name, test) for test in tests)
        assert not wrong
        assert counts["judged"] > 2200
        lacking = sum(counts.values()) - counts["judged"] - counts["type"]
        assert counts["judged"] >= 0.95 * (counts["judged"] + lacking), counts

    @pytest.mark.slow
    @pytest.mark.skipif(
        not os.environ.get(OTHER), reason=f"{OTHER} is not set: the folder backend/test/data/node of an onnx"
    )
    def test_other_version(self):
        """The same of the files that another version of onnx ships: the older forms of each operator."""
        folders = [path.parent for path in sorted(Path(os.environ[OTHER]).glob("*/model.onnx"))]
        folders = [folder for folder in folders if "affine_grid" not in folder.name]  # the CPU EP refuses these models
        models = {folder: onnx.load(folder / "model.onnx", load_external_data=False) for folder in folders}
        counts, wrong = judged(folder for folder, model in models.items() if has_ours(model) and takes_tensors(model))
        assert not wrong
        lacking = sum(counts.values()) - counts["judged"] - counts["type"]
        assert counts["judged"] >= 0.95 * (counts["judged"] + lacking) > 400, counts


def has_ours(model):
    """Returns whether a model has a node that opmap knows."""
    return any(map(is_ours, nodes_of(model.graph, *model.functions)))


def takes_tensors(model):
    """Returns whether all inputs are tensors: no sequence, and nothing optional."""
    return all(value.type.HasField("tensor_type") for value in model.graph.input)


def judged(folders):
    """Returns how many nodes of model folders were judged, and why not; and what is called wrong."""
    counts, wrong = Counter(), []
    with ValidationRun(SessionOptions(provider="cpu")) as session, CpuValues() as cpu:
        judge = session.open()
        for folder in folders:
            given = read_model_file(str(folder))
            for data_set in given.data_sets:
                try:
                    records = [record for _, record in judge_model(judge, given, data_set, cpu)]
                except InputError as error:
                    assert "must have a file for each input" in str(error)  # a sequence
                    continue
                unknown = [r for r in records if r.case == "model" and re.search(NOT_ON_CPU, r.message)]
                wrong += [
                    (folder.name, r.verdict, r.message)
                    for r in records
                    if r.verdict not in ("pass", "observed", "not-run") and r not in unknown
                ]
                counts += Counter("judged" if r.judge else reason(r) for r in records)
    return counts, wrong


NOT_ON_CPU = "not a registered function/op|has no kernel of|not defined for empty set|Non per-tensor quantization"
"""What the message of a model says that the CPU EP, or ONNX, does not run."""

REASONS = {
    "type": r"BFLOAT16|ATensor.DataType|IndicesTensor.DataType|InputTensor.DataType",
    "subgraph": "inside",
    "no values": "AffineGrid",
    "empty": r"DirectML has no empty tensors|must be 1 to 4294967295, got 0",
    "attribute": "reduction|got mode",
}
"""Why a node of ONNX's node tests has no descriptor -> what its message says."""


def reason(record):
    """Returns why a node was not judged."""
    return next((name for name, text in REASONS.items() if re.search(text, record.message)), "other")


MODELS = sorted((Path(__file__).parents[1] / "inputs").glob("m_*.onnx"))
NO_MODEL = {"m_where": "Strides"}
"""Models that are not written again, with the reason: ONNX has no strides. The CPU EP is no judge of their case."""


class TestOneNode:
    """A model of one node, of each operator, with and without constants: every command takes it."""

    @pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
    def test_commands(self, model, tmp_path, capsys):
        mapped, unjudged = (2, 1) if model.stem in NO_MODEL else (0, 0)

        assert mapped == main(["build", str(model), "-o", str(tmp_path / "mapped.onnx")]), capsys.readouterr().err
        assert NO_MODEL.get(model.stem, "") in capsys.readouterr().err
        exported = ["-o", str(tmp_path / "exported")]
        for code, command, *words in ((unjudged, "diagnose"), (0, "check"), (0, "export", *exported)):
            assert code == main([command, str(model), *words, "--provider", "cpu"]), capsys.readouterr().err
