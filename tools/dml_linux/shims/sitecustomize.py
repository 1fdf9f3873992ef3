"""Why this exists: python311.dll may be of a later patch release than its pure library, which is the host's.

From 3.11.8 on the interpreter calls `MetadataPathFinder.invalidate_caches()` on the class; the library of an earlier one
defines it without `classmethod`, and `importlib.invalidate_caches()` fails. The module is corrected when it is needed: to import it
takes longer than to start the interpreter.
"""

from _frozen_importlib_external import PathFinder

invalidate_found = PathFinder.invalidate_caches


def invalidate_caches():
    from importlib.metadata import MetadataPathFinder as finder

    if not isinstance(finder.__dict__.get("invalidate_caches"), classmethod):
        finder.invalidate_caches = classmethod(finder.__dict__["invalidate_caches"])
    invalidate_found()


PathFinder.invalidate_caches = staticmethod(invalidate_caches)
