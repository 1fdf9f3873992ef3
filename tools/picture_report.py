"""Makes .github/report.png, the picture of a report that the README shows.

    python tools/picture_report.py

It runs a planted fault, diagnoses it, and photographs the top of the report with Chromium (on Linux or macOS; its path
in OPMAP_CHROMIUM, if it is not on PATH). Renew the picture when the report looks different.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from opmap.cli import main as opmap

REPOSITORY = Path(__file__).parents[1]
PICTURE = REPOSITORY / ".github" / "report.png"
SIZE = 960, 1060
COMMAND = ["diagnose", "--provider", "fault:negative-index-off-by-one", "--report"]


def main() -> int:
    """Writes the picture. Returns 1 if there is no Chromium, or if the report shows an error."""
    sys.path.insert(0, str(REPOSITORY / "tests" / "unit"))
    from browser import browser, missing

    if reason := missing():
        print(reason, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, browser() as page:
        opmap([*COMMAND, folder])
        page.size(*SIZE)
        page.colours("light")
        page.open(Path(folder, "report.html"))
        PICTURE.write_bytes(page.screenshot())
        print(*page.problems, PICTURE.relative_to(REPOSITORY), sep="\n")
        return int(bool(page.problems))


if __name__ == "__main__":
    sys.exit(main())
