"""A worker whose DirectML is Python: it computes with the pseudocode. For tests of everything around DirectML.

`pretend_directml.py ROOT TROUBLE TOKEN`; TROUBLE is `none`, or one of the troubles below.
"""

import sys

sys.path.insert(0, sys.argv[1])

import numpy as np

from opmap.descriptors import TensorDesc
from opmap.engines import worker_main
from opmap.engines.directml.dispatching import FILL, GUARD
from opmap.engines.directml.hresults import BindingRefused, CallFailed
from opmap.engines.machine.facts import Fact
from opmap.engines.performer import Performer
from opmap.engines.provider_facts import ProviderFacts
from opmap.engines.steps import Dispatch, Result
from opmap.mapping.memory import GAP, from_memory, to_memory
from opmap.operators import OPERATORS
from opmap.spec import all_specs
from opmap.tensors import DataType, Tensor
from opmap.vocabulary import Stage

TYPES = {data_type.number: data_type for data_type in DataType}


def refuse():
    raise CallFailed("IDMLDevice1::CreateOperator", 0x80070057)


def lose():
    raise CallFailed("ID3D12Device::GetDeviceRemovedReason", 0x887A0006, stage=Stage.RUN)


def refuse_binding():
    raise BindingRefused


RAISED = {"refused": refuse, "lost": lose, "binding": refuse_binding}


class Pretender(Performer):
    """Performs Dispatch. `wrong` reverses the output, `behind` writes behind it, `gap` into its gaps, `offset` writes
    it to the beginning of the buffer, `graph` is wrong in graphs only."""

    def __init__(self, trouble, options):
        super().__init__()
        self.trouble = trouble

    def perform(self, step, limit=None):
        self.calls += 1
        if not isinstance(step, Dispatch):
            return Result()
        if any(offset % 16 for offset in step.offsets.values()):
            return Result(error=str(BindingRefused()), stage=Stage.RUN)
        if self.trouble == "unsupported":
            text = "IDMLDevice::CheckFeatureSupport: the device does not support FLOAT64"
            return Result(error=text, stage=Stage.LOAD, unsupported=True)
        return self.dispatched(step)

    def dispatched(self, step):
        try:
            RAISED.get(self.trouble, lambda: None)()
            return Result() if step.contents is None else Result(outputs=self.run(step))
        except (CallFailed, BindingRefused) as error:
            return Result(error=str(error), stage=error.stage)

    def run(self, step):
        operator = step.operator
        spec = next(spec for spec in all_specs() if spec.number == operator.number)
        members = {m.name: m.number for m in operator.members}
        members |= {n: described(t) for kind in ("input", "output") for n, t in operator.tensors(kind).items()}
        desc = OPERATORS[spec.name].descriptor.from_members(members)
        tensors = {}
        for name, tensor in desc.inputs.items():
            raw = from_memory(tensor, np.array(step.contents[name])).tobytes()
            tensors[name] = Tensor.from_bytes(tensor.data_type, tensor.sizes, raw)
        return dict(self.region(step, desc.of_output(name), tensors) for name in desc.outputs)

    def region(self, step, desc, tensors):
        bits = [b or 0 for b in desc.interpret(tensors)]
        if self.trouble == "wrong" or (self.trouble == "graph" and step.compile == "graph"):
            bits.reverse()
        memory = to_memory(desc.output, Tensor(desc.output.data_type, desc.output.sizes, bits))
        name = desc.output_field
        start = 0 if self.trouble == "offset" else step.offsets.get(name, 0)
        end = start + len(memory)
        region = np.full(step.offsets.get(name, 0) + len(memory) + GUARD, FILL, np.uint8)
        used = desc.output.element_count * desc.output.data_type.size if desc.output.packed else 0
        memory[used:][memory[used:] == GAP] = FILL
        region[start:end] = memory
        if self.trouble == "behind":
            region[end] = 0
        if self.trouble == "gap":
            region[start:end] = np.where(region[start:end] == FILL, 0, region[start:end])
        return name, region

    def device_facts(self):
        return {"directml_data_types": Fact(["FLOAT32", "INT32"], "a test")}


def described(tensor):
    strides = None if tensor.strides is None else tuple(tensor.strides)
    return TensorDesc(TYPES[tensor.data_type], tuple(tensor.sizes), strides, tensor.total, tensor.alignment)


def opened(start):
    facts = ProviderFacts("directml", "1.15.4.0", "emulated", adapter="pretended", sessions=False)
    return Pretender(sys.argv[2], start.options), facts


if __name__ == "__main__":
    worker_main._direct = opened
    worker_main.main()
