"""`opmap report` of several bundles: the history of one adapter, as one page."""

from __future__ import annotations

import html
import re
import shutil
import sys
from pathlib import Path

import pytest
from bundle_folders import change_json, records, validate, write_records
from lxml import html as lxml_html
from planted_markup import fields_in, planted

from opmap.cli import main
from opmap.engines.machine.facts import Fact
from opmap.reports.bundle import Bundle

GPU = {"provider": "DmlExecutionProvider", "adapter_name": "GPU", "device_class": "hardware", "driver": "31.0"}
"""Where the bundles `good` and `bad` ran."""

OTHER = "negative-index-as-zero"
"""A fault that no run has."""


def put_on(folder, **selection) -> None:
    """Makes a bundle one of another provider and device."""

    def change(run: dict) -> None:
        run["selection"] |= selection

    change_json(folder / "run.json", change)
    facts = {name: selection[name] for name in ("provider", "device_class") if name in selection}
    write_records(folder, [record | facts for record in records(folder)])


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Returns a folder with the bundles `good` and `bad` of one GPU: all pass, and five fail of one cause."""
    folder = tmp_path_factory.mktemp("bundles")
    for name, provider in {"good": "fault:none", "bad": "fault:index-clamped-early"}.items():
        validate(folder / name, "--provider", provider, "--filter", "gather/example.*", "--filter", "tile/example.*")
        put_on(folder / name, **GPU)
        change_json(folder / name / "times.json", lambda times: times.update(ended="2026-01-31T23:30:00Z"))
    return folder


class Page:
    """The page that opmap writes of some bundles. `cells` has the texts of each table, by its title."""

    def __init__(self, *folders: str):
        assert 0 == main(["report", *folders, "-o", "page.html", "--force"])
        self.text = Path("page.html").read_text(encoding="utf-8")
        self.root = lxml_html.fromstring(self.text.encode())
        self.picture = self.root.find(".//svg")
        self.notes = [note.text_content() for note in self.root.findall(".//ul[@class='notes']/li")]

    def section(self, title: str):
        """Returns a section by its title."""
        return next(section for section in self.root.iter("section") if section.find("h2").text == title)

    def rows(self, title: str) -> list[dict[str, str]]:
        """Returns the rows of a table: the text of each cell by the name of its column."""
        header, *rows = self.section(title).iter("tr")
        names = [cell.text_content() for cell in header]
        return [dict(zip(names, (cell.text_content() for cell in row), strict=True)) for row in rows]

    def lines(self, title: str) -> list[str]:
        """Returns the lines below a table."""
        return [line.text for line in self.section(title).findall("p")]


@pytest.fixture
def wrong(bundles):
    """Returns the ids of the cases of `bad` that fail."""
    return [record["case"] for record in records(bundles / "bad") if record["verdict"] == "mismatch"]


class TestRuns:
    """A row and three bars per run."""

    def test_numbers(self, bundles, wrong):
        """The numbers of a row add up, and the picture has the same ones."""
        shutil.copytree("good", "odd")
        verdicts = dict(enumerate(["unsupported", "unsupported", "known-failure", "not-run"]))
        odd = [r | {"verdict": verdicts.get(n, r["verdict"])} for n, r in enumerate(records(bundles / "odd"))]
        write_records(bundles / "odd", odd)

        page = Page("good", "bad", "odd")

        all_, failed = len(records(bundles / "good")), len(wrong)
        columns = ("run", "result", "all", "passed", "failed", "known", "unsupported", "other")
        assert [
            ("1: good", "passed", all_, all_, 0, 0, 0, 0),
            ("2: bad", "failed", all_, all_ - failed, failed, 0, 0, 0),
            ("3: odd", "passed", all_, all_ - 4, 0, 1, 2, 1),
        ] == [(row["run"], row["result"], *(int(row[name]) for name in columns[2:])) for row in page.rows("Runs")]
        assert (
            f"failed: 0, {failed}, 0; unsupported: 0, 0, 2; passed: {all_}, {all_ - failed}, {all_ - 4}"
            == page.picture.get("aria-label")
        )
        bars = [(bar.get("class"), bar.getparent().findtext("title")) for bar in page.picture.iter("rect")]
        assert [
            ("failed", f"2: bad: {failed} failed"),
            ("unsupported", "3: odd: 2 unsupported"),
            ("passed", f"1: good: {all_} passed"),
            ("passed", f"2: bad: {all_ - failed} passed"),
            ("passed", f"3: odd: {all_ - 4} passed"),
        ] == bars

    def test_heights(self, bundles, wrong):
        """A bar is as high as its number, beside the highest of its row."""
        bars = [bar for bar in Page("good", "bad").picture.iter("rect") if bar.get("class") == "passed"]

        good, bad = (float(bar.get("height")) for bar in bars)
        whole = len(records(bundles / "good"))
        assert 48 == good
        assert (whole - len(wrong)) / whole == pytest.approx(bad / good, abs=0.01)
        assert float(bars[0].get("y")) + good == float(bars[1].get("y")) + bad

    def test_order(self, bundles):
        """The runs stand as they are given, and the head of the page is about the last one."""
        assert ["1: bad", "2: good"] == [row["run"] for row in Page("bad", "good").rows("Runs")]
        assert "passed" == Page("bad", "good").root.find(".//h1/span").text
        assert "failed" == Page("good", "bad").root.find(".//h1/span").text

    def test_facts(self, bundles):
        """Versions and drivers, as far as they are known."""

        def write(name: str, version: str | None, driver: str | None, **more: str) -> None:
            module = {"path": "C:\\x\\DirectML.dll", "file_version": version, "sha256": "1" * 64}
            drivers = {"GPU": version and "9.9", "CPU": "1.0"}
            adapters = [{"name": n, "driver_version": {"value": v, "source": "s"}} for n, v in drivers.items()]
            bundle = Bundle(name, {**GPU, "driver": driver, "package": "ort", "version": version, **more})
            bundle.environment({"loaded_modules": Fact([module], "m"), "adapters": Fact(adapters, "a")})
            bundle.complete([], 0)
            bundle.release()

        write("a", "1.1", None)
        write("nothing", None, None)
        write("b", "2.2", "31.1", ep_version="7")

        first, second = Page("a", "b").rows("Runs")

        facts = ("provider version", "EP version", "DirectML.dll", "driver")
        assert ["ort 1.1", "", "1.1 (SHA-256 111111111111)", "9.9"] == [first[name] for name in facts]
        assert ["ort 2.2", "7", "2.2 (SHA-256 111111111111)", "31.1"] == [second[name] for name in facts]
        shutil.copytree("nothing", "nobody")
        assert not {"EP version", "driver"} & Page("nothing", "nobody").rows("Runs")[0].keys()

    def test_times(self, bundles):
        """When a run ended, as far as that is known; a run that ended before the one above it is named."""
        for name, ended in {
            "later": "2026-02-01T01:15:00+01:00",
            "unknown": None,
            "first": "0001-01-01T12:00:00+23:00",
        }.items():
            shutil.copytree("bad", name)
            change_json(bundles / name / "times.json", lambda times, ended=ended: times.update(ended=ended))

        page = Page("good", "later", "unknown", "later/../bad", "first")

        times = [
            "2026-01-31 23:30+00:00",
            "2026-02-01 01:15+01:00",
            "",
            "2026-01-31 23:30+00:00",
            "0001-01-01 12:00+23:00",
        ]
        assert times == [row["ended"] for row in page.rows("Runs")]
        why = "It ended before the run above it: the runs do not stand in the order of time."
        assert [f"5: first: {why}"] == page.lines("Runs")

    def test_flaky(self, bundles, wrong):
        """Flaky cases are counted apart, and have bars of their own if there are some."""
        shutil.copytree("bad", "flaky")
        changed = [r | ({"verdict": "flaky"} if r["case"] == wrong[0] else {}) for r in records(bundles / "flaky")]
        write_records(bundles / "flaky", changed)

        page = Page("good", "flaky")

        shown = [(row["failed"], row["flaky"], row["passed"]) for row in page.rows("Runs")]
        assert [("0", "0", "6"), (str(len(wrong) - 1), "1", "1")] == shown
        assert "; flaky: 0, 1; unsupported: 0, 0; " in page.picture.get("aria-label")
        page = Page("good", "bad")
        assert not {"flaky", "known", "other"} & page.rows("Runs")[0].keys()
        assert "flaky" not in page.picture.get("aria-label")

    def test_not_ended(self, bundles, capsys):
        """A run that has not ended is said in the head, in its row and in its bars."""
        change_json(bundles / "bad" / "run.json", lambda run: run.update(totals=None))
        capsys.readouterr()

        page = Page("good", "bad")

        assert "bad: the run has not ended: more cases may fail\n" == capsys.readouterr().err.removeprefix("opmap: ")
        assert ["passed", "unfinished"] == [row["result"] for row in page.rows("Runs")]
        assert ["2: bad: The run has not ended: more cases may fail."] == page.lines("Runs")
        assert {"failed unfinished", "passed", "passed unfinished"} == {
            b.get("class") for b in page.picture.iter("rect")
        }
        assert "unfinished" == page.root.find(".//h1/span").text

    def test_gone(self, bundles):
        """Cases that a run lacks are counted: a cause may only seem to be fixed."""
        write_records(bundles / "bad", records(bundles / "bad")[2:])

        assert ["2: bad: Of the cases and probes of the run before, 2 are not there."] == Page("good", "bad").lines(
            "Runs"
        )
        assert [] == Page("bad", "good").lines("Runs")

    def test_emulated(self, bundles):
        """What holds for all runs is said once, in the head."""
        for name in ("good", "bad"):
            put_on(bundles / name, device_class="emulated")

        page = Page("good", "bad")

        assert (["A device is emulated: its results say nothing about the driver of a GPU."], []) == (
            page.notes,
            page.lines("Runs"),
        )

    def test_red_without_failures(self, bundles):
        """A run can be red although no case failed: its row and a line say so."""
        change_json(bundles / "good" / "run.json", lambda run: run.update(problems=["a known failure is out of date"]))
        put_on(bundles / "good")

        page = Page("good", "bad")

        assert "failed" == page.rows("Runs")[0]["result"]
        assert ["1: good: No case failed, but the run is red", "1: good: a known failure is out of date"] == [
            line.partition(":  ")[0].partition(": see")[0] for line in page.lines("Runs")
        ]


class TestCauses:
    """Each cause has its first and last run, and what became of it."""

    def test_first_and_last(self, bundles, wrong):
        """A cause that comes, goes and comes again is one row. It is counted where it is known."""
        for name in ("again", "unknown"):
            shutil.copytree("bad", name)
        (bundles / "unknown" / "diagnosis.json").unlink()

        page = Page("good", "bad", "unknown", "again")

        (row,) = page.rows("Causes")
        assert "the last element of the axis cannot be reached (as fault:index-clamped-early)" == row["cause"]
        assert ("2: bad", "4: again", "yes") == (row["first run"], row["last run"], row["still there"])
        assert ["", str(len(wrong)), "?", str(len(wrong))] == [row[f"run {n}"] for n in range(1, 5)]
        assert ["3: unknown: The causes of its failures are not known: there is no diagnosis.json."] == page.lines(
            "Runs"
        )

    @pytest.mark.parametrize(
        "verdict, diagnosis, there",
        [
            ("pass", True, "no"),
            ("observed", True, "no"),
            ("pass", False, "not known"),
            ("unsupported", True, "not known"),
            ("known-failure", True, "known failure"),
            ("skipped", True, "not known"),
            (None, True, "not known"),
        ],
    )
    def test_still_there(self, verdict, diagnosis, there, bundles, wrong):
        """A cause is gone only if one of its cases passes in the newest run, and the causes of that run are known."""
        if not diagnosis:
            (bundles / "good" / "diagnosis.json").unlink()
        of_cause = {"verdict": verdict}
        changed = [r | (of_cause if r["case"] in wrong else {"verdict": "crash"}) for r in records(bundles / "good")]
        write_records(bundles / "good", [record for record in changed if record["verdict"]])

        (row,) = Page("bad", "good").rows("Causes")

        assert (there, f"{len(wrong)} {verdict or 'not there'}", "" if diagnosis else "?") == (
            row["still there"],
            row["its cases in the newest run"],
            row["run 2"],
        )
        assert ("1: bad", "1: bad") == (row["first run"], row["last run"])

    @pytest.mark.parametrize(
        "others, there", [("crash", "not known"), ("mismatch", "not known"), ("unsupported", "no")]
    )
    def test_only_some_pass(self, others, there, bundles, wrong):
        """If one of its cases passes and another fails for another reason, nobody knows whether the cause is gone."""
        change_json(bundles / "good" / "diagnosis.json", lambda document: document.update(groups=[]))
        before = records(bundles / "bad" if others == "mismatch" else bundles / "good")
        passed = next(record for record in records(bundles / "good") if record["case"] == wrong[0])
        write_records(bundles / "good", [passed, *(r | {"verdict": others} for r in before if r["case"] in wrong[1:])])

        (row,) = Page("bad", "good").rows("Causes")

        assert (there, f"1 pass, {len(wrong) - 1} {others}") == (row["still there"], row["its cases in the newest run"])

    def test_green_without_diagnosis(self, bundles):
        """A run without failures has no cause, whether it has a diagnosis or not."""
        (bundles / "good" / "diagnosis.json").unlink()

        page = Page("bad", "good")

        assert ("no", "") == tuple(page.rows("Causes")[0][name] for name in ("still there", "run 2"))
        assert [] == page.lines("Runs")

    @pytest.mark.parametrize("ties, rows", [(["index-clamped-early"], 1), ([], 2)])
    def test_paired_as_in_diff(self, ties, rows, bundles):
        """What makes two causes one is said in one place: opmap.reports.diff. The newest one comes first."""
        shutil.copytree("bad", "other")

        def rename(document: dict) -> None:
            document["groups"][0]["relation"] |= {"fault": OTHER, "ties": ties, "text": "renamed"}

        change_json(bundles / "other" / "diagnosis.json", rename)

        shown = Page("bad", "other").rows("Causes")

        assert rows == len(shown)
        assert "2: other" == shown[0]["last run"]

    def test_several_conditions(self, bundles, wrong):
        """Causes with one relation are one cause, with the cases of all of them."""

        def split(document: dict) -> None:
            group = document["groups"][0]
            document["groups"] = [group | {"cases": 1, "ids": [id]} for id in wrong]

        change_json(bundles / "bad" / "diagnosis.json", split)

        (row,) = Page("good", "bad").rows("Causes")

        assert (f"{len(wrong)} mismatch", str(len(wrong))) == (row["its cases in the newest run"], row["run 2"])

    def test_none(self, bundles):
        """Without a failure there is no table."""
        shutil.copytree("good", "again")

        assert ["No run has a failure whose cause is known."] == Page("good", "again").lines("Causes")


class TestMerged:
    """Of a merged bundle the parts on the adapter count."""

    @pytest.mark.parametrize("here, there", [("good", "no"), ("bad", "not known")])
    def test_other_adapter(self, here, there, bundles, wrong):
        """The results of another adapter do not count, nor does its exit code. Their causes are not told apart."""
        shutil.copytree("bad", "elsewhere")
        change_json(bundles / "elsewhere" / "run.json", lambda run: run.update(problems=["a problem of that one"]))
        put_on(bundles / "elsewhere", adapter_name="another GPU")
        shutil.copytree(here, "here")
        passed = [record for record in records(bundles / "good") if record["case"] == wrong[0]]
        write_records(bundles / "here", [*passed, *(r for r in records(bundles / "here") if r["case"] != wrong[0])])
        assert 1 == main(["merge", "elsewhere", "here", "-o", "merged"])

        page = Page("bad", "here", "merged")

        _, alone, merged = page.rows("Runs")
        assert alone | {"run": merged["run"], "ended": ""} == merged
        (row,) = page.rows("Causes")
        assert (there, "" if here == "good" else "?") == (row["still there"], row["run 3"])
        why = "The causes of its failures are not known: the bundle has results of other devices too."
        assert ([] if here == "good" else [f"3: merged: {why}"]) == page.lines("Runs")

    def test_shards(self, bundles, wrong):
        """The shards of one run are one row; what is missing makes it red."""
        for number, name in enumerate(("one", "two"), 1):
            shutil.copytree("bad", name)
            write_records(bundles / name, records(bundles / name)[number - 1 :: 2])
            put_on(bundles / name, shard=f"{number}/3", driver=f"31.{number}")
            own = [record["case"] for record in records(bundles / name) if record["case"] in wrong]
            of_shard = {"cases": len(own), "ids": own}
            change_json(bundles / name / "diagnosis.json", lambda d, new=of_shard: d["groups"][0].update(new))
        assert 1 == main(["merge", "one", "two", "-o", "merged"])

        page = Page("bad", "merged")

        first, second = page.rows("Runs")
        assert (first["failed"], "31.1, 31.2") == (second["failed"], second["driver"])
        assert any(line.startswith("2: merged: missing: shard 2/3, 3/3") for line in page.lines("Runs"))
        assert ("yes", str(len(wrong))) == tuple(page.rows("Causes")[0][name] for name in ("still there", "run 2"))

    def test_red_merge(self, bundles):
        """A merged bundle in which something is missing is red, although its parts are green."""
        change_json(bundles / "good" / "run.json", lambda run: run["selection"].update(shard="1/2"))
        write_records(bundles / "good", records(bundles / "good"))
        assert 1 == main(["merge", "good", "-o", "merged"])

        assert ["passed", "failed"] == [row["result"] for row in Page("good", "merged").rows("Runs")]


class TestUse:
    """The command line: where the page goes, and what is refused."""

    def test_written(self, bundles, capsys):
        """The page goes into the current folder, over an own page, and over no foreign file."""
        for _ in range(2):
            capsys.readouterr()
            assert 0 == main(["report", "good", "bad"])
            assert "report: history.html\n" == capsys.readouterr().out
        Path("history.html").write_text("mine")
        assert 2 == main(["report", "good", "bad"])
        assert "mine" == Path("history.html").read_text()
        assert 0 == main(["report", "good", "bad", "--force"])
        assert not list(bundles.glob("*/history.html"))

    def test_inside_a_bundle(self, bundles, monkeypatch):
        """In the folder of a bundle too, again and again; its path is not on the page."""
        monkeypatch.chdir("good")

        assert [0, 0] == [main(["report", ".", "../bad"]) for _ in range(2)]
        page = Path("history.html").read_text(encoding="utf-8")
        assert "1: good" in page and str(bundles) not in page

    @pytest.mark.parametrize(
        "words, message",
        [
            ("good none", "none: must be the folder of a results bundle, got no such folder"),
            ("good page.html", "page.html: must be the folder of a results bundle, got a file"),
            ("good bad -o bad/results.jsonl --force", "must not be the file that is read"),
            ("good bad ./good", "good: must be another folder than good"),
            ("--verify good bad", "--verify must get one folder, got 2"),
            (
                "good bad elsewhere",
                "elsewhere: must have results of DmlExecutionProvider, GPU, hardware, as the bundles before it, got those "
                "of DmlExecutionProvider, another GPU, hardware: give bundles of one provider, adapter and device class",
            ),
            ("good emulated", "emulated: must have results of DmlExecutionProvider, GPU, hardware, as"),
            ("good another", "got those of fault:output-zero, GPU, hardware: give"),
            ("both too", "both: must have results of one device, got "),
            ("both good elsewhere", "elsewhere: must have results of DmlExecutionProvider, GPU, hardware, as"),
        ],
    )
    def test_refused(self, words, message, bundles, refusal, capsys):
        """One line, which says which bundle, what is wanted, and what it is instead; nothing is written."""
        changes = {
            "elsewhere": {"adapter_name": "another GPU"},
            "emulated": {"device_class": "emulated"},
            "another": {"provider": "fault:output-zero"},
        }
        for name, change in changes.items():
            if name in words or "both" in words:
                shutil.copytree("bad", name)
                put_on(bundles / name, **change)
        if "both" in words:
            main(["merge", "good", "elsewhere", "-o", "both"])
            shutil.copytree("both", "too")
        Path("page.html").write_text('<meta name="generator" content="opmap">')
        capsys.readouterr()

        assert message in refusal("report", *words.split())
        assert not Path("history.html").exists()

    def test_another_driver(self, bundles):
        """Drivers and versions may differ: they are what a history is about."""
        put_on(bundles / "bad", driver="32.0", version="9")

        assert ["31.0", "32.0"] == [row["driver"] for row in Page("good", "bad").rows("Runs")]

    def test_markup(self, bundles):
        """Every text is escaped, also the name of a folder; the page loads nothing."""
        name = "<script>alert(1)</script>".replace("/", "") if sys.platform != "win32" else "&amp"
        Path(name).mkdir()
        fields = planted(bundles / name)
        shutil.copytree(name, "copy")
        Path(name, "diagnosis.json").unlink()  # a line says so

        page = Page(name, "copy").text

        assert not re.search(r"<img|<!--|<script|<link|\ssrc=(?!x onerror)|url\(", page)
        assert html.escape(name) in page
        shown = fields_in(html.unescape(page))
        assert {"relation", "fault", "condition", "selection.provider", "selection.adapter_name", "problem"} <= shown
        assert {"selection.driver", "selection.version", "selection.package", "selection.tier"} <= shown & fields
