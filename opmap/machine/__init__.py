"""Facts about the machine on which a run takes place."""
