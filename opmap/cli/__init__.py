"""The command line: its options, and one module for each command."""

from .entry import main

__all__ = ["main"]
