"""DxDispatch JSON: read as leniently as DxDispatch reads it, written so that it reads back, and safe against any file."""

import copy
import io
import itertools
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmap import strategies
from opmap.descriptors import TensorDesc
from opmap.dxdispatch import desc_json, model_json, read, read_model
from opmap.errors import InputError
from opmap.limits import MAX_ELEMENTS, MAX_FILE_BYTES, MAX_NESTING
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")


def gather():
    """The first example of GATHER, as DxDispatch's own models are written."""
    return {
        "resources": {
            "input": {"initialValuesDataType": "FLOAT32", "initialValues": [11, 12, 13, 14]},
            "indices": {"initialValuesDataType": "UINT32", "initialValues": [3, 1, 3, 0, 2]},
            "output": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 5, "value": 0}},
        },
        "dispatchables": {
            "gather": {
                "type": "DML_OPERATOR_GATHER",
                "desc": {
                    "InputTensor": {"DataType": "FLOAT32", "Sizes": [4]},
                    "IndicesTensor": {"DataType": "UINT32", "Sizes": [5]},
                    "OutputTensor": {"DataType": "FLOAT32", "Sizes": [5]},
                    "Axis": 0,
                    "IndexDimensions": 1,
                },
            }
        },
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "gather",
                "bindings": {"InputTensor": "input", "IndicesTensor": "indices", "OutputTensor": "output"},
            },
            {"type": "print", "resource": "output"},
        ],
    }


def changed(*path, to, model=None):
    """The model with the value at a path replaced; `...` as value takes it away."""
    model = copy.deepcopy(model or gather())
    *way, last = path
    at = model
    for step in way:
        at = at[step]
    if to is ...:
        del at[last]
    else:
        at[last] = to
    return model


DESC = ("dispatchables", "gather", "desc")


def one(model, folder=None):
    """The only dispatch of a model, given as an object or a text."""
    (dispatch,) = read_model(model if isinstance(model, str) else json.dumps(model), folder=folder)
    return dispatch


def output(model, folder=None):
    """The values that the only dispatch gives by the pseudocode."""
    dispatch = one(model, folder)
    if dispatch.error:
        raise dispatch.error
    assert () == dispatch.desc.violations()
    bits = dispatch.desc.interpret(dispatch.tensors)
    return list(Tensor(dispatch.desc.output.data_type, dispatch.desc.output.sizes, bits).values)


def problem(model, folder=None):
    """(path, message) of what is wrong with the only dispatch, or with the file."""
    try:
        error = one(model, folder).error
    except InputError as raised:
        error = raised
    assert error is not None, "nothing is wrong with it"
    assert "\n" not in str(error)
    return error.path, error.message


EXPECTED = [14.0, 12.0, 14.0, 11.0, 13.0]


class TestLeniencies:
    """What DxDispatch accepts is accepted."""

    def test_the_plain_model(self):
        """The page's first example."""
        assert EXPECTED == output(gather())
        dispatch = one(gather())
        assert ("gather", "DML_OPERATOR_GATHER", "$.dispatchables.gather.desc") == (
            dispatch.name,
            dispatch.operator,
            dispatch.path,
        )

    def test_comments_trailing_commas_and_what_follows(self):
        """None of these is JSON."""
        text = json.dumps(gather(), indent=1).replace("[3,", "[ // first\n 3,").replace("2\n", "2, /* last */\n")
        assert EXPECTED == output(text + "\n text } after { the root value")

    def test_a_byte_order_mark(self, tmp_path):
        """Windows editors write one."""
        file = tmp_path / "model.json"
        file.write_text(json.dumps(gather()), encoding="utf-8-sig")
        (dispatch,) = read(file)
        assert None is dispatch.error

    @pytest.mark.parametrize("name", ["GATHER", "gather", "DML_OPERATOR_GATHER", "dml_operator_gather"])
    @pytest.mark.parametrize("key", ["type", "Type"])
    def test_operator_names(self, name, key):
        """Long and short."""
        model = changed("dispatchables", "gather", "type", to=...)
        assert EXPECTED == output(changed("dispatchables", "gather", key, to=name, model=model))

    def test_where_the_fields_stand(self):
        """Under desc, under Desc, or inline."""
        fields = gather()["dispatchables"]["gather"]["desc"]
        for dispatchable in ({"Desc": fields}, {"desc": fields}, fields):
            assert EXPECTED == output(changed("dispatchables", "gather", to={"type": "GATHER", **dispatchable}))

    @pytest.mark.parametrize(
        "tensor",
        [
            {"DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "Sizes": [4]},
            {"DataType": "float32", "Sizes": [4]},
            {"DataType": "FLOAT32", "Sizes": [4], "DimensionCount": 1},
            {"DataType": "FLOAT32", "Sizes": [4], "Strides": []},
            {"DataType": "FLOAT32", "Sizes": [4], "Strides": None},
            {"DataType": "FLOAT32", "Sizes": [4], "Strides": [1]},
            {"DataType": "FLOAT32", "Sizes": [4], "TotalTensorSizeInBytes": 0},
            {"DataType": "FLOAT32", "Sizes": [4], "TotalTensorSizeInBytes": 16},
            {"DataType": "FLOAT32", "Sizes": [4], "GuaranteedBaseOffsetAlignment": 32},
            {"DataType": "FLOAT32", "Sizes": [4], "Flags": "NONE"},
            {"DataType": "FLOAT32", "Sizes": [4], "Flags": "DML_TENSOR_FLAG_OWNED_BY_DML"},
            {"DataType": "FLOAT32", "Sizes": [4], "Flags": ["OWNED_BY_DML"]},
            {"DataType": "FLOAT32", "Sizes": [4], "Flags": []},
            {"DataType": "FLOAT32", "Sizes": [4], "Other": 1},
            {"Desc": {"DataType": "FLOAT32", "Sizes": [4]}},
            {"Type": "BUFFER", "desc": {"DataType": "FLOAT32", "Sizes": [4]}},
        ],
    )
    def test_tensor_descs(self, tensor):
        """Optional and repeated fields, long names, inline or under Desc."""
        assert EXPECTED == output(changed(*DESC, "InputTensor", to=tensor))

    def test_fields_of_a_tensor_arrive(self):
        """Strides, size, alignment and flag stand in the descriptor."""
        tensor = {"DataType": "FLOAT32", "Sizes": [4], "Strides": [2], "TotalTensorSizeInBytes": 64}
        tensor |= {"GuaranteedBaseOffsetAlignment": 16, "Flags": "OWNED_BY_DML"}
        model = changed(*DESC, "InputTensor", to=tensor)
        model["resources"]["input"]["initialValues"] = [11, 0, 12, 0, 13, 0, 14]
        dispatch = one(model)
        assert TensorDesc(DataType.FLOAT32, (4,), (2,), 64, 16, True) == dispatch.desc.input_tensor
        assert [11.0, 12.0, 13.0, 14.0] == list(dispatch.tensors["InputTensor"].values)
        assert EXPECTED == output(model)

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([1, 2.5, "NaN", "-inf"], [1.0, 2.5, "nan", float("-inf")]),
            ([{"type": "FLOAT32", "value": v} for v in (1, 2, 3, 4)], [1.0, 2.0, 3.0, 4.0]),
            ({"value": 7, "valueCount": 4}, [7.0] * 4),
            ({"value": "Inf", "valueCount": 4}, [float("inf")] * 4),
            ({"valueStart": 1, "valueDelta": 0.5, "valueCount": 4}, [1.0, 1.5, 2.0, 2.5]),
        ],
    )
    def test_initial_values(self, values, expected):
        """A list, a list with types, a constant, a sequence."""
        model = changed("resources", "input", "initialValues", to=values)
        if isinstance(values, list) and isinstance(values[0], dict):
            del model["resources"]["input"]["initialValuesDataType"]
        got = ["nan" if v != v else v for v in one(model).tensors["InputTensor"].values]
        assert expected == got

    def test_typed_values_of_several_types(self):
        """One resource may hold values of different types, one after the other."""
        values = [{"type": "UINT8", "value": v} for v in (0, 0, 128)] + [
            {"type": "DML_TENSOR_DATA_TYPE_UINT8", "value": 63}
        ]
        model = changed(
            "resources", "input", to={"initialValues": values + [{"type": "UINT32", "value": 0x40000000}] * 3}
        )
        assert [1.0, 2.0, 2.0, 2.0] == list(one(model).tensors["InputTensor"].values)

    @pytest.mark.parametrize(
        ("data_type", "start", "delta", "expected"),
        [
            ("INT8", 126, 1, [126, 127, -128, -127]),
            ("UINT8", 254, 1, [254, 255, 0, 1]),
            ("INT32", 2, -3, [2, -1, -4, -7]),
        ],
    )
    def test_sequences_wrap_as_the_type_does(self, data_type, start, delta, expected):
        """Each value is the one before plus the delta, in the type's own arithmetic."""
        values = {"valueStart": start, "valueDelta": delta, "valueCount": 4}
        model = changed("resources", "input", to={"initialValuesDataType": data_type, "initialValues": values})
        for tensor in ("InputTensor", "OutputTensor"):
            model["dispatchables"]["gather"]["desc"][tensor]["DataType"] = data_type
        assert expected == list(one(model).tensors["InputTensor"].values)

    def test_float_sequences_add_up_in_their_own_type(self):
        """0.1 added ten times in FLOAT32 is not one."""
        values = {"valueStart": 0, "valueDelta": 0.1, "valueCount": 11}
        model = changed("resources", "input", to={"initialValuesDataType": "FLOAT32", "initialValues": values})
        model["dispatchables"]["gather"]["desc"]["InputTensor"]["Sizes"] = [11]
        total = np.float32(0)
        for _ in range(10):
            total = np.float32(total + np.float32(0.1))
        assert float(total) == list(one(model).tensors["InputTensor"].values)[-1]

    def test_a_buffer_larger_than_its_values(self):
        """Values at an offset, zeros around."""
        resource = {"initialValuesDataType": "FLOAT32", "initialValues": [12, 13], "sizeInBytes": 16}
        model = changed("resources", "input", to={**resource, "initialValuesOffsetInBytes": 4})
        assert [0.0, 12.0, 13.0, 0.0] == list(one(model).tensors["InputTensor"].values)

    def test_a_binding_with_an_offset(self):
        """Elements are counted in the tensor's type, or in the size that is given."""
        binding = {"name": "input", "elementOffset": 2}
        values = [0, 0, 11, 12, 13, 14]
        model = changed("resources", "input", "initialValues", to=values)
        assert EXPECTED == output(changed("commands", 0, "bindings", "InputTensor", to=binding, model=model))
        binding = {"name": "input", "elementOffset": 1, "elementSizeInBytes": 8}
        assert EXPECTED == output(changed("commands", 0, "bindings", "InputTensor", to=binding, model=model))

    def test_two_dispatches_share_their_inputs(self):
        """That is no chain."""
        model = gather()
        model["commands"].insert(1, model["commands"][0])
        assert [None, None] == [d.error for d in read_model(json.dumps(model))]

    def test_one_bad_dispatch_does_not_hide_the_next(self):
        """What is wrong with one stands in it; the other is read."""
        model = gather()
        model["commands"].insert(0, {"type": "dispatch", "dispatchable": "absent", "bindings": {}})
        first, second = read_model(json.dumps(model))
        assert "must hold absent, got gather" == first.error.message
        assert None is second.error

    def test_initial_values_of_the_output_are_ignored(self):
        """Even where they are none."""
        for values in ("deferred", [], {"valueCount": 10**9, "value": 0}):
            assert EXPECTED == output(changed("resources", "output", "initialValues", to=values))


def npy(array, **options):
    """A .npy file's bytes."""
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def lying(shape="(4,)", descr="'<f4'", fortran="False", data=b"\0" * 16, version=b"\x01\x00", header=None):
    """A .npy file whose header says anything."""
    text = header if header is not None else f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"
    raw = text.encode("latin-1")
    raw += b" " * (-(len(raw) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + version + len(raw).to_bytes(2 if version[0] == 1 else 4, "little") + raw + data


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
        """Byte order and element order are the file's, the values come out row by row."""
        assert EXPECTED == output(self.source(tmp_path, "data.npy", content), tmp_path)

    def test_raw(self, tmp_path):
        """Anything that is not .npy is memory; a folder below is inside."""
        raw = np.array([11, 12, 13, 14], "<f4").tobytes()
        assert EXPECTED == output(self.source(tmp_path, "below/data.bin", raw), tmp_path)

    def test_read_finds_them_beside_the_json_file(self, tmp_path, monkeypatch):
        """Not in the current directory."""
        model = self.source(tmp_path, "data.bin", np.array([11, 12, 13, 14], "<f4").tobytes())
        (tmp_path / "model.json").write_text(json.dumps(model), encoding="utf-8")
        monkeypatch.chdir(tmp_path.parent)
        (dispatch,) = read(os.path.join(tmp_path.name, "model.json"))
        assert None is dispatch.error
        (tmp_path / "inner").mkdir()
        (tmp_path / "inner" / "model.json").write_text(json.dumps(model), encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        (dispatch,) = read(os.path.join("inner", "model.json"))
        assert "must be a file, 'data.bin' is none" == dispatch.error.message

    PATH = "$.resources.input.initialValues.sourcePath"

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (
                npy(np.array([None, 1], object), allow_pickle=True),
                "must be a .npy file of a DirectML data type, got object",
            ),
            (npy(np.array([True] * 4)), "must be a .npy file of a DirectML data type, got bool"),
            (npy(np.zeros(4, "c8")), "must be a .npy file of a DirectML data type, got complex64"),
            (npy(np.zeros(4, "U3")), "must be a .npy file of a DirectML data type, got str96"),
            (npy(np.zeros(4, "<f8")), "must be a .npy file of FLOAT32 (initialValuesDataType), got FLOAT64"),
            (npy(np.zeros(4, [("a", "<f4")])), "must be a .npy file of a DirectML data type, got void32"),
            (b"", "must be a .npy file: "),
            (b"\x93NUMPY", "must be a .npy file: "),
            (b"\x93NUMPY\x01\x00\xff\xff{", "must be a .npy file: "),
            (b"\x93NUMPY\x09\x09\x10\x00\x00\x00" + b"{" * 16, "must be a .npy file: "),
            (b"PK\x03\x04" + b"\0" * 40, "must be a .npy file: "),
            (lying(shape="(5,)"), "must hold the 20 bytes that its header says, got 16"),
            (lying(shape="(3,)"), "must hold the 12 bytes that its header says, got 16"),
            (lying(shape="(2**40,)"), "must be a .npy file: "),
            (lying(shape=f"({10**18},)"), f"must hold the {4 * 10**18} bytes that its header says, got 16"),
            (lying(shape="(-4,)"), "must hold the -16 bytes that its header says, got 16"),
            (lying(shape="(-2, -2)"), "must be a .npy file"),
            (lying(shape=f"(0, {10**30})", data=b""), "must"),
            (lying(shape=f"({', '.join('1' * 70)}, 4)"), "must be a .npy file"),
            (lying(descr="()"), "must be a .npy file: "),
            (lying(descr="'O'"), "must be a .npy file of a DirectML data type, got object"),
            (lying(descr="('<f4', (2,))"), "must be a .npy file"),
            (lying(descr="[('f', '<f4')]"), "must be a .npy file of a DirectML data type, got void32"),
            (lying(descr="'nonsense'"), "must be a .npy file: "),
            (lying(fortran="3"), "must be a .npy file: "),
            (lying(header="{1: 2, 'a': 3}"), "must be a .npy file: "),
            (lying(header="[]"), "must be a .npy file: "),
            (lying(header="__import__('os').getcwd()"), "must be a .npy file: "),
            (lying(header="{'descr': '''"), "must be a .npy file: "),
            (lying(header="(" * 5000), "must be a .npy file: "),
            (lying(header="{'descr': 4L"), "must be a .npy file: "),
            (lying(header="\0"), "must be a .npy file: "),
            (lying(version=b"\x02\x00", header=" " * 200_000), "must be a .npy file: "),
        ],
        ids=itertools.count(),
    )
    def test_npy_files_that_lie(self, tmp_path, content, message):
        """No pickle is loaded, and a header is believed only where the file's size agrees."""
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
        """Refused whether or not the file is there."""
        folder = tmp_path / "inside"
        (folder / "below").mkdir(parents=True)
        (tmp_path / "outside.bin").write_bytes(b"\0" * 16)
        path, message = problem(changed("resources", "input", "initialValues", to={"sourcePath": name}), folder)
        assert (self.PATH, f"must be a file inside the JSON file's own folder, got {name!r}") == (path, message)

    @pytest.mark.parametrize("name", ["../outside.bin", "/etc/hostname", "//server/share/x", "\\\\server\\share\\x"])
    def test_nothing_outside_is_touched(self, tmp_path, monkeypatch, name):
        """To look up a network share is to send credentials to its server."""
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
        """Drives, shares, devices."""
        path, _ = problem(changed("resources", "input", "initialValues", to={"sourcePath": name}), tmp_path)
        assert self.PATH == path

    def test_an_absolute_path_inside_the_folder_is_inside(self, tmp_path):
        """What counts is where the file is."""
        (tmp_path / "data.bin").write_bytes(np.array([11, 12, 13, 14], "<f4").tobytes())
        model = changed("resources", "input", "initialValues", to={"sourcePath": str(tmp_path / "data.bin")})
        assert EXPECTED == output(model, tmp_path)

    @POSIX
    def test_links_that_leave_the_folder(self, tmp_path):
        """A link is followed before the place is looked at; one that stays inside is fine."""
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
        """Neither hangs nor raises anything else."""
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
            ("absent.bin", "must be a file, 'absent.bin' is none"),
            ("", "must be a file, '' is none"),
            (".", "must be a file, '.' is none"),
            ("below", "must be a file, 'below' is none"),
            ("a\0b", "must be a"),
            ("x" * 5000, "must be a"),
        ],
        ids=itertools.count(),
    )
    def test_paths_that_are_no_file(self, tmp_path, name, message):
        """A folder, a NUL, a lone surrogate, a name too long."""
        (tmp_path / "below").mkdir()
        path, got = problem(changed("resources", "input", "initialValues", to={"sourcePath": name}), tmp_path)
        assert self.PATH == path
        assert got.startswith(message)

    def test_a_text_without_a_folder_names_no_file(self):
        """There is nowhere to look."""
        path, message = problem(changed("resources", "input", "initialValues", to={"sourcePath": "data.bin"}))
        assert (self.PATH, "must not name a file: the text has no folder") == (path, message)

    def test_large_files_are_not_read(self, tmp_path):
        """A sparse file costs nothing but its size."""
        with open(tmp_path / "huge.bin", "wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
        _, message = problem(changed("resources", "input", "initialValues", to={"sourcePath": "huge.bin"}), tmp_path)
        assert f"must be at most {MAX_FILE_BYTES} bytes, 'huge.bin' has {MAX_FILE_BYTES + 1}" == message
        with pytest.raises(InputError, match=f"must be at most {MAX_FILE_BYTES} bytes"):
            read(tmp_path / "huge.bin")

    def test_the_json_file_itself(self, tmp_path):
        """A folder, nothing, bytes that are no text."""
        (tmp_path / "bytes").write_bytes(b"{\xff}")
        for name, message in (
            ("", "got a folder"),
            ("absent", "no such file"),
            ("bytes", "must be UTF-8 text, got byte 0xff at 1"),
            ("a\0b", "no such file"),
        ):
            with pytest.raises(InputError, match=message):
                read(os.path.join(tmp_path, name))

    @POSIX
    def test_the_json_file_itself_is_a_pipe(self, tmp_path):
        """Reading it would wait for ever."""
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InputError, match="must be a file, got a device, a pipe or a socket"):
            read(tmp_path / "pipe")


class TestRefusals:
    """What is wrong is said in one line: the place, what was wanted, what was got."""

    @pytest.mark.parametrize(
        ("text", "path", "message"),
        [
            ("", "$", "must be JSON"),
            ("{", "$", "must be JSON: Unclosed object"),
            ("[]", "$", "must be an object, got an array"),
            ("7", "$", "must be an object, got the number 7"),
            ("null", "$", "must be an object, got null"),
            ("NaN", "$", "must be an object, got a bare NaN"),
            ("{}", "$", "must hold resources, got nothing"),
            (
                '{"resources":{},"dispatchables":{},"commands":[]}',
                "$.commands",
                "must hold a dispatch command, got none",
            ),
            ('{"resources":[],"dispatchables":{},"commands":[]}', "$.resources", "must be an object, got an array"),
            ('{"resources":{},"dispatchables":{},"commands":{}}', "$.commands", "must be an array, got an object"),
            (
                '{"resources":{},"dispatchables":{},"commands":[3]}',
                "$.commands[0]",
                "must be an object, got the number 3",
            ),
            ('{"resources":{},"dispatchables":{},"commands":[{}]}', "$.commands[0]", "must hold type, got nothing"),
            ("[" * (MAX_NESTING + 1), "$", f"must be nested at most {MAX_NESTING} deep"),
            ("[" * 100_000, "$", f"must be nested at most {MAX_NESTING} deep"),
            ('{"a":' * 100_000, "$", f"must be nested at most {MAX_NESTING} deep"),
            ("9" * 10_000, "$", "must be"),
            ('"\\ud800"', "$", "must be"),
        ],
        ids=itertools.count(),
    )
    def test_files(self, text, path, message):
        """The file as a whole."""
        with pytest.raises(InputError) as raised:
            read_model(text)
        assert path == raised.value.path
        assert raised.value.message.startswith(message)

    @pytest.mark.parametrize(
        ("path", "value", "where", "message"),
        [
            (("dispatchables", "gather", "type"), "DML_OPERATOR_SCATTER", "$.dispatchables.gather.type", "must be an operator that opmap knows (GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1), got DML_OPERATOR_SCATTER"),
            (("dispatchables", "gather", "type"), 3, "$.dispatchables.gather.type", "must be a string, got the number 3"),
            (("dispatchables", "gather", "desc"), [], "$.dispatchables.gather.desc", "must be an object, got an array"),
            ((*DESC, "Axis"), ..., "$.dispatchables.gather.desc", "must hold Axis, got InputTensor, IndicesTensor, OutputTensor, IndexDimensions"),
            ((*DESC, "Axis"), "0", "$.dispatchables.gather.desc.Axis", "must be int, got str"),
            ((*DESC, "Axis"), -1, "$.dispatchables.gather.desc.Axis", "must be int >= 0, got -1"),
            ((*DESC, "Axis"), 2**32, "$.dispatchables.gather.desc.Axis", "must be int <= 4294967295, got 4294967296"),
            ((*DESC, "Axis"), 2**70, "$.dispatchables.gather.desc.Axis", "must be"),
            ((*DESC, "Axis"), True, "$.dispatchables.gather.desc.Axis", "must be int, got bool"),
            ((*DESC, "Axis"), 0.5, "$.dispatchables.gather.desc.Axis", "must be int, got float"),
            ((*DESC, "InputTensor"), 3, "$.dispatchables.gather.desc.InputTensor", "must be an object, got the number 3"),
            ((*DESC, "InputTensor", "Sizes"), ..., "$.dispatchables.gather.desc.InputTensor", "missing required field Sizes"),
            ((*DESC, "InputTensor", "Sizes"), 4, "$.dispatchables.gather.desc.InputTensor.Sizes", "must be array, got int"),
            ((*DESC, "InputTensor", "Sizes"), [4, -1], "$.dispatchables.gather.desc.InputTensor.Sizes[1]", "must be int >= 0, got -1"),
            ((*DESC, "InputTensor", "Sizes"), [[4]], "$.dispatchables.gather.desc.InputTensor.Sizes[0]", "must be int, got array"),
            ((*DESC, "InputTensor", "DimensionCount"), 2, "$.dispatchables.gather.desc.InputTensor.DimensionCount", "must be the number of Sizes, 1, got 2"),
            ((*DESC, "InputTensor", "DataType"), "BOOL", "$.dispatchables.gather.desc.InputTensor.DataType", "must be one of FLOAT32, FLOAT16, "),
            ((*DESC, "InputTensor", "Flags"), "MAYBE", "$.dispatchables.gather.desc.InputTensor.Flags", "must be NONE or OWNED_BY_DML, got MAYBE"),
            ((*DESC, "InputTensor", "Desc"), 3, "$.dispatchables.gather.desc.InputTensor.Desc", "must be an object, got the number 3"),
            (("resources", "input"), ..., "$.resources", "must hold input, got indices, output"),
            (("resources", "input"), [], "$.resources.input", "must be an object, got an array"),
            (("resources", "input", "initialValues"), ..., "$.resources.input", "must hold initialValues, got initialValuesDataType"),
            (("resources", "input", "initialValues"), [], "$.resources.input.initialValues", "must not be empty"),
            (("resources", "input", "initialValues"), 3, "$.resources.input.initialValues", "must be an array, {value, valueCount}"),
            (("resources", "input", "initialValues"), "deferred", "$.resources.input.initialValues", "must be values, got 'deferred': they are unknown before the run"),
            (("resources", "input", "initialValues"), [1, 2, 3], "$.commands[0].bindings.InputTensor", "must hold 16 bytes from byte 0 on, resource 'input' has 12"),
            (("resources", "input", "initialValues"), [1, None, 3, 4], "$.resources.input.initialValues", 'value 1 must be a number, "NaN", "Inf" or "-Inf" for FLOAT32, got None'),
            (("resources", "input", "initialValues"), [1, 1e39, 3, 4], "$.resources.input.initialValues", "value 1 must be a number that FLOAT32 can hold"),
            (("resources", "input", "initialValues"), [1, float("nan"), 3, 4], "$.resources.input.initialValues", 'value 1 must be a JSON number, or "NaN", "Inf" or "-Inf" as a string, got a bare NaN'),
            (("resources", "input", "initialValues"), {"value": float("inf"), "valueCount": 4}, "$.resources.input.initialValues", "value 0 must be a JSON number"),
            (("resources", "input", "initialValues"), {"value": 1}, "$.resources.input.initialValues", "missing required field valueCount"),
            (("resources", "input", "initialValues"), {"value": 1, "valueCount": 4, "more": 1}, "$.resources.input.initialValues", "contains unknown field more"),
            (("resources", "input", "initialValues"), {"value": 1, "valueCount": 2**32 - 1}, "$.resources.input.initialValues", f"must be at most {MAX_ELEMENTS} values, got 4294967295"),
            (("resources", "input", "initialValues"), {"value": 1, "valueCount": 2**32}, "$.resources.input.initialValues.valueCount", "must be int <= 4294967295, got 4294967296"),
            (("resources", "input", "initialValues"), {"value": 1, "valueCount": -1}, "$.resources.input.initialValues.valueCount", "must be int >= 0, got -1"),
            (("resources", "input", "initialValues"), {"value": 1, "valueCount": 0}, "$.resources.input.initialValues", "must not be empty"),
            (("resources", "input", "initialValues"), {"valueStart": 1, "valueDelta": 1, "valueCount": 2**31}, "$.resources.input.initialValues", f"must be at most {MAX_ELEMENTS} values"),
            (("resources", "input", "initialValues"), {"sourcePath": 3}, "$.resources.input.initialValues.sourcePath", "must be str, got int"),
            (("resources", "input", "initialValuesDataType"), "STRING", "$.resources.input.initialValuesDataType", "must be one of"),
            (("resources", "input", "initialValuesDataType"), ..., "$.resources.input", "must hold initialValuesDataType"),
            (("resources", "input", "sizeInBytes"), 2**62, "$.resources.input.sizeInBytes", f"must be at most {MAX_ELEMENTS * 8} bytes, got {2**62}"),
            (("resources", "input", "sizeInBytes"), 2**80, "$.resources.input.sizeInBytes", "must be"),
            (("resources", "input", "sizeInBytes"), 8, "$.resources.input", "must hold 16 bytes of initial values at byte 0, got sizeInBytes 8"),
            (("resources", "input", "sizeInBytes"), "16", "$.resources.input.sizeInBytes", "must be int, got str"),
            (("resources", "input", "initialValuesOffsetInBytes"), 2**62, "$.resources.input", "must hold 16 bytes of initial values at byte"),
            (("resources", "indices", "initialValues"), [1.5] * 5, "$.resources.indices.initialValues", "value 0 must be a whole number from 0 to 4294967295 for UINT32, got 1.5"),
            (("commands", 0, "dispatchable"), ..., "$.commands[0]", "must hold dispatchable, got type, bindings"),
            (("commands", 0, "dispatchable"), 3, "$.commands[0].dispatchable", "must be a string, got the number 3"),
            (("commands", 0, "dispatchable"), "other", "$.dispatchables", "must hold other, got gather"),
            (("commands", 0, "bindings"), ..., "$.commands[0]", "must hold bindings, got type, dispatchable"),
            (("commands", 0, "bindings", "InputTensor"), ..., "$.commands[0].bindings", "must hold InputTensor, got IndicesTensor, OutputTensor"),
            (("commands", 0, "bindings", "OutputTensor"), ..., "$.commands[0].bindings", "must hold OutputTensor, got InputTensor, IndicesTensor"),
            (("commands", 0, "bindings", "OutputTensor"), "nowhere", "$.resources", "must hold nowhere, got input, indices, output"),
            (("commands", 0, "bindings", "InputTensor"), {"elementOffset": 0}, "$.commands[0].bindings.InputTensor", "missing required field name"),
            (("commands", 0, "bindings", "InputTensor"), {"name": "input", "elementOffset": 2**60}, "$.commands[0].bindings.InputTensor", "must hold 16 bytes from byte 4611686018427387904 on"),
            (("commands", 0, "type"), "run", "$.commands[0].type", "must be dispatch, print or writeFile, got 'run'"),
        ],
    )  # fmt: skip
    def test_values(self, path, value, where, message):
        """One value changed."""
        got_path, got_message = problem(changed(*path, to=value))
        assert where == got_path
        assert got_message.startswith(message), got_message

    def test_tensors_that_are_too_large(self):
        """Sizes are looked at before memory is taken: the input, what its strides cover, and the output."""
        count = MAX_ELEMENTS + 1
        assert (
            f"must have at most {MAX_ELEMENTS} elements, got {count}"
            == problem(changed(*DESC, "InputTensor", "Sizes", to=[count]))[1]
        )
        strided = {"DataType": "FLOAT32", "Sizes": [4], "Strides": [count]}
        assert problem(changed(*DESC, "InputTensor", to=strided))[1].startswith(
            f"must have at most {MAX_ELEMENTS} elements, got {3 * count + 1}"
        )
        model = gather()
        desc = model["dispatchables"]["gather"]["desc"]
        desc["InputTensor"]["Sizes"] = [2, 2**13]
        desc["IndicesTensor"]["Sizes"] = [1, 2**12]
        desc["OutputTensor"]["Sizes"] = [2**12, 2**13]
        for name, values in (("input", 2**14), ("indices", 2**12)):
            model["resources"][name]["initialValues"] = {"value": 0, "valueCount": values}
        assert f"the output must have at most {MAX_ELEMENTS} elements, got {2**25}" == problem(model)[1]

    def test_values_that_are_too_many_together(self, monkeypatch):
        """Many dispatches of one tensor take memory for each."""
        monkeypatch.setattr("opmap.dxdispatch.MAX_VALUES_BYTES", 36 + 36 + 36)  # the buffers, two dispatches
        model = gather()
        model["commands"] = model["commands"][:1] * 3
        first, second, third = read_model(json.dumps(model))
        assert (None, None) == (first.error, second.error)
        assert "must keep all values of the file within 108 bytes, got more here" == third.error.message

    def test_a_broken_rule_is_left_to_the_judge(self):
        """The descriptor is there, the values are not read."""
        dispatch = one(changed(*DESC, "Axis", to=1))
        assert None is dispatch.error
        assert "GATHER.F1" == dispatch.desc.violations()[0].rule
        assert {} == dispatch.tensors

    @pytest.mark.parametrize("first", ["GATHER", "DML_OPERATOR_SCATTER", "broken", "hlsl"])
    def test_chains_are_refused_by_name(self, first):
        """What a dispatch before has written is not what the file says, whatever that dispatch was."""
        model = gather()
        fields = copy.deepcopy(model["dispatchables"]["gather"]["desc"])
        if first == "broken":
            fields["Axis"] = 1
        model["dispatchables"]["first"] = {"type": "GATHER" if first == "broken" else first, "desc": fields}
        model["resources"]["middle"] = {"initialValuesDataType": "FLOAT32", "initialValues": [0, 0, 0, 0, 0]}
        bindings = {"InputTensor": "input", "IndicesTensor": "indices", "OutputTensor": {"name": "middle"}}
        model["commands"].insert(0, {"type": "dispatch", "dispatchable": "first", "bindings": bindings})
        model["commands"][1]["bindings"]["InputTensor"] = "middle"
        second = read_model(json.dumps(model))[1]
        assert second.error is not None
        assert (
            "must be a resource with initial values: chains of dispatches ('first', then 'gather') are not read"
            == second.error.message
        )
        assert "$.commands[1].bindings.InputTensor" == second.error.path

    def test_chains_behind_something_that_names_no_output(self):
        """Whatever a shader binds may be what it writes."""
        model = gather()
        model["dispatchables"]["first"] = {"type": "hlsl"}
        model["commands"].insert(
            0, {"type": "dispatch", "dispatchable": "first", "bindings": {"a": "indices", "b": {"name": "input"}}}
        )
        assert "chains of dispatches ('first', then 'gather')" in read_model(json.dumps(model))[1].error.message

    def test_names_with_odd_characters_stay_on_one_line(self):
        """A path quotes what is no plain name."""
        model = changed("dispatchables", "gather", "desc", to=[])
        model["dispatchables"]['a"\n\u2028'] = model["dispatchables"].pop("gather")
        model["commands"][0]["dispatchable"] = 'a"\n\u2028'
        assert '$.dispatchables["a\\"\\n\\u2028"].desc' == problem(model)[0]
        _, message = problem(
            changed("dispatchables", "ga\nther", to={}, model=changed("commands", 0, "dispatchable", to="x\ny"))
        )
        assert message.isprintable()


class TestWriting:
    """What is written is read back as the same."""

    @given(strategies.cases())
    def test_round_trip(self, case):
        """Descriptor and bit patterns, NaN payloads included."""
        text = json.dumps(model_json("it", case.desc, case.tensors), allow_nan=False)
        dispatch = one(text)
        assert None is dispatch.error
        assert ("it", case.desc) == (dispatch.name, dispatch.desc)
        assert {n: list(t.bits) for n, t in case.tensors.items()} == {
            n: list(t.bits) for n, t in dispatch.tensors.items()
        }

    def test_every_field_of_a_tensor(self):
        """Strides, size, alignment and flag are written where they are set."""
        desc = next(OPERATORS["GATHER"].shapes())
        tensor = TensorDesc(DataType.FLOAT32, desc.input_tensor.sizes, (2,), 64, 16, True)
        written = desc_json(desc.replace(input_tensor=tensor))
        assert {
            "DataType": "FLOAT32",
            "Sizes": list(tensor.sizes),
            "Strides": [2],
            "TotalTensorSizeInBytes": 64,
            "GuaranteedBaseOffsetAlignment": 16,
            "Flags": "OWNED_BY_DML",
        } == written["desc"]["InputTensor"]
        assert {"DataType": "FLOAT32", "Sizes": list(desc.output.sizes)} == written["desc"]["OutputTensor"]

    def test_house_style(self):
        """As the models that DxDispatch ships: lower-case keys, short data types, long operator names."""
        case = gather()
        dispatch = one(case)
        written = model_json("gather", dispatch.desc, dispatch.tensors)
        assert case["dispatchables"] == written["dispatchables"]
        assert [11.0, 12.0, 13.0, 14.0] == written["resources"]["InputTensor"]["initialValues"]
        assert ["dispatch", "print"] == [c["type"] for c in written["commands"]]


def _places(value, path=()):
    """The path of every value in a document."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _places(child, (*path, key))


ODD = st.sampled_from(
    [
        *(None, True, 0, -1, 1.5, 2**31, 2**32, 2**63, 2**64, 10**30, -(10**30), 1e308, float("nan"), float("inf")),
        *(
            "",
            "NaN",
            "deferred",
            "GATHER_ND1",
            "FLOAT16",
            "..",
            "\0",
            "\ud800",
            [],
            {},
            [[]],
            [{}],
            [None],
            ["NaN"],
            [1] * 9,
        ),
        *({"value": 1}, {"valueCount": 3, "value": []}, {"sourcePath": "x.npy"}, {"name": "input"}, {"name": []}),
        *({"valueStart": 1, "valueDelta": 1e39, "valueCount": 3}, {"type": "INT8", "value": 1}),
    ]
)


class TestAnyFile:
    """Whatever a file holds, the answer is dispatches or InputError."""

    @given(st.data())
    def test_a_valid_document_with_values_changed(self, data):
        """One to three values are replaced, taken away, or exchanged."""
        model = gather()
        for _ in range(data.draw(st.integers(1, 3))):
            path = data.draw(st.sampled_from([p for p in _places(model) if p]))
            value = data.draw(st.just(...) | ODD | st.sampled_from([_at(model, p) for p in _places(model)]))
            model = changed(*path, to=copy.deepcopy(value), model=model)
        self.reads(json.dumps(model))

    @given(st.data())
    def test_a_valid_document_with_its_text_changed(self, data):
        """A piece of the text is taken away or replaced."""
        text = json.dumps(gather())
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, min(start + 20, len(text))))
        self.reads(text[:start] + data.draw(st.text("{}[],:\"'0123456789.eE+-/*\\unNaI\0 ", max_size=5)) + text[stop:])

    @given(st.binary(max_size=200))
    def test_a_npy_file_with_any_bytes(self, tmp_path_factory, content):
        """Any bytes after the magic."""
        folder = tmp_path_factory.getbasetemp()
        (folder / "fuzz.npy").write_bytes(b"\x93NUMPY\x01\x00" + content)
        self.reads(json.dumps(changed("resources", "input", "initialValues", to={"sourcePath": "fuzz.npy"})), folder)

    @given(st.data())
    def test_a_npy_file_with_any_header(self, tmp_path_factory, data):
        """Fields of a header that are no such thing."""
        anything = st.sampled_from(
            [
                "()",
                "(4,)",
                "(-4,)",
                "(-1, -4)",
                "(True,)",
                "4",
                "None",
                "'<f4'",
                "'>f4'",
                "'O'",
                "'|V0'",
                "'M8[ns]'",
                "[]",
                "[('a','<f4')]",
                "('<f4',(4,))",
                "{}",
                "1L",
                "(0,)",
                "True",
                "False",
                "b'x'",
                "10**9",
                "(1e9,)",
                "'<f4",
                "((",
                "'\\0'",
            ]  # fmt: skip
        )
        fields = {name: data.draw(anything) for name in ("shape", "descr", "fortran")}
        if data.draw(st.booleans()):
            fields["descr"] = "'<f4'"
        folder = tmp_path_factory.getbasetemp()
        (folder / "fuzz.npy").write_bytes(
            lying(**fields, version=data.draw(st.sampled_from([b"\1\0", b"\2\0", b"\3\0", b"\7\7"])))
        )
        self.reads(json.dumps(changed("resources", "input", "initialValues", to={"sourcePath": "fuzz.npy"})), folder)

    def reads(self, text, folder=None):
        """Reading it gives dispatches or an InputError of one line."""
        try:
            found = read_model(text, folder=folder)
        except InputError as error:
            assert "\n" not in str(error)
            return
        for dispatch in found:
            assert dispatch.error is None or "\n" not in str(dispatch.error)
            if dispatch.error is None and not dispatch.desc.violations():
                dispatch.desc.interpret(dispatch.tensors)


def _at(value, path):
    for step in path:
        value = value[step]
    return value
