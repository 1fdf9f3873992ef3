"""Writes a reproducer: a Python program that shows a failure, and needs only numpy, onnxruntime and perhaps onnx.

At its top are the steps as data: what is done, and what must be returned, in the words of `opmap.engines.steps` and of
the files of contract probes. The rest is the runner, which is the same in every program. A case that only creates
a session and runs it is a few lines of plain Python in place of the steps.

The program performs the steps, prints what it expected and what it got, and exits with 1 if something is wrong, else
with
0. The execution provider is its first argument; the default is the one on which the failure was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import onnx
import onnx.parser
import onnx.printer
from onnx import numpy_helper

from ...cases.case import Case
from ...cases.contract_probes import ContractProbe
from ...cases.variants import VARIANTS, Formed, Inputs
from ...cases.variants.run_modes import VariantStep
from ...engines.expectations import ExpectedStep
from ...engines.steps import AnyStep, Open, Run, Setup
from ...errors import printable, printable_lines
from ...fuzz.judging import RISE, WINDOWS
from ...mapping import map_descriptor
from ..pages import text_page
from .model_folders import formed_model

MODEL = "model.onnx"

LONG = 48
"""Arrays with more elements are written as bytes."""


@dataclass(frozen=True)
class Recorded:
    """A wrong output that a provider gave, beside what it must be. Masked elements have no documented value."""

    provider: str
    output: str
    actual: np.ndarray
    expected: np.ndarray


def program(
    expected_steps: Sequence[ExpectedStep],
    *,
    title: str,
    provider: str,
    options: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
    recorded: Recorded | None = None,
    files: dict[str, bytes] | None = None,
    again: tuple[Sequence[AnyStep], int] | None = None,
) -> str:
    """Returns the program that performs these steps.

    With `again`, it then performs those so often, and measures its memory.

    `provider` is the default execution provider: its full name, or MODULE:NAME of an object with `open` or `run`.
    `options` are its provider options, `config` its session configuration entries. With a `recorded` output, the
    program can also show that in place of a run. With `files`, the program lies beside these files: models and large
    arrays are read from them, and those that are lacking are added.
    """
    writer, repeated = _Writer(files), again[0] if again else ()
    steps = [writer.step(expected) for expected in expected_steps]
    plain = writer.plain(expected_steps) if not again and _is_plain(expected_steps) else None
    seen = None
    if recorded:
        output = recorded.output
        seen = (f"recorded on {recorded.provider}", {output: recorded.actual}, {output: recorded.expected})
    text = text_page(
        "program.txt",
        title=printable(title.replace("\\", "/").replace('"', "'")).replace("\\", r"\\"),
        defaults=f"{provider!r}, {dict(options or {})!r}, {dict(config or {})!r}",
        own=":" in provider and repr(msgspec.to_builtins(Setup())),
        beside=files is not None,
        steps=steps,
        plain=plain,
        again=[writer.step(ExpectedStep(step)) for step in repeated],
        times=again[1] if again else 0,
        models=[(name, writer.model(raw)) for raw, name in writer.models.items()],
        recorded=writer.expression(seen),
        windows=WINDOWS,
        rise=RISE,
    )
    return text + "\n"


def _is_plain(expected_steps: Sequence[ExpectedStep]) -> bool:
    """Returns whether the steps only create a session of the usual setup, and run it once."""
    if [type(expected.step) for expected in expected_steps] != [Open, Run]:
        return False
    (opened, ran), last = (expected.step for expected in expected_steps), expected_steps[1]
    assert isinstance(opened, Open) and isinstance(ran, Run)
    usual = opened.setup == Setup() and not opened.files and ran == Run(session=ran.session, feeds=ran.feeds)
    return usual and len(last.outputs) == 1 and last.fails == "never" and not last.tolerances


@dataclass
class _Writer:
    """Writes values as Python expressions. `models` are the names of the models, by their bytes."""

    files: dict[str, bytes] | None
    models: dict[bytes, str] = field(default_factory=dict)

    def step(self, expected: ExpectedStep) -> str:
        """Returns a step as a dictionary: its fields that are not at their defaults, and what must happen."""
        fields = {"step": type(expected.step).__name__.lower(), **set_fields(expected.step)}
        pairs = [f"{name!r}: {self._field(name, value)}" for name, value in fields.items() if name != "static"]
        if expected.outputs:
            outputs = expected.outputs[0] if len(expected.outputs) == 1 else list(expected.outputs)
            pairs.append(f"'expect': {self.expression(outputs)}")
        if tolerances := {name: width for name, width in expected.tolerances.items() if width}:
            pairs.append(f"'tolerances': {tolerances!r}")
        if expected.fails != "never":
            pairs.append("'refused': True" if expected.fails == "always" else "'maybe': True")
        return f"{{{', '.join(pairs)}}}"

    def plain(self, expected_steps: Sequence[ExpectedStep]) -> str:
        """Returns the lines for a session that is created and run once."""
        opened, ran = (expected.step for expected in expected_steps)
        assert isinstance(opened, Open) and isinstance(ran, Run)
        (outputs,) = expected_steps[1].outputs
        return "\n".join(
            [
                f"    session = create({self._field('model', opened.model)})",
                f"    names = {list(outputs)!r}",
                f"    outputs = session.run(names, {self.expression(ran.feeds)})",
                f"    check('run', dict(zip(names, outputs)), {self.expression(outputs)})",
            ]
        )

    def _field(self, name: str, value: object) -> str:
        if name == "model" and isinstance(value, np.ndarray):
            return self.models.setdefault(value.tobytes(), f"MODEL{len(self.models) + 1}")
        if name == "files" and isinstance(value, Mapping):
            return f"{{{', '.join(f'{file!r}: {self.content(file, array)}' for file, array in value.items())}}}"
        return self.expression(value)

    def expression(self, value: object) -> str:
        """Returns an expression with exactly this value."""
        if isinstance(value, np.ma.MaskedArray):
            data, mask = np.ma.getdata(value), np.ma.getmaskarray(value)
            return f"np.ma.array({self.expression(data)}, mask={self.expression(mask)})"
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, msgspec.Struct):
            return self.expression(set_fields(value))
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{key!r}: {self.expression(item)}' for key, item in value.items())}}}"
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(self.expression, value))}]"
        return repr(value)

    def model(self, raw: bytes) -> str:
        """Returns an expression with a model: its text or its bytes, or its file."""
        return _model_literal(raw) if self.files is None else self._file(raw, f"before_{len(self.files)}.onnx")

    def content(self, name: str, content: np.ndarray) -> str:
        """Returns an expression with the bytes of a file that a session needs."""
        if self.files is None:
            return f"bytes.fromhex({content.tobytes().hex()!r})"
        return self._file(content.tobytes(), f"before_{len(self.files)}_{name}")

    def _array(self, array: np.ndarray) -> str:
        if self.files is None or array.size <= LONG:
            return _array_literal(array)
        raw, dtype = array.tobytes(), f"np.{'bool_' if array.dtype == np.bool_ else array.dtype.name}"
        for name, content in self.files.items():  # the values are the last bytes of a tensor's file
            if name.startswith("test_data_set_0/") and content.endswith(raw):
                return f"np.frombuffer(file({name!r})[-{len(raw)}:], {dtype}).reshape({array.shape!r})"
        return f"np.frombuffer({self._file(raw, f'arrays/{len(self.files)}.bin')}, {dtype}).reshape({array.shape!r})"

    def _file(self, content: bytes, name: str) -> str:
        """Returns an expression that reads the file with this content; adds it under `name` if there is none."""
        assert self.files is not None
        found = next((file for file, its_content in self.files.items() if its_content == content), name)
        self.files[found] = content
        return f"file({found!r})"


def set_fields(struct: msgspec.Struct) -> dict[str, object]:
    """Returns the fields of a struct that are not at their defaults."""
    fields: dict[str, object] = {}
    for each in msgspec.structs.fields(struct):
        value = getattr(struct, each.name)
        default = each.default_factory() if each.default_factory is not msgspec.NODEFAULT else each.default
        if each.required or isinstance(value, np.ndarray) or value != default:
            fields[each.name] = value
    return fields


# --- expressions for arrays and models ---


def _array_literal(array: np.ndarray) -> str:
    """Returns an expression with exactly these bits."""
    dtype = f"np.{'bool_' if array.dtype == np.bool_ else array.dtype.name}"
    if array.size == 0:
        return f"np.zeros({array.shape!r}, {dtype})"
    if array.size > LONG:
        return f"np.frombuffer(bytes.fromhex({array.tobytes().hex()!r}), {dtype}).reshape({array.shape!r})"
    values = array.tolist()
    if np.array(values, array.dtype).tobytes() == array.tobytes() and np.isfinite(array).all():
        return f"np.array({values!r}, {dtype})"
    words = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
    return f"np.array({words.tolist()!r}, np.uint{8 * array.dtype.itemsize}).view({dtype})"


def _model_literal(raw: bytes) -> str:
    """Returns an expression with a model: its text in ONNX's form if that says the same, else its bytes."""
    try:
        model = onnx.load_from_string(raw)
        text = onnx.printer.to_text(model)
        if (
            '"""' not in text
            and "\\" not in text
            and text == printable_lines(text)
            and _same(onnx.parser.parse_model(text), model)
        ):
            return f'"""\n{text}\n"""'
    except Exception:  # the parser and the printer do not know everything that a model can have
        pass
    return f"bytes.fromhex({raw.hex()!r})"


def _same(model: onnx.ModelProto, other_model: onnx.ModelProto) -> bool:
    """Returns whether two models are equal, however they write the values of their tensors."""
    for either in (model, other_model):
        _plain(either.graph)
    for name in ("producer_name", "producer_version", "domain", "doc_string", "model_version"):
        model.ClearField(name)
        other_model.ClearField(name)
    return bool(model == other_model)


def _plain(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    for node in graph.node:
        if not node.domain:
            node.ClearField("domain")
        for attribute in node.attribute:
            attribute.ClearField("doc_string")
            if attribute.type == onnx.AttributeProto.GRAPH:
                _plain(attribute.g)


# --- the steps of a case, without a provider ---


def expected_steps(item: Case | ContractProbe) -> list[ExpectedStep]:
    """Returns the steps of a case or contract probe on the DirectML EP, each with what it must return."""
    if isinstance(item, ContractProbe):
        return list(item.steps)
    formed = formed_model(map_descriptor(item.desc, index_conversion="directml"), item)
    return dry_run(formed, item.inputs, item.variant)


def dry_run(formed: Formed, first: Inputs, variant: str) -> list[ExpectedStep]:
    """Returns the steps of a variant with this model, each with what it must return.

    Elements without a documented value are masked, and a run that has such elements may fail.
    """
    return [_expected(formed, variant_step) for variant_step in VARIANTS[variant].run_mode.steps(formed, first)]


def _expected(formed: Formed, variant_step: VariantStep) -> ExpectedStep:
    step, inputs = variant_step.step, variant_step.inputs
    if inputs is None:
        return ExpectedStep(step)
    names = step.outputs if isinstance(step, Run) else None
    outputs = {name: formed.expected_array(name, inputs) for name in names or formed.outputs}
    return ExpectedStep(
        step, (outputs,), fails="perhaps" if any(None in bits for bits in inputs.all_expected.values()) else "never"
    )
