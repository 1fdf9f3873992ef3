"""What a tier covers, measured from its cases: classes, pairs and triples, rules, examples, fields, kernel classes.

Tables and JSON of it are in `reporting.coverage`.
"""
