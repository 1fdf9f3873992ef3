#!/usr/bin/env python3
"""Unpacks a rig that `dml_linux.py pack` made:  python3 unpack.py PARTS DIR

Needs Python 3.8 or later, and nothing but its standard library. Every sum is checked before anything is written. DIR appears when all of it
is there.
"""

import argparse
import errno
import hashlib
import io
import json
import lzma
import os
import shutil
import sys
import tarfile
from pathlib import Path

FORMAT = "opmap-rig-pack/1"
MANIFEST = "pack.json"
BLOCK = 1 << 20


class PackError(Exception):
    """An error that is shown to the user as one line, with exit code 2."""


class Parts(io.RawIOBase):
    """The contents of several files, one after the other."""

    def __init__(self, paths):
        self.paths, self.file = list(paths), None

    def readable(self):
        return True

    def readinto(self, buffer):
        while self.file or self.paths:
            self.file = self.file or open(self.paths.pop(0), "rb")  # noqa: SIM115  closed below
            count = self.file.readinto(buffer)
            if count:
                return count
            self.file.close()
            self.file = None
        return 0


def read_manifest(folder):
    """Returns the manifest of a pack. Raises PackError if there is none, or if it is damaged."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            raise PackError(f"{path} has the format {content['format']!r}: this program reads {FORMAT}")
        for part in content["parts"]:
            if part["name"] != os.path.basename(part["name"]) or not len(part["sha256"]) == 64:
                raise ValueError
        if content["id"] != pack_id(content["parts"]) or content["unpacked_bytes"] < 0:
            raise ValueError
    except OSError:
        raise PackError(f"PARTS must be a folder with {MANIFEST} and the parts, got {folder}") from None
    except (ValueError, KeyError, TypeError):
        raise PackError(f"{path} is damaged: carry it over again") from None
    return content


def pack_id(parts):
    """Returns the name of a pack: a sum over the sums of its parts."""
    return hashlib.sha256("".join(part["sha256"] for part in parts).encode()).hexdigest()[:16]


def check(folder, parts):
    """Raises PackError if a part is missing or damaged, or belongs to another pack. All such parts are named."""
    missing = [part["name"] for part in parts if not (folder / part["name"]).is_file()]
    if missing:
        raise PackError(f"{', '.join(missing)} of {len(parts)} parts is missing in {folder}: carry it over")
    wrong = [part["name"] for part in parts if sha256(folder / part["name"]) != part["sha256"]]
    if wrong:
        raise PackError(f"{', '.join(wrong)} is damaged or of another pack (its SHA-256 differs): carry it over again")


def sha256(path):
    """Returns the SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def inside(folder, name):
    """Returns where a member goes. Raises PackError if that is outside `folder`, also by way of a link."""
    path = Path(os.path.normpath(folder / name))
    place = path.parent.resolve()
    if os.path.isabs(name) or folder not in path.parents or folder not in [place, *place.parents]:
        raise PackError(f"the pack has the path {name!r}, which leaves the folder: do not trust it")
    return path


def link(folder, path, target):
    """Makes a link. Raises PackError if it names a place outside `folder`."""
    place = Path(os.path.normpath(path.parent / target))
    if os.path.isabs(target) or folder not in [place, *place.parents]:
        raise PackError(f"the pack has a link to {target!r}, which leaves the folder: do not trust it")
    path.symlink_to(target)


def extract(archive, folder):
    """Writes all members of a tar archive into `folder`, which has its real path. Raises PackError for any other kind of member."""
    for member in archive:
        path = inside(folder, member.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.isdir():
            path.mkdir(exist_ok=True)
        elif member.issym():
            link(folder, path, member.linkname)
            continue
        elif os.path.lexists(path):
            raise PackError(f"the pack has {member.name!r} twice: do not trust it")
        elif member.islnk():
            shutil.copyfile(inside(folder, member.linkname), path)
        elif member.isreg():
            with open(path, "wb") as file:
                shutil.copyfileobj(archive.extractfile(member), file, BLOCK)
        else:
            raise PackError(f"the pack has a device or another special file, {member.name!r}: do not trust it")
        path.chmod(member.mode & 0o1777)


def unpack(parts, target):
    """Unpacks the pack in the folder `parts` into the new folder `target`. Raises PackError, and then leaves nothing there."""
    parts, target = Path(parts), Path(os.path.abspath(target))
    manifest = read_manifest(parts)
    if os.uname().machine != "x86_64":
        raise PackError(f"the pack is for an x86-64 machine, got {os.uname().machine}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise PackError(f"DIR must be a new folder or an empty one, got {target}")
    check(parts, manifest["parts"])
    target.parent.mkdir(parents=True, exist_ok=True)
    free, needed = shutil.disk_usage(target.parent).free, manifest["unpacked_bytes"]
    if free < needed:
        raise PackError(f"needs {needed / 1e9:.1f} GB of free disk at {target.parent}, got {free / 1e9:.1f}")
    half = Path(os.path.realpath(target.parent), f".{target.name}.unpacking")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    try:
        stream = io.BufferedReader(Parts(parts / part["name"] for part in manifest["parts"]), BLOCK)
        with lzma.LZMAFile(stream) as plain, tarfile.open(fileobj=plain, mode="r|") as archive:
            extract(archive, half)
        if target.is_dir():
            target.rmdir()
        half.rename(target)
    except (lzma.LZMAError, EOFError, tarfile.TarError) as error:
        raise PackError(f"the parts are no pack ({error}): make it again") from None
    except OSError as error:
        raise PackError(f"cannot write {error.filename or target}: {error.strerror}{room(error)}") from None
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return manifest


def room(error):
    """Returns what to do if an OSError is that of a full disk; "" if it is another."""
    return ": use a disk with enough room" if error.errno == errno.ENOSPC else ""


def main(arguments):
    """Unpacks, and says what to do next. Raises PackError."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("PARTS", help="folder with pack.json and the parts")
    parser.add_argument("DIR", help="new folder for the rig")
    options = parser.parse_args(arguments)
    manifest = unpack(options.PARTS, options.DIR)
    print(f"unpacked. Next, as root, with Python {manifest['python']}:")
    print(f"  python3 {options.DIR}/dml_linux.py doctor {options.DIR}")
    print(f"  python3 {options.DIR}/dml_linux.py opmap {options.DIR} validate --provider dml --tier smoke")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except PackError as error:
        print(f"unpack: {error}", file=sys.stderr)
        sys.exit(2)
