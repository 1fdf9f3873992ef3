"""From a case to its record, and from records to a run that is green or red.

`session_batcher` judges the cases of a batch in one session, `judge` runs one case (`outcome`: what happened), `decide` makes the
record of it (`record`). `compare` compares the bits. `probes`, `contract`, `large` and `onnx_models` judge what is no case of the
catalogue. `run` collects records and says whether the run is red; `tally` counts them. Nothing here opens a provider or prints.
"""
