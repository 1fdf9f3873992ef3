"""Model folders in the layout of ONNX's own tools (`model.onnx`, `test_data_set_0/`), and the collection in models/."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np
from onnx import helper

from ...cases.case import Case, retyped
from ...cases.catalogue import catalogue, generated, model_descriptor, model_index_forms
from ...cases.variants import VARIANTS, Formed
from ...cases.variants.forms_constants import EXTERNAL_FILE
from ...errors import InputError, shown
from ...files import TEMPORARY, is_stream, read_bytes, replace, without_limit
from ...judge.onnx_models.reading import MANIFEST
from ...mapping import IndexConversion, MappedModel, map_descriptor
from ...operators import OPERATORS, not_expressible
from ...tensors import AnyPattern
from .dxdispatch_files import dispatch_files


@dataclass(frozen=True)
class ModelFolder:
    """A case as a model folder: its name, and the model in the form of the case's variant."""

    name: str
    case: Case
    mapped: MappedModel
    formed: Formed

    @property
    def substitutions(self) -> list[str]:
        """How the model differs from the descriptor."""
        return [str(s) for s in (*self.mapped.substitutions, *self.formed.substitutions)]

    @cached_property
    def undocumented(self) -> list[str]:
        """The elements without a documented value: `OutputTensor[3]`, or `OutputTensor[3:7]` for 3 to 6; flat and
        row-major.
        """
        return self._elements(lambda bits: bits is None)

    def _elements(self, which: Callable[[int | None], bool]) -> list[str]:
        listed: list[str] = []
        for field, expected in self.case.inputs.all_expected.items():
            found = [i for i, bits in enumerate(expected) if which(bits)]
            for _, run in groupby(enumerate(found), lambda pair: pair[1] - pair[0]):
                places = [place for _, place in run]
                end = f":{places[-1] + 1}" if len(places) > 1 else ""
                listed.append(f"{field}[{places[0]}{end}]")
        return listed

    @property
    def facts(self) -> dict[str, object]:
        """What the manifest says of the folder."""
        facts: dict[str, object] = {
            "case": self.case.id,
            "variant": self.case.variant,
            "substitutions": self.substitutions,
            "undocumented": self.undocumented,
        }
        several = self._elements(lambda bits: isinstance(bits, AnyPattern))
        return facts | ({"several_bit_patterns": several} if several else {})

    @property
    def files(self) -> dict[str, bytes]:
        """The files of the folder by their relative paths, with the descriptor as a DxDispatch file."""
        return folder_files(self.formed, self.case) | dispatch_files(self.case, self.case.inputs)


def model_folder(name: str, case: Case, index_conversion: IndexConversion = "graph") -> ModelFolder:
    """Returns the model folder of a case. Raises MappingError if ONNX cannot say it, or not in the case's variant."""
    mapped = map_descriptor(case.desc, index_conversion=index_conversion)
    return ModelFolder(name, case, mapped, formed_model(mapped, case))


def formed_model(mapped: MappedModel, case: Case) -> Formed:
    """Returns the model of a case in the form of its variant.

    Raises MappingError if the descriptor has no such form.
    """
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
    folder = without_limit(folder)
    if stream := next((path for name in files if is_stream(path := folder / name)), None):
        raise InputError("must be a file, got a device or a pipe", file=str(stream))
    with _staged(folder, files.items()) as stage:
        _move(stage, folder)


def _move(source: Path, target: Path) -> None:
    """Moves a file, or a folder. If there is a folder already, its other files stay."""
    if source.is_dir() and target.is_dir():
        for path in sorted(source.iterdir()):
            _move(path, target / path.name)
    else:
        replace(source, target)


@contextmanager
def _staged(folder: Path, files: Iterable[tuple[str, bytes]]) -> Iterator[Path]:
    """Gives a temporary folder inside `folder` that holds the files.

    It is on the same file system, so they can be moved.

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
            for relative, content in files:
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


def collection(folders: Iterable[ModelFolder]) -> Iterator[tuple[str, bytes]]:
    """Yields the relative path and the content of every file of model folders, and at last of their manifest.

    The manifest has what each folder is, the digests of its files, and the elements of the outputs that have no
    documented value: such an output has no file.
    """
    entries: dict[str, dict[str, object]] = {}
    for folder in folders:
        files = folder.files
        entries[folder.name] = {**folder.facts, "sha256": {path: _digest(content) for path, content in files.items()}}
        yield from ((f"{folder.name}/{path}", content) for path, content in files.items())
    yield MANIFEST, (json.dumps({"models": entries}, indent=1) + "\n").encode()


def build(folder: str | os.PathLike[str], folders: Iterable[ModelFolder]) -> None:
    """Writes model folders into a folder. Replaces the files of an earlier build.

    Other files of the folder are not touched. Raises InputError, and changes nothing, if the folder is neither empty
    nor the folder of an earlier build, or if one of these files is not as a build wrote it.
    """
    folder, digests = without_limit(folder), dict[str, str]()
    earlier = _earlier(folder)

    def files() -> Iterator[tuple[str, bytes]]:
        for relative, content in collection(folders):
            digests[relative] = _digest(content)
            yield relative, content

    with _staged(folder, files()) as stage:
        obsolete = _obsolete(folder, earlier, digests)
        _move(stage, folder)
    for path in obsolete:
        path.unlink()
        for parent in (path.parent, path.parent.parent):
            with suppress(OSError):  # another file is in the folder
                if parent != folder:
                    parent.rmdir()


_WRITTEN = re.compile(
    rf"(?!\.)[\w.-]+/(model\.onnx|{re.escape(EXTERNAL_FILE)}|dxdispatch\.json|dxdispatch/\w+\.npy"
    r"|test_data_set_0/(input|output)_\d+\.pb)",
    re.ASCII,
)
"""The paths that a build writes beside the manifest."""


def _earlier(folder: Path) -> dict[str, str]:
    """Returns the digest of each file of an earlier build.

    Raises InputError if the folder is neither empty nor that of one.
    """
    try:
        entries = [path.name for path in folder.iterdir()] if os.path.lexists(folder) else []
    except OSError as error:
        raise InputError(error.strerror or str(error), file=str(folder)) from None
    if MANIFEST not in entries and any(not name.startswith(TEMPORARY) for name in entries):
        raise InputError(f"must be a new or empty folder, or one with a {MANIFEST}", file=str(folder))
    return _read_manifest(folder / MANIFEST) if MANIFEST in entries else {}


def _obsolete(folder: Path, earlier: Mapping[str, str], digests: Mapping[str, str]) -> list[Path]:
    """Returns the files that an earlier build wrote and this build does not write.

    `digests` has the files of this build.

    Raises InputError if a file is in place of one of them, or of a new one, that no build wrote: neither the earlier
    one, nor this one, which may have been killed.
    """
    existing = [relative for relative in {**earlier, **digests} if os.path.lexists(folder / relative)]
    for relative in existing:
        if relative != MANIFEST and _read_digest(folder, relative) not in (
            earlier.get(relative),
            digests.get(relative),
        ):
            raise InputError(
                f"must be as an earlier build wrote it (see {MANIFEST}): please move it away or remove it",
                file=str(folder / relative),
            )
    return [folder / relative for relative in existing if relative not in digests]


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


def shipped() -> Iterator[ModelFolder]:
    """Yields the model folders of models/: one per documented example, and one per operator and index form.

    Of an operator that computes values there is one.
    """
    for case in catalogue("smoke"):
        if "/example." in case.id and OPERATORS[case.desc.operator].expressed(case.desc):
            yield model_folder(case.id.replace("/", "-"), case)
    for desc in filter(None, map(model_descriptor, OPERATORS.values())):
        if desc.spec().computes_values:
            name = desc.first_data.data_type.name.lower()
            yield model_folder(f"{desc.operator.lower()}-{name}", generated(desc, "", "addr"))
            continue
        for index_type, pattern in model_index_forms(desc.operator):
            case = generated(retyped(desc, desc.output.data_type, index_type), pattern, "addr")
            yield model_folder(f"{desc.operator.lower()}-{index_type.name.lower()}-{pattern}", case)
