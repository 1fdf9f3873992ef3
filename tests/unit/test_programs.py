"""The pseudocode of operators that move data: compiled, naive and by NumPy."""

import numpy as np
import pytest
from operator_programs import IGNORES_OUTSIDE, PROGRAMS

from opmap.pseudocode import access_map, expand, naive, parse_lines, run


def prepared(name, seed):
    """Returns a random descriptor of a program, its statements, the sizes and the flat elements of its tensors."""
    text, draw = PROGRAMS[name]
    drawn = draw(np.random.default_rng(seed))
    sizes = {n: t.shape for n, t in drawn.tensors.items()}
    lines = parse_lines(text)
    output = "OutputTensor" if "OutputTensor[" in text else "output"
    fields = dict(drawn.fields)
    for tensor, field in (("input", "InputTensor"), ("InputTensor", "InputTensor"), ("values", "ValuesTensor")):
        if tensor in sizes:
            fields[f"{field}.Sizes"] = sizes[tensor]
    fields["OutputTensor.Sizes"] = sizes[output] = drawn.output.shape
    statements = expand(lines, drawn.expansion, fields)
    return drawn, statements, sizes, {n: t.reshape(-1).tolist() for n, t in drawn.tensors.items()}


@pytest.mark.parametrize("name", PROGRAMS)
class TestPrograms:
    """Each program at random sizes."""

    def test_agree_with_numpy(self, name):
        """The compiled form, the naive form and NumPy give the same output."""
        ignores = name in IGNORES_OUTSIDE
        for seed in range(100):
            drawn, statements, sizes, tensors = prepared(name, seed)
            expected = drawn.output.reshape(-1).tolist()
            access = access_map(statements, sizes, ignores_outside=ignores)
            assert expected == list(run(access, tensors)), (seed, *map(str, statements))
            origins = naive.evaluate(statements, sizes, tensors, ignores_outside=ignores)
            zero = {**tensors, "0": [0]}
            assert expected == [origin and zero[origin[0]][origin[1]] for origin in origins], seed
