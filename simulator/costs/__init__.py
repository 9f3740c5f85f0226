"""How long an op takes."""
