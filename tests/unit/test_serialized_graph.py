"""The graphs that the DirectML EP serializes: read, compared with the mapper's descriptor, and refused if they are wrong."""

import dataclasses
import random
import struct
from itertools import pairwise

import flatbuffers
import pytest
from flatbuffers import number_types
from hypothesis import given
from hypothesis import strategies as st
from outside import grid, scatter
from serialized_models import CONSTANTS, EMITTED, FOLDER, INDICES, MAPPED, OTHERS, emitted_desc

from opmap import register_operator, strategies, unregister_operator
from opmap.errors import InputError
from opmap.limits import MAX_GRAPH_BYTES
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS
from opmap.serialized_graph import (
    Activation,
    ConstantNode,
    OperatorNode,
    SerializedGraph,
    SerializedTensor,
    compare,
    descriptor_class,
    operator_desc,
    read_graph,
)
from opmap.tensors import DataType, Tensor

CONTENTS = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in sorted(FOLDER.glob("*/Partition_*.bin"))}
DESCS = {name: mapped.lowered_as for name, mapped in MAPPED.items()} | {
    name: emitted_desc(DataType.UINT8 if name == "bool" else DataType.FLOAT32) for name in EMITTED
}
"""Name of a sample with an operator that opmap has -> the descriptor that is expected in it."""


def graphs(sample):
    """Returns the graphs of a sample, in the order of their numbers."""
    return [read_graph(content) for path, content in CONTENTS.items() if path.startswith(f"{sample}/")]


def external(sample):
    """Returns the contents of the files beside a sample's graphs."""
    return {path.stem: path.read_bytes() for path in (FOLDER / sample).iterdir() if "Partition" not in path.name}


def constants(sample):
    """Returns the indices that the model of a sample holds."""
    return CONSTANTS[sample][1] if sample in CONSTANTS else {}


def node_of(graph, desc):
    """Returns the one node of a descriptor's operator."""
    (node,) = [node for node in graph.operators if node.type == f"DML_OPERATOR_{desc.operator}"]
    return node


def refused(content):
    """Returns the error of content that is refused: one line that names the place."""
    with pytest.raises(InputError) as raised:
        read_graph(content)
    assert raised.value.path.startswith("$")
    assert len(str(raised.value).splitlines()) == 1
    return str(raised.value)


# --- writing a graph -----------------------------------------------------------------------------------------------


def write(graph, attributes=None, *, repeat=1):
    """Returns a graph as the EP writes it. `attributes` replaces the attributes of every node, `repeat` repeats the nodes.

    An attribute is (name, variant, value); a value that is not bytes is a function that writes it.
    """
    builder = flatbuffers.Builder()
    nodes = [write_node(builder, node, attributes) for node in graph.nodes] * repeat
    fields = [offsets(builder, nodes), texts(builder, graph.inputs), texts(builder, graph.outputs)]
    builder.Finish(table(builder, *fields))
    return bytes(builder.Output())


def write_node(builder, node, attributes):
    if isinstance(node, ConstantNode):
        variant, content = (
            (1, builder.CreateString(node.external)) if node.data is None else (2, builder.CreateByteVector(node.data))
        )
        kind, desc, names = 2, table(builder, bytes([variant]), table(builder, content)), ()
    else:
        if attributes is None:
            attributes = [(name, 3, struct.pack("<I", value)) for name, value in node.attributes.items()]
        desc = table(
            builder,
            builder.CreateString(node.type),
            offsets(builder, [write_tensor(builder, tensor) for tensor in node.inputs]),
            offsets(builder, [write_tensor(builder, tensor) for tensor in node.outputs]),
            offsets(builder, [write_attribute(builder, *attribute) for attribute in attributes]),
        )
        kind, names = 1, node.input_names
    name, inputs = builder.CreateString(node.name), texts(builder, names)
    return table(builder, bytes([kind]), desc, name, inputs, texts(builder, node.output_names))


def write_tensor(builder, tensor):
    data_type, sizes = builder.CreateString(tensor.data_type), numbers(builder, "I", tensor.sizes)
    strides = None if tensor.strides is None else numbers(builder, "I", tensor.strides)
    return table(builder, data_type, sizes, strides, struct.pack("<Q", tensor.total_size_in_bytes or 0))


def write_attribute(builder, name, variant, value):
    name = None if name is None else builder.CreateString(name)
    if isinstance(value, bytes):
        builder.Prep(8, len(value))
        for byte in reversed(value):
            builder.PrependUint8(byte)
        value = builder.Offset()
    elif value is not None:
        value = value(builder)
    return table(builder, name, bytes([variant]), value)


def table(builder, *fields):
    """Writes a table. A field is an offset, the bytes of a number, or None."""
    builder.StartObject(len(fields))
    for slot, field in enumerate(fields):
        if isinstance(field, bytes):
            flags = {1: number_types.Uint8Flags, 8: number_types.Uint64Flags}[len(field)]
            builder.PrependSlot(flags, slot, int.from_bytes(field, "little"), 0)
        elif field is not None:
            builder.PrependUOffsetTRelativeSlot(slot, field, 0)
    return builder.EndObject()


def offsets(builder, values):
    builder.StartVector(4, len(values), 4)
    for value in reversed(values):
        builder.PrependUOffsetTRelative(value)
    return builder.EndVector()


def texts(builder, values):
    return offsets(builder, [builder.CreateString(value) for value in values])


def numbers(builder, code, values):
    builder.StartVector(4, len(values), 4)
    for value in reversed(values):
        builder.PrependUint32(struct.unpack("<I", struct.pack(f"<{code}", value))[0])
    return builder.EndVector()


def array(code, *values):
    """Writes an array attribute."""
    return lambda builder: table(builder, numbers(builder, code, values))


def activation(type, *attributes):
    """Writes an activation."""

    def write(builder):
        name = builder.CreateString(type)
        return table(builder, name, offsets(builder, [write_attribute(builder, *a) for a in attributes]))

    return write


def activations(*written):
    """Writes an array of activations."""
    return lambda builder: table(builder, offsets(builder, [write(builder) for write in written]))


def scalar(kind, content):
    """Writes a scalar of any type."""

    def write(builder):
        builder.Prep(8, len(content))
        for byte in reversed(content):
            builder.PrependUint8(byte)
        return table(builder, bytes([kind]), builder.Offset())

    return write


def node_for(desc):
    """Returns a node with this descriptor."""

    def tensor(member):
        return SerializedTensor(
            f"DML_TENSOR_DATA_TYPE_{member.data_type.name}", member.sizes, member.strides, member.minimum_size_in_bytes
        )

    inputs = tuple(tensor(member) for member in desc.inputs.values())
    type = f"DML_OPERATOR_{desc.operator}"
    return OperatorNode("node", type, inputs, (tensor(desc.output),), desc.numbers, tuple(desc.inputs), ("output",))


def graph_of(*nodes):
    """Returns a graph of these nodes."""
    return SerializedGraph(nodes, ("InputTensor", INDICES), ("output",))


# --- what the EP writes --------------------------------------------------------------------------------------------


class TestSamples:
    """Graphs that the DirectML EP wrote."""

    def test_complete(self):
        """Every model has graphs, and every graph has a model."""
        assert {*MAPPED, *EMITTED, *OTHERS} == {path.split("/")[0] for path in CONTENTS}

    @pytest.mark.parametrize("sample", DESCS)
    def test_as_predicted(self, sample):
        """The EP makes the descriptor that the mapper predicts, and holds the model's constants."""
        differences = compare(graphs(sample), DESCS[sample], constants=constants(sample), external=external(sample))
        assert [] == differences

    @pytest.mark.parametrize(("sample", "other"), [*pairwise([*DESCS, "gather"])])
    def test_not_as_another(self, sample, other):
        """The same graph is not equal to the descriptor of another sample."""
        same = DESCS[sample] == DESCS[other] and constants(sample) == constants(other)
        differences = compare(graphs(sample), DESCS[other], constants=constants(other), external=external(sample))
        assert same == (not differences)

    @pytest.mark.parametrize("sample", DESCS)
    def test_descriptor(self, sample):
        """A node becomes the predicted descriptor, with the sizes in bytes that the EP writes."""
        wanted = DESCS[sample]
        members = {
            name: dataclasses.replace(tensor, total_tensor_size_in_bytes=tensor.minimum_size_in_bytes)
            for name, tensor in wanted.tensors.items()
        }
        nodes = [n for g in graphs(sample) for n in g.operators if n.type == f"DML_OPERATOR_{wanted.operator}"]
        assert nodes
        assert all(wanted.from_members({**members, **wanted.numbers}) == operator_desc(node) for node in nodes)

    @pytest.mark.parametrize("sample", MAPPED)
    def test_class(self, sample):
        """A descriptor is substituted if the mapper's descriptor is another one than the case's."""
        mapped = MAPPED[sample]
        wanted = "identical" if mapped.desc == mapped.lowered_as else "substituted"
        assert wanted == descriptor_class(graphs(sample), mapped)

    def test_classes(self):
        """The samples hold descriptors of both classes."""
        classes = {descriptor_class(graphs(sample), mapped) for sample, mapped in MAPPED.items()}
        assert {"identical", "substituted"} == classes

    def test_nodes_around(self):
        """A Cast, a Tile and a Reshape become nodes of their own; a Reshape is a copy of the whole tensor."""

        def types(sample):
            return [[node.type.removeprefix("DML_OPERATOR_") for node in graph.operators] for graph in graphs(sample)]

        assert [["ELEMENT_WISE_IDENTITY", "GATHER"]] == types("gather")
        assert [["CAST", "GATHER"]] == types("gather_cast")
        assert [["TILE", "GATHER"]] == types("gather_tile")
        assert [["ELEMENT_WISE_IDENTITY", "GATHER", "ELEMENT_WISE_IDENTITY"]] == types("gather_scalar")
        assert [["GATHER"], ["GATHER"]] == types("partitions")
        assert [["GATHER"]] == types("branches")  # the other branch had the same file name

    def test_constants(self):
        """A constant below 8 bytes is in the graph; the bytes of a larger one are in a file."""
        (inside,), (outside,) = graphs("constant_inside"), graphs("constant_file")
        name = f"{INDICES}-nodeIdx:0-outputIdx:0"
        assert ConstantNode(INDICES, constants("constant_inside")[INDICES].to_bytes(), None, (name,)) == inside.nodes[0]
        assert ConstantNode(INDICES, None, INDICES, (name,)) == outside.nodes[0]
        assert constants("constant_file")[INDICES].to_bytes() == external("constant_file")[INDICES]
        assert inside.nodes[0] == inside.sources[name]
        assert "InputTensor" not in inside.sources

    def test_values(self):
        """A value leads to the node that gives it. An empty name is no value."""
        (graph,) = graphs("chain")
        assert ["a", "b", "c", "e", "o"] == [*graph.sources][::-1]
        assert graph.operators[2] == graph.sources["c"]
        assert {} == graph_of(dataclasses.replace(graph.operators[2], output_names=("",))).sources

    def test_unused_places(self):
        """A graph input that several nodes use leaves empty names behind."""
        (graph,) = graphs("repeated")
        assert ("f", "i", "d", "") == graph.inputs

    def test_strides(self):
        """Expand is a copy from a tensor with strides of 0."""
        ((node,),) = [graph.operators for graph in graphs("expand")]
        float32 = "DML_TENSOR_DATA_TYPE_FLOAT32"
        assert (SerializedTensor(float32, (1, 1, 2, 3), (0, 0, 0, 1), 12),) == node.inputs
        assert (SerializedTensor(float32, (1, 1, 2, 3), None, 24),) == node.outputs
        assert {} == node.attributes  # an empty ScaleBias

    @pytest.mark.parametrize(
        ("sample", "name", "value"),
        [
            ("activation", "FusedActivation", Activation("DML_OPERATOR_ACTIVATION_LEAKY_RELU", {"Alpha": 0.25})),
            ("activation", "Strides", (1, 1)),
            ("activation", "GroupCount", 1),
            ("clip", "Min", struct.pack("<fI", 0.5, 0)),
            ("resize", "Scales", (1.0, 1.0, 2.0, 3.0)),
            ("slice", "InputWindowStrides", (-2, 1)),
        ],
    )
    def test_attributes(self, sample, name, value):
        """Attributes have the values of the ONNX model."""
        (graph,) = graphs(sample)
        assert value == graph.operators[-1].attributes[name]

    def test_missing_input(self):
        """A convolution without a bias has an empty third input, and two tensors."""
        (graph,) = graphs("activation")
        (node,) = graph.operators
        assert "" == node.input_names[2]
        assert 2 == len(node.inputs)


# --- comparison ----------------------------------------------------------------------------------------------------

GATHER = MAPPED["gather"]


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

    def test_class_of_each_node(self):
        """A class holds for all nodes, or the descriptor differs."""
        (graph,) = graphs("gather")
        wrong = changed(graph, GATHER.lowered_as, attributes={"Axis": 0, "IndexDimensions": 1})
        assert "identical" == descriptor_class([graph, graph], GATHER)
        assert "differs" == descriptor_class([graph, wrong], GATHER)

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
            ({"attributes": {"Axis": 1.0, "IndexDimensions": 1}}, "OutputTensor_dmlEp_0.Axis: must be a UINT, got 1.0"),
            ({"attributes": {"Axis": -1, "IndexDimensions": 1}}, "OutputTensor_dmlEp_0.Axis: must be a UINT, got -1"),
            (
                {"attributes": {"Axis": True, "IndexDimensions": 1}},
                "OutputTensor_dmlEp_0.Axis: must be a UINT, got True",
            ),
            ({"input_names": ("InputTensor",)}, "inputNames must be 2 names, got 1"),
        ],
    )
    def test_no_descriptor(self, fields, text):
        """A node that is no descriptor of its operator."""
        (graph,) = graphs("gather")
        (got,) = compare([changed(graph, GATHER.lowered_as, **fields)], GATHER.lowered_as)
        assert got.startswith(text)

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
        for type in ("DML_OPERATOR_CAST", "GATHER"):
            with pytest.raises(InputError, match=f"must be one of DML_OPERATOR_GATHER, .*, got {type}"):
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
        wrong = dataclasses.replace(node, inputs=tuple(tensors[:-1]), outputs=tuple(tensors[-1:]))
        (text,) = compare([read_graph(write(graph_of(wrong)))], wanted)
        assert f"Sizes must be {list([*wanted.tensors.values()][tensor].sizes)}, got {sizes}" in text
        assert "differs" == descriptor_class([graph_of(wrong)], mapped)

    @pytest.mark.parametrize("operator", [scatter.OPERATOR, grid.OPERATOR], ids=lambda operator: operator.name)
    def test_outside_operators(self, operator):
        """The descriptor of an operator from outside the package is read from its spec."""
        folder = FOLDER.parent / "outside"
        name = operator.name.lower()
        register_operator(operator, spec=folder / f"{name}.toml", arrays=folder / f"{name}.json")
        try:
            for desc in operator.samples():
                got = operator_desc(read_graph(write(graph_of(node_for(desc)))).operators[0])
                assert type(desc) is type(got)
                assert desc.numbers == got.numbers
                assert {n: t.sizes for n, t in desc.tensors.items()} == {n: t.sizes for n, t in got.tensors.items()}
        finally:
            unregister_operator(operator.name)


# --- content from outside ------------------------------------------------------------------------------------------

PLAIN = graph_of(node_for(GATHER.lowered_as), ConstantNode("c", b"\1\2", None, ("x",)))


class TestReading:
    """All that the schema allows is read."""

    def test_round_trip(self):
        """A written graph is read back."""
        constant = ConstantNode("größe", None, "grösse", ("y",))
        operator = PLAIN.operators[0]
        tensor = dataclasses.replace(operator.inputs[0], strides=(7, 0), total_size_in_bytes=None)
        operator = dataclasses.replace(operator, inputs=(tensor,), output_names=("", "z"))
        graph = dataclasses.replace(PLAIN, nodes=(*PLAIN.nodes, constant, operator), inputs=("a", ""))
        assert graph == read_graph(write(graph))

    @pytest.mark.parametrize(
        ("variant", "written", "value"),
        [
            (1, activation("A", ("Alpha", 6, struct.pack("<f", 2))), Activation("A", {"Alpha": 2.0})),
            (2, activations(activation("A"), activation("B")), (Activation("A", {}), Activation("B", {}))),
            (3, struct.pack("<I", 2**32 - 1), 2**32 - 1),
            (4, struct.pack("<Q", 2**64 - 1), 2**64 - 1),
            (5, struct.pack("<i", -5), -5),
            (6, struct.pack("<f", 0.5), 0.5),
            (7, array("I", 1, 2**32 - 1), (1, 2**32 - 1)),
            (8, array("i", -1, 2), (-1, 2)),
            (9, array("f", 0.5), (0.5,)),
            (10, struct.pack("<2f", 2, 3), (2.0, 3.0)),
            (11, struct.pack("<2I", 2, 3), (2, 3)),
            (12, scalar(1, bytes(range(8))), bytes(range(8))),
            (12, scalar(5, b"\1\2"), b"\1\2"),
            (13, b"\1", True),
            (6, None, None),
        ],
    )
    def test_attributes(self, variant, written, value):
        """Every kind of attribute; a bool is no number."""
        (node,) = read_graph(write(PLAIN, [("name", variant, written)])).operators
        assert {"name": value} == node.attributes
        assert type(value) is type(node.attributes["name"])

    @pytest.mark.parametrize(
        ("attributes", "text"),
        [
            ([("a", 14, b"\1")], "$.nodes[0].desc.attributes[0].val_type: must be 1 to 13, got 14"),
            ([("a", 0, b"\1")], "$.nodes[0].desc.attributes[0].val_type: must be 1 to 13, got 0"),
            ([(None, 3, bytes(4))], "$.nodes[0].desc.attributes[0].name: must be given, got nothing"),
            (
                [("a", 13, b"\1"), ("a", 13, b"\1")],
                "$.nodes[0].desc.attributes[1].name: must have a name of its own, got a again",
            ),
            (
                [("a", 1, activation("A", ("b", 1, activation("B"))))],
                "$.nodes[0].desc.attributes[0].val.attributes[0].val_type: must be 3 to 13 in an activation, got 1",
            ),
            (
                [("a", 1, activation("A", ("b", 2, activations())))],
                "$.nodes[0].desc.attributes[0].val.attributes[0].val_type: must be 3 to 13 in an activation, got 2",
            ),
            (
                [("a", 12, scalar(12, bytes(8)))],
                "$.nodes[0].desc.attributes[0].val.data_type: must be 1 to 11, got 12",
            ),
            (
                [("a", 12, scalar(0, bytes(8)))],
                "$.nodes[0].desc.attributes[0].val.data_type: must be 1 to 11, got 0",
            ),
        ],
    )
    def test_refused_attributes(self, attributes, text):
        """Attributes that the schema does not allow."""
        assert text == refused(write(PLAIN, attributes))


def with_kinds(kind, variant):
    """Returns a graph with one constant node, and other numbers for the kinds of the node and of its content."""
    builder = flatbuffers.Builder()
    content = table(builder, builder.CreateByteVector(b"\1"))
    desc = table(builder, bytes([variant]), content)
    name, none = builder.CreateString("c"), offsets(builder, [])
    node = table(builder, bytes([kind]), desc, name, none, none)
    builder.Finish(table(builder, offsets(builder, [node]), none, none))
    return bytes(builder.Output())


class TestHostile:
    """Wrong content is refused in one line, in short time and with little memory, whatever it is."""

    def test_kinds(self):
        """Unknown kinds of nodes and of constants."""
        assert b"\1" == read_graph(with_kinds(2, 2)).nodes[0].data
        assert "$.nodes[0].desc_type: must be 1 (operator) or 2 (constant), got 3" == refused(with_kinds(3, 2))
        assert "$.nodes[0].desc_type: must be 1 (operator) or 2 (constant), got 0" == refused(with_kinds(0, 2))
        assert "$.nodes[0].desc.data_type: must be 1 (name) or 2 (data), got 3" == refused(with_kinds(2, 3))

    @pytest.mark.parametrize(
        ("content", "text"),
        [
            (b"", "$: must lie within the 0 bytes of the graph, got bytes 0 to 4"),
            (b"\4\0\0", "$: must lie within the 3 bytes of the graph, got bytes 0 to 4"),
            (b"\xff" * 8, "$: must lie within the 8 bytes of the graph, got bytes 4294967295 to 4294967299"),
            # the table's own offset puts its vtable before the content
            (struct.pack("<Ii", 4, 5), "$: must lie within the 8 bytes of the graph, got bytes -1 to 1"),
            (struct.pack("<Ii2HB", 4, -4, 5, 4, 0), "$: must have a vtable of an even size of at least 4 bytes, got 5"),
            (struct.pack("<Ii2H", 4, -4, 2, 4), "$: must have a vtable of an even size of at least 4 bytes, got 2"),
            (struct.pack("<Ii2H", 4, -4, 6, 4), "$: must lie within the 12 bytes of the graph, got bytes 8 to 14"),
            (struct.pack("<Ii2H", 4, -4, 4, 4), "$.nodes: must be given, got nothing"),
            (
                # one field, a vector of 2^32 - 1 nodes
                struct.pack("<Ii4H2I", 4, -4, 6, 8, 12, 0, 4, 2**32 - 1),
                "$.nodes: must lie within the 24 bytes of the graph, got bytes 24 to 17179869204",
            ),
            (bytes(MAX_GRAPH_BYTES + 1), f"$: must have at most {MAX_GRAPH_BYTES} bytes, got {MAX_GRAPH_BYTES + 1}"),
        ],
    )
    def test_places(self, content, text):
        """Places outside the content, before it and after it, and a file that is too large."""
        assert refused(content).startswith(text)

    def test_text(self):
        """A name that is not UTF-8."""
        content = write(PLAIN).replace(b"DML_OPERATOR_", b"DML\xffOPERATOR_")
        assert "$.nodes[0].desc.type: must be UTF-8, got other bytes" == refused(content)

    def test_long_names(self):
        """Names and sizes from the file come into a text escaped and shortened."""
        desc = GATHER.lowered_as
        node = node_for(desc)
        sizes = (1,) * 10_000
        wrong = [
            dataclasses.replace(node, type="DML_OPERATOR_" + "\n" * 10_000),
            dataclasses.replace(node, inputs=()),
            dataclasses.replace(node, attributes={"\n" * 10_000: 1}),
            dataclasses.replace(node, attributes={**node.attributes, "Axis": sizes}),
            dataclasses.replace(
                node, inputs=(dataclasses.replace(node.inputs[0], data_type="\n" * 10_000), *node.inputs)
            ),
            dataclasses.replace(node, inputs=(dataclasses.replace(node.inputs[0], sizes=sizes), node.inputs[1])),
            dataclasses.replace(
                node, inputs=(dataclasses.replace(node.inputs[0], sizes=sizes, strides=sizes), node.inputs[1])
            ),
        ]
        for first in wrong:
            for second in (first, node):
                nodes = [dataclasses.replace(n, name="\n" * 10_000) for n in (first, second)]
                texts = compare([graph_of(*nodes)], desc)
                assert texts or first.type != node.type
                assert all(len(text.splitlines()) == 1 and len(text) < 1000 for text in texts)
        constant = ConstantNode("\n" * 10_000, None, "\n" * 10_000, ("c",))
        graph = graph_of(constant, dataclasses.replace(node, input_names=("c", "c")))
        texts = compare([graph], desc, constants=ONE_INDEX)
        assert 2 == len(texts)
        assert all(len(text.splitlines()) == 1 and len(text) < 1000 for text in texts)

    def test_shared_parts(self):
        """A small file whose nodes share their parts cannot become a large graph."""
        content = write(PLAIN, repeat=50_000)
        assert len(content) < MAX_GRAPH_BYTES / 8
        assert f"must be a graph of at most {MAX_GRAPH_BYTES} bytes" in refused(content)
        assert 200 == len(read_graph(write(PLAIN, repeat=100)).nodes)

    @pytest.mark.parametrize("path", CONTENTS)
    def test_truncated(self, path):
        """No beginning of a graph is a graph."""
        content = CONTENTS[path]
        for size in range(len(content)):
            refused_or_read(content[:size])
        refused(content[: len(content) // 2])

    @pytest.mark.parametrize("sample", ["gather", "constant_inside", "activation", "clip"])
    def test_changed_bytes(self, sample):
        """A graph with one byte changed is read or refused, and many are refused."""
        content, count = CONTENTS[f"{sample}/Partition_0.bin"], 0
        for at in range(len(content)):
            for mask in (0x01, 0x80, 0xFF):
                count += refused_or_read(content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :])
        assert count > len(content) / 2

    def test_many_changed_bytes(self):
        """A graph with several bytes changed."""
        source = random.Random(1)
        contents = [*CONTENTS.values()]
        for _ in range(2000):
            content = bytearray(source.choice(contents))
            for _ in range(source.randint(2, 8)):
                content[source.randrange(len(content))] = source.choice((0, 1, 4, 255, source.randrange(256)))
            refused_or_read(bytes(content))

    @given(st.binary(max_size=200))
    def test_random_bytes(self, content):
        """Any bytes."""
        refused_or_read(content)

    @given(st.lists(st.integers(0, 24), max_size=60))
    def test_small_numbers(self, words):
        """Any small offsets, which often lead somewhere."""
        refused_or_read(struct.pack(f"<{len(words)}H", *words))


SMALLEST = [next(iter(operator.samples())) for operator in OPERATORS.values()]
ONE_INDEX = {INDICES: Tensor(DataType.INT64, (1,), [0])}


def refused_or_read(content):
    """Returns whether the content is refused, with one line. Compares it if it is not."""
    try:
        graph = read_graph(content)
    except InputError as error:
        assert len(str(error).splitlines()) == 1
        return True
    for desc in SMALLEST:
        assert all(len(text.splitlines()) == 1 for text in compare([graph], desc, constants=ONE_INDEX))
    return False
