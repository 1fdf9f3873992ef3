"""Model folders in the layout of ONNX's own tools (`model.onnx`, `test_data_set_0/`), and the collection in models/."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import numpy as np
from onnx import helper

from ...cases.case import Case, retyped
from ...cases.catalogue import catalogue, generated, model_index_forms
from ...cases.covering_arrays import model_descriptor
from ...cases.variants import VARIANTS, Formed
from ...errors import InputError, shown
from ...files import TEMPORARY, is_stream, read_bytes, replace
from ...judge.compare import undefined
from ...mapping import MappedModel, map_descriptor
from ...operators import OPERATORS, not_expressible

MANIFEST = "manifest.json"


def formed_model(mapped: MappedModel, case: Case) -> Formed:
    """Returns the model of a case in the form of its variant. Raises MappingError if the descriptor has no such form."""
    form = VARIANTS[case.variant].form
    formed = form.build(mapped, case.inputs)
    if formed is None:
        raise not_expressible(f"the descriptor has no form {form.name}")
    return formed


def folder_files(formed: Formed, case: Case) -> dict[str, bytes]:
    """Returns the files of a model folder by their relative paths: the model, its inputs, and its expected outputs.

    An output of the operator is left out if the documentation does not define every element of it.
    """
    files = {"model.onnx": formed.model_bytes, **formed.files}
    for i, (name, array) in enumerate(formed.feeds(case.inputs).items()):
        files[f"test_data_set_0/input_{i}.pb"] = tensor_proto(name, array)
    for i, name in enumerate(formed.outputs):
        output = formed.expected_array(name, case.inputs)
        if not np.ma.isMaskedArray(output):
            files[f"test_data_set_0/output_{i}.pb"] = tensor_proto(name, output)
    return files


def tensor_proto(name: str, array: np.ndarray, text: str = "") -> bytes:
    """Returns the file of a tensor in ONNX's test data. `text` is its documentation."""
    element_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    proto = helper.make_tensor(name, element_type, array.shape, array.tobytes(), raw=True)
    if text:
        proto.doc_string = text
    serialized: bytes = proto.SerializeToString(deterministic=True)
    return serialized


def write_files(folder: str | os.PathLike[str], files: Mapping[str, bytes]) -> None:
    """Writes files below a folder, in place of files of the same names.

    First all are written into a temporary folder: if one cannot be written, nothing is changed. Raises InputError if a
    file cannot be written.
    """
    if stream := next((path for name in files if is_stream(path := Path(folder, name))), None):
        raise InputError("must be a file, got a device or a pipe", file=str(stream))
    with _staged(Path(folder), files) as stage:
        _move(stage, Path(folder))


def _move(source: Path, target: Path) -> None:
    """Moves a file, or a folder. If there is a folder already, its other files stay."""
    if source.is_dir() and target.is_dir():
        for path in sorted(source.iterdir()):
            _move(path, target / path.name)
    else:
        replace(source, target)


@contextmanager
def _staged(folder: Path, files: Mapping[str, bytes]) -> Iterator[Path]:
    """Gives a temporary folder inside `folder` that holds the files. It is on the same file system, so they can be moved.

    It is removed at the end. If anything fails, folders that this made are removed too, and an error of the operating
    system becomes one line.
    """
    made_folders: list[Path] = []
    writing = folder
    try:
        for path in reversed([folder, *folder.parents]):
            if not os.path.isdir(path):
                path.mkdir()
                made_folders.append(path)
        stage = Path(tempfile.mkdtemp(dir=folder, prefix=TEMPORARY))
        try:
            for relative, content in files.items():
                writing = folder / relative
                (stage / relative).parent.mkdir(parents=True, exist_ok=True)
                (stage / relative).write_bytes(content)
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    except BaseException as error:
        if made_folders:
            shutil.rmtree(made_folders[0], ignore_errors=True)
        if isinstance(error, OSError):
            raise InputError(error.strerror or str(error), file=str(error.filename2 or writing)) from None
        raise


def collection() -> dict[str, bytes]:
    """Returns every file of models/ by its relative path.

    There is one folder per documented example, one per operator and index form, and the manifest. It has the digest of
    each file, and for an output with undocumented elements, which has no file, the reason.
    """
    files: dict[str, bytes] = {}
    entries: dict[str, dict[str, object]] = {}
    for name, case in _cases():
        mapped = map_descriptor(case.desc)
        of_model = folder_files(formed_model(mapped, case), case)
        entries[name] = {
            "case": case.id,
            "substitutions": [str(s) for s in mapped.substitutions],
            "sha256": {path: _digest(content) for path, content in of_model.items()},
        }
        expected = case.inputs.all_expected.values()
        undocumented, count = sum(map(undefined, expected)), sum(map(len, expected))
        if undocumented:
            entries[name]["without_output"] = f"{undocumented} of {count} elements have no documented value"
        files |= {f"{name}/{path}": content for path, content in of_model.items()}
    files[MANIFEST] = (json.dumps({"models": entries}, indent=1) + "\n").encode()
    return files


def build(folder: str | os.PathLike[str]) -> int:
    """Writes models/ into a folder, and returns the number of models. Replaces the files of an earlier build.

    Other files of the folder are not touched. Raises InputError, and changes nothing, if the folder is neither empty nor
    the folder of an earlier build, or if one of these files is not as a build wrote it.
    """
    files, folder = collection(), Path(folder)
    obsolete = _obsolete(folder, files)
    write_files(folder, files)
    for path in obsolete:
        path.unlink()
        with suppress(OSError):  # another file is in the folder
            path.parent.rmdir()
            path.parent.parent.rmdir()
    return sum(name.endswith("/model.onnx") for name in files)


_WRITTEN = re.compile(r"(?!\.)[\w.-]+/(model\.onnx|test_data_set_0/(input|output)_\d+\.pb)", re.ASCII)
"""The paths that a build writes beside the manifest."""


def _obsolete(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Returns the files of an earlier build that this one does not write.

    Raises InputError if a file is in place of one of them, or of a new one, that no build wrote: neither the earlier one,
    nor this one, which may have been killed.
    """
    try:
        entries = [path.name for path in folder.iterdir()] if os.path.lexists(folder) else []
    except OSError as error:
        raise InputError(error.strerror or str(error), file=str(folder)) from None
    if MANIFEST not in entries and any(not name.startswith(TEMPORARY) for name in entries):
        raise InputError(f"must be a new or empty folder, or one with a {MANIFEST}", file=str(folder))
    earlier = _read_manifest(folder / MANIFEST) if MANIFEST in entries else {}
    existing = [relative for relative in {**earlier, **files} if os.path.lexists(folder / relative)]
    for relative in existing:
        if relative != MANIFEST and _read_digest(folder, relative) not in (
            earlier.get(relative),
            _digest(files.get(relative, b"")),
        ):
            raise InputError(
                f"must be as an earlier build wrote it (see {MANIFEST}): please move it away or remove it",
                file=str(folder / relative),
            )
    return [folder / relative for relative in existing if relative not in files]


def _read_digest(folder: Path, relative: str) -> str | None:
    """Returns the digest of a file; None if it is no file, or behind a link."""
    with suppress(InputError):
        if (folder / relative).resolve() == folder.resolve() / relative:
            return _digest(read_bytes(folder / relative))
    return None


def _read_manifest(path: Path) -> dict[str, str]:
    """Returns the digest of each file of an earlier build by its relative path."""
    try:
        manifest = msgspec.json.decode(read_bytes(path), type=_Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InputError) as error:
        raise InputError(f"must be the manifest of an earlier build: {error}", file=str(path)) from None
    digests = {
        f"{name}/{file}": digest for name, model in manifest.models.items() for file, digest in model.sha256.items()
    }
    for relative in digests:
        if not _WRITTEN.fullmatch(relative):
            raise InputError(f"must name files that a build writes, got {shown(relative)}", file=str(path))
    return digests


class _Model(msgspec.Struct):
    sha256: dict[str, str]


class _Manifest(msgspec.Struct):
    """What manifest.json holds, as far as the next build needs it."""

    models: dict[str, _Model]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _cases() -> Iterator[tuple[str, Case]]:
    """Yields the name of each model folder and its case."""
    for case in catalogue("smoke"):
        if "/example." in case.id and OPERATORS[case.desc.operator].expressed(case.desc):
            yield case.id.replace("/", "-"), case
    for module in OPERATORS.values():
        if module.lower is None:  # it has no ONNX model
            continue
        desc = model_descriptor(module)
        for index_type, pattern in model_index_forms(desc.operator):
            case = generated(retyped(desc, desc.output.data_type, index_type), pattern, "addr")
            yield f"{desc.operator.lower()}-{index_type.name.lower()}-{pattern}", case
