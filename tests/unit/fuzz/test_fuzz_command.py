"""`opmap fuzz`: what it prints and writes, and how it goes on."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from opmap import cli
from opmap.cli.commands.fuzz import _print, _shipped
from opmap.engines.steps import Setup
from opmap.errors import InputError
from opmap.fuzz.graphs import Graph, Node, Source
from opmap.fuzz.judging import Failure
from opmap.fuzz.plan import Opening, Overlapping, Plan, Putting, Running, SeededInputs
from opmap.fuzz.search import Counts, Find, Progress
from opmap.reports.finds import FindsFolder, models_of, steps_of

PROVIDER = '''"""A provider whose sessions return the outputs of the run before."""

import onnxruntime


class Session:
    def __init__(self, model):
        self.session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.before = None

    def run(self, feeds, outputs=None):
        result = self.session.run(outputs, feeds)
        shapes = [array.shape for array in (*feeds.values(), *result)]
        if self.before and self.before[0] == shapes:
            return self.before[1]
        self.before = shapes, result
        return result

    def close(self):
        self.session = None


class Right:
    def run(self, model, feeds):
        return Session(model).run(feeds)


class Picky:
    def run(self, model, feeds):
        if b"GatherND" in model:
            raise NotImplementedError("no GatherND")
        return Session(model).run(feeds)


class Nothing:
    def run(self, model, feeds):
        raise NotImplementedError("nothing")


class Provider:
    name = "stale"

    def open(self, model, setup):
        return Session(model)

    def run(self, model, feeds):
        return Session(model).run(feeds)
'''


@pytest.fixture
def stale(tmp_path, monkeypatch):
    """The name of a provider with a planted fault, in the current directory."""
    (tmp_path / "stale_provider.py").write_text(PROVIDER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "stale_provider:Provider"


def test_every_count_is_kept():
    """run.json holds each count of a search, so that a resumed search goes on with all of them."""
    assert {field.name for field in fields(Progress)} - {"finds", "stopped"} == {field.name for field in fields(Counts)}


def test_what_known_defects_show():
    """Known defects of this device and version are left out, in each kind in which a sequence shows them."""
    opened = SimpleNamespace(directml=True, device_class="emulated", version="1.24.4")
    reversing = {known.kind for known in _shipped(opened) if known.needs == (frozenset({"ReverseSequence"}),)}
    assert {"silent", "hang"} == reversing
    assert [] == _shipped(SimpleNamespace(directml=True, device_class="hardware", version="1.24.4"))


@pytest.mark.parametrize(
    "kind, text",
    [
        ("silent", "run 3: the outputs must be y, got none"),
        ("silent", "run 3: y must be FLOAT32, got INT64"),
        ("silent", "run 3: y must be [1, 2], got [1, 3]: 1 of 2 elements are the first half of the input"),
        ("refusal", "open: Model.cpp(7): 80004002 No such interface supported."),
        ("crash", "the worker process ended with exit code 3 while releasing a binding"),
        ("hang", "the provider gave no answer for 60 s while creating the session"),
        ("growth", "memory grows by 12.0 KiB with each repetition"),
    ],
)
def test_what_no_known_defect_shows(kind, text):
    """A plan with the features of a known defect that fails in another way is a find."""
    opened = SimpleNamespace(directml=True, device_class="emulated", version="1.24.4")
    failure = Failure(kind=kind, text=text, signature="", at=0)

    assert [] == [known for known in _shipped(opened) if known.describes(failure)]


def test_other_wrong_values():
    """Zeros are not what a gate with the wrong half gives, and other values are not what a Cast to truth gives."""
    opened = SimpleNamespace(directml=True, device_class="emulated", version="1.24.4")
    shown = {
        text: {
            known.needs[0]
            for known in _shipped(opened)
            if known.describes(Failure(kind="silent", text=text, signature="", at=0))
        }
        for text in ("elements are zeros", "elements are other values")
    }
    gate, truth = frozenset({"Split", "Sigmoid", "Mul"}), frozenset({"piece:cast-to-truth"})
    assert gate in shown["elements are other values"] - shown["elements are zeros"]
    assert truth in shown["elements are zeros"] - shown["elements are other values"]


class TestFuzz:
    """The command, in this process."""

    def test_nothing_found(self, capsys):
        """On the CPU EP nothing is found: exit code 0, and two lines on stdout: what ran, and what never did."""
        assert 0 == cli.main(["fuzz", "--provider", "cpu", "--seconds", "1"])
        out, err = capsys.readouterr()
        assert out.count("\n") == 2
        assert re.search(r"sequences on CPUExecutionProvider in \d+ s: 0 found", out)
        assert "" == err

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "feature"),
        [
            ("WrongHalf", "Sigmoid"),
            ("StaleSequenceSize", "ConcatFromSequence"),
            ("SkipsEmpty", "zero"),
            ("SkipsOthersNodes", "several-runs"),
            ("NotWritten", "preallocated"),
            ("KeepsEachRun", "several-outputs"),
            ("NeedsBias", "Gemm"),
            ("OldVersions", "versions"),
            ("LosesInner", "activated"),
            ("FourDimensions", "ranks"),
            ("Saturates", "extremes"),
            ("BoundOnce", "varying"),
            ("StatesOnce", "recurrent"),
            ("TakesAnything", "wrong-call"),
            ("TakesAnyUpdate", "wrong-update"),
            ("IgnoresGaps", "strided"),
            ("MixesRuns", "one-session"),
        ],
    )
    def test_planted(self, name, feature, monkeypatch, capsys):
        """A planted fault of each kind is found in under a minute, and its find needs what the fault needs."""
        monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
        seed = "2" if name == "BoundOnce" else "1"  # with seed 1 it is found in the last seconds
        arguments = ["fuzz", "--provider", f"planted_graph_faults:{name}", "--seconds", "60", "--seed", seed, "--json"]
        assert 1 == cli.main(arguments)
        finds = json.loads(capsys.readouterr().out)["finds"]
        kind = "growth" if name == "KeepsEachRun" else "silent"
        assert feature in finds[0]["variant"]
        assert kind == finds[0]["kind"]
        # The provider is the CPU EP. Where that has no kernel of a narrow type (DepthToSpace of FLOAT16), it loses the
        # bits of a NaN.
        others = [find for find in finds if find["kind"] != kind]
        assert all(find["kind"] == "silent" and "narrow" in find["variant"] for find in others)

    @pytest.mark.slow
    def test_found(self, stale, capsys, tmp_path):
        """A find has its steps, and a program; stdout is one document, and the exit code is 1."""
        arguments = ["fuzz", "--provider", stale, "--seconds", "20", "--seed", "5", "--json", "--report", "finds"]
        assert 1 == cli.main(arguments)
        document = json.loads(capsys.readouterr().out)
        assert ["seed", "seconds", "sequences", "covered", "probes", "finds", "coverage", "unproven"] == list(document)
        assert all(2 == len(pair) for pair in document["unproven"])
        assert {"operator", "placement", "form", "way", "plans"} == set(document["coverage"][0])
        assert 5 == document["seed"]
        find = document["finds"][0]
        seen, smallest = ["id", "kind", "text"], ["variant", "models", "steps", "program"]
        assert [*seen, *smallest, "works", "side", "oracle", "odd", "made_by", "seconds"] == list(find)
        assert ["the CPU EP"] == find["works"]
        assert "silent" == find["kind"]
        assert find["text"].endswith("(step 3)")
        assert ["1. create session", "2. run", "3. run"] == [step.rpartition(" s")[0] for step in find["steps"]]
        program = tmp_path / find["program"]
        assert 1 == subprocess.run([sys.executable, str(program)], capture_output=True).returncode
        ended = subprocess.run([sys.executable, "-I", str(program), "CPUExecutionProvider"], capture_output=True)
        assert 0 == ended.returncode

    @pytest.mark.slow
    @pytest.mark.parametrize(("name", "code"), [("Picky", 0), ("Nothing", 1)])
    def test_unsupported(self, stale, name, code, capsys):
        """What a provider does not support is counted. If it supports nothing, the search shows nothing."""
        assert code == cli.main(["fuzz", "--provider", f"stale_provider:{name}", "--seconds", "2"])
        assert re.search(r" in \d+ s: 0 found; \d+ are not supported", capsys.readouterr().out)

    @pytest.mark.slow
    def test_resume(self, capsys, tmp_path):
        """A search goes on with its own seed, at the next sequence; another seed is refused."""
        folder = str(tmp_path / "finds")
        common = ["fuzz", "--provider", "cpu", "--json"]
        assert 0 == cli.main([*common, "--seconds", "1", "--seed", "9", "--report", folder])
        first = json.loads(capsys.readouterr().out)
        before = json.loads((tmp_path / "finds" / "run.json").read_text(encoding="utf-8"))
        assert before["progress"]["next"] >= first["sequences"] > 0
        assert 0 == cli.main([*common, "--seconds", "2", "--resume", folder])
        second = json.loads(capsys.readouterr().out)
        assert (9, True) == (second["seed"], second["sequences"] > first["sequences"])
        assert 2 == cli.main([*common, "--resume", folder, "--seed", "8"])
        assert "same seed: 9, got 8" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--provider", "fault:none"], "takes cases in place of models: opmap fuzz needs dml, cpu"),
            (["--provider", "nobody"], "--provider must be one of"),
            (["--seconds", "0"], "must be a number of seconds"),
            (["--seed", "-1"], "must be a whole number from 0 on, got '-1'"),
            (["--resume", "nowhere", "--provider", "cpu"], "--resume must be the folder of an interrupted run"),
            (["--resume", "a", "--report", "b"], "not allowed with argument"),
        ],
    )
    def test_bad_usage(self, arguments, message, capsys):
        """One line on stderr, and exit code 2."""
        assert 2 == cli.main(["fuzz", *arguments])
        err = capsys.readouterr().err
        assert message in err
        assert 1 == err.count("\n")

    def test_a_folder_that_is_full(self, tmp_path, capsys):
        """--report never mixes two searches."""
        (tmp_path / "file").write_text("", encoding="utf-8")
        assert 2 == cli.main(["fuzz", "--provider", "cpu", "--report", str(tmp_path)])
        assert "must be a new or empty folder" in capsys.readouterr().err


class TestPrinted:
    """What the terminal shows of a search."""

    def find(self, **changes) -> Find:
        node = Node(op="p", inputs=("x",), outputs=("y",), lines=("y = Softmax(x)",), formal=("x",), results=("y",))
        source = Source(name="x", data_type="FLOAT32", sizes=(2,))
        plan = Plan(
            graphs=(Graph(sources=(source,), nodes=(node,), outputs=("y",)),),
            actions=(Opening(session="s"), Running(session="s", round=SeededInputs(seed=3))),
        )
        failure = Failure(kind="silent", text="y must be 1 (step 2)", signature="", at=1)
        fields = {"id": "silent-1", "kind": "silent", "text": failure.text, "number": 1, "failure": failure}
        return Find(**{**fields, "plan": plan, "needs": [["Softmax", "idioms"]], "works": ("the CPU EP",), **changes})

    def test_order(self, capsys):
        """First what a user sees, then the smallest program, what works in its place, and the side."""
        _print(Progress(finds=[self.find()]), None, "p", frozenset())
        assert [
            "silent-1: wrong values, no error: y must be 1 (step 2)",
            "  model (float[2] x) => (float[2] y) {",
            "     y = Softmax (x)",
            "  }",
            "  1. create session s",
            "  2. run s (seed 3)",
            "  needs: Softmax",
            "  works in its place: the CPU EP",
            "  side: not known",
        ] == capsys.readouterr().out.splitlines()[:9]

    def test_accepted(self, capsys):
        """What is wrong with a call that must be refused is no value."""
        failure = Failure(kind="silent", text="must be refused, got y = 1", signature="accepted", at=1)
        _print(Progress(finds=[self.find(failure=failure, text=failure.text)]), None, "p", frozenset())
        assert "silent-1: a wrong call is accepted: must be refused, got y = 1" in capsys.readouterr().out.splitlines()

    @pytest.mark.parametrize(
        ("action", "several", "expected"),
        [
            (
                Opening(session="s", setup=Setup(level=0, cpu_nodes=True)),
                True,
                "1. create session s (level 0, model 0)",
            ),
            (Putting(value="v", name="x", graph=1), False, "1. make the OrtValue v (name x, model 1)"),
            (
                Overlapping(runs=(Running(session="s"), Running(session="t"))),
                True,
                "1. run at the same time: run s, run t",
            ),
        ],
    )
    def test_steps(self, action, several, expected):
        """A step is told in words, with the model if there are several."""
        actions = (action, Opening(session="other", graph=1)) if several else (action,)
        plan = Plan(graphs=self.find().plan.graphs * 2, actions=actions)
        assert expected == steps_of(self.find(plan=plan))[0]

    def test_a_graph_that_no_step_names(self):
        """A graph that is left over from a larger plan need not be valid, and is not shown."""
        (graph,) = self.find().plan.graphs
        left_over = msgspec.structs.replace(graph, outputs=("gone",))
        plan = Plan(graphs=(left_over, graph), actions=(Opening(session="s", graph=1), Running(session="s")))
        assert ["model (float[2] x) => (float[2] y) {\n   y = Softmax (x)\n}"] == models_of(self.find(plan=plan))

    @pytest.mark.parametrize(("place", "is_told"), [("?", False), ("cpu", True)])
    def test_placement(self, place, is_told, capsys):
        """Of a provider that does not tell where nodes ran, no pair of ingredients is told as not proven."""
        _print(Progress(coverage={f"Add {place} static fused-run": 1}), None, "mine:Own", {"bind", "zero", "empty"})
        out = capsys.readouterr().out
        assert is_told == ("3 of 3 pairs" in out)
        assert is_told != ("mine:Own does not tell where nodes ran" in out)

    @pytest.mark.parametrize("has_programs", [False, True])
    def test_no_program(self, has_programs, tmp_path, capsys):
        """Of a provider that performs opmap's own steps no program is written, and a line says why."""
        folder = FindsFolder(str(tmp_path), {"provider": "p"}, "own_module:Own", seed=3)
        folder.has_programs = has_programs
        folder.add(self.find())
        folder.release()
        _print(Progress(finds=[self.find()]), folder, "Own", frozenset())
        out = capsys.readouterr().out
        assert has_programs == (tmp_path / "programs" / "silent-1.py").is_file() == ("  program: " in out)
        assert has_programs != ("  no program: Own performs opmap's own steps" in out)
        assert "model" not in json.loads((tmp_path / "finds.jsonl").read_text(encoding="utf-8"))

    def test_help(self, capsys):
        """The help offers no provider that the search refuses."""
        assert 0 == cli.main(["fuzz", "--help"])
        out = capsys.readouterr().out
        assert "MODULE:NAME" in out
        assert "directml (" not in out and " fault:" not in out


class TestFinds:
    """The folder of a search goes on with what a search wrote, and nothing else."""

    def start(self, folder) -> None:
        FindsFolder(str(folder), {"provider": "p"}, "p", seed=3).release()

    @pytest.mark.parametrize(
        "change, message",
        [
            ({"progress": {"next": "x"}}, "Expected `int`"),
            ({"progress": {"next": -1}}, "Expected `int` >= 0"),
            ({"settings": {"provider": "p", "seed": "x"}}, 'the same seed: "x"'),
            ({"settings": {"provider": "q", "seed": 3}}, 'the same provider: "q", got "p"'),
            ({"settings": {"provider": [["p"]]}}, "Expected"),
        ],
    )
    def test_bad_run(self, change, message, tmp_path):
        """A run.json that no search wrote is refused; nothing is touched."""
        self.start(tmp_path)
        run = json.loads((tmp_path / "run.json").read_bytes())
        (tmp_path / "run.json").write_text(json.dumps({**run, **change}), encoding="utf-8")
        before = (tmp_path / "run.json").read_bytes()

        with pytest.raises(InputError) as error:
            FindsFolder(str(tmp_path), {"provider": "p"}, "p", resume=True)

        assert message in str(error.value)
        assert before == (tmp_path / "run.json").read_bytes()

    def test_counts_only(self, tmp_path):
        """A run.json sets the counts, and nothing else."""
        self.start(tmp_path)
        run = json.loads((tmp_path / "run.json").read_bytes())
        run["progress"] |= {"next": 7, "finds": 5, "stopped": 5}
        (tmp_path / "run.json").write_text(json.dumps(run), encoding="utf-8")

        folder = FindsFolder(str(tmp_path), {"provider": "p"}, "p", resume=True)

        assert (7, [], None, 3) == (folder.progress.next, folder.progress.finds, folder.progress.stopped, folder.seed)
        folder.release()

    def test_foreign_id(self, tmp_path):
        """The id of a find names a file of the folder, never one elsewhere."""
        self.start(tmp_path)
        failure = {"kind": "silent", "text": "", "signature": "", "at": 0}
        find = {"id": "../x", "kind": "silent", "text": "", "number": 0, "failure": failure}
        find |= {"plan": {"graphs": [], "actions": []}, "needs": []}
        (tmp_path / "finds.jsonl").write_text(json.dumps(find) + "\n", encoding="utf-8")

        with pytest.raises(InputError, match="line 1: id must be"):
            FindsFolder(str(tmp_path), {"provider": "p"}, "p", resume=True)

    def test_second(self, tmp_path):
        """Two searches do not write into one folder at once."""
        first = FindsFolder(str(tmp_path), {"provider": "p"}, "p", seed=3)

        with pytest.raises(InputError, match="no other run"):
            FindsFolder(str(tmp_path), {"provider": "p"}, "p", resume=True)

        first.release()
