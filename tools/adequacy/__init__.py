"""How much a tier covers, and which planted faults it catches."""
