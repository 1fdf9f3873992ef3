"""Concrete statements for tests: their access map, and the output that they give."""

from opmap.pseudocode import access_map, naive, parse_lines, run


def run_line(text, sizes, values, **indices):
    """Returns the output that a concrete line gives."""
    return run(compiled(text, sizes), {"input": values, **indices})


def compiled(text, sizes):
    """Returns the access map of concrete statements."""
    return access_map(parse_lines(text), sizes)


def naive_elements(lines, sizes, tensors):
    """Returns the elements of the output at the addresses of the naive evaluator, None for an undocumented one."""
    origins = naive.evaluate(lines, sizes, tensors)
    return [None if origin is None else tensors[origin[0]][origin[1]] for origin in origins]


def sized(text):
    """Returns the sizes of tensors: those of `output 2x3, input 6` are {"output": (2, 3), "input": (6,)}."""
    pairs = (entry.split() for entry in text.split(", ") if entry)
    return {name: tuple(map(int, sizes.split("x"))) for name, sizes in pairs}
