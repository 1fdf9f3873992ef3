"""Case ids, values, expected outputs and the fault score are those of the last release that people keep results of.

A digest that differs is no error by itself: somebody must know that it changes. Ids that change need a higher CASE_IDS
and a migration in known_failures.MIGRATIONS; then, or after a change of the values, the digest here is replaced.
models/ has a test of its own, `test_models.py`, which compares every byte.
"""

import hashlib
from functools import cache

import pytest

from opmap.cases.case import CASE_IDS
from opmap.cases.catalogue import catalogue
from opmap.faults.score import score
from opmap.tensors import Tensor

IDS = {
    "smoke": "0be4334b56534e67307ae14a79046929bbcd939600e5cd72cc6287e5d2613567",
    "standard": "453640bf96c117492e99e02c8faf90b592ad95d5f1fb02302d868b8c7dc72f69",
}
"""SHA-256 of what `opmap catalog --list` prints for a tier, for version 1 of the case ids."""

CONTENT = "306f5ffe229f7285699a46a01c76beb75ba89156a03fdeac1bac47a21a8ea7ff"
"""SHA-256 of the ids, inputs and expected outputs of `standard`."""

SCORE = "7663ba0a325dc0bfe5c76f1be73c5e492e7880411b58f8d5268b57dbb04c42f5"
"""SHA-256 of the faults' names with the ids of the cases of `smoke` that catch each."""


@cache
def cases(tier):
    """The cases of a tier."""
    return list(catalogue(tier))


class TestUnchanged:
    """A restructuring of the code changes none of these."""

    @pytest.mark.parametrize("tier", IDS)
    def test_ids(self, tier):
        """The ids of a tier, in their order."""
        assert 1 == CASE_IDS
        assert IDS[tier] == hashlib.sha256("".join(f"{case.id}\n" for case in cases(tier)).encode()).hexdigest()

    def test_content(self):
        """The inputs and the documented outputs, bit for bit."""
        digest = hashlib.sha256()
        for case in cases("standard"):
            for name, tensor in sorted(case.tensors.items()):
                digest.update(name.encode() + tensor.to_bytes())
            output = Tensor(case.desc.output.data_type, case.desc.output.sizes, case.expected)
            digest.update(case.id.encode() + b"\0" + output.to_bytes())
        assert CONTENT == digest.hexdigest()

    def test_score(self):
        """Which cases catch which fault."""
        lines = (f"{fault.name} {' '.join(fault.caught_by)}\n" for fault in score(cases("smoke")))
        assert SCORE == hashlib.sha256("".join(lines).encode()).hexdigest()
