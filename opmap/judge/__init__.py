"""From a case to a verdict, and from verdicts to a run that is green or red.

`judge` runs a case and gives a record (`record`); `compare` compares the bits. `probes` judges probes, `contract` contract probes, in
processes of their own. `run` collects records
and says whether the run is red; `tally` counts them. `known_failures` reads the file of known failures, and
`active_failures` applies those that speak of this place. Nothing else here opens a provider, and nothing prints.
"""
