"""Whose fault a failure is: the interpreter, the CPU EP and the provider; and the provider with one thing changed."""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from planted_providers import Planted

from opmap.cases.catalogue import catalogue
from opmap.cases.variants.run_modes import ARENA_OFF
from opmap.diagnosis.sides import whose_fault
from opmap.engines.machine.facts import Fact
from opmap.engines.providers import Provider, ProviderMissing
from opmap.engines.sessions import CPU, DIRECTML, FUSION_OFF
from opmap.errors import InputError
from opmap.judge.judge import Judge
from opmap.judge.record import Record
from opmap.reports.cause_view import sides_document
from opmap.session import ValidationRun
from opmap.session.options import SessionOptions
from opmap.vocabulary import Verdict

IDS = ("gather/example.1", "gather_elements/example.1", "gather_elements/uint8/d2.axis1/int64.neg/addr0.ad5be3")
CASES = {case.id: case for case in catalogue("smoke", IDS)}
GATHER, ELEMENTS, INT64 = map(CASES.get, IDS)
WRONG = Record(verdict=Verdict.MISMATCH)


@pytest.fixture
def sides(monkeypatch):
    """Asks whose fault a case is, on a planted backend in this process."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))

    def ask(case, provider, **options):
        whole = SessionOptions(provider=provider, in_process=":" in provider and "fault:" not in provider, **options)
        return whose_fault(case, WRONG, ValidationRun(whole).fresh, runs=4)

    return ask


class TestBackends:
    """Third parties' backends: what changes the verdict is found among what they have."""

    def test_constant_indices(self, sides):
        found = sides(dataclasses.replace(INT64, variant="init"), "planted_backends:ConstantIndices")
        assert "provider" == found.odd_one_out
        assert "fails only with indices as initializer (4 of 4 against 0 of 4)" in str(found)
        assert {"with data and indices as graph inputs", "with indices as output of a node"} < {
            side.change for side in found.flips
        }
        assert "with data and indices as initializers" not in {side.change for side in found.flips}

    def test_wide_indices(self, sides):
        """The index type of the descriptor is UINT32: a Cast to INT64 shows the fault, and one to INT32 does not."""
        found = sides(GATHER, "planted_backends:WideIndices")
        (flip,) = [side for side in found.flips if "converted" in side.change]
        assert "as the DirectML EP supports it best" in flip.change
        assert "with indices converted before the graph" in {s.change for s in found.sides if s.failures == s.runs}
        assert f"right {flip.change} (0 of 4 fail, against 4 of 4 as it is)" in str(found)
        found = sides(GATHER, "planted_backends:WideIndices", index_conversion="host")
        assert [flip.change] == [side.change for side in found.flips]

    def test_rank(self, sides):
        """A leading dimension more makes it right."""
        found = sides(ELEMENTS, "planted_backends:RankTwo")
        assert ["padded to 3 dimensions", "padded to 8 dimensions"] == [side.change for side in found.flips]
        assert "fails only in 2 dimensions (4 of 4 against 0 of 4)" in str(found)

    def test_no_change(self, sides):
        """A failure on all sides; the changes that do not exist are named with a reason."""
        found = sides(ELEMENTS, "fault:output-zero")
        assert [] == found.flips
        assert (
            "no change makes it right: padded to 3 dimensions, padded to 8 dimensions; 8 changes do not exist here"
            in str(found)
        )
        assert "fault:output-zero does not have the variant init" == found.left_out["with indices as initializer"]

    def test_sometimes(self, sides):
        """A failure that does not come each time is compared with nothing."""
        found = sides(ELEMENTS, "planted_backends:EachSecond")
        assert ((), (2, 4)) == (found.sides, (found.unchanged.failures, found.unchanged.runs))
        assert "fails 2 of 4 times as it is" in str(found)

    def test_right(self, sides):
        """A case that does not fail is compared with nothing."""
        found = sides(ELEMENTS, "cpu")
        assert (None, (), "") == (found.odd_one_out, found.sides, str(found))

    def test_json(self, sides):
        document = msgspec.to_builtins(sides_document(sides(ELEMENTS, "planted_backends:RankTwo")))
        assert "provider" == document["odd_one_out"]
        assert ["padded to 3 dimensions", "padded to 8 dimensions"] == document["flips"]
        assert {"change": "as it is", "failures": 4, "runs": 4} == document["sides"][0]


def directml(wrong, on_cpu=None, opened=None, below=None):
    """Returns a function that opens the DirectML EP, as far as a judge knows.

    `wrong(entries, options)` plants a fault.
    """

    @contextmanager
    def open_with(*entries, **options):
        if opened is not None:
            opened.append((entries, options))
        if options.get("provider") == "cpu":
            yield Judge(Provider(CPU, None, "hardware", Planted(on_cpu)))
            return
        if options.get("provider") == "directml":
            if isinstance(below, Exception):
                raise below
            yield Judge(Provider("directml", None, "emulated", Planted(below), adapter="one"))
            return
        value = 99 if wrong(dict(entries), options) else None
        yield Judge(Provider(DIRECTML, None, "emulated", Planted(value), adapter="one"))

    return open_with


class TestDirectML:
    """The changes that only the DirectML EP has."""

    @pytest.mark.parametrize(
        ("wrong", "text"),
        [
            (lambda entries, options: FUSION_OFF not in entries, "with graph fusion"),
            (lambda entries, options: ARENA_OFF not in entries, "with the memory arena"),
            (lambda entries, options: not options.get("disable_metacommands"), "with metacommands"),
            (lambda entries, options: options.get("device_id") != 2, "on one"),
        ],
    )
    def test_change(self, wrong, text, monkeypatch):
        """The one change that makes it right is named."""
        adapters = [
            {"name": "one", "index": 0, "software": False},
            {"name": "slow", "index": 1, "software": True},
            {"name": "two", "index": 2, "software": False},
        ]
        monkeypatch.setattr(Provider, "environment", lambda self: {"adapters": Fact(adapters, "")})
        found = whose_fault(ELEMENTS, WRONG, directml(wrong))
        assert 1 == len(found.flips)
        assert f"fails only {text} (5 of 5 against 0 of 5)" in str(found)
        assert "provider" == found.odd_one_out

    def test_each_side_is_opened(self):
        """Each side has a process of its own, and only one thing is changed."""
        opened = []
        found = whose_fault(ELEMENTS, WRONG, directml(lambda entries, options: True, opened=opened), runs=1)
        assert 3 + len(found.sides) == len(opened)  # as it is, on the CPU EP, on DirectML itself
        assert ((), {}) == opened[0]
        assert all(len(entries) + len(options) <= 1 for entries, options in opened if "provider" not in options)

    @pytest.mark.parametrize(
        ("on_cpu", "odd", "text"), [(99, "interpreter", "same wrong output"), (98, "none", "another way")]
    )
    def test_odd_one_out(self, on_cpu, odd, text):
        """The CPU EP gives the provider's wrong output, or another one."""
        found = whose_fault(ELEMENTS, WRONG, directml(lambda entries, options: True, on_cpu))
        assert odd == found.odd_one_out
        assert text in str(found).splitlines()[0]

    @pytest.mark.parametrize(
        ("below", "word", "text"),
        [
            (None, "right", "DirectML itself gives the documented output: the EP or the mapping is in question"),
            (99, "same", "DirectML itself gives the same wrong output: DirectML, or the driver below it, is in question"),
            (98, "other", "DirectML itself fails too, in another way"),
            (ProviderMissing("it is gone"), None, "DirectML itself was not asked: it is gone"),
        ],
    )  # fmt: skip
    def test_below(self, below, word, text):
        """The case is given to DirectML itself too, which says on which side of the EP the fault is."""
        found = whose_fault(ELEMENTS, WRONG, directml(lambda *_: True, below=below), runs=2)
        assert (word, word) == (found.below, sides_document(found).directml)
        assert text in str(found)

    def test_below_of_others(self, sides):
        """Only a failure of the DirectML EP is brought there."""
        assert "DirectML itself" not in str(sides(ELEMENTS, "fault:output-zero"))

    def test_refused(self):
        """A change that the provider refuses is left out, with its reason."""

        def wrong(entries, options):
            if options.get("disable_metacommands"):
                raise InputError("no such option")
            return True

        found = whose_fault(ELEMENTS, WRONG, directml(wrong), runs=1)
        assert "no such option" == found.left_out["without metacommands"]
        assert "without metacommands" not in {side.change for side in found.sides}


class TestDangerous:
    """A case that hangs costs a reset of the device."""

    @pytest.mark.parametrize(("verdict", "opened"), [(Verdict.TIMEOUT, 0), (Verdict.MISMATCH, 1)])
    @pytest.mark.parametrize("dangerous", [False, True])
    def test_hang(self, verdict, opened, dangerous, monkeypatch):
        """No side is asked after the first hang; only `dangerous` allows more."""
        opens, runs = [], []
        real = Judge.__call__

        def hangs(judge, case):
            runs.append(case)
            record = real(judge, case)
            return (
                msgspec.structs.replace(record, verdict=Verdict.TIMEOUT) if judge.provider.name == DIRECTML else record
            )

        monkeypatch.setattr(Judge, "__call__", hangs)
        open_with = directml(lambda entries, options: True, opened=opens)
        found = whose_fault(ELEMENTS, Record(verdict=verdict), open_with, dangerous=dangerous)
        if dangerous:
            assert len(opens) > 5
            assert all(side.runs == 1 for side in found.sides)
        else:
            assert (opened, opened) == (len(opens), len(runs))
            assert "a timeout is run again only with --rerun-dangerous" == str(found)
