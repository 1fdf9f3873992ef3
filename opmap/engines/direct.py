"""The provider `directml`: gives the descriptors of cases to DirectML itself, in a worker process, without ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from ..errors import InputError, ProviderError, clean
from .arrays import dtype_of
from .directml.dispatchable import Dispatchable
from .directml.structs import DML_EXECUTION_FLAG_DISABLE_META_COMMANDS
from .performer import Malformed
from .protocol import DIRECT, DISPATCHED, Placement
from .steps import Compile, Dispatch, Result
from .worker import WorkerProvider

if TYPE_CHECKING:
    from ..descriptors import OperatorDesc
    from ..tensors import Tensor

GRAPH_LAYOUT = "compile-graph"
"""The layout of a case that is compiled with CompileGraph, whatever the provider option says."""

COMPILE, METACOMMANDS, DEBUG_LAYER = "compile", "disable_metacommands", "debug_layer"
"""The provider options: how an operator is compiled, whether the driver's own kernels are left out (`True`), and whether the
debug layers are on (`True`). The last two are set by options of the command line."""


def check_options(options: Mapping[str, str]) -> None:
    """Raises InputError for an option that the provider does not take, or a value that the option does not take."""
    for key, value in options.items():
        if key == COMPILE and value not in get_args(Compile):
            wanted = " or ".join(get_args(Compile))
            raise InputError(f"--provider-option {COMPILE} must be {wanted} for --provider {DIRECT}, got {value!r}")
        if key not in (COMPILE, METACOMMANDS):
            raise InputError(f"--provider-option must be {COMPILE} for --provider {DIRECT}, got {key!r}")


class DirectProvider(WorkerProvider):
    """Runs cases on DirectML. It is given the case itself: no model is made, and no data type is replaced.

    There is nothing that DirectML could leave to something else: if the operator was created, compiled and dispatched on
    the device of the adapter, and the device was not lost, DirectML computed the output. That is the proof `dispatched`.
    """

    messages: Sequence[str] = ()
    """What the debug layers said about the last descriptor."""

    # Any: the class Case stands above this module, which must not import it.
    def run_case(self, case: Any, /) -> list[np.ndarray] | Malformed:
        """Returns the output of a case. A write outside of the output's elements makes it Malformed.

        Raises ProviderError, with the stage `load` if DirectML refuses the descriptor.
        """
        try:
            compile: Compile | None = "graph" if case.layout == GRAPH_LAYOUT else None
            return self.run_descriptor(case.desc, case.tensors, compile=compile, offsets=case.offsets)
        finally:
            self.renew()

    def run_descriptor(
        self,
        desc: OperatorDesc,
        tensors: Mapping[str, Tensor],
        *,
        compile: Compile | None = None,
        offsets: Mapping[str, int] | None = None,
    ) -> list[np.ndarray] | Malformed:
        """Returns the output of a descriptor, which may break rules. See run_case.

        `offsets` are where tensors begin in their buffers, in bytes, by field (default 0).
        """
        from .directml.describing import dispatchable, from_memory, to_memory, touched

        self._placement = None
        contents = {name: to_memory(tensor, tensors[name]) for name, tensor in desc.inputs.items()}
        (output,) = desc.spec().field_names("output")
        byte_offsets = dict(offsets or {})
        result = self._performed(self._step(dispatchable(desc), contents, compile, byte_offsets))
        if failure := result.failure:
            raise failure
        self._placement = Placement(DISPATCHED, ((f"DML_OPERATOR_{desc.operator}", DIRECT),))
        (region,) = result.outputs.values()
        offset = byte_offsets.get(output, 0)
        problem = touched(desc.output, region, offset)
        if problem:
            return Malformed(problem)
        return [from_memory(desc.output, region, offset).view(dtype_of(desc.output.data_type))]

    def refusal(self, desc: OperatorDesc, *, compile: Compile | None = None) -> ProviderError | None:
        """Returns why DirectML does not create or compile a descriptor, which may break rules; None if it does."""
        from .directml.describing import dispatchable

        return self._performed(self._step(dispatchable(desc), None, compile, {})).failure

    def _performed(self, step: Dispatch) -> Result:
        """Performs a step, and keeps what the debug layers said about it."""
        self.messages = ()
        result = self.perform(step)
        self.messages = tuple(map(clean, result.messages))
        return result

    def _step(
        self,
        operator: Dispatchable,
        contents: dict[str, Any] | None,
        compile: Compile | None,
        offsets: dict[str, int],
    ) -> Dispatch:
        options = self._start.options
        flags = DML_EXECUTION_FLAG_DISABLE_META_COMMANDS if options.get(METACOMMANDS) == "True" else 0
        chosen = compile or ("graph" if options.get(COMPILE) == "graph" else "operator")
        return Dispatch(operator=operator, contents=contents, offsets=offsets, flags=flags, compile=chosen)
