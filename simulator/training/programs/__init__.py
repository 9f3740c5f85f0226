"""What each client runs: one graph made into many, or one that names its jobs taken apart."""
