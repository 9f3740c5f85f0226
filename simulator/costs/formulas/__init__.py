"""What one execution of an op computes and moves, one file per family; `costs/rules.py` says which op uses which."""
