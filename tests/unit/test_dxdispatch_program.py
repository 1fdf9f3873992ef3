"""DxDispatch as a third opinion: a program on PATH stands in for it, which interprets the file that it is given."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from planted_providers import Planted

from opmap.catalogue.catalogue import catalogue
from opmap.catalogue.layouts import in_layout
from opmap.diagnosis.sides import sides_json, whose_fault
from opmap.engines.dxdispatch_program import dxdispatch_program, run_dxdispatch
from opmap.engines.providers import OpenProvider
from opmap.engines.sessions import CPU, DIRECTML, SessionProvider
from opmap.errors import ProviderError
from opmap.evidence.reproducers.dxdispatch_files import DXDISPATCH, dxdispatch_files
from opmap.judge.judge import Judge
from opmap.judge.record import Record
from opmap.mapping.dxdispatch import read
from opmap.vocabulary import Verdict

IDS = ("gather/example.1", "gather_elements/uint8/d2.axis1/int64.neg/addr0.ad5be3")
CASES = {case.id: case for case in catalogue("smoke", IDS)}
GATHER, ELEMENTS = map(CASES.get, IDS)

PROGRAM = """
import sys
from pathlib import Path
from opmap.mapping.dxdispatch import laid_out, read
from opmap.tensors import Tensor

fault = {fault!r}
print("Running on 'one'")
if fault == "fails":
    print("Failed to execute the model: no such device")
    sys.exit(1)
if fault == "hangs":
    import time
    time.sleep(20)
assert sys.argv[1:] == ["dxdispatch.json"] or sys.argv[1:3] == ["dxdispatch.json", "-a"], sys.argv
(dispatch,) = read(sys.argv[1])
desc = dispatch.desc
bits = list(desc.interpret(dispatch.tensors))
if fault == "wrong":
    bits = [99] * len(bits)
memory = laid_out(desc.output, Tensor(desc.output.data_type, desc.output.sizes, bits)).to_bytes()
if fault == "short":
    memory = memory[:1]
if fault != "silent":
    Path("dxdispatch_output.bin").write_bytes(memory + bytes(-len(memory) % 4))
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Puts a program `dxdispatch` with a planted fault on PATH. Returns its path."""

    def install(fault=""):
        script = tmp_path / "program.py"
        script.write_text(PROGRAM.format(fault=fault), encoding="utf-8")
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        windows = sys.platform == "win32"
        program = folder / ("dxdispatch.bat" if windows else "dxdispatch")
        start = (
            f'@"{sys.executable}" "{script}" %*' if windows else f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"'
        )
        program.write_bytes(f"{start}\n".encode())
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        return dxdispatch_program()

    return install


class TestProgram:
    """The program is found on PATH, and its output is read from the file that it writes."""

    @pytest.mark.parametrize("layout", [None, "strides", "padding"])
    @pytest.mark.parametrize("case", [GATHER, ELEMENTS], ids=IDS)
    def test_output(self, case, layout, installed):
        """The file holds each tensor as its strides and sizes say, so that the documented output comes back."""
        case = in_layout(case, layout) if layout else case
        output = run_dxdispatch(installed(), case, adapter="one")
        assert list(case.expected) == list(output.bits)

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("fails", "ended with exit code 1: Running on 'one' Failed to execute the model: no such device"),
            ("silent", "wrote no output: Running on 'one'"),
            ("short", "must write 20 bytes of output, got 4"),
            ("hangs", "did not end within 0.5 s"),
        ],
    )
    def test_no_answer(self, fault, message, installed):
        program = installed(fault)
        with pytest.raises(ProviderError) as error:
            run_dxdispatch(program, GATHER, seconds=0.5 if fault == "hangs" else 60)
        assert message == str(error.value)

    def test_other_adapter(self, installed):
        """`-a` takes a part of a name, so that it may choose another adapter."""
        program = installed()
        with pytest.raises(ProviderError, match="must run on on, got one"):
            run_dxdispatch(program, GATHER, adapter="on")

    def test_current_folder(self, installed, monkeypatch):
        """A program that somebody left in the current folder is not started."""
        program = installed()
        monkeypatch.chdir(Path(program).parent)
        assert dxdispatch_program() is None

    def test_missing(self, monkeypatch):
        monkeypatch.setenv("PATH", "")
        assert dxdispatch_program() is None


class TestFile:
    """The exported file, read again."""

    @pytest.mark.parametrize("layout", ["strides", "padding"])
    @pytest.mark.parametrize("case", CASES.values(), ids=CASES)
    def test_layout(self, case, layout, tmp_path):
        """A tensor with strides lies in its resource as the strides say."""
        laid_out = in_layout(case, layout)
        for name, content in dxdispatch_files(laid_out, laid_out.round).items():
            (tmp_path / name).write_bytes(content)
        (dispatch,) = read(tmp_path / DXDISPATCH)
        assert laid_out.desc == dispatch.desc
        for name, tensor in laid_out.tensors.items():
            assert list(tensor.bits) == list(dispatch.tensors[name].bits)


def failing(provider, value=99):
    """Returns a function that opens a provider of this name, which gives `value`; on the CPU EP all is right."""

    @contextmanager
    def open_with(*entries, **options):
        if options.get("provider") == "cpu":
            yield Judge(OpenProvider(CPU, None, "hardware", SessionProvider(CPU)))
        else:
            yield Judge(OpenProvider(options.get("provider", provider), None, "emulated", Planted(value), "one"))

    return open_with


class TestThirdOpinion:
    """What DxDispatch says of a case that fails on the DirectML EP."""

    @pytest.mark.parametrize(
        ("fault", "word", "text"),
        [
            ("", "right", "DxDispatch gives the documented output: the EP or the mapping is in question"),
            (
                "wrong",
                "same",
                "DxDispatch gives the same wrong output: DirectML, or the driver below it, is in question",
            ),
            ("fails", None, "DxDispatch gives no answer: it ended with exit code 1"),
        ],
    )
    def test_opinion(self, fault, word, text, installed):
        installed(fault)
        found = whose_fault(ELEMENTS, Record(verdict=Verdict.MISMATCH), failing(DIRECTML), runs=1)
        assert (word, word) == (found.dxdispatch, sides_json(found)["dxdispatch"])
        assert text in str(found)

    def test_other(self, installed):
        """Another wrong output than that of the provider."""
        installed("wrong")
        found = whose_fault(ELEMENTS, Record(verdict=Verdict.MISMATCH), failing(DIRECTML, 7), runs=1)
        assert "other" == found.dxdispatch

    @pytest.mark.parametrize("provider", [CPU, DIRECTML])
    def test_not_asked(self, provider, installed, monkeypatch):
        """It is asked for DirectML alone, and only where it is installed."""
        if provider == CPU:
            installed()
        else:
            monkeypatch.setenv("PATH", "")
        found = whose_fault(ELEMENTS, Record(verdict=Verdict.MISMATCH), failing(provider), runs=1)
        assert found.dxdispatch is None
        assert "DxDispatch" not in str(found)
