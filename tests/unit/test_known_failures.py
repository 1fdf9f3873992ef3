"""Known failures: the file, how it is written, and what makes a run red."""

from __future__ import annotations

import datetime
import json
import tomllib

import msgspec
import pytest
from known_entries import CASE, ENTRY, HERE, toml, validate

from opmap.cli import main
from opmap.errors import InputError
from opmap.judge.record import Record
from opmap.known import known_failures
from opmap.known.active_failures import applies
from opmap.known.known_failures import EXCUSABLE, SCHEMA, KnownFailure, load, write
from opmap.vocabulary import Stage, Verdict


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
