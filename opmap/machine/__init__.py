"""Facts about the machine that a run takes place on."""
