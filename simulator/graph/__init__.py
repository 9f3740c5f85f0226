"""What could run, and what runs."""
