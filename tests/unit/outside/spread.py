"""DML_OPERATOR_SPREAD, defined outside the package: SCATTER of up to three dimensions under another name.

It has no ONNX lowering here, so only providers that run cases can run it.
"""

from __future__ import annotations

from opmap.operators import Operator, size_classes
from opmap.pseudocode import COORDINATES, Expansion


def expansion(desc):
    """Returns the page's coordinates i, j, k. With two dimensions there is no k, with one neither j nor k."""
    names = tuple(COORDINATES[: desc.input_tensor.dimension_count])
    return Expansion(rest={}, series={"i": names[0:1], "j": names[1:2], "k": names[2:3]})


def classify(desc):
    """Returns the class of the parameter `axis`."""
    return {"axis": size_classes.place(desc.axis, desc.input_tensor.dimension_count)}


OPERATOR = Operator(name="SPREAD", expansion=expansion, parameters={"axis": size_classes.PLACES}, classify=classify)
