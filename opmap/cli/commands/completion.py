"""`opmap completion`: prints the script with which a shell completes opmap's commands and options."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _SubParsersAction

import shtab

from ...reports.terminal import print_text
from ..parser import parser


def run(options: Namespace) -> int:
    """Prints the script of the shell."""
    whole = parser(whole=True)
    _complete_paths(whole)
    print_text(shtab.complete(whole, shell=options.shell))
    return 0


def _complete_paths(parser: ArgumentParser) -> None:
    """Says to shtab which arguments of the commands are files, and which are folders."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for command in action.choices.values():
                _complete_paths(command)
        elif isinstance(action.metavar, str) and "DIR" in action.metavar:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]  # shtab's way to say it
        elif isinstance(action.metavar, str) and ("FILE" in action.metavar or "PATH" in action.metavar):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
