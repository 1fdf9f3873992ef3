"""DML_OPERATOR_ELEMENT_WISE_BIT_AND and ONNX BitwiseAnd: an operator that computes its values.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_bit_and_operator_desc
"""

from opmap.descriptors import TensorDesc, broadcast, broadcast_sizes, pad
from opmap.operators import Lowering, Operator, not_expressible
from opmap.operators.expansions import each_dimension


def lower(desc):
    """Returns the BitwiseAnd node with the descriptor's own sizes.

    Raises MappingError for floats, which the node does not take.
    """
    if desc.output.data_type.kind == "float":
        raise not_expressible("a BitwiseAnd node takes integers")
    return Lowering("BitwiseAnd", {}, {name: tensor.sizes for name, tensor in desc.inputs.items()})


def descriptors_of_node(a, b, attributes):
    """Returns the descriptor that the DirectML EP makes of a BitwiseAnd node: smaller inputs are broadcast."""
    sizes = broadcast_sizes(pad(a.sizes, 4), pad(b.sizes, 4))
    inputs = {"a_tensor": broadcast(a, sizes), "b_tensor": broadcast(b, sizes)}
    return OPERATOR.descriptor(**inputs, output_tensor=TensorDesc(a.data_type, sizes))


OPERATOR = Operator(
    name="ELEMENT_WISE_BIT_AND",
    expansion=each_dimension("x"),
    parameters={},
    classify=lambda desc: {},
    lower=lower,
    onnx_operator="BitwiseAnd",
    oldest_opset=18,
    descriptors_of_node=descriptors_of_node,
)
