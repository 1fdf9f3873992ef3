"""The commands of the command line: one module per command, with a function `run(options)` that returns the exit
code."""
