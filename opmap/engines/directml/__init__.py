"""DirectML without ONNX Runtime: single operator descriptors, through ctypes.

`interfaces.toml` has the COM interfaces as data, which `com` calls; `hresults` names what fails. `structs` has the
structs of Direct3D 12 and DirectML. `dispatchable` describes an operator as data that goes through a pipe, and makes
its struct of it. `libraries` finds and loads the DLLs, `device` opens a device, `arena` is its memory, `compiling`
makes an operator, `dispatching` runs it, and `support` asks what the device supports. `describing` makes all of this
from descriptors and tensors. Nothing here knows cases or expected values, and every module can be imported on every
system.
"""
