"""Times that depend on what surrounds an op: what it is joined with, the memory of its readers, the links of GPUs."""
