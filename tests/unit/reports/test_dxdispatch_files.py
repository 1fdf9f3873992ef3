"""The files that DxDispatch JSON names, and the JSON file itself: where they may lie and what they may hold."""

import io
import itertools
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from dxdispatch_models import EXPECTED, changed, lying, output, problem

from opmap.cases.catalogue import catalogue
from opmap.cases.layouts import in_layout
from opmap.errors import InputError
from opmap.limits import MAX_FILE_BYTES
from opmap.mapping.dxdispatch import read
from opmap.reports.reproducers.dxdispatch_files import DXDISPATCH, dxdispatch_files

pytestmark = pytest.mark.platform

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")


def npy(array, **options):
    """A .npy file's bytes."""
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


class TestFiles:
    """Values from files in the JSON file's own folder."""

    def source(self, tmp_path, name, content, **resource):
        """The model with the input's values from a file."""
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
        value = {"initialValuesDataType": "FLOAT32", **resource, "initialValues": {"sourcePath": name}}
        return changed("resources", "input", to=value)

    @pytest.mark.parametrize(
        "content",
        [
            npy(np.array([11, 12, 13, 14], "<f4")),
            npy(np.array([11, 12, 13, 14], ">f4")),
            npy(np.array([[11, 12], [13, 14]], "<f4")),
            npy(np.array([[11, 13], [12, 14]], "<f4").T),
            lying(version=b"\x02\x00", data=np.array([11, 12, 13, 14], "<f4").tobytes()),
            lying(version=b"\x03\x00", data=np.array([11, 12, 13, 14], "<f4").tobytes()),
        ],
        ids=["little-endian", "big-endian", "two-dimensional", "fortran-order", "version 2", "version 3"],
    )
    def test_npy(self, tmp_path, content):
        """Values are read in row-major order, whatever byte order and element order the file has."""
        assert EXPECTED == output(self.source(tmp_path, "data.npy", content), tmp_path)

    def test_raw(self, tmp_path):
        """A file that is not .npy holds the resource's bytes. It may lie in a subfolder."""
        raw = np.array([11, 12, 13, 14], "<f4").tobytes()
        assert EXPECTED == output(self.source(tmp_path, "below/data.bin", raw), tmp_path)

    def test_read_finds_them_beside_the_json_file(self, tmp_path, monkeypatch):
        """The current directory does not matter."""
        model = self.source(tmp_path, "data.bin", np.array([11, 12, 13, 14], "<f4").tobytes())
        (tmp_path / "model.json").write_text(json.dumps(model), encoding="utf-8")
        monkeypatch.chdir(tmp_path.parent)
        (dispatch,) = read(os.path.join(tmp_path.name, "model.json"))
        assert None is dispatch.error
        (tmp_path / "inner").mkdir()
        (tmp_path / "inner" / "model.json").write_text(json.dumps(model), encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        (dispatch,) = read(os.path.join("inner", "model.json"))
        assert "must be a readable file, got 'data.bin': no such file" == dispatch.error.message

    PATH = "$.resources.input.initialValues.sourcePath"

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (
                npy(np.array([None, 1], object), allow_pickle=True),
                "must be a .npy file: Object arrays cannot be loaded",
            ),
            (npy(np.array([True] * 4)), "must be a .npy file of a DirectML data type, got bool"),
            (npy(np.zeros(4, "c8")), "must be a .npy file of a DirectML data type, got complex64"),
            (npy(np.zeros(4, "<f8")), "must be a .npy file of FLOAT32 (initialValuesDataType), got FLOAT64"),
            (npy(np.zeros(4, [("a", "<f4")])), "must be a .npy file of a DirectML data type, got void32"),
            (b"", "must be a .npy file: "),
            (b"\x93NUMPY\x01\x00\xff\xff{", "must be a .npy file: "),
            (b"\x93NUMPY\x09\x09\x10\x00\x00\x00" + b"{" * 16, "must be a .npy file: "),
            (lying(shape="(3,)"), "must hold 12 bytes of values, as its header says, got 16"),
            (lying(shape="(5,)"), "must be a .npy file: "),
            (lying(shape="(2**40,)"), "must be a .npy file: "),
            (lying(shape=f"({10**18},)"), "must be a .npy file: "),
            (lying(shape="(-4,)"), "must be a .npy file: "),
            (lying(shape=f"(0, {10**30})", data=b""), "must"),
            (lying(shape=f"({', '.join('1' * 70)}, 4)"), "must be a .npy file"),
            (lying(descr="('<f4', (2,))"), "must be a .npy file"),
            (lying(descr="'nonsense'"), "must be a .npy file: "),
            (lying(fortran="3"), "must be a .npy file: "),
            (lying(header="{1: 2, 'a': 3}"), "must be a .npy file: "),
            (lying(header="__import__('os').getcwd()"), "must be a .npy file: "),
            (lying(header="{'descr': '''"), "must be a .npy file: "),
            (lying(header="(" * 5000), "must be a .npy file: "),
            (lying(version=b"\x02\x00", header=" " * 200_000), "must be a .npy file: "),
        ],
        ids=itertools.count(),
    )
    def test_npy_files_that_lie(self, tmp_path, content, message):
        """A wrong header is refused before memory is taken for the size that it states."""
        path, got = problem(self.source(tmp_path, "data.npy", content), tmp_path)
        assert got.startswith(message)
        assert path in (self.PATH, "$.resources.input.initialValues")

    def test_a_pickle_is_not_loaded(self, tmp_path):
        """A .npy of objects can run code when it is loaded."""
        marker = tmp_path / "ran"

        class Runs:
            def __reduce__(self):
                return (open, (str(marker), "w"))

        content = npy(np.array([Runs()], object), allow_pickle=True)
        problem(self.source(tmp_path, "data.npy", content), tmp_path)
        assert not marker.exists()

    @pytest.mark.parametrize(
        "name",
        [
            "../outside.bin",
            "below/../../outside.bin",
            "below/../../../outside.bin",
            "..",
            "/etc/hostname",
            "//server/share/x",
        ],
    )
    def test_paths_that_leave_the_folder(self, tmp_path, name):
        """They are refused whether or not the file exists."""
        folder = tmp_path / "inside"
        (folder / "below").mkdir(parents=True)
        (tmp_path / "outside.bin").write_bytes(b"\0" * 16)
        path, message = problem(changed("resources", "input", "initialValues", to={"sourcePath": name}), folder)
        assert (self.PATH, f"must be a file inside the JSON file's own folder, got {name!r}") == (path, message)

    @pytest.mark.parametrize("name", ["../outside.bin", "/etc/hostname", "//server/share/x", "\\\\server\\share\\x"])
    def test_nothing_outside_is_touched(self, tmp_path, monkeypatch, name):
        """Looking up a network share would send credentials to its server."""
        looked_up = []
        resolve = Path.resolve
        monkeypatch.setattr(Path, "resolve", lambda self, **k: looked_up.append(self) or resolve(self, **k))
        problem(changed("resources", "input", "initialValues", to={"sourcePath": name}), tmp_path)
        assert [] == [path for path in looked_up if not path.is_relative_to(tmp_path) or ".." in path.parts]

    @pytest.mark.skipif(sys.platform != "win32", reason="paths of Windows")
    @pytest.mark.parametrize(
        "name", ["C:\\Windows\\win.ini", "C:win.ini", "\\\\server\\share\\x", "..\\outside.bin", "NUL", "CON"]
    )
    def test_paths_of_windows_that_leave_the_folder(self, tmp_path, name):
        """Drives, shares and devices."""
        path, _ = problem(changed("resources", "input", "initialValues", to={"sourcePath": name}), tmp_path)
        assert self.PATH == path

    def test_an_absolute_path_inside_the_folder_is_inside(self, tmp_path):
        """An absolute path is fine if the file lies inside the folder."""
        (tmp_path / "data.bin").write_bytes(np.array([11, 12, 13, 14], "<f4").tobytes())
        model = changed("resources", "input", "initialValues", to={"sourcePath": str(tmp_path / "data.bin")})
        assert EXPECTED == output(model, tmp_path)

    @POSIX
    def test_links_that_leave_the_folder(self, tmp_path):
        """A link to a file outside is refused; a link to a file inside is fine."""
        folder = tmp_path / "inside"
        folder.mkdir()
        (tmp_path / "outside.bin").write_bytes(np.array([11, 12, 13, 14], "<f4").tobytes())
        (folder / "link.bin").symlink_to("../outside.bin")
        (folder / "up").symlink_to("..")
        for name in ("link.bin", "up/outside.bin"):
            _, message = problem(changed("resources", "input", "initialValues", to={"sourcePath": name}), folder)
            assert f"must be a file inside the JSON file's own folder, got {name!r}" == message
        (folder / "data.bin").write_bytes((tmp_path / "outside.bin").read_bytes())
        (folder / "fine.bin").symlink_to("data.bin")
        assert EXPECTED == output(changed("resources", "input", "initialValues", to={"sourcePath": "fine.bin"}), folder)

    @POSIX
    def test_links_in_a_circle_and_pipes(self, tmp_path):
        """Both are refused in one line, and reading does not hang."""
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        os.mkfifo(tmp_path / "pipe")
        for name in ("a", "pipe"):
            path, message = problem(changed("resources", "input", "initialValues", to={"sourcePath": name}), tmp_path)
            assert self.PATH == path
            assert message.startswith("must be a")

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("absent.bin", "must be a readable file, got 'absent.bin': no such file"),
            ("", "must be a readable file, got '': must be a file, got a folder"),
            (".", "must be a readable file, got '.': must be a file, got a folder"),
            ("below", "must be a readable file, got 'below': must be a file, got a folder"),
            ("a\0b", "must be a"),
            ("x" * 5000, "must be a"),
        ],
        ids=itertools.count(),
    )
    def test_paths_that_are_no_file(self, tmp_path, name, message):
        """A missing file, a folder, a name with a NUL, a name that is too long."""
        (tmp_path / "below").mkdir()
        path, got = problem(changed("resources", "input", "initialValues", to={"sourcePath": name}), tmp_path)
        assert self.PATH == path
        assert got.startswith(message)

    def test_a_text_without_a_folder_names_no_file(self):
        """A model that is only a text has no folder to look in."""
        path, message = problem(changed("resources", "input", "initialValues", to={"sourcePath": "data.bin"}))
        assert (self.PATH, "must not name a file: the model is a text without a folder") == (path, message)

    def test_large_files_are_not_read(self, tmp_path):
        """The size is checked before the file is read. The file is sparse: it takes no space on disk."""
        with open(tmp_path / "huge.bin", "wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
        _, message = problem(changed("resources", "input", "initialValues", to={"sourcePath": "huge.bin"}), tmp_path)
        wanted = f"must be a file of at most {MAX_FILE_BYTES} bytes, got {MAX_FILE_BYTES + 1}"
        assert f"must be a readable file, got 'huge.bin': {wanted}" == message
        with pytest.raises(InputError, match=wanted):
            read(tmp_path / "huge.bin")

    def test_the_json_file_itself(self, tmp_path):
        """A folder, a missing file, bytes that are not UTF-8, a name with a NUL."""
        (tmp_path / "bytes").write_bytes(b"{\xff}")
        for name, message in (
            ("", "got a folder"),
            ("absent", "no such file"),
            ("bytes", "must be UTF-8 text, got byte 0xff at 1"),
            ("a\0b", "no such file"),
        ):
            with pytest.raises(InputError, match=message):
                read(os.path.join(tmp_path, name))


class TestExported:
    """The file that `opmap export` writes, read again."""

    @pytest.mark.parametrize("layout", ["strides", "padding"])
    @pytest.mark.parametrize("id", ["gather/example.1", "gather_elements/uint8/d2.axis1/int64.neg/addr0.ad5be3"])
    def test_layout(self, id, layout, tmp_path):
        """A tensor with strides lies in its resource as the strides say."""
        (case,) = catalogue("smoke", [id])
        case = in_layout(case, layout)
        for name, content in dxdispatch_files(case, case.inputs).items():
            (tmp_path / name).write_bytes(content)
        (dispatch,) = read(tmp_path / DXDISPATCH)
        assert case.desc == dispatch.desc
        assert {n: list(t.bits) for n, t in case.tensors.items()} == {
            n: list(t.bits) for n, t in dispatch.tensors.items()
        }
