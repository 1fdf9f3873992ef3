"""What is left of a run: tables and the results bundle."""
