"""The graphs in `serialized/`, as bytes and read, with what is expected in each."""

from serialized_models import CONSTANTS, EMITTED, FOLDER, MAPPED, emitted_desc

from opmap.mapping.serialized_graph import read_graph
from opmap.tensors import DataType

CONTENTS = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in sorted(FOLDER.glob("*/Partition_*.bin"))}

DESCS = {name: mapped.lowered_as for name, mapped in MAPPED.items()} | {
    name: emitted_desc(DataType.UINT8 if name == "bool" else DataType.FLOAT32) for name in EMITTED
}
"""Name of a sample with an operator that opmap has -> the descriptor that is expected in it."""

GATHER = MAPPED["gather"]


def graphs(sample):
    """Returns the graphs of a sample, in the order of their numbers."""
    return [read_graph(content) for path, content in CONTENTS.items() if path.startswith(f"{sample}/")]


def external(sample):
    """Returns the contents of the files beside a sample's graphs."""
    return {path.stem: path.read_bytes() for path in (FOLDER / sample).iterdir() if "Partition" not in path.name}


def constants(sample):
    """Returns the indices that the model of a sample holds."""
    return CONSTANTS[sample][1] if sample in CONSTANTS else {}
