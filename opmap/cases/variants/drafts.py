"""Forms of a model, and the editable copy of a mapping's model that each form is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper

from ...mapping import ELEMENT_TYPES, MappedModel
from ...operators import Substitution
from ...tensors import DataType, Tensor
from .formed import Formed, Inputs, plain_feeds


class ModelDraft:
    """An editable copy of a mapping's model. `first` are the inputs of the case itself.

    `data` and `indices` are the fields of the graph inputs, `outputs` those of the outputs, `output` is the first of
    them. `constants` are the graph inputs that are no fields: constants that are fed. All are names of values in the
    graph.
    """

    def __init__(self, mapped: MappedModel, first: Inputs) -> None:
        self.mapped, self.first = mapped, first
        self.indices = tuple(name for name in mapped.feeds if name in mapped.desc.index_tensors())
        self.constants = tuple(mapped.lowering.fed)
        self.data = tuple(name for name in mapped.feeds if name not in (*self.indices, *self.constants))
        self.outputs = tuple(mapped.desc.outputs)
        self.output = self.outputs[0]
        self.substitutions: list[Substitution] = []

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The copy. It is made when it is first used: a form refuses most descriptors before."""
        return self.mapped.model

    @property
    def graph(self) -> onnx.GraphProto:
        """The model's graph."""
        return self.model.graph

    @property
    def operator(self) -> onnx.NodeProto:
        """The operator's own node. The mapping names it after its operator type."""
        node: onnx.NodeProto = next(n for n in self.graph.node if n.name == self.mapped.lowering.op_type)
        return node

    def output_type(self, field: str) -> DataType:
        """Returns the data type that the node gives an output."""
        return self.mapped.lowering.output_types.get(field, self.mapped.desc.tensors[field].data_type)

    def formed(
        self,
        *,
        feeds: Callable[[Inputs], dict[str, np.ndarray]] | None = None,
        outputs: Mapping[str, str] | None = None,
        unfed: Iterable[str] = (),
        fixed: Iterable[str] = (),
        **more: Any,
    ) -> Formed:
        """Returns the finished form. `more` are other fields of Formed.

        By default each field that is still a graph input is fed, except those in `unfed`, and the outputs are the
        operator's.
        """
        fed = {value.name for value in self.graph.input} - set(unfed)

        def remaining(inputs: Inputs) -> dict[str, np.ndarray]:
            return {name: array for name, array in plain_feeds(self.mapped, inputs).items() if name in fed}

        return Formed(
            model=self.model,
            mapped=self.mapped,
            feeds=feeds or remaining,
            outputs={name: name for name in self.outputs} if outputs is None else outputs,
            unfed=frozenset(unfed),
            fixed=frozenset(fixed),
            substitutions=tuple(self.substitutions),
            **more,
        )

    # --- values of the case ---

    def value(self, field: str) -> Tensor:
        """Returns what the case feeds to an input."""
        return self.mapped.feed(self.first.tensors)[field]

    def drop_input(self, field: str) -> onnx.ValueInfoProto:
        """Removes a graph input, and returns it."""
        value: onnx.ValueInfoProto = next(v for v in self.graph.input if v.name == field)
        self.graph.input.remove(value)
        return value

    def add_constant(self, field: str, constant: onnx.TensorProto) -> None:
        """Adds an initializer for a field, where the mapping would write it."""
        self.graph.initializer.insert(self._place(field)[1], constant)

    def replaced(self, field: str, by: str) -> None:
        """Records how an input reaches the operator now, as a substitution."""
        kind = "index-path" if field in self.indices else "data-path"
        self.substitutions.append(Substitution(kind, f"{field} graph input -> {by}"))

    # --- nodes ---

    def copy_indices(self, field: str) -> None:
        """Puts a node that copies a graph input before all nodes that read it.

        The node is a Tile: ONNX Runtime's optimizers do not remove it, and every EP has it for every integer type.
        """
        copy, repeats = f"{field}.copy", f"{field}.copy.repeats"
        place, initializer_place = self._place(field)
        self.redirect(field, copy)
        ones = [1] * self.mapped.desc.tensors[field].dimension_count
        self.graph.initializer.insert(
            initializer_place, helper.make_tensor(repeats, TensorProto.INT64, [len(ones)], ones)
        )
        self.graph.node.insert(place, helper.make_node("Tile", [field, repeats], [copy], name=copy))

    def copy_data(self, field: str) -> None:
        """Puts a node that copies a graph input before all nodes that read it, bit by bit, and records it.

        A scalar is not copied.

        The node is a Concat of one tensor: ONNX Runtime's optimizers do not remove it, and every EP has it for every
        type. The CPU EP's Tile makes float16's signalling NaNs quiet.
        """
        copy = f"{field}.copy"
        if self.mapped.lowering.shapes[field]:
            self.redirect(field, copy)
            self.graph.node.insert(self._place(field)[0], concat(field, copy))
            self.replaced(field, "output of a Concat that copies it")

    def redirect(self, value: str, to: str) -> None:
        """Lets all nodes that read a value read another value."""
        for node in self.graph.node:
            for i, name in enumerate(node.input):
                if name == value:
                    node.input[i] = to

    def rename_output(self, name: str) -> None:
        """Gives the value that is the operator's output another name inside the graph. The graph output stays."""
        for node in self.graph.node:
            for i, output in enumerate(node.output):
                if output == self.output:
                    node.output[i] = name

    def add_output(self, name: str, data_type: DataType, sizes: Iterable[int]) -> None:
        """Adds a graph output after the others."""
        self.graph.output.append(helper.make_tensor_value_info(name, ELEMENT_TYPES[data_type], list(sizes)))

    def _place(self, field: str) -> tuple[int, int]:
        """Returns where the mapping writes what belongs to a field: (index of the node, index of the initializer).

        The mapping writes the nodes and initializers of one input after the other.
        """
        fields = [*self.mapped.lowering.shapes, *self.constants]
        values = set(fields[: fields.index(field)])
        nodes = 0
        for node in self.graph.node:
            if node.name == self.operator.name or not values & set(node.input):
                break
            values |= {*node.input, *node.output}
            nodes += 1
        return nodes, sum(tensor.name in values for tensor in self.graph.initializer)


def constant(name: str, tensor: Tensor) -> onnx.TensorProto:
    """Returns a tensor as an initializer."""
    return helper.make_tensor(name, ELEMENT_TYPES[tensor.data_type], tensor.sizes, tensor.to_bytes(), raw=True)


def concat(source: str, target: str) -> onnx.NodeProto:
    """Returns the node that copies data, as a Concat of one tensor."""
    return helper.make_node("Concat", [source], [target], name=target, axis=0)


# --- forms ---


@dataclass(frozen=True)
class Form:
    """A form of the model.

    `make(draft)` returns the model in this form; None if the descriptor has no such form. It is not asked if the model
    has no inputs of the kind that the form is `of`.
    """

    name: str
    make: Callable[[ModelDraft], Formed | None]
    of: Literal["data", "indices"] | None = None

    def build(self, mapped: MappedModel, first: Inputs) -> Formed | None:
        """Returns the model of a descriptor in this form; None if the descriptor has no such form.

        `first` are the inputs of the case itself: a form may put their values into the model.
        """
        draft = ModelDraft(mapped, first)
        return None if self.of and not getattr(draft, self.of) else self.make(draft)


FORMS: dict[str, Form] = {}
"""The forms by name, filled by the modules `forms_*`."""

Make = Callable[[ModelDraft], "Formed | None"]


def form(name: str, of: Literal["data", "indices"] | None = None) -> Callable[[Make], Make]:
    """Returns the decorator that adds a form."""

    def add(make: Make) -> Make:
        FORMS[name] = Form(name, make, of)
        return make

    return add
