"""Measures what opmap costs: the suite beside ONNX Runtime alone, the interpreter beside loops written by hand.

`costs` measures in this process and puts all together, `interpreting` and `children` measure the rest. `conditional`
measures the strength of a tier.
"""
