"""Operator descriptors and tensor descs as DxDispatch JSON, in and out."""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from ...descriptors import OperatorDesc, TensorDesc
from ...errors import InputError, names, shown
from ...limits import MAX_SIZES, MAX_TENSORS
from ...spec import Field
from ...tensors import DIRECTML_TYPES, DataType, to_bits
from .json_value import Json, JsonValue, UInt32, UInt64


class _TensorFields(msgspec.Struct):
    """The fields of a tensor desc. Fields with other names are ignored, as DxDispatch ignores them."""

    DataType: str
    Sizes: list[UInt32]
    DimensionCount: UInt32 | None = None
    Strides: list[UInt32] | None = None
    TotalTensorSizeInBytes: UInt64 | None = None
    GuaranteedBaseOffsetAlignment: UInt32 = 0
    Flags: str | list[str] = "NONE"


def read_desc(cls: type[OperatorDesc], fields: JsonValue) -> OperatorDesc:
    """Returns the descriptor of an operator. Raises InputError if a field is missing or has the wrong type.

    The operator's rules are not checked.
    """
    members: dict[str, Any] = {}
    for field in cls.spec().fields:
        if field.optional and fields.optional_member(field.name) is None:
            continue
        value = fields.member(field.name)
        if field.is_tensor and field.is_array:
            value.check_count(MAX_TENSORS, "tensors")
            members[field.name] = tuple(map(_tensor_desc, value.elements()))
        elif field.is_tensor:
            members[field.name] = _tensor_desc(value)
        elif field.is_array:
            value.check_count(MAX_SIZES, "numbers")
            members[field.name] = tuple(number.number(*field.limits) for number in value.elements())
        elif field.names:
            members[field.name] = _enumeration(field, value)
        elif field.is_scalar and not field.typed_by:
            members[field.name] = _scalar(DataType.FLOAT32, value)
        elif field.is_scalar:
            name = str(cls.spec().field(field.typed_by).shown(members[field.typed_by]))
            members[field.name] = _scalar(DataType[name] if name in DataType.__members__ else DataType.UINT64, value)
        else:
            members[field.name] = value.number(*field.limits)
    for left_out in cls.spec().left_out:
        given = fields.optional_member(left_out.name)
        if given is not None and given.value is not None:
            raise InputError(f"must be left out, got {given.kind} ({left_out.rule})", path=given.path)
    return cls.from_members(members)


def _enumeration(field: Field, value: JsonValue) -> int:
    name = value.value
    try:
        return field.number(str(name).upper() if isinstance(name, bool if field.is_bool else str) else "")
    except ValueError:
        got = shown(name) if isinstance(name, str) else value.kind
        raise InputError(f"must be {' or '.join(field.names)}, got {got}", path=value.path) from None


def _scalar(data_type: DataType, value: JsonValue) -> int:
    value.check_finite()
    try:
        (bits,) = to_bits(data_type, [value.value])
    except InputError as error:
        message = str(error).removeprefix("value 0 ")
        raise InputError(message, path=value.path) from None
    return bits


def _tensor_desc(value: JsonValue) -> TensorDesc:
    value = value.optional_member("Desc", "desc") or value
    for name in ("Sizes", "Strides", "Flags"):
        member = value.optional_member(name)
        if member:
            member.check_count(MAX_SIZES, name)
    fields = value.struct(_TensorFields)
    if fields.DimensionCount is not None and fields.DimensionCount != len(fields.Sizes):
        message = f"must be the number of Sizes, {len(fields.Sizes)}, got {fields.DimensionCount}"
        raise InputError(message, path=f"{value.path}.DimensionCount")
    flags = [fields.Flags] if isinstance(fields.Flags, str) else fields.Flags
    short_flags = {flag.upper().removeprefix("DML_TENSOR_FLAG_") for flag in flags}
    if not short_flags <= {"NONE", "OWNED_BY_DML"}:
        raise InputError(f"must be NONE or OWNED_BY_DML, got {names(flags)}", path=f"{value.path}.Flags")
    return TensorDesc(
        to_data_type(JsonValue(fields.DataType, f"{value.path}.DataType")),
        tuple(fields.Sizes),
        tuple(fields.Strides) if fields.Strides else None,
        fields.TotalTensorSizeInBytes or None,
        fields.GuaranteedBaseOffsetAlignment,
        "OWNED_BY_DML" in short_flags,
    )


def to_data_type(value: JsonValue) -> DataType:
    """Returns the data type with a name such as `FLOAT32` or `DML_TENSOR_DATA_TYPE_FLOAT32`, in upper or lower case."""
    name = value.string().upper().removeprefix("DML_TENSOR_DATA_TYPE_")
    types = {data_type.name: data_type for data_type in DIRECTML_TYPES}
    if name not in types:
        raise InputError(f"must be one of {', '.join(types)}, got {shown(value.value)}", path=value.path)
    return types[name]


class DescJson(TypedDict):
    """A dispatchable: the operator's full name, and the struct's members by DirectML's names."""

    type: str
    desc: dict[str, Json]


def desc_json(desc: OperatorDesc) -> DescJson:
    """Returns a descriptor as DxDispatch writes it: `{"type": …, "desc": {…}}`. A tensor that it lacks is left out."""
    members = {name: getattr(desc, attribute) for name, attribute in desc.members().items()}
    fields = {name: _member_json(member) for name, member in members.items() if member is not None}
    fields |= {n: number for n, number in desc.named_numbers.items() if isinstance(number, str) or n in desc.scalars}
    fields |= {field.name: bool(desc.numbers[field.name]) for field in desc.spec().fields if field.is_bool}
    return {"type": f"DML_OPERATOR_{desc.operator}", "desc": fields}


def _member_json(value: TensorDesc | int | tuple[TensorDesc | int, ...]) -> Json:
    if isinstance(value, tuple):
        return list(map(_member_json, value))
    return _tensor_json(value) if isinstance(value, TensorDesc) else value


def _tensor_json(tensor: TensorDesc) -> dict[str, Json]:
    entry: dict[str, Json] = {"DataType": tensor.data_type.name, "Sizes": list(tensor.sizes)}
    if tensor.strides is not None:
        entry["Strides"] = list(tensor.strides)
    if tensor.total_tensor_size_in_bytes is not None:
        entry["TotalTensorSizeInBytes"] = tensor.total_tensor_size_in_bytes
    if tensor.guaranteed_base_offset_alignment:
        entry["GuaranteedBaseOffsetAlignment"] = tensor.guaranteed_base_offset_alignment
    if tensor.owned_by_dml:
        entry["Flags"] = "OWNED_BY_DML"
    return entry
