"""ONNX models from outside: each node gets its descriptor and is judged, or the reason why not is said."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from tiers import all_cases

from opmap.cases.variants import VARIANTS
from opmap.cli import main
from opmap.errors import MappingError
from opmap.mapping import map_descriptor
from opmap.reports.reproducers.model_folders import folder_files, formed_model, write_files

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def value(name, data_type, sizes):
    return helper.make_tensor_value_info(name, data_type, sizes)


def gather(data="x", indices="i", output="y", name="g", op_type="Gather", **attributes):
    return helper.make_node(op_type, [data, indices], [output], name=name, **attributes)


def write(folder, nodes, inputs, outputs, initializers=(), feeds=(), expected=(), functions=()):
    """Writes a model folder, with test data if there are feeds."""
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets, functions=list(functions))
    data = folder / "test_data_set_0"
    (data if len(feeds) else folder).mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for kind, arrays in (("input", feeds), ("output", expected)):
        for number, array in enumerate(arrays):
            (data / f"{kind}_{number}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    return folder


def one_node(folder, *, x=X, i=(0, 2), expected=(), **attributes):
    """Writes a model of one node with its test data."""
    x, i = np.asarray(x), np.asarray(i, np.int64)
    types = helper.np_dtype_to_tensor_dtype
    inputs = [value("x", types(x.dtype), x.shape), value("i", TensorProto.INT64, i.shape)]
    outputs = [value("y", types(x.dtype), None)]
    return write(folder, [gather(**attributes)], inputs, outputs, (), (x, i), expected)


def checked(capsys, *words, provider="cpu"):
    """Returns the exit code and the records of `opmap check`."""
    code = main(["check", *map(str, words), "--provider", provider, "--json"])
    return code, json.loads(capsys.readouterr().out)["cases"]


NOT_TAKEN = "judged apart: in a model of the {} branch of the If If, which this data does not take"


class TestForms:
    """Models of our own in every form come in as folders."""

    @pytest.mark.slow
    @pytest.mark.parametrize("form", sorted({variant.form.name for variant in VARIANTS.values()}))
    def test_form(self, form, tmp_path, capsys):
        """Each passes. Of an If, the branch that is not taken is judged apart."""
        write_files(tmp_path / form, form_files(form))

        code, records = checked(capsys, tmp_path / form)

        assert 0 == code
        assert {("pass", True)} == {(record["verdict"], record["placement"]["proven"]) for record in records}
        left = {"if": "else", "if-else": "then"}.get(form)
        apart = [text for record in records for text in record["substitutions"] if "does not take" in text]
        assert ([NOT_TAKEN.format(left)] if left else []) == apart


def form_files(form):
    """The folder of the first case that has the form."""
    variants = [variant for variant in VARIANTS.values() if variant.form.name == form]
    for case in itertools.islice((c for c in all_cases("standard") if c.variant == "plain"), 900):
        for variant in variants:
            case = dataclasses.replace(case, variant=variant.name)
            try:
                formed = formed_model(map_descriptor(case.desc), case)
            except MappingError:
                continue
            if variant.run_mode.accepts(case.inputs, formed):
                return folder_files(formed, case)
    raise AssertionError(f"no case has the form {form}")


class TestDescriptor:
    """The descriptor is the one that the EP makes."""

    @pytest.mark.parametrize(
        ("keywords", "operator", "sizes", "numbers"),
        [
            ({"i": 1}, "GATHER", [3, 4], {"Axis": 0, "IndexDimensions": 0}),
            ({"i": [[0, 1]], "axis": -1}, "GATHER", [1, 3, 4], {"Axis": 2, "IndexDimensions": 2}),
            ({"x": X > 3}, "GATHER", [3, 4], {"Axis": 0, "IndexDimensions": 1}),
            ({"i": np.zeros((3, 2)), "op_type": "GatherElements", "axis": -1}, "GATHER_ELEMENTS", [3, 4], {"Axis": 1}),
            (
                {"i": [[0], [3], [1]], "op_type": "GatherND", "batch_dims": 1},
                "GATHER_ND1",
                [3, 4],
                {"InputDimensionCount": 2, "IndicesDimensionCount": 2, "BatchDimensionCount": 1},
            ),
        ],
        ids=["scalar", "padded", "bool", "elements", "batch"],
    )
    def test_lowered(self, keywords, operator, sizes, numbers, tmp_path, capsys):
        code, (record,) = checked(capsys, one_node(tmp_path / "m", **keywords))

        assert (0, "pass") == (code, record["verdict"])
        desc = record["lowered_as"]["desc"]
        assert f"DML_OPERATOR_{operator}" == record["lowered_as"]["type"]
        assert sizes == desc["InputTensor"]["Sizes"]
        assert numbers == {name: desc[name] for name in numbers}
        assert ("UINT8" if "x" in keywords else "FLOAT32") == desc["InputTensor"]["DataType"]

    def test_rule(self, tmp_path, capsys):
        """A node whose descriptor breaks a rule is judged by the file, if ONNX's reference evaluator cannot.

        The rule is named.
        """
        keywords = {"i": [[0, 1]], "op_type": "GatherElements", "axis": 1}
        code, (record,) = checked(capsys, one_node(tmp_path / "m", expected=[X[:1, :2]], **keywords))
        assert (0, "pass", "file") == (code, record["verdict"], record["judge"])
        assert "judged by the file test_data_set_0/output_0.pb" in record["message"]
        assert "GATHER_ELEMENTS.C" in record["message"]
        code, (record,) = checked(capsys, one_node(tmp_path / "wrong", expected=[X[:1, 1:3]], **keywords))
        assert (1, "mismatch", "file") == (code, record["verdict"], record["judge"])
        assert "2 of 2 elements differ: y[0, 0] must be 1.0, got 0.0" in record["message"]

    def test_no_element(self, tmp_path, capsys):
        """DirectML has no empty tensors: a Slice that copies nothing is judged by ONNX's definition."""
        ends = [numpy_helper.from_array(np.array([3], np.int64), name) for name in ("starts", "ends")]
        node = helper.make_node("Slice", ["x", "starts", "ends"], ["y"])
        values = [value("x", 1, X.shape)], [value("y", 1, None)]
        code, (record,) = checked(capsys, write(tmp_path / "m", [node], *values, ends, (X,)))
        assert (0, "pass", "onnx") == (code, record["verdict"], record["judge"])
        assert "OutputTensor.Sizes[0] must be 1 to 4294967295, got 0 (TENSOR.C2)" in record["message"]


class TestOddOneOut:
    """The folder's expected output is compared with the pseudocode and the provider."""

    @pytest.mark.parametrize(
        ("expected", "provider", "verdict", "odd"),
        [
            (X[[0, 1]], "cpu", "error", "test_data_set_0/output_0.pb"),
            (X[[0, 2]], "fault:output-zero", "mismatch", "the provider"),
            (X[[0, 2]] * 0, "fault:output-zero", "mismatch", "the pseudocode"),
        ],
        ids=["file", "provider", "pseudocode"],
    )
    def test_alone(self, expected, provider, verdict, odd, tmp_path, capsys):
        code, (record,) = checked(capsys, one_node(tmp_path / "m", expected=[expected]), provider=provider)
        assert (1, verdict, "compare") == (code, record["verdict"], record["stage"])
        assert f"{odd} alone differs" in record["message"]

    def test_behind(self, tmp_path, capsys):
        """An output that another node copies is compared too."""
        nodes = [gather(), helper.make_node("Identity", ["y"], ["z"])]
        inputs = [value("x", TensorProto.FLOAT, [3, 4]), value("i", TensorProto.INT64, [2])]
        feeds, wrong = (X, np.array([0, 2], np.int64)), X[[0, 1]]
        folder = write(tmp_path / "m", nodes, inputs, [value("z", TensorProto.FLOAT, None)], (), feeds, [wrong])
        code, (record,) = checked(capsys, folder)
        assert (1, "error") == (code, record["verdict"])
        assert "output_0.pb alone differs" in record["message"]

    @pytest.mark.parametrize(
        ("nodes", "x", "wanted", "verdict"),
        [
            (["Greater", "NonZero"], X, np.array(np.nonzero(X > X[:1])), "pass"),
            (["Greater", "NonZero"], X, np.array(np.nonzero(X > X[:1]))[::-1], "error"),
            (["ArgMax", "Identity"], X, np.zeros((1, 4), np.int64) + 2, "pass"),
            (["ArgMax", "Identity"], X, np.zeros((1, 4), np.int64), "error"),
            (["ArgMax", "Identity"], X * np.nan, np.zeros((1, 4), np.int64) + 1, "not compared"),
        ],
    )
    def test_counts_and_positions(self, nodes, x, wanted, verdict, tmp_path, capsys):
        """A file behind nodes that give counts or positions is compared: nothing is rounded, unless a NaN is in order."""
        first, second = nodes
        feeds = (x, X[:1]) if first == "Greater" else (x,)
        names = ["x", "z"][: len(feeds)]
        proto = [helper.make_node(first, names, ["g"]), helper.make_node(second, ["g"], ["y"])]
        inputs = [value(name, TensorProto.FLOAT, feed.shape) for name, feed in zip(names, feeds, strict=True)]
        outputs = [value("y", TensorProto.INT64, None)]
        _, records = checked(capsys, write(tmp_path / "m", proto, inputs, outputs, (), feeds, [wanted]))
        messages = [record["message"] or "" for record in records]
        assert (verdict == "not compared") == any("is not compared" in message for message in messages)
        if verdict != "not compared":
            assert {verdict} == {record["verdict"] for record in records}

    @pytest.mark.parametrize("behind", [False, True])
    def test_not_compared(self, behind, tmp_path, capsys):
        """An expected output of a type that opmap does not read is named."""
        nodes = [gather(), *([helper.make_node("Identity", ["y"], ["z"])] if behind else [])]
        inputs = [value("x", TensorProto.FLOAT, [3, 4]), value("i", TensorProto.INT64, [2])]
        output = onnx.ValueInfoProto(name="z" if behind else "y")  # of any type
        folder = write(tmp_path / "m", nodes, inputs, [output], (), (X, np.array([0, 2], np.int64)))
        raw = TensorProto(dims=[2], data_type=TensorProto.BFLOAT16, raw_data=b"1234").SerializeToString()
        (folder / "test_data_set_0" / "output_0.pb").write_bytes(raw)

        code, (record,) = checked(capsys, folder)

        assert (0, "pass") == (code, record["verdict"])
        assert "test_data_set_0/output_0.pb is not compared: opmap does not read its type" == record["message"]


class TestInside:
    """Nodes whose values the model's outputs do not show."""

    def test_between(self, tmp_path, capsys):
        """Nodes before and behind a MatMul are judged by what the provider gives them; its output is not compared."""
        nodes = [
            gather("W", "i", "e", "first"),
            helper.make_node("MatMul", ["e", "M"], ["p"]),
            gather("p", "k", "y", "second", axis=-1),
        ]
        constants = {"W": X, "M": np.full((4, 3), 0.1, np.float32), "k": np.array([-1, 0])}
        initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
        inputs, outputs = [value("i", TensorProto.INT64, [2])], [value("y", TensorProto.FLOAT, None)]
        code, (first, second) = checked(capsys, write(tmp_path / "m", nodes, inputs, outputs, initializers))

        assert (0, "pass", "pass") == (code, first["verdict"], second["verdict"])
        assert ["first", "second"] == [first["case"], second["case"]]
        assert "data-init" == first["variant"]
        assert (None, None) == (first["message"], second["message"])
        assert ("ran", "page") == (first["fate"], first["judge"])
        assert any("second run" in text for text in first["substitutions"])

    def test_folded(self, tmp_path, capsys):
        """ONNX Runtime computes a node of constants at load; a second session runs it."""
        initializers = [numpy_helper.from_array(X, "x"), numpy_helper.from_array(np.array([1]), "i")]
        folder = write(tmp_path / "m", [gather()], [], [value("y", TensorProto.FLOAT, None)], initializers)
        code, (record,) = checked(capsys, folder)
        assert (0, "pass", "folded") == (code, record["verdict"], record["fate"])
        assert record["placement"]["proven"]
        assert any("ConstantFolding" in text for text in record["substitutions"])

    def test_out_of_range(self, tmp_path, capsys):
        """An index that the page does not define: the refusal is the model's."""
        code, (whole, record) = checked(capsys, one_node(tmp_path / "m", i=[0, 9]))
        assert (1, "observed", "model", "not-run") == (code, whole["verdict"], whole["case"], record["verdict"])
        assert "out of range" in whole["message"]

    def test_no_data(self, tmp_path, capsys):
        inputs = [value("x", TensorProto.FLOAT, ["n", 4]), value("i", TensorProto.INT64, [2])]
        folder = write(tmp_path / "m", [gather()], inputs, [value("y", TensorProto.FLOAT, None)])
        code, (record,) = checked(capsys, folder)
        assert (0, "pass") == (code, record["verdict"])

    @pytest.mark.slow
    def test_endless(self, tmp_path, capsys):
        """A model that computes for ever is ended, and never run in this process."""
        body = helper.make_graph(
            [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Identity", ["v"], ["w"])],
            "body",
            [value("n", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("v", TensorProto.FLOAT, [1])],
            [value("d", TensorProto.BOOL, []), value("w", TensorProto.FLOAT, [1])],
        )
        nodes = [helper.make_node("Loop", ["", "t", "v0"], ["z"], body=body), gather()]
        constants = {"t": np.array(True), "v0": np.zeros(1, np.float32)}
        initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
        inputs = [value("x", TensorProto.FLOAT, [3, 4]), value("i", TensorProto.INT64, [2])]
        outputs = [value("y", TensorProto.FLOAT, None), value("z", TensorProto.FLOAT, [1])]
        folder = write(tmp_path / "m", nodes, inputs, outputs, initializers)
        code, (whole, record) = checked(capsys, folder, "--timeout-per-case", "3")
        assert (1, "timeout", "not-run") == (code, whole["verdict"], record["verdict"])
        assert "no answer within 3 s" in whole["message"]


def choice(output, first, second, condition="c", value="v"):
    """An If in ONNX's text form. Each branch is one text of nodes, which gives `value`."""
    branches = (f"{name} () => (float[] {value}) {{ {nodes} }}" for name, nodes in (("t", first), ("e", second)))
    return "{} = If ({}) <then_branch = {}, else_branch = {}>".format(output, condition, *branches)


class TestBranches:
    """Nodes in the branches of an If: the values of the data say which branch is taken."""

    PLAIN = "v = Gather (x, i)"
    BRANCHES = f"[one] {PLAIN}", f"[other] {PLAIN}"
    BOTH = choice("y", *BRANCHES)

    def checked(self, capsys, folder, *nodes, taken=True, provider="cpu", feeds=True, outputs="y"):
        """Judges a model, and returns verdict and message of each node by its name; without a message, how it was
        judged.
        """
        feeds = (np.array(taken), X, np.array([0, 2], np.int64)) if feeds else ()
        given = ", ".join(f"float[] {name}" for name in outputs.split())
        text = f"g (bool c, float[3,4] x, int64[2] i) => ({given}) {{ {' '.join(nodes)} }}"
        graph = onnx.parser.parse_graph(text)
        write(folder, graph.node, graph.input, graph.output, (), feeds)
        _, records = checked(capsys, folder, provider=provider)
        return {r["case"]: (r["verdict"], r["message"] or " ".join(r["substitutions"])) for r in records}

    @pytest.mark.parametrize("taken, ran, left", [(True, "one", "other"), (False, "other", "one")])
    def test_taken(self, taken, ran, left, tmp_path, capsys):
        found = self.checked(capsys, tmp_path / "m", self.BOTH, taken=taken)
        assert ("pass", "pass") == (found[ran][0], found[left][0])
        assert "not take" not in found[ran][1]
        assert NOT_TAKEN.format("then" if left == "one" else "else").replace("If If", "If y") in found[left][1]

    def test_a_branch_that_does_not_run(self, tmp_path, capsys):
        """The branch that is not taken does not bear the values of this data: its nodes are not judged."""
        other = "k = Constant <value = int64[1] {9}> () [other] v = Gather (x, k)"
        found = self.checked(capsys, tmp_path / "m", choice("y", self.BRANCHES[0], other))
        assert ("pass", "not-run") == (found["one"][0], found["other"][0])
        assert "it is inside the else branch of the If y, which this data does not take" in found["other"][1]

    def test_constants_outside(self, tmp_path, capsys):
        """A constant of the main graph stays one for the branch that is not taken: the EP needs the pads as
        constants.
        """
        other = "[other] v = Pad (x, pads)"
        graph = onnx.parser.parse_graph(
            f"g (bool c, float[3,4] x, int64[2] i) => (float[] y) {{ {choice('y', self.PLAIN, other)} }}"
        )
        pads = numpy_helper.from_array(np.array([1, 0, 0, 2]), "pads")
        feeds = (np.array(True), X, np.array([0, 2], np.int64))
        write(tmp_path / "m", graph.node, graph.input, graph.output, [pads], feeds)
        _, records = checked(capsys, tmp_path / "m")
        assert {"pass"} == {record["verdict"] for record in records}
        assert "DML_OPERATOR_PADDING1" == records[-1]["operator"]

    def test_wrong(self, tmp_path, capsys):
        """A wrong output of a node in a branch is seen."""
        found = self.checked(capsys, tmp_path / "m", self.BOTH, provider="fault:index-off-by-one")
        assert "mismatch" == found["one"][0]

    def test_generated(self, tmp_path, capsys):
        """Without test data, the data that opmap makes takes a branch, and its elements are unique."""
        found = self.checked(capsys, tmp_path / "m", self.BOTH, provider="fault:index-off-by-one", feeds=False)
        assert ["mismatch", "mismatch"] == [verdict for verdict, _ in found.values()]

    def test_computed(self, tmp_path, capsys):
        """The condition is computed by nodes before the If."""
        found = self.checked(capsys, tmp_path / "m", "d = Not (c)", choice("y", *self.BRANCHES, condition="d"))
        assert ("pass", "pass") == (found["one"][0], found["other"][0])
        assert NOT_TAKEN.format("then").replace("If If", "If y") in found["one"][1]

    def test_nested(self, tmp_path, capsys):
        """An If in a branch; two Ifs whose branches use the same names."""
        inner = choice("v", "[deep] w = Gather (x, i)", "w = Gather (x, i)", value="w")
        nodes = choice("z", inner, self.PLAIN), self.BOTH
        found = self.checked(capsys, tmp_path / "m", *nodes, outputs="z y")
        assert ("pass", "pass") == (found["deep"][0], found["one"][0])
        assert "not take" not in found["deep"][1]
        assert 5 == len(found), "nodes of one name are told apart"
        found = self.checked(capsys, tmp_path / "other", *nodes, taken=False, outputs="z y")
        assert ("pass", "pass") == (found["deep"][0], found["other"][0])
        assert "which this data does not take" in found["deep"][1]

    def test_constants_of_another_rank(self, tmp_path, capsys):
        """A Range takes numbers, not lists of one number: ONNX Runtime says so, once."""
        one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1])
        node = helper.make_node("Range", ["one", "one", "one"], ["y"], name="r")
        write(tmp_path / "m", [node], [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])], [one], [])
        code, (whole, record) = checked(capsys, tmp_path / "m")
        assert (1, "error", "not-run") == (code, whole["verdict"], record["verdict"])
        assert "not judged: the model did not run" == record["message"]

    def test_same_names(self, tmp_path, capsys):
        """Values of two branches have one name: each node is judged with its own."""
        first = choice("z", "n = Exp (x) [one] v = Gather (n, i)", self.PLAIN)
        second = choice("y", "n = Sqrt (x) [two] v = Gather (n, i)", self.PLAIN)
        found = self.checked(capsys, tmp_path / "m", first, second, outputs="z y")
        assert ("pass", "pass") == (found["one"][0], found["two"][0])

    def test_not_an_output(self, tmp_path, capsys):
        """The output of a node is no output of the branch: it is judged apart."""
        node = choice("y", "[one] u = Gather (x, i) v = Exp (u)", self.PLAIN)
        self.checked(capsys, tmp_path / "m", node)
        _, records = checked(capsys, tmp_path / "m")
        assert ["pass", "pass"] == [record["verdict"] for record in records]
        assert any(text.startswith("judged apart") for text in records[0]["substitutions"])

    def test_passed_on(self, tmp_path, capsys):
        """A branch whose other output is a constant of its own."""
        first = "t () => (float[] v, float[] k) <float[1] k = {7}> { [one] v = Gather (x, i) }"
        second = "e () => (float[] a, float[] b) { a = Identity (x) b = Identity (x) }"
        node = f"y, y2 = If (c) <then_branch = {first}, else_branch = {second}>"
        assert "pass" == self.checked(capsys, tmp_path / "m", node, outputs="y y2")["one"][0]


class TestOtherCommands:
    """`explain` and `diagnose` take the nodes of a model."""

    def test_explain(self, tmp_path, capsys):
        assert 0 == main(["explain", str(one_node(tmp_path / "m", axis=-1, i=[3])), "--at", "1,0"])
        assert "output[1, 0] = input[1, indices[0, 0] = 3] = 7.0" in capsys.readouterr().out

    def test_explain_needs_a_name(self, tmp_path, run_opmap):
        inputs = [value("x", TensorProto.FLOAT, [3, 4]), value("i", TensorProto.INT64, [2])]
        nodes = [gather(name="one"), gather(name="two", output="z")]
        outputs = [value(name, TensorProto.FLOAT, None) for name in "yz"]
        folder = str(write(tmp_path / "m", nodes, inputs, outputs))
        assert "must have one node, or be given --node, got one, two" in run_opmap(2, "explain", folder).err
        assert 0 == main(["explain", folder, "--node", "two"])

    def test_diagnose(self, tmp_path, capsys):
        folder = one_node(tmp_path / "m", i=[-1, 1])
        assert 1 == main(["diagnose", str(folder), "--provider", "fault:negative-index-as-zero", "--budget", "20"])
        assert "a negative index means element 0" in capsys.readouterr().out


class TestHostile:
    """A file from outside is refused with one line."""

    def refused(self, refusal, folder, *words):
        line = refusal("check", folder, "--provider", "cpu")
        assert [word for word in words if word not in line] == [], line

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"hello world", "must be an ONNX model, got other bytes"),
            (b"", "got one without a graph"),
            (b"\x3a\x7f\x00", "must be an ONNX model, got other bytes"),
        ],
    )
    def test_bytes(self, content, words, tmp_path, refusal):
        (tmp_path / "model.onnx").write_bytes(content)
        self.refused(refusal, tmp_path, words)

    def test_deep(self, tmp_path, refusal):
        graph = onnx.GraphProto()
        for _ in range(25):
            node = onnx.NodeProto(op_type="If")
            node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g.CopyFrom(graph)
            graph = onnx.GraphProto(node=[node])
        (tmp_path / "model.onnx").write_bytes(onnx.ModelProto(graph=graph).SerializeToString())
        self.refused(refusal, tmp_path, "must have messages nested at most 64 deep")

    def test_parts(self, tmp_path, refusal, monkeypatch):
        monkeypatch.setattr("opmap.judge.onnx_models.wire.MAX_MODEL_PARTS", 10)
        self.refused(refusal, one_node(tmp_path / "m"), "must have at most 10 parts")

    def test_nodes(self, tmp_path, refusal, monkeypatch):
        """Each node that is judged takes a millisecond and more."""
        monkeypatch.setattr("opmap.judge.onnx_models.nodes.MAX_COMMANDS", 0)
        self.refused(refusal, one_node(tmp_path / "m"), "must have at most 0 nodes that are judged, got 1")

    def test_functions(self, tmp_path, refusal):
        """Functions that call each other twice, thirty times: more nodes than any memory holds."""
        opsets, functions = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)], []
        for i in range(30):
            call = ("Identity", "") if i == 0 else (f"f{i - 1}", "own")
            nodes = [helper.make_node(call[0], [a], [b], domain=call[1]) for a, b in (("a", "b"), ("b", "c"))]
            functions.append(helper.make_function("own", f"f{i}", ["a"], ["c"], nodes, opsets))
        nodes = [helper.make_node("f29", ["x"], ["z"], domain="own"), gather()]
        inputs = [value("x", TensorProto.FLOAT, [3]), value("i", TensorProto.INT64, [2])]
        folder = write(tmp_path / "m", nodes, inputs, [value("y", TensorProto.FLOAT, None)], functions=functions)
        self.refused(refusal, folder, "nodes, those of called functions included")

    @pytest.mark.parametrize(
        ("location", "more", "words"),
        [
            ("../data.bin", {}, "must be the name of another file below the model's folder"),
            ("/etc/passwd", {}, "must be the name of another file below the model's folder"),
            ("C:\\data.bin", {}, "must be the name of another file below the model's folder"),
            ("*/_ORT_MEM_ADDR_/*", {}, "must be the name of another file below the model's folder"),
            ("model.onnx", {}, "must be the name of another file below the model's folder"),
            ("no.bin", {}, "no such file"),
            ("data.bin", {"offset": "-4"}, "got 48 at -4"),
            ("data.bin", {"offset": "4"}, "must have 48 bytes inside the 48"),
            ("data.bin", {"length": "4"}, "must have 48 bytes"),
            ("data.bin", {"length": "x"}, "must have whole numbers as offset and length"),
        ],
    )
    def test_external(self, location, more, words, tmp_path, refusal):
        folder = self.external(tmp_path, location, **more)
        self.refused(refusal, folder, "initializer x", words)

    def test_external_is_read(self, tmp_path, capsys):
        code, (record,) = checked(capsys, self.external(tmp_path, "data.bin"))
        assert (0, "pass") == (code, record["verdict"])

    def external(self, tmp_path, location, **more):
        folder = tmp_path / "m"
        inputs, outputs = [value("i", TensorProto.INT64, [2])], [value("y", TensorProto.FLOAT, None)]
        write(folder, [gather()], inputs, outputs)
        (folder / "data.bin").write_bytes(X.tobytes())
        (tmp_path / "data.bin").write_bytes(X.tobytes())
        model = onnx.load(folder / "model.onnx")
        tensor = model.graph.initializer.add(name="x", data_type=TensorProto.FLOAT, dims=X.shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, entry in {"location": location, **more}.items():
            tensor.external_data.add(key=key, value=entry)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        return folder

    def test_no_node(self, tmp_path, run_opmap):
        values = [value(name, TensorProto.FLOAT, [1]) for name in "xy"]
        folder = write(tmp_path / "m", [helper.make_node("Identity", ["x"], ["y"])], values[:1], values[1:])
        out, err = run_opmap(1, "check", folder, "--provider", "cpu")
        assert (
            f"{folder}: 0 nodes: none; 1 node of other operators\nFAILED: nothing was run; nothing was judged.\n" == out
        )
        assert "nothing was judged" in err
        for command, *more in (
            ["explain"],
            ["diagnose"],
            ["build", "-o", tmp_path / "a"],
            ["export", "-o", tmp_path / "b"],
        ):
            err = run_opmap(2, command, folder, *more).err
            assert "m: must have a node of an operator that opmap knows, got none" in err

    def test_no_input(self, tmp_path, refusal):
        folder = one_node(tmp_path / "m")
        (folder / "test_data_set_0" / "input_1.pb").unlink()
        self.refused(refusal, folder, "test_data_set_0", "must have a file for each input, got none for i")

    def test_type(self, tmp_path, refusal):
        folder = one_node(tmp_path / "m")
        raw = numpy_helper.from_array(X.astype(np.float64)).SerializeToString()
        (folder / "test_data_set_0" / "input_0.pb").write_bytes(raw)
        self.refused(refusal, folder, "test_data_set_0/input_0.pb", "must be FLOAT for input 'x', got DOUBLE")

    @pytest.mark.parametrize(
        "content, got",
        [
            (b"", "UNDEFINED"),
            (helper.make_tensor("y", TensorProto.STRING, [1], [b"a"]).SerializeToString(), "STRING"),
            (TensorProto(dims=[1], data_type=TensorProto.BFLOAT16, raw_data=b"12").SerializeToString(), "BFLOAT16"),
            (TensorProto(data_type=999).SerializeToString(), "type 999"),
        ],
    )
    @pytest.mark.parametrize("name", ["input_0.pb", "output_0.pb"])
    def test_type_that_is_not_read(self, name, content, got, tmp_path, refusal):
        """A file that is empty, or of a type that the model does not have, is refused: its values would be compared
        with nothing.
        """
        folder = one_node(tmp_path / "m", expected=[X[[0, 2]]])
        (folder / "test_data_set_0" / name).write_bytes(content)
        kind, value = ("input", "x") if name == "input_0.pb" else ("output", "y")
        self.refused(refusal, folder, f"test_data_set_0/{name}", f"must be FLOAT for {kind} '{value}', got {got}")

    @pytest.mark.parametrize("dimensions", [33, 65])
    @pytest.mark.parametrize("held", ["made", "fed", "initializer"])
    def test_dimensions(self, held, dimensions, tmp_path, capsys, refusal):
        """An array of more dimensions than NumPy takes, which are 32 or 64: one line."""
        sizes = [1] * dimensions
        inputs = [value("x", TensorProto.FLOAT, sizes), value("i", TensorProto.INT64, [1])]
        x = TensorProto(name="x", dims=sizes, data_type=TensorProto.FLOAT, raw_data=bytes(4))
        feeds = (X, np.array([0], np.int64)) if held == "fed" else ()
        constants = [x] if held == "initializer" else []
        nodes, outputs = [gather()], [value("y", TensorProto.FLOAT, None)]
        folder = write(tmp_path / "m", nodes, inputs[len(constants) :], outputs, constants, feeds)
        if held == "fed":
            (folder / "test_data_set_0" / "input_0.pb").write_bytes(x.SerializeToString())

        if held == "made":
            code, (record,) = checked(capsys, folder)
            assert (1, "not-run") == (code, record["verdict"])
            assert "input x has more than 32 dimensions" in record["message"]
        else:
            self.refused(refusal, folder, f"must have at most 32 dimensions, got {dimensions}")

    def test_elements(self, tmp_path, refusal):
        """Sizes are refused before memory is taken for them."""
        folder = one_node(tmp_path / "m")
        raw = TensorProto(dims=[2**40, 2**40], data_type=TensorProto.FLOAT).SerializeToString()
        (folder / "test_data_set_0" / "input_0.pb").write_bytes(raw)
        self.refused(refusal, folder, "must have 0 to 16777216 elements")
