"""The output of a run: tables for the terminal, JSON, model folders, and the results bundle."""
