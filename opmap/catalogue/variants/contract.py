"""What a variant consists of: a form of the model, a way of running it, and the proof that a run took this road.

A variant changes how a descriptor is brought to an execution provider. It never changes the answer: every expected value
comes from the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import onnx

from ...descriptors import OperatorDesc
from ...engines.arrays import to_array
from ...mapping import MappedModel
from ...operators import OPERATORS, Substitution
from ...pseudocode import gives
from ...tensors import Tensor
from ...vocabulary import Tier

if TYPE_CHECKING:
    from .variant_run import VariantRun


PLAIN = "plain"
"""The name of the variant that a case has if it names no other: the mapping's own model, run once."""


@dataclass(frozen=True)
class Inputs:
    """A descriptor with values for its inputs, by DirectML's field names. One run of a session answers one round."""

    desc: OperatorDesc
    tensors: Mapping[str, Tensor]

    @cached_property
    def expected(self) -> Sequence[int | None]:
        """The output's bit patterns by the page's pseudocode, row-major; None for undocumented elements."""
        return self.desc.interpret(self.tensors)

    def expects(self, output: memoryview) -> bool:
        """Returns whether this is the documented output. If so, `expected` takes no memory of its own.

        `output` holds bit patterns. Returns False without a comparison if `expected` is known, or if the documented output
        cannot be computed in pieces.
        """
        if "expected" in self.__dict__ or not gives(
            self.desc.program, self.desc.pseudocode_tensors(self.tensors), output
        ):
            return False
        self.__dict__["expected"] = output
        return True

    @property
    def output_field(self) -> str:
        """The field of the output tensor."""
        (name,) = self.desc.spec().field_names("output")
        return name


@dataclass(frozen=True, kw_only=True)
class Formed:
    """A descriptor's model in one form.

    - `model`: the ONNX model. `files` are files beside it, by relative name, that it refers to.
    - `mapped`: the mapping whose model the form was made of.
    - `feeds`: gives the arrays to feed for a round, by the names of the graph's inputs. Another round than the first may
      have other values, and other sizes if the form is `dynamic`.
    - `outputs`: graph output -> the field whose values it must have. The output's field stands for the expected output,
      an input's field for a copy of this input. The order is the graph's.
    - `unfed`: the graph inputs that are not fed.
    - `fixed`: the fields whose values are part of the model. Each round must have the same values for them.
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
        if self.model is self.mapped.model:
            return self.mapped.model_bytes
        serialized: bytes = self.model.SerializeToString(deterministic=True)
        return serialized

    @property
    def has_inputs(self) -> bool:
        """Whether a run is fed anything."""
        return any(value.name not in self.unfed for value in self.model.graph.input)

    @property
    def node_types(self) -> frozenset[str]:
        """The operator types of the model's nodes."""
        if self.model is self.mapped.model:
            return self.mapped.node_types
        return frozenset(node.op_type for node in self.model.graph.node)

    def output_sizes(self, name: str, round: Inputs) -> tuple[int, ...]:
        """Returns the sizes that a graph output has after a run of this round.

        A `dynamic` model has no Reshapes: its output has the sizes of the ONNX node's.
        """
        if self.dynamic:
            lower = OPERATORS[round.desc.operator].lower
            assert lower is not None, "a mapped descriptor has a lowering"
            return lower(round.desc).output_shape
        (value,) = [value for value in self.model.graph.output if value.name == name]
        return tuple(d.dim_value for d in value.type.tensor_type.shape.dim)


def plain_feeds(mapped: MappedModel, round: Inputs) -> dict[str, np.ndarray]:
    """Returns the arrays for the inputs of the mapping's own model."""
    return {name: to_array(tensor) for name, tensor in mapped.feed(round.tensors).items()}


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form of the model.

    `build(mapped, first)` returns the model of a descriptor in this form; None if the descriptor has no such form. `first`
    is the case itself: a form may put its values into the model. `text` says in one sentence what the form is.
    """

    name: str
    text: str
    build: Callable[[MappedModel, Inputs], Formed | None]


@dataclass(frozen=True, kw_only=True)
class RunMode:
    """A way of running a model.

    `go(walk)` performs the steps, and checks every output. `accepts(round, formed)` returns whether this model can run
    in this way. `portable` is whether it only opens and runs sessions of the usual setup, which any provider with
    sessions can do. `text` says what the way is.
    """

    name: str
    text: str
    go: Callable[[VariantRun], None]
    accepts: Callable[[Inputs, Formed], bool] = lambda round, formed: True
    portable: bool = False


Proof = Callable[["VariantRun"], "str | None"]
"""Looks at what a walk has seen. Returns None if the road is proven, else what is wrong or lacking, in one line."""

Share = Literal["all", "values", "few", "one"]
"""How many cases of `standard` a variant gets, for each operator.

- `all`: every case that it accepts.
- `values`: enough cases for each class of data type, index type, rank class and axis class.
- `few`: the same without the data type, for a road that costs much time.
- `one`: one case, for a road that is not worth more."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A named pair of a form and a way, with its proof.

    - `name`: the last level of a case id.
    - `base`: the variant of the cases that it is made of. A variant without a base adds no level to a case id: its cases
      are the catalogue's own.
    - `providers`: the execution providers that have it; None means all.
    - `tier`: the first tier with cases of this variant. `share`: how many cases it gets in `standard`.
    - `proofs`: execution provider -> (source, proof). `*` stands for every other provider. `source` names the evidence,
      as a record's `road` has it.
    """

    name: str
    form: Form
    way: RunMode
    base: str | None = "plain"
    tier: Tier = "standard"
    share: Share = "values"
    providers: tuple[str, ...] | None = None
    proofs: Mapping[str, tuple[str, Proof]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What the variant does, in one sentence or two: its form, then its way. The usual form and way are left out."""
        texts = [self.form.text if self.form.name != "static" else "", self.way.text if self.way.name != PLAIN else ""]
        return " ".join(filter(None, texts)) or self.way.text

    def has(self, provider: str) -> bool:
        """Returns whether an execution provider of ONNX Runtime has this variant."""
        return self.providers is None or provider in self.providers

    def id(self, base: str) -> str:
        """Returns the id of a case in this variant, from the id of the case that it is made of."""
        return base if self.base is None else f"{base}/{self.name}"

    def proof(self, provider: str) -> tuple[str, Proof] | None:
        """Returns (source, proof) for an execution provider; None if the placement alone is the proof."""
        return self.proofs.get(provider, self.proofs.get("*"))
