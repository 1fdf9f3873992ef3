"""Chooses the cases of an operator."""
