"""The known defects on the DirectML EP on Linux: each one shows, and each control passes, whatever ran before."""

from __future__ import annotations

import os
from contextlib import contextmanager

import numpy as np
import onnx
import pytest

from opmap import SessionOptions, ValidationRun
from opmap.cases.contract_probes import contract_probes
from opmap.cases.probes import probes
from opmap.cases.selection import find_case
from opmap.engines import dml_linux
from opmap.engines.steps import Drop, Open, Run
from opmap.judge import contract
from opmap.known import defects

pytestmark = [
    pytest.mark.rig,
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get(dml_linux.VARIABLE), reason=f"{dml_linux.VARIABLE} is not set"),
]
VERSION = os.environ.get("OPMAP_ONNXRUNTIME", "1.24.4")
"""The version of ONNX Runtime in the rig."""

RUNTIME = None if VERSION == "1.24.4" else f"{VERSION}-1.15.4"
PROBES = {probe.id: probe for probe in [*probes(), *contract_probes()]}
TIMES = 3
JOINING = """<ir_version: 8, opset_import: ["" : 13]>
m (uint32[n] a, uint32[n] b) => (uint32[k] y) { x = Concat<axis = 0>(a, b) y = Concat<axis = 0>(x, x) }"""


def opened(provider="dml"):
    runtime = {} if provider == "directml" else {"runtime": RUNTIME}
    return ValidationRun(SessionOptions(provider=provider, tier="contract", **runtime))


def item(id):
    return PROBES.get(id) or find_case(id)


def outcome(record):
    """Returns what must not depend on what ran before."""
    return record.verdict, record.stage


@pytest.mark.parametrize("defect", defects(), ids=str)
def test_defect(defect):
    """The reproducer fails as the entry says, or passes where the defect is repaired, and the controls pass; three
    times each.
    """
    direct = all(failure.get("provider") == "directml" for failure in defect.fails)
    there = direct or defect.seen_on("emulated", VERSION)
    may = {"pass"} if any(failure.get("may_pass") for failure in defect.fails) else set()
    with opened("directml" if direct else "dml") as session:
        shown = {session.judge(item(defect.reproducer)).verdict for _ in range(TIMES)}
        controls = {id: {session.judge(item(id)).verdict for _ in range(TIMES)} for id in defect.passes}

    assert shown <= ({"known-failure"} | may if there else {"pass"})
    assert {id: {"pass"} for id in defect.passes} == controls


def fill(performer):
    """Fills memory of the EP with a pattern that no case has, in buffers of several sizes, and releases it."""
    model = np.frombuffer(onnx.parser.parse_model(JOINING).SerializeToString(), np.uint8)
    performer.checked(Open(session="filler", model=model, static=False))
    for size in (1 << 16, 8, 8, 1 << 16):
        pattern = np.full(size, 0x7FA5C3E1, np.uint32)
        performer.checked(Run(session="filler", feeds={"a": pattern, "b": pattern}))
    performer.checked(Drop(name="filler"))


def test_contract_probes_after_a_pattern(monkeypatch):
    """A contract probe gives the same in a fresh process, and in one whose memory was filled with a pattern."""
    fresh = contract._fresh

    @contextmanager
    def filled(provider):
        with fresh(provider) as performer:
            fill(performer)
            yield performer

    with opened() as session:
        alone = {probe.id: outcome(session.judge(probe)) for probe in contract_probes()}
        monkeypatch.setattr(contract, "_fresh", filled)
        after = {probe.id: outcome(session.judge(probe)) for probe in contract_probes()}

    unstable = {"contract/threads/two-sessions", "contract/threads/two-sessions-symbolic"}  # a race
    assert {id: alone[id] for id in alone if id not in unstable} == {
        id: after[id] for id in after if id not in unstable
    }
    assert {"pass", "known-failure"} == {str(verdict) for verdict, _ in alone.values()}


def test_probes_alone_and_among_others():
    """A probe gives the same in a fresh process, after memory was filled with a pattern, and among the others."""
    with opened() as session:
        among = {probe.id: outcome(session.judge(probe)) for probe in probes()}
        after = {}
        for probe in probes():
            fill(session.open().provider.performer)
            after[probe.id] = outcome(session.judge(probe))
    alone = {}
    for probe in probes():
        with opened() as session:
            alone[probe.id] = outcome(session.judge(probe))

    assert among == after == alone
    assert {"pass", "known-failure"} == {str(verdict) for verdict, _ in alone.values()}
