"""From a case to a verdict, and from verdicts to a run that is green or red."""
