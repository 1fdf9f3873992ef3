"""The documentation pages of the tests, and changes to them.

Each English page stands for the page as Microsoft published it; the others are translations, some as plain text.
"""

from pathlib import Path

PAGES = {path.name: path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("pages/*-*.*")}
"""File name -> text."""

ENGLISH = {
    "gather": "GATHER",
    "gather_elements": "GATHER_ELEMENTS",
    "gather_nd": "GATHER_ND",
    "gather_nd1": "GATHER_ND1",
}
"""Name of an English page, as `page` takes it -> operator."""

WRONG = "The *DimensionCount* and *DataType* of this tensor must match *InputTensor.DimensionCount*."
"""The sentence of three pages that gives the output the wrong data type."""

RIGHT = [
    "The *DimensionCount* and *DataType* of this tensor must match *InputTensor.DimensionCount* and *InputTensor.DataType*.",
    "The *DimensionCount* of this tensor must match *InputTensor.DimensionCount*, and its *DataType* must match"
    " *InputTensor.DataType*.",
    "The *DimensionCount* of this tensor must match *InputTensor.DimensionCount*. The *DataType* must match"
    " *InputTensor.DataType*.",
    "The *DataType* must match *InputTensor.DataType*, and *DimensionCount* must match *InputTensor.DimensionCount*.",
    "The *DimensionCount* and *DataType* of this tensor must match those of *InputTensor*.",
    "The *DimensionCount* and *DataType* of this tensor must match the *DimensionCount* and *DataType* of *InputTensor*.",
    "The *DimensionCount* and *DataType* of this tensor must match *InputTensor*'s *DimensionCount* and *DataType*.",
    "The *DimensionCount* and *DataType* of this tensor must match *InputTensor.DimensionCount* and *DataType*.",
    "*DataType* and *DimensionCount* must be the same as `InputTensor.DataType` and `InputTensor.DimensionCount`, respectively.",
    "*OutputTensor.DimensionCount* must match *InputTensor.DimensionCount*, *OutputTensor.DataType* *InputTensor.DataType*.",
    "The *DataType* of this tensor must match the input's, and its *DimensionCount* must match *InputTensor.DimensionCount*.",
    "The *DataType* is that of *InputTensor*, and the *DimensionCount* must match *InputTensor.DimensionCount*.",
    "The *DimensionCount* of this tensor must match *InputTensor.DimensionCount*.",
    "This tensor must have the same *DimensionCount* and *DataType* as *InputTensor*.",
    "…",
]
"""Corrected sentences in place of WRONG. They are worded differently, and none of them gives a finding."""


def page(name: str) -> str:
    """The text of a page, by file name, or of the English page, by operator in lower case."""
    return PAGES[name if name in PAGES else f"{name}.en-US.md"]


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """The text with each change made wherever its old text occurs. It must occur at least once."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text
