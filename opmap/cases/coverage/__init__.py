"""Measures what the cases of a tier cover: classes, pairs and triples, rules, examples.

The report shows them of a run; `tools/adequacy` shows those of a tier.
"""
