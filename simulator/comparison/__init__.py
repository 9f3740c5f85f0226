"""Lay two results side by side: two placements, two cuts or two traces, ours or measured."""

from simulator.comparison.comparing import Comparison, Difference, compare

__all__ = ["Comparison", "Difference", "compare"]
