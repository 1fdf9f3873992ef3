"""Looks for failures with random small graphs and random sequences over several sessions.

`graphs` and `plan` are data, `draw_graph` and `draw_plan` draw them, `state` knows what each step must return,
`judging` says what a failure is, `search` goes on and on, and `smaller` makes a failing plan smaller.
"""
