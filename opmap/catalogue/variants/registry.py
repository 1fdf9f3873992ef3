"""The declared variants: named pairs of a form and a way, each with its proof and its share of the cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...engines.sessions import CPU, DIRECTML
from ...vocabulary import Tier
from . import proofs
from .contract import PLAIN, Proof, Share, Variant
from .forms import FORMS
from .run_modes import WAYS

_DML = (DIRECTML,)
_KNOWN = (DIRECTML, CPU)


def variant(
    name: str,
    form: str = "static",
    way: str = PLAIN,
    *,
    directml: Proof | None = proofs.fused,
    others: Proof | None = proofs.ran,
    source: str = "profile",
    providers: tuple[str, ...] | None = None,
    base: str | None = PLAIN,
    tier: Tier = "standard",
    share: Share = "values",
) -> Variant:
    """Returns a variant. `directml` is the proof on the DirectML EP, `others` on every other execution provider."""
    by_provider: dict[str, tuple[str, Proof]] = {}
    if directml is not None:
        by_provider[DIRECTML] = (source, directml)
    if others is not None and providers != _DML:
        by_provider[CPU] = (source, others)
    return Variant(
        name=name,
        form=FORMS[form],
        way=WAYS[way],
        base=base,
        tier=tier,
        share=share,
        providers=providers,
        proofs=by_provider,
    )


def _variants() -> Iterator[Variant]:
    both, fused, ran = proofs.both, proofs.fused, proofs.ran
    absent = proofs.not_an_input
    constant = both(fused, absent)
    constant_elsewhere = both(ran, absent)

    # --- as every case, unless it says otherwise ---
    yield variant(PLAIN, base=None, share="all", directml=None, others=None)
    yield variant("init", "init", base=None, directml=absent, others=absent, source="inputs", share="all")
    yield variant("node", "node", base=None, share="all", directml=None, others=None)

    # --- roads of the EP's own ---
    yield variant("eager", way="eager", directml=ran, providers=_DML, tier="smoke")
    yield variant("own-queue", way="own-queue", providers=_KNOWN, tier="smoke", share="few")
    yield variant("if", "if", directml=proofs.branch, others=proofs.branch, tier="smoke")
    yield variant("if-else", "if-else", directml=proofs.branch, others=proofs.branch, share="few")
    yield variant("if.several-runs", "if", "several-runs", directml=proofs.branch, others=proofs.branch, share="few")
    yield variant("symbolic", "symbolic", directml=ran)
    yield variant("unnamed", "unnamed", directml=ran, share="few")
    yield variant("shapeless", "shapeless", directml=ran)
    for name, form in (("another-shape", "symbolic"), ("another-shape-shapeless", "shapeless")):
        shapes = both(ran, proofs.two_shapes)
        yield variant(name, form, "another-shape", directml=shapes, others=shapes)
    yield variant("fixed-dimensions", "symbolic", "fixed-dimensions", share="one")
    yield variant(
        "re-used-list",
        "chain",
        "level-0",
        directml=both(proofs.five_nodes, proofs.one_fused_node),
        others=both(proofs.five_nodes, ran),
        share="few",
    )
    yield variant("run-time-fusion", "symbolic", "run-time-fusion", providers=_DML, share="few")
    yield variant("replayed", way="replayed", directml=proofs.replayed, providers=_DML, share="few")
    yield variant("device", way="device", directml=proofs.on_device, source="device-name", providers=_DML)
    for base in (PLAIN, "init", "node"):
        yield variant(
            "serialized" if base == PLAIN else f"{base}.serialized",
            "static" if base == PLAIN else base,
            "serialized",
            base=base,
            directml=proofs.serialized,
            source="serialized-graph",
            providers=_DML,
            share="all",
        )

    # --- registrations ---
    for name in FORMS:
        if name.startswith("opset-"):
            yield variant(name, name, tier="smoke", share="few")

    # --- attributes ---
    yield variant("default-attribute", "default-attribute", tier="smoke", share="few")

    # --- constants ---
    for name in ("data-init", "typed-init", "typed-data-init", "ir3-init", "constant-node"):
        yield variant(name, name, directml=constant, others=constant_elsewhere)
    yield variant("external", "external", directml=constant, others=constant_elsewhere, share="one")
    yield variant("both-init", "both-init", "unfolded", directml=constant, others=constant_elsewhere)
    for name in ("default-indices", "default-data", "fed-indices", "fed-data"):
        yield variant(name, name, directml=both(fused, proofs.overridable), others=both(ran, proofs.overridable))
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

    # --- ways of running ---
    for name in ("several-runs", "bound", "preallocated"):
        yield variant(name, way=name)
    for name in ("ort-values", "async", "second-session", "level-1"):
        yield variant(name, way=name, share="few")
    yield variant("preallocated-device", way="preallocated-device", providers=_DML)
    yield variant("some-outputs", "second-output", "some-outputs", share="few")
    for name in ("memory-pattern", "parallel"):
        yield variant(name, way=name, share="one")
    yield variant("no-arena", way="no-arena", providers=_DML, share="one")
    yield variant("ort-format", way="ort-format", directml=ran, share="one")


VARIANTS: Mapping[str, Variant] = {v.name: v for v in _variants()}
"""The variants by name, in the order in which the catalogue has their cases."""
