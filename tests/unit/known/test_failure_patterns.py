"""--write-known-failures: one entry for many cases that fail in one way, which hides nothing else."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec
import pytest
from tiers import all_cases

from opmap.cases.probes import probes
from opmap.judge.record import Record
from opmap.known.known_failures import ActiveFailures, Environment, KnownFailure, load
from opmap.known.written_failures import _globs, stable_text, write
from opmap.vocabulary import Stage, Verdict

CASES = all_cases("smoke")[::3]
HERE = Environment(provider="Mine", adapter="an [adapter] *")
ELEMENTS = "1 of 8 elements differ: output[0] = input[indices[0] = 3] = 14.0, got 13.0"


def passed(case) -> Record:
    return Record(case=case.id, verdict=Verdict.PASS, variant=case.variant)


def failed(case, message=ELEMENTS, verdict=Verdict.MISMATCH, stage=Stage.COMPARE, kinds=None) -> Record:
    return Record(case=case.id, verdict=verdict, variant=case.variant, stage=stage, message=message, kinds=kinds)


def type_of(case) -> str:
    return case.desc.output.data_type.name


def written(records, path, *, items=CASES) -> tuple[KnownFailure, ...]:
    """Writes the failures of a run, fills in the reasons, and returns the entries as they are read."""
    count = write(path, records, HERE, "smoke", items)
    path.write_text(path.read_text(encoding="utf-8").replace("TODO: why", "planted"), encoding="utf-8")
    entries = load(path)
    assert count == len(entries)
    return entries


def red(entries, records, items=CASES) -> set[str | None]:
    """Returns the ids of the cases that are red if these entries are known failures; an unused entry is an error."""
    known = ActiveFailures(entries, HERE)
    assert [] == known.problems(items, "smoke")
    by_id = {item.id: item for item in items}
    return {record.case for record in records if known.apply(by_id[record.case], record).failed}


def nan(case, *kinds) -> Record:
    """Returns a mismatch of these kinds; the case must have special data."""
    return failed(case, f"values only: NaN payload; {ELEMENTS}", kinds=list(kinds) or ["nan-payload"])


FLOAT32 = [case for case in CASES if type_of(case) == "FLOAT32"]
SPECIAL = [case for case in FLOAT32 if case.data_pattern == "special"]


class TestOneEntry:
    """Cases that fail in one way get one entry, and the same run is then green."""

    @pytest.mark.parametrize(
        ("fails", "keys"),
        [
            (lambda case: type_of(case) == "INT8", {"type": "INT8"}),
            (lambda case: case.desc.operator == "GATHER_ND", {"operator": "GATHER_ND"}),
            (lambda case: case.variant == "node", {"variant": "node"}),
            (
                lambda case: case.desc.operator == "GATHER" and type_of(case) == "FLOAT16",
                {"operator": "GATHER", "type": "FLOAT16"},
            ),
            (lambda case: case.index_pattern == "neg", {"case": "*.neg[./]*"}),
            (lambda case: "/d8." in case.id, {"case": "*/d8.*"}),
            (lambda case: "/uint32." in case.id, {"case": "*/uint32.*"}),
        ],
    )
    def test_patterns(self, fails, keys, tmp_path):
        """The entry has the simplest keys that match exactly the failed cases."""
        records = [failed(case) if fails(case) else passed(case) for case in CASES]

        (entry,) = written(records, tmp_path / "known.toml")

        assert keys == {k: v for k in ("case", "operator", "type", "variant") if (v := getattr(entry, k)) is not None}
        assert ("mismatch", "compare", "elements differ", False) == (
            entry.verdict,
            entry.stage,
            entry.message,
            entry.may_pass,
        )
        assert set() == red([entry], records)

    def test_where_the_values_decide(self, tmp_path):
        """A kind of wrong values gets one entry for its type; the cases whose values fit may pass."""
        records = [nan(case) if case in SPECIAL[:5] else passed(case) for case in CASES]

        (entry,) = written(records, tmp_path / "known.toml")

        assert ("FLOAT32", None, ("nan-payload",), True) == (entry.type, entry.case, entry.kinds, entry.may_pass)
        assert set() == red([entry], records)

    def test_several_kinds(self, tmp_path):
        """The entry of a type has all kinds that its cases show."""
        kinds = [("nan-payload",), ("denormals-as-zero",), ("nan-payload", "denormals-as-zero")]
        records = [passed(case) for case in CASES if case not in SPECIAL[:3]]
        records += [nan(case, *k) for case, k in zip(SPECIAL, kinds, strict=False)]

        (entry,) = written(records, tmp_path / "known.toml")

        assert ("nan-payload", "denormals-as-zero") == entry.kinds
        assert set() == red([entry], records)

    def test_comment(self, tmp_path):
        """A comment says how many cases the entry stands for, and shows the first."""
        records = [failed(case) if type_of(case) == "INT8" else passed(case) for case in CASES]
        written(records, tmp_path / "known.toml")

        count = sum(record.failed for record in records)
        text = (tmp_path / "known.toml").read_text(encoding="utf-8")
        assert f"# {count} cases; the first is " in text and ELEMENTS in text


class TestNothingIsHidden:
    """No entry matches a case that failed otherwise, or passed; and another fault in the same cases is red."""

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(passed, id="passed"),
            pytest.param(lambda case: failed(case, "the output must be INT8, got INT32"), id="another message"),
            pytest.param(lambda case: failed(case, "gone", Verdict.CRASH, Stage.RUN), id="another verdict"),
            pytest.param(nan, id="a kind of wrong values"),
            pytest.param(None, id="not run"),
        ],
    )
    def test_one_case_differs(self, other, tmp_path):
        """The entry for the whole type is not written; all entries together match the failed cases only."""
        cases = [case for case in CASES if type_of(case) == "INT8"]
        differs = cases[7]
        records = [failed(case) if case in cases else passed(case) for case in CASES if case is not differs]
        records += [other(differs)] if other else []

        entries = written(records, tmp_path / "known.toml")

        assert all(entry.type is None or entry.case or entry.operator or entry.variant for entry in entries)
        assert set() == red(entries, records)
        if other is None:
            assert None is ActiveFailures(entries, HERE).find(differs)

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(failed, id="an address"),
            pytest.param(lambda case: nan(case, "zero-sign"), id="another kind"),
            pytest.param(lambda case: nan(case, "nan-payload", "zero-sign"), id="another kind beside"),
            pytest.param(lambda case: failed(case, "no", Verdict.ERROR, Stage.RUN), id="an error"),
            pytest.param(lambda case: failed(case, "elsewhere", Verdict.FALLBACK, None), id="fallback"),
        ],
    )
    def test_another_fault_beside_a_kind(self, fault, tmp_path):
        """A case of the type that fails in any other way than by its kind is red."""
        records = [nan(case) if case in SPECIAL else passed(case) for case in CASES]
        entries = written(records, tmp_path / "known.toml")

        assert {case.id for case in FLOAT32} == red(entries, [fault(case) for case in FLOAT32])

    def test_another_error(self, tmp_path):
        """Errors are told apart by their HRESULT, or by the words around what changes from case to case."""
        texts = ("AbiCustomRegistry.cpp(519): 80070057 Invalid.", "Gather: the sizes [3, 4] cannot be used here")
        for number, text in enumerate(texts):
            path = "AbiCustomRegistry.cpp(519) 80070057" if "8007" in text else None
            records = [
                msgspec.structs.replace(failed(case, text, Verdict.ERROR, Stage.LOAD), error_at=path)
                if type_of(case) == "INT8"
                else passed(case)
                for case in CASES
            ]

            (entry,) = written(records, tmp_path / f"{number}.toml")

            cases = [case for case in CASES if type_of(case) == "INT8"]
            assert entry.message in ("80070057", "cannot be used here")
            for other in ("AbiCustomRegistry.cpp(519): 80004005 Unspecified.", "Gather: the indices are too large"):
                again = [failed(case, other, Verdict.ERROR, Stage.LOAD) for case in cases]
                assert {case.id for case in cases} == red([entry], again)

    def test_known_and_passed(self, tmp_path):
        """A case that another entry made known, or that passed unexpectedly, is in no pattern."""
        for verdict in (Verdict.KNOWN_FAILURE, Verdict.UNEXPECTED_PASS, Verdict.NOT_RUN, Verdict.SKIPPED):
            cases = [case for case in CASES if type_of(case) == "INT8"]
            records = [failed(case) if case in cases[1:] else passed(case) for case in CASES[:]]
            records = [failed(cases[0], "x", verdict, None) if r.case == cases[0].id else r for r in records]

            entries = written(records, tmp_path / f"{verdict}.toml")

            assert None is ActiveFailures(entries, HERE).find(cases[0])

    def test_few(self, tmp_path):
        """Two failures get an entry each, with their ids."""
        records = [failed(case) if case in CASES[20:22] else passed(case) for case in CASES]

        assert [case.id for case in CASES[20:22]] == [entry.case for entry in written(records, tmp_path / "k.toml")]

    def test_no_text(self, tmp_path):
        """Failures whose messages have no text that stays get an entry each."""
        cases = [case for case in CASES if type_of(case) == "INT8"]
        records = [failed(case, "12 34", Verdict.CRASH, None) if case in cases else passed(case) for case in CASES]

        entries = written(records, tmp_path / "known.toml")

        assert [case.id for case in cases] == [entry.case for entry in entries]

    def test_probes(self, tmp_path):
        """Probes get an entry each, and no pattern matches one."""
        items = [*CASES, *probes()]
        records = [failed(item) for item in CASES]
        records += [Record(case=probe.id, verdict=Verdict.MISMATCH, message="wrong") for probe in probes()]

        entries = written(records, tmp_path / "known.toml", items=items)

        assert [probe.id for probe in probes()] == [e.case for e in entries if (e.case or "").startswith("probe/")]
        assert set() == red(entries, records, items)

    @pytest.mark.parametrize(
        ("message", "text"),
        [
            ("expected error: planted, got mismatch: the output is wrong", None),
            ("unstable: 3 runs gave pass, mismatch, pass; some text", "unstable: "),
            ("the output must have sizes [5], got [1, 5]", "the output must have sizes"),
            ("'a' 12 [x]", None),
            ("a\ud800 lone surrogate stays out of it\x1b[0m", "lone surrogate stays out of"),
            (None, None),
        ],
    )
    def test_text(self, message, text):
        """The text of an entry is the longest part of the message that does not change from case to case."""
        assert text == stable_text(Record(verdict=Verdict.MISMATCH, message=message))


@pytest.mark.slow
def test_globs():
    """In `standard`, each glob over a part of the id matches exactly the cases that have this part."""
    cases = all_cases("standard")
    parts = {case.id: set(_globs(case)) for case in cases}
    globs = set().union(*parts.values())
    assert len(globs) > 50
    for glob in globs:
        assert {id for id in parts if fnmatchcase(id, glob)} == {id for id, own in parts.items() if glob in own}, glob
