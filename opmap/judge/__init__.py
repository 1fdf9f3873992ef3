"""From a case to its record, and from records to a run that is green or red.

`session_batcher` divides cases into groups, `judge` runs a group in one session (`outcome`: what happened), `decide`
makes the record of each case (`record`). `compare` compares the bits. `probes`, `contract`, `large` and `onnx_models`
judge what is no case of the catalogue. `run` collects the records and says whether the run is red; `tally` counts them.
Nothing here opens a provider or prints.
"""
