"""Cases: descriptors with values, the catalogue of them, and which are run."""
