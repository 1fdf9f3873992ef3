"""The variants: named pairs of a form and a run mode, each with its proof and its share of the cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ...engines.sessions import CPU, DIRECTML
from ...vocabulary import Tier
from . import proofs
from .drafts import Form
from .forms import FORMS
from .proofs import Proof
from .run_modes import PLAIN, RUN_MODES, RunMode

Share = Literal["all", "descriptors", "values", "few", "one"]
"""How many cases of `standard` a variant gets, for each operator.

- `all`: every case.
- `descriptors`: one case for each descriptor that ONNX can express, for a variant whose evidence does not depend on values.
- `values`: enough cases for each class of data type, index type, rank class and axis class.
- `few`: the same without the data type, for a variant that costs much time.
- `one`: one case, for a variant that is not worth more."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A named pair of a form and a run mode, with its proof.

    - `name`: the last level of a case id.
    - `base`: the variant of the cases that it is made of. A variant without a base adds no level to a case id: its cases
      are the catalogue's own.
    - `providers`: the execution providers that have it; None means all.
    - `tier`: the first tier with cases of this variant. `share`: how many cases it gets in `standard`.
    - `proofs`: execution provider -> (source, proof). `source` names the evidence, as a record's `road` has it.
    """

    name: str
    form: Form
    run_mode: RunMode
    base: str | None
    tier: Tier
    share: Share
    providers: tuple[str, ...] | None
    proofs: Mapping[str, tuple[str, Proof]]

    @property
    def text(self) -> str:
        """What the variant does, in one sentence or two. The usual form and run mode are left out."""
        form = self.form.text if self.form.name not in ("static", "whole") else ""
        mode = self.run_mode.text if self.run_mode.name != PLAIN else ""
        return " ".join(filter(None, (form, mode))) or self.run_mode.text

    def has(self, provider: str) -> bool:
        """Returns whether an execution provider of ONNX Runtime has this variant."""
        return self.providers is None or provider in self.providers

    def id(self, base: str) -> str:
        """Returns the id of a case in this variant, from the id of the case that it is made of."""
        return base if self.base is None else f"{base}/{self.name}"

    def proof(self, provider: str) -> tuple[str, Proof] | None:
        """Returns (source, proof) for an execution provider; None if the placement alone is the proof."""
        return self.proofs.get(provider)


_DML = (DIRECTML,)
_KNOWN = (DIRECTML, CPU)


def variant(
    name: str,
    form: str = "static",
    mode: str = PLAIN,
    *,
    directml: Proof | None = proofs.fused_if_it_can,
    cpu: Proof | None = proofs.ran,
    source: str = "profile",
    providers: tuple[str, ...] | None = None,
    base: str | None = PLAIN,
    tier: Tier = "standard",
    share: Share = "values",
) -> Variant:
    """Returns a variant. `directml` is the proof on the DirectML EP, `cpu` on the CPU EP."""
    by_provider = {DIRECTML: directml, CPU: cpu if providers != _DML else None}
    return Variant(
        name=name,
        form=FORMS[form],
        run_mode=RUN_MODES[mode],
        base=base,
        tier=tier,
        share=share,
        providers=providers,
        proofs={provider: (source, proof) for provider, proof in by_provider.items() if proof},
    )


def _variants() -> Iterator[Variant]:
    both, fused, ran = proofs.both, proofs.fused, proofs.ran
    absent = proofs.not_an_input
    constant = both(fused, absent)
    constant_on_cpu = both(ran, absent)

    # --- as every case, unless it says otherwise ---
    yield variant(PLAIN, base=None, share="all", directml=None, cpu=None)
    yield variant("init", "init", base=None, directml=absent, cpu=absent, source="inputs", share="all")
    yield variant("node", "node", base=None, share="all", directml=None, cpu=None)

    # --- execution paths of the EP's own ---
    yield variant("eager", mode="eager", directml=ran, providers=_DML, tier="smoke")
    yield variant("own-queue", mode="own-queue", providers=_KNOWN, tier="smoke", share="few")
    yield variant("if", "if", directml=proofs.branch, cpu=proofs.branch, tier="smoke")
    yield variant("if-else", "if-else", directml=proofs.branch, cpu=proofs.branch, share="few")
    yield variant("if.several-runs", "if", "several-runs", directml=proofs.branch, cpu=proofs.branch, share="few")
    yield variant("symbolic", "symbolic", directml=ran)
    yield variant("unnamed", "unnamed", directml=ran, share="few")
    yield variant("shapeless", "shapeless", directml=ran)
    for name, form in (("another-shape", "symbolic"), ("another-shape-shapeless", "shapeless")):
        shapes = both(ran, proofs.two_shapes)
        yield variant(name, form, "another-shape", directml=shapes, cpu=shapes)
    yield variant("fixed-dimensions", "symbolic", "fixed-dimensions", share="one")
    yield variant(
        "re-used-list",
        "chain",
        "level-0",
        directml=both(proofs.five_nodes, proofs.one_fused_node),
        cpu=both(proofs.five_nodes, ran),
        share="few",
    )
    yield variant("run-time-fusion", "symbolic", "run-time-fusion", directml=fused, providers=_DML, share="few")
    yield variant("replayed", mode="replayed", directml=proofs.replayed, providers=_DML, share="few")
    yield variant("device", mode="device", directml=proofs.on_device, source="device-name", providers=_DML)
    for base in (PLAIN, "init", "node"):
        yield variant(
            "serialized" if base == PLAIN else f"{base}.serialized",
            "whole" if base == PLAIN else base,
            "serialized",
            base=base,
            directml=proofs.serialized,
            source="serialized-graph",
            providers=_DML,
            share="descriptors",
        )

    # --- registrations ---
    for name in FORMS:
        if name.startswith("opset-"):
            yield variant(name, name, tier="smoke", share="few")

    # --- attributes ---
    yield variant("default-attribute", "default-attribute", tier="smoke", share="few")

    # --- constants ---
    for name in ("data-init", "typed-init", "typed-data-init", "ir3-init", "constant-node"):
        yield variant(name, name, directml=constant, cpu=constant_on_cpu)
    yield variant("external", "external", directml=constant, cpu=constant_on_cpu, share="one")
    yield variant("both-init", "both-init", "unfolded", directml=constant, cpu=constant_on_cpu)
    for name in ("default-indices", "default-data", "fed-indices", "fed-data"):
        yield variant(name, name, directml=both(fused, proofs.overridable), cpu=both(ran, proofs.overridable))
        yield variant(
            f"{name}.eager", name, "eager", directml=both(ran, proofs.overridable), providers=_DML, share="few"
        )

    # --- the graph around the operator ---
    for name in ("data-node", "second-output", "output-read", "same-twice", "unused-node", "unused-input"):
        yield variant(name, name, share="few")
    for name in ("output-init", "output-input"):
        yield variant(name, name, share="few")
    for name in ("names", "no-node-names", "function"):
        yield variant(name, name, share="one")

    # --- run modes ---
    for name in ("several-runs", "bound", "preallocated"):
        yield variant(name, mode=name)
    for name in ("ort-values", "async", "second-session", "level-1"):
        yield variant(name, mode=name, share="few")
    yield variant("preallocated-device", mode="preallocated-device", providers=_DML)
    yield variant("some-outputs", "second-output", "some-outputs", share="few")
    for name in ("memory-pattern", "parallel"):
        yield variant(name, mode=name, share="one")
    yield variant("no-arena", mode="no-arena", providers=_DML, share="one")
    yield variant("ort-format", mode="ort-format", directml=ran, share="one")


VARIANTS: Mapping[str, Variant] = {v.name: v for v in _variants()}
"""The variants by name, in the order in which the catalogue has their cases."""
