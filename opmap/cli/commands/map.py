"""`opmap map`: writes the ONNX model of a DxDispatch file, or of a case of the catalogue in its variant."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from ...cases.variants import PLAIN, VARIANTS
from ...evidence.reproducers.model_folders import folder_files, formed_model, write_files
from ...evidence.terminal import print_line, write_json
from ...files import check_output
from ...judge.compare import undefined
from ...mapping import map_descriptor
from ...mapping.dxdispatch import desc_json
from .dispatches import read_case

MARK = b"\x12\x05opmap"
"""The name of the producer in a model of opmap."""


def run(options: Namespace) -> int:
    """Writes a model, or a folder with a model and its test data. Writes nothing if the case is bad: raises InputError."""
    case = read_case(options.target, name=options.case, feature_level=options.feature_level)
    mapped = map_descriptor(case.desc, index_conversion=options.index_conversion or "graph")
    formed = formed_model(mapped, case)
    output, undocumented = Path(options.output), 0
    inputs = [path for path in Path(options.target).rglob("*")] or [Path(options.target)]
    model = output if output.suffix.lower() == ".onnx" else output / "model.onnx"
    check_output(model, MARK, inputs, force=options.force)
    files = {model.name: formed.model_bytes, **formed.files} if model is output else folder_files(formed, case)
    for name in () if model.is_file() and model.stat().st_size else files:  # beside an own model, they are own files
        check_output(model.parent / name, MARK, inputs, force=options.force)
    write_files(model.parent, files)
    if model is not output:
        undocumented = sum(map(undefined, case.inputs.all_expected.values()))
    substitutions = [str(s) for s in (*mapped.substitutions, *formed.substitutions)]
    if options.json:
        document = {
            "output": str(output),
            "variant": case.variant,
            "substitutions": substitutions,
            "lowered_as": desc_json(mapped.lowered_as),
            "undocumented_elements": undocumented,
        }
        write_json(document)
        return 0
    print_line(f"{case.desc.spec().operator} -> ONNX {mapped.lowering.op_type}: {output}")
    if case.variant != PLAIN:
        print_line(f"  variant      {case.variant}: {VARIANTS[case.variant].text}")
    for substitution in substitutions:
        print_line(f"  substituted  {substitution}")
    same = mapped.lowered_as == mapped.desc
    lowered_as = "the same descriptor" if same else f"DML_OPERATOR_{mapped.lowered_as.operator}"
    print_line(f"  lowered as   {lowered_as} (predicted)")
    if undocumented:
        of = case.desc.output.element_count
        print_line(f"  no output_0.pb: {undocumented} of {of} elements have no documented value")
    return 0
