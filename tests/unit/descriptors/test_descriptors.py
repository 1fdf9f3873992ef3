"""Descriptors: the rules of tensors one by one, strides and sizes in bytes, feature levels, completion."""

import dataclasses
import itertools
from array import array
from typing import ClassVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from opmap import strategies
from opmap.cases.case import Case
from opmap.descriptors import FEATURE_LEVELS, TensorDesc, complete
from opmap.errors import InputError, RuleError
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource
from opmap.spec import tensor_rules
from opmap.tensors import DataType, Tensor, from_bits, to_bits

F32, U32, I64 = DataType.FLOAT32, DataType.UINT32, DataType.INT64
GATHER = OPERATORS["GATHER"].descriptor


def gather(data=(3, 2), indices=(1, 4), output=(4, 2), axis=0, k=1, data_type=F32, index_type=I64):
    """Returns a GATHER descriptor, which is valid with the default arguments."""
    return GATHER(
        input_tensor=TensorDesc(data_type, data),
        indices_tensor=TensorDesc(index_type, indices),
        output_tensor=TensorDesc(data_type, output),
        axis=axis,
        index_dimensions=k,
    )


ALIGNMENT = ("TENSOR.C6", "T.GuaranteedBaseOffsetAlignment", "0 or a power of two, at least 4")


class TestTensorRules:
    """The rules of every tensor: a violation names the field, the wanted value and the value that it has."""

    ROWS: ClassVar = [
        (TensorDesc(F32, ()), "TENSOR.C1", "T.Sizes", "1 to 8 sizes", "0"),
        (TensorDesc(F32, (1,) * 9), "TENSOR.C1", "T.Sizes", "1 to 8 sizes", "9"),
        (TensorDesc(F32, (2, 0)), "TENSOR.C2", "T.Sizes[1]", "1 to 4294967295", "0"),
        (TensorDesc(F32, (-1, 2)), "TENSOR.C2", "T.Sizes[0]", "1 to 4294967295", "-1"),
        (TensorDesc(F32, (2**32,)), "TENSOR.C2", "T.Sizes[0]", "1 to 4294967295", "4294967296"),
        (TensorDesc(F32, (2**16, 2**16)), "TENSOR.C3", "T.Sizes", "of at most 4294967295 elements", "4294967296"),
        (TensorDesc(F32, (2, 3), (3,)), "TENSOR.C4", "T.Strides", "2 strides, one per size", "1"),
        (TensorDesc(F32, (2, 3), (3, -1)), "TENSOR.C4", "T.Strides[1]", "0 to 4294967295", "-1"),
        (TensorDesc(F32, (2, 3), (2**32, 1)), "TENSOR.C4", "T.Strides[0]", "0 to 4294967295", "4294967296"),
        (TensorDesc(F32, (2, 3), None, 23), "TENSOR.C5", "T.TotalTensorSizeInBytes", "at least 24", "23"),
        (TensorDesc(DataType.UINT8, (5,), None, 7), "TENSOR.C5", "T.TotalTensorSizeInBytes", "at least 8", "7"),
        (TensorDesc(F32, (2, 3), (4, 1), 24), "TENSOR.C5", "T.TotalTensorSizeInBytes", "at least 28", "24"),
        (TensorDesc(F32, (2,), None, None, 2), *ALIGNMENT, "2"),
        (TensorDesc(F32, (2,), None, None, 12), *ALIGNMENT, "12"),
        (TensorDesc(F32, (2,), None, None, 2**32), *ALIGNMENT, str(2**32)),
        (
            TensorDesc(F32, (2,), owned_by_dml=True),
            "TENSOR.C7",
            "T.Flags",
            "NONE for an output",
            "DML_TENSOR_FLAG_OWNED_BY_DML",
        ),
        *(
            (TensorDesc(F32, sizes, strides), "TENSOR.D1", "T.Strides", "a place of its own for each element", got)
            for sizes, strides, got in [
                ((2, 3), (0, 1), "{0,1}"),
                ((2, 3), (2, 1), "{2,1}"),
                ((3, 4), (3, 2), "{3,2}"),
                ((2, 2, 2), (3, 2, 1), "{3,2,1}"),
                ((2**11, 2**10), (2**9 + 1, 2), "{513,2}"),
            ]
        ),
    ]

    @pytest.mark.parametrize(("tensor", "rule", "subject", "wanted", "got"), ROWS)
    def test_broken_one_at_a_time(self, tensor, rule, subject, wanted, got):
        """The tensor breaks exactly this rule, in this field."""
        (violation,) = tensor.violations("T", output=True)
        assert (rule, subject, wanted, got) == (violation.rule, violation.subject, violation.wanted, violation.got)

    def test_every_rule_has_a_row(self):
        """Each tensor rule has a row above."""
        assert {rule.id for rule in tensor_rules().rules} == {row[1] for row in self.ROWS}

    @pytest.mark.parametrize(
        "tensor",
        [
            TensorDesc(F32, (1,) * 8),
            TensorDesc(F32, (2**32 - 1,)),
            TensorDesc(F32, (2, 3), (0, 0)),
            TensorDesc(F32, (2, 3), (3, 1), 24),
            TensorDesc(F32, (2, 3), (0, 1), 12),
            TensorDesc(DataType.UINT8, (5,), None, 8),
            TensorDesc(DataType.FLOAT64, (1,), None, 2**40, 8),
            TensorDesc(F32, (2,), None, None, 2**31),
        ],
    )
    def test_kept_at_their_limits(self, tensor):
        """The highest and lowest allowed values break no rule."""
        assert [] == list(tensor.violations("T"))

    @pytest.mark.parametrize(
        ("sizes", "strides"), [((2, 3), (3, 2)), ((2, 1, 3), (3, 0, 1)), ((2, 3), (1, 2)), ((2**16, 2**15), (2**16, 2))]
    )
    def test_an_output_whose_elements_have_a_place_each(self, sizes, strides):
        """They may interleave: {0, 2, 4} and {3, 5, 7}. A dimension of size 1 may have any stride."""
        assert [] == list(TensorDesc(F32, sizes, strides).violations("T", output=True))

    def test_an_input_may_be_owned_by_dml(self):
        """DML_TENSOR_FLAG_OWNED_BY_DML is allowed for an input."""
        assert [] == list(TensorDesc(F32, (2,), owned_by_dml=True).violations("T"))

    @pytest.mark.parametrize("value", [-1, 2**32])
    def test_members_are_uints(self, value):
        """A number that no UINT can hold breaks TENSOR.C2, and no formula is evaluated with it."""
        (violation,) = gather(axis=value).violations()
        assert ("TENSOR.C2", "Axis", "0 to 4294967295", str(value)) == (
            violation.rule,
            violation.subject,
            violation.wanted,
            violation.got,
        )

    def test_tensors_come_before_the_operator(self):
        """If tensors break tensor rules, each of them is listed, and the operator's own rules are not checked."""
        desc = gather(data=(0, 2), indices=(1,) * 9, axis=7)
        assert ["TENSOR.C2", "TENSOR.C1"] == [v.rule for v in desc.violations()]


class TestMemory:
    """Strides decide the position of each element and the size of the buffer."""

    @pytest.mark.parametrize(
        ("sizes", "strides", "packed", "elements", "size"),
        [
            ((2, 3), None, True, 6, 24),
            ((2, 3), (3, 1), True, 6, 24),
            ((1, 3), (99, 1), True, 3, 12),
            ((2, 3), (1, 2), False, 6, 24),
            ((2, 3), (4, 1), False, 7, 28),
            ((2, 3), (0, 1), False, 3, 12),
            ((2, 3), (0, 0), False, 1, 4),
            ((1, 1), (0, 0), True, 1, 4),
        ],
    )
    def test_what_strides_cover(self, sizes, strides, packed, elements, size):
        """A tensor is packed or not, and its buffer ends after the element at the highest position."""
        tensor = TensorDesc(F32, sizes, strides)
        assert (packed, elements, size) == (tensor.packed, tensor.buffer_element_count, tensor.minimum_size_in_bytes)

    @given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
    def test_elements_are_read_where_the_strides_say(self, sizes, data):
        """The position of an element is the sum of coordinates times strides."""
        strides = data.draw(st.none() | st.tuples(*[st.integers(0, 5)] * len(sizes)))
        tensor = TensorDesc(DataType.UINT8, tuple(sizes), strides)
        used = strides or _packed(sizes)
        buffer = array("B", range(tensor.buffer_element_count))
        expected = [sum(c * s for c, s in zip(at, used, strict=True)) for at in itertools.product(*map(range, sizes))]
        assert max(expected) == len(buffer) - 1
        assert expected == list(tensor.read(buffer))


def _packed(sizes):
    """Returns row-major strides."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return strides


class TestFeatureLevels:
    """A feature level supports the types and dimension counts of its page's table."""

    FOUR: ClassVar = {"data": (1, 1, 3, 2), "indices": (1, 1, 1, 4), "output": (1, 1, 4, 2), "axis": 2}

    def test_the_highest_is_the_default(self):
        """Without a feature level, the highest one is used, which is above every table."""
        assert "1_0" == FEATURE_LEVELS[0]
        assert "6_4" == FEATURE_LEVELS[-1]
        assert () == gather().violations()

    @pytest.mark.parametrize(
        ("level", "desc", "fields", "expected"),
        [
            ("1_0", gather(**FOUR, index_type=U32), "", None),
            ("1_0", gather(**FOUR, index_type=U32, data_type=DataType.FLOAT16), "", None),
            (
                "1_0",
                gather(**FOUR, index_type=U32, data_type=DataType.INT32),
                "InputTensor.DataType OutputTensor.DataType",
                "one of FLOAT32, FLOAT16 at feature level 1_0 (INT32 needs 2_1), got INT32",
            ),
            ("2_0", gather(**FOUR, index_type=U32), "", None),
            (
                "2_1",
                gather(**FOUR),
                "IndicesTensor.DataType",
                "UINT32 at feature level 2_1 (INT64 needs 3_0), got INT64",
            ),
            (
                "2_1",
                gather(index_type=U32),
                "InputTensor.Sizes IndicesTensor.Sizes OutputTensor.Sizes",
                "of 4 dimensions at feature level 2_1 (2 needs 3_0), got 2",
            ),
            ("3_0", gather(), "", None),
            (
                "4_0",
                gather(data_type=DataType.FLOAT64),
                "InputTensor.DataType OutputTensor.DataType",
                "one of FLOAT32, FLOAT16, INT32, INT16, INT8, UINT32, UINT16, UINT8 at feature level 4_0"
                " (FLOAT64 needs 4_1), got FLOAT64",
            ),
            ("4_1", gather(data_type=DataType.FLOAT64), "", None),
            (
                "6_4",
                gather(index_type=DataType.INT16),
                "IndicesTensor.DataType",
                "one of INT64, INT32, UINT64, UINT32, got INT16",
            ),
        ],
    )
    def test_of_gather(self, level, desc, fields, expected):
        """A violation says what the level supports, and which level supports the type or count that was asked for."""
        violations = [str(v) for v in desc.violations(feature_level=level)]
        assert violations == [f"{field} must be {expected} (GATHER.S1)" for field in fields.split()]

    @pytest.mark.parametrize(
        ("operator", "level"), [("GATHER_ELEMENTS", "2_1"), ("GATHER_ND", "2_1"), ("GATHER_ND1", "3_0")]
    )
    def test_an_operator_below_its_introduction(self, operator, level):
        """At a feature level below its introduction, an operator breaks one rule, which names the level that has it."""
        desc = next(OPERATORS[operator].samples())
        below = FEATURE_LEVELS[FEATURE_LEVELS.index(level) - 1]
        (violation,) = desc.violations(feature_level=below)
        assert (
            f"DML_OPERATOR_{operator} must be used at feature level {level} or above, which introduced it, got {below}"
            f" ({operator}.S1)"
        ) == str(violation)

    def test_a_padding_mode_that_a_later_level_added(self):
        """WRAP stands in the header and in the release notes, not on the page."""
        wrap, symmetric = (next(OPERATORS["PADDING1"].samples()).replace(padding_mode=mode) for mode in (4, 3))
        assert ("5_0", "6_4") == tuple(
            next(level for level in FEATURE_LEVELS if not desc.violations(feature_level=level))
            for desc in (symmetric, wrap)
        )
        (violation,) = wrap.violations(feature_level="6_3")
        assert ("PaddingMode must be a mode of feature level 6_3 (WRAP needs 6_4), got WRAP (PADDING1.D1)") == str(
            violation
        )

    @given(strategies.descriptors())
    def test_a_higher_level_takes_nothing_away(self, desc):
        """A descriptor that is valid at one feature level is valid at every higher level."""
        fine = [not desc.violations(feature_level=level) for level in FEATURE_LEVELS]
        assert sorted(fine) == fine
        assert fine[-1]


class TestOptionalTensors:
    """A tensor that may be left out: DIAGONAL_MATRIX1 reads its input, or writes zeros."""

    DIAGONAL = OPERATORS["DIAGONAL_MATRIX1"]

    def desc(self, sizes=None, **members):
        """A descriptor that fills one diagonal; with `sizes`, it has an input of these sizes."""
        data = None if sizes is None else TensorDesc(F32, sizes)
        given = {"value_data_type": F32.number, "value": 7, "diagonal_fill_begin": 0, "diagonal_fill_end": 1}
        return self.DIAGONAL.descriptor(
            input_tensor=data, output_tensor=TensorDesc(F32, (2, 3)), **{**given, **members}
        )

    def test_left_out(self):
        """It is no tensor of the descriptor, and no rule names it."""
        without, given = self.desc(), self.desc((2, 3))
        assert (["OutputTensor"], []) == ([*without.tensors], [*without.inputs])
        assert (["InputTensor", "OutputTensor"], ["InputTensor"]) == ([*given.tensors], [*given.inputs])
        assert () == without.violations() == given.violations()
        ids = [[rule.id.split(".")[1] for rule in desc.own_spec.rules] for desc in (without, given)]
        assert [["C3", "S1"], ["C1", "C2", "C3", "D1", "S1"]] == ids
        assert without.output == without.first_data

    def test_rules(self):
        """Rules about it hold if it is given, all others always."""
        (broken,) = self.desc((2, 2)).violations()
        assert ("DIAGONAL_MATRIX1.D1", "OutputTensor.Sizes") == (broken.rule, broken.subject)
        (broken,) = self.desc(value_data_type=U32.number).violations()
        assert ("DIAGONAL_MATRIX1.C3", "ValueDataType") == (broken.rule, broken.subject)

    def test_completed(self):
        """Sizes of the output follow from those of an input that is given; without one they are needed."""
        numbers = {"ValueDataType": 0, "Value": 7, "DiagonalFillBegin": 0, "DiagonalFillEnd": 1}
        tensor = TensorDesc(F32, (2, 3))
        for name, wanted in (("InputTensor", self.desc((2, 3))), ("OutputTensor", self.desc())):
            assert wanted == complete(self.DIAGONAL.descriptor, {name: tensor}, numbers)

    def test_drawn(self):
        """Random descriptors, samples and the small scope have both, and the small scope begins with those without
        it.
        """
        drawn = [self.DIAGONAL.draw(SeededSource(seed), 3, 64) for seed in range(100)]
        for descs in (drawn, [*self.DIAGONAL.samples()], [*self.DIAGONAL.descriptors(2, 2)]):
            assert not any(desc.violations() for desc in descs)
            without = sum(desc.input_tensor is None for desc in descs)
            assert 0 < without < len(descs)
        given = [desc.input_tensor is not None for desc in self.DIAGONAL.descriptors(2, 2)]
        assert given == sorted(given)

    def test_values(self):
        """Elements that are not filled are those of the input, or 0."""
        data = Tensor.from_values(F32, (2, 3), [1, 2, 3, 4, 5, 6])
        fill = self.desc().value
        assert [fill, *data.bits[1:4], fill, data.bits[5]] == list(self.desc((2, 3)).interpret({"InputTensor": data}))
        assert [fill, 0, 0, 0, fill, 0] == list(self.desc().interpret({}))

    @pytest.mark.parametrize(
        ("kind", "count", "fields"),
        [
            ("input", 0, ()),
            ("input", 1, ("InputTensor",)),
            ("input", 2, ("InputTensor",)),
            ("output", 1, ("OutputTensor",)),
        ],
    )
    def test_fields_for_so_many_tensors(self, kind, count, fields):
        """An optional tensor is given if there is one more than the others."""
        assert fields == self.DIAGONAL.descriptor.spec().tensor_fields(kind, count)
        assert ("InputTensors[0]", "InputTensors[1]") == OPERATORS["JOIN"].descriptor.spec().tensor_fields("input", 2)


class TestFloats:
    """A FLOAT: the operator writes the same number in the data type of its output."""

    def written(self, value, data_type):
        """The element that DIAGONAL_MATRIX writes; None if the page documents none."""
        (bits,) = to_bits(F32, [value])
        output = TensorDesc(data_type, (1, 1))
        desc = OPERATORS["DIAGONAL_MATRIX"].descriptor(output_tensor=output, offset=0, value=bits)
        assert () == desc.violations()
        (element,) = desc.interpret({})
        return element if element is None else from_bits(data_type, [element])[0]

    @pytest.mark.parametrize(
        ("value", "data_type", "expected"),
        [
            (10.0, DataType.INT8, 10),
            (10.6, DataType.INT8, None),  # it might be truncated
            (-1.0, DataType.UINT8, None),
            (300.0, DataType.UINT8, None),
            (300.0, DataType.INT16, 300),
            (0.5, DataType.FLOAT16, 0.5),
            (1e6, DataType.FLOAT16, None),
            (float("inf"), DataType.FLOAT64, float("inf")),
            (10.0, DataType.FLOAT64, 10.0),
            (10.6, DataType.FLOAT64, None),  # the page names FLOAT32 and FLOAT16 alone
            (float("inf"), DataType.INT64, None),
        ],
    )
    def test_written(self, value, data_type, expected):
        assert expected == self.written(value, data_type)

    def test_drawn(self):
        """Random ones are numbers that the output holds, also after its data type was changed."""
        for seed, data_type in itertools.product(range(20), (DataType.UINT8, DataType.FLOAT16, DataType.INT64)):
            desc = OPERATORS["DIAGONAL_MATRIX"].draw(SeededSource(seed), 2, 16, data_type=data_type)
            retyped = desc.with_tensors({"OutputTensor": TensorDesc(DataType.UINT8, desc.output.sizes)})
            assert None not in desc.interpret({}) and None not in retyped.interpret({})


class TestErrors:
    """`validate` raises one error for all broken rules."""

    def test_the_message_has_path_wanted_got_and_rule(self):
        """The message is one line with path, wanted value, value and rule; the path leads into the file."""
        desc = gather(data=(3, 3), indices=(3, 2), output=(2, 3))
        with pytest.raises(RuleError) as raised:
            desc.validate(path="$.dispatchables.g.desc")
        assert "$.dispatchables.g.desc.IndicesTensor.Sizes[0]: must be 1, got 3 (GATHER.D2)" == str(raised.value)
        assert ("GATHER.D2", 1) == (raised.value.rule, len(raised.value.violations))
        assert isinstance(raised.value, ValueError)


class TestDescriptors:
    """The base class of descriptors gives members, numbers, outputs and index bounds."""

    @given(strategies.descriptors(), st.data())
    def test_complete_finds_the_only_output(self, desc, data):
        """`complete` finds the output from inputs and numbers; any other output sizes break a rule."""
        if "OutputTensor" not in desc.own_spec.size_formulas:  # other output sizes may be valid too
            return
        assume(len(desc.outputs) == 1)
        assert desc == complete(type(desc), desc.inputs, desc.numbers)
        sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=8).map(tuple))
        assume(sizes != desc.output.sizes)
        assert desc.replace(output_tensor=dataclasses.replace(desc.output, sizes=sizes)).violations()

    def test_complete_refuses_what_does_not_fit(self):
        """`complete` raises InputError if the output has more dimensions than the inputs allow."""
        inputs = {"InputTensor": TensorDesc(F32, (3, 2)), "IndicesTensor": TensorDesc(I64, (2, 2))}
        with pytest.raises(InputError, match="does not fit 2 dimensions"):
            complete(GATHER, inputs, {"Axis": 0, "IndexDimensions": 2})


class TestViews:
    """A descriptor that is looked at from another output is another one."""

    HALF = TensorDesc(F32, (1, 2))
    SPLIT = OPERATORS["SPLIT"].descriptor(
        input_tensor=TensorDesc(F32, (1, 4)), output_count=2, output_tensors=(HALF, HALF), axis=1
    )

    def test_identity(self):
        """The output is part of it; the way on which a view was made is not."""
        view = self.SPLIT.of_output("OutputTensors[1]")
        assert self.SPLIT == self.SPLIT.replace() == view.of_output("OutputTensors[0]")
        assert view == self.SPLIT.of_output("OutputTensors[1]")
        assert len({self.SPLIT, view, self.SPLIT.replace(), view.of_output("OutputTensors[0]")}) == 2

    def test_results_are_its_own(self):
        """What was mapped from the base is not taken for the view, in either order."""
        view = self.SPLIT.of_output("OutputTensors[1]")
        assert map_descriptor(self.SPLIT) is map_descriptor(self.SPLIT.replace())
        assert map_descriptor(self.SPLIT) is not map_descriptor(view)
        assert "OutputTensors[1]" == map_descriptor(view).desc.output_field

    def test_lightened(self):
        """A view stays one when what it computed is freed."""
        view = self.SPLIT.of_output("OutputTensors[1]")
        case = Case(id="split/view", desc=view, tensors={"InputTensor": Tensor(F32, (1, 4), array("I", range(4)))})
        before = [*case.expected]
        case.lighten()
        assert (before, [2, 3]) == ([*case.expected], before)
