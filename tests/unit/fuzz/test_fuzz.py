"""The search: finds planted faults within few sequences, shrinks them, and goes on to the next."""

import time
from collections import Counter
from itertools import count
from math import prod

import msgspec
import numpy as np
import onnx
import onnx.parser
import pytest
from fuzz_performers import (
    CrashesAfterDrop,
    DoesNotStart,
    FailsAfterDrop,
    FailsInThirdPlan,
    Growing,
    HangsAfterDrop,
    IgnoresFedDefaults,
    PreviousRun,
    RefusesSymbols,
    Right,
    StaleValues,
    WrongSecondOutput,
)

from opmap.engines.sessions import CPU
from opmap.engines.steps import Concurrent, Get, Open, Result, Run, Setup
from opmap.fuzz import reference
from opmap.fuzz.coverage import count_pairs, unproven
from opmap.fuzz.draw_graph import draw_graph, draw_other_sizes
from opmap.fuzz.features import alike, covers, features, needed, operators
from opmap.fuzz.graphs import Graph, Node, Source, evaluate, infer
from opmap.fuzz.judging import Failure, growth_of, pairs_of, perform_plan
from opmap.fuzz.models import build_model
from opmap.fuzz.pieces import draw_piece
from opmap.fuzz.plan import (
    Binding,
    Clearing,
    Dropping,
    Getting,
    Opening,
    Overlapping,
    Plan,
    Putting,
    Running,
    RunningBound,
    SeededInputs,
    Updating,
    joined,
)
from opmap.fuzz.reference import EXACT, Invalid, Kernel, _shifted, computed
from opmap.fuzz.search import Excluded, Search, draw_sequence
from opmap.fuzz.smaller import fewer_actions, fewer_sessions, plainer_actions, smaller_graphs
from opmap.fuzz.state import planned, round_tensors
from opmap.fuzz.switches import PROBES, SWITCHES, available
from opmap.fuzz.table import pieces
from opmap.known import defects
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource
from opmap.reducer import Budget, shrink
from opmap.tensors import DataType, Tensor
from opmap.vocabulary import Stage

ALL = available("directml") | PROBES


def search(performer, *, most=400, group="runtime", **changes):
    """Returns a search on a performer that ends after `most` sequences or at the first find."""
    options = {"fresh": performer, "control": Right, "seed": 7, "seconds": 1e6, "most_sequences": most}
    made = Search(**{**options, "allowed": available(group), **changes})
    if "most_sequences" not in changes and "found" not in changes:

        def stop(find):
            made.progress.stopped = made.progress.stopped or (None if by_control(find) else "found")

        made.found = stop
    return made


def by_control(find):
    """Returns whether a find blames the CPU EP: it may crash itself, whatever the performer does."""
    return find.id.startswith("control")


def found(progress):
    """Returns the finds that do not blame the CPU EP."""
    return [find for find in progress.finds if not by_control(find)]


class TestGraphs:
    """Random graphs: valid models, with values that follow from the pseudocode."""

    def test_valid(self):
        """ONNX's checker accepts each graph whose shapes are declared."""
        checked = 0
        for seed in range(36):
            source = SeededSource(seed)
            # ONNX's inference does not know INT64 constants of the oldest versions
            graph = draw_graph(source, {name for name in SWITCHES if source.integer(0, 1)} - {"shapeless", "versions"})
            model = build_model(graph)
            if all(output.type.tensor_type.HasField("shape") for output in model.graph.output):
                onnx.checker.check_model(model, full_check=True)
                checked += 1
        assert checked >= 12

    @pytest.mark.slow
    def test_every_feature_shows(self):
        """Each switch is a feature of some plan, and each feature that a shipped defect names."""
        seen = set().union(*(f for number in range(2500) for f in features(draw_sequence(SeededSource(number), ALL))))
        assert set(SWITCHES) - seen <= {"whole"}  # INT32 and INT64
        shipped = {f for defect in defects() for sequence in defect.sequences for s in sequence for f in s.split()}
        assert shipped and shipped - seen <= {"fewer-indices"}  # one in thousands; test_fewer_indices shows it

    def test_values(self):
        """Transpose and Concat move elements as ONNX says."""
        graph = Graph(
            sources=(
                Source(name="x", data_type="INT32", sizes=(2, 3)),
                Source(name="s", data_type="INT64", sizes=(2,), kind="constant", values=(2, -1)),
            ),
            nodes=(
                Node(op="Transpose", inputs=("x",), outputs=("t",), attributes={"perm": (1, 0)}),
                Node(op="Concat", inputs=("t", "t"), outputs=("c",), attributes={"axis": 1}),
                Node(op="Reshape", inputs=("c", "s"), outputs=("r",)),
            ),
            outputs=("r",),
        )
        shape = Tensor.from_values(DataType.INT64, (2,), [2, -1])
        values = evaluate(graph, {"x": Tensor(DataType.INT32, (2, 3), [1, 2, 3, 4, 5, 6]), "s": shape})
        assert [1, 4, 1, 4, 2, 5, 2, 5, 3, 6, 3, 6] == list(values["r"].bits)
        assert (2, 6) == values["r"].sizes

    def test_every_operator(self):
        """Every operator that has nodes of ONNX is drawn, except those that compute values: pieces have them."""
        drawn = {node.op for number in range(300) for node in draw_graph(SeededSource(number), set()).nodes}
        moving = [o for o in OPERATORS.values() if not o.descriptor.spec().computes_values]
        every = {op for o in moving if o.lower and o.descriptors_of_node for op in o.onnx_operators}
        assert {"Scatter"} == every - drawn  # the old name of ScatterElements

    def test_scalar_indices(self):
        """An index is a scalar only where the CPU EP takes it, too."""
        scalars = Counter[str]()
        for number in range(100):
            graph = draw_graph(SeededSource(number), {"scalar-index"})
            sizes = {source.name: source.sizes for source in graph.sources}
            scalars.update(n.op for n in graph.nodes if not n.lines and any(sizes.get(i) == () for i in n.inputs[1:]))
        assert scalars["Gather"] > 2
        assert not scalars["ScatterElements"]

    def test_other_sizes_fit(self):
        """Other sizes, empty ones too, go through the whole graph."""
        changed = 0
        for number in range(60):
            graph = draw_graph(SeededSource(number), {"symbolic", "reshape", "concat"})
            sizes = draw_other_sizes(SeededSource(number), graph, empty=True)
            changed += bool(sizes) and any(0 in v.sizes for v in infer(graph, sizes).values())
        assert changed > 5


class TestRanks:
    """Other sizes keep the number of dimensions that the model declares for an output."""

    @pytest.mark.parametrize(
        ("dims", "sizes", "valid"), [("symbolic", (1, 1), False), ("symbolic", (3, 2), True), ("none", (1, 1), True)]
    )
    def test_of_tuples(self, dims, sizes, valid):
        """A tuple of fewer coordinates leaves more dimensions of the data."""
        sources = (
            Source(name="d", data_type="FLOAT32", sizes=(2, 2), dims=dims),
            Source(name="i", data_type="INT64", sizes=(1, 2), dims=dims),
        )
        node = Node(op="GatherND", inputs=("d", "i"), outputs=("y",), attributes={"batch_dims": 0})
        graph = Graph(sources=sources, nodes=(node,), outputs=("y",))
        if valid:
            assert (*sizes[:1], *(2,) * (2 - sizes[1])) == infer(graph, {"i": sizes})["y"].sizes
        else:
            with pytest.raises(Invalid, match="number of dimensions"):
                infer(graph, {"i": sizes})


class TestState:
    """The model of the state: what it allows, and what it expects."""

    GRAPH = Graph(
        sources=(Source(name="x", data_type="FLOAT32", sizes=(2,)),),
        nodes=(Node(op="Identity", inputs=("x",), outputs=("y",)),),
        outputs=("y",),
    )

    def steps(self, *actions):
        return planned(Plan(graphs=(self.GRAPH,), actions=(Opening(session="s"), *actions)))

    def test_bindings_of_a_captured_session_stay(self):
        """Without inputs too: a captured graph keeps the addresses of its outputs."""
        graph = msgspec.structs.replace(
            self.GRAPH, sources=(Source(name="x", data_type="FLOAT32", sizes=(2,), kind="initializer"),)
        )
        bound = [
            action
            for value in ("v", "w")
            for action in (Putting(value=value, name="y"), Binding(session="s", outputs={"y": value}))
        ]
        setup = Setup(config={"ep.dml.enable_graph_capture": "1"})
        actions = (Opening(session="s", setup=setup, replay=True), *bound[:2], RunningBound(session="s"))
        assert planned(Plan(graphs=(graph,), actions=actions))
        with pytest.raises(Invalid, match="stay"):
            planned(Plan(graphs=(graph,), actions=(*actions, *bound[2:])))

    def test_kept_output(self):
        """A kept output can be read after its session is gone."""
        *_, last = self.steps(
            Running(session="s", method="values", round=SeededInputs(seed=2), keep={"y": "v"}),
            Dropping(name="s"),
            Getting(value="v"),
        )
        assert [31.0, 32.0] == last.outputs[0]["v"].tolist()

    @pytest.mark.parametrize("wrong", ["type", "rank", "size", "sizes"])
    def test_wrong_update(self, wrong):
        """An update with as many bytes and another type, or with other sizes, must be refused."""
        graph = msgspec.structs.replace(self.GRAPH, sources=(Source(name="x", data_type="FLOAT32", sizes=(2, 3)),))
        actions = (Putting(value="v", name="x"), Updating(value="v", name="x", wrong=wrong))
        *_, update = planned(Plan(graphs=(graph,), actions=actions))
        assert "always" == update.fails
        assert (update.step.array.dtype, update.step.array.shape) != (np.float32, (2, 3))
        assert (update.step.array.nbytes == 24) == (wrong != "size")

    def test_update_with_gaps(self):
        """The array of an update may have other elements between its own; the value is the same."""
        seeded = SeededInputs(seed=2)
        *_, last = self.steps(
            Putting(value="v", name="x"), Updating(value="v", name="x", round=seeded, strided=True), Getting(value="v")
        )
        assert [31.0, 32.0] == last.outputs[0]["v"].tolist()

    def test_sources_differ(self):
        """Each source of a graph gets values of its own."""
        sources = tuple(Source(name=name, data_type="FLOAT32", sizes=(2,)) for name in "xz")
        both = Node(op="Concat", inputs=("x", "z"), outputs=("y",), attributes={"axis": 0})
        actions = (Opening(session="s"), Running(session="s", round=SeededInputs(seed=2)))
        _, run = planned(Plan(graphs=(Graph(sources=sources, nodes=(both,), outputs=("y",)),), actions=actions))
        assert [31.0, 32.0, 61.0, 62.0] == run.outputs[0]["y"].tolist()

    def test_values_in_a_smaller_graph(self):
        """A source that was cut out of a piece keeps its values if another source is left out."""
        sources = tuple(Source(name=name, data_type="FLOAT32", sizes=(2,)) for name in ("y0_b", "y0_c"))
        both, one = (msgspec.structs.replace(self.GRAPH, sources=s) for s in (sources, sources[1:]))
        tensors = [
            round_tensors(msgspec.structs.replace(graph, nodes=(), outputs=("y0_c",)), SeededInputs())
            for graph in (both, one)
        ]
        assert list(tensors[0]["y0_c"].values) == list(tensors[1]["y0_c"].values)

    @pytest.mark.parametrize(
        "actions",
        [
            (Dropping(name="s"), Running(session="s")),
            (Running(session="s", outputs=("x",)),),
            (Getting(value="v"),),
            (Putting(value="v", name="x"), Putting(value="v", name="x")),
            (Running(session="s", round=SeededInputs(sizes={"x": (3,)})),),
        ],
    )
    def test_not_allowed(self, actions):
        """A step on what is not there, or with what does not fit, is not in any plan."""
        with pytest.raises(Invalid):
            self.steps(*actions)

    def test_joined(self):
        """Two plans one after the other have the graphs of both, and nothing of the first is left for the second."""
        first = Plan(graphs=(self.GRAPH,), actions=(Opening(session="s"), Running(session="s")))
        steps = planned(joined([first, first]))
        assert ["Open", "Run", "Clear", "Open", "Run"] == [type(s.step).__name__ for s in steps]


class TestFeatures:
    """When a plan, or another find, has what a find needs."""

    def test_fed(self):
        """A default is fed with an array, or with a value that is bound or run on."""
        source = Source(name="x", data_type="FLOAT32", sizes=(2,), kind="default")
        graph = msgspec.structs.replace(TestState.GRAPH, sources=(source,))
        value = Putting(value="v", name="x", round=SeededInputs(fed=("x",)))
        for fed, *actions in (
            (False, Running(session="s")),
            (True, Running(session="s", round=SeededInputs(fed=("x",)))),
            (True, value, Running(session="s", method="values", values={"x": "v"})),
            (True, value, Binding(session="s", values={"x": "v"}, outputs={"y": "cpu"}), RunningBound(session="s")),
        ):
            (session,) = features(Plan(graphs=(graph,), actions=(Opening(session="s"), *actions)))
            assert fed == ("fed" in session)

    @pytest.mark.parametrize("devices", [False, True])
    def test_shared_queue(self, devices):
        """Sessions that run at the same time share a queue, unless each has one of its own."""
        names, setup = ("s", "t"), Setup(devices=devices)
        runs = Overlapping(runs=tuple(Running(session=name) for name in names))
        plan = Plan(graphs=(TestState.GRAPH,), actions=(*(Opening(session=n, setup=setup) for n in names), runs))
        assert [not devices] * 2 == ["shared-queue" in session for session in features(plan)]

    def test_dropped_bound(self):
        """A session is closed with a binding that did not run by Dropping, and by a Clearing if more follows."""
        bound = (Opening(session="s"), Binding(session="s", outputs={"y": "cpu"}))
        more = (Clearing(), Opening(session="s"))
        for dropped, *actions in (
            (False, *bound),
            (True, *bound, Dropping(name="s")),
            (True, *bound, *more),
            (False, *bound, RunningBound(session="s"), *more),
        ):
            session, *_ = features(Plan(graphs=(TestState.GRAPH,), actions=tuple(actions)))
            assert dropped == ("dropped-bound" in session)

    @pytest.mark.parametrize(("place", "first"), [("cpu", True), ("device", False)])
    def test_first_value_on_the_device(self, place, first):
        """An output on the device is the first value there, unless one was put there. A value on the host is none."""
        actions = (
            Opening(session="s"),
            Putting(value="v", name="x", place=place),
            Binding(session="s", values={"x": "v"}, outputs={"y": "device"}),
        )
        (session,) = features(Plan(graphs=(TestState.GRAPH,), actions=actions))
        assert first == ("first-device-value" in session)

    @pytest.mark.parametrize(("sizes", "expected"), [({}, False), ({"x": (5, 2)}, False), ({"x": (4, 3)}, True)])
    def test_fewer_indices(self, sizes, expected):
        """In this run the indices have fewer sizes than the data beside the axis, which DirectML refuses."""
        (piece,) = (p for p in pieces() if p.name == "scatter-old")
        sources = tuple(
            Source(name=name, data_type=data_type, sizes=of_source, dims="symbolic")
            for name, data_type, of_source in (
                ("x", "FLOAT32", (4, 2)),
                ("i", "INT64", (1, 2)),
                ("u", "FLOAT32", (1, 2)),
            )
        )
        node = Node(
            op=piece.name,
            inputs=("x", "i", "u"),
            outputs=("y",),
            lines=piece.lines,
            formal=("x", "i", "u"),
            results=("y",),
            opset=9,
        )
        graph = Graph(sources=sources, nodes=(node,), outputs=("y",))
        running = Running(session="s", round=SeededInputs(sizes=sizes))
        (session,) = features(Plan(graphs=(graph,), actions=(Opening(session="s"), running)))
        assert expected == ("fewer-indices" in session)

    @pytest.mark.parametrize(
        ("find", "plan", "expected"),
        [
            (["a b"], ["a b c"], True),
            (["a b"], ["a", "b"], False),
            (["a", "b"], ["c", "a b"], True),
            (["a"], [], False),
            ([""], ["a"], False),
        ],
    )
    def test_covers(self, find, plan, expected):
        """Each session of the find is in some session of the plan; a find that needs nothing covers nothing."""
        assert expected == covers(*(tuple(frozenset(one.split()) for one in side) for side in (find, plan)))

    @pytest.mark.parametrize(
        ("one", "other", "expected"),
        [
            (["a b c"], ["a b d"], True),
            (["a b c d"], ["a b e"], False),
            (["a c"], ["a d"], False),
            (["a b", "a b"], ["a b"], False),
        ],
    )
    def test_alike(self, one, other, expected):
        """Two finds that share two features and differ in one are one find."""
        assert expected == alike(*(tuple(frozenset(s.split()) for s in side) for side in (one, other)))


class TestGrowth:
    """Memory that a process holds more of with each repetition."""

    PLAN = Plan(graphs=(TestState.GRAPH,), actions=(Opening(session="s"), Running(session="s")))

    @pytest.mark.parametrize(
        ("kind", "kept", "expected"),
        [
            (Open, 16, "with each repetition"),
            (Run, 16, "with each repetition"),
            (Run, 4, "with each repetition of the runs"),
            (Get, 16, ""),
        ],
    )
    def test_signature(self, kind, kept, expected):
        """What grows although all is released is told apart from what only the runs show."""
        failure = growth_of(self.PLAN, Growing(kind, kept))
        assert expected == (failure.signature if failure else "")

    def test_amount(self):
        """The text says how much each repetition adds."""
        text = "memory grows by 16.0 KiB with each repetition (after each 20: 320, 320, 320, 320 KiB)"
        assert text == growth_of(self.PLAN, Growing(Run, 16)).text

    def test_profile(self):
        """A profile holds more after each run, as it should."""
        opening = Opening(session="s", setup=Setup(profile=True))
        plan = msgspec.structs.replace(self.PLAN, actions=(opening, Running(session="s")))
        assert growth_of(plan, Growing(Run, 16)) is None

    def test_cut_off(self):
        """A repetition that the end of the search cuts off says nothing."""
        checks = count()
        assert growth_of(self.PLAN, Growing(Run, 16), is_over=lambda: next(checks) > 80) is None
        assert 82 == next(checks)

    def test_up_and_down(self):
        """Memory that an allocator gives back now and then does not grow."""
        assert growth_of(self.PLAN, Growing(Run, 16, given_back=60)) is None


class TestSmaller:
    """The reductions of a failing plan."""

    GRAPH = Graph(
        sources=(Source(name="x", data_type="FLOAT16", sizes=(2, 4), dims="symbolic"),),
        nodes=(
            Node(op="Identity", inputs=("x",), outputs=("i",)),
            Node(
                op="gate",
                inputs=("i",),
                outputs=("y",),
                lines=("a, c = Split<axis = -1>(x)", "b = Sigmoid(a)", "r = Mul(b, c)"),
                formal=("x",),
                results=("r",),
                function=True,
            ),
        ),
        outputs=("y", "i"),
        odd=True,
    )

    def smallest(self, fails, graph=GRAPH):
        setup = Setup(config={"ep.dml.disable_graph_fusion": "1"}, level=0)
        runs = [Running(session="s", round=SeededInputs(seed=seed)) for seed in (1, 99)]
        plan = Plan(graphs=(graph,), actions=(Opening(session="s", setup=setup), *runs))

        def fails_if_allowed(candidate):
            try:
                planned(candidate)
            except Invalid:
                return False
            return fails(candidate)

        return shrink(plan, fails_if_allowed, (fewer_actions, smaller_graphs, plainer_actions), key=repr)

    def test_everything(self):
        """Of a failure that every plan with a run shows, the simplest plan with a run is left."""
        plan = self.smallest(lambda plan: any(isinstance(action, Running) for action in plan.actions))
        (graph,) = plan.graphs
        assert 1 == len(graph.nodes)
        assert 2 == len(plan.actions)
        assert (False, "static", "FLOAT32", (1,)) == (
            graph.odd,
            graph.sources[0].dims,
            graph.sources[0].data_type,
            tuple(set(graph.sources[0].sizes)),
        )
        assert Setup(cpu_nodes=True) == plan.actions[0].setup

    def test_some_operator(self):
        """Of a failure that needs a node, but no Identity, a Concat of one input is left, and no operator is needed."""

        def fails(plan):
            return any(node.op != "Identity" for graph in plan.graphs for node in graph.nodes)

        plan = self.smallest(fails)
        (graph,) = plan.graphs
        assert [("Concat", 1)] == [(node.op, len(node.inputs)) for node in graph.nodes]
        assert (frozenset(),) == needed(plan)

    def test_what_bindings_name(self):
        """A node that is left out takes with it what the actions say of its inputs and outputs."""
        sources = tuple(Source(name=name, data_type="FLOAT32", sizes=(2,), dims="symbolic") for name in "xz")
        nodes = tuple(Node(op="Identity", inputs=(i,), outputs=(o,)) for i, o in (("x", "y"), ("z", "w")))
        round = SeededInputs(sizes={"x": (3,), "z": (3,)})
        names = [("vx", "x"), ("vz", "z"), ("vy", "y"), ("vw", "w")]
        before = Plan(
            graphs=(Graph(sources=sources, nodes=nodes, outputs=("y", "w")),),
            actions=(
                Opening(session="s"),
                *(Putting(value=value, name=name, round=round) for value, name in names),
                Binding(session="s", round=round, values={"x": "vx", "z": "vz"}, outputs={"y": "vy", "w": "vw"}),
                RunningBound(session="s"),
                Getting(value="vw"),
            ),
        )

        def fails(plan):
            return any(isinstance(a, Binding) and "x" in a.values and "y" in a.outputs for a in plan.actions)

        for smaller in smaller_graphs(before):
            if fails(smaller) and len(smaller.graphs[0].nodes) == 1:
                steps = planned(smaller)
                break
        assert ["Open", "Put", "Put", "Bind", "RunBound"] == [type(each.step).__name__ for each in steps]

    def test_a_pair_of_lines(self):
        """The lines that a failure does not need are left out; what they made is an input."""

        def fails(plan):
            lines = [line for graph in plan.graphs for node in graph.nodes for line in node.lines]
            return {"a, c = Split<axis = -1>(x)", "r = Mul(b, c)"} <= set(lines)

        (graph,) = self.smallest(fails).graphs
        (node,) = graph.nodes
        assert ("a, c = Split<axis = -1>(x)", "r = Mul(b, c)") == node.lines
        assert {"x", "b"} == set(node.formal)

    def test_what_nothing_needs(self):
        """Of two operators in a row neither the output between them nor an attribute is left."""
        lines = ("s = Softmax<axis = -1>(x)", "activated = Relu(s)")
        node = Node(op="p", inputs=("x",), outputs=("y", "y_1"), lines=lines, formal=("x",), results=("activated", "s"))
        graph = Graph(sources=self.GRAPH.sources, nodes=(node,), outputs=("y",))
        (smallest,) = self.smallest(lambda plan: operators(plan) == [["Relu", "Softmax"]], graph).graphs
        assert ("s = Softmax(x)", "activated = Relu(s)") == smallest.nodes[0].lines
        assert ("activated",) == smallest.nodes[0].results

    def test_an_input_that_nothing_needs(self):
        """Of three inputs of a Concat two are left if the failure needs two."""
        node = Node(op="Concat", inputs=("x", "x", "x"), outputs=("y",), attributes={"axis": 0})
        graph = Graph(sources=self.GRAPH.sources, nodes=(node,), outputs=("y",))

        def fails(plan):
            return any(node.op == "Concat" and len(node.inputs) > 1 for node in plan.graphs[0].nodes)

        (smallest,) = self.smallest(fails, graph).graphs
        assert ("x", "x") == smallest.nodes[0].inputs

    def test_a_node_of_several_outputs(self):
        """A node of which one output is read passes on its input, if the failure is there without it."""
        node = Node(op="Split", inputs=("x",), outputs=("y", "z"), attributes={"axis": 0})
        graph = Graph(sources=self.GRAPH.sources, nodes=(node,), outputs=("z",))
        (smallest,) = self.smallest(lambda plan: "z" in plan.graphs[0].outputs, graph).graphs
        assert [("Identity", ("z",))] == [(node.op, node.outputs) for node in smallest.nodes]

    def test_what_a_node_needs(self):
        """An attribute of a node is left out if the failure is there without it."""
        node = Node(op="Transpose", inputs=("x",), outputs=("y",), attributes={"perm": (1, 0)})
        graph = Graph(sources=self.GRAPH.sources, nodes=(node,), outputs=("y",))
        (smallest,) = self.smallest(lambda plan: operators(plan) == [["Transpose"]], graph).graphs
        assert {} == smallest.nodes[0].attributes

    def test_sessions(self):
        """A crash that needs four of seven sessions is shrunk to them in few trials: sessions are left out whole."""
        graph = TestState.GRAPH
        names = [f"s{number}" for number in range(7)]
        runs = [Running(session=name, round=SeededInputs(seed=seed)) for seed in (1, 2, 3) for name in names]
        plan = Plan(graphs=(graph,), actions=(*(Opening(session=name) for name in names), *runs))
        tried = []

        def fails(candidate):
            tried.append(candidate)
            opened = [a.session for a in candidate.actions if isinstance(a, Opening)]
            ran = {a.session for a in candidate.actions if isinstance(a, Running)}
            return len(opened) >= 4 and opened[0] in ran

        smallest = shrink(plan, fails, (fewer_sessions, fewer_actions), key=repr)
        assert ["Opening"] * 4 + ["Running"] == [type(action).__name__ for action in smallest.actions]
        assert len(tried) < 60

    def test_pairs(self):
        """Where all three answers differ, the operators are named of which one reads what the other makes."""
        plan = Plan(
            graphs=(msgspec.structs.replace(self.GRAPH, nodes=self.GRAPH.nodes[1:], outputs=("y",)),), actions=()
        )
        graph = msgspec.structs.replace(plan.graphs[0], sources=(Source(name="i", data_type="FLOAT32", sizes=(2, 4)),))
        nodes = tuple(msgspec.structs.replace(node, function=False) for node in graph.nodes)
        plan = Plan(graphs=(msgspec.structs.replace(graph, nodes=nodes),), actions=())
        assert "Split -> Sigmoid, Sigmoid -> Mul, Split -> Mul" == pairs_of(plan)
        assert "Identity" == pairs_of(Plan(graphs=(TestState.GRAPH,), actions=()))

    @pytest.mark.parametrize(("trials", "seconds", "tried"), [(5, 1e9, 5), (1500, 9.5, 9)])
    def test_budget(self, trials, seconds, tried):
        """Trials and seconds are limits; what was reached until then still fails."""
        plans, clock = [], count()
        before = joined(draw_sequence(SeededSource(seed), ALL) for seed in (3, 4, 5))

        def fails(plan):
            plans.append(plan)
            return len(plan.actions) >= 4

        budget = Budget(trials, seconds, lambda: float(next(clock)))
        smallest = shrink(before, fails, (fewer_actions, smaller_graphs), key=repr, budget=budget)
        assert tried == len(plans)
        assert 4 <= len(smallest.actions) < len(before.actions)


def test_where_the_control_is_lost(monkeypatch):
    """A crash of the CPU EP is told of the fewest first nodes that crash, with the inputs that they read."""
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[1] x, float[1] z) => (float[1] y) { a = Neg(x) b = Tanh(a) y = Add(b, z) }"""
    model, array = onnx.parser.parse_model(text).SerializeToString(), np.zeros(1, np.float32)

    def run(model, feeds):
        lost = reference.ControlLost("ended", model, feeds)
        if "Tanh" in lost.operators:
            reference._reference.losses.append(lost)
            raise lost

    monkeypatch.setattr(reference._reference, "run", run)
    monkeypatch.setattr(
        reference._reference, "losses", [reference.ControlLost("ended", model, {"x": array, "z": array})]
    )
    (lost,) = reference.take_losses()
    assert ("Neg, Tanh", ["x"]) == (lost.operators, list(lost.feeds))
    graph = onnx.load_from_string(lost.model).graph
    assert (["x"], ["b"]) == ([value.name for value in graph.input], [value.name for value in graph.output])


@pytest.mark.parametrize("sizes", [(), (1,), (2, 2)])
def test_shifted(sizes):
    """What is off by a width is an array again, of the same type and sizes: it is fed to a session."""
    shifted = _shifted(np.ones(sizes, np.float32), 0.25, 1)
    assert isinstance(shifted, np.ndarray)
    assert (np.float32, sizes) == (shifted.dtype, shifted.shape)
    assert ({0.75, 1.25} >= set(shifted.ravel().tolist())) and 1.0 not in shifted


def test_how_many_are_zero():
    """A number that another way of computing may give as 0 decides no size: on DirectML a Softplus of -32 is 0."""
    kernel = Kernel(op="", attributes=(), inputs=("x",), outputs=("y",), lines=("y = NonZero(x)",))
    tensors = [Tensor.from_values(DataType.FLOAT32, (2,), [7e-15, 17.5])]
    (found,), _ = computed(kernel, tensors, [0.0])
    assert (1, 2) == found.sizes
    with pytest.raises(Invalid, match="rounding"):
        computed(kernel, tensors, [0.002])


@pytest.mark.parametrize(("inner", "is_exact"), [("Tanh", False), ("Neg", True)])
def test_a_jump_behind_what_rounds(inner, is_exact):
    """A ThresholdedRelu of 1.0000004 and one of 1 differ by 1: it says nothing of a number that was rounded."""
    lines = (f"v = {inner}(x)", "y = ThresholdedRelu(v)")
    kernel = Kernel(op="", attributes=(), inputs=("x",), outputs=("y",), lines=lines)
    tensors = [Tensor.from_values(DataType.FLOAT32, (1,), [-12.0])]
    if is_exact:
        ((found,), _) = computed(kernel, tensors, [0.0])
        assert [12.0] == list(found.values)
    else:
        with pytest.raises(Invalid, match="rounding"):
            computed(kernel, tensors, [0.0])


def test_a_recurrent_node_over_nothing():
    """The CPU EP leaves memory unwritten if a recurrent node has an empty input: no value is expected."""
    kernel = Kernel(
        op="", attributes=(), inputs=tuple("xwr"), outputs=("y",), lines=("y = RNN<hidden_size = 2>(x, w, r)",)
    )
    for size in (1, 0):
        sizes = (5, 3, size), (1, 2, size), (1, 2, 2)
        tensors = [Tensor.from_values(DataType.FLOAT32, each, [0.5] * prod(each)) for each in sizes]
        if size:
            assert (5, 1, 3, 2) == computed(kernel, tensors, [0.0] * 3)[0][0].sizes
        else:
            with pytest.raises(Invalid, match="memory"):
                computed(kernel, tensors, [0.0] * 3)


@pytest.mark.parametrize("lines", ["y = Selu(x)", "y = Abs(x)"])
def test_a_zero_may_have_each_sign(lines):
    """What a node computes of zeros alone has a tolerance too, in which -0 and 0 are one."""
    kernel = Kernel(op="", attributes=(), inputs=("x",), outputs=("y",), lines=(lines,))
    _, (width,) = computed(kernel, [Tensor.from_values(DataType.FLOAT32, (1,), [-0.0])], [0.0])
    assert EXACT == width


def test_pieces_with_sizes_of_0():
    """Each piece is drawn with sizes from 0 on: also the size that limits an index may be 0."""
    drawn = [draw_piece(p, SeededSource(n), DataType.FLOAT32, lowest=0) for p in pieces() for n in range(20)]
    assert any(0 in source.sizes for _, sources in drawn for source in sources)


class TestSearch:
    """What the search finds, and what it does with it."""

    def test_the_time_bounds_the_shrinking(self):
        """A failure is shrunk in half of a third of the time. Later, what was kept of it is shrunk to the end."""
        ticks = count()
        made = search(PreviousRun, seed=7, seconds=30, clock=lambda: next(ticks))
        progress = made.run()
        find = found(progress)[0]
        assert find.unshrunk
        assert progress.seconds <= 33  # a reading of the clock is a second
        assert progress.shrinking <= 30 / 3 + 3
        made.clock = time.monotonic
        made.shrink_finds()
        shrunk = next(other for other in progress.finds if other.id == find.id)
        assert (find.id, False) == (shrunk.id, shrunk.unshrunk)
        size = [len(msgspec.json.encode(one.plan)) for one in (shrunk, find)]
        assert size[0] < size[1]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("performer", "kind", "length", "nodes", "feature"),
        [
            (PreviousRun, "silent", 3, 1, "several-runs"),
            (IgnoresFedDefaults, "silent", 2, 1, "fed"),
            (FailsAfterDrop, "refusal", 4, 1, "newer-dropped"),
            (CrashesAfterDrop, "crash", 4, 1, "newer-dropped"),
            (StaleValues, "silent", 4, 2, "read-value"),
            (WrongSecondOutput, "silent", 2, 2, "several-outputs"),
            (RefusesSymbols, "refusal", 1, 1, "symbolic"),
        ],
    )
    def test_planted(self, performer, kind, length, nodes, feature):
        """Each planted fault is found, with its kind, and shrunk to the fewest steps that show it."""
        (find,) = found(search(performer).run())
        assert kind == find.kind
        assert length == len(find.plan.actions), find.plan.actions
        assert feature in set().union(*find.features)
        assert nodes >= len([node for graph in find.plan.graphs for node in graph.nodes])

    def test_what_needs_less(self):
        """A find that needs less takes the place of those that need more, and ids stay different."""
        made = search(PreviousRun, most_sequences=12)
        (find,) = found(made.run())
        finds = made.progress.finds
        less, more = (
            ([*session, "few"] for session in find.needs),
            ([*session, "few", "a", "b"] for session in find.needs),
        )
        finds[:] = [msgspec.structs.replace(find, id="silent-1", needs=list(more))]
        finds.append(msgspec.structs.replace(find, id="silent-3", needs=[[*s, "few", "c", "d"] for s in find.needs]))
        made._add(msgspec.structs.replace(made._find(1, find.plan, find.failure), needs=list(less)))
        assert 1 == len(finds)
        finds[:] = [msgspec.structs.replace(find, id="silent-2")]
        assert "silent-3" == made._find(1, find.plan, find.failure).id

    def test_one_operator_of_several_pieces(self):
        """Two finds of the same operator and steps are one, whatever pieces of the table they are from."""
        made = search(Right)
        failure = Failure(kind="silent", text="", signature="wrong values", at=1)
        lines = {"lines": ("y = Transpose(x)",), "formal": ("x",), "results": ("y",)}
        pieces = {"causal": lines, "softmax": lines, "softmax-flattened": lines, "Transpose": {}}
        for op, fields in pieces.items():
            node = Node(op=op, inputs=("x",), outputs=("y",), **fields)
            graph = msgspec.structs.replace(TestState.GRAPH, nodes=(node,))
            plan = Plan(graphs=(graph,), actions=(Opening(session="s"), Running(session="s")))
            made._add(made._find(1, plan, failure))
        assert 1 == len(made.progress.finds)

    def test_what_the_same_package_shows(self):
        """A failure that the CPU EP of the provider's own package shows too is no find, and is not shrunk."""
        made, shrunk = search(PreviousRun, sibling=PreviousRun, most_sequences=12), []
        made._shrink = lambda *find: shrunk.append(find)
        progress = made.run()
        assert ([], True, []) == (found(progress), progress.both > 0, shrunk)

    def test_what_the_same_package_shows_of_the_smallest(self):
        """A failure of which it shows only what is left after shrinking is no find either."""
        made, asked = search(PreviousRun, most_sequences=12), []
        made._fails_beside = lambda plan, failure: asked.append(plan) or len(asked) % 2 == 0
        progress = made.run()
        assert ([], len(asked) / 2) == (found(progress), progress.both)
        assert asked

    def test_what_needs_earlier_plans(self):
        """A failure that needs what happened before in the process is found with just so much of it."""
        (find,) = found(search(FailsInThirdPlan).run())
        assert ["Clearing", "Clearing", "Opening", "Running"] == [type(a).__name__ for a in find.plan.actions]
        assert find.stable

    def test_what_needs_nothing(self):
        """A failure of nearly every plan is one find, and needs no feature."""
        progress = search(FailsInThirdPlan, most_sequences=40).run()
        (find,) = found(progress)
        assert not any(find.features)
        assert progress.duplicates > 5

    def test_what_a_known_defect_needs(self):
        """It is drawn at most one time in ten, and a part of it is drawn as often as before."""
        needs = ("several-outputs inner-output", "bind newer-dropped", "arithmetic")
        known = [Excluded("silent", (frozenset(each.split()),), ["no text"]) for each in needs]
        drawn = [plan for plan in map(search(Right, excluded=known).draw, range(60)) if plan]
        found_features = [features(plan) for plan in drawn]
        assert 60 == len(drawn)
        assert sum(any(covers(each.needs, f) for each in known) for f in found_features) <= 6
        assert any("bind" in f[0] for f in found_features) and any("several-outputs" in f[0] for f in found_features)

    def test_pairs_of_ingredients(self):
        """A pair is proven if a node ran on the provider: on the DirectML EP one on the CPU EP proves nothing."""
        pairs, found_features = {}, (frozenset({"bind", "symbolic", "chain"}),)
        count_pairs(pairs, found_features, {"s": (("Add", CPU),)}, True)
        assert {} == pairs
        assert [("bind", "symbolic")] == unproven(pairs, {"bind", "symbolic"})
        count_pairs(pairs, found_features, {"s": (("Add", "DmlExecutionProvider"),)}, True)
        assert {"bind symbolic": 1} == pairs
        assert [] == unproven(pairs, {"bind", "symbolic"})

    def test_one_session_on_two_threads(self):
        """On the DirectML EP, whose documentation does not allow it, it is recorded and no find."""

        class Mixes(Right):
            def perform(self, step, limit=None):
                if isinstance(step, Concurrent):
                    return Result(error="two threads", stage=None)
                return super().perform(step, limit)

        runs = Overlapping(runs=(Running(session="s"), Running(session="s")))
        plan = Plan(graphs=(TestState.GRAPH,), actions=(Opening(session="s"), runs))
        for three, finds in ((True, 0), (False, 1)):
            made = search(Mixes, three=three, most_sequences=3)
            made.draw = lambda number: plan
            progress = made.run()
            assert finds == len(found(progress))
            assert ({"one session on two threads refusal": 3} if three else {}) == progress.probes

    @pytest.mark.slow
    def test_goes_on_to_the_next(self):
        """A second fault is found beside the first, and neither is found twice."""

        class Both(RefusesSymbols, IgnoresFedDefaults):
            pass

        finds = found(search(Both, most=250, most_sequences=250).run())
        assert {"refusal", "silent"} == {find.kind for find in finds}
        assert 2 == len(finds), [find.needs for find in finds]

    def test_what_the_control_refuses(self):
        """A refusal is no find if the CPU EP refuses the same."""
        progress = search(RefusesSymbols, most=60, most_sequences=60, control=RefusesSymbols).run()
        assert [] == found(progress)
        assert progress.both > 3

    def test_what_a_refused_session_hides(self):
        """A session that the CPU EP refuses to create hides no failure, and no likeness, of another session."""

        class FailsInT(Right):
            def perform(self, step, limit=None):
                if isinstance(step, Run) and step.session == "t":
                    return Result(error="it is planted", stage=Stage.RUN)
                return super().perform(step, limit)

        class Both(RefusesSymbols, FailsInT):
            pass

        source = Source(name="x", data_type="FLOAT32", sizes=(2,), dims="symbolic")
        graphs = (msgspec.structs.replace(TestState.GRAPH, sources=(source,)), TestState.GRAPH)
        actions = (Opening(session="s"), Opening(session="t", graph=1), Running(session="t"))
        plan = Plan(graphs=graphs, actions=actions)
        made = search(FailsInT, control=RefusesSymbols, most_sequences=1)
        made.draw = lambda number: plan
        (find,) = found(made.run())
        assert ("refusal", 1) == (find.kind, len(find.plan.graphs))
        failure = perform_plan(plan, FailsInT())
        assert [True, False] == [search(Right, sibling=each)._fails_beside(plan, failure) for each in (Both, Right)]

    def test_dangerous(self):
        """Where a hang is dangerous, it ends the search, and is not run again."""
        progress = search(HangsAfterDrop, most_sequences=400, keep_on=False).run()
        assert "--rerun-dangerous" in progress.stopped
        assert ["hang"] == [find.kind for find in found(progress)]

    def test_a_hang_for_which_no_time_is_left(self):
        """It is a find that is not run again, and can be shrunk later."""
        hangs = []

        class Counted(HangsAfterDrop):
            def fail(self):
                hangs.append(1)
                super().fail()

        progress = search(Counted, limit=1e6).run()
        (find,) = found(progress)
        assert ("hang", True, 1) == (find.kind, find.unshrunk, len(hangs))

    def test_a_sequence_that_the_end_cuts_off(self):
        """It is no hang: it did not get the time that a sequence may take. A search that goes on performs it again."""
        now = [0.0]

        class HangsToTheEnd(HangsAfterDrop):
            def fail(self):
                now[0] = 1e6
                super().fail()

        progress = search(HangsToTheEnd, limit=2e6, clock=lambda: now[0]).run()
        assert [] == found(progress)
        assert f"the time was over before sequence {progress.next} answered" == progress.stopped

    def test_resumes(self):
        """A search that goes on draws the next number."""
        first = search(Right, most_sequences=5)
        drawn = []
        first.run()
        second = search(Right, most_sequences=8, progress=first.progress, advance=lambda p: drawn.append(p.next))
        second.run()
        assert [6, 7, 8] == drawn

    def test_same_seed(self):
        """Equal seeds draw equal plans, other seeds others."""
        plans = [search(Right, seed=seed).draw(3) for seed in (1, 1, 2)]
        assert plans[0] == plans[1] != plans[2]

    def test_a_provider_that_does_not_start(self):
        """ends the search with its message."""
        assert "not there" == search(DoesNotStart).run().stopped
