"""Keeps ONNX Runtime from sending telemetry, which it does on Linux too since 1.32.

ONNX Runtime reads the variable when it is imported, in this process and in every process that is started from here.
"""

from __future__ import annotations

import os
from types import ModuleType

os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def switch_off(onnxruntime: ModuleType) -> None:
    """Says it to an ONNX Runtime that is imported already."""
    onnxruntime.disable_telemetry_events()
