"""Settings of the property tests: they have no deadline, and run the same examples each time in CI."""

import os
import shutil
import signal

import pytest
from hypothesis import HealthCheck, settings

from opmap.cli import main

SLOW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # shared runners are slow

settings.register_profile("default", **SLOW)
settings.register_profile("ci", **SLOW, derandomize=True, print_blob=True)
settings.register_profile("weekly", **SLOW, max_examples=2000, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

os.environ.pop("GITHUB_STEP_SUMMARY", None)  # the bundles of tests are no results of the CI run

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # started in the background of a shell: processes from here would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("dxdispatch_models", "formed_cases", "judged_sessions", "exported_folders")


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch):
    """Makes the test's own folder the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def bundles(made, in_tmp_path):
    """Works in a folder with copies of the results bundles that the fixture `made` of a test file has made."""
    shutil.copytree(made, in_tmp_path, dirs_exist_ok=True)
    return in_tmp_path


@pytest.fixture
def run_opmap(capsys):
    """Runs opmap with these words, which must end with this exit code. Returns what was printed since the last look."""

    def run(code, *words):
        assert code == main([*map(str, words)])
        return capsys.readouterr()

    return run


@pytest.fixture
def refusal(run_opmap):
    """Runs opmap with these words, which it must refuse: exit code 2, nothing on stdout.

    Returns the one line on stderr.
    """

    def run(*words):
        out, err = run_opmap(2, *words)
        assert ("", 1) == (out, len(err.splitlines()))
        return err

    return run
