"""A folder of results that a run writes and a later run goes on with: run.json, and a file with one JSON value per
line."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from pathlib import Path
from shutil import rmtree
from typing import BinaryIO

import msgspec
from filelock import FileLock, Timeout

from ..engines.providers import Provider
from ..errors import InputError, cut
from ..files import TEMPORARY, read_bytes, remove, to_json, write_file
from ..judge.record import FACTS
from ..limits import MAX_SHOWN
from .documents import PLACE, RUN, Option
from .failure_folders import FOLDER, remove_failures

LOCK = f"{TEMPORARY}lock"
"""The file whose lock a process holds while it writes into a folder. The lock of a process that is killed ends with
it."""


def formatted(value: object) -> bytes:
    """Returns a value as a JSON file that people read."""
    return msgspec.json.format(to_json(value), indent=2) + b"\n"


def identity(provider: Provider | None) -> dict[str, str | None]:
    """Returns on which software and device a provider runs, as far as that is the same after a restart.

    Results of two identities never come into one folder. Every value is None if the provider is missing.
    """
    if provider is None:
        return dict.fromkeys(name for name in PLACE if name != "provider")
    return {
        "platform": sysconfig.get_platform(),
        **{name: getattr(provider, name) for name in ("package", "version", *FACTS)},
        "adapter_name": provider.adapter,
        "driver": provider.driver(provider.environment()) if provider.directml or provider.direct else None,
    }


def factory(provider: str) -> dict[str, str | None]:
    """Returns MODULE:NAME and the SHA-256 of the file of MODULE (None if it is not found); nothing for other
    providers.
    """
    module, colon, _ = provider.partition(":")
    if not colon or module == "fault":
        return {}
    path: Iterable[str] | None = [os.getcwd(), *sys.path]
    spec = None
    for end in range(1, len(parts := module.split(".")) + 1):
        spec = PathFinder.find_spec(".".join(parts[:end]), path)  # type: ignore[arg-type]  # any sequence will do
        path = spec.submodule_search_locations if spec else None
        if path is None:
            break
    file = spec.origin if spec else None
    digest = hashlib.sha256(read_bytes(file)).hexdigest() if file and os.path.isfile(file) else None
    return {"factory": provider, "factory_sha256": digest}


def check_folder(path: str | os.PathLike[str], *, resume: bool = False, option: str = "--report") -> None:
    """Raises InputError if a folder is not the one that is wanted: a new or empty one, or with `resume` that of an
    interrupted run.
    """
    path = Path(path)
    if resume and not (path / RUN).is_file():
        raise InputError(f"--resume must be the folder of an interrupted run, with {RUN}", file=str(path))
    if resume or not os.path.lexists(path):
        return
    if not path.is_dir() or any(not entry.name.startswith(TEMPORARY) for entry in path.iterdir()):
        hint = " (--resume continues an interrupted run)" if option == "--report" else ""
        raise InputError(f"{option} must be a new or empty folder{hint}".lstrip(), file=str(path))


class ResultsFolder:
    """A folder that this process alone writes, until `release`. Its files change only in the methods that write.

    `lines` is the name of the file with one value per line, `option` the option that named the folder. The folder must
    be new or empty, or with `resume` hold a run.json. Raises InputError if it does not, if another run writes into it,
    or if a file cannot be read or written.
    """

    def __init__(self, folder: str | os.PathLike[str], lines: str, *, resume: bool = False, option: str = "--report"):
        self.folder, self.lines = Path(folder), lines
        self._file: BinaryIO | None = None
        with self._writing():
            if not resume:
                with suppress(FileExistsError):  # a file is in its place: `check_folder` refuses it
                    self.folder.mkdir(parents=True, exist_ok=True)
            check_folder(self.folder, resume=resume, option=option)
            self._lock = FileLock(self.folder / LOCK)
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                message = "must be a folder into which no other run writes: one is not finished"
                raise InputError(message, file=str(self.folder)) from None
            try:
                check_folder(self.folder, resume=resume, option=option)  # another run may have ended between the two
            except BaseException:
                self.release()
                raise

    def check_same(self, before: Mapping[str, Option], now: Mapping[str, Option]) -> None:
        """Raises InputError if a run was started with other options than those with which this run would go on.

        The digest of the case ids (`ids`) is compared last: another difference explains more.
        """
        keys = dict.fromkeys((*now, *before))
        for key in sorted(keys, key="ids".__eq__):
            if before.get(key) != now.get(key):
                if key == "ids":
                    message = "--resume must go on with the same cases: this opmap selects others for the same options"
                    raise InputError(message, file=str(self.folder))
                wanted, got = (cut(to_json(options.get(key)).decode(), MAX_SHOWN) for options in (before, now))
                message = f"--resume must go on with the same {cut(key, MAX_SHOWN)}: {wanted}, got {got}"
                raise InputError(message, file=str(self.folder))

    # --- writing ---

    def write_run(self, content: object) -> None:
        """Writes run.json."""
        self.write_file(RUN, formatted(content))

    def write_lines(self, values: Iterable[object]) -> None:
        """Writes a line for each value in place of the lines that are there. A value may be read from them."""
        self.close()
        with self._writing():
            write_file(self.folder / self.lines, map(_line, values))

    def start_lines(self, values: Iterable[object] = ()) -> None:
        """Writes the first lines, so that `add_line` can add more.

        Removes what a run that was killed left unfinished.
        """
        with self._writing():
            for entry in self.folder.iterdir():
                if entry.name.startswith(TEMPORARY) and entry.name != LOCK:
                    with suppress(OSError):
                        entry.unlink()
        self.write_lines(values)
        with self._writing():
            self._file = open(self.folder / self.lines, "ab", buffering=0)  # noqa: SIM115  # open until the run ends

    def add_line(self, value: object) -> None:
        """Adds a line, which is in the file when this returns."""
        assert self._file, "start_lines comes first"
        rest = memoryview(_line(value))
        with self._writing():
            while rest:
                rest = rest[self._file.write(rest) :]

    def write_file(self, name: str, content: bytes) -> None:
        """Writes one more file of the folder."""
        with self._writing():
            (self.folder / name).parent.mkdir(exist_ok=True)
            write_file(self.folder / name, content)

    def remove_file(self, name: str) -> None:
        """Removes a file of the folder, if it is there."""
        with self._writing(), suppress(FileNotFoundError):
            remove(self.folder / name)

    def remove_failures(self) -> None:
        """Removes the folders of failures that an earlier end of the run wrote."""
        with self._writing(f"/{FOLDER}"):
            remove_failures(self.folder)

    @contextmanager
    def whole_or_not(self) -> Iterator[ResultsFolder]:
        """Gives this folder, which was new or empty, and releases it at the end. If anything fails, it is removed."""
        try:
            yield self
        except BaseException:
            self.close()
            rmtree(self.folder, ignore_errors=True)
            raise
        finally:
            self.release()

    @contextmanager
    def _writing(self, name: str = "") -> Iterator[None]:
        """Makes an error of the operating system one line."""
        try:
            yield
        except OSError as error:
            raise InputError(error.strerror or str(error), file=f"{self.folder}{name}") from None

    def close(self) -> None:
        """Ends the adding of lines."""
        if self._file:
            self._file.close()
            self._file = None

    def release(self) -> None:
        """Releases the folder for other runs. Nothing may be written after this call."""
        self.close()
        if self._lock.is_locked:
            with suppress(OSError):  # Windows removes it with the lock
                (self.folder / LOCK).unlink()
            self._lock.release()


def _line(value: object) -> bytes:
    return to_json(value) + b"\n"
