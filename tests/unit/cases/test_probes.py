"""Probes: each has an expected outcome per provider, and any other outcome is red."""

from __future__ import annotations

import re

import numpy as np
import onnx.checker
import pytest
from fixed_answers import Fixed

from opmap import open_provider
from opmap.cases.probes import probes
from opmap.engines.performer import Performer
from opmap.engines.protocol import Placement, origin
from opmap.engines.providers import Provider
from opmap.engines.session_records import tidy
from opmap.engines.third_party import ThirdPartyProvider
from opmap.engines.worker import WorkerCrashed
from opmap.errors import ProviderError
from opmap.judge.probes import judge_probe
from opmap.operators import OPERATORS

CPU = open_provider("cpu")
DIRECTML = "DmlExecutionProvider"


class Answers(Fixed):
    """A provider that always gives the same answer, and says that DirectML computed it."""

    def placement(self):
        return Placement("asserted", (("Gather", DIRECTML),))


def directml(answer, device_class="hardware") -> Provider:
    return Provider(DIRECTML, "1", device_class, ThirdPartyProvider(Answers(answer), DIRECTML))


def probe(id: str):
    return next(p for p in probes() if p.id == f"probe/{id}")


DISABLED = "fallback to CPU EP has been explicitly disabled"


class TestData:
    """The files of the probes."""

    @pytest.mark.parametrize("probe", probes(), ids=lambda p: p.id)
    def test_model(self, probe):
        """Each probe is a valid ONNX model of an operator, with a reason for each expected outcome."""
        onnx.checker.check_model(probe.model_proto())
        assert probe.id.split("/")[1].upper() in OPERATORS
        assert re.fullmatch(r"probe/[a-z0-9_]+/[a-z0-9-]+", probe.id)
        assert {o.provider for o in probe.outcomes} == {CPU.name, DIRECTML}
        assert all(o.reason for o in probe.outcomes)


class TestCpu:
    """The CPU EP answers as expected."""

    @pytest.mark.parametrize("probe", probes(), ids=lambda p: p.id)
    def test_pass(self, probe):
        """Every probe passes."""
        assert judge_probe(probe, CPU).verdict == "pass"


class TestVerdicts:
    """The result is compared with the expected outcome."""

    @pytest.mark.parametrize(
        "answer, verdict",
        [
            (ProviderError(f"This session contains graph nodes, but {DISABLED} by the user."), "pass"),
            (ProviderError(DISABLED, stage="run"), "mismatch"),
            (ProviderError("80004005"), "mismatch"),
            ([np.array([11], "float32")], "mismatch"),
        ],
    )
    def test_refusal(self, answer, verdict):
        """A refusal must have its stage and text; a result instead of a refusal is wrong."""
        record = judge_probe(probe("gather/string"), directml(answer))

        assert record.verdict == verdict
        assert DISABLED in record.message
        assert ("and DmlExecutionProvider ran it" in record.message) == isinstance(answer, list)

    @pytest.mark.parametrize(
        "device_class, answer, verdict",
        [
            ("emulated", ProviderError("80004005"), "known-failure"),
            ("emulated", [np.array([11], "float32")], "unexpected-pass"),
            ("hardware", ProviderError("80004005"), "error"),
            ("hardware", [np.array([11], "float32")], "pass"),
            ("hardware", [np.array([10], "float32")], "mismatch"),
            ("hardware", [np.array([11], "float64")], "mismatch"),
            ("hardware", [[11.0]], "mismatch"),
            ("hardware", [None], "mismatch"),
            ("hardware", None, "mismatch"),
        ],
    )
    def test_device_class(self, device_class, answer, verdict):
        """A limit of the emulated device is known for this device class only."""
        assert judge_probe(probe("gather/cast-to-int64"), directml(answer, device_class)).verdict == verdict

    def test_crash(self):
        """A crash stays a crash, whatever outcome was expected."""

        class Lost(Performer):
            def perform(self, step, limit=None):
                raise WorkerCrashed("gone")

        opened = Provider(DIRECTML, "1", "hardware", Lost())
        assert judge_probe(probe("gather/rank-9"), opened).verdict == "crash"

    @pytest.mark.parametrize("answer", [[np.zeros(3, "float32")], [np.ones(3, "float32")], [np.ones(4, "int8")], None])
    def test_invalid_model(self, answer):
        """A model that ONNX forbids has no right values: the message says that the provider ran it, and compares
        none.
        """
        invalid = probe("gather_nd1/mismatched-batches")
        mine = Provider("Mine", None, None, ThirdPartyProvider(Answers(answer), "Mine"))

        observed, wrong = judge_probe(invalid, mine), judge_probe(invalid, directml(answer))

        text = "the model is invalid (data and indices with different batch sizes, which ONNX forbids), and Mine ran it"
        assert ("observed", text) == (observed.verdict, observed.message)
        assert "mismatch" == wrong.verdict
        assert wrong.message.startswith("the model must be refused, as error at load with 80070057 (refused at")
        assert wrong.message.endswith("), and DmlExecutionProvider ran it")

    def test_unknown_provider(self):
        """A provider without an expected outcome is observed."""
        record = judge_probe(
            probe("gather/rank-9"),
            Provider("Mine", None, None, ThirdPartyProvider(Answers(ValueError("no")), "Mine")),
        )

        assert record.verdict == "observed"
        assert "ValueError: no" in record.message


class TestOrigin:
    """The place in ONNX Runtime's source is kept of an error; what differs between runs is removed."""

    MESSAGE = (
        "Exception during initialization: E:\\_work\\1\\s\\onnxruntime\\core\\providers\\dml\\DmlExecutionProvider\\src\\"
        "AbiCustomRegistry.cpp(519)\\onnxruntime_pybind11_state.pyd!00006FFFF5552AFD: (caller: 00006FFFF54BB94C)"
        " Exception(3) tid(31a) 80070057 Invalid parameter."
    )

    def test_message(self):
        """Source file, line and HRESULT stay; addresses, threads, counts and the build folder are removed."""
        assert tidy(self.MESSAGE) == (
            "Exception during initialization: onnxruntime\\core\\providers\\dml\\DmlExecutionProvider\\src\\"
            "AbiCustomRegistry.cpp(519): 80070057 Invalid parameter."
        )

    def test_place(self):
        """Source file, line and HRESULT are the path of the record."""
        record = judge_probe(probe("gather/rank-9"), directml(ProviderError(tidy(self.MESSAGE))))

        assert record.error_at == "AbiCustomRegistry.cpp(519) 80070057"
        assert origin("indices element out of data bounds") is None
