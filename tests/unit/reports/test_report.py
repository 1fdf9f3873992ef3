"""The report: what it says of a bundle, and that nothing from outside becomes markup."""

from __future__ import annotations

import dataclasses
import hashlib
import html
import json
import re
import shutil
from array import array
from base64 import b64encode

import msgspec
import pytest
from described import described
from planted_markup import diagnosis, fields_in, planted, side, smallest

from opmap.cases.case import Case
from opmap.cases.catalogue import generated
from opmap.cases.selection import find_case
from opmap.cases.variants import Check
from opmap.cli import main
from opmap.faults import open_fault
from opmap.judge.compare import explain
from opmap.judge.decide import _tensor_record
from opmap.judge.judge import Judge
from opmap.judge.record import Record
from opmap.mapping.dxdispatch import model_json
from opmap.reports import written_bundle
from opmap.reports.cause_view import describe_case
from opmap.reports.documents import Part, RunDocument, Totals
from opmap.reports.failure_folders import folder_name
from opmap.reports.heading import heading
from opmap.reports.html_report import write_report
from opmap.reports.report_groups import found_cases
from opmap.reports.report_matrix import MatrixCell, by_dimensions, place
from opmap.reports.report_picture import MOST_COLUMNS, MOST_ROWS, picture
from opmap.reports.report_support import support
from opmap.reports.written_bundle import read_bundle
from opmap.reports.wrong_elements import comparable_bits, wrong_elements
from opmap.spec import load_spec
from opmap.tensors import DataType, Tensor, plain
from opmap.vocabulary import Fate, Stage, Verdict

FAULT = "fault:negative-index-off-by-one"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The bundle of a run with a planted fault."""
    folder = tmp_path_factory.mktemp("bundle") / "ran"
    arguments = ["--filter", "gather/example.*", "--filter", "gather_elements/*32/*", "--provider", FAULT]
    assert main(["validate", *arguments, "--report", str(folder)]) == 1
    for name in ("diagnosis.json", "report.html"):
        (folder / name).unlink(missing_ok=True)
    return folder


@pytest.fixture
def bundle(ran, tmp_path):
    """A copy of that bundle, which a test may change."""
    return shutil.copytree(ran, tmp_path / "bundle")


def change_run(folder, **changes) -> None:
    """Changes keys of run.json; what `selection` and `totals` hold is added to what is there."""
    run = json.loads((folder / "run.json").read_text())
    for name in ("selection", "totals"):
        if run[name] is not None and changes.get(name, {}) is not None:
            changes[name] = {**run[name], **changes.get(name, {})}
    (folder / "run.json").write_text(json.dumps({**run, **changes}))


def report(folder) -> str:
    """Writes the report, and returns it."""
    return write_report(read_bundle(folder)).read_text(encoding="utf-8")


def text_of(page: str) -> str:
    """Returns the text of a page without its markup, in one line."""
    body = re.sub(r"<(style|script)[ >].*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", body)).split())


def data_of(page: str) -> dict:
    """Returns the data that the script of a page reads."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


class TestFirstLines:
    """What stands on top."""

    PASS = Record(case="gather/a", verdict=Verdict.PASS, provider="one", device_class="hardware")
    FAILED = Record(case="gather/b", verdict=Verdict.MISMATCH, provider="two", device_class="emulated")
    NOT_RUN = Record(case="gather/c", verdict=Verdict.NOT_RUN)

    @pytest.mark.parametrize(
        ("exit_code", "records", "verdict", "result", "says"),
        [
            (None, [PASS], "unfinished", "none failed", "The run has not ended"),
            (130, [PASS, FAILED], "unfinished", "1 failed, of 1 cause", "The run was interrupted"),
            (1, [PASS, FAILED], "failed", "1 failed, of 1 cause", ""),
            (0, [FAILED], "failed", "1 failed, of 1 cause", ""),
            (1, [PASS], "failed", "none failed", "No case failed, but the run is red"),
            (0, [PASS], "passed", "none failed", ""),
            (0, [NOT_RUN], "not run", "none was run", ""),
        ],
    )
    def test_verdict(self, exit_code, records, verdict, result, says):
        totals = None if exit_code is None else Totals({}, exit_code)
        first = heading(RunDocument(schema="", selection={}, totals=totals), records, sum(r.failed for r in records))

        assert (verdict, result) == (first.verdict, first.result)
        assert says in " ".join(first.notes)

    def test_where(self):
        """A merged run says on what all its parts ran."""
        run = RunDocument(schema="", selection={"driver": "1.2", "tier": "smoke"}, totals=Totals({}, 0))
        first = heading(run, [self.PASS, self.FAILED], 0)

        assert "one, two, driver 1.2, emulated and hardware devices" == first.where
        assert "2 cases of tier smoke" == first.tested
        assert "A device is emulated" in first.notes[0]

    def test_translated(self):
        """A translated device says nothing about Windows' driver, and is no emulated one."""
        run = RunDocument(schema="", selection={"device_class": "translated"}, totals=Totals({}, 0))
        first = heading(run, [self.PASS], 0)

        assert first.where.endswith("a translated device")
        assert [
            "A device is translated: its results hold for its Vulkan driver, not for its driver on Windows."
        ] == first.notes

    @pytest.mark.slow
    def test_page(self, bundle):
        """The page begins with it, and has the problems of the run."""
        change_run(bundle, problems=["an entry is out of date"], selection={"device_class": "emulated"})
        lines = (bundle / "results.jsonl").read_text(encoding="utf-8")
        emulated = lines.replace('"device_class":null', '"device_class":"emulated"')
        (bundle / "results.jsonl").write_text(emulated, encoding="utf-8")

        page = report(bundle)

        assert 'class="badge failed">failed<' in page
        records = len(read_bundle(bundle).records)
        title = text_of(re.search("<h1>.*?</h1>", page, re.DOTALL)[0])
        assert page.index('class="tested"') < page.index('class="cause"') < page.index('id="matrix"')
        assert "Show its 1 cases" not in page
        tested = text_of(re.search('<p class="tested">.*?</p>', page)[0])
        assert title.startswith(f"failed {records} cases of tier smoke: ")
        assert tested.startswith(f"Tested: {FAULT}, ") and "an emulated device" in tested
        assert "an entry is out of date" in text_of(page)

    def test_errata(self, bundle):
        """The errata of the run's operators are listed, and of no other one."""
        listed = set(re.findall(r'<th scope="row">(\w+\.E\d+)</th>', report(bundle)))

        assert {erratum.id for name in ("GATHER", "GATHER_ELEMENTS") for erratum in load_spec(name).errata} == listed


class TestGroups:
    """The causes."""

    def test_of_the_records(self, bundle):
        """Without diagnosis.json the groups are computed; the command that runs the smallest case again runs it."""
        page = report(bundle)
        failed = sum(record.failed for record in read_bundle(bundle).records)
        again = html.unescape(re.search(r'class="again">.*?<code>(.*?)</code>', page)[1])

        assert "a negative index means the element before the right one" in page
        assert f"Show its {failed} cases" in page
        assert again.startswith(f"opmap validate --provider {FAULT} --case gather")
        assert main(again.split()[1:]) == 1

    def test_of_the_diagnosis(self, bundle):
        """What diagnosis.json says is shown as it is; the folder of a reproducer is linked if it is there."""
        found = diagnosis(
            stability="after",
            stability_text="fails after another",
            condition={"text": "DimensionCount >= 5", "any": []},
            again="opmap so",
            side=side(text="the EP"),
            ids=["gather/example.1"],
        )
        (bundle / "diagnosis.json").write_text(json.dumps(found))
        (bundle / "failures" / folder_name("gather/example.1")).mkdir(parents=True)

        page = report(bundle)
        rows = data_of(page)

        for said in ("the rule", "5 of 6 wrong", "fails after another", "DimensionCount >= 5", "opmap so", "the EP"):
            assert said in text_of(page)
        assert f'href="failures/{folder_name("gather/example.1")}/"' in page
        assert [row[0] for row in rows["rows"] if rows["words"][row[8]] == "1"] == ["gather/example.1"]

    def test_no_relation(self, bundle):
        """A cause without a relation shows the closest one."""
        (group,) = (found := diagnosis())["groups"]
        group["relation"] |= {
            "text": "no relation found",
            "ties": ["index-ignored"],
            "remark": "the closest is another rule",
        }
        (bundle / "diagnosis.json").write_text(json.dumps(found))
        assert "Closest relationthe closest is another rule" in text_of(report(bundle))

    def test_a_case_that_is_in_no_catalogue(self, bundle):
        """The picture of a case that was made smaller is drawn of the model in diagnosis.json."""
        case = find_case("gather/example.1")
        model = {**model_json("shrunk", case.desc, case.tensors)}
        found = diagnosis(smallest=smallest(case="shrunk", dxdispatch=model, message="it differs"))
        (bundle / "diagnosis.json").write_text(json.dumps(found))

        page = report(bundle)

        assert f"input[0] = {plain(case.tensors['InputTensor'].values[0])}" in page
        assert "it differs" in page
        assert "there is no output that could be compared" in page

    def test_output_of_a_case_that_is_in_no_catalogue(self, bundle):
        """The picture shows the wrong output that diagnosis.json holds."""
        case = find_case("gather/example.1")
        bits = [f"{b:08x}" for b in case.expected]
        actual = {"DataType": "FLOAT32", "Sizes": [5], "Values": None, "Bits": [bits[1], *bits[1:]]}
        model = {**model_json("shrunk", case.desc, case.tensors)}
        found = diagnosis(smallest=smallest(case="shrunk", dxdispatch=model, actual=actual))
        (bundle / "diagnosis.json").write_text(json.dumps(found))

        assert "1 of 5 elements are wrong" in report(bundle)

    def test_most_groups(self, bundle, monkeypatch):
        monkeypatch.setattr("opmap.reports.report_groups.MOST_GROUPS", 2)
        found = diagnosis()
        found["groups"] *= 5
        (bundle / "diagnosis.json").write_text(json.dumps(found))

        page = report(bundle)

        overview = text_of(re.search('<table class="overview">.*?</table>', page, re.DOTALL)[0])
        assert page.count('<article class="cause"') == 2
        assert page.index('class="cause"') < page.index('class="overview"') < page.index('id="cause-2"')
        assert "%" in overview and overview.endswith("not asked")
        assert "3 more causes are left out" in page


class TestPicture:
    """The picture of a case."""

    def test_marks(self):
        """The wrong element, the one that was read instead and the right one are marked."""
        case = find_case("gather_elements/float32/d1.axis0/int64.neg/addr.8ae7f3")
        data = case.tensors["InputTensor"]
        drawn = picture(case, [data.bits[1]])
        marks = {
            (grid.title.split("  ")[0], a): c.mark for grid in drawn.grids for a, c in grid.cells.items() if c.mark
        }

        assert {
            ("input", 1): "read",
            ("input", 2): "source",
            ("indices", 0): "used",
            ("expected output", 0): "right",
            ("actual output", 0): "wrong",
        } == marks

    @pytest.mark.parametrize(
        ("case_id", "marks"),
        [
            ("reduce/example.1", {"input": {0: "operand", 3: "operand", 6: "operand"}}),
            ("argmax/example.1", {"input": {0: "operand", 3: "operand", 6: "operand"}}),
            ("top_k/example.1", {"input": {0: "operand", 1: "operand", 2: "operand", 3: "source"}}),
            ("max_pooling/example.1", {"input": dict.fromkeys((0, 1, 4, 5), "operand")}),
            (
                "convolution_integer/example.3",
                {
                    "input": {0: "operand", 1: "operand"},
                    "inputZeroPoint": {0: "operand"},
                    "filter": {0: "operand", 1: "operand"},
                },
            ),
            ("element_wise_if/example.1", {"condition": {0: "used"}, "a": {0: "source"}, "b": {}}),
            ("gather_nd/example.1", {"input": {2: "source"}, "indices": {0: "used"}}),
        ],
    )
    def test_operands(self, case_id, marks):
        """Each element that a computed value is computed from is marked, and no other."""
        case = find_case(case_id)

        inputs = picture(case, [bits ^ 1 for bits in case.expected]).grids[:-2]

        assert marks == {g.title.split("  ")[0]: {a: c.mark for a, c in g.cells.items() if c.mark} for g in inputs}

    @pytest.mark.parametrize(
        ("data_type", "expected", "actual", "drawn", "whole"),
        [
            (DataType.FLOAT32, 0x7FA00001, 0x7FE00001, ["NaN 7fa00001", "NaN 7fe00001"], "NaN 7fe00001"),
            (DataType.FLOAT64, 0x7FF4E00000000001, 0, ["NaN 7f…00001", "0.0"], "0.0"),
            (DataType.FLOAT64, 0x3FF5555555555555, 0x8000000000000000, ["1.3333", "-0.0"], "-0.0"),
            (DataType.UINT64, 2**64 - 1, 7, ["184467…51615", "7"], "7"),
            (DataType.INT8, 0xFF, 0x80, ["-1", "-128"], "-128"),
        ],
    )
    def test_values(self, data_type, expected, actual, drawn, whole):
        """Values are short; two that are different never look alike: a NaN has its bits."""
        desc = described("GATHER", (1,), (1,), 0, 1, data_type=data_type, index_type=DataType.INT32)
        tensors = {
            "InputTensor": Tensor(data_type, (1,), [expected]),
            "IndicesTensor": Tensor(DataType.INT32, (1,), [0]),
        }

        grids = picture(Case("one", desc, tensors), [actual]).grids[-2:]

        assert drawn == [grid.cells[0].text for grid in grids]
        assert f"actual output[0] = {whole}" == grids[1].cells[0].full

    def test_large_tensors_are_cut(self):
        """A part is drawn that has the wrong element and the one that was read, and a note says how large it is."""
        desc = described("GATHER", (50, 40), (1, 50), 0, 1, data_type=DataType.INT32, index_type=DataType.INT32)
        data = Tensor(DataType.INT32, (50, 40), list(range(2000)))
        indices = Tensor(DataType.INT32, (1, 50), list(range(50)))
        case = Case("large", desc, {"InputTensor": data, "IndicesTensor": indices})
        actual = list(range(2000))
        actual[1234], actual[1999] = 777, 1

        drawn = picture(case, actual)
        grids = {grid.title.split("  ")[0]: grid for grid in drawn.grids}

        assert all(len(grid.cells) <= MOST_ROWS * MOST_COLUMNS for grid in drawn.grids)
        assert "wrong" == grids["actual output"].cells[1234].mark
        assert "right" == grids["expected output"].cells[1234].mark
        assert {1: "read", 777: "read", 1234: "source"} == {
            a: c.mark for a, c in grids["input"].cells.items() if c.mark
        }
        assert [*grids["expected output"].cells] == [*grids["actual output"].cells], "both show the same part"
        assert "48 of 2000 elements are shown" == grids["input"].note
        assert ["0", "1"] == [row.label.partition(",")[0] for row in grids["input"].rows][:2]
        assert "⋮" in [row.label for row in grids["input"].rows]


class TestMatrix:
    """The matrix of operators, types and dimensions."""

    def test_every_case_is_counted_once(self, bundle):
        records = read_bundle(bundle).records
        cases = found_cases((record.case for record in records), "smoke")
        by_case = [place(record, cases[record.case]) for record in records]
        by_id = [place(record, None) for record in records]
        named = [
            (one, other) for one, other, r in zip(by_case, by_id, records, strict=True) if "/example." not in r.case
        ]

        operators = by_dimensions(by_case, records)
        assert len(records) == sum(one.total["cases"] for one in operators)
        assert all(
            one.total["cases"] == sum(cell["cases"] for cells in one.rows.values() for cell in cells)
            for one in operators
        )
        failed = [one.total["failed"] for one in by_dimensions(by_case, records)]
        assert sum(record.failed for record in records) == sum(failed) > 0
        assert failed[0] and not failed[-1], "those with failures come first"
        assert all(one == other for one, other in named)

    @pytest.mark.parametrize(
        ("data_type", "index_type", "dimensions", "level"),
        [
            ("FLOAT64", "INT64", "2", "4_1"),
            ("FLOAT32", "INT64", "2", "3_0"),
            ("FLOAT32", "UINT32", "4", "1_0"),
            ("?", "UINT32", "4", "?"),
            ("FLOAT32", "UINT32", "9", "?"),
        ],
    )
    def test_level(self, data_type, index_type, dimensions, level):
        """A case stands at the first feature level at which the page documents its types and dimensions."""
        case = f"gather/{data_type.lower()}/d{dimensions}.axis0.k1/{index_type.lower()}.neg/addr.0"
        record = Record(case=case, operator="DML_OPERATOR_GATHER", verdict=Verdict.PASS)

        assert MatrixCell("GATHER", data_type, dimensions, index_type, level) == place(record, None)


class TestSupport:
    """The picture of what a provider supports."""

    def picture(self, *ended, data_type="FLOAT64", operator="GATHER", levels=("4_1",)):
        """Returns the picture of cases that ended in this way: a verdict, or a verdict and more keys of the record."""
        place = MatrixCell(operator, data_type, "2", "INT64", "4_1")
        records = [
            Record(case=f"case/{number}", verdict=one[0], **dict(one[1:]))
            for number, one in enumerate((one,) if isinstance(one, Verdict) else one for one in ended)
        ]
        runs = [Part(selection={"feature_level": level}, records=1) for level in levels]
        run = RunDocument(schema="", selection={}, parts=runs)
        return support(run, [place] * len(records), records)

    def pair(self, *ended, **where):
        shown = self.picture(*ended, **where)
        (row,) = shown.rows.values()
        return row[shown.data_types.index(where.get("data_type", "FLOAT64"))]

    @pytest.mark.parametrize(
        ("ended", "shown", "number", "accepted"),
        [
            ([Verdict.PASS, Verdict.PASS], "passed", "2", 2),
            ([Verdict.PASS, Verdict.OBSERVED, Verdict.NOT_EXPRESSIBLE], "passed", "1", 2),
            ([Verdict.PASS, (Verdict.UNSUPPORTED, ("stage", Stage.MAP))], "passed", "1", 1),
            ([Verdict.PASS, (Verdict.PASS, ("fate", Fate.CPU))], "passed", "1", 1),
            ([Verdict.PASS, Verdict.MISMATCH], "failed", "1 of 2", 2),
            ([Verdict.PASS, Verdict.UNEXPECTED_PASS], "failed", "1 of 2", 2),
            ([(Verdict.MISMATCH, ("fate", Fate.CPU))], "failed", "1 of 1", 1),
            ([Verdict.FALLBACK], "failed", "1 of 1", 0),
            ([(Verdict.ERROR, ("stage", Stage.LOAD))], "failed", "1 of 1", 0),
            ([(Verdict.CRASH, ("stage", Stage.LOAD))], "failed", "1 of 1", 0),
            ([(Verdict.ERROR, ("stage", Stage.RUN))], "failed", "1 of 1", 1),
            ([Verdict.PASS, (Verdict.UNSUPPORTED, ("stage", Stage.LOAD))], "partly", "1 of 2", 1),
            ([Verdict.PASS, Verdict.KNOWN_FAILURE], "partly", "1 of 2", 2),
            ([Verdict.PASS, Verdict.SKIPPED], "partly", "1 of 2", 1),
            ([Verdict.PASS, Verdict.NOT_RUN], "partly", "1 of 2", 1),
            ([Verdict.OBSERVED], "partly", "0 of 1", 1),
            ([(Verdict.OBSERVED, ("stage", Stage.RUN))], "refused", "0 of 1", 0),
            ([(Verdict.UNSUPPORTED, ("stage", Stage.LOAD))], "refused", "0 of 1", 0),
            ([(Verdict.UNSUPPORTED, ("stage", Stage.RUN))], "refused", "0 of 1", 0),
            ([(Verdict.KNOWN_FAILURE, ("stage", Stage.LOAD))], "refused", "0 of 1", 0),
            ([Verdict.NOT_RUN], "untried", "0 of 1", 0),
            ([Verdict.NOT_EXPRESSIBLE], "untried", "", 0),
            ([(Verdict.UNSUPPORTED, ("stage", Stage.MAP))], "untried", "", 0),
        ],
    )
    def test_classes(self, ended, shown, number, accepted):
        """FLOAT64 of GATHER is documented from 4_1 on."""
        pair = self.pair(*ended)

        assert (True, shown, number, accepted) == (pair.documented, pair.shown.name, pair.number, pair.accepted)

    @pytest.mark.parametrize(
        ("ended", "where", "documented", "sign"),
        [
            ([(Verdict.UNSUPPORTED, ("stage", Stage.VALIDATE))], {"levels": ["3_0"]}, False, "·"),
            ([Verdict.PASS], {"levels": ["3_0"]}, False, "✓*"),
            ([Verdict.NOT_RUN], {"levels": ["3_0"]}, False, "·"),
            ([(Verdict.UNSUPPORTED, ("stage", Stage.LOAD))], {"levels": ["3_0"]}, False, "○*"),
            ([Verdict.PASS], {"levels": [None]}, True, "✓"),
            ([Verdict.MISMATCH], {"levels": ["3_0", "4_1"]}, True, "✗"),
            ([Verdict.PASS], {"levels": ["3_0"], "data_type": "FLOAT32"}, True, "✓"),
            ([Verdict.NOT_EXPRESSIBLE], {"data_type": "?"}, None, "·"),
            ([Verdict.PASS], {"operator": "ONNX Gather"}, None, "✓"),
        ],
    )
    def test_documented(self, ended, where, documented, sign):
        """The highest feature level of the runs decides; without one it is the newest."""
        pair = self.pair(*ended, **where)

        assert (documented, sign) == (pair.documented, pair.sign)

    def test_no_case(self):
        """A pair that is documented has a cell, too; one that no operator of the run has is left out."""
        shown = self.picture(Verdict.PASS, levels=["3_0"])
        signs = {type: pair.shown.sign for type, pair in zip(shown.data_types, shown.rows["GATHER"], strict=True)}

        assert {"FLOAT32", "FLOAT16", "UINT32", "UINT16", "UINT8", "INT32", "INT16", "INT8", "FLOAT64"} == {*signs}
        assert {"FLOAT64": "✓"} == {type: sign for type, sign in signs.items() if sign != "\N{EN DASH}"}

    def test_text(self):
        """It counts the documented pairs, and says it of other ones."""
        assert (
            "Of the operators of this run, DirectML documents 11 pairs of operator and data type at feature level 4_1; "
            "the provider accepted 1, 0 passed wholly, 1 with failures."
        ) == self.picture(Verdict.PASS, Verdict.MISMATCH).text
        assert self.picture(Verdict.PASS, levels=["3_0"]).text.endswith(
            "documents 8 pairs of operator and data type at feature level 3_0; the provider accepted 0, 0 passed wholly, "
            "0 with failures. Of other pairs, the provider accepted 1, 1 passed wholly, 0 with failures."
        )

    def test_words(self):
        pair = self.pair(Verdict.PASS, Verdict.PASS, Verdict.MISMATCH, Verdict.NOT_EXPRESSIBLE)

        assert "documented; 3 of 3 accepted; 2 pass, 1 mismatch, 1 not-expressible" == pair.words

    def test_page(self, bundle):
        """The page has the cells, the level, and the same numbers as data; a failed cell filters by failures."""
        change_run(bundle, selection={"feature_level": "2_0"})
        records = read_bundle(bundle).records

        page = report(bundle)
        section = re.search('<section id="support">.*?</section>', page, re.DOTALL)[0]
        filters = [json.loads(html.unescape(text)) for text in re.findall("data-filter='(.*?)'", section)]
        data = data_of(page)["support"]
        rows = [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]

        assert "Feature level 2_0 is the one" in text_of(section) and "at feature level 2_0;" in text_of(section)
        assert "✗*" in section and "✓ " in text_of(section), "GATHER_ELEMENTS came with 2_1"
        assert "2_0" == data["level"]
        assert len(records) == sum(row["cases"] for row in rows)
        assert sum(record.failed for record in records) == sum(row["failed"] for row in rows) > 0
        failed = [(row["operator"], row["data_type"]) for row in rows if row["shown"] == "failed"]
        assert failed == [(one["operator"], one["data_type"]) for one in filters if one.get("failed") == "yes"]
        assert {"yes", "no"} <= {*data_of(page)["words"]}

    def test_unknown_level(self, bundle):
        """A feature level that opmap does not know is named, and is no markup; the newest one is shown."""
        change_run(bundle, selection={"feature_level": "<img>"})

        page = report(bundle)

        assert "Feature level 6_4: the runs of the bundle name <img>; this is" in text_of(page)
        assert "<img>" not in page


NOT_SHOWN = "record.file record.rule nodes path_proof lowered_as expected dxdispatch after ids relation.kind feature flips left_out"
"""The planted fields that the page has no place for."""


class TestFromOutside:
    """Texts from outside stay texts, and the page stays alone."""

    def test_markup(self, tmp_path):
        """Every text is escaped, and none is lost."""
        fields = planted(tmp_path)

        page = report(tmp_path)

        assert not re.search("<img|<!--", page)
        assert 2 == page.count("</script>") == page.count("<script")
        assert {*NOT_SHOWN.split()} == fields - fields_in(html.unescape(page)) - fields_in(
            str(data_of(page)["rows"])
        ) - (fields_in("".join(data_of(page)["words"])))

    def test_data(self, tmp_path):
        """The texts of a record reach the script as they are."""
        planted(tmp_path)
        record = json.loads((tmp_path / "results.jsonl").read_text())

        data = data_of(report(tmp_path))

        assert [record["case"], record["message"]] == data["rows"][0][:2]
        assert record["substitutions"][0] in data["words"][data["rows"][0][-1]]

    def test_alone(self, bundle):
        """The page loads nothing, and its policy allows its own style and script only."""
        page = report(bundle)
        (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
        (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
        digests = [b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]

        assert not re.search(r"<link|<iframe|\ssrc=|@import|url\(|fetch\(|\sstyle=|\son\w+=", page)
        assert (
            f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'"
            in html.unescape(page)
        )


class TestRefused:
    """A bundle that is too large, and a file that cannot be written; test_merge has the broken ones."""

    def refusal(self, capsys, *arguments) -> str:
        """Returns the one line that a command prints."""
        assert 2 == main(["report", *map(str, arguments)])
        (line,) = capsys.readouterr().err.splitlines()
        return line

    def test_most_records(self, bundle, capsys, monkeypatch):
        monkeypatch.setattr(written_bundle, "MAX_RECORDS", 3)

        assert "results.jsonl: must have at most 3 lines" in self.refusal(capsys, bundle)


class TestWritten:
    """Where the report goes."""

    def test_unfinished_line(self, bundle):
        """A record that was not written to its end, before the run was killed, is left out."""
        lines = (bundle / "results.jsonl").read_bytes().splitlines(keepends=True)
        (bundle / "results.jsonl").write_bytes(b"".join(lines[:5]) + lines[5][:40])
        change_run(bundle, totals=None)

        assert 5 == len(data_of(report(bundle))["rows"])

    def test_failures_come_first(self, bundle):
        data = data_of(report(bundle))
        verdicts = [data["words"][row[2]] for row in data["rows"]]

        assert verdicts == sorted(verdicts, key=lambda verdict: verdict == "pass")
        assert {"pass", "mismatch"} == set(verdicts)


class TestLargeOutputs:
    """An output that is too large to be listed in a record."""

    @pytest.fixture
    def case(self):
        """Gives a case with 12,000 elements of output."""
        desc = described("GATHER", (300, 40), (1, 300), 0, 1, data_type=DataType.INT32, index_type=DataType.INT32)
        data = Tensor(DataType.INT32, (300, 40), list(range(12000)))
        return Case(
            "large", desc, {"InputTensor": data, "IndicesTensor": Tensor(DataType.INT32, (1, 300), list(range(300)))}
        )

    def record(self, case, actual):
        """Returns the record of this output."""
        wrong = [at for at, (a, e) in enumerate(zip(actual, case.expected, strict=True)) if a != e]
        return _tensor_record(case.desc.output, array("I", actual), wrong)

    def test_few_wrong_elements(self, case):
        """The record gives the whole output back; the digest proves it."""
        actual = [*range(12000)]
        actual[7], actual[11999] = 5, 6

        record = self.record(case, actual)

        assert record.Bits is None
        assert actual == comparable_bits(case, record)
        assert ["output[0, 7]", "output[299, 39]"] == [row[0] for row in wrong_elements(case, record).rows]
        assert comparable_bits(case, msgspec.structs.replace(record, Digest="0" * 64)) is None

    def test_many_wrong_elements(self, case):
        """The first ones are shown, and nothing is said about the others."""
        record = self.record(case, [0] * 12000)

        shown = wrong_elements(case, record)

        assert comparable_bits(case, record) is None
        assert "output[0, 1]" == shown.rows[0][0] and "holds its first wrong elements" in shown.lines[0]

    @pytest.mark.parametrize(
        "difference",
        [{}, {"element": 10**9, "Bits": "0"}, {"element": [], "Bits": None}, {"element": 1, "Bits": "f" * 99}],
    )
    def test_from_elsewhere(self, difference, case):
        """A difference that is none is no output."""
        record = msgspec.structs.replace(self.record(case, [0] * 12000), Differences=[difference])

        assert comparable_bits(case, record) is None and wrong_elements(case, record) is None


@pytest.mark.parametrize(
    "start", ["join/float16/d2.n1.axis1/-/special.f240ac", "scatter/example.1", "gather/example.1"]
)
def test_must_be(start):
    """The column `must be` has the right side of the documented line, although coordinates on its left have a ` = `
    too.
    """
    case = find_case(start)
    section = wrong_elements(case, Judge(open_fault("output-zero"))(case).actual)
    assert section is not None
    documented = [row[1] for row in section.rows]
    assert all(text.count("[") == text.count("]") and text for text in documented), documented


def test_the_numbers_of_a_case_are_those_of_the_page():
    """A scalar is a number of its data type, an enumeration its name, an array in braces."""
    words = describe_case(find_case("fill_value_sequence/example.2"))
    assert words.endswith("OutputTensor UINT8 {1,1,2,2}, ValueDataType UINT8, ValueStart 10, ValueDelta 254")
    words = describe_case(find_case("padding1/example.1"))
    assert "PaddingMode CONSTANT" in words and "StartPadding {" in words


def test_the_strides_of_a_case():
    """Strides that are not packed are named: without them, a transposed input looks like a copy."""
    case = find_case("element_wise_identity/example.1")
    assert "strides" not in describe_case(case)
    tensor = case.desc.input_tensor
    permuted = dataclasses.replace(tensor, sizes=(2, 3), strides=(1, 2))
    desc = case.desc.replace(input_tensor=permuted, output_tensor=dataclasses.replace(tensor, sizes=(2, 3)))
    case = generated(desc, "", "addr")
    assert f"InputTensor {tensor.data_type.name} {{2,3}} strides {{1,2}}" in describe_case(case)
    wrong = [bits ^ 1 for bits in case.expected]
    titles = [grid.title for grid in picture(case, wrong).grids]
    assert [True, False, False] == [title.endswith("{2,3} strides {1,2}") for title in titles]
    output = Tensor(tensor.data_type, (2, 3), wrong)
    example = explain(Check(desc.output_field, case.inputs, "", case.expected, output), [0])
    assert example.endswith("sizes input {2,3} strides {1,2}, output {2,3}")
