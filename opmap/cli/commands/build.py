"""`opmap build`: writes the collection of ONNX models with their test data."""

from __future__ import annotations

from argparse import Namespace

from ...evidence.reproducers.model_folders import build
from ...evidence.terminal import print_line


def run(options: Namespace) -> int:
    """Writes the models. Raises InputError if the folder holds anything else."""
    print_line(f"{build(options.output)} models in {options.output}")
    return 0
