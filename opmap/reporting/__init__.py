"""What a run writes and prints: tables for the terminal, the results bundle, model folders, the doctor's report.

Nothing here decides a verdict.
"""
