"""`python -m opmap`."""

import sys

from .cli import main

sys.exit(main())
