"""Third party's providers with a planted fault each, for the tests of `opmap fuzz`: the CPU EP, but wrong in one way.

`python -m pytest` imports this module as a provider's module: `--provider planted_providers:WrongHalf`.
"""

from typing import ClassVar

import msgspec
import numpy as np
import onnx
import onnxruntime

from opmap.engines.sessions import CPU, SessionProvider
from opmap.engines.steps import Bind, Concurrent, Open, Put, Result, RunBound, Setup, Update


class Session:
    """A session on the CPU EP."""

    def __init__(self, model):
        onnxruntime.set_default_logger_severity(4)
        self.session = onnxruntime.InferenceSession(model, providers=[CPU])

    def run(self, feeds, outputs=None):
        """Returns the outputs."""
        return self.session.run(outputs, feeds)


class Provider:
    """A provider whose sessions are of the class `session`."""

    session = Session

    def open(self, model, setup):
        """Returns a session."""
        return self.session(model)

    def run(self, model, feeds):
        """Returns the outputs of one run."""
        return self.session(model).run(feeds)


class WrongHalf(Provider):
    """A fused gate takes the wrong half: the product of a half and of its own activation."""

    class session(Session):
        """Changes a product of two halves."""

        def __init__(self, model):
            graph = (loaded := onnx.load_from_string(model)).graph
            halves = {name for node in graph.node if node.op_type == "Split" for name in node.output}
            gates = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "Sigmoid" and n.input[0] in halves}
            for node in graph.node:
                gate = set(node.input) & set(gates) if node.op_type == "Mul" else ()
                for name in gate:
                    node.input[:] = [name, gates[name]]
            super().__init__(loaded.SerializeToString())


class StaleSequenceSize(Provider):
    """Every run after the first one joins as many elements of a sequence as the first one did."""

    class session(Session):
        """Remembers the sizes of the first run."""

        def __init__(self, model):
            super().__init__(model)
            ops = {node.op_type for node in onnx.load_from_string(model).graph.node}
            self.joins, self.first = "ConcatFromSequence" in ops, None

        def run(self, feeds, outputs=None):
            """Cuts what is longer than it was at first."""
            results = super().run(feeds, outputs)
            if self.joins and outputs is None:
                self.first = self.first or [array.shape for array in results]
                results = [
                    array[tuple(map(slice, shape))] if 0 < len(shape) == array.ndim else array
                    for array, shape in zip(results, self.first, strict=True)
                ]
            return results


class SkipsEmpty(Provider):
    """An operator with an empty input is skipped, though its output has elements."""

    class session(Session):
        """Leaves the memory of such outputs as it was: zeros."""

        def __init__(self, model):
            loaded = onnx.load_from_string(model)
            shown = {output.name for output in loaded.graph.output}
            made = [n for n in loaded.graph.node if n.op_type in ("Pad", "Concat", "ScatterElements", "ReduceSum")]
            self.inputs = {name: node.input for node in made for name in node.output if name in shown}
            self.order = [output.name for output in loaded.graph.output]
            for name in {each for inputs in self.inputs.values() for each in inputs if each} - shown:
                loaded.graph.output.add(name=name)
            super().__init__(loaded.SerializeToString())

        def run(self, feeds, outputs=None):
            """Zeros the outputs of nodes with an empty input."""
            every = dict(zip((o.name for o in self.session.get_outputs()), super().run(feeds), strict=True))
            results = []
            for name in self.order if outputs is None else outputs:
                empty = any(every[each].size == 0 for each in self.inputs.get(name, ()) if each in every)
                results.append(np.zeros_like(every[name]) if empty else every[name])
            return results


class KeepsEachRun(Provider):
    """Holds 16 KiB more after each run of a session that has more than one output."""

    held: ClassVar = []

    class session(Session):
        """See KeepsEachRun."""

        def run(self, feeds, outputs=None):
            """Runs, and holds what is new."""
            results = super().run(feeds, outputs)
            if len(self.session.get_outputs()) > 1:
                KeepsEachRun.held.append(bytearray(b"1" * 16384))
            return results


class SkipsOthersNodes(Provider):
    """A run with the same sizes as the one before replays it, without the nodes that another provider has."""

    class session(Session):
        """Gives the outputs of the first run, if a node is not its own."""

        def __init__(self, model):
            super().__init__(model)
            ops = {node.op_type for node in onnx.load_from_string(model).graph.node}
            self.others, self.recorded = bool(ops & {"Unique", "Compress", "Det"}), {}

        def run(self, feeds, outputs=None):
            """Replays."""
            key = (tuple((name, array.shape) for name, array in feeds.items()), outputs and tuple(outputs))
            if not self.others:
                return super().run(feeds, outputs)
            if key not in self.recorded:
                self.recorded[key] = super().run(feeds, outputs)
            return self.recorded[key]


class NotWritten(SessionProvider):
    """An output that the caller allocated is not written: the run gives it, and its memory stays as it was."""

    def __init__(self):
        super().__init__(CPU)
        self.targets, self.first = {}, {}

    def perform(self, step, limit=None):
        """Performs one step."""
        if isinstance(step, Open):
            step = msgspec.structs.replace(step, setup=Setup(level=step.setup.level))
        if isinstance(step, Put):
            self.first[step.value] = np.array(step.array)
        if isinstance(step, Bind):
            targets = {name: value for name, value in step.outputs.items() if value in self.first}
            self.targets.setdefault(step.session, {}).update(targets)
        result = super().perform(step, limit)
        if isinstance(step, RunBound) and result.error is None:
            stale = {name: self.first[value] for name, value in self.targets.get(step.session, {}).items()}
            result = msgspec.structs.replace(result, outputs={**result.outputs, **stale})
        return result


class Changed(Provider):
    """A provider whose sessions have other outputs, if `needs` holds for the model: those of `change`."""

    needs: ClassVar = staticmethod(lambda model: True)
    change: ClassVar = staticmethod(np.zeros_like)

    def open(self, model, setup):
        """Returns a session."""
        loaded = onnx.load_from_string(model)
        return _ChangedSession(model, self.change if self.needs(loaded) else None)

    def run(self, model, feeds):
        """Returns the outputs of one run."""
        return self.open(model, Setup()).run(feeds)


class _ChangedSession(Session):
    def __init__(self, model, change):
        super().__init__(model)
        self.change = change

    def run(self, feeds, outputs=None):
        """Changes the outputs."""
        results = super().run(feeds, outputs)
        return [np.asarray(self.change(array)) if self.change else array for array in results]


def _operators(model):
    return {node.op_type for node in model.graph.node}


class NeedsBias(Changed):
    """A Gemm without its optional third input gives zeros."""

    needs = staticmethod(lambda model: any(n.op_type == "Gemm" and len(n.input) < 3 for n in model.graph.node))


class OldVersions(Changed):
    """Models of opsets before 12 give zeros."""

    needs = staticmethod(lambda model: any(not o.domain and o.version < 12 for o in model.opset_import))


class LosesInner(Changed):
    """If an activation and what it reads are both outputs, all outputs are lost."""

    @staticmethod
    def needs(model):
        """Returns whether a model has such an activation."""
        shown = {output.name for output in model.graph.output}
        activations = [n for n in model.graph.node if n.op_type in ("Relu", "Sigmoid", "Tanh", "Elu", "Softplus")]
        return any({node.input[0], node.output[0]} <= shown for node in activations)


class FourDimensions(Changed):
    """Outputs of more than five dimensions are zeros."""

    change = staticmethod(lambda array: np.zeros_like(array) if array.ndim > 5 else array)


class Saturates(Changed):
    """Numbers beyond 30000 that some operators compute become 30000."""

    needs = staticmethod(lambda model: _operators(model) & {"Softplus", "LeakyRelu", "Clip", "PRelu", "Abs", "Celu"})
    change = staticmethod(lambda array: np.minimum(array, 30000) if array.dtype.kind == "f" else array)


class BoundOnce(SessionProvider):
    """The second run of a session with one of `operators` on what is bound gives the outputs of the first one."""

    operators: ClassVar = frozenset({"NonZero", "Compress", "Unique"})

    def __init__(self):
        super().__init__(CPU)
        self.stale, self.first = set(), {}

    def perform(self, step, limit=None):
        """Performs one step."""
        if isinstance(step, Open):
            step = msgspec.structs.replace(step, setup=Setup(level=step.setup.level, threads=step.setup.threads))
            self.stale.discard(step.session)
            self.first.pop(step.session, None)
            if self.operators & _operators(onnx.load_from_string(step.model.tobytes())):
                self.stale.add(step.session)
        result = super().perform(step, limit)
        if isinstance(step, RunBound) and step.session in self.stale and not result.error:
            return self.first.setdefault(step.session, result)
        return result


class StatesOnce(BoundOnce):
    """The same, with recurrent operators."""

    operators = frozenset({"LSTM", "GRU", "RNN"})


class TakesAnything(SessionProvider):
    """A bound run, or an update, that must fail because a value does not fit is accepted."""

    kinds: ClassVar = RunBound

    def __init__(self):
        super().__init__(CPU)

    def perform(self, step, limit=None):
        """Performs one step."""
        if isinstance(step, Open):
            step = msgspec.structs.replace(step, setup=Setup(level=step.setup.level, threads=step.setup.threads))
        result = super().perform(step, limit)
        return Result() if result.error and isinstance(step, self.kinds) else result


class TakesAnyUpdate(TakesAnything):
    """An update whose array does not fit is accepted."""

    kinds = Update


class IgnoresGaps(TakesAnything):
    """An update from an array with gaps copies what lies first in its memory."""

    kinds = ()

    def perform(self, step, limit=None):
        """Performs one step."""
        if isinstance(step, Update) and step.strided:
            whole = np.stack([step.array, np.zeros_like(step.array)], axis=-1).reshape(-1)
            array = whole[: step.array.size].reshape(step.array.shape)
            step = msgspec.structs.replace(step, array=array, strided=False)
        return super().perform(step, limit)


class MixesRuns(TakesAnything):
    """Of two runs of one session at the same time the second one gives the outputs of the first."""

    kinds = ()

    def perform(self, step, limit=None):
        """Performs one step."""
        result = super().perform(step, limit)
        if isinstance(step, Concurrent) and len({run.session for run in step.runs}) < len(step.runs):
            return msgspec.structs.replace(result, results=[result.results[0]] * len(result.results))
        return result
