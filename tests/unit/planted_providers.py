"""Providers of ONNX Runtime with a planted fault, which run in this process."""

import numpy as np

from opmap.engines.sessions import CPU, SessionProvider


class Planted(SessionProvider):
    """The CPU EP, which gives `value` for each element unless it is None."""

    def __init__(self, value):
        super().__init__(CPU)
        self.value = value

    def perform(self, step, limit=None):
        result = super().perform(step, limit)
        if self.value is not None:
            for name, array in result.outputs.items():
                result.outputs[name] = np.full_like(array, self.value)
        return result
