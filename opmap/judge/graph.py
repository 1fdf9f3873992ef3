"""The proof of the descriptor: what the DirectML graph that the EP wrote holds, against what the mapping predicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from ..cases.variants import VariantRun
from ..cases.variants.proofs import graphs
from ..cases.variants.run_modes import SESSION
from ..errors import InputError
from ..mapping import convert
from ..mapping.serialized_graph import compare, descriptor_class, read_graph


def described(run: VariantRun) -> tuple[str | None, Sequence[str]]:
    """Returns (class, differences) of the graphs that the main session of a run wrote; (None, ()) if it wrote none.

    The class is `identical`, `substituted` or `differs`. A graph that cannot be read is a difference.
    """
    files = run.evidence[SESSION].files
    names = graphs(files)
    if not names:
        return None, ()
    mapped, first = run.formed.mapped, run.first
    fields = run.formed.fixed
    fed = mapped.feed(first.tensors)
    types = {name: mapped.lowered_as.tensors[name].data_type for name in fields if name in first.tensors}
    constants = {name: convert(fed[name], data_type) for name, data_type in types.items()}
    external = {PurePosixPath(n).stem: files[n].tobytes() for n in files if n not in names}
    try:
        read = [read_graph(files[name].tobytes()) for name in names]
        texts = compare(read, mapped.lowered_as, constants=constants, external=external)
        return ("differs" if texts else descriptor_class(read, mapped)), texts
    except InputError as error:
        return "differs", [f"the graph that the EP wrote: {error}"]
