"""`opmap survey`: which indices are given, what each explanation predicts, and how answers are told."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import msgspec
import pytest
from outside import grid, spread
from rich.console import Console
from tiers import survey_questions

from opmap.cases.invalid_indices import (
    AXIS,
    CUT,
    CUT_64,
    DATA_TYPES,
    MEMORY,
    POSITIONS,
    SIGNED,
    UNSIGNED,
    WRAPPED,
    ZERO,
    IndexPosition,
    predictions,
    questions,
    simplest,
)
from opmap.engines.providers import open_provider
from opmap.faults import open_fault
from opmap.judge.judge import Judge
from opmap.judge.survey import BESIDE, ERROR, INSIDE, MALFORMED, NOT_ASKED, OUTSIDE, Survey, failures
from opmap.operators import OPERATORS, add_operator, remove_operator
from opmap.reports.survey import print_survey, rows, survey_document
from opmap.spec import load_spec, read_spec
from opmap.tensors import DataType

GATHERS = ["GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1"]
INT32, INT64, UINT64 = DataType.INT32, DataType.INT64, DataType.UINT64

each_operator = pytest.mark.parametrize("operator", GATHERS)


def chosen(operator, data_types=DATA_TYPES, index_types=(INT32, INT64)):
    """Returns the questions about an operator with these types."""
    return [
        question
        for question in survey_questions()[operator]
        if question.data.data_type.name in data_types and question.index_type in index_types
    ]


def ask(name, asked, **options):
    """Returns the answers of a planted backend, which runs in this process."""
    judge = Judge(open_provider(f"planted_answers:{name}", in_process=True))
    survey = Survey(judge, **options)
    return [survey.ask(question) for question in asked]


def answers(observations):
    """Returns {(operators, index types, invalid indices): answer} of the table."""
    return {
        (tuple(name.removeprefix("DML_OPERATOR_") for name in row.operators), row.index_types, row.indices): row.answer
        for row in rows(observations)
    }


class TestQuestions:
    """The cases: what they ask, and that the answers can be told apart."""

    def test_operators(self):
        """Those that read at indices are asked; those that write at indices, or have none, are not."""
        assert GATHERS == [name for name, asked in survey_questions().items() if asked]

    @each_operator
    def test_all_are_asked(self, operator):
        """Each invalid index that a type can hold is asked with each index type and data type."""
        wanted = {
            (position, index_type, data_type)
            for (position, index), index_type, data_type in product(
                POSITIONS.items(), (INT32, INT64, UINT64, DataType.UINT32), DATA_TYPES
            )
            if index_type.limits[0] <= index(9) <= index_type.limits[1]
        }
        assert wanted == {(q.position, q.index_type, q.data.data_type.name) for q in survey_questions()[operator]}

    @each_operator
    def test_only_one_value_is_invalid(self, operator):
        """The cases are valid but for one value, and exactly the affected elements have no documented value."""
        for question in survey_questions()[operator][::7]:
            case = question.case
            assert () == case.desc.violations()
            undefined = tuple(i for i, bits in enumerate(case.expected) if bits is None)
            assert undefined == question.place.affected
            assert len(undefined) >= 3
            assert None not in question.valid_case.expected
            assert not -question.size <= question.index < question.size

    @each_operator
    def test_data_reveals_addresses(self, operator):
        """Elements are unique and not zero, and fill whole words of 4 bytes in each type."""
        for question in survey_questions()[operator][::7]:
            bits = list(question.data.bits)
            assert len(bits) == len({*bits})
            assert 0 not in bits
            assert 0 == len(bits) % 4

    @each_operator
    def test_in_the_middle(self, operator):
        """There is a place with elements before the dimension and behind it."""
        assert 2 == max(question.place.in_the_middle for question in survey_questions()[operator])

    def test_tuples(self):
        """Single indices are asked, and both places in a tuple of two."""
        for operator in ("GATHER_ND", "GATHER_ND1"):
            assert {(1, 0), (2, 0), (2, 1)} == {(q.tuple_size, q.coordinate) for q in survey_questions()[operator]}

    @each_operator
    def test_told_apart(self, operator):
        """Clamped to the axis, to memory, wrapped and cut give different answers to one question at least, each.

        The lowest INT64 is the exception: its low 32 bits are 0, which is the first element too.
        """
        groups = {}
        for question in chosen(operator, DATA_TYPES, (INT32, DataType.UINT32, INT64, UINT64)):
            groups.setdefault((question.index_type, question.position), []).append(question)
        for (index_type, position), group in groups.items():
            words = [word for word in (AXIS, MEMORY, WRAPPED, CUT) if word in group[0].predictions]
            alike = [
                (one, other)
                for i, one in enumerate(words)
                for other in words[:i]
                if all(q.predictions[one] & q.predictions[other] for q in group)
            ]
            inherent = [(CUT, AXIS)] if (index_type, position) == (INT64, "-2^63") else []
            assert inherent == alike

    def test_outside_operators(self):
        """An operator from outside is asked if it reads one tensor at indices; one that writes at indices is not."""
        here = Path(__file__).parents[1] / "outside"
        for module, name in ((grid, "GRID"), (spread, "SPREAD")):
            add_operator(module.OPERATOR, read_spec(here / f"{name.lower()}.toml"))
        try:
            asked = questions(OPERATORS["GRID"])
            assert {"RowsTensor", "ColumnsTensor"} == {question.field for question in asked}
            assert [] == questions(OPERATORS["SPREAD"])
            survey = Survey(Judge(open_fault("index-clamped")))
            some = [question for question in asked if question.position in ("size", "-far")][::5]
            assert all(AXIS in survey.ask(question).answers for question in some)
        finally:
            for name in ("GRID", "SPREAD"):
                remove_operator(name)


class TestPredictions:
    """What each explanation predicts, on three rows of four elements with the index in the second dimension."""

    place = IndexPosition(size=4, count=12, affected=(0, 1, 2), first=(0, 4, 8), steps=(1, 1, 1))

    @pytest.mark.parametrize(
        ("index", "index_type", "explanation", "addresses"),
        [
            (7, INT32, AXIS, (3, 7, 11)),
            (7, INT32, WRAPPED, (3, 7, 11)),
            (9, INT32, WRAPPED, (1, 5, 9)),
            (7, INT32, MEMORY, (7, 11, 11)),  # as measured on DirectML
            (-9, INT32, MEMORY, (11, 11, 3)),  # as measured on DirectML
            (-9, INT32, MEMORY, (0, 0, 3)),
            (-9, INT32, AXIS, (0, 4, 8)),
            (-5, INT32, WRAPPED, (3, 7, 11)),
            (-5, INT32, f"{UNSIGNED}, {AXIS}", (3, 7, 11)),
            (2**32 + 1, INT64, CUT, (1, 5, 9)),  # as measured on DirectML
            (2**32 + 7, INT64, f"{CUT}, {AXIS}", (3, 7, 11)),
            (2**32 + 7, INT64, f"{CUT}, {MEMORY}", (7, 11, 11)),
            (2**32 + 9, INT64, f"{CUT}, {WRAPPED}", (1, 5, 9)),
            (2**32 - 2, INT64, CUT, (2, 6, 10)),
            (2**63 - 1, INT64, f"{CUT_64}, {MEMORY}", (11, 0, 0)),
            (2**64 - 2, UINT64, SIGNED, (2, 6, 10)),
            (2**63 + 1, UINT64, f"{SIGNED}, {AXIS}", (0, 4, 8)),
        ],
    )
    def test_predicted(self, index, index_type, explanation, addresses):
        assert addresses in predictions(self.place, index, index_type)[explanation]

    def test_addresses_are_inside(self):
        """Every prediction is an element of the input."""
        for question in [q for asked in map(survey_questions().get, GATHERS) for q in asked[::11]]:
            for possible in question.predictions.values():
                assert all(0 <= a < question.place.count for addresses in possible for a in addresses)

    def test_simplest(self):
        """What only adds words to another explanation is left out; all others are named."""
        assert [MEMORY, WRAPPED] == simplest([f"{CUT}, {MEMORY}", WRAPPED, MEMORY])
        assert [f"{CUT}, {AXIS}", WRAPPED] == simplest([WRAPPED, f"{CUT}, {AXIS}"])
        assert [] == simplest([])

    def test_all_words_are_explained(self):
        """Each word of an explanation has a meaning."""
        words = {word for q in survey_questions()["GATHER"] for text in q.predictions for word in text.split(", ")}
        assert words <= {AXIS, MEMORY, WRAPPED, CUT, CUT_64, SIGNED, UNSIGNED}


class TestAnswers:
    """Planted backends are recognized, for each operator."""

    @pytest.mark.parametrize("operator", [pytest.param("GATHER", marks=pytest.mark.slow), "GATHER_ND1"])
    @pytest.mark.parametrize(
        ("backend", "index_type", "position", "answer"),
        [
            *(("Axis", kind, p, AXIS) for kind in (INT32, INT64) for p in ("size", "size+1", "far", "-size-1", "-far")),
            *(("Axis", INT64, p, AXIS) for p in ("2^31+1", "2^32+1", "2^63-2", "-2^32-2")),
            *(("Memory", INT64, p, MEMORY) for p in ("size", "size+1", "far", "-size-1", "2^32+1", "2^63-2", "-2^63")),
            *(("Wrapped", INT64, p, WRAPPED) for p in ("size", "size+1", "far", "-far", "2^32+1", "2^63-2", "-2^63")),
            ("Wrapped", INT64, "-size-1", f"{CUT}, {AXIS} or {WRAPPED}"),
            ("Wrapped", INT32, "-size-1", f"{UNSIGNED}, {AXIS} or {WRAPPED}"),
            *(("Cut", INT64, p, MEMORY) for p in ("size", "far", "-size-1")),
            *(("Cut", INT64, p, CUT) for p in ("2^32+1", "-2^32-2")),
            *(("Cut", INT64, p, f"{CUT}, {MEMORY}") for p in ("2^31+1", "2^63-2", "-2^63")),
            *(("Zero", INT64, p, ZERO) for p in ("size", "-far", "2^32+1")),
            *(("Nowhere", INT64, p, OUTSIDE) for p in ("size", "-far", "2^32+1")),
            *(("Mirrored", INT64, p, INSIDE) for p in ("size", "far")),
            ("Beside", INT64, "size", BESIDE),
            ("Malformed", INT64, "size", MALFORMED),
            ("Refuses", INT64, "size", ERROR),
        ],
    )
    def test_recognized(self, operator, backend, index_type, position, answer):
        asked = [q for q in chosen(operator, index_types=[index_type]) if q.position == position]
        assert [answer] == [row.answer for row in rows(ask(backend, asked))]

    def test_no_answer_of_a_wrong_provider(self):
        """A provider that does valid indices wrong, or did not do the work, is not asked about invalid ones."""
        for backend, reason in (
            ("WrongAnyway", "the output is wrong with valid indices too"),
            ("Elsewhere", "nothing shows that a node ran on elsewhere"),
        ):
            observations = ask(backend, chosen("GATHER")[:3])
            assert [[NOT_ASKED]] * 3 == [observation.answers for observation in observations]
            assert {reason} == {observation.message for observation in observations}

    def test_feature_level(self):
        """A type that the feature level does not have is not asked."""
        survey = Survey(Judge(open_provider("cpu"), feature_level="1_0"))
        observation = survey.ask(chosen("GATHER")[0])
        assert [NOT_ASKED] == observation.answers
        assert "at feature level 1_0" in observation.message

    def test_moved_on_the_host(self):
        """An index that the host cannot convert is not asked: the provider would get another one."""
        judge = Judge(open_provider("planted_answers:Axis", in_process=True), index_conversion="host")
        asked = [q for q in chosen("GATHER", index_types=[UINT64]) if q.position in ("2^63-2", "2^64-2")]
        got = {o.question.position: o.answers for o in map(Survey(judge).ask, asked)}
        assert {"2^63-2": [AXIS], "2^64-2": [NOT_ASKED]} == got

    def test_type_at_the_node(self):
        """The table says as which type ONNX's operator reads the indices."""
        asked = [q for q in chosen("GATHER", index_types=[UINT64]) if q.position == "size"]
        ((_, types, _),) = answers(ask("Axis", asked))
        assert ("UINT64 as INT64",) == types
        survey = Survey(Judge(open_fault("index-clamped")))
        ((_, types, _),) = answers(list(map(survey.ask, asked)))
        assert ("UINT64",) == types

    def test_rows_are_merged(self):
        """Operators and index types with the same answers share rows; `all` stands for all invalid indices."""
        asked = [q for name in ("GATHER", "GATHER_ELEMENTS") for q in chosen(name)]
        assert {(("GATHER", "GATHER_ELEMENTS"), ("INT64", "INT32"), ("all",)): ERROR} == answers(ask("Refuses", asked))

    def test_differences_are_told(self):
        """Different answers to one question say for which data types, places or sizes they hold."""
        asked = [q for q in chosen("GATHER", DATA_TYPES, [INT64]) if q.position == "far"]
        observations = ask("Axis", asked)
        changed = [
            replace(o, fits=frozenset([ERROR])) if o.question.data.data_type is DataType.UINT8 else o
            for o in observations
        ]
        assert {f"{AXIS} (FLOAT32, FLOAT16, INT64)", f"{ERROR} (UINT8)"} == {row.answer for row in rows(changed)}
        asked = [q for q in chosen("GATHER_ND", index_types=[INT64]) if q.position == "far"]
        changed = [replace(o, fits=frozenset([ERROR])) if o.question.tuple_size == 2 else o for o in ask("Axis", asked)]
        told = {f"{AXIS} (index 1 of 1)", f"{ERROR} (index 1 of 2, index 2 of 2)"}
        assert told == {row.answer for row in rows(changed)}


class TestJudged:
    """Nothing is wrong but a crash, a hang, and a value from nowhere where the page promises clamped reads."""

    def test_promise(self):
        """Only the page of GATHER promises it."""
        assert ["GATHER"] == [name for name in OPERATORS if load_spec(name).clamped_reads]
        page = (Path(__file__).parents[1] / "pages" / "gather.en-US.md").read_text(encoding="utf-8").splitlines()
        above = page[
            : load_spec("GATHER").clamped_reads.line
        ]  # the page in this folder has an outline of the prose only
        assert "### -field IndicesTensor" == [line for line in above if line.startswith("### -field ")][-1]

    @pytest.mark.parametrize("backend", ["Axis", "Memory", "Wrapped", "Cut", "Mirrored", "Refuses", "Malformed"])
    def test_observed(self, backend):
        for operator in GATHERS:
            assert [] == failures(ask(backend, chosen(operator)[::6]))

    @pytest.mark.parametrize("backend", ["Zero", "Nowhere"])
    def test_nowhere(self, backend):
        """No element is zero, so zero does not occur in the input either."""
        wrong = failures([o for name in GATHERS for o in ask(backend, chosen(name)[:2])])
        assert {"GATHER"} == {observation.question.desc.operator for observation in wrong}
        assert "do not occur in the input. The page: " in wrong[0].failure


class TestTable:
    """What is printed."""

    @pytest.mark.parametrize("backend", ["Cut", "Nowhere"])
    def test_fits_80_columns(self, backend):
        """The table fits into 80 columns, and no name is broken."""
        observations = [o for name in GATHERS for o in ask(backend, chosen(name, index_types=(INT32, UINT64)))]
        console = Console(width=80, legacy_windows=False)
        with console.capture() as capture:
            print_survey(console, backend, observations)
        table = [line for line in capture.get().splitlines() if line.startswith(("│", "┃", "├"))]
        assert 80 >= max(map(len, table))
        for name in ("GATHER_ELEMENTS", "UINT64 as INT64", "size, size+1, far"):
            assert any(name in line for line in table)

    def test_document_is_json(self):
        """Indices of 64 bits are numbers in the document."""
        observations = ask("Axis", [q for q in chosen("GATHER", index_types=[UINT64]) if q.position == "2^64-2"])
        document = msgspec.to_builtins(survey_document("axis", None, observations))
        assert "opmap-survey/1" == document["schema"]
        assert {2**64 - 2} == {o["index"] for o in document["observations"]}
