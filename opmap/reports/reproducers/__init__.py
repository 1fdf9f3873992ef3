"""Writes cases, and the steps of a run, as folders and programs that need no opmap.

`model_folders` writes a model with its test data, `dxdispatch_files` the files for DxDispatch. `dry_run` finds out
which steps a case takes, and `reproducer` writes them as a program.
"""
