"""The cases and probes that the options of a run ask for. Light to import: no provider, no judge."""

from __future__ import annotations

from ..cases.selection import Selection, Wanted, case_ids
from ..engines.provider_facts import DIRECT
from ..errors import InputError
from .options import SessionOptions


def selection(options: SessionOptions) -> Selection:
    """Returns the selection. Raises InputError if a file of ids or a bundle cannot be read."""
    ids = case_ids(options.case)
    if options.failed_of:
        from ..reports.written_bundle import failed_ids

        failed = failed_ids(options.failed_of)
        ids = [id for id in failed if id in ids] if ids else failed
        if not ids:
            raise InputError("must hold a failed case of those that are named, got none", file=options.failed_of)
    return Selection(
        tier=options.tier,
        wanted=Wanted.of(options.wanted, options.operator),
        globs=options.filter,
        ids=ids,
        shard=options.shard,
        layouts=options.provider.lower() == DIRECT,
    )
