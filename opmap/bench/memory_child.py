"""Judges one large case on the CPU EP, and prints the peak of memory in bytes.

It is started as `python -m opmap.bench.memory_child OPERATOR ELEMENTS`.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(operator: str, elements: int) -> int:
    """Prints the peak of memory. Returns 1 if the case does not pass."""
    from ..catalogue.catalogue import generated
    from ..descriptors import complete_sizes
    from ..operators import OPERATORS
    from ..operators.loops import LARGE
    from ..session.session import open_judge
    from ..vocabulary import Verdict

    sizes, numbers = LARGE[operator]
    data, indices = sizes(elements)
    descriptor = OPERATORS[operator].descriptor
    desc = complete_sizes(descriptor, {"InputTensor": data, "IndicesTensor": indices}, numbers)
    record = open_judge("cpu", brief=True)(generated(desc, "mix", "addr"))
    if record.verdict is not Verdict.PASS:
        print(f"{record.verdict}: {record.message}", file=sys.stderr)
        return 1
    print(peak())
    return 0


def peak() -> int:
    """Returns the most memory that this process has held so far, in bytes.

    On Linux, `ru_maxrss` of a new process is at least that of the process that started it: it is not asked.
    """
    if sys.platform == "win32":
        from ..engines.machine.windows import peak_memory

        return peak_memory()
    if sys.platform.startswith("linux"):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
