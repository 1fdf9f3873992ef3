"""Contract probes: short programs over sessions and values, each with the answer that the documentation promises.

The files `contract/SUBJECT.toml` hold them. A file begins with the models and arrays that its probes name. A model is
in ONNX's text form; without a header it gets opmap's IR version and opset. A step is one of `engines.steps`, with what
must happen:

- `expect`: the outputs by name, exactly these. For the step `concurrent` a list, with the outputs of each run.
- `refused`: the step must fail. The documentation calls this use an error; the text of the error is not compared.
- `maybe`: the step may fail. If it does not, `expect` holds, if it is given.
- Otherwise the step must not fail.

`signs` names wrong values that have a known meaning: a text, and the outputs that show it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import numpy as np
import onnx
import onnx.parser

from ..engines.expectations import ExpectedStep
from ..engines.steps import AnyStep, Open, Run, Step
from ..mapping import IR_VERSION, OPSET
from ..vocabulary import CONTRACT

_MARKS = ("expect", "refused", "maybe", "signs")


class Literals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array in a file: its NumPy type, its sizes, and its values, flat and row-major."""

    type: str
    sizes: list[int]
    values: list[bool | int | float] = []

    def array(self) -> np.ndarray:
        """Returns the array. Raises ValueError if the values do not fill it, or do not have its type."""
        array = np.array(self.values, self.type)
        if any(got != value and value == value for got, value in zip(array.tolist(), self.values, strict=True)):
            raise ValueError(f"the values must be {self.type}, got {self.values}")
        return array.reshape(self.sizes)


class ContractProbe(msgspec.Struct, frozen=True):
    """One contract probe. `page` is the address of the documentation that promises the answer.

    `providers` are the only execution providers on which the steps have a meaning; None means all.
    """

    id: str
    text: str
    page: str
    steps: tuple[ExpectedStep, ...]
    providers: tuple[str, ...] | None = None

    @property
    def models(self) -> list[onnx.ModelProto]:
        """The models of its sessions."""
        return [onnx.load_from_string(s.step.model.tobytes()) for s in self.steps if isinstance(s.step, Open)]

    @property
    def operators(self) -> list[str]:
        """The operators of the models' nodes, such as `ONNX Cast`, each once."""
        nodes = (node for model in self.models for node in model.graph.node)
        return list(dict.fromkeys(f"ONNX {node.op_type}" for node in nodes))

    @property
    def portable(self) -> bool:
        """Whether a third party's provider with sessions can perform all steps."""
        return all(_portable(s.step) for s in self.steps)


@cache
def contract_probes() -> tuple[ContractProbe, ...]:
    """Returns all contract probes. An id is `contract/SUBJECT/NAME`."""
    folder = files(__package__) / "contract"
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".toml")), key=lambda p: p.name)
    return tuple(probe for path in paths for probe in read(path.read_bytes(), path.name.removesuffix(".toml")))


def read(content: bytes, subject: str) -> list[ContractProbe]:
    """Returns the probes in the bytes of a file. Raises ValueError if it is not as the module says."""
    document = msgspec.toml.decode(content, type=_File)
    models = {name: _model(text) for name, text in document.models.items()}
    definitions = _Definitions(models, {name: literals.array() for name, literals in document.arrays.items()})
    return [
        ContractProbe(
            f"{CONTRACT}{subject}/{draft.name}",
            draft.text,
            draft.page,
            tuple(definitions.step(dict(table)) for table in draft.steps),
            draft.providers,
        )
        for draft in document.probes
    ]


class _Draft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A probe as it stands in a file."""

    name: str
    text: str
    page: str
    steps: tuple[dict[str, Any], ...]
    providers: tuple[str, ...] | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    probes: tuple[_Draft, ...]
    models: dict[str, str] = {}
    arrays: dict[str, Literals] = {}


class _Definitions(msgspec.Struct):
    """The models and arrays of a file, by name. A model has its bytes, and whether all its shapes are known."""

    models: dict[str, tuple[np.ndarray, bool]]
    arrays: dict[str, np.ndarray]

    def step(self, table: dict[str, Any]) -> ExpectedStep:
        """Returns the step of a table, with what must happen."""
        marks = {mark: table.pop(mark) for mark in _MARKS if mark in table}
        if "model" in table:
            table["model"], static = self.models[table["model"]]
            table.setdefault("static", static)
        step: AnyStep = msgspec.convert(table, AnyStep, dec_hook=self._decode)
        expect = marks.get("expect", [])
        if isinstance(expect, dict):
            expect = [expect]
        return ExpectedStep(
            step,
            outputs=tuple(self._outputs(outputs) for outputs in expect),
            fails="always" if marks.get("refused") else "perhaps" if marks.get("maybe") else "never",
            signs={text: self._outputs(outputs) for text, outputs in marks.get("signs", {}).items()},
        )

    def _outputs(self, table: object) -> dict[str, np.ndarray]:
        return msgspec.convert(table, dict[str, np.ndarray], dec_hook=self._decode)

    def _decode(self, kind: type, value: object) -> np.ndarray:
        if isinstance(value, np.ndarray):  # a model
            return value
        return self.arrays[value] if isinstance(value, str) else msgspec.convert(value, Literals).array()


def _model(text: str) -> tuple[np.ndarray, bool]:
    """Returns the bytes of a model in ONNX's text form, and whether the sizes of all its inputs are known."""
    header = "" if text.lstrip().startswith("<") else f'<ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}]>\n'
    model = onnx.parser.parse_model(header + text)
    kinds = [value.type.tensor_type for value in model.graph.input]
    static = all(kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim) for kind in kinds)
    return np.frombuffer(model.SerializeToString(deterministic=True), np.uint8), static


def _portable(step: Step) -> bool:
    if isinstance(step, Open):
        return not (step.files or step.setup.devices or step.setup.initializers or step.setup.ort_format)
    if isinstance(step, Run):
        return not (step.values or step.keep or step.config or step.method != "run")
    return type(step).__name__ in ("Drop", "Clear")
