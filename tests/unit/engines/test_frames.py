"""Frames between the parent and its worker process."""

import io
import struct
import tracemalloc

import numpy as np
import pytest

from opmap.engines import frames
from opmap.engines.protocol import Placement
from opmap.engines.sessions import CPU
from opmap.engines.steps import Clear, Evidence, Result, Run
from opmap.limits import MAX_FRAME_BODY, MAX_FRAME_HEADER, MAX_MESSAGE, MAX_SIZES

pytestmark = pytest.mark.platform


def sent(message):
    """Returns a message after it went through a stream."""
    stream = io.BytesIO()
    frames.write(stream, frames.encode(message))
    stream.seek(0)
    received = frames.read(stream)
    assert frames.read(stream) is None
    return received


def sent_arrays(arrays):
    """Returns arrays after they went through a stream as the feeds of a run."""
    return sent(frames.Perform(Run(session="s", feeds=arrays), 1.0)).task.feeds


def frame(header, body=b""):
    """Returns a stream with a frame of this header and body."""
    return io.BytesIO(struct.pack("<4sIIQ", b"OPMF", frames.VERSION, len(header), len(body)) + header + body)


class TestFrames:
    """A frame that was written is read unchanged. Other bytes are refused."""

    @pytest.mark.parametrize("name", sorted(frames.TYPES))
    def test_types(self, name):
        arrays = {
            "a": np.arange(6).astype(name).reshape(2, 3),
            "scalar": np.array(1, name),
            "none": np.empty((0, 3), name),
            "b": np.arange(2).astype(name),
        }
        received = sent_arrays(arrays)
        assert list(arrays) == list(received)
        for expected, array in zip(arrays.values(), received.values(), strict=True):
            assert (expected.dtype, expected.shape, expected.tobytes()) == (array.dtype, array.shape, array.tobytes())

    def test_arrays_may_be_changed(self):
        """A provider may write into its inputs."""
        array = sent_arrays({"a": np.arange(3)})["a"]
        array[0] = 7
        assert [7, 1, 2] == array.tolist()

    def test_bits(self):
        """NaN payloads and -0 keep their bits."""
        bits = np.array([0x7F800001, 0xFFC12345, 0x80000000, 1], np.uint32)
        assert np.array_equal(bits, sent_arrays({"a": bits.view(np.float32)})["a"].view(np.uint32))

    def test_big_endian_and_strided(self):
        array = np.arange(12, dtype=">i4").reshape(3, 4)[:, ::2]
        assert np.array_equal(array, sent_arrays({"a": array})["a"])

    def test_not_copied(self):
        """A frame refers to the memory of an array: it may have gigabytes."""
        array = np.arange(6, dtype=np.int16).reshape(2, 3)
        _, (part,) = frames.encode(frames.Perform(Run(session="s", feeds={"a": array}), 1.0))
        assert np.shares_memory(array, np.frombuffer(part, np.uint8))
        assert array.tobytes() == part

    def test_evidence(self):
        evidence = Evidence(placement=Placement("profile", (("Gather", CPU),)), files={"a/b": np.arange(3)})
        received = sent(frames.Performed(Result(evidence=evidence))).result.evidence
        assert evidence.placement == received.placement
        assert [0, 1, 2] == received.files["a/b"].tolist()

    @pytest.mark.parametrize("array", [np.array(["a"], object), np.array(["a"]), np.zeros(1, np.complex64)])
    def test_refused_types(self, array):
        with pytest.raises(frames.FrameError, match="must have one of the types"):
            sent_arrays({"a": array})

    def test_cut_short(self):
        """Every beginning of a frame is refused, if it is not empty and not the whole frame."""
        stream = io.BytesIO()
        frames.write(stream, frames.encode(frames.Perform(Run(session="s", feeds={"a": np.arange(2)}), 1.0)))
        whole = stream.getvalue()
        for length in range(1, len(whole)):
            with pytest.raises(frames.FrameError):
                frames.read(io.BytesIO(whole[:length]))

    def test_limits_when_writing(self, monkeypatch):
        with pytest.raises(frames.FrameError, match="MAX_FRAME_HEADER"):
            frames.encode(frames.Refused("x" * MAX_FRAME_HEADER))
        monkeypatch.setattr(frames, "MAX_FRAME_BODY", 15)
        with pytest.raises(frames.FrameError, match="MAX_FRAME_BODY"):
            sent_arrays({"a": np.zeros(2)})
        assert MAX_FRAME_BODY > 15

    @pytest.mark.parametrize(
        ("head", "message"),
        [
            (b'{"type":"int8","sizes":[-1],"at":0}', "header is wrong"),
            (b'{"type":"int8","sizes":[3],"at":-1}', "header is wrong"),
            (b'{"type":"int8","sizes":[3],"at":1}', "an array needs 4 bytes, got 3"),
            (b'{"type":"int8","sizes":[1099511627776,1099511627776],"at":0}', "an array needs"),
            (b'{"type":"int8","sizes":[2],"at":0}', "must take 3 bytes, got 2"),
            (b'{"type":"object","sizes":[2],"at":0}', "header is wrong"),
            (b"7", "header is wrong"),
        ],
    )
    def test_wrong_arrays(self, head, message):
        """An array that does not lie in the body is refused before memory is taken for it."""
        header = b'{"kind":"perform","limit":1,"task":{"step":"run","session":"s","feeds":{"a":' + head + b"}}}"
        with pytest.raises(frames.FrameError, match=message):
            frames.read(frame(header, b"abc"))

    def test_unknown_step(self):
        with pytest.raises(frames.FrameError, match="header is wrong"):
            frames.read(frame(b'{"kind":"perform","limit":1,"task":{"step":"format"}}'))
        assert isinstance(frames.read(frame(b'{"kind":"perform","limit":1,"task":{"step":"clear"}}')).task, Clear)


class TestHostileFrames:
    """Bytes of a worker that went wrong cost neither the parent nor its memory."""

    @pytest.mark.parametrize(
        "header",
        [
            b'{"kind":"facts","facts":{"a":' + b'{"value":' * 100_000,
            b'{"kind":"end","x":' + b"[" * 100_000,
            b'{"kind":"refused","message":"\xbf"}',
            b'{"kind":"end","number":' + b"9" * 5_000 + b"}",
        ],
        ids=["nesting", "nesting of an unknown key", "no UTF-8", "digits"],
    )
    def test_headers(self, header):
        with pytest.raises(frames.FrameError, match="header is wrong"):
            frames.read(frame(header))

    def test_texts(self):
        """What msgspec quotes is cut and stands on one line."""
        with pytest.raises(frames.FrameError) as raised:
            frames.read(frame(b'{"kind":"a\\nb' + b"x" * 100_000 + b'"}'))
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 2 * MAX_MESSAGE

    def test_sizes(self):
        """They are counted before their product is computed."""
        head = b'{"type":"int8","at":0,"sizes":[' + b"9223372036854775807," * MAX_SIZES + b"1]}"
        header = b'{"kind":"perform","limit":1,"task":{"step":"run","session":"s","feeds":{"a":' + head + b"}}}"
        with pytest.raises(frames.FrameError, match=f"of length <= {MAX_SIZES}"):
            frames.read(frame(header, b"abc"))

    def test_memory(self):
        """Memory is taken for the bytes that come, not for those that a prefix promises."""
        stream = io.BytesIO(struct.pack("<4sIIQ", b"OPMF", frames.VERSION, 2, MAX_FRAME_BODY) + b"{}abc")
        tracemalloc.start()
        with pytest.raises(frames.FrameError, match="ends inside a frame"):
            frames.read(stream)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2**23

    def test_large_bodies(self):
        """A body comes in pieces of any size, and is put together unchanged."""

        class Slow(io.BytesIO):
            def readinto(self, buffer):
                return super().readinto(memoryview(buffer)[:300_001])

        array = np.arange(3 * 2**20, dtype=np.uint8).reshape(3, -1)
        stream = Slow()
        frames.write(stream, frames.encode(frames.Perform(Run(session="s", feeds={"a": array}), 1.0)))
        stream.seek(0)
        received = frames.read(stream).task.feeds["a"]
        assert np.array_equal(array, received)
        received[0] = 7
