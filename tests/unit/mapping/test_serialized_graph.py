"""The graphs that the DirectML EP serializes: they are as the mapper predicts, and wrong ones are refused."""

import dataclasses
import struct

import flatbuffers
import pytest
from serialized_models import EMITTED, INDICES, MAPPED, OTHERS
from serialized_samples import CONTENTS, DESCS, GATHER, constants, external, graphs
from written_graphs import array, graph_of, node_for, offsets, table, write

from opmap.errors import InputError
from opmap.limits import MAX_GRAPH_BYTES
from opmap.mapping.serialized_graph import ConstantNode, compare, descriptor_class, read_graph
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor


def refused(content):
    """Returns the error of content that is refused: one line that names the place."""
    with pytest.raises(InputError) as raised:
        read_graph(content)
    assert raised.value.path.startswith("$")
    assert len(str(raised.value).splitlines()) == 1
    return str(raised.value)


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

    @pytest.mark.parametrize("sample", MAPPED)
    def test_class(self, sample):
        """A descriptor is substituted if the mapper's descriptor is another one than the case's."""
        mapped = MAPPED[sample]
        wanted = "identical" if mapped.desc == mapped.lowered_as else "substituted"
        assert wanted == descriptor_class(graphs(sample), mapped)

    def test_constants(self):
        """A constant below 8 bytes is in the graph; the bytes of a larger one are in a file."""
        (inside,), (outside,) = graphs("constant_inside"), graphs("constant_file")
        name = f"{INDICES}-nodeIdx:0-outputIdx:0"
        assert ConstantNode(INDICES, constants("constant_inside")[INDICES].to_bytes(), None, (name,)) == inside.nodes[0]
        assert ConstantNode(INDICES, None, INDICES, (name,)) == outside.nodes[0]
        assert constants("constant_file")[INDICES].to_bytes() == external("constant_file")[INDICES]
        assert inside.nodes[0] == inside.sources[name]
        assert "InputTensor" not in inside.sources

    @pytest.mark.parametrize(
        ("sample", "name", "value"),
        [
            ("activation", "FusedActivation", None),
            ("activation", "Strides", (1, 1)),
            ("activation", "GroupCount", 1),
            ("clip", "Min", None),
            ("resize", "Scales", (1.0, 1.0, 2.0, 3.0)),
            ("slice", "InputWindowStrides", (-2, 1)),
        ],
    )
    def test_attributes(self, sample, name, value):
        """Attributes have the values of the ONNX model."""
        (graph,) = graphs(sample)
        assert value == graph.operators[-1].attributes[name]


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
            (1, b"an activation", None),
            (3, struct.pack("<I", 2**32 - 1), 2**32 - 1),
            (4, struct.pack("<Q", 2**64 - 1), 2**64 - 1),
            (5, struct.pack("<i", -5), -5),
            (6, struct.pack("<f", 0.5), 0.5),
            (7, array("I", 1, 2**32 - 1), (1, 2**32 - 1)),
            (8, array("i", -1, 2), (-1, 2)),
            (9, array("f", 0.5), (0.5,)),
            (10, struct.pack("<2f", 2, 3), (2.0, 3.0)),
            (11, struct.pack("<2I", 2, 3), (2, 3)),
            (12, b"a scalar of any type", None),
            (13, b"\1", True),
            (6, None, None),
        ],
    )
    def test_attributes(self, variant, written, value):
        """Every kind of attribute; a bool is no number. What no descriptor has is not read."""
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

    def test_shared_parts(self, monkeypatch):
        """A small file whose nodes share their parts cannot become a large graph."""
        content = write(PLAIN, repeat=100)
        assert 200 == len(read_graph(content).nodes)
        monkeypatch.setattr("opmap.mapping.flatbuffer.MAX_GRAPH_BYTES", 8 * len(content))
        assert f"must be a graph of at most {8 * len(content)} bytes" in refused(content)

    def test_truncated(self):
        """No beginning of a graph is a graph."""
        for content in CONTENTS.values():
            for size in range(0, len(content), 7):
                refused_or_read(content[:size])
            refused(content[: len(content) // 2])

    def test_changed_bytes(self):
        """A graph with one byte changed is read or refused, and many are refused."""
        content, count = CONTENTS["constant_inside/Partition_0.bin"], 0
        for at in range(len(content)):
            for mask in (0x01, 0x80, 0xFF):
                count += refused_or_read(content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :])
        assert count > len(content) / 2


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
