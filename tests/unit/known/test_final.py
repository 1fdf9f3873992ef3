"""The final verdict: one function of records, known failures, a baseline and reruns."""

from __future__ import annotations

import msgspec
import pytest

from opmap.judge.record import OutputRecord, PlacementRecord, Record, TensorRecord
from opmap.known.final import Before, Evidence, Rerun, failure, final
from opmap.vocabulary import FINAL, Change, Stage, Verdict

ZERO, ONE, TWO = (TensorRecord("UINT8", [1], None, [bits]) for bits in ("00", "01", "02"))
AT = PlacementRecord(True, "test", [("Gather", "Mine")])
CPU = PlacementRecord(False, "test", [("Gather", "CPU")], elsewhere=["Gather on CPU"])
SAID = PlacementRecord(False, "asserted", [("Gather", "Mine")], asserted=True)


def record(verdict="pass", stage=None, **keys) -> Record:
    """Returns a record; that of a mismatch has a wrong output, unless another one is given."""
    outputs = {"mismatch": ONE, "pass": ZERO}.get(verdict)
    keys = {"actual": outputs, "outputs": outputs and {"OutputTensor": OutputRecord(ZERO, outputs)}} | keys
    stage = stage or ("compare" if verdict == "mismatch" else None)
    return Record(case="c", verdict=Verdict(verdict), stage=stage and Stage(stage), **keys)


def wrong(actual: TensorRecord) -> Record:
    return record("mismatch", actual=actual, outputs={"OutputTensor": OutputRecord(ZERO, actual)})


def error(place="a.cpp(12) 80070057", message="refused by a.cpp(12) 80070057", stage="run", verdict="error") -> Record:
    return record(verdict, stage, error_at=place, message=message)


def several(other: TensorRecord) -> Record:
    """Returns the record of two outputs, of which the first has no right shape."""
    outputs = {"OutputTensors[0]": OutputRecord(ZERO), "OutputTensors[1]": OutputRecord(ZERO, other)}
    return record("mismatch", actual=None, outputs=outputs, message="sizes [1], got [2]")


def before(record: Record, name="monday") -> Before:
    """Returns what a baseline has that holds this record."""
    done = final(Evidence([record])) if record.verdict not in FINAL else record
    return Before(name, done.verdict, done.failure, done.proven)


class TestFailure:
    """A failure in words that two runs of the same failure have in common."""

    @pytest.mark.parametrize(
        "one, other, same",
        [
            pytest.param(wrong(ONE), wrong(ONE), True, id="the same bits"),
            pytest.param(wrong(ONE), wrong(TWO), False, id="other bits"),
            pytest.param(
                wrong(ONE), msgspec.structs.replace(wrong(ONE), message="other words"), True, id="other words"
            ),
            pytest.param(
                record("mismatch", actual=None, outputs=None, message="sizes [1], got [2]"),
                record("mismatch", actual=None, outputs=None, message="sizes [1], got [3]"),
                False,
                id="another shape",
            ),
            pytest.param(error(), error("a.cpp(99) 80070057", "moved to a.cpp(99) 80070057"), True, id="another line"),
            pytest.param(error(), error("b.cpp(12) 80070057", "b.cpp(12) 80070057"), False, id="another file"),
            pytest.param(error(), error("a.cpp(12) 80004005", "a.cpp(12) 80004005"), False, id="another HRESULT"),
            pytest.param(error(), error(stage="load"), False, id="another stage"),
            pytest.param(error(), error(verdict="device-lost"), False, id="another verdict"),
            pytest.param(
                error(None, "lost at 0x7ffd00a1b2c3d4"), error(None, "lost at 0x12345678ff"), True, id="an address"
            ),
            pytest.param(error(None, "HRESULT 0x80070057"), error(None, "HRESULT 0x8007000E"), False, id="a code"),
            pytest.param(error(None, "failed ('A')"), error(None, "failed ('B')"), False, id="a name"),
            pytest.param(several(ONE), several(TWO), False, id="an output beside a missing one"),
            pytest.param(several(ONE), several(ONE), True, id="the same outputs"),
            pytest.param(
                error(None, "no kernel is there"), error(None, "the file is not readable"), False, id="other texts"
            ),
            pytest.param(
                record("path-unproven", message="no event"), record("path-unproven", message="two"), False, id="a path"
            ),
            pytest.param(record("fallback", message="no"), record("path-unproven", message="no"), False, id="a proof"),
        ],
    )
    def test_same(self, one, other, same):
        """The digest of a wrong output, the place of an error without its line, else the message."""
        assert failure(one) and same is (failure(one) == failure(other))

    @pytest.mark.parametrize("verdict", [v for v in Verdict if not v.failed or v in FINAL])
    def test_none(self, verdict):
        """What did not fail, and what needs other runs to fail, has none."""
        assert None is failure(record(verdict))

    def test_kept(self):
        """A known failure keeps its own, so that the run can be the next baseline."""
        again = final(Evidence([wrong(ONE)], before=before(wrong(ONE))))

        assert (Verdict.KNOWN_FAILURE, failure(wrong(ONE))) == (again.verdict, again.failure)
        assert Verdict.KNOWN_FAILURE is final(Evidence([wrong(ONE)], before=before(again))).verdict
        assert Verdict.MISMATCH is final(Evidence([wrong(TWO)], before=before(again))).verdict


class TestBaseline:
    """What the verdict of the baseline makes of a record, and what the change is called."""

    @pytest.mark.parametrize(
        "was, now, verdict, change",
        [
            (record(), record(), "pass", None),
            (record(), wrong(ONE), "mismatch", Change.NEW_FAILURE),
            (wrong(ONE), wrong(ONE), "known-failure", None),
            (wrong(ONE), wrong(TWO), "mismatch", Change.NEW_FAILURE),
            (wrong(ONE), error(), "error", Change.NEW_FAILURE),
            (wrong(ONE), record(), "pass", Change.FIXED),
            (error(), record("observed"), "observed", Change.FIXED),
            (error(), error("a.cpp(13) 80070057"), "known-failure", None),
            (record("known-failure"), record(), "pass", Change.FIXED),
            (record("known-failure"), wrong(ONE), "mismatch", Change.NEW_FAILURE),
            (record(), record("unsupported", "load"), "newly-unsupported", Change.NEWLY_UNSUPPORTED),
            (wrong(ONE), record("unsupported"), "newly-unsupported", Change.NEWLY_UNSUPPORTED),
            (record("known-failure"), record("unsupported"), "newly-unsupported", Change.NEWLY_UNSUPPORTED),
            (record("flaky"), record("unsupported"), "newly-unsupported", Change.NEWLY_UNSUPPORTED),
            (record("unsupported"), record("unsupported"), "unsupported", None),
            (record("newly-unsupported"), record("unsupported"), "unsupported", None),
            (record("not-run"), record("unsupported"), "unsupported", None),
            (record("skipped"), record("unsupported"), "unsupported", None),
            (record("newly-unsupported"), record(), "pass", Change.FIXED),
            (record("unsupported"), record(), "pass", None),
            (record("unsupported"), wrong(ONE), "mismatch", Change.NEW_FAILURE),
            (record(placement=AT), record("fallback", placement=CPU), "fallback", Change.NEWLY_FALLBACK),
            (record(placement=AT), record("fallback", message="nothing shows"), "fallback", Change.NEWLY_NOT_PROVEN),
            (record("fallback", placement=CPU), record("fallback", placement=CPU), "known-failure", None),
            (record(), record("path-unproven"), "path-unproven", Change.NEWLY_NOT_PROVEN),
            (record("path-unproven"), record("path-unproven"), "known-failure", None),
            (record(placement=AT), record(placement=SAID), "fallback", Change.NEWLY_NOT_PROVEN),
            (record(placement=SAID), record(placement=SAID), "pass", None),
            (record(), record("not-run"), "not-run", Change.NO_LONGER_RUN),
            (wrong(ONE), record("skipped"), "skipped", Change.NO_LONGER_RUN),
            (record("not-run"), record("not-run"), "not-run", None),
            (record("unsupported"), record("not-run"), "not-run", None),
            (record("crash", "run"), record("crash", "run"), "known-failure", None),
            (record("crash", "run"), record("timeout", "run"), "timeout", Change.NEW_FAILURE),
            (record("flaky"), wrong(ONE), "mismatch", Change.NEW_FAILURE),
            (record("flaky"), record(), "pass", None),
            (record("unexpected-pass"), record(), "pass", None),
            (record("fallback", placement=SAID), record(placement=SAID), "pass", None),
            (record("fallback", placement=CPU), record("fallback", message="no"), "fallback", Change.NEW_FAILURE),
            (record("flaky"), record("flaky"), "flaky", None),
            (record(), record("flaky"), "flaky", Change.NEWLY_FLAKY),
            (wrong(ONE), record("unexpected-pass"), "unexpected-pass", None),
        ],
    )
    def test_verdict(self, was, now, verdict, change):
        """Each pair of results gives this verdict and this change; the record keeps what the baseline has."""
        got = final(Evidence([now], before=before(was)))

        assert (verdict, change, was.verdict) == (got.verdict, got.change, got.before)
        assert (verdict == now.verdict) or "in the baseline monday" in got.message

    def test_cause(self):
        """The cause in the baseline is named, and does not decide."""
        had = before(wrong(ONE))._replace(cause="every element is one")

        assert "(every element is one)" in final(Evidence([wrong(ONE)], before=had)).message
        assert Verdict.MISMATCH is final(Evidence([wrong(TWO)], before=had)).verdict

    def test_not_there(self):
        """A failed case that the baseline does not have is a new failure; one that passes is no news."""
        assert [Change.NEW_FAILURE, None] == [final(Evidence([one])).change for one in (wrong(ONE), record())]


class TestReruns:
    """What a failed case is after it was run again."""

    @pytest.mark.parametrize(
        "alone, after, verdict, said",
        [
            ("mismatch", None, "mismatch", None),
            ("error", None, "mismatch", None),
            ("pass", "mismatch", "mismatch", "fails only after 7 earlier cases, and passes alone: wrong"),
            ("pass", "crash", "mismatch", "fails only after 7 earlier cases, and passes alone: wrong"),
            ("pass", "pass", "flaky", "mismatch at compare, and right when it was run again after the same 7 earlier"),
            ("observed", "pass", "flaky", "cases, and alone: wrong"),
            ("unsupported", "pass", "mismatch", None),
            ("skipped", "pass", "mismatch", None),
            ("pass", "unsupported", "mismatch", None),
            ("not-run", None, "mismatch", None),
            ("pass", "not-run", "mismatch", None),
        ],
    )
    def test_verdict(self, alone, after, verdict, said):
        """It is flaky only if it passed both times."""
        rerun = Rerun(Verdict(alone), after and Verdict(after), 7)
        failed = msgspec.structs.replace(wrong(ONE), message="wrong")

        got = final(Evidence([final(Evidence([failed]))], rerun=rerun))

        assert verdict == got.verdict
        assert got.message == "wrong" if said is None else said in got.message
        assert (got.stage is None) == (got.failure is None) == (verdict == "flaky")

    def test_repeated(self):
        """Repetitions with different results have no failure that another run could have."""
        got = final(Evidence([record(), wrong(ONE)]))

        assert (Verdict.FLAKY, None) == (got.verdict, got.failure)
        assert Verdict.MISMATCH is final(Evidence([wrong(ONE)], before=before(got))).verdict

    def test_first(self):
        """A case before which nothing ran was run alone twice."""
        got = final(Evidence([wrong(ONE)], rerun=Rerun(Verdict.PASS, Verdict.PASS, 0)))

        assert (Verdict.FLAKY, True) == (got.verdict, got.message.endswith("right when it was run again alone"))

    def test_excused(self):
        """What is known is not flaky, and a pass stays."""
        rerun = Rerun(Verdict.PASS, Verdict.PASS, 1)

        assert Verdict.KNOWN_FAILURE is final(Evidence([record("known-failure")], rerun=rerun)).verdict
        assert Verdict.PASS is final(Evidence([record()], rerun=rerun)).verdict


def test_batched():
    """A case that fails only in a session with others says so, with its own failure."""
    one = msgspec.structs.replace(wrong(ONE), batched_with=["x", "y"], message="wrong")

    got = final(Evidence([one]))

    assert "fails only when batched with 2 cases in its session: wrong" == got.message
    assert got == final(Evidence([got])), "it is said once"
    assert failure(wrong(ONE)) == got.failure
