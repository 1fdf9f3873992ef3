"""The mapping to ONNX and back, against a second implementation of the EP's lowering."""

import math

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from onnx import TensorProto, helper

from opmap import strategies
from opmap.descriptors import TensorDesc, complete, pad
from opmap.errors import MappingError
from opmap.mapping import ELEMENT_TYPES, IR_VERSION, OPSET, convert, map_descriptor
from opmap.operators import OPERATORS, emitted
from opmap.tensors import DataType, Tensor

F32, I64 = DataType.FLOAT32, DataType.INT64
GATHER = next(OPERATORS["GATHER"].samples())
SHAPES = [desc for module in OPERATORS.values() for desc in module.samples() if module.expressed(desc)]
DATA_TYPES = {number: data_type for data_type, number in ELEMENT_TYPES.items()}


def directml(model, fed):
    """Returns the descriptor that the DirectML EP makes of a model's one operator node, as (operator, members).

    `fed` are the constants that are fed.
    Written from the EP's source, independently of opmap's mapping. The dimension count is the highest rank of data,
    indices and output. Every shape gets leading ones, and the axis moves by as many.
    """
    shapes, types = {}, {}
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    for value in (*inferred.graph.input, *inferred.graph.output, *inferred.graph.value_info):
        shapes[value.name] = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        types[value.name] = DATA_TYPES[value.type.tensor_type.elem_type]
    types = {name: DataType.UINT8 if own is DataType.BOOL else own for name, own in types.items()}
    nodes = inferred.graph.node
    (node,) = [n for n in nodes if n.op_type not in ("Cast", "Reshape")] or [n for n in nodes if n.op_type == "Cast"]
    if node.op_type in ("Split", "Concat"):
        return of_arrays(node, shapes, types)
    if node.op_type in ("Slice", "Tile"):
        return without_indices(node, inferred.graph.initializer, shapes, types)
    if node.op_type in ("Transpose", "Expand"):
        return of_strides(node, shapes, types)
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        return of_scales(node, shapes, types)
    if node.op_type in OF_ELEMENTS:
        constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in inferred.graph.initializer}
        return of_elements(node, shapes, types, constants)
    if node.op_type in ("CumSum", "Hardmax", "TopK", "ArgMin", "ArgMax") or node.op_type.startswith("Reduce"):
        constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in inferred.graph.initializer}
        return of_reductions(node, shapes, types, constants)
    if node.op_type in ("MatMulInteger", "ConvInteger"):
        return of_products(node, shapes, types)
    attributes = {a.name: a.i for a in node.attribute}
    if node.op_type == "ConstantOfShape":
        output, value = shapes[node.output[0]], onnx.numpy_helper.to_array(node.attribute[0].t)
        data_type = types[node.output[0]]
        filled = TensorDesc(data_type, pad(output, max(len(output), 4)))
        return "FILL_VALUE_CONSTANT", (filled, data_type.number, int.from_bytes(value.tobytes(), "little"))
    if node.op_type == "Range":
        start, end, step = (fed[name].values[0] for name in node.input)
        output = TensorDesc(types[node.output[0]], (1, 1, 1, math.ceil((end - start) / step)))
        ends = (fed[name].bits[0] for name in (node.input[0], node.input[2]))
        return "FILL_VALUE_SEQUENCE", (output, output.data_type.number, *ends)
    if node.op_type == "MaxPool":
        return of_pools(node, shapes, types)
    if node.op_type == "Pad":
        return padded(node, inferred.graph.initializer, shapes, types)
    if node.op_type == "EyeLike":
        ends = pad(shapes[node.output[0]], 4)
        return "DIAGONAL_MATRIX", (TensorDesc(types[node.output[0]], ends), attributes["k"], 0x3F800000)
    if node.op_type == "Trilu":
        return triangle(node, inferred.graph.initializer, shapes, types)
    if node.op_type in ("DepthToSpace", "SpaceToDepth"):
        ends = [TensorDesc(types[name], shapes[name]) for name in (node.input[0], node.output[0])]
        order = next((int(a.s == b"CRD") for a in node.attribute if a.name == "mode"), 0)
        return f"{'DEPTH_TO_SPACE1' if node.op_type[0] == 'D' else 'SPACE_TO_DEPTH1'}", (
            *ends,
            attributes["blocksize"],
            order,
        )
    if node.op_type in ("OneHot", "ReverseSequence"):
        output = shapes[node.output[0]]
        if node.op_type == "ReverseSequence":
            output = pad(output, 4)
        axis = (
            attributes["axis" if node.op_type == "OneHot" else "time_axis"] + len(output) - len(shapes[node.output[0]])
        )
        numbers = TensorDesc(
            types[node.input[node.op_type == "ReverseSequence"]], (*output[:axis], 1, *output[axis + 1 :])
        )
        data = TensorDesc(types[node.output[0]], output)
        if node.op_type == "OneHot":
            return "ONE_HOT", (numbers, TensorDesc(data.data_type, (1, 1, 1, 2)), data, axis)
        return "REVERSE_SUBSEQUENCES", (data, TensorDesc(DataType.UINT64, numbers.sizes), data, axis)
    names = (*node.input, *node.output)
    count = max(len(shapes[name]) for name in names)
    tensors = [TensorDesc(types[n], (1,) * (count - len(shapes[n])) + shapes[n]) for n in names]
    rank, index_rank = len(shapes[names[0]]), len(shapes[names[1]])
    match node.op_type:
        case "Where":
            tensors = [TensorDesc(t.data_type, pad(t.sizes, max(count, 4))) for t in tensors]
            return "ELEMENT_WISE_IF", (TensorDesc(DataType.UINT8, tensors[0].sizes), *tensors[1:])
        case "Gather":
            return "GATHER", (*tensors, attributes["axis"] + count - rank, index_rank)
        case "GatherElements":
            return "GATHER_ELEMENTS", (*tensors, attributes["axis"] + count - rank)
        case "GatherND":
            return "GATHER_ND1", (*tensors, rank, index_rank, attributes["batch_dims"])
        case "ScatterElements":
            count = max(count, 4)
            tensors = [TensorDesc(t.data_type, pad(t.sizes, count)) for t in tensors]
            return "SCATTER", (*tensors, attributes["axis"] + count - rank)
        case "ScatterND":
            return "SCATTER_ND", (*tensors, rank, index_rank)
    raise AssertionError(node.op_type)


def of_strides(node, shapes, types):
    """Returns the descriptor that the DirectML EP makes of a Transpose or an Expand node: only Expand's is padded, to
    four dimensions.

    NumPy gives the strides of the permuted or broadcast input. The EP gives a dimension of size 1 of an Expand the
    stride 0.
    """
    data, shape = types[node.input[0]], shapes[node.input[0]]
    if node.op_type == "Expand":
        output = TensorDesc(data, pad(shapes[node.output[0]], 4))
        return "ELEMENT_WISE_IDENTITY", (repeated(data, shape, output.sizes), output)
    view = np.empty(shape, f"V{data.size}").transpose(*(list(a.ints) for a in node.attribute))
    packed = TensorDesc(data, view.shape)
    strided = TensorDesc(data, view.shape, tuple(stride // data.size for stride in view.strides))
    return "ELEMENT_WISE_IDENTITY", (packed if strided.packed else strided, packed)


def repeated(data_type, shape, sizes):
    """Returns an input as the DirectML EP broadcasts it: NumPy's strides, and 0 in a dimension of size 1."""
    view = np.broadcast_to(np.empty(shape, f"V{data_type.size}"), sizes)
    ones = pad(shape, view.ndim)
    strides = (0 if ones[d] == 1 else stride // data_type.size for d, stride in enumerate(view.strides))
    strided = TensorDesc(data_type, sizes, tuple(strides))
    return TensorDesc(data_type, sizes) if strided.packed else strided


OF_ELEMENTS = {
    **{f"Bitwise{name.title()}": f"BIT_{name}" for name in ("AND", "OR", "XOR", "NOT")},
    **{name.title(): f"LOGICAL_{name}" for name in ("AND", "OR", "XOR", "NOT")},
    **{"BitShift": "BIT_SHIFT_{direction}", "IsNaN": "IS_NAN", "IsInf": "IS_INFINITY"},
    **{"Equal": "LOGICAL_EQUALS", "Greater": "LOGICAL_GREATER_THAN", "Less": "LOGICAL_LESS_THAN"},
    **{f"{name}OrEqual": f"LOGICAL_{name.upper()}_THAN_OR_EQUAL" for name in ("Greater", "Less")},
    **{name: name.upper() for name in ("Cast", "Max", "Min", "Abs", "Sign", "Ceil", "Floor", "Round", "Add")},
    **{"Neg": "NEGATE", "Clip": "CLIP1", "Sub": "SUBTRACT", "Mul": "MULTIPLY", "Div": "DIVIDE", "Mod": "MODULUS"},
    **{"Relu": "RELU", "ThresholdedRelu": "THRESHOLDED_RELU"},
}
"""Node -> the element-wise operator that the DirectML EP makes of it."""


def of_scales(node, shapes, types):
    """Returns the descriptor that the DirectML EP makes of a node with scales: a list of them stands along the axis."""
    data, *scales = node.input
    rank = len(shapes[data])
    output = TensorDesc(types[node.output[0]], pad(shapes[node.output[0]], 4))
    behind = (1,) * (rank - 1 - node.attribute[0].i)
    placed = (repeated(types[n], shapes[n] + behind * len(shapes[n]), output.sizes) for n in scales)
    tensors = [TensorDesc(types[data], pad(shapes[data], 4)), *placed, *[None] * (2 - len(scales)), output]
    return f"ELEMENT_WISE_{node.op_type.upper().replace('LINEAR', '_LINEAR')}", tuple(tensors)


def of_elements(node, shapes, types, constants):
    """Returns the descriptor that the DirectML EP makes of an element-wise node, padded to four dimensions."""
    attributes = {a.name: a.s.decode() or a.i for a in node.attribute}
    name = OF_ELEMENTS[node.op_type].format(**attributes)
    numbers = [int.from_bytes(constants[n].tobytes(), "little") for n in node.input if n in constants]
    match node.op_type:
        case "IsInf":
            signs = attributes.get("detect_negative", 1), attributes.get("detect_positive", 1)
            numbers = [{(1, 1): 0, (0, 1): 1, (1, 0): 2}[signs]]
        case "Clip":
            numbers.insert(0, types[node.output[0]].number)
        case "Round":
            numbers = [0]
        case "ThresholdedRelu":
            numbers = [np.float32(node.attribute[0].f).view(np.uint32)]
        case "Mod":
            name += "_TRUNCATE" if attributes["fmod"] else "_FLOOR"
        case "Cast":
            return "CAST", tuple(TensorDesc(types[n], pad(shapes[n], 4)) for n in (*node.input, *node.output))
    family = "ACTIVATION" if node.op_type.endswith("Relu") else "ELEMENT_WISE"
    output = TensorDesc(types[node.output[0]], pad(shapes[node.output[0]], 4))
    inputs = (repeated(types[name], shapes[name], output.sizes) for name in node.input if name not in constants)
    return f"{family}_{name}", (*inputs, output, *numbers)


FUNCTIONS = {"ReduceL1": 3, "ReduceMax": 7, "ReduceMin": 8, "ReduceProd": 9, "ReduceSum": 10, "ReduceSumSquare": 11}
"""Node -> the number of its DML_REDUCE_FUNCTION."""


def of_reductions(node, shapes, types, constants):
    """Returns the descriptor that the DirectML EP makes of a node that reduces, accumulates or orders: CumSum, Hardmax
    and TopK are padded to four dimensions.
    """
    attributes = {a.name: list(a.ints) or a.i for a in node.attribute}
    numbers = constants[node.input[1]].ravel().tolist() if len(node.input) > 1 else []
    least = 4 if node.op_type in ("CumSum", "Hardmax", "TopK") else 1
    data, *outputs = (
        TensorDesc(types[name], pad(shapes[name], least)) for name in (node.input[0], *node.output) if name in shapes
    )
    moved = data.dimension_count - len(shapes[node.input[0]])
    if node.op_type == "CumSum":
        return "CUMULATIVE_SUMMATION", (data, data, numbers[0] + moved, attributes["reverse"], attributes["exclusive"])
    if node.op_type == "Hardmax":
        return "ACTIVATION_HARDMAX1", (data, data, 1, (attributes["axis"] + moved,))
    if node.op_type == "TopK":
        found, axis = outputs[0], attributes["axis"] + moved
        indices = TensorDesc(DataType.UINT64, found.sizes)
        return "TOP_K1", (data, found, indices, axis, numbers[0], attributes["largest"])
    axes = tuple(numbers or attributes.get("axes", [attributes.get("axis")]))
    sizes = tuple(1 if i in axes else size for i, size in enumerate(data.sizes))
    if node.op_type in FUNCTIONS:
        reduced = TensorDesc(data.data_type, sizes)
        return "REDUCE", (FUNCTIONS[node.op_type], data, reduced, len(axes), axes)
    places = TensorDesc(DataType.INT64, sizes)
    return node.op_type.upper(), (data, places, 1, axes, attributes["select_last_index"])


def of_products(node, shapes, types):
    """Returns the descriptor that the DirectML EP makes of a MatMulInteger or ConvInteger node, with four dimensions: a
    matrix is repeated for each batch of the output, and a one stands behind the channels of a row.
    """
    output, zeros = shapes[node.output[0]], [None, None]
    for i, name in enumerate(node.input[2:]):
        is_list = node.op_type == "ConvInteger" and shapes[name]
        zeros[i] = TensorDesc(types[name], (1, *shapes[name], 1, 1) if is_list else pad(shapes[name], 4))
    if node.op_type == "MatMulInteger":
        batch = pad(output, 4)[:2]
        a, b = (repeated(types[name], shapes[name], (*batch, *shapes[name][-2:])) for name in node.input[:2])
        return "MATRIX_MULTIPLY_INTEGER", (a, zeros[0], b, zeros[1], TensorDesc(DataType.INT32, pad(output, 4)))
    numbers = {a.name: list(a.ints) or a.i for a in node.attribute}
    is_row, half = len(output) == 3, len(output) - 2
    data, filters, result = (
        TensorDesc(types[name], (*shapes[name][:2], *[1] * is_row, *shapes[name][2:]))
        for name in (*node.input[:2], *node.output)
    )
    arrays = (numbers["strides"], numbers["dilations"], numbers["pads"][:half], numbers["pads"][half:])
    arrays = [(*[filled] * is_row, *own) for filled, own in zip((1, 1, 0, 0), arrays, strict=True)]
    return "CONVOLUTION_INTEGER", (data, zeros[0], filters, zeros[1], result, 2, *arrays, numbers["group"])


def of_pools(node, shapes, types):
    """Returns the descriptor that the DirectML EP makes of a MaxPool node: with dilations or indices it is MAX_POOLING2."""
    attributes, count = {a.name: tuple(a.ints) for a in node.attribute}, len(shapes[node.input[0]]) - 2
    data, output, *_ = (TensorDesc(types[name], shapes[name]) for name in (node.input[0], *node.output))
    arrays = attributes["strides"], attributes["kernel_shape"], attributes["pads"][:count], attributes["pads"][count:]
    dilations = attributes.get("dilations", (1,) * count)
    if len(node.output) == 1 and set(dilations) == {1}:
        return "MAX_POOLING", (data, output, count, *arrays)
    indices = TensorDesc(DataType.UINT64, output.sizes) if len(node.output) > 1 else None
    return "MAX_POOLING2", (data, output, indices, count, *arrays, dilations)


def of_arrays(node, shapes, types):
    """Returns the descriptor that the DirectML EP makes of a Split or a Concat node, padded to four dimensions."""
    count = max(len(shapes[node.output[0]]), 4)
    (axis,) = (a.i for a in node.attribute if a.name == "axis")
    axis += count - len(shapes[node.output[0]])
    many = node.output if node.op_type == "Split" else node.input
    inputs = [node.input[0]] if node.op_type == "Split" else node.input
    tensors = {name: TensorDesc(types[name], pad(shapes[name], count)) for name in (*inputs, *node.output)}
    array = tuple(tensors[name] for name in many)
    if node.op_type == "Split":
        return "SPLIT", (tensors[node.input[0]], len(array), array, axis)
    return "JOIN", (len(array), array, tensors[node.output[0]], axis)


def padded(node, initializers, shapes, types):
    """Returns the descriptor that the DirectML EP makes of a Pad node: at least four dimensions, leading ones without
    padding.
    """
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in initializers}
    pads, (value,) = values[node.input[1]].tolist(), values[node.input[2]].reshape(1)
    ends = [TensorDesc(types[n], pad(shapes[n], max(len(shapes[n]), 4))) for n in (node.input[0], node.output[0])]
    rank, count = len(shapes[node.input[0]]), ends[0].dimension_count
    start, end = ((0,) * (count - rank) + tuple(part) for part in (pads[:rank], pads[rank:]))
    (mode,) = (["constant", "edge", "reflect", "", "wrap"].index(a.s.decode()) for a in node.attribute)
    data_type = types[node.input[0]]
    return "PADDING1", (*ends, mode, data_type.number, int.from_bytes(value.tobytes(), "little"), count, start, end)


def triangle(node, initializers, shapes, types):
    """Returns the descriptor that the DirectML EP makes of a Trilu node: four dimensions; INT32's ends stand for the
    others.
    """
    (k,) = (onnx.numpy_helper.to_array(tensor).item() for tensor in initializers if tensor.name == node.input[1])
    upper, data_type = next(a.i for a in node.attribute), types[node.input[0]]
    data = TensorDesc(data_type, pad(shapes[node.input[0]], 4))
    ends = (-(2**31), k) if upper else (k + 1, 2**31 - 1)
    return "DIAGONAL_MATRIX1", (data, data, data_type.number, 0, *ends)


def without_indices(node, initializers, shapes, types):
    """Returns the descriptor that the DirectML EP makes of a Slice or a Tile node, as `directml` does.

    Slice gets the dimensions of the data. Of Tile's dimensions, those in which the output has the size 1 are left out;
    then leading ones fill up to four.
    """
    (data, *lists), (output,) = node.input, node.output
    numbers = {tensor.name: onnx.numpy_helper.to_array(tensor).tolist() for tensor in initializers}
    sizes, result = shapes[data], shapes[output]
    if node.op_type == "Tile":
        kept = [i for i, n in enumerate(result) if n != 1]
        ones = (1,) * (4 - len(kept))
        tensors = [TensorDesc(types[n], ones + tuple(shapes[n][i] for i in kept)) for n in (data, output)]
        repeats = ones + tuple(numbers[lists[0]][i] for i in kept)
        return "TILE", (*tensors, len(repeats), repeats)
    windows = [(0, size, 1) for size in sizes]
    for start, end, axis, step in zip(*(numbers[name] for name in lists), strict=True):
        first, stop, _ = slice(start, end, step).indices(sizes[axis])
        assert len(range(first, stop, step)) == result[axis]
        windows[axis] = (first, stop - first, step) if step > 0 else (stop + 1, first - stop, step)
    tensors = [TensorDesc(types[n], shapes[n]) for n in (data, output)]
    return "SLICE1", (*tensors, len(sizes), *map(tuple, zip(*windows, strict=True)))


def members(desc):
    """Returns a descriptor in the form of `directml`'s result."""
    return desc.operator, tuple(getattr(desc, name) for name in desc.members().values())


class TestModels:
    """The models are valid, deterministic and lower as predicted."""

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_are_valid_and_lower_as_predicted(self, operator):
        """ONNX accepts the model of every sample, and the EP makes the descriptor of it that the mapping predicts."""
        samples = list(OPERATORS[operator].samples())
        assert samples
        for desc in filter(OPERATORS[operator].expressed, samples):
            mapped = map_descriptor(desc)
            onnx.checker.check_model(mapped.model, full_check=True)
            assert members(mapped.lowered_as) == directml(mapped.model, mapped.lowering.fed)
            assert members(desc) == members(mapped.lowered_as) or mapped.substitutions

    @given(strategies.descriptors())
    def test_of_any_descriptor(self, desc):
        """For all types and dimension counts, inputs and output are the descriptor's, and the model is valid.

        Constants are graph inputs where there are no others. A Cast or a Reshape in the graph is listed as a
        substitution, and so is an input that is fed as it lies in memory.
        """
        assume(OPERATORS[desc.operator].expressed(desc))
        mapped = map_descriptor(desc)
        onnx.checker.check_model(mapped.model, full_check=True)
        assert members(mapped.lowered_as) == directml(mapped.model, mapped.lowering.fed)
        graph = mapped.model.graph
        assert bool(mapped.lowering.fed) == (not desc.inputs)
        sizes = {name: t.sizes for name, t in (desc.inputs or mapped.lowering.fed).items()}
        sizes |= {name: mapped.lowering.shapes[name] for name in mapped.lowering.in_memory}
        declared = {name: (t.data_type, sizes[name]) for name, t in (desc.inputs or mapped.lowering.fed).items()}
        assert declared == dict(map(_declared, graph.input))
        assert desc.spec().strided or sizes == {n: t.sizes for n, t in (desc.inputs or mapped.lowering.fed).items()}
        types = {name: t.data_type for name, t in desc.outputs.items()} | {**mapped.lowering.output_types}
        assert {n: (types[n], t.sizes) for n, t in desc.outputs.items()} == dict(map(_declared, graph.output))
        kinds = {s.kind for s in mapped.substitutions}
        is_cast = any(s.detail.endswith("by a Cast in the graph") for s in mapped.substitutions)
        assert (is_cast or desc.operator == "CAST") == any(n.op_type == "Cast" for n in graph.node)
        assert bool(mapped.lowering.output_types) == ("data-type" in kinds)
        assert ("strides" in kinds) == any(not t.packed for t in desc.inputs.values())
        assert ("reshape" in kinds) == any(n.op_type == "Reshape" for n in graph.node)
        lowered = mapped.lowered_as
        assert ("operator" in kinds) == (desc.operator != lowered.operator)
        assert ("dimension-count" in kinds) == (desc.output.dimension_count != lowered.output.dimension_count)
        ranks = (getattr(one, "indices_dimension_count", None) for one in (desc, lowered))
        assert ("indices-rank" in kinds) == (len(set(ranks)) == 2)

    def test_versions_are_written_explicitly(self):
        """The model has opset 13 and IR version 8; ONNX's defaults are too new for ONNX Runtime 1.24."""
        model = map_descriptor(GATHER).model
        assert (OPSET, IR_VERSION) == (13, 8) == (model.opset_import[0].version, model.ir_version)
        assert ("opmap", 1) == (model.producer_name, len(model.opset_import))

    def test_one_node_where_one_will_do(self):
        """Gather needs only a Reshape that removes a leading one of the indices; GatherElements needs one node."""
        inputs = {"InputTensor": TensorDesc(F32, (3, 2)), "IndicesTensor": TensorDesc(I64, (1, 4))}
        desc = complete(OPERATORS["GATHER"].descriptor, inputs, {"Axis": 0, "IndexDimensions": 1})
        mapped = map_descriptor(desc)
        assert ["Reshape", "Gather"] == [n.op_type for n in mapped.model.graph.node]
        assert ["reshape: IndicesTensor [1, 4] -> [4]"] == [str(s) for s in mapped.substitutions]
        assert desc == mapped.lowered_as
        inputs["IndicesTensor"] = TensorDesc(I64, (2, 4))
        elements = complete(
            OPERATORS["GATHER_ELEMENTS"].descriptor, {**inputs, "InputTensor": TensorDesc(F32, (3, 4))}, {"Axis": 0}
        )
        assert ["GatherElements"] == [n.op_type for n in map_descriptor(elements).model.graph.node]
        assert () == map_descriptor(elements).substitutions

    @pytest.mark.parametrize("desc", SHAPES[::25], ids=str)
    def test_bytes_are_the_same_every_time(self, desc):
        """Mapping a descriptor twice gives the same bytes, and they are the deterministic serialization."""
        first, second = (map_descriptor(desc.replace()).model_bytes for _ in range(2))
        assert first == second
        assert first == map_descriptor(desc).model.SerializeToString(deterministic=True)

    def test_a_changed_model_is_the_callers_own(self):
        """Who changes the model changes neither the model nor the feeds that an equal descriptor gets."""
        mapped = map_descriptor(GATHER)
        before = mapped.model_bytes
        mapped.model.graph.node.pop()
        with pytest.raises(TypeError):
            mapped.feeds["more"] = F32
        assert before == mapped.model.SerializeToString(deterministic=True) == map_descriptor(GATHER).model_bytes

    def test_strides_are_refused(self):
        """Strides other than packed are refused; packed strides give the same model as none."""
        desc = GATHER
        (size,) = desc.input_tensor.sizes
        wide = desc.replace(input_tensor=TensorDesc(F32, (size,), (2,)))
        with pytest.raises(MappingError, match=r"InputTensor.Strides \[2\]: ONNX has no strides") as caught:
            map_descriptor(wide)
        assert "not-expressible" == caught.value.verdict
        packed = desc.replace(input_tensor=TensorDesc(F32, (size,), (1,)))
        assert map_descriptor(desc).model_bytes == map_descriptor(packed).model_bytes


def _declared(value):
    tensor = value.type.tensor_type
    return value.name, (DATA_TYPES[tensor.elem_type], tuple(d.dim_value for d in tensor.shape.dim))


class TestIndexConversion:
    """Indices of types that ONNX does not accept are converted."""

    @pytest.mark.parametrize(
        ("operator", "index_type", "conversion", "fits", "feed", "cast"),
        [
            ("GATHER", "INT64", "graph", True, "INT64", None),
            ("GATHER", "INT32", "graph", True, "INT32", None),
            ("GATHER", "UINT32", "graph", True, "UINT32", "INT64"),
            ("GATHER", "UINT64", "graph", True, "UINT64", "INT64"),
            ("GATHER", "UINT32", "host", True, "INT64", None),
            ("GATHER", "UINT64", "host", True, "INT64", None),
            ("GATHER", "INT32", "host", True, "INT32", None),
            ("GATHER", "UINT32", "directml", True, "UINT32", "INT32"),
            ("GATHER", "UINT32", "directml", False, "INT64", None),
            ("GATHER", "UINT64", "directml", True, "INT64", None),
            ("GATHER_ELEMENTS", "UINT32", "directml", True, "UINT32", "INT32"),
            ("GATHER_ND", "INT32", "graph", True, "INT32", "INT64"),
            ("GATHER_ND", "INT32", "host", True, "INT64", None),
            ("GATHER_ND1", "INT32", "directml", True, "INT64", None),
            ("GATHER_ND1", "UINT32", "directml", True, "INT64", None),
            ("GATHER_ND1", "INT64", "directml", True, "INT64", None),
        ],
    )
    def test_where_and_to_what(self, operator, index_type, conversion, fits, feed, cast):
        """Indices are converted by a Cast in the graph or on the host, and the substitution says which."""
        index_type = DataType[index_type]
        desc = next(OPERATORS[operator].samples())
        desc = desc.replace(indices_tensor=TensorDesc(index_type, desc.indices_tensor.sizes))
        mapped = map_descriptor(desc, index_conversion=conversion, fits_int32=fits)
        onnx.checker.check_model(mapped.model, full_check=True)
        assert feed == mapped.feeds["IndicesTensor"].name
        casts = [DATA_TYPES[n.attribute[0].i].name for n in mapped.model.graph.node if n.op_type == "Cast"]
        assert ([cast] if cast else []) == casts
        reached = cast or feed
        assert reached == mapped.lowered_as.indices_tensor.data_type.name
        where = "by a Cast in the graph" if cast else "on the host, before the feed"
        expected = (
            [] if reached == index_type.name else [f"index-type: IndicesTensor {index_type.name} -> {reached}, {where}"]
        )
        assert expected == [str(s) for s in mapped.substitutions if s.kind == "index-type"]

    @pytest.mark.parametrize(
        ("index_type", "values", "to", "expected"),
        [
            ("UINT32", [0, 2**32 - 1], "INT64", [0, 2**32 - 1]),
            ("UINT64", [5, 2**63], "INT64", [5, 2**63 - 1]),
            ("INT64", [2**31, -(2**31) - 1, -1], "INT32", [2**31 - 1, -(2**31), -1]),
            ("INT32", [-1, 7], "INT64", [-1, 7]),
        ],
    )
    def test_on_the_host(self, index_type, values, to, expected):
        """Conversion keeps values that fit; others become the nearest limit, so they stay out of range."""
        tensor = Tensor.from_values(DataType[index_type], (len(values),), values)
        assert expected == list(convert(tensor, DataType[to]).values)
        assert tensor is convert(tensor, tensor.data_type)

    def test_feeds_are_converted(self):
        """`feed` gives tensors of the graph inputs' types."""
        desc = next(OPERATORS["GATHER"].samples())
        sizes = desc.indices_tensor.sizes
        desc = desc.replace(indices_tensor=TensorDesc(DataType.UINT32, sizes))
        data = Tensor(F32, desc.input_tensor.sizes, [1] * desc.input_tensor.element_count)
        indices = Tensor(DataType.UINT32, sizes, [2] * desc.indices_tensor.element_count)
        feeds = map_descriptor(desc, index_conversion="host").feed({"InputTensor": data, "IndicesTensor": indices})
        assert ["InputTensor", "IndicesTensor"] == list(feeds)
        assert (I64, [2] * len(indices.bits)) == (feeds["IndicesTensor"].data_type, list(feeds["IndicesTensor"].values))
        assert data is feeds["InputTensor"]


class TestElementTypes:
    """DirectML's data types and ONNX's element types correspond."""

    def test_agree_with_onnx(self):
        """Each DirectML data type has the ONNX type with the same NumPy type."""
        assert set(DataType) == set(ELEMENT_TYPES)
        for data_type, number in ELEMENT_TYPES.items():
            assert data_type.name.lower() == helper.tensor_dtype_to_np_dtype(number).name
        assert TensorProto.FLOAT == ELEMENT_TYPES[F32]


class TestCounting:
    """How many elements the DirectML EP makes of a Range node."""

    @pytest.mark.parametrize(
        ("numbers", "count"),
        [((0, 10, 1), 10), ((0, 1, 0.1), 10), ((1, -3, -0.5), 8), ((0, 2.5, 1), 3), ((0, 16777216, 1), 16777216)],
    )
    def test_floats(self, numbers, count):
        """The quotient of distance and delta, rounded up."""
        assert (1, 1, 1, count) == emitted("Range", [], self.inputs(F32, numbers)).output_tensor.sizes

    def test_rounded(self):
        """It is unknown if it depends on where FLOAT32 rounds: 16777217 is no FLOAT32."""
        with pytest.raises(ValueError, match="too many values"):
            emitted("Range", [], self.inputs(F32, (-1, 16777216, 1)))

    def test_integers(self):
        """Whole numbers do not round."""
        inputs = self.inputs(I64, (-1, 2**31, 1))
        assert (1, 1, 1, 2**31 + 1) == emitted("Range", [], inputs).output_tensor.sizes
        with pytest.raises(ValueError, match="leaves the data type"):
            emitted("Range", [], self.inputs(I64, (-(2**62), 2**62, 1)))

    def inputs(self, data_type, numbers):
        names = ("start", "limit", "delta")
        return {n: Tensor.from_values(data_type, (), [v]) for n, v in zip(names, numbers, strict=True)}
