"""Comparison of two results: two placements, two cuts or two traces, ours or measured."""
