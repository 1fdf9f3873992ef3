"""Packs a rig for a machine without network: what is needed to run, as numbered parts with a manifest of their sums.

What is left out: compilers, package lists, documentation, locales, static libraries, and libraries that no program of the rig loads.
Debugging symbols are stripped from Wine's DLLs. The same rig gives the same bytes.
"""

import io
import json
import lzma
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from unpack import FORMAT, MANIFEST, pack_id, sha256

HERE = Path(__file__).resolve().parent
PRESET = 3  # of xz: 6 makes the pack a few per cent smaller and takes twice the time
CHUNK = 32 << 20  # this much is compressed at once, by two threads
MULTIARCH = "usr/lib/x86_64-linux-gnu"
PACKAGES = "py/Lib/site-packages"  # of the Windows Python
WINE = f"{MULTIARCH}/wine/x86_64-windows"
# What is kept of the Debian system. Libraries are kept if one of these programs or libraries loads them.
COMMANDS = ["bash", "sh", "dash", "cat", "sleep", "timeout", "env", "true", "ls", "mkdir", "rm", "Xvfb", "xkbcomp"]
TREES = [
    "usr/lib/wine",
    "usr/lib/locale/C.utf8",
    "usr/local/bin",
    "usr/share/X11/xkb",
    "usr/share/wine",
    "usr/share/fonts",
]
TREES += ["usr/share/fontconfig", "usr/share/drirc.d", "usr/share/libdrm", "etc/fonts", "etc/alternatives"]
FILES = [
    "usr/lib64/ld-linux-x86-64.so.2",
    "etc/passwd",
    "etc/group",
    "etc/nsswitch.conf",
    "bin",
    "sbin",
    "lib",
    "lib64",
    "usr/lib64",
]
FOLDERS = ["dev", "proc", "sys", "tmp", "mnt", "rig", "root", "run", "vulkan", "var/tmp", "var/lib/xkb"]
# Wine opens these while it runs; drivers of the host need some of them.
OPENED = ["libc", "libm", "libdl", "libpthread", "librt", "libresolv", "libutil", "libstdc++", "libgcc_s", "libvulkan"]
OPENED += [
    "libX11",
    "libXext",
    "libXcursor",
    "libXi",
    "libXxf86vm",
    "libXrandr",
    "libXfixes",
    "libXinerama",
    "libXcomposite",
]
OPENED += ["libXrender", "libfreetype", "libfontconfig", "libz", "libzstd", "libexpat", "libdrm"]
# Sound, video, scanners, printers, smart cards, packets and USB: no cases are about them, and they load a hundred libraries.
NOT_NEEDED = [
    "gphoto2",
    "kerberos",
    "odbc32",
    "opencl",
    "qcap",
    "sane",
    "winealsa",
    "winebth",
    "winebus",
    "winecups",
    "winedmo",
]
NOT_NEEDED += [
    "winegstreamer",
    "wineps",
    "winepulse",
    "wineusb",
    "winewayland",
    "winscard",
    "winspool",
    "wpcap",
    "capi2032",
    "ctapi32",
]
GPUS = ["intel", "intel_hasvk", "nouveau", "virtio"]
SOFTWARE = ["lvp", "radeon"]  # these two need LLVM


def names(pattern, folder):
    """Returns the files of a folder that fit, sorted."""
    return sorted(folder.glob(pattern))


def libraries(root, programs):
    """Returns the libraries, as paths in the Debian system, that these programs and libraries of it load. They are among them."""
    needed = set()
    for program in programs:
        traced = ["/usr/bin/env", "LD_TRACE_LOADED_OBJECTS=1", "/lib64/ld-linux-x86-64.so.2", f"/{program}"]
        text = subprocess.run(["chroot", str(root), *traced], capture_output=True, text=True).stdout
        needed.update(re.findall(r"=> (/\S+)", text))
    return needed


def debian(root, software):
    """Gives the paths of the Debian system that a rig needs to run, relative to `root`."""
    drivers = [*GPUS, *(SOFTWARE if software else [])]
    programs = [f"usr/bin/{name}" for name in COMMANDS]
    programs += [f"usr/lib/wine/{path.name}" for path in names("*", root / "usr/lib/wine")]
    unix = f"{MULTIARCH}/wine/x86_64-unix"
    programs += [f"{unix}/{p.name}" for p in names("*.so", root / unix) if p.stem not in NOT_NEEDED]
    programs += [f"{MULTIARCH}/{p.name}" for name in OPENED for p in names(f"{name}.so.*", root / MULTIARCH)]
    programs += [f"{MULTIARCH}/libvulkan_{name}.so" for name in drivers]
    programs = [program for program in programs if (root / program).is_file()]
    wanted = {*programs, *FILES, *(f"usr/share/vulkan/icd.d/{name}_icd.json" for name in drivers)}
    for library in libraries(root, programs):
        wanted.add(os.path.relpath((root / library[1:]).parent.resolve(), root) + "/" + os.path.basename(library))
    for path in sorted(wanted):
        while (root / path).is_symlink():  # and what the link names
            wanted.add(path)
            target = os.readlink(root / path)
            path = target[1:] if target.startswith("/") else os.path.normpath(Path(path).parent / target)
        wanted.add(path)
    for tree in [*TREES, WINE]:
        wanted.update(os.path.relpath(path, root) for path in tree_of(root / tree) if path.suffix != ".a")
    yield from sorted(path for path in wanted if os.path.lexists(root / path))


def tree_of(folder):
    """Gives all files and links below a folder, and the folders that are empty, without caches of Python and of pip."""
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted([*files, *(name for name in folders if os.path.islink(os.path.join(path, name)))]):
            if name != "direct_url.json":  # it names a path of the machine that packs
                yield Path(path, name)
        if not files and not folders:
            yield Path(path)


def contents(rig, software, linux, extras):
    """Gives (name in the pack, path) of all that is packed, sorted. `linux` is the folder of opmap's packages for Linux; `extras` are
    more pairs."""
    pairs = {f"root/{path}": rig.root / path for path in debian(rig.root, software)}
    for path in tree_of(rig.work):
        name = os.path.relpath(path, rig.work)
        if not re.match(rf"(opmap-|shims/|pack/|trouble-|{PACKAGES}/opmap[/-])", name):
            pairs[f"work/{name}"] = path
    for path in tree_of(linux):
        name = os.path.relpath(path, linux)
        if not name.startswith("bin/"):  # they name the Python of the machine that packs
            pairs[f"linux/{name}"] = path
        if re.match("opmap[/-]", name):
            pairs[f"work/{PACKAGES}/{name}"] = path
    pairs.update(extras)
    yield from sorted(pairs.items())


def stripped(rig, inside, folder):
    """Returns Wine's DLLs and programs without debugging symbols: for the sum of a file, the file that takes its place.

    `inside` runs a script in the Debian system, where the folder is /rig/pack.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    sums = {}
    for path in names("*", rig.root / WINE):
        if path.suffix != ".a" and path.is_file() and path.read_bytes()[:2] == b"MZ":
            shutil.copyfile(path, folder / path.name)
            sums[sha256(path)] = folder / path.name
    inside(  # strip writes this time into each file, else that of today
        "cd /rig/pack; export SOURCE_DATE_EPOCH=0;"
        " find . -type f -print0 | xargs -0 -n 50 x86_64-w64-mingw32-strip --strip-debug"
    )
    return sums


class Cut:
    """A file to write to: cuts what is written into parts of `size` bytes in `folder`."""

    def __init__(self, folder, size):
        self.folder, self.size, self.parts, self.file, self.room = folder, size, [], None, 0

    def write(self, data):
        data = memoryview(data)
        while data:
            if not self.room:
                self.close()
                self.parts.append(self.folder / f"part-{len(self.parts) + 1:03}")
                self.file, self.room = open(self.parts[-1], "wb"), self.size  # noqa: SIM115  closed in close()
            count = self.file.write(data[: self.room])
            self.room, data = self.room - count, data[count:]

    def close(self):
        if self.file:
            self.file.close()


class Compressed(io.RawIOBase):
    """A file to write to: compresses what is written, in pieces of CHUNK bytes, and writes them in order to `out`."""

    def __init__(self, out):
        self.out, self.rest, self.waiting, self.threads = out, bytearray(), deque(), ThreadPoolExecutor(2)

    def writable(self):
        return True

    def write(self, data):
        self.rest += data
        while len(self.rest) >= CHUNK:
            self.send(bytes(self.rest[:CHUNK]))
            del self.rest[:CHUNK]
        return len(data)

    def send(self, chunk):
        self.waiting.append(self.threads.submit(lzma.compress, chunk, preset=PRESET))
        if len(self.waiting) > 3:
            self.out.write(self.waiting.popleft().result())

    def finish(self):
        self.send(bytes(self.rest))
        while self.waiting:
            self.out.write(self.waiting.popleft().result())
        self.threads.shutdown()


def member(name, path):
    """Returns the head of a member of the archive: without owner and time. An absolute link becomes a relative one."""
    info = tarfile.TarInfo(name)
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
        if info.linkname.startswith("/"):
            folder = os.path.dirname(inner(name))
            info.linkname = os.path.relpath(info.linkname, folder)
    elif stat.S_ISDIR(mode):
        info.type, info.mode = tarfile.DIRTYPE, 0o755
    else:
        info.size, info.mode = os.stat(path).st_size, 0o755 if mode & 0o111 else 0o644
    return info


def inner(name):
    """Returns the path inside the rig of a member of the pack."""
    return "/rig/" + name[len("work/") :] if name.startswith("work/") else "/" + name[len("root/") :]


def write(archive, pairs, replaced, texts):
    """Writes the members into a tar archive. A file with the content of an earlier one is a link to it. Returns the bytes of all files."""
    first, total = {}, 0
    for name in [*(f"root/{folder}" for folder in FOLDERS), "state", "log"]:
        info = tarfile.TarInfo(name)
        info.type, info.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
        archive.addfile(info)
    for name, path in pairs:
        info = member(name, path)
        if info.isreg():
            digest = sha256(path)
            path = replaced.get(digest, path)
            info.size = os.stat(path).st_size
            total += info.size
            if digest in first and info.size:
                info.type, info.linkname, info.size = tarfile.LNKTYPE, first[digest], 0
            first.setdefault(digest, name)
        if info.isreg():
            with open(path, "rb") as file:
                archive.addfile(info, file)
        else:
            archive.addfile(info)
    for name, text in texts:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(text.encode()), 0o644
        archive.addfile(info, io.BytesIO(text.encode()))
    return total


def linux_packages(folder, source, log, environment):
    """Installs opmap and what it needs, for the Python that runs this, from the checkout `source` into `folder`, unless they are there.

    Returns pip's exit code.
    """
    files = [path for path in tree_of(source / "opmap")] + [source / "pyproject.toml"]
    key = "".join(sha256(path) for path in files) + sys.version
    stamp = folder.with_suffix(".key")
    if stamp.is_file() and stamp.read_text() == key and folder.is_dir():
        return 0
    shutil.rmtree(folder, ignore_errors=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--root-user-action=ignore",
        "--no-compile",
    ]
    code = subprocess.run([*pip, f"--target={folder}", str(source)], env=environment, stdout=log, stderr=log).returncode
    if not code:
        stamp.write_text(key)
    return code


def pack(rig, folder, size, software, inside, linux, extras):
    """Packs a rig into parts of at most `size` bytes in `folder`, a new or empty one. Returns the manifest of the pack.

    `inside` runs a script in the rig's Debian system; `linux` is the folder with opmap's packages for Linux; `extras` are more files.
    """
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    choice = "software" if software else "host"
    texts = [
        ("work/pfx/.update-timestamp", "disable\n"),  # else Wine updates its files when it starts
        ("state/vulkan.json", json.dumps({"choice": choice}) + "\n"),
        ("state/packed.json", json.dumps({"software": software, "linux": python}) + "\n"),
        ("manifest.json", rig.manifest.read_text()),
    ]
    replaced = stripped(rig, inside, rig.work / "pack")
    try:
        cut = Cut(folder, size)
        stream = Compressed(cut)
        pairs = [pair for pair in contents(rig, software, linux, extras) if pair[0] not in dict(texts)]
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            total = write(archive, pairs, replaced, texts)
        stream.finish()
        cut.close()
    finally:
        shutil.rmtree(rig.work / "pack", ignore_errors=True)
    parts = [{"name": part.name, "bytes": part.stat().st_size, "sha256": sha256(part)} for part in cut.parts]
    manifest = {
        "format": FORMAT,
        "id": pack_id(parts),
        "python": python,
        "software": software,
        "unpacked_bytes": total,
        "parts": parts,
    }
    shutil.copyfile(HERE / "unpack.py", folder / "unpack.py")
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")  # last: without it there is no pack
    return manifest
