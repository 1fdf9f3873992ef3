"""Known failures with a cause: an entry for one fault does not hide another fault in the same case."""

from __future__ import annotations

import hashlib
import json

import msgspec
import numpy as np
import pytest
from tiers import all_cases

from opmap.cases.probes import probes
from opmap.cli import main
from opmap.diagnosis.failures import failure_of
from opmap.diagnosis.known_causes import KINDS, MOST_NAMED, KnownCauses, WrittenCauses, check_causes
from opmap.engines.providers import Provider
from opmap.errors import InputError
from opmap.faults import FAULTS, Fault, FaultProvider
from opmap.judge.decide import MAX_LISTED
from opmap.judge.judge import Judge
from opmap.judge.record import Record
from opmap.known.known_failures import SCHEMA, ActiveFailures, Environment, KnownFailure, load
from opmap.known.written_failures import write
from opmap.operators import OPERATORS
from opmap.session import open_judge
from opmap.vocabulary import Stage, Verdict

CASES = [case for case in all_cases("smoke") if case.variant in ("plain", "init")]
HALF, FEW = CASES[::2], CASES[::11]
BY_ID = {case.id: case for case in CASES}
LARGE = next(case for case in all_cases("smoke") if case.desc.output.element_count > MAX_LISTED)
CASE = next(case for case in all_cases("smoke") if case.id == "gather/example.1")
PLACE = Environment(provider="Mine")
CAUSES = KnownCauses()


def rotated(bits, arrays):
    return np.roll(bits, 3)


def lost(rest):
    """Returns a fault that loses every other element."""
    return lambda bits, arrays: np.where(np.arange(len(bits)) % 2 == rest, 0 * bits, bits)


def first_moved(bits, arrays):
    bits[0] = bits[-1]
    return bits


OWN = {
    "rotated": Fault(text="", output=rotated),
    "rotated back": Fault(text="", output=lambda bits, arrays: np.roll(bits, -3)),
    "even lost": Fault(text="", output=lost(0)),
    "odd lost": Fault(text="", output=lost(1)),
    "first moved": Fault(text="", output=first_moved),
}
"""Faults that opmap does not know. Two neighbours have the same relation, but for its number."""

NAMES = (
    *("index-clamped-early", "index-off-by-one", "axis-first", "batch-ignored", "nan-as-zero", "output-zero"),
    *("last-element-lost", "output-uninitialised", "result-flat", "result-none", "run-previous-output"),
    *OWN,
)


def judged(name: str, cases=CASES) -> dict[str, Record]:
    """Returns the records of a fault by the ids of the cases."""
    judge = (
        Judge(Provider("Mine", None, None, FaultProvider(OWN[name]))) if name in OWN else open_judge(f"fault:{name}")
    )
    return {case.id: judge(case) for case in cases}


def written(records, path, *causes, cases=CASES):
    """Writes the failures of a run, fills in the reasons, and returns the entries as they are read."""
    write(path, records.values(), PLACE, "smoke", cases, *causes)
    path.write_text(path.read_text(encoding="utf-8").replace("TODO: why", "planted"), encoding="utf-8")
    return load(path)


def excused(entries, records, cases=CASES) -> set[str]:
    """Returns the ids of the failed cases that are known failures with these entries."""
    known = ActiveFailures(entries, PLACE, other_cause=CAUSES.other_cause)
    return {c.id for c in cases if records[c.id].failed and not known.apply(c, records[c.id]).failed}


def output(record: Record) -> object:
    return record.actual.Bits or record.actual.Digest if record.actual else record.message


def same_outputs(one, other) -> set[str]:
    return {id for id, record in one.items() if output(record) == output(other[id])}


def toml(path, **keys) -> str:
    """Writes a file with one entry; returns its path."""
    values = {"case": CASE.id, "provider": "fault:*", "verdict": "mismatch", "reason": "planted"} | keys
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]
    path.write_text("\n".join([f'schema = "{SCHEMA}"', "[[known]]", *lines]) + "\n", encoding="utf-8")
    return str(path)


def applied(record: Record, case=CASE, **keys) -> Record:
    """Returns the record after one entry with these keys was taken into account."""
    entry = KnownFailure(case=case.id, provider="*", verdict="mismatch", reason="planted", **keys)
    return ActiveFailures([entry], PLACE, other_cause=KnownCauses().other_cause).apply(case, record)


@pytest.fixture(scope="module")
def runs():
    return {name: judged(name, FEW) for name in NAMES}


def test_own_faults():
    """A pair of own faults has the same relation and other outputs, in some cases."""
    pairs = [(case, *(judged(name, [case])[case.id] for name in ("even lost", "odd lost"))) for case in FEW]
    differing = [p for p in pairs if p[1].failed and p[2].failed and output(p[1]) != output(p[2])]
    assert any(set.intersection(*(set(failure_of(case, r).labels) for r in both)) for case, *both in differing)


class TestOtherFault:
    """Entries that were written for one fault, in a run with another."""

    @pytest.mark.slow
    def test_is_not_hidden(self, runs, tmp_path):
        """The same fault again is excused in each case. Another one is excused only where it gives the same output."""
        differing = 0
        for number, (name, records) in enumerate(runs.items()):
            entries = written(records, tmp_path / f"{name}.toml", WrittenCauses(BY_ID), cases=FEW)
            assert {id for id, record in records.items() if record.failed} == excused(entries, records, FEW), name
            for other in (NAMES[number - 1], NAMES[number - 4]):
                others = runs[other]
                same = same_outputs(records, others)
                differing += sum(others[id].failed and records[id].failed for id in records.keys() - same)
                assert excused(entries, others, FEW) <= same, (name, other)
        assert differing > 300


class TestWriting:
    """The keys that are written, and for how many cases at once."""

    def entries(self, name, path, cases=HALF):
        return written(judged(name, cases), path, WrittenCauses({case.id: case for case in cases}), cases=cases)

    def test_one_fault(self, tmp_path):
        """A fault that all cases show is one entry's cause; there are few entries, about one for each operator."""
        entries = self.entries("output-zero", tmp_path / "known.toml")

        filled = [entry for entry in entries if (entry.case or "").startswith("fill_value_")]
        assert {"output-zero"} == {entry.fault for entry in entries if entry not in filled}
        assert len(filled) < 16, "some of its cases are zeros anyway, so each of the others is named by its id"
        assert len(entries) - len(filled) < 2 * len(OPERATORS)

    @pytest.mark.slow
    def test_one_relation(self, tmp_path):
        """A relation that fixes the whole output is the cause of many cases; every other entry is of one case."""
        entries = self.entries("rotated", tmp_path / "known.toml")

        assert any(entry.relation == "shift: the output is rotated by 3" for entry in entries)
        assert all(entry.relation or entry.fault or entry.digest for entry in entries)

    def test_no_relation(self, tmp_path):
        """Where no fault model fits, the digest of the wrong bits is the cause of one case."""
        case = next(case for case in CASES if case.id.startswith("gather/") and case.desc.output.element_count > 20)
        records = judged("first moved", [case])

        (entry,) = written(records, tmp_path / "known.toml", WrittenCauses(BY_ID), cases=[case])

        assert (case.id, records[case.id].actual.digest) == (entry.case, entry.digest)

    def test_two_faults(self, tmp_path):
        """Failures of two causes that fail in one way get different entries."""
        one, other = judged("output-zero", FEW), judged("index-reversed", FEW)
        mixed = {id: (one if number % 2 else other)[id] for number, id in enumerate(one)}
        entries = written(mixed, tmp_path / "known.toml", WrittenCauses(BY_ID), cases=FEW)

        assert {id for id, record in mixed.items() if record.failed} == excused(entries, mixed, FEW)
        for alone in (one, other):
            assert excused(entries, alone, FEW) <= same_outputs(mixed, alone)

    def test_large(self, tmp_path):
        """An output that a record does not list is compared by its digest."""
        (entry,) = self.entries("last-element-lost", tmp_path / "known.toml", [LARGE])
        assert "last-element-lost" == entry.fault

        assert excused([entry], judged("last-element-lost", [LARGE]), [LARGE])
        assert not excused([entry], judged("first-element-lost", [LARGE]), [LARGE])

    @pytest.mark.parametrize(
        "record",
        [
            pytest.param({"verdict": Verdict.ERROR, "stage": Stage.RUN, "message": "no"}, id="an error"),
            pytest.param({"stage": None, "message": "unstable: 2 runs gave pass, mismatch"}, id="an unstable output"),
            pytest.param({"case": next(iter(probes())).id}, id="a probe"),
        ],
    )
    def test_none(self, record):
        """An output that changes, a probe, and another verdict have no cause."""
        records = [msgspec.structs.replace(judged("output-zero", [CASE])[CASE.id], **record)]

        assert {} == WrittenCauses({CASE.id: CASE})(records)


class TestReading:
    """What an entry with a cause makes of a record."""

    @pytest.mark.parametrize(
        ("name", "keys", "same"),
        [
            ("index-off-by-one", {"fault": "index-off-by-one"}, True),
            ("index-off-by-one", {"fault": "index-clamped-early"}, False),
            ("output-zero", {"fault": "none"}, False),
            ("output-zero", {"relation": "zero"}, True),
            ("output-zero", {"relation": "zero: every element is zero"}, True),
            ("output-zero", {"relation": "zero: every element"}, False),
            ("output-zero", {"relation": "zero", "fault": "axis-first"}, False),
            ("output-zero", {"relation": "shift"}, False),
            ("result-short", {"fault": "result-short"}, True),
            ("result-short", {"fault": "result-flat"}, False),
            ("result-short", {"relation": "shape"}, True),
            ("result-other-type", {"relation": "type"}, True),
            ("result-other-type", {"relation": "shape"}, False),
            ("result-none", {"digest": "0" * 64}, False),
        ],
    )
    def test_cause(self, name, keys, same):
        record = applied(judged(name, [CASE])[CASE.id], **keys)

        assert ("known-failure" if same else "mismatch") == record.verdict

    def test_digest(self):
        """The digest is the SHA-256 of the output's bytes."""
        (array,) = FaultProvider(FAULTS["output-reversed"]).run_case(CASE)
        record = judged("output-reversed", [CASE])[CASE.id]

        assert "known-failure" == applied(record, digest=hashlib.sha256(array.tobytes()).hexdigest()).verdict
        other = applied(record, digest="ab" * 32)
        assert "(known: digest abababababab, got: digest " in other.message
        assert Verdict.MISMATCH == other.verdict

    def test_message(self):
        """One line says what was known and what was got."""
        record = applied(judged("index-off-by-one", [CASE])[CASE.id], fault="output-zero")

        begin = "expected mismatch for another cause (known: fault output-zero, got: fault index-off-by-one): planted: 5 of 5"
        assert record.message.startswith(begin)
        assert "\n" not in record.message

    def test_many(self, monkeypatch):
        """The relations of many other outputs are not looked for: their digest is what was got."""
        causes, record = KnownCauses(), judged("output-zero", [CASE])[CASE.id]
        found = failure_of(CASE, record)
        monkeypatch.setattr("opmap.diagnosis.known_causes.failure_of", lambda *arguments: found)
        entry = KnownFailure(case=CASE.id, provider="*", verdict="mismatch", reason="x", fault="index-clamped")
        for _ in range(MOST_NAMED):
            assert "fault output-zero" == causes.other_cause(entry, CASE, record)

        assert f"digest {record.actual.digest[:12]}" == causes.other_cause(entry, CASE, record)
        relation = msgspec.structs.replace(entry, fault=None, relation="zero")
        assert None is causes.other_cause(relation, CASE, record)

    def test_not_compared(self):
        """An entry with a cause accepts nothing if the cause cannot be found out, as that of a probe."""
        probe = next(iter(probes()))
        for case, record, options in (
            (CASE, judged("output-zero", [CASE])[CASE.id], {}),
            (probe, Record(case=probe.id, verdict=Verdict.MISMATCH), {"other_cause": KnownCauses().other_cause}),
        ):
            entry = KnownFailure(case=case.id, provider="*", verdict="mismatch", reason="x", fault="output-zero")
            assert ActiveFailures([entry], PLACE, **options).apply(case, record).failed


class TestCommandLine:
    """`opmap validate` with causes in the file of known failures."""

    @pytest.mark.parametrize(
        ("keys", "said"),
        [
            ({"fault": "index-of-by-one"}, "got 'index-of-by-one', did you mean index-off-by-one"),
            ({"fault": ""}, "fault: must hold a text, or be left out"),
            ({"relation": "shfit"}, "alone or as 'KIND: TEXT', got 'shfit', did you mean shift"),
            ({"relation": "shift:"}, "got 'shift:', did you mean shift"),
            ({"relation": "shift: "}, "alone or as 'KIND: TEXT', got 'shift: '"),
            ({"relation": "fault: output-zero"}, "a fault model is named by the key fault"),
            ({"relation": "none"}, f"relation: must be one of {', '.join(KINDS)}"),
            ({"relation": "x" * 10_001}, "relation: must be at most 10000 characters, got 10001"),
            ({"digest": "ABC"}, "digest: must be a SHA-256 in 64 lowercase hexadecimal digits, got 'ABC'"),
            (
                {"digest": "0" * 64, "case": "gather/*"},
                "digest: must stand beside the id of one case, got the glob 'gather/*'",
            ),
            (
                {"digest": "0" * 64, "case": None, "type": "INT8"},
                "digest: must stand beside the id of one case, got no case",
            ),
            (
                {"fault": "output-zero", "verdict": "error"},
                "must stand beside the verdict mismatch at stage compare, got error",
            ),
            ({"relation": "zero", "stage": "run"}, "at stage compare, got mismatch at stage run"),
        ],
    )
    def test_bad_entry(self, keys, said, tmp_path):
        """A cause that cannot be used is refused with its place."""
        file = toml(tmp_path / "known.toml", **keys)

        with pytest.raises(InputError) as error:
            check_causes(load(file), file)

        assert said in str(error.value)
        assert f"known.toml: $.known[0].{next(iter(keys))}: " in str(error.value)

    def test_one_line(self, tmp_path, refusal):
        """The command refuses a cause that does not exist in one line."""
        file = toml(tmp_path / "known.toml", fault="index-of-by-one")

        error = refusal("validate", "--provider", "fault:output-zero", "--known-failures", file)
        assert "known.toml: $.known[0].fault: " in error

    @pytest.mark.slow
    def test_write_and_use(self, tmp_path, run_opmap, capsys):
        """A written file excuses the same fault, and not another one."""
        file = tmp_path / "known.toml"
        chosen = ["--filter", "gather_nd/float32/*addr*", "--filter", "gather_nd/example*"]

        assert 1 == main(
            ["validate", "--provider", "fault:index-reversed", *chosen, "--write-known-failures", str(file)]
        )
        text = file.read_text(encoding="utf-8")
        assert 'fault = "index-reversed"' in text
        text = text.replace("TODO: why", "planted").replace('"fault:index-reversed"', '"*"')
        file.write_text(text, encoding="utf-8")

        again = [*chosen, "--known-failures", str(file)]
        run_opmap(0, "validate", "--provider", "fault:index-reversed", *again)
        assert 1 == main(["validate", "--provider", "fault:output-zero", *again])
        assert "(known: fault index-reversed, got: fault output-zero)" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("provider", "keys", "code"),
        [
            ("run-previous-output", {"relation": "stale"}, 0),
            ("run-previous-output", {"fault": "run-previous-output"}, 0),
            ("run-previous-output", {"fault": "kept-output"}, 1),
            ("output-zero", {"relation": "stale"}, 1),
        ],
    )
    def test_earlier_calls(self, provider, keys, code, tmp_path):
        """A cause that depends on earlier calls is compared with their outputs."""
        cases = [c.id for c in CASES if c.desc.output.element_count > 20 and c.desc.output.data_type.name == "FLOAT32"][
            :2
        ]
        file = toml(tmp_path / "known.toml", case=cases[1], **keys)
        chosen = [word for id in cases[provider == "output-zero" :] for word in ("--case", id)]

        assert code == main(["validate", "--provider", f"fault:{provider}", *chosen, "--known-failures", file])
