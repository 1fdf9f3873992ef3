"""Model folders in the layout of ONNX's own tools (`model.onnx`, `test_data_set_0/`), and the collection in models/."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from onnx import helper

from ..cases.case import Case, retyped
from ..cases.catalogue import catalogue, generated, model_index_forms
from ..errors import InputError
from ..mapping import ELEMENT_TYPES, MappedModel, map_descriptor
from ..operators import OPERATORS
from ..tensors import Tensor

MANIFEST = "manifest.json"


def folder_files(mapped: MappedModel, case: Case) -> dict[str, bytes]:
    """Returns the files of a model folder by their relative paths: the model, its inputs, and its expected output.

    The output is left out if the documentation does not define every element of it.
    """
    files = {"model.onnx": mapped.model_bytes}
    for i, (name, tensor) in enumerate(mapped.feed(case.tensors).items()):
        files[f"test_data_set_0/input_{i}.pb"] = _tensor_proto(name, tensor)
    expected = case.expected
    defined = [bits for bits in expected if bits is not None]
    if len(defined) == len(expected):
        (name,) = case.desc.spec().field_names("output")
        output = Tensor(case.desc.output.data_type, case.desc.output.sizes, defined)
        files["test_data_set_0/output_0.pb"] = _tensor_proto(name, output)
    return files


def write_files(folder: str | os.PathLike[str], files: Mapping[str, bytes]) -> None:
    """Writes files below a folder, each completely or not at all. Raises InputError if a file cannot be written."""
    try:
        for relative, content in files.items():
            path = Path(folder, relative)
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".opmap-", delete=False) as temporary:
                temporary.write(content)
            os.chmod(temporary.name, 0o644)
            os.replace(temporary.name, path)
    except OSError as error:
        raise InputError(error.strerror or str(error), file=str(error.filename or folder)) from None


def collection() -> dict[str, bytes]:
    """Returns every file of models/ by its relative path.

    There is one folder per documented example, one per operator and index form, and the manifest.
    """
    files: dict[str, bytes] = {}
    entries: dict[str, dict[str, object]] = {}
    for name, case in _cases():
        mapped = map_descriptor(case.desc)
        of_model = folder_files(mapped, case)
        entries[name] = {
            "case": case.id,
            "substitutions": [str(s) for s in mapped.substitutions],
            "sha256": {path: hashlib.sha256(content).hexdigest() for path, content in of_model.items()},
        }
        files |= {f"{name}/{path}": content for path, content in of_model.items()}
    files[MANIFEST] = (json.dumps({"models": entries}, indent=1) + "\n").encode()
    return files


def build(folder: str | os.PathLike[str]) -> int:
    """Writes models/ into a folder, and returns the number of models. Removes the model folders of an earlier build.

    Raises InputError if the folder holds anything else.
    """
    files, folder = collection(), Path(folder)
    if (folder / MANIFEST).is_file():
        for name in _built(folder):
            shutil.rmtree(folder / name)
    elif folder.exists() and any(folder.iterdir()):
        raise InputError(f"must be a new or empty folder, or one with a {MANIFEST}", file=str(folder))
    write_files(folder, files)
    return len({path.split("/")[0] for path in files}) - 1


def _built(folder: Path) -> list[str]:
    """Returns the names of the model folders that the manifest of an earlier build lists."""
    try:
        names = set(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["models"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"must be the manifest of an earlier build: {error!r}", file=str(folder / MANIFEST)) from None
    return [p.name for p in folder.iterdir() if p.name in names and p.is_dir() and not p.is_symlink()]


def _cases() -> Iterator[tuple[str, Case]]:
    """Yields the name of each model folder and its case."""
    for case in catalogue("smoke"):
        if "/example." in case.id:
            yield case.id.replace("/", "-"), case
    for module in OPERATORS.values():
        desc = next(d for d in module.samples() if d.output.dimension_count == 3 and d.output.element_count > 8)
        for index_type, pattern in model_index_forms():
            case = generated(retyped(desc, desc.output.data_type, index_type), pattern, "addr")
            yield f"{desc.operator.lower()}-{index_type.name.lower()}-{pattern}", case


def _tensor_proto(name: str, tensor: Tensor) -> bytes:
    proto = helper.make_tensor(name, ELEMENT_TYPES[tensor.data_type], tensor.sizes, tensor.to_bytes(), raw=True)
    serialized: bytes = proto.SerializeToString(deterministic=True)
    return serialized
