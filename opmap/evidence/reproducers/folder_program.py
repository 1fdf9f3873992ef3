"""Writes `repro.py`: the program of an exported folder. It reads the model beside it, and needs only numpy and onnxruntime."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...engines.expectations import ExpectedStep
from ...engines.sessions import CPU, DIRECTML
from .literals import LONG
from .reproducer import ProgramWriter

MODEL = "model.onnx"

_HEAD = '''"""{title}

Exit code: 0 if all is right, 1 if something is wrong, 2 if this onnxruntime does not have the execution provider.
"""
{imports}
import numpy as np
import onnxruntime as ort

HERE = os.path.dirname(os.path.abspath(__file__))
DEFAULT, RECORDED = {provider!r}, {recorded!r}
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("provider", nargs="?", default=DEFAULT, help={help!r})
parser.add_argument("--option", action="append", default=[], metavar="K=V", help="a provider option, as device_id=1")
parser.add_argument("--library", metavar="PATH", help="a plugin library that has the execution provider")
arguments = parser.parse_args()
PROVIDER = {{"cpu": {cpu!r}, "dml": {directml!r}}}.get(arguments.provider, arguments.provider)
DEVICE = "dml" if PROVIDER == {directml!r} else "cpu"
OPTIONS, CONFIG = ({options!r}, {config!r}) if PROVIDER == DEFAULT else ({{}}, {{}})
OPTIONS.update(pair.partition("=")[::2] for pair in arguments.option)
wrong = False
sys.stdout.reconfigure(errors="backslashreplace")
print(f"{{PROVIDER}}, onnxruntime {{ort.__version__}}, numpy {{np.__version__}}, Python {{platform.python_version()}}")
if arguments.library:
    ort.register_execution_provider_library("library", os.path.abspath(arguments.library))
listed = [device.ep_name for device in ort.get_ep_devices()] if hasattr(ort, "get_ep_devices") else []
if PROVIDER not in (*ort.get_available_providers(), *listed, RECORDED):
    print("this onnxruntime does not have it, but", ", ".join({{*ort.get_available_providers(), *listed}}))
    sys.exit(2)


def failed(kind, error, trace):
    print(f"WRONG: {{kind.__name__}}: {{error}}")


def read(name):
    with open(os.path.join(HERE, name), "rb") as file:
        return file.read()


def test_data(name, dtype, sizes):
    """Returns a tensor of the test data: its values are the last bytes of its file."""
    return np.frombuffer(read(name)[-np.prod(sizes) * np.dtype(dtype).itemsize :], dtype).reshape(sizes)


def placement(session):
    if not hasattr(session, "get_provider_graph_assignment_info"):
        print("placement: this onnxruntime has no record; providers of the session:", session.get_providers())
        return
    graphs = session.get_provider_graph_assignment_info()
    nodes = [f"{{node.op_type}} on {{graph.ep_name}}" for graph in graphs for node in graph.get_nodes()]
    print("placement:", ", ".join(nodes) or "no record")


sys.excepthook = failed
'''

_SESSION = """    if hasattr(ort.InferenceSession, "get_provider_graph_assignment_info"):
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in CONFIG.items():
        if key not in config:
            options.add_session_config_entry(key, value)
    if PROVIDER not in ort.get_available_providers():
        found = [device for device in ort.get_ep_devices() if device.ep_name == PROVIDER]
        options.add_provider_for_devices(found[:1], OPTIONS)
        return ort.InferenceSession(model, options, enable_fallback=0)
"""

_CHECK = '''
def bits(array):
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def check(label, got, wanted):
    """Compares outputs bit for bit. Masked elements of a wanted output have no documented value."""
    global wrong
    for name, expected in wanted.items():
        actual, right, masked = got[name], np.ma.getdata(expected), np.ma.getmaskarray(expected)
        print(f"{label}: {name}")
        print("  expected", str(expected).replace("\\n", "\\n" + " " * 11))
        print("  actual  ", str(actual).replace("\\n", "\\n" + " " * 11))
        if (actual.dtype, actual.shape) != (right.dtype, right.shape):
            wrong = True
            print(f"  WRONG: must be {right.dtype} {list(right.shape)}, got {actual.dtype} {list(actual.shape)}")
            continue
        differ = np.argwhere((bits(actual) != bits(right)) & ~masked)
        for at in differ[:10]:
            one, other = (f"{array[tuple(at)]} (bits {bits(array)[tuple(at)]:x})" for array in (right, actual))
            print(f"  WRONG at {at.tolist()}: must be {one}, got {other}")
        wrong = wrong or len(differ) > 0
        print(f"  {len(differ)} of {actual.size} elements are wrong" if len(differ) else "  right")
'''


@dataclass(frozen=True)
class Recorded:
    """A wrong output that a provider gave, beside what it must be. Masked elements have no documented value."""

    provider: str
    output: str
    actual: np.ndarray
    expected: np.ndarray


def folder_program(
    expected_steps: Sequence[ExpectedStep],
    files: dict[str, bytes],
    *,
    title: str,
    provider: str = CPU,
    options: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
    recorded: Recorded | None = None,
) -> str:
    """Returns the program of a folder with these files, and adds the files that it needs beside them.

    `provider` is the default execution provider; `options` are its provider options, `config` its session configuration
    entries. With a `recorded` output, the program can also show that in place of a run.
    """
    writer = _FolderWriter([e.step for e in expected_steps], files, options or {}, config or {}, recorded)
    return writer.write(expected_steps, title, provider)


class _FolderWriter(ProgramWriter):
    """Writes a program whose models and large arrays are files beside it."""

    check = _CHECK
    body = _SESSION

    def __init__(
        self,
        all_steps: Sequence[object],
        files: dict[str, bytes],
        options: Mapping[str, str],
        config: Mapping[str, str],
        recorded: Recorded | None,
    ) -> None:
        super().__init__(all_steps)  # type: ignore[arg-type]
        self.files, self.options, self.config, self.recorded = files, options, config, recorded

    def head(self, title: str, provider: str, text: str) -> str:
        """Returns the imports, the command line, and the functions that every such program has."""
        imports = ["argparse", "os", "platform", "sys"]
        imports += ["tempfile"] if "tempfile" in text or any(s.profile or s.ort_format for s in self.setups) else []
        imports += ["threading"] if "run_async(" in text else []
        help = "cpu, dml, or ONNX Runtime's name of an execution provider"
        if self.recorded:
            help += "; or recorded, to show the wrong output that was recorded"
        return _HEAD.format(
            title=title.replace("\\", "/").replace('"', "'"),
            imports="\n".join(f"import {name}" for name in imports) + "\n",
            provider=provider,
            recorded="recorded" if self.recorded else None,
            help=f"{help} (default: {provider})",
            options=dict(self.options),
            config=dict(self.config),
            cpu=CPU,
            directml=DIRECTML,
        )

    def session(self) -> str:
        """Returns the function that creates a session; provider options of the command line come first."""
        return super().session().replace("[(PROVIDER, ", "[(PROVIDER, OPTIONS | ")

    def main(self, body: str) -> str:
        """Returns the steps; before them the recorded output, if there is one."""
        lines = []
        if recorded := self.recorded:
            actual, expected = self.array(recorded.actual), self.array(recorded.expected)
            label = f"recorded on {recorded.provider}"
            lines = ["if PROVIDER == RECORDED:"]
            lines.append(
                f"    check({label!r}, {{{recorded.output!r}: {actual}}}, {{{recorded.output!r}: {expected}}})"
            )
            lines += ["    sys.exit(int(wrong))", ""]
        return "\n".join([*lines, body, 'print("WRONG" if wrong else "right")', "sys.exit(int(wrong))"])

    def model(self, raw: bytes) -> str:
        """Returns an expression that reads the model from its file."""
        return f"read({self._file(raw, f'before_{len(self.files)}.onnx')!r})"

    def content(self, name: str, content: np.ndarray) -> str:
        """Returns an expression that reads a file."""
        return f"read({self._file(content.tobytes(), f'before_{len(self.files)}_{name}')!r})"

    def array(self, array: np.ndarray) -> str:
        """Returns an expression with exactly this array. A large one is in a file."""
        if isinstance(array, np.ma.MaskedArray) or array.size <= LONG:
            return super().array(array)
        raw, dtype = array.tobytes(), f"np.{'bool_' if array.dtype == np.bool_ else array.dtype.name}"
        for name, content in self.files.items():
            if name.startswith("test_data_set_0/") and content.endswith(raw):
                return f"test_data({name!r}, {dtype}, {array.shape!r})"
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        name = self._file(buffer.getvalue(), f"arrays/{len(self.files)}.npy")
        return f"np.load(os.path.join(HERE, {name!r}))"

    def opened(self, name: str) -> None:
        """Prints the placement of each session."""
        self.lines.append(f"placement({name})")

    def _file(self, content: bytes, name: str) -> str:
        """Returns the name of the file with this content; adds it under `name` if there is none."""
        for file_name, file_content in self.files.items():
            if file_content == content:
                return file_name
        self.files[name] = content
        return name
