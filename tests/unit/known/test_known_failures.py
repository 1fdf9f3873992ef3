"""Known failures: the file, and what makes a run red."""

from __future__ import annotations

import datetime
import json

import msgspec
import pytest
from known_entries import ENTRY, toml, validate

from opmap.cli import main
from opmap.errors import InputError
from opmap.known import known_failures
from opmap.known.known_failures import SCHEMA, KnownFailure, load


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
            ({"stage": "start"}, "stage", "must be one of read, validate,"),
            ({"reason": " "}, "reason", "must say why"),
            (
                {"reason": "TODO: why"},
                "reason",
                "must say why in place of 'TODO: why': that is for a person to fill in",
            ),
            ({"issue": "#12"}, "issue", "must be an address"),
            ({"driver": "new"}, "driver", "must be a version or a range of versions"),
            ({"ep_version": "new"}, "ep_version", "must be a version or a range of versions"),
            ({"library_sha256": "A1" * 32}, "library_sha256", "must be a SHA-256 in 64 lowercase hexadecimal digits"),
            ({"library_sha256": "a1" * 31}, "library_sha256", "must be a SHA-256 in 64 lowercase hexadecimal digits"),
            ({"library": "*" * 2000}, "library", "characters, got 2000"),
            ({"feature_level": "five"}, "feature_level", "got 'five'"),
            ({"device_class": "virtual"}, "device_class", "must be one of hardware, translated, emulated"),
            ({"operator": "GAHTER"}, "operator", "GATHER_ND1"),
            ({"type": "float"}, "type", "FLOAT32"),
            ({"package": "onnxrt"}, "package", "must be a distribution of ONNX Runtime, such as"),
            ({"message": ""}, "message", "must hold a text"),
            ({"kinds": []}, "kinds", "must be a list of nan-payload, denormals-as-zero, zero-sign, got []"),
            ({"kinds": ["zero-sign"], "verdict": "error"}, "kinds", "at stage compare, got error"),
            ({"kinds": "zero-sign"}, "kinds", "array"),
            ({"tier": "huge"}, "tier", "smoke, standard, full"),
            ({"until": '"soon"'}, "until", "Expected date"),
            ({"extra": "x"}, "", "extra"),
        ],
    )
    def test_bad_entry(self, keys, path, said, tmp_path):
        """A bad entry is named with its place in the file."""
        file = toml(tmp_path / "known.toml", ENTRY, ENTRY | keys)

        with pytest.raises(InputError) as error:
            load(file)

        text = str(error.value)
        assert text.startswith(file) and f"$.known[1]{'.' if path else ''}{path}" in text and said in text

    def test_nothing_named(self, tmp_path):
        """An entry that names no case, operator, type or variant is refused."""
        file = toml(tmp_path / "known.toml", {key: value for key, value in ENTRY.items() if key != "case"})

        with pytest.raises(InputError, match=r"\$\.known\[0\]: must name a case, an operator, a type or a variant"):
            load(file)

    @pytest.mark.parametrize(
        "head, said",
        [
            ("", r"\$\.schema: must be 'opmap-known-failures/1', got None"),
            ('schema = "opmap-known-failures/2"\nnovel = 1', "got 'opmap-known-failures/2'"),
            (f'schema = "{SCHEMA}"\ncase_ids = 2', r"\$\.case_ids: must be the version 1 of the case ids, got 2"),
            (f'schema = "{SCHEMA}"\ncase_ids = "1"', "got '1'"),
            ("schema = [", "Invalid"),
        ],
    )
    def test_bad_head(self, head, said, tmp_path):
        """Unknown versions of the schema and the case ids are refused."""
        with pytest.raises(InputError, match=said):
            load(toml(tmp_path / "known.toml", head=head))

    def test_keys(self, tmp_path):
        """An entry has the keys that its table has."""
        keys = ENTRY | {
            "variant": "eager",
            "message": "x",
            "kinds": ["zero-sign"],
            "relation": "shift",
            "may_pass": True,
        }
        assert (KnownFailure(**keys | {"kinds": ("zero-sign",)}),) == load(toml(tmp_path / "known.toml", keys))


class TestRed:
    """Each red condition gives exit code 1 of `opmap validate`."""

    @pytest.mark.parametrize(
        "provider, keys, code, said",
        [
            ("fault:output-zero", {}, 0, ""),
            ("fault:none", {}, 1, "unexpected-pass"),
            ("fault:output-zero", {"stage": "run"}, 1, "expected mismatch at run: planted"),
            ("fault:output-zero", {"until": "2020-02-02"}, 1, "expired on 2020-02-02"),
            ("fault:none", {"case": "gather/gone"}, 1, "'gather/gone' matches no case of tier smoke"),
            ("fault:none", {"case": "gather/gone", "device_class": "hardware"}, 0, ""),
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
