"""The catalogue: ids that stay, values that follow from them, tiers that hold each other, shards that leave nothing out."""

import hashlib
import re
from collections import Counter

import pytest

from opmap.descriptors import TensorDesc, complete
from opmap.errors import InputError
from opmap.operators import OPERATORS
from opmap.spec import all_specs
from opmap.tensors import DataType, from_bits
from opmap.validation.cases import case_id
from opmap.validation.catalogue import TIERS, catalogue, generated, retyped, select
from opmap.validation.patterns import DATA_PATTERNS, INDEX_PATTERNS, fill, special_values

SMOKE = list(catalogue("smoke"))
STANDARD = list(catalogue("standard"))


def digest(cases):
    """One number for ids and values of all these cases."""
    content = hashlib.sha256()
    for case in cases:
        content.update(case.id.encode())
        for name, tensor in case.tensors.items():
            content.update(name.encode() + tensor.to_bytes())
    return content.hexdigest()[:16]


class TestIds:
    """Readable, unique, the same for ever."""

    @pytest.mark.parametrize("tier", TIERS)
    def test_are_unique_and_plain(self, tier):
        """Without regard to case, in few characters, not long, no part empty or hidden."""
        ids = [case.id for case in catalogue(tier)]
        assert len(ids) == len({id.lower() for id in ids})
        assert [] == [id for id in ids if not re.fullmatch(r"[a-z0-9_-][a-z0-9._-]*(/[a-z0-9_-][a-z0-9._-]*)*", id)]
        assert max(map(len, ids)) <= 120
        files = [id.replace("/", "__") for id in ids]
        assert len(ids) == len(set(files))
        assert [] == [name for name in files if name.endswith(".")]

    def test_stay(self):
        """Known failures, results and bug reports name them: a change here is a change for users."""
        assert [
            "gather/example.1",
            "gather/float32/d1.axis0.k0/int64.mix/addr.e08ed6",
            "gather/float32/d7.axis3.k2/int64.mix/addr.b84d86",
            "gather_nd1/float32/d4.r3.q4.b1/int64.mix/addr.1893a2",
            "gather_nd1/int64/d4.r4.q4.b2/uint32.pos/special.a54109",
        ] == [SMOKE[i].id for i in (0, 10, 60, 200, -1)]
        assert "gather_nd1/float32/d8.r6.q5.b2/uint32.pos/addr.db1f51" == STANDARD[-1].id

    def test_stay_with_their_values(self):
        """The same on every platform, Python and NumPy version."""
        assert (526, "a5b0de61a130c757") == (len(SMOKE), digest(SMOKE))
        assert digest(SMOKE) == digest(catalogue("smoke"))

    def test_follow_from_the_content(self):
        """Another descriptor, pattern or filling is another id; only the digest tells some of them apart."""
        first, second, *_ = OPERATORS["GATHER"].shapes()
        ids = [case_id(d, p, v) for d in (first, second) for p in INDEX_PATTERNS for v in DATA_PATTERNS]
        assert 12 == len(set(ids))
        assert ids[0] == case_id(first.replace(), "pos", "addr")
        longer = first.replace(input_tensor=second.output_tensor)
        assert ids[0].rpartition(".")[0] == case_id(longer, "pos", "addr").rpartition(".")[0]
        assert ids[0] != case_id(longer, "pos", "addr")


class TestTiers:
    """What each tier holds."""

    def test_hold_the_tier_before(self):
        """In the same order, so that a longer run begins as a shorter one."""
        assert [c.id for c in SMOKE] == [c.id for c in STANDARD[: len(SMOKE)]]
        full = [case.id for case in catalogue("full")]
        assert [c.id for c in STANDARD] == full[: len(STANDARD)]
        assert len(SMOKE) < len(STANDARD) < len(full)

    @pytest.mark.parametrize("case", SMOKE[:30] + STANDARD[::40], ids=lambda case: case.id)
    def test_are_valid_and_defined(self, case):
        """No rule is broken, every index is in range."""
        assert () == case.desc.violations()
        assert None not in case.expected

    def test_smoke_begins_with_the_documentation(self):
        """Every example that has values."""
        examples = {f"{s.name.lower()}/example.{e.id}" for s in all_specs() for e in s.examples if e.id != "sizes"}
        assert examples == {case.id for case in SMOKE[:10]}

    def test_smoke_has_every_shape_and_every_pair_of_types(self):
        """Each operator with eleven data types and four index types, each pair with several indices."""
        for name, module in OPERATORS.items():
            cases = [case for case in SMOKE if case.desc.operator == name]
            assert set(module.shapes()) <= {case.desc for case in cases}
            pairs = Counter()
            for case in cases:
                if len(set(case.tensors["IndicesTensor"].values)) > 1:
                    pairs[case.desc.input_tensor.data_type, case.desc.indices_tensor.data_type] += 1
            assert {(d, DataType[i]) for d in DataType for i in ("INT32", "INT64", "UINT32", "UINT64")} == set(pairs)

    def test_standard_has_every_index_pattern(self):
        """Negative ones with signed types only."""
        found = {case.id.split("/")[3] for case in STANDARD if "example" not in case.id}
        signed = {f"{t}.{p}" for t in ("int32", "int64") for p in INDEX_PATTERNS}
        assert signed | {"uint32.pos", "uint64.pos"} == found


class TestPatterns:
    """How indices and data are filled."""

    DESC = max(OPERATORS["GATHER"].shapes(), key=lambda d: d.indices_tensor.element_count)

    @pytest.mark.parametrize(
        ("pattern", "low", "high", "first"),
        [("pos", 0, "n-1", (0, "n-1")), ("neg", "-n", -1, ("-n", -1)), ("mix", "-n", "n-1", ("-n", "n-1", -1, 0))],
    )
    def test_indices(self, pattern, low, high, first):
        """Within their limits, the limits first."""
        ((n,),) = self.DESC.index_bounds.values()
        limit = {"-n": -n, "n-1": n - 1}
        for seed in range(20):
            values = fill(self.DESC, str(seed), pattern, "addr")["IndicesTensor"].values
            assert [limit.get(f, f) for f in first] == list(values[: len(first)])
            assert limit.get(low, low) <= min(values) and max(values) <= limit.get(high, high)
            assert len(set(values)) > 2 or n < 3

    def test_tuples_have_each_coordinate_within_its_own_dimension(self):
        """The first tuple is the lowest of each."""
        desc = next(
            d for d in OPERATORS["GATHER_ND1"].shapes() if d.tuple_size == 2 and d.indices_tensor.element_count > 4
        )
        (bounds,) = desc.index_bounds.values()
        assert 2 == len(bounds) and bounds[0] != bounds[1]
        values = fill(desc, "it", "mix", "addr")["IndicesTensor"].values
        assert [-n for n in bounds] == list(values[:2])
        for i, value in enumerate(values):
            assert -bounds[i % 2] <= value < bounds[i % 2]

    @pytest.mark.parametrize("data_type", DataType)
    def test_addresses_are_unique(self, data_type):
        """As far as the type can tell elements apart."""
        inputs = {"InputTensor": TensorDesc(data_type, (300,)), "IndicesTensor": TensorDesc(DataType.INT64, (3,))}
        desc = complete(OPERATORS["GATHER"].Desc, inputs, {"Axis": 0, "IndexDimensions": 1})
        bits = fill(desc, "it", "pos", "addr")["InputTensor"].bits
        assert min(len(bits), 2 ** (8 * data_type.size)) == len(set(bits))

    @pytest.mark.parametrize("data_type", DataType)
    def test_special_values(self, data_type):
        """Both limits of an integer; of a float NaNs of both kinds with payloads, -0, denormals, infinities."""
        values = special_values(data_type)
        assert len(values) == len(set(values))
        assert all(0 <= v < 2 ** (8 * data_type.size) for v in values)
        numbers = from_bits(data_type, values)
        if data_type.kind != "float":
            assert set(data_type.limits) | {0, 1} <= set(numbers)
            return
        sign = 1 << 8 * data_type.size - 1
        assert {0, sign, 1, sign | 1} <= set(values)
        assert {float("inf"), float("-inf")} <= set(numbers)
        assert 6 == sum(number != number for number in numbers)

    def test_other_cases_have_other_values(self):
        """Values follow from the id."""
        one, same, other = (fill(self.DESC, id, "mix", "addr") for id in ("a", "a", "b"))
        assert one == same
        assert one["InputTensor"] != other["InputTensor"]


class TestSelection:
    """Filters, ids, shards."""

    def test_shards_are_disjoint_and_complete(self):
        """However many there are."""
        for parts in (1, 2, 3, 7):
            shards = [select(SMOKE, shard=(part, parts)) for part in range(1, parts + 1)]
            assert max(map(len, shards)) - min(map(len, shards)) <= 1
            assert sorted(c.id for c in SMOKE) == sorted(c.id for shard in shards for c in shard)

    def test_globs(self):
        """Any of them may match; characters of an id are taken as they are."""
        chosen = select(SMOKE, globs=["gather/example.*", "*/int8/*"])
        assert chosen == [c for c in SMOKE if c.id.startswith("gather/example.") or "/int8/" in c.id]
        assert ["gather/example.2"] == [c.id for c in select(SMOKE, globs=["gather/example.2"])]

    def test_ids(self):
        """In the catalogue's order; with a filter, both must hold."""
        assert ["gather/example.1", "gather/example.2"] == [
            c.id for c in select(SMOKE, ids=["gather/example.2", "gather/example.1"])
        ]
        with pytest.raises(InputError, match="--case must be the id of a case in this tier, got 'gather/example.1'"):
            select(SMOKE, ids=["gather/example.1"], globs=["gather_nd/*"])

    def test_nothing_left_is_an_error(self):
        """It names what was asked for."""
        with pytest.raises(InputError, match=r"--filter must match a case, got 'nothing', 'GATHER/\*'"):
            select(SMOKE, globs=["nothing", "GATHER/*"])
        with pytest.raises(InputError, match="--case must be the id of a case in this tier, got 'absent'"):
            select(SMOKE, ids=["gather/example.1", "absent"])


class TestGenerated:
    """Cases of one's own."""

    def test_a_case_from_any_descriptor(self):
        """Id and values from descriptor and patterns."""
        desc = next(OPERATORS["GATHER"].shapes())
        case = generated(desc, "mix", "special")
        assert case.id == case_id(desc, "mix", "special")
        assert case.tensors == fill(desc, case.id, "mix", "special")

    def test_other_types(self):
        """Data and indices, each in its own place."""
        desc = retyped(next(OPERATORS["GATHER_ND1"].shapes()), DataType.INT8, DataType.UINT32)
        assert (DataType.INT8, DataType.UINT32, DataType.INT8) == tuple(t.data_type for t in desc.tensors.values())
