"""Two runs of one graph side by side: what differs, and where the difference in makespan comes from."""
