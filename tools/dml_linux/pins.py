"""Renew the hashes in requirements.txt and python.txt after a version there was changed by hand.

For each `name==version` the wheels for Windows of every supported Python are fetched from PyPI with pip, and
their SHA-256 written below it. Run it where PyPI can be reached:  python3 pins.py
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def hashes(pin):
    found = set()
    for version in PYTHONS:
        with tempfile.TemporaryDirectory() as folder:
            # A failure is no error in itself: some pins serve only some of the Pythons.
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
            found |= {hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in Path(folder).glob("*.whl")}
    if not found:
        sys.exit(f"pins.py: no wheel for Windows of {pin}")
    return sorted(found)


for name in ("requirements.txt", "python.txt"):
    path = Path(__file__).with_name(name)
    text = re.sub(r" \\\n {4}--hash=sha256:[0-9a-f]{64}", "", path.read_text())
    lines = []
    for line in text.splitlines():
        pin = re.match(r"([\w.-]+==[\w.]+)", line)
        lines.append(line + "".join(f" \\\n    --hash=sha256:{h}" for h in hashes(pin[1])) if pin else line)
    path.write_text("\n".join(lines) + "\n")
