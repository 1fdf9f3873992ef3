"""Cases: descriptors with the values of their inputs, as an ordered catalogue in tiers.

`choice` holds what was chosen for the tiers (data in `choices/`). `catalogue` builds the cases of a tier from it, and
`selection` selects some of them. `parameters` has the equivalence classes, `values` the input values, and
`random_cases` the random cases. `features` describes a case in words and numbers that conditions compare. `probes` are
models without a valid descriptor, and `contract_probes` short programs over sessions (data in `contract/`). Nothing
here runs a case or depends on verdicts.
"""
