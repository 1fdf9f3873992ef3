"""Reads the values of a .npy file without trusting it: no pickles, and no size that the file does not have."""

from __future__ import annotations

import io
import math
import warnings
from typing import TYPE_CHECKING

from ...errors import InputError, shown
from ...tensors import DataType

if TYPE_CHECKING:
    import numpy


def npy_values(raw: bytes, data_type: DataType | None, *, path: str) -> bytes:
    """Returns the values of a .npy file in row-major order, little-endian.

    `raw` is the whole file, `data_type` the type that its values must have (None: any DirectML type), `path` the place
    in the JSON file for messages. Raises InputError if the file is no .npy file, has another type, or does not have the
    size that its header states.
    """
    import numpy

    shape, fortran_order, dtype, start = _read_header(raw, path)
    file_type = DataType.__members__.get(dtype.name.upper())
    if file_type is None:
        raise InputError(f"must be a .npy file of a DirectML data type, got {dtype.name}", path=path)
    if data_type is not None and file_type is not data_type:
        wanted = f"a .npy file of {data_type.name} (initialValuesDataType)"
        raise InputError(f"must be {wanted}, got {file_type.name}", path=path)
    wanted_size, size = math.prod(shape) * dtype.itemsize, len(raw) - start
    if wanted_size != size:
        wanted = f"{shown(wanted_size)} bytes of values, as its header says"
        raise InputError(f"must hold {wanted}, got {size}", path=path)
    try:
        flat = numpy.frombuffer(raw, dtype, offset=start)
        values = flat.reshape(shape, order="F" if fortran_order else "C")
    except (ValueError, OverflowError):  # negative sizes, more dimensions than NumPy has
        raise InputError(f"must be a .npy file, got one of shape {shown(shape)}", path=path) from None
    return numpy.ascontiguousarray(values, dtype=dtype.newbyteorder("<")).tobytes()


def _read_header(raw: bytes, path: str) -> tuple[tuple[int, ...], bool, numpy.dtype[numpy.generic], int]:
    """Returns the shape, whether the values are in Fortran's order, their type, and the place of the first one."""
    from numpy.lib import format

    readers = {
        (1, 0): format.read_array_header_1_0,
        (2, 0): format.read_array_header_2_0,
        (3, 0): format.read_array_header_2_0,
    }
    stream = io.BytesIO(raw)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of headers that Python 2 wrote
            version = format.read_magic(stream)
            if version not in readers:
                raise ValueError(f"unknown version {version}")
            shape, fortran_order, dtype = readers[version](stream)
            if not all(type(size) is int for size in shape):  # NumPy takes True for 1
                raise ValueError(f"its shape must be whole numbers, got {shown(shape)}")
            return shape, fortran_order, dtype, stream.tell()
    except Exception as error:  # NumPy evaluates the header's text, which raises TokenError, TypeError, IndexError, ...
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"must be a .npy file: {problem}", path=path) from None
