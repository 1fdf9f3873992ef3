"""Packs of a rig (tools/dml_linux): parts with sums, made of little files here, and what is refused when they are
unpacked."""

import errno
import hashlib
import io
import json
import lzma
import os
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools" / "dml_linux"

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a rig runs on Linux only"),
    pytest.mark.skipif(not TOOLS.is_dir(), reason="only the tests are here"),
]


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(machine="x86_64"))


@pytest.fixture
def rig(tmp_path, monkeypatch):
    """A little folder with the shape of a rig.

    Its programs load one library, and the strip program removes the letter `d`.
    """
    import pack

    folder = tmp_path / "rig"
    unix, windows = folder / "root" / pack.MULTIARCH, folder / "root" / pack.WINE
    for path in (unix, windows, folder / "root/usr/bin", folder / "root/usr/share/doc", folder / "work/pfx/dosdevices"):
        path.mkdir(parents=True)
    (folder / "root/usr/bin/dash").write_text("dash")
    (folder / "root/usr/bin/dash").chmod(0o755)
    (folder / "root/usr/bin/sh").symlink_to("/usr/bin/dash")
    (folder / "root/bin").symlink_to("usr/bin")
    (folder / "root/usr/share/doc/long").write_text("documentation")
    for name in ("libneeded.so.1", "libunused.so.1", "libvulkan_lvp.so"):
        (unix / name).write_text(name)
    (windows / "a.dll").write_text("MZ a ddd")
    (windows / "liba.a").write_text("static")
    (folder / "work/pfx/a.dll").write_text("MZ a ddd")
    (folder / "work/pfx/.update-timestamp").write_text("123")
    (folder / "work/pfx/dosdevices/z:").symlink_to("/")
    (folder / "work/opmap-1234").mkdir()
    (folder / "work/opmap-1234/x").touch()
    (folder / "manifest.json").write_text('{"python": {"version": "3.11.9"}}')
    monkeypatch.setattr(pack, "libraries", lambda root, programs: {f"/{pack.MULTIARCH}/libneeded.so.1"})
    return SimpleNamespace(root=folder / "root", work=folder / "work", manifest=folder / "manifest.json")


@pytest.fixture
def linux(tmp_path):
    """The folder of opmap's packages for Linux."""
    (tmp_path / "linux/opmap/__pycache__").mkdir(parents=True)
    (tmp_path / "linux/bin").mkdir()
    for name in ("opmap/a.py", "opmap/__pycache__/a.pyc", "bin/opmap", "opmap-1.dist-info.txt"):
        (tmp_path / "linux" / name).write_text(name)
    return tmp_path / "linux"


@pytest.fixture
def packed(rig, linux, tmp_path):
    """Packs the little rig into parts of 100 bytes."""
    import pack

    def strip(script):
        for path in (rig.work / "pack").iterdir():
            path.write_text(path.read_text().replace("d", ""))

    def make(name="parts", size=100, software=False):
        folder = tmp_path / name
        folder.mkdir()
        pack.pack(rig, folder, size, software, strip, linux, [("dml_linux.py", TOOLS / "unpack.py")])
        return folder

    return make


def files(folder):
    """Returns all files and links below a folder, with their contents."""
    paths = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_text() for path in paths
    }


class TestPack:
    """A pack has what is needed to run, and nothing else."""

    def test_contents(self, packed, tmp_path):
        import unpack

        unpack.unpack(packed(), tmp_path / "new")
        got = files(tmp_path / "new")

        assert (TOOLS / "unpack.py").read_text() == got.pop("dml_linux.py")
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        assert {"software": False, "linux": python} == json.loads(got.pop("state/packed.json"))
        packages = "work/py/Lib/site-packages/"
        assert {
            "root/bin": "usr/bin",
            "root/usr/bin/sh": "dash",
            "root/usr/bin/dash": "dash",
            "root/usr/lib/x86_64-linux-gnu/libneeded.so.1": "libneeded.so.1",
            "root/usr/lib/x86_64-linux-gnu/wine/x86_64-windows/a.dll": "MZ a ",
            "work/pfx/a.dll": "MZ a ",
            "work/pfx/.update-timestamp": "disable\n",
            "work/pfx/dosdevices/z:": "../../..",
            "linux/opmap/a.py": "opmap/a.py",
            "linux/opmap-1.dist-info.txt": "opmap-1.dist-info.txt",
            f"{packages}opmap/a.py": "opmap/a.py",
            f"{packages}opmap-1.dist-info.txt": "opmap-1.dist-info.txt",
            "manifest.json": '{"python": {"version": "3.11.9"}}',
            "state/vulkan.json": '{"choice": "host"}\n',
        } == got
        assert stat.S_IMODE(0o755) == stat.S_IMODE((tmp_path / "new/root/usr/bin/dash").stat().st_mode)
        assert (tmp_path / "new/root/proc").is_dir() and (tmp_path / "new/log").is_dir()

    def test_software(self, packed, tmp_path):
        """lavapipe is there only if it was asked for; a rig without it starts with the host's drivers."""
        import unpack

        unpack.unpack(packed(software=True), tmp_path / "new")
        got = files(tmp_path / "new")
        assert "root/usr/lib/x86_64-linux-gnu/libvulkan_lvp.so" in got
        assert '{"choice": "software"}\n' == got["state/vulkan.json"]

    def test_deterministic(self, packed, rig):
        """The same files give the same bytes, whenever they were written."""
        one = packed("one")
        os.utime(rig.root / "usr/bin/dash", (0, 0))
        two = packed("two")
        assert {p.name: p.read_bytes() for p in one.iterdir()} == {p.name: p.read_bytes() for p in two.iterdir()}

    def test_parts(self, packed):
        """No part is larger than asked for, and the manifest has the sum of each."""
        parts = packed()
        manifest = json.loads((parts / "pack.json").read_text())
        assert len(manifest["parts"]) > 3
        for part in manifest["parts"]:
            content = (parts / part["name"]).read_bytes()
            assert (len(content), hashlib.sha256(content).hexdigest()) == (part["bytes"], part["sha256"])
            assert len(content) <= 100

    def test_program(self, packed, tmp_path):
        """The pack's own program unpacks it, with the standard library alone."""
        parts = packed()
        command = [sys.executable, "-I", "-S", str(parts / "unpack.py"), str(parts), str(tmp_path / "new")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (0, "") == (done.returncode, done.stderr)
        assert f"python3 {tmp_path}/new/dml_linux.py doctor {tmp_path}/new" in done.stdout
        assert (tmp_path / "new/manifest.json").is_file()

        done = subprocess.run(command, capture_output=True, text=True)
        assert (2, f"unpack: DIR must be a new folder or an empty one, got {tmp_path}/new\n") == (
            done.returncode,
            done.stderr,
        )


class TestBadInput:
    """What is wrong is one line with the cure, and nothing that is half unpacked is left."""

    def refused(self, parts, target, message):
        import unpack

        with pytest.raises(unpack.PackError, match=message) as error:
            unpack.unpack(parts, target)
        assert "\n" not in str(error.value)
        assert not target.exists() and [] == [path for path in target.parent.iterdir() if "unpacking" in path.name]

    def test_damaged(self, packed, tmp_path):
        parts = packed()
        content = bytearray((parts / "part-002").read_bytes())
        content[50] ^= 1
        (parts / "part-002").write_bytes(content)
        self.refused(parts, tmp_path / "new", r"^part-002 is damaged or of another pack .* carry it over again")

    def test_missing(self, packed, tmp_path):
        parts = packed()
        (parts / "part-001").unlink()
        (parts / "part-003").unlink()
        self.refused(parts, tmp_path / "new", r"^part-001, part-003 of \d+ parts is missing")

    def test_of_another_pack(self, packed, rig, tmp_path):
        one = packed("one")
        (rig.root / "usr/bin/dash").write_text("other")
        two = packed("two")
        name = next(p.name for p in sorted(two.glob("part-*")) if p.read_bytes() != (one / p.name).read_bytes())
        (one / name).write_bytes((two / name).read_bytes())
        self.refused(one, tmp_path / "new", f"^{name} is damaged or of another pack")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda m: m.pop("id"), "is damaged"),
            (lambda m: m["parts"].pop(), "is damaged"),
            (lambda m: m["parts"][0].update(name="../part-001"), "is damaged"),
            (lambda m: m["parts"][0].update(sha256="0" * 64), "is damaged"),
            (lambda m: m.update(format="opmap-rig-pack/2"), "has the format 'opmap-rig-pack/2'"),
            (lambda m: m.update(unpacked_bytes=1 << 60), r"needs .* GB of free disk"),
        ],
    )
    def test_manifest(self, packed, tmp_path, change, message):
        parts = packed()
        manifest = json.loads((parts / "pack.json").read_text())
        change(manifest)
        (parts / "pack.json").write_text(json.dumps(manifest))
        self.refused(parts, tmp_path / "new", message)

    def test_no_pack(self, tmp_path):
        self.refused(tmp_path, tmp_path / "new", r"PARTS must be a folder with pack\.json")

    def test_other_machine(self, packed, tmp_path, monkeypatch):
        parts = packed()
        monkeypatch.setattr("os.uname", lambda: SimpleNamespace(machine="aarch64"))
        self.refused(parts, tmp_path / "new", "for an x86-64 machine, got aarch64")

    def test_full_disk(self, packed, tmp_path, monkeypatch):
        parts = packed()

        def full(*arguments):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("shutil.copyfileobj", full)
        self.refused(parts, tmp_path / "new", "No space left on device: use a disk with enough room")

    def test_half_unpacked(self, packed, tmp_path):
        """What a process that was killed has left is removed by the next one."""
        import unpack

        (tmp_path / ".new.unpacking").mkdir()
        (tmp_path / ".new.unpacking/old").touch()
        unpack.unpack(packed(), tmp_path / "new")
        assert not (tmp_path / ".new.unpacking").exists() and not (tmp_path / "new/old").exists()

    @pytest.mark.parametrize(
        "members",
        [
            [("../out", "f", "")],
            [("/tmp/out", "f", "")],
            [("a/../../out", "f", "")],
            [("link", "l", "../..")],
            [("link", "l", "/tmp")],
            [("deep/link", "l", "../../out")],
            [("link", "h", "../../etc/passwd")],
            [("link", "l", "."), ("link/x", "f", ""), ("link", "f", "")],
            [("device", "c", "")],
        ],
    )
    def test_leaves_the_folder(self, tmp_path, members):
        """A path, a link or a device that does not belong into the folder is refused, and nothing is written
        outside.
        """
        import unpack

        kinds = {"f": tarfile.REGTYPE, "l": tarfile.SYMTYPE, "h": tarfile.LNKTYPE, "c": tarfile.CHRTYPE}
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for name, kind, target in members:
                info = tarfile.TarInfo(name)
                info.type, info.linkname = kinds[kind], target
                archive.addfile(info)
        parts = tmp_path / "deep/parts"
        parts.mkdir(parents=True)
        (parts / "part-001").write_bytes(lzma.compress(stream.getvalue()))
        listed = [{"name": "part-001", "sha256": unpack.sha256(parts / "part-001")}]
        manifest = {"format": unpack.FORMAT, "id": unpack.pack_id(listed), "unpacked_bytes": 1, "parts": listed}
        (parts / "pack.json").write_text(json.dumps(manifest))
        self.refused(parts, tmp_path / "deep/new", "do not trust it")
        assert ["deep"] == [path.name for path in tmp_path.iterdir()]
        assert ["parts"] == [path.name for path in (tmp_path / "deep").iterdir()]


class TestSize:
    """--part-size."""

    @pytest.mark.parametrize(
        ("text", "expected"), [("60M", 60_000_000), ("1G", 10**9), ("0M", None), ("60", None), ("x", None)]
    )
    def test_text(self, text, expected):
        import argparse

        import dml_linux

        if expected:
            assert expected == dml_linux.part_size(text)
        else:
            with pytest.raises(argparse.ArgumentTypeError, match="must be a size as 60M or 1G, got "):
                dml_linux.part_size(text)
