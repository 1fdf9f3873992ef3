"""Runs models: providers, sessions, the worker process, and the proof on which provider each node ran.

`steps` says what can be done with sessions, as data. A `performer` performs steps: `sessions` with ONNX Runtime in this process,
`worker` in a `child` process (`worker_main`) with `frames` as the pipe between them, `third_party` on somebody's own object.
`providers` opens a provider by its name. `session_records` reads what sessions leave behind, `dml_linux` starts the DirectML EP on
Linux. Nothing here knows cases, operators or expected values.
"""
