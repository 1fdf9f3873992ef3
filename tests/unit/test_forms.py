"""Every form of the model, on the CPU EP: the documented answer in each round, and the road that the form stands for."""

import itertools
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from outside import grid, scatter

from opmap import register_operator, unregister_operator
from opmap.cases.catalogue import catalogue
from opmap.cases.values import fill
from opmap.descriptors import TensorDesc, complete_sizes
from opmap.execution.steps import Result
from opmap.mapping import IR_VERSION, OPSET, map_descriptor
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor
from opmap.variants.contract import Formed, Round
from opmap.variants.forms import FORMS
from opmap.variants.forms_constants import EXTERNAL_FILE
from opmap.variants.forms_shapes import AUXILIARY_OPSET, OPSETS
from opmap.variants.rounds import fresh_values, other_sizes
from opmap.variants.walk import Walk

CONVERSIONS = ("graph", "host", "directml")
OUTSIDE = {"SCATTER": scatter.OPERATOR, "GRID": grid.OPERATOR}
CPU = "CPUExecutionProvider"
NO_OPTIMIZATION = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


@cache
def cases():
    """Returns {case id: (mapping, round)}: for each operator the first example and cases with different types."""
    chosen = {}
    for operator, group in itertools.groupby(catalogue("smoke"), lambda case: case.desc.operator):
        small = [c for c in group if all(t.element_count < 2000 for t in c.desc.tensors.values())]
        special = [c for c in small if c.data_pattern == "special"]
        unsigned = [c for c in small if c.desc.tensors[c.desc.index_tensors()[0]].data_type.kind == "unsigned"]
        for case in (small[0], *small[5::13], *special[:3], *unsigned[:3]):
            chosen[case.id] = mapping(case.desc), Round(case.desc, dict(case.tensors))
        assert any(id.startswith(f"{operator.lower()}/") for id in chosen)
    return chosen


def mapping(desc):
    """Returns the mapping of a descriptor. The index conversion depends on the descriptor's sizes."""
    return map_descriptor(desc, index_conversion=CONVERSIONS[sum(desc.output.sizes) % 3])


def formed(name, id):
    """Returns a case's model in a form; None if the case has no such form."""
    return FORMS[name].build(*cases()[id])


def formed_cases(name):
    """Returns (case id, model, round) for each case that has a form."""
    made = [(id, formed(name, id), first) for id, (_, first) in cases().items()]
    return [(id, form, first) for id, form, first in made if form is not None]


def session(form, folder, level=None):
    """Returns a session for a model in a form, on the CPU EP."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if level is not None:
        options.graph_optimization_level = level
    model = form.model_bytes
    if form.files:
        for name, content in form.files.items():
            (folder / name).write_bytes(content)
        (folder / "model.onnx").write_bytes(model)
        model = str(folder / "model.onnx")
    return onnxruntime.InferenceSession(model, options, providers=[CPU])


def rounds(form, first):
    """Returns the rounds that a session of a form must answer: the case, other values and sizes, the case again."""
    sizes = [other_sizes(first), other_sizes(first, -1)] if form.dynamic else []
    others = [*filter(None, sizes), fresh_values(first, fixed=form.fixed), fresh_values(first, 2, fixed=form.fixed)]
    return [first, *others, Round(first.desc, dict(first.tensors))]


def answers(form, first, opened, feeds=None):
    """Returns what a walk finds when a session answers these feeds, by default a round's own."""
    walk = Walk(None, form, first, "")
    # The feeds live until the outputs are checked: in ONNX Runtime 1.24 an output that is an input is the feed's memory.
    feeds = form.feeds(first) if feeds is None else feeds
    outputs = opened.run(None, feeds)
    walk.check(first, Result(outputs=dict(zip((o.name for o in opened.get_outputs()), outputs, strict=True))))
    return walk.checks


def right(checks):
    """Returns whether all outputs equal the expected ones."""
    return all(
        check.problem is None
        and all(e is None or e == a for e, a in zip(check.expected, check.actual.bits, strict=True))
        for check in checks
    )


class TestCases:
    """The cases of this file."""

    def test_variety(self):
        """They have all data types, Casts and Reshapes in the graph, conversions on the host, and negative indices."""
        mapped = [made for made, _ in cases().values()]
        used = {node.op_type for made in mapped for node in made.model.graph.node}
        assert {"Cast", "Reshape", *(m.lowering.op_type for m in mapped)} == used
        assert len({made.lowering.op_type for made in mapped}) == 3
        assert set(DataType) == {made.desc.output.data_type for made in mapped}
        assert any("on the host" in str(s) for made in mapped for s in made.substitutions)
        values = [first.tensors[name].integers for m, first in cases().values() for name in m.desc.index_tensors()]
        assert any(min(v) < 0 for v in values)


@pytest.mark.parametrize("name", FORMS)
class TestEveryForm:
    """What is true of each form."""

    @pytest.mark.parametrize("level", [None, NO_OPTIMIZATION], ids=["optimized", "as-written"])
    def test_answers(self, name, level, tmp_path):
        """One session answers several rounds, each with the documented output."""
        made = formed_cases(name)
        assert made
        for id, form, first in made:
            opened = session(form, tmp_path, level)
            assert list(form.outputs) == [output.name for output in opened.get_outputs()], id
            for round in rounds(form, first):
                checks = answers(form, round, opened)
                assert len(form.outputs) == len(checks)
                assert right(checks), id

    def test_wrong_answers_are_seen(self, name):
        """The output of other values is no right answer."""
        for id, form, first in formed_cases(name):
            walk = Walk(None, form, first, "")
            other = Round(first.desc, fresh_values(first).tensors)
            shown = {
                output: np.array(walk._expected(other, field)[0], np.uint64).astype(f"<u{data_type.size}")
                for output, field in form.outputs.items()
                for data_type in [walk._expected(other, field)[1]]
            }
            typed = {
                output: bits.view(data_type.name.lower()).reshape(first.desc.tensors[field].sizes)
                for (output, field), bits in zip(form.outputs.items(), shown.values(), strict=True)
                for data_type in [walk._expected(other, field)[1]]
            }
            walk.check(first, Result(outputs=typed))
            assert [None] * len(form.outputs) == [check.problem for check in walk.checks]
            assert not any(right([check]) for check in walk.checks), id

    def test_valid(self, name, tmp_path):
        """ONNX's checker takes the model, except without shapes."""
        for id, form, _ in formed_cases(name):
            path = tmp_path / "model.onnx"
            path.write_bytes(form.model_bytes)
            for file, content in form.files.items():
                (tmp_path / file).write_bytes(content)
            if name == "shapeless":
                with pytest.raises(onnx.checker.ValidationError, match="'shape' of 'type' is required"):
                    onnx.checker.check_model(path, full_check=True)
            else:
                onnx.checker.check_model(path, full_check=True)
            assert (3 if name == "ir3-init" else IR_VERSION) == form.model.ir_version, id

    def test_same_bytes(self, name):
        """The model depends on the case only, and the mapping's own model stays as it is."""
        for mapped, first in cases().values():
            before = mapped.model.SerializeToString(deterministic=True)
            form = FORMS[name].build(mapped, first)
            again = FORMS[name].build(mapping(first.desc), first)
            assert (form and form.model_bytes) == (again and again.model_bytes)
            assert before == mapped.model.SerializeToString(deterministic=True)

    def test_fed(self, name, tmp_path):
        """What is fed is an input or a default. Values in the model are not fed."""
        for _, form, first in formed_cases(name):
            opened = session(form, tmp_path)
            needed = {value.name for value in opened.get_inputs()}
            defaults = {value.name for value in opened.get_overridable_initializers()}
            fed = set(form.feeds(first))
            assert needed <= fed <= needed | defaults
            assert not fed & form.fixed

    def test_words(self, name):
        """The text is one sentence; the name is a word of a case id."""
        form = FORMS[name]
        assert name == form.name == name.lower()
        assert form.text.endswith(".") and ". " not in form.text and form.text[0].isupper()


class TestConstants:
    """Forms that differ in how data and indices reach the operator."""

    @pytest.mark.parametrize("name", ["fed-indices", "fed-data"])
    def test_defaults_differ(self, name, tmp_path):
        """Without the feed the default gives another answer."""
        for id, form, first in formed_cases(name):
            opened = session(form, tmp_path)
            defaults = {value.name for value in opened.get_overridable_initializers()}
            assert defaults
            feeds = {field: array for field, array in form.feeds(first).items() if field not in defaults}
            assert not right(answers(form, first, opened, feeds)), id
            assert right(answers(form, first, opened)), id

    @pytest.mark.parametrize(
        "name", ["default-indices", "default-data", "init", "data-init", "ir3-init", "constant-node"]
    )
    def test_defaults_may_be_fed(self, name, tmp_path):
        """A default can be replaced by a feed, and a constant cannot."""
        for id, form, first in formed_cases(name):
            opened = session(form, tmp_path)
            defaults = {value.name for value in opened.get_overridable_initializers()}
            assert (form.fixed if name.startswith("default") else set()) == defaults, id
            other = FORMS["static"].build(form.mapped, first).feeds(fresh_values(first))
            feeds = form.feeds(first) | {field: other[field] for field in defaults}
            moved = any(size > 1 for bounds in first.desc.index_bounds.values() for size in bounds)
            if name == "default-data" or (name == "default-indices" and moved and len(set(first.expected)) > 1):
                assert fresh_values(first, fixed=set(first.tensors) - form.fixed).expected != first.expected
                assert not right(answers(form, first, opened, feeds)), id

    def test_no_other_indices(self):
        """If each index can name one element only, no default can give another answer."""
        desc = complete_sizes(
            OPERATORS["GATHER"].descriptor,
            {"InputTensor": (1, 3), "IndicesTensor": (1, 2)},
            {"Axis": 0, "IndexDimensions": 1},
        )
        first = Round(desc, fill(desc, "", "pos", "addr"))
        assert FORMS["fed-indices"].build(map_descriptor(desc), first) is None
        assert FORMS["fed-data"].build(map_descriptor(desc), first) is not None

    @pytest.mark.parametrize("name", ["typed-init", "typed-data-init"])
    def test_typed_fields(self, name):
        """The elements stand in a typed field, bit for bit."""
        for _, form, first in formed_cases(name):
            for tensor in form.model.graph.initializer:
                assert not tensor.raw_data
                if tensor.name in form.fixed:
                    wanted = form.mapped.feed(first.tensors)[tensor.name].to_bytes()
                    assert wanted == onnx.numpy_helper.to_array(tensor).tobytes()

    def test_signalling_nan(self):
        """A signalling NaN stays one in a typed field."""
        data = [
            (onnx.numpy_helper.to_array(tensor), first.tensors[tensor.name])
            for _, form, first in formed_cases("typed-data-init")
            for tensor in form.model.graph.initializer
            if tensor.name in form.fixed and tensor.data_type == onnx.TensorProto.FLOAT
        ]
        assert any(0x7F80002A in array.view(np.uint32) for array, _ in data)
        assert all(list(tensor.bits) == array.view(np.uint32).ravel().tolist() for array, tensor in data)

    def test_external_data(self, tmp_path):
        """The data comes from the file: another file gives another answer."""
        for id, form, first in formed_cases("external"):
            content = form.files[EXTERNAL_FILE]
            other = Formed(
                model=form.model,
                mapped=form.mapped,
                feeds=form.feeds,
                outputs=form.outputs,
                files={EXTERNAL_FILE: bytes(255 - byte for byte in content)},
            )
            assert right(answers(form, first, session(form, tmp_path))), id
            assert not right(answers(other, first, session(other, tmp_path))), id


class TestShapes:
    """Forms that differ in what the model says of shapes."""

    @pytest.mark.parametrize("name", ["symbolic", "unnamed", "shapeless"])
    def test_other_sizes(self, name, tmp_path):
        """A dynamic form takes other sizes, and the static one refuses them."""
        for id, form, first in formed_cases(name):
            other = other_sizes(first)
            static = formed("static", id)
            assert form.dynamic and not static.dynamic
            assert right(answers(form, other, session(form, tmp_path))), id
            with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument):
                session(static, tmp_path).run(None, static.feeds(other))

    def test_dimensions(self):
        """`symbolic` gives each dimension a name of its own, `unnamed` none, `shapeless` has no shapes."""
        for id in cases():
            for name in ("symbolic", "unnamed", "shapeless"):
                form = formed(name, id)
                values = (*form.model.graph.input, *form.model.graph.output)
                dims = [d for value in values for d in value.type.tensor_type.shape.dim]
                names = [d.dim_param for d in dims]
                assert not any(d.HasField("dim_value") for d in dims)
                assert (name != "shapeless") == all(v.type.tensor_type.HasField("shape") for v in values)
                assert (len(dims) if name == "symbolic" else 0) == len(set(filter(None, names)))

    def test_reshapes(self):
        """The host reshapes in place of the graph, and the form says so."""
        for id in cases():
            form, nodes = formed("symbolic", id), formed("static", id).model.graph.node
            assert "Reshape" not in {node.op_type for node in form.model.graph.node}
            count = sum(node.op_type == "Reshape" for node in nodes)
            assert count == len(form.substitutions) == sum(s.kind == "reshape" for s in form.mapped.substitutions)


class TestOpsets:
    """Forms of other opsets."""

    def test_versions(self):
        """Each form imports its opset, and the mapping's own model another one."""
        for version in OPSETS:
            made = formed_cases(f"opset-{version}")
            assert {version} == {o.version for _, form, _ in made for o in form.model.opset_import}
        assert OPSET not in OPSETS

    def test_which_cases(self):
        """A case has an opset's form if the opset has the operator and the case uses nothing that came later."""
        since = {"Gather": 1, "GatherElements": 11, "GatherND": 11}
        for id, (mapped, first) in cases().items():
            op_type = mapped.lowering.op_type
            negative = any(min(first.tensors[name].integers) < 0 for name in first.desc.index_tensors())
            batches = mapped.lowering.attributes.get("batch_dims", 0) > 0
            for version in OPSETS:
                missing = version < since[op_type] or (version < 11 and negative) or (version < 12 and batches)
                missing = missing or (version > AUXILIARY_OPSET and len(mapped.model.graph.node) > 1)
                assert missing == (formed(f"opset-{version}", id) is None), (id, version)

    def test_attributes(self):
        """An attribute that the opset lacks is left out if it has its default value."""
        made = [form for _, form, _ in formed_cases("opset-11") if form.mapped.lowering.op_type == "GatherND"]
        assert made
        assert not any(node.attribute for form in made for node in form.model.graph.node if node.op_type == "GatherND")


class TestStructure:
    """Forms that differ in the nodes around the operator."""

    @pytest.mark.parametrize("name", ["if", "if-else"])
    def test_both_branches(self, name):
        """The case takes one branch, other rounds the other one; both have the operator."""
        for _, form, first in formed_cases(name):
            same, other = Round(first.desc, dict(first.tensors)), fresh_values(first)
            conditions = [bool(form.feeds(r)["Condition"]) for r in (first, other, same)]
            assert [name == "if", name == "if-else", name == "if"] == conditions
            (node,) = form.model.graph.node
            for attribute in node.attribute:
                assert form.mapped.lowering.op_type in {n.op_type for n in attribute.g.node}

    @pytest.mark.parametrize("branch", ["then_branch", "else_branch"])
    def test_branch_runs(self, branch, tmp_path):
        """A wrong branch gives wrong answers in the rounds that take it, and only there."""
        id, (mapped, first) = next(iter(cases().items()))
        form = formed("if", id)
        model = onnx.ModelProto()
        model.CopyFrom(form.model)
        graph = next(a.g for a in model.graph.node[0].attribute if a.name == branch)
        graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(first.desc.output.sizes, np.float32), "zeros"))
        graph.output[0].name = "zeros"
        del graph.node[:]
        graph.node.append(onnx.helper.make_node("Identity", ["zeros"], ["out"]))
        graph.output[0].name = "out"
        wrong = Formed(model=model, mapped=mapped, feeds=form.feeds, outputs=form.outputs)
        opened = session(wrong, tmp_path)
        results = [right(answers(wrong, r, opened)) for r in (first, fresh_values(first))]
        assert [branch == "else_branch", branch == "then_branch"] == results

    def test_chain(self):
        """At least five nodes stand one after the other, four of them Identity."""
        for _, form, _ in formed_cases("chain"):
            types = [node.op_type for node in form.model.graph.node]
            assert len(types) >= 5
            assert ["Identity"] * 4 == [*types[:2], *types[-2:]]

    def test_default_attribute(self):
        """The model differs from the mapping's in attributes of value 0 alone; a descriptor without such has no such form."""
        made = {id: form for id, form, _ in formed_cases("default-attribute")}
        for id, (mapped, _) in cases().items():
            defaults = {name for name, value in mapped.lowering.attributes.items() if value == 0}
            assert (id in made) == bool(defaults)
            if defaults:
                (node,) = [n for n in made[id].model.graph.node if n.op_type == mapped.lowering.op_type]
                assert mapped.lowering.attributes.keys() - defaults == {attribute.name for attribute in node.attribute}
        assert {"Gather", "GatherElements", "GatherND"} == {form.mapped.lowering.op_type for form in made.values()}

    def test_function(self):
        """The graph has one node, a call; the function has the operator, with the attributes of the call."""
        for _, form, _ in formed_cases("function"):
            (call,), (function,) = form.model.graph.node, form.model.functions
            (node,) = [n for n in function.node if n.op_type == form.mapped.lowering.op_type]
            assert dict(form.mapped.lowering.attributes) == {a.name: a.i for a in call.attribute}
            assert [a.name for a in call.attribute] == [a.ref_attr_name for a in node.attribute]

    def test_loop(self):
        """The operator stands in the loop's body."""
        for _, form, _ in formed_cases("loop"):
            (node,) = form.model.graph.node
            assert form.mapped.lowering.op_type in {n.op_type for n in node.attribute[0].g.node}

    def test_same_twice(self):
        """There are two nodes of the operator."""
        for _, form, _ in formed_cases("same-twice"):
            types = [node.op_type for node in form.model.graph.node]
            assert 2 == types.count(form.mapped.lowering.op_type)

    def test_outputs(self):
        """The outputs beside the operator's own are those that the form's text names."""
        for id, (_, first) in cases().items():
            (data,) = first.desc.data_tensors()
            output = first.output_field
            wanted = {
                "second-output": [output, data],
                "output-read": [output, output],
                "same-twice": [output, output],
                "output-init": [output, data],
                "output-input": [output, data],
            }
            for name in FORMS:
                if formed(name, id) is None:
                    wanted.pop(name, None)
                assert wanted.get(name, [output]) == list(formed_values(name, id)), name

    def test_output_init(self):
        """The initializer that is an output is one that the operator's own node reads: nobody else may fold it away."""
        found = list(formed_cases("output-init"))
        assert 0 < len(found) < len(cases())
        for _, form, _ in found:
            outputs = {value.name for value in form.model.graph.output}
            (constant,) = outputs & {tensor.name for tensor in form.model.graph.initializer}
            readers = [node.op_type for node in form.model.graph.node if constant in node.input]
            assert [form.mapped.lowering.op_type] == readers

    def test_names(self):
        """No value, node or graph of `names` has a C identifier as its name; `no-node-names` has no node names."""
        for id in cases():
            graph = formed("names", id).model.graph
            values = [name for node in graph.node for name in (*node.input, *node.output)]
            names = [graph.name, *values, *(node.name for node in graph.node)]
            assert not any(name.isidentifier() for name in names)
            assert any(len(name) == 1000 for name in names)
            inputs = [value.name for value in graph.input]
            assert len(inputs) == len(set(inputs)) > len({name.lower() for name in inputs})
            assert not any(node.name for node in formed("no-node-names", id).model.graph.node)


def formed_values(name, id):
    """Returns the fields of the outputs of a case in a form; the operator's own if the case has no such form."""
    form = formed(name, id)
    return form.outputs.values() if form is not None else [cases()[id][1].output_field]


@pytest.fixture(scope="module")
def outside():
    """Registers two operators from outside: one with two data tensors, one with two index tensors."""
    folder = Path(__file__).parent / "outside"
    for name, operator in OUTSIDE.items():
        register_operator(operator, spec=folder / f"{name.lower()}.toml", arrays=folder / f"{name.lower()}.json")
    yield
    for name in OUTSIDE:
        unregister_operator(name)


@pytest.mark.usefixtures("outside")
class TestRounds:
    """Further rounds of a case."""

    @staticmethod
    def samples():
        """Returns a round for each sample of each operator."""
        return [
            Round(desc, fill(desc, str(i), pattern, "addr"))
            for operator in OPERATORS.values()
            for desc in operator.samples()
            for i, pattern in enumerate(("pos", "mix"))
        ]

    def test_other_values(self):
        """Every data element changes, and every index that can; negative indices stay negative, all stay in range."""
        for first, n in itertools.product(self.samples(), (1, 2, 7)):
            other = fresh_values(first, n)
            assert first.desc == other.desc
            assert [e is None for e in first.expected] == [
                e is None for e in other.expected
            ] or "UpdatesTensor" in other.tensors
            for name, tensor in first.tensors.items():
                new = other.tensors[name]
                assert (tensor.data_type, tensor.sizes) == (new.data_type, new.sizes)
                bounds = first.desc.index_bounds.get(name, (2,)) * len(tensor.bits)
                for old, changed, bound in zip(tensor.bits, new.bits, bounds, strict=False):
                    assert (old != changed) == (bound > 1)
                if name in first.desc.index_bounds:
                    assert [v < 0 for v in tensor.integers] == [v < 0 for v in new.integers]
                elif name in first.desc.data_tensors():
                    assert len(set(tensor.bits)) == len(set(new.bits))

    def test_other_answers(self):
        """Nearly every output element changes."""
        for first in self.samples():
            same = sum(a == b for a, b in zip(first.expected, fresh_values(first).expected, strict=True))
            assert same <= len(first.expected) // 4

    def test_each_number_differs(self):
        """Each `n` gives other data, also where a data type has few values."""
        first = next(first for _, first in cases().values() if first.desc.output.data_type is DataType.UINT8)
        (name,) = first.desc.data_tensors()
        made = [tuple(fresh_values(first, n).tensors[name].bits) for n in range(1, 256)]
        assert 255 == len({tuple(first.tensors[name].bits), *made}) - 1

    def test_fixed_fields(self):
        """A fixed field keeps its values."""
        for first in self.samples():
            for name in first.tensors:
                other = fresh_values(first, fixed={name})
                assert first.tensors[name] is other.tensors[name]

    def test_out_of_range(self):
        """An index out of range stays as it is."""
        desc = complete_sizes(
            OPERATORS["GATHER"].descriptor,
            {"InputTensor": (4,), "IndicesTensor": (5,)},
            {"Axis": 0, "IndexDimensions": 1},
        )
        indices = Tensor.from_values(DataType.INT64, (5,), [4, -5, 3, -4, 0])
        first = Round(desc, fill(desc, "", "pos", "addr") | {"IndicesTensor": indices})
        assert [4, -5, 0, -3, 1] == list(fresh_values(first).tensors["IndicesTensor"].integers)

    @pytest.mark.parametrize("by", [1, 2, -1])
    def test_other_sizes(self, by):
        """The descriptor is valid, its node has the same operator, attributes and ranks, and sizes change by `by`."""
        for first in self.samples():
            other = other_sizes(first, by)
            if other is None:
                assert by < 0
                continue
            assert () == other.desc.violations()
            assert first.desc.numbers == other.desc.numbers
            changes = []
            for name, tensor in first.desc.tensors.items():
                new = other.desc.tensors[name]
                assert (tensor.data_type, tensor.dimension_count) == (new.data_type, new.dimension_count)
                changes += [b - a for a, b in zip(tensor.sizes, new.sizes, strict=True)]
            assert {by} == set(changes) - {0}
            assert None not in other.expected or "UpdatesTensor" in other.tensors  # two indices may name one element
            lower = OPERATORS[first.desc.operator].lower
            if lower is not None:
                old, new = lower(first.desc), lower(other.desc)
                assert (old.op_type, old.attributes) == (new.op_type, new.attributes)
                assert len(old.output_shape) == len(new.output_shape)
                assert [len(s) for s in old.shapes.values()] == [len(s) for s in new.shapes.values()]

    def test_all_that_can(self):
        """Sizes that depend on each other change together, and all others alone."""
        desc = complete_sizes(
            OPERATORS["GATHER_ELEMENTS"].descriptor,
            {"InputTensor": (2, 5, 3), "IndicesTensor": (2, 7, 3)},
            {"Axis": 1},
        )
        other = other_sizes(Round(desc, fill(desc, "", "pos", "addr"))).desc
        assert [(3, 6, 4), (3, 8, 4)] == [tensor.sizes for tensor in other.inputs.values()]

    def test_no_other_sizes(self):
        """There is no smaller size than 1."""
        desc = complete_sizes(
            OPERATORS["GATHER"].descriptor,
            {"InputTensor": (1,), "IndicesTensor": (1,)},
            {"Axis": 0, "IndexDimensions": 1},
        )
        assert other_sizes(Round(desc, fill(desc, "", "pos", "addr")), -1) is None

    def test_not_too_large(self):
        """Eight dimensions of size 2 do not all grow to 3, if that were too many elements."""
        desc = complete_sizes(
            OPERATORS["GATHER"].descriptor,
            {"InputTensor": (2,) * 8, "IndicesTensor": (1,) * 7 + (2,)},
            {"Axis": 7, "IndexDimensions": 1},
        )
        other = other_sizes(Round(desc, fill(desc, "", "pos", "addr"))).desc
        assert 256 < other.tensors["InputTensor"].element_count <= 4096
        assert isinstance(other.output, TensorDesc)
