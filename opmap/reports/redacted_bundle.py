"""A copy of a results bundle without user names, host names and paths."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
import onnx

from ..errors import InputError
from ..files import to_json
from ..judge.record import Record
from ..tensors import DataType
from ..vocabulary import Stage, Verdict
from .bundle import write_reports
from .documents import DOCUMENTS, HTML, RECORDS, REPORTS
from .failure_folders import FOLDER, folder_name, read_failures
from .html_report import write_report
from .json_files import decode, read_json, read_lines
from .redaction import Redactor, summary, texts
from .reproducers.model_folders import write_files
from .results_folder import ResultsFolder, formatted
from .written_bundle import WrittenBundle, read_bundle

_OWN_WORDS = frozenset([*Verdict, *Stage, *DataType.__members__])
"""Texts that stay, also if a user has such a name."""


def write_redacted(folder: str | os.PathLike[str], output: str | os.PathLike[str], redactor: Redactor) -> list[str]:
    """Writes the copy of a bundle into a new folder. Returns the names of files and folders that are left out.

    The results and the folders of failures are copied without names and paths, and the reports are made anew of them.
    Raises InputError if the folder holds no bundle, or if the new one is not empty or cannot be written.
    """
    bundle = read_bundle(folder)
    cleaner = _Cleaner(bundle, redactor)
    with ResultsFolder(output, RECORDS, option="-o").whole_or_not() as files:
        files.write_lines(cleaner.value(line) for _, line in read_lines(bundle.folder / RECORDS, dict))
        for name, document in cleaner.documents.items():
            files.write_file(name, formatted(cleaner.value(document)))
        left_out = _copy_failures(bundle, files.folder, cleaner)
        _write_reports(bundle, files, redactor)
    bundle_names = {RECORDS, *DOCUMENTS, *REPORTS, HTML, FOLDER}
    return sorted([*left_out, *(path.name for path in bundle.folder.iterdir() if path.name not in bundle_names)])


class _Cleaner:
    """Takes names and paths out of the texts of a bundle, after it has seen all of them."""

    def __init__(self, bundle: WrittenBundle, redactor: Redactor):
        self._clean = cache(redactor)
        self._kept, self._keys = set(_OWN_WORDS), _keys()
        for _, record in bundle.read_records():
            if record.file is None and record.case:
                self._kept.add(record.case)  # it is in the catalogue
        for _, line in read_lines(bundle.folder / RECORDS, dict):
            redactor.learn(texts(line))
        existing = [name for name in DOCUMENTS if (bundle.folder / name).exists()]
        self.documents = {name: read_json(bundle.folder / name, dict) for name in existing}
        redactor.learn(texts(self.documents))

    def text(self, text: str) -> str:
        """Returns a text without names and paths."""
        return text if text in self._kept else self._clean(text)

    def value(self, value: object) -> object:
        """Returns a JSON value without names and paths. The keys of opmap's own documents stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key if key in self._keys else self.text(key): self.value(entry) for key, entry in value.items()}
        return list(map(self.value, value)) if isinstance(value, list) else value

    def file(self, name: str, content: bytes) -> bytes:
        """Returns the content of a file of a failure. Raises InputError if it cannot be read."""
        ending = Path(name).suffix
        if ending in (".md", ".py"):
            return "".join(map(self._clean, content.decode().splitlines(keepends=True))).encode()
        if ending == ".json":
            return to_json(self.value(decode(content, dict))) + b"\n"
        if ending == ".onnx":
            return self._message(onnx.ModelProto(), content)
        if ending == ".pb":
            return self._message(onnx.TensorProto(), content)
        return content  # numbers

    def _message(self, message: onnx.ModelProto | onnx.TensorProto, content: bytes) -> bytes:
        """Returns the content of a file without the names and paths in its doc string and its metadata."""
        try:
            message.ParseFromString(content)
        except Exception as error:  # protobuf's DecodeError, whose package has no types
            raise InputError(str(error)) from None
        if message.doc_string:
            message.doc_string = self._clean(message.doc_string)
        for entry in getattr(message, "metadata_props", ()):  # tensors have some since onnx 1.17
            entry.value = self._clean(entry.value)
        return bytes(message.SerializeToString(deterministic=True))


def _keys() -> set[str]:
    """Returns the keys of the JSON documents of a bundle."""
    _, types = msgspec.json.schema_components(
        [Record, *DOCUMENTS.values()], schema_hook=lambda _: {"description": "any value"}
    )
    return {key for type in types.values() for key in type.get("properties", ())}


def _copy_failures(bundle: WrittenBundle, output: Path, cleaner: _Cleaner) -> list[str]:
    """Copies the folders of failures. Returns the names of those that opmap did not write, or that cannot be read."""
    names = {folder_name(id): folder_name(cleaner.text(id)) for id in bundle.failed_cases}
    left_out = []
    for folder, files in read_failures(bundle.folder, names):
        try:
            if files is None:
                raise InputError("must be a folder that opmap wrote")
            cleaned = {name: cleaner.file(name, content) for name, content in files.items()}
        except (InputError, UnicodeDecodeError):
            left_out.append(f"{FOLDER}/{folder}")
        else:
            write_files(output / FOLDER / names[folder], cleaned)
    return left_out


def _write_reports(bundle: WrittenBundle, files: ResultsFolder, redactor: Redactor) -> None:
    """Writes those reports that the bundle has, made of the files of the copy."""
    copy = read_bundle(files.folder)
    parts: list[list[Record]] = [[] for _ in copy.run.runs]
    for part, record in copy.read_records():
        parts[part].append(record)
    notes = [f"taken out of the texts before this was written: {summary(redactor.removed)}"]
    only = [name for name in REPORTS if (bundle.folder / name).exists()]
    write_reports(files, copy.run, parts, copy.diagnosis, notes, only=only)
    if (bundle.folder / HTML).exists():
        write_report(copy)
