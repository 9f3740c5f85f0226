"""Formulas of the cost table, by family: counts of operations, bytes and core time of one op. `rules.py` uses them."""
