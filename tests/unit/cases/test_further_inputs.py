"""Further rounds of a case: other values, and other sizes."""

import pytest
from described import described
from formed_cases import cases
from registered_operators import registered
from tiers import others_slow

from opmap.cases.values import fill
from opmap.cases.variants.formed import Inputs
from opmap.cases.variants.further_inputs import fresh_values, other_sizes
from opmap.descriptors import TensorDesc
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor


@pytest.fixture(scope="module")
def outside():
    """Registers two operators from outside: one with two data tensors, one with two index tensors."""
    cases()  # they are kept, and are those of the package's own operators
    with registered():
        yield


@pytest.mark.usefixtures("outside")
class TestRounds:
    """Further rounds of a case."""

    @staticmethod
    def samples():
        """Returns a round for each sample of each operator."""
        return [
            Inputs(desc, fill(desc, str(i), pattern, "addr"))
            for operator in OPERATORS.values()
            for desc in operator.samples()
            for i, pattern in enumerate(("pos", "mix"))
        ]

    @staticmethod
    def depends_on_values(desc):
        """Whether other values can give another output: the place of one element is 0, the sum of none too, and the
        largest of one is itself; crossed limits are the output, and of the remainder of floats nothing is documented.
        """
        if "CLIP" in desc.operator or ("MODULUS" in desc.operator and desc.output.data_type.kind == "float"):
            return False
        if "HARDMAX" in desc.operator and OPERATORS[desc.operator].classify(desc)["reduced"] == "1":
            return False
        of_one = desc.first_data.element_count == desc.output.element_count
        gives_places = desc.operator.startswith("ARG") or str(desc.named_numbers.get("Function")).startswith("ARG")
        is_exclusive = desc.operator.startswith("CUMULATIVE") and [*desc.numbers.values()][-1]
        return not (of_one and gives_places) and not (is_exclusive and desc.output.sizes[desc.axis] == 1)

    @pytest.mark.slow
    @pytest.mark.parametrize("n", (1, 2, 7))
    def test_another_output(self, n):
        """An operator that computes has another output of other values, also where it gives few different numbers."""
        computing = [first for first in self.samples() if first.desc.spec().computes_values]
        assert computing
        for first in computing:
            is_open = None in first.expected or not self.depends_on_values(first.desc)
            assert fresh_values(first, n).expected != first.expected or is_open

    @pytest.mark.parametrize("n", others_slow((1, 2, 7), 2))
    def test_other_values(self, n, monkeypatch):
        """Every data element changes, and every index that can; negative indices stay negative, all stay in range.

        A number by which to shift changes below the width of the type. Of chosen numbers, others stay as they are.
        """
        monkeypatch.setattr("opmap.cases.variants.further_inputs.ATTEMPTS", 0)
        for first in self.samples():
            other = fresh_values(first, n)
            assert first.desc == other.desc
            numbers = {f.name for f in first.desc.own_spec.fields if f.chosen in ("small", "ties", "powers")}
            assert (
                [e is None for e in first.expected] == [e is None for e in other.expected]
                or "UpdatesTensor" in other.tensors
                or numbers
                or first.desc.spec().computes_values
                or first.desc.operator == "ACTIVATION_THRESHOLDED_RELU"
            )
            for name, tensor in first.tensors.items():
                new = other.tensors[name]
                assert (tensor.data_type, tensor.sizes) == (new.data_type, new.sizes)
                if first.desc.own_spec.field(name).chosen == "shifts":
                    width = tensor.data_type.size * 8
                    pairs = [*zip(tensor.bits, new.bits, strict=True)]
                    assert all(
                        (old != shift) == (old < width) and (shift < width) == (old < width) for old, shift in pairs
                    )
                    continue
                if name in numbers:
                    assert len(set(tensor.bits)) == len(set(new.bits))
                    continue
                bounds = first.desc.index_bounds.get(name, (2,)) * len(tensor.bits)
                for old, changed, bound in zip(tensor.bits, new.bits, bounds, strict=False):
                    if name not in first.desc.index_bounds or tensor.data_type.kind == "signed" or old < bound:
                        assert (old != changed) == (bound > 1)
                if name in first.desc.index_bounds:
                    assert [v < 0 for v in tensor.integers] == [v < 0 for v in new.integers]
                elif name in first.desc.own_spec.data_tensors:
                    assert len(set(tensor.bits)) == len(set(new.bits))

    def test_each_number_differs(self):
        """Each `n` gives other data, also where a data type has few values."""
        first = next(first for _, first in cases().values() if first.desc.output.data_type is DataType.UINT8)
        name = first.desc.own_spec.data_tensors[0]
        made = [tuple(fresh_values(first, n).tensors[name].bits) for n in range(1, 256)]
        assert 255 == len({tuple(first.tensors[name].bits), *made}) - 1

    def test_fixed_fields(self):
        """A fixed field keeps its values."""
        for first in self.samples():
            for name in first.tensors:
                other = fresh_values(first, fixed={name})
                assert first.tensors[name] is other.tensors[name]

    def test_out_of_range(self):
        """An index out of range stays as it is."""
        desc = described("GATHER", (4,), (5,), 0, 1)
        indices = Tensor.from_values(DataType.INT64, (5,), [4, -5, 3, -4, 0])
        first = Inputs(desc, fill(desc, "", "pos", "addr") | {"IndicesTensor": indices})
        assert [4, -5, 0, -3, 1] == list(fresh_values(first).tensors["IndicesTensor"].integers)

    @pytest.mark.slow
    @pytest.mark.parametrize("by", [1, 2, -1])
    def test_other_sizes(self, by):
        """The descriptor is valid, its node has the same operator, attributes and ranks, and sizes change by `by`."""
        for first in self.samples():
            other = other_sizes(first, by)
            if other is None:
                assert by < 0
                continue
            assert () == other.desc.violations()
            assert first.desc.numbers == other.desc.numbers
            changes = []
            for name, tensor in first.desc.tensors.items():
                new = other.desc.tensors[name]
                assert (tensor.data_type, tensor.dimension_count) == (new.data_type, new.dimension_count)
                changes += [b - a for a, b in zip(tensor.sizes, new.sizes, strict=True)]
            assert {by} == set(changes) - {0}
            assert None not in other.expected or "UpdatesTensor" in other.tensors  # two indices may name one element
            lower = OPERATORS[first.desc.operator].lower
            if lower is not None:
                old, new = lower(first.desc), lower(other.desc)
                assert (old.op_type, old.attributes) == (new.op_type, new.attributes)
                assert len(old.output_shape) == len(new.output_shape)
                assert [len(s) for s in old.shapes.values()] == [len(s) for s in new.shapes.values()]

    def test_all_that_can(self):
        """Sizes that depend on each other change together, and all others alone."""
        desc = described("GATHER_ELEMENTS", (2, 5, 3), (2, 7, 3), 1)
        other = other_sizes(Inputs(desc, fill(desc, "", "pos", "addr"))).desc
        assert [(3, 6, 4), (3, 8, 4)] == [tensor.sizes for tensor in other.inputs.values()]

    def test_no_other_sizes(self):
        """There is no smaller size than 1."""
        desc = described("GATHER", (1,), (1,), 0, 1)
        assert other_sizes(Inputs(desc, fill(desc, "", "pos", "addr")), -1) is None

    def test_not_too_large(self):
        """Eight dimensions of size 2 do not all grow to 3, if that were too many elements."""
        desc = described("GATHER", (2,) * 8, (1,) * 7 + (2,), 7, 1)
        other = other_sizes(Inputs(desc, fill(desc, "", "pos", "addr"))).desc
        assert 256 < other.tensors["InputTensor"].element_count <= 4096
        assert isinstance(other.output, TensorDesc)
