"""How `check` judges a model of one's own: by whom, what became of each node, what the user types and sees."""

import dataclasses
import os

import numpy as np
import onnx.parser
import pytest
from onnxruntime import get_available_providers
from test_onnx_models import checked, one_node

from opmap.cli import main
from opmap.descriptors.operator_desc import results_of
from opmap.judge.onnx_models import judging

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def write(path, text):
    """Writes a model in ONNX's text form."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(onnx.parser.parse_model(HEADER + text).SerializeToString())
    return path


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Makes a provider of a function's text, `run(model, feeds)`; `cpu(model, feeds)` in it gives the CPU EP's outputs
    by name.
    """

    def make(body):
        program = f"""import numpy as np, onnx, onnxruntime as ort
def cpu(model, feeds):
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds)))
def run(model, feeds):
    outputs = cpu(model, feeds)
    {body}
    return list(outputs.values())
"""
        (tmp_path / "planted.py").write_text(program, "utf-8")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return "planted:run"

    return make


MOVES = "g (float[3,4] x) => (float[4,3] y) { [first] t = Transpose <perm = [1, 0]> (x) n = Exp (t) [second] y = Tile (n, one) }"
MOVES = MOVES.replace("(float[4,3] y) {", "(float[4,3] y) <int64[2] one = {1, 1}> {")


class TestJudge:
    """`judge` says whose value counted."""

    CROP = "g (float[4] x) => (float[n] y) <int64[2] pads = {-1, 1}> { [crop] y = Pad (x, pads) }"

    @pytest.mark.parametrize(("body", "verdict"), [("pass", "pass"), ("outputs['y'] = outputs['y'] + 1", "mismatch")])
    def test_onnx(self, body, verdict, planted, tmp_path, capsys):
        """A node without a descriptor is judged by the CPU EP, from the same inputs."""
        code, (record,) = checked(capsys, write(tmp_path / "m.onnx", self.CROP), provider=planted(body))
        assert (int(verdict != "pass"), verdict, "onnx") == (code, record["verdict"], record["judge"])
        assert (
            "judged by the CPU EP: the EP makes a descriptor that breaks a rule: StartPadding[3]" in record["message"]
        )

    NONZERO = "g (float[2,3] x) => (int64[2,n] y) <float[2,3] x = {1, 0, -2, 0, -0.0, 5}> { [found] y = NonZero (x) }"

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ("pass", None),
            ("outputs['y'] = outputs['y'][:, :-1]", "OutputCountTensor: "),
            ("outputs['y'] = outputs['y'][:, ::-1]", "OutputCoordinatesTensor: "),
            ("outputs['y'] = np.pad(outputs['y'], [(0, 0), (0, 1)])", "OutputCountTensor: "),
            ("outputs['y'] = outputs['y'] - 1", "no such output is possible: INT64 [2, 3]"),
            ("outputs['y'] = np.pad(outputs['y'], [(0, 0), (0, 5)])", "no such output is possible: INT64 [2, 8]"),
        ],
    )
    def test_sizes_that_depend_on_the_data(self, body, said, planted, tmp_path, capsys):
        """A NonZero node is judged by the page, whose operator gives the count and a row for every element."""
        code, (record,) = checked(capsys, write(tmp_path / "m.onnx", self.NONZERO), provider=planted(body))
        assert (int(bool(said)), "mismatch" if said else "pass", "page") == (code, record["verdict"], record["judge"])
        assert "DML_OPERATOR_NONZERO_COORDINATES" == record["operator"]
        assert (said or "") in (record["message"] or "")

    @pytest.mark.parametrize(("count", "judge"), [(2048, "page"), (2049, "onnx")])
    def test_more_elements_than_are_counted(self, count, judge, tmp_path, capsys):
        """A NonZero of many elements is judged by ONNX's definition."""
        path = write(tmp_path / "m.onnx", f"g (float[{count}] x) => (int64[1,n] y) {{ y = NonZero (x) }}")
        code, (record,) = checked(capsys, path)
        assert (0, "pass", judge) == (code, record["verdict"], record["judge"])

    @pytest.mark.parametrize(
        ("node", "x", "body", "verdict", "said"),
        [
            ("Hardmax", [3.5, 1, 3.5], "pass", "pass", "judged by the CPU EP: opmap does not compute it: "),
            ("Hardmax", [3.5, 1, 3.5], "outputs['y'] = outputs['y'][:, ::-1]", "mismatch", "must be 1.0, got 0.0"),
            ("Hardmax", [1, np.nan, 3], "pass", "not-run", "got 9; ONNX does not say where a NaN stands"),
            ("ReduceMax<axes = [1]>", [-0.0, -1, -2], "outputs['y'] = abs(outputs['y'])", "pass", "judged by"),
            ("ReduceMax<axes = [1]>", [-0.5, -1, -2], "outputs['y'] = abs(outputs['y'])", "mismatch", "got 0.5"),
            ("ReduceL1<axes = [1]>", [0.1, 0.2, 0.3], "pass", "not-run", "a number may be rounded or overflow"),
            ("ReduceL1<axes = [1]>", [2**22, 2**23, 1], "pass", "not-run", "a number may be rounded or overflow"),
            ("ReduceL1<axes = [1]>", [2**22, -(2**22), 1], "pass", "pass", "judged by the CPU EP"),
            ("ReduceL1<axes = [1]>", np.int32([2**30, 2**30, 1]), "pass", "not-run", "rounded or overflow"),
            ("ReduceL1<axes = [1]>", np.int32([2**29, -(2**29), 1]), "pass", "pass", "judged by the CPU EP"),
        ],
    )
    def test_more_positions_than_are_computed(
        self, node, x, body, verdict, said, planted, tmp_path, capsys, monkeypatch
    ):
        """A node beyond opmap's limit is judged by ONNX's definition where that fixes each bit, whoever computes it."""
        monkeypatch.setattr("opmap.pseudocode.loops.LONGEST_REDUCTION", 2)
        x = np.array([x], None if isinstance(x, np.ndarray) else np.float32)
        np.savez(tmp_path / "x.npz", x=x)
        element = {"f": "float", "i": "int32"}[x.dtype.kind]
        text = f"g ({element}[1,3] x) => ({element}[1,n] y) {{ y = {node} (x) }}"
        path = tmp_path / "m.onnx"
        path.write_bytes(onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 13]>' + text).SerializeToString())
        results_of.cache_clear()
        _, (record,) = checked(capsys, path, "--inputs", str(tmp_path / "x.npz"), provider=planted(body))
        assert verdict == record["verdict"]
        assert said in record["message"]

    @pytest.mark.parametrize(("found", "verdict"), [([3, 2], "pass"), ([2, 3], "not-run"), ([3], "mismatch")])
    def test_an_order_that_onnx_leaves_open(self, found, verdict, planted, tmp_path, capsys):
        """Of a TopK that need not sort, another order is not judged. Other sizes are wrong."""
        text = "g (float[4] x) => (float[2] y, int64[2] i) <int64[1] k = {2}> { y, i = TopK <sorted = 0> (x, k) }"
        path = write(tmp_path / "m.onnx", text)
        body = f"outputs = {{'y': np.float32({found}), 'i': np.int64({found})}}"
        _, (record,) = checked(capsys, path, provider=planted(body))
        assert verdict == record["verdict"]
        assert (record["message"] or "").startswith("not judged: with sorted = 0, " * (verdict == "not-run"))

    @pytest.mark.parametrize(("values", "code"), [([2**31 - 1, 1], 1), ([2, 1], 0)])
    def test_nothing_documented(self, values, code, tmp_path, run_opmap):
        """A run in which no element has a documented value has judged nothing: it is red."""
        text = "g (int32[2] x) => (int32[1] y) <int64[1] axes = {0}> { y = ReduceSum (x, axes) }"
        path = write(tmp_path / "m.onnx", text)
        np.savez(tmp_path / "x.npz", x=np.int32(values))
        out, _ = run_opmap(code, "check", path, "--provider", "cpu", "--inputs", tmp_path / "x.npz")
        assert (code == 1) == ("nothing was judged" in out)

    def test_no_false_mismatch(self, tmp_path, capsys, monkeypatch):
        """A wrong descriptor of opmap is opmap's error, if CPU EP and reference evaluator agree with the provider."""
        path = write(tmp_path / "m.onnx", "g (float[3,3] x) => (float[3,3] y) { y = Transpose <perm = [1, 0]> (x) }")
        right = judging.node_cases.__globals__["descriptor"]

        def wrong(node, *arguments, **keywords):
            desc = right(node, *arguments, **keywords)
            strides = tuple(reversed(desc.input_tensor.strides))
            changed = dataclasses.replace(desc.input_tensor, strides=strides)
            return desc.with_tensors({"InputTensor": changed})

        monkeypatch.setitem(judging.node_cases.__globals__, "descriptor", wrong)
        code, (record,) = checked(capsys, path)
        assert (1, "error", "derive") == (code, record["verdict"], record["stage"])
        assert "opmap's descriptor of this node may be wrong: please report the model" in record["message"]
        assert record["expected"] != record["actual"]

    def test_an_exception_is_an_error_of_the_node(self, tmp_path, capsys, monkeypatch):
        """The other nodes are judged."""
        right = judging.NodeJudge.record

        def fails(self, entry, run):
            if entry.node.label == "first":
                raise RuntimeError("planted")
            return right(self, entry, run)

        monkeypatch.setattr(judging.NodeJudge, "record", fails)
        code, (first, second) = checked(capsys, write(tmp_path / "m.onnx", MOVES))
        assert (1, "error", "derive", "pass") == (code, first["verdict"], first["stage"], second["verdict"])
        assert "opmap itself failed, please report this model: RuntimeError: planted" == first["message"]

    def test_an_exception_is_an_error_of_the_model(self, tmp_path, run_opmap, monkeypatch):
        """One line asks for a report, and the next model is judged."""
        paths = [write(tmp_path / f"{n}.onnx", MOVES) for n in "ab"]
        calls = []

        def fails(*arguments, **keywords):
            calls.append(1)
            if len(calls) == 1:
                raise RuntimeError("planted")
            return right(*arguments, **keywords)

        right = judging.node_cases
        monkeypatch.setattr(judging, "node_cases", fails)
        out = run_opmap(1, "check", *map(str, paths), "--provider", "cpu").out
        assert "opmap itself failed, please report this model: RuntimeError: planted" in out
        assert "b.onnx: 2 nodes: 2 pass; 1 node of other operators" in out


class TestModelAsItIs:
    """The model is run as it is; further runs show inner values."""

    def test_the_answer_changes(self, planted, tmp_path, capsys):
        """A provider that is wrong only without further outputs is found."""
        path = write(tmp_path / "m.onnx", MOVES)
        provider = planted("outputs = outputs if len(outputs) > 1 else {'y': outputs['y'] * 2}")
        code, records = checked(capsys, path, provider=provider)
        assert (1, "mismatch", "model") == (code, records[-1]["verdict"], records[-1]["case"])
        assert "the answer changes when inner values are outputs: y" == records[-1]["message"]
        assert ["pass", "pass"] == [record["verdict"] for record in records[:-1]]

    def test_an_error_is_one_record(self, planted, tmp_path, capsys):
        """The refusal of a model stands once; its nodes are not run."""
        path = write(tmp_path / "m.onnx", MOVES)
        code, records = checked(capsys, path, provider=planted("raise RuntimeError('no')"))
        assert 1 == code
        assert [("model", "error"), ("first", "not-run"), ("second", "not-run")] == [
            (record["case"], record["verdict"]) for record in records
        ]

    def test_groups(self, tmp_path, capsys, monkeypatch):
        """Inner values beyond a number of bytes are shown by several runs."""
        monkeypatch.setattr(judging, "MAX_EXPOSED_BYTES", 100)
        runs = []
        right = judging.run_model
        monkeypatch.setattr(judging, "run_model", lambda *a: runs.append(a[3]) or right(*a))
        code, _ = checked(capsys, write(tmp_path / "m.onnx", MOVES))
        assert 0 == code
        assert [[], ["t"], ["n", "y"]] == [sorted(more) for more in runs]

    def test_folded_nodes_change_no_other(self, tmp_path, capsys):
        """A node of constants is folded; the others are judged as in the user's session."""
        text = "g (float[3] x) => (float[3] y) <float[2] c = {1, 2}, int64[1] i = {1}> { [one] k = Gather (c, i) m = Pow (x, k) [two] y = Transpose (m) }"
        code, (one, two) = checked(capsys, write(tmp_path / "m.onnx", text))
        assert (0, "pass", "folded", "pass", "ran") == (
            code,
            one["verdict"],
            one["fate"],
            two["verdict"],
            two["fate"],
        )
        assert any("ConstantFolding" in text for text in one["substitutions"])
        assert not any("ConstantFolding" in text for text in two["substitutions"])


class TestBodies:
    """Nodes in the bodies of Loops and Scans are judged apart, with the values of the first iteration."""

    LOOP = """g (float[3] x, int64 n) => (float[k] y) <bool yes = {1}> {
        y = Loop (n, yes, x) <body = b (int64 i, bool c, float[k] v) => (bool d, float[k] w) {
            d = Identity (c) [inner] w = Concat <axis = 0> (v, x) }> }"""
    SCAN = """g (float[2,3] s, int64[2] at) => (float[2,2] y) {
        y = Scan <num_scan_inputs = 1, body = b (float[3] v) => (float[2] w) { [inner] w = Gather (v, at) }> (s) }"""

    @pytest.mark.parametrize(("text", "where"), [(LOOP, "Loop y"), (SCAN, "Scan y")], ids=["loop", "scan"])
    def test_judged_apart(self, text, where, tmp_path, capsys):
        path = write(tmp_path / "m.onnx", text)
        feeds = {"x": X[0, :3], "n": np.array(2)} if "Loop" in where else {"s": X[:2, :3], "at": np.array([2, 0])}
        np.savez(tmp_path / "feeds.npz", **feeds)
        code, (record,) = checked(capsys, path, "--inputs", tmp_path / "feeds.npz")
        assert (0, "inner", "pass", "page") == (code, record["case"], record["verdict"], record["judge"])
        assert f"judged apart: in a model of the first iteration of the body of the {where}" in record["substitutions"]

    def test_a_body_that_does_not_run(self, tmp_path, capsys):
        path = write(tmp_path / "m.onnx", self.LOOP)
        np.savez(tmp_path / "feeds.npz", x=X[0, :3], n=np.array(0))
        code, (record,) = checked(capsys, path, "--inputs", tmp_path / "feeds.npz")
        assert (1, "not-run") == (code, record["verdict"])
        assert "the body of the Loop y, which this data does not take" in record["message"]

    def test_a_wrong_body(self, planted, tmp_path, capsys):
        path = write(tmp_path / "m.onnx", self.SCAN)
        np.savez(tmp_path / "feeds.npz", s=X[:2, :3], at=np.array([2, 0]))
        provider = planted("outputs = {n: a[::-1].copy() if n == 'w' else a for n, a in outputs.items()}")
        code, (record,) = checked(capsys, path, "--inputs", tmp_path / "feeds.npz", provider=provider)
        assert (1, "mismatch") == (code, record["verdict"])


class TestSizesAndInputs:
    """--dim and --inputs."""

    TEXT = "g (float[batch, length] x, int64[k] i) => (float[a,b] y) { y = Gather <axis = 1> (x, i) }"

    def test_chosen(self, tmp_path, capsys):
        path = write(tmp_path / "m.onnx", self.TEXT)
        assert 0 == main(["check", str(path), "--provider", "cpu", "--dim", "length=9"])
        assert f"{path}: batch = 2, k = 3, chosen by opmap; --dim changes it\n" in capsys.readouterr().out
        _, (record,) = checked(capsys, path, "--dim", "length=9", "--dim", "k=1")
        assert [2, 9] == record["lowered_as"]["desc"]["InputTensor"]["Sizes"]

    def test_other_sizes_are_tried(self, tmp_path, capsys):
        """Sizes that must be equal: others are tried."""
        text = "g (float[a] x, float[b] z) => (float[n] y) { s = Sub (x, z) y = Transpose (s) }"
        assert 0 == main(["check", str(write(tmp_path / "m.onnx", text)), "--provider", "cpu"])
        assert "a = 1, b = 1, chosen by opmap" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("words", "line"),
        [
            (["--dim", "nope=2"], "--dim must be one of batch, length, k, got 'nope'"),
            (["--dim", "batch=2", "--dim", "batch=3"], "--dim must give each name once, got 'batch' twice"),
            (["--dim", "batch=-1"], "--dim must be NAME=SIZE with a size of at least 0, got 'batch=-1'"),
            (["--dim", "batch"], "--dim must be NAME=SIZE"),
        ],
    )
    def test_bad_sizes(self, words, line, tmp_path, refusal):
        assert line in refusal("check", write(tmp_path / "m.onnx", self.TEXT), "--provider", "cpu", *words)

    @pytest.mark.parametrize(
        ("arrays", "line"),
        [
            ({"x": X}, "--inputs must have each input, got none for i"),
            ({"x": X, "z": X}, "--inputs: must be inputs of the model (x, i), got 'z'"),
            ({"x": X.astype(np.float64)}, "--inputs: x must be FLOAT, got float64"),
            ({"x": X[0]}, "--inputs: x must have sizes ['any', 'any'], got [4]"),
            ({"x": np.array([None])}, "--inputs must be an .npz file without pickles"),
            (None, "--inputs must be an .npz file without pickles"),
        ],
    )
    def test_bad_inputs(self, arrays, line, tmp_path, refusal):
        path, file = write(tmp_path / "m.onnx", self.TEXT), tmp_path / "f.npz"
        file.write_bytes(b"PK") if arrays is None else np.savez(file, **arrays)
        assert line in refusal("check", path, "--provider", "cpu", "--inputs", file)


@pytest.mark.skipif("DmlExecutionProvider" in get_available_providers(), reason="this onnxruntime has the DirectML EP")
def test_no_provider(tmp_path, monkeypatch, run_opmap):
    """Nothing is judged because the provider is missing: this is what the last line says."""
    monkeypatch.delenv("OPMAP_DML_RUNTIME", raising=False)
    out, err = run_opmap(1, "check", one_node(tmp_path / "m"), "--provider", "dml")
    assert "DmlExecutionProvider is not in the installed onnxruntime" in out
    assert "nothing was judged: the provider is missing; another --provider may help" in err


class TestFolders:
    """`check` takes folders of models."""

    def test_all_models(self, tmp_path, run_opmap):
        """In name order; other files are counted, a bad model does not stop the others."""
        for name in ("b/model.onnx", "a/deep/model.onnx", "c.onnx", "d.onnx"):
            write(tmp_path / "models" / name, MOVES)
        (tmp_path / "models" / "readme.txt").write_text("x", "utf-8")
        (tmp_path / "models" / "bad").mkdir()
        (tmp_path / "models" / "bad" / "model.onnx").write_bytes(b"\xff")
        out, err = run_opmap(2, "check", tmp_path / "models", "--provider", "cpu")
        folder = tmp_path / "models"
        judged = [line.split(": ")[0] for line in out.splitlines() if ": 2 nodes: 2 pass" in line]
        assert [str(folder / name) for name in ("b", "c.onnx", "d.onnx", os.path.join("a", "deep"))] == judged
        assert "other files in these folders, which are no models: 1" in out
        assert err.startswith(f"opmap: {folder / 'bad'}")

    def test_links_are_not_followed_out(self, tmp_path, run_opmap):
        write(tmp_path / "outside" / "model.onnx", MOVES)
        write(tmp_path / "models" / "in" / "model.onnx", MOVES)
        try:
            (tmp_path / "models" / "out").symlink_to(tmp_path / "outside", target_is_directory=True)
        except OSError:
            pytest.skip("this system makes no links")
        out = run_opmap(0, "check", tmp_path / "models", "--provider", "cpu").out
        assert 1 == out.count(": 2 nodes: 2 pass")
        assert "which are no models: 1" in out

    def test_no_model(self, tmp_path, run_opmap):
        assert "got a folder without one" in run_opmap(2, "check", tmp_path, "--provider", "cpu").err

    def test_equal_reasons_are_one_line(self, tmp_path, run_opmap):
        text = (
            "g (float[3] x) => (float[1] y) { y = Nope (x) "
            + " ".join(f"[n{i}] t{i} = Transpose (x)" for i in range(7))
            + " }"
        )
        out = run_opmap(1, "check", write(tmp_path / "m.onnx", text), "--provider", "cpu").out
        assert "n0, n1, n2, n3, n4 and 2 more: not judged: the model did not run" in out
        assert "7 nodes: 7 not-run; 1 node of other operators" in out
