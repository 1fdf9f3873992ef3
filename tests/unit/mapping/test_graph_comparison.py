"""A serialized graph is compared with the mapper's descriptor, and each difference is found."""

import dataclasses

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from outside import grid, spread
from registered_operators import registered
from serialized_models import CONSTANTS, INDICES, MAPPED, emitted_desc
from serialized_samples import DESCS, GATHER, constants, external, graphs
from written_graphs import graph_of, node_for, write

from opmap import strategies
from opmap.errors import InputError
from opmap.mapping import map_descriptor
from opmap.mapping.serialized_graph import ConstantNode, compare, descriptor_class, operator_desc, read_graph
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor


def node_of(graph, desc):
    """Returns the one node of a descriptor's operator."""
    (node,) = [node for node in graph.operators if node.type == f"DML_OPERATOR_{desc.operator}"]
    return node


def changed(graph, desc, **fields):
    """Returns the graph with other fields in the one node of the operator."""
    node = node_of(graph, desc)
    return dataclasses.replace(
        graph, nodes=tuple(dataclasses.replace(n, **fields) if n is node else n for n in graph.nodes)
    )


class TestCompare:
    """Every difference is found, and said as where, wanted and got."""

    @pytest.mark.parametrize(
        ("tensor", "fields", "text"),
        [
            (0, {"data_type": "DML_TENSOR_DATA_TYPE_INT32"}, "InputTensor.DataType must be FLOAT32, got INT32"),
            (0, {"sizes": (4, 3)}, "InputTensor.Sizes must be [3, 4], got [4, 3]"),
            (0, {"sizes": (1, 3, 4)}, "InputTensor.Sizes must be [3, 4], got [1, 3, 4]"),
            (1, {"strides": (2, 2)}, "IndicesTensor.Strides must be packed, got [2, 2]"),
            (1, {"total_size_in_bytes": 64}, "IndicesTensor.TotalTensorSizeInBytes must be 16, got 64"),
            (2, {"sizes": (2, 3)}, "OutputTensor.Sizes must be [3, 2], got [2, 3]"),
        ],
    )
    def test_tensors(self, tensor, fields, text):
        """Data types, sizes, strides and sizes in bytes."""
        desc = GATHER.lowered_as
        (graph,) = graphs("gather")
        node = node_of(graph, desc)
        tensors = [*node.inputs, *node.outputs]
        tensors[tensor] = dataclasses.replace(tensors[tensor], **fields)
        graph = changed(graph, desc, inputs=tuple(tensors[:2]), outputs=tuple(tensors[2:]))
        texts = compare([graph], desc)
        assert text == texts[0]
        assert "differs" == descriptor_class([graph], GATHER)

    @pytest.mark.parametrize("sample", MAPPED)
    def test_numbers(self, sample):
        """Every number of every operator."""
        mapped = MAPPED[sample]
        (graph,) = graphs(sample)
        for name, number in mapped.lowered_as.numbers.items():
            wrong = changed(graph, mapped.lowered_as, attributes={**mapped.lowered_as.numbers, name: number + 1})
            texts = compare([wrong], mapped.lowered_as, constants=constants(sample), external=external(sample))
            assert [f"{name} must be {number}, got {number + 1}"] == texts
            assert "differs" == descriptor_class([wrong], mapped)

    def test_accepted(self):
        """Packed strides may be written out, and the size in bytes may be left out."""
        desc = GATHER.lowered_as
        (graph,) = graphs("gather")
        node = node_of(graph, desc)
        data = dataclasses.replace(node.inputs[0], strides=(4, 1), total_size_in_bytes=None)
        graph = changed(graph, desc, inputs=(data, node.inputs[1]))
        assert [] == compare([graph], desc)
        assert "identical" == descriptor_class([graph], GATHER)

    def test_no_such_node(self):
        """The operator is missing in all graphs."""
        desc = MAPPED["gather_nd1"].lowered_as
        (graph,) = graphs("gather")
        text = "operator must be DML_OPERATOR_GATHER_ND1, got DML_OPERATOR_ELEMENT_WISE_IDENTITY, DML_OPERATOR_GATHER"
        assert [text] == compare([graph], desc)
        assert ["operator must be DML_OPERATOR_GATHER_ND1, got none"] == compare([], desc)
        assert "differs" == descriptor_class([graph], MAPPED["gather_nd1"])
        assert "differs" == descriptor_class([], MAPPED["gather_nd1"])

    @pytest.mark.parametrize("wrong", [0, 1])
    def test_each_node(self, wrong):
        """Of several nodes, each is compared, in one graph and in two; the text names the node."""
        desc = emitted_desc()
        (graph,) = graphs("repeated")
        nodes = [node for node in graph.operators if node.type == "DML_OPERATOR_GATHER"]
        changed = dataclasses.replace(nodes[wrong], attributes={"Axis": 0, "IndexDimensions": 1})
        nodes[wrong] = changed
        text = f"{changed.name}: Axis must be 1, got 0"
        assert [text] == compare([graph_of(*nodes)], desc)
        assert [text] == compare([graph_of(nodes[0]), graph_of(nodes[1])], desc)

    def test_class_needs_substitutions(self):
        """A predicted descriptor that is not the case's differs if the mapper lists no substitution."""
        mapped = MAPPED["gather_nd"]
        assert "substituted" == descriptor_class(graphs("gather_nd"), mapped)
        assert "differs" == descriptor_class(graphs("gather_nd"), dataclasses.replace(mapped, substitutions=()))

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"type": "DML_OPERATOR_GATHER_ND"}, "operator must be DML_OPERATOR_GATHER, got"),
            ({"inputs": ()}, "OutputTensor_dmlEp_0.inputs: must be 2 tensors, got 0"),
            ({"outputs": ()}, "OutputTensor_dmlEp_0.outputs: must be 1 tensors, got 0"),
            ({"attributes": {"Axis": 1}}, "OutputTensor_dmlEp_0.attributes: must be Axis, IndexDimensions, got Axis"),
            (
                {"attributes": {"Axis": 1, "IndexDimensions": 1, "Mode": 0}},
                "OutputTensor_dmlEp_0.attributes: must be Axis, IndexDimensions, got Axis, IndexDimensions, Mode",
            ),
            ({"attributes": {}}, "OutputTensor_dmlEp_0.attributes: must be Axis, IndexDimensions, got none"),
            (
                {"attributes": {"Axis": 1.0, "IndexDimensions": 1}},
                "OutputTensor_dmlEp_0.Axis: must be a number from 0 to 4294967295, got 1.0",
            ),
            (
                {"attributes": {"Axis": -1, "IndexDimensions": 1}},
                "OutputTensor_dmlEp_0.Axis: must be a number from 0 to 4294967295, got -1",
            ),
            (
                {"attributes": {"Axis": 2**32, "IndexDimensions": 1}},
                "OutputTensor_dmlEp_0.Axis: must be a number from 0 to 4294967295, got 4294967296",
            ),
            (
                {"attributes": {"Axis": True, "IndexDimensions": 1}},
                "OutputTensor_dmlEp_0.Axis: must be a number from 0 to 4294967295, got True",
            ),
            ({"input_names": ("InputTensor",)}, "inputNames must be 2 names, got 1"),
            ({"input_names": ("InputTensor", "")}, "inputNames must be 2 names, got 1"),
        ],
    )
    def test_no_descriptor(self, fields, text):
        """A node that is no descriptor of its operator."""
        (graph,) = graphs("gather")
        (got,) = compare([changed(graph, GATHER.lowered_as, **fields)], GATHER.lowered_as)
        assert got.startswith(text)

    def test_an_input_that_is_left_out(self):
        """Its name is empty."""
        (graph,) = graphs("gather")
        names = ("InputTensor", "", "IndicesTensor", "")
        assert compare([changed(graph, GATHER.lowered_as)], GATHER.lowered_as) == compare(
            [changed(graph, GATHER.lowered_as, input_names=names)], GATHER.lowered_as
        )

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            (
                {"data_type": "DML_TENSOR_DATA_TYPE_INT4"},
                "node.InputTensor.DataType: must be one of DML_TENSOR_DATA_TYPE",
            ),
            ({"data_type": "FLOAT32"}, "node.InputTensor.DataType: must be one of DML_TENSOR_DATA_TYPE_"),
            ({"strides": (1,)}, "node.InputTensor.Strides: must be 2 strides, one per size, got 1"),
            ({"sizes": (1,) * 9}, "node.InputTensor.Sizes: must be at most 8 sizes, got 9"),
        ],
    )
    def test_no_tensor(self, fields, text):
        """A tensor that opmap does not know."""
        node = node_for(GATHER.lowered_as)
        node = dataclasses.replace(node, inputs=(dataclasses.replace(node.inputs[0], **fields), node.inputs[1]))
        with pytest.raises(InputError) as raised:
            operator_desc(node)
        assert str(raised.value).startswith(text)

    def test_unknown_operator(self):
        """Only a node of an operator in OPERATORS has a descriptor."""
        for type in ("DML_OPERATOR_CONVOLUTION", "GATHER"):
            with pytest.raises(InputError, match=f"must be an operator that opmap knows, got {type}; it knows DML_"):
                operator_desc(dataclasses.replace(node_for(GATHER.lowered_as), type=type))

    def test_constants(self):
        """An input is a constant if the model holds it, and only then."""
        for sample in CONSTANTS:
            text = f"{INDICES} must not be a constant, got the constant {INDICES}"
            assert [text] == compare(graphs(sample), DESCS[sample], external=external(sample))
        indices = {INDICES: Tensor(DataType.INT64, (2,), [0, 0])}
        text = f"{INDICES} must be a constant, got the output of a DML_OPERATOR_TILE"
        assert [text] == compare(graphs("gather_tile"), DESCS["gather_tile"], constants=indices)
        text = f"{INDICES} must be a constant, got the value {INDICES}"
        assert [text] == compare(graphs("gather_nd"), DESCS["gather_nd"], constants=indices)

    def test_bytes_of_constants(self):
        """A constant has the bytes of the case's tensor, in the graph or in its file."""
        for sample, count in (("constant_inside", 1), ("constant_file", 3)):
            tensor = constants(sample)[INDICES]
            last = Tensor(tensor.data_type, tensor.sizes, [*tensor.bits[:-1], tensor.bits[-1] ^ 0x20])
            at = (count - 1) * tensor.data_type.size
            text = f"byte {at} of {INDICES} must be {last.bits[-1]}, got {tensor.bits[-1]}"
            files = external(sample)
            assert [text] == compare(graphs(sample), DESCS[sample], constants={INDICES: last}, external=files)
        tensor = constants("constant_file")

        def texts(files):
            return compare(graphs("constant_file"), DESCS["constant_file"], constants=tensor, external=files)

        assert [f"{INDICES} must have its bytes in the file {INDICES}.bin, got no such file"] == texts({})
        assert [f"{INDICES} must have 24 bytes, got 20"] == texts({INDICES: bytes(20)})
        assert [f"{INDICES} must have 24 bytes, got 28"] == texts({INDICES: bytes(28)})

    @pytest.mark.parametrize("padding", range(5))
    def test_padding_of_constants(self, padding):
        """The EP fills a file up to a multiple of 4 bytes: 5 bytes to 8."""
        desc = GATHER.lowered_as
        data = Tensor(DataType.UINT8, (5,), [1, 2, 3, 4, 5])
        node = dataclasses.replace(node_for(desc), input_names=("c", INDICES))
        graph = graph_of(ConstantNode("c", None, "c", ("c",)), node)
        content = data.to_bytes() + bytes(padding)
        texts = compare([graph], desc, constants={"InputTensor": data}, external={"c": content})
        wanted = [] if padding in (0, 3) else [f"InputTensor must have 5 bytes, got {5 + padding}"]
        assert wanted == texts

    @given(strategies.descriptors(), st.data())
    def test_every_descriptor(self, desc, data):
        """A graph with the predicted descriptor is equal to it; with one number changed it is not."""
        assume(OPERATORS[desc.operator].expressed(desc))
        mapped = map_descriptor(desc, index_conversion="host")
        wanted = mapped.lowered_as
        node = node_for(wanted)
        assert [] == compare([read_graph(write(graph_of(node)))], wanted)
        kind = "identical" if desc == wanted else "substituted"
        assert kind == descriptor_class([graph_of(node)], mapped)
        tensors = [*node.inputs, *node.outputs]
        tensor = data.draw(st.integers(0, len(tensors) - 1))
        sizes = list(tensors[tensor].sizes)
        sizes[data.draw(st.integers(0, len(sizes) - 1))] += 1
        tensors[tensor] = dataclasses.replace(tensors[tensor], sizes=tuple(sizes))
        inputs, outputs = tensors[: len(node.inputs)], tensors[len(node.inputs) :]
        wrong = dataclasses.replace(node, inputs=tuple(inputs), outputs=tuple(outputs))
        (text,) = compare([read_graph(write(graph_of(wrong)))], wanted)
        assert f"Sizes must be {list([*wanted.tensors.values()][tensor].sizes)}, got {sizes}" in text
        assert "differs" == descriptor_class([graph_of(wrong)], mapped)

    @pytest.mark.parametrize("operator", [spread.OPERATOR, grid.OPERATOR], ids=lambda operator: operator.name)
    def test_outside_operators(self, operator):
        """The descriptor of an operator from outside the package is read from its spec."""
        with registered(operator.name):
            for desc in operator.samples():
                got = operator_desc(read_graph(write(graph_of(node_for(desc)))).operators[0])
                assert type(desc) is type(got)
                assert desc.numbers == got.numbers
                assert {n: t.sizes for n, t in desc.tensors.items()} == {n: t.sizes for n, t in got.tensors.items()}
