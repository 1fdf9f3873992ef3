"""The debug layers of Direct3D 12 and DirectML, on objects made of Python functions."""

from __future__ import annotations

import ctypes
import struct
from ctypes import c_size_t

import pytest
from fake_com import FakeCom

from opmap.cli import main
from opmap.engines.directml import libraries
from opmap.engines.directml.debugging import DebugMessages
from opmap.engines.directml.device import Device
from opmap.engines.directml.hresults import CallFailed
from opmap.engines.directml.structs import D3D12_MESSAGE
from opmap.errors import InputError
from opmap.limits import MAX_DEBUG_MESSAGE_BYTES, MAX_DEBUG_MESSAGES, MAX_LINE

pytestmark = [
    pytest.mark.platform,
    pytest.mark.skipif(struct.calcsize("P") != 8, reason="the structs are laid out for 64 bits"),
]

NO_INTERFACE, MISSING = -2147467262, -2005270483
INSTALL = (
    "--debug-layer needs the debug layers: Windows' optional feature Graphics Tools, and DirectML.Debug.dll beside"
)


class FakeQueue(FakeCom):
    """An ID3D12InfoQueue with messages: severity, id, text."""

    def __init__(self, stored):
        self.stored, self.read = stored, 0
        super().__init__("ID3D12InfoQueue", [], {}, [])

    def _method(self, method):
        usual = super()._method(method)
        return {
            "GetNumStoredMessages": lambda this: len(self.stored),
            "ClearStoredMessages": lambda this: self.stored.clear(),
            "GetMessage": self._message,
        }.get(method, usual)

    def _message(self, this, index, memory, length):
        severity, number, text = self.stored[index]
        size = ctypes.sizeof(D3D12_MESSAGE)
        c_size_t.from_address(length).value = size + len(text)
        if memory:
            self.read += 1
            ctypes.memmove(memory + size, text, len(text))
            message = D3D12_MESSAGE.from_address(memory)
            message.Severity, message.ID = severity, number
            message.pDescription, message.DescriptionByteLength = memory + size, len(text)
        return 0


@pytest.fixture
def queue():
    """An info queue, and the messages that are read from it."""
    fake = FakeQueue([(1, 1, b"from before\0")])
    return fake, DebugMessages(fake.com)


class TestMessages:
    """The messages of an info queue."""

    def test_they_are_taken_once_and_those_from_before_are_dropped(self, queue):
        fake, messages = queue
        assert [] == messages.take()
        fake.stored += [(1, 1315, b"a tensor\r\nis wrong\0"), (2, 7, b"slow\0"), (0, 8, b"memory\0")]
        wanted = ["error 1315: a tensor is wrong", "warning 7: slow", "corruption 8: memory"]
        assert [f"debug layer: {text}" for text in wanted] == messages.take()
        assert [] == messages.take()

    def test_information_is_left_out(self, queue):
        fake, messages = queue
        fake.stored += [(3, 1, b"created\0"), (4, 2, b"hello\0"), (9, 3, b"new\0")]
        assert [] == messages.take()

    def test_only_the_first_ones_are_told(self, queue):
        fake, messages = queue
        fake.stored += [(2, 1, b"m\0")] * (MAX_DEBUG_MESSAGES + 3)
        told = messages.take()
        assert (MAX_DEBUG_MESSAGES + 1, "debug layer: ... and 3 more") == (len(told), told[-1])

    def test_a_long_one_is_cut_and_a_longer_one_is_not_read(self, queue):
        fake, messages = queue
        fake.stored += [(1, 1, b"x" * (MAX_LINE + 1) + b"\0"), (1, 2, b"x" * MAX_DEBUG_MESSAGE_BYTES)]
        cut, refused = messages.take()
        assert "(23 more characters)" == cut[MAX_LINE:].removeprefix("... ")
        assert f"must have at most {MAX_DEBUG_MESSAGE_BYTES} bytes (MAX_DEBUG_MESSAGE_BYTES)" in refused
        assert 1 == fake.read

    def test_bytes_that_are_no_text_are_replaced(self, queue):
        fake, messages = queue
        fake.stored.append((1, 1, b"\xff\0rest"))
        assert ["debug layer: error 1: \ufffd"] == messages.take()


class TestDevice:
    """A device with the debug layers on."""

    @staticmethod
    def opened(log, made, fails, debug=True):
        def directml(device, debug=False):
            log.append(f"DMLCreateDevice1 debug={debug}")
            return FakeCom("IDMLDevice1", log, fails, made).com

        return Device(
            direct3d=lambda adapter: FakeCom("ID3D12Device", log, fails, made).com,
            directml=directml,
            debug=debug,
            enable_debug=lambda: log.append("EnableDebugLayer"),
        )

    def test_the_layer_is_on_before_the_device_exists_and_directml_has_the_flag(self):
        log, made = [], []
        device = self.opened(log, made, {})
        assert "EnableDebugLayer" == log[0]
        assert "DMLCreateDevice1 debug=True" in log
        assert device.messages is not None and [] == device.messages.take()
        device.renew_directml()
        assert 2 == log.count("DMLCreateDevice1 debug=True")
        device.close()
        assert {0} == {fake.references for fake in made}

    def test_a_device_without_an_info_queue_has_no_layer(self):
        made = []
        with pytest.raises(InputError, match=INSTALL):
            self.opened([], made, {"ID3D12Device::QueryInterface": NO_INTERFACE})
        assert {0} == {fake.references for fake in made}


class _Library:
    """A DLL whose functions return an HRESULT, and give the object if that is no failure."""

    _name = "fake.dll"

    def __init__(self, result, created=None):
        self.given = None

        def function(*arguments):
            self.given = arguments
            if created:
                arguments[-1]._obj.value = created.address
            return result

        self.D3D12GetDebugInterface = self.DMLCreateDevice1 = function


class TestLibraries:
    """The functions that turn the layers on."""

    def test_enable_debug_layer_is_called_and_the_object_released(self, monkeypatch):
        fake = FakeCom("ID3D12Debug", [], {}, [])
        monkeypatch.setattr(libraries, "_load", lambda *_: _Library(0, fake))
        libraries.enable_debug_layer()
        assert (["ID3D12Debug::EnableDebugLayer", "ID3D12Debug::Release"], 0) == (fake.log, fake.references)

    @pytest.mark.parametrize("old", [False, True], ids=["not-installed", "too-old"])
    def test_without_the_layer_of_direct3d_one_line_says_what_to_install(self, monkeypatch, old):
        library = _Library(MISSING)
        if old:
            del library.D3D12GetDebugInterface
        monkeypatch.setattr(libraries, "_load", lambda *_: library)
        with pytest.raises(InputError, match=INSTALL) as error:
            libraries.enable_debug_layer()
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize(("debug", "flag"), [(True, 1), (False, 0)])
    def test_directml_is_given_the_flag(self, monkeypatch, debug, flag):
        library = _Library(0, FakeCom("IDMLDevice1", [], {}, []))
        monkeypatch.setattr(libraries, "_load", lambda *_: library)
        libraries.directml_device(FakeCom("ID3D12Device", [], {}, []).com, debug=debug)
        assert flag == library.given[1]

    @pytest.mark.parametrize(
        ("debug", "result", "error"),
        [(True, MISSING, InputError), (False, MISSING, CallFailed), (True, NO_INTERFACE, CallFailed)],
    )
    def test_without_the_layer_of_directml_one_line_says_what_to_install(self, monkeypatch, debug, result, error):
        monkeypatch.setattr(libraries, "_load", lambda *_: _Library(result))
        with pytest.raises(error, match=INSTALL if error is InputError else "DMLCreateDevice1"):
            libraries.directml_device(FakeCom("ID3D12Device", [], {}, []).com, debug=debug)


class TestCommand:
    """The option `--debug-layer`."""

    @pytest.mark.parametrize("provider", ["dml"])
    def test_another_provider_refuses_it(self, provider, capsys):
        assert 2 == main(["validate", "--provider", provider, "--case", "gather/example.1", "--debug-layer"])
        assert f"opmap: --debug-layer is for --provider directml, got {provider}\n" == capsys.readouterr().err
