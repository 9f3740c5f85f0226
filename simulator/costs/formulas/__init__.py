"""What one execution of an op computes and moves, one file per family; `costs/flops.py` says which op uses which."""
