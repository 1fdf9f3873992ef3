"""ONNX Runtime sessions: one model on one execution provider, without a silent fallback to another provider."""

from __future__ import annotations

import json
import os
import re
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..errors import ProviderError
from ..vocabulary import Stage
from .protocol import Placement

if TYPE_CHECKING:
    import onnxruntime

CPU = "CPUExecutionProvider"
DIRECTML = "DmlExecutionProvider"

Proof = Literal["assignment-info", "profile"]
"""The record of ONNX Runtime that the placement is read from. `assignment-info` exists since ONNX Runtime 1.24."""


class SessionProvider:
    """Runs models on one execution provider of ONNX Runtime, in this process.

    A session has one thread, because a thread pool makes the creation of a session many times slower. There is no
    fallback: Python's own fallback to the CPU EP is off, and a session on another provider fails to load if nodes are
    left to the CPU EP. `proof` is by default `assignment-info` if this ONNX Runtime has it.
    """

    def __init__(self, name: str, options: dict[str, str] | None = None, *, proof: Proof | None = None):
        import onnxruntime

        self.name, self.options = name, options or {}
        self.version: str = onnxruntime.__version__
        has_info = hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info")
        self.proof: Proof = proof or ("assignment-info" if has_info else "profile")
        self._runtime = onnxruntime
        self._placement: Placement | None = None
        onnxruntime.set_default_logger_severity(4)  # fatal only: the record holds warnings and errors as a verdict

    def run(self, model_bytes: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Returns the model's outputs. Raises ProviderError with the stage `load` or `run`."""
        self._placement = None
        with tempfile.TemporaryDirectory(prefix="opmap-") if self.proof == "profile" else nullcontext() as folder:
            try:
                session = self._session(model_bytes, folder)
            except Exception as error:  # ONNX Runtime's exceptions have no common base class
                raise ProviderError(_one_line(error), stage=Stage.LOAD) from error
            try:
                outputs: list[np.ndarray] = session.run(None, feeds)
            except Exception as error:
                raise ProviderError(_one_line(error), stage=Stage.RUN) from error
            finally:
                self._placement = self._read_placement(session)
            return outputs

    def placement(self) -> Placement | None:
        """Returns the placement of the last model; None if it was not loaded."""
        return self._placement

    def _session(self, model_bytes: bytes, profile_folder: str | None) -> onnxruntime.InferenceSession:
        """Creates a session. It writes a profile into `profile_folder`; without a folder it records its assignments."""
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        if self.name == DIRECTML:
            options.enable_mem_pattern = False
        if self.name != CPU:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        if profile_folder is None:
            options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        else:
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(profile_folder, "profile")
        return self._runtime.InferenceSession(
            model_bytes, options, providers=[(self.name, self.options)], enable_fallback=0
        )

    def _read_placement(self, session: onnxruntime.InferenceSession) -> Placement:
        if self.proof == "profile":
            return Placement("profile", _profiled_nodes(Path(session.end_profiling())))
        nodes = [
            (node.op_type, subgraph.ep_name)
            for subgraph in session.get_provider_graph_assignment_info()
            for node in subgraph.get_nodes()
        ]
        return Placement("assignment-info", tuple(nodes))


def _profiled_nodes(path: Path) -> tuple[tuple[str, str], ...]:
    """Returns operator type and execution provider of every node that ran, from ONNX Runtime's profile."""
    events = json.loads(path.read_text(encoding="utf-8"))
    return tuple(
        (event["args"]["op_name"], event["args"]["provider"])
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time") and event["args"].get("provider")
    )


_NOISE = re.compile(r"\\[\w.]+\.(?:pyd|dll)![0-9A-F]+: \(caller: [0-9A-F]+\) Exception\(\d+\) tid\([0-9a-f]+\)")
_BUILD_FOLDER = re.compile(r"[A-Za-z]:\\(?:[^\\\s]+\\)*?(?=onnxruntime\\core\\)")


def tidy(message: str) -> str:
    """Returns ONNX Runtime's message in one line.

    Removes the parts that differ between runs and builds: addresses, thread ids, the folder where it was built.
    """
    return " ".join(_NOISE.sub(":", _BUILD_FOLDER.sub("", message)).split())


def _one_line(error: Exception) -> str:
    return tidy(str(error)) or type(error).__name__
