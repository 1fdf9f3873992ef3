"""Redaction: names of users and hosts, and paths, are taken out of texts; nothing else is."""

from __future__ import annotations

import getpass
import os
import platform
from pathlib import Path

import pytest

from opmap.engines.machine.facts import Fact
from opmap.reports.redaction import Redactor, summary, texts, without_folders

pytestmark = pytest.mark.platform


def redact(text: str) -> tuple[str, dict[str, list[str]]]:
    """Returns the text without names and paths, and what was taken out."""
    redactor = Redactor()
    return redactor(text), redactor.removed


class TestPaths:
    """Paths in messages and in JSON."""

    @pytest.mark.parametrize(
        ("text", "left"),
        [
            (r"cannot open C:\Users\lena m\AppData\x.dll: error 5", "cannot open <path>/x.dll: error 5"),
            (r'{"path":"C:\\Users\\lena\\DirectML.dll","v":"1.15"}', '{"path":"<path>/DirectML.dll","v":"1.15"}'),
            (r"C:\Users\lena is full", "<path> is full"),
            ("C:/rig/d.dll and gather/float32", "<path>/d.dll and gather/float32"),
            (r"loaded (Z:\opt\rig\d.dll), 2 of 5", "loaded (<path>/d.dll), 2 of 5"),
            (r"\\server7\share\x\y.onnx", "<path>/y.onnx"),
            ("/opt/venv/lib/x.so failed", "<path>/x.so failed"),
            ("[/opt/venv/lib]", "[<path>]"),
            ("file:///srv/models/x.onnx", "<path>/x.onnx"),
            ("--dml-runtime=/srv/rig/now", "--dml-runtime=<path>"),
        ],
    )
    def test_taken_out(self, text, left):
        """The folders go; the file's name stays if it has an extension."""
        assert left == redact(text)[0]

    @pytest.mark.parametrize(
        "text",
        [
            "https://learn.microsoft.com/windows/win32/api/x",
            "gather/float32/d3.axis1.k2/int64.dups.init/special.60f52e/own-queue",
            "and/or 1/2, 3 of 5 elements; input {1,3}, [0, 1]: a \\ b",
            r"onnxruntime\core\providers\dml\x.cpp(12) 80070057",
            "$.dispatchables.x.desc.InputTensor.Sizes[0] must be 1",
        ],
    )
    def test_stays(self, text):
        """Addresses of pages, case ids and relative paths stay."""
        assert (text, {}) == redact(text)

    def test_folders_of_this_machine(self, monkeypatch, tmp_path):
        """The current folder and the home folder go, also with spaces in them."""
        folder = tmp_path / "a b" / "c d"
        folder.mkdir(parents=True)
        monkeypatch.chdir(folder)

        text, removed = redact(f"in {folder} and {folder / 'e.json'}")

        assert "in <path> and <path>/e.json" == text
        assert [str(folder), str(folder / "e.json")] == removed["path"]


class TestLibraries:
    """The facts of a bundle have no folder of a library."""

    CAPI = r"Z:\rig\py\Lib\site-packages\onnxruntime\capi"

    @pytest.mark.parametrize(
        ("path", "left"),
        [
            (rf"{CAPI}\DirectML.dll", "<runtime>/DirectML.dll"),
            (r"C:\Users\O'Brien, J\venv\onnxruntime\capi\DirectML.dll", "<runtime>/DirectML.dll"),
            ("/home/lena/v/onnxruntime/capi/libonnxruntime.so.1.32.0", "<runtime>/libonnxruntime.so.1.32.0"),
            (r"C:\Users\lena m\sdk (x86)\D3D12Core.dll", "<home>/D3D12Core.dll"),
            ("/home/lena/build/libmine.so", "<home>/libmine.so"),
            (r"C:\windows\system32\d3d12.dll", "d3d12.dll"),
            (r"\\server7\share\DirectML.dll", "DirectML.dll"),
            ("/opt/home/lena/libmine.so", "libmine.so"),
            ("DirectML.dll", "DirectML.dll"),
        ],
    )
    def test_module(self, path, left):
        """A module has its digest and its version as before."""
        module = {"path": path, "file_version": "1.15.4.0", "sha256": "a1", "error": None}

        facts = without_folders({"loaded_modules": Fact([module], "EnumProcessModulesEx")})

        assert {"loaded_modules": Fact([module | {"path": left}], "EnumProcessModulesEx")} == facts

    def test_own_home(self, monkeypatch):
        """The home of this user counts, wherever it is."""
        home = str(Path("/srv/lena").absolute())
        monkeypatch.setattr(Path, "home", lambda: Path(home))
        modules = [{"path": f"{home}{os.sep}libmine.so"}, {"path": f"{home}s{os.sep}libmine.so"}]

        facts = without_folders({"loaded_modules": Fact(modules, "s")})

        assert [{"path": "<home>/libmine.so"}, {"path": "libmine.so"}] == facts["loaded_modules"].value

    @pytest.mark.parametrize(
        ("error", "left"),
        [
            ("OSError: /opt/v/onnxruntime/capi/x.so: no symbol", "OSError: <runtime>/x.so: no symbol"),
            (r"cannot open C:\Users\lena\x.dll: error 5", "cannot open <home>/x.dll: error 5"),
            ("cannot open /etc/opmap/x.toml", "cannot open /etc/opmap/x.toml"),
            ("in /opt/plugins", "in /opt/plugins"),
            (None, None),
        ],
    )
    def test_error(self, error, left):
        """An error names a library too. Any other path stays, and so does what is no text."""
        fact = Fact({"version": "1.30.0", "devices": [{"number": 1, "found": True, "name": error}]}, "s", error)

        value = {"version": "1.30.0", "devices": [{"number": 1, "found": True, "name": left}]}
        assert {"onnxruntime": Fact(value, "s", left)} == without_folders({"onnxruntime": fact})


class TestNames:
    """Users and hosts."""

    def test_this_machine(self, monkeypatch):
        """The user and the host of this machine, as words, in any case."""
        monkeypatch.setattr(getpass, "getuser", lambda: "lena")
        monkeypatch.setattr(platform, "node", lambda: "gpu-17.lab.example")
        text, removed = redact("LENA ran it on GPU-17, and on gpu-17.lab.example; lenas gpu-170")

        assert "<user> ran it on <host>, and on <host>; lenas gpu-170" == text
        assert {"user": ["LENA"], "host": ["gpu-17.lab.example", "GPU-17"]} == removed

    @pytest.mark.parametrize("name", ["root", "runneradmin", "ab"])
    def test_generic(self, name, monkeypatch):
        """A generic or very short name stays: it says nothing, and stands in other words."""
        monkeypatch.setattr(getpass, "getuser", lambda: name)

        assert f"{name} of the tree" == redact(f"{name} of the tree")[0]

    @pytest.mark.parametrize("path", ["/home/lena/x.so", r"C:\Users\lena\x.dll", r"C:\\Users\\lena\\x.dll"])
    def test_learned_from_paths(self, path):
        """The name in a path of another machine goes from the other texts too."""
        redactor = Redactor()
        redactor.learn([path])

        assert "by <user>" == redactor("by lena")

    def test_no_user(self, monkeypatch):
        """A container may have neither a name nor a home for its user."""

        def nobody():
            raise KeyError("getpwuid(): uid not found: 12345")

        for name in ("USER", "USERNAME", "LOGNAME", "COMPUTERNAME", "HOSTNAME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(getpass, "getuser", nobody)
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
        monkeypatch.setattr(os, "getcwd", lambda: "/")

        assert ("text", {}) == redact("text")


def test_texts():
    """Every text in a document is found, also a key and the value of a fact."""
    assert ["a", "b", "c", "d", "e"] == list(texts([{"a": 1, "b": {"c": None}}, Fact(["d"], "source"), ("e",)]))


def test_summary():
    """The summary says how much was taken out, not what."""
    assert "nothing" == summary({})
    assert "2 paths, 1 user name" == summary({"user": ["lena"], "path": ["/a/b", "/a/c"]})


def test_long_text():
    """A long text without a path, or with the beginnings of many, is no work."""
    for part in ("a/", "C:\\", "\\\\", "/a", "C:\\a b"):
        redact(part * 20_000)
