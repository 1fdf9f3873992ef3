"""Cases: descriptors with the values of their inputs, as an ordered catalogue in tiers.

`parameters` has the equivalence classes, `covering_arrays` the rows that combine them (data in `covering/`), `values`
the input values, and `random_cases` the random descriptors. `catalogue` builds the tiers from these, and `selection`
selects cases of a tier. `features` describes a case in words and numbers that conditions compare. `probes` are models
without a valid descriptor, and `contract_probes` short programs over sessions (data in `contract/`). Nothing here runs a
case or depends on verdicts.
"""
