"""Variants: the declared list, their proofs, which cases they get, and what faulty providers do on them."""

import itertools
import re
from functools import cache

import msgspec
import numpy as np
import onnx
import pytest
from judged_sessions import Planted
from tiers import all_cases, others_slow, own_cases

from opmap.cases.case import Case
from opmap.cases.catalogue import cases_of, catalogue
from opmap.cases.in_variants import accepts, classes, split_id
from opmap.cases.selection import has_variant
from opmap.cases.values import FAR
from opmap.cases.variants import PLAIN, VARIANTS, VariantRun, proofs
from opmap.cases.variants.run_modes import SESSION
from opmap.engines.performer import Performer
from opmap.engines.protocol import Placement
from opmap.engines.providers import Provider, open_provider
from opmap.engines.sessions import CPU, DIRECTML, SessionProvider
from opmap.engines.steps import Event, Evidence, Open, Result, Run
from opmap.engines.third_party import ThirdPartyProvider
from opmap.faults import open_fault
from opmap.judge.decide import no_judge
from opmap.judge.judge import Judge
from opmap.manual import read_page
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS
from opmap.session import open_judge


@cache
def added():
    """The cases of `standard` in variants."""
    return [case for case in all_cases("standard") if VARIANTS[case.variant].base is not None]


@cache
def own():
    """The other cases, without those that are in no variant: NaNs, and the chosen random cases, which come behind the
    variants.
    """
    standard = all_cases("standard")
    left_out = {case.id for operator in OPERATORS.values() for case in cases_of(operator, "nans")}
    left_out -= {split_id(case.id)[0] for case in added()}  # what another part of the tier gives too
    before = standard[: standard.index(added()[-1])]
    return [case for case in before if VARIANTS[case.variant].base is None and case.id not in left_out]


MINE = Provider(CPU, "1", "hardware", SessionProvider(CPU))


def faulty(fault) -> Judge:
    """Returns a judge on the CPU EP with a fault, which gets each step and its result."""
    return Judge(Provider(CPU, "1", "hardware", Planted(fault)))


def run_of(case: Case, events=(), **evidence) -> VariantRun:
    """Returns the run of a case on the DirectML EP that ran one session once and has shown these events."""
    formed = VARIANTS[case.variant].form.build(map_descriptor(case.desc), case.inputs)
    run = VariantRun(lambda step: None, formed, case.inputs, DIRECTML)
    run.steps.append(Run(session=SESSION))
    run.evidence[SESSION] = Evidence(events=[Event(op, ep, sizes) for op, ep, sizes in events], **evidence)
    return run


class TestRegistry:
    """Each variant is declared once, with a proof, and is in the manual."""

    def test_names(self):
        """A name is a part of a case id, and no other part of an id looks like it."""
        assert all(re.fullmatch(r"[a-z0-9.-]+", name) and name == v.name for name, v in VARIANTS.items())
        assert {PLAIN, "init", "node"} == {name for name, v in VARIANTS.items() if v.base is None}
        pairs = [(v.form.name, v.run_mode.name, v.base) for v in VARIANTS.values()]
        assert len(pairs) == len(set(pairs)), "two variants are the same pair"

    def test_texts(self):
        """A text is one sentence or a few, and no two variants have the same one."""
        texts = [variant.text for variant in VARIANTS.values()]
        assert all(text.endswith(".") and text[0].isupper() for text in texts)
        assert len(texts) == len(set(texts))

    def test_every_form_and_way(self):
        """No form and no run mode is left over."""
        from opmap.cases.variants.forms import FORMS
        from opmap.cases.variants.run_modes import RUN_MODES

        assert set(FORMS) == {v.form.name for v in VARIANTS.values()}
        assert set(RUN_MODES) == {v.run_mode.name for v in VARIANTS.values()}

    def test_proofs(self):
        """Every execution path of the DirectML EP has a proof beside its placement, except those of every case."""
        unproven = {name for name, v in VARIANTS.items() if v.proof(DIRECTML) is None}
        assert {PLAIN, "node"} == unproven
        assert all(v.proof("FooExecutionProvider") is None for v in VARIANTS.values())

    def test_manual(self):
        """The manual's table has every variant in order, with what it does."""
        rows = re.findall(r"^\| `(\S+)` \| (.+) \| (.+) \|$", read_page("variants"), re.M)
        assert [(name, v.text) for name, v in VARIANTS.items()] == [row[:2] for row in rows]
        words = {None: "all", (DIRECTML,): "DirectML", (DIRECTML, CPU): "DirectML, CPU"}
        assert [words[v.providers] for v in VARIANTS.values()] == [row[2] for row in rows]


class TestCases:
    """Which cases a variant gets."""

    def test_ids(self):
        """An id is that of the case with the variant behind it, and both parts come back."""
        by_id = {case.id: case for case in own()}
        for case in added():
            base, name = split_id(case.id)
            assert (case.variant, by_id[base].desc) == (name, case.desc)
            assert by_id[base].variant == VARIANTS[name].base
        assert all(split_id(case.id) is None for case in own())

    def test_the_other_cases_stay_as_they_are(self):
        assert own_cases("smoke") == list(catalogue("smoke", variants=False))

    @pytest.mark.parametrize("operator", others_slow(OPERATORS, "GATHER_ND1"))
    def test_shares(self, operator):
        """In `standard`, a variant that gets values has each class that any case it accepts has."""
        plain = [case for case in own() if case.desc.operator == operator and case.variant == PLAIN]
        plain = [case for case in plain if case.index_pattern != FAR]  # they are in no variants
        for variant in VARIANTS.values():
            got = [case for case in added() if case.variant == variant.name and case.desc.operator == operator]
            wanted = {pair for case in plain for pair in classes(case.desc).items()}
            if variant.base == PLAIN and variant.share in ("values", "few"):
                lacking = wanted - {pair for case in got for pair in classes(case.desc).items()}
                if variant.share == "few":
                    lacking = {pair for pair in lacking if pair[0] != "data_type"}
                # a class is lacking only if no case with it can be brought into the variant
                small = [c for c in plain if max(t.element_count for t in c.desc.tensors.values()) <= 65_536]
                for pair in list(lacking)[:3]:
                    assert not any(accepts(variant, c) for c in small if pair in classes(c.desc).items()), (
                        variant.name,
                        pair,
                    )
            if variant.share == "one":
                bases = [case for case in own() if case.desc.operator == operator and case.variant == variant.base]
                assert len(got) == any(accepts(variant, case) for case in bases)

    def test_all_fused_descriptors_are_serialized(self):
        """Each descriptor of an operator that moves data, and that the mapping can bring to the EP, is there once more
        for each place of its indices, serialized; of an operator that computes, some are.
        """
        serialized = [(VARIANTS[c.variant].base, c.desc) for c in added() if c.variant.endswith("serialized")]
        mapped = [case for case in own() if OPERATORS[case.desc.operator].expressed(case.desc)]
        due = {(case.variant, case.desc) for case in mapped if case.index_pattern != FAR}
        computing = {name for name, op in OPERATORS.items() if op.lower and op.descriptor.spec().computes_values}
        computing.add("ACTIVATION_THRESHOLDED_RELU")  # it moves what is above Alpha
        assert {entry for entry in due if entry[1].operator not in computing} <= set(serialized) <= due
        assert computing <= {desc.operator for _, desc in serialized}
        assert len(set(serialized)) == len(serialized)

    def test_smoke(self):
        """`smoke` has its variants once per operator."""
        added = [c for c in all_cases("smoke") if VARIANTS[c.variant].base is not None]
        names = [(c.desc.operator, c.variant) for c in added]
        assert len(names) == len(set(names))
        assert {"eager", "own-queue", "if", *(f"opset-{n}" for n in (7, 11, 12, 13, 21, 25)), "default-attribute"} == {
            c.variant for c in added
        }

    def test_asked_for_by_id(self):
        """A case may be asked for in any variant that it can have, also in one that the tier does not choose for it."""
        (case,) = catalogue("smoke", ["gather/example.1/symbolic"])
        assert ("gather/example.1/symbolic", "symbolic") == (case.id, case.variant)
        assert [] == list(catalogue("smoke", ["gather/example.1/some-variant"]))
        assert [] == list(catalogue("smoke", ["gather/example.1/node.serialized"])), "the indices are an input"

    def test_which_a_provider_has(self):
        """Forms run on every provider; roads of the DirectML EP only there; a fault gets the catalogue's own cases."""

        class Runs:
            def run(self, model_bytes, feeds): ...

        class Opens(Runs):
            def open(self, model_bytes, setup): ...

        def names(opened):
            return {name for name, variant in VARIANTS.items() if has_variant(opened, variant)}

        def third_party(provider):
            inner = ThirdPartyProvider(provider, "mine")
            return Provider("mine", None, None, inner, sessions=inner.sessions)

        directml = Provider(DIRECTML, "1", "hardware", SessionProvider(CPU))
        assert set(VARIANTS) == names(directml)
        assert {"eager", "serialized", "replayed", "device"} <= names(directml) - names(MINE)
        assert {"symbolic", "if", "bound", "several-runs"} <= names(MINE)
        assert {PLAIN, "init", "node"} == names(open_fault("none"))
        assert "symbolic" in names(third_party(Runs())) and "several-runs" not in names(third_party(Runs()))
        assert {"several-runs", "another-shape"} <= names(third_party(Opens()))
        assert "bound" not in names(third_party(Opens()))


class TestOnTheCpu:
    """Every variant passes on the CPU EP, with its proof."""

    @pytest.mark.parametrize("variant", [name for name, v in VARIANTS.items() if v.base and v.has(CPU)])
    def test_pass(self, variant):
        judge = open_judge("cpu")
        cases = (in_variant(variant, number) for number in itertools.count())
        case = next(c for c in cases if not no_judge(c, judge.provider) and None not in c.expected)
        record = judge(case)
        assert ("pass", True) == (record.verdict, record.path_proof.proven), record.message
        assert record.variant == case.variant and record.placement.proven


@cache
def plain_case():
    """Returns a case that is in no variant."""
    return next(c for c in own() if c.variant == PLAIN and not c.id.split("/")[1].startswith("example"))


def in_variant(name, number=0):
    """Returns a case with one output in this variant."""
    return next(itertools.islice((c for c in added() if c.variant == name and not c.desc.spec().arrays), number, None))


class TestProofs:
    """A proof fails if the run took another execution path."""

    FUSED, OWN_NODE = ("DmlFusedNode_0_0", DIRECTML, []), ("Gather", DIRECTML, [[3], [2]])

    @pytest.mark.parametrize(
        ("proof", "right", "wrong"),
        [
            (proofs.fused, [FUSED], [OWN_NODE]),
            (proofs.fused, [FUSED], []),
            (proofs.fused, [FUSED], [FUSED, ("Gather", CPU, [])]),
            (proofs.one_fused_node, [FUSED], [FUSED, FUSED]),
            (proofs.ran, [OWN_NODE], [FUSED]),
            (proofs.ran, [OWN_NODE], [("Gather", CPU, [])]),
            (proofs.branch, [("If", DIRECTML, []), FUSED], [FUSED]),
            (proofs.branch, [("If", DIRECTML, []), FUSED], [("If", DIRECTML, [])]),
            (proofs.two_shapes, [OWN_NODE, ("Gather", DIRECTML, [[4], [2]])], [OWN_NODE, OWN_NODE]),
        ],
    )
    def test_of_events(self, proof, right, wrong):
        case = next(c for c in own() if c.id == "gather/example.1")
        assert proof(run_of(case, right)) is None
        assert "must" in proof(run_of(case, wrong))

    def test_replayed(self):
        """Two runs, and one event."""
        run = run_of(plain_case(), [self.FUSED])
        assert proofs.replayed(run)
        run.steps.append(Run(session=SESSION))
        assert proofs.replayed(run) is None
        run.evidence[SESSION] = Evidence(events=[Event(*self.FUSED)] * 2)
        assert proofs.replayed(run)

    def test_on_device(self):
        run = run_of(plain_case())
        assert proofs.on_device(run)
        run.devices.update(data="dml", out="dml")
        assert proofs.on_device(run) is None
        run.devices["out"] = "cpu"
        assert "every value must lie on dml, got cpu, dml" == proofs.on_device(run)

    def test_inputs(self):
        case = next(c for c in own() if c.variant == "init")
        assert proofs.not_an_input(run_of(case, inputs=["InputTensor"])) is None
        assert "IndicesTensor must be no input" in proofs.not_an_input(run_of(case, inputs=["IndicesTensor"]))
        assert proofs.overridable(run_of(case)) and proofs.overridable(run_of(case, overridable=["x"])) is None

    def test_serialized(self):
        graph = {"model/Partition_0.bin": np.zeros(1, np.uint8)}
        assert proofs.serialized(run_of(plain_case(), files=graph)) is None
        assert proofs.serialized(run_of(plain_case(), files={"model/x.bin": np.zeros(1, np.uint8)}))

    def test_path_unproven(self):
        """A right result on another execution path is `path-unproven`, which is red, and says what is lacking."""

        def no_profile(planted, step, result):
            return Result(evidence=Evidence(placement=result.evidence.placement)) if result.evidence else result

        record = faulty(no_profile)(in_variant("symbolic"))
        assert ("path-unproven", False, False) == (record.verdict, record.path_proof.proven, record.good)
        assert "must have 1 events" in record.message

    @pytest.mark.parametrize(("name", "verdict"), [(DIRECTML, "path-unproven"), (CPU, "unsupported")])
    def test_the_operator_was_not_assigned(self, name, verdict):
        """A right result without the operator's own node proves nothing: ONNX Runtime removed it, or replaced it."""

        def removed(planted, step, result):
            evidence = result.evidence
            if evidence is None:
                return result
            placement = Placement("assignment-info", (("Concat", name), ("Identity", name)))
            return msgspec.structs.replace(result, evidence=msgspec.structs.replace(evidence, placement=placement))

        record = Judge(Provider(name, "1", "hardware", Planted(removed)))(plain_case())
        assert (verdict, "ONNX Runtime assigned no Transpose, but Concat, Identity") == (record.verdict, record.message)

    def test_a_node_that_is_replaced(self):
        """The CPU EP has no kernel of GreaterOrEqual of FLOAT16: ONNX Runtime runs its function."""
        (case,) = catalogue("standard", ["element_wise_logical_greater_than_or_equal/float16/d3/-/addr.463244"])
        record = open_judge("cpu")(case)
        assert "unsupported" == record.verdict
        assert "ONNX Runtime assigned no GreaterOrEqual, but Equal, Greater, Or" == record.message

    def test_a_graph_that_cannot_be_read(self):
        """If the EP's graph is no graph, or holds another descriptor, the verdict is `lowered-differently`."""

        def writes(planted, step, result):
            if result.evidence is None:
                return result
            files = {"model/Partition_0.bin": np.frombuffer(b"nonsense", np.uint8)}
            return Result(evidence=Evidence(placement=result.evidence.placement, files=files))

        record = faulty(writes)(plain_case())
        assert ("lowered-differently", "differs") == (record.verdict, record.descriptor)
        assert "the graph that the EP wrote" in record.message


FAULTS = {"right": set(), "stale": {"several-runs"}, "ignores_defaults": {"fed-data"}, "ordered": {"some-outputs"}}
"""A backend of planted_sessions.py -> the variants that catch it."""


class TestFaultyProviders:
    """A third party's provider with sessions that fails on one execution path is caught there, and passes the plain
    case.
    """

    @pytest.mark.parametrize("name", FAULTS)
    def test_caught(self, name):
        judge = Judge(open_provider(f"planted_sessions:{name}", in_process=True))
        cases = [plain_case(), *map(in_variant, ("several-runs", "fed-data", "some-outputs"))]
        assert FAULTS[name] == {case.variant for case in cases if judge(case).verdict != "pass"}

    @pytest.mark.parametrize(
        ("change", "relation"),
        [
            (lambda right, first: first, "the output is the one of run 1, with other values"),
            (lambda right, first: right * 0, "every element is zero"),
        ],
    )
    def test_relation(self, change, relation):
        """The message says what a wrong output is as a whole."""
        outputs = []

        def third_run(planted, step, result):
            if not isinstance(step, Run):
                return result
            ((output, right),) = result.outputs.items()
            outputs.append(right)
            return Result(outputs={output: right if planted.runs < 3 else change(right, outputs[0])})

        chosen = (c for c in added() if c.variant == "several-runs" and "/int32/" in c.id and len(c.desc.outputs) == 1)
        record = faulty(third_run)(next(chosen))
        assert "mismatch" == record.verdict
        assert f"run 3: {relation}" in record.message

    def test_defaults(self):
        """A fed default that is ignored is named, although every value is a plausible one."""

        class Ignores(SessionProvider):
            def perform(self, step, limit=None):
                if isinstance(step, Run):
                    names = self._sessions[SESSION].session.get_overridable_initializers()
                    feeds = {n: a for n, a in step.feeds.items() if n not in {v.name for v in names}}
                    step = Run(session=step.session, feeds=feeds)
                return super().perform(step)

        record = Judge(Provider(CPU, "1", "hardware", Ignores(CPU)))(in_variant("fed-indices"))
        assert "the output is the one for the model's defaults, and the fed values are ignored" in record.message

    @pytest.mark.parametrize("operator", ["GATHER", "GATHER_ELEMENTS", "GATHER_ND1"])
    def test_a_missing_attribute(self, operator):
        """A backend that takes another value for an attribute that is left out passes every case but these."""
        default = {"axis": -1, "batch_dims": 1}

        class Assumes(SessionProvider):
            def perform(self, step, limit=None):
                if isinstance(step, Open):
                    model = onnx.load_from_string(step.model.tobytes())
                    for node in model.graph.node:
                        names = onnx.defs.get_schema(node.op_type, 13).attributes.keys() & default.keys()
                        for name in names - {attribute.name for attribute in node.attribute}:
                            node.attribute.append(onnx.helper.make_attribute(name, default[name]))
                    model = np.frombuffer(model.SerializeToString(), np.uint8)
                    step = msgspec.structs.replace(step, model=model)
                return super().perform(step)

        judge = Judge(Provider(CPU, "1", "hardware", Assumes(CPU)))
        cases = [c for c in added() if c.variant == "default-attribute" and c.desc.operator == operator]
        by_id = {case.id: case for case in own()}

        assert all("pass" == judge(by_id[split_id(case.id)[0]]).verdict for case in cases)
        assert any("pass" != judge(case).verdict for case in cases)

    def test_a_second_output(self):
        """A wrong copy of an input is a mismatch that names the input."""

        def spoils(planted, step, result):
            if isinstance(step, Run) and len(result.outputs) == 2:
                *_, last = result.outputs
                result.outputs[last] = result.outputs[last] + 1
            return result

        case = next(c for c in added() if c.variant == "second-output" and "/int32/" in c.id)
        record = faulty(spoils)(case)
        assert "mismatch" == record.verdict and "the copy of InputTensor" in record.message

    def test_nothing_stays(self):
        """After a case, whatever its verdict, the provider holds no session and no value."""
        inner = SessionProvider(CPU)
        judge = Judge(Provider(CPU, "1", "hardware", inner))
        for name in ("preallocated", "bound", "second-session", "symbolic"):
            judge(in_variant(name))
            assert ({}, {}) == (inner._sessions, inner._values)
        assert isinstance(inner, Performer)
