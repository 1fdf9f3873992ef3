"""Makes the graphs in this folder: loads models with the DirectML EP, which writes what it hands to DirectML.

    python tests/unit/serialized_models.py MODELS       anywhere
    python serialize.py MODELS TARGET                   where onnxruntime-directml runs, or inside tools/dml_linux

The graphs here are from onnxruntime-directml 1.24.4 inside tools/dml_linux.
"""

import os
import shutil
import sys
from pathlib import Path

import onnxruntime

models, target = (Path(argument).resolve() for argument in sys.argv[1:])
os.chdir(target)  # the EP writes into the current folder
for model in sorted(models.glob("*.onnx")):
    shutil.rmtree(model.stem, ignore_errors=True)
    shutil.copy(model, model.name)
    options = onnxruntime.SessionOptions()
    options.enable_mem_pattern = False
    options.add_session_config_entry("ep.dml.enable_graph_serialization", "true")
    onnxruntime.InferenceSession(model.name, options, providers=["DmlExecutionProvider"])
    os.remove(model.name)
