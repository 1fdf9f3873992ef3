"""Writes cases, and the steps of a run, as folders and programs that need no opmap.

`model_folders` writes a model with its test data, `dxdispatch_files` the files for DxDispatch. `reproducer` writes a program
of steps, `folder_program` that of a folder. `dry_run` finds out which steps a case takes.
"""
