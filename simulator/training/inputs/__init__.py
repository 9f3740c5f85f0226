"""What steps take their examples from: queues that threads fill, iterators over datasets, what a client is fed."""
