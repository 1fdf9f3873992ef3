"""The pace of cases in fresh sessions, in shared sessions and in packs."""

from __future__ import annotations

from judged_sessions import Planted, second_run

from opmap import Session, SessionOptions
from opmap.bench.pace import measure, paces
from opmap.engines.providers import OpenProvider
from opmap.engines.sessions import CPU
from opmap.judge.judge import Judge


class TestPaces:
    """Every way runs every case, and a verdict that is another one than in a fresh session is named."""

    def measured(self, fault=None):
        planted = Planted(fault)
        cases = Session(SessionOptions(filter=("gather_elements/int8/*",))).cases
        calls = []
        found = paces(
            Judge(OpenProvider(CPU, "", "hardware", planted)),
            cases,
            (3, 5),
            block=9,
            advance=lambda: calls.append(None),
        )
        return cases, found, calls

    def test_all_ways(self):
        cases, found, calls = self.measured()

        assert ["fresh", "shared", "packed 3", "packed 5"] == [pace.name for pace in found]
        assert {len(cases)} == {pace.cases for pace in found}
        assert 4 * len(cases) == len(calls)
        assert [[]] * 4 == [pace.differing for pace in found]
        assert 1.0 == found[0].against_fresh
        assert all(pace.per_second > 0 for pace in found)

    def test_another_verdict(self):
        cases, found, _ = self.measured(second_run)

        assert [] == found[0].differing
        assert found[1].differing
        assert set(found[1].differing) < {case.id for case in cases}

    def test_tier(self):
        """The first cases of a tier are measured; without the provider nothing is."""
        found = measure("smoke", 5, (2,), provider="cpu")

        assert [("fresh", 5, []), ("shared", 5, []), ("packed 2", 5, [])] == [
            (p.name, p.cases, p.differing) for p in found
        ]
        assert measure("smoke", 5, provider="NoSuchExecutionProvider") is None
