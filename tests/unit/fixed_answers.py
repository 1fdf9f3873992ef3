"""A case of GATHER, a provider that always gives the same answer, and the record of the case on it."""

import numpy as np
from described import described

from opmap.cases.case import Case
from opmap.engines.providers import Provider, open_provider
from opmap.engines.third_party import ThirdPartyProvider
from opmap.judge.judge import Judge
from opmap.tensors import DataType, Tensor

CPU = open_provider("cpu")


def gather(
    values=(11, 12, 13, 14),
    indices=(3, 1, 3, 0, 2),
    data_type=DataType.FLOAT32,
    index_type=DataType.INT64,
    k=1,
    **options,
):
    """Returns a case of GATHER along the only axis."""
    desc = described("GATHER", (len(values),), (len(indices),), 0, k, data_type=data_type, index_type=index_type)
    tensors = {
        "InputTensor": Tensor.from_values(data_type, (len(values),), values),
        "IndicesTensor": Tensor.from_values(index_type, (len(indices),), indices),
    }
    return Case("case", desc, tensors, **options)


class Fixed:
    """A provider that always returns the same object, or raises it if it is an exception."""

    def __init__(self, answer):
        self.answer = answer

    def run(self, model_bytes, feeds):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def judge(answer, case=None, *, provider=None, **options):
    """Returns the record of a case on a provider with this answer."""
    opened = Provider("mine", "1", None, ThirdPartyProvider(provider or Fixed(answer), "mine"))
    return Judge(opened, **options)(case or gather())


RIGHT = np.array([14, 12, 14, 11, 13], "<f4")
"""The output of `gather()`."""
