"""The command line: its options, and one module for each command."""

from .start import main

__all__ = ["main"]
