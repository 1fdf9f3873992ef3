"""opmap: a validation suite for the DirectML execution provider of ONNX Runtime."""
