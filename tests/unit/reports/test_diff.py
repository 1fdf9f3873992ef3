"""`opmap diff`: which causes are new and fixed, which cases are worse, and what else is other."""

from __future__ import annotations

import html
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from bundle_folders import change_json, records, schema_of, validate, write_records
from planted_markup import fields_in, planted

from opmap.cli import main
from opmap.engines.machine.facts import Fact
from opmap.reports.bundle import Bundle

RUNS = {"clamped": "fault:index-clamped-early", "zero": "fault:negative-index-as-zero", "cpu": "cpu"}

OTHER = "negative-index-as-zero"
"""A fault that none of the runs has beside its own."""


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Returns a folder with a bundle of each of RUNS."""
    folder = tmp_path_factory.mktemp("bundles")
    for name, provider in RUNS.items():
        validate(folder / name, "--provider", provider, "--filter", "gather/*", "--filter", "gather_nd/example.*")
    return folder


@pytest.fixture
def diff(bundles, capsys):
    """Returns a function that compares bundles. It returns the exit code and the document."""

    def diff(*names: str) -> tuple[int, dict]:
        capsys.readouterr()
        code = main(["diff", *names, "--json"])
        document = json.loads(capsys.readouterr().out)
        schema_of("diff" if len(names) == 2 else "diff-table").validate(document)
        return code, document

    return diff


def kinds(document: dict) -> list[tuple[str, str]]:
    return [(change["case"], change["change"]) for change in document["cases"]]


class TestCauses:
    """Causes are compared by what happened to the outputs, and by the condition."""

    def test_two_faults(self, diff, bundles, capsys):
        """Two runs with two different faults: both causes are named, in every form."""
        code, document = diff("clamped", "zero")

        assert (1, True) == (code, document["worse"])
        assert [("new", "negative-index-as-zero"), ("fixed", "index-clamped-early")] == [
            (cause["change"], cause["fault"]) for cause in document["causes"]
        ]
        for more in ([], ["--markdown"]):
            assert 1 == main(["diff", "clamped", "zero", *more])
            out = capsys.readouterr().out
            assert "fault:negative-index-as-zero" in out and "fault:index-clamped-early" in out

    def test_same(self, diff, bundles, capsys):
        """Nothing changed between a run and itself."""
        code, document = diff("clamped", "clamped")

        assert (0, False, [], [], []) == (
            code,
            *(document[name] for name in ("worse", "causes", "cases", "environment")),
        )
        assert 0 == main(["diff", "clamped", "clamped"])
        assert "none is new, fixed or changed" in capsys.readouterr().out

    def test_better(self, diff):
        """A repaired fault is no reason for exit code 1."""
        code, document = diff("clamped", "cpu")

        assert 0 == code
        assert ["fixed"] == [cause["change"] for cause in document["causes"]]
        assert {"better", "new"} == {change for _, change in kinds(document)}

    def test_changed(self, diff, bundles, capsys):
        """Another condition of the same relation is a change of one cause; that alone is not worse."""
        shutil.copytree("clamped", "other")
        condition = {"text": "Axis >= 1", "any": [[{"feature": "axis", "is": ">=", "value": 1}]]}
        change_json(bundles / "other" / "diagnosis.json", lambda d: d["groups"][0].update(condition=condition))

        code, document = diff("clamped", "other")

        assert 0 == code
        (cause,) = document["causes"]
        assert ("changed", "Axis >= 1") == (cause["change"], cause["new"]["where"])
        main(["diff", "clamped", "other"])
        assert "-> Axis >= 1" in " ".join(re.sub("[│ ]+", " ", capsys.readouterr().out).split())

    def test_same_condition_first(self, diff, bundles):
        """Of two causes with one relation, those with the same condition are the same."""

        def split(document: dict) -> None:
            group = document["groups"][0]
            document["groups"] = [
                group | {"cases": n, "condition": {"text": f"Axis >= {n}", "any": []}} for n in (1, 2)
            ]

        def swap(document: dict) -> None:
            document["groups"].reverse()

        change_json(bundles / "clamped" / "diagnosis.json", split)
        shutil.copytree("clamped", "other")
        change_json(bundles / "other" / "diagnosis.json", swap)

        assert [] == diff("clamped", "other")[1]["causes"]

    def test_numbers(self, diff, bundles):
        """A number in the text of a relation depends on the sizes of the cases: it makes no other cause."""
        relation = {"kind": "shift", "fault": None, "ties": [], "text": "moved by 1", "explains": [1, 1]}
        change_json(bundles / "clamped" / "diagnosis.json", lambda d: d["groups"][0].update(relation=relation))
        shutil.copytree("clamped", "other")
        moved = relation | {"text": "moved by 2"}
        change_json(bundles / "other" / "diagnosis.json", lambda d: d["groups"][0].update(relation=moved))

        assert [] == diff("clamped", "other")[1]["causes"]

    @pytest.mark.parametrize("old_ties, new_ties", [([OTHER], []), ([], ["index-clamped-early"])])
    def test_ties(self, old_ties, new_ties, diff, bundles):
        """A cause that now has the name of a fault that gave the same outputs before, or gives them now, is the same
        cause.
        """
        shutil.copytree("clamped", "other")

        def rename(folder: str, fault: str, ties: list[str]) -> None:
            def change(document: dict) -> None:
                relation = document["groups"][0]["relation"]
                relation |= {"fault": fault, "ties": ties, "text": f"as {fault}"}

            change_json(bundles / folder / "diagnosis.json", change)

        rename("clamped", "index-clamped-early", old_ties)
        rename("other", OTHER, new_ties)

        assert (0, []) == (diff("clamped", "other")[0], diff("clamped", "other")[1]["causes"])
        (row,) = diff("clamped", "other", "clamped")[1]["causes"]
        assert 3 == sum(map(bool, row["cases"]))

        rename("other", OTHER, [])
        rename("clamped", "index-clamped-early", [])
        assert ["new", "fixed"] == [cause["change"] for cause in diff("clamped", "other")[1]["causes"]]

    def test_both_of_a_tie(self, diff, bundles):
        """Two causes of one run stay two, although one could be the other."""

        def both(document: dict) -> None:
            (group,) = document["groups"]
            relation = group["relation"]
            second = group | {"relation": relation | {"fault": OTHER, "ties": []}}
            document["groups"] = [group | {"relation": relation | {"ties": [OTHER]}}, second]

        shutil.copytree("clamped", "other")
        change_json(bundles / "other" / "diagnosis.json", both)

        assert ["new"] == [cause["change"] for cause in diff("clamped", "other")[1]["causes"]]
        assert 2 == len(diff("clamped", "other", "other")[1]["causes"])

    def test_no_diagnosis(self, diff, bundles, capsys):
        """Without a diagnosis no cause is new or fixed: that is said."""
        (bundles / "clamped" / "diagnosis.json").unlink()

        _, document = diff("clamped", "zero")

        assert (False, []) == (document["causes_known"], document["causes"])
        assert ["clamped: there is no diagnosis.json, so that causes are not compared"] == document["notes"]
        main(["diff", "clamped", "zero"])
        assert "Causes\n  not compared" in capsys.readouterr().out


class TestCases:
    """The results of single cases."""

    @pytest.mark.parametrize(
        "old, new, change, worse",
        [
            ("pass", "mismatch", "worse", 1),
            ("pass", "unsupported", "worse", 1),
            ("not-run", "mismatch", "worse", 1),
            ("mismatch", "known-failure", "better", 0),
            ("mismatch", "pass", "better", 0),
            ("mismatch", "crash", "changed", 0),
            ("unsupported", "not-run", "changed", 0),
            (None, "crash", "new", 1),
            (None, "pass", "new", 0),
            ("pass", None, "gone", 0),
        ],
    )
    def test_verdicts(self, old, new, change, worse, diff, bundles):
        """A case that passed or did not fail, and does so no more, is worse; so is a new one that fails."""
        shutil.copytree("cpu", "other")
        case = records(bundles / "cpu")[0]["case"]
        for folder, verdict in (("cpu", old), ("other", new)):
            first, *others = records(bundles / folder)
            write_records(bundles / folder, [*([first | {"verdict": verdict}] if verdict else []), *others])

        code, document = diff("cpu", "other")

        assert (worse, [(case, change)]) == (code, kinds(document))

    @pytest.mark.parametrize("more", [[], ["--markdown"]])
    def test_different_cases(self, more, bundles, capsys):
        """Runs with different cases: that comes first, and nobody says that nothing got worse if cases are gone."""
        shutil.copytree("cpu", "less")
        write_records(bundles / "less", records(bundles / "cpu")[2:])

        def lines(*names: str) -> str:
            capsys.readouterr()
            assert 0 == main(["diff", *names, *more, "--html", "page.html"])
            return capsys.readouterr().out

        out = lines("cpu", "less")
        assert "2 cases are gone: only the others are known not to be worse" in out and "nothing got worse" not in out
        assert out.index("2 cases are gone, 0 cases are new") < out.index("Causes") < out.index("Cases that are gone")
        assert 'badge unfinished">cases are gone<' in Path("page.html").read_text(encoding="utf-8")
        assert "0 cases are gone, 2 cases are new" in (out := lines("less", "cpu")) and "nothing got worse" in out
        assert "none of 3 runs is worse than the run before, and cases are gone from 1" in (
            out := lines("cpu", "less", "cpu")
        )
        assert "less: 2 cases are gone since the run before" in out
        assert "different cases" not in lines("cpu", "cpu")

    @pytest.mark.parametrize("other", [True, False])
    def test_bits(self, other, diff, bundles):
        """A case that fails as before, with other wrong bits, has changed; that alone is not worse."""
        shutil.copytree("clamped", "other")
        lines = records(bundles / "other")
        record = next(line for line in lines if line["verdict"] == "mismatch")
        record["message"] = "another text"
        if other:
            record["failure"] = None  # it says the same as the bits
            record["actual"]["Bits"] = ["f" * len(bits) for bits in record["actual"]["Bits"]]
        write_records(bundles / "other", lines)

        code, document = diff("clamped", "other")

        assert (0, [(record["case"], "bits")] if other else []) == (code, kinds(document))

    def test_error(self, diff, bundles):
        """An error in another file is a change; another text of it, or another line, is none."""
        error = records(bundles / "cpu")[0] | {
            "verdict": "error",
            "stage": "load",
            "error_at": "a.cc(1) 80070057",
            "message": "0x1",
        }
        others = {
            "text": {"message": "0x2"},
            "line": {"error_at": "a.cc(2) 80070057"},
            "place": {"error_at": "b.cc(1) 80070057"},
        }
        for folder, changes in {"cpu": {}, **others}.items():
            if folder != "cpu":
                shutil.copytree("cpu", folder)
            write_records(bundles / folder, [error | changes])

        assert [[], []] == [kinds(diff("cpu", name)[1]) for name in ("text", "line")]
        assert [(error["case"], "bits")] == kinds(diff("cpu", "place")[1])

    def test_many(self, bundles, capsys):
        """Of many cases the first are listed, and the rest is counted."""
        main(["diff", "cpu", "clamped"])

        lines = capsys.readouterr().out.splitlines()
        first = lines.index("Cases that are worse than before") + 1
        assert lines[first + 9].startswith("  gather") and re.fullmatch(r"  \.\.\. and \d+ more", lines[first + 10])
        assert lines[-1].startswith("worse: 1 new cause, ")


class TestEnvironment:
    """What else is other: the driver, DirectML.dll, packages, options."""

    def test_facts(self, diff, bundles):
        """Each fact is named, with both values; what is the same is not."""

        def facts(version: str) -> dict[str, object]:
            module = {"path": "C:\\x\\DirectML.dll", "file_version": version, "sha256": version * 20}
            adapter = {"name": "GPU", "driver_version": {"value": version, "source": "s"}}
            return {
                "packages": Fact({"onnx": "1", "onnxruntime-directml": version}, "p"),
                "loaded_modules": Fact([module], "m"),
                "adapters": Fact([adapter], "a"),
                "python": Fact("3.11", "p"),
            }

        for name, version in (("a", "1.1"), ("b", "2.2")):
            bundle = Bundle(name, {"provider": "DmlExecutionProvider", "driver": version, "ids": version})
            bundle.environment(facts(version))
            bundle.complete([], 0)
            bundle.release()

        _, document = diff("a", "b")

        assert {
            "driver": ("1.1", "2.2"),
            "package onnxruntime-directml": ("1.1", "2.2"),
            "directml.dll": ("1.1 (SHA-256 1.11.11.11.1)", "2.2 (SHA-256 2.22.22.22.2)"),
            "driver of GPU": ("1.1", "2.2"),
        } == {change["name"]: (change["old"], change["new"]) for change in document["environment"]}

    @pytest.mark.slow
    def test_adapters(self, diff, bundles):
        """Bundles with several adapters are compared adapter by adapter."""
        main(["merge", "clamped", "cpu", "-o", "old"])
        main(["merge", "cpu", "clamped", "-o", "new"])
        main(["merge", "cpu", "zero", "-o", "other"])

        assert [] == kinds(diff("old", "new")[1])
        changes = diff("old", "other")[1]["cases"]
        assert {("fault:index-clamped-early", "gone"), ("fault:negative-index-as-zero", "new")} == {
            (change["place"], change["change"]) for change in changes
        }

    def test_notes(self, diff, bundles):
        """A run that has not ended, and other case ids, are said."""
        change_json(bundles / "cpu" / "run.json", lambda run: run.update(totals=None))
        change_json(bundles / "cpu" / "run.json", lambda run: run["selection"].update(case_ids=0))

        notes = diff("cpu", "zero")[1]["notes"]

        assert "cpu: the run has not ended" == notes[0]
        assert "the ids of the cases have another version" in notes[1]


class TestPage:
    """The comparison as one HTML file."""

    def page(self, *arguments: str) -> str:
        """Returns the page that a comparison writes."""
        main(["diff", *arguments, "--html", "page.html"])
        return Path("page.html").read_text(encoding="utf-8")

    @pytest.mark.parametrize("others", [["planted"], ["planted", "cpu"]])
    def test_markup(self, others, bundles):
        """Every text is escaped, also the name of a folder; the page loads nothing."""
        (bundles / "planted").mkdir()
        fields = planted(bundles / "planted")
        name = "<img src=x onerror=alert(1)>" if sys.platform != "win32" else "&amp"  # Windows has no < in a name
        (bundles / "clamped").rename(bundles / name)

        page = self.page(name, *others)

        assert not re.search(r"<img|<!--|<script|<link|\ssrc=(?!x onerror)|url\(", page)
        assert html.escape(name) in page
        assert {"relation", "fault"} <= fields & fields_in(html.unescape(page))

    def test_not_written(self, bundles, capsys):
        """A file that cannot be written is one line and exit code 2."""
        assert 2 == main(["diff", "cpu", "zero", "--html", "."])

        assert "cannot be written" in capsys.readouterr().err


class TestTable:
    """Three bundles and more give a table of runs and causes."""

    def test_table(self, diff, bundles, capsys):
        """A row per cause, a column per run; a run that is worse than the one before makes the exit code 1."""
        code, document = diff("cpu", "clamped", "zero", "zero")

        assert (1, [False, True, True, False]) == (code, document["worse"])
        assert 0 == diff("clamped", "cpu", "cpu")[0]
        counts = {cause["fault"]: [bool(count) for count in cause["cases"]] for cause in document["causes"]}
        assert {
            "index-clamped-early": [False, True, False, False],
            "negative-index-as-zero": [False, False, True, True],
        } == counts
        for more in ([], ["--markdown"]):
            assert 1 == main(["diff", "cpu", "clamped", "zero", *more])
            assert (
                "fault:index-clamped-early" in "".join(capsys.readouterr().out.split("\n│ ")).replace("\n", "") or more
            )

    @pytest.mark.parametrize("arguments", [["cpu"], ["cpu", "zero", "--json", "--markdown"], []])
    def test_bad_usage(self, arguments, bundles, capsys):
        """One bundle, no bundle, and two forms of output are bad usage: one line."""
        assert 2 == main(["diff", *arguments])

        assert 1 == capsys.readouterr().err.count("\n")
