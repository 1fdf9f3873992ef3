"""The provider `directml`, on a worker whose DirectML is Python (see pretend_directml)."""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from pathlib import Path

import pytest

from opmap.cases.selection import find_case
from opmap.cli import main
from opmap.engines import frames, providers, worker_main
from opmap.engines.direct import DirectProvider
from opmap.engines.dispatcher import Dispatcher
from opmap.engines.performer import Performer
from opmap.engines.provider_facts import DIRECT
from opmap.engines.providers import Provider, ProviderMissing, _device_types, full_name, open_provider
from opmap.engines.steps import Clear, Result
from opmap.engines.worker import DeviceLost, HangLimit
from opmap.errors import InputError
from opmap.judge.judge import Judge
from opmap.session import session
from opmap.vocabulary import Stage, Verdict

pytestmark = pytest.mark.platform

CHILD = Path(__file__).parents[1] / "pretend_directml.py"
ROOT = CHILD.parents[2]
EXAMPLE = "gather/example.2"


@pytest.fixture
def opened():
    """Returns a function that opens the provider with a trouble and with provider options."""
    open_ones: list[Provider] = []

    def open_with(trouble: str = "none", **options: str) -> Provider:
        command = [sys.executable, str(CHILD), str(ROOT), trouble]
        own = DirectProvider(DIRECT, options, command=command, hang_limit=HangLimit())
        open_ones.append(providers._opened(own))
        return open_ones[-1]

    yield open_with
    for one in open_ones:
        one.close()


class TestVerdicts:
    """What becomes of DirectML's answer."""

    def test_a_right_case_passes_with_its_own_types_and_the_proof_that_it_was_dispatched(self, opened):
        record = Judge(opened())(find_case(EXAMPLE))
        assert Verdict.PASS == record.verdict
        assert record.proven and not record.asserted
        assert ("dispatched", [("DML_OPERATOR_GATHER", DIRECT)]) == (record.placement.source, record.placement.nodes)
        assert (DIRECT, "emulated") == (record.provider, record.device_class)
        assert (None, None) == (record.substitutions, record.lowered_as)

    def test_an_operator_that_no_model_can_say_is_run_as_itself(self, opened):
        record = Judge(opened())(find_case("gather_nd/example.2"))
        assert (Verdict.PASS, "DML_OPERATOR_GATHER_ND") == (record.verdict, record.placement.nodes[0][0])

    @pytest.mark.parametrize("trouble", ["wrong", "behind", "refused", "binding", "unsupported"])
    def test_trouble_has_a_verdict(self, opened, trouble):
        verdict, stage, text = {
            "wrong": (Verdict.MISMATCH, Stage.COMPARE, "8 of 8 elements differ"),
            "behind": (
                Verdict.MISMATCH,
                Stage.COMPARE,
                "must leave memory outside of the tensor untouched, got 1 changed",
            ),
            "refused": (Verdict.ERROR, Stage.LOAD, "IDMLDevice1::CreateOperator: 80070057 E_INVALIDARG"),
            "binding": (Verdict.ERROR, Stage.RUN, "DirectML refused a binding; the Direct3D 12 device lives on"),
            "unsupported": (Verdict.UNSUPPORTED, Stage.LOAD, "the device does not support FLOAT64"),
        }[trouble]
        record = Judge(opened(trouble))(find_case(EXAMPLE))
        assert (verdict, stage) == (record.verdict, record.stage)
        assert text in record.message

    @pytest.mark.slow
    def test_a_lost_device_ends_the_worker_process_and_a_refused_binding_does_not(self, opened):
        lost, refused = opened("lost"), opened("binding")
        assert Verdict.DEVICE_LOST == Judge(lost)(find_case(EXAMPLE)).verdict
        with pytest.raises(DeviceLost):
            lost.run_case(find_case(EXAMPLE))
        before = refused.runner.pid
        Judge(refused)(find_case(EXAMPLE))
        assert before == refused.runner.pid

    def test_a_graph_is_compiled_if_it_is_asked_for(self, opened):
        case = find_case(EXAMPLE)
        assert Verdict.PASS == Judge(opened("graph"))(case).verdict
        assert Verdict.MISMATCH == Judge(opened("graph", compile="graph"))(case).verdict

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("layout", "trouble"), [("strides", "behind"), ("padding", "behind"), ("compile-graph", "graph")]
    )
    def test_a_case_in_a_layout_is_run_so(self, opened, layout, trouble):
        """The troubles are those that this layout can show."""
        case = find_case(f"{EXAMPLE}/{layout}")
        assert Verdict.PASS == Judge(opened())(case).verdict
        assert Verdict.MISMATCH == Judge(opened(trouble))(case).verdict

    @pytest.mark.parametrize("layout", ["strides", "padding"])
    def test_a_write_inside_the_tensor_that_hits_no_element_is_a_note(self, opened, layout):
        record = Judge(opened("gap"))(find_case(f"{EXAMPLE}/{layout}"))
        note = "OutputTensor: memory that holds no element was written, inside TotalTensorSizeInBytes"
        assert (Verdict.PASS, note) == (record.verdict, record.message)


STRIDED = {
    "resources": {
        "in": {"initialValuesDataType": "FLOAT32", "initialValues": [0, 1, 2, -9, 3, 4, 5, -9, 6, 7, 8, -9]},
        "idx": {"initialValuesDataType": "UINT64", "initialValues": [2, 0]},
        "out": {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 0, "valueCount": 40}},
    },
    "dispatchables": {
        "g": {
            "type": "DML_OPERATOR_GATHER",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [3, 3], "Strides": [4, 1]},
                "IndicesTensor": {"DataType": "UINT64", "Sizes": [1, 2], "Strides": [0, 1]},
                "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3, 2], "Strides": [1, 5]},
                "Axis": 1,
                "IndexDimensions": 1,
            },
        }
    },
    "commands": [
        {
            "type": "dispatch",
            "dispatchable": "g",
            "bindings": {"InputTensor": "in", "IndicesTensor": "idx", "OutputTensor": "out"},
        }
    ],
}


class TestCheck:
    """`opmap check` of a DxDispatch file with strides, which no other provider can run."""

    @pytest.mark.parametrize(
        ("trouble", "code", "text"),
        [("none", 0, "pass "), ("behind", 1, "memory outside of the tensor"), ("wrong", 1, "6 of 6")],
    )
    def test_a_file_with_strides(self, opened, trouble, code, text, tmp_path, monkeypatch, capsys):
        file = tmp_path / "strided.json"
        file.write_text(json.dumps(STRIDED), encoding="utf-8")
        monkeypatch.setattr(session, "open_provider", lambda *_, **__: opened(trouble))
        assert code == main(["check", str(file), "--provider", "directml"])
        assert text in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("trouble", "element", "code", "text"),
        [
            ("none", 8, 0, "pass "),
            ("offset", 8, 1, "changed bytes, the first at byte -32, before the tensor of 32 bytes"),
            ("none", 1, 1, "DirectML refused a binding"),
        ],
    )
    def test_a_file_with_offsets_is_dispatched_at_them(
        self, opened, trouble, element, code, text, tmp_path, monkeypatch, capsys
    ):
        """Offsets that are no multiple of 16 bytes are refused by DirectML."""
        file, model = tmp_path / "offsets.json", deepcopy(STRIDED)
        model["commands"][0]["bindings"] = {
            "InputTensor": {"name": "in", "elementOffset": 4},
            "IndicesTensor": {"name": "idx", "elementOffset": 2},
            "OutputTensor": {"name": "out", "elementOffset": element},
        }
        model["resources"]["in"]["initialValues"][:0] = [-1, -1, -1, -1]
        model["resources"]["idx"]["initialValues"][:0] = [1, 1]
        file.write_text(json.dumps(model), encoding="utf-8")
        monkeypatch.setattr(session, "open_provider", lambda *_, **__: opened(trouble))
        assert code == main(["check", str(file), "--provider", "directml"])
        assert text in capsys.readouterr().out

    def test_an_output_must_hold_the_tensor_at_its_offset(self, tmp_path, capsys):
        file, model = tmp_path / "offsets.json", deepcopy(STRIDED)
        model["commands"][0]["bindings"]["OutputTensor"] = {"name": "out", "elementOffset": 2**30}
        file.write_text(json.dumps(model), encoding="utf-8")
        assert 2 == main(["check", str(file), "--provider", "cpu"])
        assert "must hold 32 bytes from byte 4294967296 on, resource 'out' has 160" in capsys.readouterr().err


class TestProvider:
    """The provider as a whole."""

    def test_it_runs_cases_and_no_models(self, opened):
        provider = opened()
        assert provider.runs_cases and provider.direct
        assert not (provider.third_party or provider.directml or provider.sessions)
        assert ("1.15.4.0", "pretended", "emulated") == (provider.version, provider.adapter, provider.device_class)
        with pytest.raises(TypeError, match="directml runs cases, not models"):
            provider.performer  # noqa: B018  # the property raises

    def test_its_calls_are_counted(self, opened):
        provider = opened()
        for number in (1, 2, 3):
            provider.run_case(find_case(EXAMPLE))
            assert number == provider.runner.calls

    @pytest.mark.slow
    def test_another_one_beside_it_is_of_the_same_kind(self, opened):
        with opened().runner.beside() as beside:
            assert isinstance(beside, DirectProvider)
            assert (4, 2) == beside.run_case(find_case(EXAMPLE)).outputs["OutputTensor"].shape

    @pytest.mark.parametrize("holds", [True, False])
    def test_a_step_that_releases_the_lock_needs_no_timer(self, holds, monkeypatch):
        """The timer is for a hang in which no Python thread runs; it takes more time than a dispatch."""
        provider, timers = Performer(), []
        monkeypatch.setattr(provider, "holds_lock", holds)
        monkeypatch.setattr(provider, "perform", lambda step: Result())
        monkeypatch.setattr(worker_main.faulthandler, "dump_traceback_later", lambda *_, **__: timers.append(1))
        assert Result() == worker_main._perform(provider, frames.Perform(Clear(), 1.0))
        assert int(holds) == len(timers)
        assert Performer.holds_lock and not Dispatcher.holds_lock

    def test_what_the_device_supports_is_among_the_facts(self, opened):
        assert ["FLOAT32", "INT32"] == opened().environment()["directml_data_types"].value

    def test_its_data_types_are_asked_for_the_execution_provider(self):
        command = [sys.executable, str(CHILD), str(ROOT), "none"]
        assert ["FLOAT32", "INT32"] == _device_types(None, command)
        assert _device_types(None, [sys.executable, "-c", "nothing here answers"]) is None

    def test_a_directml_of_its_own_is_not_the_execution_provider(self):
        assert ("directml", "directml", "DmlExecutionProvider") == tuple(
            map(full_name, ("directml", "DirectML", "dml"))
        )

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"session_options": {"a": "b"}}, "--session-option and --ep-library are for ONNX Runtime, got 'directml'"),
            ({"provider_options": {"a": "b"}}, "--provider-option must be compile for --provider directml, got 'a'"),
            (
                {"provider_options": {"compile": "x"}},
                "--provider-option compile must be operator or graph for --provider directml, got 'x'",
            ),
            ({"in_process": True}, "--in-process is for MODULE:NAME, got 'directml'"),
        ],
        ids=["session-option", "provider-option", "compile", "in-process"],
    )
    def test_an_option_that_it_does_not_take_is_bad_usage(self, options, text):
        with pytest.raises(InputError) as error:
            open_provider("directml", **options)
        assert text in str(error.value)

    def test_there_are_no_random_sequences_over_sessions(self, capsys):
        assert 2 == main(["fuzz", "--provider", "directml"])
        assert "--provider directml takes cases in place of models: opmap fuzz needs dml" in capsys.readouterr().err

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has DirectML")
    def test_it_is_missing_where_there_is_no_directml(self, monkeypatch):
        monkeypatch.delenv("OPMAP_DML_RUNTIME", raising=False)
        with pytest.raises(ProviderMissing, match="directml needs Windows"):
            open_provider("directml")
