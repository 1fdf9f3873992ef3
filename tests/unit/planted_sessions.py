"""Backends with sessions, as a third party would write them: they run models with onnx.reference and do not use opmap.

Each name at the end is a factory for `--provider planted_sessions:NAME`. `right` is the backend without an error.
"""

import os
from functools import partial

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator


class Session:
    """One model. Refuses feeds that do not fit it."""

    def __init__(self, backend, model_bytes):
        self.backend, self.model = backend, onnx.load_from_string(model_bytes)
        self.evaluator = ReferenceEvaluator(self.model)
        self.defaults = {i.name: numpy_helper.to_array(i) for i in self.model.graph.initializer}
        self.inputs = {value.name: value.type.tensor_type for value in self.model.graph.input}
        self.outputs = [value.name for value in self.model.graph.output]
        self.last = {}

    def run(self, feeds, outputs=None):
        """Returns the outputs in the wanted order."""
        for name, array in feeds.items():
            self.check(name, array)
        missing = self.inputs.keys() - feeds.keys() - self.defaults.keys()
        if missing:
            raise ValueError(f"missing: {missing}")
        names = self.outputs if outputs is None else outputs
        if not set(names) <= set(self.outputs):
            raise ValueError(f"no such output: {names}")
        values = dict(zip(self.outputs, self.evaluator.run(self.outputs, self.fed(feeds)), strict=True))
        return [self.given(name, np.asarray(values[name])) for name in names]

    def check(self, name, array):
        """Raises ValueError if the model has no such input, or one of another type or shape."""
        kind = self.inputs[name]
        if onnx.helper.np_dtype_to_tensor_dtype(array.dtype) != kind.elem_type:
            raise ValueError(f"{name} has the wrong type")
        if kind.HasField("shape"):
            dims = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
            fits = len(dims) == array.ndim and all(d in (None, size) for d, size in zip(dims, array.shape, strict=True))
            if not fits:
                raise ValueError(f"{name} has the wrong shape")

    def fed(self, feeds):
        """Returns the values of all inputs."""
        return {**{name: self.defaults[name] for name in self.inputs if name in self.defaults}, **feeds}

    def given(self, name, array):
        """Returns an output as the backend gives it."""
        return array

    def close(self):
        """Releases the session."""


class Backend:
    """Opens sessions of one kind."""

    name = "planted"
    closed = 0

    def __init__(self, kind):
        self.kind, self.opened = kind, []

    def open(self, model_bytes, setup):
        """Returns a session."""
        self.opened.append(self.kind(self, model_bytes))
        return self.opened[-1]

    def run(self, model_bytes, feeds):
        """Returns the outputs of a model, run once."""
        return self.kind(self, model_bytes).run(feeds)


class Stale(Session):
    """Gives the output of the run before if the shapes are the same."""

    def given(self, name, array):
        before = self.last.setdefault(name, array)
        if before.shape != array.shape:
            before = self.last[name] = array
        return before


class IgnoresDefaults(Session):
    """Ignores what is fed for an input with a default."""

    def fed(self, feeds):
        return {**feeds, **{name: self.defaults[name] for name in self.inputs if name in self.defaults}}


class FailsAfterClose(Session):
    """Fails in every session after one was closed."""

    def run(self, feeds, outputs=None):
        if self.backend.closed:
            raise RuntimeError("the device is closed")
        return super().run(feeds, outputs)

    def close(self):
        self.backend.closed += 1


class CrashesOlder(Session):
    """Ends the process if a session runs that is not the newest one."""

    def run(self, feeds, outputs=None):
        if self.backend.opened[-1] is not self:
            os._exit(77)
        return super().run(feeds, outputs)


class CrashesAtClose(Session):
    """Ends the process if a session is closed."""

    def close(self):
        os._exit(77)


class FailsAtClose(Session):
    """Raises if a session is closed."""

    def close(self):
        raise RuntimeError("still busy")


class ClampsAndFails(FailsAtClose):
    """Clamps indices to 0 and 3, and raises if a session is closed."""

    def fed(self, feeds):
        return super().fed({**feeds, "IndicesTensor": np.clip(feeds["IndicesTensor"], 0, 3)})


class WrongAndCrashes(ClampsAndFails):
    """Gives zeros, and ends the process if a session is closed."""

    def given(self, name, array):
        return np.zeros_like(array)

    def close(self):
        os._exit(77)


class Unchecked(Session):
    """Takes feeds of any shape."""

    def check(self, name, array):
        if name not in self.inputs:
            raise ValueError(f"{name} is no input")


class Ordered(Session):
    """Gives outputs in the order of the model, in whatever order they are asked for."""

    def run(self, feeds, outputs=None):
        values = super().run(feeds)
        return values if outputs is None else values[: len(outputs)]


right = partial(Backend, Session)
stale = partial(Backend, Stale)
ignores_defaults = partial(Backend, IgnoresDefaults)
fails_after_close = partial(Backend, FailsAfterClose)
crashes_older = partial(Backend, CrashesOlder)
crashes_at_close = partial(Backend, CrashesAtClose)
wrong_and_crashes = partial(Backend, WrongAndCrashes)
fails_at_close = partial(Backend, FailsAtClose)
clamps_and_fails = partial(Backend, ClampsAndFails)
unchecked = partial(Backend, Unchecked)
ordered = partial(Backend, Ordered)
