"""What a runner with a GPU runs: every case of the tier, and every probe, on the provider that was asked for.

pytest tests/conformance --opmap-provider dml --opmap-require-provider
"""


def test_case(opmap_case, opmap_check):
    """The provider gives, bit for bit, what the page's pseudocode gives."""
    opmap_check(opmap_case)


def test_probe(opmap_probe, opmap_check):
    """The provider answers a model without a valid descriptor as it is expected to."""
    opmap_check(opmap_probe)
