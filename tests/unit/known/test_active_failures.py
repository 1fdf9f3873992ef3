"""Active failures: which entries of known failures apply in a place, and what they make of a verdict."""

from __future__ import annotations

import datetime
import json

import msgspec
import pytest
from known_entries import CASE, ENTRY, HERE, entry, given, toml, validate

from opmap.cases.probes import probes
from opmap.engines.machine.facts import Fact
from opmap.engines.performer import Performer
from opmap.engines.providers import Provider
from opmap.engines.sessions import CPU, SessionProvider
from opmap.engines.steps import Open, Result
from opmap.judge.judge import Judge
from opmap.judge.record import Record
from opmap.known.known_failures import EXCUSABLE, ActiveFailures, Environment, applies, locate
from opmap.session import open_judge
from opmap.vocabulary import Stage, Verdict

PROBE = next(probe for probe in probes() if probe.id == "probe/gather/bool")


class TestPlace:
    """An entry applies in a place if all its keys about the place match."""

    @pytest.mark.parametrize(
        "keys, expected",
        [
            ({}, True),
            ({"provider": "dml"}, True),
            ({"provider": "directml"}, False),
            ({"provider": "DmlExecutionProvider"}, True),
            ({"provider": "Dml*"}, True),
            ({"provider": "cpu"}, False),
            ({"adapter": "nvidia geforce rtx 4060"}, True),
            ({"adapter": "*4060*"}, True),
            ({"adapter": "4060"}, False),
            ({"adapter": "NVIDIA GeForce RTX 4060 Ti"}, False),
            ({"driver": ">=31.0.101.0, <31.0.101.5000"}, True),
            ({"driver": "<31.0.101.999"}, False),
            ({"driver": "31.0.101.4999"}, True),
            ({"driver": ">31.0.101.4999"}, False),
            ({"directml": "1.15.4"}, True),
            ({"directml": ">=1.15.10"}, False),
            ({"onnxruntime": "==1.24.*"}, True),
            ({"onnxruntime": "<1.24"}, False),
            ({"device_class": "emulated"}, False),
            ({"device_class": "translated"}, False),
            ({"package": "onnxruntime-windowsml"}, False),
            ({"feature_level": "5_1"}, True),
            ({"feature_level": ">=5_0, <6_0"}, True),
            ({"feature_level": "<5_1"}, False),
            ({"adapter": "*4060*", "device_class": "emulated"}, False),
        ],
    )
    def test_keys(self, keys, expected):
        """Names are matched by globs in any case, versions by ranges."""
        assert expected is applies(entry(**keys), HERE)

    @pytest.mark.parametrize(
        "keys, expected",
        [
            ({"ep_version": "2.1.0"}, True),
            ({"ep_version": ">=2.1, <3"}, True),
            ({"ep_version": ">2.1"}, False),
            ({"ep_version": "1.30"}, False),
            ({"library": "plugin_EP.dll"}, True),
            ({"library": "*_ep.*"}, True),
            ({"library": "plugin"}, False),
            ({"library_sha256": "a1" * 32}, True),
            ({"library_sha256": "a2" * 32}, False),
            ({"library": "Plugin_ep.dll", "library_sha256": "a2" * 32}, False),
            ({"library": "other.dll", "library_sha256": "a1" * 32}, False),
        ],
    )
    def test_library(self, keys, expected):
        """The own version of a plugin EP is in a range; its library has a name, in any case, and one digest."""
        place = Environment(
            **{"provider": "PluginEP", "onnxruntime": "1.30.0", "ep_version": "2.1.0"},
            **{"library": "Plugin_ep.dll", "library_sha256": "a1" * 32},
        )

        assert expected is applies(entry(provider="PluginEP", **keys), place)

    @pytest.mark.parametrize(
        "keys",
        [
            {"ep_version": ">=0"},
            {"library": "*"},
            {"library_sha256": "a1" * 32},
            {"adapter": "*"},
            {"driver": ">=0"},
            {"directml": ">=0"},
            {"onnxruntime": ">=0"},
            {"package": "onnxruntime-directml"},
            {"device_class": "hardware"},
            {"feature_level": ">=1_0"},
        ],
    )
    def test_unknown(self, keys):
        """A key never matches an unknown fact of the place."""
        assert not applies(entry(**keys), Environment(provider="DmlExecutionProvider"))

    def test_development_version(self):
        """A development version can be in a range; a text that is no version is in none."""
        for version, expected in (("1.25.0.dev20260101", True), ("unknown", False)):
            place = msgspec.structs.replace(HERE, onnxruntime=version)

            assert expected is applies(entry(onnxruntime=">=1.24"), place)


class TestLocate:
    """The provider gives the place; driver and DirectML only if an entry needs them, after a session ran."""

    @pytest.fixture
    def judge(self):
        """A judge on a fake DirectML EP, which notes the calls."""

        class Directml(Performer):
            def __init__(self):
                super().__init__()
                self.calls = []

            def perform(self, step, limit=None):
                self.calls += ["open"] if isinstance(step, Open) else []
                return Result(error="this adapter runs nothing", stage=Stage.LOAD)

        class Opened(Provider):
            def environment(self):
                self.runner.calls.append("environment")
                module = {"path": "C:\\ort\\DirectML.dll", "file_version": "1.15.4.0", "sha256": None, "error": None}
                driver = {"value": "31.0.101.4999", "source": "DXGI", "error": None}
                return {
                    "loaded_modules": Fact([module, module | {"path": "C:\\w\\D3D12Core.dll"}], "modules"),
                    "adapters": Fact([{"name": "Other"}, {"name": HERE.adapter, "driver_version": driver}], "DXGI"),
                }

        opened = Opened(
            "DmlExecutionProvider",
            "1.24.4",
            "hardware",
            Directml(),
            adapter=HERE.adapter,
            package="onnxruntime-directml",
        )
        return Judge(opened, feature_level="5_1")

    def test_asked(self, judge):
        """One case is run first, so that DirectML.dll is loaded."""
        assert HERE == locate(judge, [entry(driver=">=1")])
        assert ["open", "environment"] == judge.provider.runner.calls

    @pytest.mark.parametrize(
        "keys", [{}, {"provider": "cpu", "driver": ">=1"}, {"adapter": "*Arc*", "directml": ">=1"}]
    )
    def test_not_asked(self, judge, keys):
        """Nothing is run if no entry could apply because of it."""
        place = locate(judge, [entry(**keys)])

        assert [] == judge.provider.runner.calls
        assert (HERE.adapter, None, None) == (place.adapter, place.driver, place.directml)

    def test_cpu(self):
        """The CPU EP has a version and a device class, but no adapter and no driver."""
        place = locate(open_judge("cpu"), [entry(provider="cpu", driver=">=1")])

        assert ("CPUExecutionProvider", None, None) == (place.provider, place.adapter, place.driver)
        assert place.onnxruntime and place.feature_level and place.package
        assert None is place.ep_version is place.library is place.library_sha256

    def test_plugin(self):
        """The version and the library of a plugin EP are those of the provider."""
        facts = {"ep_version": "2.1.0", "library": "plugin_ep.dll", "library_sha256": "a1" * 32}
        place = locate(Judge(Provider("PluginEP", "1.30.0", "hardware", SessionProvider(CPU), **facts)), [])

        assert ("1.30.0", facts) == (place.onnxruntime, {name: getattr(place, name) for name in facts})


class TestVerdicts:
    """An expected failure must fail as the entry says."""

    def judged(self, verdict, stage=None, /, **keys) -> Record:
        stage = stage and Stage(stage)
        record = Record(case=CASE.id, verdict=Verdict(verdict), stage=stage, message="said")
        return given(ActiveFailures([entry(**keys)], HERE), CASE, record)

    @pytest.mark.parametrize("verdict", EXCUSABLE)
    def test_known(self, verdict):
        """Every failure can be known, also a crash, a timeout and a lost device."""
        record = self.judged(verdict, "run", verdict=verdict, stage="run", issue="https://example.com/1")

        assert ("known-failure", f"known {verdict} at run: planted (https://example.com/1): said") == (
            record.verdict,
            record.message,
        )

    def test_may_pass(self):
        """A case that may pass is no unexpected pass; its failure is known, and another failure is not."""
        judged = [self.judged(verdict, may_pass=True).verdict for verdict in ("pass", "mismatch", "crash")]

        assert ["pass", "known-failure", "crash"] == judged

    @pytest.mark.parametrize("text, expected", [("sai", "known-failure"), ("another", "mismatch")])
    def test_message(self, text, expected):
        """A record without the entry's text shows another fault, and stays red."""
        record = self.judged("mismatch", message=text)

        assert expected == record.verdict
        assert f"mismatch with '{text}': planted" in record.message

    @pytest.mark.parametrize(
        "accepted, kinds, expected",
        [
            (["nan-payload"], ["nan-payload"], "known-failure"),
            (["nan-payload"], ["nan-payload", "zero-sign"], "mismatch"),
            (["nan-payload"], None, "mismatch"),
            (None, ["nan-payload"], "known-failure"),
        ],
    )
    def test_kinds(self, accepted, kinds, expected):
        """An entry accepts its kinds of wrong values and no others; a wrong address is no such kind."""
        known = entry(case=None, type="FLOAT32", kinds=accepted and tuple(accepted), may_pass=True)
        record = Record(case=CASE.id, verdict=Verdict.MISMATCH, stage=Stage.COMPARE, message="said", kinds=kinds)

        assert expected == given(ActiveFailures([known], HERE), CASE, record).verdict

    @pytest.mark.parametrize("verdict", ["pass", "observed", "unsupported"])
    def test_unexpected_pass(self, verdict):
        """A good verdict of a case with an entry is an unexpected pass: the entry has to be removed."""
        assert "unexpected-pass" == self.judged(verdict).verdict

    @pytest.mark.parametrize(
        "verdict, stage, keys",
        [
            ("error", "load", {"verdict": "error", "stage": "run"}),
            ("error", "run", {"verdict": "mismatch"}),
            ("mismatch", None, {"verdict": "mismatch", "stage": "compare"}),
        ],
    )
    def test_wrong_verdict_or_stage(self, verdict, stage, keys):
        """Another failure than the known one stays red, and its message adds the expected one."""
        record = self.judged(verdict, stage, **keys)

        assert (verdict, stage, False) == (record.verdict, record.stage, record.good)
        assert record.message.startswith(f"expected {keys['verdict']}")

    def test_not_run(self):
        """A case that was not run stays not-run."""
        assert ("not-run", "said") == (self.judged("not-run").verdict, self.judged("not-run").message)

    @pytest.mark.parametrize(
        "item, keys, expected",
        [
            (CASE, {"case": "gather/*"}, True),
            (CASE, {"case": "GATHER/*"}, False),
            (CASE, {"case": None, "operator": "GATHER"}, True),
            (CASE, {"case": None, "operator": "DML_OPERATOR_GATHER"}, True),
            (CASE, {"case": None, "operator": "GATHER_ND"}, False),
            (CASE, {"case": None, "type": "FLOAT32"}, True),
            (CASE, {"case": None, "type": "FLOAT16"}, False),
            (CASE, {"case": "gather/*", "operator": "GATHER", "type": "INT8"}, False),
            (CASE, {"case": None, "operator": "ONNX Gather"}, False),
            (CASE, {"case": None, "variant": "plain"}, True),
            (CASE, {"case": None, "variant": "pl*"}, True),
            (CASE, {"variant": "eager"}, False),
            (PROBE, {"case": None, "variant": "*"}, False),
            (PROBE, {"case": "probe/*"}, True),
            (PROBE, {"case": None, "operator": "ONNX Gather"}, True),
            (PROBE, {"case": None, "operator": "GATHER"}, False),
            (PROBE, {"case": None, "type": "FLOAT32"}, False),
        ],
    )
    def test_which(self, item, keys, expected):
        """An entry matches the cases and probes that match all its keys."""
        assert expected is (ActiveFailures([entry(**keys)], HERE).find(item) is not None)

    def test_first(self):
        """The first of several entries counts, whether it is a glob or an id."""
        whole, one = entry(case="gather/*", verdict="crash"), entry()

        assert [0, 0] == [ActiveFailures(both, HERE).find(CASE) for both in ([whole, one], [one, whole])]


class TestDangerous:
    """A case that is known to hang, or to lose the device, is not run again without --rerun-dangerous."""

    @pytest.mark.parametrize(
        "keys, expected",
        [
            ({}, False),
            ({"verdict": "timeout"}, True),
            ({"verdict": "device-lost"}, True),
            ({"verdict": "crash"}, False),
            ({"verdict": "crash", "dangerous": True}, True),
            ({"verdict": "timeout", "dangerous": False}, False),
            ({"verdict": "timeout", "provider": "cpu"}, False),
        ],
    )
    def test_which(self, keys, expected):
        """Hangs and lost devices are dangerous, unless the entry says otherwise."""
        assert expected is (ActiveFailures([entry(**keys)], HERE).danger(CASE) is not None)

    @pytest.mark.parametrize("option, verdict", [((), "skipped"), (("--rerun-dangerous",), "pass")])
    def test_run(self, option, verdict, tmp_path, capsys):
        """The case is skipped with the reason, and the run is green, also if it must run on the provider."""
        known = {"verdict": "timeout", "provider": "cpu", "may_pass": True}
        file = toml(tmp_path / "known.toml", ENTRY | known)
        ids = ("--case", "gather/example.2", "--require-provider", "--json")

        code = validate("--provider", "cpu", "--known-failures", file, *ids, *option)

        records = {record["case"]: record for record in json.loads(capsys.readouterr().out)["cases"]}
        assert (0, verdict) == (code, records["gather/example.1"]["verdict"])
        assert "pass" == records["gather/example.2"]["verdict"]
        assert bool(option) != ("planted" in (records["gather/example.1"]["message"] or ""))

    @pytest.mark.parametrize("option", [(), ("--require-provider",)])
    def test_nothing_ran(self, option, tmp_path, capsys):
        """A run in which everything was skipped is red, and says why."""
        file = toml(tmp_path / "known.toml", ENTRY | {"verdict": "timeout", "provider": "cpu"})

        assert 1 == validate("--provider", "cpu", "--known-failures", file, *option)
        assert "nothing was tried: not tried without --rerun-dangerous: known timeout" in capsys.readouterr().out

    def test_refused(self, tmp_path, refusal):
        """An entry whose failure costs no more than its case is not dangerous: exit code 2, one line."""
        file = toml(tmp_path / "known.toml", ENTRY | {"verdict": "mismatch", "provider": "cpu", "dangerous": True})

        line = refusal("validate", "--provider", "cpu", "--known-failures", file)
        assert "$.known[0].dangerous: must stand beside a verdict that may cost more than the case" in line


class TestSettled:
    """Several runs of one case."""

    def settled(self, *verdicts, **keys):
        records = [Record(case=CASE.id, verdict=Verdict(verdict)) for verdict in verdicts]
        return given(ActiveFailures([entry(**keys)], HERE), CASE, *records).verdict

    @pytest.mark.parametrize(
        "verdicts, may_pass, expected",
        [
            (("mismatch", "mismatch"), False, "known-failure"),
            (("pass", "mismatch"), True, "known-failure"),
            (("pass", "pass"), True, "pass"),
            (("pass", "mismatch", "crash"), True, "crash"),
        ],
    )
    def test_may_pass(self, verdicts, may_pass, expected):
        """A case that may pass is not flaky; its first failure counts, before that one that is not known."""
        assert expected == self.settled(*verdicts, may_pass=may_pass)

    def test_flaky(self):
        """Different results of another case do not become a known failure."""
        assert "flaky" == self.settled("pass", "mismatch")


class TestProblems:
    """Entries that have expired or match nothing are named, each in one line."""

    def problems(self, *entries, items=(CASE, PROBE), place=HERE, tier="smoke", today=datetime.date(2026, 6, 1)):
        return ActiveFailures(entries, place, file="known.toml", today=today).problems(items, tier)

    def test_none(self):
        """An entry that matches a case or a probe is no problem."""
        assert [] == self.problems(entry(), entry(case="probe/*"))

    def test_expired(self):
        """An entry is valid on its last day. From the next day on it is red, in every place."""
        days = [datetime.date(2026, 6, 1), datetime.date(2026, 5, 31)]

        lines = self.problems(entry(until=days[0]), entry(case="probe/*", provider="cpu", until=days[1]))

        assert ["known.toml: $.known[1]: 'probe/*' expired on 2026-05-31: planted"] == lines

    def test_unmatched(self):
        """An entry that matches nothing is named with its place in the file."""
        (line,) = self.problems(entry(), entry(case="gather/gone", type="INT8"))

        assert line.startswith("known.toml: $.known[1]: 'gather/gone' INT8 matches no case of tier smoke")

    def test_hidden(self):
        """An entry is named if an earlier entry matches all its cases."""
        assert "$.known[1]" in self.problems(entry(case="*"), entry())[0]

    def test_tier(self):
        """An entry of a larger tier need not match in a smaller tier."""
        known = entry(case="gather/gone", tier="standard")

        assert [0, 1, 1] == [len(self.problems(known, tier=tier)) for tier in ("smoke", "standard", "full")]
