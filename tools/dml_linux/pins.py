"""Renews the hashes in requirements.txt, python.txt and runtimes.txt after you have changed a version there.

For each `name==version` it fetches the Windows wheels of every supported Python from PyPI with pip, and writes their
SHA-256 below the line. It needs access to PyPI:  python3 pins.py
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def hashes(pin):
    """Returns the SHA-256 of each Windows wheel of `name==version`, sorted. Ends the program if there is none."""
    digests = set()
    for version in PYTHONS:
        with tempfile.TemporaryDirectory() as folder:
            # A failure is no error: some packages are pinned for some Pythons only.
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    "-q",
                    "--no-deps",
                    "--only-binary=:all:",
                    "--platform=win_amd64",
                    "--implementation=cp",
                    "--python-version",
                    version,
                    "-d",
                    folder,
                    pin,
                ],
                stderr=subprocess.DEVNULL,
                check=False,
            )
            digests |= {hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in Path(folder).glob("*.whl")}
    if not digests:
        sys.exit(f"pins.py: PyPI must have a Windows wheel of {pin}, got none")
    return sorted(digests)


for name in ("requirements.txt", "python.txt", "runtimes.txt"):
    path = Path(__file__).with_name(name)
    text = re.sub(r" \\\n {4}--hash=sha256:[0-9a-f]{64}", "", path.read_text())
    lines = []
    for line in text.splitlines():
        pin = re.match(r"([\w.-]+==[\w.]+)", line)
        lines.append(line + "".join(f" \\\n    --hash=sha256:{h}" for h in hashes(pin[1])) if pin else line)
    path.write_text("\n".join(lines) + "\n")
