"""Judges cases with large tensors: runs the model, and checks a sample of the output's elements."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np

from ..cases.large_tensors import LargeCase
from ..engines.arrays import dtype_of, only_output, to_array
from ..engines.frames import FrameError
from ..engines.providers import Provider
from ..errors import ProviderError
from ..mapping import convert, map_descriptor
from ..vocabulary import Verdict
from .decide import decide_model, error_fields
from .record import Record


def judge_large(case: LargeCase, provider: Provider) -> Record:
    """Returns the record of a case with large tensors. Its message says how many elements were checked.

    It is `not-run` if there is not enough memory, or if the tensors cannot be sent to a worker process.
    """
    record = Record.on(provider, case.id, f"DML_OPERATOR_{case.desc.operator}", verdict=Verdict.PASS)
    if provider.runs_cases:
        return _with(
            record, Verdict.NOT_RUN, f"{provider.name} runs cases, and --large needs a provider that runs models"
        )
    mapped = map_descriptor(case.desc, index_conversion=provider.index_conversion)
    try:
        feeds = {
            name: to_array(convert(case.indices[name], data_type)) if name in case.indices else case.data()
            for name, data_type in mapped.feeds.items()
        }
        result = provider.performer.run_once(mapped.model_bytes, feeds)
    except MemoryError:
        return _with(record, Verdict.NOT_RUN, _NO_MEMORY)
    except FrameError as error:
        return _with(record, Verdict.NOT_RUN, str(error))
    except ProviderError as error:
        if _OUT_OF_MEMORY.search(str(error)):
            return _with(record, Verdict.NOT_RUN, f"{_NO_MEMORY}: {error}")
        return msgspec.structs.replace(record, **error_fields(error))
    output = case.desc.output
    actual = only_output(result, dtype_of(output.data_type), output.sizes)
    if isinstance(actual, str):
        return decide_model(record, provider, result, actual)
    sample, wrong = case.sample(), _wrong(case, actual)
    checked = f"checked {len(sample):,} of {output.element_count:,} elements, chosen by the case id"
    if wrong:
        return decide_model(record, provider, result, f"{checked}: {len(wrong):,} differ, the first: {wrong[0]}")
    record = decide_model(record, provider, result, None)
    return _with(record, record.verdict, "; ".join(filter(None, [record.message, checked])))


_NO_MEMORY = "there is not enough memory for the tensors"

_OUT_OF_MEMORY = re.compile(r"\b8007000E\b|Failed to allocate memory|bad alloc")
"""What the DirectML EP and the CPU EP say if they cannot allocate memory: E_OUTOFMEMORY, or words."""


def _with(record: Record, verdict: Verdict, message: str) -> Record:
    return msgspec.structs.replace(record, verdict=verdict, message=message)


def _wrong(case: LargeCase, actual: np.ndarray[Any, Any]) -> list[str]:
    """Returns a text for each element of the sample that differs from the one that the page's pseudocode names."""
    output, wrong = case.desc.output, []
    bits = np.ascontiguousarray(actual, dtype_of(output.data_type)).reshape(-1).view(f"<u{output.data_type.size}")
    for address in case.sample():
        at = tuple(int(c) for c in np.unravel_index(address, output.sizes))
        origin = case.desc.trace(at, case.indices)
        assert origin.address is not None, "every index is in range"
        expected, got = case.value(origin.address), int(bits[address])
        if expected != got:
            wrong.append(f"{origin.text} = {expected:#x}, got {got:#x}")
    return wrong
