"""The known defects that opmap ships: the data, where they count, and the command `opmap known`."""

from __future__ import annotations

import itertools
import json
import re
import runpy
import sys
from contextlib import nullcontext
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from known_entries import given
from packaging.specifiers import SpecifierSet
from tiers import all_cases

from opmap import SessionOptions, ValidationRun
from opmap.cases.case import Case
from opmap.cases.contract_probes import contract_probes
from opmap.cases.probes import probes
from opmap.cli import main
from opmap.diagnosis.versions import by_onnxruntime
from opmap.engines.arrays import list_of
from opmap.engines.expectations import perform_steps
from opmap.engines.performer import Performer
from opmap.engines.protocol import Placement
from opmap.engines.providers import Provider
from opmap.engines.sessions import CPU, DIRECTML, SessionProvider
from opmap.engines.steps import Concurrent, Examine, Open, Put, Result, Run, RunBound, Update
from opmap.judge import contract
from opmap.judge.record import Record
from opmap.known import KINDS, defects, shipped_failures
from opmap.known.known_failures import ActiveFailures, Environment, applies, problems
from opmap.manual import read_page
from opmap.reports.known_defects import COLUMNS, find_item, reproducer, rows, table
from opmap.vocabulary import Stage, Verdict

DEFECTS = {defect.id: defect for defect in defects()}
RIG = Environment(
    provider=DIRECTML,
    package="onnxruntime-directml",
    onnxruntime="1.24.4",
    device_class="emulated",
    adapter="llvmpipe",
    feature_level="5_0",
)
FED = "gather/example.3/fed-data"
IGNORED = "the output is the one for the model's defaults, and the fed values are ignored; 6 of 6 elements differ"

VERDICTS = {
    "silent": {"mismatch"},
    "crash": {"crash"},
    "hang": {"timeout", "device-lost"},
    "refusal": {"error"},
}
"""The verdicts by which each kind of defect shows. What depends on time may show in several ways."""


def place_of(package: str, versions: str) -> Environment:
    """Returns the rig with a version of a package that an entry is about."""
    number = re.sub(r"^[=<>~!]+", "", versions.split(",")[0]).replace(".*", ".0")
    return msgspec.structs.replace(RIG, package=package, onnxruntime=number)


@pytest.fixture(scope="module")
def items():
    """All cases of `standard`, and all probes."""
    return [*all_cases("standard"), *probes(), *contract_probes()]


README = Path(__file__).parents[3] / "README.md"


class TestData:
    """Every entry is complete, and can be true."""

    def test_texts(self):
        """Each has an id of its own, a title and a control in plain words, and a file of ONNX Runtime's sources."""
        assert len(DEFECTS) == len(defects()) > 0
        for id, defect in DEFECTS.items():
            assert re.fullmatch(r"[a-z]+(-[a-z]+){1,4}", id)
            assert 20 < len(defect.title) < 100 and defect.title[0].islower() and defect.title[-1] not in ".!", id
            assert len(defect.control) > 10 and re.search(r"\w+\.(cpp|cc|h)\b", defect.source), id
            issue = r"https://github\.com/microsoft/onnxruntime/(issues|pull)/\d+"
            assert defect.issue is None or re.fullmatch(issue, defect.issue), id

    def test_fails(self):
        """The known failures have the verdict of the kind; that of an error names its text, so that no other one is
        hidden.
        """
        for defect in defects():
            steady = {failure["verdict"] for failure in defect.fails if not failure.get("may_pass")}
            assert steady <= VERDICTS[defect.kind]
            assert VERDICTS[defect.kind] & {failure["verdict"] for failure in defect.fails}
            entries = list(defect.known_failures())
            assert entries and [] == [problem for entry in entries for problem in problems(entry)]
            for entry in entries:
                on_ep = entry.provider == DIRECTML and entry.package and entry.onnxruntime
                assert on_ep or (entry.provider == "directml" and entry.directml), defect
                assert entry.device_class == "emulated" and f"opmap known {defect.id}" in entry.reason
                assert (defect.kind == "hang") == entry.is_dangerous
                assert entry.message or entry.verdict != "error"

    @pytest.mark.slow
    def test_matched(self, items):
        """Every entry matches a case or contract probe of its tier, on the package and version that it names."""
        for entry in shipped_failures():
            if entry.provider != DIRECTML:  # the entry of the EP beside it matches the same cases
                continue
            active = ActiveFailures([], place_of(entry.package, entry.onnxruntime), shipped=[entry])
            assert any(active.expectations(item) for item in items), entry

    def test_reproducer(self):
        """The case or probe that shows a defect is one that its entries expect to fail."""
        for defect in defects():
            package, seen = next((package, seen) for package, seen in defect.seen.items() if seen.versions)
            place = place_of(package, seen.versions)
            if all(entry.provider == "directml" for entry in defect.known_failures()):
                place = Environment(provider="directml", directml="1.15.4", device_class="emulated")
            active = ActiveFailures([], place, shipped=list(defect.known_failures()))
            assert active.expectations(find_item(defect.reproducer)), defect

    def test_pairs(self):
        """Each was run on all pairs of two ONNX Runtimes and five DirectML.dll, or on none; what was seen agrees with
        `seen` and with the kind.
        """
        words = {"silent": "wrong", "crash": "crash", "refusal": "refused"}
        for defect in filter(lambda defect: defect.pairs, defects()):
            versions = {(pair.onnxruntime, pair.directml) for pair in defect.pairs}
            assert len(versions) == len(defect.pairs) == 10
            assert (2, 5) == tuple(len({version[side] for version in versions}) for side in (0, 1))
            for pair in defect.pairs:
                has_it = defect.seen_on("emulated", pair.onnxruntime)
                may = any(failure.get("may_pass") for failure in defect.fails)
                allowed = {words[defect.kind]} if has_it else {"right"}
                assert pair.seen in (allowed | ({"unstable", "right", "refused"} if may else set())), (defect.id, pair)

    def test_messages(self):
        """The text of a mismatch of a contract probe is one that a wrong output gives: else the entry would match
        nothing.
        """
        probes_by_id = {probe.id: probe for probe in contract_probes()}
        for entry in shipped_failures():
            probe = probes_by_id.get(entry.case or "")
            if probe and entry.verdict == "mismatch" and entry.message:
                texts = [text for at in range(len(probe.steps)) for text in wrong_texts(probe, at)]
                assert any(entry.message in text for text in texts), (entry.case, entry.message, texts)


def wrong_texts(probe, at):
    """Gives the messages of a probe if the outputs of one step are zeros, or those of earlier steps, or missing, or if
    it is not refused.
    """
    step = probe.steps[at]
    outputs = step.outputs[0] if step.outputs else {}
    known = [each for before in probe.steps[:at] for each in before.outputs] + list(step.signs.values())
    put = [before.step.array for before in probe.steps[:at] if hasattr(before.step, "array")]
    known += [{name: a for name, right in outputs.items() if right.shape == a.shape} for a in put]
    known += step.outputs[1:]
    zeros = {name: np.zeros_like(array) for name, array in outputs.items()}
    for answer in (*({**zeros, **each} for each in known), zeros, None):
        malformed = list_of(1) + ", got 0" if answer is None else None

        class Wrong(Performer):
            def perform(self, asked, limit=None, answer=answer, malformed=malformed):
                if asked is step.step:
                    return Result(outputs=answer or {}, malformed=malformed)
                right = next(each for each in probe.steps if each.step is asked)
                if right.fails == "always":
                    return Result(error="refused", stage=Stage.RUN)
                return Result(
                    outputs={n: np.ma.getdata(a) for n, a in right.outputs[0].items()} if right.outputs else {}
                )

        difference = perform_steps(probe.steps, Wrong())
        if difference:
            yield contract._message(probe, difference)


class TestWhere:
    """An entry counts only where its defect was seen."""

    def judged(self, place=RIG, verdict="mismatch", stage="compare", message=IGNORED, own=()):
        active = ActiveFailures(own, place, shipped=shipped_failures())
        stage = Stage(stage) if stage else None
        return given(active, find_item(FED), Record(case=FED, verdict=Verdict(verdict), stage=stage, message=message))

    def test_here(self):
        """On the rig the failure is known, and the message says which defect it is."""
        record = self.judged()

        assert "known-failure" == record.verdict
        assert "(opmap known fed-default-ignored)" in record.message

    @pytest.mark.parametrize(
        "keys",
        [
            {"device_class": "hardware"},
            {"device_class": None},
            {"package": "onnxruntime"},
            {"package": None},
            {"onnxruntime": "1.24.3"},
            {"onnxruntime": "1.25.0"},
            {"package": "onnxruntime-windowsml"},
            {"provider": CPU},
        ],
        ids=str,
    )
    def test_elsewhere(self, keys):
        """On hardware, in another package or version, and on another provider the failure stays red."""
        assert "mismatch" == self.judged(msgspec.structs.replace(RIG, **keys)).verdict

    def test_another_fault(self):
        """Other wrong values in the same case stay red, and the message names the entry that expects others."""
        record = self.judged(message="every element is zero; 6 of 6 elements differ")

        assert "mismatch" == record.verdict
        assert "fed-default-ignored" in record.message and "every element is zero" in record.message

    def test_pass(self):
        """A repair is an unexpected pass. A case that was not given to the provider is none."""
        judged = [self.judged(verdict=v, stage=None, message=None).verdict for v in ("pass", "unsupported", "not-run")]

        assert ["unexpected-pass", "unsupported", "not-run"] == judged


class Defective(SessionProvider):
    """The CPU EP as a DirectML EP that ignores what is fed for a default."""

    def perform(self, step, limit=None):
        if isinstance(step, Open):
            graph = onnx.load_from_string(step.model.tobytes()).graph
            self.defaults = {tensor.name for tensor in graph.initializer}
        if isinstance(step, Run):
            feeds = {name: array for name, array in step.feeds.items() if name not in self.defaults}
            step = msgspec.structs.replace(step, feeds=feeds)
        result = super().perform(step, limit)
        if isinstance(step, Examine):
            placement = Placement("assignment-info", (("Gather", DIRECTML),))
            result = msgspec.structs.replace(
                result, evidence=msgspec.structs.replace(result.evidence, placement=placement)
            )
        return result


@pytest.fixture
def device_class(monkeypatch):
    """Opens the defective provider as the DirectML EP; a test may set its device class."""
    chosen = ["emulated"]

    def opened(name, **options):
        provider = Defective(CPU)
        return Provider(DIRECTML, "1.24.4", chosen[0], provider, package="onnxruntime-directml")

    monkeypatch.setattr("opmap.session.session.open_provider", opened)
    return chosen


class Impostor(SessionProvider):
    """The CPU EP as a DirectML EP whose every answer is wrong in one way."""

    answer, fed, values = "", (), {}

    def perform(self, step, limit=None):
        if self.answer.startswith("code"):
            stage = Stage.LOAD if isinstance(step, Open) else Stage.RUN
            fails = isinstance(step, (Open, Run, RunBound, Concurrent)) and (
                self.answer != "code at run" or stage == Stage.RUN
            )
            if fails:
                return Result(error="Model.cpp(7): 80004002 No such interface supported.", stage=stage)
        result = super().perform(step, limit)
        if isinstance(step, Examine) and result.evidence:
            model = onnx.load_from_string(self.model)
            placement = Placement("assignment-info", tuple((node.op_type, DIRECTML) for node in model.graph.node))
            return msgspec.structs.replace(
                result, evidence=msgspec.structs.replace(result.evidence, placement=placement)
            )
        if isinstance(step, Open):
            self.model, self.fed = step.model.tobytes(), ()
        if isinstance(step, (Put, Update)):
            self.values = {**self.values, step.value: step.array}
        own = [*getattr(step, "feeds", {}).values(), *map(self.values.get, getattr(step, "values", {}).values())]
        self.fed = (*(array for array in own if array is not None and array.size), *self.fed)
        outputs = self.wrong(result.outputs)
        results = [msgspec.structs.replace(each, outputs=self.wrong(each.outputs)) for each in result.results]
        return msgspec.structs.replace(result, outputs=outputs, results=results)

    def wrong(self, outputs):
        """Returns outputs of the right types and sizes with the values of the answer."""
        return {name: self.array(array) for name, array in outputs.items()}

    def array(self, right):
        if self.answer == "forty-two":
            return np.full_like(right, 42)
        if self.answer == "zeros":
            return np.zeros_like(right)
        if self.answer == "inputs":
            fed = next((array for array in self.fed if array.dtype == right.dtype), None)
            return np.resize(fed, right.shape) if fed is not None else right
        if self.answer == "another case":
            return np.resize(np.arange(60, 120).astype(right.dtype), right.shape)
        return right


ANSWERS = ["forty-two", "zeros", "inputs", "another case", "code", "code at run"]
STATED = {
    ("probe/diagonal_matrix1/diagonal-int32-max", "zeros"),  # the wrapped diagonal keeps nothing
}
"""The items and the answers that an entry states."""


class TestImpostors:
    """No entry accepts another failure than the one that it states."""

    @pytest.fixture
    def session(self, monkeypatch):
        """A session on the impostor as the DirectML EP, in which contract probes stay in this process."""
        impostor = Impostor(CPU)
        opened = Provider(DIRECTML, "1.24.4", "emulated", impostor, package="onnxruntime-directml")
        monkeypatch.setattr("opmap.session.session.open_provider", lambda name, **options: opened)
        monkeypatch.setattr("opmap.judge.contract._fresh", lambda provider: nullcontext(impostor))
        monkeypatch.setattr("opmap.judge.contract._control", lambda probe, provider: (True, "the CPU EP passes"))
        with ValidationRun(SessionOptions(provider="dml")) as session:
            session.impostor = impostor
            yield session

    @pytest.mark.parametrize("answer", ANSWERS)
    def test_probes(self, answer, session):
        """Of the probes and contract probes with an entry none is known to fail with such an answer."""
        active = ActiveFailures([], RIG, shipped=shipped_failures())
        items = [item for item in [*probes(), *contract_probes()] if active.expectations(item)]
        assert len(items) > 40

        accepted = self.accepted(items, answer, session)

        assert {item for item, stated in STATED if stated == answer} == accepted

    @pytest.mark.slow
    @pytest.mark.parametrize("answer", ANSWERS)
    def test_cases(self, answer, session, items):
        """The same with three cases of each entry that is about cases."""
        entries = [entry for entry in shipped_failures() if applies(entry, RIG)]
        chosen = {}
        for entry in entries:
            active = ActiveFailures([], RIG, shipped=[entry])
            found = (item for item in items if isinstance(item, Case) and active.expectations(item))
            chosen |= {item.id: item for item in itertools.islice(found, 3)}
        assert len(chosen) > 15

        assert set() == self.accepted(chosen.values(), answer, session)

    def accepted(self, items, answer, session):
        accepted = set()
        session.impostor.answer = answer
        for item in items:
            if session.judge(item).verdict == Verdict.KNOWN_FAILURE:
                accepted.add(item.id)
            session.impostor.end()
        return accepted


class TestRun:
    """`opmap validate` uses the shipped entries by default."""

    @pytest.mark.parametrize(
        "options, kind, code, verdict",
        [
            ((), "emulated", 0, "known-failure"),
            (("--require-provider",), "emulated", 0, "known-failure"),
            (("--repeat", "2"), "emulated", 0, "known-failure"),
            (("--no-shipped-known-failures",), "emulated", 1, "mismatch"),
            ((), "hardware", 1, "mismatch"),
            ((), "translated", 1, "mismatch"),
        ],
    )
    def test_option(self, options, kind, code, verdict, device_class, capsys):
        """The run is green with them, and red without them and on hardware."""
        device_class[0] = kind

        got = main(["validate", "--provider", "dml", "--case", FED, "--json", *options])

        (record,) = json.loads(capsys.readouterr().out)["cases"]
        assert (code, verdict) == (got, record["verdict"])

    def test_bundle(self, device_class, tmp_path, run_opmap):
        """A run is continued only with the same choice."""
        main(["validate", "--provider", "dml", "--case", FED, "--report", str(tmp_path / "r")])
        again = ["--resume", str(tmp_path / "r"), "--no-shipped-known-failures"]
        err = run_opmap(2, "validate", "--provider", "dml", "--case", FED, *again).err
        assert "no_shipped_known_failures" in err


class TestCommand:
    """`opmap known` lists the defects, and shows one."""

    def test_table(self, monkeypatch, run_opmap):
        """The table has every defect, and fits a terminal of 80 columns. What is equal in all rows is no column."""
        monkeypatch.setenv("COLUMNS", "80")

        out = run_opmap(0, "known").out
        assert len(DEFECTS) == table(defects()).row_count
        assert {("emulated",)} == {defect.device_class for defect in DEFECTS.values()}
        assert "all seen on: emulated" in out and "device" not in [column.header for column in table(defects()).columns]
        assert max(map(len, out.split("opmap known ID")[0].splitlines())) <= 80

    def test_one(self, capsys):
        """Everything about a defect is printed as comments of the program that reproduces it."""
        for id, defect in DEFECTS.items():
            code = main(["known", id])

            out = capsys.readouterr().out
            compile(out, id, "exec")
            assert 0 == code and out.endswith(reproducer(defect))
            assert not any("['" in line for line in out.splitlines() if line.startswith("# fails: "))
            texts = (defect.title, defect.control, defect.source, defect.reproducer, *map(str, defect.seen.values()))
            assert all(text in out for text in texts)

    def test_json(self, run_opmap):
        """An object for each defect, with the packages that have it; no text shows Python."""
        objects = json.loads(run_opmap(0, "known", "--json").out)
        keys = [
            "id",
            "title",
            "kind",
            "packages",
            "pairs",
            "source",
            "root",
            "issue",
            "device_class",
            "control",
            "passes",
            "reproducer",
        ]
        assert [keys] * len(objects) == [list(o) for o in objects]
        assert {(o["id"], entry["package"]) for o in objects for entry in o["packages"]} == {
            (d.id, package) for d in defects() for package, seen in d.seen.items() if seen.versions
        }
        for o in objects:
            assert (
                o["kind"] in KINDS
                and o["device_class"] == ["emulated"]
                and all(SpecifierSet(entry["versions"]) for entry in o["packages"])
            )
            imported = re.findall(r"import (\w+)", o["reproducer"])
            assert "opmap" not in imported
            assert "onnxruntime" in imported or "dxdispatch" in o["reproducer"]

    def test_roots(self, capsys):
        """Defects of one mechanism stand together, and each names the others."""
        roots = [defect.root or defect.id for defect in defects()]
        assert len(set(roots)) == sum(a != b for a, b in itertools.pairwise([None, *roots]))
        main(["known", "empty-value-read"])
        assert (
            "# root: an empty tensor in device memory has no allocation; also empty-value-made"
            in capsys.readouterr().out
        )

    def test_unknown(self, refusal):
        """An unknown id gives one line with the nearest ids."""
        assert "did you mean fed-default-ignored" in refusal("known", "fed-defaults-ignored")

    @pytest.mark.skipif(not README.is_file(), reason="only the tests are here")
    def test_readme(self):
        """README.md says how many there are."""
        assert f"opmap shows {len(defects())} defects" in README.read_text(encoding="utf-8")

    def test_manual(self):
        """The manual has the table of the data, and says what its kinds mean."""
        page = read_page("known-failures")
        lines = [f"| {' | '.join(cells)} |" for cells in (COLUMNS, *((f"`{id}`", *c) for id, *c in rows(defects())))]
        lines.insert(1, "|" + "---|" * len(COLUMNS))
        assert "\n".join(lines) in page
        assert all(f"`{kind}`: {meaning}" in page for kind, meaning in KINDS.items())

    def test_manual_pairs(self):
        """The manual has the table of what each pair does."""
        lines = []
        for defect in filter(lambda defect: defect.pairs, defects()):
            versions, texts = zip(*by_onnxruntime(defect.pairs), strict=True)
            lines.append(f"| `{defect.id}` | {' | '.join(texts)} |")
        head = f"| id | {' | '.join(f'ONNX Runtime {version}' for version in versions)} |\n|---|---|---|\n"
        assert head + "\n".join(lines) in read_page("known-failures")


class TestReproducer:
    """Each program runs alone, and is right on the CPU EP."""

    def test_control(self, tmp_path, in_tmp_path, monkeypatch, capsys):
        """It finds nothing wrong where nothing is wrong. The CPU EP refuses long lengths.

        The program of a defect of DirectML alone writes files, and says with exit code 2 that it needs DxDispatch.
        """
        monkeypatch.setattr(sys, "argv", ["program.py", CPU])
        monkeypatch.setenv("PATH", "")
        for defect in defects():
            program = reproducer(defect)
            (tmp_path / "program.py").write_text(program, encoding="utf-8")
            with pytest.raises(SystemExit) as ended:
                runpy.run_path("program.py", run_name="__main__")
            printed = capsys.readouterr()
            if defect.id == "reverse-length-limit":
                assert ended.value.code == 1 and "Invalid sequence length: 4" in printed.out
                continue
            assert ended.value.code in ((2,) if "dxdispatch" in program else (0, None)), (defect, printed)
