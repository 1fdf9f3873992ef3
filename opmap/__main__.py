"""Runs the command line as `python -m opmap`."""

import sys

from .cli import main

sys.exit(main())
