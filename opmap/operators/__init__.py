"""One file per operator: its descriptor, what its `...` stands for, its lowering to ONNX and back, its small shapes.

A file is found by being here. The names it gives are the same in each:

- `Desc`: the OperatorDesc subclass;
- `lower(desc)`: the ONNX node (`Lowering`) of a valid, packed descriptor;
- `ONNX_OPERATOR` and `emit(data, indices, attributes)`: the ONNX operator that the DirectML EP turns into this
  descriptor, and the descriptor that it emits (absent where the EP never emits it);
- `shapes()`: small descriptors across ranks, axes and counts;
- `PARAMETERS`, `classify(desc)`, `build(choice)`: its own parameters with their classes, the classes of a descriptor, and a
  small descriptor with the classes chosen (of its own parameters and of those that all operators have), or None;
- `world(dimensions, size)`: every valid descriptor up to these limits;
- `draw(choices, dimension_count, max_elements)`: any valid descriptor of this dimension count, no tensor of which has
  more elements, its numbers taken from `choices`.
"""

from .registry import OPERATORS, emitted

__all__ = ["OPERATORS", "emitted"]
