"""Puts pairs of an ONNX Runtime and a DirectML.dll into a rig, beside its own. dml_linux.py uses it for setup.

A pair is the folder work/runtimes/NAME with the package `onnxruntime` and `runtime.json`, which says what it is. A program runs
on a pair if PYTHONPATH names its folder. Files that pairs have in common are hard links to one file.
"""

import hashlib
import json
import os
import re
import shutil
import struct
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORD, DLL = "runtime.json", "onnxruntime/capi/DirectML.dll"

DIRECTML = {
    "1.5.1": (
        *("onnxruntime-directml==1.9.0", "3.9"),
        "1aeac3f41b2f423a5dbfa7fa5aac2c1d6e9489515ce4d9fdfec9f18f8553ac76",
        "8ac5604be40a72024a6a2cb161a7eba11f3d9f99a180df068125729c10826f95",
    ),
    "1.8.0": (
        *("onnxruntime-directml==1.11.1", "3.9"),
        "704cfc1dfe7e4da135eb970d04f7df11255a0b3744f1848200fdd12be8c2c282",
        "f7a51e24468665de5e0b84875c69aa62460740cc7157f91634859dfa1b2a65e8",
    ),
    "1.9.0": (
        *("onnxruntime-directml==1.12.1", "3.10"),
        "07d179201f81f62b3a8e7eb17f69baeb0f2c05ddacfe37c7be9845d2f3cd921a",
        "2f08d9e46bf1776297ca0f1336fc17e590698ad002c0e8eedbf554b829ed39c9",
    ),
    "1.9.1": (
        *("onnxruntime-directml==1.13.1", "3.10"),
        "4f02c2b84f70c352f6673dfa65c6656836057830b99eec8dc4c1c30fa11a0b96",
        "f343afb050c809816cc88c55a7fe556691553cacb09b2cfaf2b8b96070675486",
    ),
    "1.10.1": (
        *("onnxruntime-directml==1.14.1", "3.10"),
        "ec135ef65b876a248a234b233e120b5275fb0247c64d74de202da6094e3adfe4",
        "7311ef80e8ba38cca79ea73068edb7cd8792dc95986f25db219f2e5f78a02096",
    ),
    "1.12.0": (
        *("onnxruntime-directml==1.15.1", "3.11"),
        "d2b3bb16bb6df8ae51c55e9d92681bc2bbef8c2706d3854370031781924fcb05",
        "13e0d786be8568f25558362ee729cddb5b43ce4bf6c126fcd9f470e884e6de4d",
    ),
    "1.12.1": (
        *("onnxruntime-directml==1.16.3", "3.11"),
        "62ff6a437fb9ade5179fb7a65414daa5a6872551d1e9ea35e37a412481725931",
        "ad81ea396c042e52829d5d77ca573ba255cc0f61cbd801d4071a94e24c6df343",
    ),
    "1.13.1": (
        *("onnxruntime-directml==1.17.3", "3.11"),
        "667a3ac9901554aa9bd89a58e05b4be5010eaccbdde93ef99640ccfa9f4ebfa1",
        "a27c02b81f29d45d9dce982242f40b3fa487d4c588ab11f858f99a9ee1450ed3",
    ),
    "1.14.1": (
        *("onnxruntime-directml==1.18.1", "3.11"),
        "2275d4b65530c623a06696d884eea5c32805ad492d40cd700bc05abf9569c665",
        "88f7d345acfaa95932e36f803946543610a6821e0a22381a5c8ad9eb455b5ba2",
    ),
    "1.15.1": (
        *("onnxruntime-directml==1.19.2", "3.11"),
        "04cb32c21d793c5da4ad02d733149cc0af5b8a12553dfb95022fabb0f618a991",
        "177cbec33d5d04703be95701bb1bf7d8c06c66a0adcef96dd2592c627a921678",
    ),
    "1.15.2": (
        *("onnxruntime-directml==1.20.1", "3.11"),
        "c7861057ad4caa64186c910efb3b54c1f575cd0e64732509c9bd927d2d20187b",
        "0690ed74f6e119aa669584b651ea2527d3c3d09234bf3546b9ce01687138f946",
    ),
    "1.15.4": (
        *("onnxruntime-directml==1.24.4", "3.11"),
        "96642a787e5a6f33bf043521c0f06eb1eb663f6b830e5862a2026d03f9c90543",
        "c07cb8c2f870f0152bfb690f64c4b048e78bbc219efad420a9758fc896cbecb0",
    ),
}
"""Each DirectML.dll by its version: the wheel that has it, the Python of that wheel, the SHA-256 of the wheel and of the DLL."""


def pinned():
    """Returns the requirement, with its hashes, of each ONNX Runtime by its version. The rig's own is the first."""
    texts = [(HERE / name).read_text() for name in ("requirements.txt", "runtimes.txt")]
    found = re.findall(r"^onnxruntime-\w+==[\d.]+(?: \\\n +--hash=\S+)+", "\n".join(texts), re.MULTILINE)
    return {re.search(r"==(\d+\.\d+\.\d+)", pin)[1]: pin for pin in found}


def refusal(onnxruntimes, directmls):
    """Returns why these versions cannot be had, in one line that lists those known; None if they can."""
    for what, wanted, known in (("--onnxruntime", onnxruntimes, pinned()), ("--directml", directmls, DIRECTML)):
        for version in wanted:
            if version not in known:
                return f"{what} must be one of {', '.join(known)}, which PyPI's wheels have, got {version!r}"
    return None


def file_version(content):
    """Returns the file version in the version resource of a DLL, as `1.15.4`; None if there is none."""
    place = content.rfind("VS_VERSION_INFO".encode("utf-16le"))
    place = content.find(struct.pack("<I", 0xFEEF04BD), place) if place >= 0 else -1  # VS_FIXEDFILEINFO.dwSignature
    if place < 0:
        return None
    high, low = struct.unpack_from("<8x2I", content, place)
    return f"{high >> 16}.{high & 0xFFFF}.{low >> 16}"


class Pairs:
    """Makes the pairs of a rig, whose Python is `python`. `download(python, pins, folder)` puts the wheel of a file of pins into a folder."""

    def __init__(self, rig, python, download):
        self.rig, self.python, self.download = rig, python, download
        self.folder, self.half_done = rig.work / "runtimes", rig.cache / "runtime"

    def make(self, onnxruntimes, directmls):
        """Makes each pair of these versions that is not there. Returns the folders of all. Raises ValueError for a file that is wrong.

        No ONNX Runtime means the rig's own one. An ONNX Runtime is there with its own DirectML.dll, and with these versions.
        """
        folders = []
        for version in onnxruntimes or list(pinned())[:1]:
            own = self.own(version)
            folders.append(own)
            for directml in directmls:
                folder = self.folder / f"{version}-{directml}"
                if not self.is_there(folder):
                    self.link(own, folder, version, directml)
                folders.append(folder)
        return list(dict.fromkeys(folders))

    def own(self, version):
        """Returns the folder of an ONNX Runtime with its own DirectML.dll. Makes it if it is not there."""
        for folder in self.folder.glob(f"{version}-*"):
            if self.is_there(folder) and read(folder)["own"]:
                return folder
        self.begin()
        if version == next(iter(pinned())):
            for source in self.rig.site_packages.glob("onnxruntime*"):
                self.link_files(source, self.half_done / source.name)
        else:
            with zipfile.ZipFile(self.wheel(self.python, pinned()[version])) as archive:
                archive.extractall(self.half_done)
        directml = file_version((self.half_done / DLL).read_bytes())
        if directml is None:
            raise ValueError(f"ONNX Runtime {version} must have a DirectML.dll with a version, got none")
        return self.end(self.folder / f"{version}-{directml}", version, directml, own=True)

    def link(self, own, folder, version, directml):
        """Makes a pair of the files of `own` and another DirectML.dll."""
        self.begin()
        self.link_files(own, self.half_done, "DirectML.dll", RECORD)
        os.link(self.directml(directml), self.half_done / DLL)
        self.end(folder, version, directml, own=False)

    def link_files(self, source, target, *leave):
        """Makes links to the files in a folder, but for those named in `leave`."""
        ignore = shutil.ignore_patterns("__pycache__", *leave)
        shutil.copytree(source, target, copy_function=os.link, ignore=ignore, dirs_exist_ok=True)

    def directml(self, version):
        """Returns a file with this version of DirectML.dll: that of a pair, or of its wheel. Raises ValueError if it is another."""
        name, python, wheel_hash, dll_hash = DIRECTML[version]
        for file in self.folder.glob(f"*-{version}/{DLL}"):
            if sha256(file.read_bytes()) == dll_hash:
                return file
        with zipfile.ZipFile(self.wheel(python, f"{name} --hash=sha256:{wheel_hash}")) as archive:
            content = archive.read(next(each for each in archive.namelist() if each.endswith(DLL)))
        if sha256(content) != dll_hash or file_version(content) != version:
            raise ValueError(f"the DirectML.dll in {name} must be version {version}, got {file_version(content)}")
        file = self.rig.cache / "wheel/DirectML.dll"
        file.write_bytes(content)
        return file

    def wheel(self, python, requirement):
        """Returns the wheel of a requirement with hashes, in a folder of its own."""
        folder = self.rig.cache / "wheel"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "pin.txt").write_text(f"{requirement}\n")
        self.download(python, folder / "pin.txt", folder)
        return next(folder.glob("*.whl"))

    def begin(self):
        """Begins a pair: it has its name when it is whole."""
        shutil.rmtree(self.half_done, ignore_errors=True)
        self.half_done.mkdir(parents=True)

    def end(self, folder, version, directml, *, own):
        """Gives the pair that was begun its name. Returns its folder."""
        write(self.half_done, {"onnxruntime": version, "directml": directml, "python": self.python, "own": own})
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(self.rig.cache / "wheel", ignore_errors=True)
        self.folder.mkdir(exist_ok=True)
        return self.half_done.rename(folder)

    def is_there(self, folder):
        """Returns whether a pair is there, and made for this Python."""
        return (folder / RECORD).is_file() and read(folder)["python"] == self.python


def read(folder):
    """Returns what a pair is. `problem` is why it does not load, or None; the key is missing if nobody tried."""
    return json.loads((folder / RECORD).read_text())


def write(folder, record):
    """Writes what a pair is."""
    (folder / RECORD).write_text(json.dumps(record) + "\n")


def sha256(content):
    """Returns the SHA-256 of bytes in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
