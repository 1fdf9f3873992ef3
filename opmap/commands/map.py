"""`opmap map`: writes the ONNX model that is equivalent to a DxDispatch JSON file."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from ..cases.case import Case
from ..dxdispatch import desc_json
from ..mapping import map_descriptor
from ..reporting.model_folders import folder_files, write_files
from ..reporting.terminal import print_line, write_json
from ..verdicts.compare import undefined
from .dispatches import read_dispatch


def run(options: Namespace) -> int:
    """Writes a model, or a folder with a model and its test data. Writes nothing if the file is bad: raises InputError."""
    dispatch, desc = read_dispatch(options.file, name=options.case, feature_level=options.feature_level)
    mapped = map_descriptor(desc, index_conversion=options.index_conversion or "graph")
    output, undocumented = Path(options.output), 0
    if output.suffix.lower() == ".onnx":
        write_files(output.parent, {output.name: mapped.model_bytes})
    else:
        case = Case(dispatch.name or "", desc, dispatch.tensors, options.file)
        write_files(output, folder_files(mapped, case))
        undocumented = undefined(case.expected)
    substitutions = [str(s) for s in mapped.substitutions]
    if options.json:
        document = {
            "output": str(output),
            "substitutions": substitutions,
            "lowered_as": desc_json(mapped.lowered_as),
            "undocumented_elements": undocumented,
        }
        write_json(document)
        return 0
    print_line(f"{dispatch.operator} -> ONNX {mapped.lowering.op_type}: {output}")
    for substitution in substitutions:
        print_line(f"  substituted  {substitution}")
    same = mapped.lowered_as == mapped.desc
    lowered_as = "the same descriptor" if same else f"DML_OPERATOR_{mapped.lowered_as.operator}"
    print_line(f"  lowered as   {lowered_as} (predicted)")
    if undocumented:
        of = desc.output.element_count
        print_line(f"  no output_0.pb: {undocumented} of {of} elements have no documented value")
    return 0
