"""Graphs: import, checks, shapes, inlined functions, and the part that a step runs."""
