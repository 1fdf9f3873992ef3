"""The text of an issue about one case, in Markdown, ready for a tracker. Everything from outside stands in code blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx.printer

from ..cases.case import Case
from ..cases.variants import PLAIN, VARIANTS
from ..engines.arrays import to_array
from ..errors import cut
from ..files import to_json
from ..judge.record import Record
from ..mapping.dxdispatch import desc_json
from .cause_view import describe_case
from .pages import markdown_page
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
    """What an issue says. `expected` has the right outputs by field, elements without a documented value masked.
    `default` is the provider on which the program runs if none is named, `record` is the result if the case was run.

    All texts are clean already; `removed` has what was taken out of them, or None.
    """

    case: Case
    expected: Mapping[str, np.ndarray]
    provider: str | None = None
    default: str = ""
    record: Record | None = None
    environment: Sequence[str] = ()
    diagnosis: Sequence[str] = ()
    again: str | None = None
    before: Sequence[str] = ()
    model: onnx.ModelProto | None = None
    recorded: Recorded | None = None
    notes: list[str] = field(default_factory=list)
    files: Sequence[str] = ()
    removed: Mapping[str, list[str]] | None = None

    @property
    def tensors(self) -> list[str]:
        """The descriptor in words, and the values of its tensors."""
        case, recorded = self.case, self.recorded
        inputs = [f"{name} = {_values(to_array(tensor))}" for name, tensor in case.tensors.items()]
        expected = {recorded.output: recorded.expected} if recorded else self.expected
        outputs = [f"expected {output} = {_values(array)}" for output, array in expected.items()]
        if recorded:
            outputs.append(f"actual   {recorded.output} = {_values(recorded.actual)}")
        return [describe_case(case), *inputs, *outputs]


def issue_text(issue: Issue) -> str:
    """Returns the Markdown text."""
    case = issue.case
    return markdown_page(
        "issue.md",
        issue=issue,
        descriptor=to_json(desc_json(case.desc)).decode(),
        variant=None if case.variant == PLAIN else VARIANTS[case.variant].text,
        graph=_graph(issue.model) if issue.model else "",
        files=list(_described(issue.files)),
        removed=summary(issue.removed or {}),
    )


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
