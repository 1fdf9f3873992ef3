"""The catalogue: case ids and values never change, each tier contains the one before, shards are complete."""

import re
from dataclasses import dataclass, field
from math import prod

import pytest
from adequacy.shown import shows
from described import described
from tiers import all_cases, own_cases

from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue
from opmap.cases.globs import matcher
from opmap.cases.parameters import WIDTHS, cases_with, extra_classes
from opmap.cases.random_cases import data_types
from opmap.cases.selection import Selection, select
from opmap.cases.values import (
    INDEX_PATTERNS,
    Filled,
    _index_bits,
    _indices,
    fill,
)
from opmap.cases.written_once import must_write_twice
from opmap.descriptors import TensorDesc
from opmap.errors import InputError
from opmap.manual import read_page
from opmap.operators import OPERATORS
from opmap.operators.size_classes import LARGE
from opmap.spec import all_specs
from opmap.tensors import DataType, payload_nans

SMOKE = own_cases("smoke")
GATHERS = ("GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1")
WORLD_DIMENSIONS, WORLD_SIZE = 4, 3


@dataclass
class Full:
    """What the tests need of the tier `full`; its 128,000 cases are enumerated once.

    `in_small_scope` holds, per data type, one key for each descriptor of the small scope.
    """

    ids: list[str] = field(default_factory=list)
    large: list[Case] = field(default_factory=list)
    in_small_scope: dict[DataType, set[tuple[object, ...]]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def full():
    """The tier `full`."""
    tier = Full()
    for case in catalogue("full", variants=False):
        tier.ids.append(case.id)
        tensors = case.desc.tensors.values()
        sizes = [tensor.sizes for tensor in tensors]
        if len(sizes[0]) <= WORLD_DIMENSIONS and max(map(max, sizes)) <= WORLD_SIZE:
            if case.desc.operator in GATHERS:
                key = (case.desc.operator, *sizes, *case.desc.numbers.values())
                tier.in_small_scope.setdefault(case.desc.output.data_type, set()).add(key)
        elif max(tensor.minimum_size_in_bytes for tensor in tensors) > 2**20:
            tier.large.append(case)
    return tier


class TestIds:
    """Case ids are readable and unique, and they never change."""

    @pytest.mark.slow
    def test_are_unique_and_plain(self, full):
        """Ids are unique without regard to case, also as file names.

        An id has at most 120 characters of a small set. No part of it is empty or begins with a dot.
        """
        plain = re.compile(r"[a-z0-9_-][a-z0-9._-]*(/[a-z0-9_-][a-z0-9._-]*)*")
        assert len(full.ids) == len({id.lower() for id in full.ids})
        assert [] == [id for id in full.ids if not plain.fullmatch(id)]
        assert max(map(len, full.ids)) <= 120
        files = [id.replace("/", "__") for id in full.ids]
        assert len(full.ids) == len(set(files))
        assert [] == [name for name in files if name.endswith(".")]


class TestTiers:
    """Each tier has the cases that it promises."""

    @pytest.mark.slow
    def test_hold_the_tier_before(self, full):
        """A tier begins with all cases of the tier before it, in the same order."""
        assert [c.id for c in SMOKE] == [c.id for c in own_cases("standard")[: len(SMOKE)]]
        assert [c.id for c in own_cases("standard")] == full.ids[: len(own_cases("standard"))]
        assert len(SMOKE) < len(own_cases("standard")) < 100_000 < len(full.ids)

    @pytest.mark.parametrize("tier", ["smoke", "standard", pytest.param("full", marks=pytest.mark.slow)])
    def test_numbers_in_the_manual(self, tier, request):
        """tiers.md says how many cases a tier has, in words."""
        ids = request.getfixturevalue("full").ids if tier == "full" else own_cases(tier)
        word = {3: "hundreds", 4: "thousands", 5: "tens of thousands", 6: "over a hundred thousand"}[len(str(len(ids)))]
        assert f"| `{tier}` | {word}, " in read_page("tiers")

    def test_smoke_moves_payloads_of_nans(self):
        """`smoke` moves a quiet and a signalling NaN with a payload in each float type of each operator that moves data."""
        wanted = {
            (name, t, nan)
            for name, operator in OPERATORS.items()
            if operator.descriptor.data_tensors() and not operator.descriptor.spec().computes_values
            if name != "ACTIVATION_THRESHOLDED_RELU"  # no NaN is above Alpha
            for t in data_types(name)
            if t.kind == "float"
            for nan in payload_nans(t)
        }
        moved = {
            (case.desc.operator, case.desc.output.data_type, bits)
            for case in SMOKE
            if case.desc.output.data_type.kind == "float"
            for bits in case.expected
        }
        assert set() == wanted - moved

    def test_are_valid_and_defined(self):
        """A case breaks no rule, and every element of its output is documented, unless elements are written twice, or
        summed, or shifted.
        """
        for case in SMOKE[:30] + own_cases("standard")[::40]:
            assert () == case.desc.violations(), case.id
            twice = len(case.desc.access.statements) > 1 and (
                case.index_pattern == "dups" or must_write_twice(case.desc)
            )
            shifted = any(field.chosen for field in case.desc.spec().fields)
            assert twice or shifted or case.desc.spec().running or None not in case.expected, case.id

    def test_smoke_begins_with_the_documentation(self):
        """`smoke` begins with all documented examples that have values."""
        examples = {f"{s.name.lower()}/example.{e.id}" for s in all_specs() for e in s.examples if e.id != "sizes"}
        assert examples == {case.id for case in SMOKE[: len(examples)]}

    @pytest.mark.slow
    def test_full_has_the_in_small_scope(self, full):
        """`full` has all 27,360 valid descriptors of the gathers up to 4 dimensions and sizes up to 3, in each of four
        data widths.
        """
        assert (4, 3) == OPERATORS["GATHER"].descriptor.spec().small_scope
        assert dict.fromkeys(WIDTHS, 27_360) == {width: len(full.in_small_scope[width]) for width in WIDTHS}

    def test_standard_has_nothing_large(self):
        """No tensor of `standard` has more than 1 MiB, however long its axis."""
        assert 2**20 >= max(t.minimum_size_in_bytes for c in own_cases("standard") for t in c.desc.tensors.values())

    @pytest.mark.slow
    def test_full_has_each_large_class_once(self, full):
        """Each gather has one valid case per large class, with data of one byte and tensors of at most 1 GiB.

        The outputs lie on both sides of the limits of a dispatch and of a typed buffer. The long axis has an index that
        FLOAT32 does not hold.
        """
        wanted = [(operator, name, c) for operator in GATHERS for name, classes in LARGE.items() for c in classes]
        assert wanted == [(case.desc.operator, *c) for case in full.large for c in extra_classes(case.desc)]
        for case in full.large:
            assert () == case.desc.violations()
            assert "UINT8" == case.desc.output.data_type.name
            assert 2**30 >= max(t.minimum_size_in_bytes for t in case.desc.tensors.values())
        counts = {case.desc.output.element_count for case in full.large}
        assert {16_776_959, 16_776_961, 134_217_727, 134_217_729} <= counts
        assert {16_777_218} == {
            max(case.desc.index_bounds["IndicesTensor"])
            for case in full.large
            if case.desc.output.element_count < 2**20
        }

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_standard_shows_what_it_names(self, operator):
        """`standard` has, for each operator, cases that its classes alone do not promise.

        A single index that names another element than the first, as an input and as an initializer. Blocks on both
        sides of an axis, and 30 of the 36 pairs of dimension count and axis. For tuples: the long dimension in every
        coordinate. More than 1024 indices, and an output of many thread groups. A known gap: a single length of
        REVERSE_SUBSEQUENCES is always 0.
        """
        cases = [c for c in own_cases("standard") if c.desc.operator == operator]
        if operator != "NONZERO_COORDINATES":  # its first output is one element
            assert any(c.desc.output.element_count > 65536 for c in cases)
        if not cases[0].desc.index_tensors():
            return
        (indices,) = cases[0].desc.index_tensors()
        ones = [c for c in cases if c.desc.tensors[indices].element_count == 1]
        for variant in ("plain", "init") if operator != "REVERSE_SUBSEQUENCES" else ():
            assert any(c.desc.origins(c.tensors)[0] > 0 for c in ones if c.variant == variant)
        if hasattr(cases[0].desc, "axis"):
            sizes = [(getattr(c.desc, "input_tensor", c.desc.output).sizes, c.desc.axis) for c in cases]
            assert 20 <= sum(prod(s[:axis]) > 1 < prod(s[axis + 1 :]) for s, axis in sizes)
            assert 30 <= len({(len(s), axis) for s, axis in sizes})
        elif operator != "ELEMENT_WISE_IF":  # its conditions name no position
            bounds = [c.desc.index_bounds[indices] for c in cases]
            assert {(n, i) for n in (2, 3) for i in range(n)} <= {
                (len(b), b.index(max(b))) for b in bounds if max(b) > 256
            }
        assert any(c.desc.tensors[indices].element_count > 1024 for c in cases)

    def test_keeps_the_values_of_few_cases(self, monkeypatch):
        """Only values of cases that were read last are kept, up to MOST_KEPT elements; read again, a case has equal
        values.
        """
        generated = [c for c in SMOKE if c.data_pattern and "InputTensor" in c.desc.tensors]
        first, second = generated[20:22]
        kept = dict(first.tensors)
        assert second.tensors["InputTensor"] is second.tensors["InputTensor"]
        assert first.tensors["InputTensor"] is kept["InputTensor"]

        monkeypatch.setattr("opmap.cases.values.MOST_KEPT", 1)
        first, second = generated[22:24]
        before = dict(first.tensors)
        assert first.tensors["InputTensor"] is before["InputTensor"]
        assert second.tensors["InputTensor"] is second.tensors["InputTensor"]
        again = dict(first.tensors)
        assert before == again
        assert before["InputTensor"] is not again["InputTensor"]

    def test_selected_cases_are_light(self):
        """A case of a selection takes few hundred bytes: it holds nothing that follows from its descriptor, and shares
        parts.
        """
        chosen = Selection(tier="smoke").cases()
        assert all(vars(case.desc).keys() == set(case.desc.members().values()) for case in chosen)
        descs = [tensor for case in chosen for tensor in case.desc.state.values() if isinstance(tensor, TensorDesc)]
        assert len(set(descs)) == len({id(desc) for desc in descs}) < len(descs)
        case = chosen[0]
        before = case.desc.index_bounds
        case.lighten()
        assert "index_bounds" not in vars(case.desc)
        assert before == case.desc.index_bounds

    def test_the_fields_are_known_without_the_values(self, monkeypatch):
        """To ask whether there is an input computes none."""
        case = next(case for case in catalogue("smoke") if isinstance(case.tensors, Filled))
        monkeypatch.setattr("opmap.cases.values.fill", None)

        assert set(case.desc.inputs) == {name for name in case.desc.tensors if name in case.tensors}


class TestPatterns:
    """Index patterns and data patterns give the values that their names promise."""

    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("identity", "0 1 2 3 4 0 1"),
            ("reverse", "4 3 2 1 0 4 3"),
            ("random", "4 0 4 * * * *"),
            ("one", "+ = = = = = ="),
            ("neg", "-5 -1 - - - - -"),
            ("mix", "-5 4 -1 0 ? ? ?"),
            ("bounds", "-5 4 -5 4 -5 4 -5"),
            ("dups", "4 4 0 0 4 4 *"),
            ("asc", "0 * * * * * 4"),
        ],
    )
    def test_indices(self, pattern, expected):
        """For every seed the indices are as the pattern says, and `shows` recognises the pattern from the values
        alone.
        """
        desc = described("GATHER", (5,), (7,), 0, 1, data_type=DataType.INT8)
        for seed in range(20):
            values = list(fill(desc, str(seed), pattern, "addr")["IndicesTensor"].values)
            assert shows(pattern, values, (5,))
            for value, word in zip(values, expected.split(), strict=True):
                low, high = {"*": (0, 4), "+": (1, 4), "-": (-5, -1), "?": (-5, 4), "=": (values[0],) * 2}.get(
                    word, (word, word)
                )
                assert int(low) <= value <= int(high)

    @pytest.mark.parametrize(
        ("pattern", "values"),
        [
            ("identity", [0, 1, 2, 4, 3]),
            ("reverse", [4, 3, 2, 0, 1]),
            ("random", [0, 1, 2, 3, 3]),
            ("random", [0, -1, 2, 0, 3]),
            ("one", [0, 0, 0, 0, 0]),
            ("one", [3, 3, -2, 3, 3]),
            ("neg", [-1, -2, 0, -1, -1]),
            ("mix", [0, 1, 2, 3, 4]),
            ("bounds", [0, 4, 3, 0, 4]),
            ("bounds", [-5, -5, -5, -5, 0]),
            ("dups", [0, 1, 2, 3, 4]),
            ("dups", [0, 1, 0, 1, 2]),
            ("asc", [0, 1, 3, 2, 4]),
            ("asc", [2, 2, 2, 2, 2]),
        ],
    )
    def test_other_values_do_not_show_a_pattern(self, pattern, values):
        """Values that differ from a pattern, most of them in one value, do not show it."""
        assert not shows(pattern, values, (5,))

    def test_every_pattern_of_tuples(self):
        """A tuple counts as one index; each of its coordinates stays within its own dimension."""
        desc = next(
            d
            for d in OPERATORS["GATHER_ND1"].descriptors(3, 3)
            if d.indices_tensor.sizes[-1] == 2
            and d.indices_tensor.element_count > 6
            and len(set(d.input_tensor.sizes)) > 2
        )
        (bounds,) = desc.index_bounds.values()
        assert 2 == len(bounds) and bounds[0] != bounds[1]
        for pattern in INDEX_PATTERNS:
            values = list(fill(desc, "it", pattern, "addr")["IndicesTensor"].values)
            assert shows(pattern, values, bounds)
            assert all(-bounds[i % 2] <= v < bounds[i % 2] for i, v in enumerate(values))

    @pytest.mark.parametrize(
        ("data_type", "count", "expected"),
        [
            ("INT8", 256, 1),
            ("INT8", 257, 2),
            ("UINT8", 65537, 3),
            ("FLOAT16", 65536, 1),
            ("INT16", 65537, 2),
            ("INT32", 65537, 1),
            ("INT64", 65537, 1),
        ],
    )
    def test_rounds(self, data_type, count, expected):
        """A data type with few values needs several rounds; all rounds together distinguish every pair of elements."""
        desc = described("GATHER", (count,), (3,), 0, 1, data_type=DataType[data_type])
        cases = cases_with(desc, "random", "addr")
        assert expected == len(cases) == len({c.id for c in cases})
        assert count == len(set(zip(*(c.tensors["InputTensor"].bits for c in cases), strict=True)))
        assert 1 == len(cases_with(desc, "random", "special"))

    def test_an_index_that_does_not_fit_its_type_is_refused(self):
        """An axis with more elements than the index type has values gives no wrong index."""
        with pytest.raises(InputError, match=r"value 0 must be a whole number .* for INT32, got -2147483649"):
            _index_bits(DataType.INT32, _indices((2**31 + 1,), 4, "bounds", 0, DataType.INT32), 2**31 + 1)


class TestSelection:
    """Cases are selected by glob and by shard."""

    @pytest.mark.parametrize(
        ("globs", "operators"),
        [
            (["gather/*"], {"GATHER"}),
            (["split/*/eager"], {"SPLIT"}),
            (["probe/x", "pad*"], {"PADDING1"}),
            (["gather_nd*", "tile/*addr*"], {"GATHER_ND", "GATHER_ND1", "TILE"}),
            (["*/example.1"], {*OPERATORS}),
            (["[s-t]*"], {*OPERATORS}),
        ],
    )
    def test_operators_that_no_glob_can_match(self, globs, operators):
        """They are not listed, and the selected cases are the same."""
        assert operators == {case.desc.operator for case in catalogue("smoke", globs=globs)}
        chosen = [case.id for case in select(all_cases("smoke"), matcher(globs))]
        assert chosen == [case.id for case in Selection(tier="smoke", globs=globs).cases()]

    def test_shards_are_disjoint_and_complete(self):
        """Every case is in exactly one shard, for any number of shards; shards differ by at most one case."""
        for parts in (1, 2, 3, 7):
            shards = [select(SMOKE, shard=(part, parts)) for part in range(1, parts + 1)]
            assert max(map(len, shards)) - min(map(len, shards)) <= 1
            assert sorted(c.id for c in SMOKE) == sorted(c.id for shard in shards for c in shard)

    def test_globs(self):
        """A case is selected if any of the globs matches its id; a dot in a glob is a dot."""
        chosen = select(SMOKE, matcher(["gather/example.*", "*/int8/*"]))
        assert chosen == [c for c in SMOKE if c.id.startswith("gather/example.") or "/int8/" in c.id]
        assert ["gather/example.2"] == [c.id for c in select(SMOKE, matcher(["gather/example.2"]))]

    def test_nothing_left_is_an_error(self):
        """An empty selection is refused, and the error names the option and its value."""
        with pytest.raises(InputError, match=r"--filter must match a case, got 'nothing', 'GATHER/\*'"):
            Selection(globs=["nothing", "GATHER/*"]).cases()
        with pytest.raises(InputError, match="--shard must have at least one of the 2 selected cases, got 3/4"):
            select(SMOKE[:2], shard=(3, 4))
