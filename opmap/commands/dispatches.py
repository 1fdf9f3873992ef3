"""Reads the one case that `opmap map` or `opmap explain` is about: from a DxDispatch file, or from the catalogue."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..cases.case import Case
from ..cases.selection import find_case
from ..descriptors import FEATURE_LEVELS
from ..dxdispatch import Dispatch, read
from ..errors import InputError, names, shown


def read_case(target: str, *, name: str | None = None, feature_level: str | None = None) -> Case:
    """Returns the case that `target` names: a DxDispatch file, or the id of a case of the catalogue.

    What exists as a file is a file. Its case is the only dispatch, or the one of the dispatchable `name`. Raises InputError
    if there is no such case, or if its descriptor breaks a rule at this feature level (default: the newest).
    """
    level = feature_level or FEATURE_LEVELS[-1]
    is_file = os.path.exists(target) and not os.path.isdir(target)
    if is_file or target.lower().endswith(".json"):
        return _read_dispatch(target, name, level)
    case = find_case(target, wanted="a DxDispatch file or the id of a case")
    if name is not None:
        raise InputError(f"--case must be given with a file only, got {shown(name)} with the id of a case")
    try:
        case.desc.validate(feature_level=level)
    except InputError as error:
        error.file = target
        raise
    return case


def _read_dispatch(file: str, name: str | None, feature_level: str) -> Case:
    try:
        dispatch = _choose(read(file), name)
        if dispatch.desc is not None:
            dispatch.desc.validate(feature_level=feature_level, path=dispatch.path)
        if dispatch.error is not None:
            raise dispatch.error
        if dispatch.desc is None:
            raise InputError("must have a descriptor", path=dispatch.path)
        return Case(dispatch.name or "", dispatch.desc, dispatch.tensors, file)
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
