"""The folders and files of a rig, and the errors that a user sees."""

import fcntl
import hashlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
THIS_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


class RigError(Exception):
    """An error that is shown to the user as one line, with exit code 2."""


def sha256(path):
    """Returns the SHA-256 of a file in hexadecimal."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


class Rig:
    """The folders of one rig."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.root = self.folder / "root"  # the Debian system
        self.work = self.folder / "work"  # /rig inside, Z:\rig for Windows programs
        self.state = self.folder / "state"
        self.log = self.folder / "log"
        self.cache = self.folder / "cache"
        self.manifest = self.folder / "manifest.json"
        self.vulkan = self.state / "vulkan.json"
        self.python = self.work / "py"
        self.site_packages = self.python / "Lib/site-packages"

    def lock(self, name="lock", wait=True):
        """Returns an open file that holds the lock `name` until it is closed: `lock` to start or end the rig, `setup.lock`
        to build it. Raises RigError if another process holds it and `wait` is false."""
        handle = open(self.state / name, "w")  # noqa: SIM115  the caller closes it
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RigError(f"another setup is running in {self.folder}: wait for its end") from None
        return handle

    @property
    def driver(self):
        """The choice of --vulkan: `software`, `host` or the path of an ICD file."""
        return json.loads(self.vulkan.read_text())["choice"] if self.vulkan.is_file() else "software"

    @property
    def packed(self):
        """What a rig that came from a pack has: `software`, and the Python that `linux` is for. None for any other rig."""
        file = self.state / "packed.json"
        return json.loads(file.read_text()) if file.is_file() else None

    def must_be_built(self):
        """Returns the rig itself. Raises RigError if its setup has not ended."""
        if not self.manifest.is_file():
            raise RigError(f"no rig in {self.folder}: run `setup {self.folder}` first, or again if it was interrupted")
        return self

    def must_have_this_python(self):
        """Returns the rig itself. Raises RigError if it is not built, or was built for another Python than this one."""
        version = json.loads(self.must_be_built().manifest.read_text())["python"]["version"]
        if not version.startswith(f"{THIS_PYTHON}."):
            raise RigError(
                f"the rig has Python {version}: run dml_linux.py with that version, got Python {THIS_PYTHON}"
            )
        return self
