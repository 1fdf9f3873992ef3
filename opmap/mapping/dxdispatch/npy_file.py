"""Reads the values of a .npy file without trusting it: no pickles, and no size that the file does not have."""

from __future__ import annotations

import io
import warnings

from ...errors import InputError
from ...tensors import DIRECTML_TYPES, DataType


def npy_values(raw: bytes, data_type: DataType | None, *, path: str) -> bytes:
    """Returns the values of a .npy file in row-major order, little-endian.

    `raw` is the whole file, `data_type` the type that its values must have (None: any DirectML type), `path` the place
    in the JSON file for messages. Raises InputError if the file is no .npy file, has another type, or does not have the
    size that its header states.
    """
    import numpy
    from numpy.lib import format

    stream = io.BytesIO(raw)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of headers that Python 2 wrote
            values = format.read_array(stream, allow_pickle=False)
    except (
        Exception
    ) as error:  # NumPy evaluates the header's text, which raises TokenError, TypeError, MemoryError, ...
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"must be a .npy file: {problem}", path=path) from None
    dtype, rest = values.dtype, len(raw) - stream.tell()
    file_type = next((t for t in DIRECTML_TYPES if t.name == dtype.name.upper()), None)
    if file_type is None:
        raise InputError(f"must be a .npy file of a DirectML data type, got {dtype.name}", path=path)
    if data_type is not None and file_type is not data_type:
        wanted = f"a .npy file of {data_type.name} (initialValuesDataType)"
        raise InputError(f"must be {wanted}, got {file_type.name}", path=path)
    if rest:
        wanted = f"{values.nbytes} bytes of values, as its header says"
        raise InputError(f"must hold {wanted}, got {values.nbytes + rest}", path=path)
    return numpy.ascontiguousarray(values, dtype=dtype.newbyteorder("<")).tobytes()
