"""`opmap validate --large`: large tensors, of whose output a sample is checked. The tests use small ones of the same
kind."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
from described import described

from opmap.cases import large_tensors
from opmap.cases.large_tensors import SAMPLE, LargeCase, large_cases
from opmap.cli import main
from opmap.engines.frames import FrameError
from opmap.engines.providers import Provider, open_provider
from opmap.engines.sessions import SessionProvider
from opmap.errors import ProviderError
from opmap.judge.large import judge_large
from opmap.tensors import DataType, Tensor
from opmap.vocabulary import Stage, Verdict


def large_case(id, data_type, sizes, axis, count):
    """A case of few elements, as the large ones are: `count` rows or columns."""
    return LargeCase(id, described("GATHER", sizes, (1, count), axis, 1, data_type=data_type))


SMALL = [
    large_case("gather/large.rows.uint8", DataType.UINT8, (33, 600), 0, 9),
    large_case("gather/large.columns.uint8", DataType.UINT8, (33, 600), 1, 7),
    large_case("gather/large.rows.uint32", DataType.UINT32, (9, 650), 0, 9),
]


class Wrong(SessionProvider):
    """The CPU EP, whose output differs from some element on."""

    def run_once(self, model_bytes, feeds):
        result = super().run_once(model_bytes, feeds)
        ((name, output),) = result.outputs.items()
        output = output.copy()
        output.reshape(-1)[output.size // 2 :] ^= 1
        return msgspec.structs.replace(result, outputs={name: output})


class Unsent(SessionProvider):
    """A provider behind a pipe that takes no tensor."""

    def run_once(self, model_bytes, feeds):
        raise FrameError("a frame is too long")


class Failing(SessionProvider):
    """A provider that fails with this message."""

    message = ""

    def run_once(self, model_bytes, feeds):
        raise ProviderError(self.message, stage=Stage.RUN)


class TestCases:
    """The cases are what the option says, and their values follow from the addresses."""

    def test_sizes(self):
        """Each has more than 2^31 bytes of data, and a small output. The ids are those of no other case."""
        sizes = [case.desc.inputs["InputTensor"].minimum_size_in_bytes for case in large_cases()]

        assert all(2**31 < size < 2**31 + 2**20 for size in sizes)
        assert max(case.desc.output.element_count for case in large_cases()) < 2**23
        assert all(not case.desc.violations() for case in large_cases())
        assert 3 == len({case.id for case in large_cases()} | {case.id for case in SMALL})

    @pytest.mark.parametrize("case", SMALL, ids=lambda case: case.id)
    def test_values(self, case, monkeypatch):
        """The data has the value of each address, also beyond a chunk; the whole interpretation agrees with the
        sample.
        """
        monkeypatch.setattr(large_tensors, "_CHUNK", 1000)
        tensor = case.desc.inputs["InputTensor"]
        data = Tensor.from_bytes(tensor.data_type, tensor.sizes, case.data().tobytes())
        expected = case.desc.interpret({"InputTensor": data, **case.indices})

        assert [case.value(address) for address in range(tensor.element_count)] == list(data.bits)
        for address in case.sample():
            at = [int(c) for c in np.unravel_index(address, case.desc.output.sizes)]
            assert expected[address] == case.value(case.desc.trace(at, case.indices).address)

    def test_sample(self):
        """The sample has the first and the last element, no element twice, and follows from the id."""
        case = SMALL[0]
        sample = list(case.sample())

        assert (SAMPLE, 0, 9 * 600 - 1) == (len(sample), sample[0], sample[-1])
        assert sorted(set(sample)) == sample == list(case.sample())
        assert sample != list(large_case("gather/large.other", DataType.UINT8, (33, 600), 0, 9).sample())
        assert 33 * 7 == len(SMALL[1].sample())


class TestJudged:
    """A result says how many elements were checked, and a wrong one is found."""

    @pytest.mark.parametrize("case", SMALL, ids=lambda case: case.id)
    def test_cpu(self, case):
        """The CPU EP is right."""
        record = judge_large(case, open_provider("cpu"))

        count = case.desc.output.element_count
        assert (Verdict.PASS, True) == (record.verdict, record.proven)
        assert f"checked {min(SAMPLE, count):,} of {count:,} elements, chosen by the case id" == record.message

    def test_wrong(self):
        """A wrong element is shown as the pseudocode reads it."""
        provider = Wrong("CPUExecutionProvider")

        record = judge_large(SMALL[2], Provider("CPUExecutionProvider", "", "hardware", provider))

        assert Verdict.MISMATCH == record.verdict
        assert "checked 4,096 of 5,850 elements" in record.message
        assert "differ, the first: output[" in record.message

    def test_no_pipe(self):
        """A worker process to which the tensors cannot be sent runs nothing."""
        provider = Unsent("CPUExecutionProvider")

        record = judge_large(SMALL[0], Provider("CPUExecutionProvider", "", "hardware", provider))

        assert (Verdict.NOT_RUN, "a frame is too long") == (record.verdict, record.message)

    @pytest.mark.parametrize(
        ("message", "verdict"),
        [
            ("DmlCommittedResourceAllocator.cpp(22): 8007000E Out of memory.", Verdict.NOT_RUN),
            ("bfc_arena.cc: Failed to allocate memory for requested buffer of size 2147549184", Verdict.NOT_RUN),
            ("GetDeviceRemovedReason: 887A0005", Verdict.ERROR),
        ],
    )
    def test_no_memory_on_the_device(self, message, verdict):
        """A device without the memory cannot run the case; any other error is an error. Both keep the message."""
        provider = Failing("CPUExecutionProvider")
        provider.message = message

        record = judge_large(SMALL[0], Provider("CPUExecutionProvider", "", "hardware", provider))

        assert verdict == record.verdict
        assert message in record.message

    def test_no_memory(self, monkeypatch):
        """Without memory nothing is run."""
        monkeypatch.setattr(np, "empty", lambda *_, **__: (_ for _ in ()).throw(MemoryError))

        assert Verdict.NOT_RUN == judge_large(SMALL[0], open_provider("cpu")).verdict


class TestCommand:
    """The option runs these cases alone."""

    def test_table(self, run_opmap, monkeypatch):
        """The cases, what was checked of each, and the exit code."""
        monkeypatch.setattr("opmap.cli.commands.large_tensors.large_cases", lambda: SMALL)

        text = " ".join(run_opmap(0, "validate", "--provider", "cpu", "--large", "--require-provider").out.split())
        assert "gather/large.rows.uint8: checked 4,096 of 5,400 elements, chosen by the case id" in text
        assert "3 of 3 cases proven to have run on CPUExecutionProvider" in text

    def test_json(self, capsys, monkeypatch):
        """One document with a record per case."""
        monkeypatch.setattr("opmap.cli.commands.large_tensors.large_cases", lambda: SMALL)

        assert 0 == main(["validate", "--provider", "cpu", "--large", "--json"])
        assert [c.id for c in SMALL] == [record["case"] for record in json.loads(capsys.readouterr().out)["cases"]]

    @pytest.mark.parametrize("more", [("--filter", "gather/*"), ("--report", "r"), ("--shard", "1/2"), ("--pack", "2")])
    def test_refused(self, more, refusal):
        """What has no meaning beside it is refused."""
        assert f"leave out {more[0]}" in refusal("validate", "--provider", "cpu", "--large", *more)

    def test_provider(self, capsys):
        """A provider that runs cases has no model."""
        assert 1 == main(["validate", "--provider", "fault:none", "--large", "--require-provider"])
        assert "needs a provider that runs models" in capsys.readouterr().out
