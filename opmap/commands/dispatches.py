"""Reads the one dispatch that `opmap map` or `opmap explain` is about."""

from __future__ import annotations

from collections.abc import Sequence

from ..descriptors import FEATURE_LEVELS, OperatorDesc
from ..dxdispatch import Dispatch, read
from ..errors import InputError, names, shown


def read_dispatch(
    file: str, *, name: str | None = None, feature_level: str | None = None
) -> tuple[Dispatch, OperatorDesc]:
    """Returns the only dispatch of a DxDispatch file, or the one of this name, and its valid descriptor.

    Raises InputError if there is no such dispatch, or if its descriptor breaks a rule at this feature level (default: the
    newest).
    """
    try:
        dispatch = _choose(read(file), name)
        if dispatch.desc is not None:
            dispatch.desc.validate(feature_level=feature_level or FEATURE_LEVELS[-1], path=dispatch.path)
        if dispatch.error is not None:
            raise dispatch.error
        if dispatch.desc is None:
            raise InputError("must have a descriptor", path=dispatch.path)
        return dispatch, dispatch.desc
    except InputError as error:
        error.file = file
        raise


def _choose(dispatches: Sequence[Dispatch], name: str | None) -> Dispatch:
    listed = names([d.name for d in dispatches])
    if name is not None:
        chosen = [d for d in dispatches if d.name == name]
        if not chosen:
            raise InputError(f"--case must be one of {listed}, got {shown(name)}")
        dispatches = chosen
    if len(dispatches) > 1:
        raise InputError(f"must dispatch once, or be given --case, got {listed}")
    return dispatches[0]
