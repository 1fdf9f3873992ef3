"""Cases are prepared some at a time, just before they run."""

import pytest

from opmap.catalogue.catalogue import catalogue
from opmap.judge import ahead
from opmap.judge.ahead import Ahead
from opmap.judge.judge import Judge
from opmap.session import Session, open_judge
from opmap.session.options import SessionOptions


@pytest.fixture(scope="module")
def cases():
    """Cases with few elements."""
    return [case for case in catalogue("smoke") if case.variant == "plain"][:12]


class Noted:
    """A judge that notes which cases are prepared together."""

    def __init__(self):
        self.prepared = []

    def prepare_ahead(self, cases):
        self.prepared.append([case.id for case in cases])


class TestAhead:
    """Which cases are prepared together."""

    def test_windows(self, cases, monkeypatch):
        """The cases are prepared in their order, so many at a time, when the first of them is reached."""
        monkeypatch.setattr(ahead, "MOST_CASES", 4)
        noted, ids = Noted(), [case.id for case in cases]
        prepare = Ahead(noted, cases)
        for number, id in enumerate(ids, 1):
            prepare.reach(id)
            assert [ids[:4], ids[4:8], ids[8:]][: -(-number // 4)] == noted.prepared
        assert sorted(ids) == sorted(prepare.seconds)
        assert all(seconds > 0 for seconds in prepare.seconds.values())

    def test_done(self, cases):
        """A case that has a record already is left out, and so is an item that is no case."""
        noted = Noted()
        prepare = Ahead(noted, cases, {cases[0].id, cases[2].id})
        for id in (cases[0].id, "a probe", cases[1].id):
            prepare.reach(id)
        assert [[case.id for case in (cases[1], *cases[3:])]] == noted.prepared

    def test_large(self, cases, monkeypatch):
        """A case with too many elements is not prepared; those before and after it are."""
        sizes = [case.desc.element_count for case in cases]
        at = sizes.index(max(sizes))
        cases = [*cases[:4], cases[at], *cases[4:at], *cases[at + 1 :]]
        assert 1 == sizes.count(max(sizes)) and at > 4
        monkeypatch.setattr(ahead, "MOST_ELEMENTS", max(sizes) - 1)
        noted = Noted()
        prepare = Ahead(noted, cases)
        for case in cases:
            prepare.reach(case.id)
        prepared = [id for together in noted.prepared for id in together]
        assert [case.id for case in cases if case is not cases[4]] == prepared
        assert cases[4].id not in prepare.seconds


class TestPrepared:
    """What a judge prepares ahead."""

    def test_same(self, cases):
        """The records are those of cases that were not prepared ahead."""
        alone, prepared = open_judge("cpu"), open_judge("cpu")
        prepared.prepare_ahead(cases)
        assert [alone(case) for case in cases] == [prepared(case) for case in cases]

    def test_used(self, cases, monkeypatch):
        """What was prepared is used once, and only for the same case."""
        made = []
        real = Judge._prepare
        monkeypatch.setattr(Judge, "_prepare", lambda *args: made.append(args[1].id) or real(*args))
        judge = open_judge("cpu")
        judge.prepare_ahead(cases[:2])
        first, second = (judge.prepare(case) for case in cases[:2])
        assert [case.id for case in cases[:2]] == made
        assert (first.case, second.case) == tuple(cases[:2])
        assert "expected" in first.round.__dict__
        assert judge.prepare(cases[0]) is not first
        judge.prepare_ahead(cases[:1])
        other = next(case for case in catalogue("smoke") if case.id == cases[0].id)
        assert judge.prepare(other).case is other

    def test_held(self, cases, monkeypatch):
        """A case that is prepared and did not run yet is not prepared again. All others are forgotten."""
        made = []
        real = Judge._prepare
        monkeypatch.setattr(Judge, "_prepare", lambda *args: made.append(args[1].id) or real(*args))
        judge = open_judge("cpu")
        first = judge.prepare_ahead(cases[:2])
        second = judge.prepare_ahead(cases[1:3])
        assert [case.id for case in cases[:3]] == made
        assert [cases[:2], cases[1:3]] == [[ready.case for ready in one] for one in (first, second)]
        assert first[1] is second[0] is judge.prepare(cases[1])
        assert judge.prepare(cases[0]) is not first[0]

    def test_large_case_in_a_run(self, cases, monkeypatch):
        """A run judges cases that are too large to be prepared, and keeps how long each case took."""
        monkeypatch.setattr(ahead, "MOST_ELEMENTS", 20)
        with Session(SessionOptions(provider="cpu"), cases=cases) as session:
            session.judge_all()
        assert {"pass"} == {record.verdict for record in session.results.records}
        assert len(cases) == len(session.results.records)
