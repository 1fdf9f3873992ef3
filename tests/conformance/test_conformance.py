"""The conformance tests for a machine with a GPU: every case of the tier and every probe, on the provider asked for.

pytest tests/conformance --opmap-provider dml --opmap-require-provider
"""


def test_case(opmap_case, opmap_check):
    """The provider's output equals the output of the documentation's pseudocode, bit for bit."""
    opmap_check(opmap_case)


def test_probe(opmap_probe, opmap_check):
    """The provider's result for a model without a valid descriptor is the expected one."""
    opmap_check(opmap_probe)
