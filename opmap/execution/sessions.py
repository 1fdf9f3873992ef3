"""ONNX Runtime sessions: one model, one execution provider, no way for another provider to take over unseen."""

from __future__ import annotations

import json
import os
import re
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from ..errors import ProviderError
from .provider import Placement

CPU = "CPUExecutionProvider"
DIRECTML = "DmlExecutionProvider"


class SessionProvider:
    """Runs models on one execution provider of ONNX Runtime.

    Sessions have one thread (a thread pool makes creating one many times as expensive), and no fallback: Python's
    fallback to the CPU is off, and nodes left to the CPU EP are an error where another provider was asked for.

    `proof` chooses where placement is read from: `assignment-info` (ONNX Runtime 1.24 and later) or `profile`.
    """

    def __init__(self, name: str, options: dict[str, str] | None = None, *, proof: str | None = None):
        import onnxruntime

        self.name, self.options = name, options or {}
        self.version = onnxruntime.__version__
        self.proof = proof or (
            "assignment-info"
            if hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info")
            else "profile"
        )
        self._runtime = onnxruntime
        self._placement: Placement | None = None
        onnxruntime.set_default_logger_severity(4)  # what is said as a warning, the record says as a verdict

    def run(self, model_bytes: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The model's outputs. Raises ProviderError with the stage `load` or `run`."""
        self._placement = None
        with tempfile.TemporaryDirectory(prefix="opmap-") if self.proof == "profile" else nullcontext() as folder:
            try:
                session = self._session(model_bytes, folder)
            except Exception as error:  # ONNX Runtime raises its statuses as bare exceptions
                raise ProviderError(_one_line(error), stage="load") from error
            try:
                outputs = session.run(None, feeds)
            except Exception as error:
                raise ProviderError(_one_line(error), stage="run") from error
            finally:
                self._placement = self._read_placement(session)
            return outputs

    def placement(self) -> Placement | None:
        """Where the nodes of the last model were; None where it never ran."""
        return self._placement

    def _session(self, model_bytes: bytes, folder: str | None):
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        if self.name == DIRECTML:
            options.enable_mem_pattern = False
        if self.name != CPU:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        if self.proof == "assignment-info":
            options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        else:
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(folder, "profile")
        return self._runtime.InferenceSession(
            model_bytes, options, providers=[(self.name, self.options)], enable_fallback=0
        )

    def _read_placement(self, session) -> Placement:
        if self.proof == "profile":
            return Placement("profile", _profiled(Path(session.end_profiling())))
        nodes = [
            (node.op_type, subgraph.ep_name)
            for subgraph in session.get_provider_graph_assignment_info()
            for node in subgraph.get_nodes()
        ]
        return Placement("assignment-info", tuple(nodes))


def _profiled(path: Path) -> tuple[tuple[str, str], ...]:
    """(operator type, provider) of every node that a profile saw running."""
    events = json.loads(path.read_text(encoding="utf-8"))
    return tuple(
        (event["args"]["op_name"], event["args"]["provider"])
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time") and event["args"].get("provider")
    )


_NOISE = re.compile(r"\\[\w.]+\.(?:pyd|dll)![0-9A-F]+: \(caller: [0-9A-F]+\) Exception\(\d+\) tid\([0-9a-f]+\)")
_BUILD_FOLDER = re.compile(r"[A-Za-z]:\\(?:[^\\\s]+\\)*?(?=onnxruntime\\core\\)")


def tidy(message: str) -> str:
    """ONNX Runtime's message in one line, without what differs from run to run: addresses, threads, its build folder."""
    return " ".join(_NOISE.sub(":", _BUILD_FOLDER.sub("", message)).split())


def _one_line(error: Exception) -> str:
    return tidy(str(error)) or type(error).__name__
