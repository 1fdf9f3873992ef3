"""What a tier covers, measured from its cases."""
