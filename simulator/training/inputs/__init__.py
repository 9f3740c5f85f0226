"""Inputs of steps: queues that threads fill, iterators over datasets, feeds of clients."""
