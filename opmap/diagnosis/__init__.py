"""Finds out what a failure needs, and what happened.

`shrink` makes a failing value smaller; `case` does this for a single case. `relation` says what happened to a wrong output
as a whole.
"""
