"""Inputs whose strides are what the operator is for: their layouts, their models, the faults, the members that are left
out."""

from __future__ import annotations

import ctypes
import dataclasses
import json
from collections import Counter
from itertools import pairwise, permutations

import numpy as np
import pytest
from serialized_samples import MAPPED, graphs
from tiers import own_cases

from opmap.cases.catalogue import generated
from opmap.cases.features import features
from opmap.cases.layouts import in_layout, without_layout
from opmap.cases.random_cases import draw_any
from opmap.cases.selection import find_case
from opmap.cases.values import as_stored
from opmap.cases.variants import Inputs
from opmap.cases.variants.formed import plain_feeds
from opmap.cases.variants.further_inputs import fresh_values, other_sizes
from opmap.descriptors import Layout, TensorDesc, complete
from opmap.diagnosis.case import shrink_case
from opmap.diagnosis.draft import DescriptorEdit
from opmap.engines.arrays import to_array
from opmap.engines.directml.describing import dispatchable
from opmap.engines.directml.dispatchable import NativeDesc
from opmap.errors import InputError, MappingError
from opmap.faults import FAULTS
from opmap.faults.case_arrays import CaseArrays
from opmap.mapping import map_descriptor
from opmap.mapping.dxdispatch import model_json, read_model
from opmap.mapping.serialized_graph import compare
from opmap.operators import OPERATORS, size_classes
from opmap.operators.random_source import SeededSource
from opmap.spec import load_spec
from opmap.tensors import DataType, Tensor

NAME = "ELEMENT_WISE_IDENTITY"
OPERATOR = OPERATORS[NAME]
F32 = DataType.FLOAT32


def identity(sizes, strides=None, data_type=F32):
    """The descriptor that copies a tensor with strides to a packed one."""
    return complete(OPERATOR.descriptor, {"InputTensor": TensorDesc(data_type, sizes, strides)}, {})


def drawn(count, seed=3):
    source = SeededSource(seed)
    return [draw_any(source, NAME, 256) for _ in range(count)]


class TestLayout:
    """A layout says how elements lie in memory, whatever the sizes."""

    @pytest.mark.parametrize(
        ("sizes", "strides", "ranks", "gap", "kind"),
        [
            ((2, 3), None, (2, 1), 0, "packed"),
            ((2, 3), (3, 1), (2, 1), 0, "packed"),
            ((2, 1, 3), (3, 3, 1), (3, 2, 1), 0, "packed"),
            ((2, 1, 3), (3, 0, 1), (2, 0, 1), 0, "packed"),
            ((2, 3), (1, 2), (1, 2), 0, "permuted"),
            ((3, 2, 1), (2, 1, 6), (2, 1, 3), 0, "packed"),
            ((2, 3), (0, 1), (0, 1), 0, "repeated"),
            ((2, 3), (0, 0), (0, 0), 0, "repeated"),
            ((2, 3, 4), (1, 0, 2), (1, 0, 2), 0, "both"),
            ((2, 3), (5, 1), (2, 1), 1, "gaps"),
            ((2, 3), (1, 1), (2, 1), 1, "gaps"),
            ((4,), (2,), (1,), 1, "gaps"),
        ],
    )
    def test_of_a_tensor(self, sizes, strides, ranks, gap, kind):
        tensor = TensorDesc(F32, sizes, strides)
        assert (Layout(ranks, gap), kind) == (tensor.layout, size_classes.layout(tensor))

    def test_of_other_sizes(self):
        """Without gaps, the strides are those of NumPy's permuted and broadcast view."""
        for order in permutations(range(3)):
            sizes = (4, 2, 3)
            view = np.empty([sizes[d] for d in order], "u1").transpose([order.index(d) for d in range(3)])
            ranks = tuple(3 - order.index(d) for d in range(3))
            assert view.strides == Layout(ranks).strides(view.shape)
        assert (
            (0, 1, 3)
            == Layout((0, 1, 2)).strides((4, 3, 2))
            == np.broadcast_to(np.empty((2, 3), "u1").T, (4, 3, 2)).strides
        )

    def test_gaps(self):
        """No two elements share an address, and between two neighbours something is free."""
        tensor = TensorDesc(F32, (2, 3, 2)).laid_out(Layout((1, 3, 2), 1))
        addresses = tensor.read(range(tensor.buffer_element_count))
        assert 12 == len(set(addresses)) and 1 < np.diff(sorted(addresses)).min()
        assert Layout((1, 3, 2), 1) == tensor.layout

    def test_packed_strides_are_left_out(self):
        assert None is TensorDesc(F32, (2, 3), (5, 1)).laid_out(Layout((2, 1))).strides

    def test_strides_come_back(self):
        """For every drawn descriptor, the layout of the input gives its strides again."""
        for desc in drawn(300):
            tensor = desc.input_tensor
            again = dataclasses.replace(tensor, strides=tensor.layout.strides(tensor.sizes))
            addresses = range(max(tensor.buffer_element_count, again.buffer_element_count))
            assert tensor.read(addresses) == again.read(addresses) or (tensor.layout.gap and 1 in tensor.sizes)


class TestPage:
    """The page about strides: the memory that it prints for each layout of two rows `ABC` and `DEF`."""

    @pytest.mark.parametrize(("example", "memory"), [("1", "ABCDEF"), ("2", "ADBECF"), ("3", "ABC"), ("5", "ABCxxDEF")])
    def test_memory(self, example, memory):
        tensor = load_spec(NAME).example(example).parsed().tensors["InputTensor"]
        letters = ["ABCDEF"[int(value) - 1] for value in tensor.values]
        assert memory == "".join(TensorDesc(F32, tensor.sizes, tensor.strides).write(letters, "x"))

    def test_offset(self):
        """The offset of element (1, 0, 1) of three packed dimensions is 1 * 6 + 0 * 3 + 1 * 1 = 7."""
        assert "H" == TensorDesc(F32, (2, 2, 3), (6, 3, 1)).read("ABCDEFGHIJKL")[6 + 1]
        assert 7 == TensorDesc(F32, (2, 2, 3), (6, 3, 1)).read(range(12))[1 * 6 + 0 * 3 + 1]

    def test_examples_are_derived(self):
        """The page prints none: they are our own, as on few other pages."""
        derived = {name: {e.derived for e in load_spec(name).examples} for name in OPERATORS}
        computing = {name for name in OPERATORS if name.startswith(("ELEMENT_WISE", "ACTIVATION"))} | {
            name for name, op in OPERATORS.items() if op.descriptor.spec().computes_values
        }
        assert {NAME} == {name for name, kinds in derived.items() if kinds == {True}} - (computing - {NAME})
        assert {name for name, kinds in derived.items() if kinds == {True, False}} <= computing


class TestDrawing:
    """Random descriptors, and those of the small scope."""

    def test_every_layout(self):
        counts = Counter(size_classes.layout(desc.input_tensor) for desc in drawn(300))
        assert set(size_classes.LAYOUTS) == counts.keys() and min(counts.values()) > 10
        assert all(not desc.violations() and desc.output_tensor.strides is None for desc in drawn(300))

    def test_memory_is_bounded(self):
        """Gaps need no more elements than a tensor may have."""
        assert all(desc.input_tensor.buffer_element_count <= 256 for desc in drawn(300))

    def test_the_lowest_numbers_give_a_packed_input(self):
        class Lowest:
            def integer(self, low, high):
                return low

        desc = OPERATOR.draw(Lowest(), 3, 64)
        assert None is desc.input_tensor.strides

    def test_the_in_small_scope_has_every_layout_once(self):
        """Each order of the dimensions longer than 1 that are not repeated, for each set of repeated ones."""
        cubes = [desc.input_tensor for desc in OPERATOR.descriptors(3, 2) if desc.output_tensor.sizes == (2, 2, 2)]
        assert 6 + 3 * 2 + 3 + 1 == len(cubes) == len({t.read(range(8)).__repr__() for t in cubes})
        assert 1 == sum(desc.output_tensor.sizes == (1, 1, 1) for desc in OPERATOR.descriptors(3, 2))

    def test_values_are_what_memory_holds(self):
        for desc in drawn(100):
            for case in (generated(desc, "", "addr0"), generated(desc, "", "special")):
                tensor = case.tensors["InputTensor"]
                assert list(tensor.bits) == list(as_stored(desc.input_tensor, tensor).bits)
                other = fresh_values(case.inputs, 2).tensors["InputTensor"]
                assert list(other.bits) == list(as_stored(desc.input_tensor, other).bits)

    def test_pairs_for_stale_state(self):
        """`smoke` has two cases of equal sizes and types whose inputs lie otherwise in memory, one behind the other."""
        cases = [c for c in own_cases("smoke") if c.desc.operator == NAME]
        pairs = list(pairwise(cases))
        assert any(a.desc.output == b.desc.output and a.desc.input_tensor != b.desc.input_tensor for a, b in pairs)

    def test_a_layout_of_the_tier_keeps_the_strides(self):
        """The layout `strides` is about the other tensors: without it the case is the same again."""
        case = generated(identity((4, 3), (1, 4)), "", "addr")
        laid_out = in_layout(case, "strides")
        assert case.desc.input_tensor == laid_out.desc.input_tensor and laid_out.desc.output_tensor.strides
        assert case.desc == without_layout(laid_out).desc == without_layout(in_layout(case, "padding")).desc


class TestModels:
    """A Transpose or an Expand reads the memory as it lies there."""

    @pytest.mark.parametrize(
        ("sizes", "strides", "node", "shape"),
        [
            ((2, 3), None, ("Transpose", {"perm": (0, 1)}, {}), (2, 3)),
            ((2, 3), (1, 2), ("Transpose", {"perm": (1, 0)}, {}), (3, 2)),
            ((2, 3, 4), (3, 1, 6), ("Transpose", {"perm": (1, 2, 0)}, {}), (4, 2, 3)),
            ((3, 2, 1), (2, 1, 6), ("Transpose", {"perm": (1, 2, 0)}, {}), (1, 3, 2)),
            ((2, 3), (0, 1), ("Expand", {}, {"shape": (2, 1)}), (1, 3)),
            ((2, 3, 2), (0, 1, 0), ("Expand", {}, {"shape": (2, 1, 2)}), (1, 3, 1)),
            ((7,), (0,), ("Expand", {}, {"shape": (7,)}), (1,)),
        ],
    )
    def test_node(self, sizes, strides, node, shape):
        mapped = map_descriptor(identity(sizes, strides))
        lowering = mapped.lowering
        assert node == (lowering.op_type, dict(lowering.attributes), dict(lowering.constants))
        (value,) = mapped.model.graph.input
        assert shape == tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        kinds = [s.kind for s in mapped.substitutions]
        assert ([] if not strides or TensorDesc(F32, sizes, strides).packed else ["strides"]) == [
            kind for kind in kinds if kind != "dimension-count"
        ]

    @pytest.mark.parametrize("strides", [(7, 2, 1), (1, 0, 2), (0, 1, 3), (1, 1, 1), (12, 4, 2)])
    def test_what_one_node_cannot_say(self, strides):
        with pytest.raises(MappingError, match="one node permutes or repeats, and leaves no gaps") as caught:
            map_descriptor(identity((2, 3, 2), strides))
        assert "not-expressible" == caught.value.verdict

    def test_strides_of_the_output(self):
        desc = identity((2, 3))
        desc = desc.replace(output_tensor=TensorDesc(F32, (2, 3), (1, 2)))
        with pytest.raises(MappingError, match=r"OutputTensor.Strides \[1, 2\]: ONNX has no strides"):
            map_descriptor(desc)

    def test_feed(self):
        """The feed is the memory: the elements in the order in which they lie there, those that repeat once."""
        desc = identity((2, 3), (1, 2))
        values = Tensor.from_values(F32, (2, 3), [1, 2, 3, 4, 5, 6])
        (fed,) = map_descriptor(desc).feed({"InputTensor": values}).values()
        assert [[1, 4], [2, 5], [3, 6]] == to_array(fed).tolist()
        desc = identity((2, 3), (0, 1))
        values = Tensor.from_values(F32, (2, 3), [1, 2, 3, 1, 2, 3])
        (fed,) = map_descriptor(desc).feed({"InputTensor": values}).values()
        assert [[1, 2, 3]] == to_array(fed).tolist()

    def test_other_sizes_have_the_same_layout(self):
        """A session with symbolic sizes is fed the memory of tensors of other sizes too."""
        desc = identity((2, 3, 4), (3, 1, 6))
        case = generated(desc, "", "addr")
        other = other_sizes(Inputs(desc, case.tensors))
        assert other.desc.input_tensor.layout == desc.input_tensor.layout and other.desc != desc
        (fed,) = plain_feeds(map_descriptor(desc), other).values()
        assert list(other.expected) == np.transpose(fed, (1, 2, 0)).view("<u4").reshape(-1).tolist()

    @pytest.mark.parametrize("sample", ["transpose", "broadcast"])
    def test_graph_of_the_ep(self, sample):
        """Other strides than those that the EP wrote are a difference."""
        desc = MAPPED[sample].lowered_as
        assert [] == compare(graphs(sample), desc)
        packed = desc.replace(input_tensor=dataclasses.replace(desc.input_tensor, strides=None))
        (text, *_) = compare(graphs(sample), packed)
        assert f"InputTensor.Strides must be packed, got {list(desc.input_tensor.strides)}" == text


class TestFaults:
    """The planted faults, against NumPy."""

    @staticmethod
    def wrong(name, desc, bits):
        tensor = as_stored(desc.input_tensor, Tensor(desc.input_tensor.data_type, desc.input_tensor.sizes, bits))
        arrays = CaseArrays(dataclasses.replace(generated(desc, "", "addr"), tensors={"InputTensor": tensor}))
        assert list(tensor.bits) == arrays.right.tolist()
        return FAULTS[name].bits(arrays).reshape(desc.output_tensor.sizes)

    def test_strides_ignored(self):
        """The memory is read as if it were packed."""
        memory = np.arange(24).reshape(4, 2, 3)
        desc = identity((2, 3, 4), (3, 1, 6), DataType.UINT32)
        wrong = self.wrong("strides-of-output", desc, memory.transpose(1, 2, 0).ravel().tolist())
        assert (memory.reshape(2, 3, 4) == wrong).all()

    def test_inverse_order(self):
        """A permutation that is not its own inverse is taken the other way round."""
        memory = np.arange(8).reshape(2, 2, 2)
        desc = identity((2, 2, 2), (2, 1, 4), DataType.UINT8)
        wrong = self.wrong("strides-in-inverse-order", desc, memory.transpose(1, 2, 0).ravel().tolist())
        assert (memory.transpose(2, 0, 1) == wrong).all() and (memory.transpose(1, 2, 0) != wrong).any()
        swapped = identity((2, 2, 2), (1, 2, 4), DataType.UINT8)
        bits = memory.transpose(2, 1, 0).ravel().tolist()
        assert bits == self.wrong("strides-in-inverse-order", swapped, bits).ravel().tolist()

    def test_repeated_as_packed(self):
        """A dimension with the stride 0 is read with the stride that it would have in a packed tensor; the memory ends
        before.
        """
        desc = identity((2, 4), (0, 1), DataType.UINT32)
        wrong = self.wrong("strides-of-0-packed", desc, [5, 6, 7, 8] * 2)
        assert [[5, 6, 7, 8], [8, 8, 8, 8]] == wrong.tolist()

    @pytest.mark.parametrize("name", ["strides-of-output", "strides-in-inverse-order", "strides-of-0-packed"])
    def test_packed_inputs_show_none(self, name):
        bits = list(range(6))
        assert bits == self.wrong(name, identity((2, 3), None, DataType.UINT32), bits).ravel().tolist()


class TestDiagnosis:
    """What a diagnosis makes of layouts."""

    def test_feature(self):
        assert "permuted" == features(generated(identity((2, 3), (1, 2)), "", "addr"))["layout"]
        assert "layout" not in features(find_case("gather/example.1"))

    def test_drafts_keep_the_layout(self):
        for desc in drawn(100):
            again = DescriptorEdit.of(desc).completed()
            assert again.output_tensor == desc.output_tensor
            assert again.input_tensor.layout.ranks == desc.input_tensor.layout.ranks or 1 in desc.output_tensor.sizes

    def test_shrinking(self):
        """A failure that needs a permutation keeps one, and loses the rest; one that needs none ends packed."""
        case = generated(identity((5, 1, 4, 3), (48, 1, 4, 16), DataType.INT16), "", "addr")
        small = shrink_case(case, lambda one: features(one)["layout"] == "permuted")
        assert ((2, 2), (1, 2)) == (small.desc.output_tensor.sizes, small.desc.input_tensor.strides)
        small = shrink_case(case, lambda one: True)
        assert ((1,), None) == (small.desc.output_tensor.sizes, small.desc.input_tensor.strides)


class TestLeftOut:
    """ScaleBias: an optional struct that no descriptor of opmap has."""

    def written(self, **members):
        case = find_case("element_wise_identity/example.2")
        model = dict(model_json("it", case.desc, case.tensors))
        model["dispatchables"]["it"]["desc"] |= members
        return json.dumps(model)

    def test_refused(self, tmp_path, run_opmap):
        """One line with the path and the rule; exit code 2."""
        file = tmp_path / "it.json"
        file.write_text(self.written(ScaleBias={"Scale": 1.0, "Bias": 0.0}), encoding="utf-8")
        output = run_opmap(2, "check", file, "--provider", "cpu")
        lines = [line for line in (output.out + output.err).splitlines() if "ScaleBias" in line]
        assert 1 == len(lines)
        assert "must be left out, got an object (ELEMENT_WISE_IDENTITY.L1)" in lines[0]
        assert "$.dispatchables.it.desc.ScaleBias" in lines[0]

    def test_null(self):
        (dispatch,) = read_model(self.written(ScaleBias=None))
        assert None is dispatch.error and "ScaleBias" not in dispatch.desc.members()
        (dispatch,) = read_model(self.written(ScaleBias=1))
        assert isinstance(dispatch.error, InputError)

    def test_struct(self):
        """DirectML gets a NULL pointer behind the tensors, and strides where there are some."""
        native = NativeDesc(dispatchable(identity((2, 3), (1, 2))))
        assert ["InputTensor", "OutputTensor", "ScaleBias"] == [name for name, _ in native.members._fields_]
        assert 3 * ctypes.sizeof(ctypes.c_void_p) == ctypes.sizeof(native.members) and None is native.members.ScaleBias
        (tensor,) = dispatchable(identity((2, 3), (1, 2))).tensors("input").values()
        assert [1, 2] == tensor.strides

    def test_rule(self, run_opmap):
        assert "ScaleBias is left out" in run_opmap(0, "explain", "element_wise_identity.l1").out
