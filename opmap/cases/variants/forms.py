"""All forms of the model, by name.

Each form is something that ONNX's IR specification (onnx/docs/IR.md) allows around an operator, and that an execution
provider can notice. Only `shapeless` and `names` go beyond it; ONNX Runtime takes them, and exporters write such
models. The rest of the specification has no form:

| left out | why |
|---|---|
| sparse initializers | their type is another one, which no operator here takes; the checker refuses the model |
| optional and sequence types | nodes of other providers make and read them |
| map types, operators of ONNX-ML | no tensor operator takes them |
| Loop, Scan | the CPU EP runs them; a subgraph of the provider is in `if` |
| functions | a provider sees nodes in place of calls; the search (`opmap fuzz`) has models with them |
| functions of ONNX itself | the operators are primitive |
| ConstantOfShape, and other constants by nodes | folded into the initializers of `init` and `data-init` |
| ValueInfo for inner values | ONNX Runtime infers them, and the forms' shapes decide whether it can |
| equal names of dimensions; some dimensions symbolic, others not | the operator's shape is unknown, as in `symbolic` |
| equal node names | not allowed; ONNX Runtime refuses the model |
| segments of a tensor, SHA1 of external data | ONNX Runtime ignores them |
| training information, metadata, doc strings, denotations, versions and producer | nothing of it reaches a provider |
| domain `ai.onnx` in place of the empty one | two names of one domain; resolved when the model is loaded |
| IR versions other than 8 | they add fields; only version 3 changes an execution path, in `ir3-init` |
"""

from . import forms_constants, forms_shapes, forms_structure
from .drafts import FORMS

__all__ = ["FORMS", "forms_constants", "forms_shapes", "forms_structure"]
