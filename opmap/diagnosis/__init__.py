"""Finds out what a failure needs, and what happened.

`causes` groups the failed cases of a run, `diagnose` asks the provider more about each group. `relation` says what
happened to a wrong output as a whole, `conditions` what separates the cases that fail, `sides` whose fault it is.
`case` has the moves that make a failing case smaller.
"""
