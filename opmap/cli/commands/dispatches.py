"""Reads the cases that a command is about: from a DxDispatch file, an ONNX model, or the catalogue."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from ...cases.case import Case
from ...cases.selection import find_case
from ...descriptors import FEATURE_LEVELS
from ...errors import InputError, in_file, names, shown
from ...judge.onnx_models import CpuValues, is_model, node_cases, read_model_file
from ...mapping.dxdispatch import Dispatch, read

T = TypeVar("T")


def read_case(target: str, *, name: str | None = None, feature_level: str | None = None) -> Case:
    """Returns the only case of `read_cases`. Raises InputError if there are several."""
    cases = read_cases(target, name=name, feature_level=feature_level)
    if len(cases) > 1:
        listed = names([case.id for case in cases])
        raise InputError(f"must have one node, or be given --node, got {listed}", file=target)
    return cases[0]


def read_cases(target: str, *, name: str | None = None, feature_level: str | None = None) -> list[Case]:
    """Returns the cases that `target` names: a DxDispatch file, an ONNX model, or the id of a case of the catalogue.

    What exists as a file is a file. Its case is the only dispatch, or the one of the name `name`; of a model, which is
    read with its first test data, the cases are the nodes that can be judged, or the one of this name. Raises
    InputError if there is no such case, or if its descriptor breaks a rule at this feature level (default: the newest).
    """
    level = feature_level or FEATURE_LEVELS[-1]
    with in_file(target):
        if is_model(target):
            return _model_cases(target, name, level)
        if (os.path.exists(target) and not os.path.isdir(target)) or target.lower().endswith(".json"):
            return [_read_dispatch(target, name, level)]
    if os.path.isdir(target) and _is_bundle(target):
        got = "the folder of a results bundle (--failed-of takes its failed cases)"
        raise InputError(f"must be a file or the id of a case, got {got}", file=target)
    case = find_case(target, wanted="a DxDispatch file, a model or the id of a case")
    if name is not None:
        raise InputError(f"--node must be given with a file only, got {shown(name)} with the id of a case")
    with in_file(target):
        case.desc.validate(feature_level=level)
    return [case]


def _is_bundle(folder: str) -> bool:
    from ...reports.written_bundle import is_bundle  # slow to load, and only a folder needs it

    return is_bundle(folder)


def _model_cases(file: str, name: str | None, feature_level: str) -> list[Case]:
    model = read_model_file(file)
    with CpuValues() as cpu:
        data_set = next(iter(model.data_sets), None)
        all_cases = node_cases(model, data_set, cpu, feature_level=feature_level).all_cases
    entries = _named(all_cases, name, lambda entry: entry.node.label)
    if not entries:
        raise InputError("must have a node of an operator that opmap knows, got none")
    cases = [entry.case for entry in entries if entry.case]
    if not cases:
        raise InputError(f"cannot be judged: {entries[0].reason}", path=entries[0].node.label)
    return cases


def _read_dispatch(file: str, name: str | None, feature_level: str) -> Case:
    dispatch = _choose(read(file), name)
    if dispatch.desc is not None:
        dispatch.desc.validate(feature_level=feature_level, path=dispatch.path)
    if dispatch.error is not None:
        raise dispatch.error
    if dispatch.desc is None:
        raise InputError("must have a descriptor", path=dispatch.path)
    return Case(dispatch.name or "", dispatch.desc, dispatch.tensors, file, offsets=dispatch.offsets)


def _choose(dispatches: Sequence[Dispatch], name: str | None) -> Dispatch:
    chosen = _named(dispatches, name, lambda dispatch: dispatch.name)
    if len(chosen) > 1:
        raise InputError(f"must dispatch once, or be given --node, got {names([d.name for d in chosen])}")
    return chosen[0]


def _named(entries: Sequence[T], name: str | None, name_of: Callable[[T], str | None]) -> Sequence[T]:
    """Returns the entries of this name, or all. Raises InputError if there is none of this name."""
    chosen = [entry for entry in entries if name in (None, name_of(entry))]
    if name is not None and not chosen:
        raise InputError(f"--node must be one of {names([name_of(entry) for entry in entries])}, got {shown(name)}")
    return chosen
