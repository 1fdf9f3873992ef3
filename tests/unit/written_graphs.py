"""Serialized graphs that are made by hand, and written as the DirectML EP writes them."""

import struct

import flatbuffers
from flatbuffers import number_types
from serialized_models import INDICES

from opmap.mapping.serialized_graph import ConstantNode, OperatorNode, SerializedGraph, SerializedTensor
from opmap.operators import OPERATORS


def write(graph, attributes=None, *, repeat=1):
    """Returns a graph as the EP writes it.

    `attributes` replaces the attributes of every node, `repeat` repeats the nodes.

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
            kinds = {field.name: field.kind for field in spec_of(node).fields}
            attributes = [(name, *number(kinds[name], value)) for name, value in node.attributes.items()]
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


def spec_of(node):
    return OPERATORS[node.type.removeprefix("DML_OPERATOR_")].descriptor.spec()


def number(kind, value):
    """Returns the variant and the value of an attribute: a number, a scalar of any type, or an array of numbers."""
    if kind == "scalar":
        return 12, struct.pack("<Q", value)
    code = "i" if kind.startswith("int") else "I"
    if kind.endswith("s"):
        return {"I": 7, "i": 8}[code], array(code, *value)
    return {"I": 3, "i": 5}[code], struct.pack(f"<{code}", value)


def array(code, *values):
    """Writes an array attribute."""
    return lambda builder: table(builder, numbers(builder, code, values))


def node_for(desc):
    """Returns a node with this descriptor."""

    def tensor(member):
        return SerializedTensor(
            f"DML_TENSOR_DATA_TYPE_{member.data_type.name}", member.sizes, member.strides, member.minimum_size_in_bytes
        )

    inputs = tuple(tensor(member) for member in desc.inputs.values())
    type = f"DML_OPERATOR_{desc.operator}"
    outputs = tuple(tensor(member) for member in desc.outputs.values())
    names = ("output",) if len(outputs) == 1 else tuple(desc.outputs)
    return OperatorNode("node", type, inputs, outputs, desc.numbers, tuple(desc.inputs), names)


def graph_of(*nodes):
    """Returns a graph of these nodes."""
    return SerializedGraph(nodes, ("InputTensor", INDICES), ("output",))
