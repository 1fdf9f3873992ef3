"""The folder of one case that stands alone: model, test data, DxDispatch file, program, and the text of an issue."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import onnx
import onnx.printer

from ..cases.case import Case
from ..cases.variants import PLAIN, VARIANTS, Formed
from ..diagnosis.diagnosis import Diagnosis
from ..engines.arrays import masked_array, to_array
from ..engines.expectations import ExpectedStep
from ..engines.machine.facts import Fact
from ..engines.providers import Provider
from ..engines.sessions import CPU, DIRECTML
from ..engines.steps import Clear
from ..errors import MappingError, cut
from ..files import to_json
from ..judge.judge import fits_int32
from ..judge.record import Record, TensorRecord, at_wrong_output
from ..mapping import IndexConversion, map_descriptor
from ..mapping.dxdispatch import desc_json
from ..tensors import DataType
from .cause_view import CauseView, cause_group, describe_case
from .doctor import rows
from .failure_folders import FOLDER, ISSUE, PROGRAM, folder_name
from .pages import text_page
from .redaction import Redactor, summary, texts, without_folders
from .reproducers.dxdispatch_files import dxdispatch_files
from .reproducers.model_folders import folder_files, formed_model, tensor_proto, write_files
from .reproducers.reproducer import MODEL, Recorded, dry_run, program
from .wrong_elements import comparable_bits


def export_folder(
    case: Case,
    *,
    record: Record | None = None,
    provider: str | None = None,
    provider_options: Mapping[str, str] | None = None,
    session_options: Mapping[str, str] | None = None,
    index_conversion: IndexConversion | None = None,
    before: Sequence[Case] = (),
    environment: Mapping[str, Fact] | None = None,
    diagnosis: Sequence[str] = (),
    again: str | None = None,
    redactor: Redactor | None = None,
) -> dict[str, bytes]:
    """Returns the files of a folder that reproduces a case without opmap, by their relative paths.

    - `record`: the result of the case. If its output is wrong, the output is written as `actual_0.pb`.
    - `provider`: the execution provider that ran it, by ONNX Runtime's name; `repro.py` takes it by default. For any
      other provider, as `fault:NAME`, the default is the CPU EP.
    - `provider_options`, `session_options`, `index_conversion`: those of the run.
    - `before`: cases that must run before in the same process, the first one first.
    - `environment`: the facts of `Provider.environment`. `diagnosis`: lines about the cause, and what was ruled out.
    - `again`: the command that runs the case again with opmap.
    - `redactor`: takes names and paths out of all texts that come from the machine or from a file.

    A case that has no ONNX model has only the files that need none.
    """
    clean: Callable[[str], str] = redactor or str
    if redactor:
        sources = [case.id, record and record.message, environment, diagnosis, provider_options, session_options, again]
        redactor.learn(texts(sources))
    if case.file is not None:
        case = dataclasses.replace(case, id=clean(case.id))
    conversion = index_conversion or ("directml" if provider == DIRECTML else "graph")
    message = clean(record.message) if record and record.message else None
    record = record and msgspec.structs.replace(record, message=message)
    default = provider if provider and provider.endswith("ExecutionProvider") else CPU
    inputs = case.inputs
    model, recorded, notes = None, None, list[str]()
    files: dict[str, bytes] = {}
    try:
        formed = _annotated(_formed(case, conversion), case)
        earlier = [(_formed(earlier_case, conversion), earlier_case) for earlier_case in before]
    except MappingError as error:
        notes.append(f"There is no {MODEL}, no test data and no {PROGRAM}: {error}.")
    else:
        files |= folder_files(formed, case)
        steps: list[ExpectedStep] = []
        for formed_before, earlier_case in earlier:
            steps += [*dry_run(formed_before, earlier_case.inputs, earlier_case.variant), ExpectedStep(Clear())]
        steps += dry_run(formed, inputs, case.variant)
        recorded = _recorded(formed, case, record, files)
        text = program(
            steps,
            files=files,
            title=f"{case.id}: {message or describe_case(case)}",
            provider=default,
            options={name: clean(value) for name, value in (provider_options or {}).items()},
            config={name: clean(value) for name, value in (session_options or {}).items()},
            recorded=recorded,
        )
        files[PROGRAM] = text.encode(errors="backslashreplace")
        model = formed.model
        if record and record.actual and record.actual.Differences and recorded is None:
            notes.append("The record does not hold all wrong elements of this large output: it is left out.")
    files |= dxdispatch_files(case, inputs)
    outputs = {f: (output, inputs.of(f).expected) for f, output in inputs.desc.outputs.items()}
    expected = {f: masked_array(output.data_type, output.sizes, bits) for f, (output, bits) in outputs.items()}
    text = text_page(
        "issue.md",
        case=case,
        provider=(record and record.provider) or provider,
        default=default,
        record=record,
        recorded=recorded,
        tensors=[describe_case(case), *_values_of(case, expected, recorded)],
        before=[earlier_case.id for earlier_case in before],
        again=clean(again) if again else None,
        diagnosis=[clean(line) for line in diagnosis],
        descriptor=to_json(desc_json(case.desc)).decode(),
        variant=None if case.variant == PLAIN else VARIANTS[case.variant].text,
        graph=_graph(model) if model else None,
        environment=[f"{name:13} {clean(value)}" for name, value in _facts(environment, record)],
        files=list(_described(sorted([*files, ISSUE]))),
        notes=notes,
        removed=summary(redactor.removed) if redactor else None,
    )
    files[ISSUE] = text.encode(errors="backslashreplace")
    return files


def _formed(case: Case, conversion: IndexConversion) -> Formed:
    mapped = map_descriptor(case.desc, index_conversion=conversion, fits_int32=fits_int32(case))
    return formed_model(mapped, case)


def _annotated(formed: Formed, case: Case) -> Formed:
    """Returns the form with a model that says what it is: in its doc string, and in its metadata for programs."""
    model, page = onnx.ModelProto(), case.desc.spec().page
    model.CopyFrom(formed.model)
    rules = f"{page.repository} {page.path} at commit {page.commit}"
    model.doc_string = f"{describe_case(case)}\ncase: {case.id}\nrules: {rules}"
    facts = {
        "opmap.case": case.id,
        "opmap.variant": case.variant,
        "opmap.descriptor": json.dumps(desc_json(case.desc)),
        "opmap.rules": rules,
        "opmap.page": page.address,
    }
    for key, value in facts.items():
        model.metadata_props.add(key=key, value=value)
    return dataclasses.replace(formed, model=model)


# --- the recorded output ---


def _recorded(formed: Formed, case: Case, record: Record | None, files: dict[str, bytes]) -> Recorded | None:
    """Returns the wrong output of a record, and adds its file; None if there is none, or if it is too large."""
    if record is None:
        return None
    case, record = at_wrong_output(case, record)
    if record.actual is None or record.expected is None or record.actual.agrees(record.expected):
        return None
    actual, expected = _array(record.actual), _array(record.expected)
    if record.actual.Differences and (bits := comparable_bits(case, record.actual)):
        output_desc = case.desc.output
        actual = masked_array(output_desc.data_type, output_desc.sizes, bits)
        expected = masked_array(output_desc.data_type, output_desc.sizes, case.expected)
    if actual is None or expected is None:
        return None
    names = list(formed.outputs)
    label = (record.message or "").partition(": ")[0]
    output = next((name for name in names if label == name or label.endswith(f", {name}")), names[0])
    if formed.dynamic and (sizes := formed.output_sizes(output, case.inputs)) and np.prod(sizes) == actual.size:
        actual, expected = actual.reshape(sizes), expected.reshape(sizes)
    note = f"what {record.provider} gave: {record.message}"
    files[f"actual_{names.index(output)}.pb"] = tensor_proto(output, np.ma.getdata(actual), note)
    return Recorded(record.provider or "the provider", output, actual, expected)


def _array(record: TensorRecord) -> np.ndarray | None:
    """Returns the tensor of a record, elements without a value masked; None if the record does not list it."""
    if record.Bits is None:
        return None
    bits = [int(text, 16) if text is not None else None for text in record.Bits]
    return masked_array(DataType[record.DataType], record.Sizes, bits)


def _facts(environment: Mapping[str, Fact] | None, record: Record | None) -> Iterator[tuple[str, str]]:
    """Yields the facts about the machine and the software, and where the nodes ran."""
    if environment and "packages" in environment:  # a worker that died told nothing
        yield from rows(environment)
    if record and record.placement:
        nodes = ", ".join(f"{node} on {name}".removeprefix(" on ") for node, name in record.placement.nodes)
        yield "ran", f"{nodes or 'no node'} ({record.placement.source})"


# --- the text of an issue ---

_MOST_GRAPH = 8_000
"""The most characters of a graph's text. An issue on GitHub has at most 65,536 characters."""

_MOST_ELEMENTS = 64
"""The most elements of a tensor that are shown."""

_FILES = {
    "repro.py": "runs the model, compares bit for bit; needs numpy and onnxruntime",
    "model.onnx": "the ONNX model; its metadata has the descriptor and the case",
    "test_data_set_0/": "inputs and expected outputs, in the layout of ONNX's test data",
    "actual_": "the wrong output",
    "dxdispatch.json": "the same descriptor for DxDispatch, without ONNX Runtime",
    "dxdispatch_expected.json": "the output that DirectML must then print",
    "dxdispatch/": "large arrays of these two",
    "before_": "a model that runs before",
    "arrays/": "arrays of repro.py",
}
"""Beginning of a file's name -> what the file is."""


def _values_of(case: Case, expected: Mapping[str, np.ndarray], recorded: Recorded | None) -> Iterator[str]:
    """Yields a line for each input, and for each right output; of a `recorded` one, beside what it was."""
    for name, tensor in case.tensors.items():
        yield f"{name} = {_values(to_array(tensor))}"
    for output, array in ({recorded.output: recorded.expected} if recorded else expected).items():
        yield f"expected {output} = {_values(array)}"
    if recorded:
        yield f"actual   {recorded.output} = {_values(recorded.actual)}"


def _values(array: np.ndarray) -> str:
    if array.size > _MOST_ELEMENTS:
        return f"{array.size:,} elements"
    return str(array.tolist()).replace("None", "undefined")


def _graph(model: onnx.ModelProto) -> str:
    """Returns the model as ONNX text, without the texts about it."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    plain.ClearField("metadata_props")
    plain.ClearField("doc_string")
    return cut(onnx.printer.to_text(plain), _MOST_GRAPH)


def _described(files: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields the files, those of one folder or kind together, each with what it is."""
    for beginning, text in _FILES.items():
        if matching := [name for name in files if name.startswith(beginning)]:
            yield (beginning if beginning.endswith("/") else ", ".join(matching)), text


# --- the folders of a run ---

MOST_CAUSES, MOST_OF_EACH = 10, 3
"""The most causes with folders, and the most cases of each."""


def write_failures(
    folder: str | Path, diagnoses: Sequence[Diagnosis], provider: Provider, again: Callable[..., str]
) -> None:
    """Writes a folder for the smallest cases of each cause, below the folder of a bundle.

    A cause that shows only when batched has none: its cases need their common session. `again` gives the
    command that runs a case again. Raises InputError if a folder cannot be written.
    """
    environment = without_folders(provider.environment())
    for number, diagnosis in enumerate(diagnoses[:MOST_CAUSES], 1):
        if diagnosis.cause.only_batched:
            continue
        lines = CauseView.of(cause_group(diagnosis, again)).texts(f"cause {number}")
        failures = [diagnosis.smallest, *diagnosis.cause.failures]
        for case, failure in {failure.case.id: (failure.case, failure) for failure in failures[:MOST_OF_EACH]}.values():
            files = export_folder(
                case,
                record=failure.record,
                provider=provider.name,
                environment=environment,
                diagnosis=lines,
                before=diagnosis.earlier,
                again=None if diagnosis.shrunk is failure else again(case, diagnosis.earlier),
            )
            write_files(Path(folder, FOLDER, folder_name(case.id)), files)
