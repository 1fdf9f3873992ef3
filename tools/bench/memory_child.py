"""Judges one large case on the CPU EP, and prints the peak of memory in bytes.

It is started as `python -m bench.memory_child OPERATOR ELEMENTS`.
"""

from __future__ import annotations

import sys


def main(operator: str, elements: int) -> int:
    """Prints the peak of memory. Returns 1 if the case does not pass."""
    from opmap.cases.catalogue import generated
    from opmap.descriptors import complete_sizes
    from opmap.engines.machine.memory import peak
    from opmap.operators import OPERATORS
    from opmap.session.session import open_judge
    from opmap.vocabulary import Verdict

    from .loops import LARGE

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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
