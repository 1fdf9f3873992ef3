"""GRID, defined outside the package: an operator with two index tensors and without numbers."""

from __future__ import annotations

from opmap.operators import Operator
from opmap.pseudocode import Expansion


def classify(desc):
    """Returns the class of the parameter `shape`."""
    rows, columns = desc.rows_tensor.sizes[-1], desc.columns_tensor.sizes[-1]
    return {"shape": "square" if rows == columns else "tall" if rows > columns else "flat"}


OPERATOR = Operator(
    name="GRID",
    expansion=lambda desc: Expansion(rest={}),  # the page's line is concrete
    parameters={"shape": ("square", "tall", "flat")},
    classify=classify,
)
