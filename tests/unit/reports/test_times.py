"""How long cases took: a file of the bundle, the slowest ones in the report, the newly slow ones in `opmap diff`."""

from __future__ import annotations

import json
import re

import pytest
from bundle_folders import check_bundle, validate

from opmap.cli import main
from opmap.judge.record import Record
from opmap.reports.bundle import Bundle
from opmap.reports.html_report import write_report
from opmap.reports.times import newly_slow, slowest, timed
from opmap.reports.written_bundle import read_bundle
from opmap.vocabulary import Verdict

EXAMPLES = ["--provider", "cpu", "--filter", "gather/example.*"]
IDS = [f"gather/example.{n}" for n in range(1, 6)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Returns a folder with the bundles `old` and `new` of one run."""
    folder = tmp_path_factory.mktemp("bundles")
    for name in ("old", "new"):
        validate(folder / name, *EXAMPLES)
    return folder


def write_times(folder, *seconds: float) -> None:
    """Writes the times of the five examples."""
    document = {"schema": "opmap-times/1", "seconds": dict(zip(IDS, seconds, strict=True))}
    (folder / "times.json").write_text(json.dumps(document), encoding="utf-8")


def slow(capsys) -> list[dict]:
    """Returns the newly slow cases of `new`."""
    capsys.readouterr()
    assert 0 == main(["diff", "old", "new", "--json"])
    return json.loads(capsys.readouterr().out)["slow"]


class TestBundle:
    """The file times.json."""

    def test_written(self, bundles):
        """It has a time for each case; the records have none, so that two runs have the same."""
        times = json.loads((bundles / "old" / "times.json").read_bytes())["seconds"]

        assert set(IDS) == times.keys() and all(0 < seconds < 600 for seconds in times.values())
        assert (bundles / "old" / "results.jsonl").read_bytes() == (bundles / "new" / "results.jsonl").read_bytes()
        check_bundle(bundles / "old")

    def test_resumed(self, tmp_path):
        """The times of an earlier end are kept while the run goes on; those of other cases are not."""
        records = [Record(case=case, verdict=Verdict.PASS) for case in IDS]
        first = Bundle(tmp_path, {}, ids=IDS)
        first.add(records[0], 1.5)
        first.complete(records[:1], 130)
        first.write_reports(records[:1])
        first.release()
        times = json.loads((tmp_path / "times.json").read_bytes())
        times["seconds"]["other"] = 1
        (tmp_path / "times.json").write_text(json.dumps(times), encoding="utf-8")

        again = Bundle(tmp_path, {}, ids=IDS, resume=True)
        assert not (tmp_path / "times.json").exists()
        again.add(records[1], 0.25)
        again.complete(records[:2], 0)
        again.write_reports(records[:2])
        again.release()

        assert {IDS[0]: 1.5, IDS[1]: 0.25} == json.loads((tmp_path / "times.json").read_bytes())["seconds"]

    @pytest.mark.parametrize(
        "content", ["{", '{"schema":"opmap-times/2","seconds":{}}', '{"schema":"opmap-times/1","seconds":{"a":-1}}']
    )
    def test_spoilt(self, content, bundles, capsys):
        """A broken file, another schema and a negative time are one line and exit code 2."""
        (bundles / "old" / "times.json").write_text(content, encoding="utf-8")
        capsys.readouterr()

        assert 2 == main(["report", "old"])

        assert re.fullmatch(r".*times\.json: .*\n", capsys.readouterr().err)


class TestReport:
    """The slowest cases in the report."""

    def test_slowest(self, bundles):
        write_times(bundles / "old", 0.1, 2.5, 0.2, 0.3, 0.1)

        section = write_report(read_bundle("old")).read_text(encoding="utf-8").partition('<section id="slowest">')[2]

        rows = re.findall(r"<tr><td><code>(.*?)</code></td><td>plain</td>(.*?)</tr>", section)
        assert [IDS[1], IDS[3], IDS[2], IDS[0], IDS[4]] == [case for case, _ in rows]
        assert ["2.500", "0.200", "12"] == re.findall(r">([\d.]+)<", rows[0][1])

    def test_unknown(self, bundles):
        """A bundle without times says so."""
        (bundles / "old" / "times.json").unlink()

        assert "The bundle does not say it: a run writes <code>times.json</code>" in write_report(
            read_bundle("old")
        ).read_text(encoding="utf-8")


class TestDiff:
    """The newly slow cases."""

    def test_newly_slow(self, bundles, capsys):
        """A case that is slower beside the others is named in each form; that alone is not worse."""
        write_times(bundles / "old", 0.1, 0.1, 0.1, 0.1, 0.1)
        write_times(bundles / "new", 0.2, 2.0, 0.2, 0.2, 0.2)

        assert [{"case": IDS[1], "old": 0.1, "new": 2.0, "ratio": 10.0}] == slow(capsys)
        for arguments in ([], ["--markdown"]):
            main(["diff", "old", "new", *arguments])
            assert f"{IDS[1]}: 0.100 s -> 2.000 s, 10 times as slow" in capsys.readouterr().out

    @pytest.mark.parametrize(
        "new",
        [
            pytest.param((10, 10, 10, 10, 10), id="slower machine"),
            pytest.param((0.1, 0.9, 0.1, 0.1, 0.1), id="short"),
            pytest.param((0.5, 2.0, 0.5, 0.5, 0.5), id="a little"),
        ],
    )
    def test_not_slow(self, new, bundles, capsys):
        """A machine that is slower as a whole, a short case, and a small change say nothing."""
        write_times(bundles / "old", 0.1, 0.1, 0.1, 0.1, 0.1)
        write_times(bundles / "new", *new)

        assert [] == slow(capsys)

    def test_unknown(self, bundles, capsys):
        """Without times on one side nothing is said."""
        (bundles / "old" / "times.json").unlink()
        write_times(bundles / "new", 0.1, 9, 0.1, 0.1, 0.1)

        assert [] == slow(capsys)


def test_of_variant():
    """Each variant has its own median, so that a variant that is slow as a whole has no slow case."""
    times = timed({"a": 1, "b": 3, "c": 9, "lost": 5}, [("a", "plain"), ("b", "plain"), ("c", "loop"), ("d", "plain")])

    assert {"a": 2, "b": 2, "c": 9} == {case: one.median for case, one in times.items()}
    assert ["c", "b"] == [one.case for one in slowest(times, 2)]


def test_zero():
    """A clock that does not tell short times breaks nothing."""
    variants = [(case, "plain") for case in "abc"]
    old, new = (timed({"a": seconds, "b": 0, "c": 0}, variants) for seconds in (0, 3))

    assert ["a"] == [now.case for _, now in newly_slow(old, new)]
