"""What a run writes and prints: tables for the terminal, the results bundle and its reports, the doctor's report.

Nothing here decides a verdict.
"""
