"""Known failures: the file, which entries apply in a place, and what makes a run red."""

from __future__ import annotations

import datetime
import json
import tomllib

import msgspec
import pytest

from opmap.cases.catalogue import catalogue
from opmap.cases.probes import probes
from opmap.cli import main
from opmap.errors import InputError
from opmap.execution.performer import Performer
from opmap.execution.providers import OpenProvider
from opmap.execution.steps import Open, Result
from opmap.machine.facts import Fact
from opmap.session import open_judge
from opmap.verdicts import known_failures
from opmap.verdicts.active_failures import ActiveFailures, Place, applies, locate
from opmap.verdicts.judge import Judge
from opmap.verdicts.known_failures import EXCUSABLE, SCHEMA, KnownFailure, load, write
from opmap.verdicts.record import Record
from opmap.vocabulary import Stage, Verdict

CASES = {case.id: case for case in catalogue("smoke")}
CASE = CASES["gather/example.1"]
PROBE = next(probe for probe in probes() if probe.id.endswith("/bool"))
HERE = Place(
    provider="DmlExecutionProvider",
    package="onnxruntime-directml",
    adapter="NVIDIA GeForce RTX 4060",
    driver="31.0.101.4999",
    directml="1.15.4.0",
    onnxruntime="1.24.4",
    device_class="hardware",
    feature_level="5_1",
)
ENTRY = {"case": "gather/example.1", "provider": "fault:output-zero", "verdict": "mismatch", "reason": "planted"}


def entry(**keys) -> KnownFailure:
    """Returns an entry with these keys instead of the usual ones; None removes a key."""
    values = ENTRY | {"provider": "dml"} | keys
    return KnownFailure(**{key: value for key, value in values.items() if value is not None})


def toml(path, *entries: dict, head: str = f'schema = "{SCHEMA}"\ncase_ids = 1') -> str:
    """Writes a file with these entries; returns its path."""
    lines = [head]
    for keys in entries:
        lines += ["[[known]]", *(f"{k} = {v if k == 'until' else json.dumps(v)}" for k, v in keys.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def validate(*arguments: str) -> int:
    """Runs `opmap validate` on one case; returns its exit code."""
    return main(["validate", "--case", "gather/example.1", *arguments])


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
            ({"driver": "==31.0.*"}, True),
            ({"driver": ">31.0.101.4999"}, False),
            ({"directml": "<1.15.5"}, True),
            ({"directml": "1.15.4"}, True),
            ({"directml": ">=1.15.10"}, False),
            ({"onnxruntime": "==1.24.*"}, True),
            ({"onnxruntime": "<1.24"}, False),
            ({"device_class": "hardware"}, True),
            ({"device_class": "emulated"}, False),
            ({"package": "onnxruntime-directml"}, True),
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
        "keys",
        [
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
        assert not applies(entry(**keys), Place(provider="DmlExecutionProvider"))

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

        class Opened(OpenProvider):
            def environment(self):
                self.provider.calls.append("environment")
                module = {"path": "C:\\ort\\DirectML.dll", "file_version": "1.15.4.0", "sha256": None, "error": None}
                driver = {"value": "31.0.101.4999", "source": "DXGI", "error": None}
                return {
                    "loaded_modules": Fact([module, module | {"path": "C:\\w\\D3D12Core.dll"}], "modules"),
                    "adapters": Fact([{"name": "Other"}, {"name": HERE.adapter, "driver_version": driver}], "DXGI"),
                }

        opened = Opened(
            "DmlExecutionProvider", "1.24.4", "hardware", Directml(), HERE.adapter, package="onnxruntime-directml"
        )
        return Judge(opened, feature_level="5_1")

    def test_asked(self, judge):
        """One case is run first, so that DirectML.dll is loaded."""
        assert HERE == locate(judge, [entry(driver=">=1")])
        assert ["open", "environment"] == judge.provider.provider.calls

    @pytest.mark.parametrize(
        "keys", [{}, {"provider": "cpu", "driver": ">=1"}, {"adapter": "*Arc*", "directml": ">=1"}]
    )
    def test_not_asked(self, judge, keys):
        """Nothing is run if no entry could apply because of it."""
        place = locate(judge, [entry(**keys)])

        assert [] == judge.provider.provider.calls
        assert (HERE.adapter, None, None) == (place.adapter, place.driver, place.directml)

    def test_cpu(self):
        """The CPU EP has a version and a device class, but no adapter and no driver."""
        place = locate(open_judge("cpu"), [entry(provider="cpu", driver=">=1")])

        assert ("CPUExecutionProvider", None, None) == (place.provider, place.adapter, place.driver)
        assert place.onnxruntime and place.feature_level and place.package


class TestVerdicts:
    """An expected failure must fail as the entry says."""

    def judged(self, verdict, stage=None, /, **keys) -> Record:
        stage = stage and Stage(stage)
        record = Record(case=CASE.id, verdict=Verdict(verdict), stage=stage, message="said")
        return ActiveFailures([entry(**keys)], HERE).apply(CASE, record)

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
        "kinds, expected",
        [
            (["nan-payload"], "known-failure"),
            (["nan-payload", "zero-sign"], "mismatch"),
            (["zero-sign"], "mismatch"),
            (None, "mismatch"),
        ],
    )
    def test_kinds(self, kinds, expected):
        """An entry of a whole type accepts its kinds of wrong values and no others; a wrong address is no such kind."""
        accepts = entry(case=None, type="FLOAT32", kinds=("nan-payload",), may_pass=True)
        record = Record(case=CASE.id, verdict=Verdict.MISMATCH, stage=Stage.COMPARE, message="said", kinds=kinds)

        judged = ActiveFailures([accepts], HERE).apply(CASE, record)

        assert expected == judged.verdict
        assert "mismatch of NaN payload: planted" in judged.message

    def test_every_kind(self):
        """An entry for a mismatch that names no kind accepts each."""
        record = Record(case=CASE.id, verdict=Verdict.MISMATCH, stage=Stage.COMPARE, kinds=["nan-payload"])

        assert "known-failure" == ActiveFailures([entry()], HERE).apply(CASE, record).verdict

    @pytest.mark.parametrize("verdict", ["pass", "observed", "unsupported"])
    def test_unexpected_pass(self, verdict):
        """A good verdict of a case with an entry is an unexpected pass: the entry has to be removed."""
        assert "unexpected-pass" == self.judged(verdict).verdict

    @pytest.mark.parametrize(
        "verdict, stage, keys",
        [
            ("error", "load", {"verdict": "error", "stage": "run"}),
            ("error", "run", {"verdict": "mismatch"}),
            ("mismatch", "compare", {"verdict": "error"}),
            ("mismatch", None, {"verdict": "mismatch", "stage": "compare"}),
            ("timeout", "run", {"verdict": "crash"}),
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

    @pytest.mark.parametrize("keys", [{"provider": "cpu"}, {"adapter": "*Arc*"}, {"until": datetime.date(2020, 1, 1)}])
    def test_not_here(self, keys):
        """An entry for another place, or an expired one, excuses nothing."""
        assert "mismatch" == self.judged("mismatch", **keys).verdict

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

    def test_nothing_ran(self, tmp_path):
        """A run that has to run on the provider, and ran nothing, is red."""
        file = toml(tmp_path / "known.toml", ENTRY | {"verdict": "timeout", "provider": "cpu"})

        assert 1 == validate("--provider", "cpu", "--known-failures", file, "--require-provider")


class TestSettled:
    """Several runs of one case."""

    def settled(self, *verdicts, **keys):
        records = [Record(case=CASE.id, verdict=Verdict(verdict)) for verdict in verdicts]
        return ActiveFailures([entry(**keys)], HERE).settle(CASE, records).verdict

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
        """A case that may pass is not unstable; its first failure counts, before that one that is not known."""
        assert expected == self.settled(*verdicts, may_pass=may_pass)

    def test_unstable(self):
        """Different results of another case do not become a known failure of a stage."""
        assert "mismatch" == self.settled("pass", "mismatch", stage="compare")


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

    def test_elsewhere(self):
        """An entry for another place is no problem."""
        assert [] == self.problems(
            entry(case="gather/gone", adapter="*Arc*"), entry(case="gather/gone", provider="cpu")
        )

    def test_tier(self):
        """An entry of a larger tier need not match in a smaller tier."""
        known = entry(case="gather/gone", tier="standard")

        assert [0, 1, 1] == [len(self.problems(known, tier=tier)) for tier in ("smoke", "standard", "full")]


class TestFile:
    """An error in the file gives one line with the file, the place in it, and the problem."""

    def test_whole(self, tmp_path):
        """The example in the module's docstring has every key but the digest of one case, and can be loaded."""
        text = "\n".join(line.strip() for line in known_failures.__doc__.splitlines() if line.startswith("    "))
        file = tmp_path / "known.toml"
        file.write_text(text, encoding="utf-8")

        (known,) = load(file)

        assert ["digest"] == [key for key, value in msgspec.structs.asdict(known).items() if value is None]
        assert datetime.date(2027, 1, 1) == known.until

    @pytest.mark.parametrize(
        "keys, path, said",
        [
            ({"verdict": "pass"}, "verdict", "must be one of mismatch, error,"),
            ({"verdict": "observed"}, "verdict", "got 'observed'"),
            ({"verdict": "not-run"}, "verdict", "got 'not-run'"),
            ({"stage": "start"}, "stage", "must be one of read, validate,"),
            ({"reason": " "}, "reason", "must say why"),
            (
                {"reason": "TODO: why"},
                "reason",
                "must say why in place of 'TODO: why': that is for a person to fill in",
            ),
            ({"reason": " todo later"}, "reason", "for a person"),
            ({"issue": "#12"}, "issue", "must be an address"),
            ({"driver": "new"}, "driver", "must be a version or a range of versions"),
            ({"driver": ">=1, <"}, "driver", "got '>=1, <'"),
            ({"directml": ""}, "directml", "range of versions"),
            ({"feature_level": "five"}, "feature_level", "got 'five'"),
            ({"device_class": "virtual"}, "device_class", "must be one of hardware, emulated"),
            ({"operator": "GAHTER"}, "operator", "GATHER_ND1"),
            ({"type": "float"}, "type", "FLOAT32"),
            ({"package": "onnxrt"}, "package", "must be a distribution of ONNX Runtime, as"),
            ({"message": ""}, "message", "must hold a text"),
            ({"kinds": []}, "kinds", "must be a list of nan-payload, denormals-as-zero, zero-sign, got []"),
            ({"kinds": ["nan"]}, "kinds", "got ['nan']"),
            ({"kinds": ["zero-sign"] * 4}, "kinds", "must have each kind once, got 4 kinds"),
            ({"kinds": ["zero-sign"], "verdict": "error"}, "kinds", "beside the verdict mismatch, got error"),
            ({"kinds": "zero-sign"}, "kinds", "array"),
            ({"tier": "huge"}, "tier", "smoke, standard, full"),
            ({"until": '"soon"'}, "until", "Expected date"),
            ({"case": 1}, "case", "str"),
            ({"extra": "x"}, "", "extra"),
        ],
    )
    def test_bad_entry(self, keys, path, said, tmp_path, capsys):
        """A bad entry gives exit code 2 and one line."""
        file = toml(tmp_path / "known.toml", ENTRY, ENTRY | keys)

        code = validate("--provider", "cpu", "--known-failures", file)

        err = capsys.readouterr().err
        assert 2 == code
        assert 1 == err.count("\n")
        assert file in err and f"$.known[1]{'.' if path else ''}{path}" in err and said in err

    def test_nothing_named(self, tmp_path):
        """An entry that names no case, operator, type or variant is refused."""
        file = toml(tmp_path / "known.toml", {key: value for key, value in ENTRY.items() if key != "case"})

        with pytest.raises(InputError, match=r"\$\.known\[0\]: must name a case, an operator, a type or a variant"):
            load(file)

    @pytest.mark.parametrize(
        "head, said",
        [
            ("", r"\$\.schema: must be 'opmap-known-failures/5', got None"),
            ('schema = "opmap-known-failures/6"\nnovel = 1', "got 'opmap-known-failures/6'"),
            (
                f'schema = "{SCHEMA}"\ncase_ids = 2',
                r"\$\.case_ids: must be a version of the case ids from 1 to 1, got 2",
            ),
            (f'schema = "{SCHEMA}"\ncase_ids = "1"', "got '1'"),
            ("schema = [", "Invalid"),
        ],
    )
    def test_bad_head(self, head, said, tmp_path):
        """Unknown versions of the schema and the case ids are refused."""
        with pytest.raises(InputError, match=said):
            load(toml(tmp_path / "known.toml", head=head))

    def test_old_schema(self, tmp_path):
        """A file of the first schema can be read; its issue may be any text."""
        file = toml(
            tmp_path / "known.toml", ENTRY | {"issue": "see the wiki"}, head='schema = "opmap-known-failures/1"'
        )

        assert (KnownFailure(**ENTRY, issue="see the wiki", dangerous=False),) == load(file)

    def test_second_schema(self, tmp_path):
        """A file of the second schema can be read. Its hangs are still run: they had no other meaning then."""
        head = 'schema = "opmap-known-failures/2"'
        (known,) = load(toml(tmp_path / "known.toml", ENTRY | {"verdict": "timeout"}, head=head))

        assert not known.is_dangerous

    def test_third_schema(self, tmp_path):
        """A file of the third schema can be read. Its hangs are not run."""
        keys = {"verdict": "timeout", "variant": "eager", "message": "x"}
        (known,) = load(toml(tmp_path / "known.toml", ENTRY | keys, head='schema = "opmap-known-failures/3"'))

        assert ("eager", "x", True) == (known.variant, known.message, known.is_dangerous)

    @pytest.mark.parametrize(
        "schema, needed, keys",
        [
            (2, 3, {"variant": "eager"}),
            (2, 3, {"package": "onnxruntime"}),
            (1, 3, {"message": "x"}),
            (2, 3, {"may_pass": True}),
            (3, 4, {"kinds": ["nan-payload"]}),
            (1, 4, {"kinds": ["nan-payload"]}),
            (4, 5, {"relation": "shift"}),
            (4, 5, {"fault": "index-clamped"}),
            (3, 5, {"digest": "0" * 64}),
        ],
    )
    def test_new_keys(self, schema, needed, keys, tmp_path):
        """A file of an old schema that has a new key is refused: an older opmap could not read it."""
        head = f'schema = "opmap-known-failures/{schema}"'
        file = toml(tmp_path / "known.toml", ENTRY | keys, head=head)

        said = rf"\$\.known\[0\]\.{next(iter(keys))}: needs the schema 'opmap-known-failures/{needed}'"
        with pytest.raises(InputError, match=said):
            load(file)

    def test_migration(self, tmp_path, monkeypatch):
        """Globs over older case ids are rewritten version by version; one without a counterpart is named."""
        monkeypatch.setattr(known_failures, "CASE_IDS", 3)
        steps = {
            1: lambda glob: glob.replace("gather/", "g/"),
            2: lambda glob: None if "gone" in glob else f"dml/{glob}",
        }
        monkeypatch.setattr(known_failures, "MIGRATIONS", steps)

        for version, expected in ((1, "dml/g/example.1"), (2, "dml/gather/example.1"), (3, "gather/example.1")):
            file = toml(tmp_path / "known.toml", ENTRY, head=f'schema = "{SCHEMA}"\ncase_ids = {version}')
            assert expected == load(file)[0].case
        with pytest.raises(InputError, match=r"\$\.known\[0\]\.case: 'g/gone' has no counterpart in version 3"):
            load(toml(tmp_path / "gone.toml", ENTRY | {"case": "gather/gone"}))

    def test_every_version(self):
        """There is a migration from every version of the case ids."""
        assert list(range(1, known_failures.CASE_IDS)) == sorted(known_failures.MIGRATIONS)


class TestWrite:
    """--write-known-failures writes the present failures; a person fills in the reasons."""

    def test_round_trip(self, tmp_path, capsys):
        """The written file is refused until every reason is filled in; then it makes the run green."""
        file = tmp_path / "new.toml"
        arguments = ["validate", "--provider", "fault:negative-index-as-zero"]
        arguments += ["--filter", "gather_nd1/*"]

        codes = [main([*arguments, "--write-known-failures", str(file)])]
        assert "fill in the reason of each" in capsys.readouterr().err
        codes.append(main([*arguments, "--known-failures", str(file)]))
        assert "$.known[0].reason: must say why" in capsys.readouterr().err
        file.write_text(
            file.read_text(encoding="utf-8").replace("TODO: why", "negative indices are not known there"),
            encoding="utf-8",
        )
        codes.append(main([*arguments, "--known-failures", str(file), "--json"]))

        verdicts = {r["verdict"] for r in json.loads(capsys.readouterr().out)["cases"]}
        assert [1, 2, 0] == codes
        assert {"pass", "known-failure"} == verdicts

    def test_keys(self, tmp_path):
        """Every excusable verdict, with tier, stage, adapter and device class if they are known."""
        records = [
            Record(case=f"c/{v}", verdict=v, stage=Stage.RUN, device_class="emulated", message="a\n# b\x7f\x1b")
            for v in Verdict
        ]
        file = tmp_path / "new.toml"

        count = write(file, records, msgspec.structs.replace(HERE, adapter='The "best" [é]\x7f*'), "standard")

        text = file.read_text(encoding="utf-8")
        known = tomllib.loads(text)["known"]
        assert len(EXCUSABLE) == count == len(known) == text.count("\n# a # b\\x7f\\x1b\n")
        assert {
            "case": "c/mismatch",
            "provider": "DmlExecutionProvider",
            "adapter": 'The "best" [[]é]\x7f[*]',
            "device_class": "emulated",
            "verdict": "mismatch",
            "stage": "run",
            "tier": "standard",
            "reason": "TODO: why",
        } == known[0]

    def test_applies_again(self, tmp_path):
        """A written entry applies to the same adapter only, also if its name contains signs of a glob."""
        place = msgspec.structs.replace(HERE, adapter="RTX [4060] *")
        file = tmp_path / "new.toml"
        write(file, [Record(case=CASE.id, verdict=Verdict.CRASH, stage=Stage.RUN)], place, "smoke")
        file.write_text(file.read_text(encoding="utf-8").replace("TODO: why", "it ends"), encoding="utf-8")

        (known,) = load(file)

        assert applies(known, place)
        assert not applies(known, msgspec.structs.replace(place, adapter="RTX [4060] Ti"))

    def test_no_overwriting(self, tmp_path):
        """A file that was created while the cases ran is not overwritten."""
        (tmp_path / "there.toml").write_text("mine", encoding="utf-8")

        with pytest.raises(InputError, match="--write-known-failures"):
            write(tmp_path / "there.toml", [], HERE, "smoke")

    @pytest.mark.parametrize("name", ["there.toml", "no/such/folder.toml"])
    def test_not_new(self, name, tmp_path, capsys):
        """An existing file is refused before anything is run: a person wrote its reasons."""
        (tmp_path / "there.toml").write_text("mine", encoding="utf-8")

        code = validate("--provider", "cpu", "--write-known-failures", str(tmp_path / name))

        out, err = capsys.readouterr()
        assert (2, "", 1) == (code, out, err.count("\n"))
        assert "must be a new file" in err
        assert "mine" == (tmp_path / "there.toml").read_text(encoding="utf-8")

    def test_nothing_red(self, tmp_path):
        """A green run writes a file without entries, which can be loaded."""
        file = tmp_path / "new.toml"

        codes = [validate("--provider", "cpu", o, str(file)) for o in ("--write-known-failures", "--known-failures")]

        assert [0, 0] == codes


class TestRed:
    """Each red condition gives exit code 1 of `opmap validate`."""

    @pytest.mark.parametrize(
        "provider, keys, code, said",
        [
            ("fault:output-zero", {}, 0, ""),
            ("fault:none", {}, 1, "unexpected-pass"),
            ("fault:output-zero", {"verdict": "error"}, 1, "expected error: planted, got mismatch at compare"),
            ("fault:output-zero", {"stage": "run"}, 1, "expected mismatch at run: planted"),
            ("fault:output-zero", {"until": "2020-02-02"}, 1, "expired on 2020-02-02"),
            ("fault:none", {"until": "2020-02-02"}, 1, "expired on 2020-02-02"),
            ("fault:none", {"case": "gather/gone"}, 1, "'gather/gone' matches no case of tier smoke"),
            ("fault:none", {"case": "gather/gone", "device_class": "hardware"}, 0, ""),
            ("fault:none", {"case": "gather/gone", "provider": "cpu"}, 0, ""),
            ("fault:none", {"case": "gather_nd/example.1"}, 0, ""),
            ("fault:none", {"case": "probe/gather/bool"}, 0, ""),
        ],
    )
    def test_conditions(self, provider, keys, code, said, tmp_path, capsys):
        """One entry and one selected case. An entry for a case or probe that was not selected is no problem."""
        file = toml(tmp_path / "known.toml", ENTRY | {"provider": provider} | keys)

        got = validate("--provider", provider, "--known-failures", file)

        out, err = capsys.readouterr()
        assert code == got
        assert said in out + err
        assert err.count("\n") == (1 if "expired" in said or "matches" in said else 0)

    def test_may_pass(self, tmp_path, capsys):
        """An entry for a whole type is green where the values happen to fit; the notes count these cases."""
        keys = {"operator": "GATHER", "may_pass": True, "provider": "fault:negative-index-as-zero"}
        entry = {key: value for key, value in (ENTRY | keys).items() if key != "case"}
        command = ["validate", "--provider", "fault:negative-index-as-zero", "--filter", "gather/*"]

        code = main([*command, "--known-failures", toml(tmp_path / "known.toml", entry)])
        out = capsys.readouterr().out
        main([*command, "--json"])

        passed = sum(r["verdict"] == "pass" for r in json.loads(capsys.readouterr().out)["cases"])
        assert 0 == code and passed
        assert f"{passed} cases passed that known failures allow to fail\n" in out

    def test_bundle(self, tmp_path):
        """The bundle says why a run with good verdicts only is red."""
        file = toml(tmp_path / "known.toml", ENTRY | {"provider": "cpu", "case": "gather/gone"})

        validate("--provider", "cpu", "--known-failures", file, "--report", str(tmp_path / "r"))

        run = json.loads((tmp_path / "r" / "run.json").read_text(encoding="utf-8"))
        assert {"verdicts": {"pass": 1}, "exit_code": 1} == run["totals"]
        assert "'gather/gone' matches no case" in run["problems"][0]

    def test_missing_provider(self, tmp_path, capsys):
        """An entry that matches nothing is red also if the provider is missing."""
        file = toml(tmp_path / "known.toml", ENTRY | {"provider": "AbsentExecutionProvider", "case": "gather/gone"})

        codes = [validate("--provider", "AbsentExecutionProvider", *more) for more in ((), ("--known-failures", file))]

        assert [0, 1] == codes
