"""DxDispatch models for tests: a plain one, changes to it, and the result of reading one."""

import copy
import json

from opmap.cases.catalogue import example_descriptor
from opmap.errors import InputError
from opmap.mapping.dxdispatch import model_json, read_model
from opmap.spec import load_spec
from opmap.tensors import Tensor


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


def diagonal(example):
    """The model of an example of DIAGONAL_MATRIX1, whose input may be left out."""
    desc, tensors = example_descriptor(load_spec("DIAGONAL_MATRIX1").corrected, example)
    return json.loads(json.dumps(model_json("it", desc, {name: tensors[name] for name in desc.inputs})))


def changed(*path, to, model=None):
    """The model with the value at a path replaced, or removed if the new value is `...`."""
    model = copy.deepcopy(model or gather())
    *parents, name = path
    parent = model
    for step in parents:
        parent = parent[step]
    if to is ...:
        del parent[name]
    else:
        parent[name] = to
    return model


DESC = ("dispatchables", "gather", "desc")


def one(model, folder=None):
    """The only dispatch of a model, given as an object or a text."""
    (dispatch,) = read_model(model if isinstance(model, str) else json.dumps(model), folder=folder)
    return dispatch


def output(model, folder=None):
    """The output values of the only dispatch, computed by the pseudocode."""
    dispatch = one(model, folder)
    if dispatch.error:
        raise dispatch.error
    assert () == dispatch.desc.violations()
    bits = dispatch.desc.interpret(dispatch.tensors)
    return list(Tensor(dispatch.desc.output.data_type, dispatch.desc.output.sizes, bits).values)


def problem(model, folder=None):
    """Path and message of the error of the only dispatch, or of the whole model."""
    try:
        error = one(model, folder).error
    except InputError as raised:
        error = raised
    assert error is not None, "nothing is wrong with it"
    assert "\n" not in str(error)
    return error.path, error.message


EXPECTED = [14.0, 12.0, 14.0, 11.0, 13.0]


def lying(shape="(4,)", descr="'<f4'", fortran="False", data=b"\0" * 16, version=b"\x01\x00", header=None):
    """The bytes of a .npy file with any header, whether or not it fits the data."""
    text = header if header is not None else f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"
    raw = text.encode("latin-1")
    raw += b" " * (-(len(raw) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + version + len(raw).to_bytes(2 if version[0] == 1 else 4, "little") + raw + data
