"""`opmap diagnose`: groups of failures, how reliably they fail, and the condition and relation of each."""

import itertools
import json
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from tiers import own_cases

from opmap.cases.catalogue import generated
from opmap.cases.features import features
from opmap.cli import main
from opmap.descriptors import TensorDesc
from opmap.diagnosis.asking import Asked
from opmap.diagnosis.causes import cause_of, causes, whole_relation, without_calls
from opmap.diagnosis.conditions import Comparison, Condition
from opmap.diagnosis.diagnose import Asking, diagnoses, make_condition_exact, quick_diagnoses, separated, settled
from opmap.diagnosis.diagnosis import (
    Closest,
    Diagnosis,
    apart,
    join_a_larger_one,
    unknown_as_one,
    vague_as_one,
    with_covered,
)
from opmap.diagnosis.failures import case_size, earlier_calls, failure_of
from opmap.diagnosis.judged_run import JudgedRun
from opmap.diagnosis.relation import UNKNOWN, Relation
from opmap.diagnosis.stability import Stability, in_common, stability
from opmap.engines.providers import Provider, ProviderMissing, open_provider
from opmap.errors import without_stack
from opmap.faults import Fault, FaultProvider, open_fault
from opmap.judge.compare import FED_IGNORED
from opmap.judge.judge import Judge
from opmap.judge.record import Record
from opmap.known.known_failures import SCHEMA
from opmap.operators import OPERATORS
from opmap.reports.cause_view import CauseView, cause_group, condition_text
from opmap.reports.documents import AskedDocument, ClosestDocument, ConditionDocument
from opmap.tensors import DataType
from opmap.vocabulary import Stage, Verdict

SMOKE = own_cases("smoke")
CASES, GATHERS = ([case for case in SMOKE if case.id.startswith(start)] for start in ("gather_nd/", "gather/"))


@pytest.fixture
def diagnose(monkeypatch, capsys):
    """Runs the command on the cases of GATHER_ND, and returns its exit code and document."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))

    def run(provider, *more):
        code = main(["diagnose", "--provider", provider, "--filter", "gather_nd/*", "--json", *more])
        return code, json.loads(capsys.readouterr().out)

    return run


class TestCommand:
    """The command on backends with a planted fault."""

    def test_fault(self, diagnose):
        """A fault model is named, with those that cannot be told apart on these cases."""
        code, document = diagnose("fault:negative-index-as-zero", "--budget", "60")
        assert (1, "opmap-diagnosis/1") == (code, document["schema"])
        (group,) = document["groups"]
        relation, asked = group["relation"], group["asked"]
        assert 0 < asked["failing"] + asked["passing"] <= asked["runs"] <= 60
        assert "negative-index-as-zero" in (relation["fault"], *relation["ties"])
        assert relation["explains"][0] == relation["explains"][1] > 0
        assert ("always", None) == (group["stability"], group["after"])
        assert ["DML_OPERATOR_GATHER_ND"] == group["operators"]

    @pytest.mark.slow
    def test_backend(self, diagnose):
        """A third party's backend: the relation is no fault model, the condition is exact, the case small."""
        code, document = diagnose("planted_backends:TuplesRotate")
        assert 1 == code
        (group,) = document["groups"]
        assert "shift" == group["relation"]["kind"]
        assert {"feature": "tuple_size", "is": ">=", "value": 2} in group["condition"]["any"][0]
        sizes = group["smallest"]["dxdispatch"]["dispatchables"][group["smallest"]["case"]]["desc"]["InputTensor"][
            "Sizes"
        ]
        assert len(sizes) <= 3


class TestBackends:
    """Backends whose faults are no fault models; tools/score_diagnoses.py runs all of them on all operators."""

    def groups(self, diagnose, name, *more):
        _, document = diagnose(f"planted_backends:{name}", *more)
        return document["groups"]

    @pytest.mark.slow
    def test_every_37th(self, diagnose):
        """A backend that answers every 37th call with an earlier output; the period is asked for."""
        (group,) = self.groups(diagnose, "Every37th", "--filter", "gather_nd1/*")
        assert ("stale", "periodic") == (group["relation"]["kind"], group["stability"])
        assert ("every 37th run", None) == (group["stability_text"], group["condition"])

    @pytest.mark.slow
    def test_odd_halves(self, diagnose):
        """One cause, although a single wrong element fits many relations.

        All gathers have it, also those that were not run.
        """
        (group,) = self.groups(diagnose, "OddHalves", "--filter", "gather_nd1/*")
        features = {(c["feature"], c["is"]): c["value"] for c in group["condition"]["any"][0]}
        gathers = [name for name in OPERATORS if name.startswith("GATHER")]
        assert {
            ("operator", "in"): sorted(gathers),
            ("data_width", "=="): 2,
            ("output_elements", "%=="): [2, 1],
        } == features
        assert "the last element is a copy of the one before it" == group["relation"]["text"]

    @pytest.mark.slow
    def test_negative_on_long_axis(self, diagnose):
        """The condition is about values too; the relation is a fault model's, where it applies."""
        group, *others = self.groups(diagnose, "NegativeOnLongAxis", "--filter", "gather_nd1/*")
        assert not others
        assert {"feature": "axis_length", "is": ">", "value": 128} in group["condition"]["any"][0]
        assert {"feature": "negative", "is": "==", "value": True} in group["condition"]["any"][0]
        assert "provider" == group["side"]["odd_one_out"]

    @pytest.mark.slow
    def test_one_case(self, diagnose, tmp_path):
        """A case of any tier, or a file, in place of the cases of a tier."""
        groups = self.groups(diagnose, "TuplesRotate", "gather_nd/example.2", "--budget", "60")
        assert [1] == [group["cases"] for group in groups]
        file = tmp_path / "case.json"
        file.write_text(json.dumps(groups[0]["smallest"]["dxdispatch"]))
        (group,) = self.groups(diagnose, "TuplesRotate", str(file), "--budget", "60")
        assert groups[0]["relation"]["text"] == group["relation"]["text"]

    @pytest.mark.slow
    @pytest.mark.parametrize("target", ["gather_nd/nope", "nope.json"])
    def test_no_such_case(self, target, capsys):
        assert 2 == main(["diagnose", target, "--provider", "cpu"])
        out, err = capsys.readouterr()
        assert ("", 1) == (out, err.count("\n"))
        assert target in err

    @pytest.mark.slow
    def test_finished_run(self, tmp_path, capsys, monkeypatch):
        """With --resume, the records of a run that is finished are diagnosed; its cases are not run again."""
        options = ["--provider", "fault:output-zero", "--filter", "gather_nd/example.*"]
        main(["validate", *options, "--report", str(tmp_path / "r")])
        capsys.readouterr()
        monkeypatch.setattr("opmap.session.ValidationRun.judge", None)
        assert 1 == main(["diagnose", *options, "--resume", str(tmp_path / "r"), "--json", "--budget", "20"])
        assert "output-zero" in json.loads(capsys.readouterr().out)["groups"][0]["relation"]["fault"]


class TestValidate:
    """A red run of `opmap validate` ends with the causes."""

    def run(self, capsys, *more):
        code = main(["validate", "--filter", "gather_nd/*", *more])
        return code, " ".join(capsys.readouterr().out.split())

    @pytest.mark.slow
    def test_causes(self, capsys):
        """One group of lines for each cause, with the command that runs its smallest case again."""
        code, out = self.run(capsys, "--provider", "fault:output-zero")
        assert 1 == code
        for text in ("cause 1 ", " where ", " stable always (8 of 8 alone", " smallest gather_nd/", " again opmap "):
            assert text in out
        assert "cause 2" not in out

    @pytest.mark.slow
    def test_closest(self, capsys):
        """Where no condition fits, the closest one is told, with the number of cases for which it is right."""
        code, out = self.run(capsys, "--provider", "fault:negative-index-off-by-one")
        assert 1 == code
        told = re.search(
            r"when no simple condition separates them from the cases that passed; the closest is: an index < 0 \((.*?)\)",
            out,
        )
        assert told is not None, out
        numbers = [int(number) for number in re.findall(r"\d+", told[1])]
        assert f"{numbers[0]} of {numbers[1]} cases that fail, {numbers[2]} of {numbers[3]} that pass" == told[1]
        assert f"cause 1 {numbers[1]} cases" in out
        assert numbers[0] == numbers[1] > 0 < numbers[2] < numbers[3]

    @pytest.mark.parametrize(
        ("contradicting", "sought", "text"),
        [
            (
                0,
                True,
                "data type INT8 (fits all answers, but may be narrower or wider than the fault; 2 of 2 cases that fail, 0 of 9 that pass)",
            ),
            (
                3,
                True,
                "no condition fits all answers; the closest is: data type INT8 (2 of 2 cases that fail, 0 of 9 that pass)",
            ),
            (0, False, "no sure condition"),
            (3, False, "no condition fits all answers"),
        ],
    )
    def test_not_exact(self, contradicting, sought, text):
        """After asking, a condition that fits all answers and is not exact is told so; no answer contradicts it."""
        closest = ClosestDocument("data type INT8", [], failing=(2, 2), passing=(0, 9)) if sought else None
        assert text == condition_text(None, closest, AskedDocument(9, 4, 5, contradicting))

    @pytest.mark.parametrize(
        ("parts", "runs", "text"),
        [
            ([[]], 0, "all cases of this run fail"),
            ([["a"]], 0, "the text (fits the cases of this run)"),
            ([[]], 9, "the text"),
        ],
    )
    def test_fits(self, parts, runs, text):
        """Where none passed, nothing separates the cases: all fail. What was not asked only fits the run."""
        assert text == condition_text(ConditionDocument("the text", parts), None, AskedDocument(runs, runs, 0, 0))

    def test_green(self, capsys):
        code, out = self.run(capsys, "--provider", "cpu")
        assert 0 == code
        assert "cause" not in out

    def test_other_failures(self, capsys, tmp_path):
        """A failure that has no cause in a case, as a pass that was not expected, is told in a line of its own."""
        known = tmp_path / "known.toml"
        known.write_text(
            f'schema = "{SCHEMA}"\ncase_ids = 1\n[[known]]\ncase = "gather_nd/example.1"\n'
            'provider = "cpu"\nverdict = "mismatch"\nreason = "a test"\n'
        )
        code, out = self.run(capsys, "--provider", "cpu", "--known-failures", str(known))
        assert 1 == code
        assert "unexpected-pass gather_nd/example.1" in out

    def test_provider_is_gone(self, capsys, monkeypatch):
        """If the provider cannot be opened again, the results are printed all the same."""

        def gone(self):
            raise ProviderMissing("it is gone")

        monkeypatch.setattr("opmap.session.ValidationRun.fresh", gone)
        assert 1 == main(["validate", "--filter", "gather_nd/example.*", "--provider", "fault:output-zero"])
        out, err = capsys.readouterr()
        assert "mismatch" in out
        assert "opmap: the causes were not found: it is gone" in err


class TwoFaults:
    """Judges 16-bit data on one provider, and all other data on another one."""

    def __init__(self, others, wide):
        self.judges, self.provider, self.conversion = {2: wide}, others.provider, others.conversion
        self.others = others

    def __call__(self, case):
        return self.judges.get(case.desc.output.data_type.size, self.others)(case)


class TestCauses:
    """Failures of a run in groups."""

    def run(self, name, cases=CASES):
        judge = Judge(open_fault(name), brief=True)
        return JudgedRun([(case, judge(case)) for case in cases])

    @pytest.mark.slow
    def test_one(self):
        (cause,) = causes(self.run("last-row-repeated"))
        assert "last-row-repeated" in (cause.relation.fault, *cause.relation.ties)

    def test_session(self):
        """A fault of a session is named if the numbers of all calls are known."""
        run = self.run("run-previous-output")
        calls = {case.id: number for number, (case, _) in enumerate(run.judged, 1)}
        (cause,) = causes(JudgedRun(run.judged, calls))
        assert "run-previous-output" in (cause.relation.fault, *cause.relation.ties)

    def test_most_are_not_searched(self, monkeypatch):
        """Of many failures some are searched; the others belong to the cause whose fault gives their output."""
        monkeypatch.setattr("opmap.diagnosis.causes.MOST_RELATED", 5)
        run = self.run("index-clamped-early")
        (cause,) = causes(run)
        assert len(run.failed) == len(cause.failures) > 20
        assert sum(bool(failure.relations) for failure in cause.failures) <= 10

    def test_another_failure_under_the_condition(self, monkeypatch):
        """What a fault does not give is searched, also if the cause's condition holds for it: its wrong elements are
        counted.
        """
        monkeypatch.setattr("opmap.diagnosis.causes.MOST_RELATED", 20)
        cases = [c for c in SMOKE if c.desc.output.data_type is DataType.INT64 and c.desc.output.element_count < 5000]
        run = self.run(
            "word-64-extended", [*cases, *(c for c in CASES if c.desc.output.data_type is not DataType.INT64)]
        )
        other = run.judged[run.failed[1]][0]
        zero = Judge(open_fault("output-zero"), brief=True)(other)
        judged = [(case, zero if case is other else record) for case, record in run.judged]
        mixed = [
            (c, r) for c, r in judged if r.failed or c.desc.output.data_type is not DataType.INT64
        ]  # INT64: all fail
        found = causes(JudgedRun(mixed))
        (of_fault,) = [cause for cause in found if cause.relation.fault == "word-64-extended"]
        claimed = other.id in {failure.case.id for failure in of_fault.failures}
        assert not claimed or of_fault.relation.explained < of_fault.relation.wrong

    @pytest.mark.slow
    def test_large_output(self):
        """An output that the record does not list is compared by its digest."""
        large = [case for case in SMOKE if case.desc.output.element_count > 10_000 and case.desc.index_tensors()]
        run = self.run("index-clamped-early", [*CASES, *large[:1]])
        assert any(r.failed and r.actual.Bits is None for _, r in run.judged)
        (cause,) = causes(run)
        assert cause.relation.fault == "index-clamped-early"

    def test_lost_in_part(self):
        """Elements that are zero at any place are one cause: in outputs that are all zero, and too large to be kept."""
        large = [case for case in SMOKE if case.desc.output.element_count > 10_000 and case.desc.index_tensors()]

        def lost(bits, _):
            at_random = np.arange(len(bits)) * 2654435761 % 97 % 3 == 0
            return bits if len(bits) < 10_000 and bits[-1] % 2 else np.where(at_random, 0, bits)

        judge = Judge(Provider("fault:planted", None, None, FaultProvider(Fault(text="", output=lost))))
        run = JudgedRun([(case, judge(case)) for case in (*CASES, *large[:1])])
        failed = [record for _, record in run.judged if record.failed]
        assert any(record.actual.Bits is None for record in failed)
        assert any(record.actual.Bits and {int(bits, 16) for bits in record.actual.Bits} == {0} for record in failed)
        (cause,) = causes(run)
        assert ("some elements are zero", None) == (cause.relation.text, cause.condition)

    def test_errors(self, monkeypatch):
        """Failures without an output are grouped by verdict and message."""
        monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
        opened = open_provider("planted_sessions:crashes_at_close")
        judge = Judge(opened)
        (cause,) = causes(JudgedRun([(case, judge(case)) for case in CASES[:2]]))
        opened.close()
        assert "error" == cause.relation.kind
        assert cause.relation.text.startswith("crash at run")

    def test_error_title(self):
        """A title has the first line of the exception with its type, as far as all cases of the cause have it in
        common.
        """
        lines = [f"RuntimeError: Need at least {n} dims\nNeed more information? Ask the maintainers" for n in (2, 3)]
        fields = {"verdict": Verdict.ERROR, "stage": Stage.RUN}
        judged = [(case, Record(message=line, **fields)) for case, line in zip(CASES, lines, strict=False)]
        (cause,) = causes(JudgedRun(judged))
        assert "error at run: RuntimeError: Need at least ... dims" == cause.relation.text

    @pytest.mark.parametrize(
        ("lines", "title"),
        [
            (["Need at least 0 and at most 64 arrays."], "Need at least 0 and at most 64 arrays."),
            (
                [*["Need at least 0 and at most 64 arrays."] * 2, "cannot reshape (1,256)"],
                "Need at least 0 and at most 64 arrays.; some cases have another message",
            ),
            (["A 7 of the same kind 1", "At node 7 of the same kind 2"], "... of the same kind ..."),
            (["A 1 2 of the same kind", "A 3 4 of the same kind"], "A ... of the same kind"),
            ([" ".join(["same"] * 40)], f"{'same ' * 31}..."),
        ],
    )
    def test_part_of_a_message(self, lines, title):
        """The title is a whole line, or says where words are missing.

        It does not speak for messages unlike those of the label.
        """
        fields = {"verdict": Verdict.ERROR, "stage": Stage.RUN}
        failures = [failure_of(case, Record(message=line, **fields)) for case, line in zip(CASES, lines, strict=False)]
        assert f"error at run: {title}" == whole_relation(failures[0].simplest[0], failures).text

    @pytest.mark.parametrize(
        "stack",
        [
            "Stack backtrace: 0: <anyhow::Error>::msg of the library",
            "Stack (most recent call first): File",
            "Current thread 0x7f (most recent call first): File",
            "Traceback (most recent call last): File",
            "Stack trace: 0: at",
        ],
    )
    def test_stack(self, stack):
        """Titles, groups and `there` leave out the stack that follows a message."""
        record = Record(verdict=Verdict.ERROR, stage=Stage.RUN, message=f"E: it is full {stack}")
        failure = failure_of(CASES[0], record)
        assert [("error", "error at run: E: it is full")] == [*failure.simplest]
        relation = whole_relation(failure.simplest[0], [failure])
        assert "error at run: E: it is full" == relation.text
        assert "E: it is full" == dict(CauseView.of_failure(failure, relation).lines)["example"]

    def test_only_a_stack(self):
        """A message that begins with its stack stays whole."""
        message = "InternalError: Traceback (most recent call last): it is full"
        assert message == without_stack(message)

    def test_errors_of_two_operators(self):
        """Failures with different messages and of different operators are two causes, although a list of these is a
        condition.
        """
        cases = [*CASES[:12], *GATHERS[:12], *(case for case in SMOKE if case.id.startswith("tile/"))]
        passed = Judge(open_fault("none"), brief=True)
        fields = {"verdict": Verdict.ERROR, "stage": Stage.RUN}
        judged = [
            (case, passed(case) if message is None else Record(case=case.id, message=message, **fields))
            for case in cases
            for message in ({"GATHER_ND": "it is full", "GATHER": "it is late"}.get(case.desc.operator),)
        ]
        titles = {cause.relation.text for cause in causes(JudgedRun(judged))}
        assert {"error at run: it is full", "error at run: it is late"} == titles

    def test_smallest_error(self):
        """The smallest case of errors has the message of the title."""
        small, *others = sorted(CASES[:12], key=lambda case: case_size(case))
        messages = {small.id: "it is late"}
        failures = [
            failure_of(
                case, Record(verdict=Verdict.ERROR, stage=Stage.RUN, message=messages.get(case.id, "it is full"))
            )
            for case in (small, *others)
        ]
        cause = cause_of(JudgedRun([]), ("error", "error at run: it is full"), failures)
        assert others[0] is cause.smallest.case
        assert len(failures) == len(cause.failures)

    def test_form(self):
        """Outputs of another type, or of other sizes, have one title: what all cases have in common."""
        for texts, title in (
            (["the output must be INT16, got INT64", "the output must be INT32, got INT64"], "be ... got INT64"),
            (["the output must have sizes [1, 2], got [2]", "the output must have sizes [3], got [1]"], "sizes ..."),
        ):
            pairs = zip(CASES, texts, strict=False)
            judged = [
                (case, Record(verdict=Verdict.MISMATCH, stage=Stage.COMPARE, message=text)) for case, text in pairs
            ]
            (cause,) = causes(JudgedRun(judged))
            assert cause.relation.text.endswith(title)
            assert not cause.relation.vague
        relation = Relation("type", "the output must be INT32, got INT64", "result-other-type")
        assert ("type", "") in relation.labels  # beside the fault, which gives this type for some types only

    @pytest.mark.parametrize(("explained", "how"), [(30, "too few cases show it to be sure"), (29, "the closest is")])
    def test_unknown(self, explained, how):
        """What explains all wrong elements of a few cases is not called the closest; nothing is said of no elements."""
        relation = Relation("zero", "they are zero", explained=explained, wrong=30)
        assert f"{how}: they are zero ({explained} of 30 wrong elements)" == relation.unknown().remark
        assert replace(relation, explained=0, wrong=0).unknown().remark is None

    def test_view(self):
        """The view has the first line of a message, and does not say what no relation explains."""
        run = self.run("index-clamped-early", CASES[::4])
        (cause,) = causes(run)
        unknown = replace(cause, relation=cause.relation.unknown())
        known, view = (CauseView.of(cause_group(Diagnosis(c), lambda case: "")) for c in (cause, unknown))
        assert "explains" in known.title
        assert "explains" not in view.title
        record = msgspec.structs.replace(cause.smallest.record, message="it is full\n   0: at line 7")
        failure = replace(cause.smallest, record=record)
        group = cause_group(Diagnosis(replace(cause, failures=(failure,))), lambda case: "")
        for view in (CauseView.of(group), CauseView.of_failure(failure, cause.relation)):
            assert "it is full" == dict(view.lines)["example"]

    @pytest.mark.parametrize(
        ("failing", "contradicting", "kind", "known"),
        [(0, 0, "fault", False), (20, 0, "fault", True), (20, 3, "fault", False), (0, 0, "type", True)],
    )
    def test_few_failures(self, failing, contradicting, kind, known):
        """A relation of few failures of the run is told if enough answers show it, and none contradicts; or if one is
        enough.
        """
        run = self.run("index-clamped-early", CASES[::4])
        (cause,) = causes(run)
        unknown = replace(cause, relation=cause.relation.unknown(), condition=None)
        few = replace(cause, failures=cause.failures[:3], condition=None, relation=replace(cause.relation, kind=kind))
        always, condition = Stability("always", ""), Condition(())
        answers = [(case, True) for case in CASES[:failing]]
        asked = Asked(condition, failing, answers, contradicting=contradicting, checked=False)
        told = vague_as_one(run, [Diagnosis(unknown, always), Diagnosis(few, always, asked)])
        assert known is any(not diagnosis.cause.relation.vague for diagnosis in told)

    def test_closest_of_answers(self):
        """If an answer contradicts each condition, the closest one is right for most answers too, which are counted."""
        run = self.run("index-clamped-early", CASES[::4])
        (cause,) = causes(run)
        whole = self.run("index-clamped-early")
        answers = [(case, record.failed) for case, record in whole.judged if case not in CASES[::4]]
        closest = Closest.of(cause, run, Asked(cause.condition, runs=len(answers), contradicting=1, answers=answers))
        assert (len(whole.failed), len(whole.passed)) == (closest.failing[1], closest.passing[1])

    def test_closest_beside_one_by_chance(self):
        """If the condition that fits all answers may fit by chance, the closest other one is told, with what
        contradicts it.
        """
        run = self.run("index-clamped-early", CASES[::4])
        (cause,) = causes(run)
        always = Condition(())
        answers = [(case, record.failed) for case, record in self.run("index-clamped-early").judged]
        asked = Asked(always, runs=len(answers), by_chance=True, answers=answers)
        told = Diagnosis(replace(cause, condition=always), Stability("always", ""), asked).with_closest(run)
        assert told.closest.condition != always
        assert told.asked.contradicting == told.closest.wrong_for(answers) > 0

    def test_fed_values_ignored(self):
        """What a variant shows exactly is the title, although the same output fits a fault model."""
        case = CASES[0]
        record = Judge(open_fault("index-ignored"))(case)
        record = msgspec.structs.replace(record, message=f"run 2: {FED_IGNORED}; {record.message}")
        (cause,) = causes(JudgedRun([(case, record)]))
        assert ("inputs", FED_IGNORED) == (cause.relation.kind, cause.relation.text)

    def test_values_only(self):
        """Of an output in which nothing but values is wrong, no relation says that elements were moved."""
        case = next(c for c in CASES if c.desc.output.data_type.name == "FLOAT32")
        bits = list(case.expected)
        actual = [*bits[1:], bits[0]]
        record = Judge(open_fault("output-zero"))(case)
        hexadecimal = [f"{b:08x}" for b in actual]
        record = msgspec.structs.replace(record, actual=msgspec.structs.replace(record.actual, Bits=hexadecimal))
        moved, altered = (
            causes(JudgedRun([(case, msgspec.structs.replace(record, kinds=kinds))]))[0].relation
            for kinds in (None, ["zero-sign"])
        )
        assert "values" != moved.kind
        assert ("values", "the values are altered: sign of zero") == (altered.kind, altered.text)

    def test_calls(self):
        """A relation over calls is not told of a case that fails alone in a fresh process."""
        judge = Judge(open_fault("run-previous-output"))
        judged = [(case, judge(case)) for case in CASES]
        run = JudgedRun(judged, {case.id: call for call, case in enumerate(CASES, 1)})
        (cause, *_) = causes(run)
        assert "run-previous-output" in (cause.relation.fault, *cause.relation.ties)
        relation = without_calls(run, cause).relation
        assert "stale" != relation.kind
        assert "run-previous-output" not in (relation.fault, *relation.ties)

    def test_nothing(self):
        assert [] == causes(self.run("none"))

    @pytest.mark.parametrize("contradicting", [0, 1])
    def test_covered(self, contradicting):
        """Cases that the exact condition of another cause covers are part of it; only those that remain are a second
        cause.
        """
        run = self.run("index-clamped-early", CASES[::4])
        (cause,) = causes(run)
        negative = Condition((Comparison("negative", "==", True),))
        always = Stability("always", "")
        first = Diagnosis(replace(cause, condition=negative), always, Asked(negative, contradicting=contradicting))
        whole, (other,) = with_covered(first, [Diagnosis(cause, always)], run)
        assert (len(other.cause.failures) < len(cause.failures)) is not contradicting
        assert 2 * len(cause.failures) == len(whole.cause.failures) + len(other.cause.failures)
        everything = replace(first, cause=replace(cause, condition=Condition(())), asked=Asked(Condition(())))
        whole, left = with_covered(everything, [Diagnosis(cause, always)], run)
        assert ([], 2 * len(cause.failures)) == (left, len(whole.cause.failures))

    def test_covered_by_two(self):
        """Failures that the condition of a cause covers are no part of it if too few of their wrong elements are
        explained.
        """
        runs = [self.run(name, CASES[::4]) for name in ("index-clamped-early", "indices-backwards")]
        (cause,), (other,) = (causes(run)[:1] for run in runs)
        unknown = replace(other, relation=other.relation.unknown())
        everything, always = Condition(()), Stability("always", "")
        first = Diagnosis(replace(cause, condition=everything), always, Asked(everything))
        whole, left = with_covered(first, [Diagnosis(unknown, always)], runs[0])
        assert whole.cause.relation.or_unknown() is whole.cause.relation
        assert len(left) == 1
        assert len(whole.cause.failures) + len(left[0].cause.failures) == len(cause.failures) + len(other.failures)

    def test_covered_errors(self):
        """The title of an error says so if failures that its condition covers have another message."""
        record = Judge(open_fault("output-zero"), brief=True)(CASES[0])
        messages = ["it is full"] * 12 + ["it is late"] * 5
        failed = [
            (case, msgspec.structs.replace(record, case=case.id, verdict=Verdict.ERROR, stage=Stage.RUN, message=text))
            for case, text in zip(CASES, messages, strict=False)
        ]
        run = JudgedRun(failed)
        full, late = (
            cause_of(run, ("error", f"error at run: {text}"), [failure_of(*pair) for pair in pairs])
            for text, pairs in (("it is full", failed[:12]), ("it is late", failed[12:]))
        )
        everything, always = Condition(()), Stability("always", "")
        first = Diagnosis(replace(full, condition=everything), always, Asked(everything))
        whole, left = with_covered(first, [Diagnosis(late, always)], run)
        assert ([], 17) == (left, len(whole.cause.failures))
        assert "error at run: it is full; some cases have another message" == whole.cause.relation.text

    def test_title_of_the_smallest_error(self):
        """The title of an error says no more than its smallest case, which was made while asking."""
        fields = {"verdict": Verdict.ERROR, "stage": Stage.RUN}

        def message(case):
            return f"the library has stopped at 7: {'it is late' if case in CASES else 'it is full'}"

        judged = [(case, Record(case=case.id, message=message(case), **fields)) for case in CASES[:9]]
        run = JudgedRun(judged)
        (cause,) = causes(run)
        assert cause.relation.text.endswith("it is late")
        diagnosis = Diagnosis(cause, Stability("always", ""))
        told = make_condition_exact(diagnosis, run, lambda case: Record(message=message(case), **fields), [], budget=9)
        assert "it is full" in told.smallest.record.message
        assert told.cause.relation.text == "error at run: the library has stopped at 7: it is ..."

    @pytest.mark.parametrize(("larger", "causes_left"), [(True, 1), (False, 2)])
    def test_vague_as_one(self, larger, causes_left):
        """Beside a larger cause of which nothing is known, a condition alone is none; that of the larger one stays."""
        run = self.run("index-clamped-early", CASES[::4])
        (cause,) = causes(run)
        unknown = replace(cause, relation=cause.relation.unknown(), condition=None)
        count, condition = len(cause.failures) // 3, Condition((Comparison("negative", "==", True),))
        few, many = (replace(unknown, failures=part) for part in (cause.failures[:count], cause.failures[count:]))
        exact, always = {"asked": Asked(condition)}, Stability("always", "")
        found = [
            Diagnosis(replace(few, condition=condition) if larger else few, always, **(exact if larger else {})),
            Diagnosis(many if larger else replace(many, condition=condition), always, **({} if larger else exact)),
        ]
        told = vague_as_one(run, found)
        assert causes_left == len(told)
        assert len(cause.failures) == sum(len(diagnosis.cause.failures) for diagnosis in told)

    @pytest.mark.parametrize(
        ("fits", "same_operator", "few", "named"),
        [(False, True, True, 0), (False, False, True, 1), (True, True, True, 1), (False, True, False, 1)],
    )
    def test_refuted(self, fits, same_operator, few, named):
        """A fault that fits few failures is told only if it gives the failures of its operators that have no
        relation.
        """
        run = self.run("index-clamped-early", CASES[::4] if few else CASES)
        others = run if fits else self.run("indices-backwards", CASES if same_operator else GATHERS)
        (cause,), (other,) = ([replace(c, condition=None) for c in causes(r)[:1]] for r in (run, others))
        unknown = replace(other, relation=other.relation.unknown(), failures=other.failures[:8])
        cause = replace(cause, failures=cause.failures[:9]) if few else cause
        found = [Diagnosis(replace(cause, condition=None), Stability("always", "")) for cause in (cause, unknown)]
        told = vague_as_one(run, found)
        assert named == sum(not diagnosis.cause.relation.vague for diagnosis in told)
        if not named:
            (whole,) = (diagnosis.cause for diagnosis in told)
            assert whole.relation.wrong == sum(f.relations[0].wrong for f in (*cause.failures, *unknown.failures))

    @pytest.mark.parametrize(
        ("same_operator", "condition", "left"), [(True, False, 1), (False, False, 2), (True, True, 2)]
    )
    def test_unknown_as_one(self, same_operator, condition, left):
        """Causes of the same operator of which nothing is known are asked about once."""
        runs = [
            self.run("index-clamped-early", cases) for cases in (CASES[::4], CASES[1::4] if same_operator else GATHERS)
        ]
        found = []
        for run in runs:
            cause = causes(run)[0]
            held = Condition((Comparison("negative", "==", True),)) if condition else None
            unknown = replace(cause, relation=cause.relation.unknown(), condition=held)
            found.append(Diagnosis(unknown, Stability("always", "")))
        assert left == len(unknown_as_one(runs[0], found))

    def test_order_of_the_run(self):
        """The order of the cases, and the processes they ran in, change nothing."""
        run = self.run("index-clamped-early")
        calls = {case.id: number % 7 + 1 for number, (case, _) in enumerate(run.judged)}
        told = [
            [(c.label, c.relation, c.condition, [failure.case.id for failure in c.failures]) for c in causes(one)]
            for one in (run, JudgedRun(run.judged[::-1], calls))
        ]
        assert told[0] == told[1]

    def test_other_data_type(self):
        """A failure of another data type is counted only if it shows the relation of the cause: it may be another
        defect.
        """
        run = self.run("output-zero")
        (cause,) = causes(run)
        wide = [failure for failure in cause.failures if failure.case.desc.output.data_type.name == "FLOAT64"]
        (other,) = [case for case in CASES if case.desc.output.data_type.name == "FLOAT32"][:1]
        vague = replace(cause, failures=tuple(wide), relation=replace(cause.relation, vague=True))
        judge = Judge(open_fault("output-zero"), brief=True)
        assert Asking(replace(cause, failures=tuple(wide)), [], judge)(other) is True
        assert Asking(vague, [], judge)(other) is None
        assert Asking(vague, [], judge)(wide[0].case) is True

    def test_hidden_by_values(self):
        """A case in which the cause changes elements to what they are says nothing of it; one without such elements
        does.
        """

        def tails(bits, arrays):
            rows = bits.reshape(-1, arrays.output_sizes[-1])
            whole = rows.shape[1] // 4 * 4
            rows[:, whole:] = rows[:, whole - 4 : whole][:, : rows.shape[1] - whole] if whole else rows
            return bits

        relation = SimpleNamespace(kind="repeat", rule=Fault(text="tails of rows", output=tails))
        asking = Asking(SimpleNamespace(failures=(), relation=relation), [], None)
        desc = OPERATORS["TILE"].descriptor
        says = {}
        for length, repeats in ((3, 2), (2, 4), (2, 3)):
            tensors = (TensorDesc(DataType.INT32, (size,)) for size in (length, length * repeats))
            fields = dict(zip(("input_tensor", "output_tensor"), tensors, strict=True))
            case = generated(desc(**fields, repeats_count=1, repeats=(repeats,)), "-", "addr")
            says[length, repeats] = asking.changes(case)
        assert {(2, 3): False, (3, 2): True, (2, 4): True} == says
        relation.kind = "address"  # what it changes does not come from the output
        assert asking.changes(case)

    def test_mostly_zero(self):
        """A pass of a case whose output is mostly zero says nothing of a cause by which elements become zero."""
        relation = SimpleNamespace(kind="missing", rule=None)
        desc = OPERATORS["DIAGONAL_MATRIX"].descriptor
        asking = Asking(SimpleNamespace(failures=(), relation=relation), [], Judge(open_fault("none"), brief=True))
        diagonal = next(case for case in SMOKE if isinstance(case.desc, desc) and case.desc.output.sizes[-1] > 3)
        assert (None, False) == (asking(diagonal), asking(CASES[0]))
        relation.kind = "address"
        assert asking(diagonal) is False

    @pytest.mark.parametrize(("exact", "left"), [(True, 0), (False, 1)])
    def test_covered_without_a_relation(self, exact, left):
        """A cause that lost its relation is part of one that has none either, and whose exact condition holds for
        it.
        """
        run = self.run("index-clamped-early", CASES[::4])
        (cause,) = causes(run)
        unknown = replace(cause, relation=cause.relation.unknown(), condition=Condition(()))
        larger, smaller = (replace(unknown, failures=part) for part in (cause.failures[2:], cause.failures[:2]))
        asked = Asked(Condition(()), contradicting=not exact)
        done, always = [Diagnosis(larger, Stability("always", ""), asked)], Stability("always", "")
        assert exact is join_a_larger_one(Diagnosis(smaller, always), done, run)
        assert len(cause.failures) - 2 * left == len(done[0].cause.failures)
        assert not join_a_larger_one(Diagnosis(replace(smaller, relation=cause.relation), always), done, run)

    def test_unstable(self):
        """Failures that do not come back are one cause, without a condition."""
        run = self.run("output-zero")
        right = Judge(open_fault("none"), brief=True)

        @contextmanager
        def fresh(**changes):
            yield right

        (found,) = quick_diagnoses(run, fresh, most=5)
        assert ("sometimes", None) == (found.stability.kind, found.cause.condition)
        assert len(run.failed) == len(found.cause.failures)

    @pytest.mark.parametrize(("known", "history", "told"), [(False, False, 2), (True, False, 1), (False, True, 1)])
    def test_operators_apart(self, known, history, told):
        """Operators of whose failures nothing is known stay apart: they may be two bugs.

        Not if earlier calls matter.
        """
        run = self.run("index-clamped-early", [*CASES[::4], *GATHERS[::4]])
        (cause,) = causes(run)
        assert 2 == len(cause.operators)
        if not known:
            failures = tuple(replace(f, relations=(f.relations[0].unknown(),)) for f in cause.failures)
            cause = replace(cause, failures=failures, label=("none", UNKNOWN), relation=cause.relation.unknown())
        runs = itertools.count()

        @contextmanager
        def fresh(**changes):
            yield Judge(open_fault("index-clamped-early" if not history or next(runs) % 2 else "none"), brief=True)

        found = separated(run, [replace(cause, condition=None)], fresh, most=5)
        assert [told, len(run.failed)] == [len(found), sum(len(d.cause.failures) for d in found)]

    def test_operators_together(self):
        """Operators stay in one cause if other failures of them without a relation share one condition: one bug is in
        them.
        """
        run = self.run("index-clamped-early", [*CASES[::4], *GATHERS[::4]])
        (cause,) = causes(run)
        unknown = replace(cause, relation=cause.relation.unknown(), condition=None)
        known = replace(unknown, condition=Condition((Comparison("negative", "==", True),)))
        assert [2, 0] == [len(apart(run, unknown, others)) for others in ([cause, unknown], [unknown, known])]

    @pytest.mark.slow
    def test_settled(self):
        """Failures whose values fit another relation by chance belong to the larger cause, as other values show."""
        run, judge = self.run("index-clamped-early"), Judge(open_fault("index-clamped-early"))
        (cause,) = causes(run)
        chance = replace(cause, label=("shift", "by chance"), failures=cause.failures[:3])
        (found,) = settled(run, [Diagnosis(cause), Diagnosis(chance)], judge)
        assert cause.label == found.cause.label

    @pytest.mark.parametrize("contradicting", [0, 1])
    def test_beside_a_rival(self, contradicting, monkeypatch):
        """Nobody knows of failures without a relation whether they end where a rival begins that has no exact
        condition.
        """
        run, judge = self.run("negative-index-as-zero", CASES[::4]), Judge(open_fault("negative-index-as-zero"))
        (cause,) = causes(run)
        negative = Condition((Comparison("negative", "==", True),))
        monkeypatch.setattr("opmap.diagnosis.diagnose.make_exact", lambda *_, **__: Asked(negative))
        rival = Diagnosis(cause, Stability("always", ""), Asked(negative, contradicting=contradicting))
        failures = tuple(replace(f, relations=(f.relations[0].unknown(),)) for f in cause.failures)
        without = replace(cause, failures=failures, label=("none", ""), relation=cause.relation.unknown())
        found = make_condition_exact(Diagnosis(without, Stability("always", "")), run, judge, [rival], budget=40)
        assert (contradicting == 0) is found.exact

    def test_other_relation(self, monkeypatch):
        """If the answers show another relation than the one that was asked about, all is asked again under the new
        one.
        """
        run, judge = self.run("negative-index-as-zero", CASES[::4]), Judge(open_fault("negative-index-as-zero"))
        (cause,) = causes(run)
        (other,) = causes(self.run("index-clamped-early", CASES[::4]))
        negative, asked = Condition((Comparison("negative", "==", True),)), []

        def make_exact(ask, *_, **__):
            asked.append(ask.cause.label)
            return Asked(negative)

        monkeypatch.setattr("opmap.diagnosis.diagnose.make_exact", make_exact)
        chance = replace(cause, label=other.label, relation=other.relation)
        found = make_condition_exact(Diagnosis(chance, Stability("always", "")), run, judge, [], budget=40)
        assert [other.label, cause.label] == asked
        assert (cause.relation.fault, True) == (found.cause.relation.fault, found.exact)

    def test_hint_against_the_smallest(self):
        """The closest condition is not told if the smallest case does not meet it; nor is the closest relation."""
        run = self.run("index-clamped-early", CASES[::4])
        (cause,) = causes(run)
        answers = [(case, record.failed) for case, record in self.run("index-clamped-early").judged]
        asked = Asked(cause.condition, len(answers), answers, contradicting=1)
        unknown = replace(cause, condition=None, relation=replace(cause.relation.unknown(), remark="the closest is: x"))
        told = Diagnosis(unknown, Stability("always", ""), asked).with_closest(run)
        assert told.closest.condition.holds(features(cause.smallest.case))
        assert told.cause.relation.remark == "the closest is: x"
        passed = next(case for case in run.passed if not told.closest.condition.holds(features(case)))
        other = failure_of(passed, Judge(open_fault("output-zero"))(passed))
        told = Diagnosis(unknown, Stability("always", ""), asked, shrunk=other).with_closest(run)
        assert (None, None) == (told.closest, told.cause.relation.remark)

    def test_equal_inputs(self):
        """An output of an earlier call with the same inputs is no output that was kept: the same fault gives it
        again.
        """
        case = CASES[0]
        again = replace(case, id="again")
        judge = Judge(open_fault("output-zero"))
        run = JudgedRun([(c, judge(c)) for c in (case, again)], {case.id: 1, again.id: 2})
        assert [] == earlier_calls(run, 1)
        run = JudgedRun([(c, judge(c)) for c in (CASES[1], case)], {CASES[1].id: 1, case.id: 2})
        assert {CASES[1].id} == {earlier.case for earlier in earlier_calls(run, 1)}

    @pytest.mark.slow
    def test_rivals(self):
        """Two faults in one provider are two causes, each with its own condition."""
        names = ("negative-index-as-zero", "output-zero")
        judge = TwoFaults(*(Judge(open_fault(name), brief=True) for name in names))

        @contextmanager
        def fresh(**changes):
            yield judge

        run = JudgedRun([(case, judge(case)) for case in CASES])
        found = diagnoses(run, judge, fresh, budget=150)
        told = {diagnosis.cause.relation.fault: str(diagnosis.cause.condition) for diagnosis in found[:2]}
        assert "an index < 0" in told["negative-index-as-zero"]
        assert "data width == 2" in next(text for fault, text in told.items() if fault != "negative-index-as-zero")

    @pytest.mark.slow
    def test_apart(self):
        """Data of another type, which another cause changes, is none of the cause: the condition does not hold for
        it.
        """
        wrong = {"INT64": "data-through-int32", "FLOAT64": "data-through-float32-saturating"}
        others = Judge(open_fault("none"), brief=True)
        judges = {name: Judge(open_fault(fault), brief=True) for name, fault in wrong.items()}

        class ByType(TwoFaults):
            def __call__(self, case):
                return judges.get(case.desc.output.data_type.name, self.others)(case)

        judge = ByType(others, others)

        @contextmanager
        def fresh(**changes):
            yield judge

        run = JudgedRun([(case, judge(case)) for case in SMOKE])
        found = [d for d in diagnoses(run, judge, fresh, budget=300) if d.exact]
        told = {n: str(d.cause.condition) for d in found for n in (d.cause.relation.fault, *d.cause.relation.ties)}
        for name, fault in wrong.items():
            assert f"data type {name}" == told[fault]


class TestStability:
    """A case is run again in fresh processes."""

    def stability(self, fails, before="a"):
        @contextmanager
        def fresh():
            earlier = []

            def run(case):
                failed = case.id in "xy" and fails("".join(earlier), len(earlier) + 1)
                earlier.append(case.id)
                return failed

            yield run

        known = {id: SimpleNamespace(id=id) for id in before}
        case, twin = SimpleNamespace(id="x"), SimpleNamespace(id="y")
        return stability(case, twin, [known[id] for id in before], fresh, bool)

    def test_always(self):
        assert "always" == self.stability(lambda before, number: True).kind

    def test_after(self):
        found = self.stability(lambda before, number: before.endswith("a"))
        assert ("after", "a") == (found.kind, found.after)

    def test_after_others(self):
        """The cases that matter are found among many, in the order in which they ran."""
        found = self.stability(lambda before, number: "b" in before and before.endswith("e"), before="hgedcba")
        assert found.kind is None
        found = self.stability(lambda before, number: "be" in before.replace("c", "").replace("d", ""), "gfedcba")
        assert ("after", "only after b, e") == (found.kind, found.text)

    def test_after_long_ago(self):
        """The whole history is searched, not the last cases alone."""
        names = "a" + "".join(chr(0x4E00 + n) for n in range(300))
        found = self.stability(lambda before, number: "a" in before, before=names[::-1])
        assert ("after", "a") == (found.kind, found.after)

    def test_in_common(self):
        """What a case and its predecessor have in common is the key of a cache."""
        first, second = CASES[0], next(c for c in CASES if c.desc.output.sizes != CASES[0].desc.output.sizes)
        assert "OutputTensor.Sizes" in in_common(first, first)
        assert "OutputTensor.Sizes" not in in_common(first, second)
        assert "; both have" in in_common(first, second)

    def test_not_run(self):
        """A run that the provider refused is no pass."""

        @contextmanager
        def fresh():
            yield lambda case: SimpleNamespace(verdict="not-run", message="two hangs")

        found = stability(SimpleNamespace(id="x"), SimpleNamespace(id="y"), [], fresh, bool)
        assert (None, "not known: not run again: two hangs") == (found.kind, found.text)

    @pytest.mark.parametrize("period", [2, 37, 75])
    def test_period(self, period):
        """Every n-th run of a process."""
        found = self.stability(lambda before, number: number % period == 0)
        ordinal = {2: "2nd", 37: "37th", 75: "75th"}[period]
        assert ("periodic", f"every {ordinal} run") == (found.kind, found.text)

    def test_own_period(self):
        """If only its own runs count, what other cases do matters: that is no period of calls."""
        found = self.stability(lambda before, number: sum(id in "xy" for id in before) % 3 == 2)
        assert "sometimes" == found.kind

    def test_sometimes(self):
        numbers = iter(range(1000))
        found = self.stability(lambda before, number: next(numbers) % 2 == 1)
        assert ("sometimes", "sometimes (4 of 8 alone, each in a fresh process)") == (found.kind, found.text)

    def test_chance(self):
        """A case that fails by chance after some others needs none of them."""
        numbers = iter([False] * 303 + [True] * 2 + [False, True, False] * 500)
        assert "sometimes" == self.stability(lambda before, number: next(numbers)).kind

    def test_never_again(self):
        found = self.stability(lambda before, number: False)
        counts = "0 of 3 alone, each in a fresh process; 0 of 300 in one process"
        assert (None, f"not known: does not fail again ({counts})") == (found.kind, found.text)
