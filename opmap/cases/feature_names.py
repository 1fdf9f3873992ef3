"""The names of the features of a case, and what they mean. Light to import, for `--help`."""

from __future__ import annotations

from collections.abc import Mapping

FEATURES: Mapping[str, str] = {
    "operator": "The operator's name without DML_OPERATOR_.",
    "data_type": "The data type of the output, and of the tensors whose elements are moved to it.",
    "data_width": "The size of one element of that data type, in bytes.",
    "index_type": "The data type of the indices.",
    "index_path": "How the indices reach the operator: input, initializer, one (an initializer of one element) or node.",
    "dimension_count": "The DimensionCount of the output.",
    "axis": "The member Axis.",
    "axis_from_end": "The number of dimensions behind the axis: 0 for the last dimension.",
    "axis_length": "The size of the dimension that the indices point into; for index tuples, the largest of these sizes.",
    "index_dimensions": "The member IndexDimensions.",
    "input_count": "The member InputCount: the number of tensors in the array of inputs.",
    "output_count": "The member OutputCount: the number of tensors in the array of outputs.",
    "tuple_size": "The number of coordinates in one index tuple.",
    "batch_dimensions": "The number of batch dimensions.",
    "before": "The product of the sizes before the indexed dimensions.",
    "block": "The product of the sizes behind the indexed dimensions.",
    "index_count": "The number of indices; an index tuple counts as one index.",
    "output_elements": "The number of elements of the output.",
    "output_bytes": "The size of the output in bytes, without padding.",
    "negative": "Whether an index is negative.",
    "computed_indices": "Whether a node of the ONNX model computes the indices: a Cast, a Reshape, or that of a variant.",
    "largest_index": "The largest index; 0 if all are negative.",
    "duplicates": "Whether two indices name the same place; -1 and the last index are the same.",
    "variant": "The variant or layout in which the case is brought to the provider.",
    "index_rank": "The number of meaningful dimensions of the index tensor.",
    "input_dimension_count": "The member InputDimensionCount.",
    "node_rank": "The rank of the data that the ONNX node reads.",
    "node_index_rank": "The rank of the indices that the ONNX node reads.",
    "node_output_rank": "The rank of the output of the ONNX node.",
    "last_length": "The size of the last dimension of the output.",
    "index_bytes": "The size of the indices in bytes, without padding.",
    "layout": "How the elements of an input with strides of its own lie in memory: packed, permuted, repeated (a stride of 0), both, gaps.",
    "data_pattern": "How the data is chosen: addr (each element is unique) or special (values that conversions change).",
    "call": "The number of the run in the provider's process, from 1.",
}
"""Feature -> its meaning."""
