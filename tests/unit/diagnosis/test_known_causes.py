"""Known failures with a cause: an entry for one fault does not hide another fault in the same case."""

from __future__ import annotations

import hashlib
import json

import msgspec
import pytest
from known_entries import given
from tiers import all_cases

from opmap.cases.probes import probes
from opmap.cli import main
from opmap.diagnosis.failures import failure_of
from opmap.diagnosis.known_causes import KINDS, MOST_NAMED, KnownCauses, check_causes
from opmap.errors import InputError
from opmap.faults import FAULTS, FaultProvider
from opmap.judge.decide import MAX_LISTED
from opmap.judge.record import Record
from opmap.known.known_failures import SCHEMA, ActiveFailures, Environment, KnownFailure, load
from opmap.session import open_judge
from opmap.vocabulary import Verdict

CASES = [case for case in all_cases("smoke") if case.variant in ("plain", "init")]
HALF, FEW = CASES[::2], CASES[::11]
BY_ID = {case.id: case for case in CASES}
LARGE = next(case for case in all_cases("smoke") if case.desc.output.element_count > MAX_LISTED)
CASE = next(case for case in all_cases("smoke") if case.id == "gather/example.1")
PLACE = Environment(provider="Mine")
CAUSES = KnownCauses()


def judged(name: str, cases=CASES) -> dict[str, Record]:
    """Returns the records of a fault by the ids of the cases."""
    judge = open_judge(f"fault:{name}")
    return {case.id: judge(case) for case in cases}


def toml(path, **keys) -> str:
    """Writes a file with one entry; returns its path."""
    values = {"case": CASE.id, "provider": "fault:*", "verdict": "mismatch", "reason": "planted"} | keys
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]
    path.write_text("\n".join([f'schema = "{SCHEMA}"', "[[known]]", *lines]) + "\n", encoding="utf-8")
    return str(path)


def applied(record: Record, case=CASE, **keys) -> Record:
    """Returns the record after one entry with these keys was taken into account."""
    entry = KnownFailure(case=case.id, provider="*", verdict="mismatch", reason="planted", **keys)
    return given(ActiveFailures([entry], PLACE, other_cause=KnownCauses().other_cause), case, record)


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
            assert given(ActiveFailures([entry], PLACE, **options), case, record).failed


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
