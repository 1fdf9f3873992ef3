"""Cases of each operator in each form of the model, sessions for them on the CPU EP, and what these answer."""

import itertools
from functools import cache

import onnxruntime
from tiers import all_cases

from opmap.cases.values import FAR
from opmap.cases.variants.formed import Inputs
from opmap.cases.variants.forms import FORMS
from opmap.cases.variants.further_inputs import fresh_values, other_sizes
from opmap.cases.variants.variant_run import VariantRun
from opmap.engines.steps import Result
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS

CONVERSIONS = ("graph", "host", "directml")
CPU = "CPUExecutionProvider"


@cache
def cases():
    """Returns {case id: (mapping, round)}: for each operator the first example and cases with different types."""
    chosen = {}
    for _, group in itertools.groupby(all_cases("smoke"), lambda case: case.desc.operator):
        small = [c for c in group if all(t.element_count < 2000 for t in c.desc.tensors.values()) and on_cpu(c)]
        special = [c for c in small if c.data_pattern == "special"]
        unsigned = [
            c for c in small for name in c.desc.index_tensors()[:1] if c.desc.tensors[name].data_type.kind == "unsigned"
        ]
        for case in (*small[:1], *small[5::13], *special[:3], *unsigned[:3]):
            chosen[case.id] = mapping(case.desc), Inputs(case.desc, dict(case.tensors))
    lacking = {name for name, own in OPERATORS.items() if own.lower} - {id.split("/")[0].upper() for id in chosen}
    for case in all_cases("standard") if lacking else ():  # in few cases, each element has a documented value
        if case.desc.operator in lacking and case.desc.output.element_count < 2000 and on_cpu(case):
            chosen[case.id] = mapping(case.desc), Inputs(case.desc, dict(case.tensors))
            lacking.remove(case.desc.operator)
    assert {id.split("/")[0].upper() for id in chosen} == {name for name, own in OPERATORS.items() if own.lower}
    return chosen


def on_cpu(case):
    """Whether ONNX can express a case, and the CPU EP takes its indices and has a kernel."""
    operator = OPERATORS[case.desc.operator]
    if (
        case.index_pattern == FAR
        or case.desc.output.data_type in operator.not_on_cpu
        or not operator.expressed(case.desc)
        or operator.beyond_onnx(case.desc)
    ):
        return False
    if case.desc.spec().computes_values:
        return None not in Inputs(case.desc, dict(case.tensors)).expected and _has_kernel(case.desc)
    types = [tensor.data_type.name for tensor in case.desc.inputs.values()]
    match case.desc.operator:
        case "ONE_HOT":
            return ["INT64", "FLOAT32"] == types
        case "DEPTH_TO_SPACE1" | "SPACE_TO_DEPTH1" | "PADDING1":
            return types[0] in ("FLOAT32", "FLOAT64")
        case "DIAGONAL_MATRIX":
            return case.desc.output.data_type.name in ("FLOAT32", "FLOAT64", "INT32", "INT64", "UINT64")
        case "DIAGONAL_MATRIX1":
            first = Inputs(case.desc, case.tensors)  # the output may be zeros alone
            return types[0] in ("FLOAT32", "FLOAT64", "INT64") and fresh_values(first).expected != first.expected
    return True


@cache
def _has_kernel(desc):
    """Whether the CPU EP has a kernel for the node of a descriptor."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(map_descriptor(desc).model_bytes, options, providers=[CPU])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return False
    return True


def mapping(desc):
    """Returns the mapping of a descriptor. The index conversion depends on the descriptor's sizes."""
    return map_descriptor(desc, index_conversion=CONVERSIONS[sum(desc.output.sizes) % 3])


def formed(name, id):
    """Returns a case's model in a form; None if the case has no such form."""
    return FORMS[name].build(*cases()[id])


def formed_cases(name):
    """Returns (case id, model, round) for each case that has a form."""
    made = [(id, formed(name, id), first) for id, (_, first) in cases().items()]
    return [(id, form, first) for id, form, first in made if form is not None]


def session(form, folder, level=None):
    """Returns a session for a model in a form, on the CPU EP."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if level is not None:
        options.graph_optimization_level = level
    model = form.model_bytes
    if form.files:
        for name, content in form.files.items():
            (folder / name).write_bytes(content)
        (folder / "model.onnx").write_bytes(model)
        model = str(folder / "model.onnx")
    return onnxruntime.InferenceSession(model, options, providers=[CPU])


def rounds(form, first):
    """Returns the rounds that a session of a form must answer: the case, other values and sizes, the case again."""
    sizes = [other_sizes(first), other_sizes(first, -1)] if form.dynamic else []
    others = [*filter(None, sizes), fresh_values(first, fixed=form.fixed), fresh_values(first, 2, fixed=form.fixed)]
    return [first, *others, Inputs(first.desc, dict(first.tensors))]


def answers(form, first, opened, feeds=None):
    """Returns what a run finds when a session answers these feeds, by default a round's own."""
    run = VariantRun(None, form, first, "")
    # The feeds live until the outputs are checked: in ONNX Runtime 1.24 an output that is an input is the feed's
    # memory.
    feeds = form.feeds(first) if feeds is None else feeds
    outputs = opened.run(None, feeds)
    run.check(first, Result(outputs=dict(zip((o.name for o in opened.get_outputs()), outputs, strict=True))))
    return run.checks


def right(checks):
    """Returns whether all outputs equal the expected ones."""
    return all(
        check.problem is None
        and all(e is None or e == a for e, a in zip(check.expected, check.actual.bits, strict=True))
        for check in checks
    )
