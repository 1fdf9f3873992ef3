"""The variants: named pairs of a form and a run mode, each with its proof and its share of the cases.

The file `variants.toml` holds them, one a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

import msgspec

from ...engines.sessions import CPU, DIRECTML
from ...vocabulary import Tier
from . import proofs
from .drafts import Form
from .forms import FORMS
from .proofs import Proof
from .run_modes import PLAIN, RUN_MODES, RunMode

Share = Literal["all", "descriptors", "values", "few", "each", "one"]
"""How many cases of `standard` a variant gets, for each operator.

- `all`: every case.
- `descriptors`: one case for each descriptor that ONNX can express, for a variant whose evidence does not depend on
  values.
- `values`: enough cases for each class of data type, index type, rank class and axis class.
- `few`: the same without the data type, for a variant that costs much time.
- `each`: as `few`, but for each operator of a family; of other shares each variant has cases of one of them.
- `one`: one case, for a variant that is not worth more."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A named pair of a form and a run mode, with its proof.

    - `name`: the last level of a case id. `text` says in one sentence or two what the variant does.
    - `base`: the variant of the cases that it is made of. A variant without a base adds no level to a case id: its
      cases are the catalogue's own.
    - `providers`: the execution providers that have it; None means all.
    - `tier`: the first tier with cases of this variant. `share`: how many cases it gets in `standard`.
    - `proofs`: execution provider -> (source, proof). `source` names the evidence, as a record's `path_proof` has it.
    """

    name: str
    text: str
    form: Form
    run_mode: RunMode
    base: str | None
    tier: Tier
    share: Share
    providers: tuple[str, ...] | None
    proofs: Mapping[str, tuple[str, Proof]]

    def has(self, provider: str) -> bool:
        """Returns whether an execution provider of ONNX Runtime has this variant."""
        return self.providers is None or provider in self.providers

    def id(self, base: str) -> str:
        """Returns the id of a case in this variant, from the id of the case that it is made of."""
        return base if self.base is None else f"{base}/{self.name}"

    def proof(self, provider: str) -> tuple[str, Proof] | None:
        """Returns (source, proof) for an execution provider; None if the placement alone is the proof."""
        return self.proofs.get(provider)


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A variant as it stands in `variants.toml`.

    `directml` and `cpu` are the names of the proofs that must all hold there.
    """

    text: str
    form: str = "static"
    mode: str = PLAIN
    directml: tuple[str, ...] = ("fused_if_it_can",)
    cpu: tuple[str, ...] = ("ran",)
    source: str = "profile"
    providers: tuple[Literal["directml", "cpu"], ...] = ()
    base: str = PLAIN
    tier: Tier = "standard"
    share: Share = "values"

    def variant(self, name: str) -> Variant:
        """Returns the variant. Its proofs are those of the providers that have it."""
        wanted = {"directml": (DIRECTML, self.directml), "cpu": (CPU, self.cpu)}
        proven = [wanted[provider] for provider in self.providers or wanted]
        return Variant(
            name=name,
            text=self.text,
            form=FORMS[self.form],
            run_mode=RUN_MODES[self.mode],
            base=self.base or None,
            tier=self.tier,
            share=self.share,
            providers=tuple(provider for provider, _ in proven) if self.providers else None,
            proofs={
                provider: (self.source, proofs.both(*(getattr(proofs, proof) for proof in names)))
                for provider, names in proven
                if names
            },
        )


def _variants() -> Mapping[str, Variant]:
    content = files(__package__).joinpath("variants.toml").read_bytes()
    rows = msgspec.toml.decode(content, type=dict[str, _Row])
    return {name: row.variant(name) for name, row in rows.items()}


VARIANTS: Mapping[str, Variant] = _variants()
"""The variants by name, in the order in which the catalogue has their cases."""
