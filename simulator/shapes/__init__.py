"""Shapes of all tensors: what follows from a file, a batch and feeds, by rules of our own."""
