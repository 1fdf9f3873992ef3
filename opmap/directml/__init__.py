"""DirectML without ONNX Runtime: single operator descriptors, through ctypes.

`interfaces.toml` has the COM interfaces as data, which `com` calls; `hresults` names what fails. `structs` has the structs of
Direct3D 12 and DirectML, `operator_desc` makes an operator's struct from its fields. `libraries` finds and loads the DLLs,
`device` opens a device, `arena` is its memory, `compiling` makes an operator, `dispatching` runs it, and `support` asks what
the device supports. `dispatchable` describes an operator as data that goes through a pipe. Nothing here knows cases or
expected values, and everything but `libraries` can be imported on every system.
"""
