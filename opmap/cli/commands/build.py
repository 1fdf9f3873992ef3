"""`opmap build`: writes ONNX models with their test data: of cases of the catalogue, or of a DxDispatch file or ONNX
model."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...cases.case import Case
from ...cases.globs import is_glob
from ...cases.in_variants import accepts
from ...cases.selection import Selection, Wanted
from ...cases.variants import PLAIN, VARIANTS
from ...descriptors import FEATURE_LEVELS
from ...errors import InputError, MappingError, cut, names, shown, similar
from ...files import check_output
from ...judge.onnx_models import is_model
from ...mapping.dxdispatch import desc_json
from ...reports.failure_folders import folder_name
from ...reports.reproducers.model_folders import ModelFolder, build, model_folder, shipped, write_files
from ...reports.terminal import print_line, progress, write_json
from .dispatches import read_cases

MARK = b"\x12\x05opmap"
"""The name of the producer in a model of opmap."""

_MOST_REASONS = 3
"""The most reasons to leave cases out that are printed."""

_SELECTING = ("wanted", "operator", "filter", "variant", "opset", "node", "feature_level", "index_conversion")


def run(options: Namespace) -> int:
    """Writes one model, or a folder of model folders. Writes nothing if a case is bad: raises InputError."""
    left_out: Counter[str] = Counter()
    if options.shipped:
        if given := [name for name in _SELECTING if getattr(options, name)]:
            raise InputError(f"--shipped must be given without a selection, got --{given[0].replace('_', '-')}")
        folders = list(shipped())
    else:
        cases = _cases(options)
        with progress(len(cases), "building") as advance:
            folders = list(_folders(cases, options, left_out, advance))
        if not folders:
            raise InputError(f"there is no such model: {next(iter(left_out))}")
    output = Path(options.output)
    if output.suffix.lower() == ".onnx":
        if len(folders) > 1:
            raise InputError(f"--output must be a folder for {len(folders):,} models, got {shown(options.output)}")
        _write_model(output, folders[0], options)
    else:
        build(output, folders)
    _print(folders, left_out, options)
    return 0


def _cases(options: Namespace) -> list[Case]:
    """Returns the cases that are chosen: those of files, and those of the catalogue. Raises InputError."""
    files = [word for word in options.wanted if is_model(word) or word.lower().endswith(".json")]
    words = [word for word in options.wanted if word not in files]
    of_files = (read_cases(file, name=options.node, feature_level=options.feature_level) for file in files)
    cases = [case for of_file in of_files for case in of_file]
    if options.node is not None and not cases:
        raise InputError(f"--node must come with a file, got {shown(options.node)}")
    if words or options.operator or not cases:
        selection = Selection(
            tier=options.tier,
            wanted=Wanted.of(words, options.operator),
            globs=options.filter,
            variants=not _variant(options),
        )
        cases += selection.cases()
        if not cases:
            raise InputError("must select a case: probes are no descriptors, and have no model folder")
    return cases


def _variant(options: Namespace) -> str | None:
    """Returns the variant that all models are to have. Raises InputError if there is none of this name."""
    if options.variant and options.opset:
        raise InputError("--opset names a variant: give it or --variant")
    name: str | None = f"opset-{options.opset}" if options.opset else options.variant
    forms = [own for own, variant in VARIANTS.items() if variant.base and variant.form is not VARIANTS[PLAIN].form]
    if name is not None and name not in forms:
        opsets = ", ".join(own.removeprefix("opset-") for own in forms if own.startswith("opset-"))
        if options.opset:
            raise InputError(f"--opset must be one of {opsets}, got {options.opset}")
        hint = similar(name, forms) or "; opmap manual variants lists them"
        raise InputError(f"--variant must be a variant with a model of its own, got {shown(name)}{hint}")
    return name


def _folders(
    cases: Sequence[Case], options: Namespace, left_out: Counter[str], advance: Callable[[], None]
) -> Iterator[ModelFolder]:
    """Yields the model folder of each case.

    What several cases lack is counted in `left_out`; what the only one lacks is raised.
    """
    variant, level = _variant(options), options.feature_level or FEATURE_LEVELS[-1]
    for case in cases:
        advance()
        try:
            case.desc.validate(feature_level=level)
            if variant is not None:
                case = _in_variant(case, variant, options.opset)
            elif case.variant != PLAIN and VARIANTS[case.variant].form is VARIANTS[PLAIN].form and len(cases) > 1:
                raise MappingError("a variant whose model is that of another case")
            yield model_folder(folder_name(case.id), case, options.index_conversion or "graph")
        except (InputError, MappingError) as error:
            if len(cases) == 1:
                if isinstance(error, InputError):
                    error.file = error.file or case.file or case.id
                raise
            left_out[cut(str(error), 80)] += 1


def _in_variant(case: Case, name: str, opset: int | None) -> Case:
    """Returns a case in a variant; the case itself if its model has the opset.

    Raises MappingError if it has no such form.
    """
    if opset is not None and model_folder("", case, "graph").formed.model.opset_import[0].version == opset:
        return case
    variant = VARIANTS[name]
    if not accepts(variant, case):
        raise MappingError(f"no form {name}")
    return dataclasses.replace(case, id=variant.id(case.id), variant=name)


def _write_model(output: Path, folder: ModelFolder, options: Namespace) -> None:
    inputs = [path for word in options.wanted for path in (Path(word), *Path(word).rglob("*"))]
    check_output(output, MARK, inputs, force=options.force)
    files = {output.name: folder.formed.model_bytes, **folder.formed.files}
    for name in () if output.is_file() and output.stat().st_size else files:  # beside an own model, they are own files
        check_output(output.parent / name, MARK, inputs, force=options.force)
    write_files(output.parent, files)


def _print(folders: Sequence[ModelFolder], left_out: Counter[str], options: Namespace) -> None:
    """Prints what was written: all about one model, or the counts of several."""
    if options.json:
        write_json(
            {
                "output": options.output,
                "models": {
                    folder.name: {**folder.facts, "lowered_as": desc_json(folder.mapped.lowered_as)}
                    for folder in folders
                },
                "left_out": dict(left_out),
            }
        )
        return
    undocumented = [folder for folder in folders if folder.undocumented]
    if len(folders) > 1:
        of_tier = options.operator or options.filter or not options.wanted or any(map(is_glob, options.wanted))
        text = f" of tier {options.tier}" if of_tier and not options.shipped else ""
        print_line(f"{len(folders):,} models{text} in {options.output}; next: opmap check {options.output}")
        for reason, count in left_out.most_common(_MOST_REASONS):
            print_line(f"  {count:,} left out: {reason}")
        if more := sum(count for _, count in left_out.most_common()[_MOST_REASONS:]):
            print_line(f"  {more:,} left out for other reasons, which --json names")
        if undocumented:
            print_line(
                f"  {len(undocumented):,} without an output file: "
                "manifest.json names the elements without a documented value"
            )
        return
    (folder,) = folders
    case, mapped = folder.case, folder.mapped
    print_line(f"{case.desc.spec().operator} -> ONNX {mapped.lowering.op_type}: {options.output}")
    if case.variant != PLAIN:
        print_line(f"  variant      {case.variant}: {VARIANTS[case.variant].text}")
    for substitution in folder.substitutions:
        print_line(f"  substituted  {substitution}")
    same = mapped.lowered_as == mapped.desc
    lowered_as = "the same descriptor" if same else f"DML_OPERATOR_{mapped.lowered_as.operator}"
    print_line(f"  lowered as   {lowered_as} (predicted)")
    if undocumented:
        print_line(f"  no documented value: elements {names(folder.undocumented)}")
