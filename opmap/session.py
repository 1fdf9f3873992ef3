"""One run, from options to exit code."""

from __future__ import annotations

from collections.abc import Mapping

from .execution.providers import open_provider
from .faults import open_fault
from .verdicts.judge import Judge


def open_judge(provider: str, *, place: Mapping[str, object] | None = None, **options) -> Judge:
    """A judge on the provider of this name, `fault:<name>` included; `place` is open_provider's options, others are Judge's.

    Raises ProviderMissing where the provider is not there, InputError for a name that means nothing.
    """
    name = provider.removeprefix("fault:")
    if name != provider:
        return Judge(open_fault(name), **options)
    return Judge(open_provider(provider, **place or {}), **options)
