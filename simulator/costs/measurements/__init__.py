"""Measurements: the forms in which measured times of ops come, a file for each."""
