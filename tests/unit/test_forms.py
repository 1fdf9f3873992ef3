"""Every form of the model, on the CPU EP: the documented answer in each round; constants, shapes, opsets."""

import numpy as np
import onnx
import onnxruntime
import pytest
from formed_cases import answers, cases, formed, formed_cases, mapping, right, rounds, session

from opmap.catalogue.values import fill
from opmap.catalogue.variants.formed import Formed, Inputs
from opmap.catalogue.variants.forms import FORMS
from opmap.catalogue.variants.forms_constants import EXTERNAL_FILE
from opmap.catalogue.variants.forms_shapes import AUXILIARY_OPSET, OPSETS
from opmap.catalogue.variants.further_inputs import fresh_values, other_sizes
from opmap.catalogue.variants.variant_run import VariantRun
from opmap.descriptors import complete_sizes
from opmap.engines.steps import Result
from opmap.mapping import IR_VERSION, OPSET, map_descriptor
from opmap.operators import OPERATORS
from opmap.tensors import DataType

NO_OPTIMIZATION = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


class TestCases:
    """The cases that are brought into the forms."""

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
            run = VariantRun(None, form, first, "")
            other = Inputs(first.desc, fresh_values(first).tensors)
            outputs = {output: form.expected_array(output, other) for output in form.outputs}
            run.check(first, Result(outputs=outputs))
            assert [None] * len(form.outputs) == [check.problem for check in run.checks]
            assert not any(right([check]) for check in run.checks), id

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
        first = Inputs(desc, fill(desc, "", "pos", "addr"))
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
