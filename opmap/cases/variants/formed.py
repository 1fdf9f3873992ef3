"""The model of a descriptor in one form, and the inputs with which it is run.

A form changes how a descriptor is run on an execution provider. It never changes the answer: every expected value comes
from the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx

from ...descriptors import OperatorDesc
from ...engines.arrays import dtype_of, masked_array, to_array
from ...mapping import MappedModel
from ...operators import OPERATORS, Substitution
from ...pseudocode import equals_documented
from ...tensors import DataType, Tensor


@dataclass(frozen=True)
class Inputs:
    """A descriptor with values for its inputs, by DirectML's field names: what one run of a session is given.

    Of several outputs, `expected` and `output_field` are about one: the first one, or another one in what `of` returns.
    """

    desc: OperatorDesc
    tensors: Mapping[str, Tensor]

    def of(self, field: str) -> Inputs:
        """Returns the same inputs, looked at from another output."""
        if field == self.output_field:
            return self
        if field not in self._others:
            self._others[field] = Inputs(self.desc.of_output(field), self.tensors)
        return self._others[field]

    @cached_property
    def _others(self) -> dict[str, Inputs]:
        return {}

    @property
    def all_expected(self) -> dict[str, Sequence[int | None]]:
        """What `expected` is for each output, by field."""
        return {field: self.of(field).expected for field in self.desc.outputs}

    @property
    def expected(self) -> Sequence[int | None]:
        """The output's bit patterns by the page's pseudocode, row-major; None for undocumented elements."""
        if not self._known:
            self._known.append(self.desc.interpret(self.tensors))
        return self._known[0]

    @cached_property
    def _known(self) -> list[Sequence[int | None]]:
        """What `expected` is, once it is known."""
        return []

    def expects(self, output: memoryview) -> bool:
        """Returns whether this is the documented output. If so, `expected` takes no memory of its own.

        `output` holds bit patterns. Returns False without a comparison if `expected` is known, or if the documented
        output cannot be computed in pieces.
        """
        tensors = self.desc.pseudocode_tensors(self.tensors)
        if self._known or not equals_documented(self.desc.access, tensors, output):
            return False
        self._known.append(output)
        return True

    @property
    def output_field(self) -> str:
        """The field of the output tensor."""
        return self.desc.output_field


@dataclass(frozen=True, kw_only=True)
class Formed:
    """A descriptor's model in one form.

    - `model`: the ONNX model. `files` are files beside it, by relative name, that it refers to.
    - `mapped`: the mapping whose model the form was made of.
    - `feeds`: gives the arrays to feed, by the names of the graph's inputs. Inputs other than the case's own may have
      other values, and other sizes if the form is `dynamic`.
    - `outputs`: graph output -> the field whose values it must have. An output's field stands for the expected output,
      an input's field for a copy of this input. The order is the graph's.
    - `unfed`: the graph inputs that are not fed.
    - `fixed`: the fields whose values are part of the model. All inputs of a model must have the same values for them.
    - `defaults`: the values that the model holds for fields that are fed. An EP may wrongly use them.
    - `dynamic`: at least one shape is unknown when the session is created.
    - `substitutions`: what this form does otherwise than the mapping, beside the mapping's own substitutions.
    """

    model: onnx.ModelProto
    mapped: MappedModel
    feeds: Callable[[Inputs], dict[str, np.ndarray]]
    outputs: Mapping[str, str]
    unfed: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    defaults: Mapping[str, Tensor] = field(default_factory=dict)
    dynamic: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)
    substitutions: tuple[Substitution, ...] = ()

    @cached_property
    def model_bytes(self) -> bytes:
        """The serialized model, with the same bytes on every platform."""
        serialized: bytes = self.model.SerializeToString(deterministic=True)
        return serialized

    @property
    def has_inputs(self) -> bool:
        """Whether a run is fed anything."""
        return any(value.name not in self.unfed for value in self.model.graph.input)

    @property
    def feeds_constants(self) -> bool:
        """Whether numbers are fed that have no default, and that the EP needs to know.

        Of a fed matrix only the sizes count.
        """
        numbers = {name for name, tensor in self.mapped.lowering.fed.items() if len(tensor.sizes) < 2}
        return bool(numbers - {tensor.name for tensor in self.model.graph.initializer})

    @property
    def node_types(self) -> frozenset[str]:
        """The operator types of the model's nodes."""
        return frozenset(node.op_type for node in self.model.graph.node)

    # --- outputs ---

    def output_type(self, name: str, inputs: Inputs) -> DataType:
        """Returns the data type of a graph output."""
        field = self.outputs[name]
        others = self.mapped.lowering.output_types if field in inputs.desc.outputs else self.mapped.feeds
        return others.get(field, inputs.desc.tensors[field].data_type)

    def output_sizes(self, name: str, inputs: Inputs) -> tuple[int, ...]:
        """Returns the sizes that a graph output has after a run on these inputs.

        A `dynamic` model has no Reshapes: its output has the sizes of the ONNX node's.
        """
        if self.dynamic:
            shape = OPERATORS[inputs.desc.operator].lowering(inputs.desc).output_shape
            return inputs.desc.tensors[self.outputs[name]].sizes if shape is None else shape
        (value,) = [value for value in self.model.graph.output if value.name == name]
        return tuple(d.dim_value for d in value.type.tensor_type.shape.dim)

    def expected(self, name: str, inputs: Inputs) -> Sequence[int | None]:
        """Returns the bit patterns that a graph output must have, row-major; None for undocumented elements."""
        field = self.outputs[name]
        if field in inputs.desc.outputs:
            return inputs.of(field).expected
        return self.mapped.feed(inputs.tensors, inputs.desc).get(field, inputs.tensors[field]).bits

    def expected_array(self, name: str, inputs: Inputs) -> np.ndarray:
        """Returns what a graph output must be. Elements for which more than one bit pattern is right are masked."""
        bits, sizes, given = (
            self.expected(name, inputs),
            self.output_sizes(name, inputs),
            self.output_type(name, inputs),
        )
        field = self.outputs[name]
        if field not in inputs.desc.outputs:
            return masked_array(given, sizes, bits)
        array = masked_array(inputs.desc.tensors[field].data_type, sizes, bits)
        return array.astype(dtype_of(given), copy=False)


def plain_feeds(mapped: MappedModel, inputs: Inputs) -> dict[str, np.ndarray]:
    """Returns the arrays for the inputs of the mapping's own model."""
    return {name: to_array(tensor) for name, tensor in mapped.feed(inputs.tensors, inputs.desc).items()}
