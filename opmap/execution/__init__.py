"""Runs models: providers, sessions, the worker process, and the proof on which provider each node ran.

`providers` opens a provider by its name; `protocol` says what a provider must have. `sessions` runs models with ONNX Runtime in
this process, `worker` in a child process (`worker_main`), with `frames` as the pipe between them. `dml_linux` starts the
DirectML EP on Linux. Nothing here knows cases, operators or expected values.
"""
