"""Reads the dispatch commands of DxDispatch models."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from ...descriptors import OperatorDesc
from ...errors import InputError, names, shown
from ...files import read_text
from ...limits import MAX_COMMANDS, MAX_ELEMENTS
from ...operators import OPERATORS
from ...pseudocode import array_of
from ...tensors import Tensor
from .descriptor_json import read_desc
from .json_value import JsonValue, parse_json
from .resources import Binding, Resources, released

_OPERATOR_PREFIX = "DML_OPERATOR_"


@dataclass(frozen=True)
class Dispatch:
    """One dispatch command: a descriptor and the values bound to its inputs, or the error that makes it unusable.

    `name` is the dispatchable's name, `operator` the full name of the operator, `path` the place of the descriptor in
    the file. `tensors` are packed, by DirectML's field names; they are empty if the descriptor breaks a rule. Fields
    that were not reached before the error are None. `offsets` are where bound tensors begin in their resources, in
    bytes, by field name; 0 is left out.
    """

    name: str | None = None
    operator: str | None = None
    desc: OperatorDesc | None = None
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    offsets: Mapping[str, int] = field(default_factory=dict)
    path: str = "$"
    error: InputError | None = None


def read(path: str | os.PathLike[str]) -> list[Dispatch]:
    """Returns the dispatch commands of a file, in order. Raises InputError if the file as a whole is unusable.

    A dispatch that is wrong has an `error`; the others are read.
    """
    path = Path(path)
    text = read_text(path)
    if path.suffix.lower() != ".json" and not text.lstrip("\ufeff \t\r\n").startswith(("{", "/")):
        raise InputError("must be an ONNX model (NAME.onnx) or a DxDispatch file (JSON), got another file")
    return read_model(text, folder=path.parent)


def read_model(text: str, *, folder: str | os.PathLike[str] | None = None) -> list[Dispatch]:
    """Returns the dispatch commands of a model's text, in order. Raises InputError if the text as a whole is unusable.

    Source files are looked up in `folder` only; without a folder they are refused.
    """
    model = parse_json(text)
    resources = Resources(model.member("resources").object(), Path(folder) if folder is not None else None)
    reader = _Reader(resources, model.member("dispatchables").object())
    dispatches = list(reader.dispatches(model.member("commands")))
    if not dispatches:
        raise InputError("must hold a dispatch command, got none", path="$.commands")
    return dispatches


class _Reader:
    """Reads the dispatch commands of one model, in order."""

    def __init__(self, resources: Resources, dispatchables: JsonValue):
        self.resources, self.dispatchables = resources, dispatchables
        self.writers: dict[str, str] = {}
        """Resource name -> name of the last dispatchable that writes it."""
        self._read: dict[str, Dispatch] = {}
        self._owned: dict[str, JsonValue] = {}
        """Name of a dispatchable -> its own bindings: of inputs that DirectML owns, given when the operator is
        initialized."""

    def dispatches(self, commands: JsonValue) -> Iterator[Dispatch]:
        commands.check_count(MAX_COMMANDS, "commands")
        for command in commands.elements():
            kind = command.member("type").string()
            if kind.lower() == "dispatch":
                yield self._dispatch(command)
            elif kind.lower() not in ("print", "writefile"):
                raise InputError(
                    f"must be dispatch, print or writeFile, got {shown(kind)}", path=f"{command.path}.type"
                )

    def _dispatch(self, command: JsonValue) -> Dispatch:
        dispatch = Dispatch()
        try:
            name = command.member("dispatchable").string()
            if name not in self._read:
                self._read[name] = self._dispatchable(name)
            dispatch = self._read[name]
            if dispatch.desc is not None and not dispatch.desc.violations():
                if why := dispatch.desc.not_computed:
                    raise InputError(why, path=dispatch.path)
                tensors, offsets = self._bound_tensors(command, dispatch.desc, name)
                dispatch = replace(dispatch, tensors=tensors, offsets=offsets)
            return dispatch
        except InputError as error:
            return replace(dispatch, error=released(error))
        finally:
            self._remember_outputs(command, dispatch)

    def _dispatchable(self, name: str) -> Dispatch:
        """Returns the descriptor of a dispatchable, or its error, without tensors. Several commands may dispatch it."""
        dispatch = Dispatch(name=name, path=self.dispatchables.path_of(name))
        try:
            dispatchable = self.dispatchables.member(name)
            type_value = dispatchable.member("type", "Type")
            operator = type_value.string().upper().removeprefix(_OPERATOR_PREFIX)
            if operator not in OPERATORS:
                wanted = f"must be an operator that opmap knows ({', '.join(OPERATORS)})"
                raise InputError(f"{wanted}, got {names([type_value.value])}", path=type_value.path)
            dispatch = replace(dispatch, operator=f"{_OPERATOR_PREFIX}{operator}")
            compiled = dispatchable.optional_member("dmlCompileType")
            if compiled is not None and compiled.string() != "DmlCompileOp":
                wanted = "must be DmlCompileOp (the provider option compile=graph of directml compiles a graph)"
                raise InputError(f"{wanted}, got {shown(compiled.value)}", path=compiled.path)
            fields = dispatchable.optional_member("desc", "Desc") or dispatchable
            dispatch = replace(dispatch, path=fields.path)
            desc: OperatorDesc = read_desc(OPERATORS[operator].descriptor, fields)
            if (bindings := dispatchable.optional_member("bindings")) is not None:
                self._owned[name] = bindings
                for member in self._owned[name].members:
                    if not all(t.owned_by_dml for n, t in desc.tensors.items() if member in (n, array_of(n))):
                        message = "must be bound by the command: the tensor has no flag OWNED_BY_DML"
                        raise InputError(message, path=self._owned[name].path_of(member))
            return replace(dispatch, desc=desc)
        except InputError as error:
            return replace(dispatch, error=released(error))

    def _bound_tensors(
        self, command: JsonValue, desc: OperatorDesc, name: str
    ) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Returns the inputs, and the offsets of all tensors that have one, by DirectML's field names.

        The outputs must be bound. Their initial values are ignored; with an offset, they must hold the tensor.
        """
        bindings, owned = command.member("bindings"), self._owned.get(name)
        fields = [field.name for field in desc.spec().fields if field.is_tensor]
        for given in filter(None, (owned, bindings)):
            for surplus in (name for name in given.members if name not in fields):
                wanted = f"must be a tensor of the descriptor ({names(fields)})"
                raise InputError(f"{wanted}, got {names([surplus])}", path=given.path_of(surplus))
        tensors, inputs, offsets = {}, {}, {}
        values: dict[str, JsonValue] = {}
        for member in desc.members():
            given = owned if owned and member in owned.members and member not in bindings.members else bindings
            values |= _bound(given, desc, member)
        for field_name, tensor_desc in desc.inputs.items():
            value = values[field_name]
            binding = _binding(value)
            inputs[binding.name] = field_name
            if binding.name in self.writers:
                chain = f"chains of dispatches ({shown(self.writers[binding.name])}, then {shown(name)}) are not read"
                raise InputError(f"must be a resource with initial values: {chain}", path=value.path)
            tensors[field_name] = self.resources.tensor(tensor_desc, binding, path=value.path)
            if binding.elementOffset:
                offsets[field_name] = self.resources.offset(tensor_desc, binding, path=value.path)
        count = sum(output.element_count for output in desc.outputs.values())
        if count > MAX_ELEMENTS:
            what = "outputs" if len(desc.outputs) > 1 else "output"
            raise InputError(f"the {what} must have at most {MAX_ELEMENTS} elements, got {shown(count)}")
        for output in desc.outputs:
            value = values[output]
            binding = _binding(value)
            resource = binding.name
            if resource in inputs:
                raise InputError(f"must be another resource than that of {inputs[resource]}", path=value.path)
            self.resources.require(resource)
            if binding.elementOffset:
                offsets[output] = self.resources.offset(desc.tensors[output], binding, path=value.path)
        return tensors, offsets

    def _remember_outputs(self, command: JsonValue, dispatch: Dispatch) -> None:
        """Records the resources that a dispatch writes, so that a later dispatch that reads one of them is refused.

        A dispatch that could not be read counts as well: at run time it would write its outputs all the same. The
        outputs of an unknown operator are the bindings whose names start with `Output`. If there are none, every
        binding may be an output.
        """
        bindings = command.members.get("bindings")
        if not isinstance(bindings, dict) or dispatch.name is None:
            return
        if dispatch.operator is not None:
            desc_type: type[OperatorDesc] = OPERATORS[dispatch.operator.removeprefix(_OPERATOR_PREFIX)].descriptor
            outputs = list(desc_type.spec().field_names("output"))
        else:
            outputs = [name for name in bindings if name.startswith("Output")] or list(bindings)
        bound = (bindings.get(output) for output in outputs)
        for binding in chain.from_iterable(b if isinstance(b, list) else [b] for b in bound):
            resource = binding.get("name") if isinstance(binding, dict) else binding
            if isinstance(resource, str):
                self.writers[resource] = dispatch.name


def _bound(bindings: JsonValue, desc: OperatorDesc, field: str) -> dict[str, JsonValue]:
    """Returns the bindings of a field's tensors, by their names; none of a number. Those of an array are an array."""
    names = [name for name in desc.tensors if field in (name, array_of(name))]
    if not names:
        surplus = bindings.optional_member(field) if desc.spec().field(field).optional else None
        if surplus:
            raise InputError(f"must be left out: the descriptor has no {field}", path=surplus.path)
        return {}
    value = bindings.member(field)
    if field not in desc.spec().arrays:
        return {field: value}
    values = [*value.elements()] if not isinstance(value.value, (str, dict)) else [value]
    if len(values) != len(names):
        raise InputError(f"must be {len(names)} bindings, one per tensor, got {len(values)}", path=value.path)
    return dict(zip(names, values, strict=True))


def _binding(value: JsonValue) -> Binding:
    """Returns a binding, which is written as an object or only as the name of a resource."""
    if isinstance(value.value, str):
        return Binding(value.value)
    return value.struct(Binding)
