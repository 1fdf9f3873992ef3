"""The defects of execution providers that the suite shows: data files, and the known failures that follow from them.

Each `*.toml` file beside this one holds some defects; `defects` reads them. An entry speaks only for the packages,
versions and device classes on which its defect was seen.
"""

from .defects import KINDS, Defect, Seen, SeenOn, Word, defects, find_defect, shipped_failures

__all__ = ["KINDS", "Defect", "Seen", "SeenOn", "Word", "defects", "find_defect", "shipped_failures"]
