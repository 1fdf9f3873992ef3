"""Cases, what they should give, and the verdict on what a provider gave."""
