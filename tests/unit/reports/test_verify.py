"""`opmap report --verify`: a bundle is complete, or the first thing that is wrong is said in one line."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from bundle_folders import agree, validate

from opmap.cases.probes import probes
from opmap.cli import main
from opmap.known import shipped_failures

END = "; the digests fit (this shows damage, no fraud)"
CPU = "proven on CPUExecutionProvider (device class cpu)"
TILE = ["--provider", "cpu", "--filter", "tile/*"]

OWN = """
import onnxruntime

class Own:
    name = "own"
    def run(self, model, feeds):
        return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)

class Opened:
    def __init__(self, model):
        self.session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    def run(self, feeds, outputs=None):
        return self.session.run(outputs, feeds)

class WithSessions(Own):
    def open(self, model, setup):
        return Opened(model)
"""

OWN_CASES = ["--tier", "standard", "--filter", "tile/*32/*", "--shard", "1/20", "--provider"]
"""Cases of which some need a session."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Returns a folder with a bundle of the tier smoke, one of a shard, and the merged bundle of both shards."""
    folder = tmp_path_factory.mktemp("bundles")
    validate(folder / "smoke", "--provider", "cpu")
    for number in (1, 2):
        validate(folder / f"shard{number}", *TILE, "--shard", f"{number}/2")
    main(["merge", str(folder / "shard1"), str(folder / "shard2"), "-o", str(folder / "merged")])
    return folder


@pytest.fixture
def bundles(made, tmp_path, monkeypatch):
    """Returns a folder with copies of these bundles, which is the current one."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def verify(bundles, capsys):
    """Returns a function that verifies a bundle. It returns the exit code, and the one line on stdout."""

    def verify(name: str) -> tuple[int, str]:
        capsys.readouterr()
        before = {path: path.read_bytes() for path in (bundles / name).rglob("*") if path.is_file()}
        code = main(["report", name, "--verify"])
        assert {path: path.read_bytes() for path in (bundles / name).rglob("*") if path.is_file()} == before
        out, err = capsys.readouterr()
        assert not err
        assert out.count("\n") == 1
        return code, out.rstrip("\n")

    return verify


def edit_run(folder, path: str, value: object) -> None:
    """Gives the key at `path` of run.json, as `selection.tier`, this value."""
    run = json.loads((folder / "run.json").read_bytes())
    *parents, key = path.split(".")
    place = run
    for parent in parents:
        place = place[parent]
    place[key] = value
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")


def records(folder) -> list[dict]:
    return list(map(json.loads, (folder / "results.jsonl").read_bytes().splitlines()))


def write_records(folder, values: list[dict]) -> None:
    (folder / "results.jsonl").write_bytes(b"".join(json.dumps(value).encode() + b"\n" for value in values))


def edit_pass(folder, number: int = 0, **changes: object) -> str:
    """Changes a record of a case that passed, the first one or a later one, and makes run.json agree. Returns its line."""
    values = records(folder)
    line = [i for i, record in enumerate(values) if record["verdict"] == "pass" and record["placement"]][number]
    values[line] |= changes
    write_records(folder, values)
    agree(folder)
    return f"line {line + 1}"


class TestComplete:
    """The line says what the bundle holds."""

    def test_a_tier(self, verify):
        code, line = verify("smoke")
        wanted = rf"complete: 1,942 cases and probes of tier smoke, opmap [\d.]+, [\d,]+ of 1,896 cases {CPU}, none failed{END}"
        assert code == 0
        assert re.fullmatch(wanted.replace("(", r"\(").replace(")", r"\)"), line)

    @pytest.mark.parametrize(
        ("name", "count", "of"),
        [("shard1", 11, "tier smoke, shard 1/2, "), ("merged", 23, "tier smoke in 2 merged runs, ")],
    )
    def test_shards(self, verify, name, count, of):
        code, line = verify(name)
        assert code == 0
        assert line.startswith(f"complete: {count} selected cases and probes of {of}opmap ")

    @pytest.mark.parametrize(
        ("arguments", "wanted"),
        [
            (["tile/example.1", "gather/*", "probe/gather/rank-9", "--provider", "cpu"], f"{CPU}, none failed"),
            (
                ["tile/example.1", "tile/int8/d1/-/special.9a3562/compile-graph", "--provider", "cpu"],
                f"1 of 1 cases {CPU}, none failed",
            ),
            (["--provider", "cpu", "--tier", "standard", "--operator", "Join"], f"{CPU}, none failed"),
            (["--provider", "cpu", "--shuffle", "3", "--filter", "tile/*"], f"{CPU}, none failed"),
            (
                ["--provider", "fault:output-zero", "--filter", "tile/*"],
                r"fault:output-zero (device class unknown), 16 asserted by the provider itself, 16 failed",
            ),
            ([*OWN_CASES, "own_of_verify:Own"], "19 asserted by the provider itself"),
            ([*OWN_CASES, "own_of_verify:WithSessions"], "21 asserted by the provider itself"),
            (["--provider", "NoSuchExecutionProvider", "--filter", "tile/*"], "0 of 24 cases proven"),
        ],
    )
    def test_selections(self, verify, bundles, arguments, wanted):
        """Ids, globs, an order, and what a provider cannot run: the case ids are those that this opmap lists. Red runs too."""
        (bundles / "own_of_verify.py").write_text(OWN, encoding="utf-8")
        validate(bundles / "new", *arguments)
        code, line = verify("new")
        assert code == 0, line
        assert wanted in line


RUN, RECORDS = "not verified: smoke/run.json: ", "not verified: smoke/results.jsonl: "

EDITS = {
    "another tier": (
        ("selection.tier", "standard"),
        RECORDS + r"must hold a record of each of the \d\d,\d{3} cases and probes of \$\.selection, got none of \S+ "
        r"\(of \d\d,\d{3} there is none\)",
    ),
    "a smaller selection": (
        ("selection.filter", ["tile/*"]),
        RECORDS
        + r"must hold records of the \d\d cases and probes of \$\.selection only, got one of \S+ \([\d,]+ are foreign\)",
    ),
    "no tier": (
        ("selection.tier", "quick"),
        RUN + r"\$\.selection\.tier: must be one of smoke, standard, full, contract, got 'quick'",
    ),
    "another version of ONNX Runtime in the selection": (
        ("selection.version", "1.9.9"),
        RUN
        + r"\$\.environment\.packages\.value\.onnxruntime: must be ONNX Runtime 1\.9\.9, as the selection says, got '1\S+'",
    ),
    "another version of the package": (
        ("environment.packages.value.onnxruntime", "1.9.9"),
        RUN
        + r"\$\.environment\.packages\.value\.onnxruntime: must be ONNX Runtime 1\S+, as the selection says, got '1\.9\.9'",
    ),
    "another version of ONNX Runtime in the environment": (
        ("environment.onnxruntime.value.version", "1.9.9"),
        RUN
        + r"\$\.environment\.onnxruntime\.value\.version: must be ONNX Runtime 1\S+, as the selection says, got '1\.9\.9'",
    ),
    "other case ids": (
        ("selection.case_ids", 0),
        RUN + r"\$\.selection\.case_ids: must be 1, got 0: this opmap cannot list the cases of another",
    ),
}


class TestDamage:
    """Each edit leaves a bundle whose digests and totals agree. The line names the first thing that is wrong."""

    @pytest.mark.parametrize(("change", "wanted"), EDITS.values(), ids=EDITS)
    def test_run_json(self, verify, bundles, change, wanted):
        edit_run(bundles / "smoke", *change)
        agree(bundles / "smoke")
        code, line = verify("smoke")
        assert code == 1
        assert re.fullmatch(wanted, line)

    @pytest.mark.parametrize(
        ("changes", "wanted"),
        [
            ({"provider": None}, "$.placement.nodes: must be nodes on None, as it is proven"),
            ({"placement": None}, "$.placement: must say where the case ran, as the verdict is pass, got null"),
            (
                {"verdict": "known-failure", "stage": "compare", "message": "known mismatch: an old one"},
                "$.verdict: must be another one: no known failure of opmap excuses this case, got known-failure",
            ),
            (
                {
                    "verdict": "skipped",
                    "message": "not tried without --rerun-dangerous: known timeout: it hangs",
                },
                "$.verdict: must be another one: no known failure of opmap excuses this case, got skipped",
            ),
        ],
    )
    @pytest.mark.parametrize("number", [0, 300])
    def test_a_record(self, verify, bundles, changes, wanted, number):
        at = edit_pass(bundles / "smoke", number, **changes)
        assert (1, f"{RECORDS}{at}: {wanted}") == verify("smoke")

    def test_no_provider(self, verify, bundles):
        values = records(bundles / "smoke")
        line = next(i for i, record in enumerate(values) if not record["placement"])
        values[line]["provider"] = None
        write_records(bundles / "smoke", values)
        agree(bundles / "smoke")
        wanted = "$.provider: must be a name, and that in run.json: CPUExecutionProvider, got None"
        assert (1, f"{RECORDS}line {line + 1}: {wanted}") == verify("smoke")

    def test_a_file_of_known_failures(self, verify, bundles):
        """It is not in the bundle: its reasons are believed, but a record must name one."""
        edit_run(bundles / "smoke", "selection.known_failures", "0" * 64)
        edit_pass(bundles / "smoke", verdict="known-failure", message="known mismatch: an old one")
        assert verify("smoke")[0] == 0
        at = edit_pass(bundles / "smoke", 5, verdict="known-failure", message="3 of 6 elements differ")
        assert verify("smoke")[1].startswith(f"{RECORDS}{at}: $.verdict: ")

    def test_shipped_known_failures(self, verify, bundles):
        """The words of a shipped entry count where it applies: package, version and device class."""
        id = "probe/gather/rank-9"
        folder = bundles / "new"
        validate(folder, id, "--provider", "cpu")
        entry = next(e for e in shipped_failures() if e.case == id and e.package == "onnxruntime-directml")
        place = {"provider": "DmlExecutionProvider", "device_class": entry.device_class}
        selected = {**place, "package": entry.package, "version": "1.24.4", "adapter_name": "llvmpipe"}
        for key, value in selected.items():
            edit_run(folder, f"selection.{key}", value)
        edit_run(folder, "environment", {})
        message = f"known {entry.expected}: {entry.why}: refused"
        [record] = records(folder)
        changed = record | place | {"verdict": "known-failure", "stage": "load", "placement": None, "message": message}
        write_records(folder, [changed])
        agree(folder)
        assert verify("new")[0] == 0
        edit_run(folder, "selection.version", "1.99.0")
        agree(folder)
        assert verify("new")[1].endswith("no known failure of opmap excuses this case, got known-failure")
        edit_run(folder, "selection.version", "1.24.4")
        write_records(folder, [changed | {"message": "expected pass (ONNX allows it), got error"}])
        agree(folder)
        assert verify("new")[1].endswith("no known failure of opmap excuses this case, got known-failure")

    @pytest.mark.parametrize(("device_class", "code"), [("emulated", 0), ("hardware", 1)])
    def test_limits_of_a_probe(self, verify, bundles, device_class, code):
        """A probe's own outcome may be a known failure, also without those that are shipped, on its device class."""
        id, folder = "probe/gather/cast-to-int64", bundles / "new"
        validate(folder, id, "--provider", "cpu", "--no-shipped-known-failures")
        outcome = next(o for probe in probes() if probe.id == id for o in probe.outcomes if o.known_failure)
        place = {"provider": "DmlExecutionProvider", "device_class": device_class}
        for key, value in {**place, "package": "onnxruntime-directml", "version": "1.24.4"}.items():
            edit_run(folder, f"selection.{key}", value)
        edit_run(folder, "environment", {})
        message = f"error at load with 80004005, as expected ({outcome.reason}): refused"
        [record] = records(folder)
        write_records(folder, [record | place | {"verdict": "known-failure", "placement": None, "message": message}])
        agree(folder)
        assert verify("new")[0] == code

    def test_a_record_is_missing(self, verify, bundles):
        [first, second, *others] = records(bundles / "smoke")
        write_records(bundles / "smoke", [first, *others])
        agree(bundles / "smoke")
        wanted = (
            f"must hold a record of each of the 1,942 cases and probes of $.selection, got none of {second['case']}"
        )
        assert (1, f"{RECORDS}{wanted} (of 1 there is none)") == verify("smoke")

    def test_a_record_is_there_twice(self, verify, bundles):
        [first, *others] = records(bundles / "smoke")
        write_records(bundles / "smoke", [first, first, *others])
        agree(bundles / "smoke")
        assert (1, f"{RECORDS}line 2: must be the only record of {first['case']}") == verify("smoke")

    @pytest.mark.parametrize(
        ("file", "old", "new", "at"),
        [
            ("results.jsonl", b'"case":', b'"case":"tile/x","case":', "results.jsonl: line 1"),
            ("results.jsonl", b'"DataType":', b'"DataType":"INT8","DataType":', "results.jsonl: line 1"),
            ("run.json", b'"tier":', b'"tier":"full","tier":', "run.json"),
            ("times.json", b'"seconds":', b'"seconds":{},"seconds":', "times.json"),
        ],
    )
    def test_a_key_is_there_twice(self, verify, bundles, file, old, new, at):
        path = bundles / "smoke" / file
        path.write_bytes(path.read_bytes().replace(old, new, 1))
        key = old.decode()[1:-2]
        assert (1, f"not verified: smoke/{at}: must have the key '{key}' once in each object, got it twice") == verify(
            "smoke"
        )

    def test_another_opmap(self, verify, bundles):
        """Of another version, the cases cannot be listed."""
        edit_run(bundles / "smoke", "selection.opmap", "0.0.9")
        edit_run(bundles / "smoke", "environment.packages.value.opmap", "0.0.9")
        agree(bundles / "smoke")
        code, line = verify("smoke")
        assert code == 1
        assert re.fullmatch(
            RUN + r"\$\.selection\.opmap: must be \S+, got '0\.0\.9': this opmap cannot list the cases of another", line
        )

    def test_other_ids(self, verify, bundles):
        """The digest of the selection is that of the cases that are listed."""
        run = json.loads((bundles / "smoke" / "run.json").read_bytes())
        edit_run(bundles / "smoke", "totals.ids", run["selection"]["ids"])
        edit_run(bundles / "smoke", "selection.ids", "0" * 64)
        wanted = "$.selection.ids: must be the digest of the ids that this opmap lists, got another one"
        assert (1, RUN + wanted) == verify("smoke")

    def test_an_unfinished_run(self, verify, bundles):
        edit_run(bundles / "smoke", "totals", None)
        assert (1, f"{RUN}$.totals: must be there, got null: the run has not ended") == verify("smoke")

    def test_an_interrupted_run(self, verify, bundles):
        """Its totals are there, and its records are fewer than the selection has."""
        run = json.loads((bundles / "smoke" / "run.json").read_bytes())
        first, *_ = values = records(bundles / "smoke")
        write_records(bundles / "smoke", [first])
        agree(bundles / "smoke", 130)
        edit_run(
            bundles / "smoke",
            "totals.ids",
            json.loads((bundles / "smoke" / "run.json").read_bytes())["selection"]["ids"],
        )
        edit_run(bundles / "smoke", "selection.ids", run["selection"]["ids"])
        code, line = verify("smoke")
        assert code == 1
        assert line.endswith(f"got none of {values[1]['case']} (of 1,941 there is none)")

    def test_a_file_is_cut(self, verify, bundles):
        path = bundles / "smoke" / "run.json"
        path.write_bytes(path.read_bytes()[:-20])
        assert (1, f"{RUN}Input data was truncated") == verify("smoke")

    def test_a_part_is_missing(self, verify, bundles):
        """The part of a merged bundle was removed, with its records."""
        folder = bundles / "merged"
        run = json.loads((folder / "run.json").read_bytes())
        part = run["parts"].pop()
        run["totals"] = run["parts"][0]["totals"]
        run["selection"] |= {"shard": "1/2", "ids": run["parts"][0]["selection"]["ids"]}
        (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
        write_records(folder, records(folder)[: -part["records"]])
        assert (1, "not verified: merged: missing: shard 2/2") == verify("merged")

    def test_damage_in_a_part(self, verify, bundles):
        """Each part is verified; the place names it."""
        run = json.loads((bundles / "merged" / "run.json").read_bytes())
        run["parts"][1]["selection"]["case_ids"] = 7
        (bundles / "merged" / "run.json").write_text(json.dumps(run), encoding="utf-8")
        wanted = "$.parts[1].selection.case_ids: must be 1, got 7: this opmap cannot list the cases of another"
        assert (1, f"not verified: merged/run.json: {wanted}") == verify("merged")


class TestRefused:
    """What is no bundle has exit code 2, and nothing on stdout."""

    @pytest.mark.parametrize(
        ("arguments", "wanted"),
        [
            (["none"], "opmap: none: must be the folder of a results bundle, got no such folder"),
            (["."], "opmap: .: must be the folder of a results bundle, got a folder without run.json"),
            (["smoke/run.json"], "opmap: smoke/run.json: must be the folder of a results bundle, got a file"),
            (
                ["smoke", "-o", "page.html"],
                "opmap report: argument -o/--output: not allowed with argument --verify (see opmap report --help)",
            ),
        ],
    )
    def test_refused(self, bundles, capsys, arguments, wanted):
        assert main(["report", "--verify", *arguments]) == 2
        assert ("", f"{wanted}\n") == capsys.readouterr()
