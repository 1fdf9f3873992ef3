"""DML_OPERATOR_FORMULA, defined outside the package: an operator that computes its values.

It has no ONNX lowering, so only providers that run cases can run it.
"""

from opmap.operators import Operator
from opmap.operators.expansions import each_dimension

OPERATOR = Operator(name="FORMULA", expansion=each_dimension("x"), parameters={}, classify=lambda desc: {})
