"""The records of dispatch commands, and the JSON form of all records."""

import json
from dataclasses import replace

import dxdispatch_models
import msgspec
import pytest
from fixed_answers import CPU, RIGHT, Fixed, gather, judge

from opmap import SessionOptions, ValidationRun
from opmap.cases.catalogue import catalogue
from opmap.engines.providers import Provider
from opmap.engines.third_party import ThirdPartyProvider
from opmap.judge.judge import Judge
from opmap.judge.record import FACTS, Record, encode, shortened
from opmap.session.session import open_judge
from opmap.vocabulary import Verdict


def test_facts_of_the_provider():
    """A record has the facts about its provider of which it has a key, also when it is shortened."""
    facts = {"ep_version": "2.1.0", "library": "plugin_ep.dll", "library_sha256": "a1" * 32}
    opened = Provider("mine", "1", "emulated", ThirdPartyProvider(Fixed([RIGHT]), "mine"), adapter="GPU", **facts)
    record = shortened(Record.on(opened, "it", None, verdict=Verdict.PASS))

    assert {"device_class", *facts} == {*FACTS}
    assert {name: getattr(opened, name) for name in FACTS} == {name: getattr(record, name) for name in FACTS}


@pytest.mark.parametrize("variant", ["", "/another-shape"])
def test_digests_with_undocumented_elements(variant):
    """What a provider gives for elements without a documented value makes no right record contradict itself."""
    id = f"scatter_nd/float64/d7.r2.q5/uint64.identity/special.885f52{variant}"
    (case,) = catalogue("standard", [id])
    record = open_judge("cpu", brief=True)(case)
    assert Verdict.PASS == record.verdict
    assert record.actual.Digest == record.expected.Digest
    assert record.contradiction is None


def test_an_output_that_nobody_gave():
    """The record of a case that a provider does not support has no output, if records are brief; a whole one has
    what it must be.
    """
    case = replace(gather(), variant="eager")
    brief, whole = judge(RIGHT, case, brief=True), judge(RIGHT, case)
    assert Verdict.UNSUPPORTED == brief.verdict == whole.verdict
    assert (None, None) == (brief.expected, brief.outputs)
    assert whole.expected.Values is not None


class TestDispatch:
    """Dispatch commands that are read from a file."""

    def record(self, *path, to=None):
        """Returns the record of the page's first example, with the value at a path replaced."""
        dispatch = dxdispatch_models.one(
            dxdispatch_models.changed(*path, to=to) if path else dxdispatch_models.gather()
        )
        session = ValidationRun(SessionOptions(), brief=False)
        session._opened = Judge(Provider("mine", None, None, ThirdPartyProvider(Fixed([RIGHT]), "mine")))
        return session.judge_dispatch(dispatch, "it.json")

    def test_that_pass(self):
        """The record names the file and the dispatchable."""
        record = self.record()
        assert ("pass", "it.json", "gather", "DML_OPERATOR_GATHER") == (
            record.verdict,
            record.file,
            record.case,
            record.operator,
        )

    def test_that_break_a_rule(self):
        """The path names the member in the file."""
        record = self.record(*dxdispatch_models.DESC, "Axis", to=1)
        at = "$.dispatchables.gather.desc.Axis"
        assert ("error", "validate", at) == (record.verdict, record.stage, record.error_at)

    def test_that_cannot_be_read(self):
        """The record names the operator if it is known."""
        record = self.record("resources", "indices", "initialValues", to="deferred")
        assert ("error", "read", "$.resources.indices.initialValues") == (record.verdict, record.stage, record.error_at)
        assert "DML_OPERATOR_GATHER" == record.operator
        assert None is self.record("dispatchables", "gather", "type", to="GEMM").operator


class TestRecords:
    """The JSON form of records."""

    def test_every_key_is_always_there(self):
        """A key that has no value yet is null."""
        document = json.loads(encode([Record(verdict="not-run")]))
        assert "opmap-results/1" == document["schema"]
        (record,) = document["cases"]
        assert [
            *("file", "case", "operator", "variant", "verdict", "stage", "rule", "rules", "error_at", "message"),
            *("kinds", "judge", "fate"),
            *(
                "expected",
                "actual",
                "outputs",
                "provider",
                "placement",
                "path_proof",
                "device_class",
                "ep_version",
                "library",
                "library_sha256",
                "substitutions",
                "lowered_as",
            ),
            "descriptor",
            "batched_with",
            "failure",
            "before",
        ] == list(record)
        assert {"not-run", "plain", None} == set(record.values())

    def test_come_back_from_json(self):
        """A record that is written and read again is equal."""
        records = [
            Judge(CPU)(case)
            for case in (gather(), gather(indices=(9,)), gather(values=("NaN", "-Inf"), indices=(0, 1)))
        ]
        raw = msgspec.json.encode(records)
        assert records == msgspec.json.decode(raw, type=list[Record])
        assert ["NaN", "-Inf"] == records[2].expected.Values

    def test_verdicts_are_those_of_the_design(self):
        """There are 18 verdicts, and a record refuses any other word."""
        assert 18 == len(Verdict)
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(b'{"verdict": "fine"}', type=Record)
