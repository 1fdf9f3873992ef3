"""Runs the command line as `python -m opmap`."""

import os
import sys

if sys.path and sys.path[0] in (
    "",
    os.getcwd(),
):  # `-m` puts it first: a file there must not replace what opmap imports
    del sys.path[0]

from .cli import main

sys.exit(main())
