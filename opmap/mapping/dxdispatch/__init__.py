"""DxDispatch JSON in and out.

DxDispatch is Microsoft's runner for DirectML operators. Its model files hold resources, dispatchables (operator
descriptors) and commands: https://github.com/microsoft/DirectML/blob/master/DxDispatch/doc/Guide.md
"""

from .descriptor_json import desc_json
from .reading import Dispatch, read, read_model
from .writing import model_json

__all__ = ["Dispatch", "desc_json", "model_json", "read", "read_model"]
