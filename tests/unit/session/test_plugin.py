"""The pytest plugin, run in an inner pytest: in this process, which is quicker, or in a process of its own if that
matters.

The modules that the plugin loads are loaded here first. The inner pytest unloads the modules that it has loaded, and on
Windows ONNX Runtime cannot be imported twice into one process. opmap's parser keeps the lark that it loaded first.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import lark  # noqa: F401
import onnxruntime  # noqa: F401
import pytest

import opmap.session  # noqa: F401
from opmap.cases.catalogue import catalogue
from opmap.cli import main
from opmap.reports.written_bundle import read_bundle

pytestmark = pytest.mark.platform

CONFORMANCE = "def test_case(opmap_case, opmap_check):\n    opmap_check(opmap_case)\n"
EXAMPLES = ("--opmap-filter", "gather/example.*")
SHUFFLED = ("--opmap-shuffle", "7")


@pytest.fixture
def run(pytester):
    """Runs the conformance test with these options."""
    pytester.makepyfile(CONFORMANCE)
    return lambda *options: pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)


@pytest.fixture
def run_apart(run, pytester):
    """Runs the conformance test in a process of its own."""
    return lambda *options: pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)


class TestVerdicts:
    """A verdict becomes the outcome of a test."""

    def test_pass(self, run_apart):
        """Every case is a test, and the summary says what was proven."""
        result = run_apart("--opmap-provider", "cpu", "--opmap-require-provider", *EXAMPLES)

        result.assert_outcomes(passed=5)
        result.stdout.fnmatch_lines(["opmap: CPUExecutionProvider*", "*5 of 5 cases proven*"])

    @pytest.mark.parametrize("option, outcomes", [((), {"skipped": 1}), (("--opmap-rerun-dangerous",), {"passed": 1})])
    def test_dangerous(self, option, outcomes, run, pytester):
        """A case that is known to hang is skipped, also if the provider is required."""
        pytester.makefile(
            ".toml",
            known="""
            schema = "opmap-known-failures/1"
            [[known]]
            case = "gather/example.1"
            provider = "cpu"
            verdict = "timeout"
            may_pass = true
            reason = "planted"
            """,
        )
        ids = ("--opmap-case", "gather/example.1", "--opmap-case", "gather/example.2", "--opmap-require-provider")
        result = run("--opmap-provider", "cpu", "--opmap-known-failures", "known.toml", *ids, *option)

        result.assert_outcomes(**{"passed": 1 + outcomes.get("passed", 0), "skipped": outcomes.get("skipped", 0)})
        assert 0 == result.ret
        alone = run("--opmap-provider", "cpu", "--opmap-known-failures", "known.toml", *ids[:2], *option)
        assert (1 if "skipped" in outcomes else 0) == alone.ret

    @pytest.mark.parametrize(
        "keys, ret, said",
        [
            ('case = "gather/example.1"\nstage = "compare"', 0, "*1 xfailed*"),
            (
                'case = "gather/example.1"\nstage = "run"',
                1,
                "*expected mismatch at run: planted, got mismatch at compare*",
            ),
            ('case = "gather/gone"', 1, "opmap: known.toml: *'gather/gone' matches no case of tier smoke*"),
        ],
    )
    def test_stale(self, keys, ret, said, run, pytester):
        """A stale entry fails the run, also if every test passes, and is named in a line of its own."""
        head = 'schema = "opmap-known-failures/1"\n[[known]]\nprovider = "fault:output-zero"\n'
        entry = f'{head}verdict = "mismatch"\nreason = "planted"\n{keys}\n'
        (pytester.path / "known.toml").write_text(entry, encoding="utf-8")
        options = ("--opmap-known-failures", "known.toml", "--opmap-filter", "gather/example.1")

        result = run("--opmap-provider", "fault:output-zero", *options)

        assert ret == result.ret
        result.stdout.fnmatch_lines([said])


class TestProbes:
    """`opmap_probe` gives each probe."""

    def test_alone(self, run, pytester):
        """A filter for probes selects no case."""
        pytester.makepyfile(test_probes="def test_probe(opmap_probe, opmap_check):\n    opmap_check(opmap_probe)\n")
        result = run("--opmap-provider", "cpu", "--opmap-filter", "probe/gather/rank-9")

        result.assert_outcomes(passed=1, skipped=1)


SEVERAL = """
import itertools

import pytest

from opmap import catalogue
from opmap.cases.probes import probes

CASES = list(itertools.islice(catalogue("smoke"), 3))
PROBE = next(probe for probe in probes() if probe.id.endswith("rank-9"))

"""


class TestCounting:
    """Every case counts once, in whichever phase of a test it is judged."""

    @pytest.mark.parametrize(
        "source",
        [
            "def test(opmap_check):\n    for item in [*CASES, PROBE]:\n        opmap_check(item)\n",
            "@pytest.fixture\ndef early(opmap_check):\n    for case in CASES[:2]:\n        opmap_check(case)\n"
            "def test(early, opmap_check):\n    opmap_check(CASES[2])\n",
            "@pytest.fixture\ndef late(opmap_check):\n    yield\n    for case in CASES:\n        opmap_check(case)\n"
            "def test(late): pass\n",
        ],
        ids=["several", "setup", "teardown"],
    )
    def test_several(self, source, pytester):
        """Several cases and a probe in one test; cases in its setup; cases in its teardown."""
        pytester.makepyfile(SEVERAL + source)

        result = pytester.runpytest_inprocess(
            "-p", "no:cacheprovider", "--opmap-provider", "cpu", "--opmap-require-provider"
        )

        assert 0 == result.ret
        result.stdout.fnmatch_lines(["*: 3 of 3 cases proven*"])


class TestSharedOptions:
    """The options that choose cases, and say how to run them, are those of the command line (see test_options.py)."""

    @pytest.mark.slow
    def test_chosen(self, run, pytester):
        """Cases are chosen by id or by a file of ids, and come in the order of --opmap-shuffle."""
        (pytester.path / "ids.txt").write_text(
            "# red last time\ngather/example.2\ngather/example.3\n", encoding="utf-8"
        )
        chosen = ("--opmap-case", "gather/example.4", "--opmap-case=@ids.txt")  # pytest itself reads "@ids.txt"

        def ids(*options):
            lines = run("--collect-only", "-q", "--opmap-provider", "cpu", *chosen, *options).outlines
            return [line.split("[", 1)[1].rstrip("]") for line in lines if "::test_case[" in line]

        assert [f"gather/example.{n}" for n in (2, 3, 4)] == ids()
        assert ids() != ids(*SHUFFLED) == ids(*SHUFFLED)

    def test_others(self, run, pytester):
        """All others reach the session, and pytest judges by them."""
        pytester.makeconftest(
            """
            from opmap import SessionOptions
            from opmap.pytest_plugin import _STATE

            def pytest_runtest_setup(item):
                options = item.config.stash[_STATE].session.options
                assert options == SessionOptions(
                    provider="cpu",
                    filter=("gather_nd/float32/d[78].*",),
                    shard=(1, 2),
                    repeat=2,
                    feature_level="2_1",
                    index_conversion="host",
                )
            """
        )
        options = ("--opmap-provider=cpu", "--opmap-filter=gather_nd/float32/d[78].*", "--opmap-shard=1/2")
        options += ("--opmap-repeat=2", "--opmap-feature-level=2_1", "--opmap-index-conversion=host")
        assert 1 == run(*options, "--junitxml", "out.xml").ret, "nothing was given to the provider"
        properties = ElementTree.parse("out.xml").iter("property")
        assert {"unsupported"} == {p.get("value") for p in properties if p.get("name") == "opmap_verdict"}


class TestSeveralProcesses:
    """pytest-xdist: the controlling process counts the cases that all workers judge."""

    @pytest.fixture(autouse=True)
    def needed(self):
        """Needs pytest-xdist, which the tests are installed with and opmap itself is not."""
        pytest.importorskip("xdist")

    @pytest.mark.slow
    def test_nothing_proven(self, pytester):
        """The run is red if nothing is proven, although every test passes."""
        pytester.makepyfile("def test_other(): pass")
        required = ("--opmap-provider", "cpu", "--opmap-require-provider")

        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2", *required)

        result.assert_outcomes(passed=1)
        assert pytest.ExitCode.TESTS_FAILED == result.ret
        result.stdout.fnmatch_lines(["*0 of 0 cases proven*"])

    @pytest.mark.slow
    def test_stale(self, run_apart, pytester):
        """What any worker proves counts. A known failure that matches nothing is named once, and makes the run red."""
        entry = 'provider = "cpu"\nverdict = "mismatch"\nreason = "planted"\ncase = "gather/gone"\n'
        (pytester.path / "known.toml").write_text(
            f'schema = "opmap-known-failures/1"\n[[known]]\n{entry}', encoding="utf-8"
        )

        result = run_apart("-n", "2", "--opmap-provider", "cpu", "--opmap-known-failures", "known.toml", *EXAMPLES)

        result.assert_outcomes(passed=5)
        assert pytest.ExitCode.TESTS_FAILED == result.ret
        assert 1 == sum("'gather/gone' matches no case of tier smoke" in line for line in result.outlines)
        result.stdout.fnmatch_lines(["*5 of 5 cases proven*"])


class TestUsage:
    """Wrong options end the run before a case is judged."""

    @pytest.mark.parametrize(
        "options, said",
        [
            (("--opmap-max-failures", "0"), "*--opmap-max-failures: must be a whole number from 1 on, got '0'*"),
            (("--opmap-known-failures", "absent.toml"), "*absent.toml: no such file*"),
            (("--opmap-filter", "absent/*"), "ERROR: opmap: --opmap-filter must match a case, got 'absent/*'"),
            (("--opmap-report", ".", *EXAMPLES), "*--opmap-report must be a new or empty folder*"),
        ],
    )
    def test_wrong_values(self, options, said, run):
        """Bad values end the run with pytest's exit code for usage errors."""
        result = run("--opmap-provider", "cpu", *options)

        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([said])
        assert "Traceback" not in result.stdout.str() + result.stderr.str()
        assert not [line for line in result.outlines if "INTERNALERROR" in line or "collecting" in line]

    @pytest.mark.parametrize("more, code", [((), 1), (("--collect-only",), 0)])
    def test_nothing_judged(self, more, code, pytester):
        """If the provider is required, a run without a case is red, although its tests pass."""
        pytester.makepyfile("def test_other(): pass")
        result = pytester.runpytest_inprocess(
            "-p", "no:cacheprovider", "--opmap-provider", "cpu", "--opmap-require-provider", *more
        )

        assert result.ret == code
        result.stdout.fnmatch_lines(["*0 of 0 cases proven*"])


class TestOtherProjects:
    """Where opmap is merely installed."""

    @pytest.mark.slow
    def test_nothing_is_loaded(self, pytester):
        """A session without a case of opmap loads neither a run nor NumPy for it."""
        pytester.makeconftest(
            "import sys\n"
            "def pytest_unconfigure(config):\n"
            "    assert 'opmap.pytest_plugin' in sys.modules\n"
            "    print('loaded:', sorted({'opmap.session.session', 'opmap.descriptors', 'onnx', 'onnxruntime'} & set(sys.modules)))\n"
        )
        pytester.makepyfile("def test_own():\n    pass\n")
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-s")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["loaded: [[][]]"])


class TestJUnit:
    """The JUnit file has the result of each case."""

    def test_properties(self, run, pytester):
        """Verdict, provider and proof are properties of the test case."""
        run("--opmap-provider", "cpu", "--junitxml", "out.xml", *EXAMPLES)

        case = next(ElementTree.parse(pytester.path / "out.xml").iter("testcase"))
        properties = {p.get("name"): p.get("value") for p in case.iter("property")}
        assert properties["opmap_verdict"] == "pass"
        assert properties["opmap_provider"] == "CPUExecutionProvider"
        assert properties["opmap_proven"] == "true"


PROBE_TESTS = "def test_probe(opmap_probe, opmap_check):\n    opmap_check(opmap_probe)\n"
RED = ("gather/example.[12]", "gather_elements/float32/d1.*")
FAULT = "fault:negative-index-off-by-one"


def same_bundle(folder, other):
    """Returns whether two bundles are the same in all but times."""
    names = ("run.json", "results.jsonl", "diagnosis.json", "junit.xml", "summary.md")
    assert all((folder / name).read_bytes() == (other / name).read_bytes() for name in names)
    failures = [sorted(path.name for path in one.glob("failures/*")) for one in (folder, other)]
    assert failures[0] == failures[1] != []
    return True


class TestBundle:
    """`--opmap-report` writes the bundle that `opmap validate --report` writes."""

    @pytest.fixture
    def validated(self, tmp_path):
        """The bundle of a red run of `opmap validate`."""
        words = [word for glob in RED for word in ("--filter", glob)]
        assert 1 == main(["validate", "--provider", FAULT, *words, "--report", str(tmp_path / "validated")])
        return tmp_path / "validated"

    def options(self, folder):
        """The options of the same run of pytest."""
        words = [word for glob in RED for word in ("--opmap-filter", glob)]
        return "--opmap-provider", FAULT, *words, "--opmap-report", str(folder)

    def test_same(self, run, pytester, validated, tmp_path, capsys):
        """It is the same but for times, `opmap report` and `opmap merge` read it, and the summary names the report."""
        pytester.makepyfile(test_probes=PROBE_TESTS)

        result = run(*self.options(tmp_path / "tested"))

        assert 1 == result.ret
        result.stdout.fnmatch_lines([f"opmap: report: {tmp_path / 'tested' / 'report.html'}"])
        assert same_bundle(tmp_path / "tested", validated)
        assert 0 == main(["report", str(tmp_path / "tested")])
        assert 1 == main(["merge", str(tmp_path / "tested"), str(validated), "-o", str(tmp_path / "merged")])
        assert "one record of each is kept" in capsys.readouterr().err

    @pytest.mark.slow
    def test_several_processes(self, run_apart, validated, tmp_path):
        """With pytest-xdist the controlling process writes one bundle."""
        pytest.importorskip("xdist")

        assert 1 == run_apart("-n", "2", *self.options(tmp_path / "tested")).ret
        assert same_bundle(tmp_path / "tested", validated)

    def test_judged_twice(self, pytester, tmp_path):
        """Of a case that several tests judge there is one record, and none of a case that was not chosen."""
        pytester.makepyfile(
            SEVERAL + "def test(opmap_check):\n    for case in [*CASES, *CASES]:\n        opmap_check(case)\n"
        )
        chosen = next(iter(catalogue("smoke"))).id
        words = ("--opmap-provider", "cpu", "--opmap-case", chosen, "--opmap-report", str(tmp_path / "r"))

        assert 0 == pytester.runpytest_inprocess("-p", "no:cacheprovider", *words).ret
        assert [chosen] == [record.case for record in read_bundle(tmp_path / "r").records]

    def test_not_all(self, run, tmp_path):
        """A chosen case that no test judges is missing, and the summary counts it."""
        result = run("-k", "example.1", "--opmap-provider", "cpu", *EXAMPLES, "--opmap-report", str(tmp_path / "r"))

        assert 0 == result.ret
        assert ["gather/example.1"] == [record.case for record in read_bundle(tmp_path / "r").records]
        assert "4 cases left" in (tmp_path / "r" / "summary.md").read_text(encoding="utf-8")

    def test_interrupted(self, pytester, tmp_path):
        """A run that ends before its cases is no green one."""
        pytester.makepyfile(
            "def test(opmap_case, opmap_check):\n    opmap_check(opmap_case)\n    raise KeyboardInterrupt\n"
        )
        words = ("--opmap-provider", "cpu", *EXAMPLES, "--opmap-report", str(tmp_path / "r"))

        pytester.runpytest_inprocess("-p", "no:cacheprovider", *words, no_reraise_ctrlc=True)

        assert 130 == read_bundle(tmp_path / "r").run.exit_code


class TestFixtures:
    """What `pytest --fixtures` says."""

    def test_docstrings(self, run):
        """Each fixture of the plugin is there, with a docstring."""
        lines = run("--fixtures").outlines
        for name in ("opmap_case", "opmap_probe", "opmap_check"):
            at = next(number for number, line in enumerate(lines) if line.startswith(f"{name} -- "))
            assert lines[at + 1].startswith("    ") and "no docstring" not in lines[at + 1]


class TestLimits:
    """A run can stop early, and an adapter has one worker."""

    def test_max_failures(self, run):
        """The run stops after as many failures as --opmap-max-failures allows."""
        result = run("--opmap-provider", "fault:output-zero", "--opmap-max-failures", "2", *EXAMPLES)

        result.assert_outcomes(failed=2)
        result.stdout.fnmatch_lines(["*stopped after 2 failures*"])

    @pytest.mark.slow
    def test_one_worker(self, run_apart, pytester):
        """More than one pytest process per adapter is refused (-n is an option of pytest-xdist)."""
        pytester.makeconftest(
            """
            from opmap.engines.providers import Provider
            from opmap.engines.worker import WorkerProvider

            def pytest_addoption(parser):
                parser.addoption("--numprocesses", type=int)

            from opmap.session import session
            session.open_provider = lambda name, **place: Provider(
                "DmlExecutionProvider", "1", "hardware", WorkerProvider("DmlExecutionProvider")
            )
            """
        )
        result = run_apart("--opmap-provider", "dml", "-p", "no:xdist", "--numprocesses", "4", *EXAMPLES)

        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*one adapter takes one worker, got -n 4*"])


class TestThirdParty:
    """A provider that is not ONNX Runtime's."""

    def test_version(self, run, pytester):
        """The header has the provider's own version, and does not call it ONNX Runtime's."""
        pytester.makepyfile(
            mine="class P:\n    name, version = 'mine', '3.1'\n    def run(self, m, f): return []\ndef make(): return P()\n"
        )
        pytester.syspathinsert()

        result = run("--opmap-provider", "mine:make", *EXAMPLES)

        result.stdout.fnmatch_lines(["opmap: mine (3.1), device class unknown"])


class TestHostileNames:
    """Texts of a third party's provider are shown escaped: in the header, in failures, in reasons to skip, in the
    summary.
    """

    def test_escaped(self, run, pytester):
        hostile = "a\x1b[31mb\u202e"
        pytester.makepyfile(
            hostile=f"class P:\n    name = version = {hostile!r}\n"
            f"    def run(self, model_bytes, feeds): raise ValueError({hostile!r})\ndef make(): return P()\n"
        )
        pytester.syspathinsert()
        (pytester.path / "known.toml").write_text(
            'schema = "opmap-known-failures/1"\n[[known]]\nprovider = "*"\nverdict = "error"\n'
            + f"case = {json.dumps(hostile)}\nreason = {json.dumps(hostile)}\n",
            encoding="utf-8",
        )

        result = run(*EXAMPLES, "--opmap-provider", "hostile:make", "--opmap-known-failures", "known.toml", "-rA")

        out = result.stdout.str()
        assert out.count(r"a\x1b[31mb\u202e") >= 3
        assert "a\x1b[31m" not in out and "\u202e" not in out
