"""The identity of a plugin EP: its own version, and the file name and the digest of its library. No bundle has the path
of a library."""

from __future__ import annotations

import json
import os
from importlib import metadata

import pytest

from opmap import SessionOptions, ValidationRun
from opmap.cases.case import CASE_IDS
from opmap.diagnosis.causes import causes
from opmap.diagnosis.diagnosis import Diagnosis
from opmap.engines.machine.environment import collect
from opmap.engines.machine.facts import Fact
from opmap.engines.providers import Provider
from opmap.engines.sessions import CPU, SessionProvider
from opmap.errors import ContradictionError, InputError
from opmap.judge.record import Record
from opmap.reports.baseline import Wanting, read_baseline
from opmap.reports.bundle import Bundle
from opmap.reports.diff import FactChange, ReadRun, compare
from opmap.reports.documents import RunDocument
from opmap.reports.heading import heading
from opmap.reports.junit import junit
from opmap.reports.merge import Merging
from opmap.reports.results_folder import identity
from opmap.reports.sums import ids_digest
from opmap.reports.written_bundle import read_bundle
from opmap.session.ending import end_run
from opmap.vocabulary import Stage, Verdict

pytestmark = pytest.mark.platform

PLUGIN = {"ep_version": "2.1.0", "library": "plugin_ep.dll", "library_sha256": "a1" * 32}

CHANGES = [("ep_version", "2.2.0"), ("library", "other_ep.dll"), ("library_sha256", "b2" * 32), ("library", None)]
"""A fact and another value of it: the EP, or its library, was replaced."""

CASE = "gather/example.1"


def opened(**facts) -> Provider:
    """Returns a plugin EP with these facts in place of the usual ones."""
    runner = SessionProvider(CPU)
    return Provider("PluginEP", "1.30.0", "hardware", runner, adapter="GPU", package="onnxruntime", **PLUGIN | facts)


def started(folder, provider: Provider, *, resume: bool = False) -> Bundle:
    """Returns the bundle of a run on a provider, which was started or goes on."""
    selection = {"opmap": metadata.version("opmap"), "case_ids": CASE_IDS, "provider": provider.name}
    selection |= {"ids": ids_digest(selection, [CASE]), **identity(provider)}
    return Bundle(folder, selection, ids=[CASE], resume=resume)


def written(folder, provider: Provider, record_of: Provider | None = None):
    """Returns the folder of a bundle with one record on a provider; `record_of` is the provider that it names."""
    bundle = started(folder, provider)
    record = Record.on(
        record_of or provider, CASE, "DML_OPERATOR_GATHER", verdict=Verdict.ERROR, stage=Stage.LOAD, message="no"
    )
    bundle.add(record)
    bundle.environment({"python": Fact("3.11", "p")})
    bundle.complete([record], 1)
    bundle.release()
    return folder


class TestLibrary:
    """Another version or library of a plugin EP is another provider."""

    def test_identity(self):
        assert PLUGIN == {name: identity(opened())[name] for name in PLUGIN}
        assert dict.fromkeys(PLUGIN) == {name: identity(None)[name] for name in PLUGIN}

    @pytest.mark.parametrize(("key", "value"), CHANGES)
    def test_resume(self, key, value, tmp_path):
        """A run does not go on with it."""
        started(tmp_path / "r", opened()).release()

        with pytest.raises(InputError, match=f"--resume must go on with the same {key}: "):
            started(tmp_path / "r", opened(**{key: value}), resume=True)
        started(tmp_path / "r", opened(), resume=True).release()

    def test_older_bundle(self, tmp_path):
        """A run that an opmap without these facts began goes on with an EP that has none."""
        started(tmp_path / "r", opened()).release()
        file = tmp_path / "r" / "run.json"
        document = json.loads(file.read_bytes())
        for name in PLUGIN:
            del document["selection"][name]
        file.write_text(json.dumps(document), encoding="utf-8")

        with pytest.raises(InputError, match="--resume must go on with the same ep_version: null, got "):
            started(tmp_path / "r", opened(), resume=True)
        started(tmp_path / "r", opened(**dict.fromkeys(PLUGIN)), resume=True).release()

    @pytest.mark.parametrize(("key", "value"), CHANGES)
    def test_record(self, key, value, tmp_path):
        """A record of another library does not belong to the run."""
        folder = written(tmp_path / "r", opened(), opened(**{key: value}))

        with pytest.raises(ContradictionError, match=rf"\$\.{key}: must be '.*', as in run.json, got "):
            list(read_bundle(folder).read_records())

    @pytest.mark.parametrize(("key", "value"), CHANGES)
    def test_diff(self, key, value, tmp_path):
        """`opmap diff` says which fact differs."""
        old, new = (
            ReadRun(read_bundle(written(tmp_path / name, provider)))
            for name, provider in (("old", opened()), ("new", opened(**{key: value})))
        )

        assert [FactChange(key, PLUGIN[key], value or "null")] == compare(old, new).environment
        assert [] == compare(old, old).environment

    @pytest.mark.parametrize(("key", "value"), [(None, None), *CHANGES])
    def test_merge(self, key, value, tmp_path):
        """The results of two libraries are not those of one place, so that no case is there twice."""
        changed = opened(**{key: value} if key else {})
        bundles = [read_bundle(written(tmp_path / name, p)) for name, p in (("a", opened()), ("b", changed))]

        merging = Merging(bundles)

        assert (key is None) == any("1 cases are in " in line for line in merging.problems)
        assert not [line for line in merging.problems if "other options" in line]

    @pytest.mark.parametrize(("key", "value"), [(None, None), *CHANGES])
    def test_baseline(self, key, value, tmp_path):
        """A baseline may have another library: a line says so."""
        folder = written(tmp_path / "r", opened())
        provider = opened(**{key: value} if key else {})
        device = provider.name, provider.adapter, provider.device_class

        baseline = read_baseline(str(folder), Wanting(device, None, SessionOptions().selected, None))

        differs = f"; it is of {key} {PLUGIN[key]}, and this is {value or 'unknown'}" if key else ""
        assert f"baseline r: it has 1 of these 1 cases and probes{differs}" == baseline.note({CASE}, provider)

    def test_shown(self):
        """The own version stands beside the name; the rest in JUnit."""
        selection = {"provider": "PluginEP", **identity(opened())}
        run = RunDocument(selection=selection)

        assert "PluginEP 2.1.0 (ONNX Runtime 1.30.0), adapter GPU, device class hardware" == opened().described
        assert heading(run, [], 0).where.startswith("PluginEP, EP 2.1.0, onnxruntime 1.30.0, GPU")
        properties = junit([(run.runs[0], [])])
        assert all(f'name="{name}" value="{value}"' in properties for name, value in PLUGIN.items())
        assert (
            "CPUExecutionProvider (ONNX" in Provider("CPUExecutionProvider", "1", "cpu", SessionProvider(CPU)).described
        )


class TestNoPath:
    """A bundle has the file name of a library; the commands in the terminal have its path."""

    LIBRARY = os.path.join(os.path.abspath(os.sep), "home", "lena m", "build", "libmine.so")

    def test_options(self):
        """The options that a bundle holds, and a command for the terminal and for a bundle."""
        options = SessionOptions(provider="mine", ep_library=(("mine", self.LIBRARY), ("b", "lib/b.so")))

        assert ["b=b.so", "mine=libmine.so"] == options.selected["ep_library"] == options.of_runtime["ep_library"]
        assert {"mine": self.LIBRARY, "b": os.path.abspath("lib/b.so")} == options.place["libraries"]
        assert self.LIBRARY in options.again(CASE, None) and "b=lib/b.so" in options.again(CASE, None)
        assert "--ep-library mine=libmine.so --ep-library b=b.so" in options.for_bundle.again(CASE, None)

    def test_bundle(self, tmp_path, monkeypatch):
        """No file of the bundle of a run with failures has the path: not the facts, not the commands."""
        module = {"path": self.LIBRARY, "file_version": None, "sha256": "a1" * 32, "error": None}
        monkeypatch.setattr(Provider, "environment", lambda self: {**collect(), "loaded_modules": Fact([module], "m")})
        options = SessionOptions(provider="fault:index-clamped-early", filter=("gather/example.*",))
        session = ValidationRun(options._replace(report=str(tmp_path / "r")), brief=True)
        with session:
            session.open()
            session.options = session.options._replace(ep_library=(("mine", self.LIBRARY),))
            session.judge_all()
            unwritten = []
            diagnoses = end_run(
                session, lambda _, run: [Diagnosis(cause).with_closest(run) for cause in causes(run)], unwritten
            )

        assert ([], True) == (unwritten, bool(diagnoses))
        files = {
            path: path.read_text(encoding="utf-8", errors="replace")
            for path in (tmp_path / "r").rglob("*.*")
            if path.is_file()
        }
        for path, text in files.items():
            assert "lena" not in text, path
        for name in ("diagnosis.json", "report.html", "issue.md"):
            assert any("mine=libmine.so" in text for path, text in files.items() if path.name == name), name
        for name in ("run.json", "issue.md"):
            assert any("<home>/libmine.so" in text for path, text in files.items() if path.name == name), name
        assert self.LIBRARY in session.again(diagnoses[0].smallest.case)
