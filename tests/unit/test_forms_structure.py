"""Forms of the model that differ in the nodes around the operator."""

import numpy as np
import onnx
import pytest
from formed_cases import answers, cases, formed, formed_cases, right, session

from opmap.catalogue.variants.formed import Formed, Inputs
from opmap.catalogue.variants.forms import FORMS
from opmap.catalogue.variants.further_inputs import fresh_values


def formed_values(name, id):
    """Returns the fields of the outputs of a case in a form; the operator's own if the case has no such form."""
    form = formed(name, id)
    return form.outputs.values() if form is not None else [cases()[id][1].output_field]


class TestStructure:
    """Forms that differ in the nodes around the operator."""

    @pytest.mark.parametrize("name", ["if", "if-else"])
    def test_both_branches(self, name):
        """The case takes one branch, other rounds the other one; both have the operator."""
        for _, form, first in formed_cases(name):
            same, other = Inputs(first.desc, dict(first.tensors)), fresh_values(first)
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
