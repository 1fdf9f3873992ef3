"""Case ids, values, expected outputs and the fault score equal those of the last release: users keep its results.

A change may be intended. Then replace the digest here. If ids change, also raise CASE_IDS. `test_models.py` compares
every byte of models/.
"""

import hashlib
from functools import cache

import pytest
from adequacy.score import score

from opmap.cases.case import CASE_IDS
from opmap.cases.catalogue import catalogue
from opmap.cases.choice import choice_of
from opmap.faults import FAULTS
from opmap.faults.arrays import ARRAY_FAULTS
from opmap.faults.conditions import CONDITION_FAULTS
from opmap.faults.conversions import CONVERSION_FAULTS
from opmap.faults.expressions import EXPRESSION_FAULTS
from opmap.operators import OPERATORS
from opmap.tensors import Tensor

pytestmark = pytest.mark.platform

IDS = {
    "smoke": "653952ad92569749060c4d05dcb2cdcfdbed45c5d1c327ff6b78aa2540a30754",
    "standard": "cf8f984ab52cad57bc800fad6038fdc021098685cefc6653e4d3f424cf7f6c6b",
}
"""SHA-256 of the output of a tier's ids, without cases in a variant, for version 1 of the case ids; of `standard`
without the chosen random cases, which are its last ones."""

CONTENT = "b431d06260a5c647ae4dc512547a347b12e1714ffc3f8932fadea7e74633add4"
"""SHA-256 of the ids, inputs and expected outputs of the same cases of `standard`."""

CHOSEN = "2ada4689794d106dc2a3877f2c4e3f874046d0eb6b05e31fabf5c5a9e4100221"
"""SHA-256 of the ids, inputs and expected outputs of the chosen random cases of `standard`."""

_LATER = (*CONVERSION_FAULTS, *ARRAY_FAULTS, *CONDITION_FAULTS)
_LATER += ("negative-infinity-as-lowest", "limit-of-position", "index-32-bits-position", "constant-along-last")
_LATER += ("strides-in-inverse-order", "strides-of-0-packed", *EXPRESSION_FAULTS)

FIRST_FAULTS = {name: fault for name, fault in FAULTS.items() if name not in _LATER}
"""The faults whose score is kept; families that came later are left out."""

SCORE = "e91094a218ba149765711a4e8889f2c4cf6482f066633efc6a7eac0132b59f35"
"""SHA-256 of the faults' names with the ids of the cases of `smoke` that catch each."""


RELEASED = {"GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1"}
"""The operators of the last release. Those that came later have no part in the digests."""


@cache
def cases(tier):
    """The cases of a tier, without those in a variant."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "opmap.cases.catalogue.OPERATORS", {name: OPERATORS[name] for name in OPERATORS if name in RELEASED}
        )
        return list(catalogue(tier, variants=False))


@cache
def chosen():
    """The chosen random cases of `standard`: its last ones."""
    count = sum(len(choice_of(operator).parts["chosen"]) for operator in RELEASED)
    return cases("standard")[-count:]


def content(cases):
    """Returns the digest of the ids, inputs and expected outputs of cases."""
    digest = hashlib.sha256()
    for case in cases:
        for name, tensor in sorted(case.tensors.items()):
            digest.update(name.encode() + tensor.to_bytes())
        output = Tensor(case.desc.output.data_type, case.desc.output.sizes, case.expected)
        digest.update(case.id.encode() + b"\0" + output.to_bytes())
    return digest.hexdigest()


class TestUnchanged:
    """A restructuring of the code changes no digest."""

    @pytest.mark.parametrize("tier", IDS)
    def test_ids(self, tier):
        """The ids of a tier and their order are unchanged."""
        assert 1 == CASE_IDS
        ids = [case.id for case in cases(tier)][: -len(chosen()) if tier == "standard" else None]
        assert IDS[tier] == hashlib.sha256("".join(f"{id}\n" for id in ids).encode()).hexdigest()

    def test_content(self):
        """The inputs and the documented outputs are unchanged, bit for bit."""
        assert CONTENT == content(cases("standard")[: -len(chosen())])

    def test_content_of_chosen_random_cases(self):
        """So are those of the chosen random cases."""
        assert CHOSEN == content(chosen())

    def test_score(self):
        """Each fault is caught by the same cases."""
        lines = (f"{fault.name} {' '.join(fault.caught_by)}\n" for fault in score(cases("smoke"), FIRST_FAULTS))
        assert SCORE == hashlib.sha256("".join(lines).encode()).hexdigest()
