"""Cases: descriptors with values, and which of them are run."""
