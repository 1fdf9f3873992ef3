"""Writes a reproducer: a Python program of a few lines that needs only numpy, onnx and onnxruntime.

It performs steps, prints what it got and what it wanted, and exits with 1 if something is wrong, else with 0. The execution
provider is its first argument; the default is the one on which the failure was found.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from ...engines import steps
from ...engines.expectations import ExpectedStep
from ...engines.steps import AnyStep, Setup
from .literals import array_literal, bytes_literal, model_literal

Wanted = Mapping[str, np.ndarray] | Sequence[Mapping[str, np.ndarray]] | Literal["refused", "maybe"] | None
"""What a step must return: outputs by name, of the step `together` of each of its runs; an error; or nothing that is checked.

With `maybe`, the step may fail. So may one with masked elements, which are not compared: an index is out of range."""

_SESSION = """
def session(model, level=None, config={{}}, {parameters}):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level, options.enable_mem_pattern = 1, 4, {pattern}
    if level is not None:
        options.graph_optimization_level = ort.GraphOptimizationLevel(level)
    for key, value in config.items():
        options.add_session_config_entry(key, value)
{body}    providers = [(PROVIDER, {provider_options})]
    return ort.InferenceSession(model, options, providers=providers, enable_fallback=0{keywords})
"""

_DEVICES = """    if devices:
        found = [device for device in ort.get_ep_devices() if device.ep_name == PROVIDER]
        options.add_provider_for_devices(found[:1], {})
        return ort.InferenceSession(model, options, enable_fallback=0)
"""

_PROFILE = """    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(tempfile.mkdtemp(), "profile")
"""

_INITIALIZERS = """    given = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in initializers.items()}
    for name, value in given.items():
        options.add_initializer(name, value)
"""

_ORT_FORMAT = """    if ort_format:
        saving = ort.SessionOptions()
        saving.log_severity_level = 4
        saving.optimized_model_filepath = os.path.join(tempfile.mkdtemp(), "model.ort")
        saving.add_session_config_entry("session.save_model_format", "ORT")
        ort.InferenceSession(model, saving, providers=[PROVIDER], enable_fallback=0)
        model = saving.optimized_model_filepath
"""

_ASYNC = """
def run_async(session, names, feeds):
    done, answer = threading.Event(), []

    def finish(outputs, _, error):
        answer.extend((outputs, error))
        done.set()

    session.run_async(names, feeds, finish, None, None)
    done.wait()
    if answer[1]:
        raise RuntimeError(answer[1])
    return answer[0]
"""

_CHECK = """
def check(label, got, wanted):
    global wrong
    for name, right in wanted.items():
        array = got[name]
        same = (array.dtype, array.shape, array.tobytes()) == (right.dtype, right.shape, right.tobytes())
        wrong = wrong or not same
        print(f"{label} {name}: {'right' if same else 'WRONG'}\\n  got    {array.tolist()}\\n  wanted {right.tolist()}")
"""

_OPTIONS = """
def run_options(config):
    options = ort.RunOptions()
    for key, value in config.items():
        options.add_run_config_entry(key, value)
    return options
"""


def program(expected_steps: Sequence[ExpectedStep], *, title: str, provider: str) -> str:
    """Returns the program that performs these steps. `provider` is the default execution provider, by its full name."""
    return ProgramWriter([e.step for e in expected_steps]).write(expected_steps, title, provider)


def _wanted(expected: ExpectedStep) -> Wanted:
    """Returns what a step of a contract probe must return."""
    if expected.fails == "always":
        return "refused"
    if isinstance(expected.step, steps.Concurrent):
        return expected.outputs or None
    return expected.outputs[0] if expected.outputs else "maybe" if expected.fails == "perhaps" else None


class ProgramWriter:
    """Writes one program. A subclass may write arrays and models elsewhere, and check and print more."""

    check = _CHECK
    """The function that compares the outputs of a step with the wanted ones."""

    body = ""
    """Lines of the function that creates a session, beside those that the steps need."""

    def __init__(self, all_steps: Sequence[AnyStep]) -> None:
        self.steps = all_steps
        self.setups = [step.setup for step in all_steps if isinstance(step, steps.Open)]
        self.models: dict[bytes, str] = {}
        self.bound: dict[str, list[str]] = {}
        self.alive: list[str] = []
        self.lines: list[str] = []

    def write(self, expected_steps: Sequence[ExpectedStep], title: str, provider: str) -> str:
        """Returns the program."""
        for number, expected in enumerate(expected_steps, 1):
            step = expected.step
            self._step(step, _wanted(expected), f"{type(step).__name__.lower()} {number}")
        body = "\n".join(self.lines)
        models = "\n".join(f"{name} = {self.model(raw)}" for raw, name in self.models.items())
        head = self.head(title, provider, f"{models}\n{body}")
        parts = [head, models, self.session()]
        parts += [self.check] if "check(" in body else []
        parts += [_OPTIONS] if "run_options(" in body else []
        parts += [_ASYNC] if "run_async(" in body else []
        return "\n".join(part.rstrip("\n") + "\n" for part in parts if part) + f"\n\n{self.main(body)}\n"

    # --- what a subclass may write in another way ---

    def head(self, title: str, provider: str, text: str) -> str:
        """Returns the beginning: the docstring, the imports that `text` needs, and the constants."""
        imports = ["import sys", "", "import numpy as np"]
        if "onnx.parser" in text:
            imports.append("import onnx.parser")
        imports.append("import onnxruntime as ort")
        if any(setup.profile or setup.ort_format for setup in self.setups) or "tempfile" in text:
            imports[:1] = ["import os", "import sys", "import tempfile"]
        if "base64" in text:
            imports.insert(0, "import base64")
        if "ThreadPoolExecutor" in text:
            imports.insert(0, "from concurrent.futures import ThreadPoolExecutor")
        if "run_async(" in text:
            imports.insert(imports.index("import sys") + 1, "import threading")
        quoted = title.replace("\\", "/").replace('"', "'")
        head = [f'"""{quoted}"""', *imports, "", f"PROVIDER = sys.argv[1] if len(sys.argv) > 1 else {provider!r}"]
        if "DEVICE" in text:
            head.append('DEVICE = "dml" if PROVIDER == "DmlExecutionProvider" else "cpu"')
        return "\n".join(head) + "\n\nwrong = False\n"

    def main(self, body: str) -> str:
        """Returns the end: the steps, and the exit."""
        return f"{body}\nsys.exit(int(wrong))"

    def model(self, raw: bytes) -> str:
        """Returns an expression with the bytes of a model."""
        return model_literal(raw)

    def content(self, name: str, content: np.ndarray) -> str:
        """Returns an expression with the bytes of a file that a session needs."""
        return bytes_literal(content)

    def array(self, array: np.ndarray) -> str:
        """Returns an expression with exactly this array; masked elements stay masked."""
        if isinstance(array, np.ma.MaskedArray):
            return f"np.ma.array({self.array(np.ma.getdata(array))}, mask={self.array(np.ma.getmaskarray(array))})"
        return array_literal(array)

    def opened(self, name: str) -> None:
        """Is called after the lines that open a session of this name."""

    # --- sessions ---

    def session(self) -> str:
        """Returns the function that creates a session, with the options that this program needs."""
        setups = self.setups
        parameters: list[str] = []
        body = ""
        if any(s.threads != 1 for s in setups):
            parameters.append("threads=1")
            body += "    options.intra_op_num_threads = threads\n"
        if any(s.free_dimensions for s in setups):
            parameters.append("sizes={}")
            body += "    for name, size in sizes.items():\n        options.add_free_dimension_override_by_name(name, size)\n"
        if any(s.parallel for s in setups):
            parameters.append("parallel=False")
            body += "    if parallel:\n        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL\n"
        if any(s.profile for s in setups):
            parameters.append("profile=False")
            body += _PROFILE
        if not all(s.cpu_nodes for s in setups):
            parameters.append("alone=True")
            body += '    if alone and PROVIDER != "CPUExecutionProvider":\n'
            body += '        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")\n'
        body += self.body
        if any(s.initializers for s in setups):
            parameters.append("initializers={}")
            body += _INITIALIZERS
        if any(s.devices for s in setups):
            parameters.append("devices=False")
            body += _DEVICES
        if any(s.options for s in setups):
            parameters.append("provider_options={}")
        if any(s.disabled_optimizers for s in setups):
            parameters.append("disabled=()")
        if any(s.ort_format for s in setups):  # the last of the body: other options are not for the saving
            parameters.append("ort_format=False")
            body += _ORT_FORMAT
        return _SESSION.format(
            parameters=", ".join(parameters),
            body=body,
            pattern=any(s.memory_pattern for s in setups),
            provider_options="provider_options" if any(s.options for s in setups) else "{}",
            keywords=", disabled_optimizers=list(disabled)" if any(s.disabled_optimizers for s in setups) else "",
        ).replace(", )", ")")

    def _call(self, model: str, setup: Setup) -> str:
        arguments = [model]
        for name, value, default in (
            ("level", setup.level, None),
            ("config", setup.config, {}),
            ("sizes", setup.free_dimensions, {}),
            ("parallel", setup.parallel, False),
            ("profile", setup.profile, False),
            ("devices", setup.devices, False),
            ("provider_options", setup.options, {}),
            ("disabled", setup.disabled_optimizers, []),
            ("ort_format", setup.ort_format, False),
            ("threads", setup.threads, 1),
        ):
            if value != default:
                arguments.append(f"{name}={value!r}")
        if setup.initializers:
            arguments.append(f"initializers={self._feeds(setup.initializers)}")
        if setup.cpu_nodes and not all(s.cpu_nodes for s in self.setups):
            arguments.append("alone=False")
        return f"session({', '.join(arguments)})"

    # --- steps ---

    def _step(self, step: AnyStep, wanted: Wanted, label: str) -> None:
        if wanted == "refused":
            line_count = len(self.lines)
            self._do(step, None, label)
            step_lines, self.lines = self.lines[line_count:], self.lines[:line_count]
            self.lines += ["try:", *(f"    {line}" for line in step_lines), "except Exception as error:"]
            self.lines += [f"    print({label!r}, 'is refused, as it must be:', error)", "else:"]
            self.lines += [f"    print({label!r}, 'is accepted, but must be refused')", "    wrong = True"]
            return
        undefined = isinstance(wanted, Mapping) and any(isinstance(a, np.ma.MaskedArray) for a in wanted.values())
        if wanted == "maybe" or undefined:
            line_count = len(self.lines)
            self._do(step, wanted if isinstance(wanted, Mapping) else None, label)
            step_lines, self.lines = self.lines[line_count:], self.lines[:line_count]
            checks = [step_lines.pop()] if undefined else []
            self.lines += ["try:", *(f"    {line}" for line in step_lines), "except Exception as error:"]
            self.lines += [f"    print({label!r}, 'is refused, as it may be:', error)"]
            self.lines += ["else:", *(f"    {line}" for line in checks)] if checks else []
            return
        if isinstance(step, steps.Concurrent):
            self._together(step, () if wanted is None or isinstance(wanted, (str, Mapping)) else wanted, label)
            return
        self._do(step, wanted if isinstance(wanted, Mapping) else None, label)

    def _do(self, step: AnyStep, wanted: Mapping[str, np.ndarray] | None, label: str) -> None:
        add = self.lines.append
        match step:
            case steps.Open():
                name = _name(step.session)
                self._made(name)
                if step.files or step.setup.from_file:
                    add(f"folder_{name} = tempfile.mkdtemp()")
                    for file, content in {**step.files, step.setup.file_name: step.model}.items():
                        add(f"os.makedirs(os.path.dirname(os.path.join(folder_{name}, {file!r})), exist_ok=True)")
                        add(f"with open(os.path.join(folder_{name}, {file!r}), 'wb') as file:")
                        add(f"    file.write({self.content(file, content)})")
                    add("before = os.getcwd()")
                    add(f"os.chdir(folder_{name})")
                    add(f"{name} = {self._call(repr(step.setup.file_name), step.setup)}")
                    add("os.chdir(before)")
                    self.opened(name)
                    return
                raw = step.model.tobytes()
                model = self.models.setdefault(raw, f"MODEL{len(self.models) + 1}")
                add(f"{name} = {self._call(model, step.setup)}")
                self.opened(name)
            case steps.Put():
                name = _name(step.value)
                self._made(name)
                place = "DEVICE" if step.place == steps.DEVICE else repr(step.place)
                add(f"{name} = ort.OrtValue.ortvalue_from_numpy({self.array(step.array)}, {place}, 0)")
            case steps.Allocate():
                name = _name(step.value)
                self._made(name)
                place = "DEVICE" if step.place == steps.DEVICE else repr(step.place)
                arguments = f"{step.sizes!r}, np.{step.type}, {place}, 0"
                add(f"{name} = ort.OrtValue.ortvalue_from_shape_and_type({arguments})")
            case steps.Update():
                add(f"{_name(step.value)}.update_inplace({self.array(step.array)})")
            case steps.Get():
                self._check(label, f"{{{step.value!r}: {_name(step.value)}.numpy()}}", wanted)
            case steps.Run():
                self._run(step, wanted, label)
            case steps.Bind():
                self._bind(step)
            case steps.RunBound():
                name = _name(step.session)
                options = f", run_options({step.config!r})" if step.config else ""
                add(f"{name}.run_with_iobinding({name}_binding{options})")
                add(f"{name}_binding.synchronize_outputs()")
                names = self.bound.get(name, [])
                if step.together:
                    add(f"got = dict(zip({names!r}, {name}_binding.copy_outputs_to_cpu()))")
                else:
                    add(f"values = dict(zip({names!r}, {name}_binding.get_outputs()))")
                    for output, value in step.keep.items():
                        self._made(_name(value))
                        add(f"{_name(value)} = values.pop({output!r})")
                    add("got = {name: value.numpy() for name, value in values.items()}")
                self._check(label, "got", wanted)
            case steps.Unbind():
                add(f"del {_name(step.session)}_binding")
                self.bound.pop(_name(step.session), None)
            case steps.Examine():
                name = _name(step.session)
                profiled = any(
                    isinstance(s, steps.Open) and s.session == step.session and s.setup.profile for s in self.steps
                )
                add(f"{name}.end_profiling()" if profiled else f"{name}.get_provider_graph_assignment_info()")
                if not profiled:  # only a session that records its assignments has them
                    self.lines[-1] = f"{name}.get_inputs(), {name}.get_providers()"
            case steps.Drop():
                self._drop(_name(step.name))
            case steps.Clear():
                for name in reversed(list(self.alive)):
                    self._drop(name)

    def _together(self, step: steps.Concurrent, wanted: Sequence[Mapping[str, np.ndarray]], label: str) -> None:
        """Writes runs at the same time, each in a thread of its own."""
        add = self.lines.append
        add("def again(session, feeds, names):")
        add("    names = names or [output.name for output in session.get_outputs()]")
        add(f"    return [dict(zip(names, session.run(names, feeds))) for _ in range({step.times})]")
        calls = [f"pool.submit(again, {_name(r.session)}, {self._feeds(r.feeds)}, {_outputs(r)})" for r in step.runs]
        add("with ThreadPoolExecutor() as pool:")
        add(f"    futures = [{', '.join(calls)}]")
        for number, _ in enumerate(step.runs):
            add(f"for got in futures[{number}].result():")
            if wanted:
                self._check(f"{label}, thread {number + 1}", "got", wanted[number])
                self.lines[-1] = f"    {self.lines[-1]}"
            else:
                add("    pass")

    def _made(self, name: str) -> None:
        if name not in self.alive:
            self.alive.append(name)

    def _drop(self, name: str) -> None:
        names = [f"{name}_binding", name] if self.bound.pop(name, None) is not None else [name]
        if name in self.alive:
            self.alive.remove(name)
        self.lines.append(f"del {', '.join(names)}")

    def _check(self, label: str, got: str, wanted: Mapping[str, np.ndarray] | None) -> None:
        if wanted is not None:
            values = ", ".join(f"{name!r}: {self.array(array)}" for name, array in wanted.items())
            self.lines.append(f"check({label!r}, {got}, {{{values}}})")
        elif not got.isidentifier():
            self.lines.append(f"got = {got}")

    def _run(self, step: steps.Run, wanted: Mapping[str, np.ndarray] | None, label: str) -> None:
        name, outputs = _name(step.session), _outputs(step)
        options = f", run_options({step.config!r})" if step.config else ""
        self.lines.append(f"names = {outputs if step.outputs else f'[output.name for output in {name}.get_outputs()]'}")
        if step.values or step.keep or step.method == "values":
            feeds = [f"{n!r}: ort.OrtValue.ortvalue_from_numpy({self.array(a)})" for n, a in step.feeds.items()]
            feeds += [f"{n!r}: {_name(v)}" for n, v in step.values.items()]
            call = f"{name}.run_with_ort_values(names, {{{', '.join(feeds)}}}{options})"
            self.lines.append(f"values = dict(zip(names, {call}))")
            for output, value in step.keep.items():
                self._made(_name(value))
                self.lines.append(f"{_name(value)} = values.pop({output!r})")
            self.lines.append("got = {n: value.numpy() for n, value in values.items()}")
        elif step.method == "async":
            self.lines.append(f"got = dict(zip(names, run_async({name}, names, {self._feeds(step.feeds)})))")
        else:
            self.lines.append(f"got = dict(zip(names, {name}.run(names, {self._feeds(step.feeds)}{options})))")
        self._check(label, "got", wanted)

    def _feeds(self, feeds: Mapping[str, np.ndarray]) -> str:
        return f"{{{', '.join(f'{name!r}: {self.array(array)}' for name, array in feeds.items())}}}"

    def _bind(self, step: steps.Bind) -> None:
        name, add = _name(step.session), self.lines.append
        if name not in self.bound:
            self.bound[name] = []
            add(f"{name}_binding = {name}.io_binding()")
        for key, array in step.feeds.items():
            add(f"{name}_binding.bind_cpu_input({key!r}, {self.array(array)})")
        for key, value in step.values.items():
            add(f"{name}_binding.bind_ortvalue_input({key!r}, {_name(value)})")
        if step.synchronize:
            add(f"{name}_binding.synchronize_inputs()")
        for key, place in step.outputs.items():
            if key not in self.bound[name]:
                self.bound[name].append(key)
            if place == steps.HOST:
                add(f"{name}_binding.bind_output({key!r}, 'cpu', 0)")
            elif place == steps.DEVICE:
                add(f"{name}_binding.bind_output({key!r}, DEVICE, 0)")
            else:
                add(f"{name}_binding.bind_ortvalue_output({key!r}, {_name(place)})")


def _name(text: str) -> str:
    """Returns a Python name for the name of a session or value."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    reserved = {
        "arguments",
        "bits",
        "failed",
        "listed",
        "parser",
        "placement",
        "read",
        "session",
        "check",
        "run_async",
        "wrong",
        "names",
        "values",
        "got",
        "run_options",
        "np",
        "ort",
        "sys",
        "os",
        "onnx",
    }
    return f"x_{name}" if name in reserved or keyword.iskeyword(name) or not name[:1].isalpha() else name


def _outputs(step: steps.Run) -> str:
    return repr(list(step.outputs)) if step.outputs is not None else "None"
