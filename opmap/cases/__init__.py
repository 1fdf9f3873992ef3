"""Cases: descriptors with the values of their inputs, as an ordered catalogue in tiers.

`parameters`, `values` and `covering_arrays` (whose data is in `covering/`) give the parts, `random_cases` the random ones.
`catalogue` puts them together as tiers, and `selection` picks from them. `probes` are models without a valid descriptor.
Nothing here runs a case or knows a verdict.
"""
