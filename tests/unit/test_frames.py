"""Frames between the parent and its worker process."""

import io
import struct

import numpy as np
import pytest

from opmap.execution import frames
from opmap.execution.protocol import Placement
from opmap.execution.sessions import CPU
from opmap.limits import MAX_FRAME_BODY, MAX_FRAME_HEADER


class TestFrames:
    """A frame that was written is read unchanged. Other bytes are refused."""

    @pytest.mark.parametrize("name", sorted(frames._TYPES))
    def test_types(self, name):
        arrays = {
            "a": np.arange(6).astype(name).reshape(2, 3),
            "scalar": np.array(1, name),
            "none": np.empty((0, 3), name),
        }
        heads, parts = frames.pack(arrays)
        stream = io.BytesIO()
        frames.write(stream, frames.Run(2, heads, 1.0), [b"mm", *parts])
        stream.seek(0)
        message, body = frames.read(stream)
        assert b"mm" == body[:2]
        unpacked = frames.unpack(message.feeds, body, 2)
        assert list(arrays) == [head.name for head in message.feeds]
        for expected, array in zip(arrays.values(), unpacked, strict=True):
            assert (expected.dtype, expected.shape, expected.tobytes()) == (array.dtype, array.shape, array.tobytes())
        assert frames.read(stream) is None

    def test_bits(self):
        """NaN payloads and -0 keep their bits."""
        bits = np.array([0x7F800001, 0xFFC12345, 0x80000000, 1], np.uint32)
        heads, parts = frames.pack([bits.view(np.float32)])
        assert np.array_equal(bits, frames.unpack(heads, bytearray(b"".join(parts)))[0].view(np.uint32))

    def test_big_endian_and_strided(self):
        array = np.arange(12, dtype=">i4").reshape(3, 4)[:, ::2]
        heads, parts = frames.pack([array])
        assert np.array_equal(array, frames.unpack(heads, bytearray(b"".join(parts)))[0])

    def test_placement(self):
        stream = io.BytesIO()
        placement = Placement("profile", (("Gather", CPU),))
        frames.write(stream, frames.Outputs([], placement))
        stream.seek(0)
        assert placement == frames.read(stream)[0].placement

    @pytest.mark.parametrize("array", [np.array(["a"], object), np.array(["a"]), np.zeros(1, np.complex64), [1]])
    def test_refused_types(self, array):
        with pytest.raises(frames.FrameError, match="must have one of the types"):
            frames.pack([array])

    def test_cut_short(self):
        """Every beginning of a frame is refused, if it is not empty and not the whole frame."""
        stream = io.BytesIO()
        frames.write(stream, frames.Run(1, [], 1.0), [b"m"])
        whole = stream.getvalue()
        for length in range(1, len(whole)):
            with pytest.raises(frames.FrameError):
                frames.read(io.BytesIO(whole[:length]))

    def test_limits_when_writing(self):
        class Long(bytes):
            def __len__(self):
                return MAX_FRAME_BODY + 1

        with pytest.raises(frames.FrameError, match="MAX_FRAME_BODY"):
            frames.write(io.BytesIO(), frames.Inspect(), [Long()])
        with pytest.raises(frames.FrameError, match="MAX_FRAME_HEADER"):
            frames.write(io.BytesIO(), frames.Failed("x" * MAX_FRAME_HEADER, "run"))

    def test_negative_sizes(self):
        header = b'{"kind":"outputs","arrays":[{"type":"int8","sizes":[-1]}],"placement":null}'
        with pytest.raises(frames.FrameError, match="header is wrong"):
            frames.read(io.BytesIO(struct.pack("<4sIIQ", b"OPMF", frames.VERSION, len(header), 0) + header))
