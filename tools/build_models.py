"""Writes models/ again. It does the same as `opmap build -o models`."""

import sys
from pathlib import Path

from opmap.cli import main

sys.exit(main(["build", "-o", str(Path(__file__).resolve().parent.parent / "models")]))
