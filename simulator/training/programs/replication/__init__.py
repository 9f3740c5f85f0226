"""Replicate a training graph of one device: towers, workers of their own, both, or all-reduce."""
