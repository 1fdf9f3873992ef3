"""Finds out what a failure needs. `shrink` makes a failing value smaller; `case` does this for a single case."""
