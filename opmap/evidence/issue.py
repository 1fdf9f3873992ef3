"""The text of an issue about one case, in Markdown, ready for a tracker. Everything from outside stands in code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx.printer

from ..catalogue.case import Case
from ..catalogue.variants import PLAIN, VARIANTS
from ..engines.arrays import to_array
from ..errors import cut, printable
from ..files import to_json
from ..mapping.dxdispatch import desc_json
from .cause_view import describe_case
from .redaction import summary
from .reproducers.reproducer import Recorded

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


@dataclass(kw_only=True)
class Issue:
    """What an issue says. `expected` is the right output, elements without a documented value masked.
    `default` is the provider on which the program runs if none is named.

    All texts are clean already; `removed` has what was taken out of them, or None.
    """

    case: Case
    expected: np.ndarray
    provider: str | None = None
    default: str = ""
    device_class: str | None = None
    verdict: str | None = None
    message: str | None = None
    environment: Sequence[tuple[str, str]] = ()
    diagnosis: Sequence[str] = ()
    again: str | None = None
    before: Sequence[str] = ()
    placement: str | None = None
    model: onnx.ModelProto | None = None
    recorded: Recorded | None = None
    notes: list[str] = field(default_factory=list)
    files: Sequence[str] = ()
    removed: Mapping[str, list[str]] | None = None


def issue_text(issue: Issue) -> str:
    """Returns the Markdown text."""
    return "\n\n".join(_parts(issue)) + "\n"


def _parts(issue: Issue) -> Iterator[str]:
    case, page = issue.case, issue.case.desc.spec().page
    where = f" on {issue.provider}" if issue.provider else ""
    device = f" (device class: {issue.device_class})" if issue.device_class else ""
    yield f"# DML_OPERATOR_{case.desc.operator}: {_inline(issue.verdict or 'a case')}{_inline(where)}"
    if issue.verdict:
        yield f"The case below gives `{_inline(issue.verdict)}`{_inline(where)}{_inline(device)}{':' if issue.message else '.'}"
        if issue.message:
            yield _block(issue.message)
    yield f"The right output follows from the pseudocode of [the operator's page]({page.address}), commit {page.commit}."
    yield _block("\n".join(_tensors(issue)))
    if issue.before:
        yield "These cases run before, in the same process:"
        yield _block("\n".join(issue.before))
    if issue.model is not None:
        yield "## Run it\n\nIn the folder of this file, with numpy and onnxruntime installed:"
        lines = [f"python repro.py            # on {issue.default}", "python repro.py PROVIDER   # on another one"]
        lines += ["python repro.py recorded   # show the wrong output that was recorded"] if issue.recorded else []
        yield _block("\n".join(lines), "sh")
        yield "It prints the expected and the actual output, and where each node ran. Exit code 1 means that something is wrong."
    if issue.again:
        by_provider = issue.provider == issue.default
        yield (
            "With opmap:"
            if by_provider
            else f"{_inline(issue.provider or '')} is a provider of opmap alone. With opmap:"
        )
        yield _block(issue.again, "sh")
    yield "## Diagnosis"
    yield _block("\n".join(issue.diagnosis)) if issue.diagnosis else "Nothing more was asked."
    yield "## Descriptor"
    yield _block(to_json(desc_json(case.desc)).decode(), "json")
    variant = "" if case.variant == PLAIN else f", in the variant `{case.variant}`: {VARIANTS[case.variant].text}"
    yield f"Case `{_inline(case.id)}`{variant}"
    if issue.model is not None:
        yield "## Graph"
        yield _block(_graph(issue.model))
    yield "## Environment"
    lines = [f"{name:13} {value}" for name, value in issue.environment]
    lines += [f"{'ran':13} {issue.placement}"] if issue.placement else []
    yield _block("\n".join(lines)) if lines else "The case was exported, not run."
    yield "## Files"
    yield "\n".join(f"- `{name}`: {text}" for name, text in _described(issue.files))
    yield from issue.notes
    if issue.removed is not None:
        yield f"Taken out of the texts before this was written: {summary(issue.removed)}."


def _tensors(issue: Issue) -> Iterator[str]:
    """Yields the descriptor in words, and the values of its tensors."""
    case = issue.case
    yield describe_case(case)
    for name, tensor in case.tensors.items():
        yield f"{name} = {_values(to_array(tensor))}"
    if recorded := issue.recorded:
        yield f"expected {recorded.output} = {_values(recorded.expected)}"
        yield f"actual   {recorded.output} = {_values(recorded.actual)}"
        return
    yield f"expected {case.round.output_field} = {_values(issue.expected)}"


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
        matching = [
            name for name in files if name == beginning or (beginning[-1] in "/_" and name.startswith(beginning))
        ]
        if matching:
            yield (beginning if beginning.endswith("/") else ", ".join(matching)), text


def _inline(text: str) -> str:
    """Returns a text in which nothing is markup."""
    return re.sub(r"[`*_<>\[\]\\|#]", " ", printable(text)) if re.search(r"[`<>\[\]\\|#*]", text) else printable(text)


def _block(text: str, language: str = "") -> str:
    """Returns a code block. Its fence is longer than any in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n" + "\n".join(map(printable, text.split("\n"))) + f"\n{fence}"
