"""The provider `directml`: gives the descriptors of cases to DirectML itself, in a worker process, without ONNX
Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from ..errors import InputError, shown
from .arrays import dtype_of
from .directml.structs import DML_EXECUTION_FLAG_DISABLE_META_COMMANDS
from .protocol import DISPATCHED, Placement
from .provider_facts import DIRECT, GRAPH_LAYOUT
from .steps import Compile, Dispatch, Evidence, Result
from .worker import WorkerProvider

if TYPE_CHECKING:
    from ..descriptors import OperatorDesc
    from ..tensors import Tensor

COMPILE, METACOMMANDS = "compile", "disable_metacommands"
"""The provider options: how an operator is compiled, and whether the driver's own kernels are left out (`True`), which
an option of the command line sets."""


def check_options(options: Mapping[str, str]) -> None:
    """Raises InputError for an option that the provider does not take, or a value that the option does not take."""
    for key, value in options.items():
        if key == COMPILE and value not in get_args(Compile):
            wanted = " or ".join(get_args(Compile))
            raise InputError(
                f"--provider-option {COMPILE} must be {wanted} for --provider {DIRECT}, got {shown(value)}"
            )
        if key not in (COMPILE, METACOMMANDS):
            raise InputError(f"--provider-option must be {COMPILE} for --provider {DIRECT}, got {shown(key)}")


class DirectProvider(WorkerProvider):
    """Runs cases on DirectML. It is given the case itself: no model is made, and no data type is replaced.

    There is nothing that DirectML could leave to something else: if the operator was created, compiled and dispatched
    on the device of the adapter, and the device was not lost, DirectML computed the output. That is the proof
    `dispatched`.
    """

    # Any: the class Case stands above this module, which must not import it.
    def run_case(self, case: Any, /) -> Result:
        """Returns what DirectML makes of a case, see `run_descriptor`."""
        try:
            compile: Compile | None = "graph" if case.layout == GRAPH_LAYOUT else None
            return self.run_descriptor(case.desc, case.tensors, compile=compile, offsets=case.offsets)
        finally:
            self.renew()

    def run_descriptor(
        self,
        desc: OperatorDesc,
        tensors: Mapping[str, Tensor] | None,
        *,
        compile: Compile | None = None,
        offsets: Mapping[str, int] | None = None,
    ) -> Result:
        """Returns the outputs of a descriptor, which may break rules.

        Without `tensors` it is only created and compiled.

        `offsets` are where tensors begin in their buffers, in bytes, by field (default 0). A write outside of an
        output's TotalTensorSizeInBytes makes the result malformed; one inside it that hits no element is a message. If
        DirectML refuses the descriptor, the result has an error at stage `load`.
        """
        from ..mapping.memory import from_memory, to_memory
        from .directml.describing import dispatchable, gaps_written, touched

        options, own_offsets = self._start.options, dict(offsets or {})
        step = Dispatch(
            operator=dispatchable(desc),
            contents=None if tensors is None else {n: to_memory(t, tensors[n]) for n, t in desc.inputs.items()},
            offsets=own_offsets,
            flags=DML_EXECUTION_FLAG_DISABLE_META_COMMANDS if options.get(METACOMMANDS) == "True" else 0,
            compile=compile or ("graph" if options.get(COMPILE) == "graph" else "operator"),
        )
        result = self.perform(step)
        if result.error is not None or tensors is None:
            return result
        evidence = Evidence(placement=Placement(DISPATCHED, ((f"DML_OPERATOR_{desc.operator}", DIRECT),)))
        arrays, messages = {}, [*result.messages]
        for (name, output), region in zip(desc.outputs.items(), result.outputs.values(), strict=True):
            offset = own_offsets.get(name, 0)
            if problem := touched(output, region, offset):
                problem = f"{name} {problem}" if len(desc.outputs) > 1 else problem
                return msgspec.structs.replace(result, outputs={}, malformed=problem, evidence=evidence)
            if gaps_written(output, region, offset):
                messages.append(f"{name}: memory that holds no element was written, inside TotalTensorSizeInBytes")
            arrays[name] = from_memory(output, region, offset).view(dtype_of(output.data_type))
        return msgspec.structs.replace(result, outputs=arrays, evidence=evidence, messages=messages)
