"""Every form of the model, on the CPU EP: the documented answer in each round; constants, shapes, opsets."""

import numpy as np
import onnx
import onnxruntime
import pytest
from described import described
from formed_cases import answers, cases, formed, formed_cases, mapping, right, session
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented
from tiers import others_slow

from opmap.cases.values import fill
from opmap.cases.variants.formed import Formed, Inputs
from opmap.cases.variants.forms import FORMS
from opmap.cases.variants.forms_constants import EXTERNAL_FILE
from opmap.cases.variants.forms_shapes import AUXILIARY_OPSET, OPSETS
from opmap.cases.variants.forms_structure import ACTIVATIONS
from opmap.cases.variants.further_inputs import fresh_values, is_told_apart, other_sizes
from opmap.cases.variants.variant_run import VariantRun
from opmap.engines.steps import Result
from opmap.mapping import IR_VERSION, map_descriptor
from opmap.operators import OPERATORS
from opmap.operators.node_types import node_types


@pytest.mark.parametrize("name", FORMS)
class TestEveryForm:
    """What is true of each form."""

    def test_model(self, name, tmp_path):
        """ONNX's checker takes the model, the same case gives the same bytes, and what is fed is an input or a
        default.
        """
        for id, (mapped, first) in cases().items():
            before, form = mapped.model.SerializeToString(deterministic=True), formed(name, id)
            again = FORMS[name].build(mapping(first.desc), first)
            assert (form and form.model_bytes) == (again and again.model_bytes)
            assert before == mapped.model.SerializeToString(deterministic=True)
            if form is None:
                continue
            assert (3 if name == "ir3-init" else IR_VERSION) == form.model.ir_version, id
            path = tmp_path / "model.onnx"
            try:
                opened = session(form, tmp_path)
            except NotImplemented:  # the CPU EP has no kernel of an old version
                assert name.startswith("opset-") and first.desc.spec().computes_values
                continue
            path.write_bytes(form.model_bytes)
            if name == "shapeless":
                with pytest.raises(onnx.checker.ValidationError, match="'shape' of 'type' is required"):
                    onnx.checker.check_model(path, full_check=True)
            else:
                onnx.checker.check_model(path, full_check=True)
            needed = {value.name for value in opened.get_inputs()}
            fed = set(form.feeds(first))
            assert needed <= fed <= needed | {value.name for value in opened.get_overridable_initializers()}
            assert not fed & form.fixed


def test_wrong_answers_are_seen():
    """The output of other values is no right answer, in no output of any form; nor are other bits, where there are no
    inputs.
    """
    for name in ("static", "symbolic", "second-output", "output-input"):
        for id, form, first in formed_cases(name):
            run = VariantRun(None, form, first, "")
            other = Inputs(first.desc, fresh_values(first).tensors)
            if first.desc.inputs and not is_told_apart(first, other):
                assert first.desc.spec().computes_values, id  # as an exclusive sum of one element, which is 0
                continue
            outputs = {output: form.expected_array(output, other) for output in form.outputs}
            if not first.desc.inputs:
                if None in first.expected:  # an element that is not judged has no wrong value
                    continue
                outputs = {
                    output: np.invert(array.view(np.uint8)).view(array.dtype) for output, array in outputs.items()
                }
            run.check(first, Result(outputs=outputs))
            assert [None] * len(form.outputs) == [check.problem for check in run.checks]
            same = {  # truth values that are handed through, and an input that has few values, as a zero point
                output
                for output, field in form.outputs.items()
                if field in first.desc.inputs
                and (outputs[output].dtype == bool or first.tensors[field] == other.tensors[field])
            }
            checks = [check for output, check in zip(form.outputs, run.checks, strict=True) if output not in same]
            several = len(first.desc.outputs) > 1  # one of them may be the same
            assert not (all if several else any)(right([check]) for check in checks), id


def test_words():
    """A name is a word of a case id."""
    assert all(name == form.name == name.lower() for name, form in FORMS.items())


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
            moved = moved and not first.desc.access.value_reads  # other lengths may give the same
            if (name == "default-data" and first.tensors) or (
                name == "default-indices" and moved and len(set(first.expected)) > 1
            ):
                fresh = fresh_values(first, fixed=set(first.tensors) - form.fixed)
                if first.desc.spec().computes_values and not is_told_apart(first, fresh):
                    continue
                assert fresh.expected != first.expected
                assert not right(answers(form, first, opened, feeds)), id

    def test_no_other_indices(self):
        """If each index can name one element only, no default can give another answer."""
        desc = described("GATHER", (1, 3), (1, 2), 0, 1)
        first = Inputs(desc, fill(desc, "", "pos", "addr"))
        assert FORMS["fed-indices"].build(map_descriptor(desc), first) is None
        assert FORMS["fed-data"].build(map_descriptor(desc), first) is not None

    @pytest.mark.parametrize("name", ["typed-init", "typed-data-init"])
    def test_typed_fields(self, name):
        """The elements stand in a typed field, bit for bit; a signalling NaN is among them."""
        bits = set()
        for _, form, first in formed_cases(name):
            for tensor in form.model.graph.initializer:
                if tensor.name in form.fixed:
                    assert not tensor.raw_data
                    wanted = form.mapped.feed(first.tensors)[tensor.name].to_bytes()
                    assert wanted == onnx.numpy_helper.to_array(tensor).tobytes()
                    bits.update(first.tensors[tensor.name].bits)
        assert name == "typed-init" or 0x7F80002A in bits

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

    @pytest.mark.parametrize("name", others_slow(["symbolic", "unnamed", "shapeless"], "symbolic"))
    def test_other_sizes(self, name, tmp_path):
        """A dynamic form takes other sizes, and the static one refuses them; constants that are fed say sizes by their
        values.
        """
        for id, form, first in formed_cases(name):
            other = other_sizes(first)
            if other is None:  # the numbers of the node allow no other sizes
                continue
            static = formed("static", id)
            assert form.dynamic and not static.dynamic
            assert right(answers(form, other, session(form, tmp_path))), id
            if first.desc.inputs:
                with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument):
                    session(static, tmp_path).run(None, static.feeds(other))

    def test_dimensions(self):
        """`symbolic` gives each dimension a name of its own, `unnamed` none, `shapeless` has no shapes.

        Constants keep theirs.
        """
        for id in cases():
            for name in ("symbolic", "unnamed", "shapeless"):
                form = formed(name, id)
                constants, graph = form.mapped.lowering.fed, form.model.graph
                values = [value for value in (*graph.input, *graph.output) if value.name not in constants]
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

    def test_which_cases(self):
        """A case has an opset's form if the opset has the operator and the case uses nothing that came later."""
        since = {"Gather": 1, "GatherElements": 11, "GatherND": 11, "ScatterElements": 11, "ScatterND": 11}
        since |= {"Slice": 10, "Tile": 6, "Split": 13, "Concat": 4, "ReverseSequence": 10, "OneHot": 9, "Where": 9}
        since |= {"DepthToSpace": 1, "SpaceToDepth": 1, "Pad": 11, "ConstantOfShape": 9, "Trilu": 14, "EyeLike": 9}
        since |= {"Transpose": 1, "Expand": 8, "Range": 11, "BitShift": 11}
        since |= {"Hardmax": 13}  # older ones have another meaning
        since |= dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"), 18)
        since |= dict.fromkeys(("And", "Or", "Xor", "Greater", "Less"), 7)
        since |= {"Not": 1, "Equal": 7, "IsNaN": 9, "IsInf": 10, "GreaterOrEqual": 12, "LessOrEqual": 12}
        words = {"CRD": 11, "wrap": 19}
        until = {"ScatterElements": 17, "ScatterND": 17, "Pad": 20, "ConstantOfShape": 19, "EyeLike": 21}
        until |= {"Transpose": 22, "Expand": 22}
        for id, (mapped, first) in cases().items():
            op_type = mapped.lowering.op_type
            if op_type not in since:  # of an operator that computes: `test_model` holds its versions against ONNX
                assert first.desc.spec().computes_values or op_type == "ThresholdedRelu"
                continue
            negative = any(min(first.tensors[name].integers) < 0 for name in first.desc.index_tensors())
            batches = mapped.lowering.attributes.get("batch_dims", 0) > 0
            for version in OPSETS:
                missing = version < since[op_type] or (version < 11 and negative) or (version < 12 and batches)
                missing = missing or (version > AUXILIARY_OPSET and len(mapped.model.graph.node) > 1)
                missing = missing or version > until.get(op_type, version)
                missing = missing or version < words.get(mapped.lowering.attributes.get("mode"), 1)
                missing = missing or version == mapped.model.opset_import[0].version
                if not missing and op_type in ("Equal", "Greater", "Less", "IsInf"):  # old versions take few types
                    inputs, _ = node_types(op_type, version)
                    missing = first.desc.first_data.data_type not in inputs
                form = formed(f"opset-{version}", id)
                assert missing == (form is None), (id, version)
                assert form is None or {version} == {opset.version for opset in form.model.opset_import}

    def test_attributes(self):
        """An attribute that the opset lacks is left out if it has its default value."""
        made = [form for _, form, _ in formed_cases("opset-11") if form.mapped.lowering.op_type == "GatherND"]
        assert made
        assert not any(node.attribute for form in made for node in form.model.graph.node if node.op_type == "GatherND")


def formed_values(name, id):
    """Returns the fields of the outputs of a case in a form; the operator's own if the case has no such form."""
    form = formed(name, id)
    return form.outputs.values() if form is not None else [*cases()[id][1].desc.outputs]


class TestStructure:
    """Forms that differ in the nodes around the operator."""

    @pytest.mark.parametrize("name", ["if", "if-else"])
    def test_both_branches(self, name):
        """The case takes one branch, other rounds the other one; both have the operator."""
        for _, form, first in formed_cases(name):
            same, other = Inputs(first.desc, dict(first.tensors)), fresh_values(first)
            conditions = [bool(form.feeds(r)["Condition"]) for r in (first, other, *([same] if first.tensors else ()))]
            assert [name == "if", name == "if-else", name == "if"][: len(conditions)] == conditions
            (node,) = form.model.graph.node
            for attribute in node.attribute:
                assert form.mapped.lowering.op_type in {n.op_type for n in attribute.g.node}

    def test_between(self):
        """An operator that computes stands between nodes that copy: one for each input, one for the output."""
        made = [form for _, form, _ in formed_cases("between")]
        assert {op.descriptor.spec().computes_values for op in (OPERATORS[f.mapped.desc.operator] for f in made)} == {
            True
        }
        for form in made:
            nodes = [node.op_type for node in form.model.graph.node]
            shapes = form.mapped.lowering.shapes  # a scalar is not copied
            assert nodes.count("Concat") == sum(map(bool, map(shapes.get, form.mapped.desc.inputs))) + 1
            assert "Concat" == nodes[-1]

    def test_activation(self):
        """The operator is the activation of an Add of -0, which ONNX Runtime's optimizers keep: -0 is fed."""
        made = [form for _, form, _ in formed_cases("activation")]
        assert {("Add", name) for name in ACTIVATIONS} == {tuple(n.op_type for n in f.model.graph.node) for f in made}
        for form in made:
            assert [form.model.graph.node[1].input[0]] == [*form.model.graph.node[0].output]
            assert not form.model.graph.initializer

    def test_chain(self):
        """At least five nodes stand one after the other, four of them Identity."""
        for _, form, _ in formed_cases("chain"):
            types = [node.op_type for node in form.model.graph.node]
            assert len(types) >= 5
            assert ["Identity"] * 4 == [*types[:2], *types[-2:]]

    def test_default_attribute(self):
        """The model differs from the mapping's in attributes with their default alone; a descriptor without such has no
        such form.

        The default is 0, 1 or a word. Concat's axis has none, nor has a size of blocks, and OneHot's axis is the last
        one.
        """
        made = {id: form for id, form, _ in formed_cases("default-attribute")}
        for id, (mapped, _) in cases().items():
            optional = {} if mapped.lowering.op_type == "Concat" else mapped.lowering.attributes
            words = {"Pad": "constant", "DepthToSpace": "DCR"}
            usual = dict.fromkeys(("batch_axis", "upper", "detect_negative", "detect_positive"), 1)
            usual |= {"mode": words.get(mapped.lowering.op_type), "blocksize": None}
            defaults = {name for name, value in optional.items() if value == usual.get(name, 0)}
            computes = mapped.desc.spec().computes_values or mapped.lowering.op_type == "ThresholdedRelu"
            if mapped.lowering.op_type == "OneHot" or (computes and mapped.lowering.op_type != "IsInf"):
                continue
            assert (id in made) == bool(defaults)
            if defaults:
                (node,) = [n for n in made[id].model.graph.node if n.op_type == mapped.lowering.op_type]
                assert mapped.lowering.attributes.keys() - defaults == {attribute.name for attribute in node.attribute}
        types = {form.mapped.lowering.op_type for form in made.values()}
        gathers = {"Gather", "GatherElements", "GatherND"}
        assert (
            gathers
            | {"ScatterElements", "Split", "ReverseSequence", "Pad", "DepthToSpace", "Trilu", "EyeLike", "IsInf"}
            <= types
        )

    def test_same_twice(self):
        """There are two nodes of the operator."""
        for _, form, _ in formed_cases("same-twice"):
            types = [node.op_type for node in form.model.graph.node]
            assert 2 == types.count(form.mapped.lowering.op_type)

    def test_outputs(self):
        """The outputs beside the operator's own are those that the form's text names."""
        for id, (_, first) in cases().items():
            data = sorted(first.desc.own_spec.data_tensors, key=first.desc.node_inputs.index)
            outputs = [*first.desc.outputs]
            wanted = {
                "second-output": [*outputs, *data[:1]],
                "output-read": [*outputs, outputs[0]],
                "same-twice": [*outputs, *outputs],
                "output-init": [*outputs, *data],
                "output-input": [*outputs, *data],
            }
            for name in FORMS:
                if formed(name, id) is None:
                    wanted.pop(name, None)
                assert wanted.get(name, outputs) == list(formed_values(name, id)), name

    def test_output_init(self):
        """The initializers that are outputs are those that the operator's own node reads: nobody else may fold them
        away.
        """
        found = list(formed_cases("output-init"))
        assert 0 < len(found) < len(cases())
        for _, form, first in found:
            outputs = {value.name for value in form.model.graph.output}
            constants = outputs & {tensor.name for tensor in form.model.graph.initializer}
            assert {*first.desc.own_spec.data_tensors} == constants
            for constant in constants:
                readers = [node.op_type for node in form.model.graph.node if constant in node.input]
                assert [form.mapped.lowering.op_type] == readers

    def test_names(self):
        """No value, node or graph of `names` has a C identifier as its name; `no-node-names` has no node names."""
        for id in cases():
            graph = formed("names", id).model.graph
            values = [name for node in graph.node for name in (*node.input, *node.output)]
            names = [graph.name, *values, *(node.name for node in graph.node)]
            assert not any(name.isidentifier() for name in names)
            assert len(set(values)) < 3 or any(len(name) == 1000 for name in names)
            inputs = [value.name for value in graph.input]
            assert len(inputs) == len(set(inputs))
            assert len(inputs) == 1 or len(inputs) > len({name.lower() for name in inputs})
            assert not any(node.name for node in formed("no-node-names", id).model.graph.node)
