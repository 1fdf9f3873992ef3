"""Why this exists: python311.dll may be of a later patch release than its pure library, which is the host's.

From 3.11.8 on the interpreter calls `MetadataPathFinder.invalidate_caches()` on the class; the library of an earlier one
defines it without `classmethod`, and `importlib.invalidate_caches()` fails.
"""

import importlib.metadata as metadata

finder = metadata.MetadataPathFinder
if not isinstance(finder.__dict__.get("invalidate_caches"), classmethod):
    finder.invalidate_caches = classmethod(finder.__dict__["invalidate_caches"])
