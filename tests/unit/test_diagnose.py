"""`opmap diagnose`: groups of failures, how reliably they fail, and the condition and relation of each."""

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from opmap.cases.catalogue import catalogue
from opmap.cli import main
from opmap.diagnosis.asking import Asked
from opmap.diagnosis.causes import causes
from opmap.diagnosis.conditions import Condition
from opmap.diagnosis.diagnose import Diagnosis, merged
from opmap.diagnosis.stability import period, stability
from opmap.execution.providers import open_provider
from opmap.faults import open_fault
from opmap.verdicts.judge import Judge

SMOKE = list(catalogue("smoke", variants=False))
CASES = [case for case in SMOKE if case.id.startswith("gather_nd/")]


@pytest.fixture
def diagnose(monkeypatch, capsys):
    """Runs the command on the cases of GATHER_ND, and returns its exit code and document."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))

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
        relation = group["relation"]
        assert "negative-index-as-zero" in (relation["fault"], *relation["ties"])
        assert relation["explains"][0] == relation["explains"][1] > 0
        assert ("always", None) == (group["stability"], group["after"])
        assert ["DML_OPERATOR_GATHER_ND"] == group["operators"]

    def test_backend(self, diagnose):
        """A third party's backend: the relation is no fault model, the condition is exact, the case small."""
        code, document = diagnose("planted_backends:TuplesRotate", "--budget", "60")
        assert 1 == code
        group = document["groups"][0]
        assert "shift" == group["relation"]["kind"]
        assert {"feature": "tuple_size", "is": ">=", "value": 2} in group["condition"]["any"][0]
        sizes = group["smallest"]["dxdispatch"]["dispatchables"][group["smallest"]["case"]]["desc"]["InputTensor"][
            "Sizes"
        ]
        assert len(sizes) <= 3
        asked = group["asked"]
        assert 0 < asked["failing"] + asked["passing"] <= asked["runs"] <= 60

    def test_green(self, diagnose):
        code, document = diagnose("cpu", "--budget", "10")
        assert (0, []) == (code, document["groups"])

    def test_text(self, capsys):
        """In the terminal: one group of lines, all in the coordinates and sizes of the descriptor."""
        code = main(
            ["diagnose", "--provider", "fault:output-zero", "--filter", "gather_nd/example.*", "--budget", "20"]
        )
        out = " ".join(capsys.readouterr().out.split())
        assert 1 == code
        texts = (
            "cause 1 ",
            " where ",
            " stable always (3 of 3 alone",
            " smallest gather_nd/",
            " again opmap validate --provider ",
        )
        for text in texts:
            assert text in out


class TestCauses:
    """Failures of a run in groups."""

    def run(self, name, cases=CASES):
        judge = Judge(open_fault(name), brief=True)
        return [(case, judge(case)) for case in cases]

    def test_one(self):
        (cause,) = causes(self.run("last-row-repeated"))
        assert "last-row-repeated" in (cause.relation.fault, *cause.relation.ties)

    def test_large_output(self):
        """An output that the record does not list is compared by its digest."""
        large = [case for case in SMOKE if case.desc.output.element_count > 10_000]
        run = self.run("index-clamped-early", [*CASES, *large[:1]])
        large = [record for _, record in run if record.failed and record.actual.Bits is None]
        assert large
        (cause,) = causes(run)
        assert cause.relation.fault == "index-clamped-early"

    def test_errors(self, monkeypatch):
        """Failures without an output are grouped by verdict and message."""
        monkeypatch.syspath_prepend(str(Path(__file__).parent))
        opened = open_provider("planted_sessions:crashes_at_close")
        judge = Judge(opened)
        (cause,) = causes([(case, judge(case)) for case in CASES[:2]])
        opened.close()
        assert "error" == cause.relation.kind
        assert cause.relation.text.startswith("crash at run")

    def test_nothing(self):
        assert [] == causes(self.run("none"))

    def test_merged(self):
        """A cause that the exact condition of another one covers is a part of it; without an exact one it stays."""
        (first,), (second,) = causes(self.run("last-row-repeated")), causes(self.run("index-clamped-early"))
        everything = replace(first, condition=Condition(((),)))
        for contradicting, left in ((0, []), (1, [second])):
            diagnosis, others = merged(
                Diagnosis(everything, asked=Asked(None, contradicting=contradicting)), [second], {}
            )
            assert left == others
            assert (len(diagnosis.cause.failures) > len(first.failures)) is (not left)


class TestStability:
    """A case is run again in fresh processes."""

    @pytest.mark.parametrize(
        ("fails", "kind", "after"),
        [
            (lambda before: True, "always", None),
            (lambda before: before == ["a"], "after", "a"),
            (lambda before: False, "sometimes", None),
        ],
    )
    def test_kinds(self, fails, kind, after):
        @contextmanager
        def fresh():
            before = []

            def run(case):
                failed = case.id == "b" and fails(before)
                before.append(case.id)
                return failed

            yield run

        first, case = SimpleNamespace(id="a"), SimpleNamespace(id="b")
        found = stability(case, first, fresh, lambda failed: failed)
        assert (kind, after) == (found.kind, found.after)

    def test_period(self):
        """Every n-th run of a process is read from enough failures; from few it is not."""
        failing = [{"call": call} for call in range(37, 400, 37)]
        passing = [{"call": call} for call in range(1, 400) if call % 37]
        assert "every 37th run" == period(failing, passing).text
        assert period(failing[:3], passing) is None
        assert period(passing, failing) is None
