"""The cases of a tier, listed once for all tests."""

from functools import cache

from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue
from opmap.cases.variants import VARIANTS


@cache
def with_layouts(tier: str) -> list[Case]:
    """The cases of a tier, each followed by the same case in a layout if it has one."""
    return list(catalogue(tier, layouts=True))


@cache
def all_cases(tier: str) -> list[Case]:
    """The cases of a tier."""
    return [case for case in with_layouts(tier) if not case.layout]


@cache
def own_cases(tier: str) -> list[Case]:
    """The cases of a tier that are no other case in a variant."""
    return [case for case in all_cases(tier) if VARIANTS[case.variant].base is None]
