"""The text of an issue about one case, in Markdown, ready for a tracker. Everything from outside stands in code blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
import onnx.printer

from ..cases.case import Case
from ..cases.variants import PLAIN, VARIANTS
from ..engines.arrays import to_array
from ..errors import cut
from ..files import to_json
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


def issue_text(
    case: Case,
    expected: Mapping[str, np.ndarray],
    *,
    model: onnx.ModelProto | None,
    recorded: Recorded | None,
    files: Sequence[str],
    removed: Mapping[str, list[str]] | None,
    **texts: object,
) -> str:
    """Returns the Markdown text. All texts are clean already.

    `expected` has the right outputs by field, elements without a documented value masked; `removed` what was taken out of the
    texts, or None. `texts` go to the template: `record` is the result if the case was run on `provider`; `default` is the provider
    on which the program runs if none is named, `again` the command that runs the case with opmap, `before` has the ids of the
    cases before it; `environment`, `diagnosis` and `notes` are lines.
    """
    inputs = [f"{name} = {_values(to_array(tensor))}" for name, tensor in case.tensors.items()]
    right = {recorded.output: recorded.expected} if recorded else expected
    outputs = [f"expected {output} = {_values(array)}" for output, array in right.items()]
    if recorded:
        outputs.append(f"actual   {recorded.output} = {_values(recorded.actual)}")
    return markdown_page(
        "issue.md",
        **texts,
        case=case,
        tensors=[describe_case(case), *inputs, *outputs],
        descriptor=to_json(desc_json(case.desc)).decode(),
        variant=None if case.variant == PLAIN else VARIANTS[case.variant].text,
        graph=_graph(model) if model else None,
        recorded=recorded,
        files=list(_described(files)),
        removed=None if removed is None else summary(removed),
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
