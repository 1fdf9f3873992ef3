"""Everything that happened when a case was run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..cases.case import Case
from ..cases.variants import Check, Inputs
from ..descriptors import Violation
from ..errors import MappingError, ProviderError
from ..mapping import MappedModel
from ..operators import Substitution
from ..tensors import Tensor
from ..vocabulary import Fate
from .compare import differences, relation, value_kinds
from .record import PathRecord, PlacementRecord


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The results of each step of one case. A step that was not reached leaves None or an empty value.

    `inputs` is the case's own descriptor and values, with its expected output. `checks` are the outputs in their order,
    each beside what it must be. `error` is the exception that ended the case; if there are checks too, it came when a
    right case was released. `path_proof` says whether the execution path of the variant is proven, `path_problem` why
    not. `messages` are notes that change no verdict, such as memory between elements that was written. `differences`
    are those between the DirectML graph that the EP wrote and `mapped.lowered_as`. `fate` is what ONNX Runtime made of
    a node of a model from outside. `defaults` are the values that the model itself has for fields that are fed.
    """

    case: Case
    inputs: Inputs
    violations: Sequence[Violation] = ()
    mapped: MappedModel | None = None
    substitutions: Sequence[Substitution] = ()
    placement: PlacementRecord | None = None
    checks: Sequence[Check] = ()
    defaults: Mapping[str, Tensor] = field(default_factory=dict)
    error: MappingError | ProviderError | None = None
    path_proof: PathRecord | None = None
    path_problem: str | None = None
    descriptor: str | None = None
    differences: Sequence[str] = ()
    messages: Sequence[str] = ()
    fate: Fate | None = None

    @cached_property
    def _first_wrong(self) -> tuple[Check | None, Sequence[int]]:
        for check in self.checks:
            wrong = differences(check.expected, check.actual.bits) if check.actual else ()
            if check.problem or wrong:
                return check, wrong
        first = self.inputs.output_field
        return next((check for check in reversed(self.checks) if check.field == first), None), ()

    @property
    def check(self) -> Check | None:
        """The first output that is wrong; if all are right, the last one of the case's first output."""
        return self._first_wrong[0]

    @property
    def wrong_elements(self) -> Sequence[int]:
        """The row-major addresses of the wrong elements of `check`."""
        return self._first_wrong[1]

    @property
    def right(self) -> bool:
        """Whether the case ran to its end, and no output is wrong."""
        return self.check is not None and not self.check.problem and not self.wrong_elements

    @property
    def relation(self) -> str | None:
        """What the wrong output is as a whole; None if it is nothing that is known."""
        check = self.check
        return relation(check, self.checks, self.defaults) if check and self.wrong_elements else None

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of wrong values, if all addresses are right."""
        return value_kinds(self.checks) if self.wrong_elements else ()
