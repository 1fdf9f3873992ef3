"""Indices that write, of SCATTER and SCATTER_ND."""

from functools import cache

import numpy as np
import pytest
from tiers import own_cases

from opmap.cases.parameters import allows_pattern
from opmap.cases.random_cases import draw_any, draw_case
from opmap.cases.values import INDEX_PATTERNS, fill
from opmap.cases.variants import Inputs
from opmap.cases.variants.further_inputs import other_sizes
from opmap.cases.written_once import rows_of
from opmap.operators import OPERATORS, emitted
from opmap.operators.random_source import SeededSource

OPERATORS_HERE = ("SCATTER", "SCATTER_ND")


@cache
def random_cases(operator, count=300):
    """Cases of random descriptors of all data types, index types and dimension counts."""
    source = SeededSource(26)
    return [draw_case(source, draw_any(source, operator, 512)) for _ in range(count)]


class TestIndices:
    """Indices that write name an element once."""

    @pytest.mark.parametrize("pattern", INDEX_PATTERNS)
    @pytest.mark.parametrize("operator", OPERATORS_HERE)
    def test_every_element_has_a_value(self, operator, pattern):
        """With every pattern but `dups`, unless there are more indices than elements for one place."""
        tried = 0
        for case in random_cases(operator):
            rows = rows_of(case.desc, "IndicesTensor")
            bounds = case.desc.index_bounds["IndicesTensor"]
            signed = case.desc.indices_tensor.data_type.kind == "signed" or pattern not in ("neg", "mix")
            if allows_pattern(case.desc, pattern) and rows.shape[1] <= np.prod(bounds) and signed:
                expected = case.desc.interpret(fill(case.desc, case.id, pattern, "addr"))
                assert pattern == "dups" or not any(e is None for e in expected), case.desc
                tried += 1
        assert tried > 20 or (operator == "SCATTER_ND" and pattern in ("one", "bounds"))

    @pytest.mark.parametrize("operator", OPERATORS_HERE)
    def test_in_other_sizes(self, operator):
        """So it is for other sizes of the same model."""
        changed = [other_sizes(Inputs(case.desc, case.tensors)) for case in random_cases(operator)[:150]]
        defined = [
            None not in list(inputs.expected)
            for inputs in changed
            if inputs
            and rows_of(inputs.desc, "IndicesTensor").shape[1] <= np.prod(inputs.desc.index_bounds["IndicesTensor"])
        ]
        assert len(defined) > 50
        assert all(defined)

    def test_the_catalogue(self):
        """Nearly all of its cases are judged as a whole. Every fourth case is computed."""
        for operator in OPERATORS_HERE:
            cases = [c for c in own_cases("standard") if c.desc.operator == operator][::4]
            whole = [c for c in cases if c.index_pattern != "dups"]
            assert len(whole) > 0.8 * len(cases)
            assert sum(any(e is None for e in c.expected) for c in whole) < 0.1 * len(whole)


class TestNodes:
    """What the DirectML EP makes of the ONNX nodes."""

    def test_the_older_name(self):
        """Scatter of opset 9 and 10 becomes SCATTER too."""
        desc = OPERATORS["SCATTER"].draw(SeededSource(1), 4, 64)
        inputs = [desc.input_tensor, desc.indices_tensor, desc.updates_tensor]
        assert emitted("Scatter", inputs, {"axis": 1}) == emitted("ScatterElements", inputs, {"axis": -3})
