"""Measures what opmap costs: the suite beside ONNX Runtime alone, the interpreter beside loops written by hand.

Each measured thing is a module with a function; `document` puts them together.
"""

from .document import PARTS, SCHEMA, TARGETS, Document, Reached, measure, reached

__all__ = ["PARTS", "SCHEMA", "TARGETS", "Document", "Reached", "measure", "reached"]
