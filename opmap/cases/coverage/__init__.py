"""Measures what the cases of a tier cover: classes, pairs and triples, rules, examples, fields, kernel classes.

`evidence.coverage_tables` writes the results as tables and JSON.
"""
