"""DirectML without ONNX Runtime, as far as it needs no DirectML: tables, structs, calls, descriptors as bytes."""

from __future__ import annotations

import ctypes
import dataclasses
import struct
import sys
from ctypes import c_int32, c_uint32, c_uint64, c_void_p

import numpy as np
import pytest
from described import described
from fake_com import OUT_OF_MEMORY, FakeCom, table_length

from opmap.cases.catalogue import example_descriptor
from opmap.descriptors import TensorDesc
from opmap.engines.directml import structs
from opmap.engines.directml.com import Com, iid, interfaces
from opmap.engines.directml.describing import dispatchable, gaps_written, touched
from opmap.engines.directml.device import Device
from opmap.engines.directml.dispatchable import Dispatchable, Member, NativeDesc, operator_struct
from opmap.engines.directml.dispatching import FILL, GUARD, _placed
from opmap.engines.directml.hresults import BindingRefused, CallFailed, told
from opmap.engines.directml.libraries import direct3d_device
from opmap.errors import ProviderError
from opmap.mapping.memory import GAP, from_memory, to_memory
from opmap.pseudocode import array_of
from opmap.spec import all_specs, load_spec
from opmap.tensors import DataType, Tensor

pytestmark = [
    pytest.mark.platform,
    pytest.mark.skipif(struct.calcsize("P") != 8, reason="the structs are laid out for 64 bits"),
]


class TestInterfaces:
    """The tables of the COM interfaces."""

    def test_a_method_lies_behind_the_methods_of_the_interface_that_is_extended(self):
        for name, interface in interfaces().items():
            first = table_length(interface.extends) if interface.extends else 0
            slots = [method.slot for method in interface.table.values()]
            assert slots == sorted(set(slots)), name
            assert all(first <= slot < table_length(name) for slot in slots), name

    @pytest.mark.parametrize(
        ("name", "count"),
        [
            ("ID3D12Device", 44),
            ("ID3D12CommandQueue", 19),
            ("ID3D12GraphicsCommandList", 60),
            ("ID3D12Resource", 15),
            ("IDXGIFactory1", 14),
            ("IDMLDevice", 17),
            ("IDMLDevice1", 18),
            ("IDMLBindingTable", 13),
            ("IDMLOperatorInitializer", 10),
        ],
    )
    def test_a_table_has_as_many_methods_as_in_the_header(self, name, count):
        assert count == table_length(name)

    def test_no_interface_has_the_id_of_another(self):
        assert len(interfaces()) == len({interface.iid for interface in interfaces().values()})
        assert bytes.fromhex("3764bd6dfd963f42a98cae5e7c2a573f") == bytes(iid("IDMLDevice"))


class TestStructs:
    """The structs, laid out as a 64-bit compiler lays them out."""

    def test_a_struct_has_its_size(self):
        assert {} == {n: s.size for n, s in structs.described().items() if s.size != ctypes.sizeof(structs.struct(n))}

    @pytest.mark.parametrize(
        ("kind", "member", "at"),
        [
            (structs.D3D12_RESOURCE_DESC, "Width", 16),
            (structs.D3D12_RESOURCE_DESC, "Layout", 44),
            (structs.D3D12_RESOURCE_BARRIER, "Transition", 8),
            (structs.DML_BUFFER_TENSOR_DESC, "Sizes", 16),
            (structs.DML_BUFFER_TENSOR_DESC, "TotalTensorSizeInBytes", 32),
            (structs.DML_BUFFER_TENSOR_DESC, "GuaranteedBaseOffsetAlignment", 40),
            (structs.DML_BINDING_PROPERTIES, "PersistentResourceSize", 16),
            (structs.DML_GRAPH_DESC, "OutputEdges", 48),
        ],
    )
    def test_a_member_has_its_place(self, kind, member, at):
        assert at == getattr(kind, member).offset


class TestOperatorDesc:
    """The structs of the operators, made from the fields of the spec."""

    @pytest.mark.parametrize(
        ("operator", "size"),
        [
            *(("GATHER", 32), ("GATHER_ELEMENTS", 32), ("GATHER_ND", 32), ("GATHER_ND1", 40)),
            *(("SCATTER", 40), ("SCATTER_ND", 40), ("TILE", 32), ("SLICE1", 48)),
            *(("SPLIT", 32), ("JOIN", 32), ("DIAGONAL_MATRIX1", 40), ("DIAGONAL_MATRIX", 16)),
        ],
    )
    def test_a_tensor_is_a_pointer_and_a_number_has_4_bytes(self, operator, size):
        spec = load_spec(operator)
        kind = operator_struct(spec.struct, tuple((f.name, f.kind) for f in spec.fields))
        assert spec.struct == kind.__name__
        assert [f.name for f in spec.fields] == [name for name, *_ in kind._fields_]
        assert size == ctypes.sizeof(kind)

    @pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
    def test_every_member_of_a_struct_is_at_its_place_in_memory(self, spec):
        desc, _ = example_descriptor(spec.corrected, "1")
        made = NativeDesc(dispatchable(desc))
        operator = structs.DML_OPERATOR_DESC.from_address(made.address)
        assert spec.number == operator.Type
        at = operator.Desc
        before = [member.before for member in spec.left_out]
        assert {*before} <= {"", *(field.name for field in spec.fields)}
        for field in spec.fields:
            if field.name in before:  # a pointer that is always null
                at += -at % 8
                assert 0 == c_uint64.from_address(at).value
                at += 8
            if field.kind in ("uint", "int", "float"):
                kind = c_int32 if field.kind == "int" else c_uint32
                assert desc.numbers[field.name] == kind.from_address(at).value
                at += 4
                continue
            at += -at % 8
            first = c_uint64.from_address(at).value
            if field.is_array and not field.is_tensor:
                numbers, element = desc.numbers[field.name], {"uints": c_uint32, "ints": c_int32}[field.kind]
                assert list(numbers) == list((element * len(numbers)).from_address(first))
                at += 8
                continue
            if field.kind == "scalar":
                assert desc.numbers[field.name] == first
                at += 8
                continue
            tensors = [t for name, t in desc.tensors.items() if field.name in (name, array_of(name))]
            assert bool(tensors) == bool(first)  # a tensor that is left out is a null pointer
            for wanted, tensor in zip(
                tensors, (structs.DML_TENSOR_DESC * len(tensors)).from_address(first), strict=True
            ):
                buffer = structs.DML_BUFFER_TENSOR_DESC.from_address(tensor.Desc)
                sizes = (c_uint32 * buffer.DimensionCount).from_address(buffer.Sizes)
                assert 1 == tensor.Type
                assert wanted.sizes == tuple(sizes)
                assert wanted.data_type.number == buffer.DataType
                assert wanted.minimum_size_in_bytes == buffer.TotalTensorSizeInBytes
                strides = wanted.strides and tuple((c_uint32 * len(sizes)).from_address(buffer.Strides))
                assert wanted.strides == strides and (wanted.strides or buffer.Strides is None)
            at += 8
        if "" in before:
            at += -at % 8
            assert 0 == c_uint64.from_address(at).value
            at += 8
        assert at + -at % 8 == operator.Desc + ctypes.sizeof(made.members)

    @pytest.mark.parametrize(("example", "slots"), [("1", [None]), ("3", ["InputTensor"])])
    def test_a_tensor_that_is_left_out_keeps_its_slot(self, example, slots):
        """DirectML counts it among the inputs."""
        desc, _ = example_descriptor(load_spec("DIAGONAL_MATRIX1").corrected, example)
        made = dispatchable(desc)
        assert slots == made.slots("input")
        assert [name for name in slots if name] == [*made.tensors("input")]

    def test_slots_of_several_inputs(self):
        """Those of an array count one by one, and an optional tensor in front of others moves none of them."""
        tensor = dispatchable(_gather()).tensors("input")["InputTensor"]
        members = [Member(name="First", kind="input", tensors=[]), Member(name="Count", kind="uint", number=2)]
        members += [Member(name="Tensors", kind="inputs", tensors=[tensor] * 2)]
        members += [Member(name="OutputTensor", kind="output", tensors=[tensor])]
        assert [None, "Tensors[0]", "Tensors[1]"] == Dispatchable(number=1, struct="S", members=members).slots("input")

    def test_strides_flags_alignment_and_size_are_those_of_the_descriptor(self):
        desc = _gather()
        tensor = desc.tensors["InputTensor"]
        changed = {"strides": (0, 3), "total_tensor_size_in_bytes": 64, "guaranteed_base_offset_alignment": 32}
        desc = desc.replace(input_tensor=dataclasses.replace(tensor, owned_by_dml=True, **changed))
        made = NativeDesc(dispatchable(desc))
        pointer = c_uint64.from_address(ctypes.addressof(made.members)).value
        buffer = structs.DML_BUFFER_TENSOR_DESC.from_address(structs.DML_TENSOR_DESC.from_address(pointer).Desc)
        assert (0, 3) == tuple((c_uint32 * 2).from_address(buffer.Strides))
        assert (1, 64, 32) == (buffer.Flags, buffer.TotalTensorSizeInBytes, buffer.GuaranteedBaseOffsetAlignment)

    @pytest.mark.parametrize("strides", [(1,), (1, 1, 1)])
    def test_strides_of_another_count_are_refused_for_directml_would_read_behind_them(self, strides):
        tensor = dataclasses.replace(_gather().tensors["InputTensor"], strides=strides)
        with pytest.raises(ProviderError, match=f"Strides must be one per size, 2: .* got {len(strides)}"):
            NativeDesc(dispatchable(_gather().replace(input_tensor=tensor)))

    @pytest.mark.parametrize("axis", [2**32, -1])
    def test_a_number_that_does_not_fit_is_refused_and_not_cut(self, axis):
        with pytest.raises(ProviderError, match=r"32 bits must be 0 to 2\^32 - 1"):
            NativeDesc(dispatchable(_gather().replace(axis=axis)))


class TestMemory:
    """Tensors in memory, with strides."""

    def test_elements_go_to_their_addresses_and_come_back(self):
        desc = TensorDesc(DataType.UINT16, (2, 3), (1, 3), total_tensor_size_in_bytes=20)
        tensor = Tensor.from_values(DataType.UINT16, (2, 3), range(6))
        memory = to_memory(desc, tensor)
        fill = GAP << 8 | GAP
        assert [0, 3, fill, 1, 4, fill, 2, 5, fill, fill] == memory.view("<u2").tolist()
        assert tensor.to_bytes() == from_memory(desc, memory).tobytes()

    def test_a_repeated_element_is_read_everywhere(self):
        desc = TensorDesc(DataType.UINT8, (2, 2), (0, 1))
        assert [1, 2, GAP, GAP] == to_memory(desc, Tensor.from_values(DataType.UINT8, (2, 2), [1, 2, 1, 2])).tolist()
        assert [[1, 2], [1, 2]] == from_memory(desc, np.array([1, 2, 0, 0], np.uint8)).tolist()

    @pytest.mark.parametrize(
        ("at", "place"),
        [(15, "byte -1, before"), (17, None), (18, None), (20, None), (23, None), (24, "byte 8, behind")],
    )
    def test_a_changed_byte_that_holds_no_element(self, at, place):
        """DirectML may write inside TotalTensorSizeInBytes, and nowhere else."""
        desc = TensorDesc(DataType.UINT8, (2,), (3,), total_tensor_size_in_bytes=8)
        region = np.full(30, FILL, np.uint8)
        region[[16, 19]] = 0
        assert (None, False) == (touched(desc, region, 16), gaps_written(desc, region, 16))
        region[at] = 1
        wanted = "must leave memory outside of the tensor untouched, got 1 changed bytes, the first at"
        assert (place and f"{wanted} {place} the tensor of 8 bytes") == touched(desc, region, 16)
        assert (place is None) == gaps_written(desc, region, 16)

    def test_the_last_bytes_of_the_smallest_total_belong_to_the_tensor(self):
        """It is a multiple of four bytes, here for three elements of one byte."""
        desc = TensorDesc(DataType.UINT8, (3,))
        region = np.full(8, FILL, np.uint8)
        region[3] = 1
        assert (None, True) == (touched(desc, region), gaps_written(desc, region))


class TestRegions:
    """Where the tensors of an operator lie in the buffer."""

    def test_each_begins_at_a_multiple_of_its_alignment_behind_the_one_before(self):
        desc = _gather()
        tensor = dataclasses.replace(desc.tensors["IndicesTensor"], guaranteed_base_offset_alignment=2**16)
        inputs, outputs, length = _placed(dispatchable(desc.replace(indices_tensor=tensor)), {"IndicesTensor": 32})
        regions = [*inputs.values(), *outputs.values()]
        assert [0, 2**16, 2**16 + 4096] == [region.start for region in regions]
        assert 2**16 + 32 == inputs["IndicesTensor"].at
        assert [24, 32 + 32, 32] == [region.length - GUARD for region in regions]
        assert length == regions[-1].start + regions[-1].length

    def test_an_alignment_that_no_buffer_has_is_refused(self):
        tensor = dataclasses.replace(_gather().output, guaranteed_base_offset_alignment=2**33)
        with pytest.raises(ProviderError, match=r"at most 2147483648 bytes \(MAX_BYTES\) in one buffer, got 8589934"):
            _placed(dispatchable(_gather().replace(output_tensor=tensor)), {})


class TestCalls:
    """Calls through the virtual table of an object."""

    @pytest.mark.parametrize(
        ("code", "text"),
        [
            (0x80070057, "80070057 E_INVALIDARG (an argument is not valid)"),
            (0x887A0005, "887A0005 DXGI_ERROR_DEVICE_REMOVED (the device was removed)"),
            (0x80041234, "80041234"),
        ],
    )
    def test_an_hresult_has_a_name_and_a_meaning(self, code, text):
        assert text == told(code)

    def test_a_failed_call_says_which_call_and_why(self):
        fake = FakeCom("IDMLDevice", [], {"IDMLDevice::CreateOperator": OUT_OF_MEMORY}, [])
        with pytest.raises(CallFailed, match=r"^IDMLDevice::CreateOperator: 8007000E E_OUTOFMEMORY \(out of memory\)$"):
            fake.com.create("IDMLOperator", "CreateOperator", None)

    def test_a_created_object_has_the_interface_that_was_asked_for(self):
        made = []
        device = FakeCom("IDMLDevice", [], {}, made).com
        operator = device.create("IDMLOperator", "CreateOperator", None)
        assert ["IDMLDevice", "IDMLOperator"] == [fake.name for fake in made]
        assert made[1].address == operator.address

    def test_an_object_is_released_once_and_not_used_later(self):
        fake = FakeCom("IDMLDevice", [], {}, [])
        device = fake.com
        assert [0, 0] == [device.release(), device.release()]
        assert 0 == fake.references
        with pytest.raises(ValueError, match="IDMLDevice was released"):
            device.call("GetDeviceRemovedReason")

    def test_no_object_is_made_of_a_null_pointer(self):
        with pytest.raises(ValueError, match="got NULL"):
            Com(c_void_p(), "IDMLDevice")


class TestDevice:
    """The device, on objects made of Python functions."""

    def test_everything_is_released_the_last_one_first(self):
        device, made, log = _device()
        log.clear()
        device.close()
        released = [call.split("::")[0] for call in log]
        assert released == [fake.name for fake in reversed(_in_order_of_release(made))]
        assert {0} == {fake.references for fake in made}

    def test_a_device_that_cannot_be_opened_keeps_nothing(self):
        with pytest.raises(CallFailed, match="ID3D12Device::CreateFence"):
            _device({"ID3D12Device::CreateFence": OUT_OF_MEMORY})
        assert {0} == {fake.references for fake in _MADE}

    def test_a_refused_binding_gives_a_new_directml_device(self):
        device, made, _ = _device({})
        fails = made[0].fails
        fails["IDMLDevice1::GetDeviceRemovedReason"] = -2005270523
        before = device.directml.address
        with pytest.raises(BindingRefused, match="DirectML refused a binding") as refused:
            device.check()
        assert "887A0005" not in str(refused.value), "the worker process would be ended for a lost GPU"
        assert before != device.directml.address
        fails.clear()
        device.check()

    def test_a_removed_direct3d_device_is_lost(self):
        removed = -2005270523
        fails = {"IDMLDevice1::GetDeviceRemovedReason": removed, "ID3D12Device::GetDeviceRemovedReason": removed}
        device, _, _ = _device(fails)
        with pytest.raises(CallFailed, match="ID3D12Device::GetDeviceRemovedReason: 887A0005"):
            device.check()

    def test_an_interrupted_recording_is_closed_and_not_run(self):
        device, _, log = _device()
        log.clear()
        with pytest.raises(ZeroDivisionError), device.recording():
            raise ZeroDivisionError
        assert "ID3D12GraphicsCommandList::Close" == log[-1]
        assert "ID3D12CommandQueue::ExecuteCommandLists" not in log

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows may have one")
    def test_another_system_has_no_device(self):
        with pytest.raises(ProviderError, match="DirectML needs Windows, or a folder that tools/dml_linux set up"):
            direct3d_device(None)


_MADE: list[FakeCom] = []


def _device(fails: dict[str, int] | None = None) -> tuple[Device, list[FakeCom], list[str]]:
    """Returns a device on fake objects, all objects in the order in which they were made, and the log of the calls."""
    _MADE.clear()
    log: list[str] = []
    given = {} if fails is None else fails

    def make(name: str) -> Com:
        return FakeCom(name, log, given, _MADE).com

    device = Device(direct3d=lambda adapter: make("ID3D12Device"), directml=lambda device: make("IDMLDevice1"))
    return device, _MADE, log


def _in_order_of_release(made: list[FakeCom]) -> list[FakeCom]:
    """The descriptor heap is made between the others, and released after DirectML's objects, before all others."""
    heap = [fake for fake in made if fake.name == "ID3D12DescriptorHeap"]
    others = [fake for fake in made if fake not in heap]
    first_of_directml = next(i for i, fake in enumerate(others) if fake.name == "IDMLDevice1")
    return [*others[:first_of_directml], *heap, *others[first_of_directml:]]


def _gather():
    return described("GATHER", (3, 2), (1, 4), 0, 1)
