"""Reads an ONNX model, the files that it names, and its test data in the layout of ONNX's own tests."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx import TensorProto, helper, numpy_helper

from ...errors import InputError, describe, names, shown
from ...files import file_inside, read_bytes
from ...limits import (
    MAX_DATA_SETS,
    MAX_DIMENSIONS,
    MAX_ELEMENTS,
    MAX_FOLDER_ENTRIES,
    MAX_MODEL_PARTS,
    MAX_NESTING,
    MAX_VALUES_BYTES,
)
from ...mapping import ELEMENT_TYPES
from .wire import check_message

MODEL = "model.onnx"
"""The name of the model in a folder, and of the file from which a session loads a model with external data."""

FED_TYPES = frozenset(ELEMENT_TYPES.values())
"""The types of the tensors that opmap feeds and reads: those that NumPy has, without texts and complex numbers."""


@dataclass(frozen=True)
class DataSet:
    """The test data of one run: arrays by the names of the model's inputs and outputs.

    `name` is the folder's name, None if opmap made the data. `output_files` gives the file of each output. `unusable`
    says why the model cannot be run with it, `note` what opmap chose.
    """

    name: str | None
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    output_files: Mapping[str, str] = field(default_factory=dict)
    unusable: str | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class GivenModel:
    """A model from outside. `content` are its own bytes, `files` the files with external data that it names.

    `model` is what the bytes hold, with the nodes of its functions in place of their calls: as ONNX Runtime takes it.
    `folder` is where it lies, `data_sets` the names of the folders with test data beside it. Where `model` has the
    taken branch in place of an If, `own` is the model with its Ifs, and `left_out` holds the other branches, each with
    its place in words.
    """

    file: str
    folder: Path
    model: onnx.ModelProto
    content: bytes
    files: Mapping[str, bytes]
    data_sets: Sequence[str]
    own: onnx.ModelProto | None = None
    left_out: Sequence[tuple[onnx.GraphProto, str]] = ()

    @property
    def as_run(self) -> GivenModel:
        """The model as it is run: with its Ifs."""
        return self if self.own is None else replace(self, model=self.own, own=None, left_out=())

    @property
    def initializers(self) -> dict[str, TensorProto]:
        """The initializers of the main graph by name."""
        return {tensor.name: tensor for tensor in self.model.graph.initializer}

    @property
    def required(self) -> list[onnx.ValueInfoProto]:
        """The graph inputs that have no default."""
        initializers = self.initializers
        return [value for value in self.model.graph.input if value.name not in initializers]

    @property
    def overridable(self) -> set[str]:
        """The names of the initializers that may be fed: since version 4 of the IR those that are graph inputs too."""
        return {value.name for value in self.model.graph.input} & self.initializers.keys()

    def array(self, tensor: TensorProto) -> np.ndarray | None:
        """Returns the values of a constant of the model; None if opmap cannot read its type. Raises InputError."""
        if tensor.data_type not in FED_TYPES:
            return None
        if tensor.data_location != TensorProto.EXTERNAL:
            return _array(tensor)
        place = {entry.key: entry.value for entry in tensor.external_data}
        raw = TensorProto(dims=tensor.dims, data_type=tensor.data_type)
        offset = _number(place.get("offset") or 0)
        raw.raw_data = self.files[place["location"]][offset:][: _byte_count(tensor)]
        return _array(raw)


MANIFEST = "manifest.json"
"""What `opmap build` writes beside model folders: it is no other file."""


def find_targets(paths: Sequence[str]) -> tuple[list[str], int]:
    """Returns files and model folders, those inside other folders too, in name order; and the number of other files in
    these.

    A link that leads out of its folder is not followed. Raises InputError if a folder has no model.
    """
    targets: list[str] = []
    others = 0
    for path in paths:
        if not os.path.isdir(path) or _model_in(Path(path)):
            targets.append(path)
            continue
        root, found = os.path.realpath(path), len(targets)
        waiting = [Path(path)]
        while waiting:
            folder = waiting.pop()
            if len(folder.parts) - len(Path(path).parts) > MAX_NESTING or len(targets) > MAX_FOLDER_ENTRIES:
                raise InputError(
                    f"must have at most {MAX_FOLDER_ENTRIES} models, nested at most {MAX_NESTING} deep", file=path
                )
            below: list[Path] = []
            for entry in map(folder.joinpath, _entries(folder)):
                inside = not entry.is_symlink() or os.path.realpath(entry).startswith(root + os.sep)
                if inside and (_model_in(entry) if entry.is_dir() else entry.suffix.lower() == ".onnx"):
                    targets.append(str(entry))
                elif inside and entry.is_dir() and not entry.is_symlink():
                    below.append(entry)
                else:
                    others += entry.name != MANIFEST
            waiting += reversed(below)
        if len(targets) == found:
            raise InputError(
                "must be a model, a DxDispatch file, or a folder with models, got a folder without one", file=path
            )
    return targets, others


def _model_names(folder: Path) -> list[str]:
    return [name for name in _entries(folder) if name.lower().endswith(".onnx")]


def _model_in(folder: Path) -> str | None:
    """Returns the name of the file of a folder that is that of one model; None if it holds none, or several."""
    model_names = _model_names(folder)
    return MODEL if MODEL in model_names else model_names[0] if len(model_names) == 1 else None


def is_model(target: str) -> bool:
    """Returns whether a word on the command line names an ONNX model: a file NAME.onnx, or a folder with one."""
    if target.lower().endswith(".onnx"):
        return True
    try:
        return os.path.isdir(target) and bool(_model_names(Path(target)))
    except InputError:
        return False


def read_model_file(target: str) -> GivenModel:
    """Reads a model: `target` is a file, or a folder with model.onnx or one other .onnx file.

    The test data of a folder, and of a file model.onnx, is that beside the model. Raises InputError.
    """
    path = Path(target)
    if os.path.isdir(path):
        if (name := _model_in(path)) is None:
            got = names(_model_names(path)) or "none"
            raise InputError(f"must be a folder with {MODEL} or one other .onnx file, got {got}")
        folder, with_data = path, True
        path = file_inside(folder, name, "the model's")
    else:
        folder, with_data = path.parent, path.name == MODEL
    content = read_bytes(path)
    model = parse(content, onnx.ModelProto, "an ONNX model")
    if not model.HasField("graph"):
        raise InputError("must be an ONNX model, got one without a graph")
    files = _external_files(model, folder)
    if model.functions:
        model = _inlined(model)
        content = model.SerializeToString()
    data_sets = _numbered(folder, r"test_data_set_(\d+)") if with_data else {}
    return GivenModel(
        file=target, folder=folder, model=model, content=content, files=files, data_sets=list(data_sets.values())
    )


def parse(content: bytes, kind: Any, name: str) -> Any:
    """Returns the message that a file holds. Raises InputError if it is none, or exceeds a limit."""
    check_message(content, kind.DESCRIPTOR, name)
    try:
        return kind.FromString(content)
    except Exception as error:  # protobuf's DecodeError, whose package has no types
        raise InputError(f"must be {name}, got what protobuf cannot read: {error}") from None


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model without functions.

    Raises InputError if they call each other too deeply, or become too many nodes.
    """
    bodies = {(f.domain, f.name): list(nodes_of(f)) for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Iterable[onnx.NodeProto], depth: int) -> int:
        if depth > MAX_NESTING:
            raise InputError(f"must have functions that call each other at most {MAX_NESTING} deep")
        total = 0
        for node in nodes:
            called = (node.domain, node.op_type)
            if called in bodies and called not in sizes:
                sizes[called] = size(bodies[called], depth + 1)
            total += sizes.get(called, 1)
            if total > MAX_MODEL_PARTS:
                raise InputError(f"must have at most {MAX_MODEL_PARTS} nodes, those of called functions included")
        return total

    size(nodes_of(model.graph), 1)
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:  # of C++: RuntimeError, ValidationError and others
        raise InputError(f"must have functions that can be put in place of their calls: {error}") from None


def nodes_of(*graphs: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """Gives the nodes of graphs and functions, and of their subgraphs."""
    for graph in _with_subgraphs(graphs):
        yield from graph.node


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Returns the graphs that are attributes of a node."""
    graphs: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        graphs += [attribute.g] if attribute.HasField("g") else []
        graphs += attribute.graphs
    return graphs


def _with_subgraphs(
    graphs: Iterable[onnx.GraphProto | onnx.FunctionProto],
) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    waiting = list(graphs)
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph.node:
            waiting += subgraphs(node)


# --- external data ---


def _external_files(model: onnx.ModelProto, folder: Path) -> dict[str, bytes]:
    """Returns the files that a model's tensors lie in, by the names that the model gives them."""
    files: dict[str, bytes] = {}
    for tensor in _tensors_of(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        place = {entry.key: entry.value for entry in tensor.external_data}
        location, path = place.get("location", ""), f"initializer {tensor.name}"
        defaults = (("offset", 0), ("length", _byte_count(tensor)))
        try:
            if location not in files:
                files[location] = read_bytes(file_inside(folder, _relative(location), "the model's"))
            offset, length = (_number(place.get(key) or default) for key, default in defaults)
        except InputError as error:
            raise InputError(error.message, path=f"{path}: external data {shown(location)}") from None
        if sum(map(len, files.values())) > MAX_VALUES_BYTES:
            raise InputError(f"must keep all external data within {MAX_VALUES_BYTES} bytes", path=path)
        size, wanted_length = len(files[location]), _byte_count(tensor) if tensor.data_type in FED_TYPES else length
        if offset < 0 or length != wanted_length or offset + length > size:
            wanted = f"must have {wanted_length} bytes inside the {size} of {shown(location)}"
            raise InputError(f"{wanted}, got {shown(length)} at {shown(offset)}", path=path)
    return files


def _number(text: str | int) -> int:
    """Returns a number of bytes, which a model holds as a text."""
    if not re.fullmatch("-?[0-9]{1,18}", str(text)):
        raise InputError(f"must have whole numbers as offset and length, got {shown(text)}")
    return int(text)


def _relative(location: str) -> str:
    """Returns the name of a file below the model's folder.

    It is written below another folder, where it must not climb.
    """
    parts = location.replace("\\", "/").split("/")
    rooted = PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor
    # "*/_ORT_MEM_ADDR_/*" is no file to ONNX Runtime, but an address in its memory
    unfit = ".." in parts or any(letter in location for letter in ":*\0")
    if not location or rooted or unfit or location.lower() == MODEL:
        raise InputError("must be the name of another file below the model's folder")
    return location


def _tensors_of(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Gives every tensor that a model holds: initializers, and values of attributes, in all graphs and functions."""
    for graph in _with_subgraphs([model.graph, *model.functions]):
        if isinstance(graph, onnx.GraphProto):
            yield from graph.initializer
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


# --- test data ---


def read_data_set(given: GivenModel, name: str) -> DataSet:
    """Returns the test data in a folder beside the model.

    A file belongs to the input or output that its tensor names; if none has this name, to the one with the file's
    number. Raises InputError.
    """
    inputs, _ = _tensors(given, name, "input", given.required, given.model.graph.input)
    outputs, files = _tensors(given, name, "output", given.model.graph.output, given.model.graph.output)
    unusable = [reason for reason in inputs.values() if isinstance(reason, str)]
    lacking = [value.name for value in given.required if value.name not in inputs]
    if lacking and not unusable:
        raise InputError(f"must have a file for each input, got none for {names(lacking)}", path=name)
    return DataSet(
        name,
        {name: array for name, array in inputs.items() if not isinstance(array, str)},
        {name: array for name, array in outputs.items() if not isinstance(array, str)},
        files,
        unusable[0] if unusable else None,
    )


def read_inputs(given: GivenModel, path: str) -> DataSet:
    """Returns the inputs that a file of NumPy (.npz) gives by name. Raises InputError."""
    arrays: dict[str, np.ndarray] = {}
    declared = {value.name: value for value in given.model.graph.input}
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(entry.file_size for entry in archive.infolist())
            if total > MAX_VALUES_BYTES or len(archive.namelist()) > MAX_FOLDER_ENTRIES:
                raise InputError(f"must have at most {MAX_FOLDER_ENTRIES} arrays within {MAX_VALUES_BYTES} bytes")
        with np.load(path, allow_pickle=False) as archive_of_arrays:
            for name in archive_of_arrays.files:
                if name not in declared:
                    raise InputError(f"must be inputs of the model ({names(declared)}), got {shown(name)}")
                arrays[name] = archive_of_arrays[name]
                _check_input(declared[name], arrays[name])
    except InputError as error:
        raise InputError(f"--inputs: {error.message}", path=path) from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError, MemoryError) as error:
        raise InputError(f"--inputs must be an .npz file without pickles: {describe(error)}", path=path) from None
    lacking = [value.name for value in given.required if value.name not in arrays]
    if lacking:
        raise InputError(f"--inputs must have each input, got none for {names(lacking)}", path=path)
    return DataSet(None, arrays)


def stated_sizes(value: onnx.ValueInfoProto) -> list[int | None]:
    """Returns the sizes of an input; None for one that is not stated, as also a size below 0 is."""
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in dims]


def _check_input(value: onnx.ValueInfoProto, array: np.ndarray) -> None:
    """Raises InputError if an array does not have the type and the fixed sizes of an input."""
    tensor = value.type.tensor_type
    if tensor.elem_type not in FED_TYPES or array.dtype != helper.tensor_dtype_to_np_dtype(tensor.elem_type):
        raise InputError(f"{value.name} must be {type_name(tensor.elem_type)}, got {array.dtype}")
    wanted = stated_sizes(value)
    fits = len(wanted) == array.ndim and all(w in (None, size) for w, size in zip(wanted, array.shape, strict=True))
    if tensor.HasField("shape") and not fits:
        sizes = [size if size is not None else "any" for size in wanted]
        raise InputError(f"{value.name} must have sizes {sizes}, got {list(array.shape)}")


def _tensors(
    given: GivenModel,
    data_set: str,
    kind: str,
    ordered: Sequence[onnx.ValueInfoProto],
    allowed: Sequence[onnx.ValueInfoProto],
) -> tuple[dict[str, np.ndarray | str], dict[str, str]]:
    """Returns the arrays of a data set's inputs or outputs, and their files, by names.

    `ordered` are the values that the files' numbers stand for, `allowed` those that a tensor may name.
    If opmap cannot read an array, the reason stands in its place.
    """
    by_name = {value.name: value for value in allowed}
    arrays: dict[str, np.ndarray | str] = {}
    files: dict[str, str] = {}
    total = 0
    for number, file in _numbered(given.folder / data_set, rf"{kind}_(\d+)\.pb").items():
        place = f"{data_set}/{file}"
        try:
            content = read_bytes(file_inside(given.folder, place, "the model's"))
            total += len(content)
            if total > MAX_VALUES_BYTES:
                raise InputError(f"must keep all {kind}s within {MAX_VALUES_BYTES} bytes")
            value = ordered[number] if number < len(ordered) else None
            if value is not None and value.type.HasField("sequence_type"):
                arrays[value.name] = f"{place}: {kind} {value.name} is a sequence, which opmap does not read"
                continue
            tensor = parse(content, TensorProto, "a tensor of ONNX")
            value = by_name.get(tensor.name, value)
            if value is None:
                raise InputError(f"must be for one of {len(ordered)} {kind}s, got number {number}")
            if value.name in arrays:
                raise InputError(f"must be for another {kind} than {files[value.name]}, got {shown(value.name)} again")
            files[value.name] = place
            wanted, got = value.type.tensor_type.elem_type, tensor.data_type
            if not got or wanted not in (0, got):  # an empty file has no type
                wanted_name = type_name(wanted) if wanted else "of a data type"
                raise InputError(f"must be {wanted_name} for {kind} {shown(value.name)}, got {type_name(got)}")
            if got not in FED_TYPES:
                arrays[value.name] = f"{place}: {type_name(got)} is a type that opmap does not read"
                continue
            if tensor.data_location == TensorProto.EXTERNAL:
                raise InputError("must hold its values itself, got external data")
            arrays[value.name] = _array(tensor)
        except InputError as error:
            raise InputError(error.message, path=place) from None
    return arrays, files


def _array(tensor: TensorProto) -> np.ndarray:
    """Returns the values of a tensor that holds them itself. Raises InputError."""
    _byte_count(tensor)
    if len(tensor.dims) > MAX_DIMENSIONS:
        raise InputError(f"must have at most {MAX_DIMENSIONS} dimensions, got {len(tensor.dims)}")
    try:
        return np.ascontiguousarray(numpy_helper.to_array(tensor)).reshape(tuple(tensor.dims))
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"must have {prod(tensor.dims)} values: {error}") from None


def _byte_count(tensor: TensorProto) -> int:
    """Returns the size of a tensor in bytes; 0 if NumPy does not have its type.

    Raises InputError if it is too large.
    """
    count = prod(tensor.dims)
    if min(tensor.dims, default=0) < 0 or count > MAX_ELEMENTS:
        raise InputError(f"must have 0 to {MAX_ELEMENTS} elements, got sizes {shown(list(tensor.dims))}")
    readable = tensor.data_type in FED_TYPES
    return count * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize if readable else 0


def type_name(number: int) -> str:
    """Returns ONNX's name of a data type, as BFLOAT16."""
    return TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() else f"type {number}"


# --- folders ---


def _numbered(folder: Path, pattern: str) -> dict[int, str]:
    """Returns the names in a folder that have a number, in the numbers' order.

    Raises InputError if there are too many.
    """
    names_by_number: dict[int, str] = {}
    for name in _entries(folder):
        match = re.fullmatch(pattern, name, re.ASCII)
        if match and len(match[1]) < 10:
            names_by_number[int(match[1])] = name
    if len(names_by_number) > MAX_DATA_SETS:
        raise InputError(f"must have at most {MAX_DATA_SETS} files or folders with numbers, got {len(names_by_number)}")
    return dict(sorted(names_by_number.items()))


def _entries(folder: Path) -> list[str]:
    """Returns the names in a folder, sorted. Raises InputError if there are too many, or if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            entry_names = sorted(entry.name for entry in islice(entries, MAX_FOLDER_ENTRIES + 1))
    except (OSError, ValueError) as error:
        raise InputError(getattr(error, "strerror", None) or str(error), path=folder.name or None) from None
    if len(entry_names) > MAX_FOLDER_ENTRIES:
        raise InputError(f"must have at most {MAX_FOLDER_ENTRIES} entries")
    return entry_names
