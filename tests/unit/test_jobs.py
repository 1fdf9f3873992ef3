"""`--jobs`: several processes give the results of one, and a process that crashes costs one case."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest
from pool_answers import planted, sleeping

from opmap import SessionOptions
from opmap.catalogue.catalogue import catalogue
from opmap.cli import main
from opmap.engines.pool import Ended, Pool, Processes
from opmap.engines.worker import HangLimit
from opmap.errors import InputError, ProviderError
from opmap.session import jobs
from opmap.session.jobs import _in_process, judging

STUB = """
import os
import numpy
from opmap.engines.sessions import SessionProvider

class Stub(SessionProvider):
    def run(self, model_bytes, feeds):
        outputs = super().run(model_bytes, feeds)
        size = outputs[0].size
        {body}
        return outputs

def make():
    return Stub("CPUExecutionProvider")
"""

WRONG = """
if size % 3 == 0: outputs = [numpy.zeros_like(o) for o in outputs]
if size % 5 == 0: raise RuntimeError('five')
"""


@pytest.fixture
def validate(tmp_path, monkeypatch, capsys):
    """Runs `opmap validate` with a provider `stub:make` that has this body; returns exit code, stdout and stderr."""

    def run(*arguments: str, body: str = WRONG) -> tuple[int, str, str]:
        text = textwrap.indent(body.strip(), " " * 8).lstrip()
        (tmp_path / "stub.py").write_text(STUB.format(body=text), encoding="utf-8")
        code = main(["validate", "--in-process", "--provider", "stub:make", *arguments])
        return code, *capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield run
    sys.modules.pop("stub", None)


def records(folder) -> dict[str, dict]:
    """Returns the records of a bundle by case."""
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return {record["case"]: record for record in map(json.loads, lines)}


class TestPool:
    """The processes answer in the order of the items, whatever happens to one of them."""

    def test_order(self):
        """The answers have the order of the items, and a process starts for no more items than there are."""
        with Pool(planted, (), range(40), 2) as pool:
            assert [n * n for n in range(40)] == list(pool)

    def test_ahead(self):
        """A process holds two items, and an item goes to the process with less to do."""
        with Pool(planted, (), range(900), 2) as pool:
            pool._send()
            assert [2, 2] == [len(worker.held) for worker in pool._workers]
        with Pool(planted, (), range(2), 2) as pool:
            pool._send()
            assert [1, 1] == [len(worker.held) for worker in pool._workers]

    def test_started_before(self):
        """Processes that were started before are taken; those that no pool takes are ended."""
        with Processes(planted, 3) as processes:
            started = list(processes.left)
            with Pool(planted, (), range(6), 2, processes=processes) as pool:
                answers = list(pool)
            (unused,) = processes.left
        assert [0, 1, 4, 9, 16, 25] == answers
        assert unused in started
        with pytest.raises(ValueError, match="closed"):
            unused.process.is_alive()

    def test_ended(self):
        """A process that ends costs the item that it was working on. The items that it held besides are answered."""
        with Pool(planted, (3, 4, 11), range(16), 2) as pool:
            answers = list(pool)

        assert [3, 4, 11] == [n for n, answer in enumerate(answers) if isinstance(answer, Ended)]
        assert Ended("ended with exit code 0x9") == answers[3]
        assert [n * n for n in range(16) if n not in (3, 4, 11)] == [a for a in answers if not isinstance(a, Ended)]

    def test_no_start(self):
        """Processes that end before they are ready cost no item: the run ends."""
        with Pool(planted, ("start",), range(9), 2) as pool, pytest.raises(ProviderError, match="2 processes"):
            list(pool)

    def test_raised(self):
        """An exception is raised when it is the item's turn, with its traceback."""
        with Pool(planted, (), [1, -1, 2], 1) as pool:
            answers = iter(pool)
            assert 1 == next(answers)
            with pytest.raises(RuntimeError, match="ValueError: negative"):
                next(answers)

    def test_close(self, tmp_path):
        """Processes that work are ended."""
        pool = Pool(sleeping, (str(tmp_path / "item"),), range(4), 2)
        pool._send()
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        processes = [worker.process for worker in pool._workers]
        pids = [process.pid for process in processes]
        begin = time.monotonic()

        pool.close()

        assert 2 == len(set(pids))
        assert time.monotonic() - begin < 30  # an item takes a minute
        assert [] == pool._workers


class TestSame:
    """Bytes, verdicts, exit code and text are those of one process."""

    @pytest.mark.parametrize("more", [(), ("--shuffle", "5", "--repeat", "2"), ("--max-failures", "3")])
    def test_bytes(self, more, tmp_path, validate):
        """Wrong and failing cases, in any order, repeated, and up to a number of failures."""
        arguments = ("--shard", "1/6", *more)

        one, several = (validate(*arguments, "--report", name, "--jobs", n) for name, n in (("a", "1"), ("b", "2")))

        assert one[0] == several[0] == 1
        assert one[1].replace("a/re", "b/re").replace("a\\re", "b\\re") == several[1]
        assert (tmp_path / "a/results.jsonl").read_bytes() == (tmp_path / "b/results.jsonl").read_bytes()
        verdicts = {record["verdict"] for record in records(tmp_path / "a").values()}
        assert {"pass", "mismatch", "error"} <= verdicts or more[0] == "--max-failures"

    def test_cpu(self, tmp_path, capsys):
        """On the CPU EP, with probes; each case has the time that it took."""
        arguments = ["validate", "--provider", "cpu", "--shard", "1/8", "--require-provider"]

        codes = [main([*arguments, "--report", str(tmp_path / n), "--jobs", n]) for n in ("1", "2")]

        assert [0, 0] == codes
        one, two = ((tmp_path / name / "results.jsonl").read_bytes() for name in ("1", "2"))
        assert one == two
        times = json.loads((tmp_path / "2/times.json").read_bytes())["seconds"]
        assert times.keys() == records(tmp_path / "2").keys()

    def test_resumed(self, tmp_path, validate):
        """A run of one process is continued by two, and ends like a run of one."""
        arguments = ("--filter", "gather/*", "--shard", "1/4")
        whole = validate(*arguments, "--report", "whole")
        validate(*arguments, "--report", "cut", "--max-failures", "2")

        resumed = validate(*arguments, "--resume", "cut", "--jobs", "2")

        assert whole[0] == resumed[0] == 1
        assert (tmp_path / "whole/results.jsonl").read_bytes() == (tmp_path / "cut/results.jsonl").read_bytes()


class TestBlocks:
    """A process is given several groups of cases at a time."""

    def test_neighbours(self, monkeypatch):
        """Blocks hold all groups in their order, and end where they have enough cases."""
        groups = [[f"probe {n}"] * (1 + n % 3) for n in range(30)]
        monkeypatch.setattr(jobs, "MOST_CASES", 8)
        blocks = jobs._blocks(groups)
        assert groups == [group for block in blocks for group in block]
        assert all(sum(map(len, block)) <= 8 for block in blocks)
        assert all(sum(map(len, (*one, other[0]))) > 8 for one, other in pairwise(blocks))

    def test_large(self, monkeypatch):
        """A large case is alone."""
        cases = [case for case in catalogue("smoke") if case.variant == "plain"][:9]
        sizes = [case.desc.element_count for case in cases]
        monkeypatch.setattr(jobs, "MOST_ELEMENTS", max(sizes) - 1)
        blocks = jobs._blocks([[case] for case in cases])
        assert [[cases[sizes.index(max(sizes))]]] in blocks
        assert cases == [case for block in blocks for group in block for case in group]


class TestCrash:
    """A process that crashes costs one case, not the run."""

    def test_case(self, tmp_path, validate):
        """The case is a `crash`, and is not asked again in opmap's own process. All others have their verdicts."""
        code, out, _ = validate(
            "--filter", "*/example.*", "--report", "r", "--jobs", "2", body="if size == 5: os._exit(3)"
        )

        found = records(tmp_path / "r")
        crashed = [id for id, record in found.items() if record["verdict"] == "crash"]
        assert 1 == code
        assert ["gather/example.1"] == crashed
        assert "the process ended with exit code 0x3" in found["gather/example.1"]["message"]
        assert "the process ended with exit code 0x3" in out
        assert {"pass"} == {record["verdict"] for id, record in found.items() if id not in crashed}

    def test_once(self, tmp_path, validate):
        """A crash that does not come back when the cases are judged again is told of one case, as one that fails only when batched."""
        body = "if not os.path.exists('there'): open('there', 'w').close(); os._exit(3)"
        code, _, _ = validate("--filter", "*/example.*", "--report", "r", "--jobs", "2", body=body)

        found = records(tmp_path / "r")
        (wrong,) = [record for record in found.values() if record["verdict"] != "pass"]
        assert 1 == code
        assert "crash" == wrong["verdict"]
        count = len(wrong["batched_with"])
        assert (
            f"fails only when batched with {count} cases in its process: the process ended with exit code 0x3 while it judged this or one"
            " of them" in wrong["message"]
        )
        assert wrong["batched_with"] and set(wrong["batched_with"]) <= found.keys() - {wrong["case"]}

    def test_once_where_nothing_passes(self, tmp_path, validate):
        """Such a crash is told also if no case passes when it is judged again, with what the case shows then."""
        body = "if not os.path.exists('there'): open('there', 'w').close(); os._exit(3)\nraise ValueError('refused')"
        code, _, _ = validate("--filter", "*/example.*", "--report", "r", "--jobs", "2", body=body)

        found = records(tmp_path / "r")
        crashed = [record for record in found.values() if record["verdict"] == "crash"]
        assert 1 == code
        assert {"crash", "error"} == {record["verdict"] for record in found.values()}
        assert 1 == len(crashed)
        assert crashed[0]["message"].startswith("fails only when batched") and "exit code 0x3" in crashed[0]["message"]
        assert "; without them error: " in crashed[0]["message"] and "refused" in crashed[0]["message"]

    def test_probe(self, tmp_path, validate):
        """A probe that crashes is one too."""
        probe = "probe/gather/bool"

        code, _, _ = validate("--case", probe, "--report", "r", "--jobs", "2", body="os._exit(3)")

        assert 1 == code
        assert "crash" == records(tmp_path / "r")[probe]["verdict"]


class TestHangs:
    """The limit of hangs holds for all processes together: they may use one adapter."""

    def test_shared(self, tmp_path):
        """Two processes that hang once each have hung twice."""
        limits = [HangLimit(), HangLimit()]
        for limit in limits:
            limit.share(tmp_path / "hangs")
            assert limit.refusal("adapter") is None
            limit.note("adapter")

        assert all(limit.refusal("adapter") for limit in limits)
        assert limits[0].refusal("another adapter") is None

    def test_process(self, tmp_path, monkeypatch):
        """A process of a run counts its hangs in the file of the run."""
        limit = HangLimit()
        monkeypatch.setattr("opmap.session.jobs.HANG_LIMIT", limit)
        with _in_process(SessionOptions(provider="cpu"), True, tmp_path / "hangs"):
            limit.note("adapter")

        assert 1 == len((tmp_path / "hangs").read_bytes().splitlines())


class TestRefused:
    """What makes no sense is one clear line, exit code 2."""

    def test_exclusive(self, tmp_path, monkeypatch, capsys):
        """A provider that only one process can open."""
        text = """
        import pathlib

        class Exclusive:
            def __init__(self):
                pathlib.Path("lock").open("x").close()

            def run(self, model_bytes, feeds):
                raise NotImplementedError
        """
        (tmp_path / "exclusive.py").write_text(textwrap.dedent(text), encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        code = main(["validate", "--provider", "exclusive:Exclusive", "--filter", "gather/example.*", "--jobs", "2"])

        lines = capsys.readouterr().err.splitlines()
        assert 2 == code
        assert "opmap: --jobs needs a provider that several processes can open, got exclusive:Exclusive: " in lines[-1]
        assert "Traceback" not in "".join(lines)

    @pytest.mark.parametrize(
        "value, said", [("0", "a whole number from 1 on"), ("61", "at most 60"), ("two", "a whole number from 1 on")]
    )
    def test_number(self, value, said, capsys):
        """The number of processes has limits."""
        assert 2 == main(["validate", "--jobs", value])
        assert said in capsys.readouterr().err

    @pytest.mark.parametrize("name", ["DmlExecutionProvider", "directml", "CUDAExecutionProvider"])
    def test_provider(self, name):
        """One adapter or device takes one process."""
        provider = SimpleNamespace(
            name=name, direct=name == "directml", third_party=False, directml=name == "DmlExecutionProvider"
        )
        with pytest.raises(InputError, match=f"--jobs is for .*, got {name}: one (adapter|device) takes one process"):
            judging(SimpleNamespace(provider=provider), 2)

        assert judging(SimpleNamespace(provider=provider), 1).__enter__() is None
